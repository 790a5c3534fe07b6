"""Trains translation models of both directions from parallel text, by a recipe from a paper.

python scripts/train_nmt.py corpus --preset small -s de -t en --out nmt --seeds 1 2 3

The corpus is {train,valid}.{de,en}, split into words, or the same names with .gz. It is segmented
and binarised (data_prep/prepare.py, into OUT/prepared), then `fairseq-train` makes a model of each
direction and seed, in OUT/de-en.seed1 and so on. What an earlier run finished is not done again,
and what it began goes on. OUT/models.tsv tells which checkpoint is which; extract_alignments.sh
and evaluate_aer.sh read it. --list-presets shows all recipes.
"""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from nmt_presets import PRESETS, Preset

from fairseq_normalign.cli import shell
from fairseq_normalign.errors import InputError
from fairseq_normalign.files import whole_file

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "data_prep"))

import prepare  # noqa: E402
from segmentation import SCHEMES  # noqa: E402

PACKAGE = ROOT / "fairseq_normalign"
PREPARE_LOG = "prepare.log"
LOG = "--log-format json --log-interval 100"
COLUMNS = ("seed", "source", "target", "checkpoint", "data", "bpe", "source_model", "target_model")


class RefusedError(InputError):
    """A command's one line about what the user got wrong, before it began."""


