from math import log

import numpy as np
import pytest

from fairseq_normalign.alignment.lexicon import SMOOTHING, Lexicon

CORPUS = [
    (["das", "haus"], ["the", "house"], [[0.9, 0.0], [0.1, 0.8]]),
    (["das", "buch"], ["the", "book"], [[0.7, 0.2], [0.0, 0.9]]),
    (["das", "haus"], ["the", "house"], [[0.9, 0.0], [0.1, 0.8]]),
    (["ein", "haus", "ein"], ["a", "house"], [[0.5, 0.0, 0.4], [0.0, 0.9, 0.0]]),
]


def counted(corpus=CORPUS) -> Lexicon:
    lexicon = Lexicon()
    for source, target, soft in corpus:
        lexicon.add(source, target, np.array(soft))
    return lexicon


def slow_association(corpus, source, target):
    """The formula of the docstring, all sums written out, over all other pairs."""
    others = [item for item in corpus if (item[0], item[1]) != (source, target)]

    def links(pairs, wanted):
        total = 0.0
        for sources, targets, soft in pairs:
            for t, other_target in enumerate(targets):
                for s, other_source in enumerate(sources):
                    if wanted(other_source, other_target):
                        total += soft[t][s]
        return total

    everything = links(corpus, lambda s, t: True)
    kinds = [{word for pair in corpus for word in pair[side]} for side in (0, 1)]

    def share(word, side):
        own = links(corpus, lambda *pair: pair[side] == word)
        return (own + 0.5) / (everything + 0.5 * (len(kinds[side]) + 1))

    rows = []
    for t in target:
        row = []
        for s in source:
            together = links(others, lambda a, b: (a, b) == (s, t))  # noqa: B023
            halves = []
            for word, side, given in ((t, 1, s), (s, 0, t)):
                alone = links(others, lambda *pair: pair[1 - side] == given)  # noqa: B023
                u = share(word, side)
                halves.append(log((together + SMOOTHING * u) / (alone + SMOOTHING) / u))
            row.append(sum(halves) / 2)
        rows.append(row)
    return rows


@pytest.mark.parametrize("place", range(len(CORPUS)))
def test_association_leaves_the_pair_itself_out(place):
    source, target, soft = CORPUS[place]
    association = counted().association(source, target, np.array(soft))
    np.testing.assert_allclose(association, slow_association(CORPUS, source, target), atol=1e-9)


def test_what_was_never_seen_says_nothing():
    association = counted().association(["neu"], ["new"], np.array([[0.5]]))
    assert association.tolist() == [[0.0]]


def test_a_sentence_without_words():
    assert counted().association([], ["a"], np.zeros((1, 0))).shape == (1, 0)
    assert counted().association(["a"], [], np.zeros((0, 1))).shape == (0, 1)
