"""From the names of models and options to an aligner: for ``normalign align`` and ``load``."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from fairseq_normalign.alignment.aligner import Aligner, NormAligner, OpenAligner
from fairseq_normalign.alignment.combined import LEARN_PAIRS, CombinedAligner
from fairseq_normalign.alignment.evidence import (
    AUTO,
    NONE,
    AlignOptions,
    combination_of,
    parse_evidences,
)
from fairseq_normalign.alignment.shift_att import ShiftAttAligner
from fairseq_normalign.host import options as host
from fairseq_normalign.host.options import PIECE_FILES, complete
from fairseq_normalign.model_argument import bpe_of_files, find_model
from fairseq_normalign.options import flag, read_options

ALIGN_OPTIONS = {field.name for field in fields(AlignOptions)}
OF_SIDES = {name for name in PIECE_FILES if name.startswith(("source_", "target_"))}


def load_aligner(args: Namespace) -> OpenAligner:
    """The aligner that completed options describe."""
    align_options = read_options(AlignOptions, args, batch_tokens=args.max_tokens)
    forward = NormAligner(*host.load(args), align_options)
    backward = None
    if args.reverse_path:
        backward = NormAligner(*host.load(args, reverse=True), align_options)
    if args.combine == NONE:
        return forward if backward is None else ShiftAttAligner(forward, backward)
    evidences, files = parse_evidences(args.evidence or [])
    return CombinedAligner(
        forward,
        backward,
        combine=args.combine,
        evidences=evidences or None,
        extract=args.extract,
        links=len(files),
        learn_pairs=args.learn_pairs or LEARN_PAIRS,
        bitext=args.bitext or (),
        corpus=_corpus_files(args),
    )


def _corpus_files(args: Namespace) -> list[str]:
    """The text that is aligned, if it can be read more than once."""
    files = [name for name in (args.source_file, args.target_file) if name]
    return files if all(Path(name).is_file() for name in files) else []


def load(
    model: str,
    reverse: str | None = None,
    *,
    learned: str | None = None,
    data: str | None = None,
    reverse_data: str | None = None,
    combine: str = AUTO,
    evidence: list[str] | None = None,
    learn_pairs: int | None = None,
    bitext: Sequence[str] = (),
    **options: Any,
) -> Aligner:
    """Loads one model, or two of opposite directions, to align as ``normalign align`` does.

    Examples:
        >>> aligner = load("deen/", reverse="ende/", learned="deen.learned")
        >>> aligner.align("das ist ein haus .", "this is a house .")
        [(0, 0), (1, 1), (2, 2), (3, 3), (4, 4)]

    Without a learned file, weights are learned on the first pairs that are aligned, if there
    are 100 or more: ``load("deen/").align_many(pairs)``. The file is made by
    ``load("deen/").decide(pairs).save("deen.learned")``, and by
    ``normalign align deen/ a.de a.en --learned deen.learned``.

    Args:
        model: a checkpoint, a folder with one, or a Hugging Face folder.
        reverse: the model of the other direction.
        learned: a learned file, which is of the same models and options.
        data: the folder of dictionaries, if it is not that of the model.
        reverse_data: that of the reverse model.
        combine: ``auto`` learns weights on 100 pairs or more; see ``CombinedAligner``. ``none``
            takes one layer and step.
        evidence: names of evidences, as ``--evidence`` takes them.
        learn_pairs: how many of the first pairs the lexicon is counted in.
        bitext: files of translated text to learn from: source and target, or one of lines
            ``source ||| target``.
        options: those of ``AlignOptions``, where ``layer``, ``head`` or ``step`` mean ``combine``
            none; and those of fairseq-generate, as ``bpe``, ``sentencepiece_model``,
            ``source_lang``, ``cpu`` or ``fp16``.
    """
    align_options = AlignOptions(
        **{name: options.pop(name) for name in ALIGN_OPTIONS & options.keys()}
    )
    args = Namespace(
        **vars(align_options),
        **{"bpe": None, "post_process": None, **dict.fromkeys(PIECE_FILES), **options},
        reverse_path=reverse,
        data=data,
        reverse_data=reverse_data,
        source_file="-",  # pairs are text
        target_file=None,
        bitext=bitext,
        evidence=evidence,
        learn_pairs=learn_pairs,
        combine=combination_of(combine, align_options, reverse, evidence),
        max_tokens=align_options.batch_tokens,
    )
    args.bpe = args.bpe or bpe_of_files(args)
    find_model(args, model)
    handed_on = {"bpe", "post_process", *options, *PIECE_FILES} - OF_SIDES
    args.fairseq_argv = [args.data or "."]
    for name in sorted(handed_on):
        value = getattr(args, name)
        if value not in (None, False):
            args.fairseq_argv += [flag(name)] if value is True else [flag(name), str(value)]
    complete(args)
    aligner = load_aligner(args)
    return aligner if learned is None else aligner.load_learned(learned)
