"""``normalign export`` through the installed command, on models trained for a moment."""

import re

import numpy as np
import pytest

from fairseq_normalign import __version__, open_export
from tests.conftest import PACKAGE, run

pytestmark = pytest.mark.slow

SHAPES = {  # quantity → axes after the layers, by (queries, keys) of a pair
    "weights": lambda t, s: (4, t, s),
    "norms": lambda t, s: (t, s),
    "transformed-norms": lambda t, s: (4, s),
    "vectors": lambda t, s: (t, s, 128),
    "source-share": lambda t, s: (t,),
}


def export(data, checkpoint, output, *options, **more):
    return run(
        "normalign", "export", data, "--path", checkpoint, "--cpu", *options, "-o", output, **more
    )


@pytest.fixture(scope="module")
def lines(corpus):
    """The pieces of each side of the test set, by line."""
    by_side = {}
    for side in ("src", "tgt"):
        lines = (corpus / "pieces" / f"test.{side}").read_text().splitlines()
        by_side[side] = [line.split() for line in lines]
    return by_side


@pytest.mark.parametrize("quantity", SHAPES)
def test_text_in_input_order(quantity, corpus, checkpoint, text, lines, tmp_path):
    done = export(
        corpus / "data-bin", checkpoint, tmp_path / "x.npz", *text, "--quantity", quantity
    )
    assert done.stdout == ""
    assert re.fullmatch(r"40 sentences, [0-9.e-]+ GB\n", done.stderr)
    with open_export(tmp_path / "x.npz") as arrays:
        assert len(arrays) == 40
        for item, source, target in zip(arrays, lines["src"], lines["tgt"], strict=True):
            assert item.source == [*source, "</s>"]
            assert item.target == ["</s>", *target]
            assert item.array.shape == (3, *SHAPES[quantity](len(item.target), len(item.source)))
            assert item.array.dtype == np.float32
        metadata = arrays.metadata
    assert (metadata["attention"], metadata["quantity"]) == ("cross", quantity)
    assert metadata["layers"] == [1, 2, 3]
    assert quantity == "source-share" or metadata["heads"] == [1, 2, 3, 4]
    assert (metadata["checkpoint"], metadata["version"]) == (checkpoint.name, __version__)
    assert [path.name for path in tmp_path.iterdir()] == ["x.npz"]


def test_batching_and_binarised_data_change_nothing(corpus, checkpoint, text, tmp_path):
    options = ["--attention", "decoder", "--quantity", "head-norms", "--layer", 3, 1, "--head", 2]
    export(corpus / "data-bin", checkpoint, tmp_path / "text.npz", *text, *options)
    export(
        corpus / "data-bin",
        checkpoint,
        tmp_path / "small.npz",
        *options,
        *("--max-tokens", 60, "--user-dir", PACKAGE),
    )
    with open_export(tmp_path / "text.npz") as one, open_export(tmp_path / "small.npz") as other:
        assert one.metadata == other.metadata
        assert (one.metadata["layers"], one.metadata["heads"]) == ([1, 3], [2])
        for first, second in zip(one, other, strict=True):
            assert first[1:] == second[1:]
            assert first.array.shape == (2, 1, len(first.target), len(first.target))
            np.testing.assert_allclose(first.array, second.array, rtol=1e-4, atol=1e-5)


def test_encoder_attention_of_source_text_alone(corpus, checkpoint, text, tmp_path):
    options = [*text[:2], *text[4:], "--attention", "encoder", "--quantity", "weights"]
    export(corpus / "data-bin", checkpoint, tmp_path / "x.npz", *options)
    with open_export(tmp_path / "x.npz") as arrays:
        assert len(arrays) == 40
        assert arrays[7].target == []
        np.testing.assert_allclose(arrays[7].array.sum(-1), 1, rtol=1e-4)


@pytest.fixture(scope="module")
def roberta(corpus, tmp_path_factory):
    """A masked language model and its data."""
    folder = tmp_path_factory.mktemp("roberta")
    prefixes = []
    for split in ("train", "valid", "test"):
        prefixes += [f"--{split}pref", folder / split]
        (folder / split).write_bytes((corpus / "pieces" / f"{split}.src").read_bytes())
    run(
        "fairseq-preprocess",
        *("--only-source", "--srcdict", corpus / "dict.txt"),
        *prefixes,
        *("--destdir", folder),
    )
    sizes = ["--encoder-layers", 2, "--encoder-embed-dim", 16, "--encoder-ffn-embed-dim", 32]
    sizes += ["--encoder-attention-heads", 4, "--tokens-per-sample", 64, "--max-tokens", 2000]
    command = [
        "fairseq-train",
        folder,
        *("--user-dir", PACKAGE, "--task", "masked_lm", "--arch", "roberta"),
    ]
    command += ["--criterion", "masked_lm", "--optimizer", "adam", "--lr", 1e-3, "--max-update", 3]
    command += [*sizes, "--disable-validation", "--cpu", "--save-dir", folder]
    run(*command, cwd=folder)
    return folder


def test_roberta(roberta, text, lines, tmp_path):
    options = ["--attention", "encoder", "--quantity", "norms"]
    export(
        roberta,
        roberta / "checkpoint_last.pt",
        tmp_path / "text.npz",
        *text[:2],
        *text[4:],
        *options,
    )
    export(roberta, roberta / "checkpoint_last.pt", tmp_path / "binarised.npz", *options)
    with (
        open_export(tmp_path / "text.npz") as one,
        open_export(tmp_path / "binarised.npz") as other,
    ):
        assert len(one) == len(other) == 40
        for first, second, source in zip(one, other, lines["src"], strict=True):
            assert first.source == second.source == ["<s>", *source, "</s>"]
            assert first.array.shape == (2, len(source) + 2, len(source) + 2)
            np.testing.assert_allclose(first.array, second.array, rtol=1e-4, atol=1e-5)


def test_what_would_be_too_large_leaves_the_old_file(corpus, checkpoint, tmp_path):
    output = tmp_path / "old.npz"
    output.write_text("old\n")
    options = ["--quantity", "vectors", "--max-gigabytes", "0.001"]
    done = export(corpus / "data-bin", checkpoint, output, *options, check=False)
    assert done.returncode == 2, done.stderr
    message = r"old\.npz would have [0-9.]+ GB, more than --max-gigabytes 0\.001; choose some of "
    assert re.search(message, done.stderr.splitlines()[-1]), done.stderr
    assert output.read_text() == "old\n"
    assert [path.name for path in tmp_path.iterdir()] == ["old.npz"]
