"""BERT and RoBERTa of Hugging Face as fairseq's RoBERTa, or as our ``bert_normalign``.

Word embeddings are put in fairseq's order: <s>, <pad>, </s> and <unk> first, all others as they
were. Positions start behind the padding's, as fairseq counts. The head that guesses words is kept
where the folder has one. What reads a whole sentence or solves another task is left out: the
pooler, the guess of the next sentence, classifiers. No hidden state depends on them.
"""

from __future__ import annotations

import json
import re
from argparse import Namespace
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from fairseq_normalign.alignment.words import CONTINUING
from fairseq_normalign.errors import InputError
from fairseq_normalign.host.hugging_face import HuggingFaceFolder
from fairseq_normalign.host.wordpiece import (
    CONFIGURATION,
    OPTIONS,
    read_vocabulary,
    wordpiece_options,
)

MODEL = "model.pt"  # what the checkpoint is called
RESERVED = 2  # rows of fairseq's positions that no token has: up to the padding's number
FAIRSEQ_EPSILON = 1e-5
ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_new": "gelu_accurate",
    "gelu_pytorch_tanh": "gelu_accurate",
    "relu": "relu",
}
# Names of parameters in a layer, Hugging Face's and fairseq's.
LAYER = {
    "attention.self.query": "self_attn.q_proj",
    "attention.self.key": "self_attn.k_proj",
    "attention.self.value": "self_attn.v_proj",
    "attention.output.dense": "self_attn.out_proj",
    "attention.output.LayerNorm": "self_attn_layer_norm",
    "intermediate.dense": "fc1",
    "output.dense": "fc2",
    "output.LayerNorm": "final_layer_norm",
}
# Settings that change what a model computes, with the one value that is known here.
USUAL = {
    "position_embedding_type": "absolute",
    "is_decoder": False,
    "add_cross_attention": False,
    "quantization_config": None,
}
SIZES = (
    *("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads"),
    *("intermediate_size", "max_position_embeddings", "type_vocab_size"),
)


class Converted(NamedTuple):
    """A model as fairseq keeps it."""

    options: Namespace
    parameters: dict[str, Tensor]
    files: dict[str, str]  # text of the other files by name, dictionaries among them
    reading: list[str]  # the options that make our commands read text as the model does
    left_out: list[str]  # Hugging Face's names of parameters that are not needed
    notes: list[str]  # what a user should know


class Family(NamedTuple):
    """In what BERT and RoBERTa differ."""

    prefix: str  # of parameters, where the model has a head
    head: Mapping[str, str]  # names of the head that guesses words: Hugging Face's and fairseq's
    decoder: str  # name of the head's own word embeddings
    special: Sequence[str]  # what they call fairseq's first four tokens
    mask: str
    task: str
    first_position: int  # row of the position of the first token


BERT = Family(
    prefix="bert.",
    head={
        "cls.predictions.transform.dense": "dense",
        "cls.predictions.transform.LayerNorm": "layer_norm",
    },
    decoder="cls.predictions.decoder.weight",
    special=("[CLS]", "[PAD]", "[SEP]", "[UNK]"),
    mask="[MASK]",
    task="masked_lm_normalign",
    first_position=0,
)
ROBERTA = Family(
    prefix="roberta.",
    head={"lm_head.dense": "dense", "lm_head.layer_norm": "layer_norm"},
    decoder="lm_head.decoder.weight",
    special=("<s>", "<pad>", "</s>", "<unk>"),
    mask="<mask>",
    task="masked_lm",
    first_position=2,  # behind that of the padding
)


def convert_bert(folder: HuggingFaceFolder) -> Converted:
    """BERT: WordPiece, and embeddings of two segments."""
    _refuse_unusual(folder)
    pieces = _wordpieces(folder)
    options = _wordpiece_options(folder)
    names = _names(folder, {piece: number for number, piece in enumerate(pieces)}, BERT)
    converted = _convert(folder, BERT, names, names)
    files = {
        "vocab.txt": "".join(f"{piece}\n" for piece in pieces),
        CONFIGURATION: json.dumps(options, indent=2) + "\n",
    }
    reading = ["--bpe", "bert", "--bpe-vocab-file", "vocab.txt"]
    return converted._replace(files={**converted.files, **files}, reading=reading)


