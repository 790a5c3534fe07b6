"""The recipes of WMT and OpenSubtitles, all but the download, on archives made here."""

from __future__ import annotations

import gzip
import io
import tarfile
import zipfile
from dataclasses import replace
from pathlib import Path

import corpora
import pytest
from corpora import RECIPES
from lines import read_lines


def pack(raw: Path, archives: dict[str, dict[str, str]]) -> None:
    """Archives as they are downloaded, in OUTDIR/raw."""
    raw.mkdir(parents=True, exist_ok=True)
    for name, members in archives.items():
        packed(raw / name, {member: text.encode() for member, text in members.items()})


def packed(path: Path, members: dict[str, bytes]) -> Path:
    """A tar.gz, or a zip if it is called so."""
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w") as archive:
            for member, content in members.items():
                archive.writestr(member, content)
        return path
    with tarfile.open(path, "w:gz") as archive:
        for member, content in members.items():
            header = tarfile.TarInfo(member)
            header.size = len(content)
            archive.addfile(header, io.BytesIO(content))
    return path


def sgm(*segments: str) -> str:
    lines = [f'<seg id="{number}">{text}</seg>' for number, text in enumerate(segments, start=1)]
    return "<srcset>\n<doc>\n<p>\n" + "\n".join(lines) + "\n</p>\n</doc>\n</srcset>\n"


@pytest.fixture(autouse=True)
def words(monkeypatch):
    """A tokeniser that parts the final stop, so that it is seen to have run."""
    monkeypatch.setattr(
        corpora, "tokenize", lambda lines, lang, jobs: (line.replace(".", " .") for line in lines)
    )


def text(folder: Path, name: str) -> list[str]:
    return list(read_lines(folder / name))


GERMAN_ENGLISH = {
    "de-en.tgz": {
        "europarl-v7.de-en.de": "Ein Haus.\n\nDas ist gut .\nAlt.\n",
        "europarl-v7.de-en.en": "A house.\n\nThat is good .\nOld.\n",
    },
    "training-parallel-commoncrawl.tgz": {
        "commoncrawl.de-en.de": "Netz\u2028Seite\tzwei.\nWort\n",
        "commoncrawl.de-en.en": "Web page two.\n" + "word " * 10 + "\n",
    },
    "training-parallel-nc-v11.tgz": {
        "training-parallel-nc-v11/news-commentary-v11.de-en.de": "Die Presse.\n",
        "training-parallel-nc-v11/news-commentary-v11.de-en.en": "The press.\n",
    },
    "dev.tgz": {
        "dev/newstest2015-deen-src.de.sgm": sgm("Alt.", "Q &amp; A."),
        "dev/newstest2015-deen-ref.en.sgm": sgm("Old.", "Q &amp; A."),
    },
    "test.tgz": {
        "test/newstest2016-deen-src.de.sgm": sgm("Neu."),
        "test/newstest2016-deen-ref.en.sgm": sgm("New."),
    },
}


def test_wmt16_german_english(tmp_path):
    pack(tmp_path / "raw", GERMAN_ENGLISH)
    corpora.main(["wmt16-de-en", str(tmp_path)])
    assert text(tmp_path, "train.de") == [
        "Ein Haus .",
        "Das ist gut  .",
        "Netz Seite zwei .",
        "Die Presse .",
    ]
    assert text(tmp_path, "train.en")[2:] == ["Web page two .", "The press ."]
    assert text(tmp_path, "valid.de") == ["Alt .", "Q & A ."]
    assert text(tmp_path, "test.en") == ["New ."]


def test_wmt16_with_the_gold_set_as_test(tmp_path, monkeypatch):
    monkeypatch.setattr(corpora, "tokenize", lambda lines, lang, jobs: lines)
    gold = {"DeEn/de": "Das ist gut .\n", "DeEn/en": "That is good .\n"}
    pack(tmp_path, {"gold.tgz": {**gold, "DeEn/alignmentDeEn.talp": "1-1 2-2 3-3\n"}})
    # newstest2016 is not needed, and not fetched.
    pack(tmp_path / "raw", {k: v for k, v in GERMAN_ENGLISH.items() if k != "test.tgz"})
    corpora.main(["wmt16-de-en", str(tmp_path), "--gold", str(tmp_path / "gold.tgz")])
    assert text(tmp_path, "train.de") == ["ein haus.", "netz seite zwei.", "die presse."]
    assert text(tmp_path, "test.de") == ["das ist gut ."]
    assert text(tmp_path, "test.talp") == ["1-1 2-2 3-3"]


