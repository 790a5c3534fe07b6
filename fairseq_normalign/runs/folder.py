"""The folder beside an output that keeps what is finished of it: ``FILE`` has ``FILE.run``.

=========================  ======================================================================
``run.json``               the command: options, versions, and digests of models and dictionaries
``decided.json``           what was decided on the first pairs, by whoever was first
``chunk-0000012``          one line of JSON, then the lines of the output that the chunk makes
``shard-1-of-4.json``      this shard has come to the end of a corpus of so many chunks
=========================  ======================================================================

Each file appears whole or not at all, and a chunk knows which run it belongs to and what its
contents are. So a run may be killed at any moment, and several may work in one folder. A chunk that
is damaged, as after a power failure, counts as not done. The folder must be one's own and private:
whoever else could write to it could forge the output. It may be a symbolic link, which stays.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from fairseq_normalign.errors import InputError
from fairseq_normalign.files import new_file, real_path, whole_file
from fairseq_normalign.locks import Busy, is_locked, locked
from fairseq_normalign.runs.chunks import Chunk, Result, Shard, digest

RUN, DECIDED = "run.json", "decided.json"
CHUNK = re.compile("chunk-(?P<number>[0-9]{7,15})")
SHARD = re.compile("shard-(?P<number>[0-9]{1,9})-of-(?P<of>[0-9]{1,9}).json")
PRIVATE_FOLDER, OF_OTHERS = 0o700, 0o077
MOST_NAMED = 1000  # missing chunks that are looked at to name their shards
LOCK = re.compile(r"\.(?P<shard>shard-[0-9]+-of-[0-9]+)\.normalign-lock")


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
        self.identity = ""  # of the run, with what was decided; each chunk has it

    def begin(self, command: Mapping[str, Any], *, restart: bool = False) -> None:
        """Makes the folder, or goes on with one that the same command has made."""
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
        self.was_there = (self.path / DECIDED).exists()
        known = self._keep_first(RUN, command)
        for name in sorted({*known, *command}):
            if known.get(name) != command.get(name):
                raise InputError(
                    f"{self.output}: was begun {_said(name, known.get(name))}, and this run is "
                    f"{_said(name, command.get(name))}; expected the same command, or --restart"
                )

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

    def decided(self) -> dict[str, Any] | None:
        """What was decided before; None if nothing was."""
        if not (self.path / DECIDED).exists():
            return None
        decision = read_json(self.path / DECIDED)
        self._identify(decision)
        return decision

    def decide(self, decision: Mapping[str, Any]) -> dict[str, Any]:
        """Keeps what was decided, unless somebody was first; returns what holds for all."""
        decision = self._keep_first(DECIDED, decision)
        self._identify(decision)
        return decision

    def _identify(self, decision: Mapping[str, Any]) -> None:
        self.identity = digest([read_json(self.path / RUN), decision])

    def _keep_first(self, name: str, contents: Mapping[str, Any]) -> dict[str, Any]:
        text = json.dumps(contents, indent=1, allow_nan=False)
        with contextlib.suppress(FileExistsError):
            new_file(self.path / name, text)
        return read_json(self.path / name)

    def done(self) -> list[int]:
        """The chunks that are done, by anybody."""
        return [int(name["number"]) for name in _named(self.path, CHUNK).values()]

    def has(self, chunk: Chunk) -> dict[str, Any] | None:
        """The notes of a chunk that is done; None if it is not. Refuses one of another text."""
        known = self._read_chunk(chunk.number)
        if known is None:
            return None
        header, _ = known
        if header["text"] != chunk.digest():
            raise InputError(
                f"{self.output}: {chunk.lines} were done before, of another text; expected the "
                "same text, or --restart"
            )
        return header["notes"]

    def keep(self, chunk: Chunk, result: Result) -> None:
        """Keeps what was made of a chunk."""
        body = result.body.encode("utf-8")
        header = {
            "run": self.identity,
            "chunk": chunk.number,
            "text": chunk.digest(),
            "pairs": len(chunk.items),
            "notes": result.notes,
        }
        signed = {"digest": _digest_of(header, body), **header}
        with whole_file(self._chunk_path(chunk.number), binary=True) as file:
            file.write(json.dumps(signed).encode() + b"\n" + body)

    def finish(self, shard: Shard, chunks: int, pairs: int) -> None:
        """Notes that a shard has come to the end of the corpus."""
        end = {"run": self.identity, "chunks": chunks, "pairs": pairs}
        with whole_file(self.path / f"{_name(shard)}.json") as file:
            json.dump(end, file)

    def result(self, chunk: int) -> Result:
        """What was made of a chunk."""
        known = self._read_chunk(chunk)
        if known is None:
            raise InputError(f"{self._chunk_path(chunk)}: is missing or damaged; run it again")
        header, body = known
        return Result(body.decode("utf-8"), header["notes"])

    def chunks(self) -> int:
        """How many chunks the corpus has; refuses a run that has not come to its end."""
        decision = self.decided()
        shards = _named(self.path, SHARD)
        ends = {name: read_json(self.path / name) for name in shards}
        if decision is None or not ends:
            raise InputError(f"{self.path}: no shard has come to its end; run the shards first")
        (first, of_first), *others = ends.items()
        for name, end in ends.items():
            if not all(type(end.get(count)) is int for count in ("chunks", "pairs")):
                raise InputError(f"{self.path / name}: is damaged; run this shard again")
            if end.get("run") != self.identity:
                raise InputError(f"{self.path / name}: is of another run; expected its own alone")
        for name, end in others:
            if end != of_first:
                raise InputError(
                    f"{self.path}: {name} is of {end['pairs']} pairs, {first} of "
                    f"{of_first['pairs']}; expected shards of the same corpus"
                )
        self._refuse_missing(of_first["chunks"], max(int(name["of"]) for name in shards.values()))
        return of_first["chunks"]

    def _refuse_missing(self, chunks: int, shards: int) -> None:
        done = [number for number in self.done() if number < chunks]
        whole = {number for number in done if self._read_chunk(number) is not None}
        count = chunks - len(whole)
        if count:
            missing = (number for number in range(chunks) if number not in whole)
            of_shards = sorted({number % shards for number in islice(missing, MOST_NAMED)})
            raise InputError(
                f"{self.path}: {count} of {chunks} chunks are missing or damaged, of shards "
                f"{', '.join(map(str, of_shards))} of {shards}; run these first"
            )

    def add(self, folder: Path) -> None:
        """Takes over what another folder, perhaps of another machine, has of the same run."""
        for name in (RUN, DECIDED):
            if read_json(folder / name) != read_json(self.path / name):
                raise InputError(f"{folder / name}: differs from {self.path / name}: another run")
        self.decided()
        names = {name: int(match["number"]) for name, match in _named(folder, CHUNK).items()}
        for name, number in names.items():
            # A copy may be cut off, theirs as ours.
            if self._read_chunk(number) is None and self._read_chunk(number, folder) is not None:
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

    def leave(self, *, keep_decision: bool = False) -> int:
        """After an error: removes a folder that keeps nothing; returns how many chunks are kept.

        Args:
            keep_decision: what this run has decided is worth keeping by itself; what an earlier
                one has always is.
        """
        kept = len(self.done())
        has_decided = (keep_decision or self.was_there) and (self.path / DECIDED).exists()
        if not kept and not has_decided and not self._running():
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
        self, number: int, folder: Path | None = None
    ) -> tuple[dict[str, Any], bytes] | None:
        """A chunk that is whole, in this folder or another; refuses one of another run."""
        path = (folder or self.path) / self._chunk_path(number).name
        try:
            first, _, body = path.read_bytes().partition(b"\n")
            header = json.loads(first)
            if header.pop("digest") != _digest_of(header, body):
                return None
        except (OSError, ValueError, TypeError, AttributeError, KeyError, RecursionError):
            return None
        if header["run"] != self.identity or header["chunk"] != number:
            raise InputError(f"{path}: is a chunk of another run; expected this run's alone")
        return header, body

    def _chunk_path(self, number: int) -> Path:
        return self.path / f"chunk-{number:07}"


def _is_private(folder: Path) -> bool:
    status = folder.stat()
    return status.st_uid == os.geteuid() and not status.st_mode & OF_OTHERS


def _digest_of(header: Mapping[str, Any], body: bytes) -> str:
    """Tells a chunk that is whole."""
    whole = json.dumps(header).encode() + b"\n" + body
    return hashlib.blake2b(whole, digest_size=16).hexdigest()


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
    """What a run has written."""
    try:
        contents = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from None
    except (ValueError, RecursionError):
        contents = None
    if not isinstance(contents, dict):
        raise InputError(f"{path}: is damaged; expected what a run has written, or --restart")
    return contents
