"""``--export-attention`` of fairseq's own commands, against what ``normalign export`` writes.

The commands run in this process; ``tests/test_fairseq_commands.py`` runs them as installed.
"""

import contextlib
import io
import shutil

import numpy as np
import pytest
import torch
from fairseq_cli import generate

from fairseq_normalign import open_export
from fairseq_normalign.errors import InputError
from tests.conftest import PACKAGE, run

pytestmark = pytest.mark.slow


@pytest.fixture
def command(corpus, checkpoint, monkeypatch):
    """Runs a command of fairseq's on the corpus, and returns what it prints."""

    def call(main, *options) -> str:
        words = [corpus / "data-bin", "--user-dir", PACKAGE, "--task", "translation_normalign"]
        words += ["--path", checkpoint, "--cpu", "--max-tokens", 300, "--max-len-b", 8]
        monkeypatch.setattr("sys.argv", ["fairseq-generate", *map(str, [*words, *options])])
        stdout = io.StringIO()
        with contextlib.redirect_stdout(stdout):
            main()
        return stdout.getvalue()

    return call


def printed(log: str, mark: str) -> dict[int, list[list[str]]]:
    """The words of all lines of a kind, by sentence."""
    lines: dict[int, list[list[str]]] = {}
    for line in log.splitlines():
        if line.startswith(f"{mark}-"):
            number, *_, text = line[2:].split("\t")
            lines.setdefault(int(number), []).append(text.split())
    return lines


def exported_by_us(corpus, checkpoint, log, nbest, folder, *options):
    """What ``normalign export`` makes of the sources and hypotheses that fairseq printed."""
    sources = []
    hypotheses = []
    for sentence, beam in sorted(printed(log, "H").items()):
        assert len(beam) == nbest
        sources += printed(log, "S")[sentence] * nbest
        hypotheses += beam
    for name, lines in (("src", sources), ("hyp", hypotheses)):
        (folder / name).write_text("".join(" ".join(line) + "\n" for line in lines))
    run(
        *("normalign", "export", corpus / "data-bin", "--path", checkpoint, "--cpu"),
        *("--source-file", folder / "src", "--target-file", folder / "hyp"),
        *(*options, "-o", folder / "ours.npz"),
    )
    return open_export(folder / "ours.npz")


