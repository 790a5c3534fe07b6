"""The folder beside an output that keeps what is finished of it: ``FILE`` has ``FILE.run``.

=========================  ======================================================================
``run.json``               the command: options, versions, and digests of models and dictionaries
``prepared-NAME.json``     what was decided for a measure on the first pairs, by whoever was first
``chunk-NAME-0000012``     what the measure makes of a chunk: a line of JSON, then text or an .npz
``shard-1-of-4.json``      this shard has come to the end of a corpus of so many chunks
=========================  ======================================================================

Each file appears whole or not at all, with a digest of its contents, and a chunk knows which run it
belongs to. So a run may be killed at any moment, and several may work in one folder. A chunk that
is damaged, as after a power failure, counts as not done; any other damaged file is refused. The
folder must be one's own and private: whoever else could write to it could forge the output. It may
be a symbolic link, which stays.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import re
import shutil
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from fairseq_normalign.errors import InputError
from fairseq_normalign.files import new_file, real_path, whole_file
from fairseq_normalign.locks import Busy, is_locked, locked
from fairseq_normalign.runs.chunks import Chunk, Partial, Shard, digest

RUN = "run.json"
NAME = "[A-Za-z0-9-]+"
PREPARED = re.compile(f"prepared-(?P<name>{NAME}).json")
CHUNK = re.compile(f"chunk-(?P<name>{NAME})-(?P<number>[0-9]{{7,15}})")
SHARD = re.compile("shard-(?P<number>[0-9]{1,9})-of-(?P<of>[0-9]{1,9}).json")
PRIVATE_FOLDER, OF_OTHERS = 0o700, 0o077
MOST_NAMED = 1000  # missing chunks that are looked at to name their shards
LOCK = re.compile(r"\.(?P<shard>shard-[0-9]+-of-[0-9]+)\.normalign-lock")
# What bytes that were changed can raise on their way to values.
DAMAGE = (
    *(OSError, ValueError, TypeError, KeyError, IndexError, AttributeError),
    *(RecursionError, MemoryError, EOFError, zipfile.BadZipFile),
)


class RunFolder:
    """What is kept of a run. One for each process; many may share the folder.

    Args:
        output: the file that comes out in the end.
    """

    def __init__(self, output: str | Path):
        self.output = Path(output)
        self.path = real_path(f"{real_path(output)}.run")  # a link is a way to another disk
        self.held: str | None = None  # the shard that works here
        self.was_there = False  # from an earlier run
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
        self._refuse_other_folder()
        self.refuse_open()
        if restart:
            with self.alone(Shard()):  # nobody begins here meanwhile
                self.refuse_running()
                self.remove()
                if self.path.exists():
                    raise InputError(f"{self.path}: cannot be removed; choose another output")
            self._make()
        self.was_there = any(_named(self.path, PREPARED))
        begun = {"command": dict(command), "options": dict(options or {})}
        known = self._keep_first(RUN, begun)["command"]
        for name in sorted({*known, *command}):
            if known.get(name) != command.get(name):
                raise InputError(
                    f"{self.output}: was begun {_said(name, known.get(name))}, and this run is "
                    f"{_said(name, command.get(name))}; expected the same command, or --restart"
                )

    def options(self) -> dict[str, Any]:
        """What ``begin`` was told first."""
        return self._run()["options"]

    def _run(self, folder: Path | None = None) -> dict[str, Any]:
        return read_signed((folder or self.path) / RUN)

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

    def _refuse_other_folder(self) -> None:
        """Somebody's own folder is not to be touched."""
        visible = [entry for entry in self.path.glob("*") if not entry.name.startswith(".")]
        if visible and not (self.path / RUN).is_file():
            raise InputError(
                f"{self.path}: is not what a run has left; expected another name for the output"
            )

    @contextlib.contextmanager
    def alone(self, shard: Shard) -> Iterator[None]:
        """Refuses a second run of the same shard while this one lasts."""
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(locked(self.path / _name(shard)))
            except Busy:
                of_shard = f" of {shard}" if shard.of > 1 else ""
                raise InputError(
                    f"{self.output}: another run{of_shard} is at work on it; expected one at a time"
                ) from None
            except OSError as error:
                raise InputError(f"{self.path}: {error.strerror or error}") from None
            self.held = _name(shard)
            try:
                yield
            finally:
                self.held = None

    def prepared(self, name: str) -> dict[str, Any] | None:
        """What was prepared for a measure before; None if nothing was."""
        path = self._prepared_path(name)
        return read_signed(path) if path.exists() else None

    def prepare(self, name: str, contents: Mapping[str, Any]) -> dict[str, Any]:
        """Keeps what was prepared, unless somebody was first; returns what holds for all."""
        return self._keep_first(self._prepared_path(name).name, contents)

    def _prepared_path(self, name: str) -> Path:
        return self.path / f"prepared-{name}.json"

    def refuse_other_first(self, known: str, first: Sequence[Any]) -> None:
        """Refuses other first items than those that were prepared for."""
        if known != digest(first):
            raise InputError(
                f"the first {len(first)} pairs are others than those on which this run was "
                "decided; expected the same text, or --restart"
            )

    def _identity(self, name: str) -> str:
        """Tells a measure of this run from those of others."""
        if name not in self._identities:
            self._identities[name] = digest([self._run()["command"], self.prepared(name)])
        return self._identities[name]

    def _keep_first(self, name: str, contents: Mapping[str, Any]) -> dict[str, Any]:
        text = json.dumps(signed(contents), indent=1, allow_nan=False)
        with contextlib.suppress(FileExistsError):
            new_file(self.path / name, text)
        return read_signed(self.path / name)

    def done(self, name: str | None = None) -> list[int]:
        """The chunks of a measure, or of all, that are done, by anybody."""
        chunks = _named(self.path, CHUNK).values()
        return [int(chunk["number"]) for chunk in chunks if name in (None, chunk["name"])]

    def has(self, chunk: Chunk) -> dict[str, Any] | None:
        """The notes of a chunk that is done; None if it is not. Refuses one of another text."""
        known = self._read_chunk(chunk.measure, chunk.number)
        if known is None:
            return None
        header, _ = known
        if header["text"] != chunk.digest():
            raise InputError(
                f"{self.output}: {chunk.lines} were done before, of another text; expected the "
                "same text, or --restart"
            )
        return header["notes"]

    def keep(self, chunk: Chunk, made: Partial) -> None:
        """Keeps what was made of a chunk."""
        body = _packed(made)
        header = {
            "run": self._identity(chunk.measure),
            "chunk": chunk.number,
            "text": chunk.digest(),
            "pairs": len(chunk.items),
            "arrays": bool(made.arrays),
            "notes": made.notes,
        }
        whole = signed(header, body)
        with whole_file(self._chunk_path(chunk.measure, chunk.number), binary=True) as file:
            file.write(json.dumps(whole).encode() + b"\n" + body)

    def finish(self, shard: Shard, ends: Mapping[str, tuple[int, int]]) -> None:
        """Notes that a shard has come to the end: chunks and items of each measure."""
        known = {name: [self._identity(name), *counts] for name, counts in ends.items()}
        with whole_file(self.path / f"{_name(shard)}.json") as file:
            json.dump(signed(known), file)

    def partials(self, name: str, chunks: int) -> Iterator[Partial]:
        """What was made of each of the chunks of a measure, one at a time."""
        for number in range(chunks):
            known = self._read_chunk(name, number)
            if known is None:
                path = self._chunk_path(name, number)
                raise InputError(f"{path}: is missing or damaged; run it again")
            header, body = known
            yield _unpacked(body, header)

    def ends(self) -> dict[str, int]:
        """How many chunks each measure has; refuses a run that has not come to its end."""
        shards = _named(self.path, SHARD)
        ends = {name: read_signed(self.path / name) for name in shards}
        if not ends:
            raise InputError(f"{self.path}: no shard has come to its end; run the shards first")
        (first, of_first), *others = ends.items()
        for name, (identity, _, pairs) in of_first.items():
            if identity != self._identity(name):
                raise InputError(f"{self.path / first}: is of another run; expected its own alone")
            for other, end in others:
                if end.get(name) != of_first[name]:
                    raise InputError(
                        f"{self.path}: {other} is of {end.get(name, [0])[-1]} pairs, {first} of "
                        f"{pairs}; expected shards of the same corpus"
                    )
        of = max(int(shard["of"]) for shard in shards.values())
        for name, (_, chunks, pairs) in of_first.items():
            self._refuse_missing(name, chunks, pairs, of)
        return {name: chunks for name, (_, chunks, _) in of_first.items()}

    def _refuse_missing(self, name: str, chunks: int, pairs: int, shards: int) -> None:
        sizes = {}
        for number in self.done(name):
            known = self._read_chunk(name, number) if number < chunks else None
            if known is not None:
                sizes[number] = known[0]["pairs"]
        count = chunks - len(sizes)
        if count:
            missing = (number for number in range(chunks) if number not in sizes)
            of_shards = sorted({number % shards for number in islice(missing, MOST_NAMED)})
            raise InputError(
                f"{self.path}: {count} of {chunks} chunks are missing or damaged, of shards "
                f"{', '.join(map(str, of_shards))} of {shards}; run these first"
            )
        if sum(sizes.values()) != pairs:
            raise InputError(
                f"{self.path}: the chunks have {sum(sizes.values())} pairs; expected {pairs}, as "
                "the shards say"
            )

    def add(self, folder: Path) -> None:
        """Takes over what another folder, perhaps of another machine, has of the same run."""
        if self._run(folder)["command"] != self._run()["command"]:
            raise InputError(f"{folder / RUN}: differs from {self.path / RUN}: another run")
        for name, match in _named(folder, PREPARED).items():
            theirs = read_signed(folder / name)
            if self.prepare(match["name"], theirs) != theirs:
                raise InputError(f"{folder / name}: differs from {self.path / name}: another run")
        for name, match in _named(folder, CHUNK).items():
            chunk = match["name"], int(match["number"])
            # A copy may be cut off, theirs as ours.
            if self._read_chunk(*chunk) is None and self._read_chunk(*chunk, folder) is not None:
                self._copy(folder / name)
        for name in _named(folder, SHARD):
            if not (self.path / name).exists():
                self._copy(folder / name)

    def _copy(self, path: Path) -> None:
        with whole_file(self.path / path.name, binary=True) as file:
            file.write(path.read_bytes())

    def remove(self) -> None:
        """Removes the folder, all at once; others may do so at the same time.

        One that cannot be removed stays, and is no error: the output is finished.
        """
        removed = self.path.with_name(f".{digest(self.path.name)}.removed")
        shutil.rmtree(removed, ignore_errors=True)  # what a run that was killed here has left
        try:
            self.path.rename(removed)
        except FileNotFoundError:
            return
        except OSError:  # somebody has taken that name
            removed = self.path
        shutil.rmtree(removed, ignore_errors=True)

    def leave(self, *, keep_prepared: bool = False) -> int:
        """After an error: removes a folder that keeps nothing; returns how many chunks are kept.

        Args:
            keep_prepared: what this run has prepared is worth keeping by itself; what an earlier
                one has always is.
        """
        kept = len(self.done())
        has_prepared = (keep_prepared or self.was_there) and any(_named(self.path, PREPARED))
        if not kept and not has_prepared and not self._running():
            self.remove()
        return kept

    def refuse_running(self) -> None:
        """Refuses to go on while others work in the folder."""
        for shard in self._running():
            raise InputError(f"{self.path}: {shard} is still running; expected it to end before")

    def _running(self) -> list[str]:
        """The other shards whose runs are alive."""
        shards = [lock["shard"] for lock in _named(self.path, LOCK).values()]
        return [shard for shard in shards if shard != self.held and is_locked(self.path / shard)]

    def _read_chunk(
        self, name: str, number: int, folder: Path | None = None
    ) -> tuple[dict[str, Any], bytes] | None:
        """A chunk that is whole, in this folder or another; refuses one of another run."""
        path = (folder or self.path) / self._chunk_path(name, number).name
        try:
            first, _, body = path.read_bytes().partition(b"\n")
            header = _verified(json.loads(first), body)
            identity = header["run"], header["chunk"]
            if not header["arrays"] and body.count(b"\n") != header["pairs"]:
                return None
        except DAMAGE:
            return None
        if identity != (self._identity(name), number):
            raise InputError(f"{path}: is a chunk of another run; expected this run's alone")
        return header, body

    def _chunk_path(self, name: str, number: int) -> Path:
        return self.path / f"chunk-{name}-{number:07}"


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


