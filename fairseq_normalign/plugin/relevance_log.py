"""Relevance of all gated heads while gates close, for ``--log-relevance``."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import torch
from fairseq.distributed.utils import get_global_rank

from fairseq_normalign.attention.lrp_rules import rule_set
from fairseq_normalign.attention.pair_relevance import relevances
from fairseq_normalign.errors import InputError
from fairseq_normalign.files import whole_file
from fairseq_normalign.heads.attention_pass import Tally
from fairseq_normalign.heads.relevance_log import Entry, GatedHead, as_line, read_log, summary
from fairseq_normalign.host.attention_modules import (
    FairseqModule,
    attentions,
    head_names,
    head_numbers,
)
from fairseq_normalign.host.pairs import Pair, PairReader
from fairseq_normalign.host.teacher_forcing import TeacherForcing
from fairseq_normalign.names import Head
from fairseq_normalign.plugin.gating import gates

logger = logging.getLogger(__name__)

NAME = "relevance.jsonl"  # in --save-dir
RULES = "voita"


class RelevanceLog:
    """Writes a line at the start of a training and at each of its validations.

    Sentences are the first ones of the validation set that the model takes, the same ones every
    time, however they are batched. Relevance is pooled: all predictions of a sentence are explained
    together. With several workers, the first one does it. A line needs no gradients and no random
    numbers, so that the training goes on as it would without.

    A training that is resumed goes on with its file: lines of updates that it did not keep are
    replaced.
    """

    def __init__(self, task: Any, sentences: int, save_dir: str, subset: str):
        self.task, self.sentences, self.subset = task, sentences, subset
        self.path = Path(save_dir, NAME)
        self.entries: list[Entry] | None = None  # None before the training has begun
        self.pairs: list[Pair] | None = None  # read once
        self.last: int | None = None  # updates of the last line, or of the last try

    def start(self, model: FairseqModule, updates: int) -> None:
        """Takes up the file of the training, and writes what is known before its first update."""
        if self.entries is not None:
            return
        earlier = read_log(self.path) if self.path.is_file() else []
        dropped = sum(entry.updates > updates for entry in earlier)
        if dropped:
            logger.warning(
                f"{self.path}: replacing {dropped} lines of a training that went on after "
                f"{updates} updates"
            )
        # The line of just these updates is written again, from the model that is at hand.
        self.entries = [entry for entry in earlier if entry.updates < updates]
        self.add(model, updates)

    def add(self, model: FairseqModule, updates: int) -> None:
        """Writes a line, once for these updates, and if a training has begun."""
        if self.entries is None or get_global_rank() != 0 or updates == self.last:
            return
        self.last = updates
        try:
            entry = self.entry(model, updates)
        except InputError as error:  # a training that diverges goes on, as it does without
            if not self.entries:
                raise
            logger.warning(f"no relevance of gated heads at {updates} updates: {error}")
            return
        if self.entries and entry.heads.keys() != self.entries[0].heads.keys():
            raise InputError(f"{self.path}: other heads are gated now; use another --save-dir")
        self.entries.append(entry)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(self.path) as file:
            file.writelines(f"{as_line(entry)}\n" for entry in self.entries)
        logger.info(summary(self.entries))

    def entry(self, model: FairseqModule, updates: int) -> Entry:
        """Gates and relevance of all gated heads now."""
        forcing = TeacherForcing(model, self.task)
        if self.pairs is None:
            self.pairs = self._read_pairs(forcing)
        # The share of each head in its layer's relevance, pooled, mean over sentences.
        tally = Tally({"heads": head_names(model)})
        device = next(model.parameters()).device
        with torch.autocast(device.type, enabled=False):  # --amp halves only what the loss needs
            for of_pair in relevances(forcing, self.pairs, rules=RULES, pooled=True):
                for attention, shares in of_pair.heads.items():  # (1, H)
                    tally.add_cases("relevance", attention, shares.T)
        relevance = tally.means("relevance")
        heads = {}
        for name, projection in gates(model).items():
            numbers = head_numbers(attentions(model)[name])
            values = projection.gate_values().tolist()
            chances = projection.open_probabilities().tolist()
            for number, gate, chance in zip(numbers, values, chances, strict=True):
                head = Head(*name, number)
                heads[head] = GatedHead(gate, chance, relevance[head])
        return Entry(updates, len(self.pairs), f"{rule_set(RULES).spec}-pooled", heads)

    def _read_pairs(self, forcing: TeacherForcing) -> list[Pair]:
        dataset = self.task.datasets.get(self.subset)
        if not dataset:
            raise InputError(
                f"--log-relevance needs a validation set; there is no {self.subset}, or "
                "--disable-validation is given"
            )
        reader = PairReader(self.task)
        pad = reader.source.dictionary.pad()  # there with --num-batch-buckets
        pairs: list[Pair] = []
        for number in range(len(dataset)):
            source, target = (dataset[number][side] for side in ("source", "target"))
            where = f"validation sentence {number + 1}"
            pair = reader.binarised_pair(source[source.ne(pad)], target[target.ne(pad)], where)
            if forcing.takes(pair):
                pairs.append(pair)
            if len(pairs) == self.sentences:
                break
        return pairs
