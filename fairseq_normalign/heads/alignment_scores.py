"""How well each head of the source–target attention aligns by itself."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from fairseq_normalign.alignment.aer import Counts, count
from fairseq_normalign.alignment.aligner import AlignOptions, DecidedAligner, NormAligner
from fairseq_normalign.alignment.link_doctor import warn_of_misread_gold
from fairseq_normalign.attention.methods import check_head_method, full_spec, method_of
from fairseq_normalign.attention.soft import Evidence
from fairseq_normalign.errors import InputError
from fairseq_normalign.heads.attention_pass import Tally
from fairseq_normalign.heads.profile import Finding
from fairseq_normalign.heads.profiling import HeadMeasure, Items, Known, Pairs
from fairseq_normalign.host.raw_corpus import ChunkReader
from fairseq_normalign.names import Head, as_lists
from fairseq_normalign.results.blocks import Note, Table
from fairseq_normalign.runs.chunks import Chunk
from fairseq_normalign.text.links import GoldFile

SAMPLE = 200  # pairs that tell whether the gold is read right


class ErrorRates(HeadMeasure):
    """AER of each head, and the step that gave it: the better one.

    Links are taken from the method, ‖αf(x)‖ by default, by the argmax of each target word; none if
    </s> has more.
    """

    pairs_per_chunk = 100  # whose matrices are held
    first_pairs = SAMPLE

    def items(self, models: ChunkReader, items: Items) -> Items:
        gold, file = self.options.gold, self.options.gold_file
        if gold is None:
            raise InputError("AER needs gold links; pass --gold FILE")
        if len(gold) != len(items):
            raise InputError(
                f"line counts differ: {'the gold' if file is None else file.name} has {len(gold)}, "
                f"the corpus has {len(items)} lines; each needs one line per sentence pair"
            )
        return items

    def prepared(self, models: ChunkReader, first: Chunk) -> Known:
        options, file = self.options, self.options.gold_file
        check_head_method(options.method)
        steps = list(method_of(options.method).steps)
        settings: dict[str, Any] = {
            "method": full_spec(options.method),
            "step": steps[0] if len(steps) == 1 else "best",
            "extract": "argmax",
        }
        if file is not None:
            settings |= {"gold": Path(file.name).name, **file.read_as()}
            if models.forcing.layers_with_heads():
                self._check_gold(models, first, file)
        return {"steps": steps, "settings": settings}

    def _check_gold(self, models: ChunkReader, first: Chunk, file: GoldFile) -> None:
        """Says if the gold looks misread.

        Links of single heads may look absurd. Those of the layer that is chosen without gold should
        not.
        """
        pairs, golds = [], []
        for pair, gold in zip(models.pairs(first)[0], self.options.gold or (), strict=False):
            if not pair.skipped:
                pairs.append(pair)
                golds.append(gold)
        aligner = self._aligner(models)
        decided = DecidedAligner(aligner, aligner.decision_by(pairs))
        warn_of_misread_gold(list(map(set, decided.links_many(pairs))), golds, file)

    def _aligner(self, models: ChunkReader) -> NormAligner:
        options = AlignOptions(method=self.options.method, batch_tokens=self.options.max_tokens)
        return NormAligner(models.forcing, models.reader, options)

    def add(self, tally: Tally, models: ChunkReader, pairs: Pairs) -> None:
        gold = self.options.gold
        assert gold is not None  # see items
        evidences = []
        for head, step in _places(tally):
            evidences.append(Evidence(self.options.method, head.layer, step, head.head))
        if not evidences:
            return
        aligner = self._aligner(models)
        softs = aligner.evidences_many(pairs.values(), evidences)
        for line, of_pair in zip(pairs, softs, strict=True):
            links = [set(aligner.links(soft)) for soft in of_pair]
            tally.join("counts.sum", [count(of_place, gold[line]) for of_place in links])

    def finding(self, tally: Tally) -> Finding:
        counts = tally.arrays.get("counts.sum", np.zeros((0, 0))).tolist()
        best: dict[Head, tuple[float, str]] = {}
        for (head, step), total in zip(_places(tally), counts, strict=True):
            best[head] = min(best.get(head, (1.0, step)), (Counts(*total).aer, step))
        aers = {head: aer for head, (aer, _) in best.items()}
        steps = [[str(head), step] for head, (_, step) in best.items()]
        table = Table(["head", "step of its AER"], steps, name="steps", hidden=True)
        ranked = sorted(aers, key=lambda head: aers[head])
        note = Note(f"Source–target heads by AER: {' '.join(map(str, ranked))}")
        columns = ["layer from 0", "head from 0"]
        numbers = Table(columns, as_lists(ranked), name="by AER", hidden=True)
        return Finding(aers, tally.known["settings"], blocks=[table, note, numbers])


def _places(tally: Tally) -> list[tuple[Head, str]]:
    """Heads, which have the names that evidences have, and steps."""
    return list(product(tally.of_kind("cross"), tally.known["steps"]))
