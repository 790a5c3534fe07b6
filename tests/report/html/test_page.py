"""The page as text: what is data stays data."""

import base64
import hashlib
import json
import re
from html.parser import HTMLParser

import pytest

from fairseq_normalign.report.html.page import page, safe_json
from tests.report.html.made_up import NASTY, PAIRS, browser, html_of


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


def test_the_title_is_text(text):
    assert "<title>A title &lt;script&gt;window.hacked=1&lt;/script&gt;</title>" in text


@pytest.mark.parametrize("word", ["</script>", "<!--", "a\u2028b\u2029", "&", "]]>", "é", "\x00"])
def test_json_has_no_letters_that_mean_something_to_html(word):
    written = safe_json([word])
    assert not set("<>&\u2028\u2029\x00") & set(written)
    assert json.loads(written) == [word]


def test_half_a_surrogate_pair_is_spelled_out():
    assert safe_json(["\udcff"]) == '["\\udcff"]'
    text = "".join(page("\udcff", {"sections": []}, {}))
    assert "<title>\\udcff</title>" in text
    text.encode("utf-8")


def test_infinite_numbers_are_no_json():
    with pytest.raises(ValueError, match="not JSON compliant"):
        safe_json([float("inf")])
