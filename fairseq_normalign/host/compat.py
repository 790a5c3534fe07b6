"""What keeps fairseq from today's libraries, and one version of it from another's checkpoints.

Put right when the plugin is imported.
"""

from __future__ import annotations

import atexit
import functools
import queue
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import numpy as np
from fairseq import utils
from fairseq.data.iterators import BackgroundConsumer
from fairseq.modules.transformer_layer import TransformerEncoderLayerBase
from fairseq.tasks.translation_from_pretrained_bart import TranslationFromPretrainedBARTTask
from torch import Tensor, nn
from torch.nn.functional import silu

from fairseq_normalign.host.attention_modules import COPIES

LAST_BATCH = 10.0  # seconds that the end of a command waits for a batch that is still being read

PLACEHOLDER = ".embed_positions._float_tensor"  # of fairseq ≤ 0.12.2: whatever was in memory


def repair_fairseq() -> None:
    """All of it, once."""
    # Keeps fairseq 0.12.2 from PyTorch's fused encoder layer, whose arguments have changed since:
    # padding fails. It would also hide attention weights. Later versions do not call it.
    TransformerEncoderLayerBase.can_use_fastpath = property(
        lambda layer: False, lambda layer, value: None
    )
    TransformerEncoderLayerBase._load_from_state_dict = _load_without_copies
    if not hasattr(np, "compat"):  # where fairseq looks for the integers of NumPy 1
        vars(np)["compat"] = SimpleNamespace(long=int)
    repair_swish()
    give_bart_tasks_their_args()
    atexit.register(_end_readers)


def repair_swish() -> None:
    """Gives ``--activation-fn swish`` its function: fairseq takes the class for it, and fails."""
    original = utils.get_activation_fn

    @functools.wraps(original)
    def repaired(activation: str) -> Callable:
        return silu if activation == "swish" else original(activation)

    utils.get_activation_fn = repaired


def give_bart_tasks_their_args() -> None:
    """Lets ``--task translation_from_pretrained_bart`` train: fairseq has renamed what it reads."""
    original = TranslationFromPretrainedBARTTask.__init__

    @functools.wraps(original)
    def repaired(task: Any, args: Any, *dictionaries: Any) -> None:
        task.args = args
        original(task, args, *dictionaries)

    TranslationFromPretrainedBARTTask.__init__ = repaired


def _end_readers() -> None:
    """Lets a training that stops within an epoch end well.

    fairseq reads batches ahead in a thread that Python breaks off when the process ends. If that
    happens within PyTorch's code, the process aborts: "terminate called without an active
    exception".
    """
    readers = [each for each in threading.enumerate() if isinstance(each, BackgroundConsumer)]
    for reader in readers:
        reader._max_len = 0  # no batch after the one that is being read
    deadline = time.monotonic() + LAST_BATCH
    for reader in readers:
        while reader.is_alive() and time.monotonic() < deadline:
            with suppress(queue.Empty):  # makes room for what it still puts into its queue
                reader._queue.get(timeout=0.01)


def _load_without_copies(layer: nn.Module, state_dict: dict, prefix: str, *rest: Any) -> None:
    """PyTorch's ``_load_from_state_dict``, with copies left as they are: nothing reads them.

    For the fused layer, fairseq 0.12.2 keeps a second copy of an encoder layer's parameters. It
    makes the copy anew from whatever it loads, and fails there, where a parameter is missing or of
    another shape, before PyTorch can list what does not fit. Later versions refuse a checkpoint
    with copies: to them, these are unknown parameters.
    """
    for key in list(state_dict):
        if COPIES.search(key):
            del state_dict[key]
    for name, parameter in layer.named_parameters(prefix.removesuffix("."), recurse=False):
        if COPIES.search(name):
            state_dict[name] = parameter
    nn.Module._load_from_state_dict(layer, state_dict, prefix, *rest)


def without_leftovers(parameters: dict[str, Tensor]) -> dict[str, Tensor]:
    """A checkpoint's parameters, without what fairseq 0.12.2 stores and nothing reads."""
    return {
        name: values
        for name, values in parameters.items()
        if not COPIES.search(name) and not name.endswith(PLACEHOLDER)
    }


def drop_copies(model: nn.Module) -> None:
    """Frees a model of the copies, which would count as parameters.

    Not while it is trained: the state of an optimiser, which a training may be resumed with, has a
    place for each of them.
    """
    copies = [name for name, _ in model.named_parameters() if COPIES.search(name)]
    for name in copies:
        layer, _, own_name = name.rpartition(".")
        delattr(model.get_submodule(layer), own_name)


def shrink_copies(layer: Any) -> None:
    """Fits the copies of an encoder layer's attention to its heads.

    fairseq 0.12.2 keeps them for that fused layer.
    """
    if hasattr(layer, "in_proj_weight"):
        q_proj, out_proj = layer.self_attn.q_proj, layer.self_attn.out_proj
        layer.in_proj_weight = nn.Parameter(q_proj.weight.detach().repeat(3, 1))
        layer.in_proj_bias = nn.Parameter(q_proj.bias.detach().repeat(3))
        layer.out_proj_weight = nn.Parameter(out_proj.weight.detach().clone())
