"""``MODEL [MODEL …] [SOURCE [TARGET]]``: the words of a command, as options of fairseq's way.

fairseq's way is ``DATA --path CHECKPOINT --source-file SOURCE …``: with ``--path``, the first word
is DATA.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any

from fairseq_normalign.cli import shell
from fairseq_normalign.errors import InputError
from fairseq_normalign.host.model_files import find_checkpoint
from fairseq_normalign.model_argument import checkpoint_of, find_model
from fairseq_normalign.options import flag


def place_model(args: Namespace, names: Sequence[str], *, several: bool) -> None:
    """Sets the options that the words of a command name: checkpoint, data, texts and pieces.

    Args:
        names: the words that are no options.
        several: ``--path`` is a list; further models have the dictionaries and BPE of the first.
    """
    args.found, args.reverse_pieces = {}, {}
    if several and args.path and all(Path(part).is_dir() for part in args.path[-1].split(":")):
        names = [args.path.pop(), *names]  # --path A.pt B.pt DATA
    if args.path:
        if len(names) > 1:
            raise InputError(
                f"{names[1]}: one argument too many; with --path, the only one is DATA"
            )
        args.data = names[0] if names else args.data
        return
    if not names:
        raise InputError("no MODEL; name a checkpoint, or a folder with one")
    model, *rest = names
    others = list(takewhile(_is_model, rest)) if several else []
    texts = rest[len(others) :]
    if len(texts) > 2:
        raise InputError(f"{texts[2]}: one argument too many; expected MODEL SOURCE TARGET")
    for name, text in zip(("source_file", "target_file"), texts, strict=False):
        if getattr(args, name, None):
            raise InputError(f"{text}: {flag(name)} names another file")
        setattr(args, name, text)
    if None in map(find_checkpoint, filter(None, (model, getattr(args, "reverse_path", None)))):
        from fairseq_normalign import plugin  # noqa: F401  (the import needs our architectures)
    find_model(args, model)
    if several:
        args.path = [args.path, *(str(checkpoint_of(other)) for other in others)]


def complete(args: Namespace, defaults: Mapping[str, Any] | None = None) -> None:
    """Says which files MODEL has, and adds what fairseq's parser makes of its own options."""
    from fairseq_normalign.host.options import complete as complete_options
    from fairseq_normalign.host.trust import stored_languages

    complete_options(args, defaults)
    for path, found in args.found.items():
        languages = [language or "?" for language in stored_languages(path).values()]
        shell.note(f"{found}, {' → '.join(languages)}")


def _is_model(name: str) -> bool:
    """Whether a word behind MODEL names another one; texts are neither folders nor called so."""
    return name.endswith(".pt") or Path(name).is_dir()
