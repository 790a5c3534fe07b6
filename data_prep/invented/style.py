"""How far a translation can be foreseen: two kinds of invented languages."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Style:
    """What is left to chance when a sentence is thought and translated.

    Attributes:
        vocabulary: the size of each word class, as a share of that of the plain languages.
        flatness: words are drawn with probability ∝ 1 / (rank + flatness).
        synonyms: shares of lexemes with a second translation, a third one and so on.
        preferences: how often each translation is taken; what is missing goes to the last one.
        adjectives: how often a noun has one adjective, and another one.
        adverbs, obliques: how often a clause has each of two.
        free_order: the target has the arguments of a verb in any order; else in the source's.
        marked: the source marks case and definiteness by endings.
    """

    vocabulary: float = 1
    flatness: int = 2
    synonyms: tuple[float, ...] = (0.25,)
    preferences: tuple[float, ...] = (0.75, 0.25)
    adjectives: tuple[float, ...] = (0.25, 0.1)
    adverbs: float = 0.2
    obliques: float = 0.2
    free_order: bool = False
    marked: bool = True


STYLES = {
    # Endings and order tell the next word before it is said.
    "plain": Style(),
    # As in natural languages, they do not: a word must be read to know which one was meant.
    "free": Style(
        vocabulary=0.15,
        flatness=10,
        synonyms=(0.6, 0.4),
        preferences=(0.48, 0.3, 0.22),
        adjectives=(0.7, 0.3),
        adverbs=0.3,
        obliques=0.45,
        free_order=True,
        marked=False,
    ),
}
PLAIN = STYLES["plain"]
