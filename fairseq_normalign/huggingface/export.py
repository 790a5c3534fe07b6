"""From a fairseq checkpoint to a Hugging Face folder, in the format that can hold the model.

Marian holds models whose layers are normalised behind their residuals, whatever their positions: a
table of them is written. M2M-100 holds those that are normalised before, with fairseq's sines, and
mBART those with learned positions and a LayerNorm over embeddings. Heads that were pruned come back
as zeros, as these formats have no attention with fewer heads than fill the width.
"""

from __future__ import annotations

import json
from argparse import Namespace
from pathlib import Path
from typing import Any

import torch
from fairseq.data import Dictionary
from fairseq.data.data_utils import infer_language_pair
from fairseq.modules import SinusoidalPositionalEmbedding
from safetensors.torch import save_file
from torch import Tensor

from fairseq_normalign.errors import InputError
from fairseq_normalign.host.attention_modules import OF_HEADS, attentions_in, columns_of
from fairseq_normalign.host.checkpoint import dictionary_file, read_transformer
from fairseq_normalign.host.checkpoint_errors import explained
from fairseq_normalign.host.segmentation import READING, has_reading, told_reading
from fairseq_normalign.host.special_tokens import (
    BOS,
    DICTIONARY,
    EOS,
    MULTILINGUAL,
    PAD,
    TARGET_DICTIONARY,
)
from fairseq_normalign.host.trust import task_options_of
from fairseq_normalign.huggingface.conversion import Written, refuse_used, whole_folder
from fairseq_normalign.huggingface.converted import RESERVED, Files, Parameters
from fairseq_normalign.huggingface.folder import Config, Tensors
from fairseq_normalign.huggingface.translation import (
    BIAS,
    DROPOUTS,
    EMBEDDINGS,
    FUNCTIONS,
    HEAD,
    OUTPUT,
    POSITIONS,
    SHARED,
    SIDES,
    SIZES,
    layer_parameters,
)
from fairseq_normalign.names import ALL, KINDS, all_heads, parse_heads
from fairseq_normalign.options import SEARCH

CLASSES = {
    "marian": "MarianMTModel",
    "m2m_100": "M2M100ForConditionalGeneration",
    "mbart": "MBartForConditionalGeneration",
}
# By whether layers are normalised before, positions learned, and embeddings normalised.
FORMATS: dict[tuple[bool, ...], str] = {
    (False, True, False): "marian",
    (False, False, False): "marian",
    (True, False, False): "m2m_100",
    (True, True, True): "mbart",
}
# Options of fairseq that no format has.
UNSUPPORTED = {
    "gate_heads": "gates; fold them first: normalign prune --keep all",
    "no_cross_attention": "no attention to the source",
    "cross_self_attention": "attention to source and target in one",
    "no_token_positional_embeddings": "no positions",
    "adaptive_softmax_cutoff": "an adaptive softmax",
}
NO_FORMAT = "Hugging Face has no format for it"


def export_folder(path: str, data: str, output: str) -> Written:
    """Writes a checkpoint as a Hugging Face folder: all of it, or nothing.

    Args:
        data: the folder of its dictionaries.
    """
    refuse_used(output)
    state, options = read_transformer(path)
    kind = _format(path, options)
    notes: list[str] = []
    parameters = _filled(state["model"], options, notes)
    config = _config(kind, options, parameters)
    tensors = _tensors(path, options, parameters, config)
    files: Files = {
        "config.json": _json(config),
        "generation_config.json": _json(_generation(config)),
    }
    said = task_options_of(path, state)
    if said.get("task") == MULTILINGUAL and kind != "marian":
        notes.append(
            "no tokenizer was written: copy the files of the folder that it was imported from"
        )
    else:
        files.update(_tokeniser(path, said, Path(data), config, notes))
    with whole_folder(output, files) as part:
        save_file(tensors, part / "model.safetensors", {"format": "pt"})
    return Written(f"{CLASSES[kind]}, {len(tensors)} tensors", notes)


