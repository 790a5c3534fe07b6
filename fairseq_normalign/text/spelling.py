"""Which word each piece belongs to, where the user's words are known.

The marks on the pieces mislead when the text itself holds a mark, when normalisation made or
removed a space, or when a piece became ``<unk>`` and lost its mark. The places that pieces come
from tell their words for certain; where these are not known, the spelling does.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Iterator, Sequence

from fairseq_normalign.errors import InputError
from fairseq_normalign.text.words import (
    CONTINUED,
    SPACES,
    byte_letters,
    spans_words,
    without_mark,
    word_groups,
    word_ids,
)

UNKNOWN = ("<unk>", "<<unk>>")  # fairseq writes the second in references
REPLACEMENT = "\ufffd"  # SentencePiece makes it a space
BYTE_PIECE = re.compile("<0x[0-9A-F]{2}>")  # one byte of a character that is no piece


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
        raise _mismatch(pieces, words, 0, 0, where)
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


def spelled_ids(
    pieces: Sequence[str], words: Sequence[str], scheme: str, *, where: str = ""
) -> list[int]:
    """The word of each piece, from 0, by marks if they agree with the words, else by spelling.

    The pieces must spell the words, up to case, compatibility forms (NFKC), white space, accents
    and invisible characters; ``<unk>`` spells anything. A word that no piece spells, as it vanished
    in normalisation, is left out in the numbering.
    """
    try:
        marked = word_ids(pieces, scheme)
    except InputError:  # a piece spans words
        return _search(pieces, words, scheme, where)
    groups = word_groups(pieces, marked)
    spellings = zip(groups, words, strict=False)
    if len(groups) == len(words) and all(_spells(tuple(a), b, scheme) for a, b in spellings):
        return marked
    return _search(pieces, words, scheme, where)


@functools.lru_cache(maxsize=1 << 16)
def _spells(pieces: tuple[str, ...], word: str, scheme: str) -> bool:
    spelling = _word_spelling(word, scheme)
    if not any(piece in UNKNOWN for piece in pieces):
        return "".join(_piece_spelling(piece, scheme) for piece in pieces) == spelling
    pattern = ""
    for piece in pieces:
        if piece in UNKNOWN:
            pattern += ".*" if _has_invisible(word) else ".+"
        else:
            pattern += re.escape(_piece_spelling(piece, scheme))
    return re.fullmatch(pattern, spelling, re.DOTALL) is not None


def _has_invisible(word: str) -> bool:
    """Whether an unknown piece may stand for something in the word that is not spelled."""
    return any(not _folded(character) for character in word)


@functools.lru_cache(maxsize=1 << 16)
def _folded(text: str) -> str:
    """Text as far as normalisation leaves it alone.

    Decomposed, caseless, without spaces and invisible characters. Combining marks are left out,
    too: normalisation orders those of a letter, but pieces may split them.
    """
    folded = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text).casefold())
    spelled = ""
    for character in folded:
        is_space = character in (SPACES["sentencepiece"], REPLACEMENT)
        is_invisible = unicodedata.category(character)[0] in "ZC"
        if not (is_space or is_invisible or unicodedata.combining(character)):
            spelled += character
    return spelled


def _word_spelling(word: str, scheme: str) -> str:
    if scheme == "gpt2":  # bytes are split inside characters and never normalised
        return "".join(byte_letters()[byte] for byte in word.encode("utf-8"))
    return _folded(word.replace(SPACES.get(scheme, SPACES["sentencepiece"]), ""))


def _piece_spelling(piece: str, scheme: str) -> str:
    letters = without_mark(piece, scheme)
    return letters if scheme == "gpt2" else _folded(letters)


def _search(pieces: Sequence[str], words: Sequence[str], scheme: str, where: str) -> list[int]:
    """Word of each piece such that the pieces spell the words one after the other.

    Depth-first over (number of a piece, number of a word, letters of the word spelled so far),
    whatever the marks say; an ``<unk>`` takes the rest of its word first.
    """
    spelled = [_word_spelling(word, scheme) for word in words]
    fewest = 0 if any(map(_has_invisible, words)) else 1
    stack: list[tuple[int, int, int, tuple | None]] = [(0, 0, 0, None)]
    seen: set[tuple[int, int, int]] = set()
    furthest = (0, 0)
    while stack:
        piece, word, done, path = stack.pop()
        while word < len(words) and done == len(spelled[word]):
            word += 1
            done = 0
        furthest = max(furthest, (piece, word))
        if piece == len(pieces) and word == len(words):
            ids = []
            while path is not None:
                word, path = path
                ids.append(min(word, max(len(words) - 1, 0)))  # a trailing mark: the last word's
            return ids[::-1]
        if piece == len(pieces) or (piece, word, done) in seen:
            continue
        seen.add((piece, word, done))
        rest = spelled[word][done:] if word < len(words) else ""
        for letters in _letters_taken(pieces[piece], rest, scheme, fewest):
            stack.append((piece + 1, word, done + letters, (word, path)))
    raise _mismatch(pieces, words, *furthest, where)


def _letters_taken(piece: str, rest: str, scheme: str, fewest: int) -> Iterator[int]:
    """How many letters of the rest of a word the piece may spell, likeliest last.

    ``fewest`` is for unknown ones.
    """
    if piece in UNKNOWN:
        yield from range(fewest, len(rest) + 1)
        return
    spellings = {_piece_spelling(piece, scheme)}
    if scheme == "subword_nmt" and piece.endswith(CONTINUED):
        spellings.add(_folded(piece))  # a word of the text may end in @@ itself
    for spelling in sorted(spellings, reverse=True):
        if rest.startswith(spelling):
            yield len(spelling)


def _mismatch(
    pieces: Sequence[str], words: Sequence[str], piece: int, word: int, where: str
) -> InputError:
    """The message for pieces that spell the words only up to the given piece and word."""
    place = f"{where}: " if where else ""
    near_pieces = " ".join(pieces[max(piece - 3, 0) : piece + 5]) or "nothing"
    near_words = " ".join(words[max(word - 2, 0) : word + 3]) or "nothing"
    return InputError(
        f"{place}{len(pieces)} pieces do not spell the {len(words)} words: found … "
        f"{near_pieces!r} …, expected … {near_words!r} …; is the text the tokenised text, and the "
        "BPE the model's?"
    )
