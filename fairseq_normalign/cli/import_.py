"""``normalign import FOLDER -o DIR``: a model of Hugging Face as a fairseq checkpoint."""

from __future__ import annotations

from argparse import Namespace

from fairseq_normalign.cli import shell
from fairseq_normalign.cli.options import command

DESCRIPTION = """Write a model of Hugging Face, a folder of config.json, parameters and tokeniser,
for fairseq: a checkpoint, its dictionaries, and the files that split text as the model does. What
it computes and translates stays what it is. Architectures: Marian (OPUS-MT), M2M-100, NLLB (dense),
mBART-25, mBART-50, BERT and RoBERTa. Prints commands that use the model."""


OPTIONS = """
FOLDER                      the folder of a Hugging Face model
-o --output DIR = required  the folder to make, a new one
"""


parse_args = command("import", DESCRIPTION, "normalign import opus-mt-de-en/ -o de-en", OPTIONS)


def main(args: Namespace) -> None:
    from fairseq_normalign.huggingface.conversion import import_folder  # late: --help must not wait

    imported = import_folder(args.folder, args.output)
    for note in (imported.title, *imported.notes):
        shell.say(f"{args.output}: {note}")
    print("\n".join(imported.commands))
