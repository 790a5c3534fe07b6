"""Norm-based alignment and head analysis for fairseq Transformers.

Shapes, everywhere: B batch, L layers, H heads, T target, S source, C model width, D head width.
"""

import sys

from fairseq_normalign.version import __version__

__all__ = ["NormAligner", "__version__", "open_export"]

if "fairseq" in sys.modules:  # `--user-dir`: fairseq is the importer and looks for our models
    from fairseq_normalign import plugin  # noqa: F401


def __getattr__(name):
    if name == "NormAligner":  # imported late: `normalign aer` must start without torch
        from fairseq_normalign.aligner import NormAligner

        return NormAligner
    if name == "open_export":
        from fairseq_normalign.report.export import open_export

        return open_export
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
