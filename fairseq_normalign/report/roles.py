"""What the heads of several models do, side by side: tables, and a picture of stacked columns.

As in Voita et al. (2019), Fig. 8: the functions of the heads that pruning leaves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from fairseq_normalign.errors import InputError
from fairseq_normalign.files import read_lines, short_names
from fairseq_normalign.heads.criteria import FUNCTIONS
from fairseq_normalign.names import KINDS, Head, parse_head
from fairseq_normalign.results.columns import columns
from fairseq_normalign.strict_json import parse_json

EXPECTED = "expected what `normalign heads -o` writes"
SEVERAL, NONE = "several", "none"
CATEGORIES = (*FUNCTIONS, SEVERAL, NONE)
NOTHING, REMOVED = "–", "removed"
# The setting of each function; a signature that lacks it is of heads not measured for it.
SETTINGS = {"positional": "positional", "syntactic": "margin", "rare": "rare", "last": "positional"}
OWN = ("checkpoint", "version")  # settings that may differ between models


class Does(NamedTuple):
    """What a head does."""

    functions: list[str]  # of heads.criteria.FUNCTIONS, each once
    roles: list[str]  # as tables show them; a head may have several of one function

    @property
    def category(self) -> str:
        """Its function: every head is counted once, one of several functions as such."""
        if not self.functions:
            return NONE
        return self.functions[0] if len(self.functions) == 1 else SEVERAL


class Model(NamedTuple):
    """The heads of one model and what they do."""

    name: str
    heads: dict[Head, Does]
    measured: tuple[str, ...] = FUNCTIONS  # what heads were examined for

    def of_kind(self, kind: str) -> dict[Head, Does]:
        return {head: does for head, does in self.heads.items() if head.kind == kind}

    def counts(self, kind: str) -> Counter:
        """How many heads of a kind are in each category."""
        return Counter(does.category for does in self.of_kind(kind).values())

    def role_counts(self, kind: str) -> Counter:
        """How many roles the heads of each category have together."""
        numbers: Counter = Counter()
        for does in self.of_kind(kind).values():
            numbers[does.category] += len(does.roles)
        return numbers


def read_models(paths: Sequence[str]) -> list[Model]:
    """What ``normalign heads -o`` wrote of several models, measured alike."""
    contents = [_read(path) for path in paths]
    _check_measured_alike(paths, contents)
    names = [of_model["signature"]["checkpoint"] for of_model in contents]
    if len(set(names)) < len(names):
        names = short_names(paths)
    models = []
    for path, name, of_model in zip(paths, names, contents, strict=True):
        heads = _heads(path, of_model)
        measured = [function for function in FUNCTIONS if _measured(of_model, function)]
        models.append(Model(name, heads, tuple(measured)))
    return models


def _read(path: str) -> dict[str, Any]:
    """The JSON of one model."""
    text = "".join(read_lines(path))
    try:
        contents = parse_json(text)
    except ValueError as error:
        raise InputError(f"{path}: no JSON ({error}); {EXPECTED}") from None
    if not isinstance(contents, dict) or not {"signature", "heads"} <= contents.keys():
        raise InputError(f"{path}: has no heads and signature; {EXPECTED}")
    signature, heads = contents["signature"], contents["heads"]
    if not isinstance(heads, list) or not all(isinstance(entry, dict) for entry in heads):
        raise InputError(f"{path}: its heads are no list of heads; {EXPECTED}")
    if not all("functions" in entry for entry in heads):
        raise InputError(f"{path}: does not say what heads are for; {EXPECTED} in this version")
    if not isinstance(signature, dict) or not isinstance(signature.get("checkpoint"), str):
        raise InputError(f"{path}: its signature names no checkpoint; {EXPECTED}")
    return contents


def _heads(path: str, contents: Mapping[str, Any]) -> dict[Head, Does]:
    """What each head does."""
    heads: dict[Head, Does] = {}
    for number, entry in enumerate(contents["heads"], 1):
        functions, roles = entry["functions"], entry.get("roles")
        try:
            head = parse_head(entry.get("head"))
        except (InputError, TypeError):
            head = None
        are_known = _are_texts(functions) and set(functions) <= set(FUNCTIONS)
        if head is None or head in heads or not are_known or not _are_texts(roles):
            raise InputError(
                f"{path}: entry {number} of its heads is no head with functions and roles, or one "
                f"that comes twice; {EXPECTED}"
            )
        heads[head] = Does(functions, roles)
    return heads


def _are_texts(values: Any) -> bool:
    return isinstance(values, list) and all(isinstance(value, str) for value in values)


def _measured(contents: Mapping[str, Any], function: str) -> bool:
    """Whether heads of a model were examined for a function."""
    return SETTINGS[function] in contents["signature"]


def _check_measured_alike(paths: Sequence[str], contents: Sequence[Mapping[str, Any]]) -> None:
    """Refuses roles that were measured in different ways.

    A model whose encoder has no heads left was examined for nothing that only those can do.
    """
    with_encoder = []
    for path, of_model in zip(paths, contents, strict=True):
        if any(head.kind == "encoder" for head in _heads(path, of_model)):
            with_encoder.append((path, of_model["signature"]))
    for path, signature in with_encoder:
        first_path, first = with_encoder[0]
        shared = [name for name in first if name in signature and name not in OWN]
        for name in dict.fromkeys([*shared, *SETTINGS.values()]):
            if first.get(name) != signature.get(name):
                raise InputError(
                    f"{path}: was measured with {name} {signature.get(name, NONE)}, {first_path} "
                    f"with {first.get(name, NONE)}; expected models that were measured alike"
                )


def as_text(models: Sequence[Model], kind: str) -> str:
    """How many heads do what in each model, and what each head does in all of them."""
    title = f"{KINDS[kind].title}: heads by function"
    counts, heads = _counts_table(models, kind), _heads_table(models, kind)
    return "\n".join([title, *counts, "", "what each head does", *heads])


def _counts_table(models: Sequence[Model], kind: str) -> list[str]:
    rows = [["model", "heads", *CATEGORIES]]
    for model in models:
        heads, roles = model.counts(kind), model.role_counts(kind)
        cells = []
        for name in CATEGORIES:
            is_known = name in (*model.measured, SEVERAL, NONE)
            cells.append(_counted(heads[name], roles[name]) if is_known else NOTHING)
        rows.append([model.name, str(heads.total()), *cells])
    return columns(rows)


def _counted(heads: int, roles: int) -> str:
    """``2``, or ``2 (5 roles)`` of heads that have more roles than one each."""
    return f"{heads} ({roles} roles)" if roles > heads else str(heads)


def _heads_table(models: Sequence[Model], kind: str) -> list[str]:
    """A row for each head that a model has: its roles in each model, if it is there."""
    heads = sorted(set().union(*(model.of_kind(kind) for model in models)))
    rows = [["head", *(model.name for model in models)]]
    for head in heads:
        cells = [_roles(model.heads.get(head)) for model in models]
        rows.append([str(head), *cells])
    return columns(rows, left=range(len(models) + 1))


def _roles(does: Does | None) -> str:
    if does is None:
        return REMOVED
    return ", ".join(does.roles) or NOTHING
