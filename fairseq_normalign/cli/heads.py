"""``normalign heads DATA --path CHECKPOINT``: what each attention head is worth, and does."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairseq_normalign.attention.extract import check_extract
from fairseq_normalign.attention.methods import LRP_RULES, check_head_method
from fairseq_normalign.cli import options
from fairseq_normalign.cli.checkpoints import check_several, options_of_each
from fairseq_normalign.cli.output import add_output_options, print_result, write_result_files
from fairseq_normalign.cli.runs import Task, add_run_options, check_run_options, run_command
from fairseq_normalign.errors import InputError
from fairseq_normalign.files import is_stream, name_of, short_names
from fairseq_normalign.heads.head_scores import (
    HEAD_SCORES,
    NO_RULES,
    ProfileOptions,
    check_scores,
    default_scores,
)
from fairseq_normalign.host.search import SEARCH
from fairseq_normalign.options import add_flags, read_options
from fairseq_normalign.runs.engines import Place
from fairseq_normalign.runs.folder import RunFolder
from fairseq_normalign.runs.measure import Made, prepared_job
from fairseq_normalign.text.words import TextFile
from fairseq_normalign.version import __version__

if TYPE_CHECKING:
    from fairseq_normalign.heads.profile import Finding
    from fairseq_normalign.heads.profiling import HeadMeasure
    from fairseq_normalign.host.raw_corpus import ChunkReader
    from fairseq_normalign.text.treebank import Tree

DESCRIPTION = """What each attention head is worth (relevance, confidence, norms, importance,
ablation) and what it does (position, rare tokens, syntax): a table for each kind of attention, and
the rank correlations between all scores. `normalign methods` lists what can be measured. Of
several checkpoints of one architecture: mean ± deviation for each layer, whose heads do not
correspond, and for each correlation."""
EXAMPLE = (
    "normalign heads data-bin --path best.pt --remove-bpe sentencepiece --ablation -o heads.json"
)
LIMIT = 1000


def parse_args(argv: Sequence[str]) -> argparse.Namespace:
    parser = options.model_parser("heads", description=DESCRIPTION, example=EXAMPLE, several=True)
    return options.parse(parser, argv, add_options, check, several=True)


def add_options(parser: argparse.ArgumentParser) -> None:
    options.add_corpus_options(parser)
    group = parser.add_argument_group("what is measured")
    group.add_argument(
        "--scores",
        nargs="+",
        metavar="NAME",
        help=f"what to measure: {', '.join(HEAD_SCORES)} (default: "
        f"{' '.join(default_scores())}, and what other options ask for)",
    )
    group.add_argument(
        "--limit",
        type=options.positive,
        default=LIMIT,
        metavar="N",
        help="take the first N sentences of the corpus (default: %(default)s)",
    )
    group.add_argument(
        "--attention",
        choices=("all", "encoder"),
        default="all",
        help="encoder: self-attention of the encoder alone, which needs no target "
        "(default: %(default)s)",
    )
    options.add_gold_options(
        group, "gold links, for the AER of each head of the source–target attention"
    )
    group.add_argument(
        "--frequencies",
        metavar="FILE",
        help="lines `word count` or `piece count` of the source (default: the counts in the "
        "dictionary)",
    )
    group.add_argument(
        "--conllu", metavar="FILE", help="a treebank of the source, for syntactic roles"
    )
    group.add_argument(
        "--lowercase",
        action="store_true",
        help="the model reads lowercased text: lowercase the treebank",
    )
    group.add_argument(
        "--conllu-apart",
        action="store_true",
        help="the treebank is a text of its own, not that of --source-file",
    )
    add_flags(parser, ProfileOptions)
    add_output_options(parser)
    add_run_options(parser)


def check(args: argparse.Namespace) -> None:
    """Refuses options that do not go together, before anything is loaded."""
    check_several(args)
    check_run_options(args)
    check_extract(args.extract)
    if args.extract != "argmax" and not args.gold:
        raise InputError(f"--extract {args.extract} is of the AER; expected --gold FILE with it")
    if args.user_dir is None:  # another plugin may have scores of its own
        check_scores(scores_of(args), encoder_alone=args.attention == "encoder")
        check_head_method(args.method)
    if args.step and not args.gold:
        raise InputError(f"--step {args.step} is the step of the AER; expected --gold FILE with it")
    if args.conllu is None and (args.lowercase or args.conllu_apart):
        raise InputError(
            "--lowercase and --conllu-apart are about the treebank; expected --conllu FILE with "
            "them"
        )
    if args.conllu and not args.conllu_apart and args.source_file and is_stream(args.source_file):
        name = name_of(args.source_file)
        raise InputError(f"{name}: can be read only once, and --conllu is compared with it")
    rules = args.relevance.partition(":")[0]
    if rules not in (*LRP_RULES.values(), NO_RULES):
        expected = ", ".join((*LRP_RULES.values(), NO_RULES))
        raise InputError(f"--relevance {args.relevance}: expected one of: {expected}")


def scores_of(args: argparse.Namespace) -> list[str]:
    """What is to be measured: scores that are named, or the default ones; and what is asked for."""
    asked = {
        "relevance": args.relevance != NO_RULES,
        "ablation": args.ablation,
        "BLEU": args.ablation_bleu,
        "AER": args.gold,
        "UAS": args.conllu,
    }
    names = args.scores
    if names is None:
        names = default_scores(encoder_alone=args.attention == "encoder")
    more = [name for name, is_wanted in asked.items() if is_wanted and name not in names]
    return [*names, *more]


def main(args: argparse.Namespace) -> None:
    run_command("heads", args, tasks, finish, SEARCH)


def tasks(args: argparse.Namespace, folder: RunFolder | None) -> Iterator[Task]:
    """What is measured of each checkpoint."""
    how = read_files(args)
    of_each = options_of_each(args, attention=attention_of(args))
    for number, of_one in enumerate(of_each, 1):
        yield task(of_one, measures_of(args, how, number), folder)


def task(
    args: argparse.Namespace, measures: Sequence[HeadMeasure], folder: RunFolder | None
) -> Task:
    """What is measured of one checkpoint."""
    from fairseq_normalign.host.options import load
    from fairseq_normalign.host.pairs import EXAMINED_PAIRS
    from fairseq_normalign.host.raw_corpus import ChunkReader, Notes, raw_corpus

    model = load(args, attention=attention_of(args))
    corpus = raw_corpus(args, [model], need_target=args.attention != "encoder")
    reader = ChunkReader([model], corpus.kind, too_long=args.too_long)
    pairs = list(islice(corpus.items, args.limit))
    reader.examine(pairs[:EXAMINED_PAIRS])
    jobs = []
    for measure in measures:
        items = measure.items(pairs)
        jobs.append(prepared_job(measure, reader, items, folder, len(items)))
    again = partial(load_reader, args, corpus.kind)
    return Task(jobs, reader, again, Notes(reader, corpus.names), "heads")


def load_reader(args: argparse.Namespace, kind: str, place: Place) -> ChunkReader:
    """The model in another process."""
    from fairseq_normalign import plugin  # noqa: F401  (registers)
    from fairseq_normalign.host.options import load, take_place
    from fairseq_normalign.host.raw_corpus import ChunkReader

    take_place(args, place)
    return ChunkReader([load(args, attention=attention_of(args))], kind, too_long=args.too_long)


def attention_of(args: argparse.Namespace) -> str:
    """What a model must have."""
    return "encoder" if args.attention == "encoder" else "cross"


def measures_of(args: argparse.Namespace, how: ProfileOptions, number: int) -> list[HeadMeasure]:
    """What is measured of a checkpoint, which has a number, from 1, if there are several."""
    from fairseq_normalign.heads.profiling import head_measures

    return head_measures(
        scores_of(args),
        how,
        encoder_alone=args.attention == "encoder",
        number=number if len(args.path) > 1 else None,
    )


def finish(args: argparse.Namespace, made: Mapping[str, Made]) -> None:
    """Writes and prints what came out."""
    from fairseq_normalign.heads.profiling import profile_of
    from fairseq_normalign.results.several import together

    how = read_options(ProfileOptions, args, trees_name=args.conllu or "")
    profiles = {}
    for number, name in enumerate(short_names(args.path), 1):
        findings: dict[str, Finding] = {}
        for measure in measures_of(args, how, number):
            findings |= made[measure.name].result(measure)
        profiles[name] = profile_of(findings)
        profiles[name].signature = {
            "checkpoint": Path(args.path[number - 1]).name,
            **profiles[name].signature,
            **options.policy_for_long_pairs(args),
            **({"lowercase": args.lowercase} if "UAS" in profiles[name].scores else {}),
            "version": __version__,
        }
    first = next(iter(profiles.values()))
    if any(list(profile.scores) != list(first.scores) for profile in profiles.values()):
        raise InputError("--path: some checkpoints have scores that others have not")
    result = together(profiles, {**first.signature, "checkpoint": ",".join(profiles)})
    write_result_files(result, args)
    print_result(result, args)


def read_files(args: argparse.Namespace) -> ProfileOptions:
    """How to measure: what flags say, and what files hold."""
    from fairseq_normalign.host.options import gold
    from fairseq_normalign.text.frequencies import read_frequencies

    contents: dict[str, Any] = {"search": vars(args), "seed": args.seed}
    if args.conllu:
        contents |= {"trees": read_trees(args), "trees_name": args.conllu}
    if args.gold:
        contents["gold_file"] = gold(args)
        contents["gold"] = list(islice(contents["gold_file"], args.limit))
    if args.frequencies:
        contents["counts"] = read_frequencies(args.frequencies)
        contents["counts_name"] = args.frequencies
    return read_options(ProfileOptions, args, max_tokens=args.max_tokens, **contents)


def read_trees(args: argparse.Namespace) -> list[Tree]:
    from fairseq_normalign.text.treebank import check_text, lowercased, read_conllu

    trees = list(read_conllu(args.conllu))
    if args.lowercase:
        trees = [lowercased(tree) for tree in trees]
    if args.source_file and not args.conllu_apart:
        try:
            check_text(trees, TextFile(args.source_file), args.source_file)
        except InputError as error:
            raise InputError(f"{error}; if it is of another one, add --conllu-apart") from None
    return trees
