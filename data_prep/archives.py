"""Files out of tar and zip archives, each written whole or not at all."""

from __future__ import annotations

import shutil
import tarfile
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from fairseq_normalign.errors import InputError
from fairseq_normalign.files import whole_file

DAMAGED = (tarfile.TarError, zipfile.BadZipFile, zlib.error)
DAMAGED += (KeyError, EOFError, OSError, RuntimeError)  # the last: of encryption, or odd methods


def extract(archive: Path, members: Sequence[str], folder: Path) -> list[Path]:
    """The named files of an archive, written to `folder` unless they are there."""
    paths = [folder / Path(member).name for member in members]
    if all(path.exists() for path in paths):
        return paths
    kind = "zip" if archive.suffix == ".zip" else "tar"
    try:
        with _opened(archive, kind) as opened:
            for member, path in zip(members, paths, strict=True):
                with _content(opened, member) as content, whole_file(path, binary=True) as file:
                    shutil.copyfileobj(content, file)
    except DAMAGED as error:
        reason = str(error).splitlines()[0]  # tarfile lists every format it tried
        raise InputError(
            f"{archive}: {reason}; expected a {kind} archive of {', '.join(members)}"
        ) from error
    return paths


@contextmanager
def _opened(archive: Path, kind: str) -> Iterator[tarfile.TarFile | zipfile.ZipFile]:
    with zipfile.ZipFile(archive) if kind == "zip" else tarfile.open(archive) as opened:
        yield opened


def _content(opened: tarfile.TarFile | zipfile.ZipFile, member: str) -> IO[bytes]:
    if isinstance(opened, zipfile.ZipFile):
        return opened.open(member)
    content = opened.extractfile(member)
    if content is None:
        raise KeyError(f"{member} is no file")
    return content
