"""What the commands that measure whole attention blocks have in common."""

from __future__ import annotations

import argparse
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairseq_normalign.cli import options
from fairseq_normalign.cli.checkpoints import check_several, options_of_each
from fairseq_normalign.cli.runs import check_restart
from fairseq_normalign.errors import InputError
from fairseq_normalign.layers.categories import DEFAULT, PRESETS, parse_categories
from fairseq_normalign.layers.ranks import SOURCES
from fairseq_normalign.progress import bar
from fairseq_normalign.version import __version__

if TYPE_CHECKING:
    from fairseq_normalign.layers.block_survey import BlockSurvey, Counted
    from fairseq_normalign.runs.sums import Sums, SumsFolder

ATTENTIONS = {"all": "cross", "encoder": "encoder", "decoder": "decoder"}


def add_block_options(parser: argparse.ArgumentParser) -> None:
    options.add_corpus_options(parser)
    group = parser.add_argument_group("what is measured")
    group.add_argument(
        "--attention",
        choices=tuple(ATTENTIONS),
        default="all",
        help="encoder, decoder: its self-attention alone; that of the encoder needs no target "
        "(default: %(default)s)",
    )
    group.add_argument(
        "--limit",
        type=options.positive,
        metavar="N",
        help="take the first N sentences of the corpus (default: all)",
    )
    group.add_argument(
        "--max-length",
        type=options.positive,
        metavar="N",
        help="tokens of a sentence, special ones included; longer ones are too long, as if the "
        "model took no more (default: what the model takes)",
    )
    add_mask_options(parser)
    add_token_options(parser)


def add_mask_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("masks", "of masked language models, such as BERT")
    group.add_argument(
        "--mask-share",
        type=options.share,
        metavar="X",
        help="mask this share of the tokens of a sentence, one at least; special ones stay "
        "(default: none)",
    )
    group.add_argument(
        "--seed", type=int, default=0, metavar="N", help="which ones (default: %(default)s)"
    )


def add_token_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("tokens")
    named = [f"{name}: {', '.join(preset.names)}" for name, preset in PRESETS.items()]
    group.add_argument(
        "--categories",
        choices=tuple(PRESETS),
        default=DEFAULT,
        help=f"categories of tokens ({'; '.join(named)}; default: %(default)s)",
    )
    group.add_argument(
        "--category",
        action="append",
        default=[],
        metavar="NAME=REGEX",
        help="a category of your own instead: tokens that match as a whole, as they stand in the "
        "dictionary; several are tried in their order, and what matches none is 'other'",
    )
    sources = "; ".join(f"{name}: {meaning}" for name, meaning in SOURCES.items())
    group.add_argument(
        "--ranks",
        choices=tuple(SOURCES),
        default="ids",
        help=f"where the frequency ranks of tokens come from ({sources}; default: %(default)s)",
    )
    group.add_argument(
        "--frequencies",
        nargs="+",
        metavar="FILE",
        help="lines `word count` or `piece count` that frequency ranks come from instead: one "
        "file, or one of the source and one of the target",
    )


def check_block_options(args: argparse.Namespace) -> None:
    """Refuses options that cannot be meant, before anything is loaded."""
    parse_categories(args.categories, args.category)
    check_several(args)
    check_restart(args)
    if len(args.frequencies or []) > 2:
        raise InputError(
            f"--frequencies: found {len(args.frequencies)} files; expected one, or one of the "
            "source and one of the target"
        )


def surveys(args: argparse.Namespace, folder: SumsFolder | None, **what: bool) -> list[BlockSurvey]:
    """What is measured of each checkpoint.

    Args:
        folder: where sums are kept.
        what: what to measure; see ``BlockOptions``.
    """
    from fairseq_normalign.host.options import complete
    from fairseq_normalign.layers.block_survey import BlockOptions
    from fairseq_normalign.runs.sums import Sums

    complete(args)
    measuring = BlockOptions(
        categories=parse_categories(args.categories, args.category),
        ranks=args.ranks,
        frequencies=read_counts(args),
        max_tokens=args.max_tokens,
        **what,
    )
    attention = ATTENTIONS[args.attention]
    of_each = options_of_each(args, attention=attention)
    of_models = []
    for number, of_one in enumerate(of_each, 1):
        sums = Sums(folder, number if len(of_each) > 1 else None)
        of_models.append(survey(of_one, attention, measuring, sums))
    return of_models


def survey(args: argparse.Namespace, attention: str, measuring: Any, sums: Sums) -> BlockSurvey:
    """What is measured of one checkpoint."""
    from fairseq_normalign.host.masking import with_masks
    from fairseq_normalign.host.options import corpus, fitted, load
    from fairseq_normalign.host.special_tokens import mask_of
    from fairseq_normalign.layers.block_pass import SUMS
    from fairseq_normalign.layers.block_survey import survey_blocks

    model = load(args, attention=attention)
    need_target = attention != "encoder" and not model.forcing.is_language_model
    unfitted, total = corpus(args, model.reader, need_target=need_target)
    first = islice(unfitted, args.limit)
    (pairs,) = fitted(args, [first], [model.forcing], longest=args.max_length)
    if args.mask_share is not None:
        mask = mask_of(model.reader.task)
        pairs = with_masks(pairs, args.mask_share, mask, seed=args.seed)
    if total is not None and args.limit is not None:
        total = min(total, args.limit)
    left = None if total is None else max(0, total - sums.before(SUMS))
    with bar("blocks", total=left) as shown:
        return survey_blocks(model, pairs, measuring, progress=shown.update, sums=sums)


def read_counts(args: argparse.Namespace) -> dict[str, Counted]:
    """The counts of each side that ``--frequencies`` names."""
    from fairseq_normalign.layers.block_survey import Counted
    from fairseq_normalign.text.frequencies import read_frequencies

    if not args.frequencies:
        return {}
    counted = [Counted(read_frequencies(path), path) for path in args.frequencies]
    return {"source": counted[0], "target": counted[-1]}


def signature_of(args: argparse.Namespace, survey: BlockSurvey) -> dict[str, Any]:
    """Every choice that moves a number."""
    files = [Path(path).name for path in args.frequencies or []]
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
