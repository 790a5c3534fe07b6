"""WordPiece: hand-made words, and the tokeniser that BERT came with where it is installed."""

from __future__ import annotations

import importlib
import unicodedata

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fairseq_normalign.host.wordpiece import WordPiece

LETTERS = "abcdefghijklmnopqrstuvwxyzABEÉéßñ0123456789.,;!?'\"-[]#@$的人ñカα"
VOCABULARY = [
    *("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "un", "##aff", "##able", "##s"),
    *LETTERS,
    *(f"##{letter}" for letter in LETTERS if letter.isalnum()),
]
ALIKE = {*range(0x4E10, 0x9FF0), *range(0xAC10, 0xD7A0), *range(0x12000, 0x1D000)}
CASES = {
    "lowercased": {},
    "cased": {"lowercase": False},
    "accents kept": {"strip_accents": False},
    "cased, accents stripped": {"lowercase": False, "strip_accents": True},
    "ideographs together": {"split_ideographs": False},
}


@pytest.mark.parametrize(
    ("text", "options", "expected"),
    [
        ("unaffable", {}, "un ##aff ##able"),
        ("The unaffables", {}, "the un ##aff ##able ##s"),
        ("The", {"lowercase": False}, "The"),  # no T: unknown, as a whole
        ("the.the", {}, "the . the"),
        ("don't", {}, "d ##o ##n ' t"),
        ("a$b", {}, "a $ b"),  # all of ASCII but letters and digits is a sign
        ("É", {}, "e"),
        ("É", {"strip_accents": False}, "é"),
        ("E\u0301", {"lowercase": False}, "É"),  # composed first
        ("的人", {}, "的 人"),
        ("的人", {"split_ideographs": False}, "的 ##人"),
        ("カカ", {}, "カ ##カ"),  # syllables are no ideographs
        ("a\u00adb\u200bc\x00d\ufffde", {}, "a ##b ##c ##d ##e"),  # control characters vanish
        ("a\u00a0b\u2003c\u2028d\re", {}, "a b c d e"),  # white space of all kinds
        ("a" * 100, {}, "a " + "##a " * 99),
        ("a" * 101, {}, "a" * 101),  # too long: unknown
        ("a☃", {}, "a☃"),
        ("a[MASK].", {}, "a [MASK] ."),
        ("[mask]", {}, "[ m ##a ##s ##k ]"),
        ("[UNK]", {}, "[UNK]"),
        ("", {}, ""),
        (" \u200b ", {}, ""),
    ],
)
def test_hand_made(text, options, expected):
    assert WordPiece(VOCABULARY, **options).encode(text) == expected.strip()


def original(folder, case: str):
    """The tokeniser of Hugging Face that is written in Python."""
    module = "transformers.models.bert.tokenization_bert"
    for name, kind in ((f"{module}_legacy", "BertTokenizerLegacy"), (module, "BertTokenizer")):
        try:
            tokenizer = getattr(importlib.import_module(name), kind)
        except (ImportError, AttributeError):
            continue
        vocabulary = folder / "vocab.txt"
        vocabulary.write_text("".join(f"{piece}\n" for piece in VOCABULARY), encoding="utf-8")
        options = CASES[case]
        return tokenizer(
            str(vocabulary),
            do_lower_case=options.get("lowercase", True),
            strip_accents=options.get("strip_accents"),
            tokenize_chinese_chars=options.get("split_ideographs", True),
        )
    pytest.skip("transformers is not installed, whose tokeniser is compared")


@pytest.fixture(scope="module", params=CASES)
def both(request, tmp_path_factory):
    theirs = original(tmp_path_factory.mktemp("bert"), request.param)
    return WordPiece(VOCABULARY, **CASES[request.param]), theirs


def as_known(pieces: list[str]) -> list[str]:
    return [piece if piece in VOCABULARY else "[UNK]" for piece in pieces]


def test_every_character_is_split_as_by_the_original(both):
    """Between letters, where it may vanish, part them, or stay."""
    ours, theirs = both
    for code in range(0x20010):
        character = chr(code)
        if unicodedata.category(character) in ("Cn", "Co", "Cs") or code in ALIKE:
            continue
        text = f"aB{character}c"
        assert ours.words(text) == theirs.basic_tokenizer.tokenize(text), hex(code)


@settings(deadline=None, max_examples=300)
@given(st.text(st.one_of(st.sampled_from(LETTERS + " \t"), st.characters(codec="utf-8"))))
@example("the [MASK].unaffables,É的人 [UNK]")
@example("\u1e9e \u0130 \u03f4 \ufb01 \u212b a\u0327\u0301")
def test_text_is_split_as_by_the_original(both, text):
    ours, theirs = both
    if any(name in text for name in ("[CLS]", "[SEP]", "[PAD]")):
        return
    assert as_known(ours.pieces(text)) == theirs.tokenize(text)
