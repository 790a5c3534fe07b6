"""The methods by contributions on whole models."""

from functools import partial

import numpy as np
import pytest
import torch

from fairseq_normalign import NormAligner, source_shares, text_pairs
from fairseq_normalign.attention.alti import contributions
from fairseq_normalign.attention.arrays import Arrays
from fairseq_normalign.attention.methods import METHODS, Batch
from fairseq_normalign.attention.quantities import SOURCE_SHARE
from fairseq_normalign.attention.recorder import recorded_blocks
from fairseq_normalign.errors import InputError
from fairseq_normalign.host.pairs import PairReader
from fairseq_normalign.host.teacher_forcing import TeacherForcing
from fairseq_normalign.names import KINDS
from tests.attention.test_recorder import MODELS, randomised
from tests.conftest import ToyTask, build_model

PAIRS = [("w1 w2 w3 w4", "w5 w6"), ("w7", "w8 w9 w10 w11"), ("w3 w3", "w1")]

assert_close = partial(torch.testing.assert_close, rtol=1e-4, atol=1e-5)


def forcing_of(kind: str = "post-LN") -> tuple[TeacherForcing, PairReader]:
    arch, options = MODELS[kind]
    task = ToyTask()
    return TeacherForcing(randomised(build_model(arch, task, **options)), task), PairReader(task)


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
