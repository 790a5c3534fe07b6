"""The model of a bitext against the enumeration of all alignments, and on a made-up language."""

import base64
from itertools import product

import numpy as np
import pytest

from fairseq_normalign.alignment.bitext import (
    FARTHEST,
    LARGE,
    MOST_PIECES,
    NULL,
    Bitext,
    bitext_of,
    count_bitext,
    posteriors,
)
from fairseq_normalign.alignment.signature import made_with
from fairseq_normalign.cli.main import main
from fairseq_normalign.errors import InputError
from fairseq_normalign.text.links import LinkFile

RANDOM = np.random.default_rng(7)
SYLLABLES = [f"{first}{vowel}{last}" for first in "bdgk" for vowel in "aeiou" for last in "nr"]


def slow_posteriors(emissions, nulls, jumps):
    """P(link) by all ways in which source words, or none, emit the target words."""
    targets, sources = emissions.shape
    links, total = np.zeros((targets, sources)), 0.0
    for path in product([None, *range(sources)], repeat=targets):
        probability, place = 1.0, -1
        for t, s in enumerate(path):
            if s is None:
                probability *= NULL * nulls[t]
                continue
            weights = [
                jumps[np.clip(to - place, -FARTHEST, FARTHEST) + FARTHEST] for to in range(sources)
            ]
            probability *= (1 - NULL) * weights[s] / sum(weights) * emissions[t, s]
            place = s
        total += probability
        for t, s in enumerate(path):
            if s is not None:
                links[t, s] += probability
    return links / total


def test_posteriors_by_enumeration_with_padding():
    jumps = RANDOM.random(2 * FARTHEST + 1)
    emissions, nulls = RANDOM.random((2, 4, 4)), RANDOM.random((2, 4))
    is_source = np.array([[1.0, 1, 1, 1], [1, 1, 0, 0]])
    found = posteriors(emissions, nulls, is_source, jumps)
    for row, length in enumerate((4, 2)):
        slow = slow_posteriors(emissions[row, :, :length], nulls[row], jumps)
        np.testing.assert_allclose(found.links[row, :, :length], slow, atol=1e-10)
        assert not found.links[row, :, length:].any()
    np.testing.assert_allclose(found.made.sum(), found.links.sum())  # a link is a jump


def test_jumps_maximise_what_they_are_counted_from():
    """Counts over opportunities is a step that never makes the text less likely."""
    emissions, nulls, is_source = RANDOM.random((30, 6, 5)), np.full((30, 6), 0.1), np.ones((30, 5))
    jumps = np.ones(2 * FARTHEST + 1)
    found = posteriors(emissions, nulls, is_source, jumps)
    # Where all weights are 1, each of S jumps is open once for every jump that is made from there.
    np.testing.assert_allclose(found.open.sum(axis=1), found.made.sum(axis=1))


def language(pairs, words=30, seed=1):
    """Word by word, neighbours swapped now and then; a last target word translates nothing."""
    random = np.random.default_rng(seed)
    corpus, gold = [], []
    for _ in range(pairs):
        numbers = random.integers(words, size=random.integers(3, 9))
        order = np.argsort(np.arange(len(numbers)) + random.normal(0, 0.6, len(numbers)))
        corpus.append(([f"s{n}" for n in numbers], [f"t{numbers[p]}" for p in order] + ["the"]))
        gold.append({(int(place), t) for t, place in enumerate(order)})
    return corpus, gold


def errors(bitext, corpus, gold):
    wrong = total = 0
    for (one, other), links in zip(bitext.links(corpus), gold, strict=True):
        targets, sources = np.nonzero((one + other) / 2 >= 0.5)
        found = set(zip(sources.tolist(), targets.tolist(), strict=True))
        wrong += len(found ^ links)
        total += len(links)
    return wrong / total


def test_a_made_up_language_is_learned_and_kept():
    corpus, gold = language(400)
    bitext = count_bitext(corpus)
    assert errors(bitext, corpus, gold) < 0.03
    kept = Bitext.from_json(bitext.as_json())
    assert kept.as_json() == bitext.as_json()
    new, of_new = language(50, seed=2)
    assert errors(kept, new, of_new) < 0.06


@pytest.mark.parametrize("model", [b"", b"no model"])
def test_pieces_without_a_model_are_damage(model):
    contents = count_bitext(language(20)[0]).as_json()
    contents["pieces"] = base64.b64encode(model).decode()
    with pytest.raises(ValueError, match="not a model of SentencePiece"):
        Bitext.from_json(contents)