def convert_roberta(folder: HuggingFaceFolder) -> Converted:
    """RoBERTa: GPT-2's BPE, whose pieces are numbers in the dictionary."""
    _refuse_unusual(folder)
    numbers, merges = _byte_level_bpe(folder)
    names = _names(folder, numbers, ROBERTA)
    named = (*ROBERTA.special, ROBERTA.mask)
    symbols = [name if name in named else str(number) for number, name in enumerate(names)]
    converted = _convert(folder, ROBERTA, names, symbols)
    files = {
        "encoder.json": json.dumps(numbers) + "\n",
        "vocab.bpe": "".join(f"{line}\n" for line in ("#version: 0.2", *merges)),
    }
    reading = ["--bpe", "gpt2", "--gpt2-encoder-json", "encoder.json"]
    reading += ["--gpt2-vocab-bpe", "vocab.bpe"]
    notes = list(converted.notes)
    if folder.tokenizer_config.get("add_prefix_space"):
        notes.append("its tokeniser puts a blank before the first word, which --bpe gpt2 does not")
    return converted._replace(files={**converted.files, **files}, reading=reading, notes=notes)


def _refuse_unusual(folder: HuggingFaceFolder) -> None:
    """Refuses settings that no fairseq model has, all at once."""
    config = folder.config
    unusual = []
    for name, usual in USUAL.items():
        value = config.get(name, usual)
        if value != usual:
            unusual.append(f"{name} is {value!r}")
    activation = config.get("hidden_act", "gelu")
    if activation not in ACTIVATIONS:
        unusual.append(f"hidden_act is {activation!r}")
    for name in SIZES:
        value = config.get(name)
        if type(value) is not int or value < 1:
            unusual.append(f"{name} is {value!r}")
    if unusual:
        raise InputError(
            f"{folder}: its config.json has what is not supported: {'; '.join(unusual)}"
        )


def _wordpieces(folder: HuggingFaceFolder) -> list[str]:
    """BERT's vocabulary by number."""
    if folder.has("vocab.txt"):
        try:
            return read_vocabulary(folder.path / "vocab.txt")
        except ValueError as error:
            raise InputError(f"{folder.path / 'vocab.txt'}: {error}") from None
    model = folder.tokenizer.get("model") or {}
    numbers = model.get("vocab")
    if model.get("type") != "WordPiece" or not isinstance(numbers, dict):
        raise InputError(f"{folder}: has no vocab.txt, nor a tokenizer.json of WordPiece")
    if model.get("continuing_subword_prefix", CONTINUING) != CONTINUING:
        raise InputError(f"{folder}: pieces are not continued with {CONTINUING}; expected BERT's")
    return sorted(numbers, key=numbers.__getitem__)


def _wordpiece_options(folder: HuggingFaceFolder) -> dict[str, Any]:
    """What is said of case and accents, by Hugging Face's names; its defaults where nothing is."""
    normalizer = folder.tokenizer.get("normalizer") or {}
    if normalizer.get("type") == "BertNormalizer":
        said = {
            "do_lower_case": normalizer.get("lowercase"),
            "strip_accents": normalizer.get("strip_accents"),
            "tokenize_chinese_chars": normalizer.get("handle_chinese_chars"),
        }
    else:
        said = {}
    said.update(folder.tokenizer_config)  # goes before, as with them
    kind = said.get("tokenizer_class", "BertTokenizer")
    if kind not in ("BertTokenizer", "BertTokenizerFast", "BertTokenizerLegacy"):
        raise InputError(f"{folder}: its tokeniser is {kind}; expected BertTokenizer")
    wordpiece_options(said, folder.path / CONFIGURATION)
    return {name: said[name] for name in OPTIONS if said.get(name) is not None}


def _byte_level_bpe(folder: HuggingFaceFolder) -> tuple[dict[str, int], list[str]]:
    """RoBERTa's pieces with their numbers, and the merges, two pieces with a blank between."""
    if folder.has("vocab.json") and folder.has("merges.txt"):
        text = (folder.path / "merges.txt").read_text(encoding="utf-8")
        merges = [line for line in text.split("\n") if line and not line.startswith("#version")]
        return _checked_bpe(folder, folder.json("vocab.json"), merges)
    model = folder.tokenizer.get("model") or {}
    if model.get("type") != "BPE":
        raise InputError(
            f"{folder}: has no vocab.json and merges.txt, nor a tokenizer.json of a BPE"
        )
    merges = [line if isinstance(line, str) else " ".join(line) for line in model["merges"]]
    return _checked_bpe(folder, model["vocab"], merges)


