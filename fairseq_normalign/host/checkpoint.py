"""Loads fairseq checkpoints without letting them run code.

PyTorch ≥ 2.6 unpickles only tensors, containers and classes it was told to trust. fairseq's
checkpoints hold a few
more: inert ones, listed here one by one. Anything else is refused by name.
"""

from __future__ import annotations

import argparse
import builtins
import collections
import importlib
import pickle
import re
import typing
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import omegaconf
import torch
from fairseq import checkpoint_utils
from fairseq.logging import meters
from fairseq.models import ARCH_MODEL_REGISTRY, FairseqMultiModel
from fairseq.models.nat import FairseqNATModel
from fairseq.models.transformer import TransformerModel

from fairseq_normalign.errors import InputError
from fairseq_normalign.files import whole_file
from fairseq_normalign.heads.names import ALL
from fairseq_normalign.host.special_tokens import task_options

try:
    from numpy._core import multiarray
except ImportError:  # numpy < 1.26
    from numpy.core import multiarray

METERS = ("AverageMeter", "SumMeter", "TimeMeter", "StopwatchMeter")


def inert_classes() -> list:
    """What fairseq checkpoints hold besides tensors and containers, as ``(object, pickled
    name)``."""
    allowed = [
        (argparse.Namespace, "argparse.Namespace"),  # every checkpoint of a legacy (argparse) model
        # --eval-bleu leaves counts in the meters as arrays; NumPy 2 and NumPy 1 names
        (multiarray._reconstruct, "numpy._core.multiarray._reconstruct"),
        (multiarray._reconstruct, "numpy.core.multiarray._reconstruct"),
        (multiarray.scalar, "numpy._core.multiarray.scalar"),
        (multiarray.scalar, "numpy.core.multiarray.scalar"),
        (np.ndarray, "numpy.ndarray"),
        (np.dtype, "numpy.dtype"),
        # configurations pickled as they were (fairseq 0.10)
        (omegaconf.DictConfig, "omegaconf.dictconfig.DictConfig"),
        (omegaconf.ListConfig, "omegaconf.listconfig.ListConfig"),
        (omegaconf.base.ContainerMetadata, "omegaconf.base.ContainerMetadata"),
        (omegaconf.base.Metadata, "omegaconf.base.Metadata"),
        (omegaconf.nodes.AnyNode, "omegaconf.nodes.AnyNode"),
        (collections.defaultdict, "collections.defaultdict"),
        (typing.Any, "typing.Any"),
    ]
    allowed += [(getattr(builtins, name), f"builtins.{name}") for name in ("dict", "list", "int")]
    # NumPy ≥ 1.25 has a class for each dtype, which older pickles do not name
    allowed += [type(np.dtype(code)) for code in ("i8", "f8", "f4") if hasattr(np, "dtypes")]
    for name in METERS:  # fairseq ≤ 0.9 kept them in a module of another name
        allowed += [
            (getattr(meters, name), f"fairseq.{module}.{name}")
            for module in ("meters", "logging.meters")
        ]
    return allowed


def allow_checkpoint_classes() -> None:
    """Lets ``torch.load``, and so all of fairseq's commands, read fairseq's checkpoints."""
    if hasattr(torch.serialization, "add_safe_globals"):  # torch ≥ 2.4
        torch.serialization.add_safe_globals(inert_classes())


allow_checkpoint_classes()


def register_plugin() -> None:
    """Makes our own architectures, task and criterion known: a checkpoint may be of them.

    By name, and late: the plugin is built on this module.
    """
    importlib.import_module("fairseq_normalign.plugin")


@contextmanager
def _explained(path: str, data: str) -> Iterator[None]:
    """What can be wrong with a checkpoint or its dictionaries, in one line."""
    try:
        yield
    except (pickle.UnpicklingError, EOFError) as error:
        name = re.search(r"(?:GLOBAL|unsupported class|got <class) '?([\w.]+)", str(error))
        found = (
            f"refused to load: it holds {name.group(1)!r}, which could run code"
            if name
            else "not a checkpoint"
        )
        raise InputError(f"{path}: {found}") from None
    except KeyError as error:
        raise InputError(
            f"{path}: has no entry {error}; expected a checkpoint that fairseq-train wrote"
        ) from None
    except FileNotFoundError as error:
        raise InputError(
            f"{error.filename}: no such dictionary, which {path} needs; a model of other languages?"
        ) from None
    except RuntimeError as error:
        if "PytorchStreamReader" in str(error):
            raise InputError(f"{path}: not a checkpoint") from None
        sizes = re.search(
            r"size mismatch for \S*embed_tokens\S*: .*?\[(\d+).*?\[(\d+)", str(error), re.DOTALL
        )
        if sizes is None:
            raise
        trained, there = sizes.groups()
        raise InputError(
            f"{path}: trained with a dictionary of {trained} types, and that in {data} has "
            f"{there}; of another model?"
        ) from None
    except Exception as error:  # fairseq raises no other class here
        if "infer language pair" not in str(error):
            raise
        raise InputError(
            f"{path} does not name its languages, and {data} has no binarised data that would; "
            "expected --source-lang "
            "and --target-lang"
        ) from None


