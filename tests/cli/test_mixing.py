"""``normalign mixing`` on small random models, in this process."""

import pytest

from fairseq_normalign.names import ANALYSES, LAYER_ANALYSES
from fairseq_normalign.results.result import read_result
from fairseq_normalign.results.text import tables_of
from tests.conftest import run
from tests.stored import write_two_models


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A small model, another one of the same shape, dictionaries and a text."""
    folder = tmp_path_factory.mktemp("mixing")
    sources = ["w1 w2 w13", "w4", "w25 w6 w7 w28"]
    write_two_models(folder, sources, ["w11 w2", "w4 w5", "w15 w6 w7"])
    return folder


def mixing(folder, *options, path=("one.pt",), **more):
    texts = ["--source-file", folder / "text.a", "--target-file", folder / "text.b"]
    paths = [folder / name for name in path]
    return run("normalign", "mixing", folder, "--path", *paths, *texts, "--cpu", *options, **more)


def test_tables_of_all_attentions(folder):
    done = mixing(folder)
    summary, meaning, *maps = done.stdout.split("\n\n")
    _, header, *rows = summary.splitlines()
    assert header.split()[:5] == ["attention", "analysis", "mean", "min", "max"]
    assert [row.split()[2] for row in rows[:5]] == list(ANALYSES)
    assert meaning == "ATTNRESLN-N: attention, residual connection and layer norm, by norms."
    title, header, *rows = maps[0].splitlines()
    assert title == "encoder self-attention: ATTNRESLN-N, mixing ratio in %"
    assert header.split() == ["layer", "special", "word", "overall"]
    assert [row.split()[0] for row in rows] == ["1", "2"]
    assert maps[3].startswith("encoder self-attention: 11 tokens: 3 special, 8 word; ρ is over 11")
    signature = done.stderr.strip().split("|")
    for choice in ("checkpoints:one.pt", "sentences:3", "categories:pieces", "ranks:ids"):
        assert choice in signature


def test_whole_layers(folder, tmp_path):
    done = mixing(folder, "--scope", "attn-res", "ff-res-ln", "-o", tmp_path / "x.json")
    tables = read_result(tmp_path / "x.json").tables()
    of_layers = [row for row in tables["analyses"].rows if row[0].endswith("layer")]
    assert [row[1] for row in of_layers] == [*LAYER_ANALYSES] * 2
    assert [row[:2] for row in tables["kept"].rows] == [
        [f"{side} layer", layer] for side in ("encoder", "decoder") for layer in (1, 2)
    ]
    assert [row[:2] for row in tables["parts"].rows][:4] == [[1, name] for name in LAYER_ANALYSES]
    for row in tables["parts"].rows:
        assert sum(row[2:]) == pytest.approx(100, abs=1e-3)
    assert done.stdout.count(": ATTNRES-N, mixing ratio in %\n") == 3
    assert done.stdout.count(": FFRESLN-N, mixing ratio in %\n") == 2
    alone = mixing(folder, "--analyses", "FF-N", "--attention", "encoder").stdout
    assert "encoder layer: FF-N, mixing ratio in %" in alone
    assert "decoder" not in alone


def test_layers_of_which_only_self_attention_is_looked_at(folder):
    done = mixing(folder, "--scope", "ff", "--attention", "decoder", check=False)
    assert done.returncode == 2
    assert "decoder layers also have source–target attention" in done.stderr


def test_several_checkpoints_give_mean_and_deviation(folder, tmp_path):
    done = mixing(folder, "-o", tmp_path / "x.json", path=("one.pt", "two.pt"))
    (choice,) = read_result(tmp_path / "x.json").blocks()
    means = []
    for option in choice.options[1:]:
        means.append(tables_of(option.blocks)["analyses"].rows[1][2])
    mean, deviation = sum(means) / 2, abs(means[0] - means[1]) / 2**0.5
    line = next(line for line in done.stdout.splitlines() if "ATTN-N" in line)
    assert line.split()[3:5] == [f"{mean:.1f}", f"±{deviation:.1f}"]


def test_pictures_and_what_is_shown(folder, tmp_path):
    done = mixing(
        folder,
        *("--analyses", "all", "--average", "micro", "--plot", tmp_path / "x.svg"),
        *("--category", "few=w[0-9]", "--ranks", "counts", "--limit", 2),
    )
    assert done.stdout.count(", mixing ratio in %\n") == 15
    assert "few  other  overall" in done.stdout
    assert "sentences:2|attention:all|categories:few=w[0-9]|ranks:counts" in done.stderr
    drawn = (tmp_path / "x.svg").read_text()
    for text in ("ATTNRES-W", "mixing ratio", "overall"):
        assert text in drawn


def test_blank_lines_are_no_sentences(folder, tmp_path):
    for language in ("a", "b"):
        text = (folder / f"text.{language}").read_text()
        (tmp_path / f"text.{language}").write_text("\n" + text + "\n")
    texts = ["--source-file", tmp_path / "text.a", "--target-file", tmp_path / "text.b"]
    done = run("normalign", "mixing", folder, "--path", folder / "one.pt", *texts, "--cpu")
    assert done.stdout == mixing(folder).stdout
    assert "|sentences:3|" in done.stderr
