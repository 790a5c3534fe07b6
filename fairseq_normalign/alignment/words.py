"""Which word each piece belongs to: SentencePiece, subword-nmt, byte-level BPE, or no pieces at
all.

The marks on the pieces say where words begin. They mislead when the text itself holds a mark, when
normalisation made or removed a space, or when a piece became ``<unk>`` and lost its mark; if the
user's words are known, the spelling decides instead.
"""

from __future__ import annotations

import functools
import itertools
import re
import unicodedata
from collections.abc import Iterator, Sequence
from pathlib import Path

from fairseq_normalign.errors import InputError
from fairseq_normalign.files import name_of, read_lines

# What stands for a space in the pieces. All but the first and gpt2 are fairseq's
# (data_utils.post_process).
SPACES = {
    "sentencepiece": "\u2581",
    "gpt2": "\u0120",
    "wordpiece": "_",
    "letter": "|",
    "_EOW": "_EOW",
}
SCHEMES = (*SPACES, "subword_nmt", "none")
ALIASES = {
    "@@": "subword_nmt",
    "": "none",
    "fastbpe": "subword_nmt",
    "hf_byte_bpe": "gpt2",
    "byte_level": "gpt2",
    "spm": "sentencepiece",
}
UNKNOWN = ("<unk>", "<<unk>>")  # fairseq writes the second in references
ASCII_SPACE = re.compile("[ \t\n\r\f\v]+")


def normalise_bpe_name(name: str | None) -> str:
    """Our name of a scheme as spelled in fairseq's ``--bpe``, ``--remove-bpe`` or
    ``--post-process``."""
    key = (name or "").strip()
    key = ALIASES.get(key, key)
    if key not in SCHEMES:
        raise InputError(
            f"unsupported BPE {name!r}; expected one of: {', '.join(SCHEMES)} (or '@@ ' for "
            "subword_nmt)"
        )
    return key


def split_words(line: str) -> list[str]:
    """The words of a tokenised line. Only ASCII white space separates: a no-break space is part of
    its word."""
    return [word for word in ASCII_SPACE.split(line) if word]


class TextFile:
    """The words of a tokenised text, one sentence at a time. Reads together with link files."""

    open_ended = False

    def __init__(self, path: str | Path) -> None:
        self.path, self.name = path, name_of(path)

    def __iter__(self) -> Iterator[list[str]]:
        return map(split_words, read_lines(self.path))


def word_ids(
    pieces: Sequence[str], bpe: str, *, words: Sequence[str] | None = None, where: str = ""
) -> list[int]:
    """The word of each piece, from 0, never decreasing.

    Args:
        pieces: the model's tokens without ``</s>``; byte-level pieces as GPT-2 prints them
            (``Ġthe``), not as numbers.
        bpe: one of ``SCHEMES``.
        words: the user's words. The pieces must spell them, up to case, compatibility forms (NFKC),
            white space and invisible characters; ``<unk>`` spells anything. A word that no piece
            spells (it vanished in normalisation) is skipped in the numbering.
        where: put before error messages, e.g. ``test.de:12``.
    """
    ids, spans = _marked_ids(pieces, bpe)
    if words is None:
        if spans:
            raise InputError(
                f"{_at(where)}piece {spans!r} spans several words; their links cannot be told apart"
            )
        return ids
    if not spans and _spell_out(pieces, ids, words, bpe):
        return ids
    return _ids_by_spelling(pieces, words, bpe, where)


def _at(where: str) -> str:
    return f"{where}: " if where else ""


def _marked_ids(pieces: Sequence[str], bpe: str) -> tuple[list[int], str]:
    """Word of each piece by the marks alone, and a piece that spans words ('' if there is none)."""
    if bpe == "none":
        return list(range(len(pieces))), ""
    if bpe == "subword_nmt":
        ends = [not piece.endswith("@@") for piece in pieces]
        return [0, *itertools.accumulate(ends)][: len(pieces)], ""
    return _spaced_ids(pieces, SPACES[bpe])


def _spaced_ids(pieces: Sequence[str], space: str) -> tuple[list[int], str]:
    """Word of each piece where ``space`` may stand before, after or alone between words.

    The first piece opens word 0 with or without the mark (SentencePiece's dummy prefix). A lone
    mark belongs to the word that follows it.
    """
    ids, word, between, spans = [], -1, True, ""
    for piece in pieces:
        text = piece.strip(space) if len(space) == 1 else piece.replace(space, "")
        between = between or piece.startswith(space)
        if text and between:
            word += 1
            between = False
        ids.append(word + between)
        if text:
            spans = spans or (piece if space in text else "")
            between = piece.endswith(space)
    return [min(i, max(word, 0)) for i in ids], spans


def _spell_out(pieces: Sequence[str], ids: Sequence[int], words: Sequence[str], bpe: str) -> bool:
    """Whether the pieces, grouped by ``ids``, spell the words."""
    if (ids[-1] + 1 if ids else 0) != len(words):
        return False
    groups: list[list[str]] = [[] for _ in words]
    for piece, i in zip(pieces, ids, strict=True):
        groups[i].append(piece)
    return all(_spells(tuple(group), word, bpe) for group, word in zip(groups, words, strict=True))


