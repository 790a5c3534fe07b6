"""Soft alignment matrices -> hard links.

A soft alignment is non-negative, (T, S): a row per target word, a column per source word. ``null``
(T,) is what each row gives to the source's </s>: where it exceeds the whole row, the target word
has no link. A row of zeros has none.

One rule takes links from the matrix of pieces instead: ``piece_argmax``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from fairseq_normalign.attention.soft import SUM_AND_MEAN, Pieces, Soft
from fairseq_normalign.errors import InputError
from fairseq_normalign.strict_json import decimal
from fairseq_normalign.text.links import Link

GROW_FROM = 0.8  # the share that ``grow`` begins with
MERGES: dict[str, np.ufunc] = {"sum": np.add, "mean": np.add, "max": np.maximum}


def to_words(
    soft: np.ndarray,
    source_ids: Sequence[int] | np.ndarray,
    target_ids: Sequence[int] | np.ndarray,
    merges: str = SUM_AND_MEAN,
) -> np.ndarray:
    """Pieces -> words: columns of a source word are added, rows of a target word averaged.

    As Garg et al. (2019) do.

    Args:
        soft: (…, T pieces, S pieces).
        source_ids: word of each column, never decreasing; a last group of its own may stand for
            </s>.
        target_ids: word of each row.
        merges: of columns and of rows.

    Returns:
        (…, T words, S words); words without pieces get zeros.
    """
    of_source, of_target = merges.split("+")
    by_source_word = _merge(soft, source_ids, -1, of_source)
    return _merge(by_source_word, target_ids, -2, of_target)


def _merge(
    soft: np.ndarray, word_ids: Sequence[int] | np.ndarray, axis: int, how: str
) -> np.ndarray:
    """Merge neighbours with the same id along ``axis``; place ``i`` of the result is id ``i``."""
    ids = np.asarray(word_ids, dtype=np.intp)
    if len(ids) == 0:
        return soft
    sizes = np.bincount(ids)  # pieces of each word
    if len(sizes) == len(ids) and sizes.all():  # every word is one piece
        return soft
    merged = MERGES[how].reduceat(soft, sizes.cumsum() - sizes, axis=axis)
    sizes = sizes.astype(soft.dtype)
    if axis == -2:
        sizes = sizes[:, None]
    if how == "mean":
        merged = merged / np.maximum(sizes, 1)
    # Words without pieces have what is next to them.
    return merged if sizes.all() else np.where(sizes > 0, merged, 0)


def argmax(soft: np.ndarray, *, null: np.ndarray | None = None) -> list[Link]:
    """The best source word of each target word; ties to the lowest.

    Li et al. (2019); Kobayashi et al. (2020).
    """
    return _links(_row_best(soft) & _linkable(soft, null))


def threshold(
    soft: np.ndarray, *, null: np.ndarray | None = None, level: float = 0.2
) -> list[Link]:
    """Every cell whose share of its row, </s> included, reaches ``level``."""
    return _links((row_shares(soft, null) >= level) & _linkable(soft, null))


def best_link(soft: np.ndarray) -> list[Link]:
    """The link of the largest cell; none if all cells are 0, as in a pair that was skipped."""
    if not soft.any():
        return []
    target, source = np.unravel_index(soft.argmax(), soft.shape)
    return [(int(source), int(target))]


def mutual_argmax(soft: np.ndarray, *, null: np.ndarray | None = None) -> list[Link]:
    """Cells that are the best of their row and of their column.

    The intersection of Matusov et al. (2004).
    """
    return _links(_mutual(soft) & _linkable(soft, null))


def itermax(
    soft: np.ndarray, *, null: np.ndarray | None = None, rounds: int = 2, discount: float = 0.9
) -> list[Link]:
    """Mutual argmax, repeated on what is left (Itermax: Jalili Sabet et al., 2020).

    As simalign does it.

    After each round a cell counts in full if both its words are free, ``discount`` times if one is,
    and not at all if neither is. Nothing is added where one side has at most two words, nor once
    one side has no free word.

    Differs from simalign: cells of 0 are never linked, nor is a word that gives most to </s>
    (``null``). Such a word stays free and goes on competing for source words.
    """
    linkable = _linkable(soft, null)
    links = _mutual(soft) & linkable
    if min(soft.shape) <= 2:
        return _links(links)
    worth = np.array([0.0, discount, 1.0])  # of a cell with no, one and two free words
    for _ in range(rounds - 1):
        free_rows = ~links.any(axis=1)
        free_columns = ~links.any(axis=0)
        if not (free_rows.any() and free_columns.any()):
            break
        free_words = free_rows[:, None].astype(int) + free_columns  # (T, S)
        left = soft * worth[free_words]
        new = _mutual(left) & linkable & (left > 0)
        if not new.any():
            break
        links |= new
    return _links(links)


def relative(soft: np.ndarray, *, null: np.ndarray | None = None, share: float = 0.3) -> list[Link]:
    """Every cell that reaches ``share`` of both its row's and its column's maximum."""
    return _links(_high(soft, share) & _linkable(soft, null))


def absolute(soft: np.ndarray, *, null: np.ndarray | None = None, level: float = 0.5) -> list[Link]:
    """Every cell that reaches ``level``: for probabilities of links."""
    return _links((soft >= level) & _linkable(soft, null))


def grow(soft: np.ndarray, *, null: np.ndarray | None = None, share: float = 0.5) -> list[Link]:
    """``relative:0.8``; then a word that has no link takes its best cell, if that is high enough.

    High enough is ``share`` of the other word's best.
    """
    linkable = _linkable(soft, null)
    links = _high(soft, GROW_FROM) & linkable
    new = np.zeros_like(links)
    for of_rows, free in ((soft, ~links.any(axis=1)), (soft.T, ~links.any(axis=0))):
        others_best = of_rows.max(axis=0, initial=0)
        taken = _row_best(of_rows) & free[:, None] & (of_rows >= share * others_best)
        new |= taken if of_rows is soft else taken.T
    return _links(links | (new & linkable))


def _high(soft: np.ndarray, share: float) -> np.ndarray:
    """True where a cell reaches ``share`` of its row's and its column's maximum, (T, S)."""
    row_best = soft.max(axis=1, keepdims=True, initial=0)
    column_best = soft.max(axis=0, keepdims=True, initial=0)
    return soft >= share * np.maximum(row_best, column_best)


def piece_argmax(pieces: Pieces, *, null: bool = True) -> list[Link]:
    """Words some piece of which chooses a piece of the other; ties to the lowest.

    Each target piece takes its best source piece, and two words are linked if any of their pieces
    are, as in Zenkel et al. (2019), Ding et al. (2019) and Chen et al. (2020). Pieces are not
    merged before.

    Args:
        null: whether a piece that takes most from </s> has no link.
    """
    links = argmax(pieces.soft, null=pieces.null if null else None)
    of_words = {
        (int(pieces.target_ids[target]), int(pieces.source_ids[source])) for source, target in links
    }
    return [(source, target) for target, source in sorted(of_words)]


# Rules for matrices of words.
EXTRACTORS: dict[str, Callable[..., list[Link]]] = {
    "argmax": argmax,
    "threshold": threshold,
    "mutual-argmax": mutual_argmax,
    "itermax": itermax,
    "relative": relative,
    "grow": grow,
    "absolute": absolute,
}


PIECE_ARGMAX = "piece-argmax"  # the rule for matrices of pieces
RULES = (*EXTRACTORS, PIECE_ARGMAX)

# What a number after the name of an extractor sets.
PARAMETERS = {"threshold": "level", "relative": "share", "grow": "share", "absolute": "level"}


def check_extract(text: str) -> None:
    """Refuses what names no rule, neither for words nor for pieces."""
    if text != PIECE_ARGMAX:
        extractor(text)


def extractor(text: str) -> Callable[..., list[Link]]:
    """The rule for words that ``NAME`` or ``NAME:NUMBER`` names, as in ``relative:0.6``."""
    name, colon, number = text.partition(":")
    if name not in RULES:
        raise InputError(f"unknown extract {name!r}; choose from: {', '.join(RULES)}")
    if text == PIECE_ARGMAX:
        raise InputError(
            f"extract {text} links the pieces of one model, and a combination has none; choose "
            f"from: {', '.join(EXTRACTORS)}"
        )
    if not colon:
        return EXTRACTORS[name]
    try:
        share = decimal(number)
    except ValueError:
        share = 0.0
    if name not in PARAMETERS or not 0 < share <= 1:
        raise InputError(
            f"extract {text!r}: {', '.join(PARAMETERS)} take a number above 0 and at most 1, as in "
            "relative:0.5"
        )
    return partial(EXTRACTORS[name], **{PARAMETERS[name]: share})


def links_of(soft: Soft, extract: str, *, null: bool = True) -> list[Link]:
    """Links of a soft alignment by a rule of any kind, which is named as in ``extractor``.

    Args:
        null: whether a word (or piece) that takes most from </s> has no link.
    """
    if extract == PIECE_ARGMAX and soft.pieces is not None:
        return piece_argmax(soft.pieces, null=null)
    rule = extractor(extract)
    return rule(soft.words, null=soft.null if null else None)


def row_shares(soft: np.ndarray, null: np.ndarray | None = None) -> np.ndarray:
    """Each cell as a share of its row, </s> included; a row of zeros stays zero. (…, T, S)."""
    total = soft.sum(axis=-1, keepdims=True)
    if null is not None:
        total = total + null[..., None]
    shares = np.zeros_like(soft, dtype=np.result_type(soft, np.float32))
    return np.divide(soft, total, out=shares, where=total > 0)


def values_of(matrix: np.ndarray, links: Sequence[Link]) -> list[float]:
    """The cell (target, source) of each link."""
    sources, targets = np.array(links, int).reshape(-1, 2).T
    return matrix[targets, sources].tolist()


def shares_of(soft: Soft, *, null: bool = True) -> np.ndarray:
    """What each target word takes, as shares of its row: source words, then </s>; (T, S+1).

    Args:
        null: whether </s> takes part; it has no share otherwise.
    """
    of_eos = soft.null if null else np.zeros_like(soft.null)
    return row_shares(np.column_stack([soft.words, of_eos]))


def _row_best(soft: np.ndarray) -> np.ndarray:
    """True at the first maximum of each row, (T, S)."""
    best = np.zeros(soft.shape, dtype=bool)
    if soft.size:
        best[np.arange(len(soft)), soft.argmax(axis=1)] = True
    return best


def _mutual(soft: np.ndarray) -> np.ndarray:
    return _row_best(soft) & _row_best(soft.T).T


def _linkable(soft: np.ndarray, null: np.ndarray | None) -> np.ndarray:
    """Cells that may be linked: positive, in rows that </s> does not win. (T, S)."""
    cells = soft > 0
    if null is None or soft.size == 0:
        return cells
    return cells & (np.asarray(null) <= soft.max(axis=1))[:, None]


def _links(cells: np.ndarray) -> list[Link]:
    targets, sources = np.nonzero(cells)
    return list(zip(sources.tolist(), targets.tolist(), strict=True))
