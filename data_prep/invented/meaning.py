"""What a sentence says, before either language says it: clauses, nouns and their modifiers."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from .lexicon import Lexeme, Lexicon, WordClass
from .style import PLAIN, Style

TENSES = ("present", "past", "future")
PERSONS = (1, 2, 3)


@dataclass(eq=False)
class Node:
    """One meaning in a sentence: a lexeme and the translation chosen for it here.

    Compared by identity.
    """

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
class Nobody(Pronoun):
    """The subject of "it rains", which only the target says."""

    person: int = 3
    plural: bool = False


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
    marked: bool = True  # the source marks its case and definiteness
    person: int = 3


@dataclass(eq=False)
class Argument:
    """What depends on a verb, by its relation in Universal Dependencies.

    That is nsubj, obj, obl or advmod.
    """

    relation: str
    node: Node | Pronoun
    adposition: Node | None = None


@dataclass(eq=False)
class Clause(Node):
    """A verb with its arguments; the node is the verb.

    The first argument is the topic. The target has them in the same order, unless `translated`
    gives it another one.
    """

    tense: str = "present"
    negated: bool = False
    question: bool = False
    subject: Noun | Pronoun = field(default_factory=Nobody)
    arguments: list[Argument] = field(default_factory=list)
    translated: list[Argument] = field(default_factory=list)  # the same in the target's order
    subordinate: tuple[Node, Clause] | None = None  # conjunction and clause
    relative: bool = False  # modifies its subject, which is then no argument


class Thinker:
    """Draws clauses at random."""

    def __init__(self, lexicon: Lexicon, rng: random.Random, style: Style = PLAIN):
        self.lexicon = lexicon
        self.rng = rng
        self.style = style

    def sentence(self) -> Clause:
        """A main clause, perhaps with a subordinate one."""
        if self._chance(0.04):
            clause = self._node(self.lexicon.impersonals, Clause)
        else:
            clause = self._personal()
        # the subject is the topic unless something else is; then it comes second
        fronted = clause.arguments and self._chance(0.35)
        clause.arguments.insert(1 if fronted else 0, Argument("nsubj", clause.subject))
        if self._chance(0.12):
            clause.subordinate = self._node(self.lexicon.conjunctions), self._subordinate()
        clause.question = self._chance(0.08)
        self._translate(clause)
        return clause

    def noun(self, *, depth: int = 0) -> Noun:
        """A noun phrase; the deeper, the simpler."""
        noun = self._node(self.lexicon.nouns, Noun)
        noun.marked = self.style.marked
        noun.plural = self._chance(0.3)
        if self._chance(0.15):
            noun.determiner = self._node(self.lexicon.determiners)
        else:
            noun.definite = self._chance(0.5)
        noun.adjectives = [
            self._node(self.lexicon.adjectives)
            for share in self.style.adjectives
            if self._chance(share)
        ]
        if self._chance(0.12):
            noun.compound = self._node(self.lexicon.nouns)
        if depth == 0 and self._chance(0.1):
            noun.owner = self.noun(depth=1)
        elif depth == 0 and self._chance(0.08):
            noun.relative = self._predicate(depth=1)
            noun.relative.subject, noun.relative.relative = noun, True
            self._translate(noun.relative)
        return noun

    def _predicate(self, *, depth: int = 0) -> Clause:
        """A clause without its subject."""
        transitive = self._chance(0.6)
        clause = self._node(
            self.lexicon.transitives if transitive else self.lexicon.intransitives, Clause
        )
        clause.tense = self.rng.choice(TENSES)
        clause.negated = self._chance(0.1)
        if transitive:
            clause.arguments.append(Argument("obj", self.noun(depth=depth)))
        for _ in range(1 if depth else 2):
            if self._chance(self.style.adverbs):
                clause.arguments.append(Argument("advmod", self._node(self.lexicon.adverbs)))
            if self._chance(self.style.obliques):
                clause.arguments.append(
                    Argument("obl", self.noun(depth=1), self._node(self.lexicon.adpositions))
                )
        self.rng.shuffle(clause.arguments)
        return clause

    def _personal(self) -> Clause:
        clause = self._predicate()
        clause.subject = self._pronoun() if self._chance(0.25) else self.noun()
        return clause

    def _subordinate(self) -> Clause:
        clause = self._predicate(depth=1)
        clause.subject = self._pronoun() if self._chance(0.5) else self.noun(depth=1)
        clause.arguments.insert(0, Argument("nsubj", clause.subject))
        self._translate(clause)
        return clause

    def _translate(self, clause: Clause) -> None:
        """Chooses the order of the arguments in the target, if it is free."""
        if self.style.free_order:
            clause.translated = self.rng.sample(clause.arguments, len(clause.arguments))

    def _pronoun(self) -> Pronoun:
        return Pronoun(self.rng.choice(PERSONS), self._chance(0.4))

    def _node(self, words: WordClass, kind: type = Node):
        lexeme = words.draw(self.rng)
        return kind(lexeme, lexeme.translation(self.rng, self.style))

    def _chance(self, share: float) -> bool:
        return self.rng.random() < share