ENGLISH_RUSSIAN = {
    "training-parallel-commoncrawl.tgz": {
        "commoncrawl.ru-en.en": "One.\nTwo.\n",
        "commoncrawl.ru-en.ru": "Один.\nДва.\n",
    },
    "training-parallel-nc-v11.tgz": {
        "training-parallel-nc-v11/news-commentary-v11.ru-en.en": "Three.\n",
        "training-parallel-nc-v11/news-commentary-v11.ru-en.ru": "Три.\n",
    },
    "wiki-titles.tgz": {"wiki/ru-en/wiki.ru-en": "Четыре ||| Four\n"},
    "1mcorpus.zip": {"corpus.en_ru.1m.en": "Five.\n", "corpus.en_ru.1m.ru": "Пять.\n"},
    "dev.tgz": {
        "dev/newstest2013.en": "Six.\n",
        "dev/newstest2013.ru": "Шесть.\n",
        "dev/newstest2014-ruen-ref.en.sgm": sgm("Seven."),
        "dev/newstest2014-ruen-src.ru.sgm": sgm("Семь."),
    },
}


def test_wmt_english_russian_takes_all_if_there_are_fewer(tmp_path):
    pack(tmp_path / "raw", ENGLISH_RUSSIAN)
    corpora.main(["wmt-en-ru", str(tmp_path)])
    assert text(tmp_path, "train.en") == ["One .", "Two .", "Three .", "Four", "Five ."]
    assert text(tmp_path, "train.ru") == ["Один .", "Два .", "Три .", "Четыре", "Пять ."]
    assert text(tmp_path, "valid.ru") == ["Шесть ."]
    assert text(tmp_path, "test.en") == ["Seven ."]


def test_a_corpus_with_a_licence_must_be_fetched_by_hand(tmp_path, capsys):
    archives = {name: files for name, files in ENGLISH_RUSSIAN.items() if name != "1mcorpus.zip"}
    pack(tmp_path / "raw", archives)
    with pytest.raises(SystemExit) as stop:
        corpora.main(["wmt-en-ru", str(tmp_path)])
    assert stop.value.code == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.endswith(
        "1mcorpus.zip: not found; expected what https://translate.yandex.ru/corpus gives after its "
        "licence"
    )


def subtitles(raw: Path, count: int) -> None:
    """As many subtitles, of which every third overlaps too little."""
    numbers = range(count)
    links = [
        f'<link id="SL{n}" xtargets="{n};{n}" overlap="{0.5 if n % 3 == 0 else 0.95}" />'
        for n in numbers
    ]
    group = '<linkGrp fromDoc="en/a" toDoc="ru/a">'
    raw.mkdir(parents=True)
    with gzip.open(raw / "links.en-ru.xml.gz", "wt") as file:
        file.write("\n".join([group, *links, "</linkGrp>"]))
    english = "".join(f"Line {n}.\n" for n in numbers)
    russian = "".join(f"Строка {n}.\n" for n in numbers)
    ids = "".join(f"en/a\tru/a\t{n}\t{n}\n" for n in numbers)
    members = dict(zip(corpora.SUBTITLES.members, (english, russian), strict=True))
    pack(raw, {"en-ru.txt.zip": {**members, corpora.SUBTITLE_IDS: ids}})


def test_opensubtitles(tmp_path):
    subtitles(tmp_path / "raw", 60)
    corpora.corpus(replace(RECIPES["opensubtitles-en-ru"], pairs=20, held_out=(5, 7)), tmp_path)
    splits = {split: text(tmp_path, f"{split}.en") for split in corpora.SPLITS}
    assert {split: len(lines) for split, lines in splits.items()} == {
        "train": 20,
        "valid": 5,
        "test": 7,
    }
    every = [line for lines in splits.values() for line in lines]
    assert len(set(every)) == 32
    assert all(int(line.split()[1]) % 3 for line in every)
    assert [line.split()[1] for line in text(tmp_path, "test.ru")] == [
        line.split()[1] for line in splits["test"]
    ]
