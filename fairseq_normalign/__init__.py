"""Norm-based alignment and head analysis for fairseq Transformers.

Shapes, everywhere: B batch, L layers, H heads, T target, S source, C model width, D head width.

What is in ``__all__`` is the public surface: it changes only with a note in the CHANGELOG. All else
may change with every version.
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

from fairseq_normalign.noise import first_import
from fairseq_normalign.version import __version__

if TYPE_CHECKING:
    from fairseq_normalign.alignment.aer import score_links
    from fairseq_normalign.alignment.aligner import AlignOptions, NormAligner
    from fairseq_normalign.alignment.combined import CombinedAligner
    from fairseq_normalign.alignment.error_table import error_table
    from fairseq_normalign.alignment.loading import load
    from fairseq_normalign.alignment.shift_att import ShiftAttAligner
    from fairseq_normalign.attention.alti import source_shares
    from fairseq_normalign.attention.lrp_rules import contributions
    from fairseq_normalign.attention.methods import METHODS, Method
    from fairseq_normalign.attention.pair_relevance import relevances
    from fairseq_normalign.attention.recorder import record, record_blocks
    from fairseq_normalign.errors import InputError
    from fairseq_normalign.heads.evaluation import compare
    from fairseq_normalign.heads.head_scores import HEAD_SCORES, HeadScore, ProfileOptions
    from fairseq_normalign.heads.profiling import profile
    from fairseq_normalign.heads.pruning import Prunable
    from fairseq_normalign.host.pairs import text_pairs
    from fairseq_normalign.layers.block_survey import BlockOptions, survey_blocks
    from fairseq_normalign.results.export import open_export
    from fairseq_normalign.text.labels import check_terms, project_labels
    from fairseq_normalign.text.links import GoldFile
    from fairseq_normalign.text.tags import project_tags

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
    "check_terms",
    "compare",
    "contributions",
    "error_table",
    "load",
    "open_export",
    "profile",
    "project_labels",
    "project_tags",
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
    "HEAD_SCORES": "heads.head_scores",
    "METHODS": "attention.methods",
    "AlignOptions": "alignment.aligner",
    "BlockOptions": "layers.block_survey",
    "CombinedAligner": "alignment.combined",
    "GoldFile": "text.links",
    "HeadScore": "heads.head_scores",
    "InputError": "errors",
    "Method": "attention.methods",
    "NormAligner": "alignment.aligner",
    "ProfileOptions": "heads.head_scores",
    "Prunable": "heads.pruning",
    "ShiftAttAligner": "alignment.shift_att",
    "check_terms": "text.labels",
    "compare": "heads.evaluation",
    "contributions": "attention.lrp_rules",
    "error_table": "alignment.error_table",
    "load": "alignment.loading",
    "open_export": "results.export",
    "profile": "heads.profiling",
    "project_labels": "text.labels",
    "project_tags": "text.tags",
    "record": "attention.recorder",
    "record_blocks": "attention.recorder",
    "relevances": "attention.pair_relevance",
    "score_links": "alignment.aer",
    "source_shares": "attention.alti",
    "survey_blocks": "layers.block_survey",
    "text_pairs": "host.pairs",
}

if "fairseq" in sys.modules:  # `--user-dir`: fairseq is the importer and looks for our models
    from fairseq_normalign import plugin  # noqa: F401


def __getattr__(name: str) -> Any:
    if name in PLACES:
        with first_import():
            found = getattr(importlib.import_module(f"{__name__}.{PLACES[name]}"), name)
            if "fairseq" in sys.modules:  # it may load checkpoints of our architectures
                importlib.import_module("fairseq_normalign.plugin")
        return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
