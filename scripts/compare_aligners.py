"""Compares our alignments with those of eflomal and fast_align: AER, gain, and CPU seconds.

python scripts/compare_aligners.py --train corpus/train --test corpus/test -s de -t en \\
    --gold corpus/test.talp --gold-index 1 --path deen.pt --reverse-path ende.pt --out compare \\
    --corpus "data-bin --bpe sentencepiece --sentencepiece-model spm.model --cpu"

eflomal and fast_align (by systran-align) are installed from PyPI into an environment of their own;
what cannot be installed is left out, and a line says so. They are trained on the training pairs and
the test pairs together. Their links, ours and the scores are in OUT. They do not run a second time
on the same text, while ours are always made anew. The gain (`normalign gain`) needs no gold; the
last line says how far it ranks all systems, each run by itself, as AER does.
"""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from statistical_aligners import (
    ALIGNERS,
    HEURISTIC,
    Run,
    Text,
    UnavailableError,
    align,
    cpu_seconds,
    install,
)

from fairseq_normalign.errors import InputError
from fairseq_normalign.files import whole_file
from fairseq_normalign.heads.correlation import spearman
from fairseq_normalign.results.result import read_result

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "data_prep"))

from lines import read_pairs, text_file, write_pairs  # noqa: E402

NORMALIGN = Path(sys.executable).parent / "normalign"
LEARNED = "--combine learned"
BITEXT = f"{LEARNED} --bitext {{bitext}}"
EFLOMAL = "--evidence {eflomal}"  # its links as well
ONE_MODEL = {
    "weights, one model": "--combine none --method weights",
    "norms, one model": "--combine none",
    "product, one model": "--combine product",
    "learned, one model": LEARNED,
    "learned, one model, bitext": BITEXT,
    "learned, one model, eflomal": f"{LEARNED} {EFLOMAL}",
    "learned, one model, bitext, eflomal": f"{BITEXT} {EFLOMAL}",
}
TWO_MODELS = {
    "product, two models": "--combine product",
    "learned, two models": LEARNED,
    "learned, two models, bitext": BITEXT,
    "learned, two models, eflomal": f"{LEARNED} {EFLOMAL}",
    "learned, two models, bitext, eflomal": f"{BITEXT} {EFLOMAL}",
}
RUNS = {"eflomal": 3}  # of an aligner that samples at random; their mean is shown
MEANS = ("AER", "95 % from", "to", "even", "P", "R", "links", "gain")
COLUMNS = ("AER", "95 %", "even", "P", "R", "links", "gain", "seconds")
NOTE = (
    "AER, P and R in %; 95 % bootstrap intervals of AER; AER of even lines; gain in nats a word; "
    "seconds of CPU, without the training of translation models; eflomal samples at random: its "
    "rows are means of three runs. Constants of ours were chosen on the odd lines of the RWTH "
    "German–English gold and on the 105 English–Spanish development pairs of XL-WA."
)


@dataclass(frozen=True)
class System:
    """One row of the table: what it is called, its links, and the CPU seconds that they took."""

    name: str
    links: Path
    seconds: float


