"""What the words of a bitext say of links: a hidden Markov model, counted without any gold.

Vogel et al. (1996): each target token is emitted by a source token, its *position*, or by none, and
the next one jumps from there. Tokens are translated by t(f | e), jumps of −12 … 12 have a weight
each, and a target token without a source token keeps the position (Och and Ney, 2003).

Tokens are pieces of words, by a BPE that is learned on the bitext: rare words are inflected or
composed of what is frequent. A word is linked with the probability of the surest of its pieces.

Both directions are counted by themselves; training them to agree was worse. Shapes: B pairs of a
batch, T target tokens, S source tokens.
"""

from __future__ import annotations

import base64
import functools
import io
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice, repeat
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_matrix
from scipy.special import digamma
from sentencepiece import SentencePieceProcessor, SentencePieceTrainer

from fairseq_normalign.attention.extract import to_words
from fairseq_normalign.errors import InputError
from fairseq_normalign.progress import over
from fairseq_normalign.text.paired import read_words

Words = Sequence[str]

ROUNDS_IBM_1 = 4  # Brown et al., 1993: without jumps
ROUNDS_HMM = 3  # 4 or 7 make no difference
NULL = 0.2  # the probability that a target token has no source token
PRIOR = 0.01  # of the Dirichlet prior on t(f | e); 0.1 is as good
FARTHEST = 12  # jumps beyond count as this
LEAST = 1e-9  # of t(f | e): a token may always be emitted
KEPT = 1e-4  # translations below are forgotten once all is counted
MOST_PAIRS = 250_000  # more make it slower, hardly better
LARGE = 20_000  # pairs of a corpus that is counted without being asked for
MERGES = 8000  # of the BPE; 4,000 and 16,000 are as good
MOST_PIECES = 150  # of a sentence that is counted
FAMILIAR = 0.5  # below this share of known words there is a warning
CELLS = 1_000_000  # of a batch
CACHED_WORDS = 1 << 18  # whose pieces are remembered
WINDOW = 1000  # pairs that are sorted by length together


class Posteriors(NamedTuple):
    """What a batch of pairs says, given the parameters."""

    links: np.ndarray  # (B, T, S): P(target token t is emitted by source token s)
    made: np.ndarray  # (1 + S, S): expected jumps from position j (0: the start) to s
    open: np.ndarray  # (1 + S, S): how often they could have been made, by their norm


def posteriors(
    emissions: np.ndarray, nulls: np.ndarray, is_source: np.ndarray, jumps: np.ndarray
) -> Posteriors:
    """Forward–backward over the positions of each pair.

    From position j, which may be the start (0), the next token has no source token with probability
    ``NULL``, and position s with (1 − NULL) w(s − j) / Σ_s' w(s' − j).

    Args:
        emissions: t(f_t | e_s), (B, T, S).
        nulls: the probability of each target token without a source token, (B, T).
        is_source: 1 for tokens, 0 for padding, (B, S).
        jumps: w(−12) … w(12).
    """
    batch, targets, sources = emissions.shape
    weights = jumps[_jump_numbers(sources)]  # (1 + S, S)
    norms = np.maximum(is_source @ weights.T, 1e-30)  # (B, 1 + S)
    emissions = (1 - NULL) * emissions * is_source[:, None]
    nulls = NULL * nulls
    forward = np.zeros((targets + 1, batch, 1 + sources), emissions.dtype)
    forward[0, :, 0] = 1
    linked = np.empty((targets, batch, sources), emissions.dtype)
    scales = np.empty((targets, batch, 1), emissions.dtype)
    for t in range(targets):
        linked[t] = (forward[t] / norms) @ weights * emissions[:, t]
        reached = forward[t] * nulls[:, t, None]
        reached[:, 1:] += linked[t]
        scales[t] = reached.sum(axis=1, keepdims=True)
        forward[t + 1] = reached / scales[t]
    backward = np.ones((batch, 1 + sources), emissions.dtype)
    links = np.empty_like(emissions)
    made = np.zeros_like(weights)
    opportunities = np.zeros_like(weights)
    for t in reversed(range(targets)):
        entered = backward[:, 1:] / scales[t]
        links[:, t] = linked[t] * entered
        arriving = emissions[:, t] * entered
        leaving = forward[t] / norms
        onwards = arriving @ weights.T  # (B, 1 + S)
        made += leaving.T @ arriving * weights
        opportunities += (leaving / norms * onwards).T @ is_source
        backward = onwards / norms + nulls[:, t, None] * backward / scales[t]
    return Posteriors(links, made, opportunities)


