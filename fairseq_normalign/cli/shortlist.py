"""``normalign shortlist MODEL SOURCE TARGET -o PREFIX``: lexical shortlists for Marian."""

from __future__ import annotations

from argparse import Namespace
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import product

from fairseq_normalign.alignment.evidence import AlignOptions
from fairseq_normalign.cli import align, checks, options
from fairseq_normalign.cli.align_run import tasks
from fairseq_normalign.cli.runs import run_command
from fairseq_normalign.errors import InputError
from fairseq_normalign.files import refuse_unwritable, whole_file
from fairseq_normalign.runs.measure import Made, Plan

DESCRIPTION = """Write how words are translated: PREFIX.s2t has lines 'target source p(target |
source)', PREFIX.t2s lines 'source target p(source | target)', as Marian's --shortlist reads them.
Probabilities are shares of the expected numbers of links; options are those of align."""
EXAMPLE = "normalign shortlist deen/ train.de.gz train.en.gz -r ende/ -o lex"
Counts = Mapping[tuple[str, str], float]  # expected links of (source, target)
Split = Callable[[str], list[str]]


OUTPUT = """
output:
  -o --output PREFIX = required  write PREFIX.s2t and PREFIX.t2s
  --top N = 100       keep the N best translations of each word
  --pieces FILE...    SentencePiece models of Marian's vocabularies, one or two: lists of their
                      pieces
"""


def check(args: Namespace) -> None:
    args.index, args.format = 0, "pharaoh"
    args.confidence = args.interactive = args.never_empty = False
    align.check(args)
    for path in outputs(args):
        refuse_unwritable(path, *checks.inputs_of(args), *args.pieces)


parse_args = options.model_command(
    "shortlist",
    DESCRIPTION,
    EXAMPLE,
    options.CORPUS + align.COMBINATION + OUTPUT,
    check,
    flags=(AlignOptions, Plan),
    more=align.refuse_gold,
    several=True,
)


def outputs(args: Namespace) -> list[str]:
    return [f"{args.output}.s2t", f"{args.output}.t2s"]


def main(args: Namespace) -> None:
    splitters(args.pieces)  # refuses bad ones before anything is aligned
    run_command("shortlist", args, partial(tasks, count=True), finish)


def finish(args: Namespace, made: Mapping[str, Made]) -> None:
    """Adds up the links of all pairs, and writes both directions."""
    counts: defaultdict[tuple[str, str], float] = defaultdict(float)
    for part in made["links"].partials:
        for line in part.text.split("\n"):
            words = line.split(" ")
            for source, target, share in zip(words[::3], words[1::3], words[2::3], strict=False):
                counts[source, target] += float(share)
    one = in_pieces(counts, *splitters(args.pieces)) if args.pieces else counts
    other = {(target, source): count for (source, target), count in one.items()}
    for path, of_side in zip(outputs(args), (one, other), strict=True):
        with whole_file(path) as file:
            file.writelines(shortlist(of_side, args.top))


def splitters(paths: Sequence[str]) -> list[Split]:
    """What splits words of the source and of the target into pieces; one model may do both."""
    if len(paths) > 2:
        raise InputError("--pieces takes one model, or one of the source and one of the target")
    splits: list[Split] = []
    for path in paths:
        from sentencepiece import SentencePieceProcessor

        processor = SentencePieceProcessor()
        try:
            processor.Load(path)
        except (OSError, RuntimeError):
            raise InputError(f"{path}: not a SentencePiece model") from None
        splits.append(partial(processor.encode, out_type=str))
    return [*splits, *splits][:2]


def in_pieces(counts: Counts, source_split: Split, target_split: Split) -> Counts:
    """Expected links of pieces: all of a word with all of the other word."""
    found: defaultdict[tuple[str, str], float] = defaultdict(float)
    for (source, target), count in counts.items():
        for pair in product(source_split(source), target_split(target)):
            found[pair] += count
    return found


def shortlist(counts: Counts, top: int) -> Iterator[str]:
    """Lines ``translation word p(translation | word)``, the best translations of each word first.

    Args:
        counts: by (word, translation).
    """
    by_word: dict[str, list[tuple[float, str]]] = {}
    for (word, translation), count in counts.items():
        by_word.setdefault(word, []).append((-count, translation))
    for word, translations in sorted(by_word.items()):
        total = sum(count for count, _ in translations)
        for count, translation in sorted(translations)[:top]:
            yield f"{translation} {word} {count / total:.7f}\n"
