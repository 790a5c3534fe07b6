"""f as a map against its matrix, and sums against loops over cells."""

import numpy as np
import pytest
import torch

from fairseq_normalign.attention.block import Block
from fairseq_normalign.attention.contributions import Recorded
from fairseq_normalign.layers.mixing import BlockBatch, TokenBatch
from fairseq_normalign.layers.statistics import (
    add_statistics,
    expansion_rate,
    lengths_of,
    pooled,
    singular_values,
)
from fairseq_normalign.runs.joins import Gathered, arrays_of, moments_of

B, H, T, S, C, D = 2, 3, 3, 4, 6, 2


@pytest.mark.parametrize("biases", [(True, True), (True, False), (False, False)])
def test_singular_values_are_those_of_the_whole_affine_map(biases):
    torch.manual_seed(0)
    value_weight, out_weight = torch.randn(D, C), torch.randn(C, D)
    value_bias, out_bias = torch.randn(D) * biases[0], torch.randn(C) * biases[1]

    def f(x):
        return out_weight @ (value_weight @ x + value_bias) + out_bias

    matrix = torch.zeros(C + 1, C + 1)  # column by column: what (x, 1) becomes
    matrix[:C, C] = f(torch.zeros(C))
    matrix[C, C] = 1
    for column in range(C):
        matrix[:C, column] = f(torch.eye(C)[column]) - f(torch.zeros(C))
    expected = torch.linalg.svdvals(matrix)
    found = singular_values(
        value_weight,
        value_bias if biases[0] else None,
        out_weight,
        out_bias if biases[1] else None,
    )
    torch.testing.assert_close(found, expected[: D + 1], rtol=1e-4, atol=1e-5)
    twice = singular_values(*(torch.stack([x, x]) for x in (value_weight, value_bias, out_weight)))
    torch.testing.assert_close(twice[0], singular_values(value_weight, value_bias, out_weight))
    rate = expansion_rate(found, C)
    assert float(rate) == pytest.approx(float((matrix.square().sum() / (C + 1)).sqrt()), rel=1e-4)


def make_block(*, causal: bool):
    random = torch.Generator().manual_seed(0)
    keys = T if causal else S
    scores = torch.randn(B, H, T, keys, generator=random)
    if causal:
        scores = scores.masked_fill(torch.ones(T, T).triu(1).bool(), float("-inf"))
    scores[1, :, :, -1] = float("-inf")  # padding
    recorded = Recorded(
        scores.softmax(-1),
        torch.randn(B, H, keys, D, generator=random),
        torch.randn(H, D, C, generator=random),
    )
    inputs = torch.randn(B, keys, C, generator=random)
    return Block(recorded, torch.zeros(B, T, C), None, causal, inputs)


QUERIES = torch.tensor([[True, True, True], [True, True, False]])


@pytest.fixture(params=["decoder", "cross"])
def batch(request):
    """One layer, the fifth."""
    causal = request.param == "decoder"
    keys = T if causal else S
    categories = torch.tensor([[0, 1, 1, 0], [1, 1, 1, -1]])[:, :keys]
    ranks = torch.tensor([[3.0, 7.0, float("nan"), 5.0], [2.0, 8.0, 9.0, float("nan")]])[:, :keys]
    if causal:
        categories[1, -1], ranks[1, -1] = -1, float("nan")
    queries = TokenBatch(QUERIES.long() - 1, ranks, ~QUERIES)
    read = TokenBatch(categories, ranks, categories < 0)
    blocks = {4: make_block(causal=causal)}
    return BlockBatch(request.param, 0, blocks, queries, read, ["here", "there"], range(B))


def slow_f(block):
    """‖f_h(x_s)‖, (B, H, S)."""
    recorded = block.recorded
    vectors = torch.einsum("bhsd,hdc->bhsc", recorded.values, recorded.out_weight)
    return vectors.norm(dim=-1)


def gathered(batch):
    sums = Gathered()
    add_statistics(sums, batch, 2)
    return arrays_of(sums.partial({}).arrays, f"statistics.{batch.kind}.")


def places_of(batch):
    """(sentence, key, category) of every key that is a token."""
    for b, of_sentence in enumerate(batch.keys.categories.tolist()):
        for s, category in enumerate(of_sentence):
            if category >= 0:
                yield b, s, category


