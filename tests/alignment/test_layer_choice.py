"""Layers without gold: what decides, and on which pairs. The rule itself is in test_aligner."""

from itertools import islice

import numpy as np
import pytest

from fairseq_normalign.alignment.aligner import NormAligner
from fairseq_normalign.alignment.combined import CombinedAligner
from fairseq_normalign.alignment.layer_choice import (
    FEW,
    LayerVote,
    above_chance,
    agreement,
    consistency,
    decisive_samples,
)
from fairseq_normalign.attention.extract import mutual_argmax
from fairseq_normalign.attention.soft import Evidence, Soft
from fairseq_normalign.files import read_lines
from fairseq_normalign.host.checkpoint import load_single
from fairseq_normalign.host.pairs import PairReader
from fairseq_normalign.host.teacher_forcing import TeacherForcing
from tests.conftest import ready_model


@pytest.fixture
def pairs(task):
    reader = PairReader(task)
    return [reader.pair("w1 w2 w3", "w4 w5", f"line {number}") for number in range(FEW)]


def test_enough_pairs_decide_by_themselves(task, pairs):
    model = NormAligner(*ready_model(task))
    assert decisive_samples([model], [pairs])[0] is pairs
    with pytest.warns(UserWarning, match=f"only {FEW - 1} pairs, and no validation set: to choose"):
        decisive_samples([model], [pairs[1:]])


def test_layers_without_heads_are_no_candidates(task, pairs):
    alive = "encoder.1.1 cross.2.3"
    model = ready_model(task, arch="transformer_normalign", alive_heads=alive)
    chosen, _ = NormAligner(*model).chosen(pairs[:3])
    assert {evidence.layer for evidence in chosen} == {1}


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
    assert vote.chosen()[0].step == steps[right].step


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
    chosen, _ = NormAligner(TeacherForcing(network, task), reader, method=method).chosen(pairs)
    assert chosen[0] == Evidence(method, 0, "input")


@pytest.mark.parametrize("combine", [None, "product", "learned"])
def test_a_model_that_is_not_trained_causes_a_warning(task, combine):
    """All target words of a random model choose much the same source words."""
    one = NormAligner(*ready_model(task))
    aligner = one if combine is None else CombinedAligner(one, combine=combine)
    texts = [(" ".join(f"w{(n + k) % 29}" for k in range(9)),) * 2 for n in range(FEW)]
    with pytest.warns(UserWarning, match="model a-b: its words choose each other no more than"):
        decided = aligner.decide(texts)
    assert decided.agreement < 0


A = [{(0, 0), (1, 1)}, {(0, 0)}]
B = [{(0, 0), (1, 2)}, {(0, 0), (1, 1)}]
NONE = [set(), set()]


def test_dice_over_the_corpus():
    assert agreement(A, B) == 2 * 2 / (3 + 4)
    assert agreement(A, A) == 1
    assert agreement(A, NONE) == agreement(NONE, NONE) == 0


def test_links_that_repeat():
    assert consistency({}) == consistency({("das", "the"): 1, ("haus", "house"): 1}) == 0
    assert consistency({("das", "the"): 3}) == 3 * 2 / 3
    assert consistency({("das", "the"): 3, ("das", "house"): 2, ("ein", "the"): 1}) == (6 + 2) / 5


def test_agreement_above_chance():
    generator = np.random.default_rng(1)
    matrices = [generator.random((targets, 6)) for targets in (1, 3, 6, 9) for _ in range(500)]
    shapes = [matrix.shape for matrix in matrices]
    mutual = sum(len(mutual_argmax(matrix)) for matrix in matrices)
    assert above_chance(mutual, shapes) == pytest.approx(0, abs=0.03)
    assert above_chance(sum(map(min, shapes)), shapes) == 1
    assert above_chance(1, [(4, 4)]) == (1 - 16 / 7) / (4 - 16 / 7)
    assert above_chance(0, []) == above_chance(2, [(1, 7), (1, 1), (0, 3)]) == 1  # nothing to say
