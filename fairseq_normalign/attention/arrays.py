"""Weights, norms or vectors of one attention, one array for each sentence pair."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from fairseq_normalign.attention.quantities import EXPORTED, SOURCE_SHARE
from fairseq_normalign.attention.recorder import recorded
from fairseq_normalign.errors import InputError
from fairseq_normalign.host.batches import Progress, numbered_batches
from fairseq_normalign.host.pairs import Pair, PairReader
from fairseq_normalign.host.raw_corpus import ChunkReader
from fairseq_normalign.host.teacher_forcing import TeacherForcing
from fairseq_normalign.names import from_one
from fairseq_normalign.runs.chunks import Chunk, Partial

OVERHEAD = 1000  # bytes that names, headers and tokens of a sentence take, roughly


class Arrays:
    """One quantity of the attention that ``forcing`` looks at, for some of its layers and heads.

    Args:
        quantity: a name in ``attention.quantities.EXPORTED``.
        layers: which, from 1; all of them by default.
        heads: which of each layer, from 1 as in the model that no head was removed from; all of
            them by default. Norms and vectors of summed heads sum these.
        dtype: of the arrays.
    """

    def __init__(
        self,
        forcing: TeacherForcing,
        quantity: str,
        *,
        layers: Sequence[int] | None = None,
        heads: Sequence[int] | None = None,
        dtype: str = "float32",
    ):
        self.forcing = forcing
        self.queries, self.keys = forcing.sides
        self.name, self.quantity = quantity, EXPORTED[quantity]
        self.dtype = np.dtype(dtype)
        self.layers = chosen("layer", layers, range(forcing.layers))
        self.heads: list[list[int]] = []  # of each layer, from 0; none for what is of whole layers
        if quantity == SOURCE_SHARE:
            return
        for layer in self.layers:
            known, owner = forcing.head_numbers[layer], f"layer {layer + 1}"
            if not known:
                raise InputError(f"{owner} has no heads left; export other layers")
            self.heads.append(chosen("head", heads, known, owner=owner))
        counts = set(map(len, self.heads))
        if len(counts) > 1:  # they are one axis
            raise InputError(
                f"layers have different numbers of heads ({sorted(counts)}); export one layer at "
                "a time"
            )

    def __call__(self, pairs: list[Pair]) -> Iterator[np.ndarray]:
        """The arrays of a batch, (L, *axes) each, unpadded.

        Built one pair at a time: vectors are large.
        """
        if self.name == SOURCE_SHARE:
            for shares in self.quantity.compute(self.forcing, pairs):
                yield shares[self.layers].astype(self.dtype)
            return
        recording = recorded(
            self.forcing,
            pairs,
            (self.forcing.attention,),
            layers=self.layers,
            values=self.quantity.needs_values,
        )
        for index, pair in enumerate(pairs):
            array = np.empty(self.shape(pair), self.dtype)
            lengths = self._lengths(pair)
            sentence = slice(index, index + 1)
            for place, layer in enumerate(self.layers):
                heads = [self.forcing.head_place(layer, number) for number in self.heads[place]]
                of_layer = recording[self.forcing.attention, layer]
                alone = of_layer.cut(heads, sentence, lengths["query"], lengths["key"])
                with np.errstate(over="ignore"):  # reported below, with its place
                    array[place] = self.quantity.compute(alone)[0].float().cpu().numpy()
            if not np.isfinite(array).all():
                raise InputError(
                    f"{pair.where}: a value is no number, or beyond the range of {self.dtype}"
                )
            yield array

    def shape(self, pair: Pair) -> tuple[int, ...]:
        heads = len(self.heads[0]) if self.heads else 0
        sizes = {"head": heads, "width": self.forcing.width, **self._lengths(pair)}
        return (len(self.layers), *(sizes[axis] for axis in self.quantity.axes))

    def _lengths(self, pair: Pair) -> dict[str, int]:
        return {
            "query": len(getattr(pair, self.queries).tokens),
            "key": len(getattr(pair, self.keys).tokens),
        }

    def tokens(self, pair: Pair, reader: PairReader) -> tuple[list[str], list[str]]:
        """The symbols that encoder and decoder read.

        The decoder reads one behind: a start mark, and not the last token. That of a language model
        reads the source.
        """
        source = pair.source.tokens.tolist()
        target = [] if self.forcing.is_language_model else pair.target.tokens.tolist()
        read = [self.forcing.start, *target[:-1]] if target else []
        return reader.symbols(source, "source"), reader.symbols(read, "target")

    def description(self) -> dict:
        """What a reader of the arrays must know; layers and heads from 1.

        Heads are one list if all layers have the same ones, and otherwise a list for each layer.
        """
        description = {
            "attention": self.forcing.attention,
            "quantity": self.name,
            "formula": self.quantity.formula,
            "axes": ["layer", *self.quantity.axes],
            "query": self.queries,
            "key": self.keys,
            "layers": [layer + 1 for layer in self.layers],
        }
        if self.heads:
            numbers = [[head + 1 for head in of_layer] for of_layer in self.heads]
            alike = all(of_layer == numbers[0] for of_layer in numbers)
            description["heads"] = numbers[0] if alike else numbers
        return {**description, "dtype": str(self.dtype)}


def gigabytes(pairs: Iterable[Pair], arrays: Arrays) -> float:
    """How much an export of some pairs takes."""
    counts = [math.prod(arrays.shape(pair)) for pair in pairs]
    return (sum(counts) * arrays.dtype.itemsize + len(counts) * OVERHEAD) / 1e9


class ExportedArrays:
    """The measure: an array of each pair, and its tokens in the notes.

    Args:
        arrays_of: what is exported, of a model.
        pairs_per_chunk: so many that their arrays fit into memory.
        metadata: what a reader of the export must know beside ``Arrays.description``.
    """

    name = "arrays"
    first_pairs = 0

    def __init__(
        self,
        arrays_of: Callable[[TeacherForcing], Arrays],
        pairs_per_chunk: int,
        metadata: Mapping[str, Any],
        *,
        max_tokens: int = 4000,
    ):
        self.arrays_of, self.pairs_per_chunk = arrays_of, pairs_per_chunk
        self.metadata, self.max_tokens = metadata, max_tokens

    def prepare(self, models: ChunkReader, first: Chunk) -> dict[str, Any]:
        return {**self.arrays_of(models.forcing).description(), **self.metadata}

    def chunk(
        self, models: ChunkReader, chunk: Chunk, prepared: Mapping[str, Any], progress: Progress
    ) -> Partial:
        pairs, notes = models.pairs(chunk)
        arrays_of = self.arrays_of(models.forcing)
        arrays, tokens = {}, {}
        for batch in numbered_batches(pairs, max_tokens=self.max_tokens, progress=progress):
            of_batch = arrays_of([pair for _, pair in batch])
            for (place, pair), array in zip(batch, of_batch, strict=True):
                name = str(chunk.first + place)
                arrays[name], tokens[name] = array, arrays_of.tokens(pair, models.reader)
        return Partial(arrays, notes={**notes, "tokens": tokens})


def chosen(
    name: str, numbers: Sequence[int] | None, known: Sequence[int], *, owner: str = "the model"
) -> list[int]:
    """Some of the known layers or heads, ascending from 0, which people count from 1."""
    if numbers is None:
        return list(known)
    numbered = {from_one(name, number, known, owner=owner) for number in numbers}
    return sorted(numbered)
