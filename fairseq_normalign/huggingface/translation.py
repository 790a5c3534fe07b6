"""What all encoder–decoder models of Hugging Face share on their way to fairseq's Transformer.

Marian, M2M-100, NLLB and mBART have the layers of fairseq by fairseq's names. They differ in where
layers are normalised, in positions, in special tokens, and in how many embeddings are shared.
"""

from __future__ import annotations

import math
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import fairseq
import torch
from torch import Tensor

from fairseq_normalign.errors import InputError
from fairseq_normalign.host.checkpoint import VARIANT
from fairseq_normalign.host.language_codes import MULTILINGUAL, listed
from fairseq_normalign.huggingface.converted import DIR, FULL_PRECISION, MODEL, Parameters
from fairseq_normalign.huggingface.folder import ACTIVATIONS, HuggingFaceFolder, check_settings
from fairseq_normalign.huggingface.vocabulary import Vocabulary
from fairseq_normalign.names import ALL

SIDES = ("encoder", "decoder")
DROPOUTS = {"dropout": 0.1, "attention_dropout": 0.0, "activation_dropout": 0.0}
SIZES = (
    *("vocab_size", "d_model", "max_position_embeddings", "encoder_layers", "decoder_layers"),
    *("encoder_ffn_dim", "decoder_ffn_dim", "encoder_attention_heads", "decoder_attention_heads"),
)
SWITCHES = ("scale_embedding", "tie_word_embeddings", "share_encoder_decoder_embeddings")
FUNCTIONS = {**ACTIVATIONS, "swish": "swish", "silu": "swish"}
MOST_POSITIONS = 1 << 17  # tables of them are built, and nobody has more
SHARED, HEAD = "shared.weight", "lm_head.weight"
EMBEDDINGS = {side: f"{side}.embed_tokens.weight" for side in SIDES}
ATTENTIONS = {"encoder": ("self_attn",), "decoder": ("self_attn", "encoder_attn")}


class Embeddings(NamedTuple):
    """Of words, (V, C) each; what is shared is one tensor."""

    encoder: Tensor
    decoder: Tensor
    output: Tensor


def check_translation_settings(folder: HuggingFaceFolder) -> None:
    """Refuses what fairseq's Transformer cannot be."""
    if folder.config.get("quantization_config") is not None:
        raise InputError(f"{folder}: is quantised by its config.json; {FULL_PRECISION}")
    check_settings(
        folder,
        usual={},
        activation="activation_function",
        activations=FUNCTIONS,
        dropouts=DROPOUTS,
        numbers={},
        sizes=SIZES,
        switches=SWITCHES,
    )
    config = folder.config
    if config["max_position_embeddings"] > MOST_POSITIONS:
        raise InputError(
            f"{folder}: max_position_embeddings is {config['max_position_embeddings']}; expected "
            f"at most {MOST_POSITIONS}"
        )
    for side in SIDES:
        heads = config[f"{side}_attention_heads"]
        if config["d_model"] % heads:
            raise InputError(
                f"{folder}: d_model {config['d_model']} is no multiple of the {heads} heads of its "
                f"{side}"
            )


def token_number(folder: HuggingFaceFolder, name: str) -> int:
    """A token that the configuration tells by its number."""
    number = folder.config.get(name)
    if type(number) is not int or not 0 <= number < folder.config["vocab_size"]:
        raise InputError(
            f"{folder}: {name} is {number!r} in config.json; expected the number of a token"
        )
    return number


def take_embeddings(parameters: Parameters, config: Mapping[str, Any]) -> Embeddings:
    """The embeddings of words, of which a folder has one or several copies if they are shared."""
    source, width = config["vocab_size"], config["d_model"]
    target = source
    is_tied = config.get("tie_word_embeddings", True)
    if not config.get("share_encoder_decoder_embeddings", True):
        target = config.get("decoder_vocab_size") or source
        encoder = parameters.inner(EMBEDDINGS["encoder"], source, width)
        decoder = parameters.inner(EMBEDDINGS["decoder"], target, width)
    elif is_tied:
        encoder = decoder = _one_for_all(parameters, source, width)
    else:
        encoder, decoder = _one_for_each(parameters, source, width)
    if not is_tied:
        return Embeddings(encoder, decoder, parameters.take(HEAD, target, width))
    if HEAD in parameters:
        parameters.take(HEAD, target, width)  # a copy
    return Embeddings(encoder, decoder, decoder)


