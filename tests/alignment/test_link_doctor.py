"""Each usual mistake, made on purpose, is named with the flag that mends it."""

import random
import re
from itertools import starmap

import pytest

from fairseq_normalign.alignment.link_doctor import Conventions, diagnose
from fairseq_normalign.text.links import Gold

USUAL, OWN = Conventions(), Conventions(own=True)


def examine(links, golds, read=USUAL):
    """Advice in the words of ``normalign aer``."""
    return diagnose(links, golds, read)[0]


@pytest.fixture(scope="module")
def corpus():
    """Golds near the diagonal and a system that is right four times out of five.

    The first words are linked.
    """
    generator = random.Random(0)
    golds, systems = [], []
    for _ in range(60):
        length = generator.randint(5, 15)
        sure = {(max(0, t + generator.choice([-2, 0, 0, 3])), t) for t in range(1, length)}
        sure.add((0, 0))
        unsure = [link for link in sure if generator.random() < 0.3]
        golds.append(Gold(sure, sure | {(s + generator.choice([1, 2, 4]), t) for s, t in unsure}))
        systems.append({(s, t) if generator.random() < 0.8 else (s + 3, t) for s, t in sure})
    return systems, golds


def mapped(systems, change):
    """The links of all systems, each changed by a function of source and target."""
    return [set(starmap(change, links)) for links in systems]


def moved(systems, source, target):
    return mapped(systems, lambda s, t: (s + source, t + target))


def swapped(systems):
    return mapped(systems, lambda s, t: (t, s))


def test_what_is_right_is_left_alone(corpus):
    assert examine(*corpus) == ""


def late(systems):
    return moved(systems, 1, 1)


def early(systems):
    return moved(systems, -1, -1)


MISTAKES = [
    (early, Conventions(0, 0), "with --gold-index 1$"),
    (early, Conventions(1, 1), "with --hyp-index 0$"),
    (late, Conventions(1, 0), "with --hyp-index 1$"),
    (late, Conventions(0, 0), "with --hyp-index 1$"),
    (late, Conventions(1, 1), "with --gold-index 0$"),
    (swapped, USUAL, "with --reverse-hyp$"),
    (swapped, Conventions(reversed="--reverse-hyp"), "without --reverse-hyp$"),
    (lambda links: swapped(early(links)), USUAL, "with --reverse-hyp and with --gold-index 1$"),
    (lambda links: moved(links, 1, 0), USUAL, "if source words were numbered one lower: is a dumm"),
    (lambda links: moved(links, -1, 0), USUAL, "if source words were numbered one higher"),
    (lambda links: moved(links, 0, 1), USUAL, "if target words were .* one lower: .* other --step"),
    (lambda links: [set(), *links[:-1]], USUAL, "gold line n-1: is a line missing or extra"),
    (lambda links: [*links[1:], set()], USUAL, r"compared with gold line n\+1"),
]


@pytest.mark.parametrize(("mistake", "read", "advice"), MISTAKES)
def test_mistakes(corpus, mistake, read, advice):
    systems, golds = corpus
    words = examine(mistake(systems), golds, read)
    assert re.search(rf"^AER would be [0-9.]+% instead of [0-9.]+% .*{advice}", words), words


def test_swapped_marks(corpus):
    _, golds = corpus
    hits = [gold.possible - gold.sure for gold in golds]
    assert "if '-' and 'p' are mixed up, give --sure-mark p" in examine(hits, golds)
    assert "--" not in examine(hits, golds, OWN)


def test_pieces_instead_of_words(corpus):
    systems, golds = corpus
    words = examine(mapped(systems, lambda s, t: (2 * s + 1, 2 * t)), golds)
    assert "of 60 sentence pairs links go well beyond the gold's last word: are they" in words


def test_nothing_to_score(corpus):
    systems, golds = corpus
    assert examine([set() for _ in systems], golds) == "the hypothesis has no links at all"
    assert examine([], []) == "the hypothesis has no links at all"
    unsure = [Gold(set(), gold.possible) for gold in golds]
    words = "the gold has no sure links, so recall is undefined"
    assert examine(systems, unsure) == f"{words}; if all its links are sure, give --possible sure"
    assert examine(systems, unsure, OWN) == words


def test_a_few_links_prove_nothing():
    gold = {(0, 0), (1, 1), (2, 2)}
    assert examine([{(1, 1), (2, 2)}], [Gold(gold, gold)]) == ""


DUMMY = "if all words were numbered one lower: is a dummy prefix or </s> counted as a word.$"
OWN_MISTAKES = [  # the hypothesis is the command's own: no flag moves it
    (early, Conventions(0, 0), "with --gold-index 1$"),
    (late, Conventions(1, 0), "with --gold-index 0$"),
    (late, Conventions(0, 0), DUMMY),
    (early, Conventions(1, 0), "if all words were numbered one h"),
    (swapped, USUAL, "with --reverse-gold$"),
    (swapped, Conventions(reversed="--reverse-gold"), "without --reverse-gold$"),
]


@pytest.mark.parametrize(("mistake", "read", "words"), OWN_MISTAKES)
def test_commands_that_make_the_alignment_name_their_own_flags(corpus, mistake, read, words):
    systems, golds = corpus
    advice, is_of_gold = diagnose(mistake(systems), golds, read._replace(own=True))
    assert re.search(words, advice)
    assert is_of_gold == ("gold" in words)
