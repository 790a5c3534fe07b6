"""From a Hugging Face folder to a fairseq checkpoint, its dictionary, and what splits its text."""

from __future__ import annotations

import contextlib
import re
import secrets
import shlex
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fairseq_normalign.errors import InputError
from fairseq_normalign.files import real_path, remove_leftovers
from fairseq_normalign.host.checkpoint import (
    VARIANT,
    check_finite,
    check_fit,
    load_single,
    save,
)
from fairseq_normalign.huggingface.converted import DIR, MODEL, Converted
from fairseq_normalign.huggingface.folder import HuggingFaceFolder
from fairseq_normalign.huggingface.marian import convert_marian
from fairseq_normalign.huggingface.masked import convert_bert, convert_roberta
from fairseq_normalign.huggingface.multilingual import convert_m2m, convert_mbart
from fairseq_normalign.locks import beside, locked

# By Hugging Face's model_type.
ARCHITECTURES: dict[str, Callable[[HuggingFaceFolder], Converted]] = {
    "bert": convert_bert,
    "roberta": convert_roberta,
    "marian": convert_marian,
    "m2m_100": convert_m2m,
    "mbart": convert_mbart,
}
PRIVATE = 0o700  # until a folder is complete


class Imported(NamedTuple):
    """What a user is told."""

    title: str
    notes: list[str]
    commands: list[str]


def import_folder(path: str, output: str) -> Imported:
    """Writes a Hugging Face folder as one of fairseq: all of it, or nothing."""
    refuse_used(output)  # before anything is read
    folder = HuggingFaceFolder(path)
    converted = _architecture(folder)(folder)
    count = _checked(folder, converted)
    with whole_folder(output) as part:
        for name, content in converted.files.items():
            data = content.encode("utf-8") if isinstance(content, str) else content
            (part / name).write_bytes(data)
        save(_checkpoint(converted), str(part / MODEL))
        if converted.options.arch != VARIANT:
            count = _loaded(part, folder)
    notes = list(converted.notes)
    if converted.left_out:
        notes.append(f"left out: {_parts(converted.left_out)}")
    title = f"{folder.config['model_type']}, {count:,} parameters, as {converted.options.arch}"
    return Imported(title, notes, _commands(converted, Path(output)))


def _checkpoint(converted: Converted) -> dict[str, Any]:
    """As fairseq stores one, of a model that was not trained by it."""
    trained = {
        "criterion_name": "none",
        "optimizer_name": "none",
        "lr_scheduler_state": {"best": None},
        "num_updates": 0,
    }
    return {
        "args": converted.options,
        "model": converted.parameters,
        "optimizer_history": [trained],
        "extra_state": {},
    }


def _checked(folder: HuggingFaceFolder, converted: Converted) -> int:
    """How many parameters a translation model has, which is built without memory: it is large."""
    if converted.options.arch != VARIANT:
        return 0
    check_fit(str(folder), _checkpoint(converted), converted.options)
    check_finite(str(folder), converted.parameters.items())
    shared = {}  # each is counted once
    for name, values in converted.parameters.items():
        if not name.endswith(".version"):  # of fairseq's layout: no parameter
            shared[id(values)] = values.numel()
    return sum(shared.values())


def _loaded(part: Path, folder: HuggingFaceFolder) -> int:
    """How many parameters the model has, as every command will load it.

    What is wrong with it is told by FOLDER's name.
    """
    try:
        model, _ = load_single(str(part / MODEL), str(part))
        return sum(parameter.numel() for parameter in model.parameters())
    except InputError as error:
        raise InputError(str(error).replace(str(part / MODEL), str(folder))) from None


def _parts(names: Sequence[str]) -> str:
    """The parts of a model that parameters belong to."""
    parts = [re.sub(r"\.(dense|weight|bias|out_proj|LayerNorm).*", "", name) for name in names]
    return ", ".join(dict.fromkeys(parts))


def _architecture(folder: HuggingFaceFolder) -> Callable[[HuggingFaceFolder], Converted]:
    kind = folder.config.get("model_type")
    if not isinstance(kind, str) or kind not in ARCHITECTURES:
        classes = folder.config.get("architectures")
        shown = f" ({_listed(classes)})" if classes else ""
        raise InputError(
            f"{folder}: its architecture is {kind!r}{shown}; expected one of: "
            f"{', '.join(ARCHITECTURES)}"
        )
    return ARCHITECTURES[kind]


def _listed(classes: Any) -> str:
    """The names of classes; what is no list of names as it is."""
    if isinstance(classes, list) and all(isinstance(name, str) for name in classes):
        return ", ".join(classes)
    return repr(classes)


def _commands(converted: Converted, output: Path) -> list[str]:
    """The commands to go on with."""
    paths = {name: str(output / name) for name in (MODEL, *converted.files)}
    paths[DIR] = str(output)
    return [shlex.join(paths.get(word, word) for word in words) for words in converted.commands]


def refuse_used(output: str) -> None:
    """Refuses the name of a folder that cannot be made, or has files in it."""
    target = Path(output)
    if target.name in ("", ".."):
        raise InputError(f"{output or repr(output)}: expected the name of a new folder")
    if target.exists() and not (target.is_dir() and not any(target.iterdir())):
        raise InputError(f"{output}: is there already; expected the name of a new folder")
    if not target.parent.is_dir():
        raise InputError(f"{output}: cannot be written: no such directory")


@contextlib.contextmanager
def whole_folder(output: str) -> Iterator[Path]:
    """A folder to fill, which gets its name only when it is complete."""
    refuse_used(output)
    target = real_path(output)  # an empty folder may be behind a link
    part = beside(target, f"{secrets.token_hex(4)}.part")
    try:
        with locked(target) as alone:
            if alone:
                remove_leftovers(target)
            part.mkdir()
            by_umask = part.stat().st_mode
            part.chmod(PRIVATE)
            yield part
            part.chmod(by_umask)
            part.replace(target)
    except OSError as error:
        raise InputError(f"{output}: cannot be written: {error.strerror or error}") from None
    finally:
        shutil.rmtree(part, ignore_errors=True)
