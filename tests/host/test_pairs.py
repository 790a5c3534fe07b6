"""Text and binarised sentences to pairs, and what readers say of text that does not fit."""

from __future__ import annotations

import warnings
from argparse import Namespace
from collections.abc import Mapping

import pytest
import sentencepiece
import torch
from fairseq.data import Dictionary
from fairseq.tasks.masked_lm import MaskedLMTask

from fairseq_normalign.errors import InputError
from fairseq_normalign.host.lengths import Limits, truncated
from fairseq_normalign.host.pairs import EXAMINED_PAIRS, PairReader, text_pairs
from fairseq_normalign.host.special_tokens import mask_of
from fairseq_normalign.host.wordpiece import WordPiece
from fairseq_normalign.plugin.masked import BertDictionary, BertTask
from tests.conftest import ToyTask
from tests.made_up_text import by_codes, by_model, codes_of, counts, model_of, text_of


@pytest.fixture
def task():
    task = ToyTask()
    for symbol in ("▁das", "▁ha", "us", "d@@", "as"):
        task.source_dictionary.add_symbol(symbol)
    return task


def test_binarised_pieces_become_words(task):
    tokens = task.source_dictionary.encode_line("▁das ▁ha us", add_if_not_exist=False).long()
    pair = PairReader(task, scheme="sentencepiece").binarised_pair(tokens, tokens[2:], "")
    assert pair.source.words == [0, 1, 1, -1]
    assert pair.source.text == ["das", "haus"]
    assert torch.equal(pair.source.tokens, tokens)
    assert pair.target.text == ["us"]


def test_text_of_pieces_is_taken_as_it_is(task):
    dictionary = task.source_dictionary
    pair = PairReader(task, scheme="subword_nmt").pair("d@@ as haus", "", "")
    assert pair.source.words == [0, 0, 1, -1]
    assert pair.source.pieces == ["d@@", "as", "haus"]
    assert pair.source.tokens.tolist() == [
        *map(dictionary.index, ("d@@", "as")),
        dictionary.unk(),
        dictionary.eos(),
    ]


def test_each_side_may_be_joined_as_its_dictionary_shows(task):
    task.target_dictionary = Dictionary()
    pieces = {"source_dictionary": "li@@ nks a", "target_dictionary": "▁das ▁ha us"}
    for name, text in pieces.items():
        setattr(task, name, Dictionary())
        for symbol in text.split():
            getattr(task, name).add_symbol(symbol, 5)
    pair = PairReader(task, scheme=None).pair("li@@ nks a", "▁das ▁ha us", "")
    assert pair.source.text == ["links", "a"]
    assert pair.target.text == ["das", "haus"]
    task.target_dictionary.add_symbol("▁ha▁us")  # whose words cannot be told apart
    pair = PairReader(task, scheme=None).pair("l i | k s | a", "▁das ▁ha us", "")
    assert pair.target.text == ["▁das", "▁ha", "us"]


@pytest.mark.parametrize("blank", ["\xa0", "\u2009", "\u2028", "\u3000", "\x85"])
def test_tokens_are_those_of_fairseq_whatever_the_blanks(task, blank):
    """A no-break space, say, is part of a word, but fairseq never lets it into a dictionary."""
    text = f"w1{blank}w2 {blank} d@@ as{blank} w3{blank}{blank}us@@ w4"
    source = PairReader(task, scheme="subword_nmt").pair(text, "", "").source
    expected = task.source_dictionary.encode_line(text, add_if_not_exist=False)
    assert source.tokens.tolist() == expected.tolist()
    assert source.words == [0, 0, 2, 2, 3, 3, 3, -1]
    assert len(source.text) == 4


# Files of BPEs, one for each side


def dictionary(symbols: Mapping[str, int]) -> Dictionary:
    of_symbols = Dictionary()
    for symbol, count in symbols.items():
        of_symbols.add_symbol(symbol, count)
    return of_symbols


class TwoLanguages:
    """A task of two languages, with dictionaries of their own."""

    def __init__(self, source: Mapping[str, int], target: Mapping[str, int]):
        self.args = Namespace(source_lang="de", target_lang="en", data="nowhere")
        self.source_dictionary, self.target_dictionary = dictionary(source), dictionary(target)


@pytest.fixture(scope="module")
def languages():
    """Each language with codes of its own."""
    return TwoLanguages(*(counts(by_codes(name), text_of(name)) for name in ("de", "en")))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("codes")
    for name in ("de", "en"):
        (folder / f"codes.{name}").write_text(codes_of((name,)))
    return folder


PAIRS = list(zip(text_of("de", seed=2), text_of("en", seed=2), strict=True))[:EXAMINED_PAIRS]


def pieces(pair, reader) -> tuple[list[str], ...]:
    """The pieces of both sides, with those that are unknown."""
    return pair.source.pieces, pair.target.pieces


def expected_pieces(source: str, target: str) -> tuple[list[str], list[str]]:
    return by_codes("de")(source), by_codes("en")(target)


def codes_args(folder, **options) -> Namespace:
    return Namespace(
        **{
            "bpe": "subword_nmt",
            "post_process": None,
            "tokenizer": None,
            "source_bpe_codes": str(folder / "codes.de"),
            "target_bpe_codes": str(folder / "codes.en"),
            **options,
        }
    )


def test_codes_for_each_side(languages, folder):
    reader = PairReader.from_args(languages, codes_args(folder))
    for texts, pair in zip(PAIRS, text_pairs(PAIRS, reader), strict=True):
        assert pieces(pair, reader) == expected_pieces(*texts)


