"""Recognise text that is not segmented as the model's text was, and say what would mend it.

A dictionary shows how its text was segmented: by the marks on its symbols, by the words that it has
whole, and by its letters. Text that was segmented in the same way carries these marks, splits none
of those words, and hardly has a piece that the dictionary lacks though it has all its letters. This
holds for large and small vocabularies, joint or not; a dictionary of words, or of characters none
of which stands for a space, shows no scheme, and its text is hardly judged.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple
from unicodedata import is_normalized

from fairseq_normalign.text.words import (
    SCHEMES,
    SPACES,
    byte_letters,
    is_marked,
    mark_of,
    without_mark,
)

# The bars below were put between what right and wrong segmentations of Europarl text gave, with
# vocabularies of 2,000 to 10,000 symbols by subword-nmt and SentencePiece (BPE and unigram).
EVIDENT = 0.1  # share of symbols with its mark that shows a scheme; there were 28 % to 90 %
IMPROBABLE = 1e-4  # chance of segmented text without a mark that is not believed
AVOIDABLE = 0.01  # of pieces the dictionary could spell: right 0.0 %, wrong from 0.6 % on
SPLIT = 0.03  # of words the dictionary has whole: right 0.00 %, wrong from 3.7 % on
SOME_SPLIT = 0.005
CAPITAL = 0.03  # of pieces that are unknown by their case; cased text had 5 % to 13 %
SOME_CAPITAL = 0.01
CASED = 0.001  # of symbols with a capital letter: below, the dictionary is lowercased
OTHER_FORM = 0.01  # of words; with umlauts or accents there are 5 % to 20 %
TWICE = 0.02  # of words that carry marks before they are segmented
FEW = 10  # cases; fewer are doubted, not refused
FEW_PIECES = 100

Form = Literal["NFC", "NFD"]

REMEDIES = {
    "scheme": "use --bpe or --remove-bpe {scheme}",
    "words": "use --remove-bpe with the scheme of the model's pieces, or neither",
    "numbers": "use --bpe with its files, which knows the pieces by number",
    "segment": "use --bpe {scheme} with its model or codes; or segmented text, and --remove-bpe "
    "{scheme} to join its pieces to words",
    "twice": "leave out --bpe, and name the scheme with --remove-bpe {scheme}",
    "codes": "is it the model's own BPE? If the languages have one each, name both: "
    "--source-bpe-codes and --target-bpe-codes, or --source-sentencepiece-model and "
    "--target-sentencepiece-model",
    "lowercase": "lowercase the text, a treebank by --lowercase",
    "form": "normalise the text to that form",
    "model": "is the text in the model's language, and are BPE (--bpe) and dictionary the model's?",
    "join": "to join them to words, use --remove-bpe {scheme}",
}


class Diagnosis(NamedTuple):
    """What is wrong with a text."""

    certain: bool  # whether it cannot be meant
    symptom: str
    remedy: str  # a key of REMEDIES
    scheme: str  # the one that the dictionary shows, or else the one that was named

    @property
    def advice(self) -> str:
        return f"{self.symptom}; {REMEDIES[self.remedy].format(scheme=self.scheme)}"


class Vocabulary:
    """What a dictionary tells of its text.

    Args:
        counts: how often each symbol was in the text, special tokens left out. Counts that nobody
            counted, all of them alike, do as well.
    """

    def __init__(self, counts: Mapping[str, int]) -> None:
        self.counts = counts
        self.letters = set().union(*counts)
        # How many symbols carry the mark of each scheme.
        self.marked = {name: sum(is_marked(symbol, name) for symbol in counts) for name in SCHEMES}
        best = max(SCHEMES, key=self.marked.__getitem__)
        is_evident = self.marked[best] >= EVIDENT * max(len(counts), 1)
        self.scheme = best if is_evident else self._scheme_of_letters()
        cased = sum(_has_capital(without_mark(symbol, self.scheme)) for symbol in counts)
        # Byte-level BPE prints bytes as letters that may be capitals.
        self.lowercased = self.scheme != "gpt2" and cased <= CASED * len(counts)

    @functools.cached_property
    def form(self) -> Form | None:
        """Unicode's form of the text: NFC, or NFD; None if nothing shows it."""
        composed = sum(not is_normalized("NFD", symbol) for symbol in self.counts)
        decomposed = sum(not is_normalized("NFC", symbol) for symbol in self.counts)
        if composed == decomposed:
            return None
        return "NFC" if composed > decomposed else "NFD"

    def _scheme_of_letters(self) -> str:
        """The scheme whose space is one of the symbols, where nearly all of them are letters."""
        words = sum(len(symbol) > 1 for symbol in self.counts)
        if words > EVIDENT * len(self.counts):
            return "none"
        return next((scheme for scheme, space in SPACES.items() if space in self.counts), "none")

    @functools.cached_property
    def expected_marks(self) -> float:
        """The share of pieces with a mark in the text that the dictionary was made from."""
        times = {symbol: max(count, 1) for symbol, count in self.counts.items()}
        marked = [times[symbol] for symbol in times if is_marked(symbol, self.scheme)]
        return sum(marked) / max(sum(times.values()), 1)

    def has_whole(self, word: str) -> bool:
        """Whether a word is one symbol."""
        if self.scheme == "gpt2":
            word = "".join(byte_letters()[byte] for byte in word.encode("utf-8", "replace"))
        if self.scheme in ("subword_nmt", "bert"):
            return word in self.counts
        mark = mark_of(self.scheme)
        return mark + word in self.counts or word + mark in self.counts

    def could_spell(self, piece: str) -> bool:
        """Whether the dictionary has all letters of an unknown piece, which has several."""
        letters = without_mark(piece, self.scheme)
        return len(letters) > 1 and self.letters.issuperset(letters)

    def lacks_case(self, piece: str) -> bool:
        """Whether a piece is unknown only because of its capital letters."""
        letters = without_mark(piece, self.scheme)
        if not _has_capital(letters):
            return False
        if self.scheme == "none":
            return piece.lower() in self.counts
        return self.letters.issuperset(letters.lower())


