"""From a fairseq checkpoint to a Hugging Face folder, in the format that can hold the model.

Marian holds models whose layers are normalised behind their residuals, whatever their positions: a
table of them is written. M2M-100 holds those that are normalised before, with fairseq's sines, and
mBART those with learned positions and a LayerNorm over embeddings. Heads that were pruned come back
as zeros, as these formats have no attention with fewer heads than fill the width.
"""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from fairseq.data import Dictionary
from fairseq.data.data_utils import infer_language_pair
from fairseq.modules import SinusoidalPositionalEmbedding
from safetensors.torch import save_file
from torch import Tensor

from fairseq_normalign.errors import InputError
from fairseq_normalign.host.checkpoint import read_transformer
from fairseq_normalign.host.checkpoint_errors import explained
from fairseq_normalign.host.dictionaries import BOS, EOS, PAD, dictionary_file
from fairseq_normalign.host.head_removal import columns_of
from fairseq_normalign.host.language_codes import DICTIONARY, MULTILINGUAL, TARGET_DICTIONARY
from fairseq_normalign.host.search import SEARCH
from fairseq_normalign.host.text_options import READING, apply_reading, has_reading
from fairseq_normalign.host.trust import task_options_of
from fairseq_normalign.huggingface.conversion import refuse_used, whole_folder
from fairseq_normalign.huggingface.converted import RESERVED
from fairseq_normalign.huggingface.translation import (
    EMBEDDINGS,
    FUNCTIONS,
    HEAD,
    SHARED,
    SIDES,
    layer_shapes,
)
from fairseq_normalign.names import ALL, KINDS, all_heads, parse_heads

PROJECTIONS = ("q_proj", "k_proj", "v_proj")
CLASSES = {
    "marian": "MarianMTModel",
    "m2m_100": "M2M100ForConditionalGeneration",
    "mbart": "MBartForConditionalGeneration",
}
# Parameters that the state of a model has, and no format of Hugging Face.
UNWANTED = ("encoder.version", "decoder.version")
# Options that change what a model computes, and that no format has.
UNHELD = {
    "no_cross_attention": "no attention to the source",
    "cross_self_attention": "attention to source and target in one",
    "no_token_positional_embeddings": "no positions",
    "adaptive_softmax_cutoff": "an adaptive softmax",
}
NO_FORMAT = "Hugging Face has no format for it: it has"
LN_EMBEDDING = "layernorm_embedding"
BIAS = "final_logits_bias"
Shapes = dict[str, tuple[int, ...]]
Files = dict[str, str | bytes]


class Exported(NamedTuple):
    """What a user is told."""

    title: str
    notes: list[str]


def export_folder(path: str, data: str, output: str) -> Exported:
    """Writes a checkpoint as a Hugging Face folder: all of it, or nothing.

    Args:
        data: the folder of its dictionaries.
    """
    refuse_used(output)
    state, options = read_transformer(path)
    kind = _format(path, options)
    notes: list[str] = []
    parameters = _filled(path, state["model"], options, notes)
    config = _config(kind, options, parameters)
    tensors = _tensors(kind, options, parameters, config)
    _check_names(path, kind, tensors, _shapes(kind, options, config))
    files: Files = {"generation_config.json": _json(_generation(config))}
    said = task_options_of(path, state)
    if said.get("task") == MULTILINGUAL and kind != "marian":
        notes.append(
            "its tokeniser is that of the folder that it was imported from: copy its files"
        )
    else:
        files.update(_tokeniser(path, said, Path(data), config, notes))
    with whole_folder(output) as part:
        whole = {name: values.contiguous() for name, values in tensors.items()}
        save_file(whole, part / "model.safetensors", {"format": "pt"})
        for name, content in {"config.json": _json(config), **files}.items():
            data_of_file = content.encode("utf-8") if isinstance(content, str) else content
            (part / name).write_bytes(data_of_file)
    return Exported(f"{CLASSES[kind]}, {len(tensors)} tensors", notes)


