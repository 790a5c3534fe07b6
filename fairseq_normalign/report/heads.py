"""What is known of the heads of a model, as text, as JSON and as a picture."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from fairseq_normalign.heads.correlation import (
    Correlation,
    correlations,
    correlations_within_layers,
)
from fairseq_normalign.heads.names import KINDS, Head
from fairseq_normalign.heads.profile import Criteria, Profile
from fairseq_normalign.heads.syntax import Accuracy
from fairseq_normalign.report.columns import columns
from fairseq_normalign.version import __version__

PERCENT = ("AER", "UAS")
NOTHING = "–"
POSITIONS = 10  # of the target, whose source share is shown


def table(rows: Sequence[Sequence[str]]) -> str:
    """Rows of cells, the first row being the header; the first and the last column to the left, all
    others right."""
    return "\n".join(columns(rows, left=(0, len(rows[0]) - 1)))


def _by_kind(heads: Iterable[Head]) -> dict[str, list[Head]]:
    found = {kind: [head for head in heads if head.kind == kind] for kind in KINDS}
    return {kind: members for kind, members in found.items() if members}


def _cell(name: str, value: float | None) -> str:
    if value is None:
        return NOTHING
    return f"{100 * value:.1f}" if name in PERCENT else f"{value:.3f}"


def heads_table(profile: Profile, kind: str, criteria: Criteria) -> str:
    """A row for each head of one kind; columns without data are absent."""
    heads = _by_kind(profile.heads)[kind]
    names = [
        name for name, scores in profile.scores.items() if any(head in scores for head in heads)
    ]
    placed = ["position"] if any(head in profile.positions for head in heads) else []
    rows = [["head", *names, *placed, "role"]]
    for head in heads:
        cells = [_cell(name, profile.scores[name].get(head)) for name in names]
        cells += [profile.position(head) or NOTHING for _ in placed]
        rows.append([str(head), *cells, ", ".join(profile.roles(head, criteria))])
    return f"{KINDS[kind].title}\n{table(rows)}"


def relations_table(profile: Profile) -> str:
    """Each relation and direction: cases, the baseline, and the best head."""
    rows = [["relation", "cases", "baseline", "at", "best", "head"]]
    for name, found in profile.relations.items():
        rows.append([name, str(found.cases), *_baseline(found, profile.parsed)])
    shares = ", ".join(f"{name} {100 * share:.1f}" for name, share in profile.branching.items())
    return f"syntax: accuracy in %\n{table(rows)}\nUAS in % of trees without attention: {shares}"


def _baseline(found: Accuracy, heads: Sequence[Head]) -> list[str]:
    if not found.cases:
        return [NOTHING] * 4
    best = int(np.argmax(found.heads))
    return [
        f"{100 * found.baseline:.1f}",
        f"{found.offset:+d}",
        f"{100 * found.heads[best]:.1f}",
        str(heads[best]),
    ]


def rare_line(profile: Profile) -> str:
    """The head that looks at the rarest token most, and how much is left of it after swapping."""
    best = max(profile.rare, key=lambda head: profile.rare[head]["rarest"]["tokens"])
    whole, swapped = profile.rare[best], profile.rare_swapped[best]
    parts = [
        f"{100 * whole[rank]['tokens']:.1f} % ({100 * swapped[rank]['tokens']:.1f} % with tokens "
        "swapped, "
        f"{100 * whole[rank]['chance']:.1f} % by chance) on the {rank}"
        for rank in whole
    ]
    return f"rare tokens: {best} has most maxima there: {'; '.join(parts)}"


def relevance_lines(profile: Profile) -> str:
    """How far relevance is conserved, and where it ends: in the source or in the prefix."""
    distances = ", ".join(f"{cut} {distance:.0e}" for cut, distance in profile.deviation.items())
    shares, source, prefix = profile.contributions
    shown = [f"{share:.2f}" for share in shares[:POSITIONS]] + ["…"] * (len(shares) > POSITIONS)
    what = "target positions 1, 2, …" if len(shares) > 1 else "all target positions together"
    return (
        f"relevance: largest distance of a total from 1: {distances}\n"
        f"share of the source in the relevance of {what}: {' '.join(shown)}\n"
        f"entropy of the relevance of source tokens {source.mean():.2f}, of prefix tokens "
        f"{prefix.mean():.2f} nats"
    )


def all_correlations(profile: Profile) -> dict[str, dict[tuple[str, str], Correlation]]:
    """Over the heads of each kind, over all together, and as the mean over layers."""
    found = {
        kind: correlations(profile.scores, heads) for kind, heads in _by_kind(profile.heads).items()
    }
    found["all"] = correlations(profile.scores, profile.heads)
    found["mean of all layers"] = correlations_within_layers(profile.scores, profile.heads)
    return found


def _rho(correlation: Correlation | None) -> str:
    if correlation is None or correlation.rho is None:
        return NOTHING
    if correlation.interval is None:
        return f"{correlation.rho:+.2f}"
    low, high = correlation.interval
    return f"{correlation.rho:+.2f} [{low:+.2f}, {high:+.2f}]"


def correlations_table(name: str, found: Mapping[tuple[str, str], Correlation]) -> str:
    """Rank correlations as a triangle; scores that no pair of heads has are left out."""
    defined = {pair: value for pair, value in found.items() if value.rho is not None}
    names = list(dict.fromkeys(score for pair in defined for score in pair))
    if not names:
        return f"{name}: no rank correlation is defined"
    numbers = sorted({value.heads for value in defined.values()})
    rows = [["", *names[:-1], ""]]
    for place, score in enumerate(names[1:], 1):
        cells = [defined.get((other, score)) for other in names[:place]]
        rows.append([score, *map(_rho, cells), *[""] * (len(names) - place)])
    ends = " to ".join(map(str, dict.fromkeys((numbers[0], numbers[-1]))))
    return f"{name} (n = {ends})\n{table(rows)}"


def as_text(profile: Profile, criteria: Criteria) -> str:
    parts = [heads_table(profile, kind, criteria) for kind in _by_kind(profile.heads)]
    if profile.relations:
        parts.append(relations_table(profile))
    if profile.rare:
        parts.append(rare_line(profile))
    if profile.contributions is not None:
        parts.append(relevance_lines(profile))
    parts.append("rank correlations (Spearman) between scores")
    parts += [correlations_table(name, found) for name, found in all_correlations(profile).items()]
    return "\n\n".join(parts)


def as_json(profile: Profile, criteria: Criteria, signature: Mapping[str, object]) -> dict:
    """Everything: how it was measured, scores, roles with baselines and numbers of cases,
    correlations."""
    return {
        "signature": {**signature, "version": __version__},
        "heads": [_head_as_json(profile, head, criteria) for head in profile.heads],
        "relations": {
            name: {"cases": found.cases, "baseline": found.baseline, "offset": found.offset}
            for name, found in profile.relations.items()
        },
        "trees": profile.branching,
        "relevance": _relevance_as_json(profile),
        "correlations": {
            name: [{"scores": list(pair), **value._asdict()} for pair, value in found.items()]
            for name, found in all_correlations(profile).items()
        },
    }


def _relevance_as_json(profile: Profile) -> dict | None:
    if profile.contributions is None:
        return None
    by_position = {
        name: values.tolist() for name, values in profile.contributions._asdict().items()
    }
    return {"deviation": profile.deviation, "by_position": by_position}


def _head_as_json(profile: Profile, head: Head, criteria: Criteria) -> dict:
    details = {
        "position": profile.positions,
        "rare": profile.rare,
        "rare_swapped": profile.rare_swapped,
    }
    found = {
        "head": str(head),
        "scores": {name: scores[head] for name, scores in profile.scores.items() if head in scores},
        "roles": profile.roles(head, criteria),
        **{name: values[head] for name, values in details.items() if head in values},
    }
    if head in profile.parsed:
        number = profile.parsed.index(head)
        found["relations"] = {
            name: a.heads[number] for name, a in profile.relations.items() if a.cases
        }
    if head in profile.steps:
        found["step"] = profile.steps[head]
    return found


def picture(profile: Profile) -> Figure:
    """Heat maps layers × heads: a row of panels for each kind of attention, a column for each
    score."""
    kinds, names = _by_kind(profile.heads), list(profile.scores)
    figure = Figure(figsize=(2.6 * len(names), 2.4 * len(kinds)), layout="constrained")
    FigureCanvasAgg(figure)
    for line, (kind, heads) in zip(
        figure.subplots(len(kinds), len(names), squeeze=False), kinds.items(), strict=True
    ):
        for axes, name in zip(line, names, strict=True):
            values = grid(profile.scores[name], heads)
            if np.isnan(values).all():
                axes.set_axis_off()
                continue
            figure.colorbar(axes.imshow(values, cmap="viridis", aspect="auto"), ax=axes)
            axes.set_title(f"{kind}: {name}", fontsize="small")
            axes.set_xticks(range(values.shape[1]), range(1, values.shape[1] + 1))
            axes.set_yticks(range(values.shape[0]), range(1, values.shape[0] + 1))
            axes.set_xlabel("head")
            axes.set_ylabel("layer")
    return figure


def grid(scores: Mapping[Head, float], heads: Sequence[Head]) -> np.ndarray:
    """Scores by layer and head, (L, H); nan where there is no such head."""
    values = np.full(
        (1 + max(head.layer for head in heads), 1 + max(head.head for head in heads)), np.nan
    )
    for head in heads:
        values[head.layer, head.head] = scores.get(head, np.nan)
    return values
