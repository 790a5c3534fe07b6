"""``normalign heads MODEL``: what each attention head is worth, and does."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairseq_normalign.attention.methods import LRP_RULES, check_head_method
from fairseq_normalign.cli import checks, options
from fairseq_normalign.cli.checks import check_several
from fairseq_normalign.cli.output import OUTPUT, show
from fairseq_normalign.cli.runs import (
    Task,
    check_run_options,
    checked_each,
    each,
    open_corpus,
    reading_task,
    run_command,
)
from fairseq_normalign.errors import InputError
from fairseq_normalign.heads.head_scores import (
    HEAD_SCORES,
    NO_RULES,
    ProfileOptions,
    check_scores,
    default_scores,
)
from fairseq_normalign.options import SEARCH, read_options
from fairseq_normalign.runs.folder import RunFolder
from fairseq_normalign.runs.measure import Made, Plan, prepared_job
from fairseq_normalign.version import __version__

if TYPE_CHECKING:
    from fairseq_normalign.heads.profile import Finding
    from fairseq_normalign.heads.profiling import HeadMeasure
    from fairseq_normalign.text.treebank import Tree

DESCRIPTION = """What each attention head is worth (relevance, confidence, norms, importance,
ablation) and what it does (position, rare tokens, syntax): a table for each kind of attention, and
the rank correlations between all scores. `normalign methods` lists what can be measured. Of
several checkpoints of one architecture: mean ± deviation for each layer, whose heads do not
correspond, and for each correlation."""
EXAMPLE = "normalign heads deen/ a.de a.en --ablation -o heads.json"
OPTIONS = f"""
what is measured:
  --scores NAME...    what to measure: {", ".join(HEAD_SCORES)} (default:
                      {" ".join(default_scores())}, and what other options ask for)
  --limit N = 1000    take the first N sentences of the corpus
  --attention all|encoder = all  encoder: self-attention of the encoder alone, which needs no target
  --frequencies FILE  lines `word count` or `piece count` of the source (default: the counts in the
                      dictionary)
  --conllu FILE       a treebank of the source language, for syntactic roles; a text of its own
  --lowercase         the model reads lowercased text: lowercase the treebank
{options.gold_options("gold links, for the AER of each head of the source–target attention")}"""


def check(args: Namespace) -> None:
    """Refuses options that do not go together, before anything is loaded."""
    check_several(args)
    check_run_options(args)
    checks.requires(args, "conllu", "lowercase")
    if args.user_dir is None:  # another plugin may have scores of its own
        check_scores(scores_of(args), encoder_alone=args.attention == "encoder")
        check_head_method(args.method)
    rules = args.relevance.partition(":")[0]
    if rules not in (*LRP_RULES.values(), NO_RULES):
        expected = ", ".join((*LRP_RULES.values(), NO_RULES))
        raise InputError(f"--relevance {args.relevance}: expected one of: {expected}")


parse_args = options.model_command(
    "heads",
    DESCRIPTION,
    EXAMPLE,
    options.CORPUS + OPTIONS + OUTPUT,
    check,
    flags=(ProfileOptions, Plan),
    several=True,
)


def scores_of(args: Namespace) -> list[str]:
    """What is to be measured: scores that are named, or the default ones; and what is asked for."""
    asked = {
        "relevance": args.relevance != NO_RULES,
        "ablation": args.ablation,
        "BLEU": args.ablation_bleu,
        "AER": args.gold,
        "UAS": args.conllu,
    }
    names = args.scores
    if not names:
        names = default_scores(encoder_alone=args.attention == "encoder")
    more = [name for name, is_wanted in asked.items() if is_wanted and name not in names]
    return [*names, *more]


def main(args: Namespace) -> None:
    run_command("heads", args, tasks, finish, SEARCH)


def tasks(args: Namespace, folder: RunFolder | None) -> Iterator[Task]:
    """What is measured of each checkpoint."""
    how = read_files(args)
    for of_one in checked_each(args):
        corpus, reader = open_corpus(of_one)
        if args.attention == "all" and reader.forcing.attention != "cross":
            name = type(reader.forcing.model).__name__
            raise InputError(
                f"{name} has no source–target attention; for an encoder, add --attention encoder"
            )
        pairs = list(corpus.items)
        jobs = []
        for measure in measures_of(of_one, how):
            items = measure.items(reader, pairs)
            jobs.append(prepared_job(measure, reader, items, folder, len(items)))
        yield reading_task(of_one, jobs, corpus, reader, "heads")


def measures_of(args: Namespace, how: ProfileOptions) -> list[HeadMeasure]:
    """What is measured of one checkpoint."""
    from fairseq_normalign.heads.profiling import head_measures

    encoder_alone = args.attention == "encoder"
    return head_measures(
        scores_of(args), how, encoder_alone=encoder_alone, number=args.model_number
    )


def finish(args: Namespace, made: Mapping[str, Made]) -> None:
    """Writes and prints what came out."""
    from fairseq_normalign.heads.profiling import profile_of
    from fairseq_normalign.results.several import together

    how = read_options(ProfileOptions, args, trees_name=args.conllu or "")
    profiles = {}
    for of_one in each(args):
        findings: dict[str, Finding] = {}
        for measure in measures_of(of_one, how):
            findings |= made[measure.name].result(measure)
        profile = profiles[of_one.model_name] = profile_of(findings)
        lowercase = {"lowercase": args.lowercase} if "UAS" in profile.scores else {}
        more = {**options.policy_for_long_pairs(args), **lowercase, "version": __version__}
        profile.signature = {"checkpoint": Path(of_one.path).name, **profile.signature, **more}
    first = next(iter(profiles.values()))
    if any(list(profile.scores) != list(first.scores) for profile in profiles.values()):
        raise InputError("--path: the checkpoints do not have the same scores; measure each alone")
    show(together(profiles, {**first.signature, "checkpoint": ",".join(profiles)}), args)


def read_files(args: Namespace) -> ProfileOptions:
    """How to measure: what flags say, and what files hold."""
    from fairseq_normalign.host.options import gold
    from fairseq_normalign.text.frequencies import read_frequencies

    contents: dict[str, Any] = {"search": vars(args)}
    if args.conllu:
        contents |= {"trees": read_trees(args), "trees_name": args.conllu}
    if args.gold:
        contents["gold_file"] = gold(args)
        contents["gold"] = list(islice(contents["gold_file"], args.limit))
    if args.frequencies:
        contents["counts"] = read_frequencies(args.frequencies)
        contents["counts_name"] = args.frequencies
    return read_options(ProfileOptions, args, max_tokens=args.max_tokens, **contents)


def read_trees(args: Namespace) -> list[Tree]:
    from fairseq_normalign.text.treebank import lowercased, read_conllu

    trees = read_conllu(args.conllu)
    return list(map(lowercased, trees) if args.lowercase else trees)
