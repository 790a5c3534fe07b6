"""BERT and RoBERTa of Hugging Face as fairseq's RoBERTa, or as our ``bert_normalign``.

Word embeddings are put in fairseq's order: <s>, <pad>, </s> and <unk> first, all others as they
were. Positions start behind the padding's, as fairseq counts. The head that predicts words is kept
where the folder has one. What reads a whole sentence or solves another task is left out: the
pooler, the guess of the next sentence, classifiers. No hidden state depends on them.
"""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from fairseq_normalign.errors import InputError
from fairseq_normalign.host.segmentation import reading_file
from fairseq_normalign.host.special_tokens import SPECIAL
from fairseq_normalign.host.wordpiece import CONFIGURATION
from fairseq_normalign.huggingface.converted import (
    RESERVED,
    Converted,
    Files,
    Parameters,
    Vocabulary,
    vocabulary,
)
from fairseq_normalign.huggingface.folder import (
    ACTIVATIONS,
    HuggingFaceFolder,
    Numbers,
    Tensors,
    added_tokens,
    byte_level_bpe,
    case_options,
    check_settings,
    wordpieces,
)

FAIRSEQ_EPSILON, BERT_EPSILON = 1e-5, 1e-12
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
# Settings with the values that are known here; the first is meant where nothing is said.
SETTINGS = {
    "hidden_act": ACTIVATIONS,
    "position_embedding_type": ("absolute",),
    "is_decoder": (False,),
    "add_cross_attention": (False,),
    "quantization_config": (None,),
}
SIZES = (
    *("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads"),
    *("intermediate_size", "max_position_embeddings", "type_vocab_size"),
)


class Family(NamedTuple):
    """In what BERT and RoBERTa differ."""

    prefix: str  # of parameters, where the model has a head
    head: tuple[str, str]  # names in the head that predicts words: a linear map and a LayerNorm
    decoder: str  # name of the head's own word embeddings
    special: Sequence[str]  # what they call fairseq's first four tokens, and the mask
    task: str
    first_position: int  # row of the position of the first token


BERT = Family(
    prefix="bert.",
    head=("cls.predictions.transform.dense", "cls.predictions.transform.LayerNorm"),
    decoder="cls.predictions.decoder",
    special=("[CLS]", "[PAD]", "[SEP]", "[UNK]", "[MASK]"),
    task="masked_lm_normalign",
    first_position=0,
)
ROBERTA = Family(
    prefix="roberta.",
    head=("lm_head.dense", "lm_head.layer_norm"),
    decoder="lm_head.decoder",
    special=(*SPECIAL, "<mask>"),
    task="masked_lm",
    first_position=2,  # behind that of the padding
)


def convert_bert(folder: HuggingFaceFolder) -> Converted:
    """BERT: WordPiece, and embeddings of two segments."""
    check_settings(folder, SETTINGS, SIZES)
    pieces = wordpieces(folder)
    case = case_options(folder)
    files: Files = {
        "vocab.txt": "".join(f"{piece}\n" for piece in pieces),
        CONFIGURATION: json.dumps(case, indent=2) + "\n",
        **reading_file(bpe="bert", bpe_vocab_file="vocab.txt"),
    }
    notes = []
    # Names such as [CLS] are no words.
    has_capitals = any(piece != piece.lower() and piece[0] != "[" for piece in pieces)
    if "do_lower_case" not in case and has_capitals:
        notes.append(
            "its vocabulary has capital letters, but no file says that text keeps its case: text "
            "is lowercased unless --bpe-cased is given"
        )
    return _convert(folder, BERT, _words(folder, pieces, BERT), files, notes)


def convert_roberta(folder: HuggingFaceFolder) -> Converted:
    """RoBERTa: GPT-2's BPE, whose pieces are numbers in the dictionary."""
    # Positions are counted from the padding's number.
    check_settings(folder, {**SETTINGS, "pad_token_id": (ROBERTA.first_position - 1,)}, SIZES)
    numbers, merges = byte_level_bpe(folder)
    words = _words(folder, numbers, ROBERTA)
    symbols = [name if name == "<mask>" else str(row) for row, name in enumerate(words.names)]
    files: Files = {
        "encoder.json": json.dumps(numbers) + "\n",
        "vocab.bpe": "".join(f"{line}\n" for line in ("#version: 0.2", *merges)),
        **reading_file(bpe="gpt2", gpt2_encoder_json="encoder.json", gpt2_vocab_bpe="vocab.bpe"),
    }
    notes = []
    if folder.tokenizer_config.get("add_prefix_space"):
        notes.append("its tokenizer puts a blank before the first word, which --bpe gpt2 does not")
    return _convert(folder, ROBERTA, words._replace(names=symbols), files, notes)


