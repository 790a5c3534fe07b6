"""From a head that was built to look at the token before it, to its place in tables and pictures.

The head keeps its name and its role when others are removed: ``normalign heads`` measures both
models, ``normalign roles`` shows them side by side.
"""

import math

import pytest
import torch

from fairseq_normalign.results.result import read_result
from tests.conftest import build_model, rows_of, run
from tests.stored import OPTIONS, store

WIDTH, HEAD_WIDTH = 16, 4
LINES = ["w1 w2 w3 w4 w5 w6 w7 w8", "w3 w1 w9 w4 w6", "w8 w2 w5 w7 w3 w1"]


def look_back(attention, head: int) -> None:
    """Makes a head look at the token before each, by sinusoidal positions alone.

    With two frequencies w, Σ_w cos(w (t − s − 1)) is largest where s = t − 1: queries are sines and
    cosines of w t, keys those of w (s + 1).
    """
    half = WIDTH // 2
    neurons = slice(HEAD_WIDTH * head, HEAD_WIDTH * (head + 1))
    queries, keys = torch.zeros(HEAD_WIDTH, WIDTH), torch.zeros(HEAD_WIDTH, WIDTH)
    for number in range(2):
        frequency = math.exp(-math.log(10000) * number / (half - 1))  # as in fairseq
        sine, cosine = 2 * number, 2 * number + 1
        queries[sine, number] = queries[cosine, half + number] = 1
        keys[sine, number] = keys[cosine, half + number] = math.cos(frequency)
        keys[sine, half + number] = math.sin(frequency)
        keys[cosine, number] = -math.sin(frequency)
    attention.q_proj.weight.data[neurons] = 20 * queries
    attention.k_proj.weight.data[neurons] = keys
    attention.q_proj.bias.data[neurons] = 0
    attention.k_proj.bias.data[neurons] = 0


@pytest.fixture
def folder(folder):
    """Text, a model whose encoder.1.3 looks back, and the same with four heads."""
    for language in "ab":
        (folder / f"t.{language}").write_text("".join(f"{line}\n" for line in LINES))
    sizes = ("en", "de", "max", "share")
    model = build_model(**{k: v for k, v in OPTIONS.items() if k.startswith(sizes)})
    model.encoder.embed_tokens.weight.data.zero_()  # positions are all that the encoder reads
    look_back(model.encoder.layers[0].self_attn, head=2)
    full = store(folder / "full.pt", parameters=model.state_dict())
    kept = "encoder.1.3 encoder.2.4 decoder.1.1 cross.2.2"
    run("normalign", "prune", "--path", full, "--keep", kept, "--out", folder / "small.pt")
    return folder


def measure(folder, name: str) -> dict:
    text = ["--source-file", folder / "t.a", "--target-file", folder / "t.b", "--cpu"]
    options = ["--scores", "confidence", "positions", "--positional-threshold", 0.75]
    output = ["-o", folder / f"{name}.json", "--plot", folder / f"{name}.svg"]
    run("normalign", "heads", folder, "--path", folder / f"{name}.pt", *text, *options, *output)
    tables = read_result(folder / f"{name}.json").tables()
    heads = {row["head"]: row for row in rows_of(tables["heads"])}
    for head in heads.values():
        head["functions"] = [row[1] for row in tables["roles"].rows if row[0] == head["head"]]
    return heads


def test_a_head_keeps_its_name_and_role(folder):
    full, small = measure(folder, "full"), measure(folder, "small")
    assert len(full) == 24
    assert list(small) == ["encoder.1.3", "encoder.2.4", "decoder.1.1", "cross.2.2"]
    for model in (full, small):
        head = model["encoder.1.3"]
        assert head["functions"] == ["positional"]
        assert head["position"] == "-1"
        # All but first tokens have one before them.
        words = [len(line.split()) for line in LINES]
        assert head["position share %"] >= 100 * (1 - len(words) / sum(words))
    assert full["encoder.1.3"]["position share %"] == small["encoder.1.3"]["position share %"]
    done = run("normalign", "roles", folder / "full.json", folder / "small.json")
    lines = [line.split() for line in done.stdout.splitlines()]
    (header,) = [line for line in lines if line[:2] == ["model", "heads"]]
    (row,) = [line for line in lines if line[0:1] == ["small.pt"]]
    counted = dict(zip(header, row, strict=True))
    assert (counted["heads"], counted["positional"]) == ("2", "1")
    (of_head,) = [line for line in done.stdout.splitlines() if line.startswith("encoder.1.3")]
    assert of_head.count("-1 (") == 2
    (removed,) = [line for line in done.stdout.splitlines() if line.startswith("encoder.1.1")]
    assert removed.endswith("removed")
    assert "P positional" in (folder / "small.svg").read_text()
