"""Kinds of attention, and how heads are called.

``encoder.1.3`` is the third head of the encoder's first self-attention. A head keeps its name when
others are removed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from fairseq_normalign.errors import InputError
from fairseq_normalign.files import split_words


class Kind(NamedTuple):
    """One kind of attention in a Transformer with fairseq's names."""

    side: str  # encoder or decoder: whose layers have it, and whose options build it
    attribute: str  # its name in a layer
    queries: str  # source or target: the sentence that its queries are tokens of
    keys: str  # the same of its keys, which are its values
    causal: bool  # whether a query sees only itself and what is before it
    title: str
    short: str  # as in Voita et al. (2019)

    @property
    def self_attention(self) -> bool:
        """Whether queries and keys are the same tokens."""
        return self.queries == self.keys

    def prefix(self, layer: int) -> str:
        """What the names of its parameters begin with, the layer counted from 0."""
        return f"{self.side}.layers.{layer}.{self.attribute}."


KINDS = {
    "encoder": Kind(
        side="encoder",
        attribute="self_attn",
        queries="source",
        keys="source",
        causal=False,
        title="encoder self-attention",
        short="e",
    ),
    "decoder": Kind(
        side="decoder",
        attribute="self_attn",
        queries="target",
        keys="target",
        causal=True,
        title="decoder self-attention",
        short="d",
    ),
    "cross": Kind(
        side="decoder",
        attribute="encoder_attn",
        queries="target",
        keys="source",
        causal=False,
        title="source–target attention",
        short="d-e",
    ),
}

# The analyses of Kobayashi et al. (2021): W weights, N norms; RES with the residual, LN with the
# layer norm.
ANALYSES = ("ATTN-W", "ATTN-N", "ATTNRES-W", "ATTNRES-N", "ATTNRESLN-N")
# Of whole layers: before the feed-forward net, behind it, with its residual, with its layer norm.
LAYER_ANALYSES = ("ATTNRESLN-N", "FF-N", "FFRES-N", "FFRESLN-N")
# What is looked at by norms, from the attention alone to the whole layer.
SCOPES = {
    "attn": "ATTN-N",
    "attn-res": "ATTNRES-N",
    "attn-res-ln": "ATTNRESLN-N",
    "ff": "FF-N",
    "ff-res": "FFRES-N",
    "ff-res-ln": "FFRESLN-N",
}
ALL, NONE = "all", "none"  # of the heads
NUMBER = "([1-9][0-9]{0,2})"  # no model has 1,000 layers or heads


class Head(NamedTuple):
    """One head. Layer and head count from 0 here, and from 1 wherever people see them."""

    kind: str
    layer: int
    head: int

    def __str__(self) -> str:
        return f"{self.kind}.{self.layer + 1}.{self.head + 1}"


HeadCounts = Mapping[tuple, int]  # (kind, layer from 0) → number of heads


def all_heads(counts: HeadCounts) -> list[Head]:
    """Every head of a model, by kind, layer and number."""
    heads = []
    for (kind, layer), count in counts.items():
        heads += [Head(kind, layer, head) for head in range(count)]
    return heads


def in_stored_order(heads: Iterable[Head], order: str | None) -> list[Head]:
    """Heads by their places in the parameters, which ``normalign order-heads`` may have changed.

    Args:
        heads: all of a model, in its order.
        order: names of those that moved, as the checkpoint says.
    """
    ranks = {parse_head(name): rank for rank, name in enumerate((order or "").split())}
    stored: list[Head] = []
    for _, of_attention in groupby(heads, key=lambda head: head[:2]):
        stored += sorted(of_attention, key=lambda head: ranks.get(head, head.head))
    return stored


def by_kind(heads: Iterable[Head]) -> dict[str, list[Head]]:
    """The heads of each kind of attention that has any, in the order of kinds."""
    kinds: dict[str, list[Head]] = {kind: [] for kind in KINDS}
    for head in heads:
        kinds[head.kind].append(head)
    return {kind: members for kind, members in kinds.items() if members}


def parse_kinds(option: str, text: str | None) -> list[str]:
    """``encoder,cross`` → kinds of attention; ``all`` names all of them, and no text none."""
    if not text:
        return []
    names = list(KINDS) if text == ALL else text.split(",")
    for name in names:
        if name not in KINDS:
            raise InputError(
                f"{option} {text}: unknown attention {name!r}; expected any of: {', '.join(KINDS)}"
            )
    return names


def parse_head(text: str) -> Head:
    """``encoder.1.3`` → Head."""
    name = re.fullmatch(rf"({'|'.join(KINDS)})\.{NUMBER}\.{NUMBER}", text)
    if name is None:
        raise InputError(
            f"{text!r} is no head; heads have names such as encoder.1.3, decoder.2.1 or cross.3.4"
        )
    kind, layer, head = name.groups()
    return Head(kind, int(layer) - 1, int(head) - 1)


def parse_heads(text: str, known: Sequence[Head]) -> list[Head]:
    """Some heads of a model, in its order: names between commas or blanks, or ``all`` or ``none``.

    Args:
        known: all that the model has.
    """
    if text in (ALL, NONE):
        return list(known) if text == ALL else []
    named = {parse_head(word) for word in split_words(text.replace(",", " "))}
    if not named:
        raise InputError("no heads are named; use names such as encoder.1.3, or none")
    for head in sorted(named - set(known)):
        beside = [str(other) for other in known if other[:2] == head[:2]]
        there = f"its layer has {', '.join(beside)}" if beside else "its layer has no heads"
        raise InputError(f"head {head}: the model has no such head; {there}")
    return [head for head in known if head in named]


def format_heads(heads: Sequence[Head], known: Sequence[Head]) -> str:
    """What :func:`parse_heads` reads, for heads in the model's order."""
    if len(heads) == len(known):
        return ALL
    return " ".join(map(str, heads)) or NONE


def as_lists(heads: Iterable[Head]) -> list[list[int]]:
    """``[[layer, head], …]`` from 0, as engines read it that take heads of several layers."""
    return [[head.layer, head.head] for head in heads]


def format_numbers(numbers: Sequence[int]) -> str:
    """Ascending numbers from 0 as people read them: ``1 to 3``, or ``1, 3`` if some are missing."""
    first, last = numbers[0] + 1, numbers[-1] + 1
    if last - first + 1 == len(numbers) > 1:
        return f"{first} to {last}"
    return ", ".join(str(number + 1) for number in numbers)


def from_one(name: str, value: int | str, known: Sequence[int], *, owner: str = "the model") -> int:
    """Layer or head ``value``, which people count from 1, as one of the ``known``, from 0."""
    text = str(value)
    if not (text.isascii() and text.isdigit()):
        raise InputError(f"{name} {value!r}: expected a number from 1")
    if len(text) > 9 or int(text) - 1 not in known:
        several = "s" if len(known) > 1 else ""
        raise InputError(f"{name} {value}: {owner} has {name}{several} {format_numbers(known)}")
    return int(text) - 1
