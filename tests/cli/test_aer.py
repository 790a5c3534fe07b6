"""``normalign aer`` through the command's own entry."""

import json

import pytest

from fairseq_normalign.cli.main import main
from fairseq_normalign.results.result import read_result, stored_result
from fairseq_normalign.text.links import format_links
from fairseq_normalign.version import __version__
from tests.conftest import rows_of

GOLD = "1-1 2p2\n\n1-2 3-3\n"  # 1-based
GOOD = "0-0 1-1\n\n0-1 2-2\n"
BAD = "0-0\n0-0\n5-5\n"


@pytest.fixture
def files(tmp_path):
    paths = {"gold": GOLD, "good": GOOD, "bad": BAD}
    for name, text in paths.items():
        (tmp_path / name).write_text(text)
    return {name: str(tmp_path / name) for name in paths}


def test_one_line_with_signature(files, capsys):
    assert main(["aer", files["gold"], "--gold-index", "1", "-i", files["bad"]]) == 0
    out, err = capsys.readouterr()
    assert out == (
        f"AER|ref-index:1|hyp-index:0|reverse:none|possible:keep|version:{__version__} = 66.7 "
        "(P = 33.3 R = 33.3 F1 = 33.3 links = 3 sure = 3)\n"
    )
    assert err == ""


def test_the_index_that_links_were_written_with(files, tmp_path, capsys):
    """normalign align -f talp counts from 1, and says so in FILE.json; an option overrides it."""
    (tmp_path / "good").write_text("1-1 2-2\n\n1-2 3-3\n")
    (tmp_path / "good.json").write_text('{"signature": {"index": 1}}')
    words = ["aer", files["gold"], files["good"], "--gold-index", "1"]
    assert main(words) == 0
    assert "|hyp-index:1|reverse:none|possible:keep|version" in capsys.readouterr().out
    assert main([*words, "-b"]) == 0
    assert main([*words, "-b", "--hyp-index", "0"]) == 0
    assert capsys.readouterr().out.splitlines()[0] == "0.0"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["-b"], "0.0\n66.7\n"),
        (["-b", "-w", "3"], "0.000\n66.667\n"),
        (["-b", "--possible", "drop"], "14.3\n66.7\n"),
        (["-b", "--possible", "sure"], "0.0\n71.4\n"),
        (["-b", "--sure-mark", "p"], "0.0\n75.0\n"),
        (["-b", "--reverse-gold", "--reverse-hyp"], "0.0\n66.7\n"),
        (["-b", "--reverse-hyp"], "28.6\n66.7\n"),
    ],
)
def test_options_that_move_the_number(files, capsys, options, expected):
    words = ["aer", files["gold"], files["good"], files["bad"], "--gold-index", "1", *options]
    assert main(words) == 0
    assert capsys.readouterr().out == expected


def test_several_systems_make_a_table(files, capsys):
    options = ["--paired", "--intervals", "--samples", "20", "--alpha", "0.3"]
    main(["aer", files["gold"], "--gold-index", "1", "-i", files["good"], files["bad"], *options])
    lines = capsys.readouterr().out.splitlines()
    heading = "system AER 95 % from to p P R F1 F_0.3 links sure"
    assert lines[0].split() == heading.split()
    assert lines[1].split()[:2] == ["good", "0.0"]
    assert lines[4].startswith(f"{files['good']}: AER|ref-index:1|")
    assert "|samples:20|seed:12345|" in lines[5]


def systems_of(result):
    return rows_of(result.tables()["systems"])


def test_json(files, tmp_path, capsys):
    words = ["aer", files["gold"], "--gold-index", "1", "-i", files["bad"]]
    output = ["-o", str(tmp_path / "x.json"), "--plot", str(tmp_path / "x.png")]
    assert main([*words, "-f", "json", "--intervals", *output]) == 0
    printed = stored_result(json.loads(capsys.readouterr().out), "stdout")
    (system,) = systems_of(printed)
    assert system["AER"] == pytest.approx(200 / 3, abs=1e-4)
    assert system["links"] == system["sure"] == 3
    assert system["95 % from"] <= system["AER"] <= system["to"]
    assert printed.signature["ref-index"] == 1
    assert read_result(tmp_path / "x.json").json() == printed.json()
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")
    assert main([*words, files["good"], "-f", "json", "--paired"]) == 0
    first, second = systems_of(stored_result(json.loads(capsys.readouterr().out), "stdout"))
    assert first["p"] is None
    assert 0 < second["p"] <= 1


def refuse_nan(name):
    raise AssertionError(f"{name} is no JSON")


