"""From text to data-bin, with the real SentencePiece and fairseq-preprocess."""

from __future__ import annotations

import gzip
import subprocess
from collections import Counter

import prepare
import pytest
import synthetic
from lines import read_lines, write_lines

from fairseq_normalign.errors import InputError


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    folder = tmp_path_factory.mktemp("text")
    synthetic.main([str(folder), "--train", "2000", "--valid", "30", "--test", "30"])
    return folder


@pytest.fixture
def preprocess_here(monkeypatch):
    """fairseq-preprocess in this process, which need not load all libraries again."""
    from fairseq.options import get_preprocessing_parser
    from fairseq_cli.preprocess import main

    def run_here(command, **_):
        assert command[1:3] == ["-m", "fairseq_cli.preprocess"]
        main(get_preprocessing_parser().parse_args(command[3:]))
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(prepare.subprocess, "run", run_here)


def run(*arguments) -> None:
    prepare.main([str(argument) for argument in arguments])


def load(outdir, split: str, langs=("src", "tgt")):
    """The split as fairseq's translation task sees it."""
    from fairseq.data import Dictionary, data_utils

    dictionaries = [
        Dictionary.load(str(outdir / "data-bin" / f"dict.{lang}.txt")) for lang in langs
    ]
    prefix = str(outdir / "data-bin" / f"{split}.{'-'.join(langs)}.")
    return [
        (data_utils.load_indexed_dataset(prefix + lang, d), d)
        for lang, d in zip(langs, dictionaries, strict=True)
    ]


def test_joint_vocabulary(text, tmp_path):
    run(text, tmp_path, "--vocab-size", 500)
    vocab = [line.split("\t")[0] for line in read_lines(tmp_path / "spm.vocab")]
    assert [line.split()[0] for line in read_lines(tmp_path / "dict.txt")] == vocab[3:]
    for (dataset, dictionary), lang in zip(load(tmp_path, "test"), ("src", "tgt"), strict=True):
        pieces = list(read_lines(tmp_path / "pieces" / f"test.{lang}"))
        assert len(dataset) == len(pieces) == 30
        assert [dictionary.string(ids) for ids in dataset] == pieces
        assert all(dictionary.unk_index not in ids for ids in dataset)
        assert list(dictionary.symbols[4:]) == vocab[3:]


def test_separate_vocabularies_without_dummy_prefix(preprocess_here, text, tmp_path):
    for split in prepare.SPLITS:
        for old, new in (("src", "de"), ("tgt", "en")):
            write_lines(tmp_path / f"{split}.{new}", read_lines(text / f"{split}.{old}"))
    run(
        tmp_path,
        tmp_path,
        *("--source-lang=de", "--target-lang=en", "--separate", "--no-dummy-prefix"),
        "--vocab-size=300",
    )
    names = {path.name for path in tmp_path.iterdir()}
    assert {"spm.de.model", "spm.en.model", "dict.de.txt", "dict.en.txt"} <= names
    assert not {"spm.model", "dict.txt"} & names
    (german, ours), (_, theirs) = load(tmp_path, "valid", ("de", "en"))
    assert ours.symbols != theirs.symbols
    first = ours.string(german[0]).split()
    assert not first[0].startswith("▁")
    assert "".join(first).replace("▁", " ") == next(read_lines(tmp_path / "valid.de"))


def packed(text, folder) -> None:
    """The corpus, train packed, without a test set."""
    for lang in ("src", "tgt"):
        with gzip.open(folder / f"train.{lang}.gz", "wb") as file:
            file.write((text / f"train.{lang}").read_bytes())
        write_lines(folder / f"valid.{lang}", read_lines(text / f"valid.{lang}"))


def test_packed_text_without_a_test_set(preprocess_here, text, tmp_path, capsys):
    packed(text, tmp_path)
    run(tmp_path, tmp_path / "out", "--vocab-size", 300)
    assert f"{tmp_path / 'test'}: none" in capsys.readouterr().err
    assert list(read_lines(tmp_path / "out/pieces/valid.src"))
    assert not (tmp_path / "out/data-bin/test.src-tgt.src.bin").exists()
    assert len(load(tmp_path / "out", "train")[0][0]) == 2000


@pytest.mark.parametrize("separate", [False, True])
def test_subword_nmt(preprocess_here, text, tmp_path, separate):
    options = ["--separate"] if separate else []
    run(text, tmp_path, "--bpe", "subword_nmt", "--counted", "--vocab-size", 200, *options)
    names = ["bpe.src.codes", "bpe.tgt.codes"] if separate else ["bpe.codes"]
    assert all((tmp_path / name).read_text(encoding="utf-8").count("\n") == 201 for name in names)
    for (dataset, dictionary), lang in zip(load(tmp_path, "train"), ("src", "tgt"), strict=True):
        assert all(dictionary.unk_index not in ids for ids in dataset)
        joined = [dictionary.string(ids, "@@ ") for ids in dataset]
        assert joined == list(read_lines(text / f"train.{lang}"))
    (_, ours), (_, theirs) = load(tmp_path, "train")
    assert (ours.symbols != theirs.symbols) == separate


def test_counted_dictionary_begins_with_the_most_frequent_piece(preprocess_here, text, tmp_path):
    run(text, tmp_path, "--counted", "--vocab-size", 300)
    counts = Counter()
    for lang in ("src", "tgt"):
        for line in read_lines(tmp_path / "pieces" / f"train.{lang}"):
            counts.update(line.split())
    entries = [line.split() for line in read_lines(tmp_path / "data-bin/dict.src.txt")]
    known = {piece: int(count) for piece, count in entries if not piece.startswith("madeupword")}
    assert known == counts
    assert list(known.values()) == sorted(known.values(), reverse=True)


def test_given_model_and_dictionary_are_used(preprocess_here, text, tmp_path):
    run(text, tmp_path / "first", "--vocab-size", 300)
    model, dictionary = tmp_path / "first/spm.model", tmp_path / "first/dict.txt"
    run(text, tmp_path / "again", "--models", model, "--dicts", dictionary)
    for name in ("spm.model", "dict.txt", "pieces/train.tgt", "data-bin/train.src-tgt.src.bin"):
        again = (tmp_path / "again" / name).read_bytes()
        assert again == (tmp_path / "first" / name).read_bytes()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--models", "a", "b"], "--models: 2 files; expected 1"),
        (["--dicts", "a", "--separate"], "--dicts: 1 files; expected 2"),
        (
            ["--bpe", "subword_nmt"],
            "--bpe subword_nmt does not list its pieces; expected --counted",
        ),
        (["--models", "none"], "none: not found; expected a file made before"),
    ],
)
def test_options_that_do_not_fit_are_refused(text, tmp_path, capsys, options, message):
    with pytest.raises(SystemExit) as stop:
        run(text, tmp_path, *options)
    assert stop.value.code == 2
    assert capsys.readouterr().err.splitlines()[-1] == f"prepare.py: {message}"


def test_missing_and_unequal_files_are_refused(text, tmp_path, capsys):
    with pytest.raises(SystemExit) as stop:
        run(tmp_path, tmp_path)
    assert stop.value.code == 2
    message = capsys.readouterr().err.splitlines()[-1]
    assert message.startswith("prepare.py: ") and message.endswith(
        "train.src: No such file or directory; expected a text file"
    )
    write_lines(tmp_path / "train.src", ["a", "b"])
    write_lines(tmp_path / "train.tgt", ["c"])
    with pytest.raises(InputError, match="expected as many in both"):
        prepare.prepare(tmp_path, tmp_path)
