"""What links are taken from, and how: the options of aligners, and evidences by name.

Imports no PyTorch: ``--help`` reads it.
"""

from __future__ import annotations

import re
from argparse import Namespace
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import TYPE_CHECKING

from fairseq_normalign.alignment.combine import MEANS
from fairseq_normalign.attention.extract import MERGES, PIECE_ARGMAX, RULES, check_extract
from fairseq_normalign.attention.methods import A_FILE, METHODS, SHIFT_ATT, method_of
from fairseq_normalign.attention.soft import EOS, STEPS, SUM_AND_MEAN, Evidence
from fairseq_normalign.errors import InputError
from fairseq_normalign.options import layer as layer_number
from fairseq_normalign.options import option
from fairseq_normalign.text.links import LinkFile

if TYPE_CHECKING:
    from fairseq_normalign.host.teacher_forcing import TeacherForcing

AUTO = "auto"
NONE = "none"
LEARNED = "learned"
COMBINATIONS = (AUTO, LEARNED, *MEANS)  # of many evidences
LINKS = re.compile(r"(?P<reverse>reverse:)?links:(?P<path>.+)")
OF_FILES = "|".join(name for name, method in METHODS.items() if method.default == A_FILE)
PARTS = re.compile(
    r"(?P<reverse>reverse:)?"
    rf"(?P<method>({OF_FILES}):.+|[a-z0-9-]+(:[0-9.e+-]+?)?)"
    r"(\.(?P<layer>[1-9][0-9]{0,3})(\.(?P<head>[1-9][0-9]{0,3}))?)?"
    r"\.(?P<step>input|output)"
    r"(\*(?P<weight>[0-9]{1,9}(\.[0-9]{1,9})?))?"
)
FORM = "[reverse:]METHOD[.LAYER[.HEAD]].input|output[*WEIGHT] or [reverse:]links:FILE"


choice = partial(option, group="alignment")


@dataclass(frozen=True)
class AlignOptions:
    """The options that change the links of one model.

    Args:
        method: a name in ``methods.METHODS``, perhaps with a number, as in ``lrp-epsilon:0.001``.
        layer: decoder layer, from 1; ``auto`` decides without gold (see ``layer_choice``).
        head: head of that layer, from 1 as in the model that no head was removed from; all of them
            by default.
        step: ``input`` takes a target word's alignment where the decoder reads it, ``output`` where
            it predicts it; ``auto`` decides without gold.
        eos: ``null``: a target word that takes most from the source's </s> gets no link; ``skip``:
            </s> is left out.
        extract: how links are taken from the soft alignment: a name in
            ``attention.extract.EXTRACTORS``, perhaps with a number, as in ``threshold:0.3``; or
            ``piece-argmax``, which links pieces, and words any of whose pieces are linked. By
            default the method's own rule, which is ``argmax`` of most methods.
        source_merge: how source pieces become words: ``sum``, ``mean`` or ``max``.
        target_merge: the same of target pieces.
        batch_tokens: how many tokens, padding included, are run at once; changes only the speed.
    """

    method: str = choice("norms", f"NAME  what is compared: {', '.join(METHODS)}")
    layer: int | str = choice(AUTO, "N  decoder layer, from 1, or auto", layer_number)
    head: int | None = choice(
        None,
        "N  one head of the layer, from 1; a pruned model's have the numbers that they had in the "
        "full one (default: all)",
    )
    step: str = choice(
        AUTO,
        f"{'|'.join(STEPS)}|{AUTO}  take a word's alignment where the decoder reads it or where it "
        "predicts it",
    )
    eos: str = choice(
        "null",
        f"{'|'.join(EOS)}  null: a word that takes most from </s> gets no link; skip: </s> is left "
        "out",
    )
    extract: str | None = choice(
        None,
        f"NAME  how links are chosen: {', '.join(RULES)}; threshold:0.3 and relative:0.6 take a "
        "number (default: argmax; piece-argmax of shift-att; absolute with --combine learned, "
        f"relative with {', '.join(MEANS)})",
    )
    source_merge: str = choice("sum", f"{'|'.join(MERGES)}  source pieces to words")
    target_merge: str = choice("mean", f"{'|'.join(MERGES)}  target pieces to words")
    batch_tokens: int = 4000

    def __post_init__(self) -> None:
        method = method_of(self.method)
        for own in fields(self):
            choices = own.metadata.get("argument", {}).get("choices")
            value = getattr(self, own.name)
            if choices and value not in choices:
                raise InputError(
                    f"unknown {own.name} {value!r}; expected one of: {', '.join(choices)}"
                )
        check_extract(self.rule_of(self.method))
        if self.rule_of(self.method) == PIECE_ARGMAX and self.merges != SUM_AND_MEAN:
            raise InputError(
                f"extract {PIECE_ARGMAX} links pieces before they are merged; expected no "
                f"source_merge or target_merge with it, not {self.merges}"
            )
        has_layer = method.layers or self.layer != AUTO or self.head is not None
        check_place(self.method, has_layer, method.steps[0] if self.step == AUTO else self.step)
        if self.layer == AUTO and self.head is not None:
            raise InputError(f"head {self.head}: name its layer as well (--layer N)")

    @property
    def merges(self) -> str:
        return f"{self.source_merge}+{self.target_merge}"

    @property
    def null(self) -> bool:
        """Whether </s> may win, and then there is no link."""
        return self.eos == "null"

    def rule_of(self, method: str) -> str:
        """How links of a method are taken: in its own way, if none is named."""
        return method_of(method).extract if self.extract is None else self.extract

    def extraction(self, method: str | None = None) -> dict[str, str]:
        """How soft alignments, perhaps of another method, become links, as in signatures."""
        method = method or self.method
        rule = self.rule_of(method)
        return {
            "eos": self.eos if method_of(method).eos else "skip",
            "merge": "none" if rule == PIECE_ARGMAX else self.merges,
            "extract": rule,
        }


