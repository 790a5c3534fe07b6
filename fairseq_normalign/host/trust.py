"""Keeps checkpoints from running code, in our commands and in fairseq's own with ``--user-dir``.

A checkpoint is a pickle, and in it a configuration that fairseq builds a task and a model from.
Three doors lead from there to code, and each is closed here:

- Pickles name classes. Only inert ones are made, listed here one by one, and by every call of
  ``torch.load`` that does not ask for others: fairseq has several.
- fairseq calls ``eval`` on options: ``--encoder-layers`` of ``fconv``, but also
  ``--adaptive-softmax-cutoff`` and ``--xformers-att-config`` of any Transformer, and many more. All
  its modules get an ``eval`` that computes values and runs nothing.
- fairseq reads FASTA files with a shell, and languages are part of their names. Names are quoted.
"""

from __future__ import annotations

import argparse
import collections
import functools
import os
import re
import shlex
import sys
import threading
import typing
import warnings
import zipfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import fairseq
import omegaconf
import torch
from fairseq import checkpoint_utils
from fairseq.data.fasta_dataset import FastaDataset
from fairseq.file_io import PathManager
from fairseq.logging import meters
from safetensors import SafetensorError, safe_open
from torch import Tensor

from fairseq_normalign.errors import InputError
from fairseq_normalign.host.checkpoint_errors import (
    FROM_FAIRSEQ,
    explained,
    one_line,
    refusing,
    unreadable,
)
from fairseq_normalign.host.inert import (
    SHOWN,
    StoredArray,
    StoredDtype,
    evaluate,
    stored_scalar,
)

# In which versions of fairseq have stored the options of a model.
OPTION_KINDS = (argparse.Namespace, dict, omegaconf.DictConfig)
# ${name:…} has OmegaConf call something; ${name} is another option, as fairseq 0.10 stored them.
RESOLVER = re.compile(r"\$\{.*:", re.DOTALL)
WHOLE_FILE = "pass a whole safetensors file"
METERS = ("AverageMeter", "SumMeter", "TimeMeter", "StopwatchMeter")


torch_load = torch.load
LOADING = threading.RLock()  # PyTorch's list of classes is one for all threads


def inert_classes() -> list:
    """What fairseq checkpoints hold besides tensors and containers, by the names in pickles."""
    allowed: list[Any] = [
        argparse.Namespace,  # every checkpoint of a legacy (argparse) model
        # --eval-bleu leaves counts in the meters as arrays; NumPy 2 and NumPy 1 names
        (StoredArray, "numpy._core.multiarray._reconstruct"),
        (StoredArray, "numpy.core.multiarray._reconstruct"),
        (stored_scalar, "numpy._core.multiarray.scalar"),
        (stored_scalar, "numpy.core.multiarray.scalar"),
        (StoredArray, "numpy.ndarray"),
        (StoredDtype, "numpy.dtype"),
        # configurations pickled as they were (fairseq 0.10)
        *(omegaconf.DictConfig, omegaconf.ListConfig, omegaconf.nodes.AnyNode),
        *(omegaconf.base.ContainerMetadata, omegaconf.base.Metadata),
        *(collections.defaultdict, dict, list, int),
        (typing.Any, "typing.Any"),
    ]
    for name in METERS:
        meter = getattr(meters, name)
        allowed.append((meter, f"fairseq.meters.{name}"))  # of fairseq ≤ 0.9
        allowed.append((meter, f"fairseq.logging.meters.{name}"))
    return allowed


def load_tensors(*args: Any, classes: Iterable = (), **options: Any) -> Any:
    """``torch.load`` of tensors and these classes alone, whatever a program has allowed."""
    with LOADING:
        before = torch.serialization.get_safe_globals()
        torch.serialization.clear_safe_globals()
        torch.serialization.add_safe_globals(list(classes))
        try:
            return torch_load(*args, **{**options, "weights_only": True})
        finally:
            torch.serialization.clear_safe_globals()
            torch.serialization.add_safe_globals(before)


@functools.wraps(torch_load)
def load_safely(*args: Any, **options: Any) -> Any:
    """``torch.load``, which reads fairseq's checkpoints too, and runs nothing.

    Not even with ``TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD=1``. A caller may still decide otherwise.
    """
    if options.get("weights_only") is False:
        return torch_load(*args, **options)
    ours = {_name(entry): entry for entry in inert_classes()}
    with LOADING:
        allowed = {_name(entry): entry for entry in torch.serialization.get_safe_globals()}
        return load_tensors(*args, classes={**allowed, **ours}.values(), **options)


def _name(allowed: Any) -> str:
    """What pickles call a class that PyTorch was told to allow."""
    if isinstance(allowed, tuple):
        return allowed[1]
    return f"{allowed.__module__}.{allowed.__qualname__}"


def unpickle(
    path: str, *, mapped: bool = False, load: Callable[..., Any] = load_safely
) -> dict[str, Any]:
    """A checkpoint as it is stored, on the CPU.

    Args:
        mapped: leave tensors in the file until they are looked at, where its format allows.
    """
    check_is_file(path)
    mapped = mapped and zipfile.is_zipfile(path)  # the format of torch ≥ 1.6
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what is wrong is said below
            state = load(path, map_location="cpu", weights_only=True, mmap=mapped)
    except Exception as error:  # a damaged pickle raises anything
        raise InputError(f"{path}: {unreadable(error)}") from None
    if not isinstance(state, dict):
        raise InputError(f"{path}: holds a {type(state).__name__}; {FROM_FAIRSEQ}")
    with explained(path):
        _refuse_resolvers(path, [state.get("args"), state.get("cfg")])
    return state


