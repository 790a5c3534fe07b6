"""States of a corpus in a temporary file, in half precision, so that memory stays small."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from math import prod
from os import SEEK_END

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from fairseq_normalign.attention.trained_head import HeadStates
from fairseq_normalign.errors import InputError


class StateStore:
    """What an alignment head reads of each pair: written once, read in each epoch.

    The file has no name: it is gone when the store is, whatever happens.
    """

    def __init__(self) -> None:
        self.file = tempfile.TemporaryFile()  # noqa: SIM115  (closed with the store)
        # By number: where the queries of a pair begin, in bytes, and the shapes (T, Q) and (S, K).
        self.places: dict[int, tuple[int, torch.Size, torch.Size]] = {}

    def add(self, number: int, queries: Tensor, keys: Tensor) -> None:
        """Stores the states (T, Q) and (S, K) of the pair that has this number."""
        self.places[number] = self.file.seek(0, SEEK_END), queries.shape, keys.shape
        try:
            for states in (queries, keys):
                self.file.write(states.half().cpu().numpy().tobytes())
        except OSError as error:
            raise InputError(
                f"{tempfile.gettempdir()}: the states of {len(self.places)} pairs fill it "
                f"({error.strerror}); expected fewer pairs, or another folder by TMPDIR"
            ) from None

    def batch(self, numbers: Sequence[int]) -> HeadStates:
        """The states of some pairs, padded on the right."""
        queries, keys = [], []
        for number in numbers:
            start, of_queries, of_keys = self.places[number]
            self.file.seek(start)
            queries.append(self._read(of_queries))
            keys.append(self._read(of_keys))
        lengths = torch.tensor([len(of_pair) for of_pair in keys])
        padding = torch.arange(int(lengths.max())) >= lengths.unsqueeze(1)
        return HeadStates(
            pad_sequence(queries, batch_first=True), pad_sequence(keys, batch_first=True), padding
        )

    def _read(self, shape: torch.Size) -> Tensor:
        """The next states in the file."""
        numbers = np.frombuffer(self.file.read(2 * prod(shape)), np.float16)
        return torch.from_numpy(numbers.reshape(shape).astype(np.float32))
