"""``normalign SUBCOMMAND``: finds the subcommand's module and imports it alone.

Bad input becomes one line and exit status 2.
"""

from __future__ import annotations

import importlib
import keyword
import sys

from fairseq_normalign import progress
from fairseq_normalign.cli import shell
from fairseq_normalign.errors import InputError
from fairseq_normalign.version import __version__

# Modules are imported only when called: `normalign aer` must start without torch or fairseq.
COMMANDS = {
    "align": "word alignments of a corpus from a Transformer's attention",
    "merge": "the shards of an alignment to one file",
    "methods": "the soft methods and head scores that there are",
    "plot": "a picture of one sentence pair's soft alignments",
    "export": "weights, norms or vectors of a corpus, as arrays",
    "heads": "what each attention head is worth, and what it does",
    "roles": "what the heads of several models do, side by side",
    "mixing": "how much context attention blocks mix in, by layer and category of tokens",
    "import": "a model of Hugging Face as a fairseq checkpoint: OPUS-MT, NLLB, mBART, BERT, …",
    "evolution": "what the states of each layer hold, and how layers and models differ",
    "probe": "parts of speech that a linear classifier reads from the states of each layer",
    "stats": "attention weights and norms by head, layer and category of tokens",
    "convert": "a checkpoint as one of fairseq's own architecture, or back, or for Hugging Face",
    "train-aligner": "a small alignment head for your models, trained on links without gold",
    "symmetrize": "alignments of two directions to one",
    "prune": "a smaller checkpoint: heads removed whose gates are closed, or by rank, or by name",
    "gates": "how gates and relevance of heads went during a training",
    "evaluate": "models side by side: heads, size, BLEU, chrF, AER, speed",
    "report": "all of it on one page of HTML: alignments to browse, error rates, heads, mixing",
    "aer": "score alignments against gold: AER, precision, recall",
}

# What these read or write is text and JSON; all others may load a model.
WITHOUT_MODELS = {"aer", "gates", "merge", "methods", "roles", "symmetrize"}


def usage() -> str:
    width = max(map(len, COMMANDS))
    lines = [f"  {name:<{width}}  {summary}" for name, summary in COMMANDS.items()]
    first, last = "usage: normalign COMMAND [options]", "normalign COMMAND --help tells more."
    return "\n".join([first, "", *lines, "", last])


def main(argv: list[str] | None = None) -> int:
    """Runs a command; returns its exit status: 0, 2 after bad input, 130 after Ctrl-C."""
    argv = sys.argv[1:] if argv is None else argv
    command = argv[0] if argv else ""
    shell.prepare_streams()
    with shell.tidy_ends(), shell.warnings_as_lines(command):
        try:
            try:
                return run(argv)
            finally:
                sys.stdout.flush()  # all that was printed leaves, or fails, here
        except InputError as error:
            shell.say(f"normalign {command}: {error}")
            return 2
        except KeyboardInterrupt:
            shell.say(f"normalign {command}: interrupted")
            return 130
        except BrokenPipeError:  # `normalign … | head`
            shell.drop_stdout()
            return 0
        except OSError as error:
            if error.filename is not None and error.errno in shell.NO_NAME:
                shell.say(f"normalign {command}: {error.filename}: {error.strerror}")
            elif error.filename is None and error.errno in shell.NO_STDOUT:
                shell.drop_stdout()
                shell.say(f"normalign {command}: stdout: cannot be written: {error.strerror}")
            else:  # an error of ours
                raise
            return 2


def run(argv: list[str]) -> int:
    if not argv or argv[0] in ("-h", "--help"):
        print(usage())
        return 0 if argv else 2
    if argv[0] == "--version":
        print(f"normalign {__version__}")
        return 0
    name, *rest = argv
    if name not in COMMANDS:
        shell.say(f"normalign: unknown command {name!r}; expected one of: {', '.join(COMMANDS)}")
        return 2
    module = f"{name}_" if keyword.iskeyword(name) else name.replace("-", "_")
    command = importlib.import_module(f"fairseq_normalign.cli.{module}")
    args = command.parse_args(rest)
    with progress.quiet(args.quiet), progress.one_pulse():
        if name not in WITHOUT_MODELS and getattr(args, "path", True):  # a report may be of files
            # Makes our architectures, task and criterion known: a checkpoint may be of them.
            importlib.import_module("fairseq_normalign.plugin")
        command.main(args)
    return 0


if __name__ == "__main__":
    sys.exit(main())
