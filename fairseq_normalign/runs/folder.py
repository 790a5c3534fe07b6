"""The folder beside an output that keeps what is finished of it: ``FILE`` has ``FILE.run``.

=========================  ======================================================================
``run.json``               the command: options, versions, and digests of models and dictionaries
``prepared-NAME.json``     what was decided for a measure on the first pairs, by whoever was first
``chunk-NAME-0000012``     what the measure makes of a chunk: a line of JSON, then text or an .npz
``shard-1-of-4.json``      this shard has come to the end of a corpus of so many chunks
=========================  ======================================================================

Each file is a line of JSON, perhaps with a body behind it. It appears whole or not at all, with a
digest of its contents, and a chunk knows which run it belongs to. So a run may be killed at any
moment, and several may work in one folder. A chunk that is damaged, as after a power failure,
counts as not done; any other damaged file is refused. The folder must be one's own and private:
whoever else could write to it could forge the output. It may be a symbolic link, which stays.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fairseq_normalign.errors import InputError
from fairseq_normalign.files import (
    DAMAGE,
    LOCK,
    beside,
    is_locked,
    locked,
    new_file,
    real_path,
    whole_file,
)
from fairseq_normalign.runs.chunks import Chunk, Partial, Shard, digest

RUN = "run.json"
PREPARED, CHUNKS, SHARDS = "prepared-*.json", "chunk-*", "shard-[0-9]*.json"  # names of files
PRIVATE_FOLDER, OF_OTHERS = 0o700, 0o077
SEVEN_DIGITS = 7 * "[0-9]"  # of a chunk, at least


Kept = tuple[dict[str, Any], Partial]  # the header of a chunk, and what was made of it


class RunFolder:
    """What is kept of a run. One for each process; many may share the folder.

    Args:
        output: the file that comes out in the end.
    """

    def __init__(self, output: str | Path):
        self.output = Path(output)
        self.path = real_path(f"{real_path(output)}.run")  # a link is a way to another disk
        self.held: Path | None = None  # what is locked for the shard that works here
        self.was_there = False  # from an earlier run
        self.counted: dict[str, tuple[int, int]] = {}  # chunks and items of each measure
        self.done_before = 0  # items
        self._identities: dict[str, str] = {}  # of each measure in the run; its chunks have them

    def begin(
        self,
        command: Mapping[str, Any],
        options: Mapping[str, Any] | None = None,
        *,
        restart: bool = False,
    ) -> None:
        """Makes the folder, or goes on with one that the same command has made.

        Args:
            command: all that the result depends on.
            options: what whoever merges the shards wants to know of it.
        """
        self._make()
        if (
            any(self.path.glob("[!.]*")) and not (self.path / RUN).is_file()
        ):  # somebody's own, which is not touched
            raise InputError(f"{self.path}: not a normalign run directory; choose another output")
        self.refuse_open()
        if restart:
            with self.alone(Shard()):  # nobody begins here meanwhile
                self.refuse_running()
                self.remove()
                if self.path.exists():
                    raise InputError(f"{self.path}: cannot be removed; choose another output")
            self._make()
        self.was_there = any(self.path.glob(PREPARED))
        begun = {"command": dict(command), "options": dict(options or {})}
        known = self._keep_first(RUN, begun)["command"]
        for name in sorted({*known, *command}):
            if known.get(name) != command.get(name):
                raise InputError(
                    f"{self.output}: was begun {_said(name, known.get(name))}, and this run is "
                    f"{_said(name, command.get(name))}; use the same command, or --restart"
                )

    def options(self) -> dict[str, Any]:
        """What ``begin`` was told first."""
        return read_signed(self.path / RUN)["options"]

    def _make(self) -> None:
        try:
            self.path.mkdir(PRIVATE_FOLDER, exist_ok=True)  # it holds words of the corpus
        except OSError as error:
            raise InputError(
                f"{self.output}: cannot be written: {self.path.name} beside it cannot be made: "
                f"{error.strerror or error}"
            ) from None

    def refuse_open(self) -> None:
        """Refuses a folder of another user, and one that others may read or write to."""
        if not _is_private(self.path) and self._can_be_private():
            raise InputError(
                f"{self.path}: is another user's, or open to others; remove it, or choose another "
                "output"
            )

    def _can_be_private(self) -> bool:
        """Whether the file system knows owners and permissions: disks of Windows may not."""
        try:
            with tempfile.TemporaryDirectory(dir=self.path.parent) as new:
                return _is_private(Path(new))
        except OSError:
            return True

    @contextlib.contextmanager
    def alone(self, shard: Shard) -> Iterator[None]:
        """Refuses a second run of the same shard while this one lasts."""
        self.held = self.path / _name(shard)
        try:
            with locked(self.held, leave=True):
                yield
        finally:
            self.held = None

    def prepared(self, name: str) -> dict[str, Any] | None:
        """What was prepared for a measure before; None if nothing was."""
        path = self.path / f"prepared-{name}.json"
        return read_signed(path) if path.exists() else None

    def prepare(self, name: str, contents: Mapping[str, Any]) -> dict[str, Any]:
        """Keeps what was prepared, unless somebody was first; returns what holds for all."""
        return self._keep_first(f"prepared-{name}.json", contents)

    def _identity(self, name: str) -> str:
        """Tells a measure of this run from those of others."""
        if name not in self._identities:
            command = read_signed(self.path / RUN)["command"]
            self._identities[name] = digest([command, self.prepared(name)])
        return self._identities[name]

    def _keep_first(self, name: str, contents: Mapping[str, Any]) -> dict[str, Any]:
        with contextlib.suppress(FileExistsError):
            new_file(self.path / name, signed(contents).decode())
        return read_signed(self.path / name)

    def done(self) -> int:
        """How many chunks are done, by anybody."""
        return len(list(self.path.glob(CHUNKS)))

    def has(self, chunk: Chunk) -> dict[str, Any] | None:
        """The notes of a chunk that is done; None if it is not. Refuses one of another text."""
        known = self._read_chunk(self.path / _chunk_name(chunk.measure, chunk.number))
        if known is None:
            return None
        header, made = known
        if header["text"] != chunk.digest():
            raise InputError(
                f"{self.output}: {chunk.lines} were done before, of another text; use the same "
                "text, or --restart"
            )
        return dict(made.notes)

    def count(self, chunk: Chunk) -> None:
        """Counts a chunk of the corpus, whoever works on it."""
        chunks, items = self.counted[chunk.measure]
        self.counted[chunk.measure] = chunks + 1, items + len(chunk.items)

    def keep(self, chunk: Chunk, made: Partial) -> None:
        """Keeps what was made of a chunk."""
        header = {
            "run": self._identity(chunk.measure),
            "measure": chunk.measure,
            "chunk": chunk.number,
            "text": chunk.digest(),
            "pairs": len(chunk.items),
            "arrays": bool(made.arrays),
            "notes": made.notes,
        }
        self._write(_chunk_name(chunk.measure, chunk.number), signed(header, _packed(made)))

    def finish(self, shard: Shard, ends: Mapping[str, tuple[int, int]]) -> None:
        """Notes that a shard has come to the end: chunks and items of each measure."""
        known = {name: [self._identity(name), *counts] for name, counts in ends.items()}
        self._write(f"{_name(shard)}.json", signed(known))

    def partials(self, name: str, chunks: int) -> Iterator[Partial]:
        """What was made of each of the chunks of a measure, one at a time."""
        for number in range(chunks):
            path = self.path / _chunk_name(name, number)
            known = self._read_chunk(path)
            if known is None:
                raise InputError(f"{path}: is missing or damaged; run it again")
            yield known[1]

    def ends(self) -> dict[str, int]:
        """How many chunks each measure has; refuses a run that has not come to its end."""
        shards = sorted(self.path.glob(SHARDS))
        if not shards:
            raise InputError(
                f"{self.path}: no shard has come to its end; run the shards first, or give the "
                "command again"
            )
        first, *others = shards
        end = read_signed(first)
        for other in others:
            if read_signed(other) != end:
                raise InputError(
                    f"{self.path}: {first.name} and {other.name} are of different texts; use "
                    "shards of the same corpus"
                )
        of = max(int(shard.stem.rpartition("-")[2]) for shard in shards)
        for name, (identity, chunks, pairs) in end.items():
            if identity != self._identity(name):
                raise InputError(f"{first}: is of another run; remove it")
            self._refuse_missing(name, chunks, pairs, of)
        return {name: chunks for name, (_, chunks, _) in end.items()}

    def _refuse_missing(self, name: str, chunks: int, pairs: int, shards: int) -> None:
        sizes = {}  # of those that are there
        for path in self.path.glob(f"chunk-{name}-{SEVEN_DIGITS}*"):
            known = self._read_chunk(path)
            if known is not None and known[0]["chunk"] < chunks:  # the corpus may be shorter now
                sizes[known[0]["chunk"]] = known[0]["pairs"]
        count = chunks - len(sizes)
        if count:
            of_shards = sorted({number % shards for number in {*range(chunks)} - {*sizes}})
            raise InputError(
                f"{self.path}: {count} of {chunks} chunks are missing or damaged, those of "
                f"--shard-id {', '.join(map(str, of_shards))}; run these shards first"
            )
        found = sum(sizes.values())
        if found != pairs:
            raise InputError(f"{self.path}: the chunks have {found} pairs, the corpus has {pairs}")

    def _write(self, name: str, contents: bytes) -> None:
        with whole_file(self.path / name, binary=True) as file:
            file.write(contents)

    def remove(self) -> None:
        """Removes the folder, all at once; others may do so at the same time.

        One that cannot be removed stays, and is no error: the output is finished.
        """
        removed = beside(self.path, "removed")
        shutil.rmtree(removed, ignore_errors=True)  # what a run that was killed here has left
        with contextlib.suppress(OSError):
            self.path.rename(removed)
        for folder in (removed, self.path):
            shutil.rmtree(folder, ignore_errors=True)

    def leave(self, *, keep_prepared: bool = False) -> int:
        """After an error: removes a folder that keeps nothing; returns how many chunks are kept.

        Args:
            keep_prepared: what this run has prepared is worth keeping by itself; what an earlier
                one has always is.
        """
        kept = self.done()
        has_prepared = (keep_prepared or self.was_there) and any(self.path.glob(PREPARED))
        if not kept and not has_prepared and not self._running():
            self.remove()
        return kept

    def refuse_running(self) -> None:
        """Refuses to go on while others work in the folder."""
        for shard in self._running():
            raise InputError(f"{self.path}: {shard} is still running; wait until it has ended")

    def _running(self) -> list[str]:
        """The other shards whose runs are alive."""
        endings = beside(self.path / "shard-*", LOCK).name
        names = [lock.name[1:].removesuffix(f".{LOCK}") for lock in self.path.glob(endings)]
        others = [name for name in names if self.path / name != self.held]
        return [name for name in others if is_locked(self.path / name)]

    def _read_chunk(self, path: Path) -> Kept | None:
        """A chunk that is whole; refuses one of another run."""
        try:
            header, body = _verified(path.read_bytes())
            identity = self._identity(header["measure"])
            is_own = header["run"] == identity
            name = _chunk_name(header["measure"], header["chunk"])
            made = _unpacked(body, header)
            is_whole = header["arrays"] or made.text.count("\n") == header["pairs"]
        except DAMAGE:
            return None
        if not is_own or name != path.name:
            raise InputError(f"{path}: is a chunk of another run; remove it")
        return (header, made) if is_whole else None


def _chunk_name(measure: str, number: int) -> str:
    return f"chunk-{measure}-{number:07}"


def _is_private(folder: Path) -> bool:
    status = folder.stat()
    return status.st_uid == os.geteuid() and not status.st_mode & OF_OTHERS


def _packed(made: Partial) -> bytes:
    if not made.arrays:
        return made.text.encode("utf-8")
    arrays: dict[str, Any] = dict(made.arrays)
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def _unpacked(body: bytes, header: Mapping[str, Any]) -> Partial:
    if not header["arrays"]:
        return Partial(text=body.decode("utf-8"), notes=header["notes"])
    with np.load(io.BytesIO(body), allow_pickle=False) as arrays:
        return Partial(dict(arrays), notes=header["notes"])


def signed(contents: Mapping[str, Any], body: bytes = b"") -> bytes:
    """A line of JSON with a digest of itself and of the body, and the body behind it."""
    whole = {"digest": _digest(contents, body), **contents}
    return json.dumps(whole, allow_nan=False).encode() + b"\n" + body


def _digest(contents: Mapping[str, Any], body: bytes) -> str:
    text = json.dumps(contents, sort_keys=True).encode() + b"\n" + body
    return hashlib.blake2b(text, digest_size=16).hexdigest()


def _verified(whole: bytes) -> tuple[dict[str, Any], bytes]:
    """The contents without their digest, which must be right, and the body."""
    line, _, body = whole.partition(b"\n")
    contents = json.loads(line)
    if contents.pop("digest") != _digest(contents, body):
        raise ValueError("has another digest")
    return contents, body


def read_signed(path: Path) -> dict[str, Any]:
    """JSON that a run has written, as it was written."""
    try:
        return _verified(path.read_bytes())[0]
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from None
    except DAMAGE:
        raise InputError(
            f"{path}: is damaged, or of another version; remove the folder, or use --restart"
        ) from None


def _name(shard: Shard) -> str:
    return f"shard-{shard.number}-of-{shard.of}"


def is_given(value: Any) -> bool:
    """Whether an option has a value that asks for something; zero does."""
    return value is not None and value is not False and value != []


def _said(name: str, value: Any) -> str:
    """An option as messages tell it."""
    if not is_given(value):
        return f"without {name}"
    values = value if isinstance(value, list) else [value] * (value is not True)
    return " ".join(["with", name, *map(str, values)])
