"""JSON of other commands: what it is recognised by, and what becomes of it."""

import json
import os
import subprocess
import sys

import pytest

from fairseq_normalign.errors import InputError
from fairseq_normalign.heads.relevance_log import Entry, GatedHead, as_line
from fairseq_normalign.names import Head
from fairseq_normalign.report.html.included import KINDS, SECTIONS, Included, read_included, shown
from fairseq_normalign.report.html.overview import measured_table, overview, sections
from fairseq_normalign.results.blocks import Curves, Table, as_json
from tests.report.html.made_up import ERRORS, HEADS

EVOLUTION = {
    "models": [
        {
            "name": "a.pt",
            **{name: [0.9, 0.5] for name in ("identity", "left", "right", "position")},
            **{name: [2.0, 1.0] for name in ("information", "shuffled_information")},
            "change": {"all": [0.1], "<100": [0.2]},
            "influence": {},
        }
    ],
    "random": dict.fromkeys(("identity", "left", "right", "position"), 0.1),
    "information_ceiling": 3.0,
    "between": [{"models": ["a.pt", "b.pt"], "distances": [[0.1, 0.2], [0.3, 0.4]]}],
    "signature": {"seed": 1},
}
PROBING = {
    "models": [
        {
            **{"name": "a.pt", "accuracy": [0.5], "shuffled": [0.1], "majority": 0.2},
            **{"train_words": 10, "test_words": 5},
        }
    ],
    "signature": {},
}


SCORED = {
    "system": "x/norms",
    "signature": "AER|ref-index:0",
    **{"aer": 10.0, "precision": 90.0, "recall": 91.0, "f1": 90.5, "links": 5, "sure": 4},
    "interval": [9.0, 11.0],
    "breakdown": {"length": {"1–10": {"aer": 5.0, "links": 3}, "11–20": {"aer": None, "links": 0}}},
}
MEAN = [{**line, "deviation": 1.0} for line in ERRORS]
ALL = {
    "align --all of one": ({"signature": {}, "models": {"a": ERRORS}}, "alignments"),
    "align --all of two": ({"models": {"a": ERRORS, "b": ERRORS}, "mean": MEAN}, "alignments"),
    "aer of one": (SCORED, "alignments"),
    "aer of two": ([SCORED, {**SCORED, "system": "x/weights", "p": 0.0123}], "alignments"),
    "evolution": (EVOLUTION, "evolution"),
    "probe": (PROBING, "evolution"),
    "signature": ({"signature": {"method": "norms"}, "size": 12}, "links"),
}


@pytest.mark.parametrize("name", ALL)
def test_each_kind_is_known_by_what_it_holds(name):
    contents, section = ALL[name]
    item = shown(json.loads(json.dumps(contents)), "x.json")
    assert item.result.kind == section
    json.dumps(as_json(item.result.blocks()), allow_nan=False)


@pytest.mark.parametrize("name", ALL)
def test_nothing_is_of_two_kinds(name):
    contents, _ = ALL[name]
    assert sum(kind.fits(contents) for kind in KINDS) == 1


def gate_log():
    """Two lines of ``--log-relevance``: a gate that is half open, and then closed."""
    entries = []
    for updates, gate in ((10, 0.5), (20, 0.0)):
        state = GatedHead(gate, gate, 0.25)
        entries.append(Entry(updates, 5, "voita", {Head("encoder", 0, 1): state}))
    return "".join(f"{as_line(entry)}\n" for entry in entries)


@pytest.fixture
def piped():
    """A function that names a pipe with a text in it."""
    descriptors = []

    def pipe(text):
        reading, writing = os.pipe()
        descriptors.append(reading)
        os.write(writing, text.encode())  # it has room for the short texts of tests
        os.close(writing)
        return f"/dev/fd/{reading}"

    yield pipe
    for descriptor in descriptors:
        os.close(descriptor)


def test_json_of_a_pipe(piped):
    (item,) = read_included([piped(json.dumps(HEADS.json()))])
    assert item.result.kind == "heads"


def test_a_log_of_gates_is_refused_from_a_pipe(piped):
    path = piped(gate_log())
    with pytest.raises(InputError) as refused:
        read_included([path])
    assert str(refused.value) == (
        f"{path}: can be read only once, and a log of gates is read twice; expected a file"
    )


def test_a_log_of_gates(tmp_path):
    log = tmp_path / "gates"
    log.write_text(gate_log())
    (item,) = read_included([str(log)])
    assert item.result.kind == "gates"
    opened, gates, relevance, *_ = item.result.blocks()
    assert [point.y for point in opened.curves[0].points] == [1, 0]
    (curve,) = gates.blocks[0].curves
    assert (curve.name, curve.dashed) == ("encoder.1.2", True)
    assert [(point.x, point.y) for point in curve.points] == [(10, 0.5), (20, 0.0)]
    assert relevance.blocks[0].curves[0].points[0].y == 0.25


