#!/usr/bin/env python3
"""Fetch a parallel corpus of WMT or OpenSubtitles, choose its pairs, tokenise and split it.

Downloads to OUTDIR/raw and writes {train,valid,test}.{de,en} (or .en and .ru) to OUTDIR, split into
words, for prepare.py and scripts/train_nmt.py. A run that was stopped continues with the first step
it had not finished. Needs `pip install sacremoses`.

  wmt16-de-en          Europarl v7, Common Crawl and News Commentary v11, newstest2015 as valid and
                       newstest2016 as test; with --gold, the RWTH gold set as test, all lowercased
  wmt-en-ru            2.5 million pairs of Common Crawl, News Commentary v11, Wiki Headlines and
                       the Yandex corpus, newstest2013 as valid, newstest2014 as test
  opensubtitles-en-ru  6 million pairs of OpenSubtitles 2018 that are shown at the same time for at
                       least 0.9 of it, 10,000 others as valid and 10,000 as test

example: python data_prep/corpora.py wmt16-de-en wmt16 --jobs 8
"""

from __future__ import annotations

import argparse
import html
import random
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from archives import extract
from command import described_by, errors_in_one_line, log
from download import download
from europarl import GOLD, gold_set
from lines import read_lines, read_pairs, write_lines, write_pairs
from selection import Pair, clean, disjoint, groups, lowercase
from subtitles import overlapping
from tokenization import tokenize

from fairseq_normalign.errors import InputError

MAX_WORDS = 100  # of a training sentence, before it is tokenised
MAX_RATIO = 9  # of the lengths of a pair: the default of Moses
SEED = 1  # of the random choice
SEGMENT = re.compile(r"<seg\b[^>]*>(.*?)</seg>", re.IGNORECASE)
SPLITS = ("train", "valid", "test")


@dataclass(frozen=True)
class Part:
    """One corpus: an archive on the web, and the files in it that have its text.

    Attributes:
        url: of the archive; or, if a licence must be accepted, of the page that tells how.
        members: a file for each language, source first; or one of `target ||| source` lines.
        archive: how the file is called, if that is not the end of the URL.
        by_hand: the user must fetch it.
    """

    url: str
    members: tuple[str, ...]
    archive: str = ""
    by_hand: bool = False

    @property
    def name(self) -> str:
        """What the archive is called in OUTDIR/raw."""
        return self.archive or self.url.rpartition("/")[2]


@dataclass(frozen=True)
class Recipe:
    """How a corpus is made.

    Attributes:
        langs: source and target, the suffixes of the files.
        train: where the training text comes from.
        held_out: valid and test, each a corpus, or how many pairs of the training text.
        pairs: how many training pairs are chosen at random, if there are more.
        overlap: for subtitles, the least share of time that both are shown.
    """

    langs: tuple[str, str]
    train: tuple[Part, ...]
    held_out: tuple[Part | int, Part | int]
    pairs: int | None = None
    overlap: float | None = None


STATMT = "https://www.statmt.org"
WMT16 = "https://data.statmt.org/wmt16/translation-task"
OPUS = "https://object.pouta.csc.fi/OPUS-OpenSubtitles/v2018"
SUBTITLES = Part(
    f"{OPUS}/moses/en-ru.txt.zip", ("OpenSubtitles.en-ru.en", "OpenSubtitles.en-ru.ru")
)
SUBTITLE_IDS = "OpenSubtitles.en-ru.ids"
SUBTITLE_LINKS = f"{OPUS}/xml/en-ru.xml.gz"

