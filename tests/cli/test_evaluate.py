"""``normalign evaluate`` through the installed command, on models trained for a moment."""

import re

import pytest
import sacrebleu

from fairseq_normalign.results.result import read_result
from tests.conftest import PACKAGE, rows_of, run


def evaluate(corpus, paths, *options, **more):
    return run(
        "normalign", "evaluate", corpus / "data-bin", "--path", *paths, "--cpu", *options, **more
    )


def models(path):
    """The rows of what ``-o`` wrote."""
    return rows_of(read_result(path).tables()["models"])


@pytest.fixture(scope="module")
def gold(corpus):
    return [
        *("--gold", corpus / "test.talp", "--gold-source", corpus / "test.src"),
        *("--gold-target", corpus / "test.tgt"),
    ]


@pytest.mark.slow
def test_table_json_and_picture(corpus, checkpoint, other, text, gold, tmp_path):
    files = ["-o", tmp_path / "rows.json", "--plot", tmp_path / "heads.png"]
    options = [*text, *gold, "--tokenize", "none", "--max-tokens", 300]
    done = evaluate(corpus, [checkpoint, other], *options, *files, "--user-dir", PACKAGE)
    header, *lines = done.stdout.splitlines()
    names = "model heads e d d-e million parameters MB BLEU chrF AER speed"
    assert header.split() == names.split()
    rows = models(tmp_path / "rows.json")
    assert [row["model"] for row in rows] == ["checkpoint_last.pt", "other.pt"]
    for line, row, path in zip(lines[:2], rows, (checkpoint, other), strict=True):
        name, *cells = line.split()
        assert name == row["model"]
        assert cells[:4] == ["36", "12", "12", "12"]
        # What an optimiser remembers does not count.
        assert float(cells[5]) < path.stat().st_size / 1e6
        rounded = [round(row[metric], 1) for metric in ("BLEU", "chrF", "AER")]
        assert [float(cell) for cell in cells[6:9]] == rounded
    assert rows[0]["speed"] == 1
    assert rows[0]["MB"] == rows[1]["MB"]
    assert re.search(r"\nBLEU: .*tok:none", done.stdout)
    assert (tmp_path / "heads.png").read_bytes().startswith(b"\x89PNG")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["heads.png", "rows.json"]


@pytest.mark.slow
def test_translations_are_those_of_fairseq_generate(corpus, checkpoint, text, tmp_path):
    """By their scores: of the text, and of the binarised data."""
    search = [
        *("--beam", 3, "--lenpen", 0.8, "--max-len-a", 0, "--max-len-b", 20),
        *("--remove-bpe", "sentencepiece"),
    ]
    command = [
        "fairseq-generate",
        corpus / "data-bin",
        *("--path", checkpoint, "--user-dir", PACKAGE, "--cpu"),
    ]
    printed = run(*command, *search, "--required-batch-size-multiple", 1).stdout
    numbered = re.findall(r"^D-(\d+)\t\S+\t(.*)$", printed, re.MULTILINE)
    generated = {int(number): line for number, line in numbered}
    hypotheses = [generated[number] for number in range(40)]
    references = (corpus / "test.tgt").read_text().splitlines()
    bleu = sacrebleu.corpus_bleu(
        hypotheses, [references], tokenize="13a", lowercase=True, force=True
    ).score
    chrf = sacrebleu.CHRF(lowercase=True).corpus_score(hypotheses, [references]).score
    assert chrf > 0
    for options in (text, []):
        evaluate(
            corpus, [checkpoint], *options, *search, "--lowercase", "-o", tmp_path / "rows.json"
        )
        (row,) = models(tmp_path / "rows.json")
        assert row["BLEU"] == pytest.approx(bleu, abs=1e-5)
        assert row["chrF"] == pytest.approx(chrf, abs=1e-5)
