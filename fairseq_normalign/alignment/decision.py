"""What an aligner decides or learns without gold, and the file that keeps it (``--learned``)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fairseq_normalign.alignment.evidence import LEARNED, NONE, Weighted
from fairseq_normalign.alignment.learned import LearnedLinks
from fairseq_normalign.attention.soft import Evidence
from fairseq_normalign.errors import InputError
from fairseq_normalign.runs.folder import DAMAGE
from fairseq_normalign.strict_json import parse_json

KIND = "normalign-learned"
VERSION = 2


class Decision(NamedTuple):
    """Where links come from: chosen or learned on some pairs, or named by options."""

    combine: str  # how evidences become one soft alignment; none: there is one
    evidences: Sequence[Weighted]  # those of the reverse model last
    model: LearnedLinks | None = None
    pairs: int = 0  # that it was decided on
    agreement: float | None = None  # of source and target words of these pairs, above chance

    @property
    def evidence(self) -> Evidence:
        """The first evidence: of one model, layer and step, it is the only one."""
        return self.evidences[0].evidence

    def summary(self) -> str:
        """What was decided on which pairs, in a line."""
        what = {LEARNED: "weights learned", NONE: "layer and step chosen"}.get(self.combine)
        text = f"{what or f'layers of {self.combine} chosen'} on {self.pairs} pairs without gold"
        if self.agreement is not None:
            text += f"; agreement of source and target words {self.agreement:.2f} (chance 0, all 1)"
        return text

    def as_json(self) -> dict[str, Any]:
        """To the last bit."""
        evidences = [[*evidence, reverse, weight] for evidence, reverse, weight in self.evidences]
        model = self.model and self.model.as_json()
        return {**self._asdict(), "evidences": evidences, "model": model}

    @classmethod
    def from_json(cls, contents: Mapping[str, Any]) -> Decision:
        """Reads what :meth:`as_json` has made."""
        evidences = []
        for method, layer, step, head, reverse, weight in contents["evidences"]:
            evidence = Evidence(method, layer, step, head)
            evidences.append(Weighted(evidence, bool(reverse), float(weight)))
        model = contents["model"] and LearnedLinks.from_json(contents["model"])
        weights = [weighted.weight for weighted in evidences]
        if (model is None) == (contents["combine"] == "learned") or not sum(weights) > 0:
            raise ValueError("no model, or no weights")
        return cls(**{**contents, "evidences": evidences, "model": model})


class Learned(NamedTuple):
    """A decision, and what it is bound to: models, and the options that it was learned with."""

    decision: Decision
    models: Sequence[str]  # their fingerprints
    signature: Mapping[str, Any]

    def text(self) -> str:
        """What the file holds."""
        contents = {"kind": KIND, "version": VERSION, **self._asdict()}
        contents["decision"] = self.decision.as_json()
        return json.dumps(contents, allow_nan=False) + "\n"


def read_learned(path: str | Path) -> Learned:
    """Reads a learned file. Nothing in it is run."""
    try:
        contents = parse_json(Path(path).read_text(encoding="utf-8"))
        if (contents["kind"], contents["version"]) != (KIND, VERSION):
            raise ValueError("another file, or of another version")
        decision = Decision.from_json(contents["decision"])
        return Learned(decision, list(contents["models"]), dict(contents["signature"]))
    except FileNotFoundError:
        raise InputError(
            f"{path}: no such file; normalign align … --learned {path} makes it"
        ) from None
    except DAMAGE:
        raise InputError(
            f"{path}: not a file of normalign align --learned, or a damaged one; name another file"
        ) from None
