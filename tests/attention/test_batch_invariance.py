"""Soft alignments and links of every method: the batch and the order of sentences change nothing.

All of the table are tested, those that are yet to come included, on sentences of 0, 1 and more
words on either side.
"""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch

from fairseq_normalign.attention.extract import links_of
from fairseq_normalign.attention.methods import A_FILE, METHODS
from fairseq_normalign.attention.soft import Evidence, Soft
from fairseq_normalign.attention.soft_alignments import soft_alignments
from fairseq_normalign.attention.trained_head import (
    AlignmentHead,
    TrainedHead,
    fingerprint,
    head_states,
    with_neighbours,
    write_aligner,
)
from fairseq_normalign.host.batches import map_batches
from tests.test_regression import aligner

LENGTHS = [(0, 0), (0, 3), (3, 0), (1, 1), (1, 5), (4, 1), (6, 7), (7, 3), (12, 11), (2, 2)]
MOST_TOKENS = (1, 30, 4000)  # each pair alone, some together, all together


def texts() -> list[tuple[str, str]]:
    maker = random.Random(4)
    made = []
    for lengths in LENGTHS:
        source, target = (
            " ".join(f"w{maker.randrange(30)}" for _ in range(length)) for length in lengths
        )
        made.append((source, target))
    return made


@pytest.fixture(scope="module")
def one():
    return aligner()


@pytest.fixture(scope="module")
def pairs(one):
    return list(one.read(texts())[0])


@pytest.fixture(scope="module")
def aligner_file(one, pairs, tmp_path_factory) -> str:
    """A head that nobody has trained, for methods that read one from a file."""
    path = tmp_path_factory.mktemp("aligner") / "aligner.safetensors"
    states = head_states(one.forcing, pairs[-1:])
    queries, keys = with_neighbours(states.queries).shape[-1], states.keys.shape[-1]
    seeded = torch.Generator().manual_seed(1)
    head = AlignmentHead.random(queries, keys, width=3, generator=seeded)
    model = fingerprint(one.forcing.model)
    write_aligner(path, {"forward": TrainedHead(head, model, "a-b")}, {})
    return str(path)


def evidences(name: str, file: str) -> list[Evidence]:
    method = METHODS[name]
    spec = f"{name}:{file}" if method.default == A_FILE else name
    layers = (0, 1) if method.layers else (None,)
    return [Evidence(spec, layer, step) for layer in layers for step in method.steps]


def softs(one, pairs, asked: list[Evidence], max_tokens: int) -> list[list[Soft]]:
    def run(batch):
        return list(soft_alignments(one.forcing, batch, asked, keep_pieces=asked))

    return list(map_batches(pairs, run, max_tokens=max_tokens))


def check_same(before: list[Soft], after: list[Soft], extract: str) -> None:
    for one, other in zip(before, after, strict=True):
        assert np.isfinite(one.words).all()
        for name in ("words", "null"):
            np.testing.assert_allclose(
                getattr(other, name), getattr(one, name), rtol=1e-3, atol=1e-5
            )
        assert links_of(one, extract) == links_of(other, extract)


@pytest.mark.parametrize("name", METHODS)
def test_the_size_of_batches_changes_nothing(one, pairs, aligner_file, name):
    """Sentences without words have no links."""
    asked, extract = evidences(name, aligner_file), METHODS[name].extract
    alone, *others = [softs(one, pairs, asked, most) for most in MOST_TOKENS]
    for together in others:
        for before, after in zip(alone, together, strict=True):
            check_same(before, after, extract)
    for pair, of_pair in zip(pairs, alone, strict=True):
        for soft in of_pair:
            shape = (len(pair.target.text), len(pair.source.text))
            assert soft.words.shape == shape
            for source, target in links_of(soft, extract):
                assert source < shape[1] and target < shape[0]
