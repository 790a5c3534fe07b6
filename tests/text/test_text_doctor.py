"""The doctor of texts: mistakes are named, and nothing is said of text that is as it should be."""

from __future__ import annotations

import itertools
from unicodedata import normalize

import pytest

from fairseq_normalign.text.text_doctor import (
    Reading,
    Vocabulary,
    examine,
    unjoined,
    wrong_scheme,
)
from fairseq_normalign.text.words import join_pieces, word_ids
from tests.made_up_text import by_codes, by_model, counts, segmented, text_of

SCHEMES = {"codes": "subword_nmt", "model": "sentencepiece"}


def as_words(line: str) -> list[str]:
    return line.split()


def diagnose(vocabulary, segment, lines, scheme):
    """Of text that is segmented here, word by word."""
    reading = Reading(vocabulary, scheme, segmented_here=True)
    for line in lines:
        reading.add(*segmented(segment, line))
    return examine(reading)


def diagnose_pieces(vocabulary, segment, lines, scheme):
    """Of text that came as pieces."""
    reading = Reading(vocabulary, scheme, segmented_here=False)
    for line in lines:
        pieces = segment(line)
        ids = word_ids(pieces, scheme)
        reading.add(join_pieces(pieces, ids, scheme), pieces, ids)
    return examine(reading)


def held_out(language: str) -> list[str]:
    return text_of(language, seed=2, lines=100)


FORMS = {
    "codes": (by_codes("de"), "subword_nmt", "NFC"),
    "words": (as_words, "none", "NFC"),
    "accents apart": (as_words, "none", "NFD"),
}


@pytest.mark.parametrize("name", FORMS)
def test_text_of_another_form_of_unicode(name):
    """Accents that are letters of their own, for a model that has them on letters; or not."""
    segment, scheme, form = FORMS[name]
    lines = [normalize(form, line) for line in text_of("de")]
    vocabulary = Vocabulary(counts(segment, lines))
    assert diagnose(vocabulary, segment, lines[:100], scheme) is None
    other = "NFC" if form == "NFD" else "NFD"
    swapped_form = [normalize(other, line) for line in lines[:100]]
    diagnosis = diagnose(vocabulary, segment, swapped_form, scheme)
    assert (diagnosis.certain, diagnosis.remedy) == (scheme == "none", "form")
    assert f"are not in Unicode's form {form}, as the dictionary is" in diagnosis.symptom


RIGHT = {
    **{f"codes, {n}": (by_codes, {"merges": n}) for n in (5, 300, 1500)},
    **{f"model, {n}": (by_model, {"vocab_size": n}) for n in (60, 1500)},
    "unigram": (by_model, {"model_type": "unigram"}),
    "characters": (by_model, {"model_type": "char"}),
    "suffix": (by_model, {"treat_whitespace_as_suffix": True}),
    "byte fallback": (by_model, {"byte_fallback": True, "vocab_size": 700}),
}


@pytest.mark.parametrize("name", RIGHT)
@pytest.mark.parametrize("joint_codes", [True, False])
@pytest.mark.parametrize("joint_dictionary", [True, False])
def test_nothing_is_said_of_right_text(name, joint_codes, joint_dictionary):
    build, options = RIGHT[name]
    scheme = "subword_nmt" if build is by_codes else "sentencepiece"
    for language in ("de", "en"):
        segment = build(*(("de", "en") if joint_codes else (language,)), **options)
        lines = text_of("de") + text_of("en") if joint_dictionary else text_of(language)
        counted = counts(segment, lines)
        not_counted = dict.fromkeys(counted, 1)
        for vocabulary in (Vocabulary(counted), Vocabulary(not_counted)):
            assert wrong_scheme([vocabulary], scheme, segmented_here=True) is None
            assert diagnose(vocabulary, segment, held_out(language), scheme) is None
            assert diagnose_pieces(vocabulary, segment, held_out(language), scheme) is None
            for line in held_out(language)[:20]:  # single sentences
                assert diagnose(vocabulary, segment, [line], scheme) is None
                assert diagnose_pieces(vocabulary, segment, [line], scheme) is None
                assert (
                    diagnose_pieces(vocabulary, segment, [" ".join(line.split()[:2])], scheme)
                    is None
                )


