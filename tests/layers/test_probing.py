"""Probes of tiny models on a small treebank."""

import math

import numpy as np
import pytest
import torch

from fairseq_normalign.attention.states import States
from fairseq_normalign.errors import InputError
from fairseq_normalign.host.pairs import PairReader, text_pairs
from fairseq_normalign.host.teacher_forcing import TeacherForcing
from fairseq_normalign.layers.evolution import kept_states
from fairseq_normalign.layers.probing import (
    L2,
    objective,
    probe,
    split_of,
    tagged_words,
    train,
)
from fairseq_normalign.layers.token_table import ReadText, tokens_of
from fairseq_normalign.text.treebank import Tree
from tests.conftest import ToyTask, build_model
from tests.layers.test_evolution import lines

TAGS = ("NOUN", "VERB", "ADJ")


def tree(sentence: str) -> Tree:
    """Tags by the number of the word, which its embedding knows."""
    words = sentence.split()
    tags = [TAGS[int(word[1:]) % 3] for word in words]
    return Tree(words, [-1] * len(words), ["root"] * len(words), "here", tags)


@pytest.fixture
def model():
    """A function that reads sentences."""
    task = ToyTask()
    states = States(TeacherForcing(build_model(task=task), task, attention="encoder"))
    reader = PairReader(task, scheme="subword_nmt")

    def read(*sentences):
        pairs = text_pairs([(sentence, None) for sentence in sentences], reader)
        return ReadText("tiny", states, reader, list(pairs))

    return read


def test_what_embeddings_know_is_read_and_shuffled_tags_are_not(model):
    trees = [tree(line) for line in lines(150)]
    done = []
    measured = probe(model(*lines(150)), trees, progress=done.append)
    assert sum(done) == 150
    assert len(measured.accuracy) == len(measured.shuffled) == 3
    assert measured.accuracy[0] > 0.9
    assert measured.majority < 0.6
    for accuracy, shuffled in zip(measured.accuracy, measured.shuffled, strict=True):
        assert shuffled < accuracy - 0.2
    assert measured.tags == sorted(TAGS)
    words = sum(len(tree.words) for tree in trees)
    assert measured.train_words + measured.test_words == words
    again = probe(model(*lines(150)), trees, max_tokens=40)
    assert measured.accuracy == pytest.approx(again.accuracy, abs=0.02)


def test_a_word_is_the_mean_of_its_pieces(model):
    text = model("w1@@ w2 w3", "w4@@ w5@@ w6")
    tokens = tokens_of(text, unknown_too=True)
    of_layers = kept_states(text, tokens, np.arange(6), rows=tokens.text_words)
    assert of_layers.shape == (3, 3, 16)
    for layer, of_batch in enumerate(text.states.run(text.pairs)):
        slow = [of_batch[0, :2].mean(0), of_batch[0, 2], of_batch[1, :3].mean(0)]
        torch.testing.assert_close(of_layers[layer], torch.stack(slow), rtol=1e-4, atol=1e-5)


def test_no_sentence_is_in_both_parts():
    sentences = np.repeat(np.arange(50), 4)
    train, test = split_of(sentences, 0.2, seed=1)
    drawn = set(sentences[test].tolist())
    assert len(drawn) == 10
    assert not drawn & set(sentences[train].tolist())
    assert len(train) + len(test) == 200
    assert set(sentences[split_of(sentences, 0.2, seed=2)[1]].tolist()) != drawn


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_too_little_to_learn(share):
    with pytest.raises(InputError, match="the treebank has 2 sentences: too few to learn from"):
        split_of(np.arange(4) // 2, share, seed=1)


def test_a_treebank_without_tags(model):
    untagged = tree("w1 w2")._replace(tags=["NOUN", "_"], where="x.conllu:7")
    with pytest.raises(InputError, match=r"x\.conllu:7: word 2 has no tag \(UPOS\)"):
        tagged_words(tokens_of(model("w1 w2")), [untagged])


@pytest.fixture
def labelled():
    """States whose class is half known from one of their neurons."""
    random = torch.Generator().manual_seed(0)
    labels = torch.randint(3, (300,), generator=random)
    states = torch.randn(300, 5, generator=random)
    states[:, 1] += labels
    return states, labels


def slow_objective(states, labels, weight, bias):
    total = 0.0
    for state, label in zip(states.double(), labels.tolist(), strict=True):
        logits = []
        for k in range(3):
            logit = float(bias[k])
            for c in range(5):
                logit += float(state[c] * weight[c, k])
            logits.append(logit)
        total += math.log(sum(map(math.exp, logits))) - logits[label]
    squares = sum(float(number) ** 2 for number in weight.flatten())
    return total / len(labels) + L2 / 2 * squares


def test_the_objective_is_what_is_written(labelled):
    trained = train(*labelled, 3)
    expected = slow_objective(*labelled, *trained)
    assert float(objective(*labelled, *trained)) == pytest.approx(expected, rel=1e-4)


def test_no_step_in_any_direction_makes_it_smaller(labelled):
    weight, bias = train(*labelled, 3)
    lowest = float(objective(*labelled, weight, bias))
    random = torch.Generator().manual_seed(1)
    for _ in range(20):
        step = 0.1 * torch.randn(5, 3, generator=random)
        for sign in (1, -1):
            assert float(objective(*labelled, weight + sign * step, bias)) > lowest - 1e-5
