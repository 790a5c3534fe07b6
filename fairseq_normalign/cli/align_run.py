"""How ``normalign align`` runs: the aligner that its options describe, on a corpus in chunks."""

from __future__ import annotations

import sys
import warnings
from argparse import Namespace
from collections.abc import Iterator, Mapping
from contextlib import nullcontext, suppress
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING

from fairseq_normalign.alignment.evidence import LINKS, AlignOptions, LinksFile, parse_evidences
from fairseq_normalign.alignment.lexicon import Lexicon
from fairseq_normalign.alignment.signature import signed_file
from fairseq_normalign.cli import shell
from fairseq_normalign.cli.checkpoints import options_of_each
from fairseq_normalign.cli.runs import Task
from fairseq_normalign.errors import InputError
from fairseq_normalign.files import Busy
from fairseq_normalign.options import read_options
from fairseq_normalign.progress import is_quiet
from fairseq_normalign.runs.engines import Place
from fairseq_normalign.runs.folder import RunFolder
from fairseq_normalign.runs.measure import Made, prepared_job
from fairseq_normalign.text.link_formats import file_lines
from fairseq_normalign.text.links import LinkFile

if TYPE_CHECKING:
    from fairseq_normalign.alignment.aligner import DecidedAligner, OpenAligner
    from fairseq_normalign.alignment.run import Aligning


def tasks(args: Namespace, folder: RunFolder | None) -> Iterator[Task]:
    """The alignment of a corpus by the models that the options name."""
    from fairseq_normalign.alignment.run import Links, keep_decision
    from fairseq_normalign.host.pairs import EXAMINED_PAIRS
    from fairseq_normalign.host.raw_corpus import Notes, check_not_empty, raw_corpus

    (args,) = options_of_each(args)
    aligner = load_aligner(args)
    links = [LinkFile(file.path, reverse=file.reverse) for file in link_files(args)]
    corpus = raw_corpus(args, aligner.models, links)
    models = aligning(args, aligner, corpus.kind)
    first = list(islice(corpus.items, EXAMINED_PAIRS))
    check_not_empty(len(first), corpus.names[0])
    models.reader.examine(first)
    measure = Links(
        aligner.sample_size,
        index=args.index,
        confidence=args.confidence,
        format=args.format,
        decision=args.decision,
        # The last digit of a confidence may depend on the size of batches.
        signed={"batch": args.max_tokens} if args.confidence else {},
    )
    job = prepared_job(measure, models, chain(first, corpus.items), folder, corpus.total)
    agreement = job.prepared["agreement"]
    if agreement is not None and not is_quiet():
        shell.say(f"agreement of source and target words: {agreement:.2f} (chance 0, all 1)")
    keep_decision(args.decision, job.prepared, models)
    keep_lexicon(args.lexicon, models.decided(job.prepared))
    notes = Notes(models.reader, corpus.names)
    yield Task([job], models, partial(load_aligning, args, corpus.kind), notes, "alignments")


def load_aligning(args: Namespace, kind: str, place: Place) -> Aligning:
    """The models in another process."""
    from fairseq_normalign import plugin  # noqa: F401  (registers)
    from fairseq_normalign.host.options import take_place

    take_place(args, place)
    return aligning(args, load_aligner(args), kind)


def aligning(args: Namespace, aligner: OpenAligner, kind: str) -> Aligning:
    from fairseq_normalign.alignment.run import Aligning
    from fairseq_normalign.host.raw_corpus import ChunkReader

    links = len(link_files(args))
    return Aligning(aligner, ChunkReader(aligner.models, kind, too_long=args.too_long, links=links))


def finish(args: Namespace, made: Mapping[str, Made]) -> None:
    """Writes the links, and their signature beside them or to stderr."""
    links = made["links"]
    signature = dict(links.prepared["signature"])
    policies: dict[str, str] = {}  # for long pairs, and where the first of them is
    pairs = 0
    with signed_file(args.output, signature) if args.output else nullcontext(sys.stdout) as file:
        for part in links.partials:
            count, places = part.notes["too_long"]
            if count:
                policies.setdefault(part.notes["policy"], places[0])
                _refuse_several(policies)
                signature["too-long"] = part.notes["policy"]
            lines = part.text.split("\n")[:-1]
            file.writelines(file_lines(lines, args.format, first=pairs + 1))
            pairs += len(lines)
    if not args.output:
        shell.print_signature(signature)


def _refuse_several(policies: Mapping[str, str]) -> None:
    """Refuses shards that have dealt with long pairs in different ways."""
    if len(policies) > 1:
        ways = [f"{place} with --too-long {policy}" for policy, place in policies.items()]
        raise InputError(
            f"{' and '.join(ways)}: expected all shards to be run with the same, from the start"
        )


def load_aligner(args: Namespace) -> OpenAligner:
    """The aligner that the options describe."""
    from fairseq_normalign.alignment.aligner import NormAligner
    from fairseq_normalign.alignment.combined import LEARN_PAIRS, CombinedAligner
    from fairseq_normalign.alignment.shift_att import ShiftAttAligner
    from fairseq_normalign.host.options import load

    align_options = align_options_of(args)
    forward = NormAligner(*load(args), align_options)
    backward = None
    if args.reverse_path:
        backward = NormAligner(*load(args, reverse=True), align_options)
    if args.combine is None:
        return forward if backward is None else ShiftAttAligner(forward, backward)
    evidences, files = parse_evidences(args.evidence or [])
    known = args.lexicon if args.lexicon and Path(args.lexicon).exists() else None
    return CombinedAligner(
        forward,
        backward,
        combine=args.combine,
        evidences=evidences or None,
        extract=args.extract,
        links=len(files),
        learn_pairs=args.learn_pairs or LEARN_PAIRS,
        lexicon=Lexicon.read(known) if known else None,
    )


def align_options_of(args: Namespace) -> AlignOptions:
    return read_options(AlignOptions, args, batch_tokens=args.max_tokens)


def link_files(args: Namespace) -> list[LinksFile]:
    """The files of other aligners' links among the evidences."""
    texts = [text for text in args.evidence or [] if LINKS.fullmatch(text)]
    return parse_evidences(texts)[1]


def keep_lexicon(path: str | None, aligner: DecidedAligner) -> None:
    """Writes what a combined aligner has counted, if it is to be kept and is not yet."""
    if path is None or Path(path).exists():
        return
    lexicon = aligner.decision.model.lexicon  # --lexicon needs --combine learned
    if not lexicon.pairs:
        warnings.warn(f"{path}: not written, as no lexicon is used here", stacklevel=2)
        return
    with suppress(Busy):  # another shard keeps it
        lexicon.write(path)
