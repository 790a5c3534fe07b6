"""The table of error rates against one alignment after the other."""

import numpy as np
import pytest

from fairseq_normalign import NormAligner
from fairseq_normalign.alignment.aer import Counts, count, interval
from fairseq_normalign.alignment.aligner import AlignOptions
from fairseq_normalign.alignment.error_table import error_table
from fairseq_normalign.alignment.layer_choice import FEW
from fairseq_normalign.attention.soft import Evidence
from fairseq_normalign.host.pairs import PairReader
from fairseq_normalign.host.teacher_forcing import TeacherForcing
from fairseq_normalign.text.links import GoldFile
from tests.conftest import ToyTask, build_model

TEXTS = [("w1@@ w2 w3", "w4 w5@@ w6"), ("w5 w6", "w7 w8@@ w9"), ("", "w1"), ("w2 w4 w6", "w1 w3")]
METHODS = ["norms", "shift-att", "lrp-epsilon", "alti-rollout"]


@pytest.fixture(scope="module")
def model():
    task = ToyTask()
    return NormAligner(
        TeacherForcing(build_model(task=task), task), PairReader(task, scheme="subword_nmt")
    )


@pytest.fixture
def gold(tmp_path):
    path = tmp_path / "gold"
    path.write_text("0-0 1p1\n0-0 1-1\n\n2-1 0p0\n" * (FEW // 4))
    return GoldFile(str(path))


def pairs(model) -> list:
    return [model.reader.pair(*text, "here") for text in TEXTS] * (FEW // 4)


def one_by_one(model, golds, evidence: Evidence) -> np.ndarray:
    """The counts of each pair, of an alignment that is made for itself, (N, 4)."""
    method, layer, step, head, *_ = evidence
    aligner = NormAligner(
        model.forcing,
        model.reader,
        method=method,
        layer="auto" if layer is None else layer + 1,
        step=step,
        head=None if head is None else head + 1,
    )
    links = aligner.links_many(pairs(model))
    return np.array(
        [count(set(found), of_gold) for found, of_gold in zip(links, golds, strict=True)]
    )


def test_cells_are_what_single_alignments_score(model, gold):
    table = error_table(model, pairs(model), gold, METHODS, options=AlignOptions(), heads=True)
    for evidence, counts in table.scores.items():
        expected = one_by_one(model, list(gold), evidence)
        assert counts == Counts(*expected.sum(axis=0)), evidence
        assert table.intervals[evidence] == pytest.approx(interval(expected)), evidence
    with_heads = {evidence.method for evidence in table.scores if evidence.head is not None}
    assert with_heads == {"norms", "shift-att"}
    assert table.rules["shift-att"] == "piece-argmax"
    assert table.rules["norms"] == "argmax"


def test_layers_are_chosen_as_align_chooses_them(model, gold):
    table = error_table(model, pairs(model), gold, METHODS, options=AlignOptions())
    for method in METHODS:
        chosen, _ = NormAligner(model.forcing, model.reader, method=method).chosen(pairs(model))
        assert table.chosen[method] == chosen


def test_few_pairs_ask_the_validation_set(model, tmp_path, monkeypatch):
    path = tmp_path / "gold"
    path.write_text("0-0\n")
    monkeypatch.setattr(
        "fairseq_normalign.alignment.layer_choice.binarised_pairs",
        lambda subset, reader: iter(pairs(model)),
    )
    table = error_table(
        model, pairs(model)[:1], GoldFile(str(path)), ["norms", "lrp"], options=AlignOptions()
    )
    chosen, _ = NormAligner(model.forcing, model.reader).chosen(pairs(model))
    assert table.chosen == {"norms": chosen, "lrp": [Evidence("lrp", None, "output")]}
