"""A corpus as it was read, before the dictionaries and pieces of a model come in.

What one process reads, another may work on. An item of it is a pair of sentences for each model,
lines of text or lists of tokens, and the links that other aligners have for the pair.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import torch

from fairseq_normalign.errors import InputError
from fairseq_normalign.host.binarised import binarised_sides, say_if_unjoined
from fairseq_normalign.host.lengths import TooLong, fit_streams
from fairseq_normalign.host.options import corpus_texts, count_lines, warn_of_texts
from fairseq_normalign.host.pairs import EXAMINED_PAIRS, Pair
from fairseq_normalign.host.teacher_forcing import Model
from fairseq_normalign.runs.chunks import Chunk
from fairseq_normalign.text.links import InMemory, LinkFile, read_together
from fairseq_normalign.text.words import LineFile, TextFile, split_words

TEXT, TOKENS = "line", "pair"  # the two kinds, and what messages call a pair


class Item(NamedTuple):
    """One pair."""

    sides: Sequence[tuple[Any, Any]]  # (source, target) for each model
    links: Sequence[list[tuple[int, int]]]  # of each other aligner


class RawCorpus(NamedTuple):
    """The pairs, one at a time."""

    kind: str
    items: Iterator[Item]
    total: int | None  # how many, if that is known
    names: Sequence[str]  # of source and target, for messages


def raw_corpus(
    args: argparse.Namespace, models: Sequence[Model], links: Sequence[LinkFile] = ()
) -> RawCorpus:
    """The corpus that the options name, for one model or for two of opposite directions."""
    if (args.source_file, args.target_file, args.hypotheses) == (None, None, None):
        return _binarised(args.gen_subset, models, links)
    source, target = corpus_texts(args)
    total = _equal_count(source, target)
    warn_of_texts([source, target], models[0].reader)
    both = read_together(_lines(source), _lines(target), *links)
    items = (
        Item([(source, target), (target, source)][: len(models)], _sorted(of_pair))
        for source, target, *of_pair in both
    )
    return RawCorpus(TEXT, items, total, [source.name, target.name])


def _binarised(subset: str, models: Sequence[Model], links: Sequence[LinkFile]) -> RawCorpus:
    of_models = [binarised_sides(subset, model.reader) for model in models]
    first = of_models[0]
    for other in of_models[1:]:
        if len(other.source) != len(first.source):
            raise InputError(
                f"{other.names[0]} has {len(other.source)} sentences, {first.names[1]} "
                f"{len(first.source)}; expected the same corpus"
            )
    for model in models:
        say_if_unjoined(model.reader)
    sides = (
        [(sides.source[index].tolist(), sides.target[index].tolist()) for sides in of_models]
        for index in range(len(first.source))
    )
    together = read_together(InMemory(first.names[0], sides), *links)
    items = (Item(of_pair, _sorted(of_links)) for of_pair, *of_links in together)
    return RawCorpus(TOKENS, items, len(first.source), first.names)


def _equal_count(source: TextFile | InMemory, target: TextFile | InMemory) -> int | None:
    """How many lines both texts have, if that is known; refuses others before the work begins."""
    counts = [count_lines(text) for text in (source, target)]
    if None not in counts and counts[0] != counts[1]:
        raise InputError(
            f"line counts differ: {source.name} has {counts[0]}, {target.name} has {counts[1]} "
            "lines; expected one line per sentence pair in each"
        )
    return counts[0]


def _lines(text: TextFile | InMemory) -> TextFile | InMemory:
    """A text as lines, which are split into words where they are worked on."""
    return LineFile(text.path) if isinstance(text, TextFile) else text


def _sorted(links: Iterable[Iterable[tuple[int, int]]]) -> list[list[tuple[int, int]]]:
    return [sorted(of_aligner) for of_aligner in links]


class ChunkReader:
    """Chunks as the models of an aligner take them.

    Args:
        kind: of the corpus.
        too_long: what becomes of pairs longer than a model takes (see ``lengths``).
        links: of how many other aligners there are.
    """

    def __init__(self, models: Sequence[Model], kind: str, *, too_long: str, links: int = 0):
        self.models, self.kind = models, kind
        self.too_long, self.links = too_long, links

    def streams(self, chunk: Chunk, report: TooLong | None = None) -> list[Iterable[Any]]:
        """The pairs for each model, then the links of each other aligner."""
        of_models = [self._pairs(chunk, place) for place in range(len(self.models))]
        limits = [model.forcing.limits for model in self.models]
        fitting = fit_streams(of_models, limits, self.too_long, report)
        links = [[item.links[place] for item in chunk.items] for place in range(self.links)]
        return [*fitting, *links]

    def _pairs(self, chunk: Chunk, place: int) -> Iterator[Pair]:
        """The pairs as one of the models reads them."""
        reader = self.models[place].reader
        for number, item in enumerate(chunk.items, chunk.first + 1):
            source, target = item.sides[place]
            where = f"{self.kind} {number}"
            if self.kind == TEXT:
                yield reader.pair(_words(source), _words(target), where)
            else:
                yield reader.binarised_pair(torch.tensor(source), torch.tensor(target), where)

    def examine(self, first: Sequence[Item]) -> None:
        """Refuses text that cannot be meant for the models, and warns of what is doubtful."""
        if self.kind == TEXT:
            chunk = Chunk(0, 0, first[:EXAMINED_PAIRS])
            for place, model in enumerate(self.models):
                model.reader.examine(list(self._pairs(chunk, place)), "text")


def _words(sentence: str | list[str]) -> list[str]:
    return split_words(sentence) if isinstance(sentence, str) else sentence
