"""Loads, checks and writes fairseq checkpoints, none of which may run code, with dictionaries."""

from __future__ import annotations

import argparse
import copy
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from fairseq import checkpoint_utils
from fairseq.data import Dictionary
from fairseq.models import (
    ARCH_CONFIG_REGISTRY,
    ARCH_MODEL_NAME_REGISTRY,
    ARCH_MODEL_REGISTRY,
    FairseqMultiModel,
)
from fairseq.models.nat import FairseqNATModel
from fairseq.models.transformer import TransformerModel
from torch import Tensor

from fairseq_normalign.errors import InputError
from fairseq_normalign.files import refuse_unwritable, whole_file
from fairseq_normalign.host.attention_modules import name_heads
from fairseq_normalign.host.checkpoint_errors import explained, one_line
from fairseq_normalign.host.compat import drop_copies, without_leftovers
from fairseq_normalign.host.special_tokens import is_multilingual, languages_of
from fairseq_normalign.host.trust import (
    check_is_file,
    guard_fairseq,
    options_of,
    plain,
    stored_languages,
    unpickle,
)
from fairseq_normalign.names import ALL

VARIANT = "transformer_normalign"
# Options that make a model look for other files when it is built; its parameters replace them.
INITIAL_VALUES = {
    "encoder_embed_path": None,
    "decoder_embed_path": None,
    "init_encoder_only": True,  # both, in transformer_from_pretrained_xlm: neither is initialised
    "init_decoder_only": True,
}

PART = 1 << 20  # numbers that are looked at together

guard_fairseq()


