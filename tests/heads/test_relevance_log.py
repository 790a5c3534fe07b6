"""The file of gates and relevance: written, read back, and summed up."""

import pytest

from fairseq_normalign.errors import InputError
from fairseq_normalign.heads.relevance_log import (
    Entry,
    GatedHead,
    GateLog,
    agreement,
    as_line,
    read_log,
)
from fairseq_normalign.names import Head
from tests.conftest import refused, run

HEADS = [Head("encoder", 0, 0), Head("encoder", 0, 1), Head("cross", 1, 0), Head("cross", 1, 1)]


def entry(updates, gates, opens, relevances):
    states = map(GatedHead, gates, opens, relevances)
    return Entry(updates, 7, "voita-pooled", dict(zip(HEADS, states, strict=True)))


START = entry(0, [1.0, 1, 1, 1], [0.9, 0.9, 0.9, 0.9], [0.6, 0.4, 0.3, 0.7])
END = entry(50, [1.0, 0, 0.5, 0], [0.99, 0.1, 0.6, 0.2], [1.0, 0, 0.75, 0.25])


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "relevance.jsonl"
    path.write_text(f"{as_line(START)}\n{as_line(END)}\n")
    return path


def test_lines_are_read_back(log):
    assert '"encoder.1.2": {"gate": 0, "open": 0.1, "relevance": 0}' in log.read_text()
    assert read_log(log) == [START, END]


def test_bad_lines(tmp_path):
    path = tmp_path / "relevance.jsonl"
    other = END._replace(heads=dict(list(END.heads.items())[:2]))
    cases = {
        "x": r"relevance\.jsonl:2: not a line of --log-relevance .*; expected JSON with updates",
        "{}": r"relevance\.jsonl:2: not a line of --log-relevance",
        as_line(END).replace(
            '"gate": 0.5', '"gate": "x"'
        ): r"\.jsonl:2: not a line .*to float: 'x'",
        as_line(START): r"relevance\.jsonl:2: does not continue the line before",
        as_line(other): "does not continue the line before",
    }
    for line, message in cases.items():
        path.write_text(f"{as_line(START)}\n{line}\n")
        with pytest.raises(InputError, match=message):
            read_log(path)


def test_means_and_agreement():
    assert END.open_heads() == [HEADS[0], HEADS[2]]
    assert END.mean_relevance(END.open_heads()) == pytest.approx(0.875)
    assert END.mean_relevance([]) is None
    # Ranks of P(open) 4 1 3 2, of relevance now 4 1 3 2, at the start 3 2 1 4.
    assert agreement(END, END) == pytest.approx(1)
    assert agreement(END, START) == pytest.approx(1 - 6 * (1 + 1 + 4 + 4) / (4 * 15))
    assert agreement(START, END) is None  # all are equally open


TABLE = """\
updates  open  encoder  cross   stay     go  ρ now  ρ first
      0     4        2      2  0.450  0.550      –        –
     50     2        1      1  0.875  0.125   1.00     0.00
"""


def test_a_row_for_each_entry():
    assert GateLog([START, END]).text().startswith(TABLE)
    assert GateLog([START]).text().splitlines()[1].split() == [
        *("0", "4", "2", "2", "0.500", "–", "–", "–")
    ]
    assert GateLog([START, END]).signature == {"sentences": 7, "rules": "voita-pooled"}


def test_a_curve_for_each_head():
    log = GateLog([START, END])
    opened, gates, relevance, *_ = log.blocks()
    assert [[point.y for point in curve.points] for curve in opened.curves] == [[2, 1], [2, 1]]
    first, second = relevance.blocks[0].curves
    assert relevance.blocks[0].title.startswith("encoder self-attention: ")
    assert [(point.x, point.y) for point in first.points] == [(0, 0.6), (50, 1.0)]
    assert (first.name, first.dashed, second.dashed) == ("encoder.1.1", False, True)
    assert [point.y for point in gates.blocks[1].curves[1].points] == [0.9, 0.2]
    assert gates.blocks[1].colours == ["layer 2"]
    assert log.figure().get_supxlabel() == "Dashed: closed in the end."


def test_command(log, tmp_path):
    done = run("normalign", "gates", log, "--plot", tmp_path / "x.png", "-f", "csv")
    assert done.stdout.startswith("updates,open,encoder,cross,stay,go,ρ now,ρ first\n0,4,2,2,0.4")
    assert done.stderr == "sentences:7|rules:voita-pooled\n"
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")


def test_bad_input(log, tmp_path):
    (tmp_path / "empty").touch()
    for words, message in {
        ("none",): "normalign gates: none: No such file or directory",
        (tmp_path / "empty",): "empty: the log is empty",
        (log, "-o", log): "would overwrite the input",
    }.items():
        assert message in refused("normalign", "gates", *words)
