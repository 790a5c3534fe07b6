import inspect
from argparse import Namespace
from types import SimpleNamespace

import pytest
from fairseq import options, tasks
from fairseq.data.data_utils import batch_by_size
from fairseq.data.encoders.gpt2_bpe import GPT2BPE

import fairseq_normalign.plugin  # noqa: F401  (registers)
from fairseq_normalign.alignment.aligner import AlignOptions
from fairseq_normalign.plugin.beam_search import new_aligner
from tests.conftest import ToyTask, build_model


def sentences(name: str, corpus, monkeypatch) -> int:
    """How many sentences of the test set come out in batches, as fairseq-generate asks for them."""
    monkeypatch.setattr("sys.argv", ["fairseq-generate"])
    argv = [str(corpus / "data-bin"), "--task", name, "-s", "src", "-t", "tgt"]
    task = tasks.setup_task(options.parse_args_and_arch(options.get_generation_parser(), argv))
    task.load_dataset("test")
    epochs = task.get_batch_iterator(
        task.dataset("test"), max_tokens=150, required_batch_size_multiple=8
    )
    return sum(batch["nsentences"] for batch in epochs.next_epoch_itr(shuffle=False))


@pytest.mark.slow
def test_all_sentences_are_translated(corpus, monkeypatch):
    assert sentences("translation_normalign", corpus, monkeypatch) == 40
    # What the task mends in fairseq; 0.12.2 does not have it.
    if "b = b[:-1]" in inspect.getsource(batch_by_size):
        assert sentences("translation", corpus, monkeypatch) < 40


def aligner(words: str, symbols: list[str], bpe=None):
    task = ToyTask(0)
    for symbol in symbols:
        task.source_dictionary.add_symbol(symbol)
    task.cfg, task.bpe = Namespace(align_words=words), bpe
    task.align_options = AlignOptions
    return new_aligner(task, build_model(task=task))


@pytest.mark.parametrize(
    ("words", "symbols", "scheme"),
    [
        ("auto", ["▁das", "▁ha", "us"], "sentencepiece"),
        ("auto", ["das", "ha@@", "us"], "subword_nmt"),
        ("auto", ["das", "haus"], "none"),
        ("auto", ["▁", "d", "a", "s"], "sentencepiece"),
        ("none", ["▁das", "▁ha", "us"], "none"),
        ("@@ ", ["das", "ha@@", "us"], "subword_nmt"),
    ],
)
def test_links_are_of_words_as_the_dictionary_marks_them(words, symbols, scheme):
    assert aligner(words, symbols).reader.scheme == scheme


@pytest.mark.parametrize(("words", "text"), [("auto", ["das", "haus"]), ("none", None)])
def test_numbers_of_gpt2_are_spelled_by_its_bpe(words, text):
    symbols = ["0", "1", "2"]
    bpe = object.__new__(GPT2BPE)
    bpe.bpe = SimpleNamespace(decoder={0: "das", 1: "Ġha", 2: "us"})
    reader = aligner(words, symbols, bpe).reader
    tokens = reader.source.dictionary.encode_line("0 1 2", add_if_not_exist=False).long()
    assert reader.binarised_pair(tokens, tokens, "").source.text == (text or symbols)
