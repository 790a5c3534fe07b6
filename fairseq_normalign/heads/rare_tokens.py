"""Which source tokens of a corpus are rare, and in which sentences it is asked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from fairseq_normalign.errors import InputError
from fairseq_normalign.heads.head_scores import RARE_TOP
from fairseq_normalign.heads.profiling import Survey
from fairseq_normalign.host.pairs import Pair, PairReader, Sentence
from fairseq_normalign.text.frequencies import Frequencies


class RareTokens(NamedTuple):
    """How frequent source tokens are, and below what a sentence has a token that is rare."""

    frequencies: Frequencies
    reader: PairReader
    bar: float

    def counts(self, pairs: Sequence[Pair]) -> Tensor:
        """How frequent each source token of some pairs is, (B, S); 0 for padding."""
        counts = []
        for pair in pairs:
            pieces, words = spelled(pair.source, self.reader)
            counts.append(torch.tensor(self.frequencies(pieces, words)))
        return pad_sequence(counts, batch_first=True)

    def examined(self, counts: Tensor, keys: Tensor) -> Tensor:
        """The sentences whose rarest token is rare enough, (B,), by counts and words (B, S)."""
        return (keys & (counts < self.bar)).any(1)


def rare_tokens(survey: Survey) -> RareTokens | str:
    """The criterion of a survey; a reason if nothing can be said by it.

    What the survey's options name, and what then cannot be used, is refused.
    """
    options = survey.options
    top = RARE_TOP if options.rare_top is None else options.rare_top
    sentences = [without_marks(pair.source, survey.reader) for pair in survey.pairs]
    counts, name = options.counts, options.counts_name
    if counts is None:
        counts = dictionary_counts(survey.reader.task.source_dictionary)
        name = "the dictionary"
    try:
        frequencies = Frequencies(counts, name, sentences)
    except InputError as error:
        if options.counts is not None:
            raise
        return f"{error}; name counts of the source"
    if top >= len(counts):
        reason = f"{name} has {len(counts)} types, all among the {top} most frequent"
        return unusable(survey, reason)
    return RareTokens(frequencies, survey.reader, frequencies.bar(top))


def unusable(survey: Survey, reason: str) -> str:
    """Why the criterion says nothing, with what can be done; refused if the options ask for it."""
    top = survey.options.rare_top
    if top is not None:
        raise InputError(f"--rare-top {top}: {reason}; expected fewer")
    return f"{reason}; --rare-top N takes fewer, and 0 all sentences"


def spelled(sentence: Sentence, reader: PairReader) -> tuple[list[str], list[str]]:
    """The pieces of a source sentence, and the word of each; marks are their own."""
    pieces = reader.symbols(sentence.tokens.tolist(), "source")
    words = []
    for piece, word in zip(pieces, sentence.words, strict=True):
        words.append(sentence.text[word] if word >= 0 else piece)
    return pieces, words


def without_marks(sentence: Sentence, reader: PairReader) -> tuple[list[str], list[str]]:
    """The same without marks such as </s>."""
    pieces, words = spelled(sentence, reader)
    places = [place for place, word in enumerate(sentence.words) if word >= 0]
    return [pieces[place] for place in places], [words[place] for place in places]


def dictionary_counts(dictionary) -> dict[str, float]:
    """How often each symbol was in the text that ``fairseq-preprocess`` saw."""
    first = dictionary.nspecial
    counted = zip(dictionary.symbols[first:], dictionary.count[first:], strict=True)
    return {symbol: count for symbol, count in counted if not symbol.startswith("madeupword")}
