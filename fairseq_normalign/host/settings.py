"""What a ``config.json`` says: settings that fairseq's models can hold, or all that they cannot."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from fairseq_normalign.errors import InputError
from fairseq_normalign.host.hugging_face import HuggingFaceFolder

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
    numbers: Mapping[str, float],
    sizes: Iterable[str],
) -> None:
    """Refuses settings that no fairseq model has, all at once.

    Args:
        usual: settings that change what a model computes, with the one value that is known here.
        activation: the setting that names the activation function, gelu if it is not there.
        activations: those that are known.
        numbers: settings that are numbers, not whole ones, with what they are if nothing is said.
        sizes: settings that are whole numbers from 1, and must be there.
    """
    config = folder.config
    unusual = []
    for name, value in usual.items():
        if config.get(name, value) != value:
            unusual.append(f"{name} is {config[name]!r}")
    function = config.get(activation, "gelu")
    if not isinstance(function, str) or function not in activations:
        unusual.append(f"{activation} is {function!r}")
    for name, default in numbers.items():
        number = config.get(name, default)
        if type(number) not in (int, float) or number < 0:
            unusual.append(f"{name} is {number!r}")
    for name in sizes:
        size = config.get(name)
        if type(size) is not int or size < 1:
            unusual.append(f"{name} is {size!r}")
    if unusual:
        raise InputError(
            f"{folder}: its config.json has what is not supported: {'; '.join(unusual)}"
        )
