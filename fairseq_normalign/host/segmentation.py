"""From a line of text to words and pieces, by fairseq's tokenisers and BPEs, one for each side.

The folder of an imported model tells them in ``reading.json``, so that no option need do so.
"""

from __future__ import annotations

import contextlib
import functools
import io
import json
from argparse import Namespace
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

from fairseq import file_utils
from fairseq.data import encoders

from fairseq_normalign.errors import InputError
from fairseq_normalign.host.wordpiece import read_wordpiece
from fairseq_normalign.strict_json import read_json
from fairseq_normalign.text.words import (
    CONTINUED,
    join_pieces,
    placed_ids,
    split_words,
    word_ids,
)

# The option that names the file of a BPE, where it has one file.
FILE_OPTIONS = {
    "sentencepiece": "sentencepiece_model",
    "subword_nmt": "bpe_codes",
    "fastbpe": "bpe_codes",
    "bert": "bpe_vocab_file",
}
WORD_BY_WORD = ("subword_nmt", "bert")  # schemes that split each word by itself
CACHED_WORDS = 1 << 16


class Segmented(NamedTuple):
    """A sentence as words and as pieces."""

    symbols: list[str]  # the pieces as the dictionary has them: numbers, for GPT-2
    pieces: list[str]
    ids: list[int]  # the word of each piece
    words: list[str]


class Segmentation:
    """How one side's text becomes pieces. Nothing is sampled: no BPE-dropout.

    Args:
        bpe: fairseq's BPE object, or None if the text is already split into pieces.
        scheme: how pieces join to words (see ``text.words``).
        tokenizer: fairseq's tokeniser object, or None if the text is already split into words.
    """

    def __init__(self, bpe: Any = None, scheme: str = "none", tokenizer: Any = None) -> None:
        self.bpe, self.scheme, self.tokenizer = bpe, scheme, tokenizer
        self._pieces_of = functools.lru_cache(CACHED_WORDS)(
            lambda word: split_words(self.bpe.encode(word))
        )

    def __call__(self, sentence: str | Sequence[str], where: str = "") -> Segmented:
        """A sentence in pieces, given as a line or as a list of words."""
        text = sentence if isinstance(sentence, str) else " ".join(sentence)
        if not isinstance(sentence, str) and split_words(text) != list(sentence):
            odd = next(word for word in sentence if split_words(word) != [word])
            raise InputError(f"{where}: {odd!r} is not one word; expected words without blanks")
        if self.tokenizer is not None:
            text = self.tokenizer.encode(text)
        words = split_words(text)
        if self.bpe is None:
            pieces = list(map(self.printed, words))
            ids = word_ids(pieces, self.scheme, where=where)
            return Segmented(words, pieces, ids, join_pieces(pieces, ids, self.scheme))
        if self.scheme in WORD_BY_WORD:
            return self._split_each(words, where)
        text = " ".join(words)
        processor: Any = getattr(self.bpe, "sp", None)
        if processor is not None:  # asked by itself, as fairseq's object may sample
            pieces = processor.encode(text, out_type=str)
            normalised, offsets = processor.normalize(text, with_offsets=True)
            ids = placed_ids(pieces, words, normalised, offsets, where=where)
            return Segmented(pieces, pieces, ids, words)
        # At blanks alone: a piece may hold a no-break space.
        symbols = [symbol for symbol in self.bpe.encode(text).split(" ") if symbol]
        pieces = list(map(self.printed, symbols))
        if self.scheme == "gpt2":  # bytes have letters of their own: no text holds the mark
            return Segmented(symbols, pieces, word_ids(pieces, "gpt2", where=where), words)
        # Characters: the pieces are the text.
        ids = placed_ids(pieces, words, "".join(pieces), range(len(text)), where=where)
        return Segmented(symbols, pieces, ids, words)

    def _split_each(self, words: list[str], where: str) -> Segmented:
        """Codes and WordPiece are applied to each word by itself."""
        pieces: list[str] = []
        ids: list[int] = []
        for number, word in enumerate(words):
            try:
                of_word = self._pieces_of(word)
            except InputError as error:
                raise InputError(f"{where}: {error}") from None
            pieces += of_word
            ids += [number] * len(of_word)
        return Segmented(pieces, pieces, ids, words)

    def printed(self, symbol: str) -> str:
        """A dictionary's symbol as the letters of a piece: those of byte-level BPEs are numbers."""
        if self.scheme != "gpt2" or not (symbol.isascii() and symbol.isdigit()):
            return symbol
        byte_level: Any = getattr(self.bpe, "bpe", None)
        if hasattr(byte_level, "id_to_token"):  # of Hugging Face
            return byte_level.id_to_token(int(symbol)) or symbol
        letters = getattr(byte_level, "decoder", {})
        return letters.get(int(symbol), symbol)


