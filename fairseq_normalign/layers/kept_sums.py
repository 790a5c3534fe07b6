"""The classes of sums that a run may keep."""

from __future__ import annotations

from fairseq_normalign.alignment.aer import Counts
from fairseq_normalign.attention.lrp_rules import Contributions
from fairseq_normalign.heads.attention_pass import Tally
from fairseq_normalign.heads.roles import Positions
from fairseq_normalign.names import Head

CLASSES = (Tally, Positions, Contributions, Counts, Head)
