"""``normalign heads`` on a model trained for a moment."""

import re

import pytest

from fairseq_normalign.results.result import read_result
from tests.conftest import refused, run

pytestmark = pytest.mark.slow


def heads(corpus, *options):
    return run("normalign", "heads", corpus / "data-bin", "--cpu", "--path", *options)


def test_gold_that_is_misread(corpus, checkpoint, text, own_gold):
    options = [*text, "--scores", "AER", "--gold", own_gold]
    misread = heads(corpus, checkpoint, *options)
    assert re.search(r"warning: AER would be .* with --gold-index 1\n", misread.stderr)
    assert "|gold:own.talp|ref-index:0|reverse:none|possible:keep" in misread.stderr
    assert "rank correlations" not in misread.stdout
    read = heads(corpus, checkpoint, *options, "--gold-index", 1)
    assert "--gold-index" not in read.stderr
    assert "|gold:own.talp|ref-index:1|" in read.stderr


def test_everything_at_once(corpus, checkpoint, text, tmp_path):
    options = ["--conllu", corpus / "test.src.conllu", "--frequencies", corpus / "freq.src.txt"]
    options += ["--rare-top", 20]
    options += [
        *("--gold", corpus / "test.talp", "--ablation", 5, "--relevance", "epsilon"),
        *("--relevance-mode", "pooled"),
    ]
    options += ["--ablation-bleu", 2]
    done = heads(
        corpus, checkpoint, *text, *options, "-o", tmp_path / "x.json", "--plot", tmp_path / "x.png"
    )
    tables = read_result(tmp_path / "x.json").tables()
    columns = [
        *("head", "relevance", "confidence", "entropy", "norm-confidence", "norm", "importance"),
        *("ablation", "AER %", "UAS %", "BLEU", "position share %", "rare-token share %"),
    ]
    assert tables["heads"].columns == [*columns, "position", "roles"]
    assert len(tables["heads"].rows) == 36
    assert re.search(
        r"^nsubj→head +\d+ +[\d.]+ +[+-]\d+ +[\d.]+ +encoder\.\d\.\d$", done.stdout, re.MULTILINE
    )
    assert "all heads (n = 36)" in done.stdout
    assert "between scores; low is good in entropy and AER.\n" in done.stdout
    assert re.search(r"rarest source token: \d\.\d\d times that of all, mean over", done.stdout)
    signature = done.stderr.strip().split("|")
    for part in (
        *("sentences:40", "confidence-eos:both", "relevance:epsilon:1e-05-pooled", "ablation:5"),
        *("ablation-bleu:2-13a", "step:best", "rare-top:20"),
    ):
        assert part in signature
    assert all(row[2] > 0 for row in tables["heads"].rows)
    for kind in ("encoder", "cross"):
        for layer in (1, 2, 3):
            place = f"{kind}.{layer}."
            shares = [row[1] for row in tables["heads"].rows if row[0].startswith(place)]
            assert sum(shares) == pytest.approx(1, abs=1e-4)
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")


def test_binarised_data_and_batches_change_nothing(corpus, checkpoint, text):
    options = ["--remove-bpe", "sentencepiece", "--max-tokens", 100]
    of_text = heads(corpus, checkpoint, *text).stdout
    of_binarised = heads(corpus, checkpoint, *options).stdout
    assert re.sub(r"\d+", "", of_text) == re.sub(r"\d+", "", of_binarised)
    assert numbers(of_text) == pytest.approx(numbers(of_binarised), abs=0.02)


def numbers(table):
    return [float(number) for number in re.findall(r" \d\.\d+", table)]


def test_a_treebank_of_its_own(corpus, checkpoint, text):
    done = heads(corpus, checkpoint, *text, "--conllu", corpus / "valid.src.conllu", "--limit", 9)
    assert re.search(r"sentences:9\|.*\|trees:40\|", done.stderr)


@pytest.mark.parametrize(
    ("option", "content", "message"),
    [
        ("--frequencies", "x 1\ny 2\n", "bad: has 0% of its pieces and 0% of its words"),
        ("--gold", "0-0\n", "line counts differ: .*bad has 1, the corpus has 40 lines"),
    ],
)
def test_bad_input(option, content, message, corpus, checkpoint, text, tmp_path):
    (tmp_path / "bad").write_text(content)
    options = [option, tmp_path / "bad", "-o", tmp_path / "x.json"]
    words = [corpus / "data-bin", "--cpu", "--path", checkpoint, *text, *options]
    assert re.search(message, refused("normalign", "heads", *words))
    assert not (tmp_path / "x.json").exists()


def test_several_checkpoints_are_a_mean_by_layer(corpus, checkpoint, text, tmp_path):
    """Two names of one model: each by itself is in the JSON, and nothing deviates."""
    twin = tmp_path / "twin.pt"
    twin.write_bytes(checkpoint.read_bytes())
    done = heads(corpus, checkpoint, twin, *text, "--limit", 10, "-o", tmp_path / "x.json")
    tables = read_result(tmp_path / "x.json").tables()
    assert tables["heads"].rows == tables["heads: twin.pt"].rows
    scores = [row[1] for row in tables["heads"].rows if row[0].startswith("cross.2.")]
    rows = {tuple(row[:2]): place for place, row in enumerate(tables["layers"].rows)}
    highest = rows["cross.2", "highest"]
    assert tables["layers"].rows[highest][2] == max(scores)
    assert tables["layers"].deviations[highest][2] == 0
    mean = tables["layers"].rows[rows["cross.2", "mean"]][2]
    assert mean == pytest.approx(sum(scores) / len(scores))
    assert "Mean ± sample deviation of 2 models." in done.stdout
    assert "checkpoint:checkpoint_last.pt,twin.pt|" in done.stderr
