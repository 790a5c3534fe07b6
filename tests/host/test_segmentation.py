"""Text to pieces by real BPEs: every piece has its word, whatever the text."""

from __future__ import annotations

import json
import sys
from argparse import Namespace

import pytest
import sentencepiece
from fairseq.data import encoders
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_normalign.errors import InputError
from fairseq_normalign.host.segmentation import (
    Segmentation,
    apply_reading,
    build_bpes,
    build_tokenizers,
    reading_file,
)
from fairseq_normalign.text.words import byte_letters, normalise_bpe_name, split_words
from tests.made_up_text import by_codes, codes_of, model_of, text_of


def spm(**options) -> Namespace:
    """What fairseq's SentencepieceBPE is, without its file."""
    model = model_of(("de",), **options)
    return Namespace(sp=sentencepiece.SentencePieceProcessor(model_proto=model))


RULES = ("nfkc", "nmt_nfkc", "identity", "nmt_nfkc_cf")
VARIANTS = {
    **{rule: {"normalization_rule_name": rule} for rule in RULES},
    "unigram": {"model_type": "unigram"},
    "char": {"model_type": "char"},
    "byte fallback": {"byte_fallback": True, "vocab_size": 400},
    "suffix": {"treat_whitespace_as_suffix": True},
    "no prefix": {"add_dummy_prefix": False},
    "spaces kept": {"remove_extra_whitespaces": False},
}
TRICKY = (
    "ab \u00f2\u032c\u1e73\u0301\u0300\ufffd\u200b\u00ad\u00a0\u3000\u2581@_|Ġ😀漢ﬁ…½İßŉ"
    "\u0085\u2028\x01\ufeff"
)
texts = st.text(st.one_of(st.sampled_from(TRICKY), st.characters(exclude_categories=["Cs"])))


def check(segmentation: Segmentation, text: str, pieces: list[str]) -> None:
    """The pieces are those of the BPE, and each has a word, in order."""
    words = split_words(text)
    segmented = segmentation(text)
    assert segmented.words == words
    assert segmented.symbols == pieces
    assert len(segmented.ids) == len(pieces)
    assert segmented.ids == sorted(segmented.ids)
    assert set(segmented.ids) <= set(range(max(len(words), 1)))


@pytest.mark.parametrize("variant", VARIANTS)
def test_any_text_through_sentencepiece(variant):
    bpe = spm(**VARIANTS[variant])
    segmentation = Segmentation(bpe, "sentencepiece")

    @settings(deadline=None, max_examples=100)
    @given(texts)
    def holds(text):
        pieces = bpe.sp.encode(" ".join(split_words(text)), out_type=str)
        check(segmentation, text, pieces)

    holds()


@settings(deadline=None, max_examples=100)
@given(texts)
def test_any_text_through_subword_nmt(text):
    encode = by_codes("de")
    bpe = Namespace(encode=lambda word: " ".join(encode(word)))
    pieces = [piece for piece in encode(" ".join(split_words(text))) if piece]
    check(Segmentation(bpe, "subword_nmt"), text, pieces)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ba \ufffd ba", [0, 2]),  # real Europarl text has it; SentencePiece makes it a space
        ("\ufffd", []),
        ("ba\ufffdba ba", [0, 0, 1]),
        ("", []),
    ],
)
def test_words_that_vanish_have_no_pieces(text, expected):
    segmented = Segmentation(spm(), "sentencepiece")(text)
    pieces = zip(segmented.pieces, segmented.ids, strict=True)
    assert [word for piece, word in pieces if piece != "▁"] == expected
    assert segmented.words == split_words(text)


# Files


def options(bpe: str | None, **files) -> Namespace:
    return Namespace(bpe=bpe, tokenizer=None, **files)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "codes").write_text(codes_of(("de",)))
    (tmp_path / "other.codes").write_text(codes_of(("en",)))
    merges = codes_of(("de",)).splitlines()[1:]
    (tmp_path / "fast").write_text(
        "".join(f"{merge} {100 - n}\n" for n, merge in enumerate(merges))
    )
    (tmp_path / "text").write_text("this is no code\n")
    return tmp_path


