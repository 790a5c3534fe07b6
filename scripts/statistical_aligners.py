"""eflomal and fast_align in a virtual environment of their own."""

from __future__ import annotations

import hashlib
import json
import resource
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from fairseq_normalign.errors import InputError
from fairseq_normalign.files import read_lines, whole_file

HERE = Path(__file__).resolve().parent
HEURISTIC = "grow-diag-final-and"  # what the tools recommend to make one of two directions


class UnavailableError(Exception):
    """Why something could not be installed, in one line."""


@dataclass(frozen=True)
class Text:
    """The text that an aligner is trained on, both sides one sentence a line, the test set last.

    Attributes:
        sides: the files of source and target.
        tests: how many of the last lines are the test set.
    """

    sides: tuple[Path, Path]
    tests: int

    def digest(self) -> str:
        """What tells this text from another one."""
        total = hashlib.sha256(str(self.tests).encode())
        for side in self.sides:
            total.update(side.read_bytes())
        return total.hexdigest()


@dataclass(frozen=True)
class Aligner:
    """A statistical aligner of PyPI.

    Attributes:
        package: what pip installs.
        writes: names of its alignments, in the order of their files.
        command: the environment's folder, the text, files for the links → what writes them, of
            every pair or of the test set alone, source word first.
    """

    package: str
    writes: tuple[str, ...]
    command: Callable[[Path, Text, Sequence[Path]], list[object]]


def _eflomal(environment: Path, text: Text, links: Sequence[Path]) -> list[object]:
    source, target = text.sides
    program = environment / "bin/eflomal-align"
    return [program, "--overwrite", "-s", source, "-t", target, "-f", links[0], "-r", links[1]]


def _fast_align(environment: Path, text: Text, links: Sequence[Path]) -> list[object]:
    program = [environment / "bin/python", HERE / "fast_align.py"]
    return [*program, *text.sides, text.tests, *links]


ALIGNERS = {
    "eflomal": Aligner("eflomal==2.0.0", ("forward", "reverse"), _eflomal),
    "fast_align": Aligner("systran-align==3.5.0", (HEURISTIC,), _fast_align),
}


@dataclass(frozen=True)
class Run:
    """What an aligner made: files of links by their names, and the CPU seconds of all."""

    links: dict[str, Path]
    seconds: float


def install(aligner: Aligner, environment: Path) -> None:
    """Installs an aligner into the environment, which is made if it is not there."""
    stamp = environment / f"installed-{aligner.package}"
    if stamp.exists():
        return
    commands = [[environment / "bin/python", "-m", "pip", "install", aligner.package]]
    if not (environment / "bin/python").exists():
        commands.insert(0, [sys.executable, "-m", "venv", environment])
    for command in commands:
        words = [str(word) for word in command]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode:
            raise UnavailableError(_last_line(done.stderr or done.stdout))
    stamp.touch()


def align(aligner: Aligner, environment: Path, text: Text, folder: Path) -> Run:
    """The links of the test set; what an earlier run made of the same text is taken as it is."""
    folder.mkdir(parents=True, exist_ok=True)
    links = {name: folder / name for name in aligner.writes}
    remembered = folder / "run.json"
    what = {"package": aligner.package, "text": text.digest()}
    if remembered.exists():
        earlier = json.loads(remembered.read_text(encoding="utf-8"))
        if what.items() <= earlier.items():
            return Run(links, earlier["seconds"])
        remembered.unlink()
    written = [folder / f"{name}.all" for name in links]
    seconds = cpu_seconds(aligner.command(environment, text, written), folder / "log")
    for path, result in zip(written, links.values(), strict=True):
        _keep_tests(path, result, text)
    with whole_file(remembered) as file:
        json.dump({**what, "seconds": seconds}, file)
    return Run(links, seconds)


def cpu_seconds(command: Sequence[object], log: Path) -> float:
    """Runs a command, its output in a file; returns the CPU seconds of it and its children."""
    before = _children_seconds()
    with log.open("w", encoding="utf-8") as output:
        done = subprocess.run(
            [str(word) for word in command], stdout=output, stderr=subprocess.STDOUT, check=False
        )
    if done.returncode:
        last = _last_line(log.read_text(encoding="utf-8", errors="replace"))
        raise InputError(f"{log}: ended with status {done.returncode}: {last}")
    return _children_seconds() - before


def _children_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _keep_tests(path: Path, result: Path, text: Text) -> None:
    """The last lines of an alignment, which is then removed."""
    lines = list(read_lines(path))
    total = sum(1 for _ in read_lines(text.sides[0]))
    if len(lines) not in (total, text.tests):
        raise InputError(f"{path}: {len(lines)} lines; expected {total}, one for each pair")
    with whole_file(result) as file:
        file.writelines(lines[len(lines) - text.tests :])
    path.unlink()


def _last_line(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return lines[-1] if lines else "no message"
