"""BERT's WordPiece: from text to pieces, with nothing but the vocabulary (Devlin et al., 2019)."""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from fairseq_normalign.errors import InputError
from fairseq_normalign.host.json_files import read_json
from fairseq_normalign.text.words import CONTINUING

CONFIGURATION = "tokenizer_config.json"
OF_FOLDER = "expected a file of a Hugging Face folder"
LONGEST = 100  # letters of a word that is looked up; BERT takes longer ones for unknown
IN_TEXT = ("[MASK]", "[UNK]")  # tokens that a text may hold
AROUND_TEXT = ("[CLS]", "[SEP]", "[PAD]")  # tokens that are put around it
NAMED = re.compile("({})".format("|".join(map(re.escape, (*IN_TEXT, *AROUND_TEXT)))))
CACHED_WORDS = 1 << 16
# Blocks of ideographs, each of which is a word: the extensions A to E, and compatibility forms.
IDEOGRAPHS = (
    *((0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x2A6DF)),
    *((0x2A700, 0x2B73F), (0x2B740, 0x2B81F), (0x2B820, 0x2CEAF), (0x2F800, 0x2FA1F)),
)


class WordPiece:
    """Splits text as BERT's own tokeniser does: into words and signs, and these into pieces.

    A word is spelled by the longest piece that it starts with, its rest by the longest piece with
    ``##`` before, and so on. One that cannot be spelled so stays as it is, and is in no dictionary.

    Args:
        vocabulary: the pieces.
        lowercase: whether letters lose their case and, if nothing else is said, their accents.
        strip_accents: whether letters lose their accents; None for as ``lowercase`` says.
        split_ideographs: whether each Chinese character is a word.
    """

    def __init__(
        self,
        vocabulary: Iterable[str],
        *,
        lowercase: bool = True,
        strip_accents: bool | None = None,
        split_ideographs: bool = True,
    ) -> None:
        self.vocabulary = frozenset(vocabulary)
        self.lowercase, self.split_ideographs = lowercase, split_ideographs
        self.strip_accents = lowercase if strip_accents is None else strip_accents
        self._pieces_of = functools.lru_cache(CACHED_WORDS)(self._split_word)

    def encode(self, text: str) -> str:
        """The pieces of a text with blanks between, as fairseq wants it of a BPE."""
        return " ".join(self.pieces(text))

    def pieces(self, text: str) -> list[str]:
        """The pieces of a text, which may hold ``[MASK]``."""
        pieces: list[str] = []
        for part in NAMED.split(text):
            if part in AROUND_TEXT:
                raise InputError(
                    f"the text holds {part!r}; expected it without {', '.join(AROUND_TEXT)}, "
                    "which are added (a TAB is between two passages)"
                )
            if part in IN_TEXT:
                pieces.append(part)
                continue
            for word in self.words(part):
                pieces += self._pieces_of(word)
        return pieces

    def words(self, text: str) -> list[str]:
        """Words, signs and ideographs, normalised."""
        cleaned = "".join(self._cleaned(text))
        words: list[str] = []
        for word in unicodedata.normalize("NFC", cleaned).split():
            separated = "".join(_with_signs_apart(self._folded(word)))
            words += separated.split()
        return words

    def _cleaned(self, text: str) -> Iterator[str]:
        """The text without control characters, with blanks for all white space."""
        for character in text:
            if character in "\t\n\r" or unicodedata.category(character) == "Zs":
                yield " "
            elif character == "\ufffd" or unicodedata.category(character).startswith("C"):
                continue
            elif self.split_ideographs and is_ideograph(character):
                yield f" {character} "
            else:
                yield character

    def _folded(self, word: str) -> str:
        if self.lowercase:
            word = word.lower()
        if not self.strip_accents:
            return word
        decomposed = unicodedata.normalize("NFD", word)
        return "".join(letter for letter in decomposed if unicodedata.category(letter) != "Mn")

    def _split_word(self, word: str) -> Sequence[str]:
        """The pieces of a word; the word itself if there are none."""
        if len(word) > LONGEST:
            return (word,)
        pieces: list[str] = []
        start = 0
        while start < len(word):
            piece = self._longest_piece(word, start)
            if piece is None:
                return (word,)
            pieces.append(piece)
            start += len(piece) - (len(CONTINUING) if start else 0)
        return tuple(pieces)

    def _longest_piece(self, word: str, start: int) -> str | None:
        mark = CONTINUING if start else ""
        for end in range(len(word), start, -1):
            piece = mark + word[start:end]
            if piece in self.vocabulary:
                return piece
        return None


def _with_signs_apart(word: str) -> Iterator[str]:
    for character in word:
        yield f" {character} " if is_sign(character) else character


def is_sign(character: str) -> bool:
    """Whether BERT takes a character for punctuation: also all ASCII that is no letter or digit."""
    if character.isascii():
        return character.isprintable() and not character.isalnum() and character != " "
    return unicodedata.category(character).startswith("P")


def is_ideograph(character: str) -> bool:
    code = ord(character)
    return any(first <= code <= last for first, last in IDEOGRAPHS)


# What a ``tokenizer_config.json`` calls our options.
OPTIONS = {
    "do_lower_case": "lowercase",
    "strip_accents": "strip_accents",
    "tokenize_chinese_chars": "split_ideographs",
}


def read_wordpiece(path: str | Path, *, cased: bool = False) -> WordPiece:
    """From a ``vocab.txt``, and from the ``tokenizer_config.json`` beside it if there is one.

    Args:
        cased: letters keep their case, whatever is beside.
    """
    options = {}
    beside = Path(path).with_name(CONFIGURATION)
    if beside.is_file():
        options = wordpiece_options(read_json(beside, OF_FOLDER), beside)
    if cased:
        options["lowercase"] = False
    return WordPiece(read_vocabulary(path), **options)


def read_vocabulary(path: str | Path) -> list[str]:
    """The pieces of a ``vocab.txt``, by their number."""
    try:
        lines = Path(path).read_text(encoding="utf-8").split("\n")
    except UnicodeDecodeError:
        raise ValueError("not UTF-8 text; expected a piece in each line") from None
    except OSError as error:
        raise ValueError(error.strerror) from None
    if not lines[-1]:
        lines.pop()
    if not any(line.startswith(CONTINUING) for line in lines):
        raise ValueError(f"no piece begins with {CONTINUING}; expected the vocab.txt of a BERT")
    return lines


def wordpiece_options(configuration: Mapping[str, Any], where: str | Path) -> dict[str, Any]:
    """Our options of what a ``tokenizer_config.json`` says; those alone that it names."""
    if configuration.get("do_basic_tokenize", True) is not True or configuration.get("never_split"):
        raise InputError(
            f"{where}: asks for text that is not split at signs (do_basic_tokenize, never_split); "
            "expected BERT's usual tokeniser"
        )
    options = {}
    for name, ours in OPTIONS.items():
        value = configuration.get(name)
        if value not in (True, False, None):
            raise InputError(f"{where}: {name} is {value!r}; expected true, false or null")
        if value is not None:
            options[ours] = value
    return options
