"""Runs a model over a corpus once and shows its attention blocks to those who measure them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from fairseq_normalign.attention.block import Block
from fairseq_normalign.attention.block_recorder import recorded_blocks
from fairseq_normalign.host.attention_modules import Name, attentions
from fairseq_normalign.host.batches import Progress, numbered_batches, text_of_batch
from fairseq_normalign.host.pairs import Pair
from fairseq_normalign.host.teacher_forcing import TeacherForcing
from fairseq_normalign.layers.tokens import TokenBatch, TokenTable, token_batches
from fairseq_normalign.names import KINDS
from fairseq_normalign.runs.sums import Sums

SUMS = "blocks"  # what its sums are called


class BlockBatch(NamedTuple):
    """All attention blocks on one batch, and the tokens that they see."""

    blocks: Mapping[Name, Block]
    tokens: Mapping[str, TokenBatch]  # by side: source, target
    places: Sequence[str]  # what errors call each sentence

    def layers(self, kind: str) -> dict[int, Block]:
        """The blocks of one kind of attention, by layer from 0."""
        return {layer: block for (name, layer), block in self.blocks.items() if name == kind}

    def queries(self, kind: str) -> TokenBatch:
        return self.tokens[KINDS[kind].queries]

    def keys(self, kind: str) -> TokenBatch:
        return self.tokens[KINDS[kind].keys]


Watcher = Callable[[BlockBatch], None]


def watch_blocks(
    forcing: TeacherForcing,
    pairs: Iterable[Pair],
    watchers: Sequence[Watcher],
    tables: Mapping[str, TokenTable],
    *,
    max_tokens: int = 4000,
    progress: Progress | None = None,
    sums: Sums | None = None,
) -> None:
    """Shows the blocks of every batch to every watcher. Memory does not grow with the corpus."""
    this_pass = (sums or Sums()).begin(SUMS, watchers)
    batches = numbered_batches(pairs, max_tokens=max_tokens)
    for numbered in this_pass.over(batches, text=text_of_batch, size=len, progress=progress):
        seen = _run(forcing, [pair for _, pair in numbered], tables)
        for watcher in watchers:
            watcher(seen)
        del seen  # before the next batch is run, which needs as much memory


def _run(
    forcing: TeacherForcing, batch: list[Pair], tables: Mapping[str, TokenTable]
) -> BlockBatch:
    blocks = recorded_blocks(forcing, batch, running_kinds(forcing))
    device = next(forcing.model.parameters()).device
    tokens = {}
    for side, of_side in token_batches(forcing, tables, batch).items():
        tokens[side] = TokenBatch(*(known.to(device) for known in of_side))
    return BlockBatch(blocks, tokens, [pair.where for pair in batch])


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
