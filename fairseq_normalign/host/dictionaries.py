"""fairseq's dictionaries: their first tokens, and how they are found."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fairseq.data import Dictionary

from fairseq_normalign.errors import InputError

SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")  # fairseq adds them to every dictionary
BOS, PAD, EOS, UNK = range(len(SPECIAL))
LONGEST = 200  # characters of fairseq's messages


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
            reason = " ".join(str(error).split())
            raise InputError(f"{path}: {reason[:LONGEST]}") from None

    Dictionary.add_from_file = read_joint
    try:
        yield
    finally:
        Dictionary.add_from_file = read
