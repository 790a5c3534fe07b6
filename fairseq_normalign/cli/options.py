"""The options that commands share, and how they are parsed.

Imports neither PyTorch nor fairseq: ``--help``, a typo or a missing file are answered at once. What
fairseq-generate would take beside our own options is handed on to fairseq's parser when the command
runs (``host.options``).
"""

from __future__ import annotations

import argparse
import importlib.util
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from fairseq_normalign.errors import InputError
from fairseq_normalign.files import refuse_overwriting

MAX_TOKENS = 4000
PICTURES = (".png", ".pdf", ".svg")
TOO_LONG = ("fail", "skip", "truncate")

AddOptions = Callable[[argparse.ArgumentParser], Any]
Check = Callable[[argparse.Namespace], None]


class CommandParser(argparse.ArgumentParser):
    """Says what is wrong in one line."""

    def __init__(self, command: str, **options: Any):
        options.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(prog=f"normalign {command}", allow_abbrev=False, **options)

    def error(self, message: str) -> NoReturn:
        raise InputError(f"{message}; {self.prog} --help tells more")


def model_parser(
    command: str, *, description: str, example: str, several: bool = False, data: bool = True
) -> CommandParser:
    """A parser for a command that runs a model: what its help shows of fairseq's options.

    Args:
        several: ``--path`` takes more than one checkpoint.
        data: DATA must be named.
    """
    path = "CHECKPOINT [CHECKPOINT …]" if several else "CHECKPOINT"
    parser = CommandParser(
        command,
        usage=f"normalign {command} {'DATA' if data else '[DATA]'} --path {path} [options]",
        description=description,
        epilog=f"Example: {example}\nAll options of fairseq-generate are accepted.",
    )
    parser.add_argument(
        "data",
        metavar="DATA",
        nargs=None if data else "?",
        help="the folder of dictionaries and binarised data",
    )
    group = parser.add_argument_group("model", "as in fairseq-generate")
    add_path_option(group, several=several)
    add_fairseq_options(group)
    return parser


def add_path_option(group: Any, *, several: bool = False) -> None:
    group.add_argument(
        "--path",
        metavar="CHECKPOINT",
        required=True,
        nargs="+" if several else None,
        help="the checkpoints; they share dictionaries" if several else "the checkpoint",
    )


def add_fairseq_options(group: Any) -> None:
    """fairseq's own options that people need most; fairseq parses them once more."""
    group.add_argument(
        "--gen-subset", default="test", help="a binarised subset (default: %(default)s)"
    )
    group.add_argument(
        "--max-tokens",
        type=positive,
        metavar="N",
        help=f"tokens in a batch, padding included (default: {MAX_TOKENS})",
    )
    group.add_argument("--cpu", action="store_true", help="use no GPU")
    group.add_argument("--fp16", action="store_true", help="half precision")
    group.add_argument("--user-dir", metavar="DIR", help="another plugin; ours is always there")
    group.add_argument("-s", "--source-lang", metavar="L", help="source language")
    group.add_argument("-t", "--target-lang", metavar="L", help="target language")
    group.add_argument("--model-overrides", metavar="DICT", help="changes of the model's options")
    group.add_argument("--bpe", metavar="NAME", help="splits text into pieces: sentencepiece, …")
    group.add_argument("--tokenizer", metavar="NAME", help="splits text into words: moses, …")
    group.add_argument(
        "--remove-bpe",
        "--post-process",
        nargs="?",
        const="@@ ",
        metavar="NAME",
        help="how pieces join to words: sentencepiece, subword_nmt, …",
    )


def add_corpus_options(parser: argparse.ArgumentParser) -> None:
    """Text files as an alternative to binarised data."""
    group = parser.add_argument_group(
        "corpus", "a binarised --gen-subset of DATA, or two text files of words"
    )
    group.add_argument(
        "--source-file",
        metavar="FILE",
        help="source text, split into words at blanks; or into pieces, with --remove-bpe NAME and "
        "no --bpe",
    )
    group.add_argument("--target-file", metavar="FILE", help="target text")
    group.add_argument(
        "--hypotheses",
        metavar="FILE",
        help="translations to align: one a line, or the output of fairseq-generate (which has the "
        "source too)",
    )
    add_segmentation_options(group)
    add_too_long_option(group)


def add_too_long_option(group: Any) -> None:
    group.add_argument(
        "--too-long",
        choices=TOO_LONG,
        default="fail",
        help="pairs longer than the model takes: stop, leave the line empty, or cut it "
        "(default: %(default)s)",
    )


def add_segmentation_options(group: Any) -> None:
    for side in ("source", "target"):
        group.add_argument(
            f"--{side}-bpe-codes", metavar="FILE", help=f"BPE codes of the {side} language"
        )
        group.add_argument(
            f"--{side}-sentencepiece-model",
            metavar="FILE",
            help=f"SentencePiece model of the {side} language",
        )


