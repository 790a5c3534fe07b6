"""Evidences by name, and the ways to combine them. Imports no PyTorch: ``--help`` reads it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from fairseq_normalign.alignment.combine import MEANS
from fairseq_normalign.attention.methods import A_FILE, METHODS, method_of
from fairseq_normalign.attention.soft import Evidence
from fairseq_normalign.errors import InputError

COMBINATIONS = (*MEANS, "learned")
LINKS = re.compile(r"(?P<reverse>reverse:)?links:(?P<path>.+)")
OF_FILES = "|".join(name for name, method in METHODS.items() if method.default == A_FILE)
PARTS = re.compile(
    r"(?P<reverse>reverse:)?"
    rf"(?P<method>({OF_FILES}):.+|[a-z0-9-]+(:[0-9.e+-]+?)?)"
    r"(\.(?P<layer>[1-9][0-9]{0,3})(\.(?P<head>[1-9][0-9]{0,3}))?)?"
    r"\.(?P<step>input|output)"
    r"(\*(?P<weight>[0-9]{1,9}(\.[0-9]{1,9})?))?"
)
FORM = "[reverse:]METHOD[.LAYER[.HEAD]].input|output[*WEIGHT] or [reverse:]links:FILE"


class LinksFile(NamedTuple):
    """Links of another aligner as an evidence; ``reverse`` if they have the target word first."""

    path: str
    reverse: bool = False


class Weighted(NamedTuple):
    """An evidence of the model, or of the reverse model, and its weight in a mean."""

    evidence: Evidence
    reverse: bool = False
    weight: float = 1.0


def parse_evidences(texts: Sequence[str]) -> tuple[list[Weighted], list[LinksFile]]:
    """Evidences of models, and files of links."""
    weighted, files = [], []
    for text in texts:
        parts = LINKS.fullmatch(text)
        if parts is None:
            weighted.append(parse_evidence(text))
        else:
            files.append(LinksFile(parts["path"], parts["reverse"] is not None))
    return weighted, files


def parse_evidence(text: str) -> Weighted:
    """``norms.1.input`` or ``reverse:norms.3.2.output*0.5`` → an evidence; numbers count from 1."""
    parts = PARTS.fullmatch(text)
    if parts is None or parts["method"].partition(":")[0] not in METHODS:
        raise InputError(
            f"bad evidence {text!r}; expected {FORM} with METHOD one of: {', '.join(METHODS)}"
        )
    method = method_of(parts["method"])
    if method.layers != (parts["layer"] is not None):
        wanted = "a layer" if method.layers else "no layer: the method is of the whole model"
        raise InputError(f"bad evidence {text!r}; expected {wanted}")
    if parts["step"] not in method.steps:
        raise InputError(f"bad evidence {text!r}; expected step {' or '.join(method.steps)}")
    evidence = Evidence(
        parts["method"], _from_one(parts["layer"]), parts["step"], _from_one(parts["head"])
    )
    return Weighted(evidence, parts["reverse"] is not None, float(parts["weight"] or 1))


def _from_one(number: str | None) -> int | None:
    return None if number is None else int(number) - 1
