"""States of a corpus in a temporary file, in half precision, so that memory stays small."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from fairseq_normalign.attention.trained_head import HeadStates
from fairseq_normalign.errors import InputError


class _Place(NamedTuple):
    """Where the states of a pair are, in numbers from the start of the file."""

    start: int
    queries: tuple[int, int]  # T, Q
    keys: tuple[int, int]  # S, K


class StateStore:
    """What an alignment head reads of each pair: written once, read in each epoch.

    The file has no name: it is gone when the store is, whatever happens.
    """

    def __init__(self) -> None:
        self.file = tempfile.TemporaryFile()  # noqa: SIM115  (closed with the store)
        self.places: dict[int, _Place] = {}
        self.numbers: np.ndarray | None = None

    def add(self, number: int, queries: Tensor, keys: Tensor) -> None:
        """Stores the states (T, Q) and (S, K) of the pair that has this number."""
        start = self.file.tell() // 2
        for states in (queries, keys):
            self._write(states.half().cpu().numpy().tobytes())
        rows, columns = tuple(queries.shape), tuple(keys.shape)
        self.places[number] = _Place(start, rows, columns)  # type: ignore[arg-type]

    def _write(self, content: bytes) -> None:
        try:
            self.file.write(content)
        except OSError as error:
            raise InputError(
                f"{tempfile.gettempdir()}: the states of {len(self.places)} pairs fill it "
                f"({error.strerror}); expected fewer pairs, or another folder by TMPDIR"
            ) from None

    def batch(self, numbers: Sequence[int]) -> HeadStates:
        """The states of some pairs, padded on the right."""
        if self.numbers is None:
            self.file.flush()
            self.numbers = np.memmap(self.file, dtype=np.float16, mode="r")
        of_pairs = [self._read(self.places[number]) for number in numbers]
        queries, keys = zip(*of_pairs, strict=True)
        lengths = torch.tensor([len(of_pair) for of_pair in keys])
        padding = torch.arange(int(lengths.max())) >= lengths.unsqueeze(1)
        return HeadStates(_padded(queries), _padded(keys), padding)

    def _read(self, place: _Place) -> tuple[Tensor, Tensor]:
        assert self.numbers is not None
        middle = place.start + int(np.prod(place.queries))
        end = middle + int(np.prod(place.keys))
        queries = self.numbers[place.start : middle].reshape(place.queries)
        keys = self.numbers[middle:end].reshape(place.keys)
        return torch.from_numpy(queries.astype(np.float32)), torch.from_numpy(
            keys.astype(np.float32)
        )


def _padded(states: Sequence[Tensor]) -> Tensor:
    return torch.nn.utils.rnn.pad_sequence(list(states), batch_first=True)