def _jump_numbers(sources: int) -> np.ndarray:
    """Which weight the jump from each position to each source token has, (1 + S, S)."""
    jumps = np.arange(sources) - np.arange(-1, sources)[:, None]
    return np.clip(jumps, -FARTHEST, FARTHEST) + FARTHEST


class Batch(NamedTuple):
    """Pairs with the same number of target tokens, and about as many source tokens."""

    pairs: list[int]  # their numbers
    targets: np.ndarray  # (B, T)
    sources: np.ndarray  # (B, S), 0 for padding
    is_source: np.ndarray  # (B, S)


def batches(pairs: Sequence[tuple[np.ndarray, np.ndarray]]) -> Iterator[Batch]:
    """Pairs of numbers (source, target) by length; those with an empty side have no links."""
    by_length: dict[tuple[int, int], list[int]] = {}
    for number, (source, target) in enumerate(pairs):
        if len(source) and len(target):
            by_length.setdefault((len(target), -(-len(source) // 4) * 4), []).append(number)
    for (targets, sources), numbers in by_length.items():
        size = max(1, CELLS // (targets * sources))
        for start in range(0, len(numbers), size):
            chosen = numbers[start : start + size]
            padded = np.zeros((len(chosen), sources), np.intp)
            is_source = np.zeros((len(chosen), sources), np.float32)
            for row, number in enumerate(chosen):
                source = pairs[number][0]
                padded[row, : len(source)] = source
                is_source[row, : len(source)] = 1
            yield Batch(chosen, np.stack([pairs[n][1] for n in chosen]), padded, is_source)


class Direction(NamedTuple):
    """Source pieces that emit target pieces: what was counted in one direction."""

    table: csr_matrix  # t(f | e): source by target pieces
    jumps: np.ndarray  # of −12 … 12
    unigrams: np.ndarray  # of target pieces

    def links(self, pairs: Sequence[tuple[np.ndarray, np.ndarray]]) -> list[np.ndarray]:
        """P(link) of each pair, (T, S)."""
        links = [np.zeros((len(target), len(source)), np.float32) for source, target in pairs]
        for batch, emissions in _looked_up(self.table, batches(pairs)):
            emissions = np.maximum(emissions, np.float32(LEAST))
            nulls = self.unigrams[batch.targets]
            found = posteriors(emissions, nulls, batch.is_source, self.jumps).links
            for number, of_pair in zip(batch.pairs, found, strict=True):
                links[number][:] = of_pair[:, : links[number].shape[1]]
        return links

    def as_json(self) -> dict[str, Any]:
        """The numbers, to the last bit."""
        return {
            "table": [
                part.tolist() for part in (self.table.data, self.table.indices, self.table.indptr)
            ],
            "jumps": self.jumps.tolist(),
            "unigrams": self.unigrams.tolist(),
        }

    @classmethod
    def from_json(cls, contents: dict[str, Any], size: int) -> Direction:
        """Reads what :meth:`as_json` has made."""
        data, indices, ends = contents["table"]
        parts = np.array(data, np.float32), np.array(indices, np.int32), np.array(ends, np.int32)
        table = csr_matrix(parts, (size, size))
        table.check_format(full_check=True)
        jumps = np.array(contents["jumps"], np.float32).reshape(2 * FARTHEST + 1)
        unigrams = np.array(contents["unigrams"], np.float32).reshape(size)
        for probabilities in (table.data, jumps, unigrams):
            if not np.all((probabilities >= 0) & (probabilities <= 1)):
                raise ValueError("not probabilities")
        return cls(table, jumps, unigrams)


def _looked_up(table: csr_matrix, batches: Iterable[Batch]) -> Iterator[tuple[Batch, np.ndarray]]:
    """Each batch with the entries of its cells, (B, T, S); many batches at once are faster."""
    waiting: list[Batch] = []
    cells = 0
    for batch in chain(batches, [None]):
        if batch is not None:
            waiting.append(batch)
            cells += batch.targets.size * batch.sources.shape[1]
        if batch is None or cells >= 8 * CELLS:
            shapes = [(*one.targets.shape, one.sources.shape[1]) for one in waiting]
            rows, columns = [], []
            for one, shape in zip(waiting, shapes, strict=True):
                rows.append(np.broadcast_to(one.sources[:, None], shape).ravel())
                columns.append(np.broadcast_to(one.targets[:, :, None], shape).ravel())
            if waiting:
                entries = np.asarray(table[np.concatenate(rows), np.concatenate(columns)]).ravel()
                ends = np.cumsum([np.prod(shape) for shape in shapes])[:-1]
                for one, shape, of_batch in zip(
                    waiting, shapes, np.split(entries, ends), strict=True
                ):
                    yield one, of_batch.reshape(shape)
            waiting, cells = [], 0


def count_direction(pairs: Sequence[tuple[np.ndarray, np.ndarray]], size: int) -> Direction:
    """Counts one direction: IBM model 1, then jumps as well.

    t(f | e) is taken from the counts c by variational Bayes (Johnson, 2007):
    exp ψ(c(e, f) + α) / exp ψ(Σ_f c(e, f) + α), over all f that occur together with e.

    Args:
        pairs: numbers of source and target pieces.
        size: how many pieces there are.
    """
    table = _together(pairs, size)  # its data are where the probability of a cell is kept
    targets = np.bincount(np.concatenate([target for _, target in pairs]), minlength=size)
    unigrams = (targets / max(targets.sum(), 1)).astype(np.float32)
    kept = list(_looked_up(table, batches(pairs)))
    of_rows = np.repeat(np.arange(size), np.diff(table.indptr))
    together = np.bincount(of_rows, minlength=size)
    probabilities = np.full(table.nnz + 1, 1.0, np.float32)  # all alike, at first
    jumps = np.ones(2 * FARTHEST + 1, np.float32)
    for turn in over(range(ROUNDS_IBM_1 + ROUNDS_HMM), "counting", unit="rounds"):
        counts = np.zeros(table.nnz + 1)
        made, opportunities = np.full((2, len(jumps)), 1e-6)
        for batch, places in kept:
            emissions = np.maximum(probabilities[places], np.float32(LEAST))
            nulls = unigrams[batch.targets]
            if turn < ROUNDS_IBM_1:
                links = _without_jumps(emissions, nulls, batch.is_source)
            else:
                links, jumped, could = posteriors(emissions, nulls, batch.is_source, jumps)
                numbers = _jump_numbers(links.shape[2])
                np.add.at(made, numbers, jumped)
                np.add.at(opportunities, numbers, could)
            np.add.at(counts, places.ravel(), links.ravel().astype(float))
        prior = counts[1:] + PRIOR
        sums = np.bincount(of_rows, counts[1:], size) + PRIOR * together
        logarithm = digamma(prior) - digamma(sums)[of_rows]
        probabilities[1:] = np.exp(np.maximum(logarithm, -100))
        if turn >= ROUNDS_IBM_1:
            jumps = (made / opportunities).astype(np.float32)
            jumps /= jumps.sum()
    learned = csr_matrix((probabilities[1:], table.indices, table.indptr), table.shape)
    learned.data[learned.data < KEPT] = 0
    learned.eliminate_zeros()
    return Direction(learned, jumps, unigrams)


def _together(pairs: Sequence[tuple[np.ndarray, np.ndarray]], size: int) -> csr_matrix:
    """The pieces that occur in a pair together, numbered 1, 2, … (source by target pieces)."""
    sides = []
    for side in (0, 1):
        indices = np.concatenate([pair[side] for pair in pairs])
        ends = np.cumsum([0, *(len(pair[side]) for pair in pairs)])
        shape = (len(pairs), size)
        sides.append(csr_matrix((np.ones(len(indices), np.float32), indices, ends), shape))
    table = sides[0].T.tocsr() @ sides[1]
    table.sort_indices()
    table.data = np.arange(1, table.nnz + 1, dtype=np.int32)
    return table


def _without_jumps(emissions: np.ndarray, nulls: np.ndarray, is_source: np.ndarray) -> np.ndarray:
    """P(link) where every position is equally likely (IBM model 1), (B, T, S)."""
    share = (1 - NULL) * is_source / is_source.sum(axis=1, keepdims=True)
    links = emissions * share[:, None]
    links /= links.sum(axis=2, keepdims=True) + NULL * nulls[:, :, None]
    return links


class Pieces:
    """Words as numbers of pieces, of one BPE for both languages (Sennrich et al., 2016).

    Args:
        model: of SentencePiece.
    """

    def __init__(self, model: bytes):
        self.model = model
        self.processor = SentencePieceProcessor(model_proto=model)
        self.of_word = functools.lru_cache(CACHED_WORDS)(
            lambda word: self.processor.encode(word) or [0]
        )

    @classmethod
    def learn(cls, counts: Counter[str]) -> Pieces:
        """Merges what is frequent, from characters on.

        Args:
            counts: how often each word occurs.
        """
        model = io.BytesIO()
        characters = set(chain.from_iterable(counts))
        SentencePieceTrainer.train(
            sentence_iterator=(f"{word}\t{count}" for word, count in counts.items()),
            input_format="tsv",
            model_writer=model,
            model_type="bpe",
            vocab_size=MERGES + len(characters),
            hard_vocab_limit=False,  # small texts have fewer pieces
            character_coverage=1.0,
            normalization_rule_name="identity",
            split_by_unicode_script=False,
            split_by_number=False,
            minloglevel=3,
        )
        return cls(model.getvalue())

    def __call__(self, words: Words) -> tuple[np.ndarray, list[int]]:
        """The numbers of all pieces, and the place of each one's word."""
        numbers: list[int] = []
        places: list[int] = []
        for place, word in enumerate(words):
            pieces = self.of_word(word)
            numbers += pieces
            places += repeat(place, len(pieces))
        return np.array(numbers, np.int32), places


class Bitext:
    """What a bitext says of the links of its own pairs, and of others.

    Args:
        pieces: of words of both languages.
        forward: source pieces that emit target pieces.
        backward: target pieces that emit source pieces.
        pairs: in how many it was counted.
    """

    def __init__(self, pieces: Pieces, forward: Direction, backward: Direction, pairs: int):
        self.pieces, self.forward, self.backward, self.pairs = pieces, forward, backward, pairs

    def links(self, pairs: Iterable[tuple[Words, Words]]) -> Iterator[list[np.ndarray]]:
        """For each pair, P(link) by the source and by the target words, (T, S). Streams."""
        waiting = iter(pairs)
        while window := list(islice(waiting, WINDOW)):
            split = [(self.pieces(source), self.pieces(target)) for source, target in window]
            numbers = [(source, target) for (source, _), (target, _) in split]
            forward = self.forward.links(numbers)
            backward = self.backward.links([(target, source) for source, target in numbers])
            for one, other, ((_, of_source), (_, of_target)) in zip(
                forward, backward, split, strict=True
            ):
                by_source = to_words(one, of_source, of_target, "sum+max")
                by_target = to_words(other, of_target, of_source, "sum+max")
                yield [by_source, by_target.T]

    def soft(self, pairs: Iterable[tuple[Words, Words]]) -> Iterator[np.ndarray]:
        """For each pair, the geometric mean of P(link) by the source and by the target words."""
        return (np.sqrt(one * other) for one, other in self.links(pairs))

    def as_json(self) -> dict[str, Any]:
        """The counts, to the last bit."""
        return {
            "pieces": base64.b64encode(self.pieces.model).decode(),
            "forward": self.forward.as_json(),
            "backward": self.backward.as_json(),
            "pairs": self.pairs,
        }

    @classmethod
    def from_json(cls, contents: dict[str, Any]) -> Bitext:
        """Reads what :meth:`as_json` has made."""
        try:
            pieces = Pieces(base64.b64decode(contents["pieces"], validate=True))
            pieces(["an empty model cannot split"])
        except RuntimeError as error:
            raise ValueError("not a model of SentencePiece") from error
        size = len(pieces.processor)
        forward, backward = (
            Direction.from_json(contents[name], size) for name in ("forward", "backward")
        )
        return cls(pieces, forward, backward, int(contents["pairs"]))


def bitext_of(
    named: Sequence[str],
    corpus: Sequence[str],
    first: Sequence[tuple[Words, Words]],
    least: int = LARGE,
) -> Bitext | None:
    """What files say, and the corpus that is to be aligned; None if there is too little of it.

    Args:
        named: source and target, or one file of lines ``source ||| target``; perhaps none.
        corpus: the same, if it can be read once more.
        first: the first pairs of the corpus.
        least: how many pairs a corpus needs to count without other files.
    """
    own: Iterable[tuple[Words, Words]] = read_words(corpus) if corpus else first
    if not named:
        return count_bitext(own, least) if corpus else None
    seen: tuple[set[str], set[str]] = (set(), set())
    names = " and ".join(named)
    is_corpus = [Path(name).resolve() for name in named] == [
        Path(name).resolve() for name in corpus
    ]
    own = islice(own, 0 if is_corpus else MOST_PAIRS // 2)  # leaves room for the files
    bitext = count_bitext(chain(own, _remembered(read_words(named), seen)))
    if bitext is None or not all(seen):
        raise InputError(
            f"{names}: no sentence pairs to count; expected translated text, one pair a line"
        )
    known, turned = _known_share(first, seen), _known_share(first, seen[::-1])
    if turned > known and turned >= FAMILIAR:
        raise InputError(
            f"{names}: source and target are swapped: {known:.0%} of the corpus's words are "
            f"found as given, {turned:.0%} the other way round; name the source first"
        )
    if known < FAMILIAR:
        warnings.warn(
            f"{names}: only {known:.0%} of the words of one side of the corpus are in this bitext; "
            "are languages and tokenisation the same?",
            stacklevel=2,
        )
    return bitext


def _remembered(
    pairs: Iterable[tuple[Words, Words]], seen: tuple[set[str], set[str]]
) -> Iterator[tuple[Words, Words]]:
    """The pairs again; adds their words to those that were seen."""
    for pair in pairs:
        for words, of_side in zip(pair, seen, strict=True):
            of_side.update(words)
        yield pair


def _known_share(pairs: Sequence[tuple[Words, Words]], seen: Sequence[set[str]]) -> float:
    """How many of the words of some pairs were seen, on the side where fewer were."""
    shares = []
    for side, of_side in enumerate(seen):
        known = [word in of_side for pair in pairs for word in pair[side]]
        shares.append(sum(known) / max(len(known), 1))
    return min(shares)


def count_bitext(pairs: Iterable[tuple[Words, Words]], least: int = 1) -> Bitext | None:
    """Counts both directions in the first 250,000 pairs; long ones and empty sides are left out.

    None if fewer than ``least`` pairs are left.
    """
    names: dict[str, str] = {}  # each word once: there are few in many pairs
    texts = []
    counts: Counter[str] = Counter()
    for source, target in islice(pairs, MOST_PAIRS):
        if 0 < len(source) <= MOST_PIECES and 0 < len(target) <= MOST_PIECES:
            sides = [[names.setdefault(word, word) for word in side] for side in (source, target)]
            texts.append(sides)
            counts.update(chain.from_iterable(sides))
    if len(texts) < least:
        return None
    pieces = Pieces.learn(counts)
    numbers = []
    for sides in texts:
        (of_source, _), (of_target, _) = map(pieces, sides)
        if max(len(of_source), len(of_target)) <= MOST_PIECES:
            numbers.append((of_source, of_target))
    if len(numbers) < least:
        return None
    turned = [(target, source) for source, target in numbers]
    forward, backward = (count_direction(way, len(pieces.processor)) for way in (numbers, turned))
    return Bitext(pieces, forward, backward, len(numbers))
