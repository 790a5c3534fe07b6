"""The options that commands share, and how they are parsed.

Imports neither PyTorch nor fairseq: ``--help``, a typo or a missing file are answered at once. What
fairseq-generate would take beside our own options is handed on to fairseq's parser when the command
runs (``host.options``).
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, NoReturn

from fairseq_normalign.errors import InputError
from fairseq_normalign.files import refuse_overwriting
from fairseq_normalign.options import from_0 as from_0
from fairseq_normalign.options import layer as layer
from fairseq_normalign.options import positive as positive
from fairseq_normalign.options import share as share

MAX_TOKENS = 4000
PICTURES = (".png", ".pdf", ".svg")
TOO_LONG = ("fail", "skip", "truncate")
OURS = {"help", "quiet"}  # of every command
BPE_FILES = {
    "sentencepiece_model": "sentencepiece",
    "bpe_codes": "subword_nmt",
    "bpe_vocab_file": "bert",
}

AddOptions = Callable[[argparse.ArgumentParser], Any]
Check = Callable[[argparse.Namespace], None]


class CommandParser(argparse.ArgumentParser):
    """Says what is wrong in one line."""

    def __init__(self, command: str, **options: Any):
        options.setdefault("formatter_class", argparse.RawDescriptionHelpFormatter)
        super().__init__(prog=f"normalign {command}", allow_abbrev=False, **options)
        self.add_argument(
            "-q", "--quiet", action="store_true", help="show neither progress nor warnings"
        )

    def error(self, message: str) -> NoReturn:
        raise InputError(f"{message}; {self.prog} --help tells more")


def model_parser(
    command: str, *, description: str, example: str, several: bool = False, data: bool = True
) -> CommandParser:
    """A parser for a command that runs a model, with fairseq's options that people need most.

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
    group.add_argument(
        "--path",
        metavar="CHECKPOINT",
        required=True,
        nargs="+" if several else None,
        help="the checkpoint, or several that share dictionaries" if several else "the checkpoint",
    )
    add_fairseq_options(group)
    return parser


# fairseq's own options that people need most, with what they take; fairseq parses them once more.
OF_FAIRSEQ = {
    "--user-dir": ("DIR", "another plugin; ours is always there"),
    "--model-overrides": ("DICT", "changes of the model's options"),
    "--bpe": ("NAME", "splits text into pieces: sentencepiece, …"),
    "--sentencepiece-model": ("FILE", "of --bpe sentencepiece, for both languages"),
    "--bpe-codes": ("FILE", "of --bpe subword_nmt or fastbpe, for both languages"),
    "--bpe-vocab-file": ("FILE", "of --bpe bert: vocab.txt (see normalign import)"),
    "--tokenizer": ("NAME", "splits text into words: moses, …"),
}
OF_SIDES = {
    "--source-bpe-codes": ("FILE", "BPE codes of the source language"),
    "--source-sentencepiece-model": ("FILE", "SentencePiece model of the source language"),
    "--target-bpe-codes": ("FILE", "BPE codes of the target language"),
    "--target-sentencepiece-model": ("FILE", "SentencePiece model of the target language"),
}
OF_CORPUS = {
    "--source-file": (
        "FILE",
        "source text, split into words at blanks; or into pieces, with --remove-bpe NAME and no "
        "--bpe",
    ),
    "--target-file": ("FILE", "target text"),
    "--hypotheses": (
        "FILE",
        "translations to align: one a line, or the output of fairseq-generate (which has the "
        "source too)",
    ),
}


def add_table(group: Any, table: Mapping[str, tuple[str, str]]) -> None:
    """Options that take one value: flags, what stands for the value in help, and help."""
    for flag, (metavar, help) in table.items():
        group.add_argument(flag, metavar=metavar, help=help)


def add_fairseq_options(group: Any) -> None:
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
    group.add_argument("-s", "--source-lang", metavar="L", help="source language")
    group.add_argument("-t", "--target-lang", metavar="L", help="target language")
    add_table(group, OF_FAIRSEQ)
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
    add_table(group, OF_CORPUS)
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


