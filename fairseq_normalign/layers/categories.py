"""Categories of tokens, such as special ones and punctuation, and how frequent tokens are.

This module imports no PyTorch: ``--help`` reads it.
"""

from __future__ import annotations

import bisect
import math
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from operator import attrgetter
from typing import NamedTuple

from fairseq_normalign.errors import InputError


class Token(NamedTuple):
    """One token as a category or a frequency rank sees it."""

    number: int  # in the dictionary
    symbol: str  # as it stands in the dictionary, or is printed
    letters: str  # without the mark of its BPE
    is_special: bool  # belongs to no word
    continues: bool  # is not the first piece of its word


Members = Mapping[str, Callable[[Token], object]]


@dataclass(frozen=True)
class Categories:
    """Categories, the first that has a token wins; and what tokens of none are called."""

    listed: Members  # by name, whether it has a token
    rest: str
    patterns: Mapping[str, str] = field(default_factory=dict)  # of those that are the user's

    @property
    def names(self) -> list[str]:
        return [*self.listed, self.rest]

    def index(self, token: Token) -> int:
        """The place of a token's category in ``names``."""
        for place, has in enumerate(self.listed.values()):
            if has(token):
                return place
        return len(self.listed)

    def check_vocabulary(self, symbols: Iterable[str]) -> None:
        """Refuses a category of the user that no symbol of the dictionaries is in."""
        known = list(symbols)
        for name, pattern in self.patterns.items():
            if not any(re.fullmatch(pattern, symbol) for symbol in known):
                raise InputError(
                    f"--category {name}={pattern}: matches no token of the dictionary; "
                    "the regular expression must match a whole token as it stands there"
                )


def _is_punctuation(token: Token) -> bool:
    """Whether all letters are punctuation marks or symbols, by Unicode."""
    return bool(token.letters) and all(
        unicodedata.category(letter)[0] in "PS" for letter in token.letters
    )


def _is_period_or_comma(token: Token) -> bool:
    return token.letters in (".", ",")


def _matches(pattern: str, token: Token) -> object:
    return re.fullmatch(pattern, token.symbol)


CLS = {"[CLS]": partial(_matches, r"\[CLS\]|<s>")}
SEP = {"[SEP]": partial(_matches, r"\[SEP\]|</s>")}
MASK = {"[MASK]": partial(_matches, r"\[MASK\]|<mask>")}
SPECIAL = {"special": attrgetter("is_special")}
PERIOD_COMMA = {"period/comma": _is_period_or_comma}
OF_PIECES: Members = {"punctuation": _is_punctuation, "continuation": attrgetter("continues")}

PRESETS = {
    "pieces": Categories({**SPECIAL, **OF_PIECES}, "word"),
    "marks": Categories({**SPECIAL, **PERIOD_COMMA}, "other"),
    "bert-2020": Categories({**CLS, **SEP, **PERIOD_COMMA}, "other"),  # Kobayashi et al., 2020
    "bert-2021": Categories({**MASK, **CLS, **SEP}, "Normal"),  # Kobayashi et al., 2021
}
DEFAULT = "pieces"
REST = "other"
OVERALL = "overall"


def parse_categories(preset: str, texts: Sequence[str]) -> Categories:
    """The user's categories, each ``NAME=REGEX``; if there are none, those of a preset."""
    if not texts:
        return PRESETS[preset]
    patterns: dict[str, str] = {}
    for text in texts:
        name, _, pattern = text.partition("=")
        name = name.strip()
        if not (name and pattern):
            raise InputError(f"--category {text}: write NAME=REGEX, as in 'comma=▁?,'")
        if name in (*patterns, REST, OVERALL):
            raise InputError(f"--category {name}: this name is taken; choose another one")
        try:
            re.compile(pattern)
        except re.error as error:
            raise InputError(
                f"--category {text}: {error}; this is no regular expression (escape the brackets "
                r"of tokens such as \[CLS\])"
            ) from None
        patterns[name] = pattern
    listed = {name: partial(_matches, pattern) for name, pattern in patterns.items()}
    return Categories(listed, REST, patterns)


LEFT_OUT = math.nan
# The four tokens that count as the most frequent ones (Kobayashi et al., 2020, footnotes 5 and 6),
# which are the comma, the period, [SEP] and [CLS]; here </s> or whatever else ends or begins a
# sentence or names its language is in the place of the latter.
STOPS = {",": 1.0, ".": 2.0}
FIRST_MARKS = {"[CLS]": 4.0, "<s>": 4.0}
OTHER_MARK = 3.0
MASKS = ("<mask>", "[MASK]")  # of whose words a model sees nothing
NO_WORDS = ("<unk>", "[UNK]", *MASKS, "<pad>", "[PAD]")

SOURCES = {
    "ids": "the order of the dictionary, which is that of the tokenizer's ids",
    "counts": "the counts in the dictionary",
}


# The rank of a token that is a piece of a word, 1 for the most frequent; nan if it is left out.
Ranks = Callable[[Token, str], float]


def rank_by_id(token: Token, word: str) -> float:
    """The order of the dictionary, with the exceptions of Kobayashi et al. (2020).

    Single characters are left out, whose ids say nothing of frequency in BERT's vocabulary.
    """
    if token.symbol in NO_WORDS:
        return LEFT_OUT
    if token.is_special:
        return FIRST_MARKS.get(token.symbol, OTHER_MARK)
    if token.letters in STOPS:
        return STOPS[token.letters]
    if len(token.letters) < 2:
        return LEFT_OUT
    return len(STOPS) + 2.0 + token.number


def rank_by_count(counts: Mapping[str, float], *, of_words: bool = False) -> Ranks:
    """The order of counts; equal counts have equal ranks. Special tokens are the most frequent.

    Args:
        counts: of pieces or of words.
        of_words: whether they are of words: a piece is as frequent as its word.
    """
    ascending = sorted(counts.values())

    def rank(token: Token, word: str) -> float:
        if token.is_special:
            return LEFT_OUT if token.symbol in NO_WORDS else 0.0
        if token.symbol in (MASKS if of_words else NO_WORDS):
            return LEFT_OUT
        count = counts.get(word if of_words else token.symbol, 0.0)
        more_frequent = len(ascending) - bisect.bisect_right(ascending, count)
        return 1.0 + more_frequent

    return rank
