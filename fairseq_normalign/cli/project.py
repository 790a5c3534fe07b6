"""``normalign project SOURCE TARGET``: tags, labels and terms of a source, on its translation."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple

from fairseq_normalign.alignment.signature import first_index
from fairseq_normalign.cli import checks
from fairseq_normalign.cli.options import command
from fairseq_normalign.cli.shell import note
from fairseq_normalign.errors import InputError
from fairseq_normalign.files import name_of, read_lines, refuse_unwritable, whole_file
from fairseq_normalign.text.labels import (
    OUTCOMES,
    STATUSES,
    check_terms,
    project_spans,
    read_conll,
    read_glossary,
    read_spans,
    written,
)
from fairseq_normalign.text.links import InMemory, Link, LinkFile, read_together
from fairseq_normalign.text.markup import HTML, XML, marked_words, parse_markup
from fairseq_normalign.text.offsets import (
    TOKENIZERS,
    Tokenizer,
    checked_links,
    located,
    texts_of,
)
from fairseq_normalign.text.tags import project_tags

TERM_COLUMNS = "line\tterm\ttranslation\tglossary\tstatus"
DESCRIPTION = """Carry what stands on a source over to its translation, by word links: inline tags
and placeholders (default), labelled spans (--labels), or a check of terms (--terms). One line of
SOURCE and one of TARGET for each pair; the text of the translation stays as it is. What could not
be placed is reported by line on stderr."""
EXAMPLE = """normalign project page.de page.en --links page.links --html -o page.html
         normalign project a.conll a.en --labels --model deen/ -r ende/ > en.conll"""


class Item(NamedTuple):
    """A sentence of the source."""

    number: int  # of its line, or of its first one
    words: list[str]
    content: Any  # the line, or the sentence with its labels


# What became of a sentence: lines to write, reports, and labels with what became of each.
Worked = tuple[list[str], list[str], list[tuple[str, str]]]
Mode = tuple[list[Item], Callable[[Item, str, Iterable[Link]], Worked]]


OPTIONS = f"""
SOURCE             lines with tags; with --labels, CoNLL or JSON lines
[TARGET]           plain translations, a line each
-o --output FILE   write here instead of stdout
what is carried over:
  --html           HTML, read leniently, instead of XML
  --no-placeholders  {{0}} and %s are text
  --unique         never close and reopen an element: ids stay unique
  --plain          write the words of SOURCE alone, to translate
  --labels         SOURCE has labels: CoNLL columns (word first, IOB2 label last), or JSON lines
                   with "text" and "spans": [[start, end, label]]
  --terms FILE     check a glossary: lines of a term, a tab, its translation
links: from a file, or made by a model
  --links FILE     links of the words without markup
  --index 0|1      first word in FILE (default: 0, or as written)
  --model MODEL    a translation model, as align takes it
  -r --reverse-path MODEL  the model of the other direction
  --learned FILE   a file that align --learned wrote
  --lowercase      the model reads lowercased text
  --cpu            use no GPU
  --tokenizer {"|".join(TOKENIZERS)} = none
      words: between blanks (none); punctuation and CJK letters apart (plain); Moses
