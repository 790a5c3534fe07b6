"""How well each head of the source–target attention aligns by itself."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

from fairseq_normalign.alignment.aer import Counts, count
from fairseq_normalign.alignment.aligner import AlignOptions, DecidedAligner, NormAligner
from fairseq_normalign.alignment.link_doctor import warn_of_misread_gold
from fairseq_normalign.attention.extract import PIECE_ARGMAX, links_of
from fairseq_normalign.attention.methods import check_head_method, full_spec, method_of
from fairseq_normalign.attention.soft import Evidence
from fairseq_normalign.attention.soft_alignments import soft_alignments
from fairseq_normalign.errors import InputError
from fairseq_normalign.heads.attention_pass import running_heads
from fairseq_normalign.heads.profile import Finding
from fairseq_normalign.heads.profiling import Survey
from fairseq_normalign.host.batches import map_batches, text_of_batch
from fairseq_normalign.names import Head, all_heads
from fairseq_normalign.progress import bar
from fairseq_normalign.runs.chunks import cut
from fairseq_normalign.text.links import (
    Gold,
    GoldFile,
    InMemory,
    Link,
    read_together,
)

SAMPLE = 200  # pairs that tell whether the gold is read right
WINDOW = 100  # pairs sorted by length at a time: their matrices are held


def error_rates(survey: Survey) -> Finding:
    """AER of each head, and the step that gave it: the better one, if several are asked for.

    Links are taken from the method, ‖αf(x)‖ by default, by the argmax of each target word unless
    the options name another rule; none if </s> has more.
    """
    gold = survey.options.gold
    if gold is None:
        raise InputError("AER needs gold links; expected them with the pairs")
    check_head_method(survey.options.method)
    heads = all_heads(running_heads(survey.forcing))
    of_cross = [head for head in heads if head.kind == "cross"]
    steps_asked = _steps(survey)
    places = list(product(of_cross, steps_asked))
    best: dict[Head, tuple[float, str]] = {}
    for (head, step), total in zip(places, _totals(survey, places, gold), strict=True):
        best[head] = min(best.get(head, (1.0, step)), (total.aer, step))
    aers = {head: aer for head, (aer, _) in best.items()}
    steps = {head: step for head, (_, step) in best.items()}
    only = steps_asked[0] if len(steps_asked) == 1 else "best"
    settings: dict[str, Any] = {
        "method": full_spec(survey.options.method),
        "step": only,
        "extract": survey.options.extract,
    }
    file = survey.options.gold_file
    if file is not None:
        settings |= {"gold": Path(file.name).name, **file.read_as()}
        _check_gold(survey, gold, file)
    return Finding(aers, details={"steps": steps}, settings=settings)


def _check_gold(survey: Survey, gold: Sequence[Gold], file: GoldFile) -> None:
    """Says if the gold looks misread.

    Links of single heads may look absurd. Those of the layer that is chosen without gold should
    not.
    """
    if not survey.forcing.layers_with_heads():
        return
    options = AlignOptions(method=survey.options.method, batch_tokens=survey.options.max_tokens)
    aligner = NormAligner(survey.forcing, survey.reader, options)
    pairs = survey.pairs[:SAMPLE]
    decided = DecidedAligner(aligner, *aligner.decision_by(aligner.choice(pairs)))
    links = [set(of_pair) for of_pair in decided.links_many(pairs)]
    warn_of_misread_gold(links, gold[:SAMPLE], file)


def _steps(survey: Survey) -> list[str]:
    """The steps that are asked for, as far as the method can answer for them."""
    method, step = survey.options.method, survey.options.step
    answered = method_of(method).steps
    if step is None:
        return list(answered)
    if step not in answered:
        raise InputError(
            f"method {method} cannot answer for step {step}; expected step {' or '.join(answered)}"
        )
    return [step]


def _totals(
    survey: Survey, places: Sequence[tuple[Head, str]], gold: Sequence[Gold]
) -> list[Counts]:
    """Counts of links for each head and step, over all pairs."""
    options = survey.options
    numbers = survey.forcing.head_numbers  # heads are counted as they are in the model here
    evidences = []
    for head, step in places:
        number = numbers[head.layer][head.head]
        evidences.append(Evidence(options.method, head.layer, step, number))
    tally = LinkTally(len(evidences))
    if not evidences:
        return tally.totals
    by_pieces = evidences if options.extract == PIECE_ARGMAX else ()
    run = partial(soft_alignments, survey.forcing, evidences=evidences, keep_pieces=by_pieces)
    name = "the gold" if options.gold_file is None else options.gold_file.name
    golds = InMemory(name, gold)
    both = read_together(golds, InMemory("the corpus", survey.pairs))
    windows = (window.items for window in cut(both, WINDOW))
    this_pass = survey.sums.begin("AER", [tally])
    with bar("AER of heads", total=this_pass.left(len(survey.pairs))) as shown:
        for window in this_pass.over(windows, text=text_of_batch, size=len):
            pairs = [pair for _, pair in window]
            softs = map_batches(pairs, run, max_tokens=options.max_tokens)
            for (of_gold, _), of_pair in zip(window, softs, strict=True):
                tally.add([set(links_of(soft, options.extract)) for soft in of_pair], of_gold)
                shown.update()
    return tally.totals


class LinkTally:
    """Counts of links for each of some alignments, as pairs come."""

    KEPT = ("totals",)

    def __init__(self, alignments: int):
        self.totals = [Counts()] * alignments

    def add(self, links: Sequence[set[Link]], gold: Gold) -> None:
        """Adds a pair: what each alignment has of it, and its gold."""
        of_pair = [count(of_alignment, gold) for of_alignment in links]
        self.totals = [total + more for total, more in zip(self.totals, of_pair, strict=True)]
