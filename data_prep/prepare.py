#!/usr/bin/env python3
"""Prepare a parallel corpus for fairseq: train SentencePiece, split the text, and binarise it.

Reads {train,valid,test}.{src,tgt} from CORPUS and writes to OUTDIR: spm.model (with --separate:
spm.src.model and spm.tgt.model) and its .vocab, dict.txt (dict.src.txt and dict.tgt.txt) with every
piece of the model, pieces/ with the encoded text, data-bin/ for fairseq-train.

example: python data_prep/prepare.py corpus corpus --vocab-size 1000
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path

import sentencepiece
from lines import read_lines, read_pairs, write_lines

from fairseq_normalign.errors import InputError

SPLITS = ("train", "valid", "test")
SPECIALS = 3  # <unk>, <s>, </s>: fairseq's dictionary brings its own
# Of every dictionary entry, as in Kobayashi et al. (2020); fairseq only needs some number.
COUNT = 100


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
        raise InputError(
            f"{prefix}: SentencePiece cannot make {vocab_size} pieces: {error}"
        ) from error


def encode(model: sentencepiece.SentencePieceProcessor, lines: Iterable[str]) -> Iterator[str]:
    """The pieces of each line, separated by spaces."""
    return (" ".join(model.encode(_spaced(line), out_type=str)) for line in lines)


def dictionary(vocab: Iterable[str]) -> list[str]:
    """Lines of a fairseq dictionary with every piece of a .vocab file.

    So no known piece becomes <unk>.
    """
    lines = []
    for line in list(vocab)[SPECIALS:]:
        piece, _ = line.split("\t")
        lines.append(f"{piece} {COUNT}")
    return lines


def prepare(
    corpus: Path,
    outdir: Path,
    langs: tuple[str, str] = ("src", "tgt"),
    *,
    vocab_size: int = 1000,
    separate: bool = False,
    dummy_prefix: bool = True,
    workers: int = 1,
) -> None:
    """Everything from text to data-bin.

    `separate` trains one model per language instead of a joint one.
    """
    for split in SPLITS:
        source, target = (corpus / f"{split}.{lang}" for lang in langs)
        pairs = sum(1 for _ in read_pairs(source, target))
        log(f"{corpus / split}: {pairs} pairs")
    (outdir / "pieces").mkdir(parents=True, exist_ok=True)
    groups = [[lang] for lang in langs] if separate else [list(langs)]
    for group in groups:
        name = f".{group[0]}" if separate else ""
        log(f"training spm{name}.model: {vocab_size} pieces")
        train = chain.from_iterable(read_lines(corpus / f"train.{lang}") for lang in group)
        train_model(train, outdir / f"spm{name}", vocab_size, dummy_prefix=dummy_prefix)
        write_lines(outdir / f"dict{name}.txt", dictionary(read_lines(outdir / f"spm{name}.vocab")))
        model = sentencepiece.SentencePieceProcessor(model_file=str(outdir / f"spm{name}.model"))
        for lang in group:
            for split in SPLITS:
                pieces = encode(model, read_lines(corpus / f"{split}.{lang}"))
                write_lines(outdir / "pieces" / f"{split}.{lang}", pieces)
    binarize(outdir, langs, separate=separate, workers=workers)
    log(f"ready: fairseq-train {outdir / 'data-bin'}")


def binarize(outdir: Path, langs: tuple[str, str], *, separate: bool, workers: int = 1) -> None:
    """Run fairseq-preprocess on OUTDIR/pieces; writes OUTDIR/data-bin."""
    source, target = langs
    options = ["--source-lang", source, "--target-lang", target]
    options += ["--destdir", outdir / "data-bin", "--workers", workers]
    if separate:
        options += ["--srcdict", outdir / f"dict.{source}.txt"]
        options += ["--tgtdict", outdir / f"dict.{target}.txt"]
    else:
        options += ["--srcdict", outdir / "dict.txt", "--joined-dictionary"]
    for split in SPLITS:
        options += [f"--{split}pref", outdir / "pieces" / split]
    log("running fairseq-preprocess")
    command = [sys.executable, "-m", "fairseq_cli.preprocess", *map(str, options)]
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(
            f"fairseq-preprocess ended with status {done.returncode}:\n{done.stdout}"
        )


def log(message: str) -> None:
    """Progress, to stderr."""
    print(message, file=sys.stderr, flush=True)


def _spaced(line: str) -> str:
    """The line with single plain spaces.

    fairseq splits at any white space, SentencePiece only at U+0020.
    """
    return " ".join(line.split())


def get_parser() -> argparse.ArgumentParser:
    """Options of the command."""
    summary, *rest = __doc__.split("\n\n")
    parser = argparse.ArgumentParser(
        description=summary,
        epilog="\n\n".join(rest),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("corpus", type=Path, help="folder with the text")
    parser.add_argument("outdir", type=Path, help="folder to write to; may be the same")
    parser.add_argument(
        "--source-lang",
        default="src",
        metavar="L",
        help="suffix of the source (default: %(default)s)",
    )
    parser.add_argument(
        "--target-lang",
        default="tgt",
        metavar="L",
        help="suffix of the target (default: %(default)s)",
    )
    parser.add_argument(
        "--vocab-size", type=int, default=1000, metavar="N", help="pieces (default: %(default)s)"
    )
    parser.add_argument(
        "--separate", action="store_true", help="one model per language (default: a joint one)"
    )
    parser.add_argument(
        "--no-dummy-prefix", action="store_true", help="no U+2581 before the first word of a line"
    )
    parser.add_argument(
        "--workers",
        type=int,
        default=1,
        metavar="N",
        help="of fairseq-preprocess (default: %(default)s)",
    )
    return parser


def main(argv: Sequence[str] | None = None) -> None:
    """Prepare, or say in one line what is wrong."""
    args = get_parser().parse_args(argv)
    try:
        prepare(
            args.corpus,
            args.outdir,
            (args.source_lang, args.target_lang),
            vocab_size=args.vocab_size,
            separate=args.separate,
            dummy_prefix=not args.no_dummy_prefix,
            workers=args.workers,
        )
    except InputError as error:
        print(f"prepare.py: {error}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