def _words(folder: HuggingFaceFolder, numbers: Numbers, family: Family) -> Vocabulary:
    """The rows of the word embeddings, any number of which may have no name."""
    tokens = {**numbers, **added_tokens(folder)}
    last_names = {number: name for name, number in tokens.items()}
    for name in family.special:
        if name not in tokens or last_names[tokens[name]] != name:
            raise InputError(f"{folder}: its vocabulary has no {name!r}")
    special = [tokens[name] for name in family.special[: len(SPECIAL)]]
    if family is BERT:
        tokens.pop("<mask>", None)  # which our dictionary of BERT takes for [MASK]
    size = folder.config["vocab_size"]
    return vocabulary(folder, tokens, size, special, fillers=size)


def _convert(
    folder: HuggingFaceFolder, family: Family, words: Vocabulary, files: Files, notes: list[str]
) -> Converted:
    """The model and its dictionary."""
    config = folder.config
    parameters = Parameters(str(folder), folder.parameters(), family.prefix)
    encoder = _encoder(parameters, config["num_hidden_layers"], family, words)
    head = _head(parameters, family, words, encoder["embed_tokens.weight"])
    state = {f"encoder.sentence_encoder.{name}": value for name, value in encoder.items()}
    state.update((f"encoder.lm_head.{name}", value) for name, value in head.items())
    positions = len(encoder["embed_positions.weight"]) - RESERVED
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
        dropout=float(config.get("hidden_dropout_prob", 0.1)),
        attention_dropout=float(config.get("attention_probs_dropout_prob", 0.1)),
        max_positions=positions,
        tokens_per_sample=positions,
        untie_weights_roberta=bool(head) and head["weight"] is not encoder["embed_tokens.weight"],
    )
    epsilon = float(config.get("layer_norm_eps", BERT_EPSILON))
    if not 0 <= epsilon < 1:
        raise ValueError(f"layer_norm_eps is {epsilon}")
    if family is BERT or epsilon != FAIRSEQ_EPSILON or not head:  # fairseq's own cannot hold it
        options.arch = "bert_normalign"
        options.layer_norm_eps = epsilon
        options.segments = config["type_vocab_size"] if family is BERT else 0
        options.without_lm_head = not head
    added = [name for name in added_tokens(folder) if name not in family.special]
    if added:
        notes.insert(0, f"text is not split at added tokens ({len(added)}, first: {added[0]!r})")
    files["dict.txt"] = words.dictionary()
    command = "normalign mixing {dir} TEXT --attention encoder"
    return Converted(options, state, files, [command], parameters.left(), notes)


def _encoder(parameters: Parameters, layers: int, family: Family, words: Vocabulary) -> Tensors:
    """Embeddings of words, positions and segments, and all layers, by fairseq's names."""
    tables = ("word", "position", "token_type")
    embeddings, positions, segments = (
        parameters.take(f"embeddings.{table}_embeddings.weight") for table in tables
    )
    state = {"version": torch.tensor([3.0]), "embed_tokens.weight": words.rows(embeddings)}
    positions = positions[family.first_position :].float()
    if family is BERT:
        state["embed_segments.weight"] = segments
    else:  # RoBERTa reads all as the first of them
        positions = positions + segments[0].float()
    reserved = torch.zeros(RESERVED, positions.shape[1])
    state["embed_positions.weight"] = torch.cat([reserved, positions])
    state.update(parameters.weight_and_bias("embeddings.LayerNorm", "layernorm_embedding"))
    for layer in range(layers):
        for theirs, ours in LAYER.items():
            place = f"encoder.layer.{layer}.{theirs}"
            state.update(parameters.weight_and_bias(place, f"layers.{layer}.{ours}"))
    return state


def _head(parameters: Parameters, family: Family, words: Vocabulary, embeddings: Tensor) -> Tensors:
    """The head that predicts words; {} if the folder has none."""
    dense, norm = family.head
    if f"{dense}.weight" not in parameters:
        return {}
    head = parameters.weight_and_bias(dense, "dense")
    head.update(parameters.weight_and_bias(norm, "layer_norm"))
    biases = [f"{family.decoder.removesuffix('.decoder')}.bias", f"{family.decoder}.bias"]
    head["bias"] = words.rows(parameters.first(biases))
    head["weight"] = embeddings
    own = f"{family.decoder}.weight"
    if own in parameters:
        weight = words.rows(parameters.take(own))
        if not torch.equal(weight, embeddings):
            head["weight"] = weight
    return head
