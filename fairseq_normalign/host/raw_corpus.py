"""A corpus as it was read, and as the dictionaries and pieces of models make pairs of it.

What one process reads, another may work on. An item of it is a pair of sentences for each model,
lines of text or lists of tokens, and the links that other aligners have for the pair.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice, tee
from operator import itemgetter
from random import Random
from typing import Any, NamedTuple

from fairseq_normalign.errors import InputError
from fairseq_normalign.files import read_lines
from fairseq_normalign.host.binarised import Subset
from fairseq_normalign.host.lengths import TooLong
from fairseq_normalign.host.pairs import EXAMINED_PAIRS, Pair, PairReader, Sentence
from fairseq_normalign.host.special_tokens import mask_of
from fairseq_normalign.host.teacher_forcing import Model, TeacherForcing, loss_per_token
from fairseq_normalign.runs.chunks import Chunk, cut
from fairseq_normalign.text.links import (
    InMemory,
    LinkFile,
    count_lines,
    read_together,
    refuse_other_count,
)
from fairseq_normalign.text.paired import read_printed, read_sources, text_sides
from fairseq_normalign.text.words import TextFile

TEXT, TOKENS = "line", "sentence"  # kinds, and what messages call an item
PAIRS = "pairs"  # the kind of a corpus whose items are pairs already
FORWARD_AND_BACK = (False, True)  # whether each model translates the other way round
READ = 100  # pairs that are read together
COMPARED = 10  # pairs that show whether the sides are swapped
# How much larger the loss per token must be than that of the swapped pairs. On five pairs or more,
# three pairs of languages gave −6.6 to 0 as they should be, and 2.5 to 6.6 where swapped.
SWAPPED = 2.0

Text = TextFile | InMemory


class Item(NamedTuple):
    """One pair."""

    sides: Sequence[tuple[Any, Any]]  # (source, target) for each model
    links: Sequence[list[tuple[int, int]]]  # of each other aligner


class RawCorpus(NamedTuple):
    """The pairs, one at a time."""

    kind: str
    items: Iterator[Item]
    total: int | None  # how many, if that is known
    name: str  # for messages


class Corpus(NamedTuple):
    """The pairs as each model takes them, none too long, and how many, if that is known."""

    streams: Sequence[Iterator[Pair]]
    total: int | None


def corpus(
    args: argparse.Namespace,
    models: Sequence[Model],
    *,
    swapped: Sequence[bool] = FORWARD_AND_BACK,
    need_target: bool = True,
    limit: int | None = None,
) -> Corpus:
    """The corpus that the options name, after the doctor has looked at the first pairs.

    What was skipped or cut off is told when the pairs end.
    """
    raw = raw_corpus(args, models, swapped=swapped, need_target=need_target, limit=limit)
    check_not_empty(raw.total, raw.name)
    reader = ChunkReader(models, raw.kind, args.too_long)
    copies = tee(_rows(raw, reader), len(models))
    streams = [map(itemgetter(place), copy) for place, copy in enumerate(copies)]
    return Corpus(streams, raw.total)


def _rows(raw: RawCorpus, reader: ChunkReader) -> Iterator[tuple[Pair, ...]]:
    """Each pair as all models read it."""
    too_long = reader.too_long_pairs()
    first = list(islice(raw.items, EXAMINED_PAIRS))
    reader.examine(first)
    for chunk in cut(chain(first, raw.items), READ):
        streams, notes = reader.read(chunk)
        too_long.add(notes)
        yield from zip(*streams, strict=True)
    too_long.tell()


def raw_corpus(
    args: argparse.Namespace,
    models: Sequence[Model],
    links: Sequence[LinkFile] = (),
    *,
    swapped: Sequence[bool] = FORWARD_AND_BACK,
    need_target: bool = True,
    limit: int | None = None,
) -> RawCorpus:
    """The corpus that the options name, or the first pairs of it, for one model or for several.

    Args:
        swapped: which of the models read the target as their source.
    """
    files: Sequence[Any]
    is_binarised = (args.source_file, args.target_file, args.hypotheses) == (None, None, None)
    if is_binarised:
        files = [Subset(args.gen_subset, model.reader) for model in models]
    elif not need_target and args.source_file and not (args.target_file or args.hypotheses):
        files = [TextFile(args.source_file, read_sources)]
    else:
        files = corpus_texts(args)
    total = count_lines(files[0])
    for other in files[1:]:  # before the work begins
        refuse_other_count(other, total, files[0].name)

    def items() -> Iterator[Item]:
        for row in islice(read_together(*files, *links), limit):
            sides, of_pair = row[: len(files)], row[len(files) :]
            if not is_binarised:
                both = sides if len(sides) == 2 else (*sides, None)
                ways = swapped[: len(models)]
                sides = tuple(both[::-1] if is_swapped else both for is_swapped in ways)
            yield Item(sides, list(map(sorted, of_pair)))

    if total is not None and limit is not None:
        total = min(total, limit)
    return RawCorpus(TOKENS if is_binarised else TEXT, items(), total, files[0].name)


def corpus_texts(args: argparse.Namespace) -> list[Text]:
    """Source and target, to be read together."""
    if args.hypotheses and args.target_file:
        raise InputError("--hypotheses and --target-file both name the target; use one")
    printed = None
    if args.hypotheses and args.hypotheses != "-":
        printed = read_printed(args.hypotheses)
    if printed is not None:
        source, target = (InMemory(args.hypotheses, sentences) for sentences in printed)
        return [TextFile(args.source_file, read_lines) if args.source_file else source, target]
    if args.source_file is None:
        raise InputError("--target-file or --hypotheses needs --source-file")
    return [*text_sides(args.source_file, args.target_file or args.hypotheses)]


def check_not_empty(total: int | None, name: str) -> None:
    """Refuses a corpus without sentences, as far as that is known."""
    if total == 0:
        raise InputError(f"{name}: has no lines")


@dataclass(frozen=True)
class ChunkReader:
    """Chunks as some models take them.

    Args:
        kind: of the corpus.
        too_long: what becomes of pairs longer than a model takes (see ``lengths``).
        links: of how many other aligners there are.
        longest: how many tokens a side may have, if the models take more.
        masks: the share of the tokens of a source that is masked, and a seed.
    """

    models: Sequence[Model]
    kind: str
    too_long: str = "fail"
    links: int = 0
    longest: int | None = None
    masks: tuple[float, int] | None = None

    @property
    def forcing(self) -> TeacherForcing:
        """That of the only model, or of the first."""
        return self.models[0].forcing

    @property
    def reader(self) -> PairReader:
        return self.models[0].reader

    def too_long_pairs(self) -> TooLong:
        """Where pairs that are too long are told."""
        return TooLong(self.too_long)

    def read(self, chunk: Chunk) -> tuple[list[list[Any]], dict[str, Any]]:
        """The pairs for each model, then the links of each other aligner; and the notes."""
        too_long = self.too_long_pairs()
        limits = [model.forcing.limits.at_most(self.longest) for model in self.models]
        readings = [self._pairs(chunk, place) for place in range(len(self.models))]
        rows = [too_long.fit(of_models, limits) for of_models in zip(*readings, strict=True)]
        streams = [[row[place] for row in rows] for place in range(len(self.models))]
        links = [[item.links[place] for item in chunk.items] for place in range(self.links)]
        return [*streams, *links], too_long.notes()

    def pairs(self, chunk: Chunk) -> tuple[Sequence[Pair], dict[str, Any]]:
        """The pairs of a chunk for the only model, perhaps with masks, and the notes."""
        if self.kind == PAIRS:
            return chunk.items, {}
        (pairs,), notes = self.read(chunk)
        if self.masks is not None:
            share, seed = self.masks
            mask = mask_of(self.reader.task)
            pairs = with_masks(pairs, share, mask, seed=seed, first=chunk.first)
        return pairs, notes

    def _pairs(self, chunk: Chunk, place: int) -> Iterator[Pair]:
        """The pairs as one of the models reads them."""
        reader = self.models[place].reader
        for number, item in enumerate(chunk.items, chunk.first + 1):
            source, target = item.sides[place]
            where = f"{self.kind} {number}"
            read = reader.pair if self.kind == TEXT else reader.binarised_pair
            yield read(source, target, where)

    def examine(self, first: Sequence[Item]) -> None:
        """Refuses text that cannot be meant for the models, and warns of what is doubtful."""
        chunk = Chunk(0, 0, first[:EXAMINED_PAIRS])
        if self.kind == TOKENS:
            self.reader.warn_of_unknown(list(self._pairs(chunk, 0)))
        if self.kind == TEXT:
            for place, model in enumerate(self.models):
                model.reader.examine(list(self._pairs(chunk, place)), "text")
            self.refuse_swapped(first)

    def refuse_swapped(self, first: Sequence[Item]) -> None:
        """Refuses pairs that the model finds far likelier the other way round."""
        model = self.forcing.model
        if not (hasattr(model, "encoder") and hasattr(model, "decoder")):
            return
        ways = []
        for number, item in enumerate(first[:COMPARED], 1):
            source, target = item.sides[0]
            if target is None:
                return
            both_ways = (source, target), (target, source)
            pairs = [self.reader.pair(*way, f"{self.kind} {number}") for way in both_ways]
            if all(map(self.forcing.takes, pairs)):
                ways.append(pairs)
        if not ways:
            return
        given, swapped = (loss_per_token(self.forcing, pairs) for pairs in zip(*ways, strict=True))
        if given - swapped > SWAPPED:
            raise InputError(
                f"source and target seem to be swapped: the model's loss is {given:.1f} per token, "
                f"and {swapped:.1f} from target to source; name the text of the source first"
            )


def with_masks(
    pairs: Sequence[Pair], share: float, mask: int, *, seed: int, first: int = 0
) -> list[Pair]:
    """The pairs with tokens of their sources masked: by seed and line, whoever reads the line.

    Args:
        first: the line of the first pair, from 0.
    """
    with_mask = []
    for line, pair in enumerate(pairs, first):
        source = masked(pair.source, share, mask, Random(f"{seed} {line}"))
        with_mask.append(pair._replace(source=source))
    return with_mask


def masked(sentence: Sentence, share: float, mask: int, draws: Random) -> Sentence:
    """A sentence with ⌊share · n⌋ of its n tokens masked, one at least (Kobayashi et al., 2021).

    Special tokens are not counted, and stay. Every token that is drawn becomes the mask; in a
    model's training, some become another word or stay. A share of 0 masks none.
    """
    places = [place for place, word in enumerate(sentence.words) if word >= 0]
    rounded_down = int(share * len(places) + 1e-9)  # 0.29 · 100 is 28.999… in a computer
    fewest = 1 if share > 0 and places else 0
    tokens = sentence.tokens.clone()
    for place in draws.sample(places, max(rounded_down, fewest)):
        tokens[place] = mask
    return sentence._replace(tokens=tokens)