def check_place(name: str, has_layer: bool, step: str) -> None:
    """Refuses a layer, or a step, that a method cannot have."""
    method = method_of(name)
    if has_layer and not method.layers:
        raise InputError(
            f"method {name} explains the whole model; expected no layer with it, and no head"
        )
    if method.layers and not has_layer:
        raise InputError(
            f"method {name} is of one layer; expected its number, as in {name}.1.input"
        )
    if step not in method.steps:
        raise InputError(
            f"method {name} cannot answer for step {step}; expected step "
            f"{' or '.join(method.steps)}"
        )


def combination_of(
    combine: str,
    options: AlignOptions | Namespace,
    reverse: str | None = None,
    evidence: Sequence[str] | None = None,
) -> str:
    """How evidences are combined, given what else is named; refuses what does not go together.

    ``auto`` stays so where there is something to combine: two models, two steps of one model, or
    evidences by name.
    """
    places = {"--layer": options.layer, "--head": options.head, "--step": options.step}
    named = [name for name, value in places.items() if value not in (AUTO, None)]
    both = reverse is not None and options.method != SHIFT_ATT
    if combine == AUTO:
        is_known = options.method.partition(":")[0] in METHODS  # or another plugin may have it
        steps = method_of(options.method).steps if is_known else STEPS
        has_views = both or evidence or len(steps) > 1
        combine = NONE if named or options.method == SHIFT_ATT or not has_views else AUTO
    if combine == NONE and (evidence or both):
        several = "--evidence" if evidence else "--reverse-path"
        single = (*named, "--combine none")[0]
        raise InputError(
            f"{single} aligns by one layer and step of one model; it cannot be used with {several}"
        )
    if combine != NONE and named:
        raise InputError(
            f"--combine {combine} takes all layers and both steps; it cannot be used with "
            f"{named[0]}: name layers by --evidence"
        )
    return combine


def every_evidence(model: TeacherForcing, methods: Iterable[str], *, heads: bool) -> list[Evidence]:
    """By method, layer, head and step: whole layers, and single heads if asked for."""
    evidences = []
    for name in methods:
        method = method_of(name)
        layers: list[int | None] = [*model.layers_with_heads()] if method.layers else [None]
        for number in layers:
            places: list[int | None] = [None]
            if heads and method.heads and number is not None:
                places += model.head_numbers[number]
            for head in places:
                evidences += [Evidence(name, number, step, head) for step in method.steps]
    return evidences


def parse_evidences(texts: Sequence[str]) -> tuple[list[Evidence], list[LinkFile]]:
    """Evidences of models, and files of links."""
    evidences, files = [], []
    for text in texts:
        parts = LINKS.fullmatch(text)
        if parts is None:
            evidences.append(parse_evidence(text))
        else:
            files.append(LinkFile(parts["path"], reverse=parts["reverse"] is not None))
    return evidences, files


def parse_evidence(text: str) -> Evidence:
    """``norms.1.input`` or ``reverse:norms.3.2.output*0.5`` → an evidence; numbers count from 1."""
    parts = PARTS.fullmatch(text)
    if parts is None or parts["method"].partition(":")[0] not in METHODS:
        raise InputError(
            f"bad evidence {text!r}; expected {FORM} with METHOD one of: {', '.join(METHODS)}"
        )
    check_place(parts["method"], parts["layer"] is not None, parts["step"])
    number, head = (
        None if part is None else int(part) - 1 for part in parts.group("layer", "head")
    )
    reverse, weight = parts["reverse"] is not None, float(parts["weight"] or 1)
    return Evidence(parts["method"], number, parts["step"], head, reverse, weight)
