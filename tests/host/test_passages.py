"""One or two passages of a text as masked language models read them."""

from __future__ import annotations

from argparse import Namespace

import pytest
from fairseq.data import Dictionary
from fairseq.tasks.masked_lm import MaskedLMTask

from fairseq_normalign.errors import InputError
from fairseq_normalign.host.lengths import Limits, truncated
from fairseq_normalign.host.pairs import PairReader
from fairseq_normalign.host.special_tokens import mask_of
from fairseq_normalign.host.wordpiece import WordPiece
from fairseq_normalign.plugin.masked import BertDictionary, BertTask

PIECES = ["the", "cat", "sat", "un", "##aff", "##able", ".", "[MASK]"]


def reader_of(kind, dictionary, **options) -> PairReader:
    for piece in PIECES:
        dictionary.add_symbol(piece)
    return PairReader(kind(Namespace(), dictionary), **options)


@pytest.fixture
def bert() -> PairReader:
    return reader_of(BertTask, BertDictionary(), bpe=WordPiece(PIECES), scheme="bert")


@pytest.fixture
def roberta() -> PairReader:
    return reader_of(MaskedLMTask, Dictionary())


def symbols(reader, text) -> str:
    pair = reader.pair(text, None, "line 1")
    return " ".join(reader.symbols(pair.source.tokens.tolist(), "source"))


def test_one_passage(bert, roberta):
    assert symbols(bert, "The cat.") == "[CLS] the cat . [SEP]"
    assert symbols(bert, "") == "[CLS] [SEP]"
    assert symbols(roberta, "the cat") == "<s> the cat </s>"


def test_two_passages(bert, roberta):
    assert symbols(bert, "the cat\tsat\n") == "[CLS] the cat [SEP] sat [SEP]"
    assert symbols(roberta, "the cat\tsat\n") == "<s> the cat </s> </s> sat </s>"


def test_words_are_counted_through_both_passages(bert):
    source = bert.pair("The Unaffable\tcat. ☃ sat", None, "line 1").source
    assert source.words == [-1, 0, 1, 1, 1, -1, 2, 2, 3, 4, -1]
    assert source.text == ["The", "Unaffable", "cat.", "☃", "sat"]
    assert source.unknown == ("☃",)
    assert bert.source.pieces(source) == ["the", "un", "##aff", "##able", "cat", ".", "☃", "sat"]


def test_a_mask_in_the_text(bert):
    assert symbols(bert, "the [MASK].") == "[CLS] the [MASK] . [SEP]"
    assert mask_of(bert.task) == bert.task.source_dictionary.index("[MASK]")


def test_the_second_passage_is_cut_first(bert):
    pair = bert.pair("the cat\tsat .", None, "line 1")
    assert truncated(pair, Limits(6)).source.words == [-1, 0, 1, -1, 2, -1]
    assert truncated(pair, Limits(4)).source.words == [-1, 0, -1, -1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a\tb\tc", "source line 1: 2 TABs between 3 words; expected one TAB, with a passage"),
        ("a b\t", "source line 1: 1 TABs between 2 words; expected one TAB, with a passage"),
        ("\t", "source line 1: 1 TABs between 0 words"),
        ("a [SEP] b", r"source line 1: the text holds '\[SEP\]'; expected it without \[CLS\]"),
    ],
)
def test_what_is_ambiguous_is_refused(text, message, bert):
    with pytest.raises(InputError, match=message):
        bert.pair(text, None, "line 1")
