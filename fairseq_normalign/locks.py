"""Locks: one run at a time writes an output.

The lock of ``NAME`` is the file ``.NAME.normalign-lock`` beside it, locked by its process. It ends
with the process, also if the process is killed. Where the file system knows no locks, nobody is
refused.

Written here, not taken from a package: filelock leaves its files behind, and follows symbolic links
that somebody else has planted.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

from fairseq_normalign.errors import InputError

LONG_NAME = 200  # bytes; file systems take 255, and the names of lock and part are longer
TRIES, PAUSE = 3, 0.01  # to take a lock, seconds between


class Busy(InputError):
    """Another run is writing the same output."""


def lock_of(target: Path) -> Path:
    """The file whose lock is that of an output."""
    return beside(target, "normalign-lock")


def beside(target: Path, ending: str) -> Path:
    """A hidden file of our own, in the folder of an output and named after it."""
    name = target.name
    if len(os.fsencode(name)) > LONG_NAME:
        name = hashlib.sha256(os.fsencode(name)).hexdigest()
    return target.with_name(f".{name}.{ending}")


def is_locked(target: Path) -> bool:
    """Whether a run holds the lock of an output."""
    try:
        descriptor = os.open(lock_of(target), os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # a file system without locks
        return False
    finally:
        os.close(descriptor)
    return False


@contextlib.contextmanager
def locked(target: Path, *, tries: int = TRIES) -> Iterator[bool]:
    """Holds the lock of an output, or refuses if another run does; false if there are no locks."""
    lock = lock_of(target)
    descriptor, held = _take(lock, target, tries)
    try:
        yield held
    finally:
        with contextlib.suppress(OSError):
            if _is_at(lock, descriptor):  # else its folder was removed, and perhaps made anew
                lock.unlink()  # before it is let go: whoever waits for nothing finds it gone
        os.close(descriptor)


def _take(lock: Path, target: Path, tries: int) -> tuple[int, bool]:
    refusals = 0
    while True:
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            refusals += 1
            if refusals == tries:
                raise Busy(f"{target}: another run is writing it; expected one at a time") from None
            time.sleep(PAUSE)  # it may be but somebody who asks (``is_locked``)
        except OSError:
            return descriptor, False  # a file system without locks
        else:
            if _is_at(lock, descriptor):
                return descriptor, True
            os.close(descriptor)  # its owner removed it after we had opened it


def _is_at(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False
