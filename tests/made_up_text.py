"""Made-up languages, frequent and rare words as in real ones, and BPEs learned from their text."""

from __future__ import annotations

import functools
import io
import itertools
import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import sentencepiece
from subword_nmt.apply_bpe import BPE
from subword_nmt.learn_bpe import learn_bpe

LETTERS = {"de": ("bdfgklmnrstz", "aeiouäöü"), "en": ("bcdfghlmnprstwy", "aeiou")}
WORDS = 2000  # of a language

Segment = Callable[[str], list[str]]  # a line → its pieces


@functools.cache
def words_of(language: str) -> list[str]:
    """The words of a language, the frequent and short ones first."""
    maker = random.Random(language)
    syllables = ["".join(pair) for pair in itertools.product(*LETTERS[language])]
    words: dict[str, None] = {}
    while len(words) < WORDS:
        syllable_count = 1 + min(len(words) // 20, 2) + maker.randint(0, 1)
        words["".join(maker.choices(syllables, k=syllable_count))] = None
    return list(words)


@functools.cache
def text_of(language: str, *, seed: int = 1, lines: int = 1000) -> list[str]:
    """Sentences; word number n is as frequent as 1 / n (Zipf's law)."""
    maker = random.Random(seed)
    weights = [1 / number for number in range(1, WORDS + 1)]
    return [
        " ".join(maker.choices(words_of(language), weights, k=maker.randint(5, 20)))
        for _ in range(lines)
    ]


@functools.cache
def codes_of(languages: tuple[str, ...], merges: int = 300) -> str:
    """Codes of subword-nmt, joint if the languages are several."""
    codes = io.StringIO()
    text = list(itertools.chain.from_iterable(map(text_of, languages)))
    learn_bpe(io.StringIO("\n".join(text)), codes, merges)
    return codes.getvalue()


@functools.cache
def model_of(languages: tuple[str, ...], **options) -> bytes:
    """A SentencePiece model, joint if the languages are several."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=itertools.chain.from_iterable(map(text_of, languages)),
        model_writer=model,
        hard_vocab_limit=False,
        minloglevel=9,
        **{"model_type": "bpe", "vocab_size": 400, **options},
    )
    return model.getvalue()


def by_codes(*languages: str, merges: int = 300) -> Segment:
    bpe = BPE(io.StringIO(codes_of(languages, merges)))
    return lambda line: bpe.process_line(line).split(" ")


def by_model(*languages: str, **options) -> Segment:
    processor = sentencepiece.SentencePieceProcessor(model_proto=model_of(languages, **options))
    return lambda line: processor.encode(line, out_type=str)


def counts(segment: Segment, lines: Iterable[str]) -> Counter[str]:
    """What ``fairseq-preprocess`` makes a dictionary of."""
    return Counter(itertools.chain.from_iterable(map(segment, lines)))


def segmented(segment: Segment, line: str) -> tuple[list[str], list[str], list[int]]:
    """Words, their pieces, and the word of each piece, word by word."""
    words = line.split()
    pieces: list[str] = []
    ids: list[int] = []
    for number, word in enumerate(words):
        of_word: Sequence[str] = segment(word)
        pieces += of_word
        ids += [number] * len(of_word)
    return words, pieces, ids
