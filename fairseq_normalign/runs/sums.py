"""Sums of a long run, kept beside the output about once a minute: ``FILE`` has ``FILE.run``.

A pass goes through steps, such as batches or heads, which are the same in every run, and adds each
to some sums. Kept are the sums, how many steps are in them, and a digest of what these steps were
of. When the run goes on, these steps are passed over and compared. A run shorter than a minute
writes nothing here.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, TypeVar

from fairseq_normalign.errors import InputError
from fairseq_normalign.files import whole_file
from fairseq_normalign.progress import is_quiet
from fairseq_normalign.runs.chunks import Shard, digest
from fairseq_normalign.runs.folder import RunFolder
from fairseq_normalign.runs.state import pack, unpack

EVERY = 60.0  # seconds between two times that sums are kept

Step = TypeVar("Step")


class Kept(NamedTuple):
    """What is kept of a pass."""

    steps: int  # that are in the sums
    size: int  # of these steps together, in pairs or what else they are made of
    text: str  # a digest of what they are of
    state: bytes  # of the sums


class SumsFolder:
    """Where the sums of a run are kept. Within it they are; at its end they are removed.

    An error leaves them, and says so if it is a user's.

    Args:
        output: the file that comes out in the end.
        command: all that the result depends on; another one is refused.
        restart: begin anew, whatever a killed run has left.
        classes: of the objects that sums are made of; see ``runs.state``.
        clock: tells the seconds.
    """

    def __init__(
        self,
        output: str | Path,
        command: Mapping[str, Any],
        *,
        restart: bool = False,
        classes: Iterable[type] = (),
        clock: Callable[[], float] = time.monotonic,
    ):
        self.folder = RunFolder(output)
        self.command, self.restart = command, restart
        self.classes = tuple(classes)
        self.clock = clock
        self.kept_at = clock()
        self.is_open = False  # whether the folder is there, and ours
        self._lock = contextlib.ExitStack()

    def __enter__(self) -> SumsFolder:
        if self.folder.path.exists():
            self.open(restart=self.restart)
        return self

    def open(self, *, restart: bool = False) -> None:
        """Makes the folder, or goes on with that of the same command; no other run may use it."""
        if self.is_open:
            return
        self.folder.begin(self.command, restart=restart)
        self._lock.enter_context(self.folder.alone(Shard()))
        self.is_open = True

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._lock:
            if not self.is_open:
                return
            if error is None or not any(self.folder.path.glob("sums-*")):
                self.folder.remove()
                return
        if isinstance(error, InputError):
            raise InputError(f"{error} (what was done is kept in {self.folder.path})") from None

    def is_due(self) -> bool:
        """Whether the last time was long ago."""
        return self.clock() - self.kept_at >= EVERY

    def keep(self, name: str, kept: Kept) -> None:
        self.open()
        header = {
            **kept._asdict(),
            "run": digest(self.command),
            "name": name,
            "state": _digest(kept.state),
        }
        with whole_file(self._path(name), binary=True) as file:
            file.write(json.dumps(header).encode() + b"\n")
            file.write(kept.state)  # apart: it may be large
        self.kept_at = self.clock()

    def known(self, name: str) -> Kept | None:
        """What was kept of a pass; None if nothing was, or if it is damaged."""
        if not self.is_open:
            return None
        path = self._path(name)
        try:
            line, _, state = path.read_bytes().partition(b"\n")
            header = json.loads(line)
            whole = header["state"] == _digest(state)
            of_run = (header["run"], header["name"])
            kept = Kept(header["steps"], header["size"], header["text"], state)
        except (OSError, ValueError, TypeError, KeyError, RecursionError):
            return None
        if not whole:
            return None
        if of_run != (digest(self.command), name):
            raise InputError(f"{path}: is of another run; expected this run's alone")
        return kept

    def pack(self, state: Any) -> bytes:
        return pack(state, self.classes)

    def unpack(self, name: str, state: bytes) -> Any:
        try:
            return unpack(state, self.classes)
        except InputError as error:
            raise InputError(f"{self._path(name)}: {error}, or --restart") from None

    def _path(self, name: str) -> Path:
        return self.folder.path / f"sums-{name}"


def _digest(contents: bytes) -> str:
    return hashlib.blake2b(contents, digest_size=16).hexdigest()


class Sums:
    """The sums of all passes of one model.

    Args:
        folder: where they are kept; by default nowhere.
        number: of the model, from 1, if there are several.
    """

    def __init__(self, folder: SumsFolder | None = None, number: int | None = None):
        self.folder, self.number = folder, number

    def begin(self, name: str, holders: Sequence[Any], *, unit: str = "pairs") -> Pass:
        """A pass, whose sums are set to what they were when they were kept.

        Args:
            name: tells it from other passes of the model.
            holders: have the sums, in those attributes that their ``KEPT`` names. If one has no
                such thing, nothing is kept of this pass.
            unit: what steps are made of.
        """
        keeps = all(hasattr(holder, "KEPT") for holder in holders)
        folder = self.folder if keeps else None
        return Pass(folder, self._name(name), holders, unit)

    def before(self, name: str) -> int:
        """How many pairs of a pass were done before."""
        kept = None if self.folder is None else self.folder.known(self._name(name))
        return 0 if kept is None else kept.size

    def _name(self, name: str) -> str:
        return name if self.number is None else f"{name}-of-model-{self.number}"


class Pass:
    """One way through some steps; see ``Sums.begin``."""

    def __init__(self, folder: SumsFolder | None, name: str, holders: Sequence[Any], unit: str):
        self.folder, self.name, self.holders = folder, name, holders
        self.kept = None if folder is None else folder.known(name)
        if folder is not None and self.kept is not None:
            self._restore(folder.unpack(name, self.kept.state))
            if not is_quiet():
                print(f"{self.title}: {self.kept.size} {unit} were done before", file=sys.stderr)

    @property
    def title(self) -> str:
        """What people read of it."""
        return self.name.replace("-", " ")

    def left(self, total: int) -> int:
        """How much is still to do."""
        return total if self.kept is None else max(0, total - self.kept.size)

    def over(
        self,
        steps: Iterable[Step],
        *,
        text: Callable[[Step], bytes],
        size: Callable[[Step], int] = lambda step: 1,
        progress: Callable[[int], object] | None = None,
    ) -> Iterator[Step]:
        """The steps that are to be done. One is done when the next one is asked for.

        Args:
            steps: all of them, the same in every run.
            text: what a step is of: two texts are told apart by it.
            size: of a step.
            progress: told of the size of each step that is done.
        """
        before = Kept(0, 0, "", b"") if self.kept is None else self.kept
        running = hashlib.blake2b(digest_size=16)
        steps_done = size_done = steps_kept = 0
        for step in steps:
            if self.folder is not None:
                running.update(text(step))
            steps_done += 1
            size_done += size(step)
            if steps_done <= before.steps:
                steps_kept = steps_done
                if steps_done == before.steps:
                    self._refuse_other_text(running.hexdigest() == before.text)
                continue
            yield step
            if progress is not None:
                progress(size(step))
            if self.folder is not None and self.folder.is_due():
                self._keep(self.folder, steps_done, size_done, running.hexdigest())
                steps_kept = steps_done
        self._refuse_other_text(steps_done >= before.steps)
        if self.folder is not None and self.folder.is_open and steps_done > steps_kept:
            self._keep(self.folder, steps_done, size_done, running.hexdigest())

    def _refuse_other_text(self, is_same: bool) -> None:
        if not is_same and self.folder is not None:
            raise InputError(
                f"{self.folder.folder.output}: {self.title} was done in part before, of another "
                "text; expected the same text, or --restart"
            )

    def _keep(self, folder: SumsFolder, steps: int, size: int, text: str) -> None:
        state = []
        for holder in self.holders:
            state.append([getattr(holder, name) for name in holder.KEPT])
        folder.keep(self.name, Kept(steps, size, text, folder.pack(state)))

    def _restore(self, state: Any) -> None:
        for holder, values in zip(self.holders, state, strict=True):
            for name, value in zip(holder.KEPT, values, strict=True):
                setattr(holder, name, value)
