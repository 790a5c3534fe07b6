"""Trains an alignment head on links of words, on the states of a model that stays as it is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from fairseq_normalign.alignment.link_labels import row_labels
from fairseq_normalign.alignment.state_store import StateStore
from fairseq_normalign.attention.trained_head import (
    AlignmentHead,
    HeadStates,
    head_states,
    link_loss,
    log_shares,
    with_neighbours,
)
from fairseq_normalign.errors import InputError
from fairseq_normalign.host.batches import batches, numbered_batches
from fairseq_normalign.host.pairs import Pair
from fairseq_normalign.host.teacher_forcing import TeacherForcing
from fairseq_normalign.text.links import Link

WARM_UP = 50  # updates
MOST_HELD_OUT = 500  # pairs
LEAST_PAIRS = 2  # one to learn from, one to see whether it helps


@dataclass(frozen=True)
class TrainingOptions:
    """Every choice that moves the head.

    Args:
        epochs: at most; training ends when the loss on held-out pairs has stopped falling.
        width: of the head, D.
        dropout: of what the head reads.
        learning_rate: at its peak; it rises for 50 updates, then falls to 0 at the last epoch.
        null_weight: what a target word without links counts, beside one with links.
        held_out: which share of the pairs is not learned from (500 pairs at most).
        seed: draws the first weights, the held-out pairs, and the order of batches.
        batch_tokens: how many tokens, padding included, an update is of.
    """

    epochs: int = 6
    width: int = 256
    dropout: float = 0.2
    learning_rate: float = 1e-3
    null_weight: float = 0.3
    held_out: float = 0.05
    seed: int = 1
    batch_tokens: int = 2000


class Epoch(NamedTuple):
    """How far training is: nats for each row that counts, by its weight."""

    number: int  # from 1
    loss: float
    held_out: float


class Labels(NamedTuple):
    """What the rows of a pair are linked to: (T, S), and what each row counts: (T,)."""

    links: np.ndarray
    weights: np.ndarray


class Example(NamedTuple):
    """A batch to learn from, or to measure the loss of."""

    states: HeadStates
    links: Tensor  # (B, T, S)
    weights: Tensor  # (B, T)


class Corpus:
    """The states of pairs, stored, and what they are linked to."""

    def __init__(self) -> None:
        self.states = StateStore()
        self.labels: dict[int, Labels] = {}

    @classmethod
    def read(
        cls,
        forcing: TeacherForcing,
        pairs: Iterable[Pair],
        links: Sequence[Iterable[Link]],
        *,
        null_weight: float,
        max_tokens: int,
        progress: Callable[[int], object] | None = None,
    ) -> Corpus:
        """Runs the model over all pairs; those that are too long, or without any links, are out.

        Args:
            links: of words, (source, target), for each pair.
        """
        corpus = cls()
        for batch in numbered_batches(pairs, max_tokens=max_tokens, progress=progress):
            known = [(number, pair) for number, pair in batch if links[number]]
            known = [(number, pair) for number, pair in known if not pair.skipped]
            if not known:
                continue
            queries, keys, _ = head_states(forcing, [pair for _, pair in known])
            for place, (number, pair) in enumerate(known):
                targets, sources = len(pair.target.tokens), len(pair.source.tokens)
                corpus.states.add(number, queries[place, :targets], keys[place, :sources])
                corpus.labels[number] = Labels(
                    *row_labels(
                        _checked(links[number], pair),
                        pair.source.words,
                        pair.target.words,
                        null_weight=null_weight,
                    )
                )
        return corpus

    @property
    def widths(self) -> tuple[int, int]:
        """Those of queries, with their neighbours, and keys."""
        _, queries, keys = next(iter(self.states.places.values()))
        return 3 * queries[1], keys[1]

    def batches(self, numbers: Sequence[int], max_tokens: int) -> list[list[int]]:
        """Pairs of similar length together."""
        lengths = [max(self.labels[number].links.shape) for number in numbers]
        return [[numbers[place] for place in batch] for batch in batches(lengths, max_tokens)]

    def example(self, numbers: Sequence[int]) -> Example:
        states = self.states.batch(numbers)
        rows, columns = states.queries.shape[1], states.keys.shape[1]
        links = torch.zeros(len(numbers), rows, columns, dtype=torch.bool)
        weights = torch.zeros(len(numbers), rows)
        for place, number in enumerate(numbers):
            labels = self.labels[number]
            targets, sources = labels.links.shape
            links[place, :targets, :sources] = torch.from_numpy(labels.links)
            weights[place, :targets] = torch.from_numpy(labels.weights)
        return Example(states, links, weights)


def _checked(links: Iterable[Link], pair: Pair) -> Iterator[Link]:
    sources, targets = len(pair.source.text), len(pair.target.text)
    for source, target in links:
        if source >= sources or target >= targets:
            raise InputError(
                f"{pair.where}: link {source}-{target} of {sources} and {targets} words; expected "
                "links of this text, counted from 0"
            )
        yield source, target


def train_head(
    corpus: Corpus,
    options: TrainingOptions,
    *,
    progress: Callable[[int, float], object] = lambda pairs, loss: None,
) -> tuple[AlignmentHead, list[Epoch]]:
    """The head with the least loss on held-out pairs, and how each epoch went.

    Args:
        progress: called with the number of pairs that were learned from, and their loss.
    """
    rng = np.random.default_rng(options.seed)
    learned, held_out = _split(sorted(corpus.labels), options.held_out, rng)
    generator = torch.Generator().manual_seed(options.seed)
    head = AlignmentHead.random(*corpus.widths, width=options.width, generator=generator)
    learned_batches = corpus.batches(learned, options.batch_tokens)
    held_out_batches = corpus.batches(held_out, options.batch_tokens)
    updates = _Updates(head, options, total=options.epochs * len(learned_batches))
    best, history = head, [Epoch(0, float("nan"), _loss(corpus, head, held_out_batches))]
    for number in range(1, options.epochs + 1):
        losses = []
        for place in rng.permutation(len(learned_batches)):
            batch = learned_batches[place]
            losses.append(updates(corpus.example(batch), generator))
            progress(len(batch), losses[-1])
        epoch = Epoch(number, float(np.mean(losses)), _loss(corpus, head, held_out_batches))
        if epoch.held_out >= min(past.held_out for past in history):
            history.append(epoch)
            break
        history.append(epoch)
        best = AlignmentHead(*[part.detach().clone() for part in head])
    return best, history[1:]


def held_out_size(pairs: int, share: float) -> int:
    """How many of so many pairs are not learned from."""
    return min(MOST_HELD_OUT, max(1, round(share * pairs)))


def _split(
    numbers: list[int], share: float, rng: np.random.Generator
) -> tuple[list[int], list[int]]:
    """Pairs to learn from, and others to see when to stop."""
    if len(numbers) < LEAST_PAIRS:
        raise InputError(
            f"{len(numbers)} pairs have links; expected {LEAST_PAIRS} or more to learn from"
        )
    count = held_out_size(len(numbers), share)
    drawn = rng.permutation(numbers).tolist()
    return sorted(drawn[count:]), sorted(drawn[:count])


class _Updates:
    """Adam on the weights of a head, with a rate that rises and then falls to 0."""

    def __init__(self, head: AlignmentHead, options: TrainingOptions, *, total: int) -> None:
        self.head, self.options, self.total = head, options, total
        self.done = 0
        for part in head:
            part.requires_grad_()
        self.optimizer = torch.optim.Adam(list(head), lr=options.learning_rate)

    def __call__(self, example: Example, generator: torch.Generator) -> float:
        """One update; returns the loss before it."""
        rise = min(1.0, (self.done + 1) / min(WARM_UP, self.total))
        for group in self.optimizer.param_groups:
            group["lr"] = self.options.learning_rate * rise * (1 - self.done / self.total)
        states = example.states
        queries = with_neighbours(_dropped(states.queries, self.options.dropout, generator))
        keys = _dropped(states.keys, self.options.dropout, generator)
        shares = log_shares(self.head, queries, keys, states.padding)
        loss = link_loss(shares, example.links, example.weights)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.done += 1
        return float(loss.detach())


def _dropped(states: Tensor, rate: float, generator: torch.Generator) -> Tensor:
    """The states with some numbers at 0 and the others larger, so that the mean stays."""
    if rate == 0:
        return states
    kept = torch.rand(states.shape, generator=generator) >= rate
    return states * kept / (1 - rate)


def _loss(corpus: Corpus, head: AlignmentHead, numbers: Sequence[Sequence[int]]) -> float:
    """The loss on some batches, each row by its weight."""
    total = weight = 0.0
    with torch.no_grad():
        for batch in numbers:
            (queries, keys, padding), links, weights = corpus.example(batch)
            shares = log_shares(head, with_neighbours(queries), keys, padding)
            of_batch = float(weights.sum())
            total += of_batch * float(link_loss(shares, links, weights))
            weight += of_batch
    return total / max(weight, 1e-9)
