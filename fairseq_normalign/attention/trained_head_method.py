"""Soft alignments by an alignment head that ``normalign train-aligner`` has trained."""

from __future__ import annotations

from torch import Tensor

from fairseq_normalign.attention.methods import Batch
from fairseq_normalign.attention.trained_head import AlignmentHead, log_shares, with_neighbours
from fairseq_normalign.attention.trained_head_file import head_of
from fairseq_normalign.attention.trained_head_states import head_states
from fairseq_normalign.errors import InputError


def aligner(batch: Batch, layer: None = None, head: None = None, *, path: str) -> Tensor:
    """The share of each source token for each step of the decoder, (B, T, S).

    Args:
        path: the file of the head.
    """
    trained = head_of(path, batch.forcing.model)
    queries, keys, padding = head_states(batch.forcing, batch.pairs)
    read = with_neighbours(queries)
    widths = (read.shape[-1], keys.shape[-1])
    if widths != (trained.query.shape[1], trained.key.shape[1]):
        raise InputError(
            f"{path}: its head is for states of other widths than those of this model, "
            f"{widths[0]} and {widths[1]}; expected a file that normalign train-aligner wrote"
        )
    on_device = AlignmentHead(*[part.to(queries.device) for part in trained])
    return log_shares(on_device, read, keys, padding).exp()
