"""What is known of the heads of a model, as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

import numpy as np

from fairseq_normalign.attention.lrp_rules import Contributions
from fairseq_normalign.heads.correlation import (
    Correlation,
    Pairs,
    correlations,
    correlations_within_layers,
)
from fairseq_normalign.heads.criteria import Criteria
from fairseq_normalign.heads.head_scores import HEAD_SCORES
from fairseq_normalign.heads.profile import Profile, RareInfluence
from fairseq_normalign.heads.syntax import Accuracy
from fairseq_normalign.names import KINDS, Head, by_kind
from fairseq_normalign.results.columns import columns
from fairseq_normalign.version import __version__

PERCENT = ("AER", "UAS")
NOTHING = "–"
POSITIONS = 10  # of the target, whose source share is shown


def table(rows: Sequence[Sequence[str]]) -> str:
    """Rows of cells, a header first; the first and the last column stand to the left."""
    return "\n".join(columns(rows, left=(0, len(rows[0]) - 1)))


def _cell(name: str, value: float | None) -> str:
    if value is None:
        return NOTHING
    return f"{100 * value:.1f}" if name in PERCENT else f"{value:.3f}"


def heads_table(profile: Profile, kind: str, criteria: Criteria) -> str:
    """A row for each head of one kind; columns without data are absent."""
    heads = by_kind(profile.heads)[kind]
    names = [name for name, scores in profile.scores.items() if _have_any(scores, heads)]
    has_positions = _have_any(profile.positions, heads)
    position = ["position"] if has_positions else []
    rows = [["head", *names, *position, "role"]]
    for head in heads:
        cells = [str(head)]
        cells += [_cell(name, profile.scores[name].get(head)) for name in names]
        if has_positions:
            cells.append(profile.position(head) or NOTHING)
        cells.append(", ".join(profile.roles(head, criteria)))
        rows.append(cells)
    return f"{KINDS[kind].title}\n{table(rows)}"


def _have_any(measured: Mapping[Head, object], heads: Iterable[Head]) -> bool:
    """Whether something was measured of one of the heads."""
    return any(head in measured for head in heads)


def relations_table(profile: Profile) -> str:
    """Each relation and direction: cases, the baseline, and the best head."""
    rows = [["relation", "cases", "baseline", "at", "best", "head"]]
    for name, accuracy in profile.relations.items():
        rows.append([name, str(accuracy.cases), *_best_head(accuracy, profile.parsed)])
    shares = ", ".join(f"{name} {100 * share:.1f}" for name, share in profile.branching.items())
    return f"syntax: accuracy in %\n{table(rows)}\nUAS in % of trees without attention: {shares}"


def _best_head(accuracy: Accuracy, heads: Sequence[Head]) -> list[str]:
    """The baseline, its offset, and the accuracy and name of the best head."""
    if accuracy.baseline is None or accuracy.offset is None:
        return [NOTHING] * 4
    best = int(np.argmax(accuracy.heads))
    return [
        f"{100 * accuracy.baseline:.1f}",
        f"{accuracy.offset:+d}",
        f"{100 * accuracy.heads[best]:.1f}",
        str(heads[best]),
    ]


def rare_line(profile: Profile) -> str:
    """The head that looks at the rarest token most, and how much is left if tokens are moved."""
    best = max(profile.rare, key=lambda head: profile.rare[head]["rarest"]["tokens"])
    parts = []
    for rank, shares in profile.rare[best].items():
        moved = profile.rare_moved[best][rank]
        parts.append(
            f"{100 * shares['tokens']:.1f} % ({100 * moved['tokens']:.1f} % with a tenth of the "
            f"tokens moved, {100 * shares['chance']:.1f} % by chance) on the {rank}"
        )
    return f"rare tokens: {best} has most maxima there: {'; '.join(parts)}"


def relevance_lines(deviation: Mapping[str, float], contributions: Contributions) -> str:
    """How far relevance is conserved, and where it ends: in the source or in the prefix."""
    distances = ", ".join(f"{cut} {distance:.0e}" for cut, distance in deviation.items())
    shares, source, prefix = contributions
    shown = [f"{share:.2f}" for share in shares[:POSITIONS]]
    if len(shares) > POSITIONS:
        shown.append("…")
    what = "target positions 1, 2, …" if len(shares) > 1 else "all target positions together"
    return (
        f"relevance: largest distance of a total from 1: {distances}\n"
        f"share of the source in the relevance of {what}: {' '.join(shown)}\n"
        f"entropy of the relevance of source tokens {source.mean():.2f}, of prefix tokens "
        f"{prefix.mean():.2f} nats"
    )


def influence_line(influence: RareInfluence) -> str:
    return (
        f"relevance of the rarest source token: {influence.mean:.2f} times that of all, mean over "
        f"{influence.sentences} sentences"
    )


def low_scores(profile: Profile) -> str:
    """Which scores are the better the smaller they are, so that signs are read right."""
    low = [name for name in profile.scores if name in HEAD_SCORES and HEAD_SCORES[name].low]
    return f"; low is good in {' and '.join(low)}" if low else ""


def all_correlations(profile: Profile) -> dict[str, Pairs]:
    """Over the heads of each kind, over all together, and as the mean over layers."""
    tables = {}
    for kind, heads in by_kind(profile.heads).items():
        tables[kind] = correlations(profile.scores, heads)
    tables["all"] = correlations(profile.scores, profile.heads)
    tables["mean of all layers"] = correlations_within_layers(profile.scores, profile.heads)
    return tables


def _rho(correlation: Correlation | None) -> str:
    if correlation is None or correlation.rho is None:
        return NOTHING
    if correlation.interval is None:
        return f"{correlation.rho:+.2f}"
    low, high = correlation.interval
    return f"{correlation.rho:+.2f} [{low:+.2f}, {high:+.2f}]"


def correlations_table(name: str, pairs: Pairs) -> str:
    """Rank correlations as a triangle; scores that no pair of heads has are left out."""
    defined = {pair: value for pair, value in pairs.items() if value.rho is not None}
    names = list(dict.fromkeys(chain.from_iterable(defined)))
    if not names:
        return f"{name}: no rank correlation is defined"
    numbers = sorted({value.heads for value in defined.values()})
    rows = [["", *names[:-1], ""]]
    for place, score in enumerate(names[1:], 1):
        rhos = [_rho(defined.get((other, score))) for other in names[:place]]
        empty = [""] * (len(names) - place)
        rows.append([score, *rhos, *empty])
    ends = " to ".join(map(str, dict.fromkeys((numbers[0], numbers[-1]))))
    return f"{name} (n = {ends})\n{table(rows)}"


def as_text(profile: Profile, criteria: Criteria) -> str:
    parts = [heads_table(profile, kind, criteria) for kind in by_kind(profile.heads)]
    if profile.relations:
        parts.append(relations_table(profile))
    if profile.rare:
        parts.append(rare_line(profile))
    if profile.contributions is not None:
        parts.append(relevance_lines(profile.deviation, profile.contributions))
    if profile.rare_influence is not None:
        parts.append(influence_line(profile.rare_influence))
    if len(profile.scores) > 1:
        parts.append(f"rank correlations (Spearman) between scores{low_scores(profile)}")
        tables = all_correlations(profile)
        parts += [correlations_table(name, pairs) for name, pairs in tables.items()]
    return "\n\n".join(parts)


def as_json(profile: Profile, criteria: Criteria, signature: Mapping[str, object]) -> dict:
    """Everything: how it was measured, scores, roles with their baselines, correlations."""
    return {
        "signature": {**signature, "version": __version__},
        "heads": [_head_as_json(profile, head, criteria) for head in profile.heads],
        "relations": {name: _as_json(accuracy) for name, accuracy in profile.relations.items()},
        "trees": profile.branching,
        "relevance": _relevance_as_json(profile),
        "correlations": {
            name: _pairs_as_json(pairs) for name, pairs in all_correlations(profile).items()
        },
    }


def _as_json(accuracy: Accuracy) -> dict:
    return {
        "cases": accuracy.cases,
        "baseline": accuracy.baseline,
        "offset": accuracy.offset,
    }


def _pairs_as_json(pairs: Pairs) -> list[dict]:
    return [{"scores": list(pair), **value._asdict()} for pair, value in pairs.items()]


def _relevance_as_json(profile: Profile) -> dict | None:
    if profile.contributions is None:
        return None
    by_position = {
        name: values.tolist() for name, values in profile.contributions._asdict().items()
    }
    relevance = {"deviation": profile.deviation, "by_position": by_position}
    if profile.rare_influence is not None:
        relevance["rarest"] = profile.rare_influence._asdict()
    return relevance


def _head_as_json(profile: Profile, head: Head, criteria: Criteria) -> dict:
    """All that is known of one head; what was not measured is absent."""
    entry = {
        "head": str(head),
        "scores": {name: scores[head] for name, scores in profile.scores.items() if head in scores},
        "roles": profile.roles(head, criteria),
        "functions": profile.functions(head, criteria),
    }
    details = {
        "position": profile.positions,
        "rare": profile.rare,
        "rare_moved": profile.rare_moved,
    }
    for name, by_head in details.items():
        if head in by_head:
            entry[name] = by_head[head]
    if head in profile.parsed:
        number = profile.parsed.index(head)
        entry["relations"] = {
            name: accuracy.heads[number]
            for name, accuracy in profile.relations.items()
            if accuracy.cases
        }
    if head in profile.steps:
        entry["step"] = profile.steps[head]
    return entry
