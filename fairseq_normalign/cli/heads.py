"""``normalign heads DATA --path CHECKPOINT``: what each attention head is worth, and what it
does."""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from fairseq_normalign.alignment.links import InMemory
from fairseq_normalign.alignment.soft import STEPS
from fairseq_normalign.alignment.words import TextFile
from fairseq_normalign.analysis import head_scores, roles
from fairseq_normalign.analysis.ablation import ablation, bleu_ablation
from fairseq_normalign.analysis.attention_pass import Means, running_heads, watch
from fairseq_normalign.analysis.evaluation import TOKENIZERS, translation_metrics
from fairseq_normalign.analysis.importance import gradient_importance
from fairseq_normalign.errors import InputError
from fairseq_normalign.files import whole_file
from fairseq_normalign.heads.confidence import EOS
from fairseq_normalign.heads.frequencies import Frequencies, read_frequencies
from fairseq_normalign.heads.lrp_rules import RULES, by_position
from fairseq_normalign.heads.names import all_heads
from fairseq_normalign.heads.profile import Criteria, Profile
from fairseq_normalign.heads.syntax import MARGINS
from fairseq_normalign.heads.treebank import Tree, check_text, lowercased, read_conllu
from fairseq_normalign.host import options
from fairseq_normalign.host.pairs import Pair, PairReader
from fairseq_normalign.host.teacher_forcing import TeacherForcing
from fairseq_normalign.host.translate import SEARCH, Translator
from fairseq_normalign.report import heads as report
from fairseq_normalign.report import pictures

EXAMPLE = (
    "normalign heads data-bin --path best.pt --remove-bpe sentencepiece --ablation -o heads.json"
)
LIMIT = 1000
ABLATION_PAIRS = 200


def parse_args(argv: Sequence[str]) -> argparse.Namespace:
    parser = options.get_parser(
        "heads",
        argv,
        description="What each attention head is worth (relevance, confidence, norms, "
        "importance, ablation) and\n"
        "what it does (position, rare tokens, syntax): a table for each kind of attention, and "
        "the rank\n"
        "correlations between all scores.",
        example=EXAMPLE,
    )
    parser.set_defaults(**SEARCH)
    options.add_corpus_options(parser)
    add_score_options(parser)
    add_role_options(parser)
    group = parser.add_argument_group("output")
    group.add_argument(
        "-o", "--output", metavar="FILE.json", help="write everything here, with all details"
    )
    group.add_argument("--plot", metavar="FILE", help="a picture of the scores: .png, .pdf or .svg")
    args = options.parse_args(parser, argv)
    check(args)
    return args


def add_score_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("scores")
    group.add_argument(
        "--limit",
        type=int,
        default=LIMIT,
        metavar="N",
        help="take the first N sentences of the corpus (default: %(default)s)",
    )
    group.add_argument(
        "--attention",
        choices=("all", "encoder"),
        default="all",
        help="encoder: self-attention of the encoder alone, which needs no target (default: "
        "%(default)s)",
    )
    group.add_argument(
        "--confidence-eos",
        choices=EOS,
        default="both",
        help="key: </s> is no candidate for the maximum; both: and as a query it does not count "
        "(default: %(default)s)",
    )
    group.add_argument(
        "--relevance",
        choices=(*RULES, "none"),
        default="none",
        help="LRP with these rules (default: %(default)s)",
    )
    group.add_argument(
        "--relevance-mode",
        choices=("exact", "pooled"),
        default="exact",
        help="explain each prediction alone, or all of a sentence together: faster (default: "
        "%(default)s)",
    )
    group.add_argument(
        "--ablation",
        type=int,
        nargs="?",
        const=ABLATION_PAIRS,
        metavar="N",
        help=f"growth of the loss with each head off, on N pairs (default: {ABLATION_PAIRS}); "
        "one pass for each head",
    )
    group.add_argument(
        "--ablation-bleu",
        type=int,
        metavar="N",
        help="loss of BLEU with each head off, on N sentences; beam search for each head: slow",
    )
    group.add_argument(
        "--tokenize",
        choices=TOKENIZERS,
        default="13a",
        help="sacrebleu's tokeniser for BLEU (default: %(default)s)",
    )
    options.add_gold_options(
        group, "gold links, for the AER of each head of the source–target attention"
    )
    group.add_argument(
        "--step", choices=STEPS, help="of the AER (default: the better one for each head)"
    )


