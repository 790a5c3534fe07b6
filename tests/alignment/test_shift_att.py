"""Shift-Att of one model and of two, against slow twins."""

from itertools import product

import numpy as np
import pytest
import torch
from fairseq.data import Dictionary

from fairseq_normalign import NormAligner, ShiftAttAligner
from fairseq_normalign.alignment.aer import Counts, count
from fairseq_normalign.alignment.symmetrize import symmetrize
from fairseq_normalign.attention.recorder import record
from fairseq_normalign.errors import InputError
from fairseq_normalign.text.links import Gold
from tests.conftest import ToyTask, randomised, ready_model, run_alone

# The second source ends in punctuation, the third target, and both of the first.
PAIRS = [
    ("w1@@ w2 w3 .", "w4 w5@@ w6 ."),
    ("w3 w7 .", "w9 w8@@ w1"),
    ("w2 w2@@ w5", "w1 ."),
    ("w3 。", "w9@@ w8 w1 。"),
    (".", "."),
    ("", "w1"),
    ("w1", ""),
]


def aligner(seed: int = 1, *, languages: str = "ab", **options) -> NormAligner:
    task = ToyTask()
    task.source_dictionary = task.target_dictionary = Dictionary()
    for symbol in (*(f"w{number}" for number in range(10)), ".", "。"):
        task.source_dictionary.add_symbol(symbol)
        task.source_dictionary.add_symbol(f"{symbol}@@")
    task.args.source_lang, task.args.target_lang = languages
    model = ready_model(task, scheme="subword_nmt")
    randomised(model.forcing.model, seed)
    return NormAligner(*model, method="shift-att", **options)


def slow_links(one: NormAligner, source: str, target: str, layer: int) -> set[tuple[int, int]]:
    """The argmax of each target piece in the row that reads it, one pair alone, piece by piece."""
    pair = one.reader.pair(source, target, "here")
    with torch.no_grad(), record(one.forcing.model) as recording:
        run_alone(one.forcing.model, pair)
    weights = recording["cross", layer].weights[0].mean(0)  # (T, S)
    sources, targets = len(pair.source.tokens) - 1, len(pair.target.tokens) - 1  # without </s>
    source_stop = source[-1:] in (".", "。")
    target_stop = target[-1:] in (".", "。")
    links = set()
    for t in range(targets):
        allowed = list(range(sources))
        if source_stop and target_stop and t == targets - 1:
            allowed = [sources - 1]
        elif source_stop:
            allowed.remove(sources - 1)
        if allowed:
            best = max(allowed, key=lambda s: weights[t + 1, s].item())
            links.add((pair.source.words[best], pair.target.words[t]))
    return links


@pytest.mark.parametrize("layer", [1, 2])
def test_links_equal_the_slow_twin(layer):
    one = aligner(layer=layer)
    links = [set(of_pair) for of_pair in one.align_many(PAIRS)]
    assert links == [slow_links(one, *pair, layer - 1) for pair in PAIRS]
    assert links[4] == {(0, 0)}
    assert one.signature() == {
        "method": "shift-att",
        "layer": layer,
        "head": "all",
        "step": "input",
        "eos": "skip",
        "merge": "none",
        "extract": "piece-argmax",
    }


def test_the_step_is_input():
    with pytest.raises(InputError, match="shift-att cannot answer for step output"):
        aligner(layer=1, step="output")


def slow_layers(forward: NormAligner, backward: NormAligner) -> tuple[int, int]:
    """argmin of AER over pairs of layers, all links of the other model being sure."""
    aers = {}
    for i, j in product((0, 1), (0, 1)):
        total = Counts()
        for source, target in PAIRS:
            reverse = {(s, t) for t, s in slow_links(backward, target, source, j)}
            total += count(slow_links(forward, source, target, i), Gold(reverse, reverse))
        aers[i, j] = total.aer
    return min(aers, key=aers.get)


@pytest.mark.filterwarnings("ignore:only .* pairs")
@pytest.mark.parametrize("seed", [2, 3, 4])
def test_two_models_agree_on_their_layers_and_are_symmetrised(seed):
    forward, backward = aligner(), aligner(seed, languages="ba")
    both = ShiftAttAligner(forward, backward)
    links = [set(of_pair) for of_pair in both.align_many(PAIRS)]
    i, j = slow_layers(forward, backward)
    assert both.signature()["layer"] == f"auto:{i + 1}"
    assert both.signature()["reverse-layer"] == f"auto:{j + 1}"
    assert both.signature()["symmetrize"] == "grow-diag:lilt"
    expected = []
    for source, target in PAIRS:
        reverse = {(s, t) for t, s in slow_links(backward, target, source, j)}
        of_forward = slow_links(forward, source, target, i)
        expected.append(symmetrize(of_forward, reverse, "grow-diag", variant="lilt"))
    assert links == expected


def test_confidences_are_mean_shares():
    forward, backward = aligner(layer=1), aligner(2, languages="ba", layer=2)
    both = ShiftAttAligner(forward, backward)
    source, target = PAIRS[0]
    decided = both.decide([])
    soft = decided.soft(source, target)
    links = decided.links(soft)
    of_forward = forward.shares(forward.soft(source, target))
    of_backward = backward.shares(backward.soft(target, source))
    expected = [(of_forward[t, s] + of_backward[s, t]) / 2 for s, t in links]
    np.testing.assert_allclose(both.decide(PAIRS).confidences(soft, links), expected, rtol=1e-5)
    assert (1, 1) not in links or len(links) > 1
    assert both.signature()["layer"] == 1


def test_models_that_do_not_go_together():
    with pytest.raises(InputError, match="the reverse model translates a → b, and the model a → b"):
        ShiftAttAligner(aligner(), aligner())
    other = aligner(languages="ba")
    by_norms = NormAligner(other.forcing, other.reader)
    with pytest.raises(InputError, match="method norms; expected shift-att"):
        ShiftAttAligner(aligner(), by_norms)
    both = ShiftAttAligner(aligner(layer=1), aligner(2, languages="ba", layer=1))
    streams = both.read(PAIRS[:1])[0], both.read(PAIRS[1:2])[1]
    with pytest.raises(InputError, match="line 1: the models read different sentences"):
        list(both.run(*streams))
