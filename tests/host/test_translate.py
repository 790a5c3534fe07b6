"""Beam search: greedy search by hand, whatever the batches and the padding; and tokens to text."""

import pytest
import torch
from fairseq.tasks.translation import TranslationConfig, TranslationTask

from fairseq_normalign.host.pairs import PairReader, text_pairs
from fairseq_normalign.host.translate import Translator, joined
from tests.conftest import ToyTask, build_model

SENTENCES = ["w1 w2 w3", "w4", "w5 w6 w7 w8 w9 w1 w2", "", "w3 w3 w9 w12"]


def task(left_pad: bool = True) -> TranslationTask:
    dictionary = ToyTask().source_dictionary
    options = TranslationConfig(source_lang="a", target_lang="b", left_pad_source=left_pad)
    return TranslationTask(options, dictionary, dictionary)


def model():
    """A random model that says something else for each source: its weights are large."""
    random_model = build_model(task=task())
    for parameter in random_model.parameters():
        parameter.data *= 3
    return random_model


def translator(left_pad: bool = True, **search) -> Translator:
    return Translator(model(), PairReader(task(left_pad)), search)


def sources(reader: PairReader) -> list:
    return list(text_pairs(((sentence, None) for sentence in SENTENCES), reader))


def greedy(network, source: torch.Tensor, most: int) -> list:
    """The likeliest token again and again, each time from the whole sentence so far.

    </s> is not the first.
    """
    pad, eos, tokens = 1, 2, []
    while tokens[-1:] != [eos]:
        with torch.no_grad():
            read = torch.tensor([[eos, *tokens]])
            logits = network(source[None], torch.tensor([len(source)]), read)[0][0, -1]
        logits[pad] = -torch.inf
        if not tokens:
            logits[eos] = -torch.inf
        tokens.append(eos if len(tokens) == most else int(logits.argmax()))
    return tokens


@pytest.mark.parametrize("left_pad", [True, False])
def test_a_beam_of_one_is_greedy_search(left_pad):
    greatest = 5
    one = translator(left_pad, beam=1, max_len_a=0, max_len_b=greatest)
    pairs = sources(one.reader)
    hypotheses = one(pairs)
    network = model()
    assert hypotheses == [greedy(network, pair.source.tokens, greatest) for pair in pairs]
    assert len(set(map(tuple, hypotheses))) > 3


def test_batches_change_nothing_and_the_order_stays():
    # With max_len_a, the length of a batch limits its translations.
    search = {"max_len_a": 0, "max_len_b": 8}
    together = list(translator(**search).translations(sources(PairReader(task()))))
    assert together == list(
        translator(**search).translations(sources(PairReader(task())), max_tokens=1)
    )
    alone = translator(**search)
    assert together == [alone.text(alone([pair])[0]) for pair in sources(alone.reader)]
    assert len(set(together)) == len(SENTENCES)


class Reversed:
    """A BPE, or a tokeniser, that decodes by turning the words around."""

    def decode(self, text):
        return " ".join(text.split()[::-1])


class Shouted:
    def decode(self, text):
        return text.upper()


TEXTS = {
    "sentencepiece": ("▁ha us ▁w1", "haus w1"),
    "subword_nmt": ("ha@@ us w1", "haus w1"),
    "none": ("▁ha us w1", "▁ha us w1"),
}


@pytest.fixture
def pieces():
    toy_task = ToyTask()
    for text, _ in TEXTS.values():
        for symbol in text.split():
            toy_task.target_dictionary.add_symbol(symbol)
    return toy_task


@pytest.mark.parametrize("scheme", TEXTS)
def test_pieces_are_joined(scheme, pieces):
    text, expected = TEXTS[scheme]
    tokens = pieces.target_dictionary.encode_line(text, add_if_not_exist=False)  # with </s>
    assert joined(tokens, PairReader(pieces, scheme=scheme)) == expected


def test_bpe_and_tokeniser_have_their_say_and_marks_go(pieces):
    index = pieces.target_dictionary.index
    tokens = [index("w7"), index("w1"), index("us"), 3, 2]
    reader = PairReader(pieces, bpe=Reversed(), scheme="sentencepiece", tokenizer=Shouted())
    assert joined(tokens, reader, marks={index("w7")}) == "<UNK> US W1"
