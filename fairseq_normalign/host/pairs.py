"""Sentence pairs as a model takes them: tokens, the word of each, and the words themselves."""

from __future__ import annotations

import functools
import warnings
from argparse import Namespace
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, NamedTuple

import torch
from fairseq.data import Dictionary
from fairseq.tokenizer import tokenize_line
from fairseq.utils import split_paths
from torch import Tensor

from fairseq_normalign.errors import InputError
from fairseq_normalign.host.segmentation import (
    FILE_OPTIONS,
    Segmentation,
    build_bpes,
    build_tokenizers,
    has_reading,
)
from fairseq_normalign.host.special_tokens import (
    Tokens,
    languages_of,
    special_tokens_of,
    task_options,
)
from fairseq_normalign.text.text_doctor import (
    Diagnosis,
    Reading,
    Vocabulary,
    examine,
    wrong_scheme,
)
from fairseq_normalign.text.words import (
    SPACES,
    join_pieces,
    mark_of,
    normalise_bpe_name,
    spanning_piece,
    split_words,
    word_ids,
)

EXAMINED_PAIRS = 100  # of a text, by the doctor

Text = str | Sequence[str] | None  # a line, a list of words, or no sentence


class Sentence(NamedTuple):
    """One side of a pair as the model takes it."""

    tokens: Tensor  # ids, with </s> and other special tokens
    words: list[int]  # the word of each token, never decreasing; -1 for special tokens
    text: list[str]  # the words themselves
    pieces: Sequence[str] = ()  # of the words, also those that are <unk> in ``tokens``


# The target of a model without a decoder.
NO_SENTENCE = Sentence(torch.tensor([], dtype=torch.long), [], [])


class Pair(NamedTuple):
    source: Sentence
    target: Sentence
    where: str  # for error messages
    skipped: bool = False  # as too long for the model: no tokens but the special ones

    @property
    def length(self) -> int:
        """How many tokens the longer one of its sides has."""
        return max(len(self.source.tokens), len(self.target.tokens))

    @property
    def has_text(self) -> bool:
        """Whether there are words: the marks of blank lines would pass for them."""
        return not self.skipped and bool(self.source.text or self.target.text)