def signed(contents: Mapping[str, Any], body: bytes = b"") -> dict[str, Any]:
    """JSON with a digest of itself, and of what comes behind it."""
    text = json.dumps(contents, sort_keys=True).encode() + b"\n" + body
    return {"digest": hashlib.blake2b(text, digest_size=16).hexdigest(), **contents}


def _verified(contents: dict[str, Any], body: bytes = b"") -> dict[str, Any]:
    """The contents without their digest, which must be right."""
    known = contents.pop("digest")
    if known != signed(contents, body)["digest"]:
        raise ValueError("has another digest")
    return contents


def read_signed(path: Path) -> dict[str, Any]:
    """JSON that a run has written, as it was written."""
    contents = read_json(path)
    version = contents.get("version")
    if path.name == RUN and "digest" not in contents and version is not None:
        raise InputError(f"{path}: is of version {version}; expected that version, or --restart")
    try:
        return _verified(contents)
    except DAMAGE:
        raise _damaged(path) from None


def _named(folder: Path, form: re.Pattern[str]) -> dict[str, re.Match[str]]:
    """The files of a folder whose names have a form, in the order of their names."""
    paths = sorted(folder.iterdir()) if folder.exists() else []
    matches = {path.name: form.fullmatch(path.name) for path in paths}
    return {name: match for name, match in matches.items() if match}


def _name(shard: Shard) -> str:
    return f"shard-{shard.number}-of-{shard.of}"


def is_given(value: Any) -> bool:
    """Whether an option has a value that asks for something; zero does."""
    return value is not None and value is not False and value != []


def _said(name: str, value: Any) -> str:
    """An option as messages tell it."""
    if not is_given(value):
        return f"without {name}"
    values = value if isinstance(value, list) else [value]
    return f"with {name} {' '.join(map(str, values))}"


def read_json(path: Path) -> dict[str, Any]:
    """A dictionary."""
    try:
        contents = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from None
    except (ValueError, RecursionError):
        contents = None
    if not isinstance(contents, dict):
        raise _damaged(path)
    return contents


def _damaged(path: Path) -> InputError:
    return InputError(f"{path}: is damaged; expected what a run has written, or --restart")
