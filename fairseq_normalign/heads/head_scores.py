"""The table of what can be measured of every head, and how it is measured.

A new score is one class or function, in a file of its own, and one entry in :data:`HEAD_SCORES`;
``normalign heads``, ``normalign prune --by`` and ``heads.profiling.profile`` take what is in the
table. See CONTRIBUTING for a worked example.

Importing this module imports no PyTorch: ``--help`` reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from fairseq_normalign.attention.methods import LRP_RULES
from fairseq_normalign.errors import InputError
from fairseq_normalign.options import option

if TYPE_CHECKING:
    from fairseq_normalign.text.links import Gold, GoldFile
    from fairseq_normalign.text.treebank import Tree

NO_RULES = "none"  # of relevance: it is not measured unless it is named
ABLATION_PAIRS = 200
BLEU_SENTENCES = 100
# What a head can be for: the paper's three functions, and looking at the end of the sentence.
FUNCTIONS = ("positional", "syntactic", "rare", "last")
Roles = list[tuple[str, str]]  # of a head: functions, and labels such as ``-1 (97 %)``
# What accuracy makes a head syntactic, given that of the best fixed offset: 10 % above it, or 10
# points (the paper's text allows both).
MARGINS: dict[str, Callable[[float], float]] = {
    "relative": lambda baseline: 1.1 * baseline,
    "absolute": lambda baseline: 0.1 + baseline,
}
CLOSE_RULES = ("value", "paper")  # when a gate is closed at test time; see gates.evaluation_gates
SCORES, ROLES = "scores", "roles"  # headings in --help


@dataclass(frozen=True)
class ProfileOptions:
    """How scores are measured; options of scores that are not measured are ignored.

    Args:
        search: fairseq's options of beam search that differ from the defaults.
        gold: links of the first pairs, for AER; ``gold_file`` is where they are from.
        counts: how often words or pieces are in the training data; by default the dictionary's own.
        trees: a treebank of the source language; ``trees_name`` is its file.
        max_tokens: how many tokens, padding included, are run at once.
    """

    # The paper's wording leaves both readings open.
    confidence_eos: str = option(
        "both",
        "key|both  key: ignore </s> as a key; both: ignore it as a query, too",
        group=SCORES,
    )
    relevance: str = option(
        NO_RULES,
        f"RULES  measure LRP relevance with these rules: {', '.join(LRP_RULES.values())}; ε may "
        "follow, as in epsilon:0.001",
        group=SCORES,
    )
    relevance_mode: str = option(
        "exact",
        "exact|pooled  exact: explain each prediction alone; pooled: all of a sentence together, "
        "which is faster",
        group=SCORES,
    )
    ablation: int | None = option(
        None,
        "N  measure how much the loss grows without each head, on N pairs "
        f"(default: {ABLATION_PAIRS})",
        alone=ABLATION_PAIRS,
        group=SCORES,
    )
    ablation_bleu: int | None = option(
        None,
        "N  measure how much BLEU drops without each head, on N sentences; slow: beam search per "
        "head",
        group=SCORES,
    )
    tokenize: str = option("13a", "NAME  sacrebleu's tokeniser for BLEU", group=SCORES)
    method: str = option("norms", "NAME  soft method of the AER", group=SCORES)
    positional_threshold: float = option(
        0.9,  # Voita et al., 2019
        "X  share of maxima on one relative position that makes a head positional",
        group=ROLES,
    )
    rare_threshold: float = option(
        0.5,  # the paper names none
        "X  share of maxima on the rarest token of the sentence that makes a head rare",
        group=ROLES,
    )
    rare_top: int = option(
        500,  # Voita et al., 2019
        "K  use only sentences whose rarest token is not among the K most frequent; 0: all",
        group=ROLES,
    )
    syntactic_margin: str = option(
        "relative",
        f"{'|'.join(MARGINS)}  how far a syntactic head exceeds the best relative position: by "
        "10 %, or by 10 points",
        group=ROLES,
    )
    search: Mapping[str, Any] = field(default_factory=dict)
    gold: Sequence[Gold] | None = None
    gold_file: GoldFile | None = None
    counts: Mapping[str, float] | None = None
    counts_name: str = "the dictionary"
    trees: Sequence[Tree] = ()
    trees_name: str = "the treebank"
    max_tokens: int = 4000

    @property
    def rules(self) -> str:
        """Of LRP, if it is measured."""
        return "voita" if self.relevance == NO_RULES else self.relevance

    @property
    def pooled(self) -> bool:
        return self.relevance_mode == "pooled"


class HeadScore(NamedTuple):
    """One thing that can be measured of every head.

    ``measure(options)`` makes a ``heads.profiling.HeadMeasure``; of a score that only looks at
    attention, an ``AttentionScore``, which shares one pass over the corpus with all others.
    """

    measure: Callable[..., Any]
    summary: str
    ranks: bool = False  # the bigger it is, the more a head is worth keeping
    low: bool = False  # the smaller it is, the better: its correlations have the other sign
    percent: bool = False  # a share, shown in %
    share: str = ""  # what it is called if a role is awarded by it, and it is no score to compare
    encoder: bool = False  # can be measured on an encoder alone
    default: bool = False  # measured unless scores are named


def _measure(name: str) -> Callable[[ProfileOptions], Any]:
    """A class, which is imported when something is measured, and not before."""

    def measure(options: ProfileOptions) -> Any:
        from fairseq_normalign.heads.alignment_scores import ErrorRates
        from fairseq_normalign.heads.attention_scores import (
            Confidence,
            Gates,
            Norm,
            Positions,
            ValueZeroing,
        )
        from fairseq_normalign.heads.loss_scores import BleuAblation, Importance, LossAblation
        from fairseq_normalign.heads.rare_tokens import RareRole
        from fairseq_normalign.heads.relevance_scores import Relevance
        from fairseq_normalign.heads.syntax import Syntax

        of_attention = Confidence, Gates, Norm, Positions, RareRole, ValueZeroing
        of_losses = BleuAblation, Importance, LossAblation
        classes = *of_attention, *of_losses, ErrorRates, Relevance, Syntax
        return {own.__name__: own for own in classes}[name](options)

    return measure


# In the order of columns, and of measuring.
HEAD_SCORES: dict[str, HeadScore] = {
    "relevance": HeadScore(
        _measure("Relevance"),
        "LRP: share of its layer's relevance, mean over predictions (Voita et al., 2019)",
        ranks=True,
    ),
    "confidence": HeadScore(
        _measure("Confidence"),
        "mean of the largest weight (Voita et al., 2019)",
        ranks=True,
        encoder=True,
        default=True,
    ),
    "entropy": HeadScore(
        _measure("Confidence"),
        "mean entropy of the weights, in nats; low is confident (Sennrich)",
        low=True,
        encoder=True,
        default=True,
    ),
    "norm-confidence": HeadScore(
        _measure("Confidence"),
        "confidence with ‖αf(x)‖ as shares of their row",
        ranks=True,
        encoder=True,
        default=True,
    ),
    "norm": HeadScore(
        _measure("Norm"),
        "Σ_s ‖αf(x_s)‖, mean over queries",
        ranks=True,
        encoder=True,
        default=True,
    ),
    "value-zeroing": HeadScore(
        _measure("ValueZeroing"),
        "1 - cos of the attention block's output with and without the head's values, mean over "
        "queries (after Mohebbi et al., 2023)",
        ranks=True,
        encoder=True,
    ),
    "importance": HeadScore(
        _measure("Importance"),
        "mean over sentences of |∂loss/∂ξ|, ξ a factor on the head, the loss summed over the "
        "sentence's tokens (Michel et al., 2019)",
        ranks=True,
        default=True,
    ),
    "ablation": HeadScore(
        _measure("LossAblation"),
        "growth of the loss per target token with the head off",
        ranks=True,
    ),
    "gate": HeadScore(
        _measure("Gates"),
        "the gate at test time, of a gated model",
        encoder=True,
        default=True,
    ),
    "AER": HeadScore(
        _measure("ErrorRates"),
        "alignment error rate of the head alone, by the better step; needs gold",
        low=True,
        percent=True,
    ),
    "UAS": HeadScore(
        _measure("Syntax"),
        "syntactic roles, and attachment by the maximum spanning tree; needs a treebank",
        encoder=True,
        percent=True,
    ),
    "BLEU": HeadScore(
        _measure("BleuAblation"),
        "loss of BLEU with the head off; slow",
        ranks=True,
    ),
    "positions": HeadScore(
        _measure("Positions"),
        "role: relative position of the maxima",
        encoder=True,
        percent=True,
        share="position share",
        default=True,
    ),
    "rare": HeadScore(
        _measure("RareRole"),
        "role: maxima on the rarest tokens of the sentence",
        encoder=True,
        percent=True,
        share="rare-token share",
        default=True,
    ),
}


def check_scores(names: list[str], *, encoder_alone: bool = False) -> None:
    """Refuses names that are not in the table, or that a lone encoder cannot have."""
    for name in names:
        if name not in HEAD_SCORES:
            expected = ", ".join(HEAD_SCORES)
            raise InputError(f"unknown head score {name!r}; expected one of: {expected}")
        if encoder_alone and not HEAD_SCORES[name].encoder:
            raise InputError(f"{name} needs the decoder; leave out --attention encoder")


def default_scores(*, encoder_alone: bool = False) -> list[str]:
    """The scores that are measured unless others are named."""
    return [
        name
        for name, score in HEAD_SCORES.items()
        if score.default and (score.encoder or not encoder_alone)
    ]


def ranking_scores() -> list[str]:
    """The scores that tell which heads are worth keeping."""
    return [name for name, score in HEAD_SCORES.items() if score.ranks]
