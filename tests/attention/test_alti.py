"""Contributions of a block against a slow twin in the notation of Ferrando et al. (2022)."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch

from fairseq_normalign import NormAligner, source_shares, text_pairs
from fairseq_normalign.attention.alti import (
    contributions,
    encoder_rollout,
    head_block,
    source_rollout,
)
from fairseq_normalign.attention.arrays import Arrays
from fairseq_normalign.attention.block import Block
from fairseq_normalign.attention.contributions import Recorded
from fairseq_normalign.attention.methods import METHODS, Batch
from fairseq_normalign.attention.quantities import SOURCE_SHARE
from fairseq_normalign.attention.recorder import recorded_blocks
from fairseq_normalign.errors import InputError
from fairseq_normalign.host.options import ReadyModel
from fairseq_normalign.host.pairs import PairReader
from fairseq_normalign.host.teacher_forcing import TeacherForcing
from fairseq_normalign.names import KINDS
from tests.attention.test_block import BLOCKS, B, C, H, T, make_block, slow_attended, slow_terms
from tests.attention.test_recorder import MODELS, randomised
from tests.conftest import ready_model

# Differences of norms in single precision, added up in another order.
assert_close = partial(torch.testing.assert_close, rtol=1e-4, atol=1e-5)

RESIDUAL = "x"  # where the slow twin has the residual of source–target attention


@pytest.fixture(params=BLOCKS)
def block(request):
    return make_block(**BLOCKS[request.param])


def slow_shares(terms: dict, output: torch.Tensor, own, order: int) -> dict:
    """c_ij = max(0, ‖y_i‖ - ‖y_i - T_ij‖) over Σ_j c_ij, by key; all is the query's if it is 0."""
    length = output.norm(p=order)
    kept = {}
    for j, vector in terms.items():
        kept[j] = max(0.0, float(length - (output - vector).norm(p=order)))
    total = sum(kept.values())
    if total == 0:
        return {j: float(j == own) for j in terms}
    return {j: share / total for j, share in kept.items()}


def slow_row(block: Block, b: int, i: int, order: int) -> torch.Tensor:
    """A row of ``contributions``: by key, and then the residual of source–target attention."""
    terms, _, output = slow_terms(block, b, i)
    shares = slow_shares(terms, output, i if block.self_attention else RESIDUAL, order)
    columns = list(range(block.recorded.weights.shape[3]))
    if not block.self_attention:
        columns.append(RESIDUAL)
    return torch.tensor([shares[column] for column in columns])


@pytest.mark.parametrize("order", [1, 2])
def test_contributions_are_those_of_the_paper(block, order):
    shares = contributions(block, order)
    for b in range(B):
        for i in range(T):
            assert_close(shares[b, i], slow_row(block, b, i, order))


@pytest.mark.parametrize("size", [1, 2 * T * C])
def test_any_number_of_keys_at_once_gives_the_same(monkeypatch, block, size):
    expected = contributions(block)
    monkeypatch.setattr("fairseq_normalign.attention.contributions.BLOCK", size)
    assert_close(contributions(block), expected)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("own", [True, False])
def test_a_row_that_is_clipped_to_zeros_is_the_querys_own(own, order):
    """The output is b_O alone, and every vector points away from it."""
    bias = torch.full((C,), 10.0)
    away = Recorded(
        torch.ones(1, 1, 1, 1), -torch.ones(1, 1, 1, 1), torch.ones(1, 1, C), 13.0 * bias
    )
    block = Block(away, -torch.ones(1, 1, C), None, own)
    expected = [[[1.0]]] if own else [[[0.0, 1.0]]]
    assert contributions(block, order).tolist() == expected


def slow_head_row(block: Block, head: int, b: int, i: int, order: int) -> torch.Tensor:
    """The same of one head in source–target attention: the other heads are in the residual."""
    recorded = block.recorded
    which = slice(head, head + 1)
    alone = replace(
        block,
        recorded=Recorded(
            recorded.weights[:, which],
            recorded.values[:, which],
            recorded.out_weight[which],
            recorded.out_bias,
        ),
    )
    residual = block.residual.clone()
    for j in range(recorded.weights.shape[3]):
        residual[b, i] += slow_attended(block, b, i, j) - slow_attended(alone, b, i, j)
    return slow_row(replace(alone, residual=residual), b, i, order)


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("kind", ["cross", "cross pre-LN"])
def test_what_other_heads_add_is_all_else_for_one_head(kind, order):
    block = make_block(**BLOCKS[kind])
    for head in range(H):
        assert_close(head_block(block, head).output, block.output)
        shares = contributions(head_block(block, head), order)
        for b in range(B):
            for i in range(T):
                assert_close(shares[b, i], slow_head_row(block, head, b, i, order))


# ALTI+: sums over paths, layer by layer, in the paper's notation.

S, LAYERS = 5, 3


def make_blocks() -> dict:
    blocks = {}
    for layer in range(LAYERS):
        pre_ln = {"post": False, "seed": layer}
        blocks["encoder", layer] = make_block(**pre_ln, queries=S, keys=S)
        blocks["decoder", layer] = make_block(**pre_ln, causal=True)
        blocks["cross", layer] = make_block(**pre_ln, own=False, keys=S)
    return blocks


def slow_encoder(matrices: list, b: int, i: int, j: int) -> float:
    """The share of token j in state i above all layers: the sum over what stands between."""
    if not matrices:
        return float(i == j)
    *below, top = matrices
    return sum(float(top[b, i, k]) * slow_encoder(below, b, k, j) for k in range(top.shape[2]))


