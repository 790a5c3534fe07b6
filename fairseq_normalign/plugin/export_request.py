"""What a caller of the model wants to know of its attentions, beside its output."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from itertools import chain
from operator import attrgetter
from typing import Any, NamedTuple

from torch import nn

from fairseq_normalign.attention.quantities import QUANTITIES
from fairseq_normalign.attention.recorder import Recording, record
from fairseq_normalign.errors import InputError
from fairseq_normalign.host.attention_modules import attentions
from fairseq_normalign.names import KINDS

Layers = int | Collection[int] | None
# Kinds of attention; or their quantities; or the layers of these.
Export = str | Collection[str] | Mapping[str, str | Collection[str] | Mapping[str, Layers]]


class Wanted(NamedTuple):
    """One quantity of one kind of attention."""

    name: str  # that it gets in the result
    kind: str
    layers: list[int]  # from 0
    compute: Callable[..., Any]
    values: bool  # whether it is computed from values, too


class Request:
    """What ``export`` names, for :meth:`NormalignTransformer.forward`."""

    def __init__(self, model: nn.Module, export: Export):
        self.counts = dict.fromkeys(KINDS, 0)  # of layers
        for kind, _ in attentions(model):
            self.counts[kind] += 1
        self.wanted: list[Wanted] = []
        if export is KINDS:  # the table of all kinds, for their names
            export = list(KINDS)
        for kind in _listed(export):
            if not self.counts.get(kind):
                there = [name for name, count in self.counts.items() if count]
                raise InputError(
                    f"export: {type(model).__name__} has no {kind!r} attention; it has: "
                    f"{', '.join(there)}"
                )
            if isinstance(export, Mapping):
                self.wanted += self._quantities(kind, export[kind])
            else:
                layers = list(range(self.counts[kind]))
                weights, norms = attrgetter("weights"), attrgetter("norms")
                self.wanted.append(Wanted("attentions", kind, layers, weights, values=False))
                self.wanted.append(Wanted("norms", kind, layers, norms, values=True))

    def _quantities(
        self, kind: str, quantities: str | Collection[str] | Mapping[str, Layers]
    ) -> Iterator[Wanted]:
        for name in _listed(quantities):
            if name not in QUANTITIES:
                raise InputError(
                    f"export: unknown quantity {name!r} of {kind} attention; expected any of: "
                    f"{', '.join(QUANTITIES)}"
                )
            chosen = quantities[name] if isinstance(quantities, Mapping) else None
            layers = self._layers(kind, chosen)
            quantity = QUANTITIES[name]
            yield Wanted(name, kind, layers, quantity.compute, quantity.needs_values)

    def _layers(self, kind: str, layers: Layers) -> list[int]:
        """Indices as Python's lists have them: -1 is the last."""
        count = self.counts[kind]
        if layers is None:
            return list(range(count))
        for layer in _listed(layers):
            if not -count <= layer < count:
                raise InputError(
                    f"export: there is no layer {layer} of {kind} attention; expected 0 to "
                    f"{count - 1}"
                )
        return [layer % count for layer in _listed(layers)]

    @contextmanager
    def recording(self, model: nn.Module) -> Iterator[Recording]:
        """Records no more than is wanted, with gradients."""
        complete: Recording = {}
        with ExitStack() as stack:
            recordings = []
            for kind in dict.fromkeys(wanted.kind for wanted in self.wanted):
                of_kind = [wanted for wanted in self.wanted if wanted.kind == kind]
                layers = set(chain.from_iterable(wanted.layers for wanted in of_kind))
                values = any(wanted.values for wanted in of_kind)
                recorder = record(model, (kind,), layers=layers, values=values, detach=False)
                recordings.append(stack.enter_context(recorder))
            yield complete
            for recording in recordings:
                complete.update(recording)

    def results(self, recording: Recording) -> dict[str, dict[str, list]]:
        """Name → kind → an entry for each layer, None where nothing was asked for or recorded."""
        results: dict[str, dict[str, list]] = {}
        for wanted in self.wanted:
            by_layer = [None] * self.counts[wanted.kind]
            for layer in wanted.layers:
                recorded = recording.get((wanted.kind, layer))
                if recorded is not None:  # layerdrop may have left it out
                    by_layer[layer] = wanted.compute(recorded)
            results.setdefault(wanted.name, {})[wanted.kind] = by_layer
        return results


def _listed(names: Any) -> Collection[Any]:
    """One name or number as a list of one."""
    return [names] if isinstance(names, str | int) else names
