"""``normalign project`` through the command."""

from __future__ import annotations

import json

import pytest

from fairseq_normalign.cli.main import main


@pytest.fixture(autouse=True)
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.de").write_text("das <b>Haus</b>.\n\n<i>我爱</i> {0}\n")
    (tmp_path / "a.en").write_text("The house.\n\nI love\n")
    (tmp_path / "links").write_text("0-0 1-1 2-2\n\n0-0 1-1\n")
    (tmp_path / "a.conll").write_text("in O\nBonn B-LOC\n\nja O\n")
    (tmp_path / "two.en").write_text("Bonn in\nyes\n")
    (tmp_path / "two.links").write_text("0-1 1-0\n0-0\n")
    (tmp_path / "a.jsonl").write_text('{"id": 1, "text": "in Bonn", "spans": [[3, 7, "LOC"]]}\n')
    (tmp_path / "one.en").write_text("Bonn in\n")
    (tmp_path / "one.links").write_text("0-1 1-0\n")
    (tmp_path / "late.conll").write_text("Bonn B-LOC\n\nja O\n")  # the first label is lost
    (tmp_path / "late.links").write_text("\n5-0\n")
    (tmp_path / "terms").write_text("Bonn\tBonn\n")
    (tmp_path / "plain.de").write_text("in Bonn\n")
    return tmp_path


def run(line: str) -> int:
    return main(["project", *line.split()])


def test_tags(files, capsys):
    assert run("a.de a.en --links links --tokenizer plain -o out") == 0
    assert (files / "out").read_text() == "The <b>house</b>.\n\n<i>I love</i> {0}\n"
    assert run("a.de --plain --tokenizer plain") == 0
    assert capsys.readouterr().out == "das Haus .\n\n我 爱\n"


def test_labels(capsys):
    assert run("a.conll two.en --labels --links two.links") == 0
    shown = capsys.readouterr()
    assert shown.out == "Bonn B-LOC\nin O\n\nyes O\n\n"
    assert shown.err.splitlines()[-1].split() == ["LOC", "1", "1", "0", "0"]
    assert run("a.jsonl one.en --labels --links one.links") == 0
    item = json.loads(capsys.readouterr().out)
    assert item == {"id": 1, "text": "Bonn in", "spans": [[0, 4, "LOC"]]}


def test_terms(capsys):
    assert run("plain.de one.en --terms terms --links one.links") == 0
    shown = capsys.readouterr()
    assert shown.out.splitlines()[1] == "1\tBonn\tBonn\tBonn\tok"
    assert shown.err.splitlines()[-1].split() == ["terms", "1", "1", "0", "0"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("a.de", "no TARGET"),
        ("a.de a.en", "needs one of --links FILE and --model MODEL"),
        ("a.de a.en --links links --model m", "needs one of --links FILE"),
        ("a.de a.en --links links --learned f", "--learned needs --model"),
        ("a.de a.en --links links", "a.de:1: link 2-2 (from 0), but the source has 2 words"),
        ("a.de a.en --links one.links", "line counts differ: a.de has 3, a.en has 3"),
        ("a.de one.en --links links", "line counts differ: a.de has 3 lines, one.en has 1"),
        ("a.en a.de --links links --tokenizer plain", "a.en:1: the translation already has '<b>'"),
        ("a.de a.en --links links -o a.de", "a.de: would overwrite the input"),
        ("a.de two.en --labels --links links", "a.de:1: bad label"),
        ("a.de a.en --labels --html --links links", "--html cannot be used with --labels"),
        ("late.conll two.en --labels --links late.links", "late.conll:3: link 5-0"),
        ("terms one.en --labels --links links", "expected O, B-NAME or I-NAME"),
        ("plain.de one.en --terms one.en --links one.links", "one.en:1: one column"),
    ],
)
def test_bad_input_is_one_line(files, capsys, line, message):
    assert run(f"{line}" if " -o " in line else f"{line} -o out") == 2
    shown = capsys.readouterr()
    assert shown.err.count("\n") == 1, shown.err
    assert message.split(" lines")[0] in shown.err
    assert not (files / "out").exists()