class Side:
    """One side of a task: its dictionary, special tokens and segmentation."""

    def __init__(self, name: str, task: Any, segmentation: Segmentation) -> None:
        self.name, self.segmentation = name, segmentation
        self.dictionary: Dictionary = getattr(task, f"{name}_dictionary")
        marks = special_tokens_of(task)
        self.before, self.after = getattr(marks, name)
        is_source = name == "source"
        self.between: Tokens = marks.between if is_source else ()
        self.codes: Collection[int] = marks.codes if is_source else ()
        data = getattr(task_options(task), "data", None)
        # Whether the dictionary is of another toolkit, whose pieces hold what they like.
        self.is_imported = bool(data) and has_reading(split_paths(data)[0])

    def from_text(self, text: Text, where: str) -> Sentence:
        """A sentence of a text; or two passages with a TAB between, where the model reads two."""
        if text is None:
            return NO_SENTENCE
        where = f"{self.name} {where}"
        words, before, text = self._own_code(text)
        ids: list[int] = []
        word_of: list[int] = []
        pieces: list[str] = []
        for place, passage in enumerate(self._passages(text, where)):
            if place > 0:
                ids += self.between
                word_of += [-1] * len(self.between)
            segmented = self.segmentation(passage, where)
            for symbol, number in zip(segmented.symbols, segmented.ids, strict=True):
                indices = self._indices(symbol)
                ids += indices
                word_of += [len(words) + number] * len(indices)
            pieces += segmented.pieces
            words += segmented.words
        return self._sentence(ids, word_of, words, pieces, before)

    def _own_code(self, text: str | Sequence[str]) -> tuple[list[str], Tokens, Any]:
        """The code that a text begins with as a word, what goes before the pieces, and the rest.

        The code is a word of the text, which links count, but has no piece.
        """
        if self.codes:
            words = split_words(text) if isinstance(text, str) else list(text)
            code = self.dictionary.index(words[0]) if words else self.dictionary.unk()
            if code in self.codes:
                return words[:1], (code,), words[1:]
        return [], self.before, text

    def _passages(self, text: str | Sequence[str], where: str) -> list:
        """The text, or what is before and behind its TAB; elsewhere a TAB is but white space."""
        if not self.between or not isinstance(text, str) or "\t" not in text:
            return [text]
        passages = text.split("\t")
        if len(passages) != 2 or not all(map(split_words, passages)):
            raise InputError(f"{where}: expected one TAB, with a passage before and one behind it")
        return passages

    def _indices(self, symbol: str) -> list[int]:
        """The token of a piece; several, or none, where fairseq splits what the text does not.

        It also splits at a no-break space and others that are no blanks of a text, and never lets
        them into a dictionary. A piece that is spelled as a special token, ``<pad>`` say, is <unk>.
        """
        special, unk = self.dictionary.nspecial, self.dictionary.unk()
        index = self.dictionary.index(symbol)
        if index >= special:
            return [index]
        if self.is_imported:
            return [unk]
        indices = map(self.dictionary.index, tokenize_line(symbol))
        return [index if index >= special else unk for index in indices]

    def from_binarised(self, tokens: Tensor | list[int] | None, where: str) -> Sentence:
        """A sentence as ``fairseq-preprocess`` writes it, or as a model reads or generates it."""
        if tokens is None:
            return NO_SENTENCE
        where = f"{self.name} of {where}"
        marks = {self.dictionary.eos(), *self.before, *self.after}
        ids = [index for index in torch.as_tensor(tokens).tolist() if index not in marks]
        wrong = [index for index in ids if not 0 <= index < len(self.dictionary)]
        if wrong:
            raise InputError(
                f"{where}: token {wrong[0]} is not in the dictionary, which has 0 to "
                f"{len(self.dictionary) - 1}; were the data binarised with another one?"
            )
        pieces = self.symbols(ids)
        words = word_ids(pieces, self.segmentation.scheme, where=where)
        text = join_pieces(pieces, words, self.segmentation.scheme)
        return self._sentence(ids, words, text, pieces, self.before)

    def _sentence(
        self,
        ids: list[int],
        words: list[int],
        text: list[str],
        pieces: list[str],
        before: Tokens,
    ) -> Sentence:
        tokens = torch.tensor([*before, *ids, *self.after], dtype=torch.long)
        of_tokens = [*([-1] * len(before)), *words, *([-1] * len(self.after))]
        return Sentence(tokens, of_tokens, text, pieces)

    def symbols(self, tokens: Sequence[int]) -> list[str]:
        """The pieces and special tokens that tokens stand for."""
        return [self.segmentation.printed(self.dictionary[index]) for index in tokens]

    @functools.cached_property
    def vocabulary(self) -> Vocabulary:
        """What the dictionary tells of its text."""
        first = self.dictionary.nspecial
        symbols = zip(self.dictionary.symbols[first:], self.dictionary.count[first:], strict=True)
        counts = {}
        for symbol, count in symbols:
            if not symbol.startswith("madeupword"):  # fills up the embeddings
                counts[self.segmentation.printed(symbol)] = count
        return Vocabulary(counts)

    @property
    def shown_scheme(self) -> str:
        """How the dictionary shows that pieces join; none if some of them span several words."""
        scheme = self.vocabulary.scheme
        spans = scheme in SPACES and spanning_piece(list(self.vocabulary.counts), scheme)
        return "none" if spans else scheme

    def reading(self, sentences: Iterable[Sentence]) -> Reading:
        """What the doctor wants to know of a text."""
        reading = Reading(
            self.vocabulary,
            self.segmentation.scheme,
            segmented_here=self.segmentation.bpe is not None,
            may_split=self._may_split,
        )
        for sentence in sentences:
            ids = [word for word in sentence.words if word >= 0]
            reading.add(sentence.text, sentence.pieces, ids)
        return reading

    def _may_split(self, word: str) -> bool:
        """Whether the model's own segmentation may split a word that the dictionary has whole.

        An imported folder has its own, which may know one of two languages in a joint dictionary;
        and a unigram model may prefer two likely pieces to an unlikely one that it knows, too.
        """
        processor = getattr(self.segmentation.bpe, "sp", None)
        if self.is_imported or processor is None:
            return self.is_imported
        piece = mark_of("sentencepiece") + word
        return processor.piece_to_id(piece) != processor.unk_id()


