"""The options that commands share, and how they are parsed.

Imports neither PyTorch nor fairseq: ``--help``, a typo or a missing file are answered at once. What
fairseq-generate would take beside our own options is handed on to fairseq's parser when the command
runs (``host.options``).
"""

from __future__ import annotations

from argparse import Action, ArgumentParser, Namespace
from collections.abc import Callable, Iterable, Sequence
from importlib import resources
from itertools import pairwise
from typing import Any

from fairseq_normalign.cli.checks import check_files
from fairseq_normalign.cli.model import place_model
from fairseq_normalign.cli.parser import CommandParser
from fairseq_normalign.errors import InputError
from fairseq_normalign.model_argument import bpe_of_files
from fairseq_normalign.options import add_flags, declare, group_of
from fairseq_normalign.options import layer as layer
from fairseq_normalign.options import positive as positive

MAX_TOKENS = 4000
OURS = {"help", "help_all", "quiet", "names", "data", "path"}  # of every command that runs a model

Check = Callable[[Namespace], None]
ParseArgs = Callable[[Sequence[str]], Namespace]


def command(
    name: str,
    description: str,
    example: str,
    text: str,
    check: Check = lambda args: None,
    **kinds: Callable[[str], Any],
) -> ParseArgs:
    """How a command without fairseq's options parses its words.

    Args:
        text: of its options, with kinds of their values; see ``declare``.
        check: refuses options that do not go together, and files that cannot be written.
    """

    def parse_args(argv: Sequence[str]) -> Namespace:
        epilog = f"Example: {example}"
        parser = CommandParser(name, description=description, epilog=epilog)
        declare(parser, text, **kinds)
        args = parser.parse_args(argv)
        _check(args, parser, check)
        return args

    return parse_args


def model_command(
    name: str,
    description: str,
    example: str,
    text: str,
    check: Check = lambda args: None,
    *,
    flags: Iterable[type] = (),
    more: Callable[[ArgumentParser], object] = lambda parser: None,
    several: bool = False,
    may_lack_model: bool = False,
    **kinds: Callable[[str], Any],
) -> ParseArgs:
    """How a command that runs a model parses its words; fairseq's wait in ``fairseq_argv``.

    Those of fairseq's options that our help does not show are in ``others``.

    Args:
        text: of our own options, with kinds of their values; see ``declare``.
        check: refuses options that do not go together, before files are looked for.
        flags: dataclasses whose fields are options.
        more: adds options that cannot be declared.
        several: ``--path`` takes more than one checkpoint, and so is not fairseq's.
        may_lack_model: also runs without, and then has no ``path``.
    """

    def parse_args(argv: Sequence[str]) -> Namespace:
        parser = model_parser(name, description, example, several=several)
        handed_on = [action for action in parser._actions if action.dest not in OURS]
        declare(parser, text, **kinds)
        more(parser)
        for options in flags:
            add_flags(parser, options)
        args, unknown = parser.parse_known_args(argv)
        args.others, more_names = _apart(unknown)
        refuse_unknown(args.others, args.user_dir, parser)
        args.bpe = args.bpe or bpe_of_files(args)
        names = [*args.names, *more_names]
        del args.names
        if names or args.path or not may_lack_model:
            place_model(args, names, several=several)
        args.fairseq_argv = [args.data or ".", *_as_words(args, handed_on), *args.others]
        _check(args, parser, check)
        check_files(args)
        return args

    return parse_args


def _check(args: Namespace, parser: CommandParser, check: Check) -> None:
    """Calls a check, for which ``args.given`` has the options that are not at their defaults."""
    options = vars(args).items()
    args.given = {name for name, value in options if value != parser.get_default(name)}
    check(args)
    del args.given


def model_parser(name: str, description: str, example: str, *, several: bool) -> CommandParser:
    """A parser for a command that runs a model, with fairseq's options that people need most."""
    path = "CHECKPOINT [CHECKPOINT …]" if several else "CHECKPOINT"
    model = "MODEL [MODEL …]" if several else "MODEL"
    parser = CommandParser(
        name,
        usage=f"normalign {name} {model} [SOURCE [TARGET]] [options]\n"
        f"       normalign {name} DATA --path {path} [options]",
        description=description,
        epilog=f"Example: {example}\nAll options of fairseq-generate are accepted.",
    )
    parser.add_argument(
        "names",
        metavar="MODEL [SOURCE [TARGET]]",
        nargs="*",
        help="MODEL: a checkpoint, a folder with one, or a Hugging Face folder; SOURCE, TARGET: "
        "text, or one file of lines 'source ||| target'; - is stdin (default: the binarised test "
        "set of the model). With --path: DATA, the folder of dictionaries and binarised data",
    )
    declare(parser, MODEL)
    few = "the checkpoint, or several that share dictionaries" if several else "the checkpoint"
    declare(parser, f"model:\n  --path CHECKPOINT{'...' * several}  {few}")
    group_of(parser, "model").add_argument(
        "--remove-bpe",
        "--post-process",
        dest="post_process",
        nargs="?",
        const="@@ ",
        metavar="NAME",
        help="how pieces join to words: sentencepiece, subword_nmt, …",
    )
    return parser


