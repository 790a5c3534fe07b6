"""Arrays of a corpus → one file."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Any

from fairseq_normalign.attention.arrays import Arrays
from fairseq_normalign.errors import InputError
from fairseq_normalign.host.batches import numbered_batches, text_of_batch
from fairseq_normalign.host.pairs import Pair, PairReader
from fairseq_normalign.results.export_writer import Writer, create_export, grow_export
from fairseq_normalign.runs.sums import Sums, SumsFolder

SUMS = "arrays"  # what is kept is called so
WINDOW = 500  # pairs sorted by length at a time: few, so that little is held


def write_arrays(
    path: str,
    arrays: Arrays,
    pairs: Iterable[Pair],
    reader: PairReader,
    metadata: dict[str, Any],
    *,
    count: int,
    max_tokens: int = 4000,
    progress: Callable[[int], object] = lambda pairs: None,
    folder: SumsFolder | None = None,
) -> None:
    """Writes an array and the tokens of each pair, all or nothing.

    Args:
        count: how many pairs there were when the size was computed; another number is refused.
        progress: called with the number of pairs that were finished since its last call.
        folder: where what is finished is kept; by default nowhere.
    """
    with _opened(path, {**arrays.description(), **metadata}, folder) as export:
        this_pass = Sums(folder).begin(SUMS, [export])
        batches = numbered_batches(pairs, max_tokens=max_tokens, window=WINDOW)
        for batch in this_pass.over(batches, text=text_of_batch, size=len, progress=progress):
            of_batch = arrays([pair for _, pair in batch])
            for (place, pair), array in zip(batch, of_batch, strict=True):
                export.add(place, array, *arrays.tokens(pair, reader))
        if export.sentences != count:
            raise InputError(
                f"the corpus had {count} sentences, then {export.sentences}; expected files that "
                "can be read twice"
            )


def _opened(
    path: str, metadata: dict[str, Any], folder: SumsFolder | None
) -> AbstractContextManager[Writer]:
    if folder is None:
        return create_export(path, metadata)
    folder.open()
    return grow_export(path, metadata, folder.folder.path)
