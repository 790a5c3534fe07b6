"""Categories of tokens, such as special ones and punctuation.

This module imports no PyTorch: ``--help`` reads it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from fairseq_normalign.errors import InputError


class Token(NamedTuple):
    """One token as a category or a frequency rank sees it."""

    number: int  # in the dictionary
    symbol: str  # as it stands in the dictionary, or is printed
    letters: str  # without the mark of its BPE
    is_special: bool  # belongs to no word
    continues: bool  # is not the first piece of its word


class Category(NamedTuple):
    name: str
    has: Callable[[Token], bool]
    pattern: str | None = None  # what the user wrote, if the category is the user's


@dataclass(frozen=True)
class Categories:
    """Categories, the first that has a token wins; and what tokens of none are called."""

    listed: tuple[Category, ...]
    rest: str

    @property
    def names(self) -> list[str]:
        return [*(category.name for category in self.listed), self.rest]

    def index(self, token: Token) -> int:
        """The place of a token's category in ``names``."""
        for place, category in enumerate(self.listed):
            if category.has(token):
                return place
        return len(self.listed)

    def check_vocabulary(self, symbols: Iterable[str]) -> None:
        """Refuses a category of the user that no symbol of the dictionaries is in."""
        known = list(symbols)
        for category in self.listed:
            if category.pattern is None:
                continue
            expression = re.compile(category.pattern)
            if not any(expression.fullmatch(symbol) for symbol in known):
                raise InputError(
                    f"--category {category.name}={category.pattern}: matches no token of the "
                    "dictionary; expected a regular expression of whole tokens, as they stand there"
                )

    def check_counts(self, counts: Sequence[int]) -> None:
        """Refuses a category of the user that has fewer than two tokens of the corpus.

        Args:
            counts: of the tokens of each category of ``names``.
        """
        for category, count in zip(self.listed, counts[:-1], strict=True):
            if category.pattern is not None and count < 2:
                found = "one token" if count else "no token"
                raise InputError(
                    f"--category {category.name}={category.pattern}: matches {found} of the "
                    "corpus; expected two at least"
                )


def _is_special(token: Token) -> bool:
    return token.is_special


def _continues(token: Token) -> bool:
    return token.continues


def _is_punctuation(token: Token) -> bool:
    """Whether all letters are punctuation marks or symbols, by Unicode."""
    return bool(token.letters) and all(
        unicodedata.category(letter)[0] in "PS" for letter in token.letters
    )


def _is_stop(token: Token) -> bool:
    return token.letters in (".", ",")


def _is_one_of(symbols: Sequence[str], token: Token) -> bool:
    return token.symbol in symbols


CLS = Category("[CLS]", partial(_is_one_of, ("[CLS]", "<s>")))
SEP = Category("[SEP]", partial(_is_one_of, ("[SEP]", "</s>")))
MASK = Category("[MASK]", partial(_is_one_of, ("[MASK]", "<mask>")))
SPECIAL = Category("special", _is_special)
STOPS = Category("period/comma", _is_stop)

PRESETS = {
    "pieces": Categories(
        (
            SPECIAL,
            Category("punctuation", _is_punctuation),
            Category("continuation", _continues),
        ),
        "word",
    ),
    "marks": Categories((SPECIAL, STOPS), "other"),
    "bert-2020": Categories((CLS, SEP, STOPS), "other"),  # Kobayashi et al., 2020
    "bert-2021": Categories((MASK, CLS, SEP), "Normal"),  # Kobayashi et al., 2021
}
DEFAULT = "pieces"
REST = "other"
OVERALL = "overall"


def parse_categories(preset: str, texts: Sequence[str]) -> Categories:
    """The user's categories, each ``NAME=REGEX``; if there are none, those of a preset."""
    if not texts:
        return PRESETS[preset]
    listed = [_parse(text) for text in texts]
    names = [category.name for category in listed]
    for name in names:
        if names.count(name) > 1 or name in (REST, OVERALL):
            raise InputError(f"--category {name}: this name is taken; expected another one")
    return Categories(tuple(listed), REST)


def _parse(text: str) -> Category:
    name, separator, pattern = text.partition("=")
    name = name.strip()
    if not (name and separator and pattern):
        raise InputError(f"--category {text}: expected NAME=REGEX, as in 'comma=▁?,'")
    try:
        expression = re.compile(pattern)
    except re.error as error:
        raise InputError(
            f"--category {text}: {error}; expected a regular expression, with brackets of tokens "
            r"such as \[CLS\] escaped"
        ) from None
    return Category(name, partial(_fits, expression), pattern)


def _fits(expression: re.Pattern[str], token: Token) -> bool:
    return expression.fullmatch(token.symbol) is not None
