"""``normalign evolution DATA --path CHECKPOINT …``: what the states of each layer hold."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fairseq_normalign.cli import options
from fairseq_normalign.cli.checkpoints import check_several
from fairseq_normalign.cli.shell import print_signature
from fairseq_normalign.errors import InputError
from fairseq_normalign.files import short_names, whole_file
from fairseq_normalign.progress import bar

if TYPE_CHECKING:
    from fairseq_normalign.layers.evolution import Evolutions
    from fairseq_normalign.layers.evolution_plan import EvolutionOptions

DESCRIPTION = """How representations evolve from layer to layer (Voita et al., EMNLP 2019): how much
of a token's identity, position and neighbours is in its state, how much a layer changes it, and how
much tokens influence others, by frequency. Of one model, or of several that read the same pieces:
translation, language (transformer_lm) and masked models."""
EXAMPLE = (
    "normalign evolution data-bin --path best.pt --remove-bpe sentencepiece --plot evolution.png"
)
LIMIT = 5000


def parse_args(argv: Sequence[str]) -> argparse.Namespace:
    parser = options.model_parser(
        "evolution", description=DESCRIPTION, example=EXAMPLE, several=True
    )
    return options.parse(parser, argv, add_options, check, several=True)


def add_options(parser: argparse.ArgumentParser) -> None:
    options.add_corpus_options(parser)
    add_measuring_options(parser)
    group = parser.add_argument_group("output")
    group.add_argument("-o", "--output", metavar="FILE.json", help="write everything here")
    group.add_argument("--plot", metavar="FILE", help="curves: .png, .pdf or .svg")
    group.add_argument(
        "--words", nargs="+", metavar="WORD", default=[], help="words of the text to be drawn"
    )
    group.add_argument(
        "--plot-words",
        metavar="FILE",
        help="the states of --words in each layer, by their first two principal components",
    )


def add_measuring_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("measuring")
    group.add_argument(
        "--part",
        choices=("encoder", "decoder"),
        help="of a model with both (default: the encoder; of a language model, the decoder)",
    )
    group.add_argument(
        "--limit",
        type=options.positive,
        default=LIMIT,
        metavar="N",
        help="take the first N sentences of the corpus (default: %(default)s)",
    )
    numbers = {
        "types": (100, "of the most frequent types of tokens, for neighbours and clusters"),
        "occurrences": (100, "tokens of each type"),
        "neighbours": (10, "nearest neighbours of a token, by cosine"),
        "groups": (5, "groups of frequency, each with as many tokens of the text"),
    }
    for name, (default, text) in numbers.items():
        group.add_argument(
            f"--{name}",
            type=options.positive,
            default=default,
            metavar="N",
            help=f"{text} (default: {default})",
        )
    group.add_argument(
        "--clusters",
        type=options.positive,
        metavar="N",
        help="clusters of states (default: two for each type, or one for 100 tokens)",
    )
    group.add_argument(
        "--tokens",
        type=options.positive,
        metavar="N",
        help="tokens that PWCCA compares (default: 5000, or 10 for each neuron)",
    )
    group.add_argument(
        "--bounds",
        type=options.positive,
        nargs="+",
        metavar="N",
        help="frequencies in the training data that groups begin at, instead of --groups",
    )
    group.add_argument(
        "--frequencies",
        metavar="FILE",
        help="lines `word count` or `piece count` (default: the counts in the dictionary)",
    )
    group.add_argument(
        "--no-influence", action="store_true", help="hide no tokens, which takes most of the time"
    )


def check(args: argparse.Namespace) -> None:
    """Refuses options that do not go together, before anything is loaded."""
    check_several(args)
    if bool(args.words) != bool(args.plot_words):
        raise InputError("--words and --plot-words FILE go together")
    if args.plot_words:
        options.check_picture("--plot-words", args.plot_words)
    if args.bounds and sorted(set(args.bounds)) != args.bounds:
        raise InputError(f"--bounds {' '.join(map(str, args.bounds))}: expected ascending numbers")


def main(args: argparse.Namespace) -> None:
    from fairseq_normalign.host.options import complete
    from fairseq_normalign.layers.evolution import measured
    from fairseq_normalign.layers.evolution_plan import plan_of
    from fairseq_normalign.layers.model_part import load_part, texts_of
    from fairseq_normalign.layers.token_table import ReadText

    complete(args)
    measuring = measuring_options(args)
    parts = [load_part(args, path, args.part) for path in args.path]
    pairs = texts_of(args, parts, args.limit)
    texts = []
    for name, part, read in zip(short_names(args.path), parts, pairs, strict=True):
        texts.append(ReadText(name, part.states, part.reader, read))
    plan = plan_of(texts, measuring)
    with bar("states", total=plan.sentences * len(texts), unit="sentences") as shown:
        evolutions = measured(texts, plan, measuring, progress=shown.update)
    sentences = sum(not pair.skipped for pair in pairs[0])
    signature = {
        "checkpoints": ",".join(text.name for text in texts),
        "parts": ",".join(text.states.part for text in texts),
        "sentences": sentences,
        **evolutions.signature,
        **options.policy_for_long_pairs(args),
    }
    write(args, evolutions, signature)


def measuring_options(args: argparse.Namespace) -> EvolutionOptions:
    from fairseq_normalign.layers.evolution_plan import EvolutionOptions
    from fairseq_normalign.text.frequencies import read_frequencies

    more: dict[str, Any] = {}
    if args.frequencies:
        more = {"counts": read_frequencies(args.frequencies), "counts_name": args.frequencies}
    return EvolutionOptions(
        types=args.types,
        occurrences=args.occurrences,
        neighbours=args.neighbours,
        clusters=args.clusters,
        tokens=args.tokens,
        groups=args.groups,
        bounds=tuple(args.bounds or ()),
        influence=not args.no_influence,
        words=tuple(args.words),
        seed=args.seed,
        max_tokens=args.max_tokens,
        **more,
    )


def write(args: argparse.Namespace, evolutions: Evolutions, signature: dict[str, Any]) -> None:
    from fairseq_normalign.report import evolution as report
    from fairseq_normalign.report import evolution_pictures, pictures

    if args.output:
        with whole_file(args.output) as file:
            contents = report.as_json(evolutions, signature)
            json.dump(contents, file, indent=1, ensure_ascii=False, allow_nan=False)
    if args.plot:
        pictures.save(evolution_pictures.picture(evolutions), args.plot)
    if args.plot_words:
        pictures.save(evolution_pictures.words_picture(evolutions), args.plot_words)
    print(report.as_text(evolutions))
    print_signature(signature)
