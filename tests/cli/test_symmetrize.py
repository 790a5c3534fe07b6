"""``normalign symmetrize`` through its parser and main."""

import json

import pytest

from fairseq_normalign.alignment.symmetrize import SAMPLE
from fairseq_normalign.cli.symmetrize import main, parse_args
from fairseq_normalign.errors import InputError

FORWARD = "0-0 1-2\n\n0-0 0-1\n"
REVERSE = "0-0 2-1 2-0\n\n0-0\n"  # target word first


@pytest.fixture(autouse=True)
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "fwd").write_text(FORWARD)
    (tmp_path / "rev").write_text(REVERSE)
    return tmp_path


def run(*arguments):
    main(parse_args(["fwd", "rev", *arguments]))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--heuristic", "intersection"], "0-0 1-2\n\n0-0\n"),
        (["--heuristic", "union"], "0-0 0-2 1-2\n\n0-0 0-1\n"),
        (["--heuristic", "grow-diag"], "0-0 1-2\n\n0-0 0-1\n"),
        (["--heuristic", "grow-diag", "--variant", "lilt"], "0-0 1-2\n\n0-0\n"),
        (["--heuristic", "intersection", "--rev-order", "source-target"], "0-0\n\n0-0\n"),
        (["--heuristic", "intersection", "-f", "naacl"], "1 1 1 S\n1 2 3 S\n3 1 1 S\n"),
    ],
)
def test_lines_in_order(capsys, options, expected):
    run(*options)
    assert capsys.readouterr().out == expected


@pytest.mark.parametrize(
    ("reverse", "order", "common"),
    [
        (REVERSE, "target-source", "3 as target-source and 2 as source-target"),
        ("0-0 1-2 0-2\n\n0-0\n", "source-target", "2 as target-source and 3 as source-target"),
        ("0-0\n\n0-0\n", "target-source", "2 as target-source and 2 as source-target"),
    ],
)
def test_the_order_of_the_reverse_links_is_told_by_the_forward_ones(
    files, capsys, reverse, order, common
):
    """eflomal and fast_align write both directions source word first."""
    (files / "rev").write_text(reverse)
    run("--heuristic", "intersection", "-o", "both")
    assert capsys.readouterr().err == (
        f"normalign symmetrize: rev: read as {order} (links in common with fwd: {common}); "
        "--rev-order overrides\n"
    )
    assert (files / "both").read_text() == ("0-0 1-2" if "2" in reverse else "0-0") + "\n\n0-0\n"
    assert json.loads((files / "both.json").read_text())["signature"]["rev-order"] == order


def test_the_first_lines_decide_for_all(files, capsys):
    """Also of files that can be read only once: nothing is read twice, and little is kept."""
    (files / "fwd").write_text("0-1 2-3\n" * SAMPLE + "1-0\n")
    (files / "rev").write_text("0-1 2-3\n" * SAMPLE + "0-1\n")
    run("--heuristic", "union")
    assert capsys.readouterr().out.endswith("0-1 2-3\n0-1 1-0\n")


def test_output_file_and_its_signature(files, capsys):
    (files / "fwd.json").write_text(json.dumps({"signature": {"method": "norms", "layer": 2}}))
    (files / "rev.json").write_text(
        json.dumps({"signature": {"method": "norms", "layer": 3, "eos": "null"}})
    )
    run("--heuristic", "intersection", "--output", "both")
    assert capsys.readouterr().out == ""
    assert (files / "both").read_text() == "0-0 1-2\n\n0-0\n"
    assert json.loads((files / "both.json").read_text())["signature"] == {
        "method": "norms",
        "layer": "2+3",
        "eos": "null",
        "heuristic": "intersection",
        "variant": "moses",
        "rev-order": "target-source",
    }


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["fwd", "short"], "line counts differ: fwd has 3, short has 1 lines"),
        (["fwd", "x.json", "-o", "x"], r"x\.json: would overwrite the input x\.json"),
        (["fwd", "none", "--heuristic", "grow-diag-final", "--variant", "lilt"], "grow-diagonal-f"),
    ],
)
def test_a_refused_run_leaves_the_old_file(files, words, message):
    for name, text in {"both": "old", "short": "0-0\n", "x.json": "0-0\n"}.items():
        (files / name).write_text(text)
    with pytest.raises(InputError, match=message):
        main(parse_args(["-o", "both", *words]))
    assert (files / "both").read_text() == "old"
    there = sorted(path.name for path in files.iterdir())
    assert there == ["both", "fwd", "rev", "short", "x.json"]


def test_index_is_kept(files, capsys):
    (files / "fwd").write_text("1-1\n")
    (files / "rev").write_text("1-1 2-2\n")
    run("--index", "1", "--heuristic", "union")
    assert capsys.readouterr().out == "1-1 2-2\n"


def test_a_device_gets_no_signature(files):
    run("-o", "/dev/null")
    assert sorted(path.name for path in files.iterdir()) == ["fwd", "rev"]