def build_bpes(args: Namespace) -> tuple[Any, Any]:
    """fairseq's BPE objects for source and target; None if no BPE is named.

    Args:
        args: ``bpe`` and what belongs to it; perhaps ``source_bpe_codes``, ``target_bpe_codes``,
            ``source_sentencepiece_model`` and ``target_sentencepiece_model``.
    """
    separator = getattr(args, "bpe_separator", CONTINUED)
    if args.bpe == "subword_nmt" and separator != CONTINUED:
        raise InputError(f"--bpe-separator {separator!r}: only {CONTINUED!r} is supported")
    option = FILE_OPTIONS.get(args.bpe)
    if option is None:
        return (_build_bpe(args, None),) * 2
    common = getattr(args, option, None) or "???"  # as fairseq marks what it must be told
    source = getattr(args, f"source_{option}", None) or common
    target = getattr(args, f"target_{option}", None) or common
    if "???" in (source, target):
        flag = "--" + option.replace("_", "-")
        raise InputError(f"--bpe {args.bpe}: its file is not named; use {flag}")
    source_bpe = _build_bpe(args, source)
    return source_bpe, source_bpe if source == target else _build_bpe(args, target)


def build_tokenizers(args: Namespace, languages: tuple[str | None, str | None]) -> tuple[Any, Any]:
    """fairseq's tokeniser objects for source and target; None if no tokeniser is named.

    fairseq's splits text by the rules of the source language, so the target's has the languages
    swapped.
    """
    source, target = languages
    if source is None or target is None:
        return (_build_tokenizer(args),) * 2
    forward = Namespace(**{**vars(args), "source_lang": source, "target_lang": target})
    backward = Namespace(**{**vars(args), "source_lang": target, "target_lang": source})
    return _build_tokenizer(forward), _build_tokenizer(backward)


def _build_bpe(args: Namespace, path: str | None) -> Any:
    """fairseq's BPE object by a file, if it has one, or what stands for it."""
    try:
        if path is None:
            return _quietly(encoders.build_bpe, args)
        if args.bpe == "bert":  # fairseq's own needs transformers
            return read_wordpiece(path, cased=getattr(args, "bpe_cased", False))
        if args.bpe == "fastbpe":  # fairseq's own needs fastBPE
            return _quietly(fast_codes, path)
        named = Namespace(**{**vars(args), FILE_OPTIONS[args.bpe]: path})
        bpe = _quietly(encoders.build_bpe, named)
        bpe.encode("ab")  # fails where codes are of another version
        return bpe
    except (ImportError, OSError, RuntimeError, ValueError, KeyError, TypeError) as error:
        reason = _one_line(error)
        place = f"{path}: " if path and path not in reason else ""
        is_model = isinstance(error, RuntimeError) and args.bpe == "sentencepiece"
        expected = "; expected a SentencePiece model" if is_model else ""
        raise InputError(f"--bpe {args.bpe}: {place}{reason}{expected}") from None


def fast_codes(path: str) -> Any:
    """fastBPE's codes: the same merges as subword-nmt's, which applies them, with their counts."""
    from subword_nmt.apply_bpe import BPE

    lines = Path(file_utils.cached_path(path)).read_text(encoding="utf-8").split("\n")
    merges = [line.rpartition(" ")[0] for line in lines]
    encode = BPE(io.StringIO("\n".join(["#version: 0.2", *merges]))).process_line
    return SimpleNamespace(
        encode=encode, decode=lambda text: f"{text} ".replace(f"{CONTINUED} ", "").rstrip()
    )


def _build_tokenizer(args: Namespace) -> Any:
    try:
        return _quietly(encoders.build_tokenizer, args)
    except (ImportError, OSError, RuntimeError, ValueError) as error:
        raise InputError(f"--tokenizer {args.tokenizer}: {_one_line(error)}") from None


def _quietly(build: Callable[[Any], Any], options: Any) -> Any:
    """Calls ``build``; if it prints what is wrong and exits, that is raised instead."""
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            return build(options)
    except SystemExit:
        raise ValueError(said.getvalue()) from None


def _one_line(error: Exception) -> str:
    if "???" in str(error):
        return "its files are not named"
    return " ".join(str(error).split()) or type(error).__name__


READING = "reading.json"  # beside the dictionaries
OF_IMPORT = "expected a file of normalign import"
# The options that it may set. All but the first name files of its folder.
READ_OPTIONS = (
    "bpe",
    "sentencepiece_model",
    "source_sentencepiece_model",
    "target_sentencepiece_model",
    "bpe_vocab_file",
    "gpt2_encoder_json",
    "gpt2_vocab_bpe",
)


def reading_file(**options: str) -> dict[str, str | bytes]:
    """The file that says how text is read, to be written beside the files that it names."""
    return {READING: json.dumps(options, indent=2) + "\n"}


def has_reading(folder: str | Path) -> bool:
    return (Path(folder) / READING).is_file()


def told_reading(folder: str | Path) -> dict[str, str]:
    """The options that ``folder`` tells, if it was imported."""
    path, told = Path(folder) / READING, {}
    stored = read_json(path, OF_IMPORT) if path.is_file() else {}
    for name, value in stored.items():
        if name not in READ_OPTIONS or not isinstance(value, str):
            raise InputError(f"{path}: {name} is {value!r}; {OF_IMPORT}")
        told[name] = value if name == "bpe" else str(Path(folder) / Path(value).name)
    return told


def apply_reading(args: Namespace, folder: str | Path) -> None:
    """Sets them."""
    vars(args).update(told_reading(folder))