@functools.lru_cache(maxsize=1 << 16)
def _spells(pieces: tuple[str, ...], word: str, bpe: str) -> bool:
    spelling = _word_spelling(word, bpe)
    if not any(piece in UNKNOWN for piece in pieces):
        return "".join(_piece_spelling(piece, bpe) for piece in pieces) == spelling
    unknown = "(?s:.*)" if _has_invisible(word) else "(?s:.+)"
    pattern = "".join(
        unknown if p in UNKNOWN else re.escape(_piece_spelling(p, bpe)) for p in pieces
    )
    return re.fullmatch(pattern, spelling) is not None


def _has_invisible(word: str) -> bool:
    """Whether some character is not spelled, so that an unknown piece may stand for nothing we
    see."""
    return any(not _folded(c) for c in word)


@functools.lru_cache(maxsize=1 << 16)
def _folded(text: str) -> str:
    """Text as far as normalisation leaves it alone: decomposed, caseless, without spaces and
    invisible characters."""
    folded = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text).casefold())
    return "".join(
        c for c in folded if unicodedata.category(c)[0] not in "ZC" and c != SPACES["sentencepiece"]
    )


@functools.lru_cache(maxsize=1)
def _byte_letters() -> dict[int, str]:
    """The letter that byte-level BPE prints for each byte (Radford et al., 2019): itself if
    visible, else from Ā on."""
    visible = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    hidden = [byte for byte in range(256) if byte not in visible]
    return {**{b: chr(b) for b in visible}, **{b: chr(256 + n) for n, b in enumerate(hidden)}}


def _word_spelling(word: str, bpe: str) -> str:
    if bpe == "gpt2":  # bytes are split inside characters and never normalised
        return "".join(_byte_letters()[byte] for byte in word.encode("utf-8"))
    return _folded(word.replace(SPACES.get(bpe, "\u2581"), ""))


def _piece_spelling(piece: str, bpe: str) -> str:
    if bpe == "subword_nmt":
        return _folded(piece[:-2] if piece.endswith("@@") else piece)
    text = piece.replace(SPACES[bpe], "") if bpe in SPACES else piece
    return text if bpe == "gpt2" else _folded(text)


def _ids_by_spelling(
    pieces: Sequence[str], words: Sequence[str], bpe: str, where: str
) -> list[int]:
    """Word of each piece such that the pieces spell the words one after the other, whatever the
    marks say.

    Depth-first over (piece, word, letters of the word spelled so far); an ``<unk>`` takes the rest
    of its word first.
    """
    spelled = [_word_spelling(word, bpe) for word in words]
    fewest = 0 if any(map(_has_invisible, words)) else 1
    stack, seen, furthest = [(0, 0, 0, None)], set(), (0, 0)
    while stack:
        i, w, done, path = stack.pop()
        while w < len(words) and done == len(spelled[w]):
            w, done = w + 1, 0
        furthest = max(furthest, (i, w))
        if i == len(pieces) and w == len(words):
            return _unwind(path, len(words))
        if i == len(pieces) or (i, w, done) in seen:
            continue
        seen.add((i, w, done))
        rest = spelled[w][done:] if w < len(words) else ""
        stack += [
            (i + 1, w, done + n, (w, path)) for n in _letters_taken(pieces[i], rest, bpe, fewest)
        ]
    raise _mismatch(pieces, words, *furthest, where)


def _letters_taken(piece: str, rest: str, bpe: str, fewest: int) -> Iterator[int]:
    """How many letters of the rest of a word the piece may spell, likeliest last; ``fewest`` is for
    unknown ones."""
    if piece in UNKNOWN:
        yield from range(fewest, len(rest) + 1)
        return
    spellings = {_piece_spelling(piece, bpe)}
    if bpe == "subword_nmt":
        spellings.add(_folded(piece))  # a word of the text may end in @@ itself
    for spelling in sorted(spellings, reverse=True):
        if rest.startswith(spelling):
            yield len(spelling)


def _unwind(path: tuple | None, count: int) -> list[int]:
    ids = []
    while path is not None:
        word, path = path
        ids.append(min(word, max(count - 1, 0)))  # a trailing mark belongs to the last word
    return ids[::-1]


def _mismatch(
    pieces: Sequence[str], words: Sequence[str], i: int, w: int, where: str
) -> InputError:
    found = " ".join(pieces[max(i - 3, 0) : i + 5]) or "nothing"
    wanted = " ".join(words[max(w - 2, 0) : w + 3]) or "nothing"
    return InputError(
        f"{_at(where)}{len(pieces)} pieces do not spell the {len(words)} words: found … "
        f"{found!r} …, expected … "
        f"{wanted!r} …; is the text the tokenised text, and the BPE the model's?"
    )