def assert_same_items(export, ours):
    for item, expected in zip(export, ours, strict=True):
        assert item[1:] == expected[1:]
        np.testing.assert_allclose(item.array, expected.array, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("quantity", ["head-norms", "vectors"])
def test_hypotheses_of_beam_search_in_corpus_order(quantity, corpus, checkpoint, command, tmp_path):
    log = command(
        generate.cli_main,
        *("--beam", 3, "--nbest", 2, "--export-attention", tmp_path / "x.npz"),
        *("--export-quantity", quantity, "--export-layers", "1,3"),
    )
    options = ["--quantity", quantity, "--layer", 1, 3]
    with (
        open_export(tmp_path / "x.npz") as export,
        exported_by_us(corpus, checkpoint, log, 2, tmp_path, *options) as ours,
    ):
        assert len(export) == 80
        assert_same_items(export, ours)
        told = dict(export.metadata)
        assert told.pop("sentence_ids") == sorted([*range(40)] * 2)
        assert (told.pop("targets"), told.pop("subset")) == ("hypotheses", "test")
        assert told.pop("command").startswith("fairseq-generate ")
        assert told == ours.metadata


def test_alignments_are_printed_as_without_an_export(command, tmp_path):
    options = ["--print-alignment", "hard", "--align-layer", 2, "--align-step", "input"]
    options += ["--align-words", "none"]
    log = command(generate.cli_main, *options, "--export-attention", tmp_path / "x.npz")
    alone = command(generate.cli_main, *options)
    assert printed(log, "A") == printed(alone, "A")
    with open_export(tmp_path / "x.npz") as export:
        hypotheses = [item.target[1:] for item in export]
    assert hypotheses == [printed(log, "H")[sentence][0] for sentence in range(40)]
    linked = [link.split("-") for sentence in range(40) for link in printed(log, "A")[sentence][0]]
    assert max(int(target) for _, target in linked) == max(map(len, hypotheses)) - 1  # pieces


SEARCHES = {
    "prefix": ["--prefix-size", 2, "--beam", 2],
    "sampling": ["--sampling", "--beam", 2, "--nbest", 2, "--seed", 3],
    "half precision": ["--fp16"],
}


@pytest.mark.parametrize("search", SEARCHES)
def test_what_is_printed_is_what_is_exported(search, command, tmp_path):
    log = command(
        generate.cli_main,
        *(*SEARCHES[search], "--export-attention", tmp_path / "x.npz"),
        *("--export-quantity", "vectors", "--export-layers", 2),
    )
    hypotheses = printed(log, "H")
    with open_export(tmp_path / "x.npz") as export:
        ids = export.metadata["sentence_ids"]
        assert len(ids) == len(export)
        by_sentence: dict[int, list] = {}
        for sentence, item in zip(ids, export, strict=True):
            by_sentence.setdefault(sentence, []).append(item.target[1:])
            assert item.array.shape == (1, len(item.target), len(item.source), 128)
    assert by_sentence == hypotheses


def test_skipped_sentences_and_shards(corpus, command, tmp_path):
    """A file holds what its run has translated, and says which sentences these are."""
    lengths = {}
    for number, line in enumerate((corpus / "pieces" / "test.src").read_text().splitlines()):
        lengths[number] = len(line.split()) + 1
    longest = sorted(lengths.values())[20]
    ids = []
    for rank in (0, 1):
        log = command(
            generate.cli_main,
            *("--max-source-positions", longest, "--skip-invalid-size-inputs-valid-test"),
            *("--distributed-world-size", 2, "--distributed-rank", rank),
            *("--export-attention", tmp_path / "x.npz"),
        )
        with open_export(tmp_path / "x.npz") as export:
            told = export.metadata["sentence_ids"]
            assert told == sorted(printed(log, "H"))
            for sentence, item in zip(told, export, strict=True):
                assert item.source[:-1] == printed(log, "S")[sentence][0]
        ids += told
    assert sorted(ids) == [number for number, length in lengths.items() if length <= longest]


BAD = {
    "several models": (["--path", "{checkpoint}:{checkpoint}"], "works with one model; --path"),
    "not finite": (
        ["--path", "{large}"],
        r"S-\d+: a value is no number, or beyond the range of float32",
    ),
}


@pytest.fixture(scope="module")
def large(checkpoint, tmp_path_factory):
    """A model with vectors whose norms no number of 32 bits holds."""
    state = torch.load(checkpoint)
    state["model"]["decoder.layers.0.encoder_attn.v_proj.weight"] *= 1e19
    path = tmp_path_factory.mktemp("large") / "large.pt"
    torch.save(state, path)
    return path


@pytest.mark.parametrize("case", BAD)
def test_bad_input_leaves_the_old_file(case, checkpoint, large, command, tmp_path):
    options, message = BAD[case]
    (tmp_path / "old.npz").write_text("old")
    options = [word.format(checkpoint=checkpoint, large=large) for word in options]
    with pytest.raises(InputError, match=message):
        command(generate.cli_main, "--export-attention", tmp_path / "old.npz", *options)
    assert (tmp_path / "old.npz").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["old.npz"]


def test_inputs_are_not_overwritten(corpus, checkpoint, command, tmp_path):
    shutil.copy(checkpoint, tmp_path / "model.pt")
    for path in (tmp_path / "model.pt", corpus / "data-bin" / "dict.src.txt"):
        before = path.read_bytes()
        with pytest.raises(InputError, match="would overwrite the input"):
            command(
                *(generate.cli_main, "--path", tmp_path / "model.pt"), *("--export-attention", path)
            )
        assert path.read_bytes() == before