def test_sums_by_category_add_up_to_one(batch):
    """Figure 3: sum over keys, then means over queries, sentences; here of each head."""
    block = batch.blocks[4]
    found = gathered(batch)
    weights, f = block.recorded.weights, slow_f(block)
    expected = {"α": np.zeros((H, 2)), "αf": np.zeros((H, 2))}
    for b, s, category in places_of(batch):
        queries = QUERIES[b].nonzero().flatten().tolist()
        for h in range(H):
            for t in queries:
                alpha = float(weights[b, h, t, s])
                expected["α"][h, category] += alpha / len(queries)
                expected["αf"][h, category] += alpha * float(f[b, h, s]) / len(queries)
    weights, weighted, _ = found["4.micro.sum"].transpose(1, 0, 2)  # (H, K+1) each
    np.testing.assert_allclose(weights[:, :2], expected["α"], rtol=1e-4)
    np.testing.assert_allclose(weighted[:, :2], expected["αf"], rtol=1e-4)
    np.testing.assert_allclose(weights[:, 2] / found["4.sentences.sum"][2], 1, rtol=1e-4)


def test_lengths(batch):
    block = batch.blocks[4]
    found, f = gathered(batch), slow_f(block)
    transformed = lengths_of(found["4.transformed.moments"])
    places = list(places_of(batch))
    of_tokens = torch.stack([f[b, :, s] for b, s, _ in places], dim=1).double().numpy()
    np.testing.assert_allclose(transformed.mean, of_tokens.mean(1), rtol=1e-4)
    np.testing.assert_allclose(transformed.deviation, of_tokens.std(1), rtol=1e-4)
    inputs = [float(block.inputs[b, s].norm()) for b, s, _ in places]
    np.testing.assert_allclose(found["4.inputs.moments"][1], np.mean(inputs), rtol=1e-4)
    assert found["4.sentences.sum"].tolist() == [1, 2, 2]
    for category in (0, 1):
        means = []
        for b in range(B):
            keys = [s for c, s, k in places if (c, k) == (b, category)]
            if keys:
                means.append(f[b][:, keys].mean(1).numpy())
        of_category = found["4.macro.sum"][:, 2, category]
        np.testing.assert_allclose(of_category, np.sum(means, 0), rtol=1e-4)


def test_cells_are_those_that_a_query_sees(batch):
    block = batch.blocks[4]
    found = gathered(batch)
    weights, f = block.recorded.weights, slow_f(block)
    for category in range(2):
        expected = []
        for b, s, of_key in places_of(batch):
            for t in QUERIES[b].nonzero().flatten().tolist():
                if of_key == category and (batch.kind == "cross" or s <= t):
                    for h in range(H):
                        expected.append((float(weights[b, h, t, s]), float(f[b, h, s])))
        rows = found[f"cells-{category}.sample"][:, 1:]
        assert found[f"cells-{category}.sum"] == [len(expected)]
        np.testing.assert_allclose(sorted(map(tuple, rows)), sorted(expected), rtol=1e-4)


def test_occurrences_are_means_over_queries_heads_and_layers(batch):
    """Figure 6."""
    block = batch.blocks[4]
    other = make_block(causal=batch.kind == "decoder")
    other.recorded.values *= 2
    found = gathered(batch._replace(blocks={0: block, 1: other}))
    expected = []
    for b, s, category in places_of(batch):
        rank = float(batch.keys.ranks[b, s])
        if not np.isnan(rank):
            queries = [t for t in range(T) if QUERIES[b, t] and (batch.kind == "cross" or s <= t)]
            alpha = float(block.recorded.weights[b, :, queries, s].mean())
            expected.append((rank, category, alpha, 1.5 * float(slow_f(block)[b, :, s].mean())))
    np.testing.assert_allclose(found["occurrences.sample"][:, 1:], expected, rtol=1e-4)


def test_pooled_lengths():
    values = [np.array([[1.0, 2.0], [3.0, 5.0]]), np.array([[7.0, 1.0, 4.0]])]
    together = np.concatenate([part.ravel() for part in values])
    found = pooled(map(moments_of, values))
    np.testing.assert_allclose(found.mean, [together.mean()])
    np.testing.assert_allclose(found.deviation, [together.std()])
    np.testing.assert_allclose(found.variation, [together.std() / together.mean()])
    assert (found.low, found.high) == ([1], [7])
    assert np.isnan(lengths_of(moments_of(np.zeros((1, 3)))).variation).all()