def test_no_nan_in_json(tmp_path, capsys):
    (tmp_path / "empty").write_text("\n\n")
    (tmp_path / "text").write_text("a b\n\n")
    path, text = str(tmp_path / "empty"), str(tmp_path / "text")
    options = ["--intervals", "--paired", "--alpha", "0.3", "--samples", "10", "-q"]
    texts = ["--source", text, "--target", text, "--breakdown", "distance", "length"]
    arguments = ["aer", path, "-i", path, path, *options, *texts]
    assert main([*arguments, "-f", "json"]) == 0
    out, err = capsys.readouterr()
    first, second = systems_of(stored_result(json.loads(out, parse_constant=refuse_nan), "stdout"))
    assert (first["AER"], first["to"], second["p"]) == (None, None, "undefined")
    assert err == ""
    assert main(arguments) == 0
    assert capsys.readouterr().out.splitlines()[2].split()[:5] == [
        *["empty", "–", "–", "–"],
        "undefined",
    ]


def test_breakdowns(files, tmp_path, capsys):
    for name, text in {"de": "a b c\n\nd e f\n", "en": "a b\n\nc d e\n"}.items():
        (tmp_path / name).write_text(text)
    texts = ["--source", str(tmp_path / "de"), "--target", str(tmp_path / "en")]
    kinds = ["--breakdown", "distance", "length", "source-frequency", "target-frequency"]
    main(["aer", files["gold"], "--gold-index", "1", "-i", files["good"], *texts, *kinds])
    out = capsys.readouterr().out
    assert f"{files['good']} by distance\ndistance  AER" in out
    assert main(["aer", files["gold"], "--gold-index", "1", "-i", files["bad"], *texts]) == 2
    assert "bad:2: links word 1 of 0 in" in capsys.readouterr().err


def pairs_of_words(step):
    return [(i, ((i + 1) * step) % 7) for i in range(6)]


def test_a_misread_file_is_explained_on_stderr(tmp_path, capsys):
    gold, system = tmp_path / "gold", tmp_path / "system"
    lines = [pairs_of_words(step) for step in (1, 2, 3, 4, 5, 6)] * 4
    gold.write_text("\n".join(format_links(links, index=1) for links in lines))
    system.write_text("\n".join(format_links(links) for links in lines))
    assert main(["aer", str(gold), "-i", str(system)]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("AER|ref-index:0|")
    assert err.startswith("normalign aer: warning: ")
    assert err.endswith("AER would be 0.0% instead of 86.1% with --gold-index 1\n")
    main(["aer", str(gold), "-i", str(system), "-q"])
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["gold", "-i", "nowhere"], "nowhere: No such file or directory"),
        (["gold", "--hyp-index", "1", "-i", "good"], "good:1: link '0-0' has index 0"),
        (["gold", "-i", "short"], "line counts differ: gold has 3, short has 1 lines"),
        (["-", "-i", "-"], "stdin ('-') can be read only once"),
        (["gold", "-i", "good", "--paired"], "--paired compares with the first HYP; name two or"),
        (["gold", "-i", "good", "-o", "good"], "good: would overwrite the input"),
        (["gold", "-i", "huge"], "huge:1: bad link '0-4294967296'"),
        (["gold", "-i", "good", "--breakdown", "length"], "--breakdown length needs --source"),
        (
            ["gold", "-i", "good", "--source", "text"],
            "line counts differ: gold has 3, good has 3, ",
        ),
    ],
)
def test_bad_input_is_one_line_and_status_2(
    files, tmp_path, monkeypatch, capsys, arguments, message
):
    (tmp_path / "short").write_text("0-0\n")
    (tmp_path / "text").write_text("a b c d\n")
    (tmp_path / "huge").write_text("0-4294967296\n")
    monkeypatch.chdir(tmp_path)
    assert main(["aer", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"normalign aer: {message}")
    assert err.count("\n") == 1


def test_odd_and_even_lines_add_up_to_all(tmp_path, capsys):
    gold, hyp = tmp_path / "gold", tmp_path / "hyp"
    gold.write_text("0-0\n0-0 1-1\n0-0\n2-2\n")
    hyp.write_text("0-0\n0-0\n1-1\n2-2\n")
    counts = {}
    for lines in ("all", "odd", "even"):
        assert main(["aer", str(gold), "-i", str(hyp), "-f", "json", "-q", "--lines", lines]) == 0
        result = stored_result(json.loads(capsys.readouterr().out), "stdout")
        (counts[lines],) = systems_of(result)
    assert counts["odd"]["AER"] == 50.0  # lines 1 and 3
    assert counts["even"]["AER"] == 20.0  # lines 2 and 4
    assert [counts[lines]["sure"] for lines in ("all", "odd", "even")] == [5, 2, 3]
    assert result.signature["lines"] == "even"
