"""fairseq's generation parser, as the commands that run a model extend it."""

from __future__ import annotations

import argparse
import ast
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from fairseq import options, utils
from tqdm import tqdm

from fairseq_normalign.alignment.hypotheses import read_printed
from fairseq_normalign.alignment.links import GoldFile, InMemory, read_together
from fairseq_normalign.alignment.words import TextFile
from fairseq_normalign.errors import InputError
from fairseq_normalign.host.binarised import binarised_pairs
from fairseq_normalign.host.checkpoint import load_single
from fairseq_normalign.host.pairs import Pair, PairReader, text_pairs
from fairseq_normalign.host.teacher_forcing import TeacherForcing

# What --help shows of fairseq's options; all others of fairseq-generate are accepted too.
SHOWN = {
    "help", "path", "gen_subset", "max_tokens", "cpu", "fp16", "user_dir", "bpe", "tokenizer",
    "post_process", "model_overrides",
}  # fmt: skip
MAX_TOKENS = 4000
PACKAGE = __name__.partition(".")[0]


def get_parser(
    command: str, argv: Sequence[str], *, description: str, example: str
) -> argparse.ArgumentParser:
    """fairseq's parser of ``fairseq-generate``, with a short help."""
    accept_own_user_dir(argv)
    parser = options.get_generation_parser()
    parser.prog = f"normalign {command}"
    parser.usage = f"normalign {command} DATA --path CHECKPOINT [options]"
    parser.description = description
    parser.epilog = f"Example: {example}\nAll options of fairseq-generate are accepted."
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    for action in parser._actions:
        if action.dest not in SHOWN:
            action.help = argparse.SUPPRESS
    return parser


def parse_args(parser: argparse.ArgumentParser, argv: Sequence[str]) -> argparse.Namespace:
    """Parses like fairseq: options of the task, BPE and tokeniser join when these are chosen."""
    args = options.parse_args_and_arch(parser, list(argv))
    if not args.path:
        parser.error("--path CHECKPOINT is required")
    try:
        args.model_overrides = ast.literal_eval(args.model_overrides)
    except (SyntaxError, ValueError):
        raise InputError(
            f"--model-overrides {args.model_overrides!r}: expected a Python dictionary"
        ) from None
    for name in ("source_lang", "target_lang"):
        if getattr(args, name, None):
            args.model_overrides[name] = getattr(args, name)
    args.max_tokens = args.max_tokens or MAX_TOKENS
    args.device = torch.device("cuda" if torch.cuda.is_available() and not args.cpu else "cpu")
    return args


def accept_own_user_dir(argv: Sequence[str]) -> None:
    """Lets ``--user-dir`` name this package, in whatever copy: fairseq refuses one that is already
    imported."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--user-dir", type=Path)
    user_dir = parser.parse_known_args(argv)[0].user_dir
    if user_dir is not None and user_dir.resolve().name == PACKAGE:
        memo = getattr(utils.import_user_module, "memo", set())
        utils.import_user_module.memo = memo | {os.path.abspath(user_dir)}  # noqa: PTH100 (the form fairseq compares)


def add_corpus_options(parser: argparse.ArgumentParser) -> None:
    """Text files as an alternative to binarised data."""
    group = parser.add_argument_group(
        "corpus", "a binarised --gen-subset of DATA, or two text files of words"
    )
    group.add_argument(
        "--source-file", metavar="FILE", help="source text, split into words at blanks"
    )
    group.add_argument("--target-file", metavar="FILE", help="target text")
    group.add_argument(
        "--hypotheses",
        metavar="FILE",
        help="translations to align: one a line, or the output of fairseq-generate (which has "
        "the source too)",
    )


def add_gold_options(group, help: str) -> None:
    group.add_argument("--gold", metavar="FILE", help=help)
    group.add_argument(
        "--gold-index",
        type=int,
        choices=(0, 1),
        default=0,
        help="first word in the gold (default: 0)",
    )
    group.add_argument(
        "--reverse-gold", action="store_true", help="the gold has the target word first"
    )


def gold(args: argparse.Namespace) -> GoldFile:
    return GoldFile(args.gold, index=args.gold_index, reverse=args.reverse_gold)


def load(
    args: argparse.Namespace, *, reverse: bool = False, **merges: str
) -> tuple[TeacherForcing, PairReader]:
    """The model that the options name, or the one of the reverse direction, ready to run; and how
    it reads text."""
    overrides = dict(args.model_overrides)
    if reverse and {"source_lang", "target_lang"} <= set(overrides):
        overrides.update(source_lang=overrides["target_lang"], target_lang=overrides["source_lang"])
    model, task = load_single(args.reverse_path if reverse else args.path, args.data, overrides)
    if args.fp16 or args.bf16:
        model = model.half() if args.fp16 else model.bfloat16()
    return TeacherForcing(model.to(args.device), task, **merges), PairReader.from_args(task, args)


def pairs(
    args: argparse.Namespace, reader: PairReader, *, reverse: bool = False, need_target: bool = True
) -> Iterator[Pair]:
    """The corpus that the options name, with a progress bar on a terminal; ``reverse`` swaps the
    texts."""
    total = None
    if (args.source_file, args.target_file, args.hypotheses) == (None, None, None):
        found, total = binarised_pairs(args.gen_subset, reader)
    elif not need_target and args.source_file and not (args.target_file or args.hypotheses):
        found = text_pairs(((words, None) for words in TextFile(args.source_file)), reader)
    else:
        texts = _texts(args)
        total = None if "-" in (args.source_file, args.hypotheses) else sum(1 for _ in texts[0])
        found = text_pairs(read_together(*(reversed(texts) if reverse else texts)), reader)
    return tqdm(found, total=total, unit=" pairs", disable=True if reverse else None)


def _texts(args: argparse.Namespace) -> list:
    """Source and target, to be read together."""
    if args.hypotheses and args.target_file:
        raise InputError(
            "--hypotheses and --target-file both name the target; expected one of them"
        )
    printed = read_printed(args.hypotheses) if args.hypotheses and args.hypotheses != "-" else None
    if printed is not None:
        source, target = (InMemory(args.hypotheses, sentences) for sentences in printed)
        return [TextFile(args.source_file) if args.source_file else source, target]
    target = args.target_file or args.hypotheses
    if args.source_file is None or target is None:
        raise InputError("--source-file and --target-file (or --hypotheses) go together")
    return [TextFile(args.source_file), TextFile(target)]
