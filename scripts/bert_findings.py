"""The findings of Kobayashi et al. (2020, 2021) on BERT, looked for in what our commands measured.

usage: python bert_findings.py MIXING.json STATS.json

MIXING is of ``normalign mixing --categories bert-2021 --mask-share 0.12``, STATS of ``normalign
stats --categories bert-2020 --mixing`` without masks.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from fairseq_normalign.results.blocks import Table
from fairseq_normalign.results.result import read_result

# Of BERT-base on 992 pairs of passages from Wikipedia (Kobayashi et al., 2021).
RATIOS = {
    "ATTN-W": 96.4,
    "ATTN-N": 85.3,
    "ATTNRES-W": 48.2,
    "ATTNRES-N": 22.3,
    "ATTNRESLN-N": 18.8,
}
# Spearman's ρ of ratio and frequency rank: all tokens, and without special ones.
CORRELATIONS = {
    "ATTN-W": (0.159, 0.144),
    "ATTN-N": (-0.387, -0.413),
    "ATTNRES-W": (0.159, 0.144),
    "ATTNRES-N": (-0.839, -0.860),
    "ATTNRESLN-N": (-0.544, -0.577),
}
CATEGORIES = ("Normal", "[MASK]", "[CLS]", "[SEP]", "overall")
# ATTNRESLN-N in % by layer and category.
LAYERS = (
    *((25, 15, 15, 15, 24), (20, 17, 5, 12, 20), (19, 16, 8, 12, 19), (21, 21, 16, 3, 21)),
    *((20, 21, 18, 2, 19), (20, 25, 20, 2, 20), (19, 25, 20, 2, 20), (19, 30, 11, 2, 20)),
    *((17, 25, 15, 3, 17), (18, 22, 21, 18, 19), (15, 19, 17, 15, 15), (11, 10, 39, 21, 11)),
)
SPECIAL = ("[CLS]", "[SEP]")
RHO, RHO_OF_WORDS = "ρ with rank", "ρ without special tokens"


def main(mixing_file: str, stats_file: str) -> None:
    masked = read_result(mixing_file).tables()
    unmasked = read_result(stats_file).tables()
    print_special_tokens(unmasked)
    print_ratios(by_analysis(masked))
    print_layers(by_name(masked["encoder.ATTNRESLN-N.macro"]))
    print_correlations(by_analysis(unmasked))


def by_name(table: Table) -> list[dict[str, Any]]:
    return [dict(zip(table.columns, row, strict=True)) for row in table.rows]


def by_analysis(tables: Mapping[str, Table]) -> dict[str, dict[str, Any]]:
    """The row of each analysis."""
    return {row["analysis"]: row for row in by_name(tables["analyses"])}


def print_special_tokens(tables: Mapping[str, Table]) -> None:
    """The shares of [CLS] and [SEP] together in all that attention gives, by α and by ‖αf(x)‖."""
    tokens = {row["category"]: row["tokens"] for row in by_name(tables["tokens"])}
    own = sum(tokens[name] for name in SPECIAL) / tokens["overall"]
    print(f"[CLS] and [SEP] are {own:.1%} of the tokens. Of what attention gives, they get")
    print("layer  of Σ α  of Σ ‖αf(x)‖")
    smaller = larger = 0
    weights = by_name(tables["Σ α over the keys of a category"])
    norms = by_name(tables["Σ ‖αf(x)‖ over the keys of a category"])
    for of_weights, of_norms in zip(weights, norms, strict=True):
        by_weight, by_norm = special_share(of_weights), special_share(of_norms)
        larger += by_weight > own
        smaller += by_norm < by_weight
        print(f"{of_weights['layer']:>5}  {by_weight:>6.1%}  {by_norm:>12.1%}")
    print(f"α above their share of the tokens: {larger} of {len(weights)} layers")
    print(f"less by norm than by weight: {smaller} of {len(weights)} layers\n")


def special_share(layer: Mapping[str, Any]) -> float:
    """What special tokens get of all that a layer gives."""
    values = {name: value for name, value in layer.items() if name != "layer"}
    return sum(values[name] for name in SPECIAL) / sum(values.values())


def print_ratios(analyses: Mapping[str, Mapping[str, Any]]) -> None:
    print("mixing ratio in %  here  BERT-base")
    for name, published in RATIOS.items():
        print(f"{name:<17}  {analyses[name]['mean']:>4.1f}  {published:>9.1f}")
    means = [analyses[name]["mean"] for name in RATIOS]
    is_ordered = means == sorted(means, reverse=True)
    print(f"in the published order: {'yes' if is_ordered else 'no'}\n")


def print_layers(by_layer: Sequence[Mapping[str, Any]]) -> None:
    """Both models' ratios by layer and category, each with as many layers as it has."""
    columns = "".join(f"{name:>9}" for name in CATEGORIES)
    print(f"ATTNRESLN-N in %, here{'BERT-base':>41}")
    print(f"layer{columns}  {columns}")
    for layer in range(max(len(by_layer), len(LAYERS))):
        ours = theirs = " " * len(columns)
        if layer < len(by_layer):
            ours = "".join(f"{by_layer[layer][name]:>9.0f}" for name in CATEGORIES)
        if layer < len(LAYERS):
            theirs = "".join(f"{ratio:>9}" for ratio in LAYERS[layer])
        print(f"{layer + 1:>5}{ours}  {theirs}".rstrip())
    print()


def print_correlations(analyses: Mapping[str, Mapping[str, Any]]) -> None:
    print("ρ with frequency rank    here  BERT-base    without special tokens: here  BERT-base")
    agreeing = []
    for name, (every, words) in CORRELATIONS.items():
        rho, of_words = analyses[name][RHO], analyses[name][RHO_OF_WORDS]
        here = f"{signed(rho):>5}  {every:>+9.2f}"
        print(f"{name:<23} {here}  {signed(of_words):>31}  {words:>+9.2f}")
        if have_one_sign(rho, every) and have_one_sign(of_words, words):
            agreeing.append(name)
    print(f"of the published sign: {', '.join(agreeing) or 'none'}")


def signed(rho: float | None) -> str:
    """A correlation; a dash if there is none, as of values that are all the same."""
    return "–" if rho is None else f"{rho:+.2f}"


def have_one_sign(rho: float | None, published: float) -> bool:
    return rho is not None and rho * published > 0


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