def add_gold_options(group: Any, help: str) -> None:
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


def parse(
    parser: CommandParser,
    argv: Sequence[str],
    add_options: AddOptions,
    check: Check = lambda args: None,
    *,
    several: bool = False,
) -> argparse.Namespace:
    """Our own options, checked; what is fairseq's waits in ``fairseq_argv``.

    Args:
        add_options: adds our own options to a parser.
        check: refuses options that do not go together, before files are looked for.
        several: ``--path`` takes more than one checkpoint, and so is not fairseq's.
    """
    add_options(parser)
    args, unknown = parser.parse_known_args(argv)
    refuse_typos(unknown, [args.user_dir] if args.user_dir else [])
    own = CommandParser(parser.prog, add_help=False)
    if several:
        add_path_option(own, several=True)
    add_options(own)
    args.fairseq_argv = own.parse_known_args(argv)[1]
    args.own = {action.dest for action in own._actions}
    check(args)
    check_files(args)
    return args


def refuse_typos(arguments: Iterable[str], folders: Iterable[str]) -> None:
    """Refuses options that stand nowhere in fairseq's source or in another plugin's.

    Looking is fast, where asking fairseq's parser would mean to import it.
    """
    names = [argument.partition("=")[0] for argument in arguments if argument.startswith("--")]
    if not names:
        return
    text = "\n".join(_sources(folders))
    for name in names:
        if name not in text and name[2:].replace("-", "_") not in text:
            raise InputError(f"unknown option {name}; see --help, and fairseq-generate --help")


def _sources(folders: Iterable[str]) -> Iterable[str]:
    """The text of all modules of fairseq and of some folders; nothing is imported."""
    places = [Path(folder) for folder in folders]
    for package in ("fairseq", "fairseq_cli"):
        spec = importlib.util.find_spec(package)
        if spec is not None:
            places += map(Path, spec.submodule_search_locations or [])
    for place in places:
        for file in place.rglob("*.py"):
            yield file.read_text(encoding="utf-8", errors="replace")


# Options that name files to read, and files to write.
INPUTS = (
    *("source_file", "target_file", "hypotheses", "gold", "gold_source", "gold_target"),
    *("source_bpe_codes", "target_bpe_codes"),
    *("source_sentencepiece_model", "target_sentencepiece_model"),
    *("conllu", "frequencies"),
)
CHECKPOINTS = ("path", "reverse_path")
OUTPUTS = ("output", "out", "plot", "json")


def check_files(args: argparse.Namespace) -> None:
    """Refuses files that are not there, and outputs that would replace an input."""
    for folder in (args.data or "").split(":"):
        if folder and not Path(folder).is_dir():
            raise InputError(f"{folder}: no such directory; expected one that holds dict.*.txt")
    checkpoints = _named(args, CHECKPOINTS)
    for path in checkpoints:
        if ":" not in path and not Path(path).exists():
            raise InputError(f"{path}: no such checkpoint")
    files = [path for path in _named(args, INPUTS) if path != "-"]
    for path in files:
        if not Path(path).exists():
            raise InputError(f"{path}: no such file")
    for output in _named(args, OUTPUTS):
        check_output(output, *checkpoints, *files)
    if getattr(args, "plot", None) and not args.plot.endswith(PICTURES):
        expected = ", ".join(PICTURES)
        raise InputError(f"--plot {args.plot}: expected a name that ends in {expected}")


def check_output(output: str, *inputs: str) -> None:
    """Refuses a file that cannot be written or that is read."""
    if not Path(output).parent.is_dir():
        raise InputError(f"{output}: cannot be written: no such directory")
    if Path(output).is_dir():
        raise InputError(f"{output}: cannot be written: it is a directory")
    refuse_overwriting(output, *inputs)


def _named(args: argparse.Namespace, names: Iterable[str]) -> list[str]:
    """The values of those options that were given, as one list."""
    values: list[str] = []
    for name in names:
        value = getattr(args, name, None)
        if value is not None:
            values += value if isinstance(value, list) else [value]
    return values


def positive(text: str) -> int:
    """A number from 1 on the command line."""
    if not (text.isascii() and text.isdigit() and len(text) <= 9 and int(text) >= 1):
        raise argparse.ArgumentTypeError(f"{text!r}: expected a number from 1")
    return int(text)


def share(text: str) -> float:
    """A number from 0 to 1 on the command line."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"{text!r}: expected a number from 0 to 1")
    return value


def layer(text: str) -> int | str:
    """A layer from 1, or ``auto``, on the command line."""
    return text if text == "auto" else positive(text)
