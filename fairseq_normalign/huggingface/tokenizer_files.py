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

BERT_TOKENIZERS = ("BertTokenizer", "BertTokenizerLegacy")
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
        raise InputError(f"{folder}: no vocab.txt, nor BERT's WordPiece in tokenizer.json")
    return model["vocab"]


def case_options(folder: HuggingFaceFolder) -> dict[str, bool]:
    """What is said of case and accents, by Hugging Face's names; those alone that are said."""
    normalizer = folder.tokenizer.get("normalizer") or {}
    is_usual = normalizer.get("type") == "BertNormalizer"
    said: dict[str, Any] = {}
    if is_usual:
        said = {ours: normalizer.get(theirs) for ours, theirs in NORMALIZER.items()}
    said.update(folder.tokenizer_config)  # goes before, as with Hugging Face
    if not is_usual:
        tokenizer_class(folder, BERT_TOKENIZERS)
    wordpiece_options(said, folder.path / CONFIGURATION)
    return {name: said[name] for name in OPTIONS if said.get(name) is not None}


def byte_level_bpe(folder: HuggingFaceFolder) -> tuple[Numbers, list[str]]:
    """RoBERTa's pieces, and the merges: two pieces with a blank between, the first ones first."""
    if folder.has("vocab.json") and folder.has("merges.txt"):
        lines = folder.file("merges.txt").read_text(encoding="utf-8").split("\n")
        merges = [line for line in lines if line and not line.startswith("#version")]
        numbers = folder.json("vocab.json")
    else:
        model = folder.tokenizer.get("model", {})
        if model.get("type") != "BPE":
            raise InputError(f"{folder}: no vocab.json and merges.txt, nor a BPE in tokenizer.json")
        merges = [line if isinstance(line, str) else " ".join(line) for line in model["merges"]]
        numbers = model["vocab"]
    for merge in merges:  # fairseq would split words in another way, without a word
        if merge.count(" ") != 1:
            raise ValueError(f"{merge[:40]!r} is no merge of two pieces")
    return numbers, merges


def read_pieces(folder: HuggingFaceFolder, name: str) -> tuple[bytes, list[str]]:
    """A SentencePiece model as it is stored, and its pieces by their number."""
    if not folder.has(name):
        # Which transformers 5 leaves out.
        raise InputError(f"{folder}: no {name}, which is needed; copy it from the base model")
    path = folder.file(name)
    content = path.read_bytes()
    processor = sentencepiece.SentencePieceProcessor()
    try:
        processor.LoadFromSerializedProto(content)
        pieces = [processor.id_to_piece(number) for number in range(processor.get_piece_size())]
    except (RuntimeError, OSError):
        raise InputError(f"{path}: not a SentencePiece model") from None
    return content, pieces


def check_fits(folder: HuggingFaceFolder, name: str, known: Collection[str]) -> None:
    """Refuses a SentencePiece model most of whose pieces the vocabulary does not know."""
    _, pieces = read_pieces(folder, name)
    count = sum(piece in known for piece in pieces)
    if count < FEWEST_KNOWN * len(pieces):
        raise InputError(
            f"{folder.path / name}: only {count} of its {len(pieces)} pieces are in the model's "
            "vocabulary; is it of another model?"
        )


def added_tokens(folder: HuggingFaceFolder) -> Numbers:
    """Tokens that a model got beside its vocabulary; special ones are often among them."""
    added = folder.tokenizer.get("added_tokens") or []
    numbers = {token["content"]: token["id"] for token in added}
    return {**numbers, **folder.optional_json("added_tokens.json")}


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
            f"{folder}: its tokenizer, {named}, is not supported; supported: {', '.join(expected)}"
        )
    return kind


def named_tokens(folder: HuggingFaceFolder) -> dict[str, int | None]:
    """Special tokens with their numbers, where a file tells these, in the order of the files.

    ``tokenizer.json`` and ``tokenizer_config.json`` have numbers; lists of names have none.
    """
    listed: list[Any] = []
    for said in (folder.tokenizer_config, folder.optional_json("special_tokens_map.json")):
        for entry in ("additional_special_tokens", "extra_special_tokens"):
            tokens = said.get(entry) or []
            listed += tokens.values() if isinstance(tokens, dict) else tokens
    decoder = folder.tokenizer_config.get("added_tokens_decoder") or {}
    numbered = {_content(token): int(number) for number, token in decoder.items()}
    numbered.update(added_tokens(folder))
    named: dict[str, int | None] = dict(sorted(numbered.items(), key=itemgetter(1)))
    for token in listed:
        named.setdefault(_content(token), None)
    return named


def _content(token: Any) -> str:
    """A token's text; files have the text alone, or an entry with more about it."""
    return token["content"] if isinstance(token, dict) else token