RECIPES = {
    "wmt16-de-en": Recipe(
        langs=("de", "en"),
        train=(
            Part(
                f"{STATMT}/europarl/v7/de-en.tgz", ("europarl-v7.de-en.de", "europarl-v7.de-en.en")
            ),
            Part(
                f"{STATMT}/wmt13/training-parallel-commoncrawl.tgz",
                ("commoncrawl.de-en.de", "commoncrawl.de-en.en"),
            ),
            Part(
                f"{WMT16}/training-parallel-nc-v11.tgz",
                (
                    "training-parallel-nc-v11/news-commentary-v11.de-en.de",
                    "training-parallel-nc-v11/news-commentary-v11.de-en.en",
                ),
            ),
        ),
        held_out=(
            Part(
                f"{WMT16}/dev.tgz",
                ("dev/newstest2015-deen-src.de.sgm", "dev/newstest2015-deen-ref.en.sgm"),
            ),
            Part(
                f"{WMT16}/test.tgz",
                ("test/newstest2016-deen-src.de.sgm", "test/newstest2016-deen-ref.en.sgm"),
            ),
        ),
    ),
    "wmt-en-ru": Recipe(
        langs=("en", "ru"),
        train=(
            Part(
                f"{STATMT}/wmt13/training-parallel-commoncrawl.tgz",
                ("commoncrawl.ru-en.en", "commoncrawl.ru-en.ru"),
            ),
            Part(
                f"{WMT16}/training-parallel-nc-v11.tgz",
                (
                    "training-parallel-nc-v11/news-commentary-v11.ru-en.en",
                    "training-parallel-nc-v11/news-commentary-v11.ru-en.ru",
                ),
            ),
            Part(f"{STATMT}/wmt15/wiki-titles.tgz", ("wiki/ru-en/wiki.ru-en",)),
            Part(
                "https://translate.yandex.ru/corpus",
                ("corpus.en_ru.1m.en", "corpus.en_ru.1m.ru"),
                archive="1mcorpus.zip",
                by_hand=True,
            ),
        ),
        held_out=(
            Part(f"{WMT16}/dev.tgz", ("dev/newstest2013.en", "dev/newstest2013.ru")),
            Part(
                f"{WMT16}/dev.tgz",
                ("dev/newstest2014-ruen-ref.en.sgm", "dev/newstest2014-ruen-src.ru.sgm"),
            ),
        ),
        pairs=2_500_000,
    ),
    "opensubtitles-en-ru": Recipe(
        langs=("en", "ru"),
        train=(SUBTITLES,),
        held_out=(10_000, 10_000),
        pairs=6_000_000,
        overlap=0.9,
    ),
}


def fetch(part: Part, raw: Path) -> Path:
    """The archive of a part, downloaded if it is not there."""
    archive = raw / part.name
    if part.by_hand and not archive.exists():
        raise InputError(f"{archive}: not found; expected what {part.url} gives after its licence")
    return download(part.url, archive)


def pairs_of(part: Part, raw: Path) -> Iterator[Pair]:
    """The sentence pairs of a part, as they are published."""
    paths = extract(fetch(part, raw), part.members, raw)
    if len(paths) == 1:
        return read_titles(paths[0])
    if paths[0].suffix == ".sgm":
        return read_sgm(paths[0], paths[1])
    return read_pairs(paths[0], paths[1])


def read_titles(path: Path) -> Iterator[Pair]:
    """Pairs of a file of Wiki Headlines, lines of `target ||| source`; returns the source first."""
    for number, line in enumerate(read_lines(path), start=1):
        target, mark, source = line.partition(" ||| ")
        if not mark:
            raise InputError(f"{path}:{number}: {line!r}; expected 'target ||| source'")
        yield source, target


def read_sgm(source: Path, target: Path) -> Iterator[Pair]:
    """Pairs of segments of two SGML files."""
    sides = [list(_segments(path)) for path in (source, target)]
    if len(sides[0]) != len(sides[1]):
        raise InputError(
            f"{source}: {len(sides[0])} segments, {target}: {len(sides[1])}; expected as many in "
            "both"
        )
    return zip(sides[0], sides[1], strict=True)


def _segments(path: Path) -> Iterator[str]:
    for line in read_lines(path):
        for text in SEGMENT.findall(line):
            yield html.unescape(text).strip()


def training_pairs(recipe: Recipe, raw: Path) -> Iterator[Pair]:
    """All pairs that may be trained on, clean, but not tokenised yet."""
    pairs = chain.from_iterable(pairs_of(part, raw) for part in recipe.train)
    if recipe.overlap is not None:
        (ids,) = extract(fetch(SUBTITLES, raw), [SUBTITLE_IDS], raw)
        links = download(SUBTITLE_LINKS, raw / "links.en-ru.xml.gz")
        pairs = overlapping(pairs, ids, links, recipe.overlap)
    return clean(pairs, MAX_WORDS, MAX_RATIO)


