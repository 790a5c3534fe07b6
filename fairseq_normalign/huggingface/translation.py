"""What all encoder–decoder models of Hugging Face share on their way to fairseq's Transformer.

Marian, M2M-100, NLLB and mBART have the layers of fairseq by fairseq's names. They differ in where
layers are normalised, in positions, in special tokens, and in how many embeddings are shared.
"""

from __future__ import annotations

import shlex
from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import fairseq
import torch

from fairseq_normalign.host.checkpoint import VARIANT
from fairseq_normalign.host.segmentation import reading_file
from fairseq_normalign.host.special_tokens import DICTIONARY, MULTILINGUAL, TARGET_DICTIONARY
from fairseq_normalign.huggingface.converted import MODEL, Converted, Files, Parameters, Vocabulary
from fairseq_normalign.huggingface.folder import (
    ACTIVATIONS,
    Config,
    HuggingFaceFolder,
    Tensors,
    check_settings,
    read_pieces,
)
from fairseq_normalign.names import ALL

SIDES = ("encoder", "decoder")
DROPOUTS = {"dropout": 0.1, "attention_dropout": 0.0, "activation_dropout": 0.0}
# fairseq's names of sizes, and Hugging Face's.
SIZES = {
    "encoder_embed_dim": "d_model",
    "encoder_ffn_embed_dim": "encoder_ffn_dim",
    "encoder_layers": "encoder_layers",
    "encoder_attention_heads": "encoder_attention_heads",
    "decoder_embed_dim": "d_model",
    "decoder_ffn_embed_dim": "decoder_ffn_dim",
    "decoder_layers": "decoder_layers",
    "decoder_attention_heads": "decoder_attention_heads",
}
FUNCTIONS = {**ACTIVATIONS, "swish": "swish", "silu": "swish"}
# Settings with the values that are known here; the first is meant where nothing is said.
SETTINGS = {
    "activation_function": FUNCTIONS,
    "quantization_config": (None,),
    "scale_embedding": (False, True, None),
    "tie_word_embeddings": (True, False, None),
    "share_encoder_decoder_embeddings": (True, False, None),
}
SHARED, HEAD = "shared.weight", "lm_head.weight"
OUTPUT = "decoder.output_projection.weight"  # the head's, in fairseq
EMBEDDINGS = {side: f"{side}.embed_tokens.weight" for side in SIDES}
POSITIONS = {side: f"{side}.embed_positions.weight" for side in SIDES}
BIAS = "decoder.logits_bias"
# Linear maps and LayerNorms in a layer.
PROJECTIONS = ("q_proj", "k_proj", "v_proj", "out_proj")
IN_ENCODER = (
    *(f"self_attn.{name}" for name in PROJECTIONS),
    *("self_attn_layer_norm", "fc1", "fc2", "final_layer_norm"),
)
IN_DECODER = (
    *IN_ENCODER,
    *(f"encoder_attn.{name}" for name in PROJECTIONS),
    "encoder_attn_layer_norm",
)
# LayerNorms beside those of layers, by model_type.
NORMS = {"marian": [], "m2m_100": ["layer_norm"], "mbart": ["layer_norm", "layernorm_embedding"]}
IN_LAYERS = {"encoder": IN_ENCODER, "decoder": IN_DECODER}


def open_translation(folder: HuggingFaceFolder) -> Parameters:
    """The parameters of a model that fairseq's Transformer can be."""
    sizes = ["vocab_size", "max_position_embeddings", *dict.fromkeys(SIZES.values())]
    check_settings(folder, SETTINGS, sizes)
    return Parameters(str(folder), folder.parameters(), "model.")


def take_embeddings(
    parameters: Parameters, config: Config, source: Vocabulary, target: Vocabulary
) -> Tensors:
    """Embeddings of words by fairseq's names, in the order of the dictionaries.

    What is shared is one tensor, of which a folder may have several copies.
    """
    is_tied = config.get("tie_word_embeddings", True)
    is_shared = config.get("share_encoder_decoder_embeddings", True)
    names = [SHARED, *EMBEDDINGS.values(), HEAD]
    if is_tied and is_shared:
        encoder = decoder = source.rows(parameters.first(names))
    else:
        copies = [SHARED] if is_shared else []
        encoder = source.rows(parameters.first([EMBEDDINGS["encoder"], *copies]))
        decoder = target.rows(parameters.first([EMBEDDINGS["decoder"], *copies]))
        if is_shared and torch.equal(encoder, decoder):
            decoder = encoder
    output = decoder
    if not is_tied:
        output = target.rows(parameters.take(HEAD))
    parameters.taken.update(names)
    return {
        "encoder.version": torch.tensor([3.0]),
        "decoder.version": torch.tensor([3.0]),
        EMBEDDINGS["encoder"]: encoder,
        EMBEDDINGS["decoder"]: decoder,
        OUTPUT: output,
    }


def layer_parameters(parameters: Parameters, config: Config) -> Tensors:
    """The parameters of all layers, which have the same names in fairseq."""
    state = {}
    for side, in_layer in IN_LAYERS.items():
        names = list(NORMS[config["model_type"]])
        for layer in range(config[f"{side}_layers"]):
            names += [f"layers.{layer}.{name}" for name in in_layer]
        for name in names:
            state.update(parameters.weight_and_bias(f"{side}.{name}"))
    return state


