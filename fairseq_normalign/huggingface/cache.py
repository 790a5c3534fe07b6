"""A cache of imports, so that a Hugging Face folder can be named like a checkpoint."""

from __future__ import annotations

import os
from pathlib import Path

from fairseq_normalign.errors import InputError
from fairseq_normalign.files import digest_of
from fairseq_normalign.huggingface.conversion import import_folder
from fairseq_normalign.huggingface.converted import MODEL
from fairseq_normalign.version import __version__

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
        except (InputError, OSError) as error:
            if (place / MODEL).is_file():
                return place / MODEL
            if isinstance(error, OSError):
                raise InputError(
                    f"{place.parent}: cannot be written: {error.strerror}; set XDG_CACHE_HOME, or "
                    f"import the model yourself: normalign import {folder} -o DIR"
                ) from None
            raise
    return place / MODEL


def cache_folder() -> Path:
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "normalign"


def digest(folder: Path) -> str:
    """Of all files that an import may read, and our version."""
    files = sorted({path for pattern in READ for path in folder.glob(pattern)})
    contents = digest_of(filter(Path.is_file, files))  # a link may lead nowhere
    return f"{__version__}-{contents}"
