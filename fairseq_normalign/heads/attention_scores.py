"""Scores of heads that only look at attention, or at the gates on it."""

from __future__ import annotations

from torch import Tensor

from fairseq_normalign.heads.attention_pass import Seen
from fairseq_normalign.heads.confidence import confidences, entropies, norm_sums, row_shares
from fairseq_normalign.heads.profile import Finding
from fairseq_normalign.heads.profiling import Survey
from fairseq_normalign.heads.tally import Tally
from fairseq_normalign.host.attention_modules import attentions, gate_values
from fairseq_normalign.names import Head


class Confidence:
    """The mean of the largest weight of a query (Voita et al., 2019)."""

    KEPT = ("tally",)

    def __init__(self, survey: Survey):
        self.eos = survey.options.confidence_eos
        self.tally = Tally()

    def __call__(self, seen: Seen) -> None:
        sums, cases = self.measured(seen)
        self.tally.add(seen.attention, sums.cpu(), cases)

    def measured(self, seen: Seen) -> tuple[Tensor, int]:
        """The sum over queries for each head, (H,), and how many queries."""
        return confidences(seen.recorded.weights, seen.cells, eos=self.eos)

    def result(self) -> Finding:
        return Finding(self.tally.means(), settings={"confidence-eos": self.eos})


class Entropy(Confidence):
    """The mean entropy of the weights of a query among words, in nats; low is confident."""

    def measured(self, seen: Seen) -> tuple[Tensor, int]:
        return entropies(seen.recorded.weights, seen.cells, eos=self.eos)


class NormConfidence(Confidence):
    """The same with ‖αf(x)‖ as shares of their row."""

    def measured(self, seen: Seen) -> tuple[Tensor, int]:
        return confidences(row_shares(seen.recorded.norms.weighted), seen.cells, eos=self.eos)


class Norm(Confidence):
    """Σ_s ‖αf(x_s)‖, mean over queries."""

    def measured(self, seen: Seen) -> tuple[Tensor, int]:
        return norm_sums(seen.recorded.norms.weighted, seen.cells)

    def result(self) -> Finding:
        return Finding(self.tally.means())


def gates(survey: Survey) -> dict[Head, float]:
    """The gate of each head at test time; empty if the model has none."""
    values = {}
    for attention, module in attentions(survey.forcing.model).items():
        of_module = gate_values(module)
        if of_module is not None:
            for head, gate in enumerate(of_module.tolist()):
                values[Head(*attention, head)] = gate
    return values
