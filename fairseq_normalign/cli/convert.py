"""``normalign convert CHECKPOINT``: the same model as another architecture, or for Hugging Face."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

from fairseq_normalign.cli import shell
from fairseq_normalign.cli.checks import requires
from fairseq_normalign.cli.options import command
from fairseq_normalign.errors import InputError
from fairseq_normalign.files import refuse_unwritable

DESCRIPTION = """Write a checkpoint as one of another architecture with the same parameters:
transformer_normalign to transformer, which fairseq loads without the plugin, or back. Or write it
as a folder of Hugging Face, with --to huggingface: as Marian, M2M-100 or mBART, whichever format
can hold it; one that none of them can is refused. Pruned heads come back as zeros there."""
EXAMPLE = "normalign convert checkpoint_best.pt --arch transformer -o plain.pt"
OPTIONS = """
CHECKPOINT         the checkpoint to convert
--arch NAME        transformer, transformer_normalign, …
--to huggingface   write a folder for another toolkit, instead of --arch
--data DATA        with --to: the folder of the dictionaries, with SentencePiece models beside them
                   (default: the folder of the checkpoint)
-o --output FILE = required  the checkpoint to write; with --to, a new folder
"""


def check(args: Namespace) -> None:
    if (args.arch is None) == (args.to is None):
        raise InputError("needs one of --arch NAME and --to huggingface")
    requires(args, "to", "data")
    if args.arch is not None:
        refuse_unwritable(args.output, args.checkpoint)


parse_args = command("convert", DESCRIPTION, EXAMPLE, OPTIONS, check)


def _lost(path: str, arch: str) -> list[str]:
    """What fairseq without the plugin lacks of a checkpoint; refuses what it would compute wrong.

    Args:
        arch: the architecture to be written.
    """
    from fairseq_normalign.host.checkpoint import VARIANT
    from fairseq_normalign.host.trust import task_options_of, unpickle

    if arch.startswith(VARIANT):
        return []
    said = task_options_of(path, unpickle(path, mapped=True))
    if said.get("start_with_bos"):
        raise InputError(f"{path}: its decoder begins with <s>, and that of {arch} with </s>")
    task = str(said.get("task"))
    if not task.endswith("_normalign"):
        return []
    return [f"its task is {task}: to load it, fairseq needs --user-dir fairseq_normalign still"]


def main(args: Namespace) -> None:
    if args.arch is not None:
        from fairseq_normalign.host.checkpoint import convert  # late: --help must not wait

        notes = _lost(args.checkpoint, args.arch)
        convert(args.checkpoint, args.arch, args.output)
    else:
        from fairseq_normalign.huggingface.export import export_folder

        data = args.data or str(Path(args.checkpoint).parent)
        exported = export_folder(args.checkpoint, data, args.output)
        notes = [exported.title, *exported.notes]
    for note in notes:
        shell.say(f"{args.output}: {note}")