def _one_for_all(parameters: Parameters, size: int, width: int) -> Tensor:
    """Embeddings that both sides and the logits share, by whichever name they are stored."""
    names = [SHARED, *EMBEDDINGS.values()]
    stored = [name for name in names if parameters.has(name)]
    if not stored and HEAD in parameters:
        return parameters.take(HEAD, size, width)
    embeddings = parameters.inner((stored or names)[0], size, width)
    parameters.drop(*names)
    return embeddings


def _one_for_each(parameters: Parameters, size: int, width: int) -> tuple[Tensor, Tensor]:
    """Those of encoder and decoder, which are one tensor if they are the same."""
    names = [name if parameters.has(name) else SHARED for name in EMBEDDINGS.values()]
    stored = {name: parameters.inner(name, size, width) for name in dict.fromkeys(names)}
    parameters.drop(SHARED)
    encoder, decoder = (stored[name] for name in names)
    return encoder, encoder if torch.equal(encoder, decoder) else decoder


def layer_parameters(parameters: Parameters, config: Mapping[str, Any]) -> dict[str, Tensor]:
    """The parameters of all layers, which have the same names in fairseq."""
    state = {}
    for side in SIDES:
        for layer in range(config[f"{side}_layers"]):
            for name, shape in layer_shapes(config, side):
                place = f"{side}.layers.{layer}.{name}"
                state[place] = parameters.inner(place, *shape)
    return state


