"""Trains an alignment head on links of words, on the states of a model that stays as it is."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from os import SEEK_END

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.utils.rnn import pad_sequence

from fairseq_normalign.alignment.combine import link_matrix
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


class Corpus:
    """What an alignment head reads of pairs, and what that is linked to.

    States are written once and read in each epoch: to a temporary file, in half precision, so that
    memory stays small. The file has no name: it is gone when the corpus is, whatever happens.
    """

    def __init__(self) -> None:
        self.file = tempfile.TemporaryFile()  # noqa: SIM115  (closed with the corpus)
        self.starts: dict[int, int] = {}  # where the states of a pair begin, in bytes
        # By the number of the pair: links of its rows, (T, S), and what each row counts, (T,).
        self.labels: dict[int, tuple[np.ndarray, np.ndarray]] = {}

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
            known = {n: pair for n, pair in batch if links[n] and not pair.skipped}
            if not known:
                continue
            queries, keys, _ = head_states(forcing, list(known.values()))
            for place, (number, (source, target, *_)) in enumerate(known.items()):
                states = queries[place, : len(target.tokens)], keys[place, : len(source.tokens)]
                corpus.add(number, *states)
                shape = (len(target.text), len(source.text))
                of_words = link_matrix(links[number], shape, known[number].where)
                labels = row_labels(of_words, source.words, target.words, null_weight=null_weight)
                corpus.labels[number] = labels
        return corpus

    def add(self, number: int, queries: Tensor, keys: Tensor) -> None:
        """Stores the states (T, Q) and (S, K) of the pair that has this number."""
        self.starts[number] = self.file.seek(0, SEEK_END)
        try:
            for states in (queries, keys):
                np.save(self.file, states.half().cpu().numpy())
        except OSError as error:
            raise InputError(
                f"{tempfile.gettempdir()}: the states of {len(self.starts)} pairs fill it "
                f"({error.strerror}); expected fewer pairs, or another folder by TMPDIR"
            ) from None

    def batch(self, numbers: Sequence[int]) -> tuple[HeadStates, Tensor, Tensor]:
        """States of some pairs, links (B, T, S) and what rows count (B, T), padded on the right."""
        columns = max(self.labels[number][0].shape[1] for number in numbers)
        queries: list[Tensor] = []
        keys: list[Tensor] = []
        padding, links, weights = [], [], []
        for number in numbers:
            of_links, of_weights = map(torch.from_numpy, self.labels[number])
            sources = of_links.shape[1]
            self.file.seek(self.starts[number])
            for states in (queries, keys):
                states.append(torch.from_numpy(np.load(self.file, allow_pickle=False)).float())
            padding.append(torch.arange(columns) >= sources)
            links.append(functional.pad(of_links, (0, columns - sources)))
            weights.append(of_weights)
        pad = partial(pad_sequence, batch_first=True)
        return HeadStates(pad(queries), pad(keys), torch.stack(padding)), pad(links), pad(weights)

    def batches(self, numbers: Sequence[int], max_tokens: int) -> list[list[int]]:
        """Pairs of similar length together."""
        lengths = [max(self.labels[number][0].shape) for number in numbers]
        return [[numbers[place] for place in batch] for batch in batches(lengths, max_tokens)]


def row_labels(
    links: np.ndarray, source_ids: Sequence[int], target_ids: Sequence[int], *, null_weight: float
) -> tuple[np.ndarray, np.ndarray]:
    """Links of words → links of the decoder's rows, each row being that of the token it reads.

    Row t reads token t − 1; row 0 reads what starts a sentence. Every piece of a word is linked to
    every piece of the words that the word is linked to. A word without links is linked to the marks
    of the source, as </s>.

    Args:
        links: of words, (target, source), not 0 where there is one.
        source_ids: the word of each source token, -1 for marks.
        target_ids: the word of each target token, -1 for marks; the last one is a mark.
        null_weight: what a row counts whose word has no links. Others count 1; rows that read a
            mark, or whose links are to words without tokens, count 0.

    Returns:
        (T, S), and what each row counts, (T,).
    """
    of_words = np.pad(links.astype(bool), (0, 1))  # the last row and column are marks
    unlinked = ~of_words.any(axis=1)
    of_words[unlinked, -1] = True
    weights = np.where(unlinked, null_weight, 1.0)
    weights[-1] = 0
    rows = np.array([-1, *target_ids[:-1]])
    labels = of_words[rows][:, np.array(source_ids)]
    return labels, (weights[rows] * labels.any(axis=1)).astype(np.float32)


def train_head(
    corpus: Corpus,
    options: TrainingOptions,
    *,
    progress: Callable[[int, float], object] = lambda pairs, loss: None,
) -> tuple[AlignmentHead, list[tuple[float, float]]]:
    """The head with the least loss on held-out pairs, and how each epoch went.

    Args:
        progress: called with the number of pairs that were learned from, and their loss.

    Returns:
        The head; and for each epoch its loss, and that on held-out pairs, in nats for each row
        that counts, by its weight.
    """
    rng = np.random.default_rng(options.seed)
    learned, held_out = _split(sorted(corpus.labels), options.held_out, rng)
    generator = torch.Generator().manual_seed(options.seed)
    (queries, keys, _), _, _ = corpus.batch(learned[:1])
    inputs = with_neighbours(queries).shape[-1], keys.shape[-1]
    head = AlignmentHead.random(*inputs, width=options.width, generator=generator)
    learned_batches = corpus.batches(learned, options.batch_tokens)
    held_out_batches = corpus.batches(held_out, options.batch_tokens)
    total, done = options.epochs * len(learned_batches), 0
    optimizer = torch.optim.Adam([part.requires_grad_() for part in head])
    best, least = head, _mean_loss(corpus, head, held_out_batches)
    history: list[tuple[float, float]] = []
    for _ in range(options.epochs):
        losses = []
        for place in rng.permutation(len(learned_batches)):
            batch = learned_batches[place]
            optimizer.param_groups[0]["lr"] = _rate(options, done, total)
            loss = _update(head, optimizer, corpus.batch(batch), options.dropout, generator)
            losses.append(loss)
            progress(len(batch), loss)
            done += 1
        held_out_loss = _mean_loss(corpus, head, held_out_batches)
        history.append((float(np.mean(losses)), held_out_loss))
        if held_out_loss >= least:
            break
        best, least = AlignmentHead(*[part.detach().clone() for part in head]), held_out_loss
    return best, history


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


def _rate(options: TrainingOptions, done: int, total: int) -> float:
    """The learning rate, which rises and then falls to 0."""
    rise = min(1.0, (done + 1) / min(WARM_UP, total))
    return options.learning_rate * rise * (1 - done / total)


def _update(
    head: AlignmentHead,
    optimizer: torch.optim.Optimizer,
    batch: tuple[HeadStates, Tensor, Tensor],
    dropout: float,
    generator: torch.Generator,
) -> float:
    """One update; returns the loss before it."""
    (queries, keys, padding), links, weights = batch
    dropped = _dropped(queries, dropout, generator), _dropped(keys, dropout, generator)
    loss = _loss(head, (HeadStates(*dropped, padding), links, weights))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return float(loss.detach())


def _loss(head: AlignmentHead, batch: tuple[HeadStates, Tensor, Tensor]) -> Tensor:
    (queries, keys, padding), links, weights = batch
    return link_loss(log_shares(head, with_neighbours(queries), keys, padding), links, weights)


def _dropped(states: Tensor, rate: float, generator: torch.Generator) -> Tensor:
    """The states with some numbers at 0 and the others larger, so that the mean stays."""
    if rate == 0:
        return states
    kept = torch.rand(states.shape, generator=generator) >= rate
    return states * kept / (1 - rate)


def _mean_loss(corpus: Corpus, head: AlignmentHead, numbers: Sequence[Sequence[int]]) -> float:
    """The loss on some batches, each row by its weight."""
    total = weight = 0.0
    with torch.no_grad():
        for batch in numbers:
            read = corpus.batch(batch)
            of_batch = float(read[-1].sum())
            total += of_batch * float(_loss(head, read))
            weight += of_batch
    return total / max(weight, 1e-9)
