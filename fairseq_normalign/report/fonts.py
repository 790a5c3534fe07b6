"""Fonts that have the letters of a picture's words."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator

from matplotlib import font_manager
from matplotlib.ft2font import FT2Font

USUAL = "DejaVu Sans"  # matplotlib's own: Latin, Greek, Cyrillic, Arabic, Hebrew and more
LAST_RESORT = "Last Resort"  # has boxes for all letters
SHOWN = 5


def families_for(text: str) -> list[str]:
    """Families of fonts that have all letters of a text together, the usual one first.

    Letters that no font of this machine has are told in a warning.
    """
    missing = {letter for letter in text if not letter.isspace()}
    families = []
    for family, path in _installed():
        if not missing:
            break
        had = missing & _letters(path)
        if had or family == USUAL:
            families.append(family)
            missing -= had
    if missing:
        letters = " ".join(sorted(missing)[:SHOWN])
        warnings.warn(
            f"no font of this machine has {letters}{' …' if len(missing) > SHOWN else ''}: the "
            "picture shows boxes instead; expected an installed font that has, as one of Noto's",
            stacklevel=2,
        )
    return families or [USUAL]


def _installed() -> Iterator[tuple[str, str]]:
    """Family and file of one upright font of each family, the usual family first."""
    files: dict[str, str] = {}
    for font in font_manager.fontManager.ttflist:
        is_upright = font.style == "normal" and font.weight in (400, "normal", "regular")
        if is_upright and not font.name.startswith(LAST_RESORT):
            files.setdefault(font.name, font.fname)
    if USUAL in files:  # some systems leave it out of matplotlib
        yield USUAL, files.pop(USUAL)
    yield from _sorted(files.items())


def _sorted(files: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Fonts without serifs first: they go with the usual one."""
    return sorted(files, key=lambda file: ("Sans" not in file[0], file))


def _letters(path: str) -> set[str]:
    """The letters that a font has; none if its file is damaged, or gone since fonts were listed."""
    try:
        charmap = FT2Font(path).get_charmap()
    except (OSError, RuntimeError):
        return set()
    return {chr(code) for code in charmap}