class PairReader:
    """Text or binarised data → :class:`Pair`, by a task's dictionaries and special tokens.

    Args:
        bpe: fairseq's BPE object, or a tuple of one for each side; None if text is already split
            into pieces.
        scheme: how pieces join to words (see ``text.words``); None: as the marks on the
            symbols of each side's dictionary tell.
        tokenizer: fairseq's tokeniser object, or a tuple of two; None if text is already split
            into words.
    """

    def __init__(
        self,
        task: Any,
        *,
        bpe: Any = None,
        scheme: str | None = "none",
        tokenizer: Any = None,
    ) -> None:
        self.task, self.scheme = task, scheme or "none"
        self.marks = special_tokens_of(task)
        bpes = bpe if isinstance(bpe, tuple) else (bpe, bpe)
        tokenizers = tokenizer if isinstance(tokenizer, tuple) else (tokenizer, tokenizer)
        source, target = map(Segmentation, bpes, [self.scheme] * 2, tokenizers)
        self.source, self.target = Side("source", task, source), Side("target", task, target)
        self._warned: set[tuple[str, ...]] = set()
        if scheme is None:
            source.scheme, target.scheme = self.source.shown_scheme, self.target.shown_scheme
            self.scheme = target.scheme
        elif scheme != "none":
            vocabularies = [self.source.vocabulary, self.target.vocabulary]
            diagnosis = wrong_scheme(vocabularies, scheme, segmented_here=source.bpe is not None)
            if diagnosis is not None:
                raise InputError(diagnosis.advice)

    @classmethod
    def from_args(cls, task: Any, args: Namespace, *, reverse: bool = False) -> PairReader:
        """From fairseq's ``--bpe``, ``--tokenizer`` and ``--post-process`` with their own options.

        ``source_bpe_codes``, ``target_bpe_codes``, ``source_sentencepiece_model`` and
        ``target_sentencepiece_model`` name the file of one side; ``reverse`` says that the model
        translates the other way round, so that what they call the source is its target.
        """
        bpes = build_bpes(args)
        return cls(
            task,
            bpe=bpes[::-1] if reverse else bpes,
            scheme=normalise_bpe_name(args.bpe or args.post_process),
            tokenizer=build_tokenizers(args, languages_of(task)),
        )

    @classmethod
    def from_names(
        cls,
        task: Any,
        *,
        bpe: str | None = None,
        model: str | None = None,
        scheme: str | None = None,
        tokenizer: str | None = None,
    ) -> PairReader:
        """From fairseq's names of BPE and tokeniser, and the BPE's file.

        Args:
            bpe: fairseq's name of the BPE that splits text into pieces.
            model: its file: SentencePiece model or codes.
            scheme: how pieces join to words, if text is already split into pieces.
            tokenizer: fairseq's name of a tokeniser.
        """
        args = Namespace(bpe=bpe, post_process=scheme, tokenizer=tokenizer)
        if model is not None:
            if bpe not in FILE_OPTIONS:
                takers = ", ".join(FILE_OPTIONS)
                raise InputError(f"model is the file of one of the BPEs {takers}; found {bpe}")
            setattr(args, FILE_OPTIONS[bpe], model)
        return cls.from_args(task, args)

    def pair(self, source: Text, target: Text, where: str) -> Pair:
        """A pair of texts, each a line or a list of words; no target is None."""
        return Pair(
            self.source.from_text(source, where), self.target.from_text(target, where), where
        )

    def binarised_pair(self, source: Any, target: Any, where: str) -> Pair:
        """A pair of sentences as ``fairseq-preprocess`` writes them; no target is None.

        Tokens are a tensor, or a list of numbers.
        """
        of_source = self.source.from_binarised(source, where)
        return Pair(of_source, self.target.from_binarised(target, where), where)

    def symbols(self, tokens: Sequence[int], side: str) -> list[str]:
        """The pieces and special tokens that tokens stand for."""
        return getattr(self, side).symbols(tokens)

    def examine(self, pairs: Sequence[Pair], name: str = "text") -> None:
        """Refuses text that cannot be meant for the model, and warns of what is doubtful."""
        sources = [pair.source for pair in pairs]
        targets = [pair.target for pair in pairs if pair.target is not NO_SENTENCE]
        self._tell(examine(self.source.reading(sources)), f"source {name}")
        self._tell(examine(self.target.reading(targets)), f"target {name}")

    def warn_of_unknown(self, pairs: Sequence[Pair]) -> None:
        """Warns where pieces are <unk> that join to words, and came as numbers."""
        for side in (self.source, self.target):
            tokens = torch.cat([getattr(pair, side.name).tokens for pair in pairs])
            if self.scheme != "none" and side.dictionary.unk() in tokens:
                self.warn_once(
                    f"{side.name}: some pieces are <unk>, which does not tell where words begin: "
                    "they may be joined wrongly there, unlike in text",
                    side.name,
                )

    def _tell(self, diagnosis: Diagnosis | None, name: str) -> None:
        if diagnosis is None:
            return
        message = f"{name}: {diagnosis.advice}"
        if diagnosis.certain:
            raise InputError(message)
        self.warn_once(message, name, diagnosis.remedy)

    def warn_once(self, message: str, *subject: str) -> None:
        """Warns of a subject once, however many texts are read."""
        if subject not in self._warned:
            self._warned.add(subject)
            warnings.warn(message, stacklevel=2)


def text_pairs(
    sentences: Iterable[tuple[Text, Text]], reader: PairReader, *, name: str = "text"
) -> Iterator[Pair]:
    """Reads (source, target) pairs; the first of them are checked against the dictionaries.

    Args:
        name: what messages call the text, behind ``source`` or ``target``.
    """
    pairs = _numbered(sentences, reader)
    first = list(islice(pairs, EXAMINED_PAIRS))
    reader.examine(first, name)
    yield from first
    yield from pairs


def _numbered(sentences: Iterable[tuple[Text, Text]], reader: PairReader) -> Iterator[Pair]:
    for number, sides in enumerate(sentences, 1):
        if isinstance(sides, str) or len(sides) != 2:
            raise InputError(f"pair {number}: {sides!r:.60}: not a pair (source, target)")
        yield reader.pair(*sides, f"line {number}")