def policy_for_long_pairs(args: argparse.Namespace) -> dict[str, str]:
    """For a signature: pairs that are left out or cut change what is measured."""
    return {} if args.too_long == "fail" else {"too-long": args.too_long}


def add_segmentation_options(group: Any) -> None:
    add_table(group, OF_SIDES)


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

    Those of fairseq's options that our help does not show are in ``others``.

    Args:
        parser: has fairseq's options alone.
        add_options: adds our own.
        check: refuses options that do not go together, before files are looked for.
        several: ``--path`` takes more than one checkpoint, and so is not fairseq's.
    """
    ours = OURS | {"path"} if several else OURS
    handed_on = [action for action in parser._actions if action.dest not in ours]
    add_options(parser)
    args, others = parser.parse_known_args(data_before_paths(argv) if several else argv)
    args.others = others
    refuse_unknown(args.others, args.user_dir)
    refuse_shards(args.others, parser.prog)
    args.own = {action.dest for action in parser._actions if action not in handed_on}
    args.fairseq_argv = [*_as_words(args, handed_on), *args.others]
    refuse_lone_bpe_files(args)
    check(args)
    check_files(args)
    return args


def _as_words(args: argparse.Namespace, actions: Iterable[argparse.Action]) -> list[str]:
    """The options that were given, as fairseq's parser reads them; positional ones come first."""
    positional, words = [], []
    for action in actions:
        value = getattr(args, action.dest)
        if value == action.default:
            continue
        if not action.option_strings:
            positional.append(value)
        elif value is True:
            words.append(action.option_strings[-1])
        else:
            words += [action.option_strings[-1], str(value)]
    return [*positional, *words]


def data_before_paths(argv: Sequence[str]) -> list[str]:
    """``--path A.pt B.pt DATA`` → ``DATA --path A.pt B.pt``, or DATA would be taken for a model."""
    words = list(argv)
    if "--path" not in words:
        return words
    end = words.index("--path") + 1
    while end < len(words) and not words[end].startswith("-"):
        end += 1
    last = words[end - 1]
    if all(Path(folder).is_dir() for folder in last.split(":")):
        return [last, *words[: end - 1], *words[end:]]
    return words


def refuse_lone_bpe_files(args: argparse.Namespace) -> None:
    """Refuses the file of a BPE without the BPE, which fairseq would call an unknown option."""
    for name, bpe in BPE_FILES.items():
        if getattr(args, name, None) and args.bpe is None:
            flag = "--" + name.replace("_", "-")
            raise InputError(f"{flag} is the file of a BPE; expected --bpe {bpe} with it")


def refuse_shards(arguments: Iterable[str], command: str) -> None:
    """fairseq-generate's shards of a corpus, where a command would take the whole of it."""
    for argument in arguments:
        if argument.partition("=")[0] in ("--num-shards", "--shard-id"):
            raise InputError(f"{argument}: {command} knows no shards; normalign align does")


def refuse_unknown(words: Iterable[str], user_dir: str | None) -> None:
    """Refuses options that neither fairseq's generation nor another plugin has.

    fairseq's are in a list: asking its parser would mean to import it.
    """
    names = [word.partition("=")[0] for word in words if word.startswith("--")]
    if not names:
        return
    listed = resources.files(__package__).joinpath("fairseq_options.txt").read_text()
    known = set(listed.split())
    for name in names:
        if name not in known and not (user_dir and _is_in_plugin(name, Path(user_dir))):
            raise InputError(f"unknown option {name}; see --help, and fairseq-generate --help")


def _is_in_plugin(name: str, folder: Path) -> bool:
    """Whether the source of a plugin names an option, as a flag or as a field of a dataclass."""
    option = re.compile(rf"[\"']{re.escape(name)}[\"']|^\s+{name[2:].replace('-', '_')}\s*:", re.M)
    return any(option.search(file.read_text(errors="replace")) for file in folder.rglob("*.py"))