def test_curves_of_layers_have_intervals_and_say_what_was_chosen():
    item = shown(ERRORS, "x.json")
    curves, table = item.result.blocks()[0].blocks
    by_name = {curve.name: curve for curve in curves.curves}
    assert list(by_name) == ["norms, input", "norms, output", "saliency, output"]
    first, second = by_name["norms, input"].points
    assert (first.x, first.y, first.low, first.high, first.marked) == ("1", 30, 28, 32, True)
    assert not second.marked
    assert by_name["saliency, output"].points[0].x == "all"
    assert table.rows[0][:5] == ["norms", "input", 1, 30.0, "28.0–32.0"]


def test_maps_of_single_heads():
    lines = [{**ERRORS[0], "head": head, "aer": 10.0 * head} for head in (1, 3)]
    item = shown([*ERRORS, *lines], "x.json")
    (grid,) = item.result.blocks()[1].blocks
    assert (grid.rows, grid.columns) == (["1"], ["1", "2", "3"])
    assert grid.values == [[10.0, None, 30.0]]
    assert grid.notes[0][:2] == ["95 % interval 28.0 to 32.0", "removed"]
    assert (grid.low, grid.absent) == (True, "removed")


def test_json_needs_no_pytorch():
    code = "import sys, fairseq_normalign.report.html.included; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_evolution_as_curves():
    item = shown(EVOLUTION, "x.json")
    measures, _, groups, between = item.result.blocks()
    assert [curves.title for curves in measures.blocks] == [
        *("identity", "left", "right", "position", "information")
    ]
    assert [curve.name for curve in groups.blocks[0].curves] == ["all", "<100"]
    assert isinstance(between, Curves)
    assert [point.y for point in between.curves[0].points] == [0.1, 0.4]


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        ("[1, 2]", "x.json: JSON of no kind that is known; expected what normalign align --all"),
        ("{}", "JSON of no kind that is known"),
        ("no", r"x.json: no JSON \(Expecting value"),
        ('{"models": NaN}', "no JSON .NaN is no number of JSON."),
        ("[" * 100_000, "no JSON"),
        ('[{"method": "a", "layer": 1, "step": "b", "aer": "high", "head": null}]', "is damaged"),
        ('[{"method": "a", "layer": 1, "step": "b", "aer": 1e999, "head": null}]', "is damaged"),
    ],
)
def test_other_files_are_refused_in_one_line(contents, message, tmp_path):
    path = tmp_path / "x.json"
    path.write_text(contents)
    with pytest.raises(InputError, match=message) as refused:
        read_included([str(path)])
    assert "\n" not in str(refused.value)


def test_folders_are_refused(tmp_path):
    with pytest.raises(InputError, match="is a directory; expected JSON"):
        read_included([str(tmp_path)])


def test_sections_stand_in_their_order_under_the_names_of_files(tmp_path):
    for name, contents in {"b.json": HEADS.json(), "a.json": ERRORS}.items():
        (tmp_path / name).write_text(json.dumps(contents))
    included = read_included([str(tmp_path / "b.json"), str(tmp_path / "a.json")])
    made = sections(included)
    assert [section.title for section in made] == [SECTIONS["alignments"], SECTIONS["heads"]]
    assert made[0].blocks[0].text == "a.json"
    table = measured_table(included)
    assert table.rows[0][:2] == ["Attention heads", "b.json"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("aer of one", "how:AER|ref-index:0"),
        ("aer of two", "how:AER|ref-index:0"),
        ("signature", "method:norms"),
        ("align --all of one", "–"),
    ],
)
def test_the_overview_has_the_signatures_of_files(name, expected):
    contents, _ = ALL[name]
    assert measured_table([shown(contents, "x.json")]).rows[0][-1] == expected


def test_signatures_that_differ_are_all_told():
    other = {**SCORED, "system": "y", "signature": "AER|ref-index:1"}
    table = measured_table([shown([SCORED, other], "x.json")])
    assert table.rows[0][-1] == "how:AER|ref-index:0; AER|ref-index:1"


def test_how_links_were_taken_is_the_signature_of_error_rates():
    lines = [{**line, "extract": "argmax"} for line in ERRORS]
    assert shown(lines, "x.json").result.signature == {"how": "extract:argmax"}


def test_a_page_of_files_does_not_say_what_they_were_measured_with():
    (row, _) = overview([], None, [Included("x.json", HEADS)]).blocks
    (facts,) = row.blocks
    assert facts.title == "This page was written with"
    assert [name for name, _ in facts.items] == ["normalign", "numbers"]
    (_, row, _) = overview([], Table(["model"], [["a.pt"]]), [Included("x.json", HEADS)]).blocks
    assert "Python" in [name for name, _ in row.blocks[0].items]


def test_maps_of_one_measure_have_one_scale():
    lines = []
    for method, aer in (("norms", 10.0), ("weights", 90.0)):
        lines += [
            {**ERRORS[0], "method": method, "head": head, "aer": aer + head} for head in (1, 2)
        ]
    item = shown([*ERRORS, *lines], "x.json")
    assert [grid.ends for grid in item.result.blocks()[1].blocks] == [(11.0, 92.0)] * 2
