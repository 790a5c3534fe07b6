"""What the heads of several models do, side by side (Voita et al., 2019, Fig. 8)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from fairseq_normalign.errors import InputError
from fairseq_normalign.files import DAMAGE, name_of, short_names
from fairseq_normalign.heads.head_scores import FUNCTIONS, Roles
from fairseq_normalign.names import KINDS, Head, parse_head
from fairseq_normalign.results.blocks import Block, Cell, Grid, Rows, Table
from fairseq_normalign.results.result import Result, StoredResult, read_result

SEVERAL, NONE = "several", "none"
# The setting of each function; a signature that lacks it is of heads not measured for it.
SETTINGS = {"positional": "positional", "syntactic": "margin", "rare": "rare", "last": "positional"}
OWN = ("checkpoint", "version")  # settings that may differ between models


class Model(NamedTuple):
    """The heads of one model and what they do."""

    name: str
    heads: Mapping[Head, Roles]  # roles: one of FUNCTIONS, and its label
    signature: Mapping[str, object]

    def counts(self, kind: str) -> dict[str, int | None]:
        """How many heads of a kind there are, and how many have each function, several or none."""
        counts: Counter[str] = Counter()
        for head, roles in self.heads.items():
            if head.kind == kind:
                functions = {function for function, _ in roles} or {NONE}
                counts[SEVERAL if len(functions) > 1 else functions.pop()] += 1
        shown: dict[str, int | None] = {"heads": counts.total()}
        for name in (*FUNCTIONS, SEVERAL, NONE):
            is_measured = name not in SETTINGS or SETTINGS[name] in self.signature
            shown[name] = counts[name] if is_measured else None
        return shown


@dataclass(frozen=True)
class RoleComparison(Result):
    """The functions of the heads of several models, and the roles of each head in all of them."""

    models: Sequence[Model]
    signature: Mapping[str, object]
    kinds: Sequence[str] = ("encoder",)

    kind = "roles"
    title = "Functions of heads"
    about = "What the heads that pruning leaves do; a head keeps its name in all models."

    def blocks(self) -> list[Block]:
        blocks: list[Block] = []
        for kind in self.kinds:
            blocks += [self._counts(kind), self._heads(kind)]
        return blocks

    def _counts(self, kind: str) -> Grid:
        """How many heads of each model do what."""
        counts = [model.counts(kind) for model in self.models]
        return Grid(
            f"{KINDS[kind].title}: heads by function",
            "model",
            "function",
            [model.name for model in self.models],
            list(counts[0]),
            [list(of_model.values()) for of_model in counts],
            decimals=0,
            absent="not measured",
            name=f"{kind}.functions",
        )

    def _heads(self, kind: str) -> Table:
        """A row for each head that a model has: its roles in each model, if it is there."""
        heads = {head for model in self.models for head in model.heads if head.kind == kind}
        rows: Rows = []
        for head in sorted(heads):
            row: list[Cell] = [str(head)]
            for model in self.models:
                labels = [label for _, label in model.heads.get(head, ())]
                row.append(", ".join(labels) if head in model.heads else "removed")
            rows.append(row)
        columns = ["head", *(model.name for model in self.models)]
        return Table(columns, rows, "What each head does", name=f"{kind}.roles")


def compared(paths: Sequence[str], kinds: Sequence[str]) -> RoleComparison:
    """What ``normalign heads -o`` wrote of several models, measured alike."""
    results = [read_result(path) for path in paths]
    files = short_names(paths)
    names = []
    for file, result in zip(files, results, strict=True):
        names.append(str(result.signature.get("checkpoint", file)))
    if len(set(names)) < len(names):
        names = files
    models = []
    settings: dict[str, tuple[object, str]] = {}  # with the first file that has each
    for path, name, result in zip(paths, names, results, strict=True):
        models.append(Model(name, _heads(path, result), result.signature))
        for setting, value in result.signature.items():
            first, of_path = settings.setdefault(setting, (value, path))
            if value != first and setting not in OWN:
                raise InputError(
                    f"{path}: was measured with {setting} {value}, {of_path} with {first}; "
                    "measure both with the same options"
                )
    shared = {setting: value for setting, (value, _) in settings.items() if setting not in OWN}
    return RoleComparison(models, {"checkpoints": "+".join(names), **shared}, kinds)


def _heads(path: str, result: StoredResult) -> dict[Head, Roles]:
    """The roles of each head."""
    tables = result.tables()
    if result.kind != "heads" or not {"heads", "roles"} <= tables.keys() or "layers" in tables:
        raise InputError(
            f"{name_of(path)}: not the heads of one model; pass what `normalign heads -o` wrote"
        )
    try:
        heads: dict[Head, Roles] = {parse_head(str(name)): [] for name, *_ in tables["heads"].rows}
        for head, function, label in tables["roles"].rows:
            heads[parse_head(str(head))].append((str(function), str(label)))
    except DAMAGE as error:
        raise InputError(f"{name_of(path)}: damaged ({type(error).__name__}: {error})") from None
    return heads
