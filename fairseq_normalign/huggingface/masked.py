"""BERT and RoBERTa of Hugging Face as fairseq's RoBERTa, or as our ``bert_normalign``.

Word embeddings are put in fairseq's order: <s>, <pad>, </s> and <unk> first, all others as they
were. Positions start behind the padding's, as fairseq counts. The head that guesses words is kept
where the folder has one. What reads a whole sentence or solves another task is left out: the
pooler, the guess of the next sentence, classifiers. No hidden state depends on them.
"""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from fairseq_normalign.errors import InputError
from fairseq_normalign.host.dictionaries import SPECIAL
from fairseq_normalign.host.wordpiece import CONFIGURATION
from fairseq_normalign.huggingface.converted import DIR, MODEL, RESERVED, Converted, Parameters
from fairseq_normalign.huggingface.folder import ACTIVATIONS, HuggingFaceFolder, check_settings
from fairseq_normalign.huggingface.tokenizer_files import (
    Numbers,
    added_tokens,
    byte_level_bpe,
    case_options,
    wordpieces,
)
from fairseq_normalign.huggingface.vocabulary import Vocabulary, vocabulary

FAIRSEQ_EPSILON = 1e-5
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
# Embeddings, with the setting that tells how many there are.
EMBEDDINGS = {
    "word_embeddings": "vocab_size",
    "position_embeddings": "max_position_embeddings",
    "token_type_embeddings": "type_vocab_size",
}
# Settings that change what a model computes, with the one value that is known here.
USUAL = {
    "position_embedding_type": "absolute",
    "is_decoder": False,
    "add_cross_attention": False,
    "quantization_config": None,
}
# Settings that are numbers, not whole ones, with what they are if nothing is said.
DROPOUTS = {"hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1}
EPSILON = {"layer_norm_eps": 1e-12}
SIZES = (
    *("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads"),
    *("intermediate_size", "max_position_embeddings", "type_vocab_size"),
)


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
    special=SPECIAL,
    mask="<mask>",
    task="masked_lm",
    first_position=2,  # behind that of the padding
)


def convert_bert(folder: HuggingFaceFolder) -> Converted:
    """BERT: WordPiece, and embeddings of two segments."""
    _check(folder, USUAL)
    pieces = wordpieces(folder)
    case = case_options(folder)
    parameters = _parameters(folder, BERT)
    converted = _convert(folder, parameters, BERT, _words(folder, pieces, BERT))
    files: dict[str, str | bytes] = {
        "vocab.txt": "".join(f"{piece}\n" for piece in pieces),
        CONFIGURATION: json.dumps(case, indent=2) + "\n",
    }
    commands = _commands("--bpe", "bert", "--bpe-vocab-file", "vocab.txt")
    notes = list(converted.notes)
    if "do_lower_case" not in case and _has_capitals(pieces):
        notes.append(
            "its vocabulary has capital letters, but no file says that text keeps its case: text "
            "is lowercased unless --bpe-cased is given"
        )
    return converted._replace(files={**converted.files, **files}, commands=commands, notes=notes)


def _commands(*reading: str) -> list[list[str]]:
    """The command to go on with, by the options that make it read text as the model does."""
    model = ["normalign", "mixing", DIR, "--path", MODEL]
    return [[*model, *reading, "--attention", "encoder", "--source-file", "TEXT"]]


def _has_capitals(pieces: Iterable[str]) -> bool:
    """Whether a vocabulary tells letters by their case; names such as [CLS] are no words."""
    return any(piece != piece.lower() and not piece.startswith("[") for piece in pieces)


def convert_roberta(folder: HuggingFaceFolder) -> Converted:
    """RoBERTa: GPT-2's BPE, whose pieces are numbers in the dictionary."""
    # Positions are counted from the padding's number.
    _check(folder, {**USUAL, "pad_token_id": ROBERTA.first_position - 1})
    numbers, merges = byte_level_bpe(folder)
    parameters = _parameters(folder, ROBERTA)
    words = _words(folder, numbers, ROBERTA)
    symbols = [name if name == ROBERTA.mask else str(row) for row, name in enumerate(words.names)]
    converted = _convert(folder, parameters, ROBERTA, words._replace(names=symbols))
    files: dict[str, str | bytes] = {
        "encoder.json": json.dumps(numbers) + "\n",
        "vocab.bpe": "".join(f"{line}\n" for line in ("#version: 0.2", *merges)),
    }
    commands = _commands(
        *("--bpe", "gpt2", "--gpt2-encoder-json", "encoder.json", "--gpt2-vocab-bpe", "vocab.bpe")
    )
    notes = list(converted.notes)
    if folder.tokenizer_config.get("add_prefix_space"):
        notes.append("its tokeniser puts a blank before the first word, which --bpe gpt2 does not")
    return converted._replace(files={**converted.files, **files}, commands=commands, notes=notes)


def _check(folder: HuggingFaceFolder, usual: Mapping[str, Any]) -> None:
    check_settings(
        folder,
        usual=usual,
        activation="hidden_act",
        activations=ACTIVATIONS,
        dropouts=DROPOUTS,
        numbers=EPSILON,
        sizes=SIZES,
    )


