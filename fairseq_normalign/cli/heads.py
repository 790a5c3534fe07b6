"""``normalign heads DATA --path CHECKPOINT``: what each attention head is worth, and does."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairseq_normalign.attention.extract import RULES, check_extract
from fairseq_normalign.attention.methods import LRP_RULES, check_head_method
from fairseq_normalign.attention.soft import STEPS
from fairseq_normalign.cli import options
from fairseq_normalign.cli.checkpoints import check_several, options_of_each
from fairseq_normalign.cli.kept import add_restart_option, check_restart, kept_sums
from fairseq_normalign.cli.shell import print_signature
from fairseq_normalign.errors import InputError
from fairseq_normalign.files import is_stream, name_of, short_names, whole_file
from fairseq_normalign.heads.criteria import CONFIDENCE_EOS, MARGINS, RARE_TOP, Criteria
from fairseq_normalign.heads.head_scores import HEAD_SCORES, check_scores, default_scores
from fairseq_normalign.host.search import SEARCH
from fairseq_normalign.text.words import TextFile

if TYPE_CHECKING:
    from fairseq_normalign.heads.profile import Profile
    from fairseq_normalign.runs.sums import Sums, SumsFolder
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
ABLATION_PAIRS = 200


def parse_args(argv: Sequence[str]) -> argparse.Namespace:
    parser = options.model_parser("heads", description=DESCRIPTION, example=EXAMPLE, several=True)
    return options.parse(parser, argv, add_options, check, several=True)


def add_options(parser: argparse.ArgumentParser) -> None:
    options.add_corpus_options(parser)
    add_score_options(parser)
    add_role_options(parser)
    group = parser.add_argument_group("output")
    group.add_argument(
        "-o", "--output", metavar="FILE.json", help="write everything here, with all details"
    )
    group.add_argument("--plot", metavar="FILE", help="a picture of the scores: .png, .pdf or .svg")
    add_restart_option(group)


def add_score_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("scores")
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
    group.add_argument(
        "--confidence-eos",
        choices=CONFIDENCE_EOS,
        default="both",
        help="key: </s> is no candidate for the maximum; both: and as a query it does not count "
        "(default: %(default)s)",
    )
    group.add_argument(
        "--relevance",
        default="none",
        metavar="RULES",
        help=f"LRP with these rules: {', '.join(LRP_RULES.values())}, perhaps with ε, as in "
        "epsilon:0.001 (default: none)",
    )
    group.add_argument(
        "--relevance-mode",
        choices=("exact", "pooled"),
        default="exact",
        help="explain each prediction alone, or all of a sentence together: faster "
        "(default: %(default)s)",
    )
    group.add_argument(
        "--ablation",
        type=options.positive,
        nargs="?",
        const=ABLATION_PAIRS,
        metavar="N",
        help=f"growth of the loss with each head off, on N pairs (default: {ABLATION_PAIRS}); one "
        "pass for each head",
    )
    group.add_argument(
        "--ablation-bleu",
        type=options.positive,
        metavar="N",
        help="loss of BLEU with each head off, on N sentences; beam search for each head: slow",
    )
    group.add_argument(
        "--tokenize",
        default="13a",
        metavar="NAME",
        help="sacrebleu's tokeniser for BLEU (default: %(default)s)",
    )
    options.add_gold_options(
        group, "gold links, for the AER of each head of the source–target attention"
    )
    group.add_argument(
        "--method", default="norms", metavar="NAME", help="of the AER (default: %(default)s)"
    )
    group.add_argument(
        "--extract",
        default="argmax",
        metavar="NAME",
        help=f"how links are chosen for the AER: {', '.join(RULES)} (default: %(default)s)",
    )
    group.add_argument(
        "--step", choices=STEPS, help="of the AER (default: the better one for each head)"
    )


def add_role_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("roles")
    defaults = Criteria()
    group.add_argument(
        "--positional-threshold",
        type=options.share,
        default=defaults.positional,
        metavar="X",
        help="share of maxima on one relative position that makes a head positional "
        "(default: %(default)s)",
    )
    group.add_argument(
        "--frequencies",
        metavar="FILE",
        help="lines `word count` or `piece count` of the source (default: the counts in the "
        "dictionary)",
    )
    group.add_argument(
        "--rare-threshold",
        type=options.share,
        default=defaults.rare,
        metavar="X",
        help="share of maxima on the rarest token of the sentence that names a head "
        "(default: %(default)s)",
    )
    group.add_argument(
        "--rare-top",
        type=options.from_0,
        metavar="N",
        help="look only at sentences whose rarest token is not among the N most frequent; 0: at "
        f"all (default: {RARE_TOP}, as in the paper)",
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
    group.add_argument(
        "--syntactic-margin",
        choices=tuple(MARGINS),
        default=defaults.margin,
        help="above the best relative position by 10 %% of it, or by 10 points "
        "(default: %(default)s)",
    )


def check(args: argparse.Namespace) -> None:
    """Refuses options that do not go together, before anything is loaded."""
    check_several(args)
    check_restart(args)
    check_extract(args.extract)
    if args.extract != "argmax" and not args.gold:
        raise InputError(f"--extract {args.extract} is of the AER; expected --gold FILE with it")
    if args.plot and len(args.path) > 1:
        raise InputError("--plot draws the heads of one model; expected one checkpoint with it")
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
    if rules not in (*LRP_RULES.values(), "none"):
        expected = ", ".join((*LRP_RULES.values(), "none"))
        raise InputError(f"--relevance {args.relevance}: expected one of: {expected}")


def scores_of(args: argparse.Namespace) -> list[str]:
    """What is to be measured: scores that are named, or the default ones; and what is asked for."""
    asked = {
        "relevance": args.relevance != "none",
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
    with kept_sums(args, "heads") as folder:
        of_each, profiles = profiles_of(args, folder)
        if len(profiles) == 1:
            write(of_each[0], profiles[0])
        else:
            write_several(of_each, profiles)
    if len(profiles) == 1:
        show(of_each[0], profiles[0])
    else:
        show_several(of_each, profiles)


def profiles_of(
    args: argparse.Namespace, folder: SumsFolder | None
) -> tuple[list[argparse.Namespace], list[Profile]]:
    """The options of each checkpoint, and what is known of its heads."""
    from fairseq_normalign.host.options import complete
    from fairseq_normalign.runs.sums import Sums

    trees = read_trees(args) if args.conllu else []
    complete(args, SEARCH)
    of_each = options_of_each(args, attention=attention_of(args))
    profiles = []
    for number, of_one in enumerate(of_each, 1):
        sums = Sums(folder, number if len(of_each) > 1 else None)
        profiles.append(measured_by(of_one, trees, sums))
    return of_each, profiles


def attention_of(args: argparse.Namespace) -> str:
    """What a model must have."""
    return "encoder" if args.attention == "encoder" else "cross"


def measured_by(args: argparse.Namespace, trees: list[Tree], sums: Sums) -> Profile:
    """What is known of the heads of one checkpoint."""
    from fairseq_normalign.heads.profiling import profile
    from fairseq_normalign.host.options import corpus, fitted, load

    model = load(args, attention=attention_of(args))
    need_target = args.attention != "encoder"
    first = islice(corpus(args, model.reader, need_target=need_target).pairs, args.limit)
    (pairs,) = map(list, fitted(args, [first], [model.forcing]))
    return profile(model, pairs, scores_of(args), sums=sums, **profile_options(args, trees))


def profile_options(args: argparse.Namespace, trees: list[Tree]) -> dict[str, Any]:
    """How to measure; see ``heads.profiling.ProfileOptions``."""
    from fairseq_normalign.host.options import gold
    from fairseq_normalign.text.frequencies import read_frequencies

    measuring: dict[str, Any] = {
        "confidence_eos": args.confidence_eos,
        "pooled": args.relevance_mode == "pooled",
        "tokenize": args.tokenize,
        "search": vars(args),
        "rare_top": args.rare_top,
        "trees": trees,
        "trees_name": args.conllu or "",
        "seed": args.seed,
        "max_tokens": args.max_tokens,
    }
    if args.relevance != "none":
        measuring["rules"] = args.relevance
    if args.ablation:
        measuring["ablation"] = args.ablation
    if args.ablation_bleu:
        measuring["bleu"] = args.ablation_bleu
    if args.gold:
        measuring["gold_file"] = gold(args)
        measuring["gold"] = list(islice(measuring["gold_file"], args.limit))
        measuring["method"] = args.method
        measuring["extract"] = args.extract
    if args.step:
        measuring["steps"] = (args.step,)
    if args.frequencies:
        measuring["counts"] = read_frequencies(args.frequencies)
        measuring["counts_name"] = args.frequencies
    return measuring


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


def signature_of(args: argparse.Namespace, measured: Profile) -> dict[str, Any]:
    """Every choice that moves a number or a role."""
    signature = {"checkpoint": Path(args.path).name, **measured.signature}
    signature |= options.policy_for_long_pairs(args)
    if measured.positions:
        signature["positional"] = args.positional_threshold
    if measured.rare:
        signature["rare"] = args.rare_threshold
    if measured.relations:
        signature["lowercase"] = args.lowercase
        signature["margin"] = args.syntactic_margin
    return signature


def criteria_of(args: argparse.Namespace) -> Criteria:
    return Criteria(args.positional_threshold, args.rare_threshold, args.syntactic_margin)


def write_several(of_each: Sequence[argparse.Namespace], profiles: Sequence[Profile]) -> None:
    """What is known of several models, each by itself."""
    from fairseq_normalign.report import heads as report
    from fairseq_normalign.report import seeds

    if not of_each[0].output:
        return
    names = short_names([args.path for args in of_each])
    models = {}
    for name, args, measured in zip(names, of_each, profiles, strict=True):
        signature = signature_of(args, measured)
        models[name] = report.as_json(measured, criteria_of(args), signature)
    with whole_file(of_each[0].output) as file:
        contents = seeds.as_json(profiles, models)
        json.dump(contents, file, indent=1, ensure_ascii=False, allow_nan=False)


def show_several(of_each: Sequence[argparse.Namespace], profiles: Sequence[Profile]) -> None:
    """Mean and deviation of several models."""
    from fairseq_normalign.report import seeds

    print(seeds.as_text(profiles))
    names = short_names([args.path for args in of_each])
    print_signature({**signature_of(of_each[0], profiles[0]), "checkpoint": ",".join(names)})


def write(args: argparse.Namespace, measured: Profile) -> None:
    """The files that the options ask for."""
    from fairseq_normalign.report import head_maps, pictures
    from fairseq_normalign.report import heads as report

    criteria = criteria_of(args)
    if args.output:
        with whole_file(args.output) as file:
            contents = report.as_json(measured, criteria, signature_of(args, measured))
            json.dump(contents, file, indent=1, ensure_ascii=False, allow_nan=False)
    if args.plot:
        pictures.save(head_maps.picture(measured, criteria), args.plot)


def show(args: argparse.Namespace, measured: Profile) -> None:
    from fairseq_normalign.report import heads as report

    print(report.as_text(measured, criteria_of(args)))
    print_signature(signature_of(args, measured))
