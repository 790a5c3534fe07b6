"""How far each evidence of a link can be trusted, learned on a corpus without gold.

A model that is trained on its own predictions only repeats them. So weights are learned from
labels of the other *view*:

1. Evidences come in groups: a model and step, or the links of another aligner. The evidence whose
   links predict words best (``word_gain``) votes for its group, if it does so at least a quarter
   as well as the best of all groups.
2. The groups that vote are split into two *views*: two models; or two steps of one model; or one
   of these and another aligner's links.
3. A logistic model of all evidences is fitted to the links that the votes' product finds. The
   steps of one model err alike, so that a bitext votes as well, if it is good enough: if it agrees
   with each of them no less than they agree with each other.
4. Each view is fitted to the links of the *other* view, and so is how much more the clues
   (``clues``), and links of other aligners, say than the view itself. This is their weight.

The two views make different errors, so that uninformative features get weight 0. This is done
once: if the labels were made with the clues, the clues would confirm themselves.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import chain, islice
from typing import Any, NamedTuple

import numpy as np

from fairseq_normalign.alignment.bitext import Bitext
from fairseq_normalign.alignment.combine import (
    FLOOR,
    LinkModel,
    Shares,
    as_matrix,
    fit_inputs,
    fit_links,
    geometric_mean,
    log_shares,
    two_softmaxes,
)
from fairseq_normalign.alignment.gain import gains, word_gain
from fairseq_normalign.alignment.lexicon import Lexicon
from fairseq_normalign.attention.extract import absolute, relative
from fairseq_normalign.text.words import is_punctuation

NEIGHBOURS = {  # (target, source) steps to cells that are linked where a cell is
    "next": ((-1, -1), (1, 1)),
    "farther": ((-2, -2), (-1, -2), (-2, -1), (2, 2), (1, 2), (2, 1)),
    "crossing": ((-1, 1), (1, -1)),
}
CLUES = (
    "lexicon",
    *NEIGHBOURS,
    "identical",
    "position",
    "spelling",
    "punctuation",
    "bitext",
    "bitext-reverse",
)
LEAST_NEIGHBOURS = 0.01  # a neighbourhood without links should not forbid one
# Cells of a product that count as links when a model is learned: its own share.
AGREED_SHARE = 0.75
INFORMED = 0.25  # a vote needs this share of the best one's gain
LEAST_WEIGHT = 0.5  # of a view, by which the weights of clues are divided
# The log odds of no link: where clues are taken from, and what is chosen from for the links. The
# first was chosen on the odd lines of the RWTH German–English gold; AER hardly depends on it. How
# the null is chosen was decided there and on the development pairs of XL-WA's English–Spanish.
NULL_OF_CLUES = -6.0
NULLS = np.arange(-9, -0.5, 0.5)
WORDS = 100_000  # whose bigrams are kept


class Example(NamedTuple):
    """A pair of sentences, and what each evidence says of it."""

    source: Sequence[str]
    target: Sequence[str]
    shares: Shares  # (E, T, S)
    bitext: Sequence[np.ndarray] = ()  # what a bitext says, (T, S) by source and target words


class Group(NamedTuple):
    """Evidences that err together: of one model and step, or of another aligner."""

    model: str
    step: str
    evidences: tuple[int, ...]  # places in ``Example.shares``

    @property
    def external(self) -> bool:
        """Whether it is of another aligner."""
        return self.model == EXTERNAL


EXTERNAL = "links"  # the model of links that are read from a file


class Vote(NamedTuple):
    """A group, and the evidence that speaks for it."""

    group: Group
    place: int


class LearnedLinks(NamedTuple):
    """P(link) by two softmaxes of z + Σ_e u_e log p_e + Σ_c v_c clue_c (``two_softmaxes``).

    z are the log odds by the evidences of both views; the clues are those of a pair whose links
    have the odds z; u belongs to the links of other aligners that are in no view.
    """

    evidences: LinkModel
    link_weights: np.ndarray  # (E,), mostly 0
    clue_weights: np.ndarray  # of CLUES
    lexicon: Lexicon
    null: float  # log odds of no link
    bitext: Bitext | None = None

    @property
    def counts(self) -> np.ndarray:
        """Which evidences have a weight, (E,)."""
        return (self.evidences.weights != 0) | (self.link_weights != 0)

    def of(self, kept: Sequence[bool]) -> LearnedLinks:
        """The same for examples that have only the evidences that are kept."""
        evidences = self.evidences._replace(weights=self.evidences.weights[kept])
        return self._replace(evidences=evidences, link_weights=self.link_weights[kept])

    def __call__(self, example: Example) -> np.ndarray:
        """The probability of a link in each cell, (T, S)."""
        with_weight = np.flatnonzero(self.evidences.weights)
        heard = np.asarray(example.shares)[with_weight].any(axis=0)
        return np.where(heard, two_softmaxes(self.log_odds(example), self.null), 0)

    def log_odds(self, example: Example) -> np.ndarray:
        """Of a link in each cell, (T, S)."""
        log_odds = of_evidences = self.evidences.log_odds(example.shares)
        for place in np.flatnonzero(self.link_weights).tolist():
            above_none = np.log(example.shares[place] / FLOOR + 1)  # 0 where there is no link
            log_odds = log_odds + self.link_weights[place] * above_none
        if self.clue_weights.any():
            of_pair = _clues(example, of_evidences, self.lexicon)
            log_odds = log_odds + np.tensordot(self.clue_weights, of_pair, axes=1)
        return log_odds

    def as_json(self) -> dict[str, Any]:
        """What was learned, to the last bit."""
        return {
            "weights": self.evidences.weights.tolist(),
            "bias": float(self.evidences.bias),
            "link_weights": self.link_weights.tolist(),
            "clue_weights": self.clue_weights.tolist(),
            "lexicon": self.lexicon.as_json(),
            "null": self.null,
            "bitext": self.bitext and self.bitext.as_json(),
        }

    @classmethod
    def from_json(cls, contents: dict[str, Any]) -> LearnedLinks:
        """Reads what :meth:`as_json` has made."""
        weights = np.array(contents["weights"], float)
        return cls(
            LinkModel(weights, float(contents["bias"])),
            np.array(contents["link_weights"], float).reshape(weights.shape),
            np.array(contents["clue_weights"], float).reshape(len(CLUES)),
            Lexicon.from_json(contents["lexicon"]),
            float(contents["null"]),
            contents["bitext"] and Bitext.from_json(contents["bitext"]),
        )


def learn_links(
    sample: Sequence[Example],
    more: Iterable[Example],
    groups: Sequence[Group],
    count: int | None = None,
    bitext: Bitext | None = None,
) -> LearnedLinks:
    """Weights of all evidences and clues, learned on a sample.

    Args:
        sample: what weights are learned on; held in memory.
        more: further pairs that the lexicon is counted in.
        groups: all evidences.
        count: in how many pairs the lexicon is counted at most.
        bitext: what made ``Example.bitext``, to be kept.
    """
    informed = _informed(sample, groups)
    views = _views(informed)
    voters = list(chain.from_iterable(views))
    size = 1 + max(chain.from_iterable(group.evidences for group in groups))
    labels = [_links_of(sample, view) for view in views]
    is_one_model = len({vote.group.model for vote in voters}) == 1
    votes = is_one_model and bitext is not None and _bitext_agrees(sample, labels)
    joint = _fit(sample, voters, _links_of(sample, voters, votes), size)
    if len(views) < 2 or not sample:
        no_weights = np.zeros_like(joint.weights), np.zeros(len(CLUES))
        plain = LearnedLinks(joint, *no_weights, Lexicon(), NULL_OF_CLUES, bitext)
        return plain._replace(null=best_null(plain, sample))
    others_of = views[::-1]  # each view is labelled by the other
    alone = []
    for view, other in zip(views, others_of, strict=True):
        alone.append(_fit(sample, view, _links_of(sample, other, votes), size))
    lexicons = _lexicons([joint, *alone], islice(chain(sample, more), count))
    others = [vote.place for vote in informed if vote not in voters]
    weights = []
    # Labels without the bitext, which is a clue
    for model, of_view, links in zip(alone, lexicons[1:], labels[::-1], strict=True):
        weights.append(_beyond(sample, model, of_view, others, links))
    mean = np.maximum(np.mean(weights, axis=0), 0)  # nothing speaks against a link
    link_weights = np.zeros_like(joint.weights)
    link_weights[others] = mean[len(CLUES) :]
    learned = LearnedLinks(
        joint, link_weights, mean[: len(CLUES)], lexicons[0], NULL_OF_CLUES, bitext
    )
    return learned._replace(null=best_null(learned, sample))


def best_null(model: LearnedLinks, sample: Sequence[Example]) -> float:
    """The log odds of no link whose links predict words best (``gains``).

    Gains are noisy, and flat around their maximum. Of all that gain as much as the best, but for
    one standard error of the difference (Breiman et al., 1984), the one nearest to
    ``NULL_OF_CLUES`` is taken.
    """
    if not sample:
        return NULL_OF_CLUES
    log_odds = [model.log_odds(example) for example in sample]
    saved = []
    for null in NULLS:
        linked = []
        for example, of_pair in zip(sample, log_odds, strict=True):
            links = absolute(two_softmaxes(of_pair, null))
            linked.append((example.source, example.target, links))
        saved.append(gains(linked).saved)
    sums = np.sum(saved, axis=1)
    lost = saved[sums.argmax()] - np.array(saved)  # (nulls, pairs)
    errors = lost.std(axis=1) * np.sqrt(len(sample))  # of the sums over pairs
    as_good = NULLS[lost.sum(axis=1) <= errors]
    return float(as_good[np.abs(as_good - NULL_OF_CLUES).argmin()])


def _informed(sample: Sequence[Example], groups: Sequence[Group]) -> list[Vote]:
    """The evidence of each group that predicts words best, without groups that predict too little.

    If none predicts anything, all of them.
    """
    votes = {}
    for group in groups:
        gains = {place: _gain(sample, place) for place in group.evidences}
        best = max(gains, key=gains.__getitem__)
        votes[Vote(group, best)] = gains[best]
    bar = INFORMED * max(votes.values())
    return [vote for vote, gain in votes.items() if gain >= bar or bar <= 0]


def _gain(sample: Sequence[Example], place: int) -> float:
    linked = []
    for example in sample:
        links = relative(example.shares[place], share=AGREED_SHARE)
        linked.append((example.source, example.target, links))
    return word_gain(linked)


def _views(votes: Sequence[Vote]) -> list[list[Vote]]:
    """Two sets of votes that do not err together, if there are two; else one."""
    attention = [vote for vote in votes if not vote.group.external]
    for kind in ("model", "step"):
        split: dict[str, list[Vote]] = {}
        for vote in attention:
            split.setdefault(getattr(vote.group, kind), []).append(vote)
        if len(split) == 2:
            return list(split.values())
    external = [vote for vote in votes if vote.group.external]
    return [view for view in (attention, external) if view]


def _links_of(
    sample: Sequence[Example], votes: Sequence[Vote], bitext_votes: bool = False
) -> list[np.ndarray]:
    """True where the product of the votes finds a link, (T, S) for each pair."""
    matrices = []
    for example in sample:
        shares = [example.shares[vote.place] for vote in votes]
        if bitext_votes:
            shares.append(np.mean(example.bitext, axis=0))
        product = geometric_mean(shares)
        matrices.append(as_matrix(relative(product, share=AGREED_SHARE), product.shape))
    return matrices


def _bitext_agrees(sample: Sequence[Example], labels: Sequence[Sequence[np.ndarray]]) -> bool:
    """Whether a bitext agrees with each of two views as well as they agree with each other.

    A small one, or one of other languages or shuffled lines, does not.
    """
    if len(labels) < 2 or not sample:
        return False
    of_bitext = _links_of(sample, [], bitext_votes=True)
    between = _agreement(*labels)
    return all(_agreement(of_bitext, of_view) >= between for of_view in labels)


def _agreement(some: Sequence[np.ndarray], others: Sequence[np.ndarray]) -> float:
    """F1 of links against others."""
    a, b = (np.concatenate([of_pair.ravel() for of_pair in links]) for links in (some, others))
    return float(2 * np.sum(a & b) / max(1, a.sum() + b.sum()))


def _fit(
    sample: Sequence[Example], votes: Sequence[Vote], links: Sequence[np.ndarray], size: int
) -> LinkModel:
    """A model of links by all evidences of the groups that vote; others have weight 0."""
    weights = np.zeros(size)
    if not sample:
        return LinkModel(weights, 0.0)
    places = sorted(chain.from_iterable(vote.group.evidences for vote in votes))
    fitted = fit_links([[one.shares[place] for place in places] for one in sample], links)
    weights[places] = fitted.weights
    return LinkModel(weights, fitted.bias)


def _lexicons(models: Sequence[LinkModel], examples: Iterable[Example]) -> list[Lexicon]:
    """The lexicon that each model finds, in one pass over the examples."""
    lexicons = [Lexicon() for _ in models]
    for example in examples:
        for model, lexicon in zip(models, lexicons, strict=True):
            soft = two_softmaxes(model.log_odds(example.shares), NULL_OF_CLUES)
            lexicon.add(example.source, example.target, soft)
    return lexicons


def _clues(example: Example, log_odds: np.ndarray, lexicon: Lexicon) -> np.ndarray:
    return clues(example, two_softmaxes(log_odds, NULL_OF_CLUES), lexicon)


def _beyond(
    sample: Sequence[Example],
    model: LinkModel,
    lexicon: Lexicon,
    others: Sequence[int],
    links: Sequence[np.ndarray],
) -> np.ndarray:
    """Weights of the clues, and of the other evidences, where the view itself has weight 1."""
    inputs = []
    for example in sample:
        log_odds = model.log_odds(example.shares)
        parts = [log_odds[None], _clues(example, log_odds, lexicon)]
        if others:
            parts.append(log_shares([example.shares[place] for place in others]))
        inputs.append(np.concatenate(parts))
    size = 1 + len(CLUES) + len(others)
    own, *beyond = fit_inputs(inputs, links, size).weights
    return np.array(beyond) / max(own, LEAST_WEIGHT)


def clues(example: Example, soft: np.ndarray, lexicon: Lexicon) -> np.ndarray:
    """What speaks for a link beside attention: (C, T, S), in the order of ``CLUES``.

    Each clue is higher where a link is likelier.

    Args:
        soft: the probabilities of links that are known so far, (T, S).
    """
    source, target, _, bitext = example
    return np.stack(
        [
            lexicon.association(source, target, soft),
            *(neighbours(soft, steps) for steps in NEIGHBOURS.values()),
            identical(source, target),
            position(*soft.shape),
            spelling(source, target),
            punctuation(source, target),
            *(bitext or np.zeros((2, *soft.shape))),
        ]
    )


def neighbours(soft: np.ndarray, steps: Sequence[tuple[int, int]]) -> np.ndarray:
    """log of the mean probability of the links at some steps from each cell."""
    far = 2
    targets, sources = soft.shape
    padded = np.zeros((targets + 2 * far, sources + 2 * far))
    padded[far : far + targets, far : far + sources] = soft
    total = np.zeros(soft.shape)
    for down, right in steps:
        rows = slice(far + down, far + down + targets)
        total += padded[rows, far + right : far + right + sources]
    return np.log(total / len(steps) + LEAST_NEIGHBOURS)


def spelling(source: Sequence[str], target: Sequence[str]) -> np.ndarray:
    """Dice's coefficient of the words' character bigrams, with marks for beginning and end."""
    of_sources, of_targets = ([_bigrams(word) for word in side] for side in (source, target))
    words_with = defaultdict(list)  # the source words that have a bigram
    for s, of_source in enumerate(of_sources):
        for bigram in of_source:
            words_with[bigram].append(s)
    both = np.zeros((len(target), len(source)))
    for t, of_target in enumerate(of_targets):
        for bigram in of_target:
            for s in words_with.get(bigram, ()):
                both[t, s] += 1
    sizes_of_sources = np.array([len(bigrams) for bigrams in of_sources])
    sizes_of_targets = np.array([len(bigrams) for bigrams in of_targets])
    return 2 * both / (sizes_of_targets[:, None] + sizes_of_sources)


@lru_cache(WORDS)
def _bigrams(word: str) -> frozenset[str]:
    marked = f" {word} "
    return frozenset(marked[place : place + 2] for place in range(len(marked) - 1))


def punctuation(source: Sequence[str], target: Sequence[str]) -> np.ndarray:
    """1 where both words are punctuation, or neither is."""
    of_sources = np.array([is_punctuation(word) for word in source], bool)
    of_targets = np.array([is_punctuation(word) for word in target], bool)
    return (of_targets[:, None] == of_sources).astype(float)


def identical(source: Sequence[str], target: Sequence[str]) -> np.ndarray:
    """1 where both words are the same string: numbers, names, punctuation."""
    numbers: dict[str, int] = {}
    of_sources = np.array([numbers.setdefault(word, len(numbers)) for word in source])
    of_targets = np.array([numbers.setdefault(word, len(numbers)) for word in target])
    return (of_targets[:, None] == of_sources).astype(float)


def position(targets: int, sources: int) -> np.ndarray:
    """−|t/T − s/S|, words being taken at their middle."""
    rows = (np.arange(targets) + 0.5) / max(targets, 1)
    columns = (np.arange(sources) + 0.5) / max(sources, 1)
    return -np.abs(rows[:, None] - columns)