def _parameters(folder: HuggingFaceFolder, family: Family) -> Parameters:
    """All of them; there are as many words as config.json tells."""
    parameters = Parameters(folder, family.prefix)
    size, width = folder.config["vocab_size"], folder.config["hidden_size"]
    parameters.check_inner("embeddings.word_embeddings.weight", size, width)
    return parameters


def _words(folder: HuggingFaceFolder, numbers: Numbers, family: Family) -> Vocabulary:
    """The rows of the word embeddings, any number of which may have no name."""
    tokens = {**numbers, **added_tokens(folder)}
    last_names = {number: name for name, number in tokens.items()}
    for name in (*family.special, family.mask):
        if name not in tokens or last_names[tokens[name]] != name:
            raise InputError(f"{folder}: its vocabulary has no {name!r}")
    special = [tokens[name] for name in family.special]
    if family is BERT:
        tokens.pop(ROBERTA.mask, None)  # which our dictionary of BERT takes for [MASK]
    size = folder.config["vocab_size"]
    return vocabulary(folder, tokens, size, special, fillers=size)


def _convert(
    folder: HuggingFaceFolder,
    parameters: Parameters,
    family: Family,
    words: Vocabulary,
) -> Converted:
    """The model, and its dictionary."""
    encoder = _encoder(parameters, folder, family, words)
    head = _head(parameters, family, words, encoder["embed_tokens.weight"])
    options = _options(folder, family, encoder, head)
    state = {f"encoder.sentence_encoder.{name}": value for name, value in encoder.items()}
    state.update((f"encoder.lm_head.{name}", value) for name, value in head.items())
    notes = []
    usual = (*family.special, family.mask)
    added = [name for name in added_tokens(folder) if name not in usual]
    if added:
        notes.append(f"text is not split at added tokens ({len(added)}, first: {added[0]!r})")
    files: dict[str, str | bytes] = {"dict.txt": words.dictionary()}
    return Converted(options, state, files, [], parameters.left(), notes)


def _encoder(
    parameters: Parameters, folder: HuggingFaceFolder, family: Family, words: Vocabulary
) -> dict[str, Tensor]:
    """The parameters of fairseq's encoder by its names."""
    encoder = {"version": torch.tensor([3.0])}
    encoder.update(_embeddings(parameters, folder.config, family, words))
    for layer in range(folder.config["num_hidden_layers"]):
        for name, values in _layer(parameters, folder.config, layer).items():
            encoder[f"layers.{layer}.{name}"] = values
    return encoder


def _embeddings(
    parameters: Parameters, config: Mapping, family: Family, words: Vocabulary
) -> dict[str, Tensor]:
    """Of words, positions and segments, and the norm over their sum."""
    width = config["hidden_size"]
    rows = {name: config[size] for name, size in EMBEDDINGS.items()}
    of_words, positions, segments = (
        parameters.inner(f"embeddings.{name}.weight", count, width) for name, count in rows.items()
    )
    positions = positions[family.first_position :]
    embeddings = {"embed_tokens.weight": words.rows(of_words)}
    if family is BERT:
        embeddings["embed_segments.weight"] = segments
    else:  # RoBERTa reads all as the first of them
        positions = positions + segments[0]
    reserved = torch.zeros(RESERVED, width)
    embeddings["embed_positions.weight"] = torch.cat([reserved, positions])
    for name in ("weight", "bias"):
        values = parameters.inner(f"embeddings.LayerNorm.{name}", width)
        embeddings[f"layernorm_embedding.{name}"] = values
    return embeddings


def _layer(parameters: Parameters, config: Mapping, layer: int) -> dict[str, Tensor]:
    """The parameters of one layer by fairseq's names."""
    width, inner = config["hidden_size"], config["intermediate_size"]
    values = {}
    for theirs, ours in LAYER.items():
        rows = inner if ours == "fc1" else width
        columns = inner if ours == "fc2" else width
        shape = (rows,) if theirs.endswith("LayerNorm") else (rows, columns)
        place = f"encoder.layer.{layer}.{theirs}"
        values[f"{ours}.weight"] = parameters.inner(f"{place}.weight", *shape)
        values[f"{ours}.bias"] = parameters.inner(f"{place}.bias", rows)
    return values


def _head(
    parameters: Parameters, family: Family, words: Vocabulary, embeddings: Tensor
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
    head["bias"] = words.rows(parameters.take(bias, size))
    if copy in parameters:
        parameters.take(copy, size)
    head["weight"] = embeddings
    if family.decoder in parameters:
        head["weight"] = words.rows(parameters.take(family.decoder, size, width))
    return head


def _options(
    folder: HuggingFaceFolder,
    family: Family,
    encoder: Mapping[str, Tensor],
    head: Mapping[str, Tensor],
) -> Namespace:
    """fairseq's options. The architecture is RoBERTa's where it can hold the model."""
    config = folder.config
    said = {**DROPOUTS, **EPSILON, **config}
    epsilon = said["layer_norm_eps"]
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
        dropout=said["hidden_dropout_prob"],
        attention_dropout=said["attention_probs_dropout_prob"],
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
