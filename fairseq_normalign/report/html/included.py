"""Results on the page: those that were measured for it, and those of files."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple

from fairseq_normalign.files import is_stream, read_lines, short_names
from fairseq_normalign.heads.relevance_log import GateLog, read_log
from fairseq_normalign.results.result import Result, read_result


class Included(NamedTuple):
    """A result on the page, and the file or model that it is of."""

    name: str
    result: Result


def read_included(paths: Sequence[str]) -> list[Included]:
    """What files hold: JSON of our commands, or logs of ``fairseq-train --log-relevance``."""
    included = []
    for path, name in zip(paths, short_names(paths), strict=True):
        is_log = not is_stream(path) and _is_gate_log(path)
        included.append(Included(name, GateLog(read_log(path)) if is_log else read_result(path)))
    return included


def _is_gate_log(path: str) -> bool:
    """Whether the first line is one of ``--log-relevance``."""
    first = next(islice(read_lines(path), 1), "")
    return first.startswith("{") and '"updates"' in first