def test_characters_are_joined_at_what_stands_for_a_space():
    def characters(line):
        return list(line.replace(" ", "▁"))

    vocabulary = Vocabulary(counts(characters, text_of("de")))
    assert vocabulary.scheme == "sentencepiece"
    assert wrong_scheme([vocabulary], "sentencepiece", segmented_here=False) is None
    assert diagnose_pieces(vocabulary, characters, held_out("de"), "sentencepiece") is None
    assert diagnose_pieces(vocabulary, characters, held_out("de"), "none").remedy == "join"


def test_nothing_is_said_of_a_language_without_spaces():
    together = ["".join(line.split()) for line in text_of("de")]
    segment = by_model("de")
    vocabulary = Vocabulary(counts(segment, together))
    lines = ["".join(line.split()) for line in held_out("de")]
    assert diagnose(vocabulary, segment, lines, "sentencepiece") is None
    assert diagnose_pieces(vocabulary, segment, lines, "sentencepiece") is None


# Mistakes

SEGMENTS = {"codes": by_codes("de"), "model": by_model("de")}


@pytest.mark.parametrize("kind", SEGMENTS)
@pytest.mark.parametrize("named", [True, False])
def test_words_for_a_model_of_pieces(kind, named):
    vocabulary = Vocabulary(counts(SEGMENTS[kind], text_of("de")))
    scheme = SCHEMES[kind] if named else "none"
    diagnosis = diagnose_pieces(vocabulary, as_words, held_out("de"), scheme)
    assert diagnosis.certain
    assert (diagnosis.remedy, diagnosis.scheme) == ("segment", SCHEMES[kind])
    assert "the text is not segmented" in diagnosis.symptom
    several = diagnose_pieces(vocabulary, as_words, held_out("de")[:2], scheme)
    assert several.remedy == "segment"


@pytest.mark.parametrize("build", [by_codes, by_model])
@pytest.mark.parametrize(("language", "other"), [("de", "en"), ("en", "de")])
def test_codes_of_the_other_language(build, language, other):
    scheme = "subword_nmt" if build is by_codes else "sentencepiece"
    vocabulary = Vocabulary(counts(build(language), text_of(language)))
    diagnosis = diagnose(vocabulary, build(other), held_out(language), scheme)
    assert diagnosis.certain
    assert diagnosis.remedy == "codes"
    assert "that the dictionary has whole are split" in diagnosis.symptom
    # Who segmented the text elsewhere may have sampled: BPE-dropout.
    elsewhere = diagnose_pieces(vocabulary, build(other), held_out(language), scheme)
    assert (elsewhere.certain, elsewhere.remedy) == (False, "codes")


@pytest.mark.parametrize("kind", SEGMENTS)
def test_pieces_that_are_segmented_once_more(kind):
    segment = SEGMENTS[kind]
    vocabulary = Vocabulary(counts(segment, text_of("de")))
    lines = [" ".join(segment(line)) for line in held_out("de")]
    diagnosis = diagnose(vocabulary, segment, lines, SCHEMES[kind])
    assert diagnosis.certain
    assert diagnosis.remedy == "twice"


