"""The findings of Kobayashi et al. (2020, 2021) on BERT, looked for in what our commands measured.

usage: python bert_findings.py MIXING.json STATS.json

MIXING is of ``normalign mixing --categories bert-2021 --mask-share 0.12``, STATS of ``normalign
stats --categories bert-2020 --mixing`` without masks.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

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


def main(mixing_file: str, stats_file: str) -> None:
    mixing = json.loads(Path(mixing_file).read_text(encoding="utf-8"))
    stats = json.loads(Path(stats_file).read_text(encoding="utf-8"))
    masked = mixing["models"][0]["attentions"]["encoder"]
    unmasked = stats["mixing"][0]["attentions"]["encoder"]
    print_special_tokens(stats["models"][0]["attentions"]["encoder"]["layers"], unmasked["tokens"])
    print_ratios(masked["analyses"])
    print_layers(masked["analyses"]["ATTNRESLN-N"]["macro"])
    print_correlations(unmasked["analyses"])


def print_special_tokens(layers: Sequence[dict], tokens: dict[str, int]) -> None:
    """The shares of [CLS] and [SEP] together in all that attention gives, by α and by ‖αf(x)‖."""
    own = sum(tokens[name] for name in SPECIAL) / tokens["overall"]
    print(f"[CLS] and [SEP] are {own:.1%} of the tokens. Of what attention gives, they get")
    print("layer  of Σ α  of Σ ‖αf(x)‖")
    smaller = larger = 0
    for layer in layers:
        by_weight = mean_share(layer, "weights")
        by_norm = mean_share(layer, "weighted_norms")
        larger += by_weight > own
        smaller += by_norm < by_weight
        print(f"{layer['layer']:>5}  {by_weight:>6.1%}  {by_norm:>12.1%}")
    print(f"α above their share of the tokens: {larger} of {len(layers)} layers")
    print(f"less by norm than by weight: {smaller} of {len(layers)} layers\n")


def mean_share(layer: dict, quantity: str) -> float:
    """The mean over heads of what special tokens get, by that of all tokens."""
    special = total = 0.0
    for head in layer["heads"].values():
        values = head[quantity]
        special += sum(values[name] for name in SPECIAL)
        total += sum(values.values())
    return special / total


def print_ratios(analyses: dict[str, dict]) -> None:
    print("mixing ratio in %  here  BERT-base")
    for name, published in RATIOS.items():
        print(f"{name:<17}  {100 * analyses[name]['mean']:>4.1f}  {published:>9.1f}")
    means = [analyses[name]["mean"] for name in RATIOS]
    is_ordered = means == sorted(means, reverse=True)
    print(f"in the published order: {'yes' if is_ordered else 'no'}\n")


def print_layers(by_layer: Sequence[dict[str, float]]) -> None:
    """Both models' ratios by layer and category, each with as many layers as it has."""
    columns = "".join(f"{name:>9}" for name in CATEGORIES)
    print(f"ATTNRESLN-N in %, here{'BERT-base':>41}")
    print(f"layer{columns}  {columns}")
    for layer in range(max(len(by_layer), len(LAYERS))):
        ours = theirs = " " * len(columns)
        if layer < len(by_layer):
            ours = "".join(f"{100 * by_layer[layer][name]:>9.0f}" for name in CATEGORIES)
        if layer < len(LAYERS):
            theirs = "".join(f"{ratio:>9}" for ratio in LAYERS[layer])
        print(f"{layer + 1:>5}{ours}  {theirs}".rstrip())
    print()


def print_correlations(analyses: dict[str, dict]) -> None:
    print("ρ with frequency rank    here  BERT-base    without special tokens: here  BERT-base")
    agreeing = []
    for name, (every, words) in CORRELATIONS.items():
        rho, of_words = analyses[name]["rho"], analyses[name]["rho_without_specials"]
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
