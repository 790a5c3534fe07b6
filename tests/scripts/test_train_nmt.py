"""The training script: its commands, what it refuses, and what it does not do twice."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

import pytest
import train_nmt

from fairseq_normalign.errors import InputError
from tests.conftest import ROOT, run

LANGS = ("-s", "src", "-t", "tgt")


@pytest.fixture
def commands(monkeypatch) -> list[list[str]]:
    """The commands that would run; each training leaves checkpoints."""
    made: list[list[str]] = []

    def run_nothing(command, log):
        made.append(command)
        for name in ("checkpoint_last.pt", "checkpoint_best.pt"):
            (log.parent / name).touch()

    monkeypatch.setattr(train_nmt, "run", run_nothing)
    return made


def train(folder: Path, *options, preset: str = "small") -> int:
    words = [folder, "--preset", preset, *LANGS, "--out", folder / "out", *options]
    return train_nmt.main([str(word) for word in words])


def value(command: list[str], option: str) -> str:
    """Of the last occurrence, the one that counts."""
    return command[len(command) - command[::-1].index(option)]


def test_both_directions_and_all_seeds(tmp_path, commands, capsys):
    assert train(tmp_path, "--seeds", 3, 5) == 0
    prepared, *trainings = commands
    assert prepared[1].endswith("data_prep/prepare.py")
    assert [
        (value(words, "--source-lang"), value(words, "--target-lang"), value(words, "--seed"))
        for words in trainings
    ] == [("src", "tgt", "3"), ("tgt", "src", "3"), ("src", "tgt", "5"), ("tgt", "src", "5")]
    assert capsys.readouterr().out == f"{tmp_path / 'out/models.tsv'}\n"
    lines = (tmp_path / "out/models.tsv").read_text(encoding="utf-8").splitlines()
    assert lines[0].split("\t") == list(train_nmt.COLUMNS)
    assert lines[2].split("\t") == [
        *("3", "tgt", "src", "tgt-src.seed3/checkpoint_last.pt", "prepared/data-bin"),
        *("sentencepiece", "prepared/spm.model", "prepared/spm.model"),
    ]
    assert len(lines) == 5


@pytest.mark.parametrize(
    ("gpus", "expected"),
    [
        (0, "--cpu --update-freq 16"),
        (1, "--distributed-world-size 1 --update-freq 16 --fp16"),
        (2, "--distributed-world-size 2 --update-freq 8 --fp16"),
    ],
)
def test_an_update_has_the_batches_of_the_preset_on_any_number_of_gpus(gpus, expected):
    options = train_nmt.device_options(train_nmt.PRESETS["kobayashi"], gpus)
    assert shlex.join(options) == expected


def test_own_options_come_last(tmp_path, commands):
    train(tmp_path, "--max-update", 7, "--train", "--lr 1e-4", "--prepare", "--vocab-size 99")
    assert value(commands[0], "--vocab-size") == "99"
    assert value(commands[1], "--lr") == "1e-4"
    assert value(commands[1], "--max-update") == "7"


def test_what_is_done_is_not_done_again(tmp_path, commands, capsys):
    train(tmp_path)
    train(tmp_path)
    assert len(commands) == 3
    assert "src-tgt.seed1: done before" in capsys.readouterr().err
    train(tmp_path, "--seeds", 1, 2)
    assert len(commands) == 5


def test_other_options_for_the_same_folder_are_refused(tmp_path, commands, capsys):
    train(tmp_path, "--max-update", 5)
    assert train(tmp_path) == 2
    message = capsys.readouterr().err.splitlines()[-1]
    assert "src-tgt.seed1: was made with other options, see" in message
    assert message.endswith("expected another --out, or that you remove it")
    assert len(commands) == 3


def test_a_dry_run_writes_nothing(tmp_path, commands, capsys):
    assert train(tmp_path, "--dry-run") == 0
    assert not commands
    assert not (tmp_path / "out").exists()
    assert capsys.readouterr().err.count("fairseq-train") == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--seeds", 1, 1], "--seeds 1 1: one of them twice"),
        (["--gpus", 3], "--gpus 3: an update has 1 batches; expected a number of GPUs that divi"),
    ],
)
def test_bad_options(tmp_path, commands, capsys, options, message):
    assert train(tmp_path, *options) == 2
    assert capsys.readouterr().err.splitlines()[-1].startswith(f"train_nmt.py: {message}")


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("import sys; print('wrong: x'); sys.exit(2)", "^wrong: x$"),
        ("print('a'); 1 / 0", "log: ended with status 1: ZeroDivisionError: division by zero"),
    ],
)
def test_a_command_that_fails_ends_with_its_last_line(tmp_path, script, message):
    with pytest.raises(InputError, match=message):
        train_nmt.run([train_nmt.sys.executable, "-c", script], tmp_path / "log")
    assert (tmp_path / "log").read_text()


# From checkpoint to table
# ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("script", "arguments", "message"),
    [
        ("extract_alignments.sh", ["x"], "usage: extract_alignments.sh FOLDER TEST [OPTIONS]"),
        ("evaluate_aer.sh", ["none", "x", "y"], "none/models.tsv: not found; expected a folder"),
        ("real_deen.sh", ["none"], "real_deen.sh: none/deen/test.de is missing"),
        ("tables.sh", ["nowhere"], "tables.sh: no table nowhere; the tables are: results conv"),
    ],
)
def test_scripts_say_what_is_missing(tmp_path, script, arguments, message):
    done = run_script(script, *arguments, cwd=tmp_path, check=False)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def run_script(name: str, *arguments, **options):
    """Through the shell of this system, with the environment that is there."""
    return run("/usr/bin/env", "bash", ROOT / "scripts" / name, *arguments, **options)


@pytest.mark.slow
def test_from_text_to_table(corpus, tmp_path):
    """Tiny models of both directions, through the commands as they are installed.

    Those of a second seed are copies, whose alignments lack the first link of each line, so that
    means and deviations are seen without another training.
    """
    sizes = "--encoder-layers 1 --decoder-layers 2 --encoder-embed-dim 32 --decoder-embed-dim 32"
    words = [corpus, "--preset", "small", *LANGS, "--out", tmp_path, "--seeds", 1]
    words += ["--max-update", 2, "--train", sizes, "--prepare", "--vocab-size 400"]
    assert train_nmt.main([str(word) for word in words]) == 0
    run_script("extract_alignments.sh", tmp_path, corpus / "test", "--cpu")
    names = {path.name for path in (tmp_path / "alignments/seed1").iterdir()}
    assert {"src-tgt.norms", "tgt-src.weights", "intersection", "product", "learned"} <= names
    add_second_seed(tmp_path)
    done = run_script(
        "evaluate_aer.sh", tmp_path, corpus / "test", corpus / "test.talp", 0, "--cpu"
    )
    systems = [line.split() for line in done.stdout.splitlines() if " mean " in line]
    assert [fields[0] for fields in systems] == [
        *("src-tgt.weights", "src-tgt.norms", "tgt-src.weights", "tgt-src.norms"),
        *("intersection", "grow-diag-final-and", "product", "learned"),
    ]
    assert any(first != second for _, first, second, *_ in systems)
    for _, first, second, _, mean, deviation in systems:
        assert float(mean) == pytest.approx((float(first) + float(second)) / 2, abs=0.1)
        expected = abs(float(first) - float(second)) / 2**0.5
        assert float(deviation.removeprefix("±")) == pytest.approx(expected, abs=0.1)
    forward = tmp_path / "alignments/seed1/src-tgt.norms"
    scored = run("normalign", "aer", corpus / "test.talp", "-i", forward, "-b")
    assert scored.stdout.strip() == systems[1][1]
    reverse = tmp_path / "alignments/seed1/tgt-src.norms"
    scored = run("normalign", "aer", corpus / "test.talp", "--reverse-ref", "-i", reverse, "-b")
    assert scored.stdout.strip() == systems[3][1]


def add_second_seed(folder: Path) -> None:
    names, *models = (folder / "models.tsv").read_text(encoding="utf-8").splitlines()
    others = [line.replace("1\t", "2\t", 1).replace(".seed1/", ".seed2/") for line in models]
    for direction in ("src-tgt", "tgt-src"):
        (folder / f"{direction}.seed2").mkdir()
        name = "checkpoint_last.pt"
        shutil.copy(folder / f"{direction}.seed1" / name, folder / f"{direction}.seed2" / name)
    (folder / "models.tsv").write_text("\n".join([names, *models, *others, ""]), encoding="utf-8")
    (folder / "alignments/seed2").mkdir()
    for path in (folder / "alignments/seed1").iterdir():
        if path.suffix != ".json":
            lines = [" ".join(line.split()[1:]) for line in path.read_text().splitlines()]
            (folder / "alignments/seed2" / path.name).write_text("\n".join([*lines, ""]))
