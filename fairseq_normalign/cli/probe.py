"""``normalign probe MODEL --conllu FILE``: parts of speech in each layer."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from itertools import islice
from pathlib import Path

from fairseq_normalign.cli import options
from fairseq_normalign.cli.checks import check_several
from fairseq_normalign.cli.output import add_output_options, show
from fairseq_normalign.files import short_names
from fairseq_normalign.progress import bar
from fairseq_normalign.text.treebank import lowercased, read_conllu
from fairseq_normalign.version import __version__

DESCRIPTION = """How well a linear classifier reads a word's part of speech (UPOS) from the states
of each layer, layer 0 being the embeddings. A word's state is the mean of those of its pieces. The
encoder is looked at, or the decoder of a language model."""
EXAMPLE = "normalign probe deen/ --conllu de_pud.conllu --lowercase"
LIMIT = 2000


def add_options(parser: ArgumentParser) -> None:
    group = parser.add_argument_group("treebank")
    group.add_argument("--conllu", metavar="FILE", required=True, help="tagged sentences")
    group.add_argument(
        "--lowercase", action="store_true", help="the model reads lowercased text: lowercase it"
    )
    options.add_limit_option(group, LIMIT)
    group.add_argument(
        "--test-share",
        type=options.share,
        default=0.2,
        metavar="X",
        help="share of the sentences that are not learned from",
    )
    options.add_reading_options(group)
    add_output_options(parser)


parse_args = options.model_command(
    "probe", DESCRIPTION, EXAMPLE, add_options, check_several, several=True
)


def main(args: Namespace) -> None:
    from fairseq_normalign.cli.model import complete
    from fairseq_normalign.layers.probing import ProbingResult, probe
    from fairseq_normalign.layers.token_table import read_sentences

    trees = list(islice(read_conllu(args.conllu), args.limit))
    if args.lowercase:
        trees = list(map(lowercased, trees))
    complete(args)
    words = [tree.words for tree in trees]
    models = []
    with bar("states", total=len(trees) * len(args.path), unit="sentences") as shown:
        for name, path in zip(short_names(args.path), args.path, strict=True):
            measured = probe(
                read_sentences(args, name, path, words),
                trees,
                test_share=args.test_share,
                seed=args.seed,
                max_tokens=args.max_tokens,
                progress=shown.update,
            )
            models.append(measured)
    signature = {
        "checkpoints": ",".join(model.name for model in models),
        "sentences": len(trees),
        "treebank": Path(args.conllu).name,
        "lowercase": args.lowercase,
        "test-share": args.test_share,
        "seed": args.seed,
        **options.policy_for_long_pairs(args),
        "version": __version__,
    }
    show(ProbingResult(models, signature), args)
