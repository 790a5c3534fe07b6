"""A corpus in pieces."""

import pytest

from fairseq_normalign.runs.chunks import Chunk, Shard, cut


def test_chunks_are_of_one_size_but_the_last():
    chunks = list(cut(iter("abcdefg"), 3))
    assert chunks == [
        Chunk(0, 0, ["a", "b", "c"]),
        Chunk(1, 3, ["d", "e", "f"]),
        Chunk(2, 6, ["g"]),
    ]
    assert list(cut([], 3)) == []


@pytest.mark.parametrize("shards", [1, 2, 5])
def test_every_chunk_belongs_to_one_shard(shards):
    for number in range(12):
        owners = [shard for shard in range(shards) if Shard(shard, shards).has(number)]
        assert len(owners) == 1