def load_ensemble(path: str, data: str, overrides: dict | None = None):
    """The models of a colon-separated ``path``, in evaluation mode, and their task.

    Args:
        data: the directory that holds the dictionaries.
        overrides: other options to change in the checkpoint's configuration.
    """
    register_plugin()
    paths = path.split(":")
    for name in paths:
        if not Path(name).is_file():
            raise InputError(f"{name}: no such checkpoint")
    for folder in data.split(":"):
        if not Path(folder).is_dir():
            raise InputError(f"{folder}: no such directory; expected one that holds dict.*.txt")
    with _explained(path, data):
        models, _, task = checkpoint_utils.load_model_ensemble_and_task(
            paths, {**(overrides or {}), "data": data}
        )
    return [model.eval() for model in models], task


def load_single(path: str, data: str, overrides: dict | None = None):
    """The model of ``path``, which must name one checkpoint, and its task; of a multilingual model,
    the pair's."""
    if ":" in path:
        raise InputError(
            f"--path {path}: names an ensemble; alignments come from one model at a time"
        )
    (model,), task = load_ensemble(path, data, overrides)
    if isinstance(model, FairseqMultiModel):
        pair = "{0.source_lang}-{0.target_lang}".format(task_options(task))
        if pair not in model.models:
            found = ", ".join(model.models)
            raise InputError(
                f"{path}: no languages {pair}; expected --source-lang and --target-lang of one "
                f"of: {found}"
            )
        model = model.models[pair]
    return model, task


def convert(path: str, arch: str, output: str) -> None:
    """Writes a checkpoint as one of another architecture with the same parameters.

    For fairseq's ``transformer*`` and our ``transformer_normalign*``: each loads what the other was
    trained as, and a checkpoint of the former needs no plugin.
    """
    register_plugin()
    if arch not in ARCH_MODEL_REGISTRY or not issubclass(
        ARCH_MODEL_REGISTRY[arch], TransformerModel
    ):
        raise InputError(
            f"--arch {arch}: not a kind of transformer that fairseq or the plugin knows"
        )
    state, options = read_transformer(path)
    if not arch.startswith("transformer_normalign"):
        if getattr(options, "gate_heads", None):
            raise InputError(
                f"{path}: has gates, which {arch} has not; fold them first: normalign prune "
                "--keep all"
            )
        if getattr(options, "alive_heads", None) not in (None, ALL):
            raise InputError(f"{path}: has heads removed, and {arch} must have all of them")
    rename(state, options, arch)
    save(state, output)


def read(path: str) -> tuple[dict, argparse.Namespace]:
    """A checkpoint as it is stored, on the CPU, and the model's options in it."""
    if not Path(path).is_file():
        raise InputError(f"{path}: no such checkpoint")
    with _explained(path, ""):
        state = torch.load(path, map_location="cpu", weights_only=True)
        return state, state["cfg"]["model"] if state.get("cfg") else state["args"]


def read_transformer(path: str) -> tuple[dict, argparse.Namespace]:
    """As :func:`read`, for encoder-decoder Transformers alone."""
    register_plugin()
    state, options = read(path)
    found = getattr(options, "arch", None)
    model = ARCH_MODEL_REGISTRY.get(found, object)
    if not issubclass(model, TransformerModel) or issubclass(model, FairseqNATModel):
        raise InputError(f"{path}: its architecture is {found}; expected a kind of transformer")
    return state, options


def rename(state: dict, options: argparse.Namespace, arch: str) -> None:
    """Makes a checkpoint one of another architecture."""
    options.arch = arch
    if state.get("cfg"):
        options._name = arch
        state["cfg"]["common"]["user_dir"] = None


def save(state: dict, path: str) -> None:
    """Writes a checkpoint: all of it, or nothing."""
    with whole_file(path, binary=True) as file:
        torch.save(state, file)