def choose(recipe: Recipe, raw: Path, without: Collection[str] = ()) -> dict[str, list[Path]]:
    """The files of each split, as published, in OUTDIR/raw; written unless they are there.

    Splits in `without` come from elsewhere, and are not fetched.
    """
    sizes = {
        split: part
        for split, part in zip(SPLITS[1:], recipe.held_out, strict=True)
        if isinstance(part, int)
    }
    files = {s: [raw / f"chosen.{s}.{lang}" for lang in recipe.langs] for s in SPLITS}
    for split, part in zip(SPLITS[1:], recipe.held_out, strict=True):
        if isinstance(part, Part) and split not in without and not _there(files[split]):
            write_pairs(*files[split], _spaced(pairs_of(part, raw)))
    drawn = ["train", *sizes]
    if all(_there(files[split]) for split in drawn):
        return files
    total = sum(1 for _ in training_pairs(recipe, raw))
    held_out = sum(sizes.values())
    if total <= held_out:
        raise InputError(f"{raw}: {total} clean pairs; expected more than {held_out}")
    size = min(recipe.pairs or total, total - held_out)
    log(f"choosing {size} of {total} clean pairs for training")
    for number, split in enumerate(drawn):
        numbers = groups(total, [size, *sizes.values()], random.Random(SEED))
        pairs = _members(training_pairs(recipe, raw), numbers, number)
        write_pairs(*files[split], _spaced(pairs))
    return files


def _there(paths: Sequence[Path]) -> bool:
    return all(path.exists() for path in paths)


def _spaced(pairs: Iterable[Pair]) -> Iterator[Pair]:
    """Pairs with single plain spaces: some lines have tabs, or line separators of Unicode."""
    return ((" ".join(source.split()), " ".join(target.split())) for source, target in pairs)


def _members(pairs: Iterable[Pair], numbers: Iterable[int | None], wanted: int) -> Iterator[Pair]:
    return (pair for pair, number in zip(pairs, numbers, strict=True) if number == wanted)


def tokenized(paths: Sequence[Path], jobs: int) -> Iterator[Pair]:
    """The pairs of two files split into words, which are kept beside them."""
    outputs = [path.with_name(f"{path.name}.tok") for path in paths]
    for path, output in zip(paths, outputs, strict=True):
        if not output.exists():
            log(f"tokenising {path}")
            write_lines(output, tokenize(read_lines(path), path.suffix[1:], jobs))
    return read_pairs(*outputs)


def corpus(recipe: Recipe, outdir: Path, gold: Path | None = None, jobs: int = 1) -> None:
    """From the web to train, valid and test; what an earlier run finished is not done again."""
    raw = outdir / "raw"
    raw.mkdir(parents=True, exist_ok=True)
    held_out: dict[str, list[Pair]] = {}
    if gold is not None:
        held_out["test"], links = gold_set(*extract(gold, GOLD, raw))
        write_lines(outdir / "test.talp", links)
    files = choose(recipe, raw, without=held_out)
    for split in SPLITS[1:]:
        if split not in held_out:
            held_out[split] = list(tokenized(files[split], jobs))
    train = tokenized(files["train"], jobs)
    for pairs in held_out.values():
        train = disjoint(train, pairs)
    for split, taken in {"train": train, **held_out}.items():
        log(f"writing {split}")
        source, target = (outdir / f"{split}.{lang}" for lang in recipe.langs)
        write_pairs(source, target, taken if gold is None else lowercase(taken))


def get_parser() -> argparse.ArgumentParser:
    """Options of the command."""
    parser = described_by(__doc__)
    parser.add_argument("recipe", choices=RECIPES, help="which corpus")
    parser.add_argument("outdir", type=Path, help="folder to write to")
    parser.add_argument(
        "--gold",
        type=Path,
        metavar="FILE",
        help="DeEnGoldAlignment.tar.gz, to be the test set of a German–English corpus",
    )
    parser.add_argument(
        "--jobs", type=int, default=1, metavar="N", help="processes (default: %(default)s)"
    )
    return parser


def main(argv: Sequence[str] | None = None) -> None:
    """Fetch, choose and split, or say in one line what is wrong."""
    args = get_parser().parse_args(argv)
    recipe = RECIPES[args.recipe]
    with errors_in_one_line("corpora.py"):
        if args.gold is not None and recipe.langs != ("de", "en"):
            raise InputError(f"--gold is German–English; {args.recipe} is not")
        if args.gold is not None and not args.gold.exists():
            raise InputError(f"{args.gold}: not found; expected DeEnGoldAlignment.tar.gz")
        corpus(recipe, args.outdir, args.gold, args.jobs)


if __name__ == "__main__":
    main()
