"""How ``normalign align`` runs: the aligner that its options describe, on a corpus in chunks."""

from __future__ import annotations

import sys
import warnings
from argparse import Namespace
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from fairseq_normalign.alignment.evidence import LINKS, parse_evidences
from fairseq_normalign.alignment.signature import signed_file
from fairseq_normalign.attention.extract import extractor, values_of
from fairseq_normalign.cli import shell
from fairseq_normalign.cli.runs import Task, each
from fairseq_normalign.errors import InputError
from fairseq_normalign.progress import bar
from fairseq_normalign.runs.engines import Place
from fairseq_normalign.runs.folder import RunFolder
from fairseq_normalign.runs.measure import Made, prepared_job
from fairseq_normalign.text.link_formats import WRITERS, AlignedPair, file_lines
from fairseq_normalign.text.links import LinkFile
from fairseq_normalign.text.paired import read_words

if TYPE_CHECKING:
    from fairseq_normalign.alignment.aligner import DecidedAligner, OpenAligner
    from fairseq_normalign.alignment.bitext import Bitext
    from fairseq_normalign.alignment.run import Aligning


def tasks(args: Namespace, folder: RunFolder | None, *, count: bool = False) -> Iterator[Task]:
    """The alignment of a corpus by the models that the options name.

    Args:
        count: expected numbers of links instead of links.
    """
    from fairseq_normalign.alignment.loading import load_aligner
    from fairseq_normalign.alignment.run import Links, check_policy, keep_learned
    from fairseq_normalign.host.pairs import EXAMINED_PAIRS
    from fairseq_normalign.host.raw_corpus import check_not_empty, raw_corpus

    (args,) = each(args)
    aligner = load_aligner(args)
    is_learned = args.interactive or (args.learned is not None and Path(args.learned).exists())
    learned = aligner.load_learned(args.learned) if is_learned else None
    if learned and args.bitext:
        if "bitext" not in learned.signature():
            raise InputError(
                f"{args.learned}: was learned without a bitext; for --bitext name a new file"
            )
        shell.note(
            f"{args.learned} keeps the bitext that it was learned with; --bitext is not read"
        )
    corpus = raw_corpus(args, aligner.models, link_files(args))
    models = aligning(args, aligner, corpus.kind, learned)
    first = []
    if not args.interactive:  # or nobody could answer before many pairs have come
        first = list(islice(corpus.items, EXAMINED_PAIRS))
        check_not_empty(len(first), corpus.name)
        models.reader.examine(first)
    signed = {"index": args.index} if args.index else {}  # which normalign aer reads
    if args.never_empty:
        signed["never-empty"] = 1
    if args.confidence:  # its last digit may depend on the size of batches
        signed["batch"] = args.max_tokens
    measure = Links(
        0 if args.interactive else aligner.sample_size,
        index=args.index,
        confidence=args.confidence,
        format=args.format,
        never_empty=args.never_empty,
        count=count,
        signed=signed,
    )
    job = prepared_job(measure, models, chain(first, corpus.items), folder, corpus.total)
    check_policy(job.prepared, args.too_long)
    decided = models.decided(job.prepared)
    if args.learned is not None:
        keep_learned(args.learned, decided)
    if decided.decision.pairs:
        where = "" if args.learned is None else f"{args.learned}: "
        here = decided.decision._replace(agreement=job.prepared["agreement"])
        shell.note(where + here.summary())
    load, too_long = partial(load_aligning, args, corpus.kind), models.reader.too_long_pairs()
    yield Task([job], models, load, too_long, "alignments")


def load_aligning(args: Namespace, kind: str, place: Place) -> Aligning:
    """The models in another process."""
    from fairseq_normalign import plugin  # noqa: F401  (registers)
    from fairseq_normalign.alignment.loading import load_aligner
    from fairseq_normalign.host.options import take_place

    take_place(args, place)
    return aligning(args, load_aligner(args), kind)


def aligning(
    args: Namespace, aligner: OpenAligner, kind: str, learned: DecidedAligner | None = None
) -> Aligning:
    from fairseq_normalign.alignment.run import Aligning
    from fairseq_normalign.host.raw_corpus import ChunkReader

    links = len(link_files(args))
    reader = ChunkReader(aligner.models, kind, too_long=args.too_long, links=links)
    return Aligning(aligner, reader, learned)


def finish(args: Namespace, made: Mapping[str, Made]) -> None:
    """Writes the links, and their signature beside them or to stderr."""
    links = made["links"]
    signature = dict(links.prepared["signature"])
    policies = []  # for long pairs, of all shards
    pairs = 0
    with signed_file(args.output, signature) if args.output else nullcontext(sys.stdout) as file:
        for part in links.partials:
            count, _ = part.notes["too_long"]
            if count and part.notes["policy"] not in policies:
                policies.append(part.notes["policy"])
                signature["too-long"] = "+".join(policies)
            lines = part.text.split("\n")[:-1]
            file.writelines(file_lines(lines, args.format, first=pairs + 1))
            file.flush()
            pairs += len(lines)
    if not args.output:
        shell.print_signature(signature)


def align_without_model(args: Namespace) -> None:
    """Writes the links that the words of a text give, by themselves and by other text."""
    from fairseq_normalign.alignment.bitext import LARGE, bitext_of

    first = list(islice(read_words(args.text), LARGE))
    bitext = bitext_of(args.bitext, args.text, first, least=1)
    if bitext is None:
        raise InputError(f"{args.text[0]}: no sentence pairs to count")
    if bitext.pairs < LARGE:
        warnings.warn(
            f"counted in {bitext.pairs} pairs only, so that links are poor; name more text by "
            "--bitext",
            stacklevel=2,
        )
    signature = {"method": "bitext", "bitext": bitext.pairs, "extract": args.extract}
    if args.index:
        signature["index"] = args.index
    with signed_file(args.output, signature) if args.output else nullcontext(sys.stdout) as file:
        file.writelines(file_lines(_lines(args, bitext), args.format))
    if not args.output:
        shell.print_signature(signature)


def _lines(args: Namespace, bitext: Bitext) -> Iterator[str]:
    extract, write = extractor(args.extract), WRITERS[args.format]
    softs = bitext.soft(read_words(args.text))
    with bar("alignments") as shown:
        for texts, soft in zip(read_words(args.text), softs, strict=True):
            links = extract(soft)
            shares = values_of(soft, links) if args.confidence else None
            of_rows = soft / np.maximum(soft.sum(axis=1, keepdims=True), 1)
            pair = AlignedPair(links, shares, *texts, of_rows)
            yield write(pair, args.index)
            shown.update()


def link_files(args: Namespace) -> list[LinkFile]:
    """The files of other aligners' links among the evidences."""
    texts = [text for text in args.evidence if LINKS.fullmatch(text)]
    return parse_evidences(texts)[1]
