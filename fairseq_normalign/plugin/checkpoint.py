"""Loads fairseq checkpoints without letting them run code.

PyTorch ≥ 2.6 unpickles only tensors, containers and classes it was told to trust. fairseq's checkpoints hold a few
more: inert ones, listed here one by one. Anything else is refused by name.
"""

from __future__ import annotations

import argparse
import builtins
import collections
import pickle
import re
import typing
from pathlib import Path

import numpy as np
import omegaconf
import torch
from fairseq import checkpoint_utils
from fairseq.logging import meters
from fairseq.models import FairseqMultiModel

from fairseq_normalign.errors import InputError
from fairseq_normalign.plugin.marks import settings

try:
    from numpy._core import multiarray
except ImportError:  # numpy < 1.26
    from numpy.core import multiarray

METERS = ("AverageMeter", "SumMeter", "TimeMeter", "StopwatchMeter")


def inert_classes() -> list:
    """What fairseq checkpoints hold besides tensors and containers, as ``(object, pickled name)``."""
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
        allowed += [(getattr(meters, name), f"fairseq.{module}.{name}") for module in ("meters", "logging.meters")]
    return allowed


def allow_checkpoint_classes() -> None:
    """Lets ``torch.load``, and so all of fairseq's commands, read fairseq's checkpoints."""
    if hasattr(torch.serialization, "add_safe_globals"):  # torch ≥ 2.4
        torch.serialization.add_safe_globals(inert_classes())


def refusal(error: pickle.UnpicklingError) -> str:
    """The one thing to know of PyTorch's long message: what it refused."""
    name = re.search(r"(?:GLOBAL|global|class|function) `?([\w.]+)`?", str(error))
    return f"it holds {name.group(1)!r}, which could run code" if name else str(error).splitlines()[0]


def load_ensemble(path: str, data: str, overrides: dict | None = None):
    """The models of a colon-separated ``path``, in evaluation mode, and their task.

    Args:
        data: the directory that holds the dictionaries.
        overrides: other options to change in the checkpoint's configuration.
    """
    paths = path.split(":")
    for name in paths:
        if not Path(name).is_file():
            raise InputError(f"{name}: no such checkpoint")
    if not Path(data).is_dir():
        raise InputError(f"{data}: no such directory; expected one that holds dict.*.txt")
    try:
        models, _, task = checkpoint_utils.load_model_ensemble_and_task(paths, {**(overrides or {}), "data": data})
    except pickle.UnpicklingError as error:
        raise InputError(f"{path}: refused to load: {refusal(error)}") from None
    return [model.eval() for model in models], task


def load_single(path: str, data: str, overrides: dict | None = None):
    """The model of ``path``, which must name one checkpoint, and its task; of a multilingual model, the pair's."""
    if ":" in path:
        raise InputError(f"--path {path}: names an ensemble; alignments come from one model at a time")
    (model,), task = load_ensemble(path, data, overrides)
    if isinstance(model, FairseqMultiModel):
        model = model.models["{0.source_lang}-{0.target_lang}".format(settings(task))]
    return model, task