def _json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def _format(path: str, options: Namespace) -> str:
    """The format that holds a model; what none of them can hold is told, all at once."""
    found = [what for name, what in UNSUPPORTED.items() if getattr(options, name, None)]
    layouts = []
    for side in SIDES:
        names = (f"{side}_normalize_before", f"{side}_learned_pos", "layernorm_embedding")
        layouts.append(tuple(bool(getattr(options, name, False)) for name in names))
    encoder, decoder = layouts
    kind = FORMATS.get(encoder, "")
    is_other_width = options.encoder_embed_dim != options.decoder_embed_dim
    if not kind or encoder != decoder or is_other_width:
        found.append("this combination of widths, positions and LayerNorms")
    function = getattr(options, "activation_fn", "relu")
    if function not in FUNCTIONS.values():
        found.append(f"the activation function {function}")
    if kind in ("m2m_100", "mbart") and not options.share_all_embeddings:
        found.append(f"embeddings that are not all shared, as in {CLASSES[kind]}")
    if kind == "m2m_100" and getattr(options, "logits_bias", False):
        found.append("a bias of the logits")
    if found:
        raise InputError(f"{path}: {NO_FORMAT}: it has {'; '.join(found)}")
    return kind


def _filled(parameters: Tensors, options: Namespace, notes: list[str]) -> Tensors:
    """The parameters in single precision, with zeros for heads that were removed."""
    whole = {name: values.float() for name, values in parameters.items()}
    counts = {}
    for kind, layer, _ in attentions_in(whole):
        counts[kind, layer] = getattr(options, f"{KINDS[kind].side}_attention_heads")
    known = all_heads(counts)
    kept = parse_heads(getattr(options, "alive_heads", None) or ALL, known)
    for kind, layer, prefix in list(attentions_in(whole)):
        width = len(whole[f"{prefix}out_proj.weight"])
        numbers = [head.head for head in kept if head[:2] == (kind, layer)]
        places = columns_of(numbers, width // counts[kind, layer])
        for part, dim in OF_HEADS.items():
            if prefix + part in whole:  # not in a layout of fairseq before 0.9; refused below
                values = whole[prefix + part]
                shape = [*values.shape]
                shape[dim] = width
                whole[prefix + part] = torch.zeros(shape).index_copy(dim, places, values)
    if len(kept) < len(known):
        notes.append(
            f"{len(known) - len(kept)} of {len(known)} heads were pruned, which the format cannot "
            "say: they are written as zeros, and the model is as large as before"
        )
    return whole


def _config(kind: str, options: Namespace, parameters: Tensors) -> Config:
    """``config.json``; tokens have the numbers of fairseq's dictionaries."""
    said = vars(options)
    functions = {ours: theirs for theirs, ours in reversed(FUNCTIONS.items())}
    source, target = (len(parameters[name]) for name in EMBEDDINGS.values())
    is_tied = options.share_all_embeddings or options.share_decoder_input_output_embed
    config = {
        "architectures": [CLASSES[kind]],
        "model_type": kind,
        "is_encoder_decoder": True,
        "vocab_size": source,
        "activation_function": functions[said.get("activation_fn", "relu")],
        "scale_embedding": not said.get("no_scale_embedding"),
        "max_position_embeddings": min(options.max_source_positions, options.max_target_positions),
        "tie_word_embeddings": bool(is_tied),
        "bos_token_id": BOS,
        "pad_token_id": PAD,
        "eos_token_id": EOS,
        "decoder_start_token_id": BOS if said.get("start_with_bos") else EOS,
    }
    for name in DROPOUTS:
        config[name] = said.get(name, 0.0)
    for ours, theirs in SIZES.items():
        config[theirs] = said[ours]
    for side in SIDES:
        config[f"{side}_layerdrop"] = 0.0
    if kind == "marian":
        config["decoder_vocab_size"] = target
        config["share_encoder_decoder_embeddings"] = bool(options.share_all_embeddings)
        config["forced_eos_token_id"] = EOS
    return config


def _tensors(path: str, options: Namespace, parameters: Tensors, config: Config) -> Tensors:
    """Parameters by Hugging Face's names, which are all that the format has."""
    kind = config["model_type"]
    taken = Parameters(f"{path}: {NO_FORMAT}", parameters)
    tensors = layer_parameters(taken, config)
    for name in EMBEDDINGS.values():
        tensors[name] = taken.take(name)
    if options.share_all_embeddings:
        tensors[SHARED] = tensors.pop(EMBEDDINGS["encoder"])
        del tensors[EMBEDDINGS["decoder"]]
    if kind != "m2m_100":
        for name in POSITIONS.values():
            tensors[name] = _positions(taken, name, config)
    tensors = {f"model.{name}": values for name, values in tensors.items()}
    output = taken.first([OUTPUT, EMBEDDINGS["decoder"]])
    if not config["tie_word_embeddings"]:
        tensors[HEAD] = output
    if kind != "m2m_100":
        bias = taken.take(BIAS) if BIAS in taken else torch.zeros(len(output))
        tensors["final_logits_bias"] = bias[None]
    unknown = [name for name in taken.left() if not name.endswith("coder.version")]
    if unknown:
        raise InputError(f"{path}: {NO_FORMAT}: {CLASSES[kind]} has no parameter {unknown[0]!r}")
    return {name: values.contiguous() for name, values in tensors.items()}


def _positions(taken: Parameters, name: str, config: Config) -> Tensor:
    """A table of positions, which Marian's has from the first on; fairseq's has rows before it."""
    end = RESERVED + config["max_position_embeddings"]
    if name in taken:
        table = taken.take(name)
    else:
        table = SinusoidalPositionalEmbedding.get_embedding(end, config["d_model"], PAD)
    return table[RESERVED if config["model_type"] == "marian" else 0 : end].clone()


def _tokeniser(path: str, said: Config, data: Path, config: Config, notes: list[str]) -> Files:
    """Marian's tokeniser, where there are SentencePiece models beside the dictionaries.

    Args:
        said: what the checkpoint says of its task.
    """
    languages = [said.get("source_lang"), said.get("target_lang")]
    if said.get("task") == MULTILINGUAL:
        has_own = (data / TARGET_DICTIONARY).is_file()
        names = [DICTIONARY, TARGET_DICTIONARY if has_own else DICTIONARY]
    else:
        if None in languages and data.is_dir():  # which may have binarised data of them
            languages = list(infer_language_pair(str(data)))
        if None in languages:
            raise InputError(
                f"{path}: does not name its languages; pass --data with the folder of the "
                "binarized data that it was trained on"
            )
        names = [f"dict.{language}.txt" for language in languages]
    files: Files = {"vocab.json": _numbers(path, data / names[0], config["vocab_size"])}
    is_shared = config.get("share_encoder_decoder_embeddings", True)
    if not is_shared:
        size = config["decoder_vocab_size"]
        files["target_vocab.json"] = _numbers(path, data / names[1], size)
    models = _sentencepiece_models(data)
    if not models:
        notes.append(
            "no tokenizer was written: there is not one SentencePiece model beside the "
            f"dictionaries, nor a {READING} that names them"
        )
        return files
    files["source.spm"], files["target.spm"] = (model.read_bytes() for model in models)
    settings = {
        "tokenizer_class": "MarianTokenizer",
        "source_lang": languages[0],
        "target_lang": languages[1],
        "separate_vocabs": not is_shared,
        "model_max_length": config["max_position_embeddings"],
    }
    files["tokenizer_config.json"] = _json(settings)
    return files


def _generation(config: Config) -> Config:
    """How to search: padding is never generated."""
    names = ("bos_token_id", "pad_token_id", "eos_token_id", "decoder_start_token_id")
    return {
        **{name: config[name] for name in names},
        "forced_eos_token_id": EOS,
        "bad_words_ids": [[PAD]],
        "max_length": config["max_position_embeddings"],
        "num_beams": SEARCH["beam"],
    }


def _numbers(path: str, file: Path, size: int) -> str:
    """The tokens of a dictionary with their numbers, as JSON."""
    file = Path(dictionary_file(str(file)))
    if not file.is_file():
        raise InputError(f"{file}: no such dictionary, which {path} needs")
    with explained(str(file)):
        dictionary = Dictionary.load(str(file))
    if len(dictionary) != size:
        raise InputError(
            f"{file}: {len(dictionary)} types, but the model has {size}; is it of another model?"
        )
    return _json(dictionary.indices)


def _sentencepiece_models(data: Path) -> list[Path]:
    """Of source and target, as the folder says, or the only one that it has; [] if neither."""
    if not has_reading(data):
        found = [*data.glob("*.model"), *data.glob("*.spm")]
        return found * 2 if len(found) == 1 else []
    told = told_reading(data)
    common = told.get("sentencepiece_model", "")
    names = [told.get(f"{side}_sentencepiece_model", common) for side in ("source", "target")]
    if not all(names):
        return []
    for name in names:
        if not Path(name).is_file():
            raise InputError(f"{name}: no such SentencePiece model, which {READING} names")
    return list(map(Path, names))