def add_reverse_options(group: argparse._ArgumentGroup, purpose: str) -> None:
    """``--reverse-path``, and where its dictionaries are."""
    table = {
        "--reverse-path": ("CHECKPOINT", f"the model of the other direction, {purpose}"),
        "--reverse-data": (
            "DATA",
            "the folder of its dictionaries, if they are others (default: its own folder if "
            "normalign import made it, else DATA)",
        ),
    }
    add_table(group, table)


def check_reverse_options(args: argparse.Namespace) -> None:
    if args.reverse_data and not args.reverse_path:
        raise InputError("--reverse-data is of another model; expected --reverse-path with it")


# Options that name files to read, and files to write.
INPUTS = (
    *("source_file", "target_file", "hypotheses", "gold", "gold_source", "gold_target"),
    *("bpe_codes", "source_bpe_codes", "target_bpe_codes", "bpe_vocab_file"),
    *("sentencepiece_model", "source_sentencepiece_model", "target_sentencepiece_model"),
    *("conllu", "frequencies", "links"),
)
TEXTS = ("source_file", "target_file", "hypotheses")
CHECKPOINTS = ("path", "reverse_path", "scratch")
DATA_FILES = ("dict.*", "*.bin", "*.idx")
OUTPUTS = ("output", "out", "plot", "plot_words")


def check_files(args: argparse.Namespace) -> None:
    """Refuses files that are not there, and outputs that would replace an input."""
    for folder in _folders(args):
        if not Path(folder).is_dir():
            raise InputError(f"{folder}: no such directory; expected one that holds dict.*.txt")
    for path in _named(args, CHECKPOINTS):
        if ":" not in path and not Path(path).exists():
            raise InputError(f"{path}: no such checkpoint")
    inputs = _named(args, INPUTS)
    missing = [path for path in inputs if not (path == "-" or "://" in path or Path(path).exists())]
    if missing:
        raise InputError(f"{missing[0]}: no such file")
    if inputs.count("-") > 1:
        raise InputError("stdin ('-') can be read only once; expected a file for all but one")
    check_user_dir(args.user_dir)
    outputs = _named(args, OUTPUTS)
    for output in outputs:
        check_output(output, *inputs_of(args))
    if len({os.path.realpath(output) for output in outputs}) < len(outputs):
        raise InputError(f"{outputs[0]}: is named for two outputs; expected a name for each")
    if getattr(args, "plot", None):
        check_picture("--plot", args.plot)


def check_picture(option: str, path: str) -> None:
    """Refuses a name that does not say the format of a picture."""
    if not path.endswith(PICTURES):
        expected = ", ".join(PICTURES)
        raise InputError(f"{option} {path}: expected a name that ends in {expected}")


def check_user_dir(folder: str | None) -> None:
    """Refuses a plugin that is neither here nor beside fairseq, where fairseq looks, too."""
    if folder is None:
        return
    spec = importlib.util.find_spec("fairseq")
    homes = map(Path, (spec and spec.submodule_search_locations) or [])
    places = [Path(folder)]
    for home in homes:
        places += [home / folder, home.parent / folder]
    if not any(place.is_dir() for place in places):
        raise InputError(f"--user-dir {folder}: no such directory; expected that of a plugin")


def inputs_of(args: argparse.Namespace) -> list[str]:
    """All files that a command reads, dictionaries and binarised data included."""
    files = [*_named(args, CHECKPOINTS), *_named(args, INPUTS)]
    for folder in _folders(args):
        for pattern in DATA_FILES:
            files += map(str, Path(folder).glob(pattern))
    return files


def _folders(args: argparse.Namespace) -> list[str]:
    """The folders that DATA and --reverse-data name."""
    named = [args.data, getattr(args, "reverse_data", None)]
    return [folder for folder in ":".join(filter(None, named)).split(":") if folder]


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
