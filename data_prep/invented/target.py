"""The target language: verb-second, with articles, prepositions, separable verbs and an auxiliary for the future."""

from __future__ import annotations

from .meaning import Clause, Node, Noun, Pronoun
from .words import END, Word

PERSON = {(1, False): "e", (2, False): "ed", (3, False): "ag", (1, True): "ef", (2, True): "elf", (3, True): "ef"}
PRONOUN = {(1, False): "ib", (2, False): "ul", (3, False): "ez", (1, True): "iv", (2, True): "ulv", (3, True): "ezil"}
PAST, PLURAL, INFINITIVE, AUXILIARY = "iz", "ez", "ul", "av"
DEFINITE, DEFINITE_PLURAL, INDEFINITE = "el", "eil", "ad"
NOT, OF, THAT, EXPLETIVE = "olf", "ed", "aud", "igg"


def sentence(clause: Clause) -> list[Word]:
    """Main clause, verb-second or, in questions, verb-first; then the subordinate clause, subject first."""
    places = _places(clause)
    front = [] if clause.question else places.pop(clause.topic)
    words = [*front, *_predicate(clause, places)]
    if clause.subordinate:
        conjunction, subordinate = clause.subordinate
        inner = _places(subordinate)
        words += [Word(","), _function_word(conjunction), *inner.pop("subject"), *_predicate(subordinate, inner)]
    return [*words, Word("?" if clause.question else ".", (END,))]


def _places(clause: Clause) -> dict[str, list[Word]]:
    """What each constituent says, in the order of the field after the finite verb."""
    return {
        "subject": _subject(clause),
        "negation": [Word(NOT, (), (clause,))] if clause.negated else [],
        "object": _noun(clause.object) if clause.object else [],
        "oblique": [_function_word(clause.oblique[0]), *_noun(clause.oblique[1])] if clause.oblique else [],
        "adverb": [Word(clause.adverb.target[0], (clause.adverb,))] if clause.adverb else [],
    }


def _predicate(clause: Clause, places: dict[str, list[Word]]) -> list[Word]:
    """Finite verb, the places still free, then the infinitive or the separated particle."""
    stem, *particle = clause.target
    ending = PERSON[clause.agreement]
    if clause.tense == "future":
        finite = Word(AUXILIARY + ending, (), (clause,))
        last = [Word("".join(particle) + stem + INFINITIVE, (clause,))]
    else:
        finite = Word(stem + (PAST if clause.tense == "past" else "") + ending, (clause,))
        last = [Word(part, (clause,)) for part in particle]
    return [finite, *(word for place in places.values() for word in place), *last]


def _subject(clause: Clause) -> list[Word]:
    if clause.relative:
        return [Word(THAT, (), (clause,))]
    if clause.subject is None:
        return [Word(EXPLETIVE)]
    if isinstance(clause.subject, Pronoun):
        return [Word(PRONOUN[clause.agreement], (), (clause.subject,))]
    return _noun(clause.subject)


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


def _article(noun: Noun) -> list[Word]:
    if noun.determiner:
        return [_function_word(noun.determiner)]
    if noun.definite:
        return [Word(DEFINITE_PLURAL if noun.plural else DEFINITE, (), (noun,))]
    return [] if noun.plural else [Word(INDEFINITE, (), (noun,))]


def _relative(clause: Clause) -> list[Word]:
    places = _places(clause)
    return [Word(","), *places.pop("subject"), *_predicate(clause, places)]


def _function_word(node: Node) -> Word:
    return Word(node.target[0], (), (node,))
