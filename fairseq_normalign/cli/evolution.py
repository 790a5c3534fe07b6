"""``normalign evolution MODEL``: what the states of each layer hold."""

from __future__ import annotations

from argparse import Namespace
from dataclasses import replace

from fairseq_normalign.cli import checks, options
from fairseq_normalign.cli.checks import check_several
from fairseq_normalign.cli.output import OUTPUT, show
from fairseq_normalign.layers.evolution_plan import EvolutionOptions
from fairseq_normalign.options import read_options

DESCRIPTION = """How representations evolve from layer to layer (Voita et al., EMNLP 2019): how much
of a token's identity, position and neighbours is in its state, how much a layer changes it, and how
much tokens influence others, by frequency. Of one model, or of several that read the same pieces:
translation, language (transformer_lm) and masked models."""
EXAMPLE = "normalign evolution deen/ a.de --plot evolution.png"
OPTIONS = """
what is measured:
  --part encoder|decoder  which part of the model (default: the encoder; of a language model, the
                          decoder)
  --limit N = 5000        take the first N sentences of the corpus
output:
  --plot-words FILE       the states of --words in each layer, by their first two principal
                          components
"""


def check(args: Namespace) -> None:
    """Refuses options that do not go together, before anything is loaded."""
    check_several(args)
    checks.go_together(args, "words", "plot_words")
    if args.plot_words:
        checks.check_picture("--plot-words", args.plot_words)
    args.bounds = sorted(set(args.bounds))


parse_args = options.model_command(
    "evolution",
    DESCRIPTION,
    EXAMPLE,
    options.CORPUS + OUTPUT + OPTIONS,
    check,
    flags=(EvolutionOptions,),
    several=True,
)


def main(args: Namespace) -> None:
    from fairseq_normalign.cli.model import complete
    from fairseq_normalign.layers.evolution import evolution
    from fairseq_normalign.layers.token_table import read_corpus

    complete(args)
    texts = read_corpus(args)
    measuring = read_options(EvolutionOptions, args, seed=args.seed, max_tokens=args.max_tokens)
    result = evolution(texts, measuring)
    signature = {
        "checkpoints": ",".join(text.name for text in texts),
        "parts": ",".join(text.states.part for text in texts),
        "sentences": sum(not pair.skipped for pair in texts[0].pairs),
        **result.signature,
        **options.policy_for_long_pairs(args),
    }
    if args.plot_words:
        from fairseq_normalign.results.figure import save

        save(result.words_figure(), args.plot_words)
    show(replace(result, signature=signature), args)