def _has_capital(text: str) -> bool:
    return text != text.lower()


@dataclass
class Reading:
    """Counts what the doctor wants to know of one side of a text, sentence by sentence.

    Args:
        scheme: how pieces are said to join to words.
        segmented_here: whether words were split into pieces here, or came as pieces.
        may_split: whether splitting a word that the dictionary has whole tells nothing.
    """

    vocabulary: Vocabulary
    scheme: str
    segmented_here: bool
    may_split: Callable[[str], bool] = lambda word: False
    words: Counter[str] = field(default_factory=Counter)
    pieces: int = 0
    unknown: int = 0  # pieces that the dictionary lacks
    could_spell: int = 0  # … though it has their letters
    lacks_case: int = 0  # … because of their case
    other_form: int = 0  # words that are not in the dictionary's form of Unicode
    marked: int = 0  # pieces with the mark of the dictionary's scheme
    marked_words: int = 0  # words that carry the mark before they are split
    whole: int = 0  # words that the dictionary has whole
    split: int = 0  # … and that are split

    def add(self, words: Sequence[str], pieces: Sequence[str], ids: Sequence[int]) -> None:
        """One more sentence: its words, their pieces, and the word of each piece."""
        vocabulary = self.vocabulary
        self.words.update(words)
        self.pieces += len(pieces)
        unknown = [piece for piece in pieces if piece not in vocabulary.counts]
        self.unknown += len(unknown)
        self.could_spell += sum(map(vocabulary.could_spell, unknown))
        self.lacks_case += sum(map(vocabulary.lacks_case, unknown))
        self.marked += sum(is_marked(piece, vocabulary.scheme) for piece in pieces)
        letters = "".join(without_mark(piece, vocabulary.scheme) for piece in pieces)
        if vocabulary.form and not is_normalized(vocabulary.form, letters):  # by the BPE, say
            self.other_form += sum(not is_normalized(vocabulary.form, word) for word in words)
        if self.segmented_here:
            self.marked_words += sum(is_marked(word, self.scheme) for word in words)
        if vocabulary.scheme == "none":
            return
        sizes = Counter(ids)
        # The first and the last word may lack the space that the dictionary's symbol has.
        for number, word in enumerate(words[1:-1], 1):
            if sizes[number] and vocabulary.has_whole(word):
                self.whole += 1
                self.split += sizes[number] > 1 and not self.may_split(word)


def wrong_scheme(
    vocabularies: Sequence[Vocabulary], scheme: str, *, segmented_here: bool
) -> Diagnosis | None:
    """Whether the marks on the dictionaries' symbols are of another scheme than the named one."""
    if scheme == "none":
        return None
    for vocabulary in vocabularies:
        shown = vocabulary.scheme
        if shown != "none" and 10 * vocabulary.marked[scheme] < vocabulary.marked[shown]:
            symptom = (
                f"{scheme} is named, but {vocabulary.marked[shown]} of the dictionary's "
                f"{len(vocabulary.counts)} symbols carry {mark_of(shown)!r} and "
                f"{vocabulary.marked[scheme]} carry {mark_of(scheme)!r}"
            )
            return Diagnosis(True, symptom, "scheme", shown)
    absent = not any(vocabulary.marked[scheme] for vocabulary in vocabularies)
    if absent and scheme in SPACES and not segmented_here:
        symptom = (
            f"{scheme} is named, but no symbol of the dictionary carries {mark_of(scheme)!r}: "
            "every sentence would be one word"
        )
        remedy = "numbers" if scheme == "gpt2" else "words"
        return Diagnosis(True, symptom, remedy, scheme)
    return None


