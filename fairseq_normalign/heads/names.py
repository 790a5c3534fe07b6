"""Kinds of attention, and how heads are called.

``encoder.1.3`` is the third head of the encoder's first self-attention.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from fairseq_normalign.errors import InputError


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
ALL, NONE = "all", "none"  # of the heads


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
    name = re.fullmatch(rf"({'|'.join(KINDS)})\.([1-9]\d*)\.([1-9]\d*)", text)
    if name is None:
        raise InputError(
            f"{text!r} is no head; expected a name such as encoder.1.3, decoder.2.1 or cross.3.4"
        )
    kind, layer, head = name.groups()
    return Head(kind, int(layer) - 1, int(head) - 1)


def parse_heads(text: str, counts: HeadCounts) -> list[Head]:
    """Heads of a model, in its order: names between commas or blanks, or ``all`` or ``none``."""
    known = all_heads(counts)
    if text in (ALL, NONE):
        return known if text == ALL else []
    named = {parse_head(word) for word in re.split(r"[,\s]+", text.strip()) if word}
    if not named:
        raise InputError("no heads are named; expected names such as encoder.1.3, or none")
    unknown = named - set(known)
    if unknown:
        raise InputError(
            f"head {min(unknown)}: the model has no such head; it has {', '.join(_ranges(counts))}"
        )
    return [head for head in known if head in named]


def format_heads(heads: Sequence[Head], counts: HeadCounts) -> str:
    """What :func:`parse_heads` reads, for heads in the model's order."""
    if len(heads) == sum(counts.values()):
        return ALL
    return " ".join(map(str, heads)) or NONE


def _ranges(counts: HeadCounts) -> Iterator[str]:
    for (kind, layer), heads in counts.items():
        if heads:
            yield f"{Head(kind, layer, 0)}–{heads}"
