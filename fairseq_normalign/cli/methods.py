"""``normalign methods``: what ``--method`` takes, and what can be measured of heads."""

from __future__ import annotations

import textwrap
from argparse import Namespace
from collections.abc import Iterable

from fairseq_normalign.attention.methods import A_FILE, METHODS, Method
from fairseq_normalign.cli.options import command
from fairseq_normalign.heads.head_scores import HEAD_SCORES

DESCRIPTION = "The soft methods of align, plot and the task, and the scores of heads."
parse_args = command("methods", DESCRIPTION, "normalign methods", lambda parser: None)


def main(args: Namespace) -> None:
    print("Soft methods, for --method, --methods and --evidence")
    print(listed((name, described(method)) for name, method in METHODS.items()))
    print("\nScores of heads, for normalign heads --scores and (*) normalign prune --by")
    scores = []
    for name, score in HEAD_SCORES.items():
        starred = f"{name} *" if score.ranks else name
        scores.append((starred, score.summary))
    print(listed(scores))


def described(method: Method) -> str:
    """What a method is, and where it can be had."""
    by_layer = "each layer and head" if method.heads else "each layer"
    where = by_layer if method.layers else "the whole model"
    text = f"{method.summary}. Of {where}, at step {' or '.join(method.steps)}."
    if method.default == A_FILE:
        text += " NAME:FILE names its file."
    elif method.parameter is not None:
        text += f" NAME:NUMBER sets {method.parameter} (default: {method.default:g})."
    return text


def listed(entries: Iterable[tuple[str, str]]) -> str:
    """Names and what they mean, in two columns."""
    meanings = dict(entries)
    width = max(map(len, meanings)) + 4
    lines = []
    for name, meaning in meanings.items():
        column = f"  {name}".ljust(width)
        lines.append(
            textwrap.fill(meaning, 100, initial_indent=column, subsequent_indent=" " * width)
        )
    return "\n".join(lines)
