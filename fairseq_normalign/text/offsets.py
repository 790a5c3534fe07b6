"""Words of a line with their character offsets, and links between them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from fairseq_normalign.errors import InputError
from fairseq_normalign.text.links import Link

Span = tuple[int, int]  # characters or words, the last one excluded
Tokenizer = Callable[[str], list[Span]]

BLANK = re.compile("[^ \t\n\r\f\v]+")  # as in files.split_words
# Scripts without blanks between words: Thai to Tibetan, Myanmar, Khmer, kana and Han.
UNSPACED = re.compile(
    "[\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u2e80-\u2fff\u3005-\u30ff\u3400-\u9fff\uf900-\ufaff"
    "\U00020000-\U0003ffff]"
)


def blank_words(text: str) -> list[Span]:
    """Words between ASCII blanks, as in tokenised text."""
    return [match.span() for match in BLANK.finditer(text)]


def plain_words(text: str) -> list[Span]:
    """Runs of letters and digits; every other sign is a word, and so is each letter of CJK."""
    words: list[Span] = []
    before = ""  # the kind of the last sign
    for place, sign in enumerate(text):
        kind = _kind(sign, before)
        if kind == "continued" or (kind == "letter" and before == "letter"):
            words[-1] = (words[-1][0], place + 1)
            continue
        if kind != "blank":
            words.append((place, place + 1))
        before = kind
    return words


def _kind(sign: str, before: str) -> str:
    if sign.isspace():
        return "blank"
    category = unicodedata.category(sign)
    if (category[0] == "M" or category == "Cf") and before not in ("", "blank"):
        return "continued"  # accents, vowel signs, joiners
    if UNSPACED.match(sign):
        return "sign"
    return "letter" if category[0] in "LNM" else "sign"


def moses_words(text: str) -> list[Span]:
    """Words of the Moses tokenizer, found again in the text."""
    try:
        from sacremoses import MosesTokenizer
    except ImportError:
        raise InputError(
            "--tokenizer moses needs sacremoses: pip install sacremoses; or use --tokenizer plain"
        ) from None
    words: list[Span] = []
    end = 0
    for word in MosesTokenizer().tokenize(text, escape=False):
        begin = text.find(word, end)
        if begin < 0 or text[end:begin].strip():  # it has changed or dropped signs
            raise InputError(f"Moses has changed {text[end : end + 20]!r}; use --tokenizer plain")
        end = begin + len(word)
        words.append((begin, end))
    return words


TOKENIZERS: dict[str, Tokenizer] = {
    "none": blank_words,
    "plain": plain_words,
    "moses": moses_words,
}


def texts_of(text: str, words: Iterable[Span]) -> list[str]:
    return [text[begin:end] for begin, end in words]


def checked_links(links: Iterable[Link], sources: int, targets: int) -> list[Link]:
    """Links in order; refuses those of other words than there are."""
    ordered = sorted(links)
    for source, target in ordered:
        if not (0 <= source < sources and 0 <= target < targets):
            raise InputError(
                f"link {source}-{target} (from 0), but the source has {sources} words and the "
                f"translation {targets}; are the links of this text, and of this tokenizer?"
            )
    return ordered


def runs_of(places: Iterable[int]) -> list[list[int]]:
    """Ascending numbers, divided where one is left out."""
    runs: list[list[int]] = []
    for place in places:
        if runs and place == runs[-1][-1] + 1:
            runs[-1].append(place)
        else:
            runs.append([place])
    return runs


@contextmanager
def located(place: str) -> Iterator[None]:
    """Adds the place to what is refused there."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{place}: {error}") from None