def test_a_file_for_each_side(folder):
    source, target = build_bpes(
        options(
            "subword_nmt",
            source_bpe_codes=str(folder / "codes"),
            target_bpe_codes=str(folder / "other.codes"),
        )
    )
    line = text_of("de")[0]
    assert source.encode(line).split() == by_codes("de")(line)
    assert target.encode(line).split() == by_codes("en")(line) != by_codes("de")(line)


def test_codes_of_fastbpe_need_no_package(folder):
    bpe, _ = build_bpes(options("fastbpe", bpe_codes=str(folder / "fast")))
    for line in text_of("de")[:20]:
        assert bpe.encode(line).split() == by_codes("de")(line)
        assert bpe.decode(bpe.encode(line)) == line


def test_a_piece_may_hold_what_else_ends_lines(tmp_path):
    (tmp_path / "fast").write_text("a \x85 9\na\x85 b</w> 3\n", encoding="utf-8")
    bpe, _ = build_bpes(options("fastbpe", bpe_codes=str(tmp_path / "fast")))
    assert bpe.encode("a\x85b ab") == "a\x85b a@@ b"


@pytest.mark.parametrize(
    ("bpe", "file", "message"),
    [
        ("sentencepiece", "missing", r"--bpe sentencepiece: file .*missing not found"),
        ("sentencepiece", "text", r"text.*; expected a SentencePiece model"),
        ("subword_nmt", "text", r"text: Error: invalid line 1 in BPE codes file: this is no code"),
        ("subword_nmt", "fast", r"fast: Error: invalid line 1 in BPE codes file"),
        ("fastbpe", "codes", r"codes: Error: invalid line 2 in BPE codes file"),
        ("bert", "missing", r"bert: .*missing: No such file or directory; expected the vocab.txt"),
        ("bert", "text", r"text: no piece begins with ##; expected the vocab.txt of a BERT"),
    ],
)
def test_a_file_that_is_none_is_refused_in_one_line(bpe, file, message, folder, capfd):
    option = {"sentencepiece": "sentencepiece_model", "bert": "bpe_vocab_file"}.get(
        bpe, "bpe_codes"
    )
    with pytest.raises(InputError, match=message) as caught:
        build_bpes(options(bpe, **{option: str(folder / file)}))
    assert "\n" not in str(caught.value)
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.parametrize("bpe", ["sentencepiece", "subword_nmt", "fastbpe", "bert"])
def test_a_bpe_without_its_file(bpe):
    with pytest.raises(InputError, match=f"--bpe {bpe}: its file is not named; use --"):
        build_bpes(options(bpe))


