"""Training of an alignment head on a small random model, and its use as a method."""

import numpy as np
import pytest
import torch

from fairseq_normalign.alignment.aligner import NormAligner
from fairseq_normalign.alignment.aligner_training import (
    Corpus,
    TrainingOptions,
    row_labels,
    train_head,
)
from fairseq_normalign.alignment.combine import as_matrix
from fairseq_normalign.attention.trained_head import (
    TrainedHead,
    fingerprint,
    head_states,
    write_aligner,
)
from fairseq_normalign.errors import InputError
from fairseq_normalign.host.pairs import text_pairs
from tests.conftest import ready_model

OPTIONS = TrainingOptions(epochs=12, width=16, dropout=0.1, learning_rate=0.03, batch_tokens=60)


def reversed_text(count: int) -> tuple[list, list]:
    """Sentences whose target is the source in reverse order, and their links."""
    generator = torch.Generator().manual_seed(1)
    texts, links = [], []
    for _ in range(count):
        length = int(torch.randint(2, 6, (), generator=generator))
        numbers = torch.randperm(30, generator=generator)[:length].tolist()
        source = [f"w{number}" for number in numbers]
        texts.append((source, source[::-1]))
        links.append([(place, length - 1 - place) for place in range(length)])
    return texts, links


def corpus(texts, links, **options) -> Corpus:
    forcing, reader = ready_model()
    pairs = list(text_pairs(texts, reader))
    options = {"null_weight": 0.3, "max_tokens": 100, **options}
    return Corpus.read(forcing, pairs, links, **options)


@pytest.fixture(scope="module")
def trained():
    read = corpus(*reversed_text(150))
    return train_head(read, OPTIONS)


def test_the_same_seed_is_the_same_head_and_another_one_another(trained):
    texts, links = reversed_text(150)
    again, epochs = train_head(corpus(texts, links), OPTIONS)
    assert epochs == trained[1]
    for one, other in zip(again, trained[0], strict=True):
        assert torch.equal(one, other)
    options = TrainingOptions(epochs=1, width=16, seed=2)
    other, _ = train_head(corpus(texts, links), options)
    assert not torch.equal(other.query, trained[0].query)


def test_stored_states_are_those_of_the_model():
    """In half precision, and padded alone: batches of other lengths change nothing."""
    texts, links = reversed_text(7)
    read = corpus(texts, links)
    forcing, reader = ready_model()
    pairs = list(text_pairs(texts, reader))
    for number, pair in enumerate(pairs):
        queries, keys, padding = head_states(forcing, [pair])
        stored, _, _ = read.batch([number])
        torch.testing.assert_close(stored.queries, queries, rtol=2e-3, atol=2e-3)
        torch.testing.assert_close(stored.keys, keys, rtol=2e-3, atol=2e-3)
        assert not padding.any()
        assert not stored.padding.any()
    batch, _, _ = read.batch(range(7))
    lengths = [len(pair.source.tokens) for pair in pairs]
    assert (~batch.padding).sum(1).tolist() == lengths


def test_too_few_pairs_are_refused():
    texts, links = reversed_text(3)
    with pytest.raises(InputError, match="1 pairs have links; expected 2 or more"):
        train_head(corpus(texts, [links[0], [], []]), OPTIONS)


@pytest.fixture(scope="module")
def file(trained, tmp_path_factory):
    path = tmp_path_factory.mktemp("aligner") / "head.safetensors"
    forcing, _ = ready_model()
    write_aligner(path, {"forward": TrainedHead(trained[0], fingerprint(forcing.model), "a-b")}, {})
    return path


def test_method_aligner_finds_the_links(file):
    texts, links = reversed_text(200)
    aligner = NormAligner(*ready_model(), method=f"aligner:{file}")
    right = 0
    for linked, expected in zip(aligner.align_many(texts[150:]), links[150:], strict=True):
        right += sorted(linked) == sorted(expected)
    assert right > 25
    assert aligner.signature()["method"] == "aligner:head.safetensors"
    assert aligner.signature()["step"] == "input"


PAIRS = [
    # links, words of source tokens, words of target tokens
    ([(0, 0), (1, 2), (2, 0)], [0, 0, 1, 2, -1], [0, 1, 1, 2, 2, -1]),
    ([], [0, -1], [0, 0, -1]),
    ([(0, 1)], [-1, 0, 1, -1], [-1, 0, 1, -1]),  # marks before the words, as language codes
    ([(1, 0)], [0, 2, -1], [0, -1]),  # a word that no piece spells
    ([], [-1], [-1]),  # no words
]


@pytest.mark.parametrize(("links", "source_ids", "target_ids"), PAIRS)
def test_labels_by_loops(links, source_ids, target_ids):
    labels, weights = row_labels(as_matrix(links, (3, 3)), source_ids, target_ids, null_weight=0.3)
    assert labels.shape == (len(target_ids), len(source_ids))
    for row in range(len(target_ids)):
        read = target_ids[row - 1] if row else -1
        partners = [source for source, target in links if target == read]
        for column, word in enumerate(source_ids):
            expected = word in partners if partners else word == -1
            assert labels[row, column] == expected
        if read == -1 or not labels[row].any():
            assert weights[row] == 0
        else:
            assert weights[row] == np.float32(1 if partners else 0.3)
