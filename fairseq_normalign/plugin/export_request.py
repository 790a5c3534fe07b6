"""What a caller of the model wants to know of its attentions, beside its output."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from operator import attrgetter
from typing import Any, NamedTuple

from torch import nn

from fairseq_normalign.attention.quantities import QUANTITIES, Quantity
from fairseq_normalign.attention.recorder import record
from fairseq_normalign.errors import InputError
from fairseq_normalign.host.attention_modules import attentions
from fairseq_normalign.names import KINDS

Layers = int | Collection[int] | None
# Kinds of attention; or their quantities; or the layers of these.
Export = str | Collection[str] | Mapping[str, str | Collection[str] | Mapping[str, Layers]]
# What a kind alone asks for.
OF_KIND = {
    "attentions": QUANTITIES["weights"],
    "norms": QUANTITIES["norms"]._replace(compute=attrgetter("norms")),
}


class Wanted(NamedTuple):
    """One quantity of one kind of attention."""

    name: str  # that it gets in the result
    kind: str
    layers: list[int]  # from 0
    quantity: Quantity


@contextmanager
def exported(model: nn.Module, export: Export) -> Iterator[dict[str, dict[str, list]]]:
    """What ``export`` names, of a forward pass in this context, with gradients.

    Yields:
        name → kind → an entry for each layer, None where nothing was asked for or recorded. It is
        filled when the context ends.
    """
    counts = Counter(kind for kind, _ in attentions(model))  # layers
    if export is KINDS:  # the table of all kinds, for their names
        export = list(KINDS)
    wanted: list[Wanted] = []
    for kind in _listed(export):
        if kind not in counts:
            raise InputError(
                f"export: {type(model).__name__} has no {kind!r} attention; it has: "
                f"{', '.join(counts)}"
            )
        if isinstance(export, Mapping):
            wanted += _quantities(kind, export[kind], counts[kind])
        else:
            every = list(range(counts[kind]))
            wanted += [Wanted(name, kind, every, own) for name, own in OF_KIND.items()]
    results: dict[str, dict[str, list]] = {}
    with ExitStack() as stack:
        recordings = {}
        for kind in {one.kind for one in wanted}:
            of_kind = [one for one in wanted if one.kind == kind]
            layers = set().union(*(one.layers for one in of_kind))  # no more than is wanted
            values = any(one.quantity.needs_values for one in of_kind)
            recorder = record(model, (kind,), layers=layers, values=values, detach=False)
            recordings[kind] = stack.enter_context(recorder)
        yield results
    for one in wanted:
        by_layer = [None] * counts[one.kind]
        for layer in one.layers:
            recorded = recordings[one.kind].get((one.kind, layer))
            if recorded is not None:  # layerdrop may have left it out
                by_layer[layer] = one.quantity.compute(recorded)
        results.setdefault(one.name, {})[one.kind] = by_layer


def _quantities(
    kind: str, asked: str | Collection[str] | Mapping[str, Layers], count: int
) -> Iterator[Wanted]:
    """Layers are indices as Python's lists have them: -1 is the last of ``count``."""
    for name in _listed(asked):
        if name not in QUANTITIES:
            raise InputError(
                f"export: unknown quantity {name!r} of {kind} attention; known: "
                f"{', '.join(QUANTITIES)}"
            )
        layers = asked[name] if isinstance(asked, Mapping) else None
        numbers = range(count) if layers is None else _listed(layers)
        for layer in numbers:
            if not -count <= layer < count:
                raise InputError(
                    f"export: no layer {layer} of {kind} attention; its layers are 0 to {count - 1}"
                )
        yield Wanted(name, kind, [layer % count for layer in numbers], QUANTITIES[name])


def _listed(names: Any) -> Collection[Any]:
    """One name or number as a list of one."""
    return [names] if isinstance(names, str | int) else names
