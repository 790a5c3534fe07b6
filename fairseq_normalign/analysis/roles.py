"""What the heads of a fairseq Transformer look at, gathered over a corpus or a treebank."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence

from fairseq_normalign.alignment.extract import to_words
from fairseq_normalign.analysis.attention_pass import Seen, record_heads, running_heads, watch
from fairseq_normalign.heads.frequencies import Frequencies
from fairseq_normalign.heads.names import Head
from fairseq_normalign.heads.roles import PATTERNS, Positions, last_hits, offsets, rare_hits, rarest
from fairseq_normalign.heads.syntax import Syntax
from fairseq_normalign.heads.tally import Tally
from fairseq_normalign.heads.treebank import Tree
from fairseq_normalign.host.batches import map_batches
from fairseq_normalign.host.pairs import Pair, PairReader, Sentence
from fairseq_normalign.host.teacher_forcing import TeacherForcing, places_by_word

RANKS = {"rarest": 1, "two rarest": 2}
SWAPPED = 0.1  # share of tokens that change places in the control (Sennrich)


class PositionWatcher:
    """Relative positions of maxima in self-attention; in the encoder, also how often they are the
    last token."""

    def __init__(self) -> None:
        self.positions: dict[tuple, Positions] = defaultdict(Positions)
        self.last = Tally()

    def __call__(self, seen: Seen) -> None:
        kind, _ = seen.attention
        if kind != "cross":
            self.positions[seen.attention].add(offsets(seen.recorded.weights, seen.cells))
        if kind == "encoder":
            hits, cases = last_hits(seen.recorded.weights, seen.cells)
            self.last.add(seen.attention, hits.cpu(), cases)

    def details(self) -> dict[Head, dict]:
        """The most frequent position, and the shares of the patterns of Raganato and Tiedemann
        (2018)."""
        found, last = {}, self.last.means()
        for attention, positions in self.positions.items():
            for number in range(len(positions.counts)):
                head, favourite = Head(*attention, number), positions.favourite(number)
                if favourite is not None:
                    visible = {
                        name: at
                        for name, at in PATTERNS.items()
                        if at <= 0 or head.kind == "encoder"
                    }
                    patterns = {name: positions.share(number, at) for name, at in visible.items()}
                    patterns.update({"last": last[head]} if head in last else {})
                    found[head] = {
                        "offset": favourite[0],
                        "share": favourite[1],
                        "patterns": patterns,
                    }
        return found


class RareWatcher:
    """How often encoder heads look at the rarest tokens of the sentence."""

    def __init__(self, frequencies: Frequencies, reader: PairReader, *, top: int = 0):
        self.frequencies, self.reader, self.bar = frequencies, reader, frequencies.bar(top)
        self.tallies = {
            (rank, unit): Tally() for rank in RANKS for unit in ("tokens", "sentences", "chance")
        }
        self.batch: Sequence[Pair] | None = None

    def __call__(self, seen: Seen) -> None:
        if seen.attention[0] != "encoder":
            return
        if seen.pairs is not self.batch:  # every layer sees the same batch
            self.batch, self.found = (
                seen.pairs,
                self._frequencies(seen.pairs).to(seen.cells.words.device),
            )
        keys = seen.cells.words.any(1)  # (B, S)
        for name, rank in RANKS.items():
            chosen = (keys & (self.found < self.bar)).any(1)
            hits = rare_hits(
                seen.recorded.weights, seen.cells, rarest(self.found, keys, rank=rank), chosen
            )
            for unit, (sums, cases) in hits.items():
                self.tallies[name, unit].add(seen.attention, sums.cpu(), cases)

    def _frequencies(self, pairs: Sequence[Pair]) -> torch.Tensor:
        lines = [
            torch.tensor(self.frequencies(*spelled(pair.source, self.reader))) for pair in pairs
        ]
        return pad_sequence(lines, batch_first=True)

    def details(self) -> dict[Head, dict]:
        found: dict[Head, dict] = defaultdict(dict)
        for (rank, unit), tally in self.tallies.items():
            for head, mean in tally.means().items():
                found[head].setdefault(rank, {})[unit] = mean
        return dict(found)


def spelled(sentence: Sentence, reader: PairReader) -> tuple[list[str], list[str]]:
    """The pieces of a source sentence, and the word of each; marks are their own."""
    pieces = reader.symbols(sentence.tokens.tolist(), "source")
    return pieces, [
        sentence.text[word] if word >= 0 else piece
        for piece, word in zip(pieces, sentence.words, strict=True)
    ]


def without_marks(sentence: Sentence, reader: PairReader) -> tuple[list[str], list[str]]:
    rows = [
        row
        for row, word in zip(
            zip(*spelled(sentence, reader), strict=True), sentence.words, strict=True
        )
        if word >= 0
    ]
    return tuple(map(list, zip(*rows, strict=True))) if rows else ([], [])


def dictionary_counts(dictionary) -> dict[str, float]:
    """How often each symbol was in the text that ``fairseq-preprocess`` saw."""
    first = dictionary.nspecial
    return {
        symbol: count
        for symbol, count in zip(dictionary.symbols[first:], dictionary.count[first:], strict=True)
        if not symbol.startswith("madeupword")
    }


def swapped(pair: Pair, generator: random.Random, share: float = SWAPPED) -> Pair:
    """The pair with a share of its source tokens, two at least, having changed places (Sennrich's
    control)."""
    places = [place for place, word in enumerate(pair.source.words) if word >= 0]
    moved = generator.sample(places, min(len(places), max(2, round(share * len(places)))))
    order = list(range(len(pair.source.words)))
    for place, other in zip(moved, moved[1:] + moved[:1], strict=True):
        order[place] = other
    words = [pair.source.words[place] for place in order]
    return pair._replace(source=Sentence(pair.source.tokens[order], words, pair.source.text))


def swapped_pairs(pairs: Iterable[Pair], *, seed: int = 1) -> Iterator[Pair]:
    generator = random.Random(seed)
    return (swapped(pair, generator) for pair in pairs)


def rare_roles(
    forcing: TeacherForcing, pairs: Iterable[Pair], watcher: RareWatcher, max_tokens: int = 4000
) -> dict[Head, dict]:
    """What a watcher of rare tokens finds in a corpus."""
    watch(forcing, pairs, [watcher], max_tokens=max_tokens)
    return watcher.details()


def syntax(
    forcing: TeacherForcing, trees: Iterable[Tree], reader: PairReader, *, max_tokens: int = 4000
) -> tuple[list[Head], Syntax]:
    """Relations and trees in the weights of all encoder heads, between words; heads in the order of
    the results.

    Args:
        forced: looks at the encoder, as ``Forced(…, attention="encoder")``.
    """
    trees = list(trees)
    pairs = [
        reader.pair(tree.words, None, f"line {number} ({tree.where})")
        for number, tree in enumerate(trees, 1)
    ]
    found = Syntax()

    def run(batch: list[Pair]) -> Iterable[np.ndarray]:
        forcing.check_lengths(batch)
        with torch.no_grad(), record_heads(forcing, values=False) as recording:
            forcing.forward(batch)
        weights = (
            torch.cat([recording[attention].weights for attention in running_heads(forcing)], 1)
            .float()
            .cpu()
        )
        return [
            between_words(matrix, pair.source)
            for matrix, pair in zip(weights.numpy(), batch, strict=True)
        ]

    for tree, weights in zip(
        trees, map_batches(pairs, run, max_tokens=max_tokens, window=200), strict=True
    ):
        found.add(weights, tree)
    return [
        Head(*name, head) for name, heads in running_heads(forcing).items() for head in range(heads)
    ], found


def between_words(weights: np.ndarray, sentence: Sentence) -> np.ndarray:
    """Weights between pieces (H, T, T) → between words (H, N, N): keys of a word added, queries
    averaged, no marks."""
    order, ids = places_by_word(sentence)
    words = to_words(weights[:, order[:, None], order], ids, ids)
    return words[:, : len(sentence.text), : len(sentence.text)]
