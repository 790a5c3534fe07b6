"""How well a linear classifier reads parts of speech from the states of each layer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fairseq_normalign.errors import InputError
from fairseq_normalign.host.batches import Progress
from fairseq_normalign.layers.evolution import kept_states
from fairseq_normalign.layers.token_table import ReadText, Tokens, tokens_of
from fairseq_normalign.progress import over
from fairseq_normalign.results.blocks import Block, Curves, Rows, Table, by_layer
from fairseq_normalign.results.result import Result
from fairseq_normalign.text.treebank import Tree

NO_TAG = "_"
L2 = 1e-3
STEPS = 100  # of L-BFGS, at most: enough, as the loss is convex


@dataclass
class Probing:
    """Accuracies on the words of sentences that were not trained on.

    Attributes:
        accuracy: by layer, from 0.
        shuffled: of classifiers that learned from tags in another order, by layer.
        majority: of the most frequent tag of the training sentences.
        train_words: how many words were learned from.
        test_words: how many words the accuracies are of.
    """

    name: str
    accuracy: list[float]
    shuffled: list[float]
    majority: float
    train_words: int
    test_words: int
    tags: list[str]


@dataclass(frozen=True)
class ProbingResult(Result):
    """The accuracies of some models on one treebank."""

    models: Sequence[Probing]
    signature: Mapping[str, object]

    kind = "probing"
    title = "Parts of speech in the states of layers"
    about = (
        "How many words' parts of speech a linear classifier reads from the states of a layer; "
        "layer 0 are embeddings. Shuffled: of a classifier that has learned from tags in another "
        "order."
    )

    @property
    def findings(self) -> list[str]:
        found = []
        for model in self.models:
            best = max(range(len(model.accuracy)), key=model.accuracy.__getitem__)
            found.append(
                f"{model.name}: layer {best} tells the part of speech of most words, "
                f"{100 * model.accuracy[best]:.1f} % (the most frequent one alone: "
                f"{100 * model.majority:.1f} %)."
            )
        return found

    def blocks(self) -> list[Block]:
        curves = []
        rows: Rows = []
        for place, model in enumerate(self.models):
            curves.append(by_layer(model.name, _percent(model.accuracy), colour=place))
            name, shuffled = f"{model.name}, shuffled", _percent(model.shuffled)
            curves.append(by_layer(name, shuffled, dashed=True, colour=place))
            words = [len(model.tags), model.train_words, model.test_words]
            rows.append([model.name, *words, 100 * model.majority])
        columns = ["model", "tags", "words to learn from", "words to test on"]
        title = "Accuracy of parts of speech (UPOS) in %"
        return [
            Curves(title, "layer", "accuracy in %", curves, decimals=1, zero=True),
            Table([*columns, "most frequent tag in %"], rows, decimals=1, name="words"),
        ]


def _percent(shares: Sequence[float]) -> list[float]:
    return [100 * share for share in shares]


def split_of(sentences: np.ndarray, test_share: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Places of the words to learn from, and of those of other sentences, which are drawn.

    Args:
        sentences: the sentence of each word, (N,).
        test_share: how many of the sentences.
    """
    drawn = np.random.default_rng([seed, 0]).permutation(np.unique(sentences))
    in_test = np.isin(sentences, drawn[: round(test_share * len(drawn))])
    if in_test.all() or not in_test.any():
        raise InputError(
            f"the treebank has {len(drawn)} sentences: too few to learn from some and test on "
            "others; use a larger one, or another --test-share"
        )
    return np.flatnonzero(~in_test), np.flatnonzero(in_test)


def probe(
    text: ReadText,
    trees: Sequence[Tree],
    *,
    test_share: float = 0.2,
    seed: int = 1,
    max_tokens: int = 4000,
    progress: Progress | None = None,
) -> Probing:
    """Accuracies of a classifier for each layer.

    Args:
        text: the sentences of the trees as a model reads them.
    """
    tokens = tokens_of(text, unknown_too=True)
    sentences, tags = tagged_words(tokens, trees)
    names, numbers = np.unique(tags, return_inverse=True)
    ours, others = split_of(sentences, test_share, seed)
    labels = torch.from_numpy(numbers)
    train_labels, test_labels = labels[ours], labels[others]
    shuffled_labels = labels[np.random.default_rng([seed, 1]).permutation(ours)]
    accuracies: tuple[list[float], list[float]] = ([], [])
    of_layers = kept_states(  # a state for each word, the mean of its pieces'
        text,
        tokens,
        np.arange(len(tokens.types)),
        rows=tokens.text_words,
        max_tokens=max_tokens,
        progress=progress,
    )
    for of_layer in over(of_layers, f"{text.name} classifiers", unit="layers"):
        known = of_layer[ours]
        scaled = (of_layer - known.mean(0)) / known.std(0).clamp(min=1e-6)
        for learned, found in zip((train_labels, shuffled_labels), accuracies, strict=True):
            weight, bias = train(scaled[ours], learned, len(names))
            found.append(share_equal((scaled[others] @ weight + bias).argmax(1), test_labels))
    majority = share_equal(train_labels.bincount().argmax(), test_labels)
    return Probing(text.name, *accuracies, majority, len(ours), len(others), names.tolist())


def share_equal(found: Tensor, expected: Tensor) -> float:
    return float((found == expected).float().mean())


def tagged_words(tokens: Tokens, trees: Sequence[Tree]) -> tuple[np.ndarray, list[str]]:
    """The sentence and the tag of each word that the model reads a piece of."""
    _, first = np.unique(tokens.text_words, return_index=True)
    sentences = tokens.sentences[first]
    tags = []
    for sentence, word in zip(sentences.tolist(), tokens.words[first].tolist(), strict=True):
        tree = trees[sentence]
        if tree.tags[word] == NO_TAG:
            raise InputError(f"{tree.where}: word {word + 1} has no tag (UPOS)")
        tags.append(tree.tags[word])
    return sentences, tags


def train(states: Tensor, labels: Tensor, classes: int) -> tuple[Tensor, Tensor]:
    """W (C, K) and b (K,) of a softmax regression on standardised states (see ``objective``).

    From zero by L-BFGS, so that nothing is drawn at random.

    Args:
        states: (N, C).
        labels: (N,), integers below ``classes``, K.
    """
    weight = torch.zeros(states.shape[1], classes, requires_grad=True)
    bias = torch.zeros(classes, requires_grad=True)
    optimizer = torch.optim.LBFGS(
        [weight, bias], max_iter=STEPS, line_search_fn="strong_wolfe", tolerance_grad=1e-6
    )

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = objective(states, labels, weight, bias)
        loss.backward()
        return loss

    optimizer.step(closure)
    return weight.detach(), bias.detach()


def objective(states: Tensor, labels: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Mean cross-entropy of softmax(x W + b) + L2/2 · ‖W‖²."""
    errors = torch.nn.functional.cross_entropy(states @ weight + bias, labels)
    return errors + L2 / 2 * weight.square().sum()
