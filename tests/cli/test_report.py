"""``normalign report`` on small random models, in this process."""

import base64
import json
import re
import zlib

import numpy as np
import pytest

from fairseq_normalign.alignment.aligner import NormAligner
from fairseq_normalign.attention.extract import row_shares
from fairseq_normalign.results.result import read_result
from tests.conftest import run
from tests.results.made_up import HEADS
from tests.stored import write_two_models

SOURCES = ["w1 w2 w13", "w4", "w25 w6 w7 w28", ""]
TARGETS = ["w11 w2", "w4 w5", "w15 w6 w7", "w3"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two small models, dictionaries, a text and its gold."""
    folder = tmp_path_factory.mktemp("report")
    write_two_models(folder, SOURCES, TARGETS)
    (folder / "gold").write_text("0-0 1p1\n0-0\n0-0 1-1 2-2\n\n")
    (folder / "links").write_text("0-0\n0-1\n0-0 2-2\n\n")
    (folder / "heads.json").write_text(json.dumps(HEADS.json()))
    return folder


def report(folder, *options, path=("one.pt",), output="x.html", **more):
    texts = ["--source-file", folder / "text.a", "--target-file", folder / "text.b"]
    paths = [folder / name for name in path]
    words = [folder, "--path", *paths, *texts, "--cpu", "-o", folder / output, *options]
    return run("normalign", "report", *words, **more)


def contents_of(path):
    text = path.read_text(encoding="utf-8")
    elements = dict(
        re.findall(r'<script type="application/json" id="([^"]*)">(.*?)</script>', text)
    )
    return json.loads(elements.pop("contents")), elements


def cells_of(packed, evidence, pair):
    """The bytes of one soft alignment, (T, S+1)."""
    cells = np.frombuffer(zlib.decompress(base64.b64decode(packed)), np.uint8)
    shape = (-1, len(pair["target"]), len(pair["source"]) + 1)
    return cells.reshape(shape)[evidence]


@pytest.fixture(scope="module")
def made(folder):
    done = report(
        folder,
        *("--gold", folder / "gold", "--include", folder / "heads.json"),
        *("--measure", "heads", "mixing", "statistics", "--title", "Two <models>"),
        *("--links", folder / "links"),
        path=("one.pt", "two.pt"),
    )
    assert done.stdout == ""
    assert re.search(r"x\.html: 0\.\d MB", done.stderr)
    return folder / "x.html"


def test_everything_has_its_section(made):
    contents, _ = contents_of(made)
    assert [section["id"] for section in contents["sections"]] == [
        *("overview", "alignments", "scores", "heads", "mixing", "statistics")
    ]
    _, models, data, measured = contents["sections"][0]["blocks"]
    assert [row[:3] for row in models["rows"]] == [
        [name, "a–b", "encoder 4 4; decoder 4 4; cross 4 4"] for name in ("one.pt", "two.pt")
    ]
    assert ["gold", "gold"] in data["blocks"][0]["items"]
    assert ["pairs to browse", "3, of 8 and 7 words"] in data["blocks"][0]["items"]
    assert ["pairs of the corpus", "4"] in data["blocks"][0]["items"]
    assert [row[1] for row in measured["rows"]].count("one.pt") == 4
    assert ["Attention heads", "heads.json"] in [row[:2] for row in measured["rows"]]


def test_gold_that_is_misread_is_refused(corpus, checkpoint, own_gold, tmp_path):
    """The page would be shown long after the warning is forgotten."""
    data = [corpus / "data-bin", "--remove-bpe", "sentencepiece", "--cpu", "--path", checkpoint]
    options = ["--no-heads", "--measure", "--method", "norms", "-o", tmp_path / "x.html"]
    done = run("normalign", "report", *data, *options, "--gold", own_gold, check=False)
    assert done.returncode == 2
    assert re.search(
        r"own\.talp: looks misread: AER would be .* with --gold-index 1$", done.stderr.strip()
    )
    assert not list(tmp_path.iterdir())


def test_files_of_links_have_their_total(folder, made):
    """It is that of ``normalign aer``, on all pairs, also those that cannot be browsed."""
    contents, _ = contents_of(made)
    section = next(part for part in contents["sections"] if part["id"] == "scores")
    table = section["blocks"][1]
    done = run("normalign", "aer", folder / "gold", "-i", folder / "links", "-f", "json", "-q")
    expected = json.loads(done.stdout)["blocks"][0]
    places = [shown["columns"].index("AER") for shown in (table, expected)]
    assert table["rows"][0][places[0]] == expected["rows"][0][places[1]]
    assert table["rows"][0][0] == "links"


def test_sentences_have_their_lines_and_gold(made):
    contents, _ = contents_of(made)
    browser = contents["browser"]
    assert [pair["line"] for pair in browser["pairs"]] == [1, 2, 3]
    assert browser["pairs"][0]["sure"] == [[0, 0]]
    assert browser["pairs"][0]["possible"] == [[1, 1]]
    assert browser["notes"][1] == "Pairs left out, too long or with an empty side: 1."
    assert [system["name"] for system in browser["systems"]] == ["one.pt", "two.pt", "links"]
    assert len(browser["systems"][0]["evidences"]) == 2 * 2 * 5 * 2


@pytest.mark.parametrize("evidence", [0, 3, 21, 39])
def test_shares_and_links_are_those_of_the_aligner(folder, made, evidence):
    contents, packed = contents_of(made)
    browser = contents["browser"]
    place = browser["systems"][1]["evidences"][evidence]
    aligner = NormAligner.from_checkpoint(str(folder / "two.pt"), str(folder), **place)
    for number, pair in enumerate(browser["pairs"]):
        soft = aligner.soft(pair["source"], pair["target"])
        cells = cells_of(packed[f"soft-1-{number}"], evidence, pair)
        shares = row_shares(np.column_stack([soft.words, soft.null]))
        levels = 127
        if place["head"] is not None:
            levels = 63
            shares[shares < 0.03] = 0
        assert np.abs((cells & 127) / levels - shares).max() <= 0.5 / levels + 1e-4
        links = [(source, target) for target, source in np.argwhere(cells & 128).tolist()]
        assert links == aligner.links(soft)


def test_error_rates_of_layers_are_those_of_align(folder, made, tmp_path):
    contents, _ = contents_of(made)
    blocks = contents["sections"][1]["blocks"]
    cells, _ = [block for block in blocks if block.get("name") == "cells"]  # of two models
    texts = ["--source-file", folder / "text.a", "--target-file", folder / "text.b"]
    options = ["--path", folder / "one.pt", *texts, "--cpu", "--gold", folder / "gold"]
    methods = ["--method", "norms", "weights", "--heads", "-o", tmp_path / "x.json"]
    run("normalign", "methods", folder, *options, *methods)
    assert cells["rows"] == read_result(tmp_path / "x.json").tables()["cells"].rows


def test_one_model_without_gold_or_heads(folder):
    done = report(folder, "--no-heads", "--measure", "--max-sentences", 1, output="small.html")
    assert "only 4 pairs, and no validation set: to choose" in done.stderr
    contents, packed = contents_of(folder / "small.html")
    assert [section["id"] for section in contents["sections"]] == ["overview"]
    assert [pair["line"] for pair in contents["browser"]["pairs"]] == [1]
    assert "sure" not in contents["browser"]["pairs"][0]
    heads = {place["head"] for place in contents["browser"]["systems"][0]["evidences"]}
    assert heads == {None}
    assert list(packed) == ["soft-0-0"]


def test_pairs_that_do_not_fit_are_told(folder, monkeypatch):
    monkeypatch.setattr("fairseq_normalign.cli.report.PAGE_BYTES", 1_000_000 - 2)
    report(folder, "--max-megabytes", 1, "--measure", output="cut.html")
    contents, _ = contents_of(folder / "cut.html")
    browser = contents["browser"]
    assert len(browser["pairs"]) == 1
    assert browser["notes"][-1].startswith("The first 1 of 3 pairs are shown: more would make")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["{folder}/one.pt", "-o", "x.pdf"], "--output x.pdf: the name must end in .html"),
        (["{folder}/one.pt", "-o", "x.html", "--gold", "-"], "<stdin>: can be read only once"),
        (["-o", "x.html", "--include", "nowhere.json"], "nowhere.json: No such file or directory"),
        (["-o", "x.html", "--gold", "{folder}/gold"], "--gold needs --path or MODEL"),
        (["-o", "x.html"], "nothing to show; name a MODEL, or --include FILE.json"),
        (["data-bin", "-o", "x.html"], "data-bin: no such file or folder"),
    ],
)
def test_bad_input(folder, options, message):
    words = [option.format(folder=folder) for option in options]
    done = run("normalign", "report", *words, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert message in done.stderr
