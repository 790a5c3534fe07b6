"""``normalign probe DATA --path CHECKPOINT … --conllu FILE``: parts of speech in each layer."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fairseq_normalign.cli import options
from fairseq_normalign.cli.checkpoints import check_several
from fairseq_normalign.cli.shell import print_signature
from fairseq_normalign.files import short_names, whole_file
from fairseq_normalign.progress import bar
from fairseq_normalign.version import __version__

if TYPE_CHECKING:
    from fairseq_normalign.text.treebank import Tree

DESCRIPTION = """How well a linear classifier reads a word's part of speech (UPOS) from the states
of each layer, layer 0 being the embeddings. A word's state is the mean of those of its pieces. The
encoder is looked at, or the decoder of a language model."""
EXAMPLE = (
    "normalign probe data-bin --path best.pt --conllu de_pud.conllu --lowercase --bpe "
    "sentencepiece --sentencepiece-model spm.model"
)
LIMIT = 2000


def parse_args(argv: Sequence[str]) -> argparse.Namespace:
    parser = options.model_parser("probe", description=DESCRIPTION, example=EXAMPLE, several=True)
    return options.parse(parser, argv, add_options, check_several, several=True)


def add_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("treebank")
    group.add_argument("--conllu", metavar="FILE", required=True, help="tagged sentences")
    group.add_argument(
        "--lowercase", action="store_true", help="the model reads lowercased text: lowercase it"
    )
    group.add_argument(
        "--limit",
        type=options.positive,
        default=LIMIT,
        metavar="N",
        help="take the first N sentences (default: %(default)s)",
    )
    group.add_argument(
        "--test-share",
        type=options.share,
        default=0.2,
        metavar="X",
        help="share of the sentences that are not learned from (default: %(default)s)",
    )
    options.add_segmentation_options(group)
    options.add_too_long_option(group)
    group = parser.add_argument_group("output")
    group.add_argument("-o", "--output", metavar="FILE.json", help="write everything here")
    group.add_argument("--plot", metavar="FILE", help="curves: .png, .pdf or .svg")


def main(args: argparse.Namespace) -> None:
    from fairseq_normalign.host.options import complete
    from fairseq_normalign.layers.model_part import load_part, read_sentences
    from fairseq_normalign.layers.probing import probe
    from fairseq_normalign.report import pictures
    from fairseq_normalign.report import probing as report

    trees = read_trees(args)
    complete(args)
    words = [tree.words for tree in trees]
    probings = []
    with bar("states", total=len(trees) * len(args.path), unit="sentences") as shown:
        for name, path in zip(short_names(args.path), args.path, strict=True):
            part = load_part(args, path)
            measured = probe(
                name,
                part.states,
                read_sentences(args, part, words),
                trees,
                test_share=args.test_share,
                seed=args.seed,
                max_tokens=args.max_tokens,
                progress=shown.update,
            )
            probings.append(measured)
    signature = {
        "checkpoints": ",".join(probing.name for probing in probings),
        "sentences": len(trees),
        "treebank": Path(args.conllu).name,
        "lowercase": args.lowercase,
        "test-share": args.test_share,
        "seed": args.seed,
        **options.policy_for_long_pairs(args),
        "version": __version__,
    }
    if args.output:
        models = [vars(probing) for probing in probings]
        with whole_file(args.output) as file:
            json.dump({"models": models, "signature": signature}, file, indent=1, allow_nan=False)
    if args.plot:
        pictures.save(report.picture(probings), args.plot)
    print(report.as_text(probings))
    print_signature(signature)


def read_trees(args: argparse.Namespace) -> list[Tree]:
    """The first sentences of the treebank."""
    from itertools import islice

    from fairseq_normalign.text.treebank import lowercased, read_conllu

    trees = list(islice(read_conllu(args.conllu), args.limit))
    return [lowercased(tree) for tree in trees] if args.lowercase else trees
