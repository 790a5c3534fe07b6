"""The synthetic corpus: sentences worked by hand, and what its documentation promises of all."""

from __future__ import annotations

import hashlib
from collections import Counter
from itertools import islice

import pytest
import synthetic
from invented import source, target
from invented.lexicon import Lexeme
from invented.meaning import Argument, Clause, Node, Noun, Pronoun
from invented.style import STYLES
from invented.words import conllu, links, text

from fairseq_normalign.text.links import parse_gold


@pytest.fixture(scope="module", params=STYLES)
def style(request) -> str:
    return request.param


@pytest.fixture(scope="module")
def pairs(style) -> list[synthetic.Pair]:
    return list(islice(synthetic.sentence_pairs(1, STYLES[style]), 1000))


@pytest.fixture(scope="module")
def gold(pairs) -> list:
    return [parse_gold(links(pair.source, pair.target)) for pair in pairs]


# Hand-worked sentences
# ----------------------------------------------------------------------------------------


def node(stem: str, *targets: str, kind: type = Node, **what):
    """A node with the parts of its source stem and of its target stem, separated by spaces."""
    return kind(Lexeme(tuple(stem.split()), (targets,)), targets, **what)


def dog(**what) -> Noun:
    return node("koma", "bald", kind=Noun, **what)


def see(*arguments: Argument, **what) -> Clause:
    return node("mi", "vad", kind=Clause, arguments=list(arguments), **what)


def subject(noun) -> Argument:
    return Argument("nsubj", noun)


def transitive() -> Clause:
    cat = dog(plural=True, definite=True)
    mouse = node("nu", "gel", kind=Noun, adjectives=[node("ryo", "flid")])
    return see(subject(cat), Argument("obj", mouse), subject=cat, tense="past")


def topic_and_pronoun() -> Clause:
    us = Pronoun(1, True)
    house = Argument("obl", node("pe", "dulz", kind=Noun), node("ra", "zug"))
    return node("tana oru", "gof", "idu", kind=Clause, arguments=[house, subject(us)], subject=us)


def compound_and_future() -> Clause:
    name = dog(compound=node("sho", "zeil"), owner=node("wen", "lilf", kind=Noun, plural=True))
    return node(
        "hi",
        "jad",
        "al",
        kind=Clause,
        arguments=[subject(name)],
        subject=name,
        tense="future",
        negated=True,
    )


def relative_clause() -> Clause:
    noun = dog(determiner=node("so", "fub"))
    noun.relative = see(Argument("advmod", node("yu", "fleb")), subject=noun, relative=True)
    return node("ne", "zol", kind=Clause, arguments=[subject(noun)], subject=noun, question=True)


def subordinate_clause() -> Clause:
    rain = node("kyu", "belz", kind=Clause)
    rain.arguments = [subject(rain.subject)]
    you = Pronoun(2, False)
    rain.subordinate = node("to", "vaul"), see(subject(you), subject=you)
    return rain


HAND_WORKED = [
    (
        transitive,
        "komasair ryoka nuka mitaur .",
        "eil baldez vadizef ad flid gel .",
        "0p0 0-1 1-4 2p3 2-5 3-2 4-6",
    ),
    (
        topic_and_pronoun,
        "pehen ra e tana orumur .",
        "zug ad dulz gofef iv idu .",
        "0p1 0-2 1p0 3-3 3-5 4-3 4p4 4-5 5-6",
    ),
    (
        compound_and_future,
        "wenirno shookoma hinakyo .",
        "ad zeil bald ed lilfez avag olf aljadul .",
        "0p3 0-4 1p0 1-1 1-2 2p5 2p6 2-7 3-8",
    ),
    (
        relative_clause,
        "so yu miru koma ne oka ?",
        "zolag fub bald , aud vadag fleb ?",
        "0p1 1-6 2p4 2-5 3-2 4-0 6-7",
    ),
    (subordinate_clause, "misi to kyu .", "igg belzag , vaul ul vaded .", "0p4 0-5 1p3 2-1 3-6"),
]


@pytest.mark.parametrize(("clause", "ours", "theirs", "expected"), HAND_WORKED)
def test_hand_worked_sentence(clause, ours, theirs, expected):
    meaning = clause()
    here, there = source.sentence(meaning), target.sentence(meaning)
    assert text(here) == ours
    assert text(there) == theirs
    assert links(here, there) == expected


def test_hand_worked_tree():
    tree = conllu(source.sentence(relative_clause()), "one")
    assert tree.splitlines()[:2] == ["# sent_id = one", "# text = so yu miru koma ne oka ?"]
    assert [line.replace("\t", " ") for line in tree.splitlines()[2:]] == [
        "1 so so DET _ _ 4 det _ _",
        "2 yu yu ADV _ _ 3 advmod _ _",
        "3 miru mi VERB _ _ 4 acl:relcl _ _",
        "4 koma koma NOUN _ _ 5 nsubj _ _",
        "5 ne ne VERB _ _ 0 root _ _",
        "6 oka oka PART _ _ 5 discourse _ _",
        "7 ? ? PUNCT _ _ 5 punct _ _",
    ]


