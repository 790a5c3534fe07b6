"""The maximum spanning tree against all trees; relations and trees in weights made for them."""

from itertools import product

import numpy as np
import pytest

from fairseq_normalign.heads.attention_pass import Tally
from fairseq_normalign.heads.syntax import (
    MIN_CASES,
    Relation,
    add_tree,
    attachment_scores,
    ends,
    maximum_spanning_tree,
    relations,
)
from fairseq_normalign.text.treebank import Tree


def is_tree(heads, root):
    for word in range(len(heads)):
        seen = set()
        while word != root:
            if word in seen:
                return False
            seen.add(word)
            word = heads[word]
    return True


def total(scores, heads):
    return sum(scores[word][head] for word, head in enumerate(heads) if head >= 0)


def slow_best(scores, root):
    size = len(scores)
    choices = [
        [-1] if word == root else [h for h in range(size) if h != word] for word in range(size)
    ]
    return max(total(scores, heads) for heads in product(*choices) if is_tree(heads, root))


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 6])
@pytest.mark.parametrize("seed", range(8))
def test_the_best_tree_is_that_of_enumeration(size, seed):
    random = np.random.default_rng([size, seed])
    if seed % 2:
        scores = random.random((size, size))
    else:
        scores = random.integers(3, size=(size, size)).astype(float)  # with ties
    root = int(random.integers(size))
    heads = maximum_spanning_tree(scores, root).tolist()
    assert heads[root] == -1
    assert is_tree(heads, root)
    assert total(scores, heads) == pytest.approx(slow_best(scores, root))


def test_cycles_within_cycles():
    """0 and 1 prefer each other, and so do their pair and 2.

    Only 2 may hang on the root, and then all turn.
    """
    scores = np.array([[0, 9, 5, 0], [9, 0, 6, 0], [7, 7, 0, 2], [0, 0, 0, 0]], dtype=float)
    assert maximum_spanning_tree(scores, 3).tolist() == [1, 2, 3, -1]


TREE = Tree(
    ["old", "dogs", "often", "eat", "fish"],
    [1, 3, 3, -1, 3],
    ["amod", "nsubj", "advmod", "root", "obj"],
    "",
)


def test_cases_of_a_tree():
    assert set(ends(TREE)) == {
        ("amod→head", 0, 1),
        ("head→amod", 1, 0),
        ("nsubj→head", 1, 3),
        ("head→nsubj", 3, 1),
        ("advmod→head", 2, 3),
        ("head→advmod", 3, 2),
        ("obj→head", 4, 3),
        ("head→obj", 3, 4),
    }
    older = TREE._replace(relations=["amod", "nsubj:pass", "advmod", "root", "dobj"])
    assert {name for name, *_ in ends(older)} >= {"obj→head", "head→obj"}
    assert not any("nsubj" in name for name, *_ in ends(older))  # a subtype is another relation


def weights_of(targets):
    """One head's weights between words whose maxima are ``targets``."""
    weights = np.full((1, len(targets), len(targets)), 0.1)
    weights[0, range(len(targets)), targets] = 0.6
    return weights


def test_relations_and_trees():
    tally = Tally({"heads": []})
    towards_heads = [1, 3, 3, 3, 3]
    back = [0, 0, 1, 2, 3]
    add_tree(tally, np.concatenate([weights_of(towards_heads), weights_of(back)]), TREE)
    add_tree(
        tally,
        np.concatenate([weights_of([1, 1]), weights_of([0, 0])]),
        Tree(["dogs", "eat"], [1, -1], ["nsubj", "root"], ""),
    )
    found = relations(tally, ["a", "b"])
    assert found["nsubj→head"] == Relation(2, 1, 0.5, {"a": 1, "b": 0})  # 1 and 2: the first
    assert found["obj→head"] == Relation(1, -1, 1.0, {"a": 1, "b": 1})
    # Of two verbs that look back, one has its subject there.
    assert found["head→nsubj"].accuracies == {"a": 0, "b": 0.5}
    scores, baselines = attachment_scores(tally)
    # The second: fish → eat, and dogs → eat, as the root is given.
    assert scores == [1.0, pytest.approx(2 / 5)]
    assert baselines == {"left-branching": 3 / 5, "right-branching": 1 / 5}


@pytest.mark.parametrize("heads", [["a"], []])
def test_relations_that_are_missing_and_no_heads(heads):
    tally = Tally({"heads": []})
    weights = weights_of([1, 1])[: len(heads)]
    add_tree(tally, weights, Tree(["dogs", "eat"], [1, -1], ["nsubj", "root"], ""))
    found = relations(tally, heads)
    assert found["head→obj"] == Relation()
    assert list(found["nsubj→head"].accuracies) == heads
    assert len(attachment_scores(tally)[0]) == len(heads)


@pytest.mark.parametrize(
    "baseline, accuracy, margin, beats",
    [
        (0.5, 0.56, "relative", True),
        (0.5, 0.54, "relative", False),
        (0.5, 0.56, "absolute", False),
        (0.5, 0.61, "absolute", True),
    ],
)
def test_margins(baseline, accuracy, margin, beats):
    assert Relation(MIN_CASES, 1, baseline).is_found(accuracy, margin) is beats
    assert not Relation(MIN_CASES - 1, 1, baseline).is_found(accuracy, margin)
