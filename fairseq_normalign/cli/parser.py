"""The parser of a command: what ``--help`` shows, old names of options, and "did you mean"."""

from __future__ import annotations

from argparse import SUPPRESS, ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from shutil import get_terminal_size
from textwrap import fill
from typing import Any, NoReturn

from fairseq_normalign.errors import InputError

# Old names of options, which commands still take; --help does not show them.
OLD_NAMES = {
    "aer": {
        "--confidence": "--intervals",
        "--ref-index": "--gold-index",
        "--reverse-ref": "--reverse-gold",
        "--ref-format": "--gold-format",
    },
    "methods": {"--methods": "--method"},
    "prune": {"--out": "--output", "--kinds": "--attention"},
    "report": {"--methods": "--method"},
    "roles": {"--kinds": "--attention"},
}

# Options that only --help-all shows: how fairseq names a model and reads text; how work is divided;
# fine points of alignments, of scores, and of heads, layers and pages.
RARE = """
--path --data --gen-subset --fp16 --source-lang --target-lang --user-dir --model-overrides --bpe
--sentencepiece-model --source-sentencepiece-model --target-sentencepiece-model --bpe-codes
--source-bpe-codes --target-bpe-codes --bpe-vocab-file --tokenizer --post-process --source-file
--target-file --hypotheses --too-long --reverse-data --beam --lenpen

--restart --num-shards --shard-id --engine --ray-address --chunk

--head --step --eos --source-merge --target-merge --evidence --learn-pairs --reverse-gold
--heads --no-cost --width --null-weight --epochs

--gold-format --reverse-hyp --hyp-format --sure-mark --possible --alpha --samples
--count-source --count-target --variant --rev-order --input-format

--confidence-eos --relevance-mode --ablation-bleu --tokenize --frequencies
--positional-threshold --rare-threshold --rare-top --syntactic-margin --lowercase --max-length
--mask-share --seed --category --ranks --average --types --occurrences
--tokens --groups --bounds --test-share --close-rule --scratch --dtype --max-gigabytes
--max-megabytes --max-sentences --title
"""


class CommandParser(ArgumentParser):
    """Knows old names of options, hides rare ones in ``--help``, and says errors in one line."""

    def __init__(self, command: str, **options: Any):
        prog = f"normalign {command}"
        super().__init__(
            prog=prog, allow_abbrev=False, formatter_class=RawDescriptionHelpFormatter, **options
        )
        if self.description:
            self.description = fill(self.description, get_terminal_size().columns - 2)
        self.old_names = OLD_NAMES.get(command, {})
        self.shows_all = False
        self.add_argument("--help-all", action="help", help="show all options, also rare ones")
        self.add_argument(
            "-q", "--quiet", action="store_true", help="show neither progress nor warnings"
        )

    def format_help(self) -> str:
        rare = set() if self.shows_all else set(RARE.split())
        for action in self._actions:
            if rare.intersection(action.option_strings):
                action.help = SUPPRESS
        for group in self._action_groups:
            if all(action.help is SUPPRESS for action in group._group_actions):
                group.description = None  # nor is the title of an empty group shown
        more = "" if self.shows_all else "--help-all shows all options.\n"
        return super().format_help() + more

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str], namespace: Namespace | None = None
    ) -> tuple[Namespace, list[str]]:
        self.shows_all = "--help-all" in args
        return super().parse_known_args(list(map(self._current, args)), namespace)

    def _current(self, word: str) -> str:
        """An option by its current name."""
        name, equals, value = word.partition("=")
        return self.old_names.get(name, name) + equals + value

    def parse_args(  # type: ignore[override]
        self, args: Sequence[str], namespace: Namespace | None = None
    ) -> Namespace:
        parsed, unknown = self.parse_known_args(args, namespace)
        for word in unknown:
            if word.startswith("-"):
                self.refuse_option(word)
            raise InputError(
                f"{word}: unexpected; name files side by side, as in {self.prog} --help"
            )
        return parsed

    def refuse_option(self, name: str, others: Iterable[str] = ()) -> NoReturn:
        """Refuses an unknown option.

        Args:
            others: options that the command takes besides its own.
        """
        own = close_match(name, self._option_string_actions)
        close = own or close_match(name, others, cutoff=0.9)  # among so many, some are similar
        raise InputError(f"unknown option {name}; {close or f'see {self.prog} --help-all'}")

    def error(self, message: str) -> NoReturn:
        raise InputError(f"{message}; see {self.prog} --help")


def close_match(name: str, known: Iterable[str], *, cutoff: float = 0.7) -> str:
    """A question that names what was probably meant, if anything is close."""
    close = get_close_matches(name, list(known), n=1, cutoff=cutoff)
    return f"did you mean {close[0]}?" if close else ""
