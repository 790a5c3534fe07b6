"""The worked examples of docs/add-a-method.md, run as they are documented."""

import re

import pytest

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
