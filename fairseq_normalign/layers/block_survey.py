"""What is measured of whole attention blocks over a corpus, in one pass."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from torch import nn

from fairseq_normalign.attention.layer import refuse_unknown_layers
from fairseq_normalign.errors import InputError
from fairseq_normalign.host.batches import Progress, numbered_batches
from fairseq_normalign.host.pairs import Pair, Sentence, Side
from fairseq_normalign.host.raw_corpus import PAIRS, ChunkReader
from fairseq_normalign.host.teacher_forcing import Model
from fairseq_normalign.layers.block_pass import (
    BlockBatch,
    TokenTable,
    block_batches,
    running_kinds,
    texts_of,
)
from fairseq_normalign.layers.categories import (
    DEFAULT,
    PRESETS,
    Categories,
    RankByCount,
    Ranks,
    rank_by_id,
)
from fairseq_normalign.layers.mixing import (
    LAYERS,
    Mixing,
    MixingResult,
    add_layers,
    add_mixing,
    mixing_of,
)
from fairseq_normalign.layers.statistics import (
    Statistics,
    StatisticsResult,
    add_statistics,
    statistics_of,
    weight_facts,
)
from fairseq_normalign.results.result import Result
from fairseq_normalign.runs.chunks import Chunk, Partial
from fairseq_normalign.runs.joins import Gathered
from fairseq_normalign.runs.measure import measure_here
from fairseq_normalign.text.frequencies import Frequencies
from fairseq_normalign.version import __version__

EXAMINED = 100  # pairs that tell whether frequencies are of pieces or of words


@dataclass(frozen=True)
class Counted:
    """How often pieces or words are in the training data of one side."""

    counts: Mapping[str, float]
    name: str  # of their file


@dataclass(frozen=True)
class BlockOptions:
    """How blocks are measured.

    Args:
        categories: of tokens.
        ranks: where frequency ranks come from, ``ids`` or ``counts`` of the dictionary.
        frequencies: of source and target tokens, from files instead of the dictionary.
        mixing: measure mixing ratios.
        layers: also those of whole layers, feed-forward nets included.
        statistics: measure α and ‖f(x)‖.
        max_tokens: how many tokens, padding included, are run at once.
    """

    categories: Categories = PRESETS[DEFAULT]
    ranks: str = "ids"
    frequencies: Mapping[str, Counted] = field(default_factory=dict)
    mixing: bool = True
    layers: bool = False
    statistics: bool = False
    max_tokens: int = 4000


@dataclass(frozen=True)
class BlockSurvey:
    """What was found, by kind of attention; what was not asked for is empty."""

    sentences: int
    mixing: Mapping[str, Mixing]
    statistics: Mapping[str, Statistics]

    def results(self, signature: Mapping[str, object]) -> list[Result]:
        """What was measured, as results that show themselves."""
        signature = {**signature, "sentences": self.sentences, "version": __version__}
        shown: list[Result] = []
        if self.mixing:
            shown.append(MixingResult(self.mixing, signature))
        if self.statistics:
            shown.append(StatisticsResult(self.statistics, signature))
        return shown

    def _repr_html_(self) -> str:
        return "\n".join(result._repr_html_() for result in self.results({}))


class Blocks:
    """The measure: what is summed over a corpus.

    Args:
        number: of the model, from 1, if there are several.
    """

    pairs_per_chunk = 1000

    def __init__(self, options: BlockOptions, number: int | None = None):
        self.options = options
        self.name = "blocks" if number is None else f"blocks-{number}"
        counts = options.frequencies or options.ranks == "counts"
        self.first_pairs = EXAMINED if counts else 0

    def prepare(self, models: ChunkReader, first: Chunk) -> dict[str, Any]:
        """Whether frequencies are of words, and what the weights of the model say."""
        kinds = running_kinds(models.forcing)
        pairs = [pair for pair in models.pairs(first)[0] if not pair.skipped]
        symbols: list[str] = []
        of_words = {}
        for side, name in texts_of(models.forcing).items():
            reader: Side = getattr(models.reader, name)
            symbols += reader.symbols(range(len(reader.dictionary)))
            counted = self._counted(reader)
            spelled = []
            for pair in pairs:
                sentence: Sentence = getattr(pair, name)
                words = [sentence.text[word] for word in sentence.words if word >= 0]
                spelled.append((reader.pieces(sentence), words))
            if counted is not None:
                of_words[side] = Frequencies(counted.counts, counted.name, spelled).of_words
        self.options.categories.check_vocabulary(symbols)
        if self.options.layers:
            refuse_unknown_layers(models.forcing.model, kinds)
        facts = weight_facts(models.forcing.model, kinds) if self.options.statistics else {}
        return {"kinds": kinds, "of_words": of_words, "weights": facts}

    def _counted(self, side: Side) -> Counted | None:
        """The counts that ranks come from, if not from the order of the dictionary."""
        if side.name in self.options.frequencies:
            return self.options.frequencies[side.name]
        if self.options.ranks == "ids":
            return None
        return Counted(side.vocabulary.counts, f"the {side.name} dictionary")

    def chunk(
        self, models: ChunkReader, chunk: Chunk, prepared: Mapping[str, Any], progress: Progress
    ) -> Partial:
        pairs, notes = models.pairs(chunk)
        measured = {}
        for line, pair in enumerate(pairs, chunk.first):
            # The marks of a blank line alone would pass for text.
            if not pair.skipped and (pair.source.text or pair.target.text):
                measured[line] = pair
        lines, sums = list(measured), Gathered()
        tables = self._tables(models, prepared["of_words"])
        for numbered in numbered_batches(
            measured.values(), max_tokens=self.options.max_tokens, progress=progress
        ):
            batch = [pair for _, pair in numbered]
            of_batch = [lines[number] for number, _ in numbered]
            # Without a name: the next batch needs as much memory.
            self._add(
                sums,
                block_batches(models.forcing, batch, of_batch, tables),
                models.forcing.model,
            )
        progress(len(pairs) - len(measured))
        return sums.partial(notes)

    def _add(self, sums: Gathered, of_kinds: Sequence[BlockBatch], model: nn.Module) -> None:
        """Adds a batch."""
        categories = len(self.options.categories.names)
        sums.add("sentences.sum", np.array([len(of_kinds[0].lines)]))
        for batch in of_kinds:
            if self.options.mixing:
                add_mixing(sums, batch, categories)
            if self.options.statistics:
                add_statistics(sums, batch, categories)
        if self.options.layers:
            add_layers(sums, of_kinds, model, categories)

    def _tables(self, models: ChunkReader, of_words: Mapping[str, bool]) -> dict[str, TokenTable]:
        """How tokens are looked up on each side that the attentions see."""
        tables = {}
        for side, name in texts_of(models.forcing).items():
            reader = getattr(models.reader, name)
            counted = self._counted(reader)
            ranks: Ranks = rank_by_id
            if counted is not None:
                ranks = RankByCount(counted.counts, of_words=of_words[side])
            tables[side] = TokenTable(reader, self.options.categories, ranks)
        return tables

    def finish(self, total: Partial, prepared: Mapping[str, Any]) -> BlockSurvey:
        arrays, categories = total.arrays, self.options.categories
        if "sentences.sum" not in arrays:
            raise InputError("attention cannot be measured on a corpus without words")
        mixing, statistics = {}, {}
        for kind in prepared["kinds"]:
            if self.options.mixing:
                mixing[kind] = mixing_of(arrays, kind, categories)
            if prepared["weights"].get(kind):
                known = prepared["weights"][kind]
                statistics[kind] = statistics_of(arrays, kind, known, categories)
        for name in LAYERS:
            if f"mixing.{name}.tokens.sum" in arrays:
                mixing[name] = mixing_of(arrays, name, categories)
        return BlockSurvey(int(arrays["sentences.sum"][0]), mixing, statistics)


def survey_blocks(
    model: Model,
    pairs: Iterable[Pair],
    options: BlockOptions | None = None,
    *,
    progress: Progress | None = None,
) -> BlockSurvey:
    """Measures the attention blocks of a model on sentence pairs.

    Examples:
        >>> survey_blocks(aligner, pairs).mixing["encoder"].mean

    Args:
        model: an aligner, or another object with ``forcing`` and ``reader``.
        pairs: sentence pairs as the reader reads them.
    """
    in_memory = ChunkReader([model], PAIRS)
    return measure_here(Blocks(options or BlockOptions()), in_memory, pairs, progress)