# fairseq's own options that people need most, with what they take; fairseq parses them once more.
MODEL = f"""
model: as in fairseq-generate
  --data DIR               the folder of dictionaries, if it is not that of MODEL
  --gen-subset NAME = test  the binarised subset to read
  --max-tokens N           tokens in a batch, padding included (default: {MAX_TOKENS})
  --cpu                    use no GPU
  --fp16                   half precision
  --bf16                   bfloat16: half precision for recent CPUs and GPUs
  -s --source-lang L       source language
  -t --target-lang L       target language
  --user-dir DIR           additional plugin directory
  --model-overrides DICT   changes of the model's options
  --bpe NAME               splits text into pieces: sentencepiece, … (default: by the files that are
                           named)
  --sentencepiece-model FILE  SentencePiece model for both languages
  --bpe-codes FILE         codes of subword-nmt or fastBPE for both languages
  --bpe-vocab-file FILE    vocab.txt of --bpe bert (see normalign import)
  --tokenizer NAME         splits text into words: moses, …
"""
# How text is split, and what becomes of pairs that are too long.
READING = """
  --source-bpe-codes FILE  BPE codes of the source language
  --source-sentencepiece-model FILE  SentencePiece model of the source language
  --target-bpe-codes FILE  BPE codes of the target language
  --target-sentencepiece-model FILE  SentencePiece model of the target language
  --too-long fail|skip|truncate = fail
      pairs longer than the model takes: stop, leave the line empty, or cut it
"""
# Text files as an alternative to binarised data.
CORPUS = f"""
corpus: a binarised --gen-subset of DATA, or two text files of words
  --source-file FILE       source text, split into words at blanks; or into pieces, with
                           --remove-bpe NAME and no --bpe
  --target-file FILE       target text
  --hypotheses FILE        translations to align: one a line, or the output of fairseq-generate
                           (which has the source too)
  {READING.strip()}
"""


def policy_for_long_pairs(args: Namespace) -> dict[str, str]:
    """For a signature: pairs that are left out or cut change what is measured."""
    return {} if args.too_long == "fail" else {"too-long": args.too_long}


def gold_options(purpose: str) -> str:
    return f"""
  --gold FILE              {purpose}
  --gold-index 0|1 = 0     first word in the gold
  --reverse-gold           the gold has the target word first
"""


def reverse_options(purpose: str) -> str:
    """``--reverse-path``, and where its dictionaries are."""
    return f"""
  -r --reverse-path MODEL  the model of the other direction, {purpose}
  --reverse-data DIR       the folder of its dictionaries, if they are neither beside it nor DATA
"""


def _as_words(args: Namespace, actions: Iterable[Action]) -> list[str]:
    """The options that were given, as fairseq's parser reads them."""
    words = []
    for action in actions:
        value = getattr(args, action.dest)
        if value == action.default:
            continue
        words.append(action.option_strings[-1])
        if value is not True:
            words.append(str(value))
    return words


def _apart(unknown: Sequence[str]) -> tuple[list[str], list[str]]:
    """Options of fairseq with their values, and words that follow options of our own."""
    others: list[str] = []
    names: list[str] = []
    for before, word in pairwise(["", *unknown]):
        is_name = (word == "-" or word[:1] != "-") and before[:1] != "-"
        (names if is_name else others).append(word)
    return others, names


def refuse_unknown(words: Iterable[str], user_dir: str | None, parser: CommandParser) -> None:
    """Refuses options that fairseq's generation does not have, and shards and workers.

    fairseq's are in a list: asking its parser would mean to import it. With another plugin, whose
    options are not known yet, its parser is asked when the command runs.
    """
    names = [word.partition("=")[0] for word in words if word.startswith("--")]
    # The command would take the whole corpus, in one process.
    for name in ("--num-shards", "--shard-id", "--workers", "--engine"):
        if name in names:
            raise InputError(f"{name} cannot be used with {parser.prog}")
    listed = resources.files(__package__).joinpath("fairseq_options.txt").read_text()
    known = listed.split()
    for name in names if user_dir is None else ():
        if name not in known:
            parser.refuse_option(name, known)
