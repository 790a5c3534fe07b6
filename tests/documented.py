"""The examples of README and docs: blocks of code, and the command lines in them."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import NamedTuple

from tests.conftest import ROOT

PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "data_prep/README.md",
    *sorted((ROOT / "docs").glob("*.md")),
]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# A message of a command, `normalign aer: …`, is no command line.
COMMAND = re.compile(r"^(?:\$ )?((?:normalign [\w-]+|fairseq-\w+)(?: .*)?)$")
SHELL = ("", "sh", "bash", "console")
VARIABLE = re.compile(r"\$\w+")  # which a shell would know: a number, in our pages
ENDS = {">", ">>", "|", "<", "&&", ";"}  # what follows is not the command's


class Block(NamedTuple):
    """A fenced block of code."""

    page: Path
    line: int  # its first line, from 1
    language: str
    text: str

    @property
    def where(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


class Line(NamedTuple):
    """A command line, without what the shell does with it."""

    where: str
    words: list[str]


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    of_page = []
    for match in BLOCK.finditer(text):
        line = text[: match.start(2)].count("\n") + 1
        of_page.append(Block(page, line, match[1], match[2]))
    return of_page


def python_blocks() -> dict[Path, list[Block]]:
    """Blocks of Python by page, pages without any left out."""
    by_page = {}
    for page in PAGES:
        own = [block for block in blocks(page) if block.language == "python"]
        if own:
            by_page[page] = own
    return by_page


def command_lines() -> list[Line]:
    """Every ``normalign`` and ``fairseq-`` line of all pages, also behind a prompt."""
    lines = []
    for page in PAGES:
        for block in blocks(page):
            if block.language in SHELL:
                lines += _lines_of(block)
    return lines


def _lines_of(block: Block) -> list[Line]:
    lines = []
    whole = block.text.replace("\\\n", " ")  # continued lines
    for text in whole.splitlines():
        match = COMMAND.match(text.strip())
        if match:
            lines.append(Line(block.where, _words(match[1])))
    return lines


def _words(command: str) -> list[str]:
    """The words of a command as the shell would pass them on; … stands for more options."""
    words = []
    for word in shlex.split(command, comments=True):
        if word in ENDS or word.startswith((">", "2>", "<")):
            break
        if word != "…":
            words.append(VARIABLE.sub("1", word))
    return words
