#!/usr/bin/env python3
"""Prepare a parallel corpus for fairseq: train SentencePiece, split the text into pieces, run fairseq-preprocess.

Reads {train,valid,test}.{src,tgt} from CORPUS and writes to OUTDIR: spm.model (with --separate: spm.src.model and
spm.tgt.model) and its .vocab, dict.txt (dict.src.txt and dict.tgt.txt) with every piece of the model, pieces/ with the
encoded text, data-bin/ for fairseq-train.

example: python data_prep/prepare.py corpus corpus --vocab-size 1000
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path
from typing import Iterable, Iterator

import sentencepiece
from lines import read_lines, write_lines

from fairseq_normalign.errors import InputError

SPLITS = ("train", "valid", "test")
SPECIALS = 3  # <unk>, <s>, </s>: fairseq's dictionary brings its own
COUNT = 100  # of every dictionary entry, as in Kobayashi et al. (2020); fairseq only needs some number


def read_split(corpus: Path, split: str, langs: tuple[str, str]) -> tuple[list[str], list[str]]:
    """Both sides of a split, line by line; their line counts must agree."""
    source, target = (read_lines(corpus / f"{split}.{lang}") for lang in langs)
    if len(source) != len(target):
        files = [f"{corpus / split}.{lang}" for lang in langs]
        raise InputError(f"{files[0]} has {len(source)} lines, {files[1]} {len(target)}; expected as many in both")
    return source, target


def train_model(lines: Iterable[str], prefix: Path, vocab_size: int, *, dummy_prefix: bool) -> None:
    """Train a SentencePiece BPE model on the lines; writes PREFIX.model and PREFIX.vocab."""
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=(_spaced(line) for line in lines),
            model_prefix=str(prefix),
            model_type="bpe",
            vocab_size=vocab_size,
            character_coverage=1.0,
            normalization_rule_name="identity",
            add_dummy_prefix=dummy_prefix,
            minloglevel=2,
        )
    except RuntimeError as error:
        raise InputError(f"{prefix}: SentencePiece cannot make {vocab_size} pieces: {error}") from error


def encode(model: sentencepiece.SentencePieceProcessor, lines: Iterable[str]) -> Iterator[str]:
    """The pieces of each line, separated by spaces."""
    return (" ".join(model.encode(_spaced(line), out_type=str)) for line in lines)


def dictionary(vocab: Iterable[str]) -> list[str]:
    """Lines of a fairseq dictionary with every piece of a .vocab file, so that no known piece becomes <unk>."""
    return [f"{piece} {COUNT}" for piece, _ in (line.split("\t") for line in list(vocab)[SPECIALS:])]


def prepare(
    corpus: Path,
    outdir: Path,
    langs: tuple[str, str] = ("src", "tgt"),
    *,
    vocab_size: int = 1000,
    separate: bool = False,
    dummy_prefix: bool = True,
) -> None:
    """Everything from text to data-bin; `separate` trains one model per language instead of a joint one."""
    splits = {split: read_split(corpus, split, langs) for split in SPLITS}
    (outdir / "pieces").mkdir(parents=True, exist_ok=True)
    names = tuple(f".{lang}" if separate else "" for lang in langs)
    for name in sorted(set(names)):
        lines = [line for side, text in enumerate(splits["train"]) if names[side] == name for line in text]
        log(f"training spm{name}.model, {vocab_size} pieces, on {len(lines)} lines")
        train_model(lines, outdir / f"spm{name}", vocab_size, dummy_prefix=dummy_prefix)
        write_lines(outdir / f"dict{name}.txt", dictionary(read_lines(outdir / f"spm{name}.vocab")))
    for side, lang in enumerate(langs):
        model = sentencepiece.SentencePieceProcessor(model_file=str(outdir / f"spm{names[side]}.model"))
        for split in SPLITS:
            write_lines(outdir / "pieces" / f"{split}.{lang}", encode(model, splits[split][side]))
    binarize(outdir, langs, [outdir / f"dict{name}.txt" for name in names])
    log(f"ready: fairseq-train {outdir / 'data-bin'}")


def binarize(outdir: Path, langs: tuple[str, str], dictionaries: list[Path]) -> None:
    """Run fairseq-preprocess on OUTDIR/pieces; writes OUTDIR/data-bin."""
    options = ["--source-lang", langs[0], "--target-lang", langs[1], "--destdir", outdir / "data-bin"]
    options += ["--srcdict", dictionaries[0]]
    options += ["--joined-dictionary"] if len(set(dictionaries)) == 1 else ["--tgtdict", dictionaries[1]]
    for split in SPLITS:
        options += [f"--{split}pref", outdir / "pieces" / split]
    log("running fairseq-preprocess")
    command = [sys.executable, "-m", "fairseq_cli.preprocess", *map(str, options)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"fairseq-preprocess ended with status {done.returncode}:\n{done.stdout}")


def log(message: str) -> None:
    """Progress, to stderr."""
    print(message, file=sys.stderr, flush=True)


def _spaced(line: str) -> str:
    """The line with single plain spaces: fairseq splits at any white space, SentencePiece only at U+0020."""
    return " ".join(line.split())


def get_parser() -> argparse.ArgumentParser:
    """Options of the command."""
    summary, *rest = __doc__.split("\n\n")
    parser = argparse.ArgumentParser(
        description=summary, epilog="\n\n".join(rest), formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("corpus", type=Path, help="folder with the text")
    parser.add_argument("outdir", type=Path, help="folder to write to; may be the same")
    parser.add_argument("--source-lang", default="src", metavar="L", help="suffix of the source (default: %(default)s)")
    parser.add_argument("--target-lang", default="tgt", metavar="L", help="suffix of the target (default: %(default)s)")
    parser.add_argument("--vocab-size", type=int, default=1000, metavar="N", help="pieces (default: %(default)s)")
    parser.add_argument("--separate", action="store_true", help="one model per language (default: a joint one)")
    parser.add_argument("--no-dummy-prefix", action="store_true", help="no U+2581 before the first word of a line")
    return parser


def main() -> None:
    """Prepare, or say in one line what is wrong."""
    args = get_parser().parse_args()
    try:
        prepare(
            args.corpus,
            args.outdir,
            (args.source_lang, args.target_lang),
            vocab_size=args.vocab_size,
            separate=args.separate,
            dummy_prefix=not args.no_dummy_prefix,
        )
    except InputError as error:
        print(f"prepare.py: {error}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
