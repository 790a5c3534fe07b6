"""What can be wrong with a checkpoint or its dictionaries, in one line."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager

from fairseq_normalign.errors import InputError
from fairseq_normalign.host.inert import RefusedOption

FROM_FAIRSEQ = "expected a checkpoint that fairseq-train wrote"
REFUSED_CLASS = re.compile(r"(?:GLOBAL|unsupported class|got <class) '?([\w.]+)")
LONGEST = 200  # characters of somebody else's message
# The sizes of the dictionary that an embedding was trained with, and of the one that is there.
OTHER_DICTIONARY = re.compile(
    r"size mismatch for \S*embed_tokens\S*: .*?torch\.Size\(\[(\d+).*?torch\.Size\(\[(\d+)"
)
MISFIT = "Error(s) in loading state_dict for "


@contextmanager
def refusing(path: str) -> Iterator[None]:
    """Names the checkpoint whose options, or a file that they name, could run code."""
    try:
        yield
    except RefusedOption as error:
        raise InputError(f"{path}: refused to load: {error}") from None
    except Exception as error:
        refused = REFUSED_CLASS.search(str(error))
        if refused is None or "Weights only load failed" not in str(error):
            raise
        found = f"it names a file that holds {refused.group(1)!r}, which could run code"
        raise InputError(f"{path}: refused to load: {found}") from error


@contextmanager
def explained(path: str, data: str = "") -> Iterator[None]:
    """Turns whatever fairseq raises over a checkpoint into an InputError of one line.

    Args:
        data: where the dictionaries are.
    """
    try:
        with refusing(path):
            yield
    except InputError:
        raise
    except Exception as error:
        raise InputError(_explanation(error, path, data)) from error


def _explanation(error: Exception, path: str, data: str) -> str:
    if isinstance(error, KeyError):
        return (
            f"{path}: has no entry {error}; {FROM_FAIRSEQ}, or --user-dir with the plugin that has "
            "registered it"
        )
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}, and {path} needs it; is it of another model?"
    text = str(error)
    if "infer language pair" in text:
        return (
            f"{path} does not name its languages, and {data} has no binarised data that would; "
            "use --source-lang and --target-lang"
        )
    other = OTHER_DICTIONARY.search(text) if data else None
    if other is not None and other[1] != other[2]:
        return (
            f"{path}: trained with a dictionary of {other[1]} types, and that in {data} has "
            f"{other[2]}; of another model?"
        )
    if text.startswith(MISFIT):
        _, _, misfits = text.partition(":")
        return f"{path}: does not fit its own options: {one_line(misfits)}"
    return f"{path}: fairseq cannot load it: {type(error).__name__}: {one_line(text)}"


def unreadable(error: Exception) -> str:
    """What a file is that PyTorch does not read, or why it refused to."""
    refused = REFUSED_CLASS.search(str(error))
    if refused is not None:
        return f"refused to load: it holds {refused.group(1)!r}, which could run code"
    if isinstance(error, OSError) and error.errno != errno.EINVAL:  # which means: too short
        return f"cannot be read: {error.strerror or error}"
    return f"not a checkpoint, or a damaged one; {FROM_FAIRSEQ}"


def one_line(text: str) -> str:
    """The start of a message, without what would move the cursor: a checkpoint may have set it."""
    printable = "".join(sign if sign.isprintable() else " " for sign in text)
    return " ".join(printable.split())[:LONGEST]