def _refuse_resolvers(path: str, options: list) -> None:
    """Refuses options like ``${oc.env:HOME}``, for which OmegaConf would look outside the file."""
    seen: dict[int, Any] = {}
    while options:
        entry = options.pop()
        if id(entry) in seen:
            continue
        seen[id(entry)] = entry
        if isinstance(entry, str) and RESOLVER.search(entry):
            raise InputError(
                f"{path}: refused to load: an option is {entry[:SHOWN]!r}, which reads values from "
                "outside the file; expected plain values"
            )
        if isinstance(entry, omegaconf.DictConfig):
            plain(entry)  # fails if it is damaged
        if isinstance(entry, dict):
            options.extend(entry.values())
        elif isinstance(entry, list | tuple | set):
            options.extend(entry)
        elif not isinstance(entry, type):
            options.extend(getattr(entry, "__dict__", {}).values())


def check_is_file(path: str) -> None:
    if Path(path).is_dir():
        raise InputError(f"{path}: is a directory; name a checkpoint in it")
    if not Path(path).is_file():
        raise InputError(f"{path}: no such checkpoint")


def forbid_eval() -> None:
    """Gives all of fairseq's modules that are loaded an ``eval`` that runs nothing."""
    home = f"{Path(fairseq.__file__).parent}{os.sep}"
    for module in list(sys.modules.values()):
        names = getattr(module, "__dict__", {})
        if str(names.get("__file__")).startswith(home):
            names["eval"] = evaluate


def quote_fasta_files() -> None:
    """Quotes the name of a FASTA file, which fairseq puts into a command of the shell."""
    build_index = FastaDataset._build_index
    FastaDataset._build_index = lambda self, path: build_index(self, shlex.quote(path))


def guard_fairseq() -> None:
    """Closes all three doors, for every checkpoint that this process loads from now on."""
    torch.load = load_safely
    forbid_eval()
    quote_fasta_files()
    checkpoint_utils.load_checkpoint_to_cpu = _unpickling_safely(
        checkpoint_utils.load_checkpoint_to_cpu
    )
    checkpoint_utils.load_model_ensemble_and_task = _building_safely(
        checkpoint_utils.load_model_ensemble_and_task
    )


def _unpickling_safely(load: Callable) -> Callable:
    """``load_checkpoint_to_cpu``, of a checkpoint whose options were checked before."""

    @functools.wraps(load)
    def guarded(path: str, *args: Any, **options: Any) -> dict:
        unpickle(PathManager.get_local_path(path), mapped=True)
        with explained(path):
            return load(path, *args, **options)

    return guarded


def _building_safely(load: Callable) -> Callable:
    """``load_model_ensemble_and_task``, with what is wrong about the options of checkpoints."""

    @functools.wraps(load)
    def guarded(filenames: list[str], *args: Any, **options: Any) -> Any:
        forbid_eval()  # a module may have come since
        with refusing(":".join(filenames)):
            return load(filenames, *args, **options)

    return guarded


def options_of(path: str, state: dict) -> Any:
    """The options of a checkpoint's model, as they are stored."""
    with explained(path):
        # As fairseq: the newer form counts where the older one is empty.
        options = state["cfg"]["model"] if state.get("args") is None else state["args"]
        parameters = state["model"]
    for entry, kinds in ((options, OPTION_KINDS), (parameters, Mapping)):
        if not isinstance(entry, kinds):
            raise InputError(
                f"{path}: holds a {type(entry).__name__} for options or parameters; {FROM_FAIRSEQ}"
            )
    return options


def task_options_of(path: str, state: dict) -> dict[str, Any]:
    """What a checkpoint says of its task, whose name is ``task``, or else of its model.

    Older versions of fairseq store the options of both as one, newer ones those of the task apart.
    """
    of_model = plain(options_of(path, state))
    if state.get("args") is not None:
        return of_model
    of_task = plain(plain(state["cfg"]).get("task"))
    said = {name: value for name, value in of_task.items() if value is not None}
    name = said.get("task") or said.get("_name") or of_model.get("task")
    return {**of_model, **said, "task": name}


def stored_options(path: str) -> dict[str, Any]:
    """What a checkpoint says of its task."""
    return task_options_of(path, unpickle(path, mapped=True))


def stored_languages(path: str) -> dict[str, str | None]:
    """Source and target language as a checkpoint has them."""
    said = stored_options(path)
    return {name: said.get(name) for name in ("source_lang", "target_lang")}


def stored_data(path: str) -> str | None:
    """The folders that a checkpoint was trained on, joined by colons."""
    data = stored_options(path).get("data")
    return data if isinstance(data, str) else None


def plain(options: Any) -> dict[str, Any]:
    """Options as a dictionary, in whichever form a version of fairseq stored them."""
    if isinstance(options, omegaconf.DictConfig):
        options = omegaconf.OmegaConf.to_container(options)
    if isinstance(options, argparse.Namespace):
        options = vars(options)
    return options if isinstance(options, dict) else {}


def read_safetensors(path: str | Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Tensors, which stay in the file until they are looked at, and texts of a safetensors file."""
    try:
        with safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            return tensors, file.metadata() or {}
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}; {WHOLE_FILE}") from None
    except (SafetensorError, ValueError, RuntimeError, OverflowError, MemoryError) as error:
        raise InputError(f"{path}: damaged ({one_line(str(error))}); {WHOLE_FILE}") from None