def layer_shapes(config: Mapping[str, Any], side: str) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Names and shapes of the parameters of one layer."""
    width, inner = config["d_model"], config[f"{side}_ffn_dim"]
    maps = {"fc1": (inner, width), "fc2": (width, inner)}
    norms = ["final_layer_norm"]
    for attention in ATTENTIONS[side]:
        norms.append(f"{attention}_layer_norm")
        for projection in ("q_proj", "k_proj", "v_proj", "out_proj"):
            maps[f"{attention}.{projection}"] = (width, width)
    for name, (rows, columns) in maps.items():
        yield f"{name}.weight", (rows, columns)
        yield f"{name}.bias", (rows,)
    for name in norms:
        yield f"{name}.weight", (width,)
        yield f"{name}.bias", (width,)


def norm_parameters(
    parameters: Parameters, config: Mapping[str, Any], name: str
) -> dict[str, Tensor]:
    """The parameters of a LayerNorm that encoder and decoder have beside their layers."""
    state = {}
    for side in SIDES:
        for part in ("weight", "bias"):
            place = f"{side}.{name}.{part}"
            state[place] = parameters.inner(place, config["d_model"])
    return state


def embedding_parameters(
    embeddings: Embeddings, sides: tuple[Vocabulary, Vocabulary]
) -> dict[str, Tensor]:
    """Embeddings by fairseq's names, in the order of the dictionaries.

    Args:
        sides: the vocabularies of source and target.
    """
    encoder = sides[0].rows(embeddings.encoder)
    is_shared = embeddings.decoder is embeddings.encoder
    decoder = encoder if is_shared else sides[1].rows(embeddings.decoder)
    is_tied = embeddings.output is embeddings.decoder
    output = decoder if is_tied else sides[1].rows(embeddings.output)
    return {
        "encoder.version": torch.tensor([3.0]),
        "decoder.version": torch.tensor([3.0]),
        "encoder.embed_tokens.weight": encoder,
        "decoder.embed_tokens.weight": decoder,
        "decoder.output_projection.weight": output,
    }


def fairseq_options(folder: HuggingFaceFolder, embeddings: Embeddings, **more: Any) -> Namespace:
    """The options of our Transformer; ``more`` are those that families differ in."""
    config = folder.config
    is_tied = embeddings.output is embeddings.decoder
    is_shared = embeddings.decoder is embeddings.encoder
    options = Namespace(
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
    )
    for name, default in DROPOUTS.items():
        setattr(options, name, config.get(name, default))
    for side in SIDES:
        setattr(options, f"{side}_embed_dim", config["d_model"])
        setattr(options, f"{side}_layers", config[f"{side}_layers"])
        setattr(options, f"{side}_ffn_embed_dim", config[f"{side}_ffn_dim"])
        setattr(options, f"{side}_attention_heads", config[f"{side}_attention_heads"])
    vars(options).update(more)
    return options


def languages_note(languages: Sequence[str], what: str = "languages") -> str:
    return f"{len(languages)} {what}: {listed(languages)}"


def translation_commands(options: Namespace, search: Search, source_model: str) -> list[list[str]]:
    """To align, and to translate as Hugging Face does.

    Args:
        source_model: the SentencePiece model of source text; translations need but its marks.
    """
    languages = ["-s", options.source_lang or "LANG", "-t", options.target_lang or "LANG"]
    task = ["--task", options.task]
    if options.task == MULTILINGUAL:
        task += ["--language-codes", options.language_codes]
    model = [DIR, "--path", MODEL]
    align = ["normalign", "align", *model]
    if options.target_lang is None:
        align += languages
    translate = ["fairseq-interactive", *model, "--user-dir", _user_dir(), *task]
    translate += [*languages, "--bpe", "sentencepiece", "--sentencepiece-model", source_model]
    return [
        [*align, "--source-file", "SOURCE", "--target-file", "TARGET"],
        [*translate, *search.options, "--input", "SOURCE"],
    ]


def _user_dir() -> str:
    """This package, by name where fairseq would find it: beside itself."""
    package = Path(__file__).parents[1]
    beside = Path(fairseq.__file__).parents[1] / package.name
    return package.name if beside.is_dir() else str(package)


FILE = "generation_config.json"
# What fairseq cannot do, with the values that ask for nothing.
UNHEARD: dict[str, tuple[Any, ...]] = {
    "do_sample": (False, None),
    "repetition_penalty": (1.0, 1, None),
    "early_stopping": (False, True, None),  # not "never"
    "num_beam_groups": (1, None),
    "diversity_penalty": (0.0, 0, None),
    "encoder_no_repeat_ngram_size": (0, None),
    "min_length": (0, None),
    "min_new_tokens": (0, None),
    "suppress_tokens": ([], None),
}


class Search(NamedTuple):
    """Options for fairseq, and what they leave out."""

    options: list[str]
    notes: list[str]
    renormalises: bool  # whether tokens that may not be generated have no share of probability


def read_search(folder: HuggingFaceFolder) -> Search:
    """From ``generation_config.json``, or from ``config.json`` in older folders."""
    said = folder.json(FILE) if folder.has(FILE) else folder.config  # never both, as there
    beam = _whole(folder, said, "num_beams", 1, 1)
    longest = _longest(folder, said)
    options = [
        *("--beam", str(beam), "--lenpen", f"{_number(folder, said, 'length_penalty', 1.0):g}"),
        # The first token, which is given, and </s> count there, but not here.
        *("--max-len-a", "0", "--max-len-b", str(max(longest - 2, 1)), "--min-len", "0"),
    ]
    ngrams = _whole(folder, said, "no_repeat_ngram_size", 0, 0)
    if ngrams:
        options += ["--no-repeat-ngram-size", str(ngrams)]
    if beam > 1 and said.get("early_stopping") is not True:
        options.append("--no-early-stop")
    notes = []
    unheard = [name for name, usual in UNHEARD.items() if said.get(name) not in usual]
    if unheard:
        notes.append(f"fairseq's search does without its settings {', '.join(unheard)}")
    return Search(options, notes, renormalises=said.get("renormalize_logits") is True)


def _file(folder: HuggingFaceFolder) -> Path:
    return folder.path / (FILE if folder.has(FILE) else "config.json")


def _number(folder: HuggingFaceFolder, said: Mapping[str, Any], name: str, default: float) -> float:
    value = said.get(name)
    if value is None:
        return default
    if type(value) not in (int, float) or not -math.inf < value < math.inf:
        raise InputError(f"{_file(folder)}: {name} is {value!r}; expected a number")
    return value


def _whole(
    folder: HuggingFaceFolder, said: Mapping[str, Any], name: str, default: int, least: int
) -> int:
    value = _number(folder, said, name, default)
    if value != int(value) or value < least:
        raise InputError(
            f"{_file(folder)}: {name} is {value!r}; expected a whole number from {least} on"
        )
    return int(value)


def _longest(folder: HuggingFaceFolder, said: Mapping[str, Any]) -> int:
    """How long translations may be, with the token that is given first, and </s>."""
    if said.get("max_new_tokens") is not None:  # goes before
        return _whole(folder, said, "max_new_tokens", 0, 1) + 1
    return _whole(folder, said, "max_length", folder.config["max_position_embeddings"], 1)
