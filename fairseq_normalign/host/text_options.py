"""How the text of an imported model is read: its folder tells, so that no option need do so."""

from __future__ import annotations

import json
from argparse import Namespace
from pathlib import Path

from fairseq_normalign.errors import InputError
from fairseq_normalign.host.json_files import read_json

READING = "reading.json"  # beside the dictionaries
EXPECTED = "expected a file of normalign import"
# The options that it may set. All but the first name files of its folder.
OPTIONS = (
    "bpe",
    "sentencepiece_model",
    "source_sentencepiece_model",
    "target_sentencepiece_model",
    "bpe_vocab_file",
    "gpt2_encoder_json",
    "gpt2_vocab_bpe",
)


def reading_file(**options: str) -> dict[str, str | bytes]:
    """The file that says how text is read, to be written beside the files that it names."""
    return {READING: json.dumps(options, indent=2) + "\n"}


def has_reading(folder: str | Path) -> bool:
    return (Path(folder) / READING).is_file()


def apply_reading(args: Namespace, folder: str | Path) -> None:
    """Sets the options that ``folder`` tells, if it was imported."""
    if not has_reading(folder):
        return
    path = Path(folder) / READING
    for name, value in read_json(path, EXPECTED).items():
        if name not in OPTIONS or not isinstance(value, str):
            raise InputError(f"{path}: {name} is {value!r}; {EXPECTED}")
        setattr(args, name, value if name == "bpe" else str(Path(folder) / Path(value).name))
