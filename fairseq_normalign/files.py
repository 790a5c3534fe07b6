"""Files: texts read line by line, and outputs that appear whole or not at all.

An output is written to ``.NAME.part`` beside it, which takes the name when it is complete; until
then an older file of that name stays as it was. A symbolic link stays one: the file that it points
to is replaced. A link that another user has put into a folder for everybody, such as ``/tmp``, is
refused. A file that is replaced hands on its permissions. Devices, pipes and open descriptors
(``/dev/stdout``, also spelled ``-``) cannot be replaced and are written straight.

While an output is written, ``.NAME.normalign-lock`` is locked, and a second run that would write
the same one is refused. The lock ends with the process, also if that is killed; the next run that
writes NAME removes what it has left. Where the file system has no locks, nobody is refused.
"""

from __future__ import annotations

import contextlib
import errno
import gzip
import hashlib
import importlib
import io
import logging
import lzma
import os
import re
import shutil
import stat
import struct
import sys
import tokenize
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from fairseq_normalign.errors import InputError

ASCII_SPACE = re.compile("[ \t\n\r\f\v]+")  # a no-break space is part of its word
GZIP, ZSTD = ".gz", ".zst"
PART, LOCK = "part", "normalign-lock"  # endings of our own files beside an output
BYTE_ORDER = "\ufeff"  # a mark that may begin a file; utf-8-sig would also drop half a mark

DESCRIPTOR = re.compile(r"/(?:dev|proc/self)/fd/([0-9]+)")
NAMED_DESCRIPTORS = {"-": 1, "/dev/stdout": 1, "/dev/stderr": 2}
NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP}  # says a file system
WAIT, LONG_WAIT = 0.1, 10.0  # seconds, for a lock; others may hold it for a moment

# What Python and NumPy raise over contents, perhaps of an archive, that were changed on their way.
DAMAGE = (
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, tokenize.TokenError, OSError),
    *(AttributeError, EOFError, LookupError, TypeError, ValueError, OverflowError, RuntimeError),
    MemoryError,  # a header that promises more numbers than there is room for
)

# Text that UTF-8 cannot hold, as in names of files in another encoding, is written as \udcff, which
# JSON reads back.
TEXT: dict[str, Any] = {"encoding": "utf-8", "errors": "backslashreplace", "newline": "\n"}


def name_of(path: str | Path) -> str:
    """What messages call a file: its path, or ``<stdin>``."""
    return "<stdin>" if str(path) == "-" else str(path)


def short_names(paths: Sequence[str | Path]) -> list[str]:
    """So many of the last parts of all paths as tell them apart, to name files in a table."""
    parts = [Path(path).parts for path in paths]
    names: list[str] = []
    for count in range(1, max(map(len, parts), default=0) + 1):
        names = [str(Path(*of_path[-count:])) for of_path in parts]
        if len(set(names)) == len(set(parts)):
            break
    return names


def split_words(line: str) -> list[str]:
    """The words of a tokenised line.

    Only ASCII white space separates them: a no-break space is part of its word.
    """
    # Signs of ASCII that ``str.split``, alone, takes for white space. Four searches take a seventh
    # of the time of a regular expression: every line is asked.
    has_separator = "\x1c" in line or "\x1d" in line or "\x1e" in line or "\x1f" in line
    if line.isascii() and not has_separator:
        return line.split()
    return [word for word in ASCII_SPACE.split(line) if word]


def digest_of(files: Iterable[Path]) -> str:
    """A digest of the names and contents of files."""
    digest = hashlib.blake2b(digest_size=10)
    for path in files:
        digest.update(f"{path.name} {path.stat().st_size}\n".encode())
        with path.open("rb") as file:
            while block := file.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()


