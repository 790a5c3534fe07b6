"""Sentence pairs in, batches of similar length to the model, results out in input order."""

from __future__ import annotations

from argparse import Namespace
from itertools import islice
from typing import Callable, Iterable, Iterator, NamedTuple, Sequence, TypeVar

import torch
from fairseq.data import Dictionary, encoders
from torch import Tensor

from fairseq_normalign.alignment.words import normalise_bpe_name, split_words, word_ids
from fairseq_normalign.errors import InputError

WINDOW = 10_000  # pairs held in memory at once, to be sorted by length

BPE_FILES = {"sentencepiece": "sentencepiece_model", "subword_nmt": "bpe_codes", "fastbpe": "bpe_codes"}

Result = TypeVar("Result")


class Sentence(NamedTuple):
    """One side of a pair as the model takes it."""

    tokens: Tensor  # ids, with </s>
    words: list[int]  # the word of each token, never decreasing; -1 for </s> and other marks
    count: int  # how many words there are
    text: list[str]  # the words themselves


class Pair(NamedTuple):
    source: Sentence
    target: Sentence
    where: str  # for error messages


class Encoder:
    """Text → :class:`Sentence`, by the task's dictionary and the model's own tokeniser and BPE.

    Args:
        bpe: fairseq's BPE object, or None if the text is already split into pieces.
        scheme: how pieces join to words (see ``alignment.words``).
        tokenizer: fairseq's tokeniser object, or None if the text is already split into words.
    """

    def __init__(self, *, bpe=None, scheme: str = "none", tokenizer=None):
        self.bpe, self.scheme, self.tokenizer = bpe, scheme, tokenizer

    @classmethod
    def from_args(cls, args: Namespace) -> Encoder:
        """From fairseq's ``--bpe``, ``--tokenizer`` and ``--post-process`` with their own options."""
        scheme = normalise_bpe_name(args.bpe or args.post_process)
        try:
            return cls(bpe=encoders.build_bpe(args), scheme=scheme, tokenizer=encoders.build_tokenizer(args))
        except OSError as error:  # a model file that is missing or no model
            raise InputError(f"--bpe {args.bpe}: {error}") from None

    @classmethod
    def from_names(cls, *, bpe: str | None, model: str | None, tokenizer: str | None) -> Encoder:
        """From fairseq's names of BPE and tokeniser, and the BPE's file."""
        file = {BPE_FILES.get(bpe, "bpe_codes"): model} if model else {}
        return cls.from_args(Namespace(bpe=bpe, post_process=None, tokenizer=tokenizer, **file))

    def printed(self, symbol: str) -> str:
        """A dictionary's symbol as the pieces' letters: GPT-2's dictionaries hold numbers."""
        if self.scheme == "gpt2" and symbol.isdigit() and self.bpe is not None:
            return self.bpe.bpe.decoder[int(symbol)]
        return symbol

    def encode(self, sentence: str | Sequence[str], dictionary: Dictionary, where: str) -> Sentence:
        text = sentence if isinstance(sentence, str) else " ".join(sentence)
        if self.tokenizer is not None:
            text = self.tokenizer.encode(text)
        words = split_words(text)
        if self.bpe is None:
            symbols, words = words, None
        else:  # split at blanks alone: a piece may hold a no-break space
            symbols = [symbol for symbol in self.bpe.encode(" ".join(words)).split(" ") if symbol]
        pieces = [self.printed(symbol) for symbol in symbols]
        ids = word_ids(pieces, self.scheme, words=words, where=where)
        text = _joined(pieces, ids) if words is None else words
        tokens = torch.tensor([*map(dictionary.index, symbols), dictionary.eos()])
        return Sentence(tokens, [*ids, -1], len(text), text)

    def decode(self, tokens: Tensor, dictionary: Dictionary, where: str) -> Sentence:
        """A sentence of binarised data; marks are told from pieces by the dictionary's special symbols."""
        marks = {dictionary.bos(), dictionary.eos(), dictionary.pad()}
        is_piece = [index not in marks for index in tokens.tolist()]
        pieces = [self.printed(dictionary[i]) for i, piece in zip(tokens.tolist(), is_piece) if piece]
        ids = word_ids(pieces, self.scheme, where=where)
        each = iter(ids)
        text = _joined(pieces, ids)
        return Sentence(tokens, [next(each) if piece else -1 for piece in is_piece], len(text), text)


def _joined(pieces: Sequence[str], ids: Sequence[int]) -> list[str]:
    text = [""] * (ids[-1] + 1 if ids else 0)
    for piece, word in zip(pieces, ids):
        text[word] += piece.strip("▁Ġ").replace("@@", "")
    return text


def text_pairs(sentences: Iterable[tuple], encoder: Encoder, task) -> Iterator[Pair]:
    """Pairs of a stream of (source, target), each a line of text or a list of words."""
    for number, (source, target) in enumerate(sentences, 1):
        yield Pair(
            encoder.encode(source, task.source_dictionary, f"source line {number}"),
            encoder.encode(target, task.target_dictionary, f"target line {number}"),
            f"line {number}",
        )


def binarised_pairs(task, subset: str, encoder: Encoder) -> tuple[Iterator[Pair], int]:
    """Pairs of a ``fairseq-preprocess``ed subset, in the order of the text, and how many there are."""
    try:
        task.load_dataset(subset)
    except FileNotFoundError as error:
        raise InputError(f"{error}; expected a subset that fairseq-preprocess wrote") from None
    dataset = task.dataset(subset)
    return (_binarised_pair(task, encoder, dataset[i], f"{subset}, pair {i + 1}") for i in range(len(dataset))), len(
        dataset
    )


def _binarised_pair(task, encoder: Encoder, item: dict, where: str) -> Pair:
    if item.get("target") is None:
        raise InputError(f"{where}: no target sentence; alignments need both sides")
    source = encoder.decode(item["source"], task.source_dictionary, where)
    return Pair(source, encoder.decode(item["target"], task.target_dictionary, where), where)


def map_batches(
    pairs: Iterable[Pair],
    run: Callable[[list[Pair]], Iterable[Result]],
    *,
    max_tokens: int,
    window: int = WINDOW,
) -> Iterator[Result]:
    """Applies ``run`` to batches of at most ``max_tokens`` (padding included); yields its results in input order."""
    pairs = iter(pairs)
    while True:
        chunk = list(islice(pairs, window))
        if not chunk:
            return
        results: list = [None] * len(chunk)
        for batch in batches([max(len(p.source.tokens), len(p.target.tokens)) for p in chunk], max_tokens):
            for index, result in zip(batch, run([chunk[index] for index in batch])):
                results[index] = result
        yield from results


def batches(lengths: Sequence[int], max_tokens: int) -> Iterator[list[int]]:
    """Indices of sentences of similar length, at most ``max_tokens`` padded tokens together (or one sentence)."""
    batch: list[int] = []
    for index in sorted(range(len(lengths)), key=lengths.__getitem__):  # stable: the same batches every time
        if batch and lengths[index] * (len(batch) + 1) > max_tokens:
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch
