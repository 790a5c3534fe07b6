"""The gain against its formula written out, on made-up languages, and through the command."""

import json
from math import log

import numpy as np
import pytest

from fairseq_normalign.alignment.gain import GainResult, gains, word_gain
from fairseq_normalign.alignment.lexicon import SMOOTHING
from fairseq_normalign.cli.main import main

RANDOM = np.random.default_rng(5)


def made_up(pairs=120, length=8, words=30):
    """A language that translates word by word, in order: the true links are the diagonal."""
    corpus = []
    for _ in range(pairs):
        numbers = RANDOM.integers(words, size=length)
        corpus.append(([f"s{n}" for n in numbers], [f"t{n}" for n in numbers]))
    return corpus


def linked(corpus, share_right):
    """Links of which a share is right, the others anywhere."""
    pairs = []
    for source, target in corpus:
        links = []
        for t in range(len(target)):
            right = RANDOM.random() < share_right
            links.append((t if right else int(RANDOM.integers(len(source))), t))
        pairs.append((source, target, links))
    return pairs


def test_better_links_gain_more():
    corpus = made_up()
    gains = [word_gain(linked(corpus, share)) for share in (0, 0.3, 0.6, 1)]
    assert gains == sorted(gains)
    assert gains[0] < 0 < gains[2]


def slow_gain(pairs):
    """The formula of the docstring, written out."""
    saved = words = 0.0
    for direction in (0, 1):
        sides = [
            (pair[direction], pair[1 - direction], [link[:: 1 - 2 * direction] for link in pair[2]])
            for pair in pairs
        ]
        tokens = [word for _, target, _ in sides for word in target]
        kinds = len(set(tokens))
        words += len(tokens)
        for here, (source, target, links) in enumerate(sides):
            elsewhere = []
            for place, (others, other_targets, other_links) in enumerate(sides):
                if place != here:
                    elsewhere += [(others[s], other_targets[t]) for s, t in other_links]
            for t, word in enumerate(target):
                u = (tokens.count(word) + 0.5) / (len(tokens) + 0.5 * kinds)
                chances = []
                for s, other in links:
                    if other == t:
                        together = elsewhere.count((source[s], word))
                        alone = [link[0] for link in elsewhere].count(source[s])
                        chances.append((together + SMOOTHING * u) / (alone + SMOOTHING))
                if chances:
                    saved += log(sum(chances) / len(chances)) - log(u)
    return saved / words


def test_the_formula():
    pairs = [
        (["a", "b", "a"], ["x", "y"], [(0, 0), (1, 1), (2, 0)]),
        (["a"], ["x", "x"], [(0, 0)]),
        (["b", "c"], ["y"], [(0, 0), (1, 0)]),
    ]
    assert word_gain(pairs) == pytest.approx(slow_gain(pairs))


def test_intervals_and_differences():
    corpus = made_up()
    better, worse = (gains(linked(corpus, share)) for share in (0.9, 0.5))
    result = GainResult(["better", "worse"], [better, worse])
    (table,) = result.tables().values()
    first, second = table.rows
    assert first[1] == pytest.approx(better.saved.sum() / better.words.sum())
    assert first[2] < first[1] < first[3]
    assert second[-1] < 0  # the interval of the difference to the first is below 0
    assert result.findings == ["better has the highest gain."]


def write(path, lines):
    path.write_text("".join(f"{line}\n" for line in lines))
    return str(path)


def test_the_command(tmp_path, capsys):
    corpus = made_up(pairs=30)
    source, target = (
        write(tmp_path / f"a.{side}", [" ".join(pair[side]) for pair in corpus]) for side in (0, 1)
    )
    files = []
    for share in (1, 0.2):
        lines = []
        for _, _, links in linked(corpus, share):
            lines.append(" ".join(f"{s}-{t}" for s, t in links))
        files.append(write(tmp_path / f"{share}.links", lines))
    assert main(["gain", source, target, *files, "-f", "json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["kind"] == "gain"
    assert "1.links has the highest gain." in json.dumps(shown["findings"])
    assert main(["gain", source, target, write(tmp_path / "short", ["0-0"])]) == 2
    assert "line counts differ" in capsys.readouterr().err
    outside = write(tmp_path / "outside", ["0-9"] * 30)
    assert main(["gain", source, target, outside]) == 2
    assert "1: link 0-9 (from 0), but the source has" in capsys.readouterr().err
