"""How text is split into pieces: SentencePiece or subword-nmt, trained here or given.

A scheme trains a model on lines, and loads one as a function from a line to its pieces. All
dictionary lines are those of fairseq: a piece and a count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType

import sentencepiece

from fairseq_normalign.errors import InputError
from fairseq_normalign.files import whole_file

# Of every dictionary entry, as in Kobayashi et al. (2020); fairseq only needs some number.
COUNT = 100

Split = Callable[[str], list[str]]


def spaced(line: str) -> str:
    """The line with single plain spaces.

    fairseq splits at any white space, SentencePiece and subword-nmt only at U+0020.
    """
    return " ".join(line.split())


def train_sentencepiece(
    lines: Iterable[str], path: Path, size: int, *, dummy_prefix: bool = True
) -> None:
    """Train a BPE model without normalisation that covers every character.

    Writes ``spm.model`` and ``spm.vocab`` beside it.
    """
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=map(spaced, lines),
            model_prefix=str(path.with_suffix("")),
            model_type="bpe",
            vocab_size=size,
            character_coverage=1.0,
            normalization_rule_name="identity",
            add_dummy_prefix=dummy_prefix,
            minloglevel=2,
        )
    except RuntimeError as error:
        raise InputError(f"{path}: SentencePiece cannot make {size} pieces: {error}") from error


def load_sentencepiece(path: Path) -> Split:
    """The pieces of a line by a SentencePiece model."""
    model = _sentencepiece(path)
    return lambda line: model.encode(spaced(line), out_type=str)


def sentencepiece_dictionary(path: Path) -> list[str]:
    """Lines of a dictionary with every piece of a model, so that none becomes <unk>.

    fairseq brings special tokens of its own.
    """
    model = _sentencepiece(path)
    numbers = range(model.get_piece_size())
    kept = [n for n in numbers if not (model.is_unknown(n) or model.is_control(n))]
    return [f"{model.id_to_piece(number)} {COUNT}" for number in kept]


def _sentencepiece(path: Path) -> sentencepiece.SentencePieceProcessor:
    try:
        return sentencepiece.SentencePieceProcessor(model_file=str(path))
    except (OSError, RuntimeError) as error:
        raise InputError(f"{path}: {error}; expected a SentencePiece model") from None


def train_subword_nmt(
    lines: Iterable[str], path: Path, size: int, *, dummy_prefix: bool = True
) -> None:
    """Learn as many BPE merges as ``size`` says; a word's pieces but the last end in ``@@``.

    ``dummy_prefix`` is a matter of SentencePiece and is ignored.
    """
    learner = _subword_nmt("learn_bpe")
    with whole_file(path) as file:
        learner.learn_bpe((spaced(line) for line in lines), file, size)


def load_subword_nmt(path: Path) -> Split:
    """The pieces of a line by BPE codes."""
    splitter = _subword_nmt("apply_bpe")
    try:
        with path.open(encoding="utf-8") as codes:
            model = splitter.BPE(codes)
    except (OSError, SystemExit, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not readable"
        raise InputError(f"{path}: {reason}; expected codes of subword-nmt") from None
    return lambda line: model.segment_tokens(line.split())


def _subword_nmt(module: str) -> ModuleType:
    try:
        return import_module(f"subword_nmt.{module}")
    except ImportError as error:
        raise InputError(f"subword_nmt: {error}; expected `pip install subword-nmt`") from None


@dataclass(frozen=True)
class Scheme:
    """A way to split text, and how its files are called, with a place for the language."""

    name: str
    train: Callable[..., None]
    load: Callable[[Path], Split]
    dictionary: Callable[[Path], list[str]] | None = None  # every piece, if the model knows them


SCHEMES = {
    "sentencepiece": Scheme(
        "spm{}.model", train_sentencepiece, load_sentencepiece, sentencepiece_dictionary
    ),
    "subword_nmt": Scheme("bpe{}.codes", train_subword_nmt, load_subword_nmt),
}