def add_role_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("roles")
    defaults = Criteria()
    group.add_argument(
        "--positional-threshold",
        type=float,
        default=defaults.positional,
        metavar="X",
        help="share of maxima on one relative position that makes a head positional (default: "
        "%(default)s)",
    )
    group.add_argument(
        "--frequencies",
        metavar="FILE",
        help="lines `word count` or `piece count` of the source (default: the counts in the "
        "dictionary)",
    )
    group.add_argument(
        "--rare-threshold",
        type=float,
        default=defaults.rare,
        metavar="X",
        help="share of maxima on the rarest token of the sentence that names a head (default: "
        "%(default)s)",
    )
    group.add_argument(
        "--rare-top",
        type=int,
        default=0,
        metavar="N",
        help="look only at sentences whose rarest token is not among the N most frequent "
        "(default: all)",
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
        choices=MARGINS,
        default=defaults.margin,
        help="above the best relative position by 10 %% of it, or by 10 points (default: "
        "%(default)s)",
    )


def check(args: argparse.Namespace) -> None:
    """Refuses options that do not go together, before anything is loaded."""
    if args.attention == "encoder":
        given = {
            "--relevance": args.relevance != "none",
            "--ablation": args.ablation,
            "--gold": args.gold,
        }
        for option in (option for option, asked in given.items() if asked):
            raise InputError(f"{option} needs the decoder, which --attention encoder leaves out")
    if args.step and not args.gold:
        raise InputError(f"--step {args.step} is the step of the AER; expected --gold FILE with it")
    if args.conllu is None and (args.lowercase or args.conllu_apart):
        raise InputError(
            "--lowercase and --conllu-apart are about the treebank; expected --conllu FILE with "
            "them"
        )
    for name in ("limit", "ablation", "ablation_bleu"):
        if getattr(args, name) is not None and getattr(args, name) < 1:
            option = "--" + name.replace("_", "-")
            raise InputError(f"{option} {getattr(args, name)}: expected 1 sentence at least")
    if args.ablation_bleu and args.attention == "encoder":
        raise InputError(
            "--ablation-bleu needs a model that translates; --attention encoder is for those "
            "that do not"
        )
    for path in filter(None, (args.output, args.plot)):
        if not Path(path).parent.is_dir():
            raise InputError(f"{path}: cannot be written: no such directory")
    if args.plot and not args.plot.endswith(pictures.FORMATS):
        raise InputError(
            f"--plot {args.plot}: expected a name that ends in {', '.join(pictures.FORMATS)}"
        )


def main(args: argparse.Namespace) -> None:
    trees = read_trees(args) if args.conllu else []
    forcing, reader = options.load(
        args, attention="encoder" if args.attention == "encoder" else "cross"
    )
    pairs = list(
        islice(options.pairs(args, reader, need_target=args.attention != "encoder"), args.limit)
    )
    if not any(pair.source.text for pair in pairs):
        raise InputError("heads cannot be measured on a corpus without words")
    profile = Profile(all_heads(running_heads(forcing)))
    if not profile.heads:
        raise InputError(f"{args.path}: the model has no attention heads left")
    add_scores(profile, args, forcing, pairs)
    add_rare_roles(profile, args, forcing, reader, pairs)
    if trees:
        add_syntax(profile, args, forcing, reader, trees)
    if args.ablation_bleu:  # at last: beam search leaves attention set up for beams
        bleu = translation_metrics(args.tokenize)["BLEU"]
        translator = Translator(forcing.model, reader, vars(args))
        profile.scores["BLEU"] = bleu_ablation(
            translator, pairs[: args.ablation_bleu], bleu, max_tokens=args.max_tokens
        )
    write(args, profile, signature_of(args, profile, len(pairs), len(trees)))


def read_trees(args: argparse.Namespace) -> list[Tree]:
    trees = list(read_conllu(args.conllu))
    trees = [lowercased(tree) for tree in trees] if args.lowercase else trees
    if args.source_file and not args.conllu_apart:
        try:
            check_text(trees, TextFile(args.source_file), args.source_file)
        except InputError as error:
            raise InputError(f"{error}; if it is of another one, add --conllu-apart") from None
    return trees


