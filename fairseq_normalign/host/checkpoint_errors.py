"""What can be wrong with a checkpoint or its dictionaries, in one line."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fairseq_normalign.errors import InputError

FROM_FAIRSEQ = "expected a checkpoint that fairseq-train wrote"
REFUSED_CLASS = re.compile(r"(?:GLOBAL|unsupported class|got <class) '?([\w.]+)")
UNREADABLE = {  # what torch.load says, and what the file is
    "TorchScript": "a TorchScript archive",
    "legacy .tar format": "a tar archive",
}
LONGEST = 200  # characters of somebody else's message
LISTED = re.compile(r"(Missing|Unexpected) key\(s\) in state_dict: (.*)")
MISSHAPEN = re.compile(
    r"size mismatch for (\S+): .*?torch\.Size\(\[([\d, ]*)\]\).*?torch\.Size\(\[([\d, ]*)\]\)"
)


@contextmanager
def explained(path: str, data: str = "") -> Iterator[None]:
    """Turns whatever fairseq raises over a checkpoint into an InputError of one line.

    Args:
        data: where the dictionaries are.
    """
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        raise InputError(_explanation(error, path, data)) from error


def _explanation(error: Exception, path: str, data: str) -> str:
    refused = refused_file(error, path)
    if refused is not None:
        return refused
    if isinstance(error, KeyError):
        return f"{path}: has no entry {error}; {FROM_FAIRSEQ}"
    if isinstance(error, OSError) and error.filename is not None:
        return _no_file(error, path)
    if "infer language pair" in str(error):
        return (
            f"{path} does not name its languages, and {data} has no binarised data that would; "
            "expected --source-lang and --target-lang"
        )
    misfit = _misfit(str(error), path, data)
    return misfit or f"{path}: fairseq cannot load it: {type(error).__name__}: {_one_line(error)}"


def unreadable(error: Exception) -> str:
    """What a file is that PyTorch does not read, or why it refused to."""
    refused = REFUSED_CLASS.search(str(error))
    if refused is not None:
        return f"refused to load: it holds {refused.group(1)!r}, which could run code"
    if isinstance(error, OSError) and error.errno != errno.EINVAL:  # which means: too short
        return f"cannot be read: {error.strerror or error}"
    for words, kind in UNREADABLE.items():
        if words in str(error):
            return f"{kind}, not a checkpoint; {FROM_FAIRSEQ}"
    return f"not a checkpoint, or a damaged one; {FROM_FAIRSEQ}"


def refused_file(error: Exception, path: str) -> str | None:
    """Why PyTorch refused a file that an option names, if that is the error."""
    refused = REFUSED_CLASS.search(str(error))
    if refused is None or "Weights only load failed" not in str(error):
        return None
    found = f"it names a file that holds {refused.group(1)!r}, which could run code"
    return f"{path}: refused to load: {found}"


def _one_line(error: Exception) -> str:
    """The start of a message, without what would move the cursor: a checkpoint may have set it."""
    text = "".join(sign if sign.isprintable() else " " for sign in str(error))
    return " ".join(text.split())[:LONGEST]


def _no_file(error: OSError, path: str) -> str:
    if not isinstance(error, FileNotFoundError):
        return f"{error.filename}: cannot be read: {error.strerror}; {path} needs it"
    if not Path(error.filename).name.startswith("dict"):
        return f"{error.filename}: no such file, which {path} needs"
    return f"{error.filename}: no such dictionary, which {path} needs; a model of other languages?"


def _misfit(text: str, path: str, data: str) -> str | None:
    """Parameters that are missing, unknown, or of another shape: how many, and the first."""
    misshapen = MISSHAPEN.findall(text)
    for name, stored, built in misshapen:
        trained, there = stored.split(",")[0], built.split(",")[0]
        if data and "embed_tokens" in name and trained != there:
            return (
                f"{path}: trained with a dictionary of {trained} types, and that in {data} has "
                f"{there}; of another model?"
            )
    misfits = []
    for heading, listed in LISTED.findall(text):
        names = re.findall(r'"([^"]*)"', listed) or [listed]
        kind = "missing" if heading == "Missing" else "unknown"
        misfits.append(f"{_count(names)} {kind} (first: {names[0]!r})")
    if misshapen:
        name, stored, built = misshapen[0]
        shapes = f"{name!r}: ({stored}), expected ({built})"
        misfits.append(f"{_count(misshapen)} of another shape (first: {shapes})")
    return f"{path}: does not fit its own options: {'; '.join(misfits)}" if misfits else None


def _count(names: list) -> str:
    return "1 parameter is" if len(names) == 1 else f"{len(names)} parameters are"
