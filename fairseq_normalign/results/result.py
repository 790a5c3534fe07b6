"""A result: what was measured, how, and the blocks that show it.

A measure returns a class of its own with numbers to compute with; what people see of it, in a
terminal, a file, a notebook, a figure or on the page, is drawn from its blocks.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairseq_normalign.errors import InputError
from fairseq_normalign.files import DAMAGE, name_of, read_lines
from fairseq_normalign.results.blocks import Block, Table, as_json, from_json, walk
from fairseq_normalign.results.text import as_text, paragraph, tables_of
from fairseq_normalign.strict_json import parse_json

if TYPE_CHECKING:
    from matplotlib.figure import Figure

VERSION = 1  # of the JSON
EXPECTED = "pass JSON that a normalign command of this version wrote with -o"


class Result(ABC):
    """What a measure found.

    Attributes:
        kind: what was measured, a word; the page has a section for each kind.
        title: the same for people.
        about: what a reader who got the page alone may not know.
        signature: every choice that moves a number.
    """

    kind: str
    title: str
    about: str = ""
    signature: Mapping[str, object]

    @abstractmethod
    def blocks(self) -> Sequence[Block]:
        """What is shown, in its order."""

    def comparable(self) -> Sequence[Block]:
        """Blocks whose numbers have a mean over several models; of one measure, all are alike."""
        return self.blocks()

    @property
    def findings(self) -> Sequence[str]:
        """The most important things found, a sentence each, for the top of the page."""
        return ()

    def text(self) -> str:
        """The blocks for a terminal."""
        return as_text(self.blocks())

    def json(self) -> dict[str, Any]:
        """All of it as JSON takes it."""
        return {
            "kind": self.kind,
            "version": VERSION,
            "title": self.title,
            "about": self.about,
            "signature": dict(self.signature),
            "findings": list(self.findings),
            "blocks": as_json(list(self.blocks())),
        }

    def tables(self) -> dict[str, Table]:
        """All tables and maps as tables, by name or title."""
        return tables_of(self.blocks())

    def to_pandas(self) -> dict[str, Any]:
        """A DataFrame of each table; needs pandas."""
        import pandas

        frames = {}
        for name, table in self.tables().items():
            frames[name] = pandas.DataFrame(list(table.rows), columns=list(table.columns))
        return frames

    def figure(self) -> Figure:
        """Maps, curves and clouds as one picture."""
        from fairseq_normalign.results.figure import drawn

        return drawn(self.blocks(), self.title)

    def _repr_html_(self) -> str:
        from fairseq_normalign.results.notebook import as_html

        return as_html(self.blocks(), signature_text(self.signature))


@dataclass(frozen=True)
class StoredResult(Result):
    """A result that is nothing but its blocks: of JSON, or the mean of several models."""

    kind: str
    title: str
    shown: Sequence[Block]
    about: str = ""
    signature: Mapping[str, object] = field(default_factory=dict)
    findings: Sequence[str] = ()

    def blocks(self) -> Sequence[Block]:
        return self.shown


def signature_text(signature: Mapping[str, object]) -> str:
    """A signature in one line."""
    return "|".join(f"{name}:{value}" for name, value in signature.items())


def write_result(result: Result, file: Any) -> None:
    """Writes JSON to an open file."""
    json.dump(result.json(), file, indent=1, ensure_ascii=False, allow_nan=False)
    file.write("\n")


def read_result(path: str | Path) -> StoredResult:
    """The result that a file of JSON holds; refuses all others in one line."""
    name = name_of(path)
    text = "".join(read_lines(path))
    try:
        contents = parse_json(text)
    except ValueError as error:
        raise InputError(f"{name}: not JSON ({error}); {EXPECTED}") from None
    return stored_result(contents, name)


def stored_result(contents: Any, name: str) -> StoredResult:
    """The result in parsed JSON.

    Args:
        name: what messages call it.
    """
    if not isinstance(contents, dict) or "kind" not in contents or "blocks" not in contents:
        raise InputError(f"{name}: not a result, or one of normalign 0.2; {EXPECTED}")
    if contents.get("version") != VERSION:
        found = str(contents.get("version"))[:40]
        raise InputError(f"{name}: JSON of version {found}, not {VERSION}; {EXPECTED}")
    try:
        stored = StoredResult(
            str(contents["kind"]),
            str(contents["title"]),
            [from_json(block) for block in contents["blocks"]],
            about=str(contents["about"]),
            signature=dict(contents["signature"]),
            findings=[str(finding) for finding in contents["findings"]],
        )
        json.dumps(stored.json(), allow_nan=False)
        # What cannot be written is damaged.
        "".join(paragraph(block) for block in walk(stored.blocks(), all_options=True))
        return stored
    except DAMAGE as error:
        raise InputError(f"{name}: damaged ({type(error).__name__}: {error})") from None
