"""How Hugging Face's ``generate()`` would search, in the options of fairseq's beam search."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from fairseq_normalign.errors import InputError
from fairseq_normalign.huggingface.folder import HuggingFaceFolder

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
