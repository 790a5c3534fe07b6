"""How heads are called: ``encoder.1.3`` is the third head of the encoder's first self-attention."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from fairseq_normalign.errors import InputError

KINDS = (
    "encoder",
    "decoder",
    "cross",
)  # self-attention of either side, and source–target attention
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
    return [
        Head(kind, layer, head) for (kind, layer), heads in counts.items() for head in range(heads)
    ]


def parse_kinds(option: str, text: str | None) -> list[str]:
    """``encoder,cross`` → kinds of attention; ``all`` names all of them, and no text none."""
    names = [] if not text else list(KINDS) if text == ALL else text.split(",")
    for name in names:
        if name not in KINDS:
            raise InputError(
                f"{option} {text}: unknown attention {name!r}; expected any of: {', '.join(KINDS)}"
            )
    return names


def parse_head(text: str) -> Head:
    """``encoder.1.3`` → Head."""
    found = re.fullmatch(rf"({'|'.join(KINDS)})\.([1-9]\d*)\.([1-9]\d*)", text)
    if found is None:
        raise InputError(
            f"{text!r} is no head; expected a name such as encoder.1.3, decoder.2.1 or cross.3.4"
        )
    return Head(found.group(1), int(found.group(2)) - 1, int(found.group(3)) - 1)


def parse_heads(text: str, counts: HeadCounts) -> list[Head]:
    """Heads of a model, named with commas or blanks between, or ``all`` or ``none``, in the model's
    order."""
    known = all_heads(counts)
    if text in (ALL, NONE):
        return known if text == ALL else []
    named = {parse_head(word) for word in re.split(r"[,\s]+", text.strip()) if word}
    if not named:
        raise InputError("no heads are named; expected names such as encoder.1.3, or none")
    for head in sorted(named - set(known)):
        raise InputError(
            f"head {head}: the model has no such head; it has {', '.join(_ranges(counts))}"
        )
    return [head for head in known if head in named]


def format_heads(heads: Sequence[Head], counts: HeadCounts) -> str:
    """What :func:`parse_heads` reads, for heads in the model's order."""
    return ALL if len(heads) == sum(counts.values()) else " ".join(map(str, heads)) or NONE


def _ranges(counts: HeadCounts) -> Iterable[str]:
    return (f"{Head(kind, layer, 0)}–{heads}" for (kind, layer), heads in counts.items() if heads)
