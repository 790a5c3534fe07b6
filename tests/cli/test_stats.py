"""``normalign stats`` on small random models, in this process."""

import json
from argparse import Namespace

import pytest
import torch

from tests.conftest import run
from tests.stored import OPTIONS, state


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two small models of one shape, dictionaries and a text."""
    folder = tmp_path_factory.mktemp("stats")
    lines = [f"w{number} {100 - number}\n" for number in range(30)]
    for language in ("a", "b"):
        (folder / f"dict.{language}.txt").write_text("".join(lines))
    checkpoint = state(args=Namespace(**OPTIONS))
    torch.save(checkpoint, folder / "one.pt")
    for name, parameter in checkpoint["model"].items():
        if name.endswith("weight"):
            parameter *= 2
    torch.save(checkpoint, folder / "two.pt")
    (folder / "text.a").write_text("w1 w2 w13\nw4\nw25 w6 w7 w28\n")
    (folder / "text.b").write_text("w11 w2\nw4 w5\nw15 w6 w7\n")
    return folder


def stats(folder, *options, path=("one.pt",), **more):
    texts = ["--source-file", folder / "text.a", "--target-file", folder / "text.b"]
    paths = [folder / name for name in path]
    return run("normalign", "stats", folder, "--path", *paths, *texts, "--cpu", *options, **more)


def test_tables_of_all_attentions(folder):
    done = stats(folder)
    parts = done.stdout.split("\n\n")
    assert [part.splitlines()[0] for part in parts[::5]] == [
        "encoder self-attention",
        "decoder self-attention",
        "source–target attention",
    ]
    rows = [line.split("  ")[0] for line in parts[0].splitlines()[2:]]
    assert rows[:6] == [
        "‖x‖, layer 1",
        *(f"‖f(x)‖, encoder.1.{head}" for head in (1, 2, 3, 4)),
        "‖x‖, layer 2",
    ]
    assert rows[-2:] == ["‖x‖, all", "‖f(x)‖, all"]
    assert parts[1].startswith("Σ α over the keys of a category")
    layers = [list(map(float, line.split())) for line in parts[1].splitlines()[2:]]
    for _, *of_categories in layers:
        assert sum(of_categories) == pytest.approx(1, abs=0.002)
    assert parts[4].splitlines()[-1].startswith("frequency rank, ‖f(x)‖")
    assert "sentences:3|" in done.stderr


def test_json_picture_and_mixing_of_the_same_pass(folder, tmp_path):
    done = stats(folder, "--mixing", "-o", tmp_path / "x.json", "--plot", tmp_path / "x.svg")
    assert "ATTNRESLN-N, mixing ratio in % by layer" in done.stdout
    written = json.loads((tmp_path / "x.json").read_text())
    (model,) = written["models"]
    assert list(model["attentions"]) == ["encoder", "decoder", "cross"]
    layer = model["attentions"]["cross"]["layers"][1]
    head = layer["heads"]["cross.2.4"]
    assert layer["layer"] == 2
    assert len(head["singular_values"]) == 5  # of a head of width 4, and 1 → 1
    assert set(head["norms_of_f"]) == {"mean", "deviation", "CV", "min", "max"}
    assert head["mean_norms_of_f"]["punctuation"] is None
    assert written["mixing"][0]["attentions"]["encoder"]["analyses"]["ATTN-N"]["mean"] > 0
    drawn = (tmp_path / "x.svg").read_text()
    for text in ("source–target attention", "Σ ‖αf(x)‖", "frequency rank", "singular values"):
        assert text in drawn


def test_several_checkpoints_give_mean_and_deviation(folder):
    done = stats(folder, path=("one.pt", "two.pt"))
    line = next(line for line in done.stdout.splitlines() if line.startswith("‖f(x)‖, all"))
    assert line.count("±") == 5
    assert "checkpoints:one.pt+two.pt" in done.stderr


def test_one_figure_of_the_encoder_alone(folder, tmp_path):
    run(
        *("normalign", "stats", folder, "--path", folder / "one.pt", "--cpu"),
        *("--source-file", folder / "text.a", "--attention", "encoder"),
        *("--figures", "spread", "--plot", tmp_path / "x.png"),
    )
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")


REFUSED = {
    "--figures all": "--figures all: expected any of: weights, norms, transformed, cells",
    "--category few=v1": "--category few=v1: matches no token of the dictionary",
    "--category few=w13": "--category few=w13: matches one token of the corpus; expected two",
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_is_refused_in_one_line(folder, words):
    done = stats(folder, *words.split(), check=False)
    assert done.returncode == 2
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"normalign stats: {REFUSED[words]}")


def test_a_model_without_heads(folder, tmp_path):
    options = {**OPTIONS, "arch": "transformer_normalign", "alive_heads": "none"}
    checkpoint = state(args=Namespace(**options))
    parts = ("q_proj", "k_proj", "v_proj", "out_proj.weight")
    for name, parameter in checkpoint["model"].items():
        if "_attn." in name and any(part in name for part in parts):
            empty = parameter[:, :0] if "out_proj" in name else parameter[:0]
            checkpoint["model"][name] = empty
    torch.save(checkpoint, tmp_path / "none.pt")
    done = stats(folder, path=(tmp_path / "none.pt",), check=False)
    assert done.returncode == 2
    assert "has no attention heads left" in done.stderr


def test_the_figures_of_the_help_are_those_that_can_be_drawn():
    from fairseq_normalign.cli import stats
    from fairseq_normalign.report.statistics_pictures import FIGURES

    assert tuple(FIGURES) == stats.FIGURES
