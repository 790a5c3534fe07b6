"""The page as text: what is data stays data; results stand in the order of their sections."""

import base64
import hashlib
import json
import re
import subprocess
import sys
from html.parser import HTMLParser

import pytest

from fairseq_normalign.cli.report import read_included
from fairseq_normalign.errors import InputError
from fairseq_normalign.heads.relevance_log import Entry, GatedHead, as_line
from fairseq_normalign.names import Head
from fairseq_normalign.results.blocks import Heading, as_json
from fairseq_normalign.results.page import overview, safe_json, sections
from tests.results.made_up import ERRORS, HEADS, NASTY, PAIRS, browser, html_of


class Scripts(HTMLParser):
    """The elements that a browser would find, with the text of scripts."""

    def __init__(self, text):
        super().__init__()
        self.scripts, self.names, self.policy, self.is_open = [], [], "", False
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.names.append(tag)
        self.is_open = tag == "script"
        attributes = dict(attributes)
        if tag == "script":
            self.scripts.append((attributes, ""))
        if attributes.get("http-equiv") == "Content-Security-Policy":
            self.policy = attributes["content"]

    def handle_endtag(self, tag):
        self.is_open = False

    def handle_data(self, data):
        if self.is_open:
            attributes, text = self.scripts[-1]
            self.scripts[-1] = (attributes, text + data)


@pytest.fixture(scope="module")
def text():
    return html_of(browser("one.pt", "two.pt"))


def test_only_our_script_is_run(text):
    page_read = Scripts(text)
    runnable = [script for attributes, script in page_read.scripts if "type" not in attributes]
    assert len(runnable) == 1
    assert "window.hacked" not in runnable[0]
    assert "img" not in page_read.names
    digest = base64.b64encode(hashlib.sha256(runnable[0].encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in page_read.policy
    assert page_read.policy.startswith("default-src 'none'; ")
    assert "unsafe" not in page_read.policy


def test_nothing_is_fetched(text):
    assert not re.search(r"(?:src|href)=\"(?!#)", text)
    assert "@import" not in text
    assert "url(" not in text
    assert "innerHTML" not in text


def test_data_are_read_back(text):
    read = {attributes.get("id"): script for attributes, script in Scripts(text).scripts}
    contents = json.loads(read["contents"])
    words = [pair["source"] for pair in contents["browser"]["pairs"]]
    assert words == [list(pair.source) for pair in PAIRS]
    assert contents["browser"]["pairs"][0] == {
        "line": 1,
        "source": ["ein", "haus", "."],
        "target": ["a", "house", "."],
        "sure": [[0, 0]],
        "possible": [[1, 1]],
    }
    assert contents["sections"][0]["blocks"][1]["blocks"][0]["items"] == [["corpus", NASTY]]
    names = {f"soft-{system}-{pair}" for system in (0, 1) for pair in range(len(PAIRS))}
    assert set(read) == {"contents", "aer-0", "aer-1", None} | names


@pytest.mark.parametrize("word", ["</script>", "<!--", "a\u2028b\u2029", "&", "]]>", "é", "\x00"])
def test_json_has_no_letters_that_mean_something_to_html(word):
    written = safe_json([word])
    assert not set("<>&\u2028\u2029\x00") & set(written)
    assert json.loads(written) == [word]


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
    measured = ("errors.json", ERRORS)
    assert json.dumps(sections([stored])) == json.dumps(sections([measured]))


def test_sections_stand_in_their_order_under_the_names_of_files(tmp_path):
    paths = [
        gate_log(tmp_path / "gates.log"),
        written(HEADS, tmp_path / "heads.json"),
        written(ERRORS, tmp_path / "errors.json"),
    ]
    made = sections(read_included(paths))
    assert [section["id"] for section in made] == ["alignments", "heads", "gates"]
    for section, name in zip(made, ["errors.json", "heads.json", "gates.log"], strict=True):
        assert section["blocks"][0] == as_json(Heading(name))
        assert section["about"]


def test_the_page_begins_with_findings():
    findings, *_, table = overview([], None, [("a.json", ERRORS)])["blocks"]
    assert findings["title"] == "Findings"
    assert findings["items"] == [
        ["a.json", "AER is 30.0 % by norms (layer 1 input, chosen without gold)."]
    ]
    assert table["rows"] == [[ERRORS.title, "a.json", "gold:<script>window.hacked=1</script>"]]


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
