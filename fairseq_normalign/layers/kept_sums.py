"""The classes of sums that a run may keep."""

from __future__ import annotations

from fairseq_normalign.alignment.aer import Counts
from fairseq_normalign.attention.lrp_rules import Contributions
from fairseq_normalign.heads.attention_pass import Tally
from fairseq_normalign.heads.roles import Positions
from fairseq_normalign.layers.means import CategoryMeans
from fairseq_normalign.layers.mixing_tally import MixingTally
from fairseq_normalign.layers.moments import Moments
from fairseq_normalign.layers.sample import Sample
from fairseq_normalign.layers.statistics_tally import LayerTally, StatisticsTally
from fairseq_normalign.names import Head

CLASSES = (
    *(MixingTally, CategoryMeans, Sample),
    *(StatisticsTally, LayerTally, Moments),
    *(Tally, Positions, Contributions, Counts, Head),
)
