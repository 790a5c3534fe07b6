"""``normalign train-aligner``: a run from text to links."""

import pytest

from fairseq_normalign.text.links import parse_links
from tests.conftest import refused, run


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:only .* pairs")
def test_heads_are_trained_and_align(corpus, checkpoint, text, tmp_path):
    """The links that are learned from are our own; a second run is the same bytes."""
    model = [corpus / "data-bin", "--path", checkpoint, "--cpu"]
    files = [tmp_path / "one", tmp_path / "other"]
    for file in files:
        options = [*text, "--epochs", 2, "--width", 8, "--limit", 30, "-o", file]
        done = run("normalign", "train-aligner", *model, *options)
    assert "src-tgt epoch 1: loss " in done.stdout
    assert "pairs:30|links:learned|" in done.stderr
    assert files[0].read_bytes() == files[1].read_bytes()
    aligned = run("normalign", "align", *model, *text, "--method", f"aligner:{files[0]}")
    lines = aligned.stdout.splitlines()
    assert len(lines) == 40
    assert any(map(parse_links, lines))
    assert "method:aligner:one|layer:all|head:all|step:input" in aligned.stderr


@pytest.mark.slow
def test_links_of_other_lines_than_the_text_are_refused(corpus, checkpoint, text, tmp_path):
    links = tmp_path / "links"
    links.write_text("0-0\n" * 39)
    options = ["--path", checkpoint, "--cpu", *text, "--links", links, "-o", tmp_path / "out"]
    line = refused("normalign", "train-aligner", corpus / "data-bin", *options)
    assert "links: 39 lines for 40 pairs" in line
    assert not (tmp_path / "out").exists()
