"""From a line of text to words and pieces, by fairseq's tokenisers and BPEs, one for each side."""

from __future__ import annotations

import contextlib
import functools
import io
from argparse import Namespace
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fairseq import file_utils
from fairseq.data import encoders

from fairseq_normalign.errors import InputError
from fairseq_normalign.host.wordpiece import read_wordpiece
from fairseq_normalign.text.advice import COMMAND, Wording
from fairseq_normalign.text.spelling import placed_ids, spelled_ids
from fairseq_normalign.text.words import (
    CONTINUED,
    join_pieces,
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
        self._pieces_of = functools.lru_cache(CACHED_WORDS)(self._split_word)

    def __call__(self, sentence: str | Sequence[str], where: str = "") -> Segmented:
        """A sentence in pieces, given as a line or as a list of words."""
        text = sentence if isinstance(sentence, str) else " ".join(_one_by_one(sentence, where))
        _check_characters(text, where)
        if self.tokenizer is not None:
            text = self.tokenizer.encode(text)
        words = split_words(text)
        symbols, ids = self._split(words, where)
        pieces = [self.printed(symbol) for symbol in symbols]
        if self.bpe is None:
            words = join_pieces(pieces, ids, self.scheme)
        return Segmented(symbols, pieces, ids, words)

    def _split(self, words: Sequence[str], where: str) -> tuple[list[str], list[int]]:
        """Words as symbols of the dictionary, and the word of each symbol."""
        if self.bpe is None:
            pieces = [self.printed(symbol) for symbol in words]
            return list(words), word_ids(pieces, self.scheme, where=where)
        if self.scheme in WORD_BY_WORD:
            return self._split_each(words, where)
        if hasattr(getattr(self.bpe, "sp", None), "normalize"):
            return self._split_by_sentencepiece(words, where)
        # At blanks alone: a piece may hold a no-break space.
        symbols = [symbol for symbol in self.bpe.encode(" ".join(words)).split(" ") if symbol]
        pieces = [self.printed(symbol) for symbol in symbols]
        return symbols, spelled_ids(pieces, words, self.scheme, where=where)

    def _split_each(self, words: Sequence[str], where: str) -> tuple[list[str], list[int]]:
        """Codes and WordPiece are applied to each word by itself."""
        symbols: list[str] = []
        ids: list[int] = []
        for number, word in enumerate(words):
            try:
                pieces = self._pieces_of(word)
            except InputError as error:
                raise InputError(f"{where}: {error}") from None
            symbols += pieces
            ids += [number] * len(pieces)
        return symbols, ids

    def _split_word(self, word: str) -> tuple[str, ...]:
        return tuple(split_words(self.bpe.encode(word)))

    def _split_by_sentencepiece(
        self, words: Sequence[str], where: str
    ) -> tuple[list[str], list[int]]:
        """SentencePiece knows which characters of the text became which pieces."""
        text = " ".join(words)
        pieces = self.bpe.sp.encode(text, out_type=str)
        normalised, offsets = self.bpe.sp.normalize(text, with_offsets=True)
        return pieces, placed_ids(pieces, words, normalised, offsets, where=where)

    def printed(self, symbol: str) -> str:
        """A dictionary's symbol as the letters of a piece: those of byte-level BPEs are numbers."""
        if self.scheme != "gpt2" or not (symbol.isascii() and symbol.isdigit()):
            return symbol
        byte_level: Any = getattr(self.bpe, "bpe", None)
        if hasattr(byte_level, "id_to_token"):  # of Hugging Face
            return byte_level.id_to_token(int(symbol)) or symbol
        letters = getattr(byte_level, "decoder", {})
        return letters.get(int(symbol), symbol)


def _one_by_one(words: Sequence[str], where: str) -> Sequence[str]:
    for word in words:
        if split_words(word) != [word]:
            raise InputError(f"{where}: {word!r} is not one word; expected words without blanks")
    return words


def _check_characters(text: str, where: str) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        half = text[error.start]
        raise InputError(f"{where}: {half!r} is no character; expected Unicode text") from None


def build_bpes(args: Namespace, wording: Wording = COMMAND) -> tuple[Any, Any]:
    """fairseq's BPE objects for source and target; None if no BPE is named.

    Args:
        args: ``bpe`` and what belongs to it; perhaps ``source_bpe_codes``, ``target_bpe_codes``,
            ``source_sentencepiece_model`` and ``target_sentencepiece_model``.
    """
    _check_options(args, wording)
    source = _file_of(args, "source")
    target = _file_of(args, "target")
    source_bpe = _build_bpe(args, source, wording)
    if source == target:
        return source_bpe, source_bpe
    return source_bpe, _build_bpe(args, target, wording)


def build_tokenizers(
    args: Namespace, languages: tuple[str | None, str | None], wording: Wording = COMMAND
) -> tuple[Any, Any]:
    """fairseq's tokeniser objects for source and target; None if no tokeniser is named.

    fairseq's splits text by the rules of the source language, so the target's has the languages
    swapped.
    """
    source, target = languages
    if source is None or target is None:
        return (_build_tokenizer(args, wording),) * 2
    forward = Namespace(**{**vars(args), "source_lang": source, "target_lang": target})
    backward = Namespace(**{**vars(args), "source_lang": target, "target_lang": source})
    return _build_tokenizer(forward, wording), _build_tokenizer(backward, wording)


def _check_options(args: Namespace, wording: Wording) -> None:
    """Refuses a side's own file that does not belong to the BPE, and a separator that is not @@."""
    for option, name in wording.files.items():
        side, _, common = option.partition("_")
        if side not in ("source", "target") or not getattr(args, option, None):
            continue
        if FILE_OPTIONS.get(args.bpe) != common:
            takers = " or ".join(bpe for bpe, file in FILE_OPTIONS.items() if file == common)
            raise InputError(f"{name} belongs to {wording.bpe} {takers}; found {args.bpe}")
    separator = getattr(args, "bpe_separator", CONTINUED)
    if args.bpe == "subword_nmt" and separator != CONTINUED:
        name = wording.files["bpe_separator"]
        raise InputError(f"{name} {separator!r}: expected {CONTINUED!r}, which tells pieces apart")


def _file_of(args: Namespace, side: str) -> str | None:
    """The BPE's file for one side: its own, or that of both; None if the BPE has no such file."""
    option = FILE_OPTIONS.get(args.bpe)
    if option is None:
        return None
    return getattr(args, f"{side}_{option}", None) or getattr(args, option, None) or "???"


def _build_bpe(args: Namespace, path: str | None, wording: Wording) -> Any:
    """fairseq's BPE object, or what stands for it; None if no BPE is named."""
    name = f"{wording.bpe} {args.bpe}"
    if path is not None:
        option = FILE_OPTIONS[args.bpe]
        if path == "???":
            raise InputError(f"{name}: its file is not named; expected {wording.files[option]}")
        args = Namespace(**{**vars(args), option: path})
    try:
        if path is not None and FILE_OPTIONS[args.bpe] == "bpe_codes":
            return _build_codes(args, path)
        if path is not None and args.bpe == "bert":  # fairseq's own needs transformers
            return read_wordpiece(path, cased=getattr(args, "bpe_cased", False))
        return _quietly(encoders.build_bpe, args)
    except (ImportError, OSError, RuntimeError, ValueError, KeyError, TypeError) as error:
        reason = _one_line(error)
        place = f"{path}: " if path and path not in reason else ""
        expected = "; expected a SentencePiece model" if isinstance(error, RuntimeError) else ""
        raise InputError(f"{name}: {place}{reason}{expected}") from None


def _build_codes(args: Namespace, path: str) -> Any:
    """fairseq's BPE object by codes; fastBPE's are merges, which subword-nmt can apply as well."""
    columns = 3 if args.bpe == "fastbpe" else 2
    codes = _read_codes(file_utils.cached_path(path), columns)
    try:
        return _quietly(encoders.build_bpe, args)
    except ImportError:
        if args.bpe != "fastbpe":
            raise
        return _FastCodes(codes)


CODE_VERSIONS = ("0.1", "0.2")  # of subword-nmt's files


def _read_codes(path: str, columns: int) -> list[str]:
    """The lines of a file of codes: two pieces, and for fastBPE their count."""
    try:
        lines = Path(path).read_text(encoding="utf-8").split("\n")
    except UnicodeDecodeError:
        raise ValueError("not UTF-8 text; expected BPE codes") from None
    expected = "two pieces and their count" if columns == 3 else "two pieces"
    codes = [line.strip("\r ") for line in lines if line.strip("\r ")]
    for number, code in enumerate(codes, 1):
        is_version = number == 1 and code.startswith("#version:")
        if is_version and code.split()[-1] not in CODE_VERSIONS:
            expected_versions = " or ".join(CODE_VERSIONS)
            raise ValueError(f"line 1: {code[:40]!r}; expected version {expected_versions}")
        if not is_version and len(code.split(" ")) != columns:
            raise ValueError(f"line {number}: {code[:40]!r} is no code; expected {expected}")
    if not codes:
        raise ValueError("no codes in it")
    return codes


class _FastCodes:
    """fastBPE's codes, applied by subword-nmt: the same merges, where fastBPE is not installed."""

    def __init__(self, codes: Sequence[str]) -> None:
        from subword_nmt.apply_bpe import BPE

        merges = [code.rpartition(" ")[0] for code in codes]
        self.bpe = BPE(io.StringIO("\n".join(["#version: 0.2", *merges])))

    def encode(self, text: str) -> str:
        return self.bpe.process_line(text)

    def decode(self, text: str) -> str:
        return f"{text} ".replace(f"{CONTINUED} ", "").rstrip()


def _build_tokenizer(args: Namespace, wording: Wording) -> Any:
    try:
        return _quietly(encoders.build_tokenizer, args)
    except (ImportError, OSError, RuntimeError, ValueError) as error:
        raise InputError(f"{wording.tokenizer} {args.tokenizer}: {_one_line(error)}") from None


def _quietly(build: Callable[[Namespace], Any], args: Namespace) -> Any:
    """Calls ``build``; if it prints what is wrong and exits, that is raised instead."""
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            return build(args)
    except SystemExit:
        raise ValueError(said.getvalue()) from None


def _one_line(error: Exception) -> str:
    if "???" in str(error):
        return "its files are not named"
    return " ".join(str(error).split()) or type(error).__name__
