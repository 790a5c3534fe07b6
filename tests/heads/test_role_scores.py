"""Roles found in models whose attention was made to have them."""

import numpy as np
import pytest
import torch

from fairseq_normalign.attention.recorder import record
from fairseq_normalign.heads.profiling import profile
from fairseq_normalign.heads.syntax import between_words
from fairseq_normalign.host.pairs import PairReader, text_pairs
from fairseq_normalign.names import Head
from fairseq_normalign.text.treebank import Tree
from tests.conftest import build_model, ready_model, run_alone

LINES = [
    ("w1@@ w2 w3 w7 w1 w8 w9 w10 w3 w4 w11 w20", "w4 w5@@ w6@@ w7"),
    ("w3 w5", "w9 w8"),
    ("w2", "w1"),
    ("", ""),
]


@pytest.fixture
def reader(task):
    return PairReader(task, scheme="subword_nmt")


@pytest.fixture
def pairs(reader):
    return list(text_pairs(LINES, reader))


def alone(model, pair, attention):
    """Weights of one attention on one pair that runs alone, (H, T, S)."""
    with torch.no_grad(), record(model, attention[:1]) as recording:
        run_alone(model, pair)
    return recording[attention].weights[0].numpy()


def test_positions_are_those_of_pairs_alone(task, pairs):
    ready = ready_model(task)
    model = ready.forcing.model
    measured = profile(ready, pairs, ["positions"], max_tokens=30)
    found = measured.by_score["positions"]
    patterns = {}
    for head, name, share in measured.tables()["patterns"].rows:
        patterns.setdefault(head, {})[name] = share / 100
    assert {head.kind for head in found.scores} == {"encoder", "decoder"}
    positions = []
    for pair in pairs[:2]:
        words = range(len(pair.source.tokens) - 1)
        weights = alone(model, pair, ("encoder", 1))[2]
        positions += [int(weights[t, words].argmax()) - t for t in words]
    head = Head("encoder", 1, 2)
    most = max(map(positions.count, positions))
    assert found.scores[head] == most / len(positions)
    assert positions.count(int(found.labels["position"][head])) == most
    assert patterns[str(head)]["next"] == pytest.approx(positions.count(1) / len(positions))
    last = [alone(model, pair, ("encoder", 1))[2].argmax(1) for pair in pairs[:2]]
    hits = sum(int((rows[:-1] == len(rows) - 1).sum()) for rows in last)
    assert patterns[str(head)]["last"] == pytest.approx(hits / len(positions))
    assert set(patterns["decoder.1.1"]) == {"itself", "previous"}


COUNTS = {f"w{number}": 100 - number for number in range(30)}


def test_rare_tokens_are_those_of_pairs_alone(task, reader, pairs):
    """The piece w1@@ was never counted, then comes w20; the other sentences have no choice."""
    measured = rare_profile(task, reader, pairs, counts=COUNTS, rare_top=0)
    assert measured.signature["rare-sentences"] == 2
    rows = {tuple(row[:2]): row[2:] for row in measured.tables()["rare"].rows}
    for name, places in {"rarest": ([0], [1]), "two rarest": ([0, 11], [0, 1])}.items():
        hits = tokens = chance = 0
        for pair, rare in zip(pairs, places, strict=False):
            words = len(pair.source.tokens) - 1
            weights = alone(build_model(task=task), pair, ("encoder", 0))[1][:words, :words]
            hits += int(np.isin(weights.argmax(1), rare).sum())
            chance, tokens = chance + len(rare), tokens + words
        expected = [100 * hits / tokens, 100 * chance / tokens]
        assert rows["encoder.1.2", name] == pytest.approx(expected, rel=1e-4)


def test_only_sentences_with_a_token_outside_the_most_frequent(task, reader, pairs):
    """w0 to w5 are frequent: only the first sentence has others, and chance is that of it."""
    measured = rare_profile(task, reader, pairs, counts=COUNTS, rare_top=6)
    assert measured.signature["rare-sentences"] == 1
    rows = measured.tables()["rare"].rows
    chance = {row[1]: row[-1] for row in rows if row[0] == "encoder.1.2"}
    # Pieces that were never counted, w1@@, are the rarest of all, and come before w20.
    expected = {"rarest": 100 / 12, "two rarest": 200 / 12}
    assert chance == pytest.approx(expected, rel=1e-4)


def rare_profile(task, reader, pairs, **options):
    model = ready_model(task)._replace(reader=reader)
    return profile(model, pairs, ["rare"], **options)


def test_by_default_sentences_are_those_of_the_paper(task, reader, pairs):
    """500 of 600 types are frequent, among them all but w20, w11 and w10."""
    counts = {f"x{number}": 1000 + number for number in range(490)}
    counts.update({f"w{number}": 500 - number for number in range(110)})
    measured = rare_profile(task, reader, pairs, counts=counts, counts_name="counts")
    assert measured.signature["rare-top"] == 500
    assert measured.signature["rare-sentences"] == 1
    measured = rare_profile(task, reader, pairs, counts=counts, counts_name="counts", rare_top=0)
    assert measured.signature["rare-sentences"] == 2  # with two words at least


def test_a_small_dictionary_has_no_rare_tokens(task, reader, pairs):
    for number, count in enumerate(COUNTS.values()):
        task.source_dictionary.count[4 + number] = int(count)
    reason = "no rare-token roles: the dictionary has 30 types, all among the 500 most frequent; "
    with pytest.warns(UserWarning, match=reason + "pass a smaller --rare-top, or 0 for all"):
        reader = PairReader(task, scheme="subword_nmt")
        measured = rare_profile(task, reader, pairs)
    assert not measured.by_score["rare"].scores
    assert "rare-top" not in measured.signature


def test_weights_between_words(reader):
    (pair,) = text_pairs([("w1@@ w2 w3", None)], reader)
    weights = np.arange(16, dtype=np.float64).reshape(1, 4, 4)  # two pieces of a word, a word, </s>
    expected = [[(0 + 1 + 4 + 5) / 2, (2 + 6) / 2], [8 + 9, 10]]
    assert between_words(weights, pair.source)[0].tolist() == expected


def slow_choice(model, pair, head, word):
    return alone(model, pair, head[:2])[head.head][word][:-1].argmax()


def test_syntax_is_that_of_sentences_alone(task, reader):
    ready = ready_model(task, scheme="subword_nmt", attention="encoder")
    trees = [
        Tree(["w1", "w2", "w3"], [1, -1, 1], ["nsubj", "root", "obj"], "a"),
        Tree(["w5"], [-1], ["root"], "b"),
        Tree(["w7", "w8", "w9", "w1"], [1, 2, -1, 2], ["amod", "nsubj", "root", "obj"], "c"),
    ]
    sentences = [reader.pair(tree.words, None, tree.where) for tree in trees]
    measured = profile(ready, sentences, ["UAS"], trees=trees, max_tokens=8)
    heads = list(measured.heads)
    assert heads == [Head("encoder", layer, head) for layer in (0, 1) for head in range(4)]
    hits = dict.fromkeys(heads, 0)
    for tree, subject, verb in ((trees[0], 0, 1), (trees[2], 1, 2)):
        (pair,) = text_pairs([(" ".join(tree.words), "w1")], reader)
        for head in heads:
            hits[head] += slow_choice(ready.forcing.model, pair, head, subject) == verb
    for head in heads:
        row = [str(head), "nsubj→head", 100 * hits[head] / 2]
        assert row in measured.tables()["accuracies"].rows
    assert set(measured.scores["UAS"]) == set(heads)
