"""Lexical shortlists for Marian."""

from collections import defaultdict

import pytest

from fairseq_normalign.cli.shortlist import in_pieces, shortlist, splitters
from fairseq_normalign.errors import InputError
from tests.conftest import run


def test_lines_are_shares_of_each_word_and_the_best_stay():
    counts = {("haus", "house"): 3.0, ("haus", "home"): 1.0, ("haus", "a"): 0.5, ("ein", "a"): 2.0}
    lines = ["a ein 1.0000000\n", "house haus 0.6666667\n", "home haus 0.2222222\n"]
    assert list(shortlist(counts, 2)) == lines


def test_pieces_share_the_links_of_their_words():
    counts = {("ab", "x"): 2.0, ("a", "xy"): 1.0}
    assert in_pieces(counts, list, list) == {("a", "x"): 3.0, ("b", "x"): 2.0, ("a", "y"): 1.0}


@pytest.mark.parametrize(
    ("paths", "message"),
    [(["a", "b", "c"], "one model, or one"), (["a"], "a: not a SentencePiece model")],
)
def test_bad_pieces(paths, message):
    with pytest.raises(InputError, match=message):
        splitters(paths)


@pytest.mark.slow
def test_workers_shards_and_one_process_write_the_same(corpus, checkpoint, tmp_path):
    texts = ["--source-file", corpus / "test.src", "--target-file", corpus / "test.tgt"]
    pieces = ["--bpe", "sentencepiece", "--sentencepiece-model", corpus / "spm.model"]
    words = ["normalign", "shortlist", corpus / "data-bin", "--path", checkpoint, "--cpu"]
    words += [*texts, *pieces, "--combine", "learned", "--chunk", 16, "--top", 9999]
    words += ["--pieces", corpus / "spm.model", "-o"]
    run(*words, tmp_path / "one")
    run(*words, tmp_path / "two", "--workers", 2)
    for shard in (0, 1):
        run(*words, tmp_path / "three", "--num-shards", 2, "--shard-id", shard)
    run("normalign", "merge", tmp_path / "three")
    for ending in ("s2t", "t2s"):
        written = (tmp_path / f"one.{ending}").read_bytes()
        assert written == (tmp_path / f"two.{ending}").read_bytes()
        assert written == (tmp_path / f"three.{ending}").read_bytes()
        totals = defaultdict(float)
        for line in written.decode().splitlines():
            _, word, share = line.split(" ")
            totals[word] += float(share)
        assert totals and all(0 < total < 1.0001 for total in totals.values())