def test_the_model_of_the_other_direction_reads_the_sides_swapped(languages, folder):
    backward = TwoLanguages(*(counts(by_codes(name), text_of(name)) for name in ("en", "de")))
    reader = PairReader.from_args(backward, codes_args(folder), reverse=True)
    swapped = [(target, source) for source, target in PAIRS]
    for texts, pair in zip(PAIRS, text_pairs(swapped, reader), strict=True):
        assert pieces(pair, reader)[::-1] == expected_pieces(*texts)


def test_one_file_of_codes_for_two_languages_is_refused(languages, folder):
    args = codes_args(
        folder, source_bpe_codes=None, target_bpe_codes=None, bpe_codes=str(folder / "codes.de")
    )
    with pytest.raises(
        InputError,
        match=r"target text: \d+ of \d+ words \(.*%\) that the dictionary has whole are split, and "
        r".*If the languages have one each, name both: --source-bpe-codes and --target-bpe-codes",
    ):
        list(text_pairs(PAIRS, PairReader.from_args(languages, args)))


@pytest.mark.parametrize("item", ["das haus", ("das haus",), ("a", "b", "c")])
def test_items_that_are_no_pairs_are_refused(languages, folder, item):
    reader = PairReader.from_args(languages, codes_args(folder))
    with pytest.raises(InputError, match=r"pair 2: .*: not a pair \(source, target\)"):
        list(text_pairs([PAIRS[0], item], reader))


SPLIT = "that the dictionary has whole are split"
SOURCES = [(de, None) for de, _ in PAIRS]


@pytest.fixture
def splitter():
    """A reader whose SentencePiece model splits words that the dictionary has whole."""

    def read(data="nowhere", **methods):
        pieces = counts(by_model("de"), text_of("de"))
        task = TwoLanguages(pieces, pieces)
        task.args.data = str(data)
        coarse = sentencepiece.SentencePieceProcessor(model_proto=model_of(("de",), vocab_size=200))
        names = ("encode", "normalize", "piece_to_id", "unk_id")
        known = {name: getattr(coarse, name) for name in names}
        bpe = Namespace(sp=Namespace(**{**known, **methods}))
        return PairReader(task, bpe=bpe, scheme="sentencepiece")

    return read


def test_a_unigram_model_may_split_what_it_knows_whole(splitter):
    with pytest.raises(InputError, match=SPLIT):
        list(text_pairs(SOURCES, splitter()))
    own = sentencepiece.SentencePieceProcessor(model_proto=model_of(("de",)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        list(text_pairs(SOURCES, splitter(piece_to_id=own.piece_to_id)))


def test_the_model_of_an_imported_folder_is_its_own(splitter, tmp_path):
    """OPUS-MT, say, has a model for each language, and a joint dictionary."""
    with pytest.raises(InputError, match=SPLIT):
        list(text_pairs(SOURCES, splitter(tmp_path)))
    (tmp_path / "reading.json").write_text("{}")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        list(text_pairs(SOURCES, splitter(tmp_path)))


def test_words_that_are_spelled_as_special_tokens_are_unknown(task):
    """fairseq would take <pad> for padding, and mask what is not there."""
    sentence = PairReader(task).pair("w1 <pad> </s> <s> <unk>", None, "").source
    unk, eos = task.source_dictionary.unk(), task.source_dictionary.eos()
    assert sentence.tokens.tolist()[1:] == [unk] * 4 + [eos]
    assert sentence.text == ["w1", "<pad>", "</s>", "<s>", "<unk>"]


# The doctor


def segmented_pairs() -> list[tuple[str, str]]:
    return [tuple(map(" ".join, expected_pieces(*texts))) for texts in PAIRS]


def test_segmented_text_needs_its_scheme_alone(languages):
    reader = PairReader.from_names(languages, scheme="@@ ")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pairs = list(text_pairs(segmented_pairs(), reader))
    for texts, pair in zip(PAIRS, pairs, strict=True):
        assert (pair.source.text, pair.target.text) == tuple(text.split() for text in texts)


@pytest.mark.parametrize("scheme", [None, "subword_nmt"])
def test_text_that_is_not_segmented_is_refused(languages, scheme):
    reader = PairReader.from_names(languages, scheme=scheme)
    with pytest.raises(
        InputError,
        match=r"source text: none of .* pieces carries '@@', as the dictionary's do, and .* are "
        "not in it: the text is not segmented; use --bpe subword_nmt with its model or codes; or",
    ):
        next(text_pairs(PAIRS, reader))


def test_pieces_that_count_as_words_are_told_once_for_each_side(languages):
    with pytest.warns(UserWarning) as caught:
        assert len(list(text_pairs(segmented_pairs(), PairReader(languages)))) == len(PAIRS)
    assert [str(warning.message) for warning in caught] == [
        f"{side} text: pieces carry '@@', and each of them counts as a word; to join them to "
        "words, use --remove-bpe subword_nmt"
        for side in ("source", "target")
    ]


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
    assert source.pieces == ["the", "un", "##aff", "##able", "cat", ".", "☃", "sat"]


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
        *((text, "source line 1: expected one TAB, with a") for text in ("a\tb\tc", "a b\t", "\t")),
        ("a [SEP] b", r"source line 1: the text holds '\[SEP\]'; expected it without \[CLS\]"),
    ],
)
def test_what_is_ambiguous_is_refused(text, message, bert):
    with pytest.raises(InputError, match=message):
        bert.pair(text, None, "line 1")