def read_lines(path: str | Path) -> Iterator[str]:
    """The lines of a UTF-8 file, one at a time; ``-`` is stdin, ``*.gz`` and ``*.zst`` unpacked.

    They end in LF or CR LF, and come with LF. A CR elsewhere is refused: it ends a line for some
    programs, and is a blank for others.
    """
    name, number = name_of(path), 0
    try:
        with _open(path) as file:
            for number, encoded in enumerate(file, 1):
                line = encoded.decode("utf-8")
                if number == 1:
                    line = line.removeprefix(BYTE_ORDER)
                    if not line:  # a file of this mark alone has no lines
                        return
                yield _without_return(line, f"{name}:{number}") if "\r" in line else line
    except UnicodeDecodeError as error:
        raise InputError(f"{name}:{number}: not UTF-8 text ({error.reason})") from None
    except (EOFError, zlib.error, _zstd_error(path)) as error:
        kind = "zstd" if str(path).endswith(ZSTD) else "gzip"
        raise InputError(f"{name}: damaged: {error}; is the {kind} file complete?") from None
    except OSError as error:
        raise InputError(f"{name}: {error.strerror or error}") from None


def _without_return(line: str, where: str) -> str:
    text = line.removesuffix("\n").removesuffix("\r")
    if "\r" in text:
        raise InputError(
            f"{where}: has a carriage return (CR) within; expected lines that end in LF or CR LF"
        )
    return f"{text}\n" if line.endswith("\n") else text


def _open(path: str | Path) -> io.BufferedIOBase:
    if str(path) == "-":
        return open(sys.stdin.fileno(), "rb", closefd=False)
    if str(path).endswith(GZIP):
        return gzip.open(path)
    if str(path).endswith(ZSTD):
        return zstandard().open(path)
    return Path(path).open("rb")


def zstandard() -> Any:
    """The library that packs and unpacks ``*.zst``, as that of Python 3.14 does."""
    try:
        return importlib.import_module("backports.zstd")
    except ImportError:
        raise InputError(".zst files need backports.zstd: pip install backports.zstd") from None


def _zstd_error(path: str | Path) -> type[Exception]:
    return zstandard().ZstdError if str(path).endswith(ZSTD) else EOFError


def _same_file(one: str | Path, other: str | Path) -> bool:
    with contextlib.suppress(OSError):
        return Path(one).samefile(other)
    return os.path.realpath(one) == os.path.realpath(other)


def is_stream(path: str | Path) -> bool:
    """Whether a path names a device, a pipe or an open descriptor.

    Such a thing cannot be replaced, nor can a file stand beside it.
    """
    if _descriptor(path) is not None:
        return True
    try:
        mode = Path(path).stat().st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def _descriptor(path: str | Path) -> int | None:
    match = DESCRIPTOR.fullmatch(str(path))
    return int(match[1]) if match else NAMED_DESCRIPTORS.get(str(path))


@contextlib.contextmanager
def locked(target: Path, *, wait: float = WAIT, leave: bool = False) -> Iterator[None]:
    """Holds the lock of an output; refuses it if another run does.

    Args:
        leave: the file of the lock stays; for folders that may be removed and made anew meanwhile.
    """
    from filelock import FileLock, Timeout

    logging.getLogger("filelock").setLevel(logging.WARNING)
    path = beside(target, LOCK)
    lock = FileLock(path, fallback_to_soft=False)  # which would outlive a killed run
    try:
        lock.acquire(timeout=wait, poll_interval=0.01)
    except Timeout:
        raise InputError(f"{target}: another run is writing it; wait until it has ended") from None
    except OSError as error:
        if error.errno not in NO_LOCKS:
            raise InputError(f"{target}: cannot be written: {error.strerror or error}") from None
    try:
        yield
    finally:
        if not leave:
            path.unlink(missing_ok=True)  # before it is let go: whoever waits makes a new one
        lock.release()


def is_locked(target: Path) -> bool:
    """Whether a run holds the lock of an output."""
    try:
        with locked(target, leave=True):
            return False
    except InputError:
        return True


def beside(target: Path, ending: str) -> Path:
    """A hidden file of our own, in the folder of an output and named after it."""
    return target.with_name(f".{target.name}.{ending}")


