"""The worked examples of docs/add-a-method.md, run as they are documented."""

import re

import pytest

from fairseq_normalign import NormAligner, text_pairs
from fairseq_normalign.text.links import parse_links
from tests.conftest import ROOT, run

pytestmark = pytest.mark.slow


def recipe(name: str) -> tuple[str, str]:
    """The code of an example plugin, and the command that uses it."""
    text = (ROOT / "docs/add-a-method.md").read_text(encoding="utf-8")
    code = re.search(rf"```python\n(# {name}/__init__\.py\n.*?)```", text, re.DOTALL)[1]
    command = re.search(rf"```\n(normalign [^\n]*--user-dir {name} .*?)\n```", text)[1]
    assert len(code.splitlines()) <= 40
    return code, command


def run_recipe(name, folder, corpus, checkpoint, *more):
    code, command = recipe(name)
    (folder / name).mkdir()
    (folder / name / "__init__.py").write_text(code, encoding="utf-8")
    words = command.replace("data-bin", str(corpus / "data-bin"))
    words = words.replace("checkpoint_best.pt", str(checkpoint)).split()
    return run(*words, "--cpu", *more, cwd=folder)


def test_a_soft_method(corpus, checkpoint, tmp_path):
    done = run_recipe("surest", tmp_path, corpus, checkpoint, "--layer", 3, "--step", "output")
    assert "method:surest|layer:3" in done.stderr
    lines = [parse_links(line) for line in done.stdout.splitlines()]
    assert len(lines) == 40
    assert any(lines)


def test_a_head_score(corpus, checkpoint, tmp_path):
    done = run_recipe("reach", tmp_path, corpus, checkpoint)
    assert re.search(r"^head +confidence +distance", done.stdout, re.MULTILINE)
    assert (
        len(re.findall(r"^(?:encoder|decoder|cross)\.\d\.\d +0\.\d+ +\d+\.\d+", done.stdout, re.M))
        == 36
    )


def test_a_measure(corpus, checkpoint, tmp_path):
    """Its result has a number for each layer, whatever the size of chunks."""
    page = (ROOT / "docs/add-a-method.md").read_text(encoding="utf-8")
    names: dict = {}
    aligner = NormAligner.from_checkpoint(
        str(checkpoint),
        data=str(corpus / "data-bin"),
        bpe="sentencepiece",
        model=str(corpus / "spm.model"),
    )
    texts = [(corpus / f"test.{side}").read_text().splitlines() for side in ("src", "tgt")]
    names["aligner"] = aligner
    names["pairs"] = list(text_pairs(zip(*texts, strict=True), aligner.reader))
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    code, use = [block for block in blocks if "class Focus:" in block or "Focus()" in block]
    exec(code, names)  # noqa: S102  (our own page)
    exec(use, names)  # noqa: S102
    whole = names["result"].means
    assert len(whole) == 3
    assert all(0 < mean < 1 for mean in whole)
    names["Focus"].pairs_per_chunk = 7
    exec(use, names)  # noqa: S102
    assert names["result"].means == pytest.approx(whole, rel=1e-5)
