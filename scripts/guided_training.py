"""Fine-tunes a translation model on our own links of words (guided attention, Garg et al., 2019).

python scripts/guided_training.py pieces -s de -t en --path deen.pt --reverse-path ende.pt \\
    --dict dict.txt --out guided

PIECES is a folder with train.{de,en} and valid.{de,en}, split into pieces, as
data_prep/prepare.py leaves it. The steps, whose logs are in OUT:

  train.pharaoh   links of the training text by `normalign align --combine learned`
  text/           the pieces, and train.align: links of pieces for fairseq
  data-bin/       the same binarised by fairseq-preprocess --align-suffix
  model/          fairseq's transformer_align, from the checkpoint on, one head of one layer
                  being supervised

A step that is done is not done again. At the end, the command that aligns with this head is shown.
"""

from __future__ import annotations

import argparse
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from fairseq_normalign.errors import InputError

ROOT = Path(__file__).resolve().parents[1]
BIN = Path(sys.executable).parent
sys.path.insert(0, str(ROOT / "data_prep"))

import piece_links  # noqa: E402
from command import errors_in_one_line, log  # noqa: E402

# The options that make a model of transformer_align the one that the checkpoint has; fairseq
# registers the architecture with base sizes only.
SIZES = ("layers", "embed_dim", "ffn_embed_dim", "attention_heads")
SWITCHES = (
    *("encoder_normalize_before", "decoder_normalize_before", "encoder_learned_pos"),
    *("decoder_learned_pos", "share_all_embeddings", "share_decoder_input_output_embed"),
    *("layernorm_embedding", "no_scale_embedding", "no_token_positional_embeddings"),
)
TRAINING = """--optimizer adam --adam-betas '(0.9, 0.98)' --lr 5e-4 --lr-scheduler inverse_sqrt
    --warmup-updates 20 --max-tokens 1000 --label-smoothing 0.1 --dropout 0.1 --seed 1
    --disable-validation --no-epoch-checkpoints --log-format simple --log-interval 20"""
DROPPED = "skipping alignment"  # what fairseq says when it gives up the links of a sentence


def get_parser() -> argparse.ArgumentParser:
    """Options of the command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("pieces", type=Path, help="the folder of train and valid, in pieces")
    parser.add_argument("-s", "--source-lang", metavar="L", required=True)
    parser.add_argument("-t", "--target-lang", metavar="L", required=True)
    parser.add_argument("--path", type=Path, required=True, help="the model to fine-tune")
    parser.add_argument("--reverse-path", type=Path, help="the model of the other direction")
    parser.add_argument("--dict", type=Path, required=True, help="the joint dictionary")
    parser.add_argument("--out", type=Path, metavar="DIR", required=True)
    parser.add_argument("--scheme", default="sentencepiece", help="(default: %(default)s)")
    parser.add_argument("--links", type=Path, help="links of the training text (default: made)")
    parser.add_argument(
        "--layer", type=int, default=2, metavar="N", help="from 1 (default: %(default)s)"
    )
    parser.add_argument("--weight", type=float, default=0.5, help="of links (default: %(default)s)")
    parser.add_argument("--max-update", type=int, default=200, help="(default: %(default)s)")
    parser.add_argument(
        "--step",
        choices=("input", "output"),
        default="input",
        help="supervise the row that reads a piece, or, as in the paper, the one that predicts it "
        "(default: %(default)s)",
    )
    parser.add_argument(
        "--train", default="", help="options of fairseq-train, as '--lr 1e-4 --cpu'"
    )
    return parser


def make_links(args: argparse.Namespace, output: Path) -> None:
    """Links of the words of the training text."""
    words = [*_normalign(), "align", args.dict_dir, "--path", args.path]
    words += ["--source-lang", args.source_lang, "--target-lang", args.target_lang]
    if args.reverse_path:
        words += ["--reverse-path", args.reverse_path]
    for side, lang in (("source", args.source_lang), ("target", args.target_lang)):
        words += [f"--{side}-file", args.pieces / f"train.{lang}"]
    words += ["--remove-bpe", args.scheme, "--combine", "learned", "--too-long", "skip"]
    run([*words, "--cpu", "-o", output], args.out / "align.log")


def make_text(args: argparse.Namespace, links: Path, folder: Path) -> None:
    """The pieces with their links; fairseq-preprocess looks for all of it in one place.

    The validation text has no links: with them, fairseq's validation loss is of both tasks.
    """
    folder.mkdir(exist_ok=True)
    langs = (args.source_lang, args.target_lang)
    for split in ("train", "valid"):
        for lang in langs:
            shutil.copyfile(args.pieces / f"{split}.{lang}", folder / f"{split}.{lang}")
    options = ["--scheme", args.scheme, "-o", folder / "train.align"]
    options += ["--read"] if args.step == "input" else []
    texts = [folder / f"train.{lang}" for lang in langs]
    piece_links.main([str(word) for word in (*texts, links, *options)])


def binarise(args: argparse.Namespace, text: Path, folder: Path) -> None:
    words = [BIN / "fairseq-preprocess", "--align-suffix", "align", "--destdir", folder]
    words += ["--source-lang", args.source_lang, "--target-lang", args.target_lang]
    words += ["--trainpref", text / "train", "--validpref", text / "valid"]
    run([*words, "--srcdict", args.dict, "--joined-dictionary"], args.out / "preprocess.log")
    pair = f"{args.source_lang}-{args.target_lang}"
    if not (folder / f"train.align.{pair}.idx").exists():  # fairseq would train without them
        raise InputError(f"{folder}: has no train.align.{pair}.idx; see {args.out}/preprocess.log")


def size_options(path: Path) -> list[str]:
    """The options of fairseq-train that describe a checkpoint's model."""
    from fairseq_normalign.host.trust import options_of, plain, unpickle

    stored = plain(options_of(str(path), unpickle(str(path), mapped=True)))
    words = []
    for side in ("encoder", "decoder"):
        for size in SIZES:
            name = f"{side}_{size}"
            if name not in stored:
                raise InputError(f"{path}: has no option {name}; expected a Transformer")
            words += [f"--{name.replace('_', '-')}", str(stored[name])]
    words += [f"--{name.replace('_', '-')}" for name in SWITCHES if stored.get(name)]
    return words


