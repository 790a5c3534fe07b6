"""What can be wrong with a checkpoint or its dictionaries, in one line."""

from __future__ import annotations

import errno
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from fairseq_normalign.errors import InputError
from fairseq_normalign.host.dictionaries import SPECIAL, first_problem

FROM_FAIRSEQ = "expected a checkpoint that fairseq-train wrote"
REFUSED_CLASS = re.compile(r"(?:GLOBAL|unsupported class|got <class) '?([\w.]+)")
UNREADABLE = {  # what torch.load says, and what the file is
    "TorchScript": "a TorchScript archive",
    "legacy .tar format": "a tar archive",
}
DICTIONARY_ERRORS = re.compile(
    "Incorrect dictionary format|Duplicate word found|Incorrect encoding detected"
)
LONGEST = 200  # characters of somebody else's message
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
    for kind, explain in EXPLANATIONS:
        if isinstance(error, kind):
            message = explain(error, path, data)
            if message is not None:
                return message
    return f"{path}: fairseq cannot load it: {type(error).__name__}: {_in_one_line(error)}"


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


def refused_file(error: Exception, path: str, data: str = "") -> str | None:
    """Why PyTorch refused a file that an option names, if that is the error."""
    refused = REFUSED_CLASS.search(str(error))
    if refused is None or "Weights only load failed" not in str(error):
        return None
    found = f"it names a file that holds {refused.group(1)!r}, which could run code"
    return f"{path}: refused to load: {found}"


def _in_one_line(error: Exception) -> str:
    """The start of a message, without what would move the cursor: a checkpoint may have set it."""
    text = "".join(sign if sign.isprintable() else " " for sign in str(error))
    text = " ".join(text.split())
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"


def _no_entry(error: Exception, path: str, data: str) -> str:
    return f"{path}: has no entry {error}; {FROM_FAIRSEQ}"


def _no_file(error: OSError, path: str, data: str) -> str | None:
    if error.filename is None:
        return None
    if not isinstance(error, FileNotFoundError):
        return f"{error.filename}: cannot be read: {error.strerror}; {path} needs it"
    if not Path(error.filename).name.startswith("dict"):
        return f"{error.filename}: no such file, which {path} needs"
    return f"{error.filename}: no such dictionary, which {path} needs; a model of other languages?"


def _bad_dictionary(error: Exception, path: str, data: str) -> str | None:
    if DICTIONARY_ERRORS.search(str(error)) is None:
        return None
    return first_problem(data) or f"{data}: {_in_one_line(error)}"


def _other_dictionary(error: Exception, path: str, data: str) -> str | None:
    """Embeddings of another number of types than the dictionary has."""
    for name, trained, there in _misshapen(error):
        if data and "embed_tokens" in name and trained[0] != there[0]:
            is_empty = there[0] == len(SPECIAL)
            problem = first_problem(data) if is_empty else None
            return problem or (
                f"{path}: trained with a dictionary of {trained[0]} types, and that in {data} has "
                f"{there[0]}; of another model?"
            )
    return None


def _misfit(error: Exception, path: str, data: str) -> str | None:
    """Parameters that are missing, unknown, or of another shape: how many, and the first."""
    missing = _listed(error, "Missing key")
    unknown = _listed(error, "Unexpected key")
    misshapen = _misshapen(error)
    misfits = []
    if missing:
        misfits.append(f"{_count(missing)} missing (first: {missing[0]!r})")
    if unknown:
        misfits.append(f"{_count(unknown)} unknown (first: {unknown[0]!r})")
    if misshapen:
        name, stored, expected = misshapen[0]
        misfits.append(
            f"{_count(misshapen)} of another shape (first: {name!r}: {stored}, expected {expected})"
        )
    if not misfits:
        return None
    return f"{path}: does not fit its own options: {'; '.join(misfits)}"


def _count(names: list) -> str:
    return "1 parameter is" if len(names) == 1 else f"{len(names)} parameters are"


def _listed(error: Exception, heading: str) -> list[str]:
    """The names of parameters that PyTorch lists under a heading."""
    line = re.search(rf"{heading}\(s\) in state_dict: (.*)", str(error))
    return re.findall(r'"([^"]*)"', line.group(1)) if line else []


def _misshapen(error: Exception) -> list[tuple[str, tuple[int, ...], tuple[int, ...]]]:
    """Name, shape in the checkpoint and shape in the model of each parameter that differs."""
    shapes = MISSHAPEN.findall(str(error))
    return [(name, _sizes(stored), _sizes(expected)) for name, stored, expected in shapes]


def _sizes(text: str) -> tuple[int, ...]:
    return tuple(int(size) for size in text.split(",") if size.strip())


def _no_languages(error: Exception, path: str, data: str) -> str | None:
    if "infer language pair" not in str(error):
        return None
    return (
        f"{path} does not name its languages, and {data} has no binarised data that would; "
        "expected --source-lang and --target-lang"
    )


EXPLANATIONS: list[tuple[type[Exception], Callable[..., str | None]]] = [
    (Exception, refused_file),
    (KeyError, _no_entry),
    (OSError, _no_file),
    (Exception, _bad_dictionary),
    (RuntimeError, _other_dictionary),
    (RuntimeError, _misfit),
    (Exception, _no_languages),
]