def convert_translation(
    folder: HuggingFaceFolder,
    parameters: Parameters,
    vocabularies: tuple[Vocabulary, Vocabulary],
    own: Tensors,
    models: Mapping[str, str],
    notes: Sequence[str],
    **options: Any,
) -> Converted:
    """The model, by what families do not share.

    Args:
        vocabularies: of source and target, the same one if they share it.
        own: tables of positions and the bias of logits, by fairseq's names, where a model has them.
        models: SentencePiece models by the option that names them, the source's first.
        options: of fairseq, beside those that all families have.
    """
    config = folder.config
    source, target = vocabularies
    search = read_search(folder)
    state = take_embeddings(parameters, config, source, target)
    state.update(layer_parameters(parameters, config))
    state.update((name, values) for name, values in own.items() if name != BIAS or values.any())
    is_tied = state[OUTPUT] is state[EMBEDDINGS["decoder"]]
    is_shared = state[EMBEDDINGS["decoder"]] is state[EMBEDDINGS["encoder"]]
    built = Namespace(
        arch=VARIANT,
        task="translation_normalign",
        criterion="label_smoothed_cross_entropy",
        data=".",  # whoever loads it names the folder
        alive_heads=ALL,
        source_lang=None,
        target_lang=None,
        activation_fn=FUNCTIONS[config.get("activation_function", "gelu")],
        share_all_embeddings=is_shared and is_tied,
        share_decoder_input_output_embed=is_tied,
        no_scale_embedding=not config.get("scale_embedding", False),
        max_source_positions=config["max_position_embeddings"],
        max_target_positions=config["max_position_embeddings"],
        encoder_learned_pos=POSITIONS["encoder"] in own,
        decoder_learned_pos=POSITIONS["decoder"] in own,
        logits_bias=BIAS in state,
    )
    values = {name: float(config.get(name, default)) for name, default in DROPOUTS.items()}
    values.update((ours, config[theirs]) for ours, theirs in SIZES.items())
    vars(built).update({**values, **options})
    names = [f"dict.{built.source_lang}.txt", f"dict.{built.target_lang}.txt"]
    if built.task == MULTILINGUAL:
        names = [DICTIONARY, DICTIONARY if target is source else TARGET_DICTIONARY]
    files: Files = {names[0]: source.dictionary(), names[1]: target.dictionary()}
    for name in models.values():
        files[name], _ = read_pieces(folder, name)
    files.update(reading_file(bpe="sentencepiece", **models))
    commands = _commands(built, search, next(iter(models.values())))
    ignored = [name for name, usual in UNSUPPORTED.items() if search.get(name, usual) != usual]
    if ignored:
        notes = [*notes, f"settings that fairseq's search ignores: {', '.join(ignored)}"]
    return Converted(built, state, files, commands, parameters.left(), [*notes])


def _commands(options: Namespace, search: Config, source_model: str) -> list[str]:
    """To align, and to translate as Hugging Face does.

    Args:
        source_model: the SentencePiece model of source text; translations need but its marks.
    """
    languages = f" -s {options.source_lang or 'LANG'} -t {options.target_lang or 'LANG'}"
    codes = ""
    if options.task == MULTILINGUAL:
        codes = f" --language-codes {options.language_codes}"
    of_search = search_options(search, options.max_target_positions)
    package = Path(__file__).parents[1]
    beside_fairseq = Path(fairseq.__file__).parents[1] / package.name
    user_dir = package.name if beside_fairseq.is_dir() else shlex.quote(str(package))
    return [
        f"normalign align {{dir}} SOURCE TARGET{'' if options.target_lang else languages}",
        f"fairseq-interactive {{dir}} --path {{dir}}/{MODEL} --user-dir {user_dir} "
        f"--task {options.task}{codes}{languages} --bpe sentencepiece "
        f"--sentencepiece-model {{dir}}/{source_model} {of_search} --input SOURCE",
    ]


FILE = "generation_config.json"
# What fairseq cannot do, with the values that ask for nothing.
UNSUPPORTED = {
    "do_sample": False,
    "repetition_penalty": 1,
    "num_beam_groups": 1,
    "diversity_penalty": 0,
    "encoder_no_repeat_ngram_size": 0,
    "min_length": 0,
    "min_new_tokens": 0,
    "suppress_tokens": [],
}


def read_search(folder: HuggingFaceFolder) -> Config:
    """How to search, by ``generation_config.json``, or by ``config.json`` in older folders."""
    stored = folder.json(FILE) if folder.has(FILE) else folder.config  # never both, as there
    return {name: value for name, value in stored.items() if value is not None}


def search_options(search: Config, longest: int) -> str:
    """The same for fairseq.

    Args:
        longest: how long translations may be if nothing is said.
    """
    beam = int(search.get("num_beams", 1))
    penalty = float(search.get("length_penalty", 1))
    # With the token that is given first, and </s>, neither of which counts in fairseq.
    longest = int(search.get("max_length", longest))
    if "max_new_tokens" in search:  # goes before
        longest = int(search["max_new_tokens"]) + 1
    options = f"--beam {beam} --lenpen {penalty:g} --max-len-a 0"
    options += f" --max-len-b {max(longest - 2, 1)} --min-len 0"
    ngrams = int(search.get("no_repeat_ngram_size", 0))
    if ngrams:
        options += f" --no-repeat-ngram-size {ngrams}"
    if beam > 1 and search.get("early_stopping") is not True:
        options += " --no-early-stop"
    return options
