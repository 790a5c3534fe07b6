"""Batches: small enough, all pairs in them, results in input order, progress by what is done."""

from itertools import chain

import pytest
import torch

from fairseq_normalign.host.batches import batches, map_batches
from fairseq_normalign.host.pairs import Pair, Sentence


def sentence(length: int) -> Sentence:
    return Sentence(torch.ones(length), [*range(length - 1), -1], ["w"] * (length - 1))


def pairs(*lengths: int) -> list[Pair]:
    return [Pair(sentence(length), sentence(2), str(length)) for length in lengths]


def places(batch: list[Pair]) -> list[str]:
    return [pair.where for pair in batch]


def test_batches_hold_at_most_max_tokens_with_padding():
    lengths = [7, 3, 5, 1, 9, 2, 30]
    made = list(batches(lengths, 12))
    assert sorted(chain(*made)) == list(range(7))
    for batch in made:
        longest = max(lengths[index] for index in batch)
        assert len(batch) * longest <= 12 or len(batch) == 1


@pytest.mark.parametrize("window", [1, 2, 100])
def test_results_come_in_input_order(window):
    sizes = []

    def run(batch):
        sizes.append(len(batch))
        return places(batch)

    results = list(map_batches(pairs(7, 3, 5, 1, 9, 2, 4), run, max_tokens=12, window=window))
    assert results == ["7", "3", "5", "1", "9", "2", "4"]
    assert max(sizes) <= window


def test_progress_counts_what_is_done_not_what_is_read():
    done = []

    def run(batch):
        assert sum(done) + len(batch) <= 7  # none of this batch is counted yet
        counted.append(sum(done))
        return places(batch)

    counted = []
    stream = pairs(7, 3, 5, 1, 9, 2, 4)
    assert len(list(map_batches(stream, run, max_tokens=9, progress=done.append))) == 7
    assert sum(done) == 7
    assert len(done) > 3
    assert counted == [sum(done[:number]) for number in range(len(done))]
