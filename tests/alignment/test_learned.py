"""Learning on languages whose true links are known: what knows nothing must not spoil the rest."""

from math import log

import numpy as np
import pytest

from fairseq_normalign.alignment.aer import Counts, count
from fairseq_normalign.alignment.bitext import Bitext
from fairseq_normalign.alignment.combine import LinkModel
from fairseq_normalign.alignment.learned import (
    CLUES,
    EXTERNAL,
    NEIGHBOURS,
    NULL_OF_CLUES,
    Example,
    Group,
    LearnedLinks,
    best_null,
    learn_links,
    neighbours,
    position,
    punctuation,
    spelling,
)
from fairseq_normalign.alignment.lexicon import Lexicon
from fairseq_normalign.attention.extract import absolute, grow
from fairseq_normalign.text.links import Gold

LENGTH, WORDS = 8, 40


class Language:
    """Pairs whose words are translated one by one and moved a little; evidences of any quality.

    Args:
        qualities: how often each evidence points to the right word: four of attention, then links.
    """

    def __init__(self, qualities, pairs=250, seed=1):
        self.random = np.random.default_rng(seed)
        self.examples, self.gold = [], []
        for _ in range(pairs):
            numbers = self.random.integers(WORDS, size=LENGTH)
            order = np.argsort(np.arange(LENGTH) + self.random.normal(0, 1, LENGTH))
            source = [f"s{number}" for number in numbers]
            target = [f"t{numbers[place]}" for place in order]
            shares = [self.evidence(order, quality) for quality in qualities[:4]]
            shares += [self.links(order, quality) for quality in qualities[4:]]
            self.examples.append(Example(source, target, shares))
            self.gold.append({(int(place), t) for t, place in enumerate(order)})

    def evidence(self, order, quality):
        """Shares of noise, and a peak at the right word as often as the quality says."""
        shares = self.random.dirichlet(np.ones(LENGTH), size=LENGTH)
        for t, place in enumerate(order):
            if self.random.random() < quality:
                shares[t] = 0.3 * shares[t]
                shares[t, place] += 0.7
        return shares

    def links(self, order, quality):
        """1 at one word of each row, which is the right one as often as the quality says."""
        matrix = np.zeros((LENGTH, LENGTH))
        for t, place in enumerate(order):
            right = self.random.random() < quality
            matrix[t, place if right else self.random.integers(LENGTH)] = 1
        return matrix

    def aer(self, links):
        total = Counts()
        for of_pair, gold in zip(links, self.gold, strict=True):
            total += count(set(of_pair), Gold(gold, gold))
        return total.aer

    def learned_aer(self, model):
        return self.aer([absolute(model(example)) for example in self.examples])

    def best_single(self):
        matrices = zip(*[example.shares for example in self.examples], strict=True)
        return min(self.aer(map(grow, of_one)) for of_one in matrices)


def two_models(*, links=0):
    groups = []
    for model in ("forward", "backward"):
        for step in ("input", "output"):
            groups.append(Group(model, step, (len(groups),)))
    return groups + [Group(EXTERNAL, str(n), (4 + n,)) for n in range(links)]


SEEDS = [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 6))]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("qualities", "bitext"),
    [
        ((0.0, 0.8, 0.0, 0.7), False),  # a step that does not align, as in the demo
        ((0.8, 0.0, 0.0, 0.0), False),  # one evidence alone knows something
        ((0.8, 0.6, 0.7, 0.6, 0.0), False),  # links that say nothing
        ((0.0, 0.0, 0.0, 0.0, 0.9), False),  # attention that says nothing
        ((0.8, 0.6, 0.7, 0.6), True),  # a bitext that says nothing
    ],
)
def test_never_worse_than_the_best_evidence(qualities, bitext, seed):
    language = Language(qualities, seed=seed)
    examples = language.examples
    if bitext:
        noise = [[language.evidence([], 0), language.evidence([], 0).T] for _ in examples]
        examples = [one._replace(bitext=of) for one, of in zip(examples, noise, strict=True)]
        language.examples = examples
    model = learn_links(examples, [], two_models(links=len(qualities) - 4))
    assert language.learned_aer(model) <= language.best_single() + 0.003


def test_clues_and_links_help_where_attention_errs():
    language = Language((0.55, 0.4, 0.55, 0.4, 0.8))
    attention = [example._replace(shares=example.shares[:4]) for example in language.examples]
    alone = learn_links(attention, [], two_models())
    assert alone.clue_weights[CLUES.index("lexicon")] > 0.1
    without = alone._replace(clue_weights=np.zeros(len(CLUES)))
    errors = []
    for model in (without, alone):
        errors.append(language.aer([absolute(model(example)) for example in attention]))
    errors.append(language.learned_aer(learn_links(language.examples, [], two_models(links=1))))
    assert errors[0] > errors[1] > errors[2]