@pytest.mark.parametrize("kind", [*SEGMENTS, "words"])
def test_cased_text_for_a_lowercased_model(kind):
    segment = SEGMENTS.get(kind, as_words)
    vocabulary = Vocabulary(counts(segment, text_of("de")))
    scheme = SCHEMES.get(kind, "none")
    lines = [" ".join(map(str.capitalize, line.split())) for line in held_out("de")]
    diagnosis = diagnose(vocabulary, segment, lines, scheme)
    assert (diagnosis.certain, diagnosis.remedy) == (True, "lowercase")
    one = diagnose(vocabulary, segment, [held_out("de")[0].capitalize()], scheme)
    assert (one.certain, one.remedy) == (False, "lowercase")
    # A cased model, and a stray capital.
    cased = Vocabulary(counts(segment, text_of("de")) | counts(segment, lines))
    assert diagnose(cased, segment, lines, scheme) is None
    stray = [*held_out("de"), held_out("de")[0].capitalize()]
    assert diagnose(vocabulary, segment, stray, scheme) is None


def test_text_of_another_model():
    vocabulary = Vocabulary(counts(as_words, text_of("de")))
    diagnosis = diagnose_pieces(vocabulary, as_words, held_out("en"), "none")
    assert (diagnosis.certain, diagnosis.remedy) == (True, "model")
    few = diagnose_pieces(vocabulary, as_words, held_out("en")[:2], "none")
    assert (few.certain, few.remedy) == (False, "model")


@pytest.mark.parametrize("kind", SEGMENTS)
def test_pieces_that_nobody_said_how_to_join(kind):
    vocabulary = Vocabulary(counts(SEGMENTS[kind], text_of("de")))
    diagnosis = diagnose_pieces(vocabulary, SEGMENTS[kind], held_out("de"), "none")
    assert (diagnosis.certain, diagnosis.remedy) == (False, "join")
    assert diagnosis == unjoined(vocabulary, "none")
    assert unjoined(vocabulary, SCHEMES[kind]) is None


# Schemes


def marked(scheme: str) -> Vocabulary:
    forms = {
        "sentencepiece": "▁{}",
        "subword_nmt": "{}@@",
        "gpt2": "Ġ{}",
        "none": "{}",
    }
    words = [*range(70), *(forms[scheme].format(number) for number in range(30))]
    return Vocabulary(dict.fromkeys(map(str, words), 1))


@pytest.mark.parametrize(
    ("shown", "named"),
    list(itertools.product(["sentencepiece", "subword_nmt", "gpt2"], repeat=2)),
)
def test_a_scheme_that_the_dictionary_does_not_show(shown, named):
    diagnosis = wrong_scheme([marked(shown)], named, segmented_here=False)
    if shown == named:
        assert diagnosis is None
        return
    assert diagnosis.certain
    assert (diagnosis.remedy, diagnosis.scheme) == ("scheme", shown)
    assert f"{named} is named, but 30 of the dictionary's 100 symbols carry" in diagnosis.symptom


@pytest.mark.parametrize(("scheme", "remedy"), [("sentencepiece", "words"), ("gpt2", "numbers")])
def test_a_mark_that_no_symbol_has(scheme, remedy):
    diagnosis = wrong_scheme([marked("none")] * 2, scheme, segmented_here=False)
    assert (diagnosis.certain, diagnosis.remedy) == (True, remedy)
    assert "every sentence would be one word" in diagnosis.symptom
    assert wrong_scheme([marked("none")] * 2, scheme, segmented_here=True) is None
    assert wrong_scheme([marked("none")] * 2, "subword_nmt", segmented_here=False) is None


def test_bert_is_told_to_split_and_lowercases_by_itself():
    letters = "abcdefghijklmnopqrstuvwxyz"
    pieces = ["the", "cat", *letters, *(f"##{letter}" for letter in letters)]
    vocabulary = Vocabulary(dict.fromkeys(pieces, 1))
    assert vocabulary.scheme == "bert"
    assert vocabulary.lowercased
    assert vocabulary.has_whole("cat")
    assert not vocabulary.has_whole("a@@")
    lines = ["The Cat saw Another Thing there today"] * 30
    diagnosis = diagnose_pieces(vocabulary, as_words, lines, "none")
    assert diagnosis.certain
    assert (diagnosis.remedy, diagnosis.scheme) == ("segment", "bert")