def test_rare_words_are_linked_by_their_pieces(monkeypatch):
    """Compounds that were never seen, of syllables that were."""
    monkeypatch.setattr("fairseq_normalign.alignment.bitext.MERGES", 4 * len(SYLLABLES))
    random = np.random.default_rng(3)
    corpus = []
    for _ in range(1000):
        numbers = random.integers(len(SYLLABLES), size=6)
        source = [f"{SYLLABLES[a]}{SYLLABLES[b]}" for a, b in numbers.reshape(3, 2)]
        target = [f"{SYLLABLES[a][::-1]}{SYLLABLES[b][::-1]}" for a, b in numbers.reshape(3, 2)]
        corpus.append((source, target[::-1]))
    bitext = count_bitext(corpus[:500])
    seen = {word for source, _ in corpus[:500] for word in source}
    new = [
        pair for pair in corpus[500:] if len(set(pair[0])) == 3 and not seen.intersection(pair[0])
    ]
    assert len(new) > 5  # a compound that is there twice has no single link
    for by_source, by_target in bitext.links(new):
        assert (by_source + by_target).argmax(axis=1).tolist() == [2, 1, 0]


def test_long_pairs_are_not_counted(monkeypatch):
    # As many as there are special pieces: these leave characters alone.
    monkeypatch.setattr("fairseq_normalign.alignment.bitext.MERGES", 4)
    word = "x" * (MOST_PIECES - 1)  # with the mark of its beginning
    assert count_bitext([([word], ["y"]), ([f"{word}x"], ["y"])]).pairs == 1
    assert count_bitext([([f"{word}x"], ["y"])]) is None


def test_pairs_do_not_depend_on_their_neighbours():
    corpus, _ = language(60)
    bitext = count_bitext(corpus)
    corpus += [([], ["t1"]), (["s1"], []), (["new"], ["words", "alone"])]
    together = list(bitext.links(corpus))
    for pair, links in zip(corpus, together, strict=True):
        (alone,) = bitext.links([pair])
        for one, other in zip(links, alone, strict=True):
            assert one.shape == (len(pair[1]), len(pair[0]))
            np.testing.assert_allclose(one, other, atol=1e-5)


def write(path, lines):
    path.write_text("".join(f"{' '.join(words)}\n" for words in lines))
    return str(path)


def test_files(tmp_path):
    corpus, _ = language(50)
    source, target = (
        write(tmp_path / f"a.{side}", [pair[side] for pair in corpus]) for side in (0, 1)
    )
    both = write(tmp_path / "both", [[*s, "|||", *t] for s, t in corpus])
    counted = bitext_of([source, target], [], corpus)
    assert counted.pairs == 100  # the corpus counts, too
    assert bitext_of([both], [], corpus).as_json() == counted.as_json()
    assert bitext_of([], [source, target], corpus) is None  # too small to count by itself
    assert LARGE > 50
    with pytest.raises(InputError, match="source and target are swapped"):
        bitext_of([target, source], [], corpus)
    other = write(tmp_path / "other", [["x"]] * 50)
    with pytest.warns(UserWarning, match="only 0% of the words"):
        bitext_of([other, other], [], corpus)
    with pytest.warns(UserWarning, match="only 0% of the words of one side of the corpus"):
        bitext_of([source, other], [], corpus)
    empty = write(tmp_path / "empty", [[]] * 50)
    with pytest.raises(InputError, match=r"empty and .*empty: no sentence pairs"):
        bitext_of([empty, empty], [], corpus)
    long = write(tmp_path / "long", [["x"] * (MOST_PIECES + 1)])
    with pytest.raises(InputError, match=r"long and .*long: no sentence pairs"):
        bitext_of([long, long], [], [])
    short = write(tmp_path / "short", [["x"]] * 49)
    with pytest.raises(InputError, match=r"other has 50, .*short has 49 lines"):
        bitext_of([other, short], [], corpus)


def test_the_command_needs_no_model(tmp_path, capsys):
    corpus, gold = language(2000)
    for side, name in enumerate(("source", "target")):
        lines = [" ".join(pair[side]) for pair in corpus]
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    texts, out = [str(tmp_path / name) for name in ("source", "target")], tmp_path / "links"
    assert main(["align", "--method", "bitext", *texts, "-o", str(out)]) == 0
    assert "counted in 2000 pairs only" in capsys.readouterr().err
    found = list(LinkFile(str(out)))
    right = sum(len(set(links) & set(of_gold)) for links, of_gold in zip(found, gold, strict=True))
    assert right > 0.95 * sum(map(len, gold))
    assert made_with(out)["method"] == "bitext"
    assert main(["align", "--method", "bitext", texts[0], "-o", str(out)]) == 2
