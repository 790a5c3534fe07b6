"""The path from a batch to word matrices, against a slow twin.

The twin takes the steps of Kobayashi et al. one by one.
"""

from itertools import product

import numpy as np
import pytest
import torch

from fairseq_normalign.attention.extract import piece_argmax
from fairseq_normalign.attention.lrp_walk import propagate
from fairseq_normalign.attention.methods import LRP_RULES, METHODS, OWN_PASS
from fairseq_normalign.attention.recorder import record, recorded
from fairseq_normalign.attention.soft import Evidence
from fairseq_normalign.attention.soft_alignments import soft_alignments
from fairseq_normalign.attention.states import hooked
from fairseq_normalign.host.attention_modules import layers_of
from fairseq_normalign.host.pairs import PairReader, text_pairs
from fairseq_normalign.host.teacher_forcing import TeacherForcing
from tests.conftest import build_model, run_alone

LINES = [("w1@@ w2 w3", "w4 w5@@ w6@@ w7"), ("w3", "w9 w8"), ("", "w1"), ("w2 w2", "")]


@pytest.fixture
def pairs(task):
    return list(text_pairs(LINES, PairReader(task, scheme="subword_nmt")))


def slow(model, pair, method: str, layer: int, step: str) -> np.ndarray:
    """One pair alone: rows rotated for step input, the last one dropped, pieces joined to words.

    Source pieces are summed, target pieces averaged.
    """
    with torch.no_grad(), record(model) as recording:
        run_alone(model, pair)
    recorded = recording["cross", layer]
    soft = (recorded.weights.mean(1) if method == "weights" else recorded.norms.summed)[0].numpy()
    rows = np.roll(soft, -1, axis=0) if step == "input" else soft
    groups = {}
    for side, sentence in (("source", pair.source), ("target", pair.target)):
        ids = [len(sentence.text) if word < 0 else word for word in sentence.words]
        groups[side] = [
            [i for i, word in enumerate(ids) if word == w] for w in range(len(sentence.text) + 1)
        ]
    words = np.stack([rows[:, columns].sum(1) for columns in groups["source"]], axis=1)
    words = np.stack([words[pieces].mean(0) for pieces in groups["target"]])
    return words[:-1]


@pytest.mark.parametrize("arch", ["transformer", "transformer_normalign"])
def test_soft_word_alignments_equal_the_slow_twin(arch, task, pairs):
    model = build_model(arch, task)
    places = product(("weights", "norms"), (0, 1), ("input", "output"))
    evidences = [Evidence(method, layer, step) for method, layer, step in places]
    by_pair = soft_alignments(TeacherForcing(model, task), pairs, evidences)
    for pair, softs in zip(pairs, by_pair, strict=True):
        for evidence, soft in zip(evidences, softs, strict=True):
            assert soft.words.shape == (len(pair.target.text), len(pair.source.text))
            expected = slow(model, pair, *evidence[:3])
            np.testing.assert_allclose(
                np.column_stack([soft.words, soft.null]), expected, rtol=1e-4, atol=1e-6
            )


@pytest.mark.parametrize("method", LRP_RULES)
def test_relevance_of_source_words(method, task):
    """Each pair alone: |R| of source tokens for the logit of each reference token."""
    model = build_model(task=task)
    pairs = list(text_pairs([("w1 w2 w3", "w4 w5"), ("w3", "w9 w8 w7")], PairReader(task)))
    evidences = [Evidence(method, None, step) for step in ("output", "input")]
    evidences.append(Evidence("norms", 1))
    by_pair = soft_alignments(TeacherForcing(model, task), pairs, evidences)
    for pair, (output, read, _) in zip(pairs, by_pair, strict=True):
        prev = torch.cat([pair.target.tokens[-1:], pair.target.tokens[:-1]])[None]
        target = pair.target.tokens[None]
        options = {"rules": LRP_RULES[method], "targets": target}
        relevance = propagate(model, pair.source.tokens[None], prev, **options)
        expected = relevance.source[0].abs().numpy()
        np.testing.assert_allclose(
            np.column_stack([output.words, output.null]), expected[:-1], rtol=1e-3, atol=1e-5
        )
        np.testing.assert_allclose(
            np.column_stack([read.words, read.null]), expected[1:], rtol=1e-3, atol=1e-5
        )


def slow_piece_links(model, pair, step: str, *, null: bool) -> set[tuple[int, int]]:
    """Of each target piece the best source token, word by word; none if that is no word's."""
    with torch.no_grad(), record(model) as recording:
        run_alone(model, pair)
    soft = recording["cross", 1].norms.summed[0].numpy()
    links = set()
    for j, target_word in enumerate(pair.target.words):
        row = soft[j + 1 if step == "input" else j] if target_word >= 0 else []
        candidates = [i for i, word in enumerate(pair.source.words) if null or word >= 0]
        if target_word >= 0 and candidates:
            best = max(candidates, key=lambda i: row[i])
            if pair.source.words[best] >= 0:
                links.add((pair.source.words[best], target_word))
    return links


@pytest.mark.parametrize("step", ["input", "output"])
@pytest.mark.parametrize("null", [True, False])
def test_links_of_pieces_equal_the_slow_twin(step, null, task, pairs):
    model = build_model(task=task)
    forcing = TeacherForcing(model, task)
    evidences = [Evidence("norms", 1, step)]
    both = zip(
        pairs,
        soft_alignments(forcing, pairs, evidences, keep_pieces=evidences),
        soft_alignments(forcing, pairs, evidences),
        strict=True,
    )
    for pair, (soft,), (plain,) in both:
        assert set(piece_argmax(soft.pieces, null=null)) == slow_piece_links(
            model, pair, step, null=null
        )
        np.testing.assert_array_equal(soft.words, plain.words)
        assert plain.pieces is None


SHARED_PASS = [name for name, method in METHODS.items() if method.needs != OWN_PASS]


def layers_that_end(model, run) -> list[int]:
    """How many layers of encoder and decoder came to their end while something was run."""
    ended = []
    for stack in (model.encoder, model.decoder):
        layers, of_stack = layers_of(stack), []
        with hooked(layers, after=lambda module, *_, to=of_stack: to.append(module)):
            run()
        ended.append(len(of_stack))
    return ended


@pytest.mark.parametrize("method", SHARED_PASS)
def test_nothing_is_run_above_the_layer_that_is_asked_for(method, task, pairs):
    model = build_model("transformer", task)
    forcing = TeacherForcing(model, task)
    first, second = (Evidence(method, layer, METHODS[method].steps[0]) for layer in (0, 1))

    def run(*evidences):
        return [softs[0].words for softs in soft_alignments(forcing, pairs, evidences)]

    assert layers_that_end(model, lambda: run(first)) == [2, 0]
    assert layers_that_end(model, lambda: run(second)) == [2, 1]
    for alone, together in zip(run(first), run(first, second), strict=True):
        assert np.array_equal(alone, together)


def test_attention_of_the_encoder_runs_no_decoder(task, pairs):
    model = build_model("transformer", task)
    forcing = TeacherForcing(model, task)  # which looks at source–target attention
    for kinds, ended in ((["encoder"], [1, 0]), (["encoder", "decoder"], [2, 1])):
        assert layers_that_end(model, lambda: recorded(forcing, pairs, kinds)) == ended  # noqa: B023
