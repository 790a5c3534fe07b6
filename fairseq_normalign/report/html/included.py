"""JSON that other commands wrote, told apart by what it holds, as sections of the page."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fairseq_normalign.errors import InputError
from fairseq_normalign.files import is_stream, name_of, read_lines, short_names
from fairseq_normalign.heads.relevance_log import read_log
from fairseq_normalign.report.html import (
    head_blocks,
    pruning_blocks,
)
from fairseq_normalign.results.blocks import Block, as_json, facts_of
from fairseq_normalign.results.result import (
    Result,
    StoredResult,
    signature_text,
    stored_result,
)

MOST_CHARACTERS = 100_000_000  # of one file

# What a damaged file makes of the code that reads it.
DAMAGE = (
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    StopIteration,
    TypeError,
    ValueError,
)


class Kind(NamedTuple):
    """One kind of JSON: how it is told apart, which section it belongs to, how it is shown."""

    command: str  # that writes it
    section: str
    fits: Callable[[Any], bool]
    blocks: Callable[[Any], list[Block]]


class Included(NamedTuple):
    """A result on the page, and the file or model that it is of."""

    name: str
    result: Result


# What a reader who got the page alone may not know.
ABOUT = {
    "heads": "Every map shows one score of all heads: a row for each layer, a column for each "
    "head.",
    "gates": "Heads were pruned while the model was trained: a head whose gate is closed is gone.",
    "pruning": "The same model with fewer heads.",
}

# The sections of the page, in their order.
SECTIONS = {
    "alignments": "Alignment error rates",
    "scores": "Alignments against gold",
    "heads": "Attention heads",
    "gates": "Gates during training",
    "pruning": "Heads left and quality",
    "mixing": "Mixing of context",
    "statistics": "Attention weights and norms",
    "evolution": "States of layers",
    "probing": "Parts of speech in the states of layers",
    "links": "Signatures of alignments",
}


def _has(*names: str) -> Callable[[Any], bool]:
    return lambda contents: isinstance(contents, dict) and set(names) <= contents.keys()


def _first_has(*names: str) -> Callable[[Any], bool]:
    """Whether it is a list of dicts with these keys."""
    return lambda contents: (
        isinstance(contents, list) and bool(contents) and _has(*names)(contents[0])
    )


def _model_has(*names: str) -> Callable[[Any], bool]:
    """Whether it has models, the first one with these keys."""

    def fits(contents: Any) -> bool:
        models = contents.get("models") if isinstance(contents, dict) else None
        values = list(models.values()) if isinstance(models, dict) else models
        return isinstance(values, list) and bool(values) and _has(*names)(values[0])

    return fits


def _heads_of_one(contents: Any) -> bool:
    return _has("signature", "heads", "correlations")(contents) and isinstance(
        contents["heads"], list
    )


KINDS = (
    Kind("heads -o", "heads", _heads_of_one, head_blocks.blocks_of),
    Kind("heads -o", "heads", _model_has("heads", "correlations"), head_blocks.blocks_of),
    Kind(
        "evaluate -o",
        "pruning",
        _first_has("model", "heads", "parameters"),
        pruning_blocks.comparison_blocks,
    ),
    Kind(
        "align -o",
        "links",
        lambda contents: _has("signature", "size")(contents) and len(contents) == 2,
        lambda contents: [facts_of(contents["signature"])],
    ),
)
GATE_LOG = Kind(
    "--log-relevance",
    "gates",
    _has("updates", "sentences", "rules", "heads"),
    pruning_blocks.gate_blocks,
)


def read_included(paths: Sequence[str]) -> list[Included]:
    """What files hold."""
    included: list[Included] = []
    for path, name in zip(paths, short_names(paths), strict=True):
        text = _text(path)
        if _is_gate_log(text):
            _refuse_stream(path)
            entries = read_log(path)
            first = entries[0]
            signature = {"sentences": first.sentences, "rules": first.rules}
            included.append(Included(name, _result(GATE_LOG, entries, path, signature)))
        else:
            included.append(shown(_parsed(text, path), path)._replace(name=name))
    return included


def shown(contents: Any, name: str) -> Included:
    """The result in parsed JSON."""
    if isinstance(contents, dict) and {"kind", "version", "blocks"} <= contents.keys():
        return Included(name, stored_result(contents, name_of(name)))
    kind = _kind_of(contents, name)
    return Included(name, _result(kind, contents, name, _signature(contents)))


def _result(kind: Kind, contents: Any, name: str, signature: Mapping[str, object]) -> Result:
    blocks = _shown(kind, contents, name)
    section, about = kind.section, ABOUT.get(kind.section, "")
    return StoredResult(section, SECTIONS[section], blocks, about=about, signature=signature)


def _text(path: str) -> str:
    if Path(path).is_dir():
        raise InputError(f"{path}: is a directory; expected JSON")
    lines, characters = [], 0
    for line in read_lines(path):
        lines.append(line)
        characters += len(line)
        if characters > MOST_CHARACTERS:
            raise InputError(
                f"{name_of(path)}: more than {MOST_CHARACTERS:,} characters; expected JSON that "
                "normalign wrote"
            )
    return "".join(lines)


def _is_gate_log(text: str) -> bool:
    """Whether the first line is one of ``--log-relevance``."""
    first, _, _ = text.lstrip().partition("\n")
    try:
        contents = json.loads(first)
    except (ValueError, RecursionError):
        return False
    return GATE_LOG.fits(contents) and isinstance(contents["heads"], dict)


def _refuse_stream(path: str) -> None:
    """Refuses a log from a pipe: it was read to know what it is, and is to be read again."""
    if is_stream(path):
        raise InputError(
            f"{name_of(path)}: can be read only once, and a log of gates is read twice; expected a "
            "file"
        )


def _parsed(text: str, path: str) -> Any:
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{name_of(path)}: no JSON ({error}); {_expected()}") from None


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no number of JSON")


def _kind_of(contents: Any, path: str) -> Kind:
    for kind in KINDS:
        try:
            if kind.fits(contents):
                return kind
        except DAMAGE:
            continue
    raise InputError(f"{name_of(path)}: JSON of no kind that is known; {_expected()}")


def _expected() -> str:
    commands = dict.fromkeys(kind.command for kind in KINDS)
    return f"expected what normalign {', '.join(commands)} or fairseq-train --log-relevance writes"


def _shown(kind: Kind, contents: Any, path: str) -> list[Block]:
    """The blocks of a file, if JSON can hold them: no number is infinite, no text a number."""
    try:
        blocks = kind.blocks(contents)
        json.dumps(as_json(blocks), allow_nan=False)
    except DAMAGE as error:
        raise InputError(
            f"{name_of(path)}: looks like what {kind.command} writes, but is damaged "
            f"({type(error).__name__}: {error})"
        ) from None
    return blocks


def _signature(contents: Any) -> Mapping[str, object]:
    """What a file says about how it was made."""
    if isinstance(contents, dict) and isinstance(contents.get("signature"), dict):
        return contents["signature"]
    parts = contents if isinstance(contents, list) else [contents]
    if isinstance(contents, dict) and isinstance(contents.get("models"), dict):
        parts = list(contents["models"].values())
    texts: dict[str, None] = {}
    for part in parts:
        texts.update(dict.fromkeys(_signatures(part)))
    return {"how": "; ".join(texts)} if texts else {}


def _signatures(part: Any) -> list[str]:
    """The signatures of one result: its own, or one for each score; or how links were taken."""
    if not isinstance(part, dict):
        return []
    own = part.get("signature")
    if isinstance(own, dict):
        return [signature_text(own)]
    if isinstance(own, str):
        return [own]
    if isinstance(part.get("signatures"), dict):
        named = part["signatures"].items()
        return [text if text.startswith(f"{name}|") else f"{name}|{text}" for name, text in named]
    return [f"extract:{part['extract']}"] if isinstance(part.get("extract"), str) else []
