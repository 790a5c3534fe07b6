"""The Europarl recipe, all but the download, on an archive made here.

Also on the real gold set, where there is one.
"""

from __future__ import annotations

import os
from pathlib import Path

import europarl
import pytest
from lines import read_lines

from fairseq_normalign.errors import InputError
from tests.data_prep.test_corpora import packed

GERMAN = ["Das ist gut .", "", "Daß wir ! ", "  "]
ENGLISH = ["That is good .", "", "That we !", ""]
TALP = ["1-1 2-2 3-3 4p4 ", "", "2-2 3-3", ""]


def gold_files(german=GERMAN, english=ENGLISH, talp=TALP) -> dict[str, bytes]:
    texts = ("\n".join(lines) + "\n" for lines in (german, english, talp))
    return {name: text.encode("latin-1") for name, text in zip(europarl.GOLD, texts, strict=True)}


def gold_set(folder: Path, **files):
    raw = folder / "raw"
    raw.mkdir(exist_ok=True)
    return europarl.gold_set(
        *europarl.extract(packed(folder / "gold.tgz", gold_files(**files)), europarl.GOLD, raw)
    )


def test_gold_set(tmp_path):
    pairs, links = gold_set(tmp_path)
    assert pairs == [("Das ist gut .", "That is good ."), ("Daß wir !", "That we !")]
    assert links == ["1-1 2-2 3-3 4p4", "2-2 3-3"]


@pytest.mark.parametrize(
    ("talp", "message"),
    [
        (["1-1"], "2 German, 2 English sentences and 1 lines of links; expected as many of each"),
        (["1-1", "3-4"], "sentence 2: link 3-4; expected at most 3-3"),
    ],
)
def test_bad_gold_set(tmp_path, talp, message):
    with pytest.raises(InputError, match=message):
        gold_set(tmp_path, talp=talp)


def test_real_gold_set(tmp_path):
    """508 pairs with 9,613 sure and 921 possible links.

    The text stays the same after a round through Latin-1 and blank lines.
    """
    if "NORMALIGN_DATA" not in os.environ:
        pytest.skip("NORMALIGN_DATA is unset: it names the folder of real data")
    folder = Path(os.environ["NORMALIGN_DATA"]) / "deen"
    files = [list(read_lines(folder / name)) for name in ("test.de", "test.en", "test.talp")]
    pairs, links = gold_set(
        tmp_path, german=[*files[0], ""], english=["", *files[1]], talp=[*files[2], " "]
    )
    assert pairs == list(zip(*files[:2], strict=True))
    assert len(links) == 508
    assert sum(line.count("-") for line in links) == 9613
    assert sum(line.count("p") for line in links) == 921


def test_disjoint_drops_pairs_whose_sides_both_occur_in_the_test_set():
    test = [("a", "A"), ("b", "B")]
    pairs = [("a", "A"), ("a", "B"), ("a", "C"), ("c", "B"), ("c", "C")]
    assert list(europarl.disjoint(pairs, test)) == [("a", "C"), ("c", "B"), ("c", "C")]


@pytest.mark.parametrize("jobs", [1, 2])
def test_tokenize(jobs):
    """As the gold set is tokenised.

    Apostrophes and brackets stay as they are, and hyphens inside words are kept.
    """
    pytest.importorskip("sacremoses")
    lines = ["We don't cherry-pick, (Mr.) Smith & co.", "", "Ja, z.B. heute!"]
    assert list(europarl.tokenize(lines[:2], "en", jobs)) == [
        "We don 't cherry-pick , ( Mr. ) Smith & co .",
        "",
    ]
    assert list(europarl.tokenize(lines[2:], "de", jobs)) == ["Ja , z.B. heute !"]


def test_whole_recipe(tmp_path, monkeypatch):
    """From archives already downloaded to data-bin, with a tokeniser that splits at spaces."""
    monkeypatch.setattr(europarl, "tokenize", lambda lines, lang, jobs: lines)
    monkeypatch.setattr(europarl, "VALID", 3)
    monkeypatch.setattr(europarl, "VOCAB_SIZE", 60)
    (tmp_path / "raw").mkdir()
    sides = [
        f"{language} wort{n} und wort{n * n} .\n" for n in range(30) for language in ("Ein", "A")
    ]
    texts = ("".join(sides[0::2]).encode(), "".join(sides[1::2]).encode())
    packed(tmp_path / "raw" / "de-en.tgz", dict(zip(europarl.TEXT, texts, strict=True)))
    europarl.europarl(tmp_path, packed(tmp_path / "gold.tgz", gold_files()))
    counts = {
        split: len(list(read_lines(tmp_path / f"{split}.de")))
        for split in ("train", "valid", "test")
    }
    assert counts == {"train": 27, "valid": 3, "test": 2}
    assert (tmp_path / "data-bin" / "train.de-en.en.idx").exists()
