"""The worked example of ``docs/training.md``, run as it is documented."""

import re

import pytest

from tests.conftest import ROOT, run

pytestmark = pytest.mark.slow


def documented(pattern: str) -> str:
    text = (ROOT / "docs" / "training.md").read_text(encoding="utf-8")
    return re.search(pattern, text, re.DOTALL)[1]


def test_a_criterion_on_norms(corpus, checkpoint, tmp_path):
    """Its price falls, and the model is one that can be aligned."""
    code = documented(r"```python\n(# focused_norms/__init__\.py\n.*?)```")
    assert len([line for line in code.splitlines() if line.strip()]) <= 20
    (tmp_path / "focused_norms").mkdir()
    (tmp_path / "focused_norms" / "__init__.py").write_text(code, encoding="utf-8")
    command = documented(r"```\n(fairseq-train .*?)\n```").replace("\\\n", " ")
    command = command.replace("plain/data-bin", str(corpus / "data-bin"))
    command = command.replace("plain/model/checkpoint_last.pt", str(checkpoint))
    command = command.replace("--max-update 200", "--max-update 100")
    command = command.replace("--log-interval 50", "--log-interval 25")
    done = run(*command.split(), "--disable-validation", cwd=tmp_path)
    spreads = [float(spread) for spread in re.findall(r"\bspread=([0-9.]+)", done.stdout)]
    assert len(spreads) == 4
    assert 1 > spreads[0] > spreads[-1] > 0, spreads
    links = run(
        *("normalign", "align", corpus / "data-bin", "--cpu", "--remove-bpe", "sentencepiece"),
        *("--path", tmp_path / "tuned" / "checkpoint_last.pt", "--layer", 3, "--step", "output"),
    ).stdout
    assert len(links.splitlines()) == 40
