"""``normalign SUBCOMMAND``: finds the subcommand's module, imports it alone, and turns bad input
into exit status 2."""

from __future__ import annotations

import importlib
import logging
import sys
import warnings
from functools import partial

from fairseq_normalign.errors import InputError
from fairseq_normalign.version import __version__

# Modules are imported only when called: `normalign aer` must start without torch or fairseq.
COMMANDS = {
    "align": "word alignments of a corpus from a Transformer's attention",
    "methods": "the soft methods and head scores that there are",
    "plot": "a picture of one sentence pair's soft alignments",
    "export": "weights, norms or vectors of a corpus, as arrays",
    "heads": "what each attention head is worth, and what it does",
    "convert": "a checkpoint of the variant to fairseq's own architecture, or back",
    "symmetrize": "alignments of two directions to one",
    "prune": "a smaller checkpoint: heads removed whose gates are closed, or by rank, or by name",
    "evaluate": "models side by side: heads, size, BLEU, chrF, AER, speed",
    "aer": "score alignments against gold: AER, precision, recall",
}


def usage() -> str:
    width = max(map(len, COMMANDS))
    lines = [f"  {name:<{width}}  {summary}" for name, summary in COMMANDS.items()]
    return "\n".join(
        [
            "usage: normalign COMMAND [options]",
            "",
            *lines,
            "",
            "normalign COMMAND --help tells more.",
        ]
    )


def quieten_fairseq() -> None:
    """Keeps what is no news to the user off the screen: greetings, and how fairseq calls
    PyTorch."""
    logging.disable(logging.INFO)  # fairseq opens the root logger for everybody's debug messages
    warnings.filterwarnings("ignore", message="Support for mismatched key_padding_mask")


def show_warning(command: str, message, *where, **options) -> None:
    """A warning as one line, without the place in the code."""
    print(f"normalign {command}: warning: {message}", file=sys.stderr)


def main(argv: list[str] | None = None) -> int:
    argv = sys.argv[1:] if argv is None else argv
    if not argv or argv[0] in ("-h", "--help"):
        print(usage())
        return 0 if argv else 2
    if argv[0] == "--version":
        print(f"normalign {__version__}")
        return 0
    name, *rest = argv
    if name not in COMMANDS:
        print(
            f"normalign: unknown command {name!r}; expected one of: {', '.join(COMMANDS)}",
            file=sys.stderr,
        )
        return 2
    quieten_fairseq()
    warnings.showwarning = partial(show_warning, name)
    try:
        command = importlib.import_module(f"fairseq_normalign.cli.{name}")
        command.main(command.parse_args(rest))
    except InputError as error:
        print(f"normalign {name}: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # `normalign … | head`
        sys.stderr.close()
        return 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
