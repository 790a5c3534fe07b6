"""Says if gold links look misread: other index base, other direction."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

from fairseq_normalign.alignment import doctor
from fairseq_normalign.alignment.links import Gold, GoldFile, Link


def warn_of_misread_gold(links: Sequence[set[Link]], golds: Sequence[Gold], file: GoldFile) -> None:
    """Warns with the flags of the commands that take ``--gold``.

    Args:
        links: what should be near the gold, from 0.
    """
    read = doctor.Conventions(file.index, 0, file.reverse)
    for advice in doctor.diagnose(links, golds, read):
        warnings.warn(advice.words(doctor.GOLD_FLAGS), stacklevel=2)
