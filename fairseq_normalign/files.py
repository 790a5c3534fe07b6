"""Files: texts read line by line, and outputs that appear whole or not at all.

An output is written to a private file beside it, ``.NAME.….part``, which takes the name when it is
complete; until then an older file of that name stays as it was. A symbolic link stays one: the file
that it points to is replaced. A link that another user has put into a folder for everybody, such as
``/tmp``, is refused. A file that is replaced hands on its owner and permissions, a new one
gets those of the umask. Devices, pipes and open descriptors (``/dev/stdout``, also spelled ``-``)
cannot be replaced and are written straight.

While an output is written, it is locked (``locks``), and a second run that would write the same one
is refused. What ``kill -9`` leaves, the empty lock and an unfinished ``.part``, the next run that
writes NAME removes. Where the file system knows no locks, the run that ends last wins: its file is
whole, too.
"""

from __future__ import annotations

import contextlib
import errno
import glob
import gzip
import io
import itertools
import lzma
import os
import re
import secrets
import shutil
import stat
import struct
import sys
import tokenize
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from fairseq_normalign.errors import InputError
from fairseq_normalign.locks import beside, lock_of, locked

ASCII_SPACE = re.compile("[ \t\n\r\f\v]+")  # a no-break space is part of its word
PACKED = ".gz"
BYTE_ORDER = "\ufeff"  # a mark that may begin a file; utf-8-sig would also drop half a mark

DESCRIPTOR = re.compile(r"/(?:dev|proc/self)/fd/([0-9]+)")
NAMED_DESCRIPTORS = {"-": 1, "/dev/stdout": 1, "/dev/stderr": 2}
PRIVATE = 0o600  # until an output is complete
CANNOT = {errno.EINVAL, errno.ENOSYS, errno.ENOTSUP}  # says a file system that knows no fsync
PATIENT = 500  # tries, of a lock that others hold but for a moment
# … that knows no hard links
NO_LINKS = {errno.EPERM, errno.EMLINK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP}

# What Python and NumPy raise over a zip archive, such as .npz, that was changed on its way.
DAMAGED_ARCHIVE = (
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, tokenize.TokenError, OSError),
    *(EOFError, KeyError, TypeError, ValueError, OverflowError, RecursionError, RuntimeError),
    MemoryError,  # a header that promises more numbers than there is room for
)

# Text that UTF-8 cannot hold, as in names of files in another encoding, is written as \udcff, which
# JSON reads back.
TEXT: dict[str, Any] = {"encoding": "utf-8", "errors": "backslashreplace", "newline": "\n"}


def name_of(path: str | Path) -> str:
    """What messages call a file: its path, or ``<stdin>``."""
    return "<stdin>" if str(path) == "-" else str(path)


def short_names(paths: Sequence[str | Path]) -> list[str]:
    """The shortest end of each path that no other of the paths has, to name files in a table."""
    ends: dict[str, list[str]] = {}  # ``c``, ``b/c`` and ``a/b/c`` of ``a/b/c``
    for path in paths:
        parts = Path(path).parts
        ends[str(path)] = [str(Path(*parts[-count:])) for count in range(1, len(parts) + 1)]
    counts = Counter(itertools.chain.from_iterable(ends.values()))
    names = []
    for path in map(str, paths):
        unique = [end for end in ends[path] if counts[end] == 1]
        names.append(unique[0] if unique else path)
    return names


def split_words(line: str) -> list[str]:
    """The words of a tokenised line.

    Only ASCII white space separates them: a no-break space is part of its word.
    """
    if line.isascii() and not _has_separator(line):
        return line.split()
    return [word for word in ASCII_SPACE.split(line) if word]


def _has_separator(line: str) -> bool:
    """Whether there are signs of ASCII that ``str.split``, alone, takes for white space.

    Four searches take a seventh of the time of a regular expression: every line is asked.
    """
    return "\x1c" in line or "\x1d" in line or "\x1e" in line or "\x1f" in line