def load_single(path: str, data: str, overrides: dict | None = None):
    """The model of ``path``, which must name one checkpoint, in evaluation mode, and its task.

    Of a multilingual model, that of the pair.

    Args:
        data: the directory that holds the dictionaries.
        overrides: other options to change in the checkpoint's configuration.
    """
    if ":" in path:
        raise InputError(
            f"--path {path}: names an ensemble; alignments come from one model at a time"
        )
    for folder in data.split(":"):
        if not Path(folder).is_dir():
            raise InputError(f"{folder}: no such directory; name the one with dict.*.txt")
    check_is_file(path)
    with explained(path, data), joint_dictionaries(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # how fairseq calls its libraries is no news
        (model,), _, task = checkpoint_utils.load_model_ensemble_and_task(
            [path], {**(overrides or {}), "data": data}
        )
    _check_languages(path, task, overrides or {})
    drop_copies(model)
    check_finite(path, model.named_parameters())
    if isinstance(model, FairseqMultiModel):
        languages = languages_of(task)
        pair = "{}-{}".format(*languages)
        if pair not in model.models:
            found = f"no languages {pair}" if any(languages) else "no languages are named"
            raise InputError(
                f"{path}: {found}; use --source-lang and --target-lang of one of: "
                f"{', '.join(model.models)}"
            )
        model = model.models[pair]
    name_heads(model, getattr(getattr(model, "args", None), "head_order", None))
    return model.eval(), task


def _check_languages(path: str, task: Any, overrides: dict) -> None:
    """Refuses languages that are those of the checkpoint, but the other way round.

    Other names of the same languages do no harm, and a multilingual model has many directions.
    """
    named = overrides.get("source_lang"), overrides.get("target_lang")
    if not any(named) or is_multilingual(task):
        return
    source, target = stored_languages(path).values()
    crossed = named[0] == target or named[1] == source
    if crossed and None not in (source, target) and source != target:
        raise InputError(
            "{}: translates {}-{}, not {}-{}; use its own languages, or the model of the "
            "other direction".format(path, source, target, *languages_of(task))
        )


def check_finite(path: str, parameters: Iterable[tuple[str, Tensor]]) -> None:
    """Refuses a model with parameters that are infinite or no numbers."""
    broken = [name for name, values in parameters if not _is_finite(values)]
    if broken:
        raise InputError(
            f"{path}: {len(broken)} of its parameters have values that are infinite or no numbers "
            f"(first: {broken[0]!r}); did its training diverge?"
        )


def _is_finite(values: Any) -> bool:
    """Whether all real numbers of a tensor are finite; a checkpoint may hold anything."""
    if not isinstance(values, Tensor) or not values.is_floating_point():
        return True
    # In parts: the answer for each number would be as large as the numbers.
    return all(torch.isfinite(part).all() for part in values.flatten().split(PART))


def convert(path: str, arch: str, output: str) -> None:
    """Writes a checkpoint as one of another architecture with the same parameters.

    For fairseq's ``transformer*`` and our ``transformer_normalign*``: each loads what the other was
    trained as, and a checkpoint of the former needs no plugin.
    """
    refuse_unwritable(output, path)
    if not _is_transformer(arch):
        raise InputError(
            f"--arch {arch}: not a kind of transformer that fairseq or the plugin knows"
        )
    state, options = read_transformer(path)
    if not arch.startswith(VARIANT):
        if getattr(options, "gate_heads", None):
            raise InputError(
                f"{path}: has gates, which {arch} has not; fold them first: normalign prune "
                "--keep all"
            )
        if getattr(options, "alive_heads", None) not in (None, ALL):
            raise InputError(f"{path}: has heads removed, and {arch} must have all of them")
    rename(state, options, arch)
    check_fit(f"{path} as {arch}", state, options)
    save(state, output)


def read(path: str) -> tuple[dict, argparse.Namespace]:
    """A checkpoint on the CPU, and the model's options in it, which are a Namespace from now on."""
    state = unpickle(path)
    options = options_of(path, state)
    if not isinstance(options, argparse.Namespace):  # of fairseq-hydra-train
        with explained(path):
            options = argparse.Namespace(**{"arch": None, **plain(options)})
        options.arch = options.arch or getattr(options, "_name", None)
        # A node of OmegaConf cannot hold a Namespace.
        state["cfg"] = {**plain(state["cfg"]), "model": options}
    return state, options


def read_transformer(path: str) -> tuple[dict, argparse.Namespace]:
    """As :func:`read`, for encoder-decoder Transformers alone, whose parameters fit their options.

    Options that the checkpoint leaves to its architecture are filled in.
    """
    state, options = read(path)
    arch = getattr(options, "arch", None)
    if not _is_transformer(arch):
        raise InputError(f"{path}: its architecture is {arch!r}; expected a kind of transformer")
    state["model"] = without_leftovers(state["model"])
    check_fit(path, state, options)
    check_finite(path, state["model"].items())
    return state, options


def _is_transformer(arch: str | None) -> bool:
    """Whether models of an architecture translate from left to right, by attention alone."""
    model = ARCH_MODEL_REGISTRY.get(arch, object)
    return issubclass(model, TransformerModel) and not issubclass(model, FairseqNATModel)


def is_stock(arch: str) -> bool:
    """Whether an architecture is of fairseq's own ``transformer``."""
    return ARCH_MODEL_NAME_REGISTRY[arch] == "transformer"


def check_fit(path: str, state: dict, options: argparse.Namespace) -> None:
    """Refuses a checkpoint whose parameters are not those of the model that its options build.

    The model is built without dictionaries, and without memory (on PyTorch's device ``meta``) but
    for RoBERTa, whose first values fairseq draws.
    """
    device = "meta" if _is_transformer(options.arch) else "cpu"
    with explained(path), torch.device(device), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*copying from a non-meta parameter")
        ARCH_CONFIG_REGISTRY[options.arch](options)
        built = argparse.Namespace(**{**vars(copy.deepcopy(options)), **INITIAL_VALUES})
        model = ARCH_MODEL_REGISTRY[options.arch].build_model(built, _task(state["model"]))
        model.load_state_dict(dict(state["model"]), strict=True, model_cfg=built)


def _task(parameters: dict) -> argparse.Namespace:
    """All that a model asks a task for when it is built: dictionaries, by the size of embeddings.

    A side without embeddings has those of the other.
    """
    dictionaries = {}
    for name, values in parameters.items():
        if name.endswith("coder.embed_tokens.weight"):
            dictionaries[name.split(".")[0]] = dictionary = Dictionary()  # of encoder or decoder
            dictionary.symbols = range(len(values))  # as many types, without their names
    fallback = next(iter(dictionaries.values()), Dictionary())
    return argparse.Namespace(
        source_dictionary=dictionaries.get("encoder", fallback),
        target_dictionary=dictionaries.get("decoder", fallback),
    )


def rename(state: dict, options: argparse.Namespace, arch: str) -> None:
    """Makes a checkpoint one of another architecture."""
    options.arch = arch
    if arch.startswith(VARIANT) and getattr(options, "alive_heads", None) is None:
        options.alive_heads = ALL  # or it would look where its training started
    if state.get("cfg"):
        options._name = arch
        if "common" in state["cfg"]:
            state["cfg"]["common"]["user_dir"] = None


def save(state: dict, path: str) -> None:
    """Writes a checkpoint: all of it, or nothing."""
    with whole_file(path, binary=True) as file:
        try:
            torch.save(state, file)
        except RuntimeError as error:  # so PyTorch takes a full disk; the context says why
            if isinstance(error.__context__, OSError):
                raise error.__context__ from None
            raise OSError(str(error)) from None


def dictionary_file(path: str) -> str:
    """The file of a language's dictionary: ``dict.txt``, if that is the only one there."""
    joint = Path(path).with_name("dict.txt")
    is_alone = joint.is_file() and not any(joint.parent.glob("dict.*.txt"))
    return str(joint) if is_alone else path


@contextmanager
def joint_dictionaries() -> Iterator[None]:
    """Within it, fairseq reads a joint dictionary for both languages, and names one that is bad."""
    read = Dictionary.add_from_file

    def read_joint(dictionary: Dictionary, file: Any) -> None:
        if not isinstance(file, str):
            read(dictionary, file)
            return
        path = dictionary_file(file)
        try:
            read(dictionary, path)
        except OSError:
            raise
        except Exception as error:
            raise InputError(f"{path}: {one_line(str(error))}") from None

    Dictionary.add_from_file = read_joint
    try:
        yield
    finally:
        Dictionary.add_from_file = read
