"""What a sentence says, before either language says it: clauses, nouns and their modifiers."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from .lexicon import Lexeme, Lexicon, WordClass

TENSES = ("present", "past", "future")
PERSONS = (1, 2, 3)


@dataclass(eq=False)
class Node:
    """One meaning in a sentence: a lexeme and the translation chosen for it here. Compared by identity."""

    lexeme: Lexeme
    target: tuple[str, ...]

    @property
    def source(self) -> tuple[str, ...]:
        """The parts of the source stem."""
        return self.lexeme.source


@dataclass(eq=False)
class Pronoun:
    """A subject that the source leaves to the verb's ending and the target says."""

    person: int
    plural: bool


@dataclass(eq=False)
class Noun(Node):
    """A noun with what modifies it."""

    plural: bool = False
    definite: bool = False
    determiner: Node | None = None  # this, every, ...
    adjectives: list[Node] = field(default_factory=list)
    compound: Node | None = None  # first part of a compound: one source word, two target words
    owner: Noun | None = None
    relative: Clause | None = None  # a clause about this noun, its subject
    person: int = 3


@dataclass(eq=False)
class Clause(Node):
    """A verb with its arguments; the node is the verb."""

    tense: str = "present"
    negated: bool = False
    question: bool = False
    subject: Noun | Pronoun | None = None  # None: nobody, as in "it rains"
    object: Noun | None = None
    adverb: Node | None = None
    oblique: tuple[Node, Noun] | None = None  # adposition and noun
    subordinate: tuple[Node, Clause] | None = None  # conjunction and clause
    topic: str = "subject"  # the constituent that comes first in both languages
    relative: bool = False  # modifies its subject, and so does not say it again

    @property
    def agreement(self) -> tuple[int, bool]:
        """Person and number of the verb."""
        return (self.subject.person, self.subject.plural) if self.subject else (3, False)


class Thinker:
    """Draws clauses at random."""

    def __init__(self, lexicon: Lexicon, rng: random.Random):
        self.lexicon = lexicon
        self.rng = rng

    def sentence(self) -> Clause:
        """A main clause."""
        if self._chance(0.04):
            clause = self._node(self.lexicon.impersonals, Clause)
        else:
            clause = self._predicate()
            clause.subject = self._pronoun() if self._chance(0.25) else self.noun()
        if self._chance(0.15):
            clause.subordinate = self._node(self.lexicon.conjunctions), self._subordinate()
        clause.question = self._chance(0.08)
        clause.topic = self._topic(clause)
        return clause

    def noun(self, *, depth: int = 0) -> Noun:
        """A noun phrase; the deeper, the simpler."""
        noun = self._node(self.lexicon.nouns, Noun)
        noun.plural = self._chance(0.3)
        if self._chance(0.15):
            noun.determiner = self._node(self.lexicon.determiners)
        else:
            noun.definite = self._chance(0.5)
        noun.adjectives = [self._node(self.lexicon.adjectives) for share in (0.25, 0.05) if self._chance(share)]
        if self._chance(0.15):
            noun.compound = self._node(self.lexicon.nouns)
        if depth == 0 and self._chance(0.1):
            noun.owner = self.noun(depth=1)
        elif depth == 0 and self._chance(0.08):
            noun.relative = self._predicate(depth=1)
            noun.relative.subject, noun.relative.relative = noun, True
        return noun

    def _predicate(self, *, depth: int = 0) -> Clause:
        """A clause without its subject."""
        transitive = self._chance(0.6)
        clause = self._node(self.lexicon.transitives if transitive else self.lexicon.intransitives, Clause)
        clause.tense = self.rng.choice(TENSES)
        clause.negated = self._chance(0.1)
        clause.object = self.noun(depth=depth) if transitive else None
        if depth == 0 and self._chance(0.35):
            clause.adverb = self._node(self.lexicon.adverbs)
        if self._chance(0.15 if depth else 0.3):
            clause.oblique = self._node(self.lexicon.adpositions), self.noun(depth=1)
        return clause

    def _subordinate(self) -> Clause:
        clause = self._predicate(depth=1)
        clause.subject = self._pronoun() if self._chance(0.5) else self.noun(depth=1)
        return clause

    def _pronoun(self) -> Pronoun:
        return Pronoun(self.rng.choice(PERSONS), self._chance(0.4))

    def _topic(self, clause: Clause) -> str:
        others = [name for name in ("adverb", "oblique", "object") if getattr(clause, name)]
        return self.rng.choice(others) if others and self._chance(0.35) else "subject"

    def _node(self, words: WordClass, kind: type = Node):
        lexeme = words.draw(self.rng)
        return kind(lexeme, lexeme.translation(self.rng))

    def _chance(self, share: float) -> bool:
        return self.rng.random() < share
