#!/usr/bin/env python3
"""Prepare a parallel corpus for fairseq: train a segmentation, split the text, and binarise it.

Reads {train,valid,test}.{src,tgt} from CORPUS, or the same names with .gz; test may be missing.
Writes to OUTDIR: spm.model (with --separate: spm.src.model and spm.tgt.model), or bpe.codes of
subword-nmt; dict.txt (dict.src.txt and dict.tgt.txt) with every piece of the model; pieces/ with
the split text; data-bin/ for fairseq-train in either direction.

example: python data_prep/prepare.py corpus corpus --vocab-size 1000
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from command import described_by, errors_in_one_line, log
from lines import read_lines, read_pairs, text_file, write_lines
from segmentation import SCHEMES

from fairseq_normalign.errors import InputError

SPLITS = ("train", "valid", "test")


@dataclass(frozen=True)
class Vocabulary:
    """How the vocabularies are made.

    Attributes:
        bpe: the scheme, a key of SCHEMES.
        size: pieces of SentencePiece, or merges of subword-nmt.
        separate: one model and dictionary per language instead of a joint one.
        dummy_prefix: SentencePiece puts U+2581 before the first word of a line, too.
        counted: the dictionary has the pieces of the training text, the most frequent first, as
            fairseq-preprocess counts them; otherwise every piece of the model.
        models: models made before, to be used instead of training: one, or one per language.
        dictionaries: dictionaries made before: one, or one per language.
    """

    bpe: str = "sentencepiece"
    size: int = 1000
    separate: bool = False
    dummy_prefix: bool = True
    counted: bool = False
    models: Sequence[Path] = ()
    dictionaries: Sequence[Path] = ()

    def check(self) -> None:
        """Raises InputError if these choices do not go together."""
        expected = 2 if self.separate else 1
        for option, paths in (("--models", self.models), ("--dicts", self.dictionaries)):
            if len(paths) not in (0, expected):
                raise InputError(f"{option}: {len(paths)} files; expected {expected}")
        lists_pieces = SCHEMES[self.bpe].dictionary is not None
        if not (lists_pieces or self.counted or self.dictionaries):
            raise InputError(f"--bpe {self.bpe} does not list its pieces; expected --counted")


JOINT = Vocabulary()


def prepare(
    corpus: Path,
    outdir: Path,
    langs: tuple[str, str] = ("src", "tgt"),
    vocabulary: Vocabulary = JOINT,
    workers: int = 1,
) -> None:
    """Everything from text to data-bin."""
    vocabulary.check()
    splits = check_corpus(corpus, langs)
    (outdir / "pieces").mkdir(parents=True, exist_ok=True)
    groups = [[lang] for lang in langs] if vocabulary.separate else [list(langs)]
    for number, group in enumerate(groups):
        name = f".{group[0]}" if vocabulary.separate else ""
        model = _model(vocabulary, number, name, group, corpus, outdir)
        _write_dictionary(vocabulary, number, outdir / f"dict{name}.txt", model)
        split = SCHEMES[vocabulary.bpe].load(model)
        for lang in group:
            for part in splits:
                lines = read_lines(text_file(corpus / f"{part}.{lang}"))
                pieces = (" ".join(split(line)) for line in lines)
                write_lines(outdir / "pieces" / f"{part}.{lang}", pieces)
    binarize(outdir, langs, vocabulary, splits, workers)
    log(f"ready: fairseq-train {outdir / 'data-bin'}")


def check_corpus(corpus: Path, langs: tuple[str, str]) -> list[str]:
    """The splits that a corpus has, each with as many lines in both languages.

    Train and valid must be there. A test set may be missing, but not one side of it.
    """
    splits = []
    for split in SPLITS:
        paths = [text_file(corpus / f"{split}.{lang}") for lang in langs]
        if split == "test" and not any(path.exists() for path in paths):
            log(f"{corpus / split}: none")
            continue
        pairs = sum(1 for _ in read_pairs(*paths))
        if not pairs:
            raise InputError(f"{paths[0]}: empty; expected sentences")
        log(f"{corpus / split}: {pairs} pairs")
        splits.append(split)
    return splits


def _model(
    vocabulary: Vocabulary, number: int, name: str, group: list[str], corpus: Path, outdir: Path
) -> Path:
    """The model of a group of languages, trained or copied."""
    scheme = SCHEMES[vocabulary.bpe]
    model = outdir / scheme.name.format(name)
    if vocabulary.models:
        _copy(vocabulary.models[number], model)
        return model
    log(f"training {model.name}: size {vocabulary.size}")
    texts = (read_lines(text_file(corpus / f"train.{lang}")) for lang in group)
    lines = chain.from_iterable(texts)
    scheme.train(lines, model, vocabulary.size, dummy_prefix=vocabulary.dummy_prefix)
    return model


def _write_dictionary(vocabulary: Vocabulary, number: int, path: Path, model: Path) -> None:
    """A given dictionary, or one of every piece; what is counted, fairseq-preprocess writes."""
    every_piece = SCHEMES[vocabulary.bpe].dictionary
    if vocabulary.dictionaries:
        _copy(vocabulary.dictionaries[number], path)
    elif every_piece is not None and not vocabulary.counted:
        write_lines(path, every_piece(model))


def _copy(path: Path, target: Path) -> None:
    if not path.is_file():
        raise InputError(f"{path}: not found; expected a file made before")
    if path.resolve() != target.resolve():
        shutil.copyfile(path, target)


def binarize(
    outdir: Path,
    langs: tuple[str, str],
    vocabulary: Vocabulary = JOINT,
    splits: Sequence[str] = SPLITS,
    workers: int = 1,
) -> None:
    """Run fairseq-preprocess on OUTDIR/pieces; writes OUTDIR/data-bin."""
    source, target = langs
    options = ["--source-lang", source, "--target-lang", target]
    options += ["--destdir", outdir / "data-bin", "--workers", workers]
    if not vocabulary.separate:
        options += ["--joined-dictionary"]
    if vocabulary.dictionaries or not vocabulary.counted:
        if vocabulary.separate:
            options += ["--srcdict", outdir / f"dict.{source}.txt"]
            options += ["--tgtdict", outdir / f"dict.{target}.txt"]
        else:
            options += ["--srcdict", outdir / "dict.txt"]
    for split in splits:
        options += [f"--{split}pref", outdir / "pieces" / split]
    log("running fairseq-preprocess")
    command = [sys.executable, "-m", "fairseq_cli.preprocess", *map(str, options)]
    _forget_dictionaries(outdir / "data-bin", langs)
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(
            f"fairseq-preprocess ended with status {done.returncode}:\n{done.stdout}"
        )


def _forget_dictionaries(folder: Path, langs: tuple[str, str]) -> None:
    """fairseq-preprocess refuses to count pieces where a dictionary is."""
    for lang in langs:
        (folder / f"dict.{lang}.txt").unlink(missing_ok=True)


def get_parser() -> argparse.ArgumentParser:
    """Options of the command."""
    parser = described_by(__doc__)
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
    add_vocabulary_options(parser)
    parser.add_argument(
        "--workers",
        type=int,
        default=1,
        metavar="N",
        help="of fairseq-preprocess (default: %(default)s)",
    )
    return parser


def add_vocabulary_options(parser: argparse.ArgumentParser) -> None:
    """The options that make a Vocabulary."""
    parser.add_argument(
        "--bpe", choices=SCHEMES, default="sentencepiece", help="(default: %(default)s)"
    )
    parser.add_argument(
        "--vocab-size",
        type=int,
        default=1000,
        metavar="N",
        help="pieces, or merges of subword_nmt (default: %(default)s)",
    )
    parser.add_argument(
        "--separate", action="store_true", help="one model per language (default: a joint one)"
    )
    parser.add_argument(
        "--no-dummy-prefix", action="store_true", help="no U+2581 before the first word of a line"
    )
    parser.add_argument(
        "--counted",
        action="store_true",
        help="dictionary of the pieces in the training text (default: of every piece of the model)",
    )
    parser.add_argument(
        "--models",
        type=Path,
        nargs="+",
        default=(),
        metavar="FILE",
        help="use this model, or these two, source first",
    )
    parser.add_argument(
        "--dicts", type=Path, nargs="+", default=(), metavar="FILE", help="likewise dictionaries"
    )


def vocabulary_of(args: argparse.Namespace) -> Vocabulary:
    """What the options ask for."""
    return Vocabulary(
        bpe=args.bpe,
        size=args.vocab_size,
        separate=args.separate,
        dummy_prefix=not args.no_dummy_prefix,
        counted=args.counted,
        models=args.models,
        dictionaries=args.dicts,
    )


def main(argv: Sequence[str] | None = None) -> None:
    """Prepare, or say in one line what is wrong."""
    args = get_parser().parse_args(argv)
    langs = (args.source_lang, args.target_lang)
    with errors_in_one_line("prepare.py"):
        prepare(args.corpus, args.outdir, langs, vocabulary_of(args), args.workers)


if __name__ == "__main__":
    main()
