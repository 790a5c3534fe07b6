"""The invented lexicon: source stems with their translations, drawn by Zipf's law.

The two languages share vowels but no consonant, so no word can be copied from one to the other.
Function words begin with a vowel, which no word coined here does.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from .style import PLAIN, Style

# onsets, vowels and codas of a syllable; the two sides share no consonant
SOURCE_SOUNDS = (
    ["k", "m", "n", "p", "r", "s", "t", "w", "y", "h", "ky", "ry", "sh"],
    ["a", "i", "u", "e", "o"],
    ["", "", "", "n"],
)
TARGET_SOUNDS = (
    ["b", "d", "f", "g", "j", "l", "v", "z", "bl", "fl", "gl", "dj"],
    ["a", "e", "i", "o", "u", "au", "ei"],
    ["l", "d", "g", "f", "b", "ld", "lf", "lz"],
)

HOMONYM = 0.10  # share of lexemes that borrow the translation of another one
SMALLEST = 5  # a word class has as many lexemes at least
LIGHT_VERB = 0.15  # share of verbs that are two words in the source: a noun and a light verb
SEPARABLE = 0.25  # share of translated verbs that have a separable particle

LIGHT_VERBS = ("asu", "oru", "iya")
PARTICLES = ("al", "ob", "idu", "eg", "ulfa", "ab")


@dataclass(frozen=True)
class Lexeme:
    """A meaning: its source stem and its target stems, the preferred one first.

    Each stem is a tuple of parts: `(noun, light verb)` in the source and `(verb, particle)` in the
    target are verbs of two words; everything else has one part.
    """

    source: tuple[str, ...]
    targets: tuple[tuple[str, ...], ...]

    def translation(self, rng: random.Random, style: Style = PLAIN) -> tuple[str, ...]:
        """One of the target stems; the preferred one most often."""
        place = rng.random()
        passed = sum(place >= share for share in accumulate(style.preferences[:-1]))
        return self.targets[min(passed, len(self.targets) - 1)]


class WordClass:
    """Lexemes in the order of their frequency.

    They are drawn with probability ∝ 1 / (rank + flatness) (Zipf–Mandelbrot).
    """

    def __init__(self, lexemes: Sequence[Lexeme], flatness: int):
        self.lexemes = list(lexemes)
        ranks = range(flatness, flatness + len(self.lexemes))
        self._cumulative = list(accumulate(1 / rank for rank in ranks))

    def draw(self, rng: random.Random) -> Lexeme:
        """One lexeme."""
        return rng.choices(self.lexemes, cum_weights=self._cumulative)[0]


class Coiner:
    """Invents words of one language, each only once."""

    def __init__(self, sounds: tuple[list[str], list[str], list[str]], rng: random.Random):
        self.sounds = sounds
        self.rng = rng
        self.used: set[str] = set()

    def coin(self, syllables: int) -> str:
        """A new word; it grows by a syllable when the short ones are taken."""
        for attempt in range(1000):
            word = ""
            for _ in range(syllables + attempt // 20):
                word += "".join(map(self.rng.choice, self.sounds))
            if word not in self.used:
                self.used.add(word)
                return word
        raise AssertionError("no free word left")


class Lexicon:
    """All word classes of the two languages."""

    def __init__(self, rng: random.Random, style: Style = PLAIN):
        self.rng = rng
        self.style = style
        self.source = Coiner(SOURCE_SOUNDS, rng)
        self.target = Coiner(TARGET_SOUNDS, rng)
        # Closed classes first: they get the short words.
        self.determiners = self._coin_class(6)  # this, every, ...
        self.adpositions = self._coin_class(10)
        self.conjunctions = self._coin_class(5)
        self.adverbs = self._coin_class(60)
        self.nouns = self._coin_class(400)
        self.adjectives = self._coin_class(100)
        self.transitives = self._coin_class(100, verbs=True)
        self.intransitives = self._coin_class(50, verbs=True)
        self.impersonals = self._coin_class(8)  # it rains

    def _coin_class(self, size: int, *, verbs: bool = False) -> WordClass:
        coin = self._coin_verb if verbs else self._coin_lexeme
        lexemes: list[Lexeme] = []
        for rank in range(max(SMALLEST, int(size * self.style.vocabulary))):
            # frequent words are short
            syllables = 1 if rank < 10 else 2 if rank < 200 else 3
            lexemes.append(coin(syllables, lexemes))
        return WordClass(lexemes, self.style.flatness)

    def _coin_lexeme(self, syllables: int, others: list[Lexeme]) -> Lexeme:
        source = (self.source.coin(syllables),)
        targets = [(self.target.coin(max(1, syllables - 1)),)]
        if others and self.rng.random() < HOMONYM:
            targets = [self.rng.choice(others).targets[0]]
        for share in self.style.synonyms:
            if self.rng.random() < share:
                targets.append((self.target.coin(syllables),))
        return Lexeme(source, tuple(targets))

    def _coin_verb(self, syllables: int, others: list[Lexeme]) -> Lexeme:
        lexeme = self._coin_lexeme(syllables, others)
        light = (self.rng.choice(LIGHT_VERBS),) if self.rng.random() < LIGHT_VERB else ()
        particles = [
            (self.rng.choice(PARTICLES),) if self.rng.random() < SEPARABLE else ()
            for _ in lexeme.targets
        ]
        targets = tuple(
            stem[:1] + particle for stem, particle in zip(lexeme.targets, particles, strict=True)
        )
        return Lexeme(lexeme.source + light, targets)