"""


def check(args: Namespace) -> None:
    """Refuses what does not go together, before anything is read."""
    checks.requires(args, "model", "reverse_path", "learned", "cpu")
    checks.requires(args, "links", "index")
    for other in ("labels", "terms"):
        checks.excludes(args, other, "html", "unique", "no_placeholders")
    checks.excludes(args, "labels", "terms")
    checks.excludes(args, "plain", "links", "model")
    if not args.plain:
        if args.target is None:
            raise InputError("no TARGET; expected the file of translations")
        if (args.links is None) == (args.model is None):
            raise InputError("needs one of --links FILE and --model MODEL")
    inputs = (args.source, args.target, args.links, args.terms, args.learned)
    checks.refuse_stdin_twice(*inputs)
    if args.output is not None:
        refuse_unwritable(args.output, *inputs)
    args.path = args.model  # for the command's entry: whether fairseq is needed


parse_args = command("project", DESCRIPTION, EXAMPLE, OPTIONS, check)


def main(args: Namespace) -> None:
    """Works out all lines before one is written, and before anything is reported."""
    tokenizer = TOKENIZERS[args.tokenizer]
    name = name_of(args.source)
    mode = of_labels if args.labels else of_tags if args.terms is None else of_terms
    items, work = mode(args, texts(args.source), tokenizer)
    lines = [TERM_COLUMNS] if args.terms is not None else []
    reports: list[str] = []
    outcomes: dict[str, Counter[str]] = {}
    if args.plain:
        lines = [" ".join(item.words) for item in items]
    else:
        for item, target, links in with_links(args, items, tokenizer):
            with located(f"{name}:{item.number}"):
                new_lines, told, found = work(item, target, links)
            lines += new_lines
            reports += [f"{name}:{item.number}: {text}" for text in told]
            for kind, outcome in found:
                outcomes.setdefault(kind, Counter())[outcome] += 1
    for report in [*reports, *table(outcomes, OUTCOMES if args.labels else STATUSES)]:
        note(report)
    with whole_file(args.output) if args.output else nullcontext(sys.stdout) as file:
        file.writelines(f"{line}\n" for line in lines)


def table(outcomes: dict[str, Counter[str]], columns: Sequence[str]) -> list[str]:
    """How often each outcome is, by label; nothing if there is none."""
    from tabulate import tabulate

    rows = [
        [kind, counts.total(), *(counts[column] for column in columns)]
        for kind, counts in sorted(outcomes.items())
    ]
    return tabulate(rows, headers=["", "all", *columns]).splitlines() if rows else []


def texts(path: str) -> list[str]:
    return [line.removesuffix("\n") for line in read_lines(path)]


def with_links(args: Namespace, items: Sequence[Item], tokenizer: Tokenizer) -> Iterator[tuple]:
    """Each item of the source with its translation and their links."""
    targets = texts(args.target)
    both = (InMemory(name_of(args.source), items), InMemory(name_of(args.target), targets))
    joined = list(read_together(*both))  # refuses unequal texts, whatever the links are
    if args.links is not None:
        index = first_index(args.links, args.index)
        return read_together(*both, LinkFile(args.links, index=index))
    from fairseq_normalign.alignment.loading import load

    pairs = []
    for item, target in joined:
        pair = (" ".join(item.words), " ".join(texts_of(target, tokenizer(target))))
        pairs.append((pair[0].lower(), pair[1].lower()) if args.lowercase else pair)
    aligner = load(args.model, args.reverse_path, learned=args.learned, cpu=args.cpu)
    found = iter(aligner.align_many([pair for pair in pairs if all(pair)]))
    links = [next(found) if all(pair) else [] for pair in pairs]
    return read_together(*both, InMemory(args.model, links))


def of_tags(args: Namespace, lines: Sequence[str], tokenizer: Tokenizer) -> Mode:
    markup, placeholders = HTML if args.html else XML, not args.no_placeholders
    items = []
    for number, line in enumerate(lines, 1):
        with located(f"{name_of(args.source)}:{number}"):
            text, elements = parse_markup(line, kind=markup, placeholders=placeholders)
            words = texts_of(text, marked_words(text, elements, tokenizer))
            items.append(Item(number, words, line))

    def work(item: Item, target: str, links: Iterable[Link]) -> Worked:
        reports: list[str] = []
        line = project_tags(
            item.content,
            target,
            links,
            unique=args.unique,
            markup=markup,
            placeholders=placeholders,
            tokenizer=tokenizer,
            report=reports.append,
        )
        return [line], reports, []

    return items, work


def of_labels(args: Namespace, lines: Sequence[str], tokenizer: Tokenizer) -> Mode:
    name = name_of(args.source)
    items = []
    if lines and lines[0].startswith("{"):
        for number, line in enumerate(lines, 1):
            with located(f"{name}:{number}"):
                sentence = read_spans(line, tokenizer)
            items.append(Item(number, sentence.words, sentence))
    else:
        for number, sentence in read_conll(lines, name):
            items.append(Item(number, sentence.words, sentence))

    def work(item: Item, target: str, links: Iterable[Link]) -> Worked:
        words, spans = tokenizer(target), item.content.spans
        ordered = checked_links(links, len(item.words), len(words))
        projected, outcomes = project_spans(spans, ordered)
        reports, counted = [], []
        for (begin, end, label), outcome in zip(spans, outcomes, strict=True):
            counted.append((label, outcome))
            if outcome != "projected":
                reports.append(f"{outcome}: {label} {' '.join(item.words[begin:end])!r}")
        return [written(item.content, target, words, projected)], reports, counted

    return items, work


def of_terms(args: Namespace, lines: Sequence[str], tokenizer: Tokenizer) -> Mode:
    glossary = read_glossary(args.terms)
    items = [
        Item(number, texts_of(line, tokenizer(line)), line) for number, line in enumerate(lines, 1)
    ]

    def work(item: Item, target: str, links: Iterable[Link]) -> Worked:
        uses = check_terms(item.content, target, links, glossary, tokenizer=tokenizer)
        rows = ["\t".join([str(item.number), *use]) for use in uses]
        return rows, [], [("terms", use.status) for use in uses]

    return items, work
