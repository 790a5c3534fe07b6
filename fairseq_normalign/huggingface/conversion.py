"""From a Hugging Face folder to a fairseq checkpoint, its dictionary, and what splits its text.

A folder that is named like a checkpoint is converted once, to a cache.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from fairseq_normalign.errors import InputError
from fairseq_normalign.files import PART, beside, digest_of, locked, real_path
from fairseq_normalign.host.checkpoint import check_finite, check_fit, save
from fairseq_normalign.host.checkpoint_errors import one_line
from fairseq_normalign.huggingface.converted import MODEL, Converted, Files
from fairseq_normalign.huggingface.folder import HuggingFaceFolder
from fairseq_normalign.huggingface.marian import convert_marian
from fairseq_normalign.huggingface.masked import convert_bert, convert_roberta
from fairseq_normalign.huggingface.multilingual import convert_m2m, convert_mbart
from fairseq_normalign.version import __version__

# By Hugging Face's model_type.
ARCHITECTURES: dict[str, Callable[[HuggingFaceFolder], Converted]] = {
    "bert": convert_bert,
    "roberta": convert_roberta,
    "marian": convert_marian,
    "m2m_100": convert_m2m,
    "mbart": convert_mbart,
}
# What reading raises over contents that nobody would write.
DAMAGE = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, RuntimeError)
UNTRAINED = {  # the history of a model that fairseq did not train
    "criterion_name": "none",
    "optimizer_name": "none",
    "lr_scheduler_state": {"best": None},
    "num_updates": 0,
}


class Written(NamedTuple):
    """What a user is told of a folder that was written."""

    title: str
    notes: list[str]
    commands: Sequence[str] = ()


def import_folder(path: str, output: str) -> Written:
    """Writes a Hugging Face folder as one of fairseq: all of it, or nothing."""
    refuse_used(output)  # before anything is read
    folder = HuggingFaceFolder(path)
    converted = _converted(folder)
    checkpoint = {
        "args": converted.options,
        "model": converted.parameters,
        "optimizer_history": [UNTRAINED],
        "extra_state": {},
    }
    check_fit(str(folder), checkpoint, converted.options)
    check_finite(str(folder), converted.parameters.items())
    with whole_folder(output, converted.files) as part:
        save(checkpoint, str(part / MODEL))
    notes = list(converted.notes)
    if converted.left_out:
        # The parts of the model that these parameters belong to.
        endings = r"\.(dense|weight|bias|out_proj|LayerNorm).*"
        parts = dict.fromkeys(re.sub(endings, "", name) for name in converted.left_out)
        notes.append(f"left out: {', '.join(parts)}")
    # What is shared is counted once; fairseq's numbers of its layout are no parameters.
    tensors = [v for name, v in converted.parameters.items() if not name.endswith(".version")]
    count = sum({id(values): values.numel() for values in tensors}.values())
    title = f"{folder.config['model_type']}, {count:,} parameters, as {converted.options.arch}"
    place = shlex.quote(str(Path(output)))
    return Written(title, notes, [text.replace("{dir}", place) for text in converted.commands])


def _converted(folder: HuggingFaceFolder) -> Converted:
    """By the architecture that the folder names; what nobody would write there is damage."""
    try:
        kind = folder.config.get("model_type")
        if str(kind) not in ARCHITECTURES:
            raise InputError(
                f"{folder}: model_type {kind!r} is not supported; supported: "
                f"{', '.join(ARCHITECTURES)}"
            )
        return ARCHITECTURES[str(kind)](folder)
    except InputError:
        raise
    except DAMAGE as error:
        reason = one_line(f"{type(error).__name__}: {error}")
        raise InputError(
            f"{folder}: damaged or half-downloaded ({reason}); download it again"
        ) from None


def refuse_used(output: str) -> None:
    """Refuses the name of a folder that cannot be made, or has files in it."""
    target = Path(output)
    is_empty = target.is_dir() and not any(target.iterdir())
    if target.name in ("", "..") or (target.exists() and not is_empty):
        raise InputError(f"{output!r}: exists already; pass a new folder")
    if not target.parent.is_dir():
        raise InputError(f"{output}: cannot be written: no such directory")


@contextlib.contextmanager
def whole_folder(output: str, files: Files) -> Iterator[Path]:
    """A folder to fill, which has some files, and gets its name only when it is complete."""
    refuse_used(output)
    target = real_path(output)  # an empty folder may be behind a link
    part = beside(target, PART)
    try:
        with locked(target), contextlib.ExitStack() as stack:
            shutil.rmtree(part, ignore_errors=True)  # of a run that was killed
            stack.callback(shutil.rmtree, part, ignore_errors=True)
            part.mkdir()
            for name, content in files.items():
                data = content.encode("utf-8") if isinstance(content, str) else content
                (part / name).write_bytes(data)
            yield part
            part.replace(target)
    except OSError as error:
        raise InputError(f"{output}: cannot be written: {error.strerror or error}") from None


READ = ("*.json", "*.txt", "*.model", "*.spm", "*.bin", "*.safetensors")  # files that imports read


def cached_import(folder: str) -> Path:
    """The checkpoint of a Hugging Face folder, imported when it is first named.

    The cache is keyed by the contents of the folder and by our version. Two processes may import
    the same folder at once: the first that is ready counts.
    """
    place = cache_folder() / digest(Path(folder))
    if not (place / MODEL).is_file():
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            import_folder(folder, str(place))
        except InputError:
            if not (place / MODEL).is_file():
                raise
        except OSError as error:
            raise InputError(
                f"{place.parent}: cannot be written: {error.strerror}; set XDG_CACHE_HOME, or "
                f"import the model yourself: normalign import {folder} -o DIR"
            ) from None
    return place / MODEL


def cache_folder() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "normalign"


def digest(folder: Path) -> str:
    """Of all files that an import may read, and our version."""
    files = sorted({path for pattern in READ for path in folder.glob(pattern)})
    contents = digest_of(filter(Path.is_file, files))  # a link may lead nowhere
    return f"{__version__}-{contents}"
