"""The target language: verb-second, with articles, prepositions and separable verbs.

An auxiliary makes the future.
"""

from __future__ import annotations

from itertools import chain

from .meaning import Argument, Clause, Nobody, Node, Noun, Pronoun
from .words import END, Word

PERSON = {
    (1, False): "e",
    (2, False): "ed",
    (3, False): "ag",
    (1, True): "ef",
    (2, True): "elf",
    (3, True): "ef",
}
PRONOUN = {
    (1, False): "ib",
    (2, False): "ul",
    (3, False): "ez",
    (1, True): "iv",
    (2, True): "ulv",
    (3, True): "ezil",
}
PAST, PLURAL, INFINITIVE, AUXILIARY = "iz", "ez", "ul", "av"
DEFINITE, DEFINITE_PLURAL, INDEFINITE = "el", "eil", "ad"
NOT, OF, THAT, EXPLETIVE = "olf", "ed", "aud", "igg"


def sentence(clause: Clause) -> list[Word]:
    """Main clause, verb-second or, in questions, verb-first; then the subordinate clause."""
    words = _predicate(clause, _in_order(clause)) if clause.question else _verb_second(clause)
    if clause.subordinate:
        conjunction, subordinate = clause.subordinate
        words += [Word(","), _function_word(conjunction), *_verb_second(subordinate)]
    return [*words, Word("?" if clause.question else ".", (END,))]


def _verb_second(clause: Clause) -> list[Word]:
    topic, *others = _in_order(clause)
    return [*_argument(topic), *_predicate(clause, others)]


def _in_order(clause: Clause) -> list[Argument]:
    return clause.translated or clause.arguments


def _predicate(clause: Clause, arguments: list[Argument]) -> list[Word]:
    """Finite verb, arguments, negation, then the infinitive or the separated particle."""
    stem, *particle = clause.target
    ending = PERSON[clause.subject.person, clause.subject.plural]
    if clause.tense == "future":
        finite = Word(AUXILIARY + ending, (), (clause,))
        last = [Word("".join(particle) + stem + INFINITIVE, (clause,))]
    else:
        finite = Word(stem + (PAST if clause.tense == "past" else "") + ending, (clause,))
        last = [Word(part, (clause,)) for part in particle]
    negation = [Word(NOT, (), (clause,))] if clause.negated else []
    return [finite, *chain(*map(_argument, arguments)), *negation, *last]


def _argument(argument: Argument) -> list[Word]:
    node = argument.node
    if isinstance(node, Nobody):
        return [Word(EXPLETIVE)]
    if isinstance(node, Pronoun):
        return [Word(PRONOUN[node.person, node.plural], (), (node,))]
    if isinstance(node, Noun):
        return [
            *([_function_word(argument.adposition)] if argument.adposition else []),
            *_noun(node),
        ]
    return [Word(node.target[0], (node,))]


def _noun(noun: Noun) -> list[Word]:
    """Article or determiner, adjectives, the parts of a compound, owner, relative clause."""
    plural = PLURAL if noun.plural else ""
    return [
        *_article(noun),
        *(Word(adjective.target[0] + plural, (adjective,)) for adjective in noun.adjectives),
        *([Word(noun.compound.target[0], (noun.compound,))] if noun.compound else []),
        Word(noun.target[0] + plural, (noun,)),
        *([Word(OF, (), (noun.owner,)), *_noun(noun.owner)] if noun.owner else []),
        *(_relative(noun.relative) if noun.relative else []),
    ]


def _relative(clause: Clause) -> list[Word]:
    return [Word(","), Word(THAT, (), (clause,)), *_predicate(clause, _in_order(clause))]


def _article(noun: Noun) -> list[Word]:
    if noun.determiner:
        return [_function_word(noun.determiner)]
    if noun.definite:
        return [Word(DEFINITE_PLURAL if noun.plural else DEFINITE, (), (noun,))]
    return [] if noun.plural else [Word(INDEFINITE, (), (noun,))]


def _function_word(node: Node) -> Word:
    return Word(node.target[0], (), (node,))
