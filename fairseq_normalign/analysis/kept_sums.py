"""What a run that was killed needs to know of its sums: their classes, and what they are of."""

from __future__ import annotations

import json
from collections.abc import Iterable

from fairseq_normalign.alignment.aer import Counts
from fairseq_normalign.heads.lrp_rules import Contributions
from fairseq_normalign.heads.names import Head
from fairseq_normalign.heads.roles import Positions
from fairseq_normalign.heads.tally import Tally
from fairseq_normalign.host.pairs import Pair
from fairseq_normalign.norms.means import CategoryMeans
from fairseq_normalign.norms.mixing_tally import MixingTally
from fairseq_normalign.norms.moments import Moments
from fairseq_normalign.norms.sample import Sample
from fairseq_normalign.norms.statistics_tally import LayerTally, StatisticsTally

CLASSES = (
    *(MixingTally, CategoryMeans, Sample),
    *(StatisticsTally, LayerTally, Moments),
    *(Tally, Positions, Contributions, Counts, Head),
)


def text_of(pairs: Iterable[Pair]) -> bytes:
    """What a model reads of some pairs, and what it is counted by."""
    lines = []
    for pair in pairs:
        sides = []
        for sentence in (pair.source, pair.target):
            sides += [sentence.tokens.tolist(), sentence.words, sentence.text]
        lines.append(json.dumps(sides))
    return "\n".join([*lines, ""]).encode()


def text_of_batch(numbered: Iterable[tuple[int, Pair]]) -> bytes:
    """The same of a batch of numbered pairs."""
    return text_of(pair for _, pair in numbered)
