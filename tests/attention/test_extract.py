"""Soft to hard: each rule against a slow twin, and by hand."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from fairseq_normalign.attention.extract import (
    EXTRACTORS,
    argmax,
    best_link,
    extractor,
    itermax,
    mutual_argmax,
    piece_argmax,
    relative,
    row_shares,
    threshold,
    to_words,
    values_of,
)
from fairseq_normalign.attention.soft import Pieces
from fairseq_normalign.errors import InputError

# Three target words, three source words.
SOFT = np.array([[0.6, 0.1, 0.2], [0.5, 0.4, 0.0], [0.1, 0.1, 0.1]])

cells = st.sampled_from([0.0, 0.1, 0.2, 0.25, 0.5, 0.9, 1.0])  # few values: ties are likely
softs = arrays.arrays(float, st.tuples(st.integers(0, 6), st.integers(0, 6)), elements=cells)


def slow_argmax(soft, null):
    links = []
    for t, row in enumerate(soft):
        best = None
        for s, value in enumerate(row):
            if value > 0 and (best is None or value > row[best]):
                best = s
        if best is not None and (null is None or null[t] <= row[best]):
            links.append((best, t))
    return links


def slow_mutual(soft, null):
    backward = {(s, t) for t, s in slow_argmax(soft.T, None)}
    return [link for link in slow_argmax(soft, null) if link in backward]


def slow_relative(soft, share, null):
    rows, columns = soft.shape
    return [
        (s, t)
        for t in range(rows)
        for s in range(columns)
        if soft[t, s] > 0
        and (null is None or null[t] <= max(soft[t]))
        and soft[t, s] >= share * max(soft[t])
        and soft[t, s] >= share * max(soft[:, s])
    ]


def slow_itermax(soft, null, max_count=2, alpha_ratio=0.9):
    """simalign's iter_max, cell by cell, in its notation.

    Rows x are source words, columns y target words. Ours are the two conditions of ``allowed``.
    """
    sim = soft.T
    m, n = sim.shape

    def mutual(values):
        cells = [(x, y) for x, y in np.ndindex(m, n) if y == np.argmax(values[x])]
        return {(x, y) for x, y in cells if x == np.argmax(values[:, y])}

    def allowed(cell):
        word = cell[1]
        return sim[cell] > 0 and (null is None or null[word] <= max(sim[:, word]))

    inter = set(filter(allowed, mutual(sim)))
    if min(m, n) <= 2:
        return inter
    for _ in range(1, max_count):
        mask_x = [1 - any(a == x for a, _ in inter) for x in range(m)]
        mask_y = [1 - any(b == y for _, b in inter) for y in range(n)]
        if sum(mask_x) == 0 or sum(mask_y) == 0:
            break
        new_sim = np.zeros((m, n))
        for x, y in np.ndindex(m, n):
            new_sim[x, y] = sim[x, y] * min(1, alpha_ratio * mask_x[x] + alpha_ratio * mask_y[y])
        new_inter = {(x, y) for x, y in mutual(new_sim) if mask_x[x] or mask_y[y]}
        inter |= set(filter(allowed, new_inter))
    return inter


@settings(deadline=None)
@given(softs, st.data())
def test_slow_twins(soft, data):
    null = data.draw(st.none() | arrays.arrays(float, soft.shape[0], elements=cells))
    assert argmax(soft, null=null) == slow_argmax(soft, null)
    assert mutual_argmax(soft, null=null) == slow_mutual(soft, null)
    assert relative(soft, null=null) == slow_relative(soft, 0.3, null)


@settings(deadline=None, max_examples=500)
@given(softs, st.data())
def test_itermax_has_a_slow_twin(soft, data):
    null = data.draw(st.none() | arrays.arrays(float, soft.shape[0], elements=cells))
    for rounds in (1, 2, 3):
        links = itermax(soft, null=null, rounds=rounds)
        assert set(links) == slow_itermax(soft, null, max_count=rounds)


@pytest.mark.parametrize(
    ("rule", "options", "expected"),
    [
        (argmax, {"null": np.array([0.5, 0.5, 0.2])}, [(0, 0), (0, 1)]),  # </s> must win strictly
        (itermax, {}, [(0, 0), (0, 1), (2, 0)]),
        (relative, {"share": 0.3}, [(0, 0), (2, 0), (0, 1), (1, 1), (2, 2)]),
        (threshold, {"level": 0.4}, [(0, 0), (0, 1), (1, 1)]),
        (threshold, {"level": 0.4, "null": np.array([0.5, 0.0, 0.0])}, [(0, 0), (0, 1), (1, 1)]),
        (threshold, {"level": 0.4, "null": np.array([0.7, 0.0, 0.0])}, [(0, 1), (1, 1)]),
    ],
)
def test_by_hand(rule, options, expected):
    assert sorted(rule(SOFT, **options)) == sorted(expected)


@pytest.mark.parametrize("rule", EXTRACTORS.values(), ids=EXTRACTORS)
@pytest.mark.parametrize("shape", [(0, 0), (0, 3), (3, 0)])
def test_no_words_no_links(rule, shape):
    assert rule(np.zeros(shape)) == []
    assert rule(np.zeros(shape), null=np.zeros(shape[0])) == []
    assert rule(np.array([[0.0, 0.0], [0.0, 1.0]])) == [(1, 1)]
    assert rule(np.array([[0.2, 0.1]]), null=np.array([0.9])) == []


def test_confidence_is_the_share_of_the_row():
    assert values_of(row_shares(SOFT), [(0, 0), (2, 2)]) == pytest.approx([0.6 / 0.9, 1 / 3])
    assert row_shares(SOFT, np.array([0.3, 0.0, 0.0]))[0, 0] == pytest.approx(0.5)
    assert values_of(row_shares(np.zeros((2, 0))), []) == []
    assert row_shares(np.array([[0.0, 0.0], [1.0, 3.0]])).tolist() == [[0, 0], [0.25, 0.75]]


def slow_to_words(soft, source_ids, target_ids, source_merge, target_merge):
    merge = {"sum": np.sum, "mean": np.mean, "max": np.max}
    words = np.zeros((max(target_ids, default=-1) + 1, max(source_ids, default=-1) + 1))
    for t in set(target_ids):
        rows = [i for i, word in enumerate(target_ids) if word == t]
        for s in set(source_ids):
            columns = [j for j, word in enumerate(source_ids) if word == s]
            merged = [merge[source_merge]([soft[i, j] for j in columns]) for i in rows]
            words[t, s] = merge[target_merge](merged)
    return words


ids = st.lists(st.sampled_from([0, 0, 1, 2]), max_size=6).map(
    lambda steps: np.cumsum(steps, dtype=int).tolist()
)
merges = st.sampled_from(["sum", "mean", "max"])


@settings(deadline=None)
@given(ids, ids, merges, merges, st.integers(0, 2**32 - 1))
def test_to_words_has_a_slow_twin(source_ids, target_ids, source_merge, target_merge, seed):
    soft = np.random.default_rng(seed).random((len(target_ids), len(source_ids)))
    merged = to_words(soft, source_ids, target_ids, f"{source_merge}+{target_merge}")
    np.testing.assert_allclose(
        merged, slow_to_words(soft, source_ids, target_ids, source_merge, target_merge)
    )


def piece_links(soft, null):
    """The best source piece of each target piece, as lines of piece links have them."""
    return " ".join(f"{source}-{target}" for source, target in slow_argmax(soft, null))


def slow_words_of_piece_links(line, source_ids, target_ids):
    """Word pairs of a line of piece links: a set, each pair in it if any piece pair is linked.

    As lilt/alignment-scripts' sentencepiece_to_word_alignments.py has them.
    """
    words = set()
    for link in line.split():
        source_piece, _, target_piece = link.partition("-")
        words.add((source_ids[int(source_piece)], target_ids[int(target_piece)]))
    return words


@settings(deadline=None)
@given(ids, ids, st.data())
def test_piece_argmax_has_a_slow_twin(source_ids, target_ids, data):
    shape = len(target_ids), len(source_ids)
    soft = data.draw(arrays.arrays(float, shape, elements=cells))
    null = data.draw(arrays.arrays(float, shape[0], elements=cells))
    pieces = Pieces(soft, null, np.array(source_ids, int), np.array(target_ids, int))
    for marks, use_null in ((null, True), (None, False)):
        line = piece_links(soft, marks)
        links = piece_argmax(pieces, null=use_null)
        assert len(links) == len(set(links))
        assert set(links) == slow_words_of_piece_links(line, source_ids, target_ids)


def test_piece_argmax_by_hand():
    """Two pieces of a target word choose different words, </s> wins the third piece.

    Merged before, the word would take the one that has most in sum.
    """
    soft = np.array([[0.6, 0.1, 0.1], [0.1, 0.3, 0.4], [0.1, 0.2, 0.1]])
    pieces = Pieces(soft, np.array([0.2, 0.2, 0.6]), np.array([0, 1, 1]), np.array([0, 0, 1]))
    assert piece_argmax(pieces) == [(0, 0), (1, 0)]
    assert piece_argmax(pieces, null=False) == [(0, 0), (1, 0), (1, 1)]
    words = to_words(soft, pieces.source_ids, pieces.target_ids)
    assert argmax(words) == [(1, 0), (1, 1)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("pieces", r"unknown extract 'pieces'; choose from: argmax, .*, absolute, piece-argmax"),
        ("piece-argmax", "piece-argmax links the pieces of one model, and a combination"),
        ("argmax:0.5", "threshold, relative, grow, absolute take a number"),
        ("threshold:20", "extract 'threshold:20': .* absolute take a number above 0"),
    ],
)
def test_what_names_no_rule_is_refused(text, message):
    with pytest.raises(InputError, match=message):
        extractor(text)


def slow_grow(soft, share):
    """The rule in words, cell by cell."""
    rows, columns = soft.shape
    links = set(relative(soft, share=0.8))
    rows_taken = {t for _, t in links}
    columns_taken = {s for s, _ in links}
    new = set()
    for t in range(rows):
        best = max(range(columns), key=lambda s: soft[t, s])
        if t not in rows_taken and soft[t, best] >= share * soft[:, best].max():
            new.add((best, t))
    for s in range(columns):
        best = max(range(rows), key=lambda t: soft[t, s])
        if s not in columns_taken and soft[best, s] >= share * soft[best].max():
            new.add((s, best))
    return links | new


@pytest.mark.parametrize("share", [0.2, 0.5, 0.9])
def test_grow_gives_words_without_a_link_their_best(share):
    random = np.random.default_rng(8)
    for _ in range(30):
        soft = random.random(random.integers(1, 7, size=2)) ** 3
        assert set(extractor(f"grow:{share}")(soft)) == slow_grow(soft, share)


def test_best_link():
    assert best_link(np.array([[0.1, 0.3], [0.2, 0.0]])) == [(1, 0)]
    assert best_link(np.zeros((2, 3))) == best_link(np.zeros((0, 3))) == []
