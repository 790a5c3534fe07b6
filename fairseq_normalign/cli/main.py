"""``normalign SUBCOMMAND``: finds the subcommand's module and imports it alone.

Bad input becomes one line and exit status 2.
"""

from __future__ import annotations

import importlib
import keyword
import sys

from fairseq_normalign import progress
from fairseq_normalign.cli import shell
from fairseq_normalign.cli.parser import close_match
from fairseq_normalign.errors import InputError
from fairseq_normalign.version import __version__

# Modules are imported only when called: `normalign aer` must start without torch or fairseq.
TASKS = {
    "Align words": {
        "align": "word alignments of a corpus from a translation model",
        "methods": "error rates of all layers and methods; without a model, list the methods",
        "train-aligner": "train a small alignment head for your models, without gold",
        "symmetrize": "combine alignments of two directions",
        "aer": "score alignments against gold: AER, precision, recall",
        "gain": "compare alignments without gold: how well linked words predict each other",
        "plot": "draw the alignment of one sentence pair",
    },
    "Use alignments": {
        "project": "carry tags, labels and terms over to a translation",
        "shortlist": "lexical shortlists for Marian, by expected links",
        "order-heads": "put the best aligning heads first, for engines that look at these",
    },
    "Analyse a model": {
        "report": "write an HTML report: alignments to browse, error rates, heads, mixing",
        "heads": "what each attention head is worth, and what it does",
        "roles": "compare the head roles of several models",
        "mixing": "how much context attention blocks mix in, by layer and token category",
        "stats": "attention weights and norms by head, layer and token category",
        "evolution": "how token representations change from layer to layer",
        "probe": "parts of speech that a linear classifier reads from each layer",
        "export": "write weights, norms or vectors of a corpus as arrays",
    },
    "Prune and train": {
        "prune": "remove heads from a checkpoint: closed gates, by rank, or by name",
        "gates": "how gates and relevance of heads changed during training",
        "evaluate": "compare models: heads, size, BLEU, chrF, AER, speed",
    },
    "Convert models": {
        "import": "convert a Hugging Face model to fairseq: OPUS-MT, NLLB, mBART, BERT, …",
        "convert": "convert a checkpoint to another architecture, or to Hugging Face",
    },
    "Large corpora": {
        "merge": "merge the shards of a run",
    },
}
COMMANDS = [name for names in TASKS.values() for name in names]

# What these read or write is text and JSON; all others may load a model.
WITHOUT_MODELS = {"aer", "gain", "gates", "merge", "roles", "symmetrize"}


def usage() -> str:
    width = max(map(len, COMMANDS))
    lines = ["usage: normalign COMMAND [options]"]
    for task, commands in TASKS.items():
        lines += ["", f"{task}:"]
        lines += [f"  {name:<{width}}  {summary}" for name, summary in commands.items()]
    return "\n".join([*lines, "", "normalign COMMAND --help shows the options of a command."])


def main(argv: list[str] | None = None) -> int:
    """Runs a command; returns its exit status: 0, 2 after bad input, 130 after Ctrl-C."""
    argv = sys.argv[1:] if argv is None else argv
    command = argv[0] if argv else ""
    shell.prepare_streams()
    shell.end_tidily()
    with shell.warnings_as_lines(command):
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
            if error.filename is not None:
                shell.say(f"normalign {command}: {error.filename}: {error.strerror}")
            elif error.errno in shell.NO_STDOUT:
                shell.drop_stdout()
                shell.say(f"normalign {command}: stdout: cannot be written: {error.strerror}")
            else:  # an error of ours
                raise
            return 2


def run(argv: list[str]) -> int:
    if argv[:1] == ["help"]:  # normalign help COMMAND
        argv = [*argv[1:2], "--help"]
    if not argv or argv[0] in ("-h", "--help"):
        print(usage())
        return 0 if argv else 2
    if argv[0] == "--version":
        print(f"normalign {__version__}")
        return 0
    name, *rest = argv
    if name not in COMMANDS:
        advice = close_match(name, COMMANDS) or "see normalign --help"
        shell.say(f"normalign: unknown command {name!r}; {advice}")
        return 2
    module = f"{name}_" if keyword.iskeyword(name) else name.replace("-", "_")
    command = importlib.import_module(f"fairseq_normalign.cli.{module}")
    args = command.parse_args(rest)
    with progress.quiet(args.quiet):
        # A list of methods, and a report of files, have no model.
        if name not in WITHOUT_MODELS and getattr(args, "path", True):
            # Makes our architectures, task and criterion known: a checkpoint may be of them.
            from fairseq_normalign import plugin  # noqa: F401
        command.main(args)
    return 0


if __name__ == "__main__":
    sys.exit(main())