def get_parser() -> argparse.ArgumentParser:
    """Options of the command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("corpus", type=Path, nargs="?", help="the folder of train and valid")
    parser.add_argument("--preset", choices=PRESETS, help="the recipe")
    parser.add_argument("--list-presets", action="store_true", help="show all recipes and end")
    parser.add_argument("-s", "--source-lang", metavar="L", help="suffix of the source text")
    parser.add_argument("-t", "--target-lang", metavar="L", help="suffix of the target text")
    parser.add_argument("--out", type=Path, metavar="DIR", help="the folder for all results")
    parser.add_argument(
        "--seeds", type=int, nargs="+", metavar="N", help="(default: those of the preset)"
    )
    parser.add_argument(
        "--directions",
        choices=("both", "forward", "reverse"),
        default="both",
        help="(default: %(default)s)",
    )
    parser.add_argument("--max-update", type=_positive, metavar="N", help="end earlier")
    parser.add_argument(
        "--gpus", type=int, default=0, metavar="N", help="(default: %(default)s, on the CPU)"
    )
    parser.add_argument(
        "--models",
        type=Path,
        nargs="+",
        metavar="FILE",
        help="the segmentation model, or the source's and the target's, instead of new ones",
    )
    parser.add_argument(
        "--dicts", type=Path, nargs="+", metavar="FILE", help="likewise the dictionary"
    )
    parser.add_argument(
        "--prepare", default="", help="options of data_prep/prepare.py, instead of the preset's"
    )
    parser.add_argument(
        "--train", default="", help="options of fairseq-train, instead of the preset's"
    )
    parser.add_argument("--dry-run", action="store_true", help="show the commands only")
    return parser


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r}; expected a number above 0")
    return int(text)


def described(presets: dict[str, Preset]) -> str:
    """The recipes, one option a line as they are written."""
    parts = []
    for name, preset in presets.items():
        train = shlex.join(shlex.split(preset.train))
        seeds = " ".join(map(str, preset.seeds))
        parts.append(
            f"{name}: {preset.origin}\n"
            f"  prepare.py {preset.prepare}\n"
            f"  fairseq-train {train} {preset.gpu}\n"
            f"  batches per update: {preset.batches}; seeds: {seeds}; takes {preset.checkpoint}"
        )
    return "\n".join(parts)


def list_presets() -> None:
    """Prints the recipes, as far as somebody reads."""
    try:
        print(described(PRESETS), flush=True)
    except BrokenPipeError:  # `train_nmt.py --list-presets | head`
        shell.drop_stdout()


def prepare_options(args: argparse.Namespace) -> list[str]:
    """The arguments of data_prep/prepare.py."""
    words = [args.corpus.resolve(), args.out.resolve() / "prepared"]
    words += ["--source-lang", args.source_lang, "--target-lang", args.target_lang]
    words += shlex.split(PRESETS[args.preset].prepare) + shlex.split(args.prepare)
    for option in ("models", "dicts"):
        paths = getattr(args, option)
        if paths:
            words += [f"--{option}", *(path.resolve() for path in paths)]
    return [str(word) for word in words]


def train_command(
    args: argparse.Namespace, langs: tuple[str, str], seed: int, folder: Path
) -> list[str]:
    """One model."""
    preset = PRESETS[args.preset]
    words = [args.out.resolve() / "prepared/data-bin", "--user-dir", PACKAGE]
    words += ["--source-lang", langs[0], "--target-lang", langs[1], "--seed", seed]
    words += [*shlex.split(preset.train), *device_options(preset, args.gpus), *shlex.split(LOG)]
    words += shlex.split(args.train)
    if args.max_update:
        words += ["--max-update", args.max_update]
    words += ["--save-dir", folder]
    return [str(Path(sys.executable).parent / "fairseq-train"), *map(str, words)]


def device_options(preset: Preset, gpus: int) -> list[str]:
    """So many batches on each GPU that an update has those of the preset."""
    if preset.batches % max(gpus, 1):
        raise InputError(
            f"--gpus {gpus}: an update has {preset.batches} batches; expected a number of GPUs "
            "that divides them"
        )
    update_freq = ["--update-freq", str(preset.batches // max(gpus, 1))]
    if not gpus:
        return ["--cpu", *update_freq]
    return ["--distributed-world-size", str(gpus), *update_freq, *shlex.split(preset.gpu)]


def run_once(command: list[str], folder: Path, log: str, dry_run: bool) -> None:
    """Run a command unless the folder has its result.

    The folder remembers the command from its beginning: another one is refused.
    """
    remembered, done = folder / "command", folder / "done"
    if remembered.exists() and remembered.read_text(encoding="utf-8") != shlex.join(command):
        raise InputError(
            f"{folder}: was made with other options, see {remembered}; expected another --out, or "
            "that you remove it"
        )
    if done.exists():
        show(f"{folder}: done before")
        return
    show(f"{shlex.join(command)} > {folder / log}")
    if dry_run:
        return
    is_begun = remembered.exists()
    folder.mkdir(parents=True, exist_ok=True)
    with whole_file(remembered) as file:
        file.write(shlex.join(command))
    try:
        run(command, folder / log)
    except RefusedError:
        if not is_begun:  # then nothing was made that another command could spoil
            remembered.unlink()
        raise
    done.touch()


def run(command: list[str], log: Path) -> None:
    """Run a command; its output goes to `log`, and what tells its progress to stderr."""
    tells = preparation if log.name == PREPARE_LOG else progress
    with (
        log.open("a", encoding="utf-8") as file,
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
        ) as process,
    ):
        last = ""
        for line in process.stdout or ():
            file.write(line)
            file.flush()
            last = line.strip() or last
            message = tells(line)
            if message:
                show(message)
    if process.returncode == 2:
        raise RefusedError(last)
    if process.returncode:
        raise InputError(f"{log}: ended with status {process.returncode}: {last}")


def preparation(line: str) -> str | None:
    """A line of prepare.py, which are all about its progress, but for its error."""
    return None if line.startswith("prepare.py: ") else f"  {line.rstrip()}"


def progress(line: str) -> str | None:
    """What a line of fairseq-train says to those who wait."""
    for kind, start in (("train_inner", ""), ("valid", "valid_")):
        _, found, report = line.partition(f"| {kind} | ")
        if found:
            numbers = json.loads(report)
            updates = numbers[f"{start}num_updates"]
            name = "validation" if start else f"epoch {numbers['update']}"
            return f"  update {updates}, {name}: perplexity {numbers[f'{start}ppl']}"
    return None


def show(message: str) -> None:
    """To stderr."""
    print(f"== {message}" if not message.startswith(" ") else message, file=sys.stderr, flush=True)


def model_lines(
    vocabulary: prepare.Vocabulary, trained: Sequence[tuple[int, tuple[str, str], str]]
) -> Iterator[str]:
    """Lines of models.tsv: every path is seen from its folder."""
    yield "\t".join(COLUMNS)
    for seed, langs, checkpoint in trained:
        name = SCHEMES[vocabulary.bpe].name
        models = [name.format(f".{lang}" if vocabulary.separate else "") for lang in langs]
        paths = [f"prepared/{model}" for model in models]
        yield "\t".join(
            [str(seed), *langs, checkpoint, "prepared/data-bin", vocabulary.bpe, *paths]
        )


def check(args: argparse.Namespace) -> None:
    """Raises InputError for what is missing or does not go together."""
    for option in ("corpus", "preset", "source_lang", "target_lang", "out"):
        if getattr(args, option) is None:
            flag = option if option == "corpus" else "--" + option.replace("_", "-")
            raise InputError(f"{flag} is missing")
    if args.source_lang == args.target_lang:
        raise InputError(f"--source-lang and --target-lang are both {args.source_lang!r}")
    if not args.corpus.is_dir():
        raise InputError(f"{args.corpus}: not found; expected a folder with the text")
    if args.gpus < 0:
        raise InputError(f"--gpus {args.gpus}; expected 0 or more")
    seeds = args.seeds or PRESETS[args.preset].seeds
    if len(set(seeds)) < len(seeds):
        raise InputError(f"--seeds {' '.join(map(str, seeds))}: one of them twice")


def train_all(args: argparse.Namespace) -> None:
    """Prepare, train, and tell which checkpoint is which."""
    check(args)
    out = args.out.resolve()
    options = prepare_options(args)
    vocabulary = prepare.vocabulary_of(prepare.get_parser().parse_args(options))
    vocabulary.check()
    command = [sys.executable, str(ROOT / "data_prep/prepare.py"), *options]
    run_once(command, out / "prepared", PREPARE_LOG, args.dry_run)
    trained = []
    for seed in args.seeds or PRESETS[args.preset].seeds:
        for langs in directions(args):
            folder = out / f"{langs[0]}-{langs[1]}.seed{seed}"
            command = train_command(args, langs, seed, folder)
            run_once(command, folder, "train.log", args.dry_run)
            trained.append((seed, langs, f"{folder.name}/{PRESETS[args.preset].checkpoint}"))
    if args.dry_run:
        return
    for _, _, checkpoint in trained:
        if not (out / checkpoint).exists():
            raise InputError(f"{out / checkpoint}: was not written; see train.log beside it")
    with whole_file(out / "models.tsv") as file:
        file.writelines(f"{line}\n" for line in model_lines(vocabulary, trained))
    print(out / "models.tsv")


def directions(args: argparse.Namespace) -> list[tuple[str, str]]:
    """Source and target of the models to be trained."""
    forward = (args.source_lang, args.target_lang)
    both = {"forward": forward, "reverse": forward[::-1]}
    return list(both.values()) if args.directions == "both" else [both[args.directions]]


def main(argv: Sequence[str] | None = None) -> int:
    """Train, or say in one line what is wrong."""
    args = get_parser().parse_args(argv)
    if args.list_presets:
        list_presets()
        return 0
    try:
        train_all(args)
    except InputError as error:
        print(f"train_nmt.py: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
