"""BERT's WordPiece: from text to pieces, with nothing but the vocabulary (Devlin et al., 2019).

The library ``tokenizers`` is not used: it splits some text in another way than the tokeniser that
BERT came with (it composes no letters, and has its own version of Unicode), and it would bring an
HTTP client to everyone who reads a BERT.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from fairseq_normalign.errors import InputError
from fairseq_normalign.strict_json import read_json
from fairseq_normalign.text.words import CONTINUING

CONFIGURATION = "tokenizer_config.json"
OF_FOLDER = "expected a file of a Hugging Face folder"
LONGEST = 100  # letters of a word that is looked up; BERT takes longer ones for unknown
IN_TEXT = ("[MASK]", "[UNK]")  # tokens that a text may hold
AROUND_TEXT = ("[CLS]", "[SEP]", "[PAD]")  # tokens that are put around it
NAMED = re.compile("({})".format("|".join(map(re.escape, (*IN_TEXT, *AROUND_TEXT)))))
# Ideographs, each of which is a word: the extensions A to E, and compatibility forms.
IDEOGRAPH = re.compile(
    "([\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0002a6df"
    "\U0002a700-\U0002ceaf\U0002f800-\U0002fa1f])"
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
                pieces += self._split_word(word)
        return pieces

    def words(self, text: str) -> list[str]:
        """Words, signs and ideographs, normalised."""
        text = "".join(_cleaned(text))
        if self.split_ideographs:
            text = IDEOGRAPH.sub(r" \1 ", text)
        text = unicodedata.normalize("NFC", text)
        if self.lowercase:
            text = " ".join(word.lower() for word in text.split())  # each: a final sigma is one
        if self.strip_accents:
            letters = unicodedata.normalize("NFD", text)
            text = "".join(letter for letter in letters if unicodedata.category(letter) != "Mn")
        return "".join(f" {sign} " if _is_sign(sign) else sign for sign in text).split()

    def _split_word(self, word: str) -> list[str]:
        """The pieces of a word; the word itself if there are none."""
        pieces: list[str] = []
        start, mark = 0, ""
        while start < len(word) <= LONGEST:
            ends = range(len(word), start, -1)
            end = next((end for end in ends if mark + word[start:end] in self.vocabulary), None)
            if end is None:
                break
            pieces.append(mark + word[start:end])
            start, mark = end, CONTINUING
        return pieces if start == len(word) else [word]


def _cleaned(text: str) -> Iterator[str]:
    """The text without control characters, with blanks for white space."""
    for character in text:
        category = unicodedata.category(character)
        if character in "\t\n\r" or category == "Zs":
            yield " "
        elif character != "\ufffd" and category[0] != "C":
            yield character


def _is_sign(character: str) -> bool:
    """Whether BERT takes a character for punctuation: also all ASCII that is no letter or digit."""
    if character.isascii():
        return character.isprintable() and not character.isalnum() and character != " "
    return unicodedata.category(character).startswith("P")


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
    expected = "expected the vocab.txt of a BERT"
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", "not UTF-8 text")
        raise InputError(f"{path}: {reason}; {expected}") from None
    pieces = text.removesuffix("\n").split("\n")
    if not any(piece.startswith(CONTINUING) for piece in pieces):
        raise InputError(f"{path}: no piece begins with {CONTINUING}; {expected}")
    return pieces


def wordpiece_options(configuration: Mapping[str, Any], where: str | Path) -> dict[str, Any]:
    """Our options of what a ``tokenizer_config.json`` says; those alone that it names."""
    if configuration.get("do_basic_tokenize", True) is not True or configuration.get("never_split"):
        raise InputError(
            f"{where}: asks for text that is not split at signs (do_basic_tokenize, never_split); "
            "expected BERT's usual tokeniser"
        )
    said = {ours: configuration.get(name) for name, ours in OPTIONS.items()}
    return {name: bool(value) for name, value in said.items() if value is not None}
