"""fairseq's dictionaries: their first tokens, and what is wrong with one that it does not read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fairseq.data import Dictionary

SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")  # fairseq adds them to every dictionary
BOS, PAD, EOS, UNK = range(len(SPECIAL))
OVERWRITE = " #fairseq:overwrite"
LINE = "expected '<token> <count>'"


def dictionary_file(path: str) -> str:
    """The file of a language's dictionary: ``dict.txt``, if that is the only one there."""
    joint = Path(path).with_name("dict.txt")
    is_alone = joint.is_file() and not any(joint.parent.glob("dict.*.txt"))
    return str(joint) if is_alone else path


@contextmanager
def joint_dictionaries() -> Iterator[None]:
    """Within it, fairseq reads a joint dictionary for both languages."""
    read = Dictionary.add_from_file

    def read_joint(dictionary: Dictionary, file: Any) -> None:
        read(dictionary, dictionary_file(file) if isinstance(file, str) else file)

    Dictionary.add_from_file = read_joint
    try:
        yield
    finally:
        Dictionary.add_from_file = read


def first_problem(data: str) -> str | None:
    """What is wrong with the dictionaries of a folder, with file and line; None if nothing is.

    There may be several folders, with colons between.
    """
    for folder in data.split(":"):
        for path in sorted(Path(folder).glob("dict*.txt")):
            problem = _problem_in(path)
            if problem is not None:
                return problem
    return None


def _problem_in(path: Path) -> str | None:
    lines = path.read_bytes().splitlines()
    if not lines:
        return f"{path}: the dictionary is empty; {LINE} in each line"
    first_lines = dict.fromkeys(SPECIAL, 0)
    for number, encoded in enumerate(lines, start=1):
        try:
            token, flagged = _token(encoded.decode("utf-8"))
        except UnicodeDecodeError:
            return f"{path}:{number}: not UTF-8; expected a dictionary that fairseq-preprocess made"
        except ValueError:
            return f"{path}:{number}: {encoded.decode()!r} is no entry of a dictionary; {LINE}"
        if token in first_lines and not flagged:
            first = first_lines[token]
            place = f"line {first}" if first else "fairseq itself"
            return f"{path}:{number}: the token {token!r} is there twice: first in {place}"
        first_lines.setdefault(token, number)
    return None


def _token(line: str) -> tuple[str, bool]:
    """The token of a line, and whether it may stand there again."""
    line = line.rstrip()
    flagged = line.endswith(OVERWRITE)
    token, count = line.removesuffix(OVERWRITE).rsplit(" ", 1)
    int(count)
    return token, flagged
