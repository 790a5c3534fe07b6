"""Fixtures: tiny random models, and one corpus and model made with the real commands.

The random models are of fairseq's own registry.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import resource
import subprocess
import sys
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import fairseq_normalign.plugin  # noqa: F401  (registers: tests call what loads checkpoints)
from tests.forked import run_forked

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "fairseq_normalign"
torch.set_num_threads(1)  # sums do not depend on the machine's cores, nor do workers fight for them


def run(
    *command, check: bool = True, installed: bool = False, **options
) -> subprocess.CompletedProcess:
    """Runs a command of this environment, and shows its errors if it fails.

    Libraries need not load again: ``normalign`` runs in this process, and fairseq's commands run in
    a fork, unless the test is about the installed command or sets its environment.
    """
    words = [str(word) for word in command]
    if words[0] == "normalign" and not (installed or options):
        done = _run_here(words)
    elif words[0].startswith("fairseq-") and options.keys() <= {"cwd", "input"}:
        done = run_forked(words, **options)
    else:
        done = _run_apart(words, **options)
    output = f"{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    assert not check or done.returncode == 0, f"{' '.join(words)}\n{output}"
    return done


def _run_here(words: list[str]) -> subprocess.CompletedProcess:
    from fairseq_normalign.cli.main import main

    stdout, stderr = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(stderr):
        try:
            status = main(words[1:])
        except SystemExit as error:  # --help
            status = error.code
    return subprocess.CompletedProcess(words, status, stdout.getvalue(), stderr.getvalue())


def _run_apart(words: list[str], **options) -> subprocess.CompletedProcess:
    words[0] = str(Path(sys.executable).parent / words[0])
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **options.pop("env", {})}
    return subprocess.run(
        words, capture_output=True, text=True, env=environment, check=False, **options
    )


def refused(*command, **options) -> str:
    """The last line, in which a command says what is wrong; before, it may warn or tell."""
    done = run(*command, check=False, **options)
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    *others, line = done.stderr.splitlines()
    assert line.startswith("normalign "), done.stderr
    for other in others:
        assert "warning: " in other or not other.startswith(("normalign ", "Traceback", " "))
    return line


@contextlib.contextmanager
def full_disk(size: int) -> Iterator[None]:
    """A limit on the size of files, for this process, stands in for it."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def rows_of(table) -> list[dict]:
    """The rows of a table, by column."""
    return [dict(zip(table.columns, row, strict=True)) for row in table.rows]


SLOW_FILES = ("test_fuzz.py", "test_in_chromium.py")  # whole files of the slow tier


def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.name in SLOW_FILES or "ray" in re.split(r"\W|_", item.name):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(autouse=True)
def no_lines_of_progress(monkeypatch):
    """They come with time, and tests compare what is printed."""
    monkeypatch.setattr("fairseq_normalign.progress.EVERY", float("inf"))


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder of real data, if there is one."""
    if "NORMALIGN_DATA" not in os.environ:
        pytest.skip("NORMALIGN_DATA is unset: it names the folder of real data")
    return Path(os.environ["NORMALIGN_DATA"])


class ToyTask:
    """All that a model's constructor wants to know of a task."""

    def __init__(self, symbols: int = 30):
        from fairseq.data import Dictionary

        self.args = Namespace(source_lang="a", target_lang="b", data="nowhere")
        self.source_dictionary = Dictionary()
        for number in range(symbols):
            self.source_dictionary.add_symbol(f"w{number}")
        self.target_dictionary = self.source_dictionary


@pytest.fixture
def task() -> ToyTask:
    return ToyTask()


@pytest.fixture
def folder(tmp_path) -> Path:
    """A folder with the dictionaries of a toy task, which checkpoints of tests.stored need."""
    for language in "ab":
        ToyTask().source_dictionary.save(str(tmp_path / f"dict.{language}.txt"))
    return tmp_path


PRE_LN = {"encoder_normalize_before": True, "decoder_normalize_before": True}


def build_model(arch: str = "transformer", task=None, *, seed: int = 1, **options):
    """A small random model of fairseq's registry, in evaluation mode.

    It has 2+2 layers, is 16 wide, and has 4 heads.
    """
    from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_REGISTRY

    sizes = {"embed_dim": 16, "ffn_embed_dim": 32, "layers": 2, "attention_heads": 4}
    small = {"max_source_positions": 64, "max_target_positions": 64}
    for name, value in sizes.items():
        small[f"encoder_{name}"] = small[f"decoder_{name}"] = value
    args = Namespace(**{**small, **options})
    ARCH_CONFIG_REGISTRY[arch](args)
    torch.manual_seed(seed)
    return ARCH_MODEL_REGISTRY[arch].build_model(args, task or ToyTask()).eval()