def slow_origin(blocks: dict, layer: int, b: int, t: int) -> tuple[list, list]:
    """Row t of M^l: what it has of each source token, and of each token of the prefix."""
    if layer < 0:
        return [0.0] * S, [float(t == i) for i in range(T)]
    own = contributions(blocks["decoder", layer])[b]
    cross = contributions(blocks["cross", layer])[b]
    encoder = [contributions(blocks["encoder", each]) for each in range(LAYERS)]
    source, target = [0.0] * S, [0.0] * T
    for s in range(S):
        for k in range(S):
            source[s] += float(cross[t, k]) * slow_encoder(encoder, b, k, s)
    for i in range(T):
        step = float(cross[t, S]) * float(own[t, i])
        below_source, below_target = slow_origin(blocks, layer - 1, b, i)
        source = [sum(pair) for pair in zip(source, (step * x for x in below_source), strict=True)]
        target = [sum(pair) for pair in zip(target, (step * x for x in below_target), strict=True)]
    return source, target


def test_the_encoders_rollout_adds_up_all_paths():
    blocks = make_blocks()
    matrices = [contributions(blocks["encoder", layer]) for layer in range(LAYERS)]
    rollout = encoder_rollout(blocks)
    for b in range(B):
        for i in range(S):
            row = torch.tensor([slow_encoder(matrices, b, i, j) for j in range(S)])
            assert_close(rollout[b, i], row)
    assert_close(rollout.sum(-1), torch.ones(B, S))


def test_shares_of_the_source_are_those_of_the_paper_in_every_layer():
    """Source and prefix are all there is, and no token that was not read yet has a share."""
    blocks = make_blocks()
    rollout = source_rollout(blocks, encoder_rollout(blocks))
    for layer in reversed(range(LAYERS)):
        for t in range(T):
            source, target = slow_origin(blocks, layer, 1, t)
            assert_close(rollout[layer][1, t], torch.tensor(source))
            assert sum(source) + sum(target) == pytest.approx(1, rel=1e-4)
            assert not any(target[t + 1 :])


# The methods by contributions on whole models.

PAIRS = [("w1 w2 w3 w4", "w5 w6"), ("w7", "w8 w9 w10 w11"), ("w3 w3", "w1")]


def forcing_of(kind: str = "post-LN") -> ReadyModel:
    arch, options = MODELS[kind]
    model = ready_model(arch=arch, **options)
    randomised(model.forcing.model)
    return model


def read(reader: PairReader, pairs=PAIRS) -> list:
    return list(text_pairs(pairs, reader))


def blocks_of(forcing: TeacherForcing, pairs: list) -> Batch:
    blocks = recorded_blocks(forcing, pairs, tuple(KINDS))
    return Batch(forcing, pairs, {}, blocks)


def test_the_variants_are_products_of_matrices():
    forcing, reader = forcing_of("pre-LN")
    batch = blocks_of(forcing, read(reader))
    first, second = (contributions(batch.blocks["encoder", layer]) for layer in (0, 1))
    cross = [contributions(batch.blocks["cross", layer]) for layer in (0, 1)]
    own = contributions(batch.blocks["decoder", 1])
    encoder = second @ first
    below = cross[0][..., :-1] @ encoder
    above = cross[1][..., :-1] @ encoder
    assert_close(METHODS["alti"].compute(batch, 1, None), cross[1][..., :-1])
    assert_close(METHODS["alti-encoder"].compute(batch, 1, None), above)
    assert_close(METHODS["alti-rollout"].compute(batch, 0, None), below)
    rollout = above + cross[1][..., -1:] * (own @ below)
    assert_close(METHODS["alti-rollout"].compute(batch, 1, None), rollout)


def aligner(**options) -> NormAligner:
    return NormAligner(*forcing_of(options.pop("kind", "post-LN")), **options)


def test_a_rollout_has_no_heads():
    message = r"method alti-rollout is of whole layers, not of a head; choose from: .*alti-encoder"
    with pytest.raises(InputError, match=message):
        aligner(method="alti-rollout", layer=1, head=1, step="input").align("w1", "w2")


@pytest.mark.parametrize("kind", ["post-LN", "pre-LN", "some heads", "no heads"])
def test_shares_of_the_source(kind):
    """A model without heads takes nothing from the source."""
    forcing, reader = forcing_of(kind)
    pairs = read(reader)
    finished = []
    shares = list(source_shares(forcing, pairs, max_tokens=1, progress=finished.append))
    assert sum(finished) == len(pairs)
    batch = blocks_of(forcing, pairs)
    for place, (pair, of_pair) in enumerate(zip(pairs, shares, strict=True)):
        steps = len(pair.target.tokens)
        assert of_pair.shape == (forcing.layers, steps)
        for layer in range(forcing.layers):
            rollout = METHODS["alti-rollout"].compute(batch, layer, None)
            expected = rollout[place, :steps].sum(-1)
            assert_close(torch.from_numpy(of_pair[layer]), expected)
        has_source = kind != "no heads"
        assert ((of_pair[-1] > 0) == has_source).all()
        assert (of_pair < 1 + 1e-5).all()


def test_shares_as_arrays_of_some_layers():
    forcing, reader = forcing_of()
    pairs = read(reader)
    expected = list(source_shares(forcing, pairs))
    arrays = Arrays(forcing, SOURCE_SHARE, layers=[2], dtype="float16")
    for pair, array, shares in zip(pairs, arrays(pairs), expected, strict=True):
        assert (array.shape, array.dtype) == (arrays.shape(pair), np.float16)
        np.testing.assert_allclose(array, shares[[1]], rtol=1e-2)
    assert arrays.description()["layers"] == [2]
    with pytest.raises(InputError, match="layer 3: the model has layers 1 to 2"):
        Arrays(forcing, SOURCE_SHARE, layers=[3])
