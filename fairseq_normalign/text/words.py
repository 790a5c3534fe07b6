"""Words and the pieces that they are split into, as the marks on the pieces tell them apart.

SentencePiece, subword-nmt, byte-level BPE, BERT's WordPiece, or no pieces at all. Marks mislead
where the text itself holds one, or where normalisation made or removed a space: SentencePiece also
tells the places that its pieces come from, which are certain. At the end: words that are
punctuation.
"""

from __future__ import annotations

import functools
import itertools
import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fairseq_normalign.errors import InputError
from fairseq_normalign.files import name_of, read_lines, split_words

SPACES = {"sentencepiece": "\u2581", "gpt2": "\u0120"}  # what stands for a space in the pieces
CONTINUED = "@@"  # subword-nmt's mark behind a piece that does not end its word
BYTE_PIECE = re.compile("<0x[0-9A-F]{2}>")  # SentencePiece's: a byte of a character
CONTINUING = "##"  # BERT's mark before a piece that does not begin its word
MARKS = {**SPACES, "subword_nmt": CONTINUED, "bert": CONTINUING}
SCHEMES = (*MARKS, "none")
ALIASES = {
    "@@": "subword_nmt",
    "##": "bert",
    "": "none",
    "fastbpe": "subword_nmt",
    "hf_byte_bpe": "gpt2",
    "byte_level": "gpt2",
    "spm": "sentencepiece",
    "characters": "sentencepiece",
}
# What fairseq's --bpe takes, of which we know the words.
SPLITTERS = (
    *("sentencepiece", "subword_nmt", "fastbpe", "gpt2", "hf_byte_bpe"),
    *("bert", "characters"),
)


def normalise_bpe_name(name: str | None) -> str:
    """Our name of a scheme, as spelled in fairseq's ``--bpe`` or ``--remove-bpe``."""
    key = (name or "").strip()
    key = ALIASES.get(key, key)
    if key not in SCHEMES:
        raise InputError(
            f"unsupported BPE {name!r}; expected to split text: {', '.join(SPLITTERS)}; or to join "
            f"pieces: {', '.join(SCHEMES)} (or '@@ ' for subword_nmt)"
        )
    return key


def words_in(path: str | Path) -> Iterator[list[str]]:
    """The words of each line of a tokenised text."""
    return map(split_words, read_lines(path))


class TextFile:
    """What a text has for each sentence pair. Reads together with link files.

    Args:
        read: makes it of the path: words, or else lines (``files.read_lines``) or parts of them.
    """

    open_ended = False

    def __init__(
        self, path: str | Path, read: Callable[[str | Path], Iterator[Any]] = words_in
    ) -> None:
        self.path, self.name, self.read = path, name_of(path), read

    def __iter__(self) -> Iterator[Any]:
        return self.read(self.path)


def mark_of(scheme: str) -> str:
    """What the pieces of a scheme are marked with; '' if there are no pieces."""
    return MARKS.get(scheme, "")


def is_marked(piece: str, scheme: str) -> bool:
    """Whether a piece carries the mark of a scheme, beside letters where the scheme asks for it."""
    if scheme in SPACES:
        return SPACES[scheme] in piece
    return without_mark(piece, scheme) not in (piece, "")


def without_mark(piece: str, scheme: str) -> str:
    """The letters of a piece."""
    if scheme == "subword_nmt":
        return piece.removesuffix(CONTINUED)
    if scheme == "bert":
        return piece.removeprefix(CONTINUING)
    return piece.replace(SPACES[scheme], "") if scheme in SPACES else piece


def word_ids(pieces: Sequence[str], scheme: str, *, where: str = "") -> list[int]:
    """The word of each piece by the marks alone: from 0, never decreasing, none left out.

    Args:
        pieces: the model's tokens without ``</s>``; byte-level pieces as GPT-2 prints them
            (``Ġthe``), not as numbers.
        scheme: one of ``SCHEMES``.
        where: put before error messages, e.g. ``test.de:12``.
    """
    if scheme in SPACES:
        several = spanning_piece(pieces, scheme)
        if several:
            raise spans_words(several, where)
        return _spaced_ids(pieces, SPACES[scheme])
    if scheme == "subword_nmt":
        return _continued_ids(pieces)
    if scheme == "bert":
        # The first piece opens word 0 with or without the mark; a lone ## is a word by itself.
        begins = [not is_marked(piece, "bert") for piece in pieces[1:]]
        return list(itertools.accumulate(begins, initial=0))[: len(pieces)]
    return list(range(len(pieces)))


def spans_words(piece: str, where: str) -> InputError:
    return InputError(
        f"{where}: piece {piece!r} spans several words; their links cannot be told apart"
    )


def spanning_piece(pieces: Sequence[str], scheme: str) -> str:
    """A piece with a space between its letters; '' if there is none."""
    for piece in pieces:
        letters = filter(None, piece.split(SPACES[scheme]))
        if len(list(letters)) > 1:
            return piece
    return ""


def _spaced_ids(pieces: Sequence[str], space: str) -> list[int]:
    """Word of each piece where ``space`` may stand before, after or alone between words.

    The first piece opens word 0 with or without the mark (SentencePiece's dummy prefix). A lone
    mark belongs to the word that follows it, the last one to the last word.
    """
    ids = []
    word = -1
    between = True
    for piece in pieces:
        letters = piece.replace(space, "")
        between = between or piece.startswith(space)
        if letters and between:
            word += 1
            between = False
        ids.append(word + between)
        if letters:
            between = piece.endswith(space)
    return _up_to(word, ids)