def read_lines(path: str | Path) -> Iterator[str]:
    """The lines of a UTF-8 file, one at a time; ``-`` is stdin and ``*.gz`` is unpacked.

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
        raise InputError(
            f"{name}:{number}: not UTF-8 text ({error.reason}); expected a text file"
        ) from None
    except (EOFError, zlib.error) as error:
        raise InputError(f"{name}: damaged: {error}; expected a whole gzip file") from None
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
    _refuse_null(path)
    if str(path) == "-":
        if sys.stdin is None or sys.stdin.closed:
            raise InputError("<stdin>: is closed; expected text from a file or a pipe")
        return open(sys.stdin.fileno(), "rb", closefd=False)
    if str(path).endswith(PACKED):
        return gzip.open(path)
    return Path(path).open("rb")


def _refuse_null(path: str | Path) -> None:
    if "\0" in str(path):
        raise InputError(f"{str(path)!r}: not the name of a file: it has a null character")


def refuse_overwriting(output: str | Path, *inputs: str | Path | None) -> None:
    """Raises InputError if the output is one of the inputs, also under another name.

    Inputs that are None or stdin are passed over.
    """
    if is_stream(output):
        return
    for path in inputs:
        if path is not None and str(path) != "-" and _same_file(output, path):
            raise InputError(f"{output}: would overwrite the input {path}; expected another name")


def _same_file(one: str | Path, other: str | Path) -> bool:
    with contextlib.suppress(OSError, ValueError):
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
    except (OSError, ValueError):
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def _descriptor(path: str | Path) -> int | None:
    match = DESCRIPTOR.fullmatch(str(path))
    return int(match[1]) if match else NAMED_DESCRIPTORS.get(str(path))


@contextlib.contextmanager
def whole_file(path: str | Path, binary: bool = False) -> Iterator[Any]:
    """A file to write that appears under its name only when complete.

    An error, or Ctrl-C, leaves the old file as it was and nothing else. Text for ``*.gz`` is
    packed, the same text as the same bytes. See the top of this module for links, permissions,
    devices and two runs at once.
    """
    _refuse_null(path)
    writing = _straight(path, binary) if is_stream(path) else _replacing(path, binary)
    with contextlib.ExitStack() as stack:
        with _naming(path):
            file = stack.enter_context(writing)
        with _naming(path, others=False):
            yield file
        with _naming(path):
            stack.close()


@contextlib.contextmanager
def _naming(path: str | Path, *, others: bool = True) -> Iterator[None]:
    """Names the output in errors of the operating system.

    Args:
        others: also in errors that name another file.
    """
    try:
        yield
    except OSError as error:
        if error.filename is not None and not others:
            raise
        raise _unwritable(path, error) from None


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


def _unwritable(path: str | Path, error: OSError) -> Exception:
    if isinstance(error, BrokenPipeError):  # whoever reads has seen enough: no mistake
        return error
    return InputError(f"{path}: cannot be written: {error.strerror or error}")


@contextlib.contextmanager
def _straight(path: str | Path, binary: bool) -> Iterator[IO]:
    descriptor = _descriptor(path)
    if descriptor is not None and sys.stdout is not None:
        sys.stdout.flush()  # what was printed before comes before
    copy = os.open(real_path(path), os.O_WRONLY) if descriptor is None else os.dup(descriptor)
    with _file_of(copy) as raw, _as_asked(raw, path, binary) as file:
        yield file


@contextlib.contextmanager
def _as_asked(raw: IO[bytes], path: str | Path, binary: bool) -> Iterator[IO]:
    """The file for bytes, or one for text, whose bytes are packed if the name says so."""
    if binary:
        yield raw
        return
    is_packed = str(path).endswith(PACKED)
    # Neither name nor time: they would make other bytes of the same text.
    stream = gzip.GzipFile("", "wb", fileobj=raw, mtime=0) if is_packed else raw
    text = io.TextIOWrapper(stream, **TEXT)
    try:
        yield text
    except BaseException:
        with contextlib.suppress(OSError):  # the first error counts
            text.detach()  # a stream shows what came before the error
        raise
    text.detach()
    if stream is not raw:
        stream.close()


@contextlib.contextmanager
def _file_of(descriptor: int) -> Iterator[IO[bytes]]:
    file = os.fdopen(descriptor, "wb")
    try:
        yield file
    except BaseException:
        with contextlib.suppress(OSError):  # a full disk is full again: the first error counts
            file.close()
        raise
    file.close()


@contextlib.contextmanager
def _replacing(path: str | Path, binary: bool) -> Iterator[IO]:
    target = real_path(path)
    was_left = lock_of(target).exists()  # with a part, by a run that was killed
    with locked(target) as alone:
        old = _status(target)
        if alone and was_left:
            remove_leftovers(target)
        part = beside(target, f"{secrets.token_hex(4)}.part")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        descriptor = os.open(part, flags, 0o666)
        try:
            with _file_of(descriptor) as raw:
                by_umask = os.fstat(descriptor)
                _permit(descriptor, PRIVATE)
                with _as_asked(raw, path, binary) as file:
                    yield file
                _to_disk(raw)
                _hand_on(old or by_umask, descriptor)
            part.replace(target)
            _name_to_disk(target)
        finally:
            part.unlink(missing_ok=True)


def refuse_unwritable(path: str | Path) -> None:
    """Raises InputError if a file is there that may not be replaced."""
    with _naming(path):
        _status(real_path(path))


def _to_disk(file: IO) -> None:
    """A power failure after the file has its name must not leave it empty.

    A file system over the network may tell only now that the disk is full.
    """
    file.flush()
    try:
        os.fsync(file.fileno())
    except OSError as error:
        if error.errno not in CANNOT:
            raise


def _name_to_disk(target: Path) -> None:
    """A power failure must not take back the new name when what it was made of is removed."""
    with contextlib.suppress(OSError):
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def new_file(path: Path, text: str) -> None:
    """Writes a file that is not there yet, whole; FileExistsError if somebody was first."""
    part = beside(path, f"{secrets.token_hex(4)}.part")
    try:
        with part.open("x", **TEXT) as file:
            file.write(text)
            _to_disk(file)
        _link(part, path)
    except FileExistsError:
        raise
    except OSError as error:
        raise _unwritable(path, error) from None
    finally:
        part.unlink(missing_ok=True)


def _link(part: Path, path: Path) -> None:
    try:
        os.link(part, path)
        return
    except OSError as error:
        if error.errno not in NO_LINKS:
            raise
    with locked(path, tries=PATIENT):
        if path.exists():
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
        part.replace(path)


def remove_leftovers(target: Path) -> None:
    """Removes what killed runs have left of an output; for the holder of its lock, who is alone.

    Reads the whole folder, which may have a million files.
    """
    for part in target.parent.glob(f"{glob.escape(beside(target, '').name)}{'[0-9a-f]' * 8}.part"):
        if part.is_dir() and not part.is_symlink():
            shutil.rmtree(part, ignore_errors=True)
            continue
        with contextlib.suppress(OSError):
            part.unlink()


def _status(target: Path) -> os.stat_result | None:
    """What is known of the file that will be replaced; None if there is none."""
    if not target.exists():
        return None
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    return target.stat()


def _hand_on(old: os.stat_result, descriptor: int) -> None:
    """Gives a new file the owner, if we may, and the permissions of an old one."""
    with contextlib.suppress(OSError):
        os.fchown(descriptor, old.st_uid, old.st_gid)
    _permit(descriptor, stat.S_IMODE(old.st_mode))


def _permit(descriptor: int, mode: int) -> None:
    with contextlib.suppress(OSError):  # a file system without permissions
        os.fchmod(descriptor, mode)
