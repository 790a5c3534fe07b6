"""``normalign project SOURCE TARGET``: tags, labels and terms of a source, on its translation."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from fairseq_normalign.alignment.signature import made_with
from fairseq_normalign.cli import checks
from fairseq_normalign.cli.options import command
from fairseq_normalign.cli.shell import note
from fairseq_normalign.errors import InputError
from fairseq_normalign.files import name_of, read_lines, refuse_overwriting, whole_file
from fairseq_normalign.strict_json import parse_json
from fairseq_normalign.text.links import InMemory, Link, LinkFile, read_together
from fairseq_normalign.text.projection.labels import (
    OUTCOMES,
    Labelled,
    project_spans,
    read_labels,
    written_labels,
)
from fairseq_normalign.text.projection.markup import HTML, TEXT, XML, parse_markup
from fairseq_normalign.text.projection.offsets import TOKENIZERS, checked_links, texts_of
from fairseq_normalign.text.projection.tags import project_tags
from fairseq_normalign.text.projection.terms import check_terms, read_glossary

DESCRIPTION = """Carry what stands on a source over to its translation, by word links: inline tags
and placeholders (default), labelled spans (--labels), or a check of terms (--terms). One line of
SOURCE and one of TARGET for each pair; the text of the translation stays as it is. What could not
be placed is reported by line on stderr."""
EXAMPLE = """normalign project page.de page.en --links page.links --html -o page.html
         normalign project a.conll a.en --labels --model deen/ -r ende/ > en.conll"""
Pair = tuple[str, str]


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "source", metavar="SOURCE", help="lines with tags; with --labels, CoNLL or JSON lines"
    )
    parser.add_argument(
        "target", metavar="TARGET", nargs="?", help="plain translations, a line each"
    )
    group = parser.add_argument_group("what is carried over")
    group.add_argument("--html", action="store_true", help="HTML, read leniently, instead of XML")
    group.add_argument("--text", action="store_true", help="no tags: < and & are text")
    group.add_argument("--no-placeholders", action="store_true", help="{0} and %%s are text")
    group.add_argument(
        "--unique", action="store_true", help="never close and reopen an element: ids stay unique"
    )
    group.add_argument(
        "--plain",
        action="store_true",
        help="write the words of SOURCE without markup, to translate",
    )
    group.add_argument(
        "--labels",
        action="store_true",
        help="SOURCE has labels: CoNLL columns (word first, IOB2 label last), or JSON lines with "
        '"text" and "spans": [[start, end, label]]',
    )
    group.add_argument(
        "--split", action="store_true", help="labels: allow several spans for one of the source"
    )
    group.add_argument(
        "--terms", metavar="FILE", help="check a glossary: lines of a term, a tab, its translation"
    )
    add_link_options(parser)
    parser.add_argument("-o", "--output", metavar="FILE", help="write here instead of stdout")


def add_link_options(parser: ArgumentParser) -> None:
    group = parser.add_argument_group("links", "from a file, or made by a model")
    group.add_argument("--links", metavar="FILE", help="links of the words without markup")
    group.add_argument(
        "--index", type=int, choices=(0, 1), help="first word in FILE (default: 0, or as written)"
    )
    group.add_argument("--model", metavar="MODEL", help="a translation model, as align takes it")
    group.add_argument("-r", "--reverse-path", metavar="MODEL", help="that of the other direction")
    group.add_argument("--learned", metavar="FILE", help="a file that align --learned wrote")
    group.add_argument("--lowercase", action="store_true", help="the model reads lowercased text")
    group.add_argument("--cpu", action="store_true", help="use no GPU")
    group.add_argument(
        "--tokenizer",
        choices=tuple(TOKENIZERS),
        default="none",
        help="words: between blanks (none); punctuation and CJK letters apart (plain); Moses",
    )


def check(args: Namespace) -> None:
    """Refuses what does not go together, before anything is read."""
    checks.requires(args, "model", "reverse_path", "learned", "cpu")
    checks.requires(args, "links", "index")
    checks.requires(args, "labels", "split")
    for other in ("labels", "terms"):
        checks.excludes(args, other, "html", "text", "unique", "plain", "no_placeholders")
    checks.excludes(args, "labels", "terms")
    checks.excludes(args, "html", "text")
    checks.excludes(args, "plain", "links", "model")
    if not args.plain:
        if args.target is None:
            raise InputError("no TARGET; expected the file of translations")
        if (args.links is None) == (args.model is None):
            raise InputError("needs one of --links FILE and --model MODEL")
    inputs = (args.source, args.target, args.links, args.terms, args.learned)
    if inputs.count("-") > 1:
        raise InputError("stdin ('-') can be read only once")
    if args.output is not None:
        refuse_overwriting(args.output, *inputs)
    args.path = args.model  # for the command's entry: whether fairseq is needed


parse_args = command("project", DESCRIPTION, EXAMPLE, add_options, check)


def main(args: Namespace) -> None:
    """Works out all lines before one is written."""
    if args.plain:
        lines = list(plain_lines(args))
    elif args.labels:
        lines = label_lines(args)
    elif args.terms is not None:
        lines = term_lines(args)
    else:
        lines = tag_lines(args)
    if args.output is None:
        sys.stdout.writelines(f"{line}\n" for line in lines)
        return
    with whole_file(args.output) as file:
        file.writelines(f"{line}\n" for line in lines)


def texts(path: str) -> list[str]:
    return [line.removesuffix("\n") for line in read_lines(path)]


def markup_of(args: Namespace) -> dict[str, Any]:
    kind = HTML if args.html else TEXT if args.text else XML
    return {"kind": kind, "placeholders": not args.no_placeholders}


def plain_texts(args: Namespace, lines: Sequence[str]) -> Iterator[str]:
    for number, line in enumerate(lines, 1):
        try:
            yield parse_markup(line, **markup_of(args)).text
        except InputError as error:
            raise InputError(f"{name_of(args.source)}:{number}: {error}") from None


def plain_lines(args: Namespace) -> Iterator[str]:
    for text in plain_texts(args, texts(args.source)):
        yield " ".join(texts_of(text, TOKENIZERS[args.tokenizer](text)))


def tag_lines(args: Namespace) -> list[str]:
    """Translations with tags; reports are shown when nothing is refused any more."""
    sources, targets = texts(args.source), texts(args.target)
    tokenizer = TOKENIZERS[args.tokenizer]
    words = [texts_of(text, tokenizer(text)) for text in plain_texts(args, sources)]
    markup = markup_of(args)
    lines, reports = [], []
    for number, (source, target, links) in enumerate(with_links(args, sources, words, targets), 1):
        where = f"{name_of(args.source)}:{number}"
        notes: list[str] = []
        try:
            line = project_tags(
                source,
                target,
                links,
                unique=args.unique,
                markup=markup["kind"],
                placeholders=markup["placeholders"],
                tokenizer=tokenizer,
                report=notes.append,
            )
        except InputError as error:
            raise InputError(f"{where}: {error}") from None
        lines.append(line)
        reports += [f"{where}: {text}" for text in notes]
    for report in reports:
        note(report)
    return lines


def with_links(
    args: Namespace, sources: Sequence[Any], words: Sequence[list[str]], targets: Sequence[str]
) -> Iterator[tuple[Any, str, list[Link]]]:
    """Each source with its translation and their links."""
    both = [InMemory(name_of(args.source), sources), InMemory(name_of(args.target), targets)]
    pairs = list(read_together(*both))
    if args.links is not None:
        index = args.index
        if index is None:
            index = int(made_with(args.links).get("index") == 1)
        yield from read_together(*both, LinkFile(args.links, index=index))
        return
    from fairseq_normalign.alignment.loading import load

    tokenizer = TOKENIZERS[args.tokenizer]
    read = str.lower if args.lowercase else str
    lines = []
    for own, target in zip(words, targets, strict=True):
        if own and tokenizer(target):
            others = texts_of(target, tokenizer(target))
            lines.append((read(" ".join(own)), read(" ".join(others))))
    aligner = load(args.model, args.reverse_path, learned=args.learned, cpu=args.cpu)
    found = iter(aligner.align_many(lines))
    for (source, target), own in zip(pairs, words, strict=True):
        yield source, target, next(found) if own and tokenizer(target) else []


def label_lines(args: Namespace) -> list[str]:
    """The translation with labels in the format of the source; a table on stderr."""
    lines = texts(args.source)
    is_json = next((line for line in lines if line.strip()), "").lstrip().startswith("{")
    sentences = read_json(args, lines) if is_json else read_conll(args, lines)
    tokenizer = TOKENIZERS[args.tokenizer]
    counts: dict[str, Counter[str]] = {}
    written = []
    words = [own for own, _, _ in sentences]
    triples = with_links(args, sentences, words, texts(args.target))
    for number, ((own, spans, item), target, links) in enumerate(triples, 1):
        places = tokenizer(target)
        try:
            ordered = checked_links(links, len(own), len(places))
        except InputError as error:
            raise InputError(f"{name_of(args.source)}: sentence {number}: {error}") from None
        projected, outcomes = project_spans(spans, ordered, split=args.split)
        for span, outcome in zip(spans, outcomes, strict=True):
            counts.setdefault(span.label, Counter())[outcome] += 1
            if outcome != "projected":
                note(
                    f"{name_of(args.source)}: sentence {number}: {outcome}: {span.label} "
                    f"{' '.join(own[span.begin : span.end])!r}"
                )
        if is_json:
            found = [[places[b][0], places[e - 1][1], label] for b, e, label in projected]
            written.append(json.dumps({**item, "text": target, "spans": found}, ensure_ascii=False))
        else:
            labels = written_labels(projected, len(places))
            rows = zip(texts_of(target, places), labels, strict=True)
            written += [*(f"{word}{item}{label}" for word, label in rows), ""]
    note_table(counts)
    return written


def note_table(counts: dict[str, Counter[str]]) -> None:
    from tabulate import tabulate

    rows = [
        [label, own.total(), *(own[name] for name in OUTCOMES)]
        for label, own in sorted(counts.items())
    ]
    for line in tabulate(rows, headers=["label", "spans", *OUTCOMES]).splitlines():
        note(line)


def read_conll(
    args: Namespace, lines: Sequence[str]
) -> list[tuple[list[str], list[Labelled], str]]:
    """Words, spans and the separator of columns, of each sentence."""
    sentences = []
    rows: list[list[str]] = []
    separator = "\t"
    for number, line in enumerate([*lines, ""], 1):
        where = f"{name_of(args.source)}:{number}"
        if line.strip():
            separator = "\t" if "\t" in line else " "
            rows.append(line.split("\t") if "\t" in line else line.split())
            if len(rows[-1]) < 2:
                raise InputError(f"{where}: one column: {line[:40]!r}; expected a word and a label")
        elif rows:
            try:
                spans = read_labels([row[-1] for row in rows])
            except InputError as error:
                raise InputError(f"{where}: the sentence before this line: {error}") from None
            sentences.append(([row[0] for row in rows], spans, separator))
            rows = []
    return sentences


def read_json(
    args: Namespace, lines: Sequence[str]
) -> list[tuple[list[str], list[Labelled], dict]]:
    """Words, spans and the whole object of each line."""
    sentences = []
    for number, line in enumerate(lines, 1):
        try:
            item = parse_json(line)
            text, given = item["text"], item["spans"]
            places = TOKENIZERS[args.tokenizer](text)
            ordered = sorted((int(b), int(e), str(label)) for b, e, label in given)
        except (ValueError, TypeError, KeyError):
            raise InputError(
                f"{name_of(args.source)}:{number}: bad line {line[:40]!r}; expected "
                '{"text": …, "spans": [[start, end, label], …]}'
            ) from None
        spans: list[Labelled] = []
        for begin, end, label in ordered:
            if not 0 <= begin < end <= len(text):
                raise InputError(
                    f"{name_of(args.source)}:{number}: span {[begin, end, label]} is not in a text "
                    f"of {len(text)} characters"
                )
            inside = [place for place, (b, e) in enumerate(places) if b < end and begin < e]
            if spans and inside and inside[0] < spans[-1].end:
                raise InputError(
                    f"{name_of(args.source)}:{number}: span {[begin, end, label]} overlaps "
                    "another, or is in the same word; project one layer of labels at a time"
                )
            if inside:
                spans.append(Labelled(inside[0], inside[-1] + 1, label))
        sentences.append((texts_of(text, places), spans, item))
    return sentences


def term_lines(args: Namespace) -> list[str]:
    """A table of all terms; how many are missing on stderr."""
    glossary = read_glossary(args.terms)
    sources, tokenizer = texts(args.source), TOKENIZERS[args.tokenizer]
    words = [texts_of(text, tokenizer(text)) for text in sources]
    lines, counts = ["line\tterm\ttranslation\tglossary\tstatus"], Counter[str]()
    triples = with_links(args, sources, words, texts(args.target))
    for number, (source, target, links) in enumerate(triples, 1):
        try:
            uses = check_terms(source, target, links, glossary, tokenizer=tokenizer)
        except InputError as error:
            raise InputError(f"{name_of(args.source)}:{number}: {error}") from None
        lines += ["\t".join([str(number), *use]) for use in uses]
        counts.update(use.status for use in uses)
    summary = ", ".join(f"{counts[name]} {name}" for name in ("ok", "elsewhere", "missing"))
    note(f"{counts.total()} terms: {summary}")
    return lines
