"""``normalign probe MODEL --conllu FILE``: parts of speech in each layer."""

from __future__ import annotations

from argparse import Namespace
from itertools import islice
from pathlib import Path

from fairseq_normalign.cli import options
from fairseq_normalign.cli.checks import check_several
from fairseq_normalign.cli.output import OUTPUT, show
from fairseq_normalign.files import short_names
from fairseq_normalign.progress import bar
from fairseq_normalign.text.treebank import lowercased, read_conllu
from fairseq_normalign.version import __version__

DESCRIPTION = """How well a linear classifier reads a word's part of speech (UPOS) from the states
of each layer, layer 0 being the embeddings. A word's state is the mean of those of its pieces. The
encoder is looked at, or the decoder of a language model."""
EXAMPLE = "normalign probe deen/ --conllu de_pud.conllu --lowercase"
OPTIONS = """
treebank:
  --conllu FILE = required  tagged sentences
  --lowercase         the model reads lowercased text: lowercase it
  --limit N = 2000    take the first N sentences of the corpus
  --test-share X = 0.2  share of the sentences that are not learned from
"""


parse_args = options.model_command(
    "probe",
    DESCRIPTION,
    EXAMPLE,
    OPTIONS + options.READING + OUTPUT,
    check_several,
    several=True,
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
