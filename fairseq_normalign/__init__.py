"""Norm-based alignment and head analysis for fairseq Transformers.

Shapes, everywhere: B batch, L layers, H heads, T target, S source, C model width, D head width.

What is in ``__all__`` is the public surface: it changes only with a note in the CHANGELOG. All else
may change with every version.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from fairseq_normalign.late import imported
from fairseq_normalign.noise import first_import
from fairseq_normalign.version import __version__

if TYPE_CHECKING:
    from fairseq_normalign.alignment.aer import score_links
    from fairseq_normalign.alignment.links import GoldFile
    from fairseq_normalign.analysis.aligner import AlignOptions, NormAligner
    from fairseq_normalign.analysis.alti import source_shares
    from fairseq_normalign.analysis.block_survey import BlockOptions, survey_blocks
    from fairseq_normalign.analysis.combined import CombinedAligner
    from fairseq_normalign.analysis.error_table import error_table
    from fairseq_normalign.analysis.evaluation import compare
    from fairseq_normalign.analysis.head_scores import HEAD_SCORES, HeadScore
    from fairseq_normalign.analysis.methods import METHODS, Method
    from fairseq_normalign.analysis.pair_relevance import relevances
    from fairseq_normalign.analysis.profile import ProfileOptions, profile
    from fairseq_normalign.analysis.pruning import Prunable
    from fairseq_normalign.analysis.shift_att import ShiftAttAligner
    from fairseq_normalign.errors import InputError
    from fairseq_normalign.heads.lrp_rules import contributions
    from fairseq_normalign.host.blocks import record_blocks
    from fairseq_normalign.host.pairs import text_pairs
    from fairseq_normalign.host.recorder import record
    from fairseq_normalign.report.export import open_export

__all__ = [
    "HEAD_SCORES",
    "METHODS",
    "AlignOptions",
    "BlockOptions",
    "CombinedAligner",
    "GoldFile",
    "HeadScore",
    "InputError",
    "Method",
    "NormAligner",
    "ProfileOptions",
    "Prunable",
    "ShiftAttAligner",
    "__version__",
    "compare",
    "contributions",
    "error_table",
    "open_export",
    "profile",
    "record",
    "record_blocks",
    "relevances",
    "score_links",
    "source_shares",
    "survey_blocks",
    "text_pairs",
]

# Imported when asked for: `normalign aer` must start without PyTorch, and exports be read without.
PLACES = {
    "HEAD_SCORES": "analysis.head_scores",
    "METHODS": "analysis.methods",
    "AlignOptions": "analysis.aligner",
    "BlockOptions": "analysis.block_survey",
    "CombinedAligner": "analysis.combined",
    "GoldFile": "alignment.links",
    "HeadScore": "analysis.head_scores",
    "InputError": "errors",
    "Method": "analysis.methods",
    "NormAligner": "analysis.aligner",
    "ProfileOptions": "analysis.profile",
    "Prunable": "analysis.pruning",
    "ShiftAttAligner": "analysis.shift_att",
    "compare": "analysis.evaluation",
    "contributions": "heads.lrp_rules",
    "error_table": "analysis.error_table",
    "open_export": "report.export",
    "profile": "analysis.profile",
    "record": "host.recorder",
    "record_blocks": "host.blocks",
    "relevances": "analysis.pair_relevance",
    "score_links": "alignment.aer",
    "source_shares": "analysis.alti",
    "survey_blocks": "analysis.block_survey",
    "text_pairs": "host.pairs",
}

if "fairseq" in sys.modules:  # `--user-dir`: fairseq is the importer and looks for our models
    from fairseq_normalign import plugin  # noqa: F401


def __getattr__(name: str) -> Any:
    if name in PLACES:
        with first_import():
            return imported(f"{PLACES[name]}:{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
