"""Sentence pairs as a model takes them: tokens, the word of each, and the words themselves."""

from __future__ import annotations

import warnings
from argparse import Namespace
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import torch
from fairseq.data import Dictionary, encoders
from torch import Tensor

from fairseq_normalign.alignment.words import normalise_bpe_name, split_words, word_ids
from fairseq_normalign.errors import InputError
from fairseq_normalign.host.special_tokens import special_tokens_of

CHECKED_PAIRS = 100  # of a text, for pieces that the dictionary does not have

BPE_FILES = {
    "sentencepiece": "sentencepiece_model",
    "subword_nmt": "bpe_codes",
    "fastbpe": "bpe_codes",
}


class Sentence(NamedTuple):
    """One side of a pair as the model takes it."""

    tokens: Tensor  # ids, with </s> and other marks
    words: list[int]  # the word of each token, never decreasing; -1 for marks
    text: list[str]  # the words themselves


NO_SENTENCE = Sentence(
    torch.tensor([], dtype=torch.long), [], []
)  # the target of a model without a decoder


class Pair(NamedTuple):
    source: Sentence
    target: Sentence
    where: str  # for error messages


class PairReader:
    """Text or binarised data → :class:`Pair`, by a task's dictionaries and marks and the model's
    own tokeniser and BPE.

    Args:
        bpe: fairseq's BPE object, or None if the text is already split into pieces.
        scheme: how pieces join to words (see ``alignment.words``).
        tokenizer: fairseq's tokeniser object, or None if the text is already split into words.
    """

    def __init__(self, task, *, bpe=None, scheme: str = "none", tokenizer=None):
        self.task, self.marks = task, special_tokens_of(task)
        self.bpe, self.scheme, self.tokenizer = bpe, scheme, tokenizer

    @classmethod
    def from_args(cls, task, args: Namespace) -> PairReader:
        """From fairseq's ``--bpe``, ``--tokenizer`` and ``--post-process`` with their own
        options."""
        scheme = normalise_bpe_name(args.bpe or args.post_process)
        try:
            return cls(
                task,
                bpe=encoders.build_bpe(args),
                scheme=scheme,
                tokenizer=encoders.build_tokenizer(args),
            )
        except (
            OSError,
            ImportError,
        ) as error:  # a model file that is missing or no model, or a package
            reason = (
                "its model or codes are not named" if "???" in str(error) else str(error).strip()
            )
            raise InputError(f"--bpe {args.bpe}, --tokenizer {args.tokenizer}: {reason}") from None

    @classmethod
    def from_names(
        cls, task, *, bpe: str | None = None, model: str | None = None, tokenizer: str | None = None
    ):
        """From fairseq's names of BPE and tokeniser, and the BPE's file."""
        file = {BPE_FILES.get(bpe, "bpe_codes"): model} if model else {}
        return cls.from_args(
            task, Namespace(bpe=bpe, post_process=None, tokenizer=tokenizer, **file)
        )

    def pair(
        self, source: str | Sequence[str], target: str | Sequence[str] | None, where: str
    ) -> Pair:
        """A pair of texts, each a line or a list of words; no target is None."""
        return Pair(
            self._text(source, self.task.source_dictionary, self.marks.source, f"source {where}"),
            self._text(target, self.task.target_dictionary, self.marks.target, f"target {where}"),
            where,
        )

    def binarised_pair(self, source: Tensor, target: Tensor | None, where: str) -> Pair:
        """A pair of sentences as ``fairseq-preprocess`` writes them; no target is None."""
        return Pair(
            self._binarised(
                source, self.task.source_dictionary, self.marks.source, f"source of {where}"
            ),
            self._binarised(
                target, self.task.target_dictionary, self.marks.target, f"target of {where}"
            ),
            where,
        )

    def symbols(self, tokens: Sequence[int], side: str) -> list[str]:
        """The pieces and marks that tokens stand for."""
        dictionary = getattr(self.task, f"{side}_dictionary")
        return [self._printed(dictionary[index]) for index in tokens]

    def _text(
        self, sentence: str | Sequence[str] | None, dictionary: Dictionary, marks: tuple, where: str
    ) -> Sentence:
        if sentence is None:
            return NO_SENTENCE
        text = sentence if isinstance(sentence, str) else " ".join(_checked(sentence, where))
        words = split_words(text if self.tokenizer is None else self.tokenizer.encode(text))
        if self.bpe is None:
            symbols, words = words, None
        else:  # split at blanks alone: a piece may hold a no-break space
            symbols = [symbol for symbol in self.bpe.encode(" ".join(words)).split(" ") if symbol]
        return self._sentence(
            symbols, [dictionary.index(symbol) for symbol in symbols], marks, words, where
        )

    def _binarised(
        self, tokens: Tensor | None, dictionary: Dictionary, marks: tuple, where: str
    ) -> Sentence:
        if tokens is None:
            return NO_SENTENCE
        ids = [index for index in tokens.tolist() if index != dictionary.eos()]
        if dictionary.unk() in ids and self.scheme != "none":
            warnings.warn(
                "the binarised data hold <unk>, which does not tell where words begin: links may "
                "be off; align the "
                "text itself with --source-file and --target-file",
                stacklevel=2,
            )
        return self._sentence([dictionary[index] for index in ids], ids, marks, None, where)

    def _sentence(
        self, symbols, ids: list[int], marks: tuple, words: list[str] | None, where: str
    ) -> Sentence:
        pieces = [self._printed(symbol) for symbol in symbols]
        of_pieces = word_ids(pieces, self.scheme, words=words, where=where)
        text = _joined(pieces, of_pieces) if words is None else words
        before, after = marks
        tokens = torch.tensor([*before, *ids, *after])
        return Sentence(tokens, [*[-1] * len(before), *of_pieces, *[-1] * len(after)], text)

    def _printed(self, symbol: str) -> str:
        """A dictionary's symbol as the letters of a piece: GPT-2's dictionaries hold numbers."""
        letters = getattr(getattr(self.bpe, "bpe", None), "decoder", None)
        return letters[int(symbol)] if isinstance(letters, dict) and symbol.isdigit() else symbol


def _checked(words: Sequence[str], where: str) -> Sequence[str]:
    for word in words:
        if split_words(word) != [word]:
            raise InputError(f"{where}: {word!r} is not one word; expected words without blanks")
    return words


def _joined(pieces: Sequence[str], ids: Sequence[int]) -> list[str]:
    text = [""] * (ids[-1] + 1 if ids else 0)
    for piece, word in zip(pieces, ids, strict=True):
        text[word] += piece.strip("▁Ġ").replace("@@", "")
    return text


def text_pairs(sentences: Iterable[tuple], reader: PairReader) -> Iterator[Pair]:
    """Pairs of a stream of (source, target)."""
    unknown = total = number = 0
    for number, (source, target) in enumerate(sentences, 1):
        pair = reader.pair(source, target, f"line {number}")
        if number <= CHECKED_PAIRS:
            tokens = pair.source.tokens[:-1]
            unknown += int(tokens.eq(reader.task.source_dictionary.unk()).sum())
            total += len(tokens)
            if number == CHECKED_PAIRS and unknown > total / 2:
                raise InputError(_unknown(unknown, total))
        yield pair
    if number < CHECKED_PAIRS and unknown > total / 2:  # too few to be sure
        warnings.warn(_unknown(unknown, total), stacklevel=2)


def _unknown(unknown: int, total: int) -> str:
    return (
        f"{unknown} of the first {total} source pieces are not in the dictionary; is the BPE "
        "(--bpe) missing, or is it "
        "the dictionary of another model?"
    )
