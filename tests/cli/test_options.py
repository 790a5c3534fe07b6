"""Options of all commands: help without PyTorch, and mistakes told before anything loads."""

import subprocess
import sys
from pathlib import Path

import pytest

from fairseq_normalign.cli import (
    align,
    evaluate,
    evolution,
    export,
    heads,
    methods,
    mixing,
    plot,
    prune,
    stats,
    train_aligner,
)
from fairseq_normalign.cli.checks import check_directions
from fairseq_normalign.cli.main import COMMANDS
from fairseq_normalign.cli.runs import command_of
from fairseq_normalign.errors import InputError

HELP = """
import contextlib, io, sys
from fairseq_normalign.cli.main import main
for command in sys.argv[1:]:
    with contextlib.redirect_stdout(io.StringIO()) as shown, contextlib.suppress(SystemExit):
        main([command, "--help"])
    assert f"normalign {command}" in shown.getvalue(), command
print(*{"torch", "fairseq", "matplotlib", "scipy"} & set(sys.modules))
"""


def test_help_of_every_command_is_shown_without_the_large_libraries():
    """A typo and a missing file take the same way."""
    done = subprocess.run(
        [sys.executable, "-c", HELP, *COMMANDS], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == ""


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder that holds what options may name."""
    (tmp_path / "data").mkdir()
    data = ("data/dict.de.txt", "data/test.de-en.de.bin")
    for name in ("model.pt", "text", "gold", *data):
        (tmp_path / name).touch()
    monkeypatch.chdir(tmp_path)


SPM = ["--sentencepiece-model", "text"]
TWO = ["--gold", "gold", "--path", "model.pt", "text"]
CASES = [
    (align, ["--method", "norm"], "unknown method 'norm'; choose from: weights, norms"),
    (align, ["--method", "norms:2"], "norms takes no number"),
    (align, ["--extract", "most"], "unknown extract 'most'"),
    (align, ["--extract", "piece-argmax", "--combine", "mean"], "links the pieces of one model"),
    (align, ["--source-file", "none"], "none: no such file"),
    (align, ["--output", "model.pt"], r"model\.pt: would overwrite the input model\.pt"),
    (align, ["--output", "text", "--bpe", "sentencepiece", *SPM], "would overwrite the input text"),
    (align, ["--output", "data/dict.de.txt"], r"would overwrite the input data/dict\.de\.txt"),
    (align, ["--bpe", "sentencepiece", "--sentencepiece-model", "none"], "none: no such file"),
    (align, ["--source-file", "-", "--target-file", "-"], "stdin .* can be read only once"),
    (align, ["--num-shards", "2"], "--num-shards needs --output FILE"),
    (align, ["--num-shards", "2", "--shard-id", "2"], "--shard-id 2: expected a number from 0 to"),
    (align, ["--restart"], "--restart needs --output FILE"),
    (align, ["-o", "out", "--num-shards", "2", "--restart"], "--restart would remove what other s"),
    (align, ["--ray-address", "auto"], "--ray-address needs --engine ray"),
    (plot, ["-o", "x.png", "--workers", "2"], "--workers cannot be used with normalign plot"),
    (plot, ["-o", "x.png", "--num-shards", "2"], "--num-shards cannot be used with normalign p"),
    (align, ["--output", "data"], "data: cannot be written: Is a directory"),
    (methods, [], "error rates need gold links: --gold FILE"),
    (align, ["--path", "model.pt", "text"], "--path names 2 checkpoints; align takes one"),
    (methods, [*TWO, "--heads"], "--heads takes one checkpoint: heads of two models do not"),
    (methods, [*TWO, "--gold", "-"], "<stdin>: can be read only once, and 2 models read it"),
    (align, ["--layerr", "2"], r"unknown option --layerr; did you mean --layer\?"),
    (align, ["--plot", "2"], "unknown option --plot; see normalign align --help-all"),
    (align, ["--gold", "g"], "argument --gold: align writes links; .* normalign methods MODEL"),
    (plot, ["-o", "x.gif"], r"--output x\.gif: expected a name that ends in \.png, \.pdf, \.svg"),
    (plot, ["-o", "x.png", "--layers", "1", "--layer", "2"], "--layer cannot be used with --l"),
    (plot, ["-o", "x.png", "--extract", "argmax"], "--extract needs --layers"),
    (export, ["-o", "x.npz", "--quantity", "norm"], "--quantity: invalid choice: 'norm'"),
    (export, ["-o", "none/x.npz"], r"none/x\.npz: cannot be written: No such file"),
    (export, ["-o", "x.npz", "--quantity", "source-share", "--head", "1"], "it takes no --head"),
    (heads, ["--scores", "size"], "unknown head score 'size'; expected one of: relevance"),
    (heads, ["--relevance", "lrp"], "--relevance lrp: expected one of: voita, epsilon, attnlrp"),
    (heads, ["--rare-threshold", "2"], "--rare-threshold: '2': expected a number from 0 to 1"),
    (heads, ["--attention", "encoder", "--ablation"], "ablation needs the decoder"),
    (heads, ["--lowercase"], "--lowercase needs --conllu"),
    (heads, ["--gold", "gold", "--method", "lrp"], "method lrp is of the whole model, not of a"),
    (prune, ["--out", "model.pt"], r"model\.pt: would overwrite the input model\.pt"),
    (prune, ["--out", "x.pt", "--by", "norm"], "--keep-top and --by go together"),
    (prune, ["--out", "x.pt", "--keep-top", "3", "--by", "size"], "--by size: expected one of"),
    (methods, ["--gold", "gold", "--layer", "1"], "unknown option --layer"),
    (align, ["--combine", "product", "--layer", "1"], "cannot be used with --layer: name"),
    (align, ["--combine", "product", "--evidence", "norms"], "bad evidence 'norms'"),
    (align, ["--combine", "mean", "--learn-pairs", "9"], "--learn-pairs needs --combine learned"),
    (align, ["--layer", "1", "--learned", "x"], "--layer cannot be used with --learned"),
    (align, ["--layer", "1", "--evidence", "norms.1.input"], "--layer aligns by one layer and st"),
    (align, ["--step", "input", "-r", "x.pt"], "model; it cannot be used with --reverse-path"),
    (align, ["--evidence", "links:x.links"], r"links:x\.links: no such file"),
    (
        align,
        ["--output", "gold", "-r", "gold", "--combine", "mean"],
        "would overwrite the input gold",
    ),
    (
        align,
        ["--output", "new", "--combine", "learned", "--learned", "new.json"],
        "overwrite the inp",
    ),
    (align, ["--layer", "two"], "--layer: 'two': expected a number from 1"),
    (align, ["--interactive"], "--interactive needs --learned FILE"),
    (align, ["--interactive", "-o", "new"], "--output cannot be used with --interactive"),
    (align, ["--reverse-data", "data"], "--reverse-data needs --reverse-path"),
    (align, ["--method", "shift-att", "--reverse-path", "x.pt"], r"x\.pt: no such checkpoint"),
    (evaluate, ["--target-file", "text"], "--target-file needs --source-file"),
    (evaluate, ["--gold", "gold"], "--gold, --gold-source and --gold-target go together"),
    (mixing, ["--category", "few"], "--category few: write NAME=REGEX, as in 'comma=▁"),
    (mixing, ["--analyses", "norms"], "--scope norms: choose from ATTN-W, ATTN-N, ATTNRE"),
    (mixing, ["--scope", "ffn"], "--scope ffn: choose from .*, ff, ff-res, ff-res-ln, or all"),
    (mixing, ["--frequencies", "a", "b", "c"], "--frequencies: 3 files; name one, or"),
    (stats, ["--plot", "x.jpg"], r"--plot x\.jpg: expected a name that ends in \.png"),
    (evolution, ["--words", "w1"], "--words and --plot-words go together"),
    (train_aligner, ["-o", "gold", "--links", "gold"], "would overwrite the input"),
]


@pytest.mark.parametrize(("command", "options", "message"), CASES)
def test_mistakes_are_told_before_anything_is_loaded(command, options, message, place):
    with pytest.raises(InputError, match=message):
        command.parse_args(["data", "--path", "model.pt", *options])


@pytest.mark.parametrize("command", [align, heads, evaluate])
def test_folders_and_checkpoints_must_be_there(command, place):
    with pytest.raises(InputError, match="none: no such directory; name the one with dict"):
        command.parse_args(["none", "--path", "model.pt"])
    with pytest.raises(InputError, match=r"none\.pt: no such checkpoint"):
        command.parse_args(["data", "--path", "none.pt"])
    with pytest.raises(InputError, match=r"data: no checkpoint \(\*\.pt\) and no config\.json"):
        command.parse_args(["data"])
    with pytest.raises(InputError, match="no MODEL; name a checkpoint, or a folder with one"):
        command.parse_args([])


def test_what_is_fairseqs_is_handed_on(place):
    words = ["data", "--path", "model.pt", "--layer", "2", "--beam", "3", "-s", "de", "--cpu"]
    args = align.parse_args(words)
    assert args.layer == 2
    assert args.path == ["model.pt"]
    assert args.fairseq_argv == ["data", "--cpu", "--source-lang", "de", "--beam", "3"]


def test_stdin_may_stand_behind_options(place):
    Path("data/model.pt").touch()
    args = align.parse_args(["data/", "--learned", "new", "-"])
    assert args.source_file == "-"
    assert align.parse_args(["data/", "--beam", "3", "text", "-"]).target_file == "-"


@pytest.mark.parametrize(
    ("option", "bpe"),
    [
        ("--source-sentencepiece-model", "sentencepiece"),
        ("--bpe-codes", "subword_nmt"),
        ("--bpe-vocab-file", "bert"),
    ],
)
def test_files_of_pieces_name_the_bpe(option, bpe, place):
    args = align.parse_args(["data", "--path", "model.pt", option, "text"])
    assert (args.bpe, args.fairseq_argv[:3]) == (bpe, ["data", "--bpe", bpe])


def test_a_model_has_its_files_beside_it(place):
    """The short form and fairseq's way name the same files."""
    Path("data/dict.de.txt").write_text("▁a 1\n", encoding="utf-8")
    for name in ("data/model.pt", "data/spm.model"):
        Path(name).touch()
    short = align.parse_args(["data/", "text", "--cpu", "gold", "-r", "model.pt"])
    words = ["data", "--path", "data/model.pt", "--source-file", "text", "--target-file", "gold"]
    words += ["--bpe", "sentencepiece", "--sentencepiece-model", "data/spm.model", "--cpu"]
    full = align.parse_args([*words, "--reverse-path", "model.pt", "--reverse-data", "data"])
    assert {**vars(short), "found": {}} == vars(full)
    assert command_of(short) == command_of(full)  # a run that was begun by one goes on by the other
    binarised = align.parse_args(["data/"])
    assert (binarised.source_file, binarised.post_process) == (None, "sentencepiece")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["data/", "text", "gold", "model.pt"],
            r"model\.pt: one argument too many; expected MODEL",
        ),
        (["data/", "text", "--source-file", "gold"], "text: --source-file names another file"),
        (["data/", "text", "gold", "--data", "empty"], r"empty: no dictionaries \(dict\.\*\.txt\)"),
        (
            ["data", "text", "--path", "model.pt"],
            "text: one argument too many; with --path, the on",
        ),
    ],
)
def test_words_that_are_too_many(words, message, place):
    Path("data/model.pt").touch()
    Path("empty").mkdir()
    with pytest.raises(InputError, match=message):
        align.parse_args(words)


def test_models_of_different_directions_are_refused():
    check_directions(["a.pt", "b.pt"], ["de-en", "de-en"])
    with pytest.raises(InputError, match=r"b\.pt translates en-de, a\.pt de-en; name models of"):
        check_directions(["a.pt", "b.pt"], ["de-en", "en-de"])


@pytest.mark.parametrize(
    ("words", "data"),
    [
        (["data", "--path", "a.pt", "b.pt"], "data"),
        (["--path", "a.pt", "b.pt", "data", "--cpu"], "data"),
        (["--path", "a.pt", "b.pt", "data:data"], "data:data"),
    ],
)
def test_the_data_may_stand_behind_the_checkpoints(words, data, tmp_path, monkeypatch):
    (tmp_path / "data").mkdir()
    for name in ("a.pt", "b.pt"):
        (tmp_path / name).touch()
    monkeypatch.chdir(tmp_path)
    args = stats.parse_args(words)
    assert (args.data, args.path) == (data, ["a.pt", "b.pt"])
