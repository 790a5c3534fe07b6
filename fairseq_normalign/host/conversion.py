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
from fairseq_normalign.host.checkpoint import load_single, save
from fairseq_normalign.host.converted import Converted
from fairseq_normalign.host.hugging_face import HuggingFaceFolder
from fairseq_normalign.host.masked_conversion import convert_bert, convert_roberta

MODEL = "model.pt"  # what the checkpoint is called


class Architecture(NamedTuple):
    """A kind of model that can be converted."""

    convert: Callable[[HuggingFaceFolder], Converted]
    example: str  # what a user does with it next, but for the options that name it


# By Hugging Face's model_type.
ARCHITECTURES = {
    "bert": Architecture(convert_bert, "normalign mixing"),
    "roberta": Architecture(convert_roberta, "normalign mixing"),
}


class Imported(NamedTuple):
    """What a user is told."""

    title: str
    notes: list[str]
    command: str


def import_folder(path: str, output: str) -> Imported:
    """Writes a Hugging Face folder as one of fairseq: all of it, or nothing."""
    refuse_used(output)  # before anything is read
    folder = HuggingFaceFolder(path)
    architecture = _architecture(folder)
    converted = architecture.convert(folder)
    with whole_folder(output) as part:
        for name, text in converted.files.items():
            (part / name).write_text(text, encoding="utf-8")
        save(_checkpoint(converted), str(part / MODEL))
        model = _loaded(part, folder)
    notes = list(converted.notes)
    if converted.left_out:
        notes.append(f"left out: {_parts(converted.left_out)}")
    count = sum(parameter.numel() for parameter in model.parameters())
    title = f"{folder.config['model_type']}, {count:,} parameters, as {converted.options.arch}"
    return Imported(title, notes, _command(architecture, converted, Path(output)))


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


def _loaded(part: Path, folder: HuggingFaceFolder) -> Any:
    """The model as every command will load it; what is wrong with it is told by FOLDER's name."""
    try:
        model, _ = load_single(str(part / MODEL), str(part))
        return model
    except InputError as error:
        raise InputError(str(error).replace(str(part / MODEL), str(folder))) from None


def _parts(names: Sequence[str]) -> str:
    """The parts of a model that parameters belong to."""
    parts = [re.sub(r"\.(dense|weight|bias|out_proj|LayerNorm).*", "", name) for name in names]
    return ", ".join(dict.fromkeys(parts))


def _architecture(folder: HuggingFaceFolder) -> Architecture:
    kind = folder.config.get("model_type")
    if not isinstance(kind, str) or kind not in ARCHITECTURES:
        names = folder.config.get("architectures") or []
        shown = f"{kind!r} ({', '.join(map(str, names))})" if names else repr(kind)
        raise InputError(
            f"{folder}: its architecture is {shown}; expected one of: {', '.join(ARCHITECTURES)}"
        )
    return ARCHITECTURES[kind]


def _command(architecture: Architecture, converted: Converted, output: Path) -> str:
    """The command to go on with."""
    words = [*architecture.example.split(), str(output), "--path", str(output / MODEL)]
    for word in converted.reading:
        words.append(str(output / word) if word in converted.files else word)
    return shlex.join([*words, "--attention", "encoder", "--source-file", "TEXT"])


def refuse_used(output: str) -> None:
    """Refuses the name of a folder that cannot be made, or has files in it."""
    target = Path(output)
    if target.exists() and not (target.is_dir() and not any(target.iterdir())):
        raise InputError(f"{output}: is there already; expected the name of a new folder")
    if not target.parent.is_dir():
        raise InputError(f"{output}: cannot be written: no such directory")


@contextlib.contextmanager
def whole_folder(output: str) -> Iterator[Path]:
    """A folder to fill, which gets its name only when it is complete."""
    refuse_used(output)
    target = Path(output)
    part = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
    try:
        part.mkdir()
        yield part
        part.replace(target)
    except OSError as error:
        raise InputError(f"{output}: cannot be written: {error.strerror or error}") from None
    finally:
        shutil.rmtree(part, ignore_errors=True)
