"""Links of a sentence pair, read from Pharaoh, talp, NAACL/WPT and JSON files.

Pharaoh and talp have one line per sentence pair: ``i-j`` is a sure link, ``ipj`` a possible one,
source word first; a link may carry a confidence, ``i-j:0.93``. NAACL/WPT has one line per link:
``sentence source target [S|P] [confidence]``, with sentences in ascending order and sentences
without links left out (Mihalcea and Pedersen, 2003). JSON has an object per sentence pair, whose
``links`` are pairs of numbers. ``link_formats`` writes these, and more.

Numbers have nine digits at most: no sentence is as long.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from pathlib import Path
from typing import Any, NamedTuple

from fairseq_normalign.errors import InputError
from fairseq_normalign.files import is_stream, name_of, read_lines, split_words
from fairseq_normalign.strict_json import PATTERN, parse_json

Link = tuple[int, int]
FORMATS = ("auto", "pharaoh", "talp", "naacl", "jsonl")

NUMBER = "([0-9]{1,9})"
TOKEN = re.compile(rf"{NUMBER}[-p]{NUMBER}(?::{PATTERN})?")
NAACL = re.compile(rf"{NUMBER} {NUMBER} {NUMBER}(?: ([SP]))?(?: {PATTERN})?")
NONE: frozenset = frozenset()
SHOWN = 40  # letters of what is refused
CACHED_TOKENS = 1 << 18  # more than the pairs of two 500-word sentences
MOST_EMPTY = 1_000_000  # sentences without links between two lines of a NAACL file
# How far a file is counted after the end of a shorter one: stdin may never end, …
MOST_COUNTED = 1_000_000
MOST_MADE = 1000  # … and what is in no file may be made by a model, sentence by sentence


class Gold(NamedTuple):
    """The reference links of a sentence pair; ``possible`` includes ``sure``."""

    sure: Set[Link]
    possible: Set[Link]


@functools.cache
def _link_reader(index: int, reverse: bool) -> Callable[[str], Link]:
    """What makes a link of a token: a corpus repeats few of them many times."""

    @functools.lru_cache(CACHED_TOKENS)
    def link_of(token: str) -> Link:
        match = TOKEN.fullmatch(token)
        if match is None:
            raise InputError(
                f"bad link {token[:SHOWN]!r}; expected 'i-j' (sure) or 'ipj' (possible)"
            )
        source, target = int(match[1]) - index, int(match[2]) - index
        if source < 0 or target < 0:
            raise InputError(
                f"link {token[:SHOWN]!r} has index 0 where words are counted from 1; is the file "
                "0-based?"
            )
        return (target, source) if reverse else (source, target)

    return link_of


def parse_links(line: str, *, index: int = 0, reverse: bool = False) -> set[Link]:
    """The links of a Pharaoh or talp line, sure and possible alike.

    Args:
        line: links separated by white space of ASCII; an empty line has none.
        index: what the file calls the first word, 0 or 1.
        reverse: the line has the target word first.
    """
    return set(map(_link_reader(index, reverse), split_words(line)))


def parse_gold(line: str, *, index: int = 0, reverse: bool = False, sure: str = "-") -> Gold:
    """The sure and possible links of a talp line; ``sure`` separates the words of a sure link."""
    possible = parse_links(line, index=index, reverse=reverse)
    if sure == "-" and "p" not in line:
        return Gold(possible, possible)
    # "-" may also stand in a confidence, 1e-5.
    of_sure = [token for token in split_words(line) if ("p" in token) == (sure == "p")]
    return Gold(set(map(_link_reader(index, reverse), of_sure)), possible)


def format_links(
    links: Iterable[Link],
    *,
    index: int = 0,
    confidences: Sequence[float] | None = None,
) -> str:
    """A Pharaoh line, links in ascending order.

    Args:
        links: pairs (source, target).
        index: what the file calls the first word, 0 or 1.
        confidences: one per link, in the order of ``links``; written as ``i-j:0.930``.
    """
    pairs = [(source + index, target + index) for source, target in links]
    if confidences is None:
        return " ".join(f"{a}-{b}" for a, b in sorted(pairs))
    ordered = sorted(zip(pairs, confidences, strict=True))
    return " ".join(f"{a}-{b}:{confidence:.3f}" for (a, b), confidence in ordered)


class LinkFile:
    """The links of a file, one sentence pair at a time, in constant memory.

    Iterating yields sets of links. ``format`` ``auto`` tells NAACL and JSON from Pharaoh and talp
    by the first line with text.
    """

    empty: Any = NONE

    def __init__(
        self, path: str | Path, *, index: int = 0, reverse: bool = False, format: str = "auto"
    ) -> None:
        self.path, self.name = path, name_of(path)
        self.index, self.reverse, self.format = index, reverse, format

    def __iter__(self) -> Iterator[Any]:
        for number, line in enumerate(self._lines(), 1):
            try:
                tokens = _links_in_json(line) if self.format == "jsonl" else line
                yield self._parse(tokens)
            except InputError as error:
                place = f" sentence {number}" if self.open_ended else number
                raise InputError(f"{self.name}:{place}: {error}") from None

    def _parse(self, line: str) -> Any:
        return parse_links(line, index=self.index, reverse=self.reverse)

    def _lines(self) -> Iterator[str]:
        lines = read_lines(self.path)
        if self.format == "auto":
            self.format, lines = _recognise(lines)
        if self.format == "naacl":
            return _talp_lines(lines, null=self.index == 1, name=self.name)
        return lines

    @property
    def open_ended(self) -> bool:
        """Whether the file may be shorter than the corpus.

        NAACL cannot say that the last sentences have no links.
        """
        return self.format == "naacl"


class GoldFile(LinkFile):
    """The gold links of a file. Iterating yields ``Gold``.

    Args:
        sure: the separator that marks sure links, ``-`` or ``p``.
        possible: ``keep``; ``drop`` them; or count them as ``sure``.
    """

    empty = Gold(NONE, NONE)

    def __init__(
        self, path: str | Path, *, sure: str = "-", possible: str = "keep", **options: Any
    ) -> None:
        super().__init__(path, **options)
        self.sure, self.possible = sure, possible

    def read_as(self) -> dict[str, Any]:
        """How it is read, as in signatures."""
        reverse = "ref" if self.reverse else "none"
        return {"ref-index": self.index, "reverse": reverse, "possible": self.possible}

    def _parse(self, line: str) -> Gold:
        gold = parse_gold(line, index=self.index, reverse=self.reverse, sure=self.sure)
        if self.possible == "keep":
            return gold
        kept = gold.possible if self.possible == "sure" else gold.sure
        return Gold(kept, kept)


def _recognise(lines: Iterator[str]) -> tuple[str, Iterator[str]]:
    """The format of the lines, and the same lines again."""
    seen = []
    for line in lines:
        seen.append(line)
        if split_words(line):
            break
    words = " ".join(split_words(seen[-1])) if seen else ""
    format = "talp"
    if words.startswith("{"):
        format = "jsonl"
    elif NAACL.fullmatch(words):
        format = "naacl"
    return format, itertools.chain(seen, lines)


def _links_in_json(line: str) -> str:
    """The links of a JSON object as a Pharaoh line."""
    try:
        return " ".join(f"{source:d}-{target:d}" for source, target in parse_json(line)["links"])
    except (ValueError, TypeError, KeyError):
        raise InputError(
            f'bad line {line[:SHOWN]!r}; expected an object whose "links" are [source, target]'
        ) from None


def _talp_lines(lines: Iterable[str], *, null: bool, name: str) -> Iterator[str]:
    """NAACL lines as talp lines, one per sentence; sentences without links become empty lines.

    Args:
        null: index 0 is the empty word (files that count from 1); such links are left out.
    """
    sentence: int | None = None
    tokens: list[str] = []
    for number, line in enumerate(lines, 1):
        text = " ".join(split_words(line))
        if not text:
            continue
        match = NAACL.fullmatch(text)
        if match is None:
            raise InputError(
                f"{name}:{number}: bad line {text[:SHOWN]!r}; expected "
                "'sentence source target [S|P]'"
            )
        current, source, target = map(int, match.groups()[:3])
        if sentence is None:
            sentence = min(current, 1)
        if not 0 <= current - sentence <= MOST_EMPTY:
            raise InputError(
                f"{name}:{number}: sentence {current} after {sentence}; expected ascending order, "
                f"and at most {MOST_EMPTY} sentences without links between two lines: is the first "
                "number that of the sentence?"
            )
        for _ in range(current - sentence):
            yield " ".join(tokens)
            tokens = []
        sentence = current
        if not (null and 0 in (source, target)):
            tokens.append(f"{source}{'p' if match[4] == 'P' else '-'}{target}")
    if sentence is not None:
        yield " ".join(tokens)


class InMemory:
    """Items of any kind, one for each sentence pair, to be read together with files."""

    open_ended = False

    def __init__(self, name: str, items: Iterable[Any]) -> None:
        self.name, self.items = name, items

    def __iter__(self) -> Iterator[Any]:
        return iter(self.items)


def read_together(*files: Any) -> Iterator[tuple]:
    """One tuple per sentence pair; files of unequal length are refused.

    NAACL files are filled up with sentences without links.
    """
    streams = [iter(file) for file in files]
    for number, items in enumerate(itertools.zip_longest(*streams)):
        if None not in items:
            yield items
            continue
        full = []
        for file, item in zip(files, items, strict=True):
            if item is None and not file.open_ended:
                raise _unequal(files, items, streams, number)
            full.append(file.empty if item is None else item)
        yield tuple(full)


def _unequal(
    files: Sequence[Any], items: tuple, streams: Sequence[Iterator], number: int
) -> InputError:
    """States how many items all files have, unless it takes long to find out."""
    counts = []
    for file, item, stream in zip(files, items, streams, strict=True):
        limit = MOST_MADE if isinstance(file, InMemory) else MOST_COUNTED
        rest = 0 if item is None else 1 + sum(1 for _ in itertools.islice(stream, limit))
        count = f"more than {number + limit}" if rest > limit else number + rest
        counts.append(f"{file.name} has {count}")
    return InputError(
        f"line counts differ: {', '.join(counts)} lines; each needs one line per sentence pair"
    )


def count_lines(text: Any) -> int | None:
    """How many items a text or a file has; a pipe can be read only once: None."""
    if is_stream(getattr(text, "path", "")):
        return None
    return len(text) if hasattr(text, "__len__") else sum(1 for _ in text)


def refuse_other_count(text: Any, total: int | None, corpus: str = "the corpus") -> None:
    """Refuses a file of more or fewer pairs than the corpus has, before it is worked on.

    Nothing is said of a pipe, and of a corpus that is one.
    """
    count = None if total is None else count_lines(text)
    if total is None or count is None or count == total:
        return
    if count > total or not text.open_ended:
        raise InputError(
            f"line counts differ: {text.name} has {count}, {corpus} has {total} lines; each "
            "needs one line per sentence pair"
        )
