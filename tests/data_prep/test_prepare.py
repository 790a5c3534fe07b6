"""From text to data-bin, with the real SentencePiece and fairseq-preprocess."""

from __future__ import annotations

import prepare
import pytest
import sentencepiece
import synthetic
from lines import read_lines, write_lines

from fairseq_normalign.errors import InputError


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    folder = tmp_path_factory.mktemp("text")
    synthetic.main([str(folder), "--train", "2000", "--valid", "30", "--test", "30"])
    return folder


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


def test_pieces_give_the_text_back_and_split_words(text, tmp_path):
    run(text, tmp_path)
    model = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "spm.model"))
    assert model.get_piece_size() == 1000
    lines = list(read_lines(text / "train.src"))
    pieces = [line.split() for line in read_lines(tmp_path / "pieces" / "train.src")]
    assert [model.decode(line) for line in pieces] == lines
    assert sum(map(len, pieces)) > 1.3 * sum(len(line.split()) for line in lines)


def test_separate_vocabularies_without_dummy_prefix(text, tmp_path):
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


def test_white_space_of_any_kind_separates_words(text, tmp_path):
    lines = list(read_lines(text / "train.src"))
    spaced = [line.replace(" ", "\u00a0 ") for line in lines]
    prepare.train_model(spaced, tmp_path / "spm", 300, dummy_prefix=True)
    model = sentencepiece.SentencePieceProcessor(model_file=str(tmp_path / "spm.model"))
    assert "\u00a0" not in (tmp_path / "spm.vocab").read_text(encoding="utf-8")
    assert list(prepare.encode(model, spaced)) == list(prepare.encode(model, lines))


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


def test_too_large_a_vocabulary_is_refused(text, tmp_path):
    with pytest.raises(InputError, match=r"spm: SentencePiece cannot make 90000 pieces"):
        prepare.prepare(text, tmp_path, vocab_size=90000)


def test_a_failing_preprocess_shows_its_output(tmp_path):
    (tmp_path / "pieces").mkdir()
    with pytest.raises(
        RuntimeError, match=r"(?s)fairseq-preprocess ended with status 1:.*dict\.txt"
    ):
        prepare.binarize(tmp_path, ("src", "tgt"), separate=False)
