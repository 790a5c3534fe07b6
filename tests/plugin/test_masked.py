"""BERT as a fairseq model: segments, ε, and learning."""

from __future__ import annotations

from argparse import Namespace

import pytest
import torch

from fairseq_normalign.attention.recorder import record
from fairseq_normalign.plugin.masked import BertDictionary, segment_ids
from tests.conftest import attention_output, build_model

CLS, PAD, SEP, UNK = range(4)


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        ([CLS, 7, 8, SEP, 9, SEP], [0, 0, 0, 0, 1, 1]),
        ([CLS, 7, SEP, PAD, PAD], [0, 0, 0, 1, 1]),  # padding is read by nobody
        ([CLS, SEP, SEP], [0, 0, 1]),
        ([CLS, SEP, 7, SEP, 8, SEP], [0, 0, 1, 1, 1, 1]),  # there are but two
        ([CLS, 7], [0, 0]),
    ],
)
def test_segments(tokens, expected):
    assert segment_ids(torch.tensor([tokens]), SEP, 2).tolist() == [expected]


def task_of(symbols: int = 30) -> Namespace:
    dictionary = BertDictionary()
    for number in range(symbols):
        dictionary.add_symbol(f"w{number}")
    return Namespace(source_dictionary=dictionary, max_positions=lambda: 64)


def bert(**options):
    return build_model("bert_normalign", task_of(), **options)


def test_the_second_passage_is_embedded_in_another_way():
    model = bert()
    both, alone = torch.tensor([[CLS, 7, SEP, 7, SEP]]), torch.tensor([[CLS, 7, SEP]])
    before = [model(tokens, features_only=True)[0] for tokens in (both, alone)]
    with torch.no_grad():
        model.encoder.sentence_encoder.embed_segments.weight[1] += torch.arange(16.0)
    after = [model(tokens, features_only=True)[0] for tokens in (both, alone)]
    assert not torch.allclose(before[0], after[0])
    torch.testing.assert_close(before[1], after[1], atol=0, rtol=0)


def test_parts_of_its_attention_add_up():
    model = bert()
    outputs = []
    for layer in model.encoder.sentence_encoder.layers:
        layer.self_attn.register_forward_hook(lambda *call: outputs.append(call[-1][0]))
    with torch.no_grad(), record(model, ("encoder",)) as recording:
        model(torch.tensor([[CLS, 7, 8, SEP, 9, SEP], [CLS, 7, SEP, PAD, PAD, PAD]]))
    assert list(recording) == [("encoder", 0), ("encoder", 1)]
    for recorded, output in zip(recording.values(), outputs, strict=True):
        expected = output.transpose(0, 1)
        torch.testing.assert_close(attention_output(recorded), expected, atol=1e-5, rtol=1e-4)
