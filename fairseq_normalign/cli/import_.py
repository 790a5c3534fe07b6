"""``normalign import FOLDER -o DIR``: a model of Hugging Face as a fairseq checkpoint."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from fairseq_normalign.cli import shell
from fairseq_normalign.cli.options import CommandParser

DESCRIPTION = """Write a model of Hugging Face, a folder of config.json, parameters and tokeniser,
for fairseq: a checkpoint, its dictionaries, and the files that split text as the model does. What
it computes and translates stays what it is. Architectures: Marian (OPUS-MT), M2M-100, NLLB (dense),
mBART-25, mBART-50, BERT and RoBERTa. Prints commands that use the model."""


def parse_args(argv: Sequence[str]) -> argparse.Namespace:
    parser = CommandParser(
        "import",
        description=DESCRIPTION,
        epilog="example: normalign import opus-mt-de-en/ -o de-en",
    )
    parser.add_argument("folder", metavar="FOLDER", help="the folder of a Hugging Face model")
    parser.add_argument(
        "-o", "--output", required=True, metavar="DIR", help="the folder to make, a new one"
    )
    return parser.parse_args(argv)


def main(args: argparse.Namespace) -> None:
    from fairseq_normalign.huggingface.conversion import import_folder  # late: --help must not wait

    imported = import_folder(args.folder, args.output)
    shell.say(f"{args.output}: {imported.title}")
    for note in imported.notes:
        shell.say(f"{args.output}: {note}")
    for command in imported.commands:
        print(command)
