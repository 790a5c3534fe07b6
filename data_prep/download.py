"""A file from the web: resumed where it stopped, checked for its size, named only when whole."""

from __future__ import annotations

import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import BinaryIO

from fairseq_normalign.errors import InputError
from fairseq_normalign.progress import bar

TIMEOUT = 60  # seconds without an answer
MEGABYTE = 1 << 20
NOTHING_LEFT = 416  # HTTP status: the range asked for begins at the end of the file


def download(url: str, path: Path) -> Path:
    """The file at `url`, as `path`; what is there already is not fetched again."""
    if path.exists():
        return path
    partial = path.with_name(path.name + ".part")
    done = partial.stat().st_size if partial.exists() else 0
    print(f"downloading {url} (from byte {done})", file=sys.stderr, flush=True)
    try:
        size = _fetch(url, partial, done)
    except OSError as error:  # URLError, HTTPError, timeouts and lost connections are all OSErrors
        reason = getattr(error, "reason", error)
        raise InputError(
            f"{url}: {reason}; expected a network connection, or the file as {path}"
        ) from error
    received = partial.stat().st_size
    if received != size:
        if received > size:  # of another file: nothing to continue
            partial.unlink()
        raise InputError(f"{url}: {received} bytes came, expected {size}; run again to continue")
    partial.replace(path)
    return path


def _fetch(url: str, partial: Path, done: int) -> int:
    """Append to `partial` what comes after byte `done`; returns the size of the whole file."""
    request = urllib.request.Request(url, headers={"Range": f"bytes={done}-"} if done else {})
    try:
        answer = urllib.request.urlopen(request, timeout=TIMEOUT)
    except urllib.error.HTTPError as error:
        if error.code == NOTHING_LEFT and done:
            return int(error.headers["Content-Range"].rpartition("/")[2])
        raise
    with answer:
        # A server that ignores the range sends the file from its beginning.
        resumed = answer.status == 206
        length = int(answer.headers["Content-Length"])
        with partial.open("ab" if resumed else "wb") as file:
            _copy(answer, file, length)
    return done + length if resumed else length


def _copy(answer: BinaryIO, file: BinaryIO, length: int) -> None:
    """Copies, and shows how many megabytes have come."""
    with bar(total=max(1, length // MEGABYTE), unit="MB") as shown:
        while block := answer.read(MEGABYTE):
            file.write(block)
            shown.update()
