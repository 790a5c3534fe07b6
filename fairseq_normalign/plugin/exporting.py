"""``--export-attention``: what attentions did on the sentences of a command of fairseq's own.

fairseq tells a task what sentences will come, when it asks for batches of them, but not when it is
done: the export is made as soon as all of them have come.
"""

import logging
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from fairseq.data.iterators import EpochBatchIterator
from fairseq.dataclass import ChoiceEnum, FairseqDataclass
from fairseq.utils import split_paths
from torch import Tensor

from fairseq_normalign.attention.arrays import Arrays
from fairseq_normalign.attention.quantities import QUANTITIES
from fairseq_normalign.errors import InputError
from fairseq_normalign.files import refuse_unwritable
from fairseq_normalign.host.batches import map_batches
from fairseq_normalign.host.options import stated
from fairseq_normalign.host.pairs import PairReader
from fairseq_normalign.host.teacher_forcing import TeacherForcing
from fairseq_normalign.names import KINDS
from fairseq_normalign.options import option
from fairseq_normalign.results.export import create_export
from fairseq_normalign.version import __version__

logger = logging.getLogger(__name__)

MAX_TOKENS = 4000  # of a batch that is run once more, padding included
WINDOW = 100  # sentences whose arrays are in memory


@dataclass  # no postponed annotations in this file: fairseq reads the types of these fields
class ExportConfig(FairseqDataclass):
    export_attention: str = option(
        "", "write what the attention did on the hypotheses or references to this .npz file"
    )
    export_kind: ChoiceEnum(list(KINDS)) = option(  # type: ignore[valid-type]
        "cross", "which attention to export"
    )
    export_quantity: ChoiceEnum(list(QUANTITIES)) = option(  # type: ignore[valid-type]
        "norms", "what to export"
    )
    export_layers: str = option("", "layers to export, from 1, as in 5,6 (default: all)")


class AttentionExport:
    """An export of all sentences that a command goes through, in the order of the corpus.

    It is made when the last of them has come; if the command fails before, no file appears.
    """

    def __init__(self, task: Any, epochs: EpochBatchIterator):
        self.task, self.cfg, self.path = task, task.cfg, task.cfg.export_attention
        self.shards = epochs.num_shards
        names = [name for name, dataset in task.datasets.items() if dataset is epochs.dataset]
        self.subset = names[0] if names else None
        batches = islice(epochs.frozen_batches, epochs.shard_id, None, self.shards)
        self.expected = sum(map(len, batches))
        # Source and targets by the numbers that fairseq gives sentences: places in the corpus.
        self.found: dict[int, tuple[Tensor, Sequence[Tensor]]] = {}
        self._generator: Any = None
        self._nbest = 1
        self._arrays: Arrays

    def follow(self, generator: Any, models: Sequence[Any], options: Any) -> None:
        """Exports what this generator finds, and no other, as that of --eval-bleu."""
        if len(models) > 1:
            raise InputError("--export-attention works with one model; --path names several")
        self._generator, self._nbest = generator, options.nbest
        is_forced = getattr(options, "score_reference", False)
        self._start(models[0], "references" if is_forced else "hypotheses")

    def add_hypotheses(self, generator: Any, sample: dict, beams: Sequence[Sequence[dict]]) -> None:
        """Takes the hypotheses that fairseq prints."""
        if generator is self._generator:
            targets = []
            for beam in beams:
                targets.append([found["tokens"].cpu() for found in beam[: self._nbest]])
            self._add(sample, targets)

    def add_references(self, model: Any, sample: dict) -> None:
        """Takes the references of a batch."""
        if self.shards > 1:
            raise InputError("--export-attention needs --distributed-world-size 1")
        if not self.found:
            self._start(model, "references")
        references = unpadded(sample["target"], self.task.target_dictionary.pad())
        self._add(sample, [[reference] for reference in references])

    def _start(self, model: Any, targets: str) -> None:
        """Refuses what cannot be exported, before anything is translated."""
        self._arrays = Arrays(
            TeacherForcing(model, self.task, attention=str(self.cfg.export_kind)),
            str(self.cfg.export_quantity),
            layers=_numbers("--export-layers", self.cfg.export_layers),
        )
        checkpoint = stated(sys.argv[1:], "--path").path  # which fairseq does not tell its tasks
        data, *_ = split_paths(self.cfg.data)
        refuse_unwritable(self.path, checkpoint, *Path(data).glob("*"))
        self.metadata = {
            **self._arrays.description(),
            "targets": targets,
            "subset": self.subset,
            "checkpoint": checkpoint and Path(checkpoint).name,
            "command": shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]]),
            "version": __version__,
        }

    def _add(self, sample: dict, targets: Sequence[Sequence[Tensor]]) -> None:
        """Takes some targets of each sentence of a batch."""
        sources = unpadded(sample["net_input"]["src_tokens"], self.task.source_dictionary.pad())
        for sentence, source, beam in zip(sample["id"].tolist(), sources, targets, strict=True):
            self.found[sentence] = source, beam
        if len(self.found) == self.expected:
            self._write()

    def _write(self) -> None:
        """Writes what the attention does on all that was found."""
        reader = PairReader(self.task)
        ids, pairs = [], []
        for sentence, (source, beam) in sorted(self.found.items()):
            for target in beam:
                ids.append(sentence)
                pairs.append(reader.binarised_pair(source, target, f"S-{sentence}"))
        arrays = map_batches(pairs, self._arrays, max_tokens=MAX_TOKENS, window=WINDOW)
        with create_export(self.path, {**self.metadata, "sentence_ids": ids}) as writer:
            for place, (pair, array) in enumerate(zip(pairs, arrays, strict=True)):
                writer.add(place, array, *self._arrays.tokens(pair, reader))
        logger.info(f"{self.path}: {len(pairs)} sentences")


def unpadded(sentences: Tensor, pad: int) -> list[Tensor]:
    """The sentences of a batch (B, T) without padding."""
    return [tokens[tokens.ne(pad)] for tokens in sentences.cpu()]


def _numbers(option: str, text: str) -> list[int] | None:
    """``5,6`` → numbers; None if there is no text."""
    try:
        return [int(word) for word in text.split(",")] if text else None
    except ValueError:
        raise InputError(f"{option} {text}: expected numbers from 1 with commas between") from None
