"""What an aligner decides or learns without gold, and the file that keeps it (``--learned``)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from fairseq_normalign.alignment.evidence import LEARNED, NONE
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
    evidences: Sequence[Evidence]  # those of the reverse model last
    model: LearnedLinks | None = None
    pairs: int = 0  # that it was decided on
    agreement: float | None = None  # of source and target words of these pairs, above chance

    @property
    def evidence(self) -> Evidence:
        """The first evidence: of one model, layer and step, it is the only one."""
        return self.evidences[0]

    def summary(self) -> str:
        """What was decided on which pairs, in a line."""
        layer = self.evidence.numbers[0] or "all"
        chosen = {
            LEARNED: "weights learned",
            NONE: f"layer {layer}, step {self.evidence.step} chosen",
        }
        what = chosen.get(self.combine, f"layers for the {self.combine} chosen")
        text = f"{what} on {self.pairs} pairs without gold"
        if self.model is not None and self.model.bitext is not None:
            text += f", and a bitext of {self.model.bitext.pairs} pairs"
        if self.agreement is not None:
            text += f"; agreement of source and target words {self.agreement:.2f} (chance 0, all 1)"
        return text

    def as_json(self) -> dict[str, Any]:
        """To the last bit."""
        model = self.model and self.model.as_json()
        return {**self._asdict(), "evidences": list(map(list, self.evidences)), "model": model}

    @classmethod
    def from_json(cls, contents: Mapping[str, Any]) -> Decision:
        """Reads what :meth:`as_json` has made."""
        evidences = []
        for method, layer, step, head, reverse, weight in contents["evidences"]:
            evidences.append(Evidence(method, layer, step, head, bool(reverse), float(weight)))
        model = contents["model"] and LearnedLinks.from_json(contents["model"])
        weights = [evidence.weight for evidence in evidences]
        if (model is None) == (contents["combine"] == "learned") or not sum(weights) > 0:
            raise ValueError("no model, or no weights")
        return cls(**{**contents, "evidences": evidences, "model": model})


def learned_text(decision: Decision, models: Sequence[str], signature: Mapping[str, object]) -> str:
    """What a learned file holds: a decision, and what it is bound to.

    Args:
        models: their fingerprints.
        signature: of the options that it was learned with.
    """
    contents = {"decision": decision.as_json(), "models": models, "signature": signature}
    return json.dumps({"kind": KIND, "version": VERSION, **contents}, allow_nan=False) + "\n"


def read_learned(path: str | Path) -> tuple[Decision, list[str], dict[str, object]]:
    """The decision, models and signature of a learned file. Nothing in it is run."""
    try:
        contents = parse_json(Path(path).read_text(encoding="utf-8"))
        if (contents["kind"], contents["version"]) != (KIND, VERSION):
            raise ValueError("another file, or of another version")
        decision = Decision.from_json(contents["decision"])
        return decision, list(contents["models"]), dict(contents["signature"])
    except FileNotFoundError:
        raise InputError(
            f"{path}: no such file; normalign align … --learned {path} makes it"
        ) from None
    except DAMAGE:
        raise InputError(
            f"{path}: not a file of normalign align --learned, or a damaged one; name another file"
        ) from None
