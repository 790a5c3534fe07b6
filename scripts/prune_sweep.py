"""Prunes a model to several numbers of heads, and shows what it costs: table, JSON and picture.

python scripts/prune_sweep.py data-bin --path model.pt --out sweep --target-heads 18 9 \\
    --train "--lr 5e-4 --max-tokens 1280 --max-update 1500" \\
    --evaluate "--gen-subset valid --remove-bpe sentencepiece --tokenize none"

For each target (or, with --l0-lambda, each λ): `fairseq-train` from the model with gates on its
heads, `normalign prune`; then `normalign evaluate` of all. A control is trained for as long without
gates, since a model may just go on learning. What is there from a run before is not trained again.

With --scratch, a model with the heads of each pruned one is trained from random initialisation, too
(Voita et al., 2019, Table 2). With --encoder-only, encoder heads alone have gates, and the decoder
is frozen (Fig. 7).
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from fairseq_normalign.cli.main import main as normalign_main
from fairseq_normalign.errors import InputError
from fairseq_normalign.heads.pruning import GATED_CRITERION, PLAIN_CRITERION, Prunable
from fairseq_normalign.host.checkpoint import read_transformer

PACKAGE = Path(__file__).resolve().parents[1] / "fairseq_normalign"
SIDED = (
    *("layers", "embed_dim", "ffn_embed_dim", "attention_heads"),
    *("normalize_before", "learned_pos", "layerdrop"),
)
MODEL = (  # the options that say how a model is built, and what it drops
    *(f"encoder_{name}" for name in SIDED),
    *(f"decoder_{name}" for name in SIDED),
    *("share_all_embeddings", "share_decoder_input_output_embed"),
    *("layernorm_embedding", "no_scale_embedding"),
    *("no_token_positional_embeddings", "max_source_positions", "max_target_positions"),
    *("activation_fn", "dropout", "attention_dropout", "activation_dropout"),
)
TRAIN = (
    "--optimizer adam --adam-betas '(0.9, 0.98)' --lr 5e-4 --lr-scheduler inverse_sqrt "
    "--warmup-updates 300 --clip-norm 1.0 --label-smoothing 0.1 --max-tokens 4000 "
    "--no-epoch-checkpoints --disable-validation --log-format simple --log-interval 100"
)


def parse_args(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", help="what fairseq-preprocess wrote")
    parser.add_argument("--path", required=True, help="the checkpoint to prune")
    parser.add_argument("--out", required=True, type=Path, help="the directory for all results")
    gated = parser.add_mutually_exclusive_group()
    gated.add_argument(
        "--gate-heads", default="encoder,decoder,cross", help="(default: %(default)s)"
    )
    gated.add_argument(
        "--encoder-only",
        action="store_true",
        help="gates on encoder heads alone, with the decoder frozen, also of the control",
    )
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument(
        "--target-heads", type=int, nargs="+", metavar="N", help="numbers of heads to steer to"
    )
    which.add_argument(
        "--l0-lambda", type=float, nargs="+", metavar="X", help="values of λ, without steering"
    )
    parser.add_argument("--l0-warmup-updates", type=int, default=900, help="(default: %(default)s)")
    parser.add_argument(
        "--train",
        default="",
        help="options of fairseq-train, beside or instead of those of the script",
    )
    parser.add_argument(
        "--scratch",
        action="store_true",
        help="also train each pruned model's heads from random initialisation",
    )
    parser.add_argument(
        "--scratch-train",
        metavar="TRAIN",
        help="options of fairseq-train for that, such as more updates (default: those of --train)",
    )
    parser.add_argument("--evaluate", default="", help="options of normalign evaluate")
    args = parser.parse_args(argv)
    if args.scratch_train is not None and not args.scratch:
        parser.error("--scratch-train is about --scratch; expected both")
    return args


def model_options(path: str) -> list[str]:
    """The options that build a model as that of the checkpoint."""
    _, options = read_transformer(path)
    flags = []
    for name in MODEL:
        value = getattr(options, name, None)
        if value is not None and value is not False:
            flags.append("--" + name.replace("_", "-"))
            if value is not True:
                flags.append(str(value))
    return flags


class FailedError(Exception):
    """A command has said what was wrong, and ended with this status."""


def normalign(*options) -> None:
    """A command of ours, in this process, which has loaded what it needs."""
    words = [str(option) for option in options]
    print(f"== normalign {shlex.join(words)}", flush=True)
    status = normalign_main(words)
    if status:
        raise FailedError(status)


def fairseq_train(*options, log: Path) -> None:
    """A training, whose output goes to ``log``."""
    words = [str(Path(sys.executable).parent / "fairseq-train"), *map(str, options)]
    print(f"== fairseq-train {shlex.join(words[1:])} > {log}", flush=True)
    with log.open("w") as output:
        done = subprocess.run(words, stdout=output, stderr=subprocess.STDOUT, check=False)
    if done.returncode:
        print(f"prune_sweep.py: the training failed; see the end of {log}", file=sys.stderr)
        raise FailedError(done.returncode)


def fine_tune(args: argparse.Namespace, name: str, *options) -> Path:
    """The checkpoint of a training of this name that starts from the model."""
    start = ["--finetune-from-model", args.path]
    if args.encoder_only:
        start += ["--freeze", "decoder"]
    return train(args, name, *shlex.split(args.train), *start, *options)


def train_from_scratch(args: argparse.Namespace, name: str, pruned: Path) -> Path:
    """The checkpoint of a training from random initialisation, with the heads of a pruned model."""
    own = args.train if args.scratch_train is None else args.scratch_train
    heads = ["--alive-heads", pruned]
    return train(args, name, *shlex.split(own), "--criterion", PLAIN_CRITERION, *heads)


def train(args: argparse.Namespace, name: str, *options) -> Path:
    """The checkpoint of a training of this name."""
    folder = args.out / name
    folder.mkdir(parents=True, exist_ok=True)
    words = [args.data, "--user-dir", PACKAGE, "--arch", "transformer_normalign"]
    words += [*model_options(args.path), *shlex.split(TRAIN), *options, "--save-dir", folder]
    command = [str(word) for word in words]
    done = folder / "done"  # holds the command
    if done.exists() and done.read_text() != shlex.join(command):
        raise InputError(
            f"{folder} was trained with other options; expected another --out, or that you "
            "remove it"
        )
    if not done.exists():
        fairseq_train(*command, log=folder / "train.log")
        done.write_text(shlex.join(command))
    return folder / "checkpoint_last.pt"


def prune(path: Path, output: Path) -> None:
    """Without closed heads or, if all gates are open, as it is."""
    if Prunable(str(path)).closed:
        normalign("prune", "--path", path, "--out", output)
    else:
        keep_all(path, output)


def heads_of(path: Path) -> str:
    """The names of a pruned model's heads."""
    _, options = read_transformer(str(path))
    return options.alive_heads


