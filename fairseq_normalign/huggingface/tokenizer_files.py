"""What the files of a Hugging Face tokeniser say: pieces with their numbers, merges, case.

Older folders have a file for each, newer ones ``tokenizer.json`` for all.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

from fairseq_normalign.errors import InputError
from fairseq_normalign.host.wordpiece import (
    CONFIGURATION,
    OPTIONS,
    read_vocabulary,
    wordpiece_options,
)
from fairseq_normalign.huggingface.folder import HuggingFaceFolder
from fairseq_normalign.text.words import CONTINUING

Numbers = dict[str, int]  # of pieces

BERT_TOKENIZERS = ("BertTokenizer", "BertTokenizerFast", "BertTokenizerLegacy")


def wordpieces(folder: HuggingFaceFolder) -> Numbers:
    """BERT's vocabulary."""
    path = folder.path / "vocab.txt"
    if path.is_file():
        try:
            pieces = read_vocabulary(path)
        except ValueError as error:
            raise InputError(f"{path}: {error}") from None
        return {piece: number for number, piece in enumerate(pieces)}
    with _undamaged(folder.path / "tokenizer.json"):
        model = folder.tokenizer.get("model", {})
        if model.get("type") != "WordPiece":
            raise InputError(f"{folder}: has no vocab.txt, nor a tokenizer.json of WordPiece")
        if model.get("continuing_subword_prefix", CONTINUING) != CONTINUING:
            raise InputError(
                f"{folder}: pieces are not continued with {CONTINUING}; expected BERT's"
            )
        return _numbered(model["vocab"])


def case_options(folder: HuggingFaceFolder) -> dict[str, bool]:
    """What is said of case and accents, by Hugging Face's names; those alone that are said."""
    said: dict[str, Any] = {}
    with _undamaged(folder.path / "tokenizer.json"):
        normalizer = folder.tokenizer.get("normalizer") or {}
        is_usual = normalizer.get("type") == "BertNormalizer"
        if is_usual:
            said = {
                "do_lower_case": normalizer.get("lowercase"),
                "strip_accents": normalizer.get("strip_accents"),
                "tokenize_chinese_chars": normalizer.get("handle_chinese_chars"),
            }
    said.update(folder.tokenizer_config)  # goes before, as with Hugging Face
    kind = said.get("tokenizer_class", BERT_TOKENIZERS[0])
    if kind not in BERT_TOKENIZERS and not is_usual:
        raise InputError(f"{folder}: its tokeniser is {kind}; expected {BERT_TOKENIZERS[0]}")
    wordpiece_options(said, folder.path / CONFIGURATION)
    return {name: said[name] for name in OPTIONS if said.get(name) is not None}


def byte_level_bpe(folder: HuggingFaceFolder) -> tuple[Numbers, list[str]]:
    """RoBERTa's pieces, and the merges: two pieces with a blank between, the first ones first."""
    if folder.has("vocab.json") and folder.has("merges.txt"):
        with _undamaged(folder.path / "vocab.json"):
            numbers = _numbered(folder.json("vocab.json"))
        with _undamaged(folder.path / "merges.txt"):
            text = (folder.path / "merges.txt").read_text(encoding="utf-8")
            lines = [line for line in text.split("\n") if line]
            return numbers, _merges([line for line in lines if not line.startswith("#version")])
    with _undamaged(folder.path / "tokenizer.json"):
        model = folder.tokenizer.get("model", {})
        if model.get("type") != "BPE":
            raise InputError(
                f"{folder}: has no vocab.json and merges.txt, nor a tokenizer.json of a BPE"
            )
        merges = [line if isinstance(line, str) else " ".join(line) for line in model["merges"]]
        return _numbered(model["vocab"]), _merges(merges)


def piece_numbers(folder: HuggingFaceFolder, name: str) -> Numbers:
    """A file of pieces with their numbers beside a SentencePiece model: ``vocab.json``."""
    path = folder.path / name
    if not path.is_file():
        raise InputError(f"{folder}: has no {name}; expected the tokeniser's vocabulary")
    with _undamaged(path):
        numbers = _numbered(folder.json(name))
        check_each_once(numbers)
        return numbers


