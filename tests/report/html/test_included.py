"""Results on the page: of files and measured for it, in the order of their sections."""

import json
import subprocess
import sys

import pytest

from fairseq_normalign.errors import InputError
from fairseq_normalign.heads.relevance_log import Entry, GatedHead, as_line
from fairseq_normalign.names import Head
from fairseq_normalign.report.html.included import Included, read_included
from fairseq_normalign.report.html.overview import overview, sections
from fairseq_normalign.results.blocks import Facts, Heading, Table
from tests.report.html.made_up import ERRORS, HEADS


def written(result, path):
    path.write_text(json.dumps(result.json()))
    return str(path)


def gate_log(path):
    """Two lines of ``--log-relevance``: a gate that is half open, and then closed."""
    entries = []
    for updates, gate in ((0, 0.5), (100, 0.0)):
        state = GatedHead(gate, gate, 0.25)
        entries.append(Entry(updates, 5, "voita", {Head("encoder", 0, 1): state}))
    path.write_text("".join(as_line(entry) + "\n" for entry in entries))
    return str(path)


def test_what_was_stored_is_shown_as_what_is_measured(tmp_path):
    (stored,) = read_included([written(ERRORS, tmp_path / "errors.json")])
    measured = Included("errors.json", ERRORS)
    shown = [json.dumps(section.__dict__, default=vars) for section in sections([stored])]
    assert shown == [json.dumps(part.__dict__, default=vars) for part in sections([measured])]


def test_sections_stand_in_their_order_under_the_names_of_files(tmp_path):
    paths = [
        gate_log(tmp_path / "gates.log"),
        written(HEADS, tmp_path / "heads.json"),
        written(ERRORS, tmp_path / "errors.json"),
    ]
    made = sections(read_included(paths))
    assert [section.id for section in made] == ["alignments", "heads", "gates"]
    for section, name in zip(made, ["errors.json", "heads.json", "gates.log"], strict=True):
        assert section.blocks[0] == Heading(name)
        assert section.about


def test_the_page_begins_with_findings():
    section = overview([], None, [Included("a.json", ERRORS)])
    assert section.blocks[0] == Facts(
        [("a.json", "AER is 30.0 % by norms (layer 1 input, chosen without gold).")], "Findings"
    )
    table = section.blocks[-1]
    assert isinstance(table, Table)
    assert table.rows == [[ERRORS.title, "a.json", "gold:<script>window.hacked=1</script>"]]


def test_a_page_of_files_does_not_say_what_they_were_measured_with():
    titles = []
    for models in (None, Table(["model"], [["a.pt"]])):
        _, *blocks, _ = overview([], models, [Included("x", ERRORS)]).blocks
        titles.append(blocks[-1].blocks[-1].title)
    assert titles == ["This page was written with", "Measured with"]


OTHERS = {
    "[1, 2]": "not a result, or one of normalign 0.2",
    "{}": "not a result, or one of normalign 0.2",
    "{": "not JSON",
    '{"kind": "heads", "version": 7, "blocks": []}': "JSON of version 7, not 1",
    '{"kind": "heads", "version": 1, "blocks": [{}]}': "damaged",
}


@pytest.mark.parametrize("contents", OTHERS)
def test_other_files_are_refused_in_one_line(contents, tmp_path):
    (tmp_path / "x.json").write_text(contents)
    with pytest.raises(InputError, match=f"x.json: {OTHERS[contents]}"):
        read_included([str(tmp_path / "x.json")])


def test_a_page_of_files_needs_no_pytorch(tmp_path):
    words = ["report", "--include", written(ERRORS, tmp_path / "x.json"), "-o", "page.html"]
    code = f"""
import sys
from fairseq_normalign.cli.main import main
assert main({words!r}) == 0
print(*{{"torch", "fairseq", "matplotlib"}} & set(sys.modules))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == ""
