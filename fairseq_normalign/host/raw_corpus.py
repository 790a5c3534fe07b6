"""A corpus as it was read, before the dictionaries and pieces of a model come in.

What one process reads, another may work on. An item of it is a pair of sentences for each model,
lines of text or lists of tokens, and the links that other aligners have for the pair.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import torch

from fairseq_normalign.errors import InputError
from fairseq_normalign.host.binarised import UnknownPieces, binarised_sides, say_if_unjoined
from fairseq_normalign.host.lengths import TooLong, fit_streams
from fairseq_normalign.host.masking import with_masks
from fairseq_normalign.host.options import corpus_texts, count_lines, warn_of_texts
from fairseq_normalign.host.pairs import EXAMINED_PAIRS, Pair, PairReader
from fairseq_normalign.host.special_tokens import mask_of
from fairseq_normalign.host.teacher_forcing import Model, TeacherForcing
from fairseq_normalign.runs.chunks import Chunk
from fairseq_normalign.text.links import InMemory, LinkFile, read_together
from fairseq_normalign.text.words import LineFile, TextFile, split_words

TEXT, TOKENS, SOURCES = "line", "pair", "sentence"  # kinds, and what messages call an item


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
    args: argparse.Namespace,
    models: Sequence[Model],
    links: Sequence[LinkFile] = (),
    *,
    need_target: bool = True,
) -> RawCorpus:
    """The corpus that the options name, for one model or for two of opposite directions."""
    if (args.source_file, args.target_file, args.hypotheses) == (None, None, None):
        return _binarised(args.gen_subset, models, links)
    if not need_target and args.source_file and not (args.target_file or args.hypotheses):
        text = LineFile(args.source_file)
        sources = (Item([(line, None)], []) for line in text)
        return RawCorpus(TEXT, sources, count_lines(text), [text.name])
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
    items = (
        [(_tokens(sides.source, index), _tokens(sides.target, index)) for sides in of_models]
        for index in range(len(first.source))
    )
    together = read_together(InMemory(first.names[0], items), *links)
    kind = SOURCES if first.target is None else TOKENS
    pairs = (Item(of_pair, _sorted(of_links)) for of_pair, *of_links in together)
    return RawCorpus(kind, pairs, len(first.source), first.names)


def _tokens(side: Sequence[Any] | None, index: int) -> list[int] | None:
    return None if side is None else side[index].tolist()


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
    """Chunks as some models take them.

    Args:
        kind: of the corpus.
        too_long: what becomes of pairs longer than a model takes (see ``lengths``).
        links: of how many other aligners there are.
        longest: how many tokens a side may have, if the models take more.
        masks: the share of the tokens of a source that is masked, and a seed.
    """

    def __init__(
        self,
        models: Sequence[Model],
        kind: str,
        *,
        too_long: str,
        links: int = 0,
        longest: int | None = None,
        masks: tuple[float, int] | None = None,
    ):
        self.models, self.kind = models, kind
        self.too_long, self.links = too_long, links
        self.longest, self.masks = longest, masks

    @property
    def forcing(self) -> TeacherForcing:
        """That of the only model, or of the first."""
        return self.models[0].forcing

    @property
    def reader(self) -> PairReader:
        return self.models[0].reader

    def report(self) -> TooLong:
        """Where pairs that are too long are told."""
        return TooLong() if self.longest is None else TooLong("--max-length")

    def streams(self, chunk: Chunk, report: TooLong | None = None) -> list[Iterable[Any]]:
        """The pairs for each model, then the links of each other aligner."""
        of_models = [self._pairs(chunk, place) for place in range(len(self.models))]
        limits = [model.forcing.limits.at_most(self.longest) for model in self.models]
        fitting = fit_streams(of_models, limits, self.too_long, report or self.report())
        links = [[item.links[place] for item in chunk.items] for place in range(self.links)]
        return [*fitting, *links]

    def read(self, chunk: Chunk) -> tuple[list[list[Any]], dict[str, Any]]:
        """The same, all in memory, and what is to be told of the chunk."""
        too_long = self.report()
        streams = list(map(list, self.streams(chunk, too_long)))
        unknown = UnknownPieces(self.reader)
        if self.kind != TEXT:
            for pair in streams[0]:
                unknown.add(pair)
        notes = {
            "too_long": [too_long.count, too_long.places],
            "policy": self.too_long,
            "unknown": [unknown.unknown, unknown.pieces],
        }
        return streams, notes

    def pairs(self, chunk: Chunk) -> tuple[list[Pair], dict[str, Any]]:
        """The pairs of a chunk for the only model, perhaps with masks, and the notes."""
        (pairs,), notes = self.read(chunk)
        if self.masks is not None:
            share, seed = self.masks
            mask = mask_of(self.reader.task)
            pairs = list(with_masks(pairs, share, mask, seed=seed, first=chunk.first))
        return pairs, notes

    def _pairs(self, chunk: Chunk, place: int) -> Iterator[Pair]:
        """The pairs as one of the models reads them."""
        reader = self.models[place].reader
        # A TAB may be between two passages.
        words = _line if reader.marks.between else _words
        for number, item in enumerate(chunk.items, chunk.first + 1):
            source, target = item.sides[place]
            where = f"{self.kind} {number}"
            if self.kind == TEXT:
                yield reader.pair(words(source), words(target), where)
            else:
                target = None if target is None else torch.tensor(target)
                yield reader.binarised_pair(torch.tensor(source), target, where)

    def examine(self, first: Sequence[Item]) -> None:
        """Refuses text that cannot be meant for the models, and warns of what is doubtful."""
        if self.kind == TEXT:
            chunk = Chunk(0, 0, first[:EXAMINED_PAIRS])
            for place, model in enumerate(self.models):
                model.reader.examine(list(self._pairs(chunk, place)), "text")


def _line(sentence: Any) -> Any:
    return sentence


def _words(sentence: str | list[str] | None) -> list[str] | None:
    return split_words(sentence) if isinstance(sentence, str) else sentence


class CorpusModel(Model, Protocol):
    """A model, and what it reads of the chunks of a corpus."""

    def pairs(self, chunk: Chunk) -> tuple[Sequence[Pair], dict[str, Any]]:
        """The pairs of a chunk, and what is to be told of it."""


class PairsInMemory(NamedTuple):
    """A model whose chunks are pairs already."""

    forcing: TeacherForcing
    reader: PairReader

    def pairs(self, chunk: Chunk) -> tuple[Sequence[Pair], dict[str, Any]]:
        return chunk.items, {}


class Notes:
    """What is to be told of all chunks at the end."""

    def __init__(self, reader: ChunkReader, names: Sequence[str]):
        self.reader, self.names = reader, names
        self.too_long = reader.report()
        self.unknown = UnknownPieces(reader.reader)

    def add(self, notes: Mapping[str, Any]) -> None:
        """The notes of a chunk; refuses one whose long pairs were dealt with in another way.

        Where a corpus is gone through several times, one measure tells.
        """
        if not notes:
            return
        count, places = notes["too_long"]
        if count and notes["policy"] != self.reader.too_long:
            raise InputError(
                f"{places[0]} was done before with --too-long {notes['policy']}, and this run is "
                f"with --too-long {self.reader.too_long}; expected the same, or --restart"
            )
        self.too_long.add(count, places)
        self.unknown.add_counts(*notes["unknown"])

    def tell(self) -> None:
        self.unknown.tell(self.names)
        summary = self.too_long.summary(self.reader.too_long)
        if summary:
            warnings.warn(summary, stacklevel=2)