def _continued_ids(pieces: Sequence[str]) -> list[int]:
    """Word of each piece where ``@@`` stands behind all pieces of a word but the last.

    A lone ``@@`` has no letters: it belongs to the word that follows it, or to the last one.
    """
    ends = [not piece.endswith(CONTINUED) for piece in pieces]
    ids = [0, *itertools.accumulate(ends)][: len(pieces)]
    spelled = [word for piece, word in zip(pieces, ids, strict=True) if piece != CONTINUED]
    last = spelled[-1] if spelled else 0
    return _up_to(last, ids)


def _up_to(last: int, ids: Sequence[int]) -> list[int]:
    return [min(word, max(last, 0)) for word in ids]


def placed_ids(
    pieces: Sequence[str],
    words: Sequence[str],
    normalised: str,
    offsets: Sequence[int],
    *,
    where: str = "",
) -> list[int]:
    """The word of each SentencePiece piece, from 0, by the place in the text that it comes from.

    A word that vanished in normalisation is left out in the numbering.

    Args:
        normalised: the text as the SentencePiece model normalises it, which the pieces spell.
        offsets: where in ``" ".join(words)`` each of its characters comes from.
    """
    origins = _words_of_bytes(words, normalised, offsets)
    spelling = normalised.encode("utf-8")
    ids: list[int | None] = []
    place = 0
    for piece in pieces:
        letters = piece.encode("utf-8")
        is_byte = BYTE_PIECE.fullmatch(piece) and not spelling.startswith(letters, place)
        end = place + (1 if is_byte else len(letters))
        spelled = [word for word in origins[place:end] if word is not None]
        if spelled and spelled[0] != spelled[-1]:
            raise spans_words(piece, where)
        ids.append(spelled[0] if spelled else None)
        place = end
    if place != len(spelling):
        raise InputError(f"{where}: the pieces do not spell the {len(words)} words")
    return _with_lone_marks(ids, last=max(len(words) - 1, 0))


def _words_of_bytes(
    words: Sequence[str], normalised: str, offsets: Sequence[int]
) -> list[int | None]:
    """The word that each byte of the normalised text belongs to, None for spaces."""
    word_at: list[int] = []
    for number, word in enumerate(words):
        word_at += [number] * (len(word) + 1)  # with the blank behind it
    origins: list[int | None] = []
    for character, offset in zip(normalised, offsets, strict=False):  # one offset more: the end
        origin = None if character == SPACES["sentencepiece"] else word_at[offset]
        origins += [origin] * len(character.encode("utf-8"))
    return origins


def _with_lone_marks(ids: Sequence[int | None], *, last: int) -> list[int]:
    """A lone mark belongs to the word that follows it, the last one to the last word."""
    known = [word for word in ids if word is not None]
    following = known[-1] if known else last
    filled: list[int] = []
    for word in reversed(ids):
        following = following if word is None else word
        filled.append(following)
    return filled[::-1]


def join_pieces(pieces: Sequence[str], ids: Sequence[int], scheme: str) -> list[str]:
    """The words that pieces spell; pieces that are nothing but marks stand as they are."""
    words = []
    for group in word_groups(pieces, ids):
        letters = "".join(without_mark(piece, scheme) for piece in group)
        if scheme == "gpt2" and set(letters) <= byte_values().keys():
            letters = bytes(byte_values()[letter] for letter in letters).decode("utf-8", "replace")
        words.append(letters or "".join(group))
    return words


def word_groups(pieces: Sequence[str], ids: Sequence[int]) -> list[list[str]]:
    """The pieces of each word."""
    groups: list[list[str]] = [[] for _ in range(max(ids, default=-1) + 1)]
    for piece, word in zip(pieces, ids, strict=True):
        groups[word].append(piece)
    return groups


@functools.cache
def byte_letters() -> dict[int, str]:
    """The letter that byte-level BPE prints for each byte (Radford et al., 2019).

    A visible byte is its own letter; the others are printed from Ā on.
    """
    visible = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    hidden = [byte for byte in range(256) if byte not in visible]
    letters = {byte: chr(byte) for byte in visible}
    letters.update((byte, chr(code)) for code, byte in enumerate(hidden, start=256))
    return letters


@functools.cache
def byte_values() -> dict[str, int]:
    return {letter: byte for byte, letter in byte_letters().items()}


@functools.lru_cache(100_000)
def is_punctuation(word: str) -> bool:
    """Whether a word has punctuation alone, of any script: Unicode's categories P…"""
    categories = map(unicodedata.category, word)
    return word != "" and all(category.startswith("P") for category in categories)


def final_punctuation(text: Sequence[str], word_of: Sequence[int]) -> list[int]:
    """The places of the pieces of a sentence's last word, if it is punctuation; none otherwise.

    Args:
        text: the words.
        word_of: the word of each token, -1 for special tokens.
    """
    if not text or not is_punctuation(text[-1]):
        return []
    last = len(text) - 1
    return [place for place, word in enumerate(word_of) if word == last]


def settle_punctuation(soft: np.ndarray, rows: Sequence[int], columns: Sequence[int]) -> np.ndarray:
    """What Shift-Att does with the full stop of the source (Chen et al., 2020, their code).

    If both sentences end in punctuation, the two ends take each other, and nothing else takes the
    source's. If the source alone does, nothing takes it.

    Differs from their code: an end is a word, which may have several pieces; theirs is a piece.

    Args:
        soft: (T, S).
        rows: of the target's final punctuation, perhaps none.
        columns: of the source's.
    """
    settled = soft.copy()
    if not columns:
        return settled
    settled[:, columns] = 0
    if rows:
        settled[rows, :] = 0
        settled[np.ix_(rows, columns)] = 1 / len(columns)
    return settled