def train_command(args: argparse.Namespace, data: Path, folder: Path) -> list[str]:
    """fairseq's own model and criterion; the plugin lets fairseq read checkpoints safely."""
    words = [BIN / "fairseq-train", data, "--user-dir", ROOT / "fairseq_normalign"]
    words += ["--source-lang", args.source_lang, "--target-lang", args.target_lang]
    words += ["--arch", "transformer_align", *size_options(args.path)]
    words += ["--finetune-from-model", args.path, "--load-alignments"]
    words += ["--criterion", "label_smoothed_cross_entropy_with_alignment"]
    words += ["--alignment-lambda", args.weight, "--alignment-layer", args.layer - 1]
    words += ["--alignment-heads", 1, *shlex.split(TRAINING), *shlex.split(args.train)]
    words += ["--max-update", args.max_update, "--save-dir", folder]
    return [str(word) for word in words]


def train(args: argparse.Namespace, data: Path, folder: Path) -> None:
    training = args.out / "training"
    train_log = args.out / "train.log"
    run(train_command(args, data, training), train_log)
    text = train_log.read_text(encoding="utf-8", errors="replace")
    if DROPPED in text:
        raise InputError(f"{train_log}: fairseq gave up the links of some sentences: {DROPPED!r}")
    training.rename(folder)


def run(command: Sequence[object], log_file: Path) -> None:
    """Runs a command; what it says is in its log, and its end here if it fails."""
    words = [str(word) for word in command]
    log(f"running {Path(words[0]).name} (log: {log_file})")
    with log_file.open("w", encoding="utf-8") as file:
        print(shlex.join(words), file=file, flush=True)
        done = subprocess.run(words, stdout=file, stderr=subprocess.STDOUT, check=False)
    if done.returncode:
        last = log_file.read_text(encoding="utf-8", errors="replace").splitlines()[-1]
        raise InputError(f"{Path(words[0]).name} ended with status {done.returncode}: {last}")


def _normalign() -> list[str]:
    return [sys.executable, "-m", "fairseq_normalign.cli.main"]


def guide(args: argparse.Namespace) -> None:
    """All steps that are not done yet."""
    args.out.mkdir(parents=True, exist_ok=True)
    args.dict_dir = args.out / "dict"
    args.dict_dir.mkdir(exist_ok=True)
    for lang in (args.source_lang, args.target_lang):
        shutil.copyfile(args.dict, args.dict_dir / f"dict.{lang}.txt")
    links = args.links or args.out / "train.pharaoh"
    if not links.exists():
        make_links(args, links)
    text, data, model = args.out / "text", args.out / "data-bin", args.out / "model"
    if not model.exists():
        make_text(args, links, text)
        binarise(args, text, data)
        train(args, data, model)
    checkpoint = model / "checkpoint_last.pt"
    print(
        f"normalign align {data} --path {checkpoint} --method weights --layer {args.layer} "
        f"--head 1 --step {args.step} --remove-bpe {args.scheme} …"
    )


def main(argv: Sequence[str] | None = None) -> None:
    """Guide, or say in one line what is wrong."""
    args = get_parser().parse_args(argv)
    with errors_in_one_line("guided_training.py"):
        guide(args)


if __name__ == "__main__":
    main()
