"""The source language: verb-final, with case endings and compounds.

It has neither articles nor subject pronouns.
"""

from __future__ import annotations

from itertools import chain

from .meaning import Argument, Clause, Node, Noun, Pronoun
from .words import END, Word

CASE = {"nsubj": "", "obj": "ka", "obl": "hen", "nmod": "no"}
TENSE = {"present": "", "past": "ta", "future": "yo"}
PERSON = {
    (1, False): "mi",
    (2, False): "si",
    (3, False): "",
    (1, True): "mur",
    (2, True): "sur",
    (3, True): "ur",
}
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
    """The arguments, a particle after a topic that is not the subject, and the verb last."""
    *nominal, verb = _verb(clause, relation, head)
    places = [_argument(argument, verb) for argument in clause.arguments]
    if relation == "root" and places and clause.arguments[0].relation != "nsubj":
        places[0].append(Word(TOPIC, (), (), TOPIC, "PART", "discourse", verb))
    return [*chain(*places), *nominal, verb]


def _verb(clause: Clause, relation: str, head: Word | None) -> list[Word]:
    """The verb, after its noun if it is a light verb."""
    *nominal, stem = clause.source
    subject = clause.subject
    negation = NEGATIVE if clause.negated else ""
    ending = RELATIVE if clause.relative else PERSON[subject.person, subject.plural]
    # a dropped pronoun lives on in the ending
    marks = (subject,) if isinstance(subject, Pronoun) else ()
    verb = Word(
        stem + negation + TENSE[clause.tense] + ending,
        (clause,),
        marks,
        stem,
        "VERB",
        relation,
        head,
    )
    return [
        *(Word(noun, (clause,), (), noun, "NOUN", "compound:lvc", verb) for noun in nominal),
        verb,
    ]


def _argument(argument: Argument, verb: Word) -> list[Word]:
    if isinstance(argument.node, Pronoun):
        return []
    if not isinstance(argument.node, Noun):
        return [_content_word(argument.node, "ADV", argument.relation, verb)]
    phrase = _noun(argument.node, argument.relation, verb)
    if argument.adposition:
        phrase.append(_function_word(argument.adposition, "ADP", "case", phrase[-1]))
    return phrase


def _noun(noun: Noun, relation: str, head: Word) -> list[Word]:
    """Determiner, relative clause, owner, adjectives, noun: all agree in number and case.

    A noun that is not marked has the case of owners alone.
    """
    case = CASE[relation] if noun.marked or relation == "nmod" else ""
    ending = (PLURAL if noun.plural else "") + case
    means, stem = (noun,), noun.source[0]
    if noun.compound:
        means, stem = (noun.compound, noun), noun.compound.source[0] + COMPOUND + stem
    definite = DEFINITE if noun.definite and noun.marked else ""
    word = Word(stem + definite + ending, means, (), stem, "NOUN", relation, head)
    return [
        *([_function_word(noun.determiner, "DET", "det", word, ending)] if noun.determiner else []),
        *(_clause(noun.relative, "acl:relcl", word) if noun.relative else []),
        *(_noun(noun.owner, "nmod", word) if noun.owner else []),
        *(_content_word(adjective, "ADJ", "amod", word, ending) for adjective in noun.adjectives),
        word,
    ]


def _content_word(node: Node, tag: str, relation: str, head: Word, ending: str = "") -> Word:
    return Word(node.source[0] + ending, (node,), (), node.source[0], tag, relation, head)


def _function_word(node: Node, tag: str, relation: str, head: Word, ending: str = "") -> Word:
    return Word(node.source[0] + ending, (), (node,), node.source[0], tag, relation, head)
