"""What is measured of whole attention blocks over a corpus, in one pass."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from fairseq_normalign.attention.block import Block
from fairseq_normalign.attention.layer import refuse_unknown_layers
from fairseq_normalign.attention.recorder import recorded_blocks
from fairseq_normalign.errors import InputError
from fairseq_normalign.heads.attention_pass import PADDING, read_words
from fairseq_normalign.heads.rare_tokens import spelled
from fairseq_normalign.host.attention_modules import attentions
from fairseq_normalign.host.batches import Progress, numbered_batches
from fairseq_normalign.host.pairs import Pair, Sentence, Side
from fairseq_normalign.host.raw_corpus import PAIRS, ChunkReader
from fairseq_normalign.host.teacher_forcing import Model, TeacherForcing
from fairseq_normalign.layers.categories import (
    DEFAULT,
    PRESETS,
    Categories,
    Ranks,
    Token,
    rank_by_count,
    rank_by_id,
)
from fairseq_normalign.layers.mixing import (
    LAYERS,
    BlockBatch,
    Mixing,
    MixingResult,
    TokenBatch,
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
from fairseq_normalign.names import KINDS
from fairseq_normalign.results.result import Result
from fairseq_normalign.runs.chunks import Chunk, Partial
from fairseq_normalign.runs.joins import Gathered
from fairseq_normalign.runs.measure import measure_here
from fairseq_normalign.text.frequencies import Frequencies
from fairseq_normalign.text.words import without_mark
from fairseq_normalign.version import __version__

EXAMINED = 100  # pairs that tell whether frequencies are of pieces or of words
MARK = -1  # in the place of a word: special tokens
Counted = tuple[Mapping[str, float], str]  # how often tokens are in the training data; their file


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
            if counted is not None:
                sentences = [spelled(getattr(pair, name), reader) for pair in pairs]
                of_words[side] = Frequencies(*counted, sentences).of_words
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
        return side.vocabulary.counts, f"the {side.name} dictionary"

    def chunk(
        self, models: ChunkReader, chunk: Chunk, prepared: Mapping[str, Any], progress: Progress
    ) -> Partial:
        pairs, notes = models.pairs(chunk)
        measured = {}
        for line, pair in enumerate(pairs, chunk.first):
            if pair.has_text:
                measured[line] = pair
        lines, sums = list(measured), Gathered()
        readers = self._readers(models, prepared["of_words"])
        for numbered in numbered_batches(
            measured.values(), max_tokens=self.options.max_tokens, progress=progress
        ):
            batch = [pair for _, pair in numbered]
            of_batch = [lines[number] for number, _ in numbered]
            # Without a name: the next batch needs as much memory.
            self._add(
                sums,
                block_batches(models.forcing, batch, of_batch, readers),
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

    def _readers(self, models: ChunkReader, of_words: Mapping[str, bool]) -> dict[str, ReadTokens]:
        """How tokens are looked up on each side that the attentions see."""
        readers = {}
        for side, name in texts_of(models.forcing).items():
            reader = getattr(models.reader, name)
            counted = self._counted(reader)
            ranks: Ranks = rank_by_id
            if counted is not None:
                ranks = rank_by_count(counted[0], of_words=of_words[side])
            readers[side] = token_reader(reader, self.options.categories, ranks)
        return readers

    def finish(self, total: Partial, prepared: Mapping[str, Any]) -> BlockSurvey:
        arrays, categories = total.arrays, self.options.categories
        if "sentences.sum" not in arrays:
            raise InputError("attention cannot be measured on a corpus without words")
        mixing, statistics = {}, {}
        for name in (*prepared["kinds"], *LAYERS):
            if f"mixing.{name}.tokens.sum" in arrays:
                mixing[name] = mixing_of(arrays, name, categories)
            known = prepared["weights"].get(name)
            if known:
                statistics[name] = statistics_of(arrays, name, known, categories)
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


ReadTokens = Callable[[Tensor, Tensor, Sequence[Sentence]], TokenBatch]


def token_reader(side: Side, categories: Categories, ranks: Ranks) -> ReadTokens:
    """A function that looks up the tokens of one side, each kind of token once."""

    @cache
    def look_up(index: int, is_special: bool, continues: bool) -> tuple[Token, int]:
        """A token and its category."""
        (symbol,) = side.symbols([index])
        letters = without_mark(symbol, side.segmentation.scheme)
        token = Token(index, symbol, letters, is_special, continues)
        return token, categories.index(token)

    def read(ids: Tensor, words: Tensor, sentences: Sequence[Sentence]) -> TokenBatch:
        """The tokens of a batch, on the device of what the model reads.

        Args:
            ids: what the model reads, (B, T).
            words: the word of each token, -1 for special ones, -2 for padding, (B, T).
            sentences: that the words are of.
        """
        indices, of_words = ids.cpu().numpy(), words.numpy()
        is_special = of_words == MARK
        continues = (np.diff(of_words, prepend=PADDING) == 0) & (of_words >= 0)
        numbers = np.full(words.shape, -1)
        ranked = np.full(words.shape, np.nan, dtype=np.float32)
        for at in zip(*np.nonzero(of_words != PADDING), strict=True):
            token, numbers[at] = look_up(indices[at], is_special[at], continues[at])
            text = token.symbol if is_special[at] else sentences[at[0]].text[of_words[at]]
            ranked[at] = ranks(token, text)
        known = numbers, ranked, is_special
        return TokenBatch(*(torch.from_numpy(of_tokens).to(ids.device) for of_tokens in known))

    return read


def block_batches(
    forcing: TeacherForcing,
    pairs: list[Pair],
    lines: Sequence[int],
    readers: Mapping[str, ReadTokens],
) -> list[BlockBatch]:
    """The blocks of all kinds of attention on some pairs, which are run together.

    Args:
        lines: of the pairs in the corpus, from 0.
        readers: of tokens, for the sides that the attentions see.
    """
    source, target, _ = forcing.tensors(pairs)
    ids = {"source": source, "target": target}
    tokens = {}
    for side, name in texts_of(forcing).items():
        sentences = [getattr(pair, name) for pair in pairs]
        tokens[side] = readers[side](ids[name], read_words(pairs, name), sentences)
    blocks: dict[str, dict[int, Block]] = {}
    for (kind, layer), block in recorded_blocks(forcing, pairs, running_kinds(forcing)).items():
        blocks.setdefault(kind, {})[layer] = block
    places = [pair.where for pair in pairs]
    of_kinds = []
    for number, (kind, of_kind) in enumerate(blocks.items()):
        seen = tokens[KINDS[kind].queries], tokens[KINDS[kind].keys]
        of_kinds.append(BlockBatch(kind, number, of_kind, *seen, places, lines))
    return of_kinds


def running_kinds(forcing: TeacherForcing) -> list[str]:
    """The kinds of attention that are looked at: all, or the self-attention that was asked for."""
    there = {kind for kind, _ in attentions(forcing.model)}
    if KINDS[forcing.attention].self_attention:
        there &= {forcing.attention}
    return [kind for kind in KINDS if kind in there]


def texts_of(forcing: TeacherForcing) -> dict[str, str]:
    """The sides that the attentions see, and where their text is in pairs.

    A language model's decoder reads the source.
    """
    texts = {}
    for kind in running_kinds(forcing):
        for side in (KINDS[kind].queries, KINDS[kind].keys):
            texts[side] = "source" if forcing.is_language_model else side
    return texts
