"""A folder in which Hugging Face keeps a model: its configuration, parameters and tokeniser.

Older folders have a file for pieces, merges and case each, newer ones ``tokenizer.json`` for all.
It is read as JSON: the library ``tokenizers`` would split text by it, but tells neither merges nor
case.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

import sentencepiece
import torch
from torch import Tensor

from fairseq_normalign.errors import InputError
from fairseq_normalign.host.checkpoint_errors import FROM_FAIRSEQ
from fairseq_normalign.host.trust import load_tensors, read_safetensors, unpickle
from fairseq_normalign.host.wordpiece import (
    CONFIGURATION,
    OF_FOLDER,
    OPTIONS,
    read_vocabulary,
    wordpiece_options,
)
from fairseq_normalign.strict_json import read_json
from fairseq_normalign.text.words import CONTINUING

# The files of parameters, the first that is there. An index names those of a model in several.
SAFETENSORS, PICKLE = "model.safetensors", "pytorch_model.bin"
WEIGHTS = (SAFETENSORS, f"{SAFETENSORS}.index.json", PICKLE, f"{PICKLE}.index.json")
POINTER = b"version https://git-lfs"
FOLDER = "expected the folder of a Hugging Face model"
LARGEST = 1 << 20  # no model has more words; names and tables of them are built
MOST_POSITIONS = 1 << 17  # likewise
Config = dict[str, Any]  # what a JSON file says
Tensors = dict[str, Tensor]  # by name
# Hugging Face's names of activation functions, and fairseq's.
ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_new": "gelu_accurate",
    "gelu_pytorch_tanh": "gelu_accurate",
    "relu": "relu",
}


class HuggingFaceFolder:
    """What is in a folder. Nothing in it is run: a pickle may hold tensors alone."""

    def __init__(self, path: str) -> None:
        self.path = Path(path)
        if not self.path.exists():
            raise InputError(f"{path}: no such folder")
        if not self.has("config.json"):
            hint = FOLDER
            for snapshot in sorted(self.path.glob("snapshots/*/config.json")):
                hint = f"use the folder in the cache that has one: {snapshot.parent}"
            if self.has("adapter_config.json"):
                hint = "it is an adapter (LoRA): merge it with its base model first"
            raise InputError(f"{path}: no config.json in this folder; {hint}")
        self.config = self.json("config.json")

    def __str__(self) -> str:
        return str(self.path)

    def has(self, name: str) -> bool:
        return (self.path / name).is_file()

    def file(self, name: str) -> Path:
        """The path of a file, which is none that git leaves in the place of a large file."""
        path = self.path / name
        if path.is_file():
            with path.open("rb") as file:
                if file.read(len(POINTER)) == POINTER:
                    raise InputError(f"{path}: a git-lfs pointer, not the file; run: git lfs pull")
        return path

    def json(self, name: str) -> Config:
        return read_json(self.file(name), OF_FOLDER)

    def optional_json(self, name: str) -> Config:
        return self.json(name) if self.has(name) else {}

    @functools.cached_property
    def tokenizer(self) -> Config:
        """``tokenizer.json``, which newer folders have instead of files of the vocabulary."""
        return self.optional_json("tokenizer.json")

    @functools.cached_property
    def tokenizer_config(self) -> Config:
        return self.optional_json(CONFIGURATION)

    def parameters(self) -> Tensors:
        """The model's tensors by Hugging Face's names."""
        stored = [name for name in WEIGHTS if self.has(name)]
        if not stored:
            raise InputError(
                f"{self.path}: no weights ({SAFETENSORS} or {PICKLE}); is the download complete?"
            )
        files = [stored[0]]
        if stored[0].endswith(".json"):
            files = list(dict.fromkeys(self.json(stored[0])["weight_map"].values()))
        parameters: Tensors = {}
        for name in files:
            # A name that leads out of the folder is none of ours.
            if Path(name).name != name or not self.has(name):
                raise InputError(
                    f"{self.path / stored[0]}: names {name!r}, which is not beside it; download it"
                )
            parameters.update(self._read(name))
        return parameters

    def _read(self, name: str) -> Tensors:
        path = self.file(name)
        if name.endswith(".safetensors"):
            return read_safetensors(path)[0]
        try:
            parameters = unpickle(str(path), mapped=True, load=load_tensors)
        except InputError as error:
            raise InputError(str(error).replace(FROM_FAIRSEQ, "expected PyTorch tensors")) from None
        for value in parameters.values():
            if not isinstance(value, Tensor) or value.layout is not torch.strided or value.is_meta:
                raise InputError(f"{path}: holds more than tensors; expected PyTorch tensors")
        return parameters


def check_settings(
    folder: HuggingFaceFolder, usual: Mapping[str, Iterable[Any]], sizes: Iterable[str]
) -> None:
    """Refuses settings that no fairseq model has, all at once.

    Args:
        usual: settings that change what a model computes, with the values that are known here; the
            first is meant where nothing is said.
        sizes: settings that are whole numbers from 1, and must be there.
    """
    config = folder.config
    odd = []
    for name, values in usual.items():
        known = list(values)
        if config.get(name, known[0]) not in known:
            odd.append(f"{name} is {config[name]!r}")
    for name in sizes:
        size = config.get(name)
        largest = MOST_POSITIONS if name == "max_position_embeddings" else LARGEST
        if type(size) is not int or not 1 <= size <= largest:
            odd.append(f"{name} is {size!r}" if name in config else f"{name} is missing")
    if odd:
        raise InputError(f"{folder}: config.json has unsupported settings: {'; '.join(odd)}")


Numbers = dict[str, int]  # of pieces

BERT_TOKENIZERS = ("BertTokenizer", "BertTokenizerLegacy")
NORMALIZER = {  # what tokenizer.json calls BERT's settings
    "do_lower_case": "lowercase",
    "strip_accents": "strip_accents",
    "tokenize_chinese_chars": "handle_chinese_chars",
}


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
    said: Config = {}
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
        pieces = processor.id_to_piece(list(range(len(processor))))
    except (RuntimeError, OSError):
        raise InputError(f"{path}: not a SentencePiece model") from None
    return content, pieces


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
