"""What our commands ask of fairseq: the rest of its options, and models."""

from __future__ import annotations

import argparse
import ast
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import torch
from fairseq import options, utils

from fairseq_normalign.errors import InputError
from fairseq_normalign.host.attention_modules import attentions
from fairseq_normalign.host.checkpoint import load_single
from fairseq_normalign.host.pairs import PairReader
from fairseq_normalign.host.segmentation import apply_reading, has_reading
from fairseq_normalign.host.teacher_forcing import TeacherForcing
from fairseq_normalign.host.trust import stored_languages
from fairseq_normalign.runs.engines import Place
from fairseq_normalign.text.links import GoldFile

MAX_TOKENS = 4000
PIECE_FILES = (
    *("sentencepiece_model", "source_sentencepiece_model", "target_sentencepiece_model"),
    *("bpe_codes", "source_bpe_codes", "target_bpe_codes"),
)
PACKAGE = __name__.partition(".")[0]


class ReadyModel(NamedTuple):
    """A model that is ready to run, and how it reads text."""

    forcing: TeacherForcing
    reader: PairReader


def complete(args: argparse.Namespace, defaults: Mapping[str, Any] | None = None) -> None:
    """Adds what fairseq's parser makes of its own options, and what follows from them.

    Options of the task, BPE and tokeniser join when these are chosen, as in fairseq-generate.
    """
    if args.data is None:
        checkpoint = args.path if isinstance(args.path, str) else args.path[0]
        raise InputError(
            f"{checkpoint}: no dictionaries (dict.*.txt) beside it; name them with --data DIR"
        )
    accept_own_user_dir(args.fairseq_argv)
    try:
        parser = options.get_generation_parser()
        parser.error = _refuse
        parser.set_defaults(**(defaults or {}))
        parsed = options.parse_args_and_arch(parser, list(args.fairseq_argv))
    except FileNotFoundError as error:  # fairseq says only where it looked
        raise InputError(
            f"--user-dir {error}: no such directory; expected that of a plugin"
        ) from None
    for name, value in vars(parsed).items():
        if getattr(args, name, None) is None:
            setattr(args, name, value)
    if args.bpe is None and args.post_process is None:
        apply_reading(args, args.data.partition(":")[0])
    args.model_overrides = _overrides(args)
    args.max_tokens = args.max_tokens or MAX_TOKENS
    use_gpu = torch.cuda.is_available() and not args.cpu
    args.device = torch.device("cuda" if use_gpu else "cpu")


def take_place(args: argparse.Namespace, place: Place) -> None:
    """Makes another process ready to load what completed options name."""
    accept_own_user_dir(args.fairseq_argv)
    utils.import_user_module(args)
    if place.threads is not None:
        torch.set_num_threads(place.threads)
    if place.number is not None and args.device.type == "cuda":
        args.device = torch.device("cuda", place.number % torch.cuda.device_count())


def _refuse(message: str) -> NoReturn:
    raise InputError(message.replace("unrecognized arguments", "unknown option"))


def _overrides(args: argparse.Namespace) -> dict[str, Any]:
    """Changes of the model's options, languages included."""
    text = args.model_overrides
    try:
        overrides = ast.literal_eval(text)
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        overrides = None
    if not isinstance(overrides, dict):
        raise InputError(f"--model-overrides {text!r}: expected a Python dictionary")
    for name in ("source_lang", "target_lang"):
        if getattr(args, name, None):
            overrides[name] = getattr(args, name)
    return overrides


def stated(argv: Sequence[str], *options: str) -> argparse.Namespace:
    """What a command line says of some options, among others; each with all of its names."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    for names in options:
        parser.add_argument(*names.split())
    return parser.parse_known_args(argv)[0]


def accept_own_user_dir(argv: Sequence[str]) -> None:
    """Lets ``--user-dir`` name this package, in whatever copy.

    fairseq refuses one that is already imported.
    """
    user_dir = stated(argv, "--user-dir").user_dir
    if user_dir is not None and Path(user_dir).resolve().name == PACKAGE:
        memo: set[str] = getattr(utils.import_user_module, "memo", set())
        # The form that fairseq compares.
        utils.import_user_module.memo = memo | {os.path.abspath(user_dir)}  # noqa: PTH100


def gold(args: argparse.Namespace) -> GoldFile:
    """The gold links that the options name."""
    return GoldFile(args.gold, index=args.gold_index, reverse=args.reverse_gold)


def load(
    args: argparse.Namespace, *, reverse: bool = False, attention: str = "cross"
) -> ReadyModel:
    """The model that the options name, or the one of the reverse direction.

    Args:
        attention: as of ``TeacherForcing``; ``all`` is the cross-attention and what it needs, or,
            of a masked or language model, its self-attention.
    """
    overrides = dict(args.model_overrides)
    path, data = (args.reverse_path, _reverse_data(args)) if reverse else (args.path, args.data)
    pieces = getattr(args, "reverse_pieces", {}) if reverse else {}
    has_own = reverse and (has_reading(data) or bool(pieces))
    if has_own:  # languages and pieces of its own
        overrides.update(_own_languages(args))
        args = argparse.Namespace(**vars(args))
        apply_reading(args, data)
        if pieces:
            vars(args).update({**dict.fromkeys(PIECE_FILES), **pieces})
    elif reverse and {"source_lang", "target_lang"} <= set(overrides):
        source, target = overrides["source_lang"], overrides["target_lang"]
        overrides.update(source_lang=target, target_lang=source)
    elif getattr(args, "reverse_path", None) and has_reading(data.partition(":")[0]):
        stored = stored_languages(path)
        if None not in stored.values():  # the names are those of the reverse model
            overrides.update(stored)
    model, task = load_single(path, data, overrides)
    if args.fp16:
        model = model.half()
    elif args.bf16:
        model = model.bfloat16()
    if attention == "all":
        kinds = {kind for kind, _ in attentions(model)}
        attention = kinds.pop() if len(kinds) == 1 else "cross"
    forcing = TeacherForcing(model.to(args.device), task, attention=attention)
    reader = PairReader.from_args(task, args, reverse=reverse and not has_own)
    return ReadyModel(forcing, reader)


def _own_languages(args: argparse.Namespace) -> dict[str, str]:
    """The languages of a reverse model that was imported.

    A model of two languages has its own names for them. What a multilingual one does not tell is
    swapped from the other model.
    """
    of_reverse = stored_languages(args.reverse_path)
    of_model = {**stored_languages(args.path), **args.model_overrides}
    source = of_reverse["source_lang"] or of_model["target_lang"]
    target = of_reverse["target_lang"] or of_model["source_lang"]
    languages = {"source_lang": source, "target_lang": target}
    return {name: language for name, language in languages.items() if language is not None}


def _reverse_data(args: argparse.Namespace) -> str:
    """The folder with the reverse model's dictionaries; an imported one has them beside it."""
    if args.reverse_data:
        return args.reverse_data
    beside = str(Path(args.reverse_path).parent)
    return beside if has_reading(beside) else args.data