# Free languages
# ----------------------------------------------------------------------------------------


def unmarked_in_another_order() -> Clause:
    clause = transitive()
    for argument in clause.arguments:
        argument.node.marked = False
    clause.translated = clause.arguments[::-1]
    return clause


def test_hand_worked_sentence_of_a_free_language():
    """No case, no definiteness in the source; the object first in the target."""
    clause = unmarked_in_another_order()
    here, there = source.sentence(clause), target.sentence(clause)
    assert text(here) == "komair ryo nu mitaur ."
    assert text(there) == "ad flid gel vadizef eil baldez ."
    assert links(here, there) == "0p4 0-5 1-1 2p0 2-2 3-3 4-6"


# Promises
# ----------------------------------------------------------------------------------------


def test_every_content_word_is_surely_linked(pairs, gold):
    content = {"NOUN", "VERB", "ADJ", "ADV"}
    for pair, sentence in zip(pairs, gold, strict=True):
        linked = {s for s, _ in sentence.sure}
        assert all(
            (word.tag in content or word.tag == "PUNCT") == (i in linked)
            for i, word in enumerate(pair.source)
        )


def test_all_kinds_of_links_occur(pairs, gold):
    kinds = Counter()
    for pair, (sure, possible) in zip(pairs, gold, strict=True):
        sources, targets = Counter(s for s, _ in sure), Counter(t for _, t in sure)
        kinds["one-to-many"] += max(sources.values()) > 1
        kinds["many-to-one"] += max(targets.values()) > 1
        kinds["unaligned source"] += len({s for s, _ in possible}) < len(pair.source)
        kinds["unaligned target"] += len({t for _, t in possible}) < len(pair.target)
        kinds["crossing"] += any(s < other and t > there for s, t in sure for other, there in sure)
        kinds["possible"] += len(possible) > len(sure)
    assert all(kinds[kind] > 0.05 * len(pairs) for kind in kinds), kinds
    assert len(kinds) == 6


def test_trees_are_trees(pairs):
    for pair in pairs:
        rows = [
            line.split("\t")
            for line in conllu(pair.source, "x").splitlines()
            if not line.startswith("#")
        ]
        heads = {int(row[0]): int(row[6]) for row in rows if row != [""]}
        assert list(heads) == list(range(1, len(pair.source) + 1))
        assert [row[1] for row in rows if row != [""]] == [word.form for word in pair.source]
        assert list(heads.values()).count(0) == 1
        assert all(reaches_root(word, heads) for word in heads)


def reaches_root(word: int, heads: dict) -> bool:
    for _ in heads:
        word = heads[word]
        if word == 0:
            return True
    return False


# The command
# ----------------------------------------------------------------------------------------


def generate(folder, *options: str) -> dict[str, bytes]:
    synthetic.main([str(folder), "--train", "50", "--valid", "20", "--test", "20", *options])
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def test_same_seed_same_bytes_whatever_the_training_size(tmp_path):
    once, again = generate(tmp_path / "a"), generate(tmp_path / "b")
    assert once == again
    longer = generate(tmp_path / "c", "--train", "60")
    other = generate(tmp_path / "d", "--seed", "2")
    of_training = {"train.src", "train.tgt", "freq.src.txt"}
    free = generate(tmp_path / "e", "--style", "free")
    assert {name for name in once if once[name] != longer[name]} == of_training
    assert longer["train.src"].startswith(once["train.src"])
    assert not any(once[name] in (other[name], free[name]) for name in once)


@pytest.mark.parametrize(
    ("style", "expected"),
    [
        ("plain", "058a43dd7a2a6baff34c16f852f7cd525dec299a8d76554a3a6b59ed0a8d325d"),
        ("free", "db86f8cd99031fbe09e1c2895010ee926471596cc317e80f3a47eb3c7c82c643"),
    ],
)
def test_bytes_do_not_depend_on_python_or_platform(tmp_path, style, expected):
    """The value changes with the grammar.

    Then put the new one here, and new figures in the documentation.
    """
    files = generate(tmp_path, "--style", style)
    digest = hashlib.sha256(b"".join(files[name] for name in sorted(files))).hexdigest()
    assert digest == expected


def test_splits_share_no_sentence(tmp_path):
    files = generate(tmp_path, "--train", "3000")
    names = ("train.src", "valid.src", "test.src")
    train, valid, test = (set(files[name].decode().splitlines()) for name in names)
    assert not train & test
    assert not train & valid
    assert not valid & test
