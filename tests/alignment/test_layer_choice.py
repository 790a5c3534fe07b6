"""Layers without gold: what decides, and on which pairs. The rule itself is in test_aligner."""

from itertools import islice

import numpy as np
import pytest

from fairseq_normalign.alignment.aligner import NormAligner
from fairseq_normalign.alignment.combined import CombinedAligner
from fairseq_normalign.alignment.layer_choice import (
    FEW,
    LayerVote,
    choose_layers,
    decisive_pairs,
)
from fairseq_normalign.attention.soft import Evidence, Soft
from fairseq_normalign.files import read_lines
from fairseq_normalign.host.checkpoint import load_single
from fairseq_normalign.host.pairs import PairReader
from fairseq_normalign.host.teacher_forcing import TeacherForcing
from fairseq_normalign.plugin.pruned import remove_heads
from tests.conftest import ToyTask, build_model


@pytest.fixture
def task():
    return ToyTask()


@pytest.fixture
def pairs(task):
    reader = PairReader(task)
    return [reader.pair("w1 w2 w3", "w4 w5", f"line {number}") for number in range(FEW)]


def test_enough_pairs_decide_by_themselves(task, pairs):
    forcing = TeacherForcing(build_model(task=task), task)
    assert decisive_pairs(pairs, PairReader(task), forcing) is pairs
    with pytest.warns(UserWarning, match=f"decided on {FEW - 1} pairs, as there is no validation"):
        decisive_pairs(pairs[1:], PairReader(task), forcing)


def test_layers_without_heads_are_no_candidates(task, pairs):
    model = build_model("transformer_normalign", task)
    remove_heads(model, "encoder.1.1 cross.2.3")
    choice = choose_layers(TeacherForcing(model, task), pairs[:3])
    assert set(choice.layers.values()) == {1}


@pytest.mark.parametrize("right", [0, 1])
def test_rows_that_are_one_word_late_are_no_alignment(right):
    """Words of a dictionary of words: both steps have as many words that choose each other.

    The sentences are in different orders, so that only the right step links the same words again.
    """
    words = np.array(list("abcdefgh"))
    steps = [Evidence("norms", 0, step) for step in ("input", "output")]
    vote = LayerVote(steps)
    generator = np.random.default_rng(1)
    for _ in range(20):
        source = generator.permutation(words)
        aligned = np.eye(len(words)) + 0.1
        late = np.roll(aligned, 1, axis=0)
        matrices = (aligned, late) if right == 0 else (late, aligned)
        texts = source, np.char.upper(source)
        vote.add([Soft(matrix, np.zeros(len(words)), texts=texts) for matrix in matrices])
    assert vote.choice().step == steps[right].step


REAL = {
    "deen": ("deen", "dict.txt"),
    "ende": ("deen", "dict.txt"),
    "enfr": ("enfr", "dict.enfr.txt"),
    "fren": ("enfr", "dict.enfr.txt"),
}


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["sentencepiece", "none"])
@pytest.mark.parametrize("method", ["norms", "weights"])
@pytest.mark.parametrize("model", REAL)
def test_real_models_align_where_they_read(model, method, scheme, data, tmp_path):
    """Whether pieces are joined, or stand for words as those of a dictionary of words do."""
    sentencepiece = pytest.importorskip("sentencepiece")
    corpus, dictionary = REAL[model]
    checkpoint = data.parent / f"checkpoints/{model}.pt"
    if not checkpoint.exists():
        pytest.skip(f"{checkpoint} is missing")
    languages = model[:2], model[2:]
    symbols = checkpoint.with_name(dictionary).read_text()
    if scheme == "none":
        symbols = symbols.replace("▁", "~")
    for language in languages:
        (tmp_path / f"dict.{language}.txt").write_text(symbols)
    network, task = load_single(str(checkpoint), str(tmp_path))
    pieces = sentencepiece.SentencePieceProcessor(str(data / corpus / "spm.model"))
    texts = [islice(read_lines(data / corpus / f"test.{language}"), 100) for language in languages]
    reader = PairReader(task, scheme=None)
    assert reader.scheme == scheme
    pairs = []
    for source, target in zip(*texts, strict=True):
        lines = [" ".join(pieces.encode(text, out_type=str)) for text in (source, target)]
        if scheme == "none":
            lines = [line.replace("▁", "~") for line in lines]
        pairs.append(reader.pair(*lines, "line"))
    choice = choose_layers(TeacherForcing(network, task), pairs, method)
    assert (choice.step, choice.layers["input"]) == ("input", 0)


@pytest.mark.parametrize("combine", [None, "product", "learned"])
def test_a_model_that_is_not_trained_is_told(task, combine):
    """All target words of a random model choose much the same source words."""
    one = NormAligner(TeacherForcing(build_model(task=task), task), PairReader(task))
    aligner = one if combine is None else CombinedAligner(one, combine=combine)
    texts = [(" ".join(f"w{(n + k) % 29}" for k in range(9)),) * 2 for n in range(FEW)]
    with pytest.warns(UserWarning, match="model a-b: its words choose each other no more than"):
        decided = aligner.decide(texts)
    assert decided.agreement < 0
