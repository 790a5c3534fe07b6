"""Binarised data as fairseq writes them, and files that are damaged, foreign or not there."""

from __future__ import annotations

import warnings
from argparse import Namespace
from functools import partial
from pathlib import Path

import pytest
import torch

from fairseq_normalign.errors import InputError, MissingSubset
from fairseq_normalign.host.binarised import binarised_pairs
from fairseq_normalign.host.pairs import PairReader
from fairseq_normalign.host.raw_corpus import corpus
from tests.conftest import ToyTask, ready_model
from tests.stored import write_binarised

SOURCE = ["w1 w2", "w3", "", "w1 w4 w5 w6"]
TARGET = ["w7", "w8 w9", "w1", "w2 w3"]


@pytest.fixture
def task(tmp_path):
    task = ToyTask()
    task.args.data = str(tmp_path)
    return task


@pytest.fixture
def data(tmp_path, task) -> Path:
    write_binarised(tmp_path / "test.a-b.a", SOURCE, task.source_dictionary)
    write_binarised(tmp_path / "test.a-b.b", TARGET, task.source_dictionary)
    return tmp_path


def texts(task, **options) -> list[tuple[str, str]]:
    pairs = binarised_pairs("test", PairReader(task, **options))
    return [(" ".join(pair.source.text), " ".join(pair.target.text)) for pair in pairs]


def test_pairs_come_in_the_order_of_the_text(data, task):
    assert texts(task) == list(zip(SOURCE, TARGET, strict=True))


def test_the_other_order_of_the_languages_is_found(data, task):
    task.args.source_lang, task.args.target_lang = "b", "a"
    assert texts(task) == list(zip(TARGET, SOURCE, strict=True))


def test_raw_text_is_read(tmp_path, task):
    """fairseq-preprocess --dataset-impl raw."""
    for side, lines in (("a", SOURCE), ("b", TARGET)):
        (tmp_path / f"test.a-b.{side}").write_text("".join(f"{line}\n" for line in lines))
    assert texts(task) == list(zip(SOURCE, TARGET, strict=True))


def test_sources_alone(tmp_path, task):
    task.args.source_lang = None
    write_binarised(tmp_path / "test", SOURCE, task.source_dictionary)
    pairs = binarised_pairs("test", PairReader(task))
    assert [" ".join(pair.source.text) for pair in pairs] == SOURCE
    with pytest.raises(MissingSubset, match="no binarised subset 'valid'"):
        binarised_pairs("valid", PairReader(task))


def shortened(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-2])


FOREIGN = [b"", b"x", b"PK\x03\x04" * 20, b"\x00" * 100, b"HUFFIDX\x00\x00" + bytes(50)]
NO_INDEX = r"a\.idx: not an index of fairseq-preprocess --dataset-impl mmap, or a damaged one"
MISSING = r"test\.a-b\.a and test\.a-b\.b with \.idx and"
DAMAGED = [
    *((file, Path.unlink, MISSING) for file in ("a.idx", "a.bin", "b.idx", "b.bin")),
    *(("a.idx", partial(Path.write_bytes, data=content), NO_INDEX) for content in FOREIGN),
    ("a.bin", shortened, r"a\.bin: ends before sentence 4 of 4; is the file cut off"),
    (
        "b",
        lambda path: write_binarised(path, TARGET[:2], ToyTask().source_dictionary),
        "test.a-b.a has 4 sentences, .*b 2; expected as many",
    ),
]


@pytest.mark.parametrize(("file", "damage", "message"), DAMAGED)
def test_damaged_files(data, task, file, damage, message):
    damage(data / f"test.a-b.{file}")
    with pytest.raises((InputError, MissingSubset), match=message):
        texts(task)


def test_data_of_another_dictionary(data, task):
    small = ToyTask(symbols=4)
    small.args.data = str(data)
    with pytest.raises(
        InputError,
        match=r"of sentence \d: token \d+ is not in the dictionary, which has 0 to 7; were",
    ):
        texts(small)


def test_unknown_pieces_are_told_once_for_each_side(tmp_path, task):
    sides = {"a": ["w1 never w2", "heard of"], "b": ["w1 w2", "w3"]}
    for side, lines in sides.items():
        write_binarised(tmp_path / f"test.a-b.{side}", lines, task.source_dictionary)
    args = Namespace(
        gen_subset="test", source_file=None, target_file=None, hypotheses=None, too_long="fail"
    )

    def read(scheme):
        streams = corpus(args, [ready_model(task, scheme=scheme)]).streams
        return [list(pairs) for pairs in streams]

    with pytest.warns(UserWarning) as caught:
        read("subword_nmt")
    assert [str(warning.message) for warning in caught] == [
        "source: some pieces are <unk>, which does not tell where words begin: they may be joined "
        "wrongly there, unlike in text"
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read("none")  # each piece is a word


def test_special_tokens_do_not_come_twice(data, task):
    (pair, *_) = binarised_pairs("test", PairReader(task))
    assert pair.source.tokens.tolist() == [
        *(task.source_dictionary.index(word) for word in SOURCE[0].split()),
        task.source_dictionary.eos(),
    ]
    assert pair.source.tokens.dtype == torch.long