@contextlib.contextmanager
def whole_file(path: str | Path, binary: bool = False) -> Iterator[Any]:
    """A file to write that appears under its name only when complete.

    An error, or Ctrl-C, leaves the old file as it was and nothing else. Text for ``*.gz`` and
    ``*.zst`` is packed, the same text as the same bytes. See the top of this module for links,
    permissions, devices and two runs at once.
    """
    with _naming(path), _straight(path) if is_stream(path) else _replacing(path) as raw:
        if binary:
            yield raw
            return
        stream: Any = raw
        if str(path).endswith(GZIP):
            # Neither name nor time: they would make other bytes of the same text.
            stream = gzip.GzipFile("", "wb", fileobj=raw, mtime=0)
        elif str(path).endswith(ZSTD):
            stream = zstandard().open(raw, "wb")
        with io.TextIOWrapper(stream, **TEXT) as text:
            yield text


@contextlib.contextmanager
def _naming(path: str | Path) -> Iterator[None]:
    """Names the output in errors of the operating system, unless they name a file of others."""
    try:
        yield
    except BrokenPipeError:  # whoever reads has seen enough: no mistake
        raise
    except OSError as error:
        target = Path(os.path.realpath(path))
        own = (None, str(target), str(beside(target, PART)))
        if error.filename not in own:
            raise
        raise InputError(f"{path}: cannot be written: {error.strerror or error}") from None


def real_path(path: str | Path) -> Path:
    """Where an output is, symbolic links followed.

    Refuses a link in a sticky folder that everybody may write to, unless it belongs to us or to the
    folder's owner, as Linux does (``fs.protected_symlinks``).
    """
    places = [Path(path).absolute()]
    known: set[Path] = set()
    for place in places:  # grows by where links lead
        for link in (place, *place.parents):
            if link not in known and link.is_symlink():
                known.add(link)
                _refuse_planted(link)
                places.append(link.parent / link.readlink())
    return Path(os.path.realpath(path))


def _refuse_planted(link: Path) -> None:
    folder, owner = link.parent.stat(), link.lstat().st_uid
    is_for_all = folder.st_mode & stat.S_ISVTX and folder.st_mode & stat.S_IWOTH
    if is_for_all and owner not in (os.geteuid(), folder.st_uid):
        raise InputError(
            f"{link}: is another user's symbolic link in a folder for everybody; choose another "
            "output"
        )


@contextlib.contextmanager
def _straight(path: str | Path) -> Iterator[IO[bytes]]:
    descriptor = _descriptor(path)
    if descriptor is not None and sys.stdout is not None:
        sys.stdout.flush()  # what was printed before comes before
    copy = os.open(real_path(path), os.O_WRONLY) if descriptor is None else os.dup(descriptor)
    with os.fdopen(copy, "wb") as file:
        yield file


@contextlib.contextmanager
def _replacing(path: str | Path) -> Iterator[IO[bytes]]:
    refuse_unwritable(path)
    target = real_path(path)
    part = beside(target, PART)
    with locked(target):
        part.unlink(missing_ok=True)  # of a run that was killed
        try:
            with part.open("xb") as file:
                if target.exists():
                    shutil.copymode(target, part)
                yield file
            part.replace(target)
        finally:
            part.unlink(missing_ok=True)


def refuse_unwritable(path: str | Path, *inputs: str | Path | None) -> None:
    """Raises InputError if an output cannot be written, or is one of the inputs.

    Inputs that are None or stdin are passed over; streams take any output.
    """
    if is_stream(path):
        return
    target = real_path(path)
    reason = None
    if not target.parent.is_dir():
        reason = errno.ENOENT
    elif target.is_dir():
        reason = errno.EISDIR
    elif not all(os.access(place, os.W_OK) for place in (target.parent, target) if place.exists()):
        reason = errno.EACCES
    if reason is not None:
        raise InputError(f"{path}: cannot be written: {os.strerror(reason)}")
    for other in inputs:
        if other is not None and str(other) != "-" and _same_file(path, other):
            raise InputError(f"{path}: would overwrite the input {other}; choose another name")


def new_file(path: Path, text: str) -> None:
    """Writes a file that is not there yet, whole; FileExistsError if somebody was first."""
    with locked(beside(path, "new"), wait=LONG_WAIT):
        if path.exists():
            raise FileExistsError(str(path))
        with whole_file(path) as file:
            file.write(text)
