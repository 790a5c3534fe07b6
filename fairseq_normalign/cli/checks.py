"""What commands refuse before anything is loaded: options that clash, and files that are not there.

A check reads ``args.given``, the options that are not at their defaults; see ``options``.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterable, Sequence
from pathlib import Path

from fairseq_normalign.alignment.signature import refuse_unsignable
from fairseq_normalign.attention.methods import method_of
from fairseq_normalign.errors import InputError
from fairseq_normalign.files import is_stream, name_of, refuse_unwritable
from fairseq_normalign.options import flag

PICTURES = (".png", ".pdf", ".svg")

# Options that name files to read, and files to write.
INPUTS = (
    *("source_file", "target_file", "hypotheses", "gold", "gold_source", "gold_target"),
    *("bpe_codes", "source_bpe_codes", "target_bpe_codes", "bpe_vocab_file"),
    *("gpt2_encoder_json", "gpt2_vocab_bpe"),
    *("sentencepiece_model", "source_sentencepiece_model", "target_sentencepiece_model"),
    *("conllu", "frequencies", "links", "bitext"),
)
TEXTS = ("source_file", "target_file", "hypotheses")
CHECKPOINTS = ("path", "reverse_path", "scratch")
DATA_FILES = ("dict.*", "*.bin", "*.idx")
OUTPUTS = ("output", "plot", "plot_words")


def requires(args: Namespace, needed: str, *names: str, value: str = "") -> None:
    """Refuses options that mean nothing without another one.

    Args:
        value: what that one must be, for the message.
    """
    for name in names:
        if name in args.given and needed not in args.given:
            raise InputError(f"{flag(name)} needs {flag(needed)} {value}".rstrip())


def excludes(args: Namespace, other: str, *names: str) -> None:
    """Refuses options that another one has no use for."""
    for name in names:
        if {name, other} <= args.given:
            raise InputError(f"{flag(name)} cannot be used with {flag(other)}")


def go_together(args: Namespace, *names: str) -> None:
    """Refuses some of these options without the others."""
    if args.given & {*names} and not {*names} <= args.given:
        *others, last = map(flag, names)
        raise InputError(f"{', '.join(others)} and {last} go together")


def refuse_streams(*paths: str | None, why: str = "") -> None:
    """Refuses what can be read only once, such as stdin, where it is read again."""
    for path in paths:
        if path is not None and is_stream(path):
            raise InputError(f"{name_of(path)}: can be read only once{why}; expected a file")


def refuse_stdin_twice(*paths: str | None) -> None:
    """Refuses stdin for two inputs."""
    if paths.count("-") > 1:
        raise InputError("stdin ('-') can be read only once; name files for the others")


def check_methods(args: Namespace, *names: str) -> None:
    """Refuses methods that are not there, unless another plugin may have them."""
    for name in names if args.user_dir is None else ():
        method_of(name)


def check_files(args: Namespace) -> None:
    """Refuses files that are not there, and outputs that would replace an input."""
    for folder in _folders(args):
        if not Path(folder).is_dir():
            raise InputError(f"{folder}: no such directory; name the one with dict.*.txt")
    for path in named_files(args, CHECKPOINTS):
        if ":" not in path and not Path(path).exists():
            raise InputError(f"{path}: no such checkpoint")
    inputs = named_files(args, INPUTS)
    missing = [path for path in inputs if not (path == "-" or "://" in path or Path(path).exists())]
    if missing:
        raise InputError(f"{missing[0]}: no such file")
    refuse_stdin_twice(*inputs)
    check_outputs(args, *inputs_of(args))


def check_outputs(args: Namespace, *inputs: str) -> None:
    """Refuses files that cannot be written, or are read."""
    for output in named_files(args, OUTPUTS):
        refuse_unwritable(output, *inputs)
    if getattr(args, "plot", None):
        check_picture("--plot", args.plot)


def check_signed_output(output: str | None, *inputs: str | None) -> None:
    """Refuses a file of links that cannot be written in the end, or its signature."""
    if output is not None:
        for path in (output, f"{output}.json"):
            refuse_unwritable(path, *inputs)
        refuse_unsignable(output)


def check_picture(option: str, path: str) -> None:
    """Refuses a name that does not say the format of a picture."""
    if not path.endswith(PICTURES):
        expected = ", ".join(PICTURES)
        raise InputError(f"{option} {path}: expected a name that ends in {expected}")


def inputs_of(args: Namespace) -> list[str]:
    """All files that a command reads, dictionaries and binarised data included."""
    files = [*named_files(args, CHECKPOINTS), *named_files(args, INPUTS)]
    for folder in _folders(args):
        for pattern in DATA_FILES:
            files += map(str, Path(folder).glob(pattern))
    return files


def _folders(args: Namespace) -> list[str]:
    """The folders that DATA and --reverse-data name."""
    named = [args.data, getattr(args, "reverse_data", None)]
    return [folder for folder in ":".join(filter(None, named)).split(":") if folder]


def named_files(args: Namespace, names: Iterable[str]) -> list[str]:
    """The files that some options name, as one list."""
    values: list[str] = []
    for name in names:
        value = getattr(args, name, None)
        if value is not None:
            values += value if isinstance(value, list) else [value]
    return values


# What is read once for each model.
READ_BY_EACH = ("source_file", "target_file", "hypotheses", "gold", "frequencies")


def check_several(args: Namespace) -> None:
    """Refuses pipes that several models would read."""
    if len(args.path) > 1:
        files = named_files(args, READ_BY_EACH)
        refuse_streams(*files, why=f", and {len(args.path)} models read it")


def check_directions(paths: Sequence[str], directions: Sequence[str]) -> None:
    """Refuses models of different directions."""
    for path, direction in zip(paths, directions, strict=True):
        if direction != directions[0]:
            raise InputError(
                f"{path} translates {direction}, {paths[0]} {directions[0]}; name models of one "
                "direction"
            )
