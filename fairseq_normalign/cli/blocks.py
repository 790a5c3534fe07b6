"""What the commands that measure whole attention blocks have in common."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairseq_normalign.cli import options
from fairseq_normalign.cli.checks import check_several
from fairseq_normalign.cli.output import show
from fairseq_normalign.cli.runs import (
    Task,
    check_run_options,
    checked_each,
    each,
    open_corpus,
    reading_task,
)
from fairseq_normalign.errors import InputError
from fairseq_normalign.layers.categories import DEFAULT, PRESETS, SOURCES, parse_categories
from fairseq_normalign.runs.folder import RunFolder
from fairseq_normalign.runs.measure import Made, prepared_job
from fairseq_normalign.version import __version__

if TYPE_CHECKING:
    from fairseq_normalign.layers.block_survey import Blocks, BlockSurvey, Counted
    from fairseq_normalign.results.result import Result


NAMED = "; ".join(f"{name}: {', '.join(preset.names)}" for name, preset in PRESETS.items())
RANKED = "; ".join(f"{name}: {meaning}" for name, meaning in SOURCES.items())
BLOCKS = f"""{options.CORPUS}
what is measured:
  --attention all|encoder|decoder = all
      encoder, decoder: its self-attention alone; that of the encoder needs no target
  --limit N           take the first N sentences of the corpus (default: all)
  --max-length N      tokens of a sentence, special ones included; longer ones are too long, as if
                      the model took no more (default: what the model takes)
masks: of masked language models, such as BERT
  --mask-share X      mask this share of the tokens of a sentence, one at least; special ones stay
                      (default: none)
  --seed K = 0        random seed of --mask-share
tokens:
  --categories {"|".join(PRESETS)} = {DEFAULT}
      categories of tokens ({NAMED})
  --category NAME=REGEX+
      a category of your own instead: tokens that match as a whole, as they stand in the dictionary;
      several are tried in their order, and what matches none is 'other'
  --ranks {"|".join(SOURCES)} = ids
      where the frequency ranks of tokens come from ({RANKED})
  --frequencies FILE...  lines `word count` or `piece count` that frequency ranks come from instead:
                      one file, or one of the source and one of the target
"""


def check_block_options(args: Namespace) -> None:
    """Refuses options that cannot be meant, before anything is loaded."""
    parse_categories(args.categories, args.category)
    check_several(args)
    check_run_options(args)
    if len(args.frequencies) > 2:
        raise InputError(
            f"--frequencies: {len(args.frequencies)} files; name one, or one of the source and one "
            "of the target"
        )


def block_tasks(args: Namespace, folder: RunFolder | None) -> Iterator[Task]:
    """What is measured of each checkpoint."""
    counts = read_counts(args)
    for of_one in checked_each(args):
        measure = measure_of(of_one, counts)
        corpus, reader = open_corpus(of_one)
        job = prepared_job(measure, reader, corpus.items, folder, corpus.total)
        yield reading_task(of_one, [job], corpus, reader, "blocks")


def measure_of(args: Namespace, counts: Mapping[str, Counted]) -> Blocks:
    """What is measured of one checkpoint."""
    from fairseq_normalign.layers.block_survey import BlockOptions, Blocks

    measuring = BlockOptions(
        categories=parse_categories(args.categories, args.category),
        ranks=args.ranks,
        frequencies=counts,
        max_tokens=args.max_tokens,
        mixing=args.mixing,
        layers=args.layers,
        statistics=args.statistics,
    )
    return Blocks(measuring, args.model_number)


def read_counts(args: Namespace) -> dict[str, Counted]:
    """The counts of each side that ``--frequencies`` names."""
    from fairseq_normalign.text.frequencies import read_frequencies

    if not args.frequencies:
        return {}
    counted = [(read_frequencies(path), path) for path in args.frequencies]
    return {"source": counted[0], "target": counted[-1]}


def show_blocks(
    args: Namespace,
    made: Mapping[str, Made],
    result_of: Callable[[BlockSurvey, Mapping[str, Any]], Result],
    **more: Any,
) -> None:
    """Writes and prints what came out, of several models their mean.

    Args:
        result_of: makes a result of what was found and the signature.
        more: of the signature.
    """
    from fairseq_normalign.results.several import together

    of_models: dict[str, Result] = {}
    for of_one in each(args):
        measure = measure_of(of_one, {})
        survey = made[measure.name].result(measure)
        signature = {**signature_of(args, survey), **more}
        of_models[of_one.model_name] = result_of(survey, signature)
    show(together(of_models, signature), args)


def signature_of(args: Namespace, survey: BlockSurvey) -> dict[str, Any]:
    """Every choice that moves a number."""
    files = [Path(path).name for path in args.frequencies]
    masks = {} if args.mask_share is None else {"masks": args.mask_share, "seed": args.seed}
    lengths = {} if args.max_length is None else {"max-length": args.max_length}
    return {
        "checkpoints": "+".join(Path(path).name for path in args.path),
        "sentences": survey.sentences,
        **lengths,
        **options.policy_for_long_pairs(args),
        **masks,
        "attention": args.attention,
        "categories": ",".join(args.category) or args.categories,
        "ranks": "+".join(files) or args.ranks,
        "version": __version__,
    }
