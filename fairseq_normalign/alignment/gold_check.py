"""Says if gold links look misread: other index base, other direction."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

from fairseq_normalign.alignment import link_doctor as doctor
from fairseq_normalign.errors import InputError
from fairseq_normalign.text.links import Gold, GoldFile, Link


def warn_of_misread_gold(
    links: Sequence[set[Link]], golds: Sequence[Gold], file: GoldFile, *, refuse: bool = False
) -> list[str]:
    """Warns with the flags of the commands that take ``--gold``; returns what it said.

    Args:
        links: what should be near the gold, from 0.
        refuse: raise InputError if a flag would mend it.
    """
    read = doctor.Conventions(file.index, 0, file.reverse)
    said = []
    for advice in doctor.diagnose(links, golds, read):
        said.append(advice.words(doctor.GOLD_FLAGS))
        if refuse and isinstance(advice, doctor.Misread) and advice.is_of_gold:
            raise InputError(f"{file.name}: looks misread: {said[-1]}")
        warnings.warn(said[-1], stacklevel=2)
    return said
