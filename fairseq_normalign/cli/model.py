"""``MODEL [SOURCE [TARGET]]``: one argument for a model, as options of fairseq's way.

fairseq's way is ``DATA --path CHECKPOINT --source-file SOURCE …``: with ``--path``, the first word
is DATA.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fairseq_normalign.cli import shell
from fairseq_normalign.errors import InputError
from fairseq_normalign.host.model_files import (
    dictionaries,
    find_checkpoint,
    find_data,
    find_pieces,
    marks_of,
)
from fairseq_normalign.progress import is_quiet

READING = "reading.json"  # of folders that normalign import made: says how text is read
SPLITTERS = {
    "sentencepiece": "SentencePiece",
    "subword_nmt": "BPE codes",
    "fastbpe": "fastBPE codes",
}


def place_model(args: Namespace, names: Sequence[str], *, several: bool) -> None:
    """Sets the options that the words of a command name: checkpoint, data, texts and pieces.

    Args:
        names: the words that are no options.
        several: ``--path`` is a list.
    """
    args.found, args.reverse_pieces = "", {}
    if several and args.path and _are_folders(args.path[-1]):  # --path A.pt B.pt DATA
        names = [args.path.pop(), *names]
    if args.path:
        if len(names) > 1:
            raise InputError(f"{names[1]}: unexpected; with --path, the only word is DATA")
        args.data = names[0] if names else args.data
        return
    if not names:
        raise InputError("no MODEL; expected a checkpoint, or a folder with one")
    model, *texts = names
    checkpoint = checkpoint_of(model)
    args.path = [str(checkpoint)] if several else str(checkpoint)
    args.data = args.data or _data_of(checkpoint)
    _place_texts(args, texts)
    found = [checkpoint.name]
    pieces: dict[str, str] = {}
    if args.data:
        found += [path.name for path in dictionaries(Path(args.data))]
        pieces = _place_pieces(args, checkpoint)
    if pieces:
        files = [Path(value).name for name, value in pieces.items() if name != "bpe"]
        found.append(f"{SPLITTERS[args.bpe]} {' and '.join(files)}")
    args.found = f"{model}: {', '.join(found)}"
    if getattr(args, "reverse_path", None):
        _place_reverse(args, pieces)


def _place_reverse(args: Namespace, pieces: Mapping[str, str]) -> None:
    """The same for the model of the other direction, which may split text in its own way."""
    reverse = checkpoint_of(args.reverse_path)
    args.reverse_path = str(reverse)
    args.reverse_data = args.reverse_data or str(find_data(reverse) or args.data)
    if pieces:
        own = _pieces_of(reverse, Path(args.reverse_data))
        if _contents(own) != _contents(pieces):
            args.reverse_pieces = own


def _contents(pieces: Mapping[str, str]) -> set[bytes]:
    return {Path(value).read_bytes() for name, value in pieces.items() if name != "bpe"}


def complete(args: Namespace, defaults: Mapping[str, Any] | None = None) -> None:
    """Says which files MODEL has, and adds what fairseq's parser makes of its own options."""
    from fairseq_normalign.host.options import complete as complete_options
    from fairseq_normalign.host.trust import stored_languages

    if args.data is None:
        raise InputError(
            f"{args.path}: no dictionaries (dict.*.txt) beside it; name their folder by --data DIR"
        )
    complete_options(args, defaults)
    if args.found and not is_quiet():
        path = args.path[0] if isinstance(args.path, list) else args.path
        languages = [language or "?" for language in stored_languages(path).values()]
        shell.say(f"{args.found}, {' → '.join(languages)}")


def _are_folders(data: str) -> bool:
    return all(Path(folder).is_dir() for folder in data.split(":"))


def checkpoint_of(model: str) -> Path:
    """The checkpoint of MODEL; a Hugging Face folder is imported into a cache."""
    found = find_checkpoint(model)
    if found is None:
        from fairseq_normalign.huggingface.cache import cached_import

        return cached_import(model)
    return found


def _data_of(checkpoint: Path) -> str | None:
    """The folder of its dictionaries, beside it or where it was trained."""
    found = find_data(checkpoint)
    if found is None:
        from fairseq_normalign.host.trust import stored_data

        found = find_data(checkpoint, stored_data(str(checkpoint)))
    return str(found) if found else None


def _place_texts(args: Namespace, texts: Sequence[str]) -> None:
    if len(texts) > 2:
        raise InputError(f"{texts[2]}: unexpected; the words of a command are MODEL SOURCE TARGET")
    for name, text in zip(("source_file", "target_file"), texts, strict=False):
        if getattr(args, name, None):
            raise InputError(f"{text}: --{name.replace('_', '-')} names another file")
        setattr(args, name, text)


def _place_pieces(args: Namespace, checkpoint: Path) -> dict[str, str]:
    """Sets how text is split into pieces, unless options say so; returns what was found."""
    data = Path(args.data.split(":")[0])
    if args.bpe or args.post_process or (data / READING).is_file():
        return {}
    if not dictionaries(data):
        raise InputError(f"{data}: no dictionaries (dict.*.txt) in this folder")
    if not getattr(args, "source_file", None):  # binarised: pieces only join to words
        args.post_process = marks_of(dictionaries(data)[0])
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
