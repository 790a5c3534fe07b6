"""What a ``config.json`` says: settings that fairseq's models can hold, or all that they cannot."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Any

from fairseq_normalign.errors import InputError
from fairseq_normalign.huggingface.folder import HuggingFaceFolder

# Hugging Face's names of activation functions, and fairseq's.
ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_new": "gelu_accurate",
    "gelu_pytorch_tanh": "gelu_accurate",
    "relu": "relu",
}


def check_settings(
    folder: HuggingFaceFolder,
    *,
    usual: Mapping[str, Any],
    activation: str,
    activations: Mapping[str, str],
    dropouts: Mapping[str, float],
    numbers: Mapping[str, float],
    sizes: Iterable[str],
    switches: Iterable[str] = (),
) -> None:
    """Refuses settings that no fairseq model has, all at once.

    Args:
        usual: settings that change what a model computes, with the one value that is known here.
        activation: the setting that names the activation function, gelu if it is not there.
        activations: those that are known.
        dropouts: settings that are probabilities, with what they are if nothing is said.
        numbers: settings that are other numbers from 0, not whole ones, likewise.
        sizes: settings that are whole numbers from 1, and must be there.
        switches: settings that are true, false or null.
    """
    config = folder.config
    unusual = []
    for name, value in usual.items():
        if config.get(name, value) != value:
            unusual.append(f"{name} is {config[name]!r}")
    function = config.get(activation, "gelu")
    if not isinstance(function, str) or function not in activations:
        unusual.append(f"{activation} is {function!r}")
    unusual += _odd_numbers(config, numbers, sys.float_info.max)
    unusual += _odd_numbers(config, dropouts, 1)
    for name in sizes:
        size = config.get(name)
        if type(size) is not int or size < 1:
            unusual.append(f"{name} is {size!r}")
    for name in switches:
        if config.get(name) not in (True, False, None):
            unusual.append(f"{name} is {config[name]!r}")
    if unusual:
        raise InputError(
            f"{folder}: its config.json has what is not supported: {'; '.join(unusual)}"
        )


def _odd_numbers(
    config: Mapping[str, Any], defaults: Mapping[str, float], most: float
) -> list[str]:
    """Settings that are no numbers from 0 to ``most``, as NaN is none."""
    odd = []
    for name, default in defaults.items():
        number = config.get(name, default)
        if type(number) not in (int, float) or not 0 <= number <= most:
            odd.append(f"{name} is {number!r}")
    return odd