def _checked_bpe(
    folder: HuggingFaceFolder, numbers: dict[str, int], merges: list[str]
) -> tuple[dict[str, int], list[str]]:
    wrong = [merge for merge in merges if len(merge.split(" ")) != 2]
    if wrong:
        raise InputError(f"{folder}: {wrong[0]!r} is no merge; expected two pieces")
    unnumbered = [piece for piece, number in numbers.items() if type(number) is not int]
    if unnumbered:
        raise InputError(f"{folder}: the piece {unnumbered[0]!r} has no number in the vocabulary")
    return numbers, merges


def _names(folder: HuggingFaceFolder, numbers: Mapping[str, int], family: Family) -> list[str]:
    """The name of each row of the word embeddings; those that have none get fairseq's fillers."""
    size = folder.config["vocab_size"]
    numbers = {**numbers, **_added_tokens(folder)}
    names = [f"madeupword{number:04d}" for number in range(size)]
    for name, number in numbers.items():
        if not 0 <= number < size:
            raise InputError(f"{folder}: {name!r} has the number {number}; the model knows {size}")
        if name and not re.search(r"\s", name):  # fairseq's dictionary has blanks after names
            names[number] = name
    for name in (*family.special, family.mask):
        if name not in names:
            raise InputError(f"{folder}: its vocabulary has no {name!r}")
    return names


def _added_tokens(folder: HuggingFaceFolder) -> dict[str, int]:
    """Tokens that a model got after its vocabulary was made."""
    if folder.has("added_tokens.json"):
        return folder.json("added_tokens.json")
    added = folder.tokenizer.get("added_tokens") or []
    return {token["content"]: token["id"] for token in added}


def _convert(
    folder: HuggingFaceFolder, family: Family, names: Sequence[str], symbols: Sequence[str]
) -> Converted:
    """The model, and its dictionary, in which ``symbols`` stand for the rows of embeddings."""
    parameters = _Parameters(folder, family.prefix)
    first = [names.index(name) for name in family.special]
    others = [number for number in range(len(names)) if number not in set(first)]
    order = torch.tensor(first + others)
    encoder = _encoder(parameters, folder, family, order)
    head = _head(parameters, family, order, encoder["embed_tokens.weight"])
    options = _options(folder, family, encoder, head)
    state = {f"encoder.sentence_encoder.{name}": value for name, value in encoder.items()}
    state.update((f"encoder.lm_head.{name}", value) for name, value in head.items())
    dictionary = "".join(f"{symbols[number]} 1\n" for number in others)
    notes = []
    added = [name for name in _added_tokens(folder) if name not in (*family.special, family.mask)]
    if added:
        notes.append(f"text is not split at added tokens ({len(added)}, first: {added[0]!r})")
    files = {"dict.txt": dictionary}
    return Converted(options, state, files, [], parameters.left(), notes)


class _Parameters:
    """Hugging Face's parameters, taken one by one, so that what is left is known."""

    def __init__(self, folder: HuggingFaceFolder, prefix: str) -> None:
        self.folder = folder
        self.by_name: dict[str, Tensor] = {}
        for name, values in folder.parameters().items():
            old = name.replace("LayerNorm.gamma", "LayerNorm.weight")
            self.by_name[old.replace("LayerNorm.beta", "LayerNorm.bias")] = values
        is_prefixed = any(name.startswith(prefix) for name in self.by_name)
        self.prefix = prefix if is_prefixed else ""

    def __contains__(self, name: str) -> bool:
        return name in self.by_name

    def inner(self, name: str, *shape: int) -> Tensor:
        """A parameter of the encoder."""
        return self.take(self.prefix + name, *shape)

    def take(self, name: str, *shape: int) -> Tensor:
        """A parameter in single precision, of the shape that the configuration promises."""
        if name not in self.by_name:
            raise InputError(f"{self.folder}: has no parameter {name!r}; are some files missing?")
        values = self.by_name.pop(name)
        if not values.is_floating_point():
            raise InputError(
                f"{self.folder}: {name!r} has numbers of the kind {values.dtype}: it is quantised; "
                "expected a model in full precision"
            )
        if values.shape != shape:
            raise InputError(
                f"{self.folder}: {name!r} has the shape {tuple(values.shape)}; by its config.json "
                f"expected {shape}"
            )
        return values.float().clone()

    def left(self) -> list[str]:
        """What nobody took, but for numbers of positions, which are no parameters."""
        return [name for name in self.by_name if not name.endswith("_ids")]


