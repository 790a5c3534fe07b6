"""The attention blocks of a model on a corpus, batch by batch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from fairseq_normalign.attention.block import Block
from fairseq_normalign.attention.recorder import recorded_blocks
from fairseq_normalign.host.attention_modules import Name, attentions
from fairseq_normalign.host.batches import Progress, numbered_batches
from fairseq_normalign.host.pairs import Pair
from fairseq_normalign.host.teacher_forcing import TeacherForcing
from fairseq_normalign.layers.tokens import TokenBatch, TokenTable, token_batches
from fairseq_normalign.names import KINDS


class BlockBatch(NamedTuple):
    """All attention blocks on one batch, and the tokens that they see."""

    blocks: Mapping[Name, Block]
    tokens: Mapping[str, TokenBatch]  # by side: source, target
    places: Sequence[str]  # what errors call each sentence
    lines: Sequence[int]  # in the corpus, from 0

    @property
    def kinds(self) -> list[str]:
        """The kinds of attention that there are."""
        return list(dict.fromkeys(kind for kind, _ in self.blocks))

    def layers(self, kind: str) -> dict[int, Block]:
        """The blocks of one kind of attention, by layer from 0."""
        return {layer: block for (name, layer), block in self.blocks.items() if name == kind}

    def queries(self, kind: str) -> TokenBatch:
        return self.tokens[KINDS[kind].queries]

    def keys(self, kind: str) -> TokenBatch:
        return self.tokens[KINDS[kind].keys]


def block_batches(
    forcing: TeacherForcing,
    pairs: Mapping[int, Pair],
    tables: Mapping[str, TokenTable],
    *,
    max_tokens: int = 4000,
    progress: Progress | None = None,
) -> Iterator[BlockBatch]:
    """The blocks of one batch after the other.

    Args:
        pairs: by line, from 0.
    """
    lines = list(pairs)
    for numbered in numbered_batches(pairs.values(), max_tokens=max_tokens, progress=progress):
        numbers = [lines[number] for number, _ in numbered]
        yield _run(forcing, [pair for _, pair in numbered], tables, numbers)


def _run(
    forcing: TeacherForcing,
    batch: list[Pair],
    tables: Mapping[str, TokenTable],
    lines: Sequence[int],
) -> BlockBatch:
    """The blocks of a batch; nothing of it stays when the next one is run."""
    blocks = recorded_blocks(forcing, batch, running_kinds(forcing))
    device = next(forcing.model.parameters()).device
    tokens = {}
    for side, of_side in token_batches(forcing, tables, batch).items():
        tokens[side] = TokenBatch(*(known.to(device) for known in of_side))
    return BlockBatch(blocks, tokens, [pair.where for pair in batch], lines)


def running_kinds(forcing: TeacherForcing) -> list[str]:
    """The kinds of attention that are looked at: all, or the self-attention that was asked for."""
    there = {kind for kind, _ in attentions(forcing.model)}
    if KINDS[forcing.attention].self_attention:
        there &= {forcing.attention}
    return [kind for kind in KINDS if kind in there]


def sides_of(kinds: Iterable[str]) -> list[str]:
    """The sides whose tokens some kinds of attention see."""
    sides = {}
    for kind in kinds:
        sides[KINDS[kind].queries] = sides[KINDS[kind].keys] = True
    return list(sides)
