"""Says if gold links look misread: other index base, other direction."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

from fairseq_normalign.alignment import link_doctor as doctor
from fairseq_normalign.text.links import Gold, GoldFile, Link


def warn_of_misread_gold(
    links: Sequence[set[Link]], golds: Sequence[Gold], file: GoldFile
) -> list[str]:
    """Warns with the flags of the commands that take ``--gold``; returns what it said.

    Args:
        links: what should be near the gold, from 0.
    """
    read = doctor.Conventions(file.index, 0, file.reverse)
    advice = [advice.words(doctor.GOLD_FLAGS) for advice in doctor.diagnose(links, golds, read)]
    for sentence in advice:
        warnings.warn(sentence, stacklevel=2)
    return advice
