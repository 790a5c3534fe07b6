"""``normalign gates`` on a log of two lines."""

import pytest

from fairseq_normalign.heads.relevance_log import as_line
from tests.conftest import run
from tests.heads.test_relevance_log import END, START


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "relevance.jsonl"
    path.write_text(f"{as_line(START)}\n{as_line(END)}\n")
    return path


def test_a_table_and_a_picture(log, tmp_path):
    done = run("normalign", "gates", log, "--plot", tmp_path / "x.png", "-f", "csv")
    assert done.stdout.startswith("updates,open,encoder,cross,stay,go,ρ now,ρ first\n0,4,2,2,0.4")
    assert done.stderr == "sentences:7|rules:voita-pooled\n"
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["none"], "normalign gates: none: No such file or directory"),
        (["{tmp}/empty"], "empty: is empty; expected a line for each validation"),
        (["{tmp}/relevance.jsonl", "--plot", "x.jpg"], "--plot x.jpg: expected a name that ends"),
        (["{tmp}/log.png", "--plot", "{tmp}/log.png"], "would overwrite the input"),
    ],
)
def test_bad_input(options, message, log, tmp_path):
    (tmp_path / "empty").touch()
    (tmp_path / "log.png").write_text(log.read_text())
    words = [option.format(tmp=tmp_path) for option in options]
    done = run("normalign", "gates", *words, check=False)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stdout == ""
