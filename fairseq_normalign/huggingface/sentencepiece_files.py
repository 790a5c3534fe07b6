"""SentencePiece models in a Hugging Face folder, and whether they are those of its vocabulary."""

from __future__ import annotations

from collections.abc import Collection

import sentencepiece

from fairseq_normalign.errors import InputError
from fairseq_normalign.huggingface.folder import HuggingFaceFolder, refuse_pointer

FEWEST_KNOWN = 0.5  # of the pieces of a SentencePiece model, by the vocabulary that it belongs to


def read_pieces(folder: HuggingFaceFolder, name: str) -> tuple[bytes, list[str]]:
    """A SentencePiece model as it is stored, and its pieces by their number."""
    path = folder.path / name
    if not path.is_file():
        raise InputError(f"{folder}: has no {name}; {_expected(folder, name)}")
    refuse_pointer(path)
    content = path.read_bytes()
    processor = sentencepiece.SentencePieceProcessor()
    try:
        processor.LoadFromSerializedProto(content)
        pieces = [processor.id_to_piece(number) for number in range(processor.get_piece_size())]
    except (RuntimeError, OSError):
        pieces = []
    if not pieces:
        raise InputError(f"{path}: cannot be read; expected a SentencePiece model")
    return content, pieces


def _expected(folder: HuggingFaceFolder, name: str) -> str:
    if folder.has("tokenizer.json"):  # which transformers 5 writes instead
        return f"tokenizer.json is not enough: copy {name} from the base model"
    return "expected the SentencePiece model of its text"


def check_fits(folder: HuggingFaceFolder, name: str, pieces: list[str], known: Collection) -> None:
    """Refuses a SentencePiece model most of whose pieces the vocabulary does not know."""
    count = sum(piece in known for piece in pieces)
    if count < FEWEST_KNOWN * len(pieces):
        raise InputError(
            f"{folder.path / name}: {count} of its {len(pieces)} pieces are in the vocabulary of "
            "the model; expected the SentencePiece model that belongs to it"
        )