def test_wordpiece_reads_the_options_beside_its_vocabulary(tmp_path):
    vocabulary = tmp_path / "vocab.txt"
    vocabulary.write_text("das\n##s\nDas\n", encoding="utf-8")

    def pieces(**more) -> list[str]:
        bpe, same = build_bpes(options("bert", bpe_vocab_file=str(vocabulary), **more))
        assert bpe is same
        return Segmentation(bpe, "bert")("Dass").symbols

    assert pieces() == ["das", "##s"]
    assert pieces(bpe_cased=True) == ["Das", "##s"]
    (tmp_path / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    assert pieces() == ["Das", "##s"]
    (tmp_path / "tokenizer_config.json").write_text("{")
    with pytest.raises(InputError, match=r"tokenizer_config.json: not JSON"):
        pieces()


# Byte-level BPE


def byte_level_files(folder) -> dict[str, str]:
    """A small vocabulary of GPT-2's kind: all bytes, and some merges."""
    merges = [("Ġ", "b"), ("Ġb", "a"), ("b", "a"), ("Ã", "©")]
    pieces = [*byte_letters().values(), *("".join(merge) for merge in merges)]
    (folder / "encoder.json").write_text(
        json.dumps({piece: number for number, piece in enumerate(pieces)})
    )
    lines = ["#version: 0.2", *(" ".join(merge) for merge in merges), ""]
    (folder / "vocab.bpe").write_text("\n".join(lines), encoding="utf-8")
    return {
        "gpt2_encoder_json": str(folder / "encoder.json"),
        "gpt2_vocab_bpe": str(folder / "vocab.bpe"),
    }


def test_numbers_of_gpt2_are_pieces(tmp_path):
    bpe, _ = build_bpes(options("gpt2", **byte_level_files(tmp_path)))
    segmented = Segmentation(bpe, "gpt2")("ba ba caf\u00e9")
    assert all(symbol.isdigit() for symbol in segmented.symbols)
    assert segmented.pieces == ["ba", "Ġba", "Ġ", "c", "a", "f", "Ã©"]
    assert segmented.ids == [0, 1, 2, 2, 2, 2, 2]


def test_any_text_through_gpt2(tmp_path):
    bpe, _ = build_bpes(options("gpt2", **byte_level_files(tmp_path)))
    segmentation = Segmentation(bpe, "gpt2")

    @settings(deadline=None, max_examples=100)
    @given(texts)
    def holds(text):
        check(segmentation, text, split_words(bpe.encode(" ".join(split_words(text)))))

    holds()


def test_numbers_of_hugging_face_are_pieces(tmp_path):
    pytest.importorskip("tokenizers", reason="tokenizers is not installed, whose BPE is read")
    files = byte_level_files(tmp_path)
    bpe, _ = build_bpes(
        options(
            "hf_byte_bpe",
            bpe_vocab=files["gpt2_encoder_json"],
            bpe_merges=files["gpt2_vocab_bpe"],
            bpe_add_prefix_space=False,
        )
    )
    segmented = Segmentation(bpe, "gpt2")("ba ba")
    assert (segmented.pieces, segmented.ids) == (["ba", "Ġba"], [0, 1])
    assert Segmentation(bpe, "gpt2").printed("99999") == "99999"


def test_each_side_is_tokenised_by_the_rules_of_its_language(monkeypatch):
    built = []
    monkeypatch.setattr(
        "fairseq.data.encoders.build_tokenizer",
        lambda args: built.append((args.source_lang, args.target_lang)) or len(built),
    )
    args = Namespace(tokenizer="moses", source_lang=None, target_lang=None)
    assert build_tokenizers(args, ("de", "en")) == (1, 2)
    assert built == [("de", "en"), ("en", "de")]


# Tokenisers


def test_a_tokeniser_whose_package_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "sacremoses", None)
    args = Namespace(tokenizer="moses", moses_no_dash_splits=False, moses_no_escape=False)
    with pytest.raises(InputError, match=r"--tokenizer moses: .*sacremoses"):
        build_tokenizers(args, ("de", "en"))


def test_characters():
    """fairseq's BPE of single letters, with a mark of its own between words."""
    bpe = encoders.build_bpe(Namespace(bpe="characters"))
    segmented = Segmentation(bpe, normalise_bpe_name("characters"))("das  haus ▁x", "")
    assert segmented.symbols == bpe.encode("das haus ▁x").split(" ")
    assert segmented.ids == [0, 0, 0, 1, 1, 1, 1, 1, 2, 2, 2]
    assert segmented.words == ["das", "haus", "▁x"]


def unset_options() -> Namespace:
    return Namespace(bpe=None, sentencepiece_model=None)


def test_files_are_those_of_the_folder(tmp_path):
    for name, content in reading_file(bpe="sentencepiece", sentencepiece_model="a.spm").items():
        (tmp_path / name).write_text(content)
    args = unset_options()
    apply_reading(args, tmp_path)
    assert (args.bpe, args.sentencepiece_model) == ("sentencepiece", str(tmp_path / "a.spm"))


def test_no_name_leads_out_of_the_folder(tmp_path):
    (tmp_path / "reading.json").write_text('{"sentencepiece_model": "../../etc/x"}')
    args = unset_options()
    apply_reading(args, tmp_path)
    assert args.sentencepiece_model == str(tmp_path / "x")


@pytest.mark.parametrize(
    "text", ['{"bpe": 3}', '{"path": "model.pt"}', "{", "[]", '{"bpe": "bert", "bpe": "gpt2"}']
)
def test_other_options_are_refused(text, tmp_path):
    (tmp_path / "reading.json").write_text(text)
    with pytest.raises(InputError, match="expected a file of normalign import"):
        apply_reading(unset_options(), tmp_path)
