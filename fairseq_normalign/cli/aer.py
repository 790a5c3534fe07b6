"""``normalign aer GOLD HYP [HYP …]``: score alignments against gold."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import chain

from fairseq_normalign.alignment import aer, breakdown
from fairseq_normalign.alignment import link_doctor as doctor
from fairseq_normalign.alignment.scores import ScoresResult, System
from fairseq_normalign.alignment.signature import made_with
from fairseq_normalign.cli.checks import check_outputs
from fairseq_normalign.cli.options import add_table, command, from_0, positive, share
from fairseq_normalign.cli.output import (
    add_output_options,
    print_result,
    write_result_files,
)
from fairseq_normalign.cli.shell import say
from fairseq_normalign.errors import InputError
from fairseq_normalign.files import name_of
from fairseq_normalign.text.links import FORMATS, Gold, GoldFile, LinkFile
from fairseq_normalign.text.words import TextFile

MOST_DECIMALS = 6  # as many as are kept
NEEDED_TEXTS = {
    "length": ["source"],
    "source-frequency": ["source"],
    "target-frequency": ["source", "target"],
}
TEXTS = {
    "--source": ("TEXT", "tokenised source text; links outside it are refused"),
    "--target": ("TEXT", "tokenised target text"),
}
COUNTED = {
    "--count-source": ("TEXT", "text for source-frequency (else --source itself)"),
    "--count-target": ("TEXT", "text for target-frequency (else --target itself)"),
}
Sampled = list[tuple[Gold, Sequence]]  # gold, and the links of all systems


DESCRIPTION = """Alignment error rate, precision and recall of word alignments. stdout has the
scores; warnings about files that look misread go to stderr."""
EXAMPLE = "normalign aer test.talp hyp.pharaoh --gold-index 1 --intervals"


def add_options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "gold", metavar="GOLD", help="gold links: 'i-j' sure, 'ipj' possible; or NAACL/WPT lines"
    )
    parser.add_argument(
        "hyp", metavar="HYP", nargs="*", help="alignments to score; - is stdin (default: -)"
    )
    parser.add_argument(
        "-i", "--input", nargs="+", default=[], metavar="HYP", help="the same, anywhere"
    )
    add_reading_options(parser)
    add_statistics_options(parser)
    group = add_output_options(parser)
    group.add_argument(
        "-b", "--score-only", action="store_true", help="print AER only, a line per HYP"
    )
    group.add_argument(
        "-w",
        "--width",
        type=from_0,
        choices=range(MOST_DECIMALS + 1),
        default=1,
        metavar="N",
        help="decimals, 0 to 6",
    )


def add_reading_options(parser: ArgumentParser) -> None:
    group = parser.add_argument_group("reading")
    for side, name in (("gold", "gold"), ("hyp", "hypotheses")):
        group.add_argument(
            f"--{side}-index", type=int, choices=(0, 1), default=0, help=f"first word of the {name}"
        )
        group.add_argument(
            f"--reverse-{side}", action="store_true", help=f"the {name} have the target word first"
        )
        group.add_argument(
            f"--{side}-format", choices=FORMATS, default="auto", help=f"format of the {name}"
        )
    group.add_argument(
        "--sure-mark", choices=("-", "p"), default="-", help="what marks sure links in the gold"
    )
    group.add_argument(
        "--possible",
        choices=("keep", "drop", "sure"),
        default="keep",
        help="possible links: keep, drop, or take as sure",
    )
    group.add_argument(
        "--lines", choices=aer.LINES, default="all", help="score these lines only, counted from 1"
    )
    add_table(group, TEXTS)


def add_statistics_options(parser: ArgumentParser) -> None:
    group = parser.add_argument_group("statistics")
    group.add_argument(
        "--alpha", type=share, metavar="A", help="also report F_A = 1 / (A/P + (1-A)/R)"
    )
    group.add_argument("--intervals", action="store_true", help="95%% bootstrap interval of AER")
    group.add_argument(
        "--paired",
        action="store_true",
        help="p-value against the first HYP (approximate randomization)",
    )
    group.add_argument(
        "--samples", type=positive, default=1000, help="samples for --intervals and --paired"
    )
    group.add_argument("--seed", type=from_0, default=12345, help="random seed for both")
    group.add_argument(
        "--breakdown",
        nargs="+",
        choices=breakdown.KINDS,
        default=[],
        help="also score by kind of link",
    )
    add_table(group, COUNTED)


def check(args: Namespace) -> None:
    """Refuses options that do not fit together."""
    args.input = [*args.hyp, *args.input] or ["-"]
    for kind in args.breakdown:
        for side in NEEDED_TEXTS.get(kind, []):
            if not getattr(args, side):
                raise InputError(f"--breakdown {kind} needs --{side}")
    counted = [counted_text(args, kind) for kind in args.breakdown]
    readings = [args.gold, *args.input, args.source, args.target, *counted]
    if readings.count("-") > 1:
        raise InputError("stdin ('-') can be read only once; expected files for the others")
    if args.paired and len(args.input) < 2:
        raise InputError("--paired compares with the first HYP; expected two or more of them")
    check_outputs(args, *filter(None, readings))


parse_args = command("aer", DESCRIPTION, EXAMPLE, add_options, check)


def main(args: Namespace) -> None:
    gold = GoldFile(
        args.gold,
        index=args.gold_index,
        reverse=args.reverse_gold,
        format=args.gold_format,
        sure=args.sure_mark,
        possible=args.possible,
    )
    reading = {"index": args.hyp_index, "reverse": args.reverse_hyp, "format": args.hyp_format}
    systems = [LinkFile(path, **reading) for path in args.input]
    texts = [TextFile(path) for path in (args.source, args.target) if path]
    names = [gold.name, *(system.name for system in systems)]
    bounds = [breakdown.BoundsCheck(names, args.source, args.target)] if texts else []
    breakdowns = []
    for kind in args.breakdown:
        text = counted_text(args, kind)
        frequencies = Counter(chain.from_iterable(TextFile(text))) if text else None
        breakdowns.append(breakdown.Breakdown(kind, len(systems), frequencies))
    sample: Sampled = []

    def keep_first(number: int, gold: Gold, columns: Sequence) -> None:
        if number <= doctor.SAMPLE:
            sample.append((gold, columns))

    watchers: list[Callable[..., None]] = [*bounds, *breakdowns, keep_first]
    scores = aer.score(gold, systems, lines=args.lines, beside=texts, watchers=watchers)
    if not args.quiet:
        warn(args, sample)
    shown = [system_of(args, scores, place, breakdowns) for place in range(len(scores))]
    result = ScoresResult(shown, args.alpha, args.width)
    write_result_files(result, args)
    if args.score_only and args.format == "text":
        for _, total, _ in scores:
            print(result.number(aer.percent(total.aer)))
    else:
        print_result(result, args, signature=False)


def counted_text(args: Namespace, kind: str) -> str | None:
    """The text whose words a kind of breakdown counts, if it does."""
    side, _, measure = kind.partition("-")
    if measure != "frequency":
        return None
    return getattr(args, f"count_{side}") or getattr(args, side)


def warn(args: Namespace, sample: Sampled) -> None:
    read = doctor.Conventions(args.gold_index, args.hyp_index, args.reverse_hyp)
    mended = {}
    if args.sure_mark == "p":
        mended["marks"] = "leave out --sure-mark p"
    if args.possible == "sure":
        mended["possible"] = ""
    flags = doctor.Flags(**mended)
    golds = [gold for gold, _ in sample]
    for place, path in enumerate(args.input):
        links = [columns[place] for _, columns in sample]
        advice = doctor.diagnose(links, golds, read, flags)
        if advice:
            say(f"normalign aer: warning: {name_of(path)}: {advice.words}")


def system_of(
    args: Namespace,
    scores: list[aer.Score],
    place: int,
    breakdowns: list[breakdown.Breakdown],
) -> System:
    """All that is reported about a system, by its place among all."""
    name, total, sentences = scores[place]
    sampling = {"samples": args.samples, "seed": args.seed}
    interval = p_value = None
    if args.intervals:
        interval = aer.interval(sentences, **sampling)
    if args.paired and place > 0:
        p_value = aer.paired_p_value(scores[0].sentences, sentences, **sampling)
    bands = {part.kind: part.table(place) for part in breakdowns}
    return System(name, signature_of(args, args.input[place]), total, interval, p_value, bands)


def signature_of(args: Namespace, path: str) -> dict:
    """Our options, then those that the alignment was made with, if they were written beside it."""
    reverse = ["ref"] * args.reverse_gold + ["hyp"] * args.reverse_hyp
    options = {
        "ref-index": args.gold_index,
        "hyp-index": args.hyp_index,
        "reverse": "+".join(reverse) or "none",
        "possible": args.possible,
        "sure-mark": None if args.sure_mark == "-" else args.sure_mark,
        "lines": None if args.lines == "all" else args.lines,
    }
    if args.intervals or args.paired:
        options |= {"samples": args.samples, "seed": args.seed}
    given = {name: value for name, value in options.items() if value is not None}
    return {**given, **made_with(path)}
