"""Which tokens of a text show how representations evolve: drawn once, for all layers and models."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from fairseq_normalign.errors import InputError
from fairseq_normalign.layers.cca import TOKENS_PER_NEURON
from fairseq_normalign.layers.frequency_groups import (
    equal_bounds,
    group_names,
    group_numbers,
)
from fairseq_normalign.layers.token_sample import balanced, some
from fairseq_normalign.layers.token_table import ReadText, Tokens, check_same_pieces, tokens_of
from fairseq_normalign.text.frequencies import Frequencies

ALL = "all"
ANY = "any"  # a token of whatever frequency is hidden
OTHERS = 5  # tokens of a sentence that show the influence of another one; more in a short text
PICTURED = 200  # occurrences of a word in a picture, at most
VIEW_TOKENS = 5000  # of PWCCA, at least
PER_CLUSTER = 100  # tokens: a million and ten thousand clusters in the paper


@dataclass(frozen=True)
class EvolutionOptions:
    """How the evolution of representations is measured.

    Args:
        types: how many of the most frequent types of tokens neighbours and clusters are of.
        occurrences: how many tokens of each of them.
        neighbours: how many nearest neighbours of a token are looked at.
        clusters: for mutual information; by default two for each type, or one for 100 tokens if
            that is more.
        tokens: how many PWCCA compares; by default 5000, or 10 for each neuron if that is more.
        groups: how many groups of frequency, each with as many tokens of the text.
        bounds: or frequencies in the training data that groups begin at.
        counts: how often words or pieces are in the training data; by default the dictionary's own.
        counts_name: where they come from, for messages.
        influence: whether to hide tokens, too, which runs the model many more times.
        words: words whose states are drawn.
        seed: of all that is drawn at random.
        max_tokens: how many tokens, padding included, are run at once.
    """

    types: int = 100
    occurrences: int = 100
    neighbours: int = 10
    clusters: int | None = None
    tokens: int | None = None
    groups: int = 5
    bounds: tuple[float, ...] = ()
    counts: Mapping[str, float] | None = None
    counts_name: str = "the dictionary"
    influence: bool = True
    words: Sequence[str] = ()
    seed: int = 1
    max_tokens: int = 4000


class Hidden(NamedTuple):
    """Tokens that are hidden from others."""

    by_sentence: dict[int, int]  # places in the table of tokens
    others: np.ndarray  # places of those whose states are compared, ascending


@dataclass(frozen=True)
class Plan:
    """What is looked at; all arrays are of places in ``tokens``, ascending."""

    tokens: Tokens
    sample: np.ndarray  # as many tokens of each frequent type
    clusters: int
    views: dict[str, np.ndarray]  # of PWCCA: all tokens, and those of each group, as many of each
    hidden: dict[str, Hidden]  # by the group of the token that is hidden
    causal: bool  # whether its influence is that on later tokens alone: one model sees no others
    words: dict[str, list[np.ndarray]]  # the pieces of each occurrence

    @property
    def kept(self) -> np.ndarray:
        """All tokens whose usual states are needed."""
        places = [self.sample, *self.views.values()]
        for occurrences in self.words.values():
            places += occurrences
        return np.unique(np.concatenate(places))

    @property
    def sentences(self) -> int:
        """How many sentences each model runs, those that it runs twice counted so."""
        sentences = len(np.unique(self.tokens.sentences[self.kept]))
        for hidden in self.hidden.values():
            sentences += len(np.unique(self.tokens.sentences[hidden.others]))
        return sentences


def plan_of(texts: Sequence[ReadText], options: EvolutionOptions) -> Plan:
    """What to look at in a text that some models read."""
    first, *others = texts
    for other in others:
        check_same_pieces(first, other)
    tokens = tokens_of(first)
    sample = _sample(tokens, options)
    clusters = _clusters(sample, options)
    quota = _view_tokens(texts, options)
    words = {word: _occurrences(word, first, tokens, options) for word in options.words}
    groups = _groups(first, tokens, options)
    views = _views(tokens, groups, quota, options)
    causal = any(text.states.causal for text in texts)
    hidden = {}
    if options.influence and views:
        hidden = _hidden(tokens, views, groups, causal, options)
    return Plan(tokens, sample, clusters, views, hidden, causal, words)


def _sample(tokens: Tokens, options: EvolutionOptions) -> np.ndarray:
    """As many tokens of each of the most frequent types."""
    if options.occurrences <= options.neighbours:
        raise InputError(
            f"--occurrences {options.occurrences}: a token has no {options.neighbours} neighbours "
            "of its type; expected more than --neighbours"
        )
    rng = np.random.default_rng([options.seed, 0])
    quota = options.occurrences
    sample = balanced(tokens.types, most=options.types, quota=quota, rng=rng)
    types = len(sample) // quota
    if types < 2:
        raise InputError(
            f"the text has {types} types of tokens that come {quota} times; expected 2 or more: a "
            "longer text, or fewer --occurrences"
        )
    if types < options.types:
        warnings.warn(
            f"the text has {types} types of tokens that come {quota} times, not "
            f"{options.types}: neighbours and clusters are of these",
            stacklevel=2,
        )
    return sample


def _clusters(sample: np.ndarray, options: EvolutionOptions) -> int:
    if options.clusters is None:
        types = len(sample) // options.occurrences
        return max(2 * types, len(sample) // PER_CLUSTER)
    if options.clusters > len(sample):
        raise InputError(
            f"--clusters {options.clusters}: more than the {len(sample)} tokens; expected fewer"
        )
    return options.clusters


def _view_tokens(texts: Sequence[ReadText], options: EvolutionOptions) -> int:
    """How many tokens PWCCA compares."""
    width = max(text.states.width for text in texts)
    least = TOKENS_PER_NEURON * width
    if options.tokens is None:
        return max(VIEW_TOKENS, least)
    if options.tokens < least:
        raise InputError(
            f"--tokens {options.tokens}: PWCCA finds noise alike with fewer than "
            f"{TOKENS_PER_NEURON} tokens for each of {width} neurons; expected {least} or more"
        )
    return options.tokens


def _views(
    tokens: Tokens, groups: Mapping[str, np.ndarray], quota: int, options: EvolutionOptions
) -> dict[str, np.ndarray]:
    """As many tokens of all frequencies, and of each group, for PWCCA."""
    rng = np.random.default_rng([options.seed, 1])
    if len(tokens.types) < quota:
        warnings.warn(
            f"no PWCCA: the text has {len(tokens.types)} tokens; expected {quota} or more",
            stacklevel=2,
        )
        return {}
    views = {ALL: some(np.arange(len(tokens.types)), quota, rng)}
    few = []
    for name, places in groups.items():
        if len(places) >= quota:
            views[name] = some(places, quota, rng)
        else:
            few.append(f"{name} ({len(places)})")
    if few:
        warnings.warn(
            f"groups of frequency with fewer than {quota} tokens are left out: {', '.join(few)}",
            stacklevel=2,
        )
    return views


def _groups(text: ReadText, tokens: Tokens, options: EvolutionOptions) -> dict[str, np.ndarray]:
    """The tokens of each group of frequency, rarest first; none if the dictionary has no counts."""
    frequencies = _frequencies(text, tokens, options)
    if frequencies is None:
        return {}
    bounds = list(options.bounds) or equal_bounds(frequencies, options.groups)
    numbers = group_numbers(frequencies, bounds)
    groups = {}
    for number, name in enumerate(group_names(bounds)):
        groups[name] = np.flatnonzero(numbers == number)
    return groups


def _frequencies(text: ReadText, tokens: Tokens, options: EvolutionOptions) -> np.ndarray | None:
    """How frequent each token is in the training data, (N,)."""
    spelled = []
    for pair in text.pairs:
        words = text.text(pair)
        spelled.append((text.pieces(pair), [words[word] for word in text.piece_words(pair)]))
    counts = options.counts
    try:
        of_tokens = Frequencies(
            text.dictionary_counts if counts is None else counts, options.counts_name, spelled
        )
    except InputError as error:
        if counts is not None:
            raise
        warnings.warn(f"no groups of frequency: {error}; name counts", stacklevel=2)
        return None
    by_sentence = [of_tokens(pieces, words) for pieces, words in spelled]
    places = zip(tokens.sentences.tolist(), tokens.positions.tolist(), strict=True)
    return np.array([by_sentence[sentence][position] for sentence, position in places])


def _hidden(
    tokens: Tokens,
    views: Mapping[str, np.ndarray],
    groups: Mapping[str, np.ndarray],
    causal: bool,
    options: EvolutionOptions,
) -> dict[str, Hidden]:
    """A token of each group to be hidden, in sentences that have one of each."""
    quota = len(views[ALL])
    candidates = {ANY: np.arange(len(tokens.types))}
    for name, places in groups.items():
        if name in views:
            candidates[name] = places
    of_all_groups = set(tokens.sentences.tolist())
    for places in candidates.values():
        of_all_groups &= set(tokens.sentences[places].tolist())
    rng = np.random.default_rng([options.seed, 2])
    order = rng.permutation(sorted(of_all_groups))
    per_sentence = max(OTHERS, 2 * quota // max(1, len(order)))
    hidden = {}
    few = []
    for name, places in candidates.items():
        drawn = _draw_hidden(tokens, places, order, causal, rng, quota, per_sentence)
        if len(drawn.others) == quota:
            hidden[name] = drawn
        else:
            few.append(f"{name} ({len(drawn.others)})")
    if few:
        warnings.warn(
            f"influence is not measured where fewer than {quota} other tokens show it: "
            f"{', '.join(few)}",
            stacklevel=2,
        )
    return hidden


def _draw_hidden(
    tokens: Tokens,
    candidates: np.ndarray,
    sentences: np.ndarray,
    causal: bool,
    rng: np.random.Generator,
    quota: int,
    per_sentence: int,
) -> Hidden:
    """A candidate in each sentence, and some of the tokens that could see it.

    In a decoder, these come after it.
    """
    by_sentence: dict[int, int] = {}
    others: list[int] = []
    of_sentence = np.split(candidates, np.flatnonzero(np.diff(tokens.sentences[candidates])) + 1)
    candidates_of = {int(tokens.sentences[places[0]]): places for places in of_sentence}
    for sentence in sentences.tolist():
        if len(others) >= quota:
            break
        first, end = np.searchsorted(tokens.sentences, [sentence, sentence + 1])
        token = int(rng.choice(candidates_of[sentence]))
        members = np.arange(first, end)
        rest = members[members > token] if causal else members[members != token]
        by_sentence[sentence] = token
        others += some(rest, per_sentence, rng).tolist()
    return Hidden(by_sentence, np.sort(np.array(others[:quota], dtype=np.intp)))


def _occurrences(
    word: str, text: ReadText, tokens: Tokens, options: EvolutionOptions
) -> list[np.ndarray]:
    """The pieces of each occurrence of a word, of some of them if it is frequent."""
    pieces: dict[tuple[int, int], list[int]] = {}
    keys = zip(tokens.sentences.tolist(), tokens.words.tolist(), strict=True)
    for place, (sentence, number) in enumerate(keys):
        if text.text(text.pairs[sentence])[number] == word:
            pieces.setdefault((sentence, number), []).append(place)
    occurrences = [np.array(places) for places in pieces.values()]
    if len(occurrences) < 2:
        raise InputError(
            f"--words: {word!r} comes {len(occurrences)} times in the text; expected 2 or more"
        )
    rng = np.random.default_rng([options.seed, 3])
    drawn = some(np.arange(len(occurrences)), PICTURED, rng)
    return [occurrences[number] for number in drawn]