def randomised(model, seed: int = 0):
    """The model with all parameters random: fresh biases are 0, and fresh gains 1."""
    generator = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        parameter.data += 0.3 * torch.randn(parameter.shape, generator=generator)
    return model


def ready_model(task=None, *, scheme: str = "none", attention: str = "cross", **options):
    """A small random model that is ready to run, and a reader of text for it."""
    from fairseq_normalign.host.options import ReadyModel
    from fairseq_normalign.host.pairs import PairReader
    from fairseq_normalign.host.teacher_forcing import TeacherForcing

    task = task or ToyTask()
    model = build_model(task=task, **options)
    reader = PairReader(task, scheme=scheme)
    return ReadyModel(TeacherForcing(model, task, attention=attention), reader)


def run_alone(model, pair) -> torch.Tensor:
    """Logits of one pair that runs by itself, as it is."""
    source, target = pair.source.tokens, pair.target.tokens
    read = torch.cat([target[-1:], target[:-1]])
    return model(source[None], torch.tensor([len(source)]), read[None])[0]


@pytest.fixture(scope="session")
def imported(tmp_path_factory):
    """Models of Hugging Face beside ours, by family (see ``tests.imported.LANGUAGES``)."""
    from tests.imported import Families

    return Families(tmp_path_factory.mktemp("imported"))


@pytest.fixture
def batch() -> dict:
    """Two sentence pairs of different lengths, sources padded on the left as fairseq does."""
    pad, eos = 1, 2
    return {
        "src_tokens": torch.tensor([[5, 6, 7, 8, eos], [pad, pad, 9, 10, eos]]),
        "src_lengths": torch.tensor([5, 3]),
        "prev_output_tokens": torch.tensor([[eos, 11, 12, 13], [eos, 14, pad, pad]]),
    }


TRAIN = (
    "fairseq-train",
    *("--arch", "transformer_normalign_tiny", "--share-all-embeddings"),
    *("--max-tokens", 2000, "--optimizer", "adam", "--lr", 2e-3),
    *("--criterion", "label_smoothed_cross_entropy", "--label-smoothing", 0.1),
    *("--no-progress-bar", "--disable-validation", "--cpu"),
)


@pytest.fixture(scope="session")
def corpus(tmp_path_factory) -> Path:
    """A small synthetic corpus, prepared: text, gold, spm.model and data-bin."""
    folder = tmp_path_factory.mktemp("corpus")
    run(
        "python",
        ROOT / "data_prep/synthetic.py",
        folder,
        *("--train", 1500, "--valid", 40, "--test", 40),
    )
    run("python", ROOT / "data_prep/prepare.py", folder, folder, "--vocab-size", 400)
    return folder


@pytest.fixture(scope="session")
def checkpoint(corpus, tmp_path_factory) -> Path:
    """A model trained on it for a moment with ``fairseq-train``."""
    folder = tmp_path_factory.mktemp("model")
    run(
        *TRAIN,
        corpus / "data-bin",
        *("--user-dir", PACKAGE, "--save-dir", folder, "--max-update", 30),
        cwd=folder,
    )
    return folder / "checkpoint_last.pt"


@pytest.fixture(scope="session")
def reverse(checkpoint, tmp_path_factory) -> Path:
    """Much the same model, said to be of the other direction: both sides share a dictionary."""
    path = tmp_path_factory.mktemp("reverse") / "reverse.pt"
    write_translator(path, checkpoint, "tgt", "src", scale=1.001)
    return path


def write_translator(path: Path, checkpoint: Path, source: str, target: str, *, scale=1.0) -> None:
    """A copy of a checkpoint, nearly the same, that names its languages."""
    state = torch.load(checkpoint)
    state["model"]["encoder.layers.0.fc1.weight"] *= scale
    languages = {"source_lang": source, "target_lang": target}
    state["cfg"]["task"].update(languages)
    vars(state["cfg"]["model"]).update(languages)
    torch.save(state, path)


@pytest.fixture(scope="session")
def own_gold(corpus, checkpoint, tmp_path_factory) -> Path:
    """Links of the model itself, numbered from 1: read from 0, they look misread."""
    path = tmp_path_factory.mktemp("own") / "own.talp"
    data = [corpus / "data-bin", "--remove-bpe", "sentencepiece", "--cpu"]
    options = ["--path", checkpoint, "--combine", "none", "--index", 1, "-o", path]
    run("normalign", "align", *data, *options)
    return path


def attention_output(recorded):
    """Σ_h Σ_s α_h f_h(x_s) + b_O, (B, T, C): the attention's output, rebuilt from its parts."""
    weights, values, out_weight = recorded.parts()
    output = torch.einsum("bhtd,hdc->btc", weights @ values, out_weight)
    return output if recorded.out_bias is None else output + recorded.out_bias.to(output.dtype)
