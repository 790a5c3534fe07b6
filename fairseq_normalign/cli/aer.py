"""``normalign aer GOLD HYP [HYP …]``: score alignments against gold."""

from __future__ import annotations

from argparse import Namespace
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain

from fairseq_normalign.alignment import aer, breakdown
from fairseq_normalign.alignment import link_doctor as doctor
from fairseq_normalign.alignment.scores import ScoresResult, System
from fairseq_normalign.alignment.signature import first_index, made_with
from fairseq_normalign.cli.checks import check_outputs, refuse_stdin_twice
from fairseq_normalign.cli.options import command
from fairseq_normalign.cli.output import (
    OUTPUT,
    print_result,
    write_result_files,
)
from fairseq_normalign.cli.shell import say
from fairseq_normalign.errors import InputError
from fairseq_normalign.text.links import FORMATS, Gold, GoldFile, LinkFile
from fairseq_normalign.text.words import TextFile

NEEDED_TEXTS = {
    "length": ["source"],
    "source-frequency": ["source"],
    "target-frequency": ["source", "target"],
}
OPTIONS = f"""
GOLD  gold links: 'i-j' sure, 'ipj' possible; or NAACL/WPT lines
[HYP...]  alignments to score; - is stdin (default: -)
-i --input HYP...  links to score, as HYP
reading:
  --gold-index 0|1 = 0        first word of the gold
  --reverse-gold              the gold has the target word first
  --gold-format {"|".join(FORMATS)} = auto  format of the gold
  --hyp-index 0|1             first word of the hypotheses (default: 0, or as written)
  --reverse-hyp               the hypotheses have the target word first
  --hyp-format {"|".join(FORMATS)} = auto   format of the hypotheses
  --sure-mark p|- = -         what marks sure links in the gold
  --possible keep|drop|sure = keep  possible links: keep, drop, or take as sure
  --lines {"|".join(aer.LINES)} = all       score these lines only, counted from 1
  --source TEXT               tokenised source text; links outside it are refused
  --target TEXT               tokenised target text
statistics:
  --alpha X                   also report F_A = 1 / (A/P + (1-A)/R)
  --intervals                 95% bootstrap interval of AER
  --paired                    p-value against the first HYP (approximate randomization)
  --samples N = 1000          samples for --intervals and --paired
  --seed K = 12345            random seed for both
  --breakdown {"|".join(breakdown.KINDS)}...  also score by kind of link
  --count-source TEXT         text for source-frequency (else --source itself)
  --count-target TEXT         text for target-frequency (else --target itself)
output:
  -b --score-only             print AER only, a line per HYP
  -w --width 0|1|2|3|4|5|6 = 1  decimals
"""


DESCRIPTION = """Alignment error rate, precision and recall of word alignments. stdout has the
scores; warnings about files that look misread go to stderr."""
EXAMPLE = "normalign aer test.talp hyp.pharaoh --gold-index 1 --intervals"


def check(args: Namespace) -> None:
    """Refuses options that do not fit together."""
    args.input = [*args.hyp, *args.input] or ["-"]
    for kind in args.breakdown:
        for side in NEEDED_TEXTS.get(kind, []):
            if not getattr(args, side):
                raise InputError(f"--breakdown {kind} needs --{side}")
    counted = [counted_text(args, kind) for kind in args.breakdown]
    readings = [args.gold, *args.input, args.source, args.target, *counted]
    refuse_stdin_twice(*readings)
    if args.paired and len(args.input) < 2:
        raise InputError("--paired compares with the first HYP; name two or more")
    check_outputs(args, *filter(None, readings))


parse_args = command("aer", DESCRIPTION, EXAMPLE, OPTIONS + OUTPUT, check)


def main(args: Namespace) -> None:
    gold = GoldFile(
        args.gold,
        index=args.gold_index,
        reverse=args.reverse_gold,
        format=args.gold_format,
        sure=args.sure_mark,
        possible=args.possible,
    )
    reading = {"reverse": args.reverse_hyp, "format": args.hyp_format}
    systems = [
        LinkFile(path, index=first_index(path, args.hyp_index), **reading) for path in args.input
    ]
    texts = [TextFile(path) for path in (args.source, args.target) if path]
    names = [gold.name, *(system.name for system in systems)]
    bounds = [partial(breakdown.check_bounds, names, args.source, args.target)] if texts else []
    breakdowns = []
    for kind in args.breakdown:
        text = counted_text(args, kind)
        frequencies = Counter(chain.from_iterable(TextFile(text))) if text else None
        breakdowns.append(breakdown.Breakdown(kind, len(systems), frequencies))
    golds: list[Gold] = []  # of the first pairs, and the links of all systems
    links: list[Sequence] = []

    def keep_first(number: int, gold: Gold, columns: Sequence) -> None:
        if number <= doctor.SAMPLE:
            golds.append(gold)
            links.append(columns)

    watchers: list[Callable[..., None]] = [*bounds, *breakdowns, keep_first]
    scores = aer.score(gold, systems, lines=args.lines, beside=texts, watchers=watchers)
    sampling = {"samples": args.samples, "seed": args.seed}
    shown = []
    for place, (system, sentences) in enumerate(zip(systems, scores, strict=True)):
        interval = p_value = None
        if args.intervals:
            interval = aer.interval(sentences, **sampling)
        if args.paired and place > 0:
            p_value = aer.paired_p_value(scores[0], sentences, **sampling)
        bands = {part.kind: part.table(place) for part in breakdowns}
        signature = signature_of(args, args.input[place])
        total = aer.Counts.total(sentences)
        shown.append(System(system.name, signature, total, interval, p_value, bands))
        if not args.quiet:
            first = [columns[place] for columns in links]
            warn(args, system, first, golds)
    result = ScoresResult(shown, args.alpha, args.width)
    write_result_files(result, args)
    if args.score_only and args.format == "text":
        for scored in shown:
            print(result.number(aer.percent(scored.counts.aer)))
    else:
        print_result(result, args, signature=False)


def counted_text(args: Namespace, kind: str) -> str | None:
    """The text whose words a kind of breakdown counts, if it does."""
    side, _, measure = kind.partition("-")
    if measure != "frequency":
        return None
    return getattr(args, f"count_{side}") or getattr(args, side)


def warn(args: Namespace, system: LinkFile, links: Sequence, golds: Sequence[Gold]) -> None:
    """Says if a file looks misread."""
    read = doctor.Conventions(
        args.gold_index,
        system.index,
        "--reverse-gold" if args.reverse_gold else "--reverse-hyp" * args.reverse_hyp,
        sure_mark=args.sure_mark,
        possible=args.possible,
    )
    advice, _ = doctor.diagnose(links, golds, read)
    if advice:
        say(f"normalign aer: warning: {system.name}: {advice}")


def signature_of(args: Namespace, path: str) -> dict:
    """Our options, then those that the alignment was made with, if they were written beside it."""
    reverse = ["ref"] * args.reverse_gold + ["hyp"] * args.reverse_hyp
    options = {
        "ref-index": args.gold_index,
        "hyp-index": first_index(path, args.hyp_index),
        "reverse": "+".join(reverse) or "none",
        "possible": args.possible,
    }
    if args.sure_mark != "-":
        options["sure-mark"] = args.sure_mark
    if args.lines != "all":
        options["lines"] = args.lines
    if args.intervals or args.paired:
        options |= {"samples": args.samples, "seed": args.seed}
    made = made_with(path)
    made.pop("index", None)  # is that of the hypotheses
    return {**options, **made}
