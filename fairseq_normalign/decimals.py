"""Numbers in files and on the command line, as people and all programs write them.

Python's own ``float`` also reads ``nan``, ``1_000`` and digits of other scripts, and takes blanks
of any kind around them for nothing.
"""

from __future__ import annotations

import re

# So few digits that no number is too large to be finite.
PATTERN = (
    r"(?:[0-9]{1,60}(?:\.[0-9]{0,60})?|\.[0-9]{1,60})"
    r"(?:[eE](?:\+?[0-9]{1,2}|-[0-9]{1,3}))?"
)
DECIMAL = re.compile(PATTERN)


def decimal(text: str) -> float:
    """A finite number that is not negative, such as 2, 0.5 or 1e-3; raises ValueError."""
    if DECIMAL.fullmatch(text) is None:
        raise ValueError(f"{text[:40]!r} is no number")
    return float(text)