def add_scores(
    profile: Profile, args: argparse.Namespace, forcing: TeacherForcing, pairs: list[Pair]
) -> None:
    batch, means, positions = (
        {"max_tokens": args.max_tokens},
        Means(eos=args.confidence_eos),
        roles.PositionWatcher(),
    )
    watch(forcing, pairs, [means, positions], **batch)
    profile.positions = positions.details()
    scores = profile.scores
    if args.relevance != "none":
        pooled = args.relevance_mode == "pooled"
        explained = head_scores.explain(
            forcing, pairs, rules=args.relevance, pooled=pooled, **batch
        )
        scores["relevance"], profile.deviation = explained.heads, explained.deviation
        profile.contributions = by_position(explained.contributions)
    scores.update(means.scores())
    if args.attention != "encoder":
        scores["importance"] = gradient_importance(forcing, pairs, **batch)
    if args.ablation:
        scores["ablation"] = ablation(forcing, pairs[: args.ablation], **batch)
    if head_scores.gate_values(forcing):
        scores["gate"] = head_scores.gate_values(forcing)
    if args.gold:
        gold = InMemory(args.gold, islice(options.gold(args), args.limit))
        steps = (args.step,) if args.step else tuple(STEPS)
        found = head_scores.head_aers(forcing, pairs, gold, steps=steps, **batch)
        scores["AER"] = {head: aer for head, (aer, _) in found.items()}
        profile.steps = {head: step for head, (_, step) in found.items()}


def add_rare_roles(
    profile: Profile,
    args: argparse.Namespace,
    forcing: TeacherForcing,
    reader: PairReader,
    pairs: list[Pair],
) -> None:
    sentences = [roles.without_marks(pair.source, reader) for pair in pairs]
    try:
        if args.frequencies:
            frequencies = Frequencies(
                read_frequencies(args.frequencies), args.frequencies, sentences
            )
        else:
            counts = roles.dictionary_counts(reader.task.source_dictionary)
            frequencies = Frequencies(counts, "the dictionary", sentences)
    except InputError as error:
        if args.frequencies:
            raise
        warnings.warn(
            f"no rare-token roles: {error}; name counts with --frequencies FILE", stacklevel=2
        )
        return
    profile.rare, profile.rare_swapped = (
        roles.rare_roles(
            forcing,
            corpus,
            roles.RareWatcher(frequencies, reader, top=args.rare_top),
            args.max_tokens,
        )
        for corpus in (pairs, roles.swapped_pairs(pairs, seed=args.seed))
    )
    if args.rare_top and not profile.rare:
        raise InputError(
            f"--rare-top {args.rare_top}: the rarest token of every sentence is among these; "
            "expected fewer"
        )


def add_syntax(
    profile: Profile,
    args: argparse.Namespace,
    forcing: TeacherForcing,
    reader: PairReader,
    trees: list[Tree],
) -> None:
    alone = TeacherForcing(forcing.model, reader.task, attention="encoder")
    profile.parsed, found = roles.syntax(alone, trees, reader, max_tokens=args.max_tokens)
    for relation in found.missing():
        warnings.warn(f"{args.conllu}: no sentence has the relation {relation!r}", stacklevel=2)
    profile.relations = found.accuracies()
    scores, profile.branching = found.attachment_scores()
    profile.scores["UAS"] = dict(zip(profile.parsed, scores, strict=True))


def criteria_of(args: argparse.Namespace) -> Criteria:
    return Criteria(args.positional_threshold, args.rare_threshold, args.syntactic_margin)


def signature_of(args: argparse.Namespace, profile: Profile, pairs: int, trees: int) -> dict:
    """Every choice that moves a number; what does not apply is absent."""
    found = {
        "checkpoint": Path(args.path).name,
        "sentences": pairs,
        "confidence-eos": args.confidence_eos,
        "relevance": None
        if args.relevance == "none"
        else f"{args.relevance}-{args.relevance_mode}",
        "ablation": min(args.ablation, pairs) if args.ablation else None,
        "ablation-bleu": f"{min(args.ablation_bleu, pairs)}-{args.tokenize}"
        if args.ablation_bleu
        else None,
        "step": (args.step or "best") if args.gold else None,
        "positional": args.positional_threshold,
    }
    if profile.rare:
        found["frequencies"] = Path(args.frequencies).name if args.frequencies else "dictionary"
        found.update(
            {"rare": args.rare_threshold, "rare-top": args.rare_top or None, "seed": args.seed}
        )
    if trees:
        found.update(
            {"trees": trees, "lowercase": args.lowercase or None, "margin": args.syntactic_margin}
        )
    return {name: value for name, value in found.items() if value is not None}


def write(args: argparse.Namespace, profile: Profile, signature: dict) -> None:
    criteria = criteria_of(args)
    if args.output:
        with whole_file(args.output) as file:
            json.dump(
                report.as_json(profile, criteria, signature), file, indent=1, ensure_ascii=False
            )
    if args.plot:
        pictures.save(report.picture(profile), args.plot)
    print(report.as_text(profile, criteria))
    print("|".join(f"{key}:{value}" for key, value in signature.items()), file=sys.stderr)
