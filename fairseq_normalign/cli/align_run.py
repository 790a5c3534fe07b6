"""How ``normalign align`` runs: the aligner that its options describe, on a corpus in chunks."""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Iterable
from contextlib import nullcontext, suppress
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairseq_normalign.alignment.lexicon import Lexicon
from fairseq_normalign.alignment.links import LinkFile
from fairseq_normalign.analysis.evidence import LINKS, LinksFile, parse_evidences
from fairseq_normalign.cli import shell
from fairseq_normalign.files import whole_file
from fairseq_normalign.locks import Busy
from fairseq_normalign.progress import bar, is_quiet
from fairseq_normalign.runs.engines import Make, Place
from fairseq_normalign.runs.folder import RunFolder
from fairseq_normalign.runs.plan import Plan, run_and_keep, run_through

if TYPE_CHECKING:
    from fairseq_normalign.analysis.aligner import Aligner
    from fairseq_normalign.analysis.alignment_run import ChunkAligner


def align(args: argparse.Namespace, plan: Plan, folder: RunFolder | None) -> None:
    """Aligns a corpus, or one shard of it, to a folder of chunks or straight to the output."""
    from fairseq_normalign.analysis.alignment_run import Notes, decide
    from fairseq_normalign.host.options import check_not_empty
    from fairseq_normalign.host.pairs import EXAMINED_PAIRS
    from fairseq_normalign.host.raw_corpus import raw_corpus

    aligner = load_aligner(args)
    links = [LinkFile(file.path, reverse=file.reverse) for file in link_files(args)]
    corpus = raw_corpus(args, aligner.models, links)
    work = chunk_aligner(args, aligner, corpus.kind)
    first = list(islice(corpus.items, max(aligner.sample_size, EXAMINED_PAIRS)))
    check_not_empty(len(first), corpus.names[0])
    items = chain(first, corpus.items)
    work.reader.examine(first)
    decided = decide(aligner, work.reader, first, folder, args.decision, **batch_of(args))
    tell_agreement(decided.get("agreement"))
    work.aligner = aligner.with_decision(decided["decision"])
    keep_lexicon(args.lexicon, work.aligner)
    make: Make = partial(load_worker, args, corpus.kind, decided["decision"])
    if plan.is_local:
        make = partial(_already_loaded, work)
    notes = Notes(work.reader, corpus.names)
    with bar("alignments", total=left_of(corpus.total, plan, folder)) as shown:
        if folder is not None:
            run_and_keep(items, make, plan, folder, note=notes.add, progress=shown.update)
        else:
            bodies = run_through(items, make, plan, note=notes.add, progress=shown.update)
            write_straight(args.output, bodies)
    if not args.output:
        shell.print_signature({**decided["signature"], **notes.policy()})
    notes.tell()


def tell_agreement(agreement: float | None) -> None:
    """How far source and target words agree, if the first pairs have decided something."""
    if agreement is not None and not is_quiet():
        shell.say(f"agreement of source and target words: {agreement:.2f} (chance 0, all 1)")


def left_of(total: int | None, plan: Plan, folder: RunFolder | None) -> int | None:
    """How many pairs are still to do, of a corpus of so many; tells how many are not."""
    chunks = [] if folder is None else list(filter(plan.shard.has, folder.done()))
    done = sum(plan.pairs_of(chunk, total) for chunk in chunks)
    if done and not is_quiet():
        shell.say(f"{done} pairs were done before")
    if total is None:
        return None
    own = filter(plan.shard.has, range(-(-total // plan.pairs)))
    return sum(plan.pairs_of(chunk, total) for chunk in own) - done


def _already_loaded(work: ChunkAligner, place: Place) -> ChunkAligner:
    return work


def load_worker(
    args: argparse.Namespace, kind: str, decision: dict[str, Any], place: Place
) -> ChunkAligner:
    """What works on chunks in another process."""
    from fairseq_normalign.host.options import take_place

    take_place(args, place)
    return chunk_aligner(args, load_aligner(args).with_decision(decision), kind)


def chunk_aligner(args: argparse.Namespace, aligner: Aligner, kind: str) -> ChunkAligner:
    """Makes the lines that the options ask for."""
    from fairseq_normalign.analysis.alignment_run import ChunkAligner
    from fairseq_normalign.host.raw_corpus import ChunkReader

    links = len(link_files(args))
    reader = ChunkReader(aligner.models, kind, too_long=args.too_long, links=links)
    return ChunkAligner(aligner, reader, index=args.index, confidence=args.confidence)


def batch_of(args: argparse.Namespace) -> dict[str, Any]:
    """The last digit of a confidence may depend on the size of batches."""
    return {"batch": args.max_tokens} if args.confidence else {}


def write_straight(output: str | None, bodies: Iterable[str]) -> None:
    """Writes to stdout, or to a pipe or device."""
    with whole_file(output) if output else nullcontext(sys.stdout) as file:
        for body in bodies:
            file.write(body)


def load_aligner(args: argparse.Namespace) -> Aligner:
    """The aligner that the options describe."""
    from fairseq_normalign.analysis.aligner import NormAligner
    from fairseq_normalign.analysis.combined import LEARN_PAIRS, CombinedAligner
    from fairseq_normalign.analysis.shift_att import ShiftAttAligner
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


def align_options_of(args: argparse.Namespace) -> Any:
    from fairseq_normalign.analysis.aligner import AlignOptions

    return AlignOptions(
        method=args.method,
        layer=args.layer,
        head=args.head,
        step=args.step,
        eos=args.eos,
        extract=args.extract,
        source_merge=args.source_merge,
        target_merge=args.target_merge,
        batch_tokens=args.max_tokens,
    )


def link_files(args: argparse.Namespace) -> list[LinksFile]:
    """The files of other aligners' links among the evidences."""
    texts = [text for text in args.evidence or [] if LINKS.fullmatch(text)]
    return parse_evidences(texts)[1]


def keep_lexicon(path: str | None, aligner: Aligner) -> None:
    """Writes what a combined aligner has counted, if it is to be kept and is not yet."""
    from fairseq_normalign.analysis.combined import CombinedAligner

    if path is None or Path(path).exists():
        return
    if isinstance(aligner, CombinedAligner) and aligner.model is not None:
        lexicon = aligner.model.lexicon
        if not lexicon.pairs:
            warnings.warn(f"{path}: not written, as no lexicon is used here", stacklevel=2)
            return
        with suppress(Busy):  # another shard keeps it
            lexicon.write(path)
