"""Text split into words by the Python port of the Moses tokeniser."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache, partial
from multiprocessing import Pool

from fairseq_normalign.errors import InputError


def tokenize(lines: Iterable[str], lang: str, jobs: int = 1) -> Iterator[str]:
    """Lines split into words by the Moses tokeniser, in the manner of the RWTH gold set.

    Without escapes, and with hyphens kept.
    """
    tokenizer(lang)  # fails here rather than in a worker
    if jobs == 1:
        yield from (_tokenized(line, lang) for line in lines)
        return
    with Pool(jobs) as pool:
        yield from pool.imap(partial(_tokenized, lang=lang), lines, chunksize=1000)


@cache
def tokenizer(lang: str):
    """The tokeniser of a language."""
    try:
        from sacremoses import MosesTokenizer
    except ImportError as error:
        raise InputError(f"tokeniser: {error}; expected `pip install sacremoses`") from error
    return MosesTokenizer(lang)


def _tokenized(line: str, lang: str) -> str:
    return " ".join(tokenizer(lang).tokenize(line, escape=False))
