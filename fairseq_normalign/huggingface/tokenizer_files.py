"""What the files of a Hugging Face tokeniser say: pieces with their numbers, merges, case.

Older folders have a file for each, newer ones ``tokenizer.json`` for all. It is read as JSON: the
library ``tokenizers`` would split text by it, but tells neither merges nor case.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from operator import itemgetter
from typing import Any

import sentencepiece

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
NORMALIZER = {  # what tokenizer.json calls BERT's settings
    "do_lower_case": "lowercase",
    "strip_accents": "strip_accents",
    "tokenize_chinese_chars": "handle_chinese_chars",
}
FEWEST_KNOWN = 0.5  # of the pieces of a SentencePiece model, by the vocabulary that it belongs to


def wordpieces(folder: HuggingFaceFolder) -> Numbers:
    """BERT's vocabulary."""
    if folder.has("vocab.txt"):
        pieces = read_vocabulary(folder.file("vocab.txt"))
        return {piece: number for number, piece in enumerate(pieces)}
    model = folder.tokenizer.get("model", {})
    mark = model.get("continuing_subword_prefix", CONTINUING)
    if model.get("type") != "WordPiece" or mark != CONTINUING:
        raise InputError(f"{folder}: has no vocab.txt, nor a tokenizer.json of BERT's WordPiece")
    return model["vocab"]


def case_options(folder: HuggingFaceFolder) -> dict[str, bool]:
    """What is said of case and accents, by Hugging Face's names; those alone that are said."""
    normalizer = folder.tokenizer.get("normalizer") or {}
    is_usual = normalizer.get("type") == "BertNormalizer"
    said: dict[str, Any] = {}
    if is_usual:
        said = {ours: normalizer.get(theirs) for ours, theirs in NORMALIZER.items()}
    said.update(folder.tokenizer_config)  # goes before, as with Hugging Face
    kind = said.get("tokenizer_class", BERT_TOKENIZERS[0])
    if kind not in BERT_TOKENIZERS and not is_usual:
        raise InputError(f"{folder}: its tokeniser is {kind}; expected {BERT_TOKENIZERS[0]}")
    wordpiece_options(said, folder.path / CONFIGURATION)
    return {name: said[name] for name in OPTIONS if said.get(name) is not None}


def byte_level_bpe(folder: HuggingFaceFolder) -> tuple[Numbers, list[str]]:
    """RoBERTa's pieces, and the merges: two pieces with a blank between, the first ones first."""
    if folder.has("vocab.json") and folder.has("merges.txt"):
        lines = folder.file("merges.txt").read_text(encoding="utf-8").split("\n")
        merges = [line for line in lines if line and not line.startswith("#version")]
        return folder.json("vocab.json"), _merges(folder, merges)
    model = folder.tokenizer.get("model", {})
    if model.get("type") != "BPE":
        raise InputError(
            f"{folder}: has no vocab.json and merges.txt, nor a tokenizer.json of a BPE"
        )
    merges = [line if isinstance(line, str) else " ".join(line) for line in model["merges"]]
    return model["vocab"], _merges(folder, merges)


def _merges(folder: HuggingFaceFolder, merges: list[str]) -> list[str]:
    """Refuses what is no merge: fairseq would split words in another way, without a word."""
    for merge in merges:
        if len(merge.split(" ")) != 2:
            raise InputError(f"{folder}: {merge[:40]!r} is no merge of two pieces")
    return merges


def read_pieces(folder: HuggingFaceFolder, name: str) -> tuple[bytes, list[str]]:
    """A SentencePiece model as it is stored, and its pieces by their number."""
    if not folder.has(name):
        expected = "expected the SentencePiece model of its text"
        if folder.has("tokenizer.json"):  # which transformers 5 writes instead
            expected = f"tokenizer.json is not enough: copy {name} from the base model"
        raise InputError(f"{folder}: has no {name}; {expected}")
    path = folder.file(name)
    content = path.read_bytes()
    processor = sentencepiece.SentencePieceProcessor()
    try:
        processor.LoadFromSerializedProto(content)
        pieces = [processor.id_to_piece(number) for number in range(processor.get_piece_size())]
    except (RuntimeError, OSError):
        pieces = []
    if not pieces:
        raise InputError(f"{path}: cannot be read; expected a SentencePiece model")
    return content, pieces


def check_fits(folder: HuggingFaceFolder, name: str, known: Collection[str]) -> None:
    """Refuses a SentencePiece model most of whose pieces the vocabulary does not know."""
    _, pieces = read_pieces(folder, name)
    count = sum(piece in known for piece in pieces)
    if count < FEWEST_KNOWN * len(pieces):
        raise InputError(
            f"{folder.path / name}: {count} of its {len(pieces)} pieces are in the vocabulary of "
            "the model; expected the SentencePiece model that belongs to it"
        )


def added_tokens(folder: HuggingFaceFolder) -> Numbers:
    """Tokens that a model got beside its vocabulary; special ones are often among them."""
    if folder.has("added_tokens.json"):
        return folder.json("added_tokens.json")
    return _added_to_tokenizer(folder)


def _added_to_tokenizer(folder: HuggingFaceFolder) -> Numbers:
    added = folder.tokenizer.get("added_tokens") or []
    return {token["content"]: token["id"] for token in added}


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
    listed: list[Any] = []
    for file in (CONFIGURATION, "special_tokens_map.json"):
        said = folder.json(file) if folder.has(file) else {}
        for entry in ("additional_special_tokens", "extra_special_tokens"):
            tokens = said.get(entry) or []
            listed += tokens.values() if isinstance(tokens, dict) else tokens
    decoder = folder.tokenizer_config.get("added_tokens_decoder") or {}
    numbered = {_content(token): int(number) for number, token in decoder.items()}
    numbered.update(_added_to_tokenizer(folder))
    numbered.update(added_tokens(folder))
    named: dict[str, int | None] = dict(sorted(numbered.items(), key=itemgetter(1)))
    for token in listed:
        named.setdefault(_content(token), None)
    return named


def _content(token: Any) -> str:
    """A token's text; files have the text alone, or an entry with more about it."""
    return token["content"] if isinstance(token, dict) else token
