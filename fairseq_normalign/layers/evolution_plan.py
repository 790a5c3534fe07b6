"""Which tokens of a text show how representations evolve: drawn once, for all layers and models."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from itertools import chain, pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fairseq_normalign.errors import InputError
from fairseq_normalign.options import option
from fairseq_normalign.text.frequencies import Frequencies, read_frequencies

if TYPE_CHECKING:
    from fairseq_normalign.layers.token_table import ReadText, Tokens

ALL = "all"
ANY = "any"  # a token of whatever frequency is hidden
NEIGHBOURS = 10  # of a token that are looked at, by cosine
OTHERS = 5  # tokens of a sentence that show the influence of another one; more in a short text
PICTURED = 200  # occurrences of a word in a picture, at most
VIEW_TOKENS = 5000  # of PWCCA, at least
TOKENS_PER_NEURON = 10  # fewer make correlations of noise
PER_CLUSTER = 100  # tokens: a million and ten thousand clusters in the paper
MEASURING = "measuring"  # the heading of the flags
measuring = partial(option, group=MEASURING)


@dataclass(frozen=True)
class EvolutionOptions:
    """How the evolution of representations is measured.

    Args:
        seed: of all that is drawn at random.
        max_tokens: how many tokens, padding included, are run at once.
    """

    types: int = measuring(
        100, "N  of the most frequent types of tokens, for neighbours and clusters"
    )
    occurrences: int = measuring(100, "N  tokens of each type")
    tokens: int | None = measuring(
        None, "N  tokens that PWCCA compares (default: 5000, or 10 for each neuron)"
    )
    groups: int = measuring(5, "N  groups of frequency, each with as many tokens of the text")
    bounds: Sequence[float] = measuring(
        (), "N...  frequencies in the training data that groups begin at, instead of --groups"
    )
    frequencies: str | None = measuring(
        None,
        "FILE  lines `word count` or `piece count` (default: the counts in the dictionary)",
    )
    no_influence: bool = measuring(False, "do not measure influence, which takes most of the time")
    words: Sequence[str] = measuring((), "WORD...  words to be drawn by --plot-words")
    seed: int = 1
    max_tokens: int = 4000

    def rng(self, purpose: int) -> np.random.Generator:
        """Random numbers for one purpose, whatever is drawn for others."""
        return np.random.default_rng([self.seed, purpose])


# Tokens that are hidden from others: the one of each sentence, and those whose states are compared,
# ascending; both by their places in the table of tokens.
Hidden = tuple[dict[int, int], np.ndarray]
Places = dict[str, np.ndarray]  # in the table of tokens, ascending, by group


@dataclass(frozen=True)
class Plan:
    """What is looked at; all arrays are of places in ``tokens``, ascending."""

    options: EvolutionOptions
    tokens: Tokens
    sample: np.ndarray  # as many tokens of each frequent type
    clusters: int
    views: Places  # of PWCCA: all tokens, and those of each group, as many of each
    hidden: dict[str, Hidden]  # by the group of the token that is hidden
    causal: bool  # whether its influence is that on later tokens alone: one model sees no others
    words: dict[str, list[np.ndarray]]  # the pieces of each occurrence

    @property
    def sampled(self) -> Tokens:
        """The tokens of the sample."""
        return self.tokens.at(self.sample)

    @property
    def types(self) -> int:
        """How many there are in the sample."""
        return len(self.sample) // self.options.occurrences

    @property
    def kept(self) -> np.ndarray:
        """All tokens whose usual states are needed."""
        of_words = chain(*self.words.values())
        return np.unique(np.concatenate([self.sample, *self.views.values(), *of_words]))

    @property
    def sentences(self) -> int:
        """How many sentences each model runs, those that it runs twice counted so."""
        runs = [self.kept, *(others for _, others in self.hidden.values())]
        return sum(len(np.unique(self.tokens.sentences[places])) for places in runs)

    @property
    def signature(self) -> dict[str, object]:
        """Every choice that moves a number."""
        options = self.options
        signature: dict[str, object] = {
            "types": self.types,
            "occurrences": options.occurrences,
            "neighbours": f"{NEIGHBOURS}-cosine",
            "clusters": self.clusters,
        }
        if self.views:
            signature["tokens"] = len(self.views[ALL])
        if len(self.views) > 1:
            signature["frequencies"] = Path(options.frequencies or "dictionary").name
        if self.hidden:
            signature["influence-on"] = "later" if self.causal else "others"
        return {**signature, "seed": options.seed}


def plan_of(texts: Sequence[ReadText], tokens: Tokens, options: EvolutionOptions) -> Plan:
    """What to look at in a text that some models read as the same tokens."""
    sample = _sample(tokens, options)
    types = len(sample) // options.occurrences
    clusters = max(2 * types, len(sample) // PER_CLUSTER)
    quota = _view_tokens(texts, options)
    words = {word: _occurrences(word, tokens, options) for word in options.words}
    groups = _groups(texts[0], tokens, options)
    views = _views(tokens, groups, quota, options)
    causal = any(text.states.causal for text in texts)
    hidden: dict[str, Hidden] = {}
    if views and not options.no_influence:
        candidates = {ANY: np.arange(len(tokens.types))}
        candidates |= {name: places for name, places in groups.items() if name in views}
        hidden = _hidden(tokens, candidates, quota, causal, options)
    return Plan(options, tokens, sample, clusters, views, hidden, causal, words)


def _sample(tokens: Tokens, options: EvolutionOptions) -> np.ndarray:
    """As many tokens of each of the most frequent types."""
    quota = options.occurrences
    if quota <= NEIGHBOURS:
        raise InputError(
            f"--occurrences {quota}: {NEIGHBOURS} neighbours are looked for among tokens of one "
            f"type; use {NEIGHBOURS + 1} or more"
        )
    sample = balanced(tokens.types, most=options.types, quota=quota, rng=options.rng(0))
    types = len(sample) // quota
    found = f"the text has {types} types of tokens that come {quota} times"
    if types < 2:
        raise InputError(f"{found}; 2 are needed: use a longer text, or fewer --occurrences")
    if types < options.types:
        _warn(f"{found}, not {options.types}: neighbours and clusters are of these")
    return sample


def _warn(message: str, few: Mapping[str, int] | None = None) -> None:
    """Warns, and lists the groups with too few tokens."""
    counts = [f"{name} ({count})" for name, count in (few or {}).items()]
    warnings.warn(f"{message}: {', '.join(counts)}" if counts else message, stacklevel=2)


def _view_tokens(texts: Sequence[ReadText], options: EvolutionOptions) -> int:
    """How many tokens PWCCA compares."""
    width = max(text.states.width for text in texts)
    least = TOKENS_PER_NEURON * width
    if options.tokens is not None and options.tokens < least:
        raise InputError(
            f"--tokens {options.tokens}: PWCCA needs {TOKENS_PER_NEURON} tokens for each of "
            f"{width} neurons (with fewer, noise looks alike); use {least} or more"
        )
    return options.tokens or max(VIEW_TOKENS, least)


def _views(tokens: Tokens, groups: Places, quota: int, options: EvolutionOptions) -> Places:
    """As many tokens of all frequencies, and of each group, for PWCCA."""
    every = np.arange(len(tokens.types))
    if len(every) < quota:
        _warn(f"no PWCCA: the text has {len(every)} tokens, and {quota} are needed")
        return {}
    rng = options.rng(1)
    views, few = {}, {}
    for name, places in [(ALL, every), *groups.items()]:
        if len(places) < quota:
            few[name] = len(places)
        else:
            views[name] = some(places, quota, rng)
    if few:
        _warn(f"groups of frequency with fewer than {quota} tokens are left out", few)
    return views


def _groups(text: ReadText, tokens: Tokens, options: EvolutionOptions) -> Places:
    """The tokens of each group of frequency, rarest first; none if the dictionary has no counts."""
    counts = getattr(text.reader, text.side).vocabulary.counts
    if options.frequencies:
        counts = read_frequencies(options.frequencies)
    spelled = tokens.symbols.tolist(), tokens.texts.tolist()
    try:
        frequency = Frequencies(counts, options.frequencies or "the dictionary", [spelled])
    except InputError as error:
        if options.frequencies:
            raise
        _warn(f"no groups of frequency: {error}")
        return {}
    of_tokens = np.array(frequency(*spelled))
    bounds = list(options.bounds) or equal_bounds(of_tokens, options.groups)
    numbers = np.digitize(of_tokens, bounds)  # 0 below the first bound
    return {name: np.flatnonzero(numbers == n) for n, name in enumerate(group_names(bounds))}


def _hidden(
    tokens: Tokens, candidates: Places, quota: int, causal: bool, options: EvolutionOptions
) -> dict[str, Hidden]:
    """A token of each group to be hidden, in sentences that have one of each.

    Some of the tokens that could see it show its influence: in a decoder, these come after it.

    Args:
        candidates: all tokens, and those of each group.
    """
    starts = np.arange(1, tokens.sentences[-1] + 1)
    by_group = {}  # of each group the places in each sentence
    for name, places in candidates.items():
        by_group[name] = np.split(places, np.searchsorted(tokens.sentences[places], starts))
    members = by_group[ANY]
    of_groups = [tokens.sentences[places] for places in candidates.values()]
    complete = reduce(np.intersect1d, of_groups, np.unique(tokens.sentences))
    rng = options.rng(2)
    order = rng.permutation(complete).tolist()
    per_sentence = max(OTHERS, 2 * quota // max(1, len(order)))
    hidden: dict[str, Hidden] = {}
    few = {}
    for name, of_group in by_group.items():
        by_sentence: dict[int, int] = {}
        others: list[int] = []
        for sentence in order:
            if len(others) >= quota:
                break
            token = int(rng.choice(of_group[sentence]))
            rest = members[sentence]
            rest = rest[rest > token] if causal else rest[rest != token]
            by_sentence[sentence] = token
            others += some(rest, per_sentence, rng).tolist()
        if len(others) < quota:
            few[name] = len(others)
        else:
            hidden[name] = by_sentence, np.sort(others[:quota])
    if few:
        _warn(f"influence is not measured where fewer than {quota} other tokens show it", few)
    return hidden


def _occurrences(word: str, tokens: Tokens, options: EvolutionOptions) -> list[np.ndarray]:
    """The pieces of each occurrence of a word, of some of them if it is frequent."""
    pieces = np.flatnonzero(tokens.texts == word)
    _, first = np.unique(tokens.text_words[pieces], return_index=True)
    if len(first) < 2:
        raise InputError(f"--words: {word!r} comes {len(first)} times in the text; 2 are needed")
    occurrences = np.split(pieces, first[1:])
    drawn = some(np.arange(len(occurrences)), PICTURED, options.rng(3))
    return [occurrences[number] for number in drawn]


def balanced(labels: np.ndarray, *, most: int, quota: int, rng: np.random.Generator) -> np.ndarray:
    """As many tokens of each of the most frequent labels.

    Args:
        labels: of all tokens of a text, (N,), integers from 0.
        most: how many labels.
        quota: how many tokens of each; labels with fewer do not count.

    Returns:
        Places in ``labels``, ascending.
    """
    counts = np.bincount(labels)
    by_frequency = np.argsort(-counts, kind="stable")
    frequent = [label for label in by_frequency[:most] if counts[label] >= quota]
    drawn = [some(np.flatnonzero(labels == label), quota, rng) for label in frequent]
    return np.sort(np.concatenate(drawn)) if drawn else np.array([], dtype=np.intp)


def some(places: np.ndarray, quota: int, rng: np.random.Generator) -> np.ndarray:
    """At most ``quota`` of some places, ascending."""
    return np.sort(rng.permutation(places)[:quota])


def equal_bounds(frequencies: np.ndarray, groups: int) -> list[float]:
    """Bounds between groups that have about as many tokens each, ascending.

    A frequency is in one group only, so that there may be fewer groups.

    Args:
        frequencies: of each token of a text, (N,).
    """
    shares = np.arange(1, groups) / groups
    cuts = np.unique(np.quantile(frequencies, shares, method="higher"))
    return cuts[cuts > frequencies.min()].tolist()


def group_names(bounds: Sequence[float]) -> list[str]:
    """``<10``, ``10–99``, ``≥100``."""
    if not bounds:
        return ["all"]
    between = [f"{low:g}–<{high:g}" for low, high in pairwise(bounds)]
    return [f"<{bounds[0]:g}", *between, f"≥{bounds[-1]:g}"]
