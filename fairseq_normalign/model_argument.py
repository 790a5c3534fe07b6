"""MODEL, as commands and ``load`` take it: a checkpoint, or a folder, perhaps of Hugging Face.

It becomes options of fairseq's way: ``path``, ``data``, and how text is split into pieces. Imports
no PyTorch before files are found.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path

from fairseq_normalign.errors import InputError
from fairseq_normalign.host.model_files import (
    dictionaries,
    find_checkpoint,
    find_data,
    find_pieces,
    kind_of_codes,
    marks_of,
)

READING = "reading.json"  # of folders that normalign import made: says how text is read
# Options by which text comes, which is split into pieces
TEXTS = ("source_file", "hypotheses", "conllu", "interactive")
SPLITTERS = {
    "sentencepiece": "SentencePiece",
    "subword_nmt": "BPE codes",
    "fastbpe": "fastBPE codes",
    "gpt2": "GPT-2 BPE",
}


def find_model(args: Namespace, model: str) -> None:
    """Sets ``path``, ``data`` and pieces to those of MODEL, and of ``reverse_path`` if it is named.

    Options that are set already stay. ``found`` says what was found, in words, by checkpoint, and
    ``reverse_pieces`` how the reverse model splits text, if it has a way of its own.
    """
    checkpoint = checkpoint_of(model)
    args.path, args.reverse_pieces = str(checkpoint), {}
    args.data = args.data or _data_of(checkpoint)
    pieces = _place_pieces(args, checkpoint) if args.data else {}
    args.found = {args.path: _in_words(model, checkpoint, args.data, pieces)}
    if getattr(args, "reverse_path", None):
        _place_reverse(args, pieces)


def _in_words(model: str, checkpoint: Path, data: str | None, pieces: Mapping[str, str]) -> str:
    """The files of a model: checkpoint, dictionaries, and what splits text into pieces."""
    found = [checkpoint.name]
    if data:
        found += [path.name for path in dictionaries(Path(data))]
        found += [READING] if (Path(data) / READING).is_file() else []
    if pieces:
        files = [Path(value).name for name, value in pieces.items() if name != "bpe"]
        found.append(f"{SPLITTERS[pieces['bpe']]} {' and '.join(files)}")
    return f"{model}: {', '.join(found)}"


def bpe_of_files(args: Namespace) -> str | None:
    """The BPE whose files the options name."""
    files = {name: value for name, value in vars(args).items() if value}
    if any(name.endswith("sentencepiece_model") for name in files):
        return "sentencepiece"
    codes = [value for name, value in files.items() if name.endswith("bpe_codes")]
    if codes and Path(codes[0]).is_file():
        return kind_of_codes(codes[0])
    return "bert" if "bpe_vocab_file" in files else None


def _place_reverse(args: Namespace, pieces: Mapping[str, str]) -> None:
    """The same for the model of the other direction, which may split text in its own way."""
    model, reverse = args.reverse_path, checkpoint_of(args.reverse_path)
    args.reverse_path = str(reverse)
    args.reverse_data = args.reverse_data or str(find_data(reverse) or args.data)
    own = _pieces_of(reverse, Path(args.reverse_data)) if pieces else {}
    if pieces and _contents(own) != _contents(pieces):
        args.reverse_pieces = own
    args.found[args.reverse_path] = _in_words(model, reverse, args.reverse_data, own)


def _contents(pieces: Mapping[str, str]) -> set[bytes]:
    return {Path(value).read_bytes() for name, value in pieces.items() if name != "bpe"}


def checkpoint_of(model: str) -> Path:
    """The checkpoint of MODEL; a Hugging Face folder is imported into a cache."""
    found = find_checkpoint(model)
    if found is None:
        from fairseq_normalign.huggingface.conversion import cached_import

        return cached_import(model)
    return found


def _data_of(checkpoint: Path) -> str | None:
    """The folder of its dictionaries, beside it or where it was trained."""
    found = find_data(checkpoint)
    if found is None:
        from fairseq_normalign.host.trust import stored_data

        found = find_data(checkpoint, stored_data(str(checkpoint)))
    return str(found) if found else None


def _place_pieces(args: Namespace, checkpoint: Path) -> dict[str, str]:
    """Sets how text is split into pieces, unless options say so; returns what was found."""
    data = Path(args.data.split(":")[0])
    if args.bpe or args.post_process or (data / READING).is_file():
        return {}
    if not dictionaries(data):
        raise InputError(f"{data}: no dictionaries (dict.*.txt) in this folder")
    marks = marks_of(dictionaries(data)[0])
    if marks != "gpt2" and not any(getattr(args, name, None) for name in TEXTS):
        args.post_process = marks  # binarised: pieces only join to words
        return {}
    found = _pieces_of(checkpoint, data)
    vars(args).update(found)
    return found


def _pieces_of(checkpoint: Path, data: Path) -> dict[str, str]:
    folders = [checkpoint.parent, data]
    return find_pieces(folders, dictionaries(data)[0], lambda: _languages(checkpoint))


def _languages(checkpoint: Path) -> tuple[str | None, str | None]:
    from fairseq_normalign.host.trust import stored_languages

    languages = stored_languages(str(checkpoint))
    return languages["source_lang"], languages["target_lang"]
