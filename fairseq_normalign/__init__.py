"""Norm-based alignment and head analysis for fairseq Transformers.

Shapes, everywhere: B batch, L layers, H heads, T target, S source, C model width, D head width.
"""

import importlib
import sys

from fairseq_normalign.version import __version__

__all__ = ["CombinedAligner", "NormAligner", "__version__", "open_export"]

if "fairseq" in sys.modules:  # `--user-dir`: fairseq is the importer and looks for our models
    from fairseq_normalign import plugin  # noqa: F401


# Imported when asked for: `normalign aer` must start without torch, and exports be read without it.
LATE = {
    "CombinedAligner": "analysis.combined",
    "NormAligner": "analysis.aligner",
    "open_export": "report.export",
}


def __getattr__(name):
    if name in LATE:
        return getattr(importlib.import_module(f"{__name__}.{LATE[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
