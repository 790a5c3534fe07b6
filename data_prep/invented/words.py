"""Words that remember what they say, and the links that follow from it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

END = "end"  # the meaning of the mark that closes a sentence


@dataclass(eq=False)
class Word:
    """A word: the meanings it expresses as content and those it marks as grammar.

    Source words also have a lemma, a part of speech and a place in the dependency tree; the root's
    head is None.
    """

    form: str
    means: tuple = ()
    marks: tuple = ()
    lemma: str = "_"
    tag: str = "X"
    relation: str = "root"
    head: Word | None = None


def links(source: Sequence[Word], target: Sequence[Word]) -> str:
    """Gold links of a sentence pair, 0-based, source first: `i-j` sure, `ipj` possible.

    Two words that express the same meaning are surely linked; possibly, where one of them only
    marks it.
    """
    pairs = []
    for i, here in enumerate(source):
        for j, there in enumerate(target):
            if set(here.means) & set(there.means):
                pairs.append(f"{i}-{j}")
            elif {*here.means, *here.marks} & {*there.means, *there.marks}:
                pairs.append(f"{i}p{j}")
    return " ".join(pairs)


def text(words: Iterable[Word]) -> str:
    """The sentence, words separated by spaces."""
    return " ".join(word.form for word in words)


def conllu(words: Sequence[Word], name: str) -> str:
    """The dependency tree in CoNLL-U; the empty line that ends it is the caller's newline."""
    number = {None: 0, **{word: i for i, word in enumerate(words, start=1)}}
    rows = [
        (
            number[word],
            word.form,
            word.lemma,
            word.tag,
            "_",
            "_",
            number[word.head],
            word.relation,
            "_",
            "_",
        )
        for word in words
    ]
    lines = [
        f"# sent_id = {name}",
        f"# text = {text(words)}",
        *("\t".join(map(str, row)) for row in rows),
    ]
    return "\n".join(lines) + "\n"