def get_parser() -> argparse.ArgumentParser:
    """Options of the command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--train", type=Path, required=True, metavar="PREFIX", help="training text PREFIX.L or .gz"
    )
    parser.add_argument(
        "--test", type=Path, required=True, metavar="PREFIX", help="likewise the text with gold"
    )
    parser.add_argument("-s", "--source-lang", required=True, metavar="L", help="source language")
    parser.add_argument("-t", "--target-lang", required=True, metavar="L", help="target language")
    parser.add_argument("--gold", type=Path, required=True, metavar="FILE", help="gold links")
    parser.add_argument(
        "--gold-index", choices=("0", "1"), default="0", help="first word (default: %(default)s)"
    )
    parser.add_argument("--path", type=Path, metavar="FILE", help="the checkpoint of our model")
    parser.add_argument(
        "--reverse-path", type=Path, metavar="FILE", help="that of the other direction"
    )
    parser.add_argument(
        "--corpus",
        default="",
        metavar="WORDS",
        help="the data folder of our model, and how it splits text: options of normalign align",
    )
    parser.add_argument(
        "--also",
        action="append",
        default=[],
        metavar="NAME=WORDS",
        help="a further row of ours, by options of normalign align; may be repeated",
    )
    parser.add_argument(
        "--aligners",
        nargs="*",
        choices=ALIGNERS,
        default=list(ALIGNERS),
        help="which tools (default: all)",
    )
    parser.add_argument(
        "--environment", type=Path, metavar="DIR", help="theirs (default: in the user's cache)"
    )
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="for all results")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Compare, or say in one line what is wrong."""
    args = get_parser().parse_args(argv)
    try:
        print(compare(args))
    except InputError as error:
        print(f"compare_aligners.py: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return 0


def compare(args: argparse.Namespace) -> str:
    """The table, which OUT/table.txt has too."""
    check(args)
    args.out.mkdir(parents=True, exist_ok=True)
    systems = [*by_bitext(args), *statistical(args), *ours(args)]
    scored = scores(args, systems)
    shown = f"{table(systems, scored)}\n{ranks(scored)}"
    with whole_file(args.out / "table.txt") as file:
        file.write(f"{shown}\n")
    return shown


def check(args: argparse.Namespace) -> None:
    """Raises InputError for what is missing or does not go together."""
    if args.path is None and (args.reverse_path or args.also):
        raise InputError("--reverse-path and --also are about our model; expected --path")
    if args.path is not None and not args.corpus:
        raise InputError("--corpus is missing; expected the data folder of --path and its options")
    for row in args.also:
        if not row.partition("=")[0] or "=" not in row:
            raise InputError(f"--also {row!r}; expected NAME=WORDS")
    for path in (args.path, args.reverse_path, args.gold):
        if path is not None and not path.exists():
            raise InputError(f"{path}: not found")


def statistical(args: argparse.Namespace) -> Iterator[System]:
    """The rows of the tools that could be installed."""
    if not args.aligners:
        return
    text = joined(args)
    environment = args.environment or cache()
    for name in args.aligners:
        folder = args.out / name
        try:
            show(f"{name}: installing {ALIGNERS[name].package} into {environment}")
            install(ALIGNERS[name], environment)
        except UnavailableError as error:
            show(f"{name}: left out, it could not be installed: {error}")
            continue
        for number in range(RUNS.get(name, 1)):
            of_run = folder / f"run{number + 1}" if number else folder
            show(f"{name}: both directions, log in {of_run / 'log'}")
            yield from alignments(name, align(ALIGNERS[name], environment, text, of_run))


def joined(args: argparse.Namespace) -> Text:
    """Training and test text in one, in OUT.

    Training pairs with an empty side say nothing, and some aligners refuse them.
    """
    training = list(read_pairs(*sides(args, args.train)))
    test = list(read_pairs(*sides(args, args.test)))
    full = [pair for pair in training if pair[0].strip() and pair[1].strip()]
    if len(full) < len(training):
        show(f"{args.train}: {len(training) - len(full)} pairs with an empty side are left out")
    text = Text((args.out / "text.source", args.out / "text.target"), len(test))
    write_pairs(*text.sides, [*full, *test])
    return text


def sides(args: argparse.Namespace, prefix: Path) -> tuple[Path, Path]:
    """The files of both languages."""
    source, target = (Path(f"{prefix}.{lang}") for lang in (args.source_lang, args.target_lang))
    return text_file(source), text_file(target)


def cache() -> Path:
    """Where the environment of the tools is if nobody says."""
    folder = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    return folder / "normalign/aligners"


def alignments(name: str, run: Run) -> Iterator[System]:
    """What a tool wrote, and what its two directions make together; their training is one."""
    for kind, links in run.links.items():
        yield System(f"{name}, {kind}", links, run.seconds)
    if HEURISTIC not in run.links:
        forward, reverse = run.links["forward"], run.links["reverse"]
        both = forward.with_name(HEURISTIC)
        options = ["--rev-order", "source-target", "--heuristic", HEURISTIC, "-o", both]
        command = [NORMALIGN, "symmetrize", forward, reverse, *options]
        seconds = cpu_seconds(command, both.with_suffix(".log"))
        yield System(f"{name}, {HEURISTIC}", both, run.seconds + seconds)


def by_bitext(args: argparse.Namespace) -> Iterator[System]:
    """Our row that needs no model."""
    folder = args.out / "normalign"
    folder.mkdir(exist_ok=True)
    source, target = sides(args, args.test)
    links = folder / "bitext.pharaoh"
    words = [source, target, "--method", "bitext", "--bitext", *sides(args, args.train)]
    show("bitext: normalign align --method bitext …")
    seconds = cpu_seconds([NORMALIGN, "align", *words, "-o", links], folder / "bitext.log")
    yield System("bitext, no model", links, seconds)


def ours(args: argparse.Namespace) -> Iterator[System]:
    """Our rows."""
    folder = args.out / "normalign"
    folder.mkdir(exist_ok=True)
    source, target = sides(args, args.test)
    if args.path is None:
        return
    words = [*shlex.split(args.corpus), "--path", args.path]
    words += ["--source-file", source, "--target-file", target]
    for number, (name, options) in enumerate(rows(args), start=1):
        show(f"{name}: normalign align … {shlex.join(options)}".rstrip())
        links = folder / f"{number}.pharaoh"
        command = [NORMALIGN, "align", *words, *options, "--output", links]
        yield System(name, links, cpu_seconds(command, folder / f"{number}.log"))


def rows(args: argparse.Namespace) -> Iterator[tuple[str, list[str]]]:
    """Names of our rows and their options."""
    eflomal = [args.out / "eflomal" / side for side in ALIGNERS["eflomal"].writes]
    words = {
        "bitext": shlex.join(map(str, sides(args, args.train))),
        "eflomal": shlex.join(f"links:{links}" for links in eflomal),
    }
    of_two = {} if args.reverse_path is None else TWO_MODELS
    for name, options in [*ONE_MODEL.items(), *of_two.items()]:
        if "eflomal" in name and not ("eflomal" in args.aligners and eflomal[-1].exists()):
            continue
        reverse = ["--reverse-path", str(args.reverse_path)] if name in of_two else []
        yield name, [*shlex.split(options.format(**words)), *reverse]
    for row in args.also:
        name, _, options = row.partition("=")
        yield name, shlex.split(options)


def scores(args: argparse.Namespace, systems: Sequence[System]) -> list[dict]:
    """What `normalign aer` and `normalign gain` say of each system."""
    links = [system.links for system in systems]
    gold = ["aer", args.gold, "--gold-index", args.gold_index, "-q", "-i", *links]
    scored = rows_of(args.out / "scores.json", "systems", [*gold, "--intervals"])
    even = rows_of(args.out / "even.json", "systems", [*gold, "--lines", "even"])
    words = ["gain", *sides(args, args.test), *links, "-q"]
    gains = rows_of(args.out / "gain.json", "gain", words)
    for score, of_even, gain in zip(scored, even, gains, strict=True):
        score.update(even=of_even["AER"], gain=gain["gain"])
    return scored


def rows_of(result: Path, name: str, words: Sequence[object]) -> list[dict]:
    """The rows of a table that a command writes."""
    command = [str(word) for word in (NORMALIGN, *words, "-o", result)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise InputError(done.stderr.strip())
    table = read_result(result).tables()[name]
    return [dict(zip(table.columns, row, strict=True)) for row in table.rows]


def table(systems: Sequence[System], scored: Sequence[dict]) -> str:
    """A row for each system; runs of the same name are averaged."""
    width = max(len(system.name) for system in systems)
    aer, interval, *others = COLUMNS
    heading = "".join(f"{name:>8}" for name in others)
    lines = [f"{'system':<{width}}{aer:>7}  {interval:<12}{heading}"]
    of_names: dict[str, list[tuple[System, dict]]] = {}
    for system, score in zip(systems, scored, strict=True):
        of_names.setdefault(system.name, []).append((system, score))
    for name, runs in of_names.items():
        score = {column: fmean(of_run[column] for _, of_run in runs) for column in MEANS}
        interval = f"{score['95 % from']:.1f}–{score['to']:.1f}"
        lines.append(
            f"{name:<{width}}{score['AER']:>7.1f}  {interval:<12}"
            f"{score['even']:>8.1f}{score['P']:>8.1f}{score['R']:>8.1f}{score['links']:>8.0f}"
            f"{score['gain']:>8.3f}{fmean(system.seconds for system, _ in runs):>8.0f}"
        )
    return "\n".join([*lines, NOTE])


def ranks(scored: Sequence[dict]) -> str:
    """How far the gain ranks the systems as AER does."""
    gains, errors = ([score[column] for score in scored] for column in ("gain", "AER"))
    rho = spearman(gains, errors)
    shown = "unknown" if rho is None else f"{rho:.2f}"
    return f"Rank correlation (Spearman) of gain and AER over {len(scored)} systems: {shown}"


def show(message: str) -> None:
    """Progress, to stderr."""
    print(f"== {message}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
