"""Which source tokens of a corpus are rare, and in which sentences it is asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import compress
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from fairseq_normalign.errors import InputError
from fairseq_normalign.heads.head_scores import RARE_TOP, ProfileOptions
from fairseq_normalign.host.pairs import Pair, PairReader, Sentence, Side
from fairseq_normalign.host.raw_corpus import ChunkReader
from fairseq_normalign.runs.chunks import Chunk
from fairseq_normalign.text.frequencies import Frequencies

FIRST_PAIRS = 1000  # that tell whether counts are of words or of pieces


class RareTokens(NamedTuple):
    """How frequent source tokens are, and below what a sentence has a token that is rare."""

    side: Side
    frequencies: Mapping[str, float]
    of_words: bool = False  # and not of pieces
    bar: float | None = None  # None: all sentences count

    def counts(self, pairs: Sequence[Pair]) -> Tensor:
        """How frequent each source token of some pairs is, (B, S); 0 for marks and padding."""
        counts = []
        for pair in pairs:
            tokens = spelled(pair.source, self.side)[self.of_words]
            of_words = iter([self.frequencies.get(token, 0.0) for token in tokens])
            of_tokens = [next(of_words) if word >= 0 else 0.0 for word in pair.source.words]
            counts.append(torch.tensor(of_tokens))
        return pad_sequence(counts, batch_first=True)

    def examined(self, counts: Tensor, keys: Tensor) -> Tensor:
        """The sentences whose rarest token is rare enough, (B,), by counts and words (B, S)."""
        return keys.any(1) if self.bar is None else (keys & (counts < self.bar)).any(1)


def prepared_rare(models: ChunkReader, first: Chunk, options: ProfileOptions) -> dict[str, Any]:
    """What ``RareTokens`` must know, as JSON holds it; or why nothing can be said.

    What the options name, and what then cannot be used, is refused.
    """
    pairs = [pair for pair in models.pairs(first)[0] if not pair.skipped]
    source = models.reader.source
    sentences = [spelled(pair.source, source) for pair in pairs]
    counts = counts_of(source, options)
    name = "the dictionary" if options.counts is None else options.counts_name
    try:
        frequencies = Frequencies(counts, name, sentences)
    except InputError as error:
        if options.counts is not None:
            raise
        return {"unusable": f"{error}; name counts of the source"}
    top = top_of(options)
    if top >= len(counts):
        reason = f"{name} has {len(counts)} types, all among the {top} most frequent"
        return {"unusable": unusable(options, reason)}
    return {"of_words": frequencies.of_words, "bar": frequencies.bar(top) if top else None}


def rare_tokens(
    reader: PairReader, options: ProfileOptions, prepared: Mapping[str, Any]
) -> RareTokens | None:
    """The criterion that was prepared; None if nothing can be said by it."""
    if "unusable" in prepared:
        return None
    counts = counts_of(reader.source, options)
    return RareTokens(reader.source, counts, prepared["of_words"], prepared["bar"])


def counts_of(side: Side, options: ProfileOptions) -> Mapping[str, float]:
    """How often tokens are in the training data, by default as the dictionary says."""
    return side.vocabulary.counts if options.counts is None else options.counts


def top_of(options: ProfileOptions) -> int:
    """How many of the most frequent tokens are not rare."""
    return RARE_TOP if options.rare_top is None else options.rare_top


def unusable(options: ProfileOptions, reason: str) -> str:
    """Why the criterion says nothing, with what can be done; refused if the options ask for it."""
    if options.rare_top is not None:
        raise InputError(f"--rare-top {options.rare_top}: {reason}; expected fewer")
    return f"{reason}; --rare-top N takes fewer, and 0 all sentences"


def spelled(sentence: Sentence, side: Side) -> tuple[list[str], list[str]]:
    """The pieces of a sentence without marks such as </s>, and the word of each."""
    tokens = compress(sentence.tokens.tolist(), (word >= 0 for word in sentence.words))
    words = [sentence.text[word] for word in sentence.words if word >= 0]
    return side.symbols(list(tokens)), words
