"""The source language: verb-final, with case endings and compounds, without articles and subject pronouns."""

from __future__ import annotations

from .meaning import Clause, Node, Noun
from .words import END, Word

NOMINATIVE, ACCUSATIVE, GENITIVE, OBLIQUE = "", "ka", "no", "hen"
TENSE = {"present": "", "past": "ta", "future": "yo"}
PERSON = {(1, False): "mi", (2, False): "si", (3, False): "", (1, True): "mur", (2, True): "sur", (3, True): "ur"}
PLURAL, DEFINITE, COMPOUND, NEGATIVE, RELATIVE = "ir", "sa", "o", "nak", "ru"
TOPIC, QUESTION = "e", "oka"  # particles without a counterpart


def sentence(clause: Clause) -> list[Word]:
    """Subordinate clause, main clause, question particle, mark."""
    words = _clause(clause)
    verb = words[-1]
    if clause.subordinate:
        conjunction, subordinate = clause.subordinate
        inner = _clause(subordinate, relation="advcl", head=verb)
        words = [*inner, _function_word(conjunction, "SCONJ", "mark", inner[-1]), *words]
    if clause.question:
        words.append(Word(QUESTION, (), (), QUESTION, "PART", "discourse", verb))
    mark = "?" if clause.question else "."
    return [*words, Word(mark, (END,), (), mark, "PUNCT", "punct", verb)]


def _clause(clause: Clause, relation: str = "root", head: Word | None = None) -> list[Word]:
    """Topic, subject, adverb, adpositional phrase, object, verb."""
    *nominal, verb = _verb(clause, relation, head)
    places = {
        "subject": _subject(clause, verb),
        "adverb": [_content_word(clause.adverb, "ADV", "advmod", verb)] if clause.adverb else [],
        "oblique": _oblique(*clause.oblique, verb) if clause.oblique else [],
        "object": _noun(clause.object, ACCUSATIVE, "obj", verb) if clause.object else [],
    }
    topic = places.pop(clause.topic)
    if clause.topic != "subject":
        topic.append(Word(TOPIC, (), (), TOPIC, "PART", "discourse", verb))
    return [*topic, *(word for place in places.values() for word in place), *nominal, verb]


def _verb(clause: Clause, relation: str, head: Word | None) -> list[Word]:
    """The verb, after its noun if it is a light verb."""
    *nominal, stem = clause.source
    negation = NEGATIVE if clause.negated else ""
    ending = RELATIVE if clause.relative else PERSON[clause.agreement]
    # a dropped pronoun lives on in the ending
    marks = () if clause.subject is None or isinstance(clause.subject, Noun) else (clause.subject,)
    verb = Word(stem + negation + TENSE[clause.tense] + ending, (clause,), marks, stem, "VERB", relation, head)
    return [*(Word(noun, (clause,), (), noun, "NOUN", "compound:lvc", verb) for noun in nominal), verb]


def _subject(clause: Clause, verb: Word) -> list[Word]:
    said = isinstance(clause.subject, Noun) and not clause.relative
    return _noun(clause.subject, NOMINATIVE, "nsubj", verb) if said else []


def _oblique(adposition: Node, noun: Noun, verb: Word) -> list[Word]:
    phrase = _noun(noun, OBLIQUE, "obl", verb)
    return [*phrase, _function_word(adposition, "ADP", "case", phrase[-1])]


def _noun(noun: Noun, case: str, relation: str, head: Word) -> list[Word]:
    """Determiner, relative clause, owner, adjectives, noun: all agree in number and case."""
    ending = (PLURAL if noun.plural else "") + case
    means, stem = (noun,), noun.source[0]
    if noun.compound:
        means, stem = (noun.compound, noun), noun.compound.source[0] + COMPOUND + stem
    word = Word(stem + (DEFINITE if noun.definite else "") + ending, means, (), stem, "NOUN", relation, head)
    return [
        *([_function_word(noun.determiner, "DET", "det", word, ending)] if noun.determiner else []),
        *(_clause(noun.relative, "acl:relcl", word) if noun.relative else []),
        *(_noun(noun.owner, GENITIVE, "nmod", word) if noun.owner else []),
        *(_content_word(adjective, "ADJ", "amod", word, ending) for adjective in noun.adjectives),
        word,
    ]


def _content_word(node: Node, tag: str, relation: str, head: Word, ending: str = "") -> Word:
    return Word(node.source[0] + ending, (node,), (), node.source[0], tag, relation, head)


def _function_word(node: Node, tag: str, relation: str, head: Word, ending: str = "") -> Word:
    return Word(node.source[0] + ending, (), (node,), node.source[0], tag, relation, head)
