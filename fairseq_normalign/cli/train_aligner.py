"""``normalign train-aligner MODEL SOURCE TARGET -r REVERSE -o FILE``: heads trained on links."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING

from fairseq_normalign.cli import checks, options
from fairseq_normalign.cli.shell import print_signature
from fairseq_normalign.errors import InputError
from fairseq_normalign.progress import bar
from fairseq_normalign.text.links import Link, LinkFile

if TYPE_CHECKING:
    from fairseq_normalign.alignment.aligner_training import TrainingOptions
    from fairseq_normalign.attention.trained_head import TrainedHead
    from fairseq_normalign.host.options import ReadyModel
    from fairseq_normalign.host.raw_corpus import Corpus as ReadCorpus

DESCRIPTION = """Trains an alignment head for a translation model, and one for the model of the
other direction, on links of words (after Shift-AET, Chen et al., 2020). The models stay as they
are: a head is two small matrices that read their states. The links are those of `normalign align
--combine learned` on the same text, or your own. Use the result with `normalign align --method
aligner:FILE`."""
EXAMPLE = """normalign train-aligner deen/ train.de train.en -r ende/ --limit 8000 \\
             -o aligner.safetensors"""


OPTIONS = f"""
training:
  --links FILE        links of the text, source word first, counted from 0 (default: of --combine
                      learned)
  --limit N           take the first N sentences of the corpus (default: all)
  --seed K = 1        the same seed, the same head
  --epochs N = 6      at most: it stops when held-out pairs get worse
  --width N = 256     of a head
  --null-weight X = 0.3  what a word without links counts beside one with links
  -o --output FILE = required  the file to write, *.safetensors
{options.reverse_options("which gets a head, too")}"""


def check(args: Namespace) -> None:
    """Refuses texts that cannot be read more than once."""
    checks.requires(args, "reverse_path", "reverse_data")
    checks.refuse_streams(args.source_file, args.target_file, args.hypotheses)


parse_args = options.model_command(
    "train-aligner", DESCRIPTION, EXAMPLE, options.CORPUS + OPTIONS, check
)


def main(args: Namespace) -> None:
    from fairseq_normalign.alignment.aligner_training import TrainingOptions
    from fairseq_normalign.alignment.combined import check_directions
    from fairseq_normalign.attention.trained_head import write_aligner
    from fairseq_normalign.cli.model import complete
    from fairseq_normalign.host.options import load

    complete(args)
    models = [load(args)]
    if args.reverse_path:
        models.append(load(args, reverse=True))
    check_directions(models)
    links = known_links(args, models)
    training = TrainingOptions(
        epochs=args.epochs, width=args.width, null_weight=args.null_weight, seed=args.seed
    )
    trained = {"forward": train(args, models[0], links, training)}
    if args.reverse_path:
        trained["backward"] = train(args, models[1], links, training, reverse=True)
    told = {
        "pairs": len(links),
        "links": args.links or "learned",
        "epochs": training.epochs,
        "dropout": training.dropout,
        "null-weight": training.null_weight,
        "seed": training.seed,
    }
    write_aligner(args.output, trained, told)
    print_signature(told)


def known_links(args: Namespace, models: Sequence[ReadyModel]) -> list[list[Link]]:
    """The links of each pair to learn from."""
    from fairseq_normalign.host.raw_corpus import corpus

    read = corpus(args, models, limit=args.limit)
    if args.links is None:
        return learned_links(args, models, read)
    links = [sorted(of_pair) for of_pair in islice(LinkFile(args.links), args.limit)]
    if read.total != len(links):
        raise InputError(f"{args.links}: {len(links)} lines for {read.total} pairs")
    return links


def learned_links(
    args: Namespace, models: Sequence[ReadyModel], read: ReadCorpus
) -> list[list[Link]]:
    """Those that both models' attentions agree on, by ``--combine learned``."""
    from fairseq_normalign.alignment.aligner import NormAligner
    from fairseq_normalign.alignment.combined import CombinedAligner

    aligners = [NormAligner(*model, batch_tokens=args.max_tokens) for model in models]
    aligner = CombinedAligner(*aligners, combine="learned")
    decided, again = aligner.decide_on(*read.streams)
    with bar("links", total=read.total) as shown:
        return [decided.links(soft) for soft in decided.run(*again, progress=shown.update)]


def train(
    args: Namespace,
    model: ReadyModel,
    links: Sequence[Sequence[Link]],
    training: TrainingOptions,
    *,
    reverse: bool = False,
) -> TrainedHead:
    """The head of one model; tells how each epoch went."""
    from fairseq_normalign.alignment.aligner_training import Corpus, held_out_size, train_head
    from fairseq_normalign.attention.trained_head import TrainedHead, fingerprint
    from fairseq_normalign.host.raw_corpus import corpus
    from fairseq_normalign.host.special_tokens import languages_of

    languages = "-".join(map(str, languages_of(model.reader.task)))
    if reverse:
        links = [[(target, source) for source, target in of_pair] for of_pair in links]
    (pairs,) = corpus(args, [model], swapped=[reverse], limit=args.limit).streams
    with bar(f"{languages} states", total=len(links)) as shown:
        known = Corpus.read(
            model.forcing,
            pairs,
            links,
            null_weight=training.null_weight,
            max_tokens=args.max_tokens,
            progress=shown.update,
        )
    learned = len(known.labels) - held_out_size(len(known.labels), training.held_out)
    with bar(f"{languages} head", total=training.epochs * learned) as shown:

        def show(pairs: int, loss: float) -> None:
            shown.set_postfix_str(f"loss {loss:.3f}", refresh=False)
            shown.update(pairs)

        head, epochs = train_head(known, training, progress=show)
    for number, (loss, held_out) in enumerate(epochs, 1):
        print(f"{languages} epoch {number}: loss {loss:.3f}, on held-out pairs {held_out:.3f}")
    return TrainedHead(head, fingerprint(model.forcing.model), languages)