def _json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def _format(path: str, options: Namespace) -> str:
    """The format that holds a model; what none of them can hold is told, all at once."""
    before = {bool(getattr(options, f"{side}_normalize_before", False)) for side in SIDES}
    learned = {bool(getattr(options, f"{side}_learned_pos", False)) for side in SIDES}
    over_embeddings = bool(getattr(options, "layernorm_embedding", False))
    problems = []
    if getattr(options, "gate_heads", None):
        problems.append("gates; fold them first: normalign prune --keep all")
    problems += [what for name, what in UNHELD.items() if getattr(options, name, None)]
    if options.encoder_embed_dim != options.decoder_embed_dim:
        problems.append("an encoder and a decoder of different widths")
    if getattr(options, "activation_fn", "relu") not in FUNCTIONS.values():
        problems.append(f"the activation function {options.activation_fn}")
    if len(before) > 1 or len(learned) > 1:
        problems.append("an encoder and a decoder that differ in positions or in normalisation")
    kind = {
        (False, True, False): "marian",
        (False, False, False): "marian",
        (True, False, False): "m2m_100",
        (True, True, True): "mbart",
    }.get((max(before), max(learned), over_embeddings))
    if kind is None:
        problems.append("positions and LayerNorms that no format has together")
    if kind in ("m2m_100", "mbart") and not options.share_all_embeddings:
        problems.append(f"embeddings that are not all shared, as {CLASSES[kind]} has them")
    if kind == "m2m_100" and getattr(options, "logits_bias", False):
        problems.append("a bias of the logits")
    if problems or kind is None:
        raise InputError(f"{path}: {NO_FORMAT} {'; '.join(problems)}")
    return kind


def _filled(
    path: str, parameters: Mapping[str, Tensor], options: Namespace, notes: list[str]
) -> dict[str, Tensor]:
    """The parameters in single precision, with zeros for heads that were removed."""
    whole = {name: values.float() for name, values in parameters.items()}
    alive = getattr(options, "alive_heads", None) or ALL
    counts = {}
    for kind, (side, *_) in KINDS.items():
        heads = getattr(options, f"{side}_attention_heads")
        for layer in range(getattr(options, f"{side}_layers")):
            counts[kind, layer] = heads
    known = all_heads(counts)
    kept = parse_heads(alive, known)
    for (kind, layer), count in counts.items():
        numbers = [head.head for head in kept if head[:2] == (kind, layer)]
        if len(numbers) < count:
            _fill(whole, KINDS[kind].prefix(layer), numbers, count)
    if len(kept) < len(known):
        notes.append(
            f"{len(known) - len(kept)} of {len(known)} heads were removed, which the format cannot "
            "do: they are there as zeros, and the model is as large as before"
        )
    return whole


