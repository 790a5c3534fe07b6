"""The folder beside an output that keeps what is finished of it: ``FILE`` has ``FILE.run``.

=========================  ======================================================================
``run.json``               the command: options, versions, and digests of models and dictionaries
``decided.json``           what was decided on the first pairs, by whoever was first
``chunk-0000012``          one line of JSON, then the lines of the output that the chunk makes
``shard-1-of-4.json``      this shard has come to the end of a corpus of so many chunks
=========================  ======================================================================

Each file appears whole or not at all, and a chunk knows which run it belongs to and what its
contents are. So a run may be killed at any moment, and several may work in one folder. A chunk that
is damaged, as after a power failure, counts as not done.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from fairseq_normalign.errors import InputError
from fairseq_normalign.files import is_locked, locked, new_file, whole_file
from fairseq_normalign.runs.chunks import Chunk, Result, Shard, digest

RUN, DECIDED = "run.json", "decided.json"
CHUNK = re.compile("chunk-(?P<number>[0-9]{7,15})")
SHARD = re.compile("shard-(?P<number>[0-9]{1,9})-of-(?P<of>[0-9]{1,9}).json")
LOCK = re.compile(r"\.(?P<shard>shard-[0-9]+-of-[0-9]+)\.normalign-lock")


class RunFolder:
    """What is kept of a run. One for each process; many may share the folder.

    Args:
        output: the file that comes out in the end.
    """

    def __init__(self, output: str | Path):
        self.output = Path(os.path.realpath(output))
        self.path = Path(f"{self.output}.run")
        self.identity = ""  # of the run, with what was decided; each chunk has it

    def begin(self, command: Mapping[str, Any], *, restart: bool = False) -> None:
        """Makes the folder, or goes on with one that the same command has made."""
        self._make()
        self._refuse_other_folder()
        if restart:
            self.refuse_running()
            self.remove()
            self._make()
        known = self._keep_first(RUN, command)
        for name in sorted({*known, *command}):
            if known.get(name) != command.get(name):
                raise InputError(
                    f"{self.output}: was begun {_said(name, known.get(name))}, and this run is "
                    f"{_said(name, command.get(name))}; expected the same command, or --restart"
                )

    def _make(self) -> None:
        try:
            self.path.mkdir(exist_ok=True)
        except OSError as error:
            raise InputError(f"{self.path}: cannot be made: {error.strerror or error}") from None

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
        with locked(self.path / _name(shard)):
            yield

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
            "body": hashlib.blake2b(body, digest_size=16).hexdigest(),
            "notes": result.notes,
        }
        with whole_file(self._chunk_path(chunk.number), binary=True) as file:
            file.write(json.dumps(header).encode() + b"\n" + body)

    def finish(self, shard: Shard, chunks: int, pairs: int) -> None:
        """Notes that a shard has come to the end of the corpus."""
        end = {"run": self.identity, "chunks": chunks, "pairs": pairs}
        with whole_file(self.path / f"{_name(shard)}.json") as file:
            json.dump(end, file)

    def body(self, chunk: int) -> str:
        """The part of the output that a chunk makes."""
        known = self._read_chunk(chunk)
        if known is None:
            raise InputError(f"{self._chunk_path(chunk)}: is missing or damaged; run it again")
        return known[1].decode("utf-8")

    def chunks(self) -> int:
        """How many chunks the corpus has; refuses a run that has not come to its end."""
        decision = self.decided()
        shards = _named(self.path, SHARD)
        ends = {name: read_json(self.path / name) for name in shards}
        if decision is None or not ends:
            raise InputError(f"{self.path}: no shard has come to its end; run the shards first")
        (first, of_first), *others = ends.items()
        for name, end in ends.items():
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
        missing = [number for number in range(chunks) if not self._chunk_path(number).exists()]
        if missing:
            of_shards = sorted({number % shards for number in missing})
            raise InputError(
                f"{self.path}: {len(missing)} of {chunks} chunks are missing, of shards "
                f"{', '.join(map(str, of_shards))} of {shards}; run these first"
            )

    def add(self, folder: Path) -> None:
        """Takes over what another folder, perhaps of another machine, has of the same run."""
        for name in (RUN, DECIDED):
            if read_json(folder / name) != read_json(self.path / name):
                raise InputError(f"{folder / name}: differs from {self.path / name}: another run")
        for name in (*_named(folder, CHUNK), *_named(folder, SHARD)):
            if not (self.path / name).exists():
                with whole_file(self.path / name, binary=True) as file:
                    file.write((folder / name).read_bytes())

    def remove(self) -> None:
        """Removes the folder, all at once; others may do so at the same time."""
        removed = self.path.with_name(f".{self.path.name}.removed")
        shutil.rmtree(removed, ignore_errors=True)  # what a run that was killed here has left
        with contextlib.suppress(FileNotFoundError):
            self.path.rename(removed)
            shutil.rmtree(removed)

    def leave(self) -> int:
        """After an error: removes a folder that keeps nothing; returns how many chunks are kept."""
        kept = len(self.done())
        if not kept and not self._running():
            self.remove()
        return kept

    def refuse_running(self) -> None:
        """Refuses to go on while others work in the folder."""
        for shard in self._running():
            raise InputError(f"{self.path}: {shard} is still running; expected it to end before")

    def _running(self) -> list[str]:
        """The shards whose runs are alive."""
        shards = [lock["shard"] for lock in _named(self.path, LOCK).values()]
        return [shard for shard in shards if is_locked(self.path / shard)]

    def _read_chunk(self, number: int) -> tuple[dict[str, Any], bytes] | None:
        """A chunk that is whole; refuses one of another run."""
        path = self._chunk_path(number)
        try:
            first, _, body = path.read_bytes().partition(b"\n")
            header = json.loads(first)
            whole = header["body"] == hashlib.blake2b(body, digest_size=16).hexdigest()
            of_run, number_found = header["run"], header["chunk"]
        except (OSError, ValueError, TypeError, KeyError, RecursionError):
            return None
        if not whole:
            return None
        if of_run != self.identity or number_found != number:
            raise InputError(f"{path}: is a chunk of another run; expected this run's alone")
        return header, body

    def _chunk_path(self, number: int) -> Path:
        return self.path / f"chunk-{number:07}"


def _named(folder: Path, form: re.Pattern[str]) -> dict[str, re.Match[str]]:
    """The files of a folder whose names have a form, in the order of their names."""
    paths = sorted(folder.iterdir()) if folder.exists() else []
    matches = {path.name: form.fullmatch(path.name) for path in paths}
    return {name: match for name, match in matches.items() if match}


def _name(shard: Shard) -> str:
    return f"shard-{shard.number}-of-{shard.of}"


def _said(name: str, value: Any) -> str:
    """An option as messages tell it."""
    if value in (None, False, []):
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
