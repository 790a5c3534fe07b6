"""What an alignment was made with, as JSON in a file beside it: ``FILE`` has ``FILE.json``."""

from __future__ import annotations

import contextlib
import json
import operator
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TextIO

from fairseq_normalign.errors import InputError
from fairseq_normalign.files import is_stream, refuse_unwritable, whole_file
from fairseq_normalign.strict_json import parse_json


@contextlib.contextmanager
def signed_file(path: str | Path, options: Mapping[str, object]) -> Iterator[TextIO]:
    """An alignment to write, whole or not at all, with its signature beside it.

    The old signature goes just before the new alignment comes, and the new signature comes last: a
    run that ends anywhere between leaves an alignment without signature, never with that of
    another. The signature's lock is held all the while, so that two runs cannot mix the two files.
    A device or a pipe has nothing beside it, and gets no signature. Options may grow until the
    alignment is whole.
    """
    if is_stream(path):
        with whole_file(path) as file:
            yield file
        return
    beside = _signature_path(path)
    _refuse_other_json(beside, path)
    with whole_file(beside) as signature:
        with whole_file(path) as file:
            yield file
            Path(os.path.realpath(beside)).unlink(missing_ok=True)
        # A later file is told by its size.
        contents = {"signature": dict(options), "size": Path(path).stat().st_size}
        json.dump(contents, signature, indent=1, allow_nan=False)


def refuse_unsignable(path: str | Path) -> None:
    """Refuses what ``signed_file`` would refuse, before a long run instead of after it."""
    if not is_stream(path):
        refuse_unwritable(path)
        _refuse_other_json(_signature_path(path), path)


def _signature_path(path: str | Path) -> Path:
    """Beside the file itself, wherever links to it are."""
    return Path(f"{os.path.realpath(path)}.json")


def _refuse_other_json(beside: Path, path: str | Path) -> None:
    """Somebody's own FILE.json is not to be lost."""
    try:
        _read(beside)
    except FileNotFoundError:
        return
    except InputError:
        raise InputError(
            f"{beside}: is no signature, and would be overwritten by that of {path}; expected "
            "another name for the output"
        ) from None


def made_with(path: str | Path) -> dict[str, object]:
    """The options that an alignment file was made with, from the signature beside it.

    Empty if there is none, or if the file is of another size than the one that was signed.
    """
    alignment, beside = Path(path), _signature_path(path)
    if str(path) == "-" or not beside.is_file():
        return {}
    options, size = _read(beside)
    is_signed = not alignment.is_file() or size in (None, alignment.stat().st_size)
    return options if is_signed else {}


def first_index(path: str | Path, named: int | None = None) -> int:
    """The first word of a file of links: as an option names it, else as it was written."""
    return named if named is not None else int(made_with(path).get("index") == 1)


def _read(beside: Path) -> tuple[dict[str, object], int | None]:
    try:
        made = parse_json(beside.read_text(encoding="utf-8"))
        size = made.get("size")
        if size is not None:
            size = operator.index(size)
        return dict(made["signature"]), size
    except FileNotFoundError:
        raise
    except OSError as error:
        raise InputError(f"{beside}: {error.strerror or error}") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise InputError(
            f"{beside}: not the signature of an alignment; expected JSON with a dict 'signature'"
        ) from None