def _fill(parameters: dict[str, Tensor], prefix: str, numbers: list[int], count: int) -> None:
    """Puts the heads of an attention back to their places, among zeros."""
    out_name = f"{prefix}out_proj.weight"
    width = parameters[out_name].shape[0]
    places = columns_of(numbers, width // count)
    out_weight = torch.zeros(width, width)
    out_weight[:, places] = parameters[out_name]
    parameters[out_name] = out_weight
    for projection in PROJECTIONS:
        for part in ("weight", "bias"):
            name = f"{prefix}{projection}.{part}"
            values = torch.zeros(width, *parameters[name].shape[1:])
            values[places] = parameters[name]
            parameters[name] = values


def _is_tied(options: Namespace) -> bool:
    """Whether the decoder's words are embedded and predicted by the same parameters."""
    return bool(options.share_all_embeddings or options.share_decoder_input_output_embed)


def _config(kind: str, options: Namespace, parameters: Mapping[str, Tensor]) -> dict[str, Any]:
    """``config.json``; tokens have the numbers of fairseq's dictionaries."""
    functions = {ours: theirs for theirs, ours in reversed(FUNCTIONS.items())}
    source, target = (len(parameters[f"{side}.embed_tokens.weight"]) for side in SIDES)
    starts_with_bos = getattr(options, "start_with_bos", False)
    config = {
        "architectures": [CLASSES[kind]],
        "model_type": kind,
        "is_encoder_decoder": True,
        "vocab_size": source,
        "d_model": options.encoder_embed_dim,
        "activation_function": functions[getattr(options, "activation_fn", "relu")],
        "scale_embedding": not getattr(options, "no_scale_embedding", False),
        "max_position_embeddings": min(options.max_source_positions, options.max_target_positions),
        "tie_word_embeddings": _is_tied(options),
        "bos_token_id": BOS,
        "pad_token_id": PAD,
        "eos_token_id": EOS,
        "decoder_start_token_id": BOS if starts_with_bos else EOS,
        "dropout": options.dropout,
        "attention_dropout": getattr(options, "attention_dropout", 0.0),
        "activation_dropout": getattr(options, "activation_dropout", 0.0),
    }
    for side in SIDES:
        config[f"{side}_layers"] = getattr(options, f"{side}_layers")
        config[f"{side}_ffn_dim"] = getattr(options, f"{side}_ffn_embed_dim")
        config[f"{side}_attention_heads"] = getattr(options, f"{side}_attention_heads")
        config[f"{side}_layerdrop"] = 0.0
    if kind == "marian":
        config["decoder_vocab_size"] = target
        config["share_encoder_decoder_embeddings"] = bool(options.share_all_embeddings)
        config["forced_eos_token_id"] = EOS
    return config


def _tensors(
    kind: str, options: Namespace, parameters: dict[str, Tensor], config: Mapping[str, Any]
) -> dict[str, Tensor]:
    """Parameters by Hugging Face's names."""
    left = {name: values for name, values in parameters.items() if name not in UNWANTED}
    words = {side: left.pop(f"{side}.embed_tokens.weight") for side in SIDES}
    output = left.pop("decoder.output_projection.weight", words["decoder"])
    tensors = {}
    if options.share_all_embeddings:
        tensors[f"model.{SHARED}"] = words["encoder"]
    else:
        for side in SIDES:
            tensors[f"model.{EMBEDDINGS[side]}"] = words[side]
    if not config["tie_word_embeddings"]:
        tensors[HEAD] = output
    bias = left.pop("decoder.logits_bias", torch.zeros(len(output)))
    if kind != "m2m_100":
        tensors[BIAS] = bias[None]
    for side in SIDES:
        if kind == "marian":
            tensors[f"model.{side}.embed_positions.weight"] = _positions(left, side, config)
        if kind == "mbart":
            name = f"{side}.embed_positions.weight"
            rows = RESERVED + config["max_position_embeddings"]
            tensors[f"model.{name}"] = left.pop(name)[:rows].clone()
    tensors.update((f"model.{name}", values) for name, values in left.items())
    return tensors


def _shapes(kind: str, options: Namespace, config: Mapping[str, Any]) -> Shapes:
    """All parameters that a folder of the format has, by name."""
    width, positions = config["d_model"], config["max_position_embeddings"]
    source = config["vocab_size"]
    target = config.get("decoder_vocab_size", source)
    shapes: Shapes = {f"model.{SHARED}": (source, width)}
    if not options.share_all_embeddings:
        sizes = dict(zip(SIDES, (source, target), strict=True))
        shapes = {f"model.{EMBEDDINGS[side]}": (sizes[side], width) for side in SIDES}
    if not config["tie_word_embeddings"]:
        shapes[HEAD] = (target, width)
    if kind != "m2m_100":
        shapes[BIAS] = (1, target)
    norms = {"marian": [], "m2m_100": ["layer_norm"], "mbart": ["layer_norm", LN_EMBEDDING]}[kind]
    rows = {"marian": positions, "mbart": RESERVED + positions}
    for side in SIDES:
        if kind in rows:
            shapes[f"model.{side}.embed_positions.weight"] = (rows[kind], width)
        for norm in norms:
            shapes.update((f"model.{side}.{norm}.{part}", (width,)) for part in ("weight", "bias"))
        for layer in range(config[f"{side}_layers"]):
            for name, shape in layer_shapes(config, side):
                shapes[f"model.{side}.layers.{layer}.{name}"] = shape
    return shapes


def _check_names(path: str, kind: str, tensors: Mapping[str, Tensor], shapes: Shapes) -> None:
    """Refuses a model whose parameters are not exactly those of the format."""
    known = f"those of {CLASSES[kind]}"
    for name in [*tensors, *shapes]:
        ours = f"{name.removeprefix('model.')!r}"
        if name not in shapes:
            raise InputError(f"{path}: {NO_FORMAT} the parameter {ours}; expected {known}")
        if name not in tensors:
            raise InputError(f"{path}: {NO_FORMAT} no parameter {ours}; expected {known}")
        shape = tuple(tensors[name].shape)
        if shape != shapes[name]:
            raise InputError(
                f"{path}: {NO_FORMAT} {ours} of the shape {shape}; expected {shapes[name]}"
            )


def _positions(parameters: dict[str, Tensor], side: str, config: Mapping[str, Any]) -> Tensor:
    """A table from the first position on; fairseq's begins behind the padding's number."""
    count = config["max_position_embeddings"]
    name = f"{side}.embed_positions.weight"
    if name in parameters:
        return parameters.pop(name)[RESERVED : RESERVED + count].clone()
    sines = SinusoidalPositionalEmbedding.get_embedding(RESERVED + count, config["d_model"], PAD)
    return sines[RESERVED:].clone()


def _tokeniser(
    path: str, said: Mapping[str, Any], data: Path, config: Mapping[str, Any], notes: list[str]
) -> Files:
    """Marian's tokeniser, where there are SentencePiece models beside the dictionaries.

    Args:
        said: what the checkpoint says of its task.
    """
    told = [said.get("source_lang"), said.get("target_lang")]
    languages = [name if isinstance(name, str) else None for name in told]
    if said.get("task") == MULTILINGUAL:
        has_own = (data / TARGET_DICTIONARY).is_file()
        names = [DICTIONARY, TARGET_DICTIONARY if has_own else DICTIONARY]
    else:
        if None in languages:
            languages = _languages(path, data)
        names = [f"dict.{language}.txt" for language in languages]
    dictionaries = [_dictionary(path, data / name) for name in names]
    sizes = [config["vocab_size"], config.get("decoder_vocab_size", config["vocab_size"])]
    for dictionary, name, size in zip(dictionaries, names, sizes, strict=True):
        if len(dictionary) != size:
            raise InputError(
                f"{data}: {name} has {len(dictionary)} types, and the model {size}; "
                "of another model?"
            )
    is_shared = config.get("share_encoder_decoder_embeddings", True)
    files: Files = {"vocab.json": _json(dictionaries[0].indices)}
    if not is_shared:
        files["target_vocab.json"] = _json(dictionaries[1].indices)
    models = _sentencepiece_models(data)
    if not models:
        notes.append(
            "it has no tokeniser: expected one SentencePiece model beside the dictionaries, or a "
            f"{READING} that names them"
        )
        return files
    files["source.spm"], files["target.spm"] = map(_content, models)
    settings = {
        "tokenizer_class": "MarianTokenizer",
        "source_lang": languages[0],
        "target_lang": languages[1],
        "separate_vocabs": not is_shared,
        "model_max_length": config["max_position_embeddings"],
    }
    files["tokenizer_config.json"] = _json(settings)
    return files


def _generation(config: Mapping[str, Any]) -> dict[str, Any]:
    """How to search: padding is never generated."""
    names = ("bos_token_id", "pad_token_id", "eos_token_id", "decoder_start_token_id")
    settings: dict[str, Any] = {name: config[name] for name in names}
    longest = config["max_position_embeddings"]
    settings.update(forced_eos_token_id=EOS, bad_words_ids=[[PAD]])
    return {**settings, "max_length": longest, "num_beams": SEARCH["beam"]}


def _languages(path: str, data: Path) -> list[str | None]:
    """Source and target of a checkpoint that does not tell them, by the binarised data."""
    languages = list(infer_language_pair(str(data))) if data.is_dir() else [None]
    if None in languages:
        raise InputError(
            f"{path}: does not name its languages, and {data} has no binarised data that would; "
            "expected --data with the folder that it was trained on"
        )
    return languages


def _dictionary(path: str, file: Path) -> Dictionary:
    file = Path(dictionary_file(str(file)))
    if not file.is_file():
        raise InputError(f"{file}: no such dictionary, which the model needs")
    with explained(path, str(file.parent)):
        return Dictionary.load(str(file))


def _sentencepiece_models(data: Path) -> list[Path]:
    """Of source and target, as the folder says, or the only one that it has; [] if neither."""
    if not has_reading(data):
        found = [*data.glob("*.model"), *data.glob("*.spm")]
        return found * 2 if len(found) == 1 else []
    told = Namespace(sentencepiece_model=None)
    apply_reading(told, data)
    options = [f"{side}_sentencepiece_model" for side in ("source", "target")]
    names = [getattr(told, option, None) or told.sentencepiece_model for option in options]
    return [] if None in names else [Path(name) for name in names]


def _content(model: Path) -> bytes:
    """A SentencePiece model as it is stored."""
    try:
        return model.read_bytes()
    except OSError as error:
        raise InputError(f"{model}: {error.strerror}; expected a SentencePiece model") from None
