"""What is measured of whole attention blocks over a corpus, in one pass."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, islice

import numpy as np

from fairseq_normalign.errors import InputError
from fairseq_normalign.host.batches import Progress
from fairseq_normalign.host.pairs import Pair
from fairseq_normalign.host.teacher_forcing import Model
from fairseq_normalign.layers.block_pass import (
    BlockBatch,
    Watcher,
    running_kinds,
    sides_of,
    watch_blocks,
)
from fairseq_normalign.layers.categories import DEFAULT, PRESETS, Categories
from fairseq_normalign.layers.mixing import Mixing, MixingResult, MixingWatcher
from fairseq_normalign.layers.statistics import Statistics, StatisticsResult, StatisticsWatcher
from fairseq_normalign.layers.tokens import TokenTable, ranks_of, text_side, vocabulary
from fairseq_normalign.results.result import Result
from fairseq_normalign.runs.sums import Sums
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
        frequencies: of the sides, source and target, where they come from a file instead.
        mixing: measure mixing ratios.
        statistics: measure α and ‖f(x)‖.
        max_tokens: how many tokens, padding included, are run at once.
    """

    categories: Categories = PRESETS[DEFAULT]
    ranks: str = "ids"
    frequencies: Mapping[str, Counted] = field(default_factory=dict)
    mixing: bool = True
    statistics: bool = False
    max_tokens: int = 4000


@dataclass(frozen=True)
class BlockSurvey:
    """What was found, by kind of attention; what was not asked for is empty."""

    sentences: int
    mixing: Mapping[str, Mixing]
    statistics: Mapping[str, Statistics]

    def results(self) -> list[Result]:
        """What was measured, as results that show themselves."""
        signature = {"sentences": self.sentences, "version": __version__}
        shown: list[Result] = []
        if self.mixing:
            shown.append(MixingResult(self.mixing, signature))
        if self.statistics:
            shown.append(StatisticsResult(self.statistics, signature))
        return shown

    def _repr_html_(self) -> str:
        return "\n".join(result._repr_html_() for result in self.results())


class TokenCounter:
    """Counts the sentences, and the tokens of each category on all sides."""

    KEPT = ("sentences", "tokens")

    def __init__(self, categories: Categories):
        self.sentences = 0
        self.tokens = np.zeros(len(categories.names), dtype=np.int64)

    def __call__(self, batch: BlockBatch) -> None:
        self.sentences += len(batch.places)
        for tokens in batch.tokens.values():
            found = tokens.categories[tokens.categories >= 0]
            self.tokens += found.bincount(minlength=len(self.tokens)).cpu().numpy()


def survey_blocks(
    model: Model,
    pairs: Iterable[Pair],
    options: BlockOptions | None = None,
    *,
    progress: Progress | None = None,
    sums: Sums | None = None,
) -> BlockSurvey:
    """Measures the attention blocks of a model on sentence pairs.

    Examples:
        >>> survey_blocks(aligner, pairs).mixing["encoder"].mean

    Args:
        model: an aligner, or what else has ``forcing`` and ``reader``.
        pairs: sentence pairs as the reader reads them.
        sums: where they are kept meanwhile; by default nowhere.
    """
    options = options or BlockOptions()
    stream = (pair for pair in pairs if not pair.skipped)
    first = list(islice(stream, EXAMINED))
    tables = token_tables(model, first, options)
    counter = TokenCounter(options.categories)
    mixing = MixingWatcher(options.categories)
    watchers: list[Watcher] = [counter]
    if options.mixing:
        watchers.append(mixing)
    statistics = StatisticsWatcher(options.categories)
    if options.statistics:
        watchers.append(statistics)
    watch_blocks(
        model.forcing,
        _with_words(chain(first, stream)),
        watchers,
        tables,
        max_tokens=options.max_tokens,
        progress=progress,
        sums=sums,
    )
    options.categories.check_counts(counter.tokens.tolist())
    statistics_by_kind = statistics.result(model.forcing.model)
    return BlockSurvey(counter.sentences, mixing.result(), statistics_by_kind)


def _with_words(pairs: Iterable[Pair]) -> Iterator[Pair]:
    """The pairs without blank lines, whose marks alone would pass for text."""
    measured = 0
    for pair in pairs:
        if pair.source.text or pair.target.text:
            measured += 1
            yield pair
    if measured == 0:
        raise InputError("attention cannot be measured on a corpus without words")


def token_tables(model: Model, first: list[Pair], options: BlockOptions) -> dict[str, TokenTable]:
    """How tokens are looked up on each side that the attentions see.

    Args:
        first: some pairs of the corpus.
    """
    sides = sides_of(running_kinds(model.forcing))
    texts = {side: text_side(model.forcing, side) for side in sides}
    options.categories.check_vocabulary(vocabulary(model.reader, list(texts.values())))
    tables = {}
    for side, name in texts.items():
        reader = getattr(model.reader, name)
        counted = options.frequencies.get(name)
        ranks = ranks_of(
            reader,
            options.ranks,
            None if counted is None else counted.counts,
            "" if counted is None else counted.name,
            [getattr(pair, name) for pair in first],
        )
        tables[side] = TokenTable(reader, options.categories, ranks)
    return tables