def _encoder(
    parameters: _Parameters, folder: HuggingFaceFolder, family: Family, order: Tensor
) -> dict[str, Tensor]:
    """The parameters of fairseq's encoder by its names."""
    config = folder.config
    width, inner = config["hidden_size"], config["intermediate_size"]
    words = parameters.inner("embeddings.word_embeddings.weight", config["vocab_size"], width)
    encoder = {"version": torch.tensor([3.0]), "embed_tokens.weight": words[order]}
    positions = parameters.inner(
        "embeddings.position_embeddings.weight", config["max_position_embeddings"], width
    )[family.first_position :]
    segments = parameters.inner(
        "embeddings.token_type_embeddings.weight", config["type_vocab_size"], width
    )
    if family is BERT:
        encoder["embed_segments.weight"] = segments
    else:  # RoBERTa reads all as the first of them
        positions = positions + segments[0]
    encoder["embed_positions.weight"] = torch.cat([torch.zeros(RESERVED, width), positions])
    for name in ("weight", "bias"):
        values = parameters.inner(f"embeddings.LayerNorm.{name}", width)
        encoder[f"layernorm_embedding.{name}"] = values
    for layer in range(config["num_hidden_layers"]):
        for theirs, ours in LAYER.items():
            rows = inner if ours == "fc1" else width
            columns = inner if ours == "fc2" else width
            is_norm = theirs.endswith("LayerNorm")
            place = f"encoder.layer.{layer}.{theirs}"
            weight = parameters.inner(f"{place}.weight", *((rows,) if is_norm else (rows, columns)))
            encoder[f"layers.{layer}.{ours}.weight"] = weight
            encoder[f"layers.{layer}.{ours}.bias"] = parameters.inner(f"{place}.bias", rows)
    return encoder


def _head(
    parameters: _Parameters, family: Family, order: Tensor, embeddings: Tensor
) -> dict[str, Tensor]:
    """The head that guesses words; {} if the folder has none."""
    size, width = embeddings.shape
    first = next(iter(family.head))
    if f"{first}.weight" not in parameters:
        return {}
    head = {}
    for theirs, ours in family.head.items():
        shape = (width,) if ours == "layer_norm" else (width, width)
        head[f"{ours}.weight"] = parameters.take(f"{theirs}.weight", *shape)
        head[f"{ours}.bias"] = parameters.take(f"{theirs}.bias", width)
    bias = family.decoder.replace("decoder.weight", "bias")
    copy = family.decoder.replace("weight", "bias")
    if bias not in parameters:
        bias, copy = copy, bias
    head["bias"] = parameters.take(bias, size)[order]
    if copy in parameters:
        parameters.take(copy, size)
    head["weight"] = embeddings
    if family.decoder in parameters:
        head["weight"] = parameters.take(family.decoder, size, width)[order]
    return head


def _options(
    folder: HuggingFaceFolder,
    family: Family,
    encoder: Mapping[str, Tensor],
    head: Mapping[str, Tensor],
) -> Namespace:
    """fairseq's options. The architecture is RoBERTa's where it can hold the model."""
    config = folder.config
    epsilon = config.get("layer_norm_eps", 1e-12)
    positions = len(encoder["embed_positions.weight"]) - RESERVED
    tied = not head or torch.equal(head["weight"], encoder["embed_tokens.weight"])
    options = Namespace(
        arch="roberta",
        task=family.task,
        criterion="masked_lm",
        data=".",  # whoever loads it names the folder
        encoder_layers=config["num_hidden_layers"],
        encoder_embed_dim=config["hidden_size"],
        encoder_ffn_embed_dim=config["intermediate_size"],
        encoder_attention_heads=config["num_attention_heads"],
        activation_fn=ACTIVATIONS[config.get("hidden_act", "gelu")],
        dropout=config.get("hidden_dropout_prob", 0.1),
        attention_dropout=config.get("attention_probs_dropout_prob", 0.1),
        max_positions=positions,
        tokens_per_sample=positions,
        untie_weights_roberta=not tied,
    )
    if family is BERT or epsilon != FAIRSEQ_EPSILON or not head:
        options.arch = "bert_normalign"
        options.layer_norm_eps = epsilon
        options.segments = config["type_vocab_size"] if family is BERT else 0
        options.without_lm_head = not head
    return options


def unused(names: Iterable[str]) -> str:
    """Parameters that were left out, by the part that they belong to."""
    parts = [re.sub(r"\.(dense|weight|bias|out_proj|LayerNorm).*", "", name) for name in names]
    return ", ".join(dict.fromkeys(parts))