def examine(reading: Reading) -> Diagnosis | None:
    """What is wrong with one side of a text, the likeliest mistake; None if nothing looks wrong."""
    mistakes = (_twice, _capitals, _unsegmented, _other_codes, _other_form, _unknown)
    for mistake in mistakes:
        diagnosis = mistake(reading)
        if diagnosis is not None:
            return diagnosis
    return unjoined(reading.vocabulary, reading.scheme) if reading.marked else None


def _twice(reading: Reading) -> Diagnosis | None:
    """Pieces that are segmented once more."""
    words = reading.words.total()
    if reading.marked_words <= max(TWICE, reading.vocabulary.expected_marks / 2) * words:
        return None
    symptom = (
        f"{_share(reading.marked_words, words, 'words')} carry "
        f"{mark_of(reading.scheme)!r} before they are segmented: they look like pieces"
    )
    return Diagnosis(reading.marked_words >= FEW, symptom, "twice", reading.scheme)


def _capitals(reading: Reading) -> Diagnosis | None:
    """Cased text for a model of lowercased text."""
    lowercases = reading.vocabulary.scheme == "bert" and not reading.segmented_here  # by itself
    if lowercases or not reading.vocabulary.lowercased:
        return None
    if reading.lacks_case <= SOME_CAPITAL * reading.pieces:
        return None
    certain = reading.lacks_case >= FEW and reading.lacks_case >= CAPITAL * reading.pieces
    symptom = (
        f"{_share(reading.lacks_case, reading.pieces, 'pieces')} are not in the dictionary because "
        "of capital letters, of which it has none"
    )
    return Diagnosis(certain, symptom, "lowercase", reading.scheme)


def _unsegmented(reading: Reading) -> Diagnosis | None:
    """Words for a model of pieces."""
    scheme = reading.vocabulary.scheme
    if reading.segmented_here or scheme == "none" or reading.marked:
        return None
    chance = (1 - reading.vocabulary.expected_marks) ** reading.pieces
    one_word = reading.scheme in SPACES and chance < IMPROBABLE
    if not reading.could_spell and not one_word:
        return None
    certain = one_word or reading.could_spell >= AVOIDABLE * reading.pieces
    symptom = (
        f"none of {reading.pieces} pieces carries {mark_of(scheme)!r}, as the dictionary's do, and "
        f"{_share(reading.unknown, reading.pieces, 'pieces')} are not in it: the text is not "
        "segmented"
    )
    return Diagnosis(certain and chance < IMPROBABLE, symptom, "segment", scheme)


def _other_codes(reading: Reading) -> Diagnosis | None:
    """Pieces of another segmentation than the dictionary's."""
    scheme = reading.vocabulary.scheme
    splits = reading.split >= 3 and reading.split >= SOME_SPLIT * reading.whole
    lacks = reading.could_spell >= 3 and reading.could_spell >= AVOIDABLE * reading.pieces
    if scheme == "none" or not (splits or lacks):
        return None
    certain = reading.split >= FEW and reading.split >= SPLIT * reading.whole
    symptom = (
        f"{_share(reading.split, reading.whole, 'words')} that the dictionary has whole are split, "
        f"and {_share(reading.unknown, reading.pieces, 'pieces')} are not in it"
    )
    return Diagnosis(certain and reading.segmented_here, symptom, "codes", scheme)


def _unknown(reading: Reading) -> Diagnosis | None:
    """Text of another model."""
    if reading.unknown <= reading.pieces / 2:
        return None
    symptom = f"{_share(reading.unknown, reading.pieces, 'pieces')} are not in the dictionary"
    return Diagnosis(reading.pieces >= FEW_PIECES, symptom, "model", reading.scheme)


def _other_form(reading: Reading) -> Diagnosis | None:
    """Letters and accents apart, for a model that has them in one character; or the reverse."""
    words = reading.words.total()
    if reading.other_form < 3 or reading.other_form <= OTHER_FORM * words:
        return None
    form = reading.vocabulary.form
    symptom = (
        f"{_share(reading.other_form, words, 'words')} are not in Unicode's form {form}, as the "
        "dictionary is"
    )
    unknown = _unknown(reading)
    return Diagnosis(bool(unknown and unknown.certain), symptom, "form", reading.scheme)


def unjoined(vocabulary: Vocabulary, scheme: str) -> Diagnosis | None:
    """Pieces that nobody said how to join."""
    if scheme != "none" or vocabulary.scheme == "none":
        return None
    symptom = f"pieces carry {mark_of(vocabulary.scheme)!r}, and each of them counts as a word"
    return Diagnosis(False, symptom, "join", vocabulary.scheme)


def _share(part: int, whole: int, noun: str) -> str:
    return f"{part} of {whole} {noun} ({part / max(whole, 1):.1%})"