def test_a_null_is_chosen_that_leaves_words_without_translation_alone():
    """Half of the target words have none; more links than that are wrong."""
    language = Language((0.9, 0.8, 0.9, 0.8))
    examples = []
    for number, (example, gold) in enumerate(zip(language.examples, language.gold, strict=True)):
        kept = [t for t in range(LENGTH) if t % 2 == 0]
        target = [w if t in kept else f"x{number}{t}" for t, w in enumerate(example.target)]
        flat = np.full(LENGTH, 1 / LENGTH)
        shares = [
            np.stack([m[t] if t in kept else flat for t in range(LENGTH)]) for m in example.shares
        ]
        gold -= {link for link in gold if link[1] not in kept}
        examples.append(example._replace(target=target, shares=shares))
    model = learn_links(examples, [], two_models())
    assert language.aer([absolute(model(example)) for example in examples]) < 0.05


def test_of_nulls_that_are_as_good_the_middle_one_is_taken():
    """Evidence without doubt: the links are the same with all of them."""
    language = Language((1.0,), pairs=20)
    clues, lexicon = np.zeros(len(CLUES)), Lexicon()
    sure = LearnedLinks(LinkModel(np.array([20.0]), 30.0), np.zeros(1), clues, lexicon, 0.0)
    assert best_null(sure, language.examples) == NULL_OF_CLUES


def test_what_knows_nothing_has_no_weight():
    language = Language((0.8, 0.6, 0.7, 0.6, 0.0))
    model = learn_links(language.examples, [], two_models(links=1))
    assert model.link_weights.tolist() == [0] * 5
    assert model.evidences.weights[4] == 0


def test_one_model_has_two_steps_as_views():
    language = Language((0.7, 0.7))
    model = learn_links(language.examples, [], two_models()[:2])
    assert model.clue_weights.any()
    assert language.learned_aer(model) < language.best_single()


@pytest.mark.parametrize(("quality", "votes"), [(0.9, True), (0.0, False)])
def test_a_bitext_votes_if_it_is_as_good_as_the_steps_of_one_model(quality, votes):
    language = Language((0.7, 0.7, quality))
    plain = [one._replace(shares=one.shares[:2]) for one in language.examples]
    groups, bitext = two_models()[:2], Bitext(None, None, None, pairs=9)
    examples = []
    for one in language.examples:
        examples.append(one._replace(shares=one.shares[:2], bitext=2 * [one.shares[2]]))
    alone = learn_links(plain, [], groups)
    both = learn_links(examples, [], groups, bitext=bitext)
    assert (both.evidences.weights != alone.evidences.weights).any() == votes
    assert language.aer(map(absolute, map(both, examples))) <= (
        language.aer(map(absolute, map(alone, plain))) + 0.003
    )
    first_step = [one._replace(shares=one.shares[:1]) for one in examples]
    one_view = learn_links(first_step, [], groups[:1], bitext=bitext)
    assert one_view.bitext is bitext  # so that the same command can be given again


def test_the_lexicon_is_counted_in_further_pairs():
    language = Language((0.7, 0.7, 0.7, 0.7))
    sample, more = language.examples[:150], language.examples[150:]
    model = learn_links(sample, more, two_models())
    assert model.lexicon.pairs.total() == 250
    assert learn_links(sample, more, two_models(), count=20).lexicon.pairs.total() == 20


def test_a_pair_that_nothing_is_known_of_has_no_links_and_does_no_harm():
    language = Language((0.6, 0.4, 0.6, 0.4), pairs=100)
    blank = Example(["x"] * 60, ["y"] * 60, [np.zeros((60, 60))] * 4)
    model = learn_links([*language.examples, blank], [], two_models())
    assert not model(blank).any()
    assert language.learned_aer(model) < 0.1


# Clues

SOFT = np.random.default_rng(3).random((3, 4))


@pytest.mark.parametrize("steps", NEIGHBOURS.values())
def test_neighbours_are_those_at_the_steps(steps):
    found = neighbours(SOFT, steps)
    for t in range(3):
        for s in range(4):
            total = 0.0
            for down, right in steps:
                if 0 <= t + down < 3 and 0 <= s + right < 4:
                    total += SOFT[t + down, s + right]
            assert found[t, s] == pytest.approx(log(total / len(steps) + 0.01))


def test_spelling_and_punctuation():
    found = spelling(["haus", "x"], ["hause", "haus", "!"])
    # " h", "ha", "au", "us", "s " and " h", "ha", "au", "us", "se", "e "
    np.testing.assert_allclose(found, [[2 * 4 / 11, 0], [1, 0], [0, 0]])
    assert punctuation(["a", "."], ["!", "b"]).tolist() == [[0, 1], [1, 0]]


def test_position_is_relative():
    assert position(1, 1).tolist() == [[0]]
    np.testing.assert_allclose(position(2, 4)[0], [-0.125, -0.125, -0.375, -0.625])
