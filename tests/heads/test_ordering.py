"""The best aligning heads first: the same function, the old names, and what engines read."""

import json

import pytest
import torch

from fairseq_normalign.alignment.aer import score_links
from fairseq_normalign.alignment.aligner import NormAligner
from fairseq_normalign.heads.ordering import LayerOrder, layer_orders, write_ordered
from fairseq_normalign.heads.pruning import Prunable
from fairseq_normalign.host.checkpoint import convert
from fairseq_normalign.host.pairs import text_pairs
from fairseq_normalign.names import Head
from fairseq_normalign.text.links import Gold
from tests.conftest import refused, run, write_translator

PAIRS = 12


@pytest.fixture(scope="module")
def plain(corpus, checkpoint, tmp_path_factory):
    """A checkpoint of fairseq's own architecture, beside what its text needs."""
    folder = tmp_path_factory.mktemp("plain")
    write_translator(folder / "named", checkpoint, "src", "tgt")
    convert(str(folder / "named"), "transformer", str(folder / "model.pt"))
    for file in (*(corpus / "data-bin").glob("dict.*"), corpus / "spm.model"):
        (folder / file.name).write_bytes(file.read_bytes())
    return folder


@pytest.fixture(scope="module")
def ordered(corpus, plain, tmp_path_factory):
    folder = tmp_path_factory.mktemp("ordered") / "model"
    texts = [corpus / "test.src", corpus / "test.tgt"]
    done = run("normalign", "order-heads", plain, *texts, "--cpu", "-o", folder)
    (folder.parent / "printed").write_text(done.stdout)
    return folder


def open_model(folder, **options):
    bpe = {"bpe": "sentencepiece", "model": str(folder / "spm.model")}
    return NormAligner.from_checkpoint(str(folder / "model.pt"), str(folder), **bpe, **options)


def read_pairs(corpus, model):
    lines = [(corpus / name).read_text().splitlines()[:PAIRS] for name in ("test.src", "test.tgt")]
    return list(text_pairs(zip(*lines, strict=True), model.reader))


def test_logits_are_the_same_and_heads_keep_their_names(corpus, plain, ordered, batch):
    before, after = open_model(plain), open_model(ordered)
    numbers = after.forcing.head_numbers
    assert sorted(map(sorted, numbers)) == sorted(map(list, before.forcing.head_numbers))
    assert numbers != before.forcing.head_numbers  # something moved
    pairs = read_pairs(corpus, before)
    with torch.no_grad():
        logits = [model.forcing.model(**batch)[0] for model in (before, after)]
    torch.testing.assert_close(*logits, rtol=1e-6, atol=1e-6)
    for layer, head in ((1, 1), (2, 3)):
        links = []
        for folder in (plain, ordered):
            named = open_model(folder, method="weights", layer=layer, head=head, step="output")
            links.append(list(named.links_many(pairs)))
        assert links[0] == links[1]


def test_the_checkpoint_says_which_heads_align(ordered):
    options = Prunable(str(ordered / "model.pt")).options
    printed = (ordered.parent / "printed").read_text().splitlines()
    layer, count = options.alignment_layer, options.alignment_heads
    assert options.arch == "transformer_align"  # which stock fairseq loads, and heeds
    assert printed[-2].startswith(f"alignment_layer {layer}, alignment_heads {count} ")
    moved = [name for name in options.head_order.split() if name.startswith(f"cross.{layer + 1}.")]
    old = [[layer, int(name.rpartition(".")[2]) - 1] for name in moved[:count]]
    assert json.loads(printed[-1].partition(": ")[2]) == old


def test_pruning_goes_by_the_old_names_and_restores_the_order(plain, ordered, tmp_path):
    for folder in (plain, ordered):
        path = tmp_path / f"{folder.parent.name}.pt"
        Prunable(str(folder / "model.pt")).write([Head("cross", 1, 0), Head("cross", 1, 2)], path)
    states = [torch.load(path)["model"] for path in sorted(tmp_path.glob("*.pt"))]
    assert states[0].keys() == states[1].keys()
    assert all(torch.equal(values, states[1][name]) for name, values in states[0].items())


def test_ordering_twice_goes_by_the_old_names(ordered, plain, tmp_path):
    orders = []
    for layer in range(3):
        heads = [Head("cross", layer, head) for head in (2, 0, 3, 1)]
        orders.append(LayerOrder(layer, heads, [0.1, 0.3, 0.2, 0.1]))
    for folder in (plain, ordered):
        write_ordered(str(folder / "model.pt"), orders, str(tmp_path / f"{folder.name}.pt"))
    states = [torch.load(path)["model"] for path in sorted(tmp_path.glob("*.pt"))]
    assert all(torch.equal(values, states[1][name]) for name, values in states[0].items())
    assert Prunable(str(tmp_path / "model.pt")).options.alignment_heads == 2


def test_gold_ranks_by_aer(corpus, plain):
    model = open_model(plain)
    pairs = read_pairs(corpus, model)
    of_one = open_model(plain, method="weights", layer=3, head=2, step="output", eos="skip")
    links = list(map(set, of_one.links_many(pairs)))
    gold = [Gold(of_pair, of_pair) for of_pair in links]
    order = layer_orders(model, pairs, gold)[2]
    assert order.best == [Head("cross", 2, 1)]
    assert order.scores[0] == 1 - score_links(links, gold).aer == 1


def test_bad_input_is_one_line(corpus, plain, tmp_path):
    texts = [corpus / "test.src", corpus / "test.tgt"]
    (tmp_path / "used").mkdir()
    (tmp_path / "used/file").touch()
    (tmp_path / "gold").write_text("0-0\n")
    for words, message in {
        ("-o", tmp_path / "used"): "exists already",
        ("-o", tmp_path / "new", "--gold-index", 1): "--gold-index needs --gold FILE",
        ("-o", tmp_path / "new", "--gold", tmp_path / "gold"): "line counts differ",
    }.items():
        assert message in refused("normalign", "order-heads", plain, *texts, *words)
    assert not (tmp_path / "new").exists()