def keep_all(path: Path, output: Path) -> None:
    """Removes nothing but the optimiser's state."""
    normalign("prune", "--path", path, "--keep", "all", "--out", output)


def sweep(args: argparse.Namespace) -> None:
    """Trains, prunes and evaluates."""
    if args.target_heads:
        option, values = "--target-heads", args.target_heads
    else:
        option, values = "--l0-lambda", args.l0_lambda
    kinds = "encoder" if args.encoder_only else args.gate_heads
    gates = ["--criterion", GATED_CRITERION, "--gate-heads", kinds]
    gates += ["--l0-warmup-updates", args.l0_warmup_updates]
    models = [args.path, args.out / "control.pt"]
    keep_all(fine_tune(args, "control", "--criterion", PLAIN_CRITERION), models[-1])
    from_scratch: dict[str, Path] = {}  # by their heads, which two targets may share
    for value in values:
        gated = fine_tune(args, f"gated-{value}", *gates, option, value)
        pruned = args.out / f"pruned-{value}.pt"
        models.append(pruned)
        prune(gated, pruned)
        heads = heads_of(pruned)
        if args.scratch and heads not in from_scratch:
            from_scratch[heads] = args.out / f"scratch-{value}.pt"
            keep_all(train_from_scratch(args, f"scratch-{value}", pruned), from_scratch[heads])
    beside = ["--scratch", *from_scratch.values()] if from_scratch else []
    results = ["-o", args.out / "sweep.json", "--plot", args.out / "sweep.png"]
    options = [*shlex.split(args.evaluate), *results]
    normalign("evaluate", args.data, "--path", *models, *beside, *options)


def main(argv: Sequence[str] | None = None) -> int:
    """Sweep, or say in one line what is wrong."""
    args = parse_args(argv)
    try:
        sweep(args)
    except InputError as error:
        print(f"prune_sweep.py: {error}", file=sys.stderr)
        return 2
    except FailedError as error:
        return error.args[0]
    return 0


if __name__ == "__main__":
    sys.exit(main())