def check_each_once(numbers: Numbers) -> None:
    """Refuses two pieces of one number."""
    pieces: dict[int, str] = {}
    for piece, number in numbers.items():
        if number in pieces:
            raise ValueError(f"{pieces[number]!r} and {piece!r} have the same number, {number}")
        pieces[number] = piece


def added_tokens(folder: HuggingFaceFolder) -> Numbers:
    """Tokens that a model got beside its vocabulary; special ones are often among them."""
    if folder.has("added_tokens.json"):
        with _undamaged(folder.path / "added_tokens.json"):
            return _numbered(folder.json("added_tokens.json"))
    return _added_to_tokenizer(folder)


def _added_to_tokenizer(folder: HuggingFaceFolder) -> Numbers:
    with _undamaged(folder.path / "tokenizer.json"):
        added = folder.tokenizer.get("added_tokens") or []
        return _numbered({token["content"]: token["id"] for token in added})


@contextlib.contextmanager
def _undamaged(path: Path) -> Iterator[None]:
    """Names the file whose contents are not what they should be."""
    try:
        yield
    except InputError:
        raise
    except UnicodeDecodeError:
        raise InputError(f"{path}: not UTF-8 text; expected a tokeniser's file") from None
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        reason = error.args[0] if isinstance(error, ValueError) else "is damaged"
        raise InputError(f"{path}: {reason}; expected a tokeniser's file") from None


def _numbered(numbers: Any) -> Numbers:
    for piece, number in numbers.items():
        if type(number) is not int or number < 0:
            raise ValueError(f"the piece {piece!r} has the number {number!r}")
    return numbers


def _merges(merges: list[str]) -> list[str]:
    for merge in merges:
        if len(merge.split(" ")) != 2:
            raise ValueError(f"{merge!r} is no merge of two pieces")
    return merges


def tokenizer_class(folder: HuggingFaceFolder, expected: Sequence[str]) -> str | None:
    """The tokeniser by Hugging Face's name, without ``Fast``, if a file tells it.

    Args:
        expected: the tokenisers that are known here; others may read text in another way.
    """
    named = folder.tokenizer_config.get("tokenizer_class") or folder.config.get("tokenizer_class")
    if named is None:
        return None
    kind = str(named).removesuffix("Fast")
    if kind not in expected:
        raise InputError(
            f"{folder}: its tokeniser is {named}; expected one of: {', '.join(expected)}"
        )
    return kind


def named_tokens(folder: HuggingFaceFolder) -> dict[str, int | None]:
    """Special tokens with their numbers, where a file tells these, in the order of the files.

    ``tokenizer.json`` and ``tokenizer_config.json`` have numbers; lists of names have none.
    """
    tokens: list[str] = []
    for file in (CONFIGURATION, "special_tokens_map.json"):
        with _undamaged(folder.path / file):
            said = folder.json(file) if folder.has(file) else {}
            for entry in ("additional_special_tokens", "extra_special_tokens"):
                listed = said.get(entry) or []
                tokens += map(_content, listed.values() if isinstance(listed, dict) else listed)
    with _undamaged(folder.path / CONFIGURATION):
        decoder = folder.tokenizer_config.get("added_tokens_decoder") or {}
        numbered = {_content(token): int(number) for number, token in decoder.items()}
    numbered.update(_added_to_tokenizer(folder))
    numbered.update(added_tokens(folder))
    in_order: dict[str, int | None] = {}
    in_order.update(sorted(numbered.items(), key=itemgetter(1)))
    return {**in_order, **{name: None for name in tokens if name not in numbered}}


def _content(token: Any) -> str:
    """A token's text; files have the text alone, or an entry with more about it."""
    content = token["content"] if isinstance(token, dict) else token
    if not isinstance(content, str):
        raise TypeError
    return content
