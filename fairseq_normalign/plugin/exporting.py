"""``--export-attention``: what attentions did on the sentences of a command of fairseq's own.

fairseq tells a task what sentences will come, when it asks for batches of them, but not when it is
done: the file appears as soon as it has them all.
"""

import atexit
import contextlib
import logging
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
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
from fairseq_normalign.results.export import Writer, create_export
from fairseq_normalign.version import __version__

logger = logging.getLogger(__name__)

MAX_TOKENS = 4000  # of a batch that is run once more, padding included


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

    The file is written beside and appears when it is complete; if the command fails, nothing stays.
    """

    def __init__(self, task: Any, epochs: EpochBatchIterator):
        self.task, self.cfg, self.path = task, task.cfg, task.cfg.export_attention
        self.shards = epochs.num_shards
        names = [name for name, dataset in task.datasets.items() if dataset is epochs.dataset]
        self.subset = names[0] if names else None
        batches = list(islice(epochs.frozen_batches, epochs.shard_id, None, self.shards))
        # As fairseq numbers them: their places in the corpus, of which some may be skipped.
        self.sentences = np.sort(np.concatenate(batches)) if batches else np.array([], int)
        self.targets, self.nbest = "references", 1
        self._opened = contextlib.ExitStack()
        self._generator: Any = None
        self._arrays: Arrays | None = None
        self._writer: Writer

    def follow(self, generator: Any, models: Sequence[Any], options: Any) -> None:
        """Exports what this generator finds, and no other, as that of --eval-bleu."""
        if len(models) > 1:
            raise InputError("--export-attention works with one model; --path names several")
        self._generator = generator
        if not getattr(options, "score_reference", False):
            self.targets, self.nbest = "hypotheses", min(options.nbest, options.beam)

    def add_hypotheses(
        self, generator: Any, models: Sequence[Any], sample: dict, beams: Sequence[Sequence[dict]]
    ) -> None:
        """Writes what the attention did on the hypotheses that fairseq prints."""
        if generator is self._generator:
            targets = []
            for beam in beams:
                targets.append([hypothesis["tokens"].cpu() for hypothesis in beam[: self.nbest]])
            self._add(models[0], sample, targets)

    def add_references(self, model: Any, sample: dict) -> None:
        """Writes what the attention did on the references of a batch."""
        if self.shards > 1:
            raise InputError("--export-attention needs --distributed-world-size 1")
        references = unpadded(sample["target"], self.task.target_dictionary.pad())
        self._add(model, sample, [[reference] for reference in references])

    def _open(self, model: Any) -> Arrays:
        """Starts the file, or refuses what cannot be exported."""
        self.reader = PairReader(self.task)
        arrays = Arrays(
            TeacherForcing(model, self.task, attention=str(self.cfg.export_kind)),
            str(self.cfg.export_quantity),
            layers=_numbers("--export-layers", self.cfg.export_layers),
        )
        checkpoint = stated(sys.argv[1:], "--path").path  # which fairseq does not tell its tasks
        data, *_ = split_paths(self.cfg.data)
        refuse_unwritable(self.path, checkpoint, *Path(data).glob("*"))
        metadata = {
            **arrays.description(),
            "targets": self.targets,
            "subset": self.subset,
            "sentence_ids": np.repeat(self.sentences, self.nbest).tolist(),
            "checkpoint": checkpoint and Path(checkpoint).name,
            "command": shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]]),
            "version": __version__,
        }
        self._writer = self._opened.enter_context(create_export(self.path, metadata))
        atexit.register(self.discard)
        return arrays

    def _add(self, model: Any, sample: dict, targets: Sequence[Sequence[Tensor]]) -> None:
        """Writes some targets of each sentence of a batch. A failure removes the file."""
        arrays_of = self._arrays = self._arrays or self._open(model)
        places: list[int] = []
        pairs = []
        sources = unpadded(sample["net_input"]["src_tokens"], self.task.source_dictionary.pad())
        for sentence, source, beam in zip(sample["id"].tolist(), sources, targets, strict=True):
            first = int(np.searchsorted(self.sentences, sentence)) * self.nbest
            places += range(first, first + len(beam))
            for target in beam:
                pairs.append(self.reader.binarised_pair(source, target, f"S-{sentence}"))
        with contextlib.ExitStack() as on_failure:
            on_failure.callback(atexit.unregister, self.discard)
            on_failure.push(self._opened)  # which also says what is wrong with the disk
            arrays = map_batches(pairs, arrays_of, max_tokens=MAX_TOKENS)
            for place, pair, array in zip(places, pairs, arrays, strict=True):
                self._writer.add(place, array, *arrays_of.tokens(pair, self.reader))
            on_failure.pop_all()
        if self._writer.sentences == self.expected:
            self._opened.close()
            atexit.unregister(self.discard)
            logger.info(f"{self.path}: {self.expected} sentences")

    @property
    def expected(self) -> int:
        """How many sentences the file has when it is complete."""
        return len(self.sentences) * self.nbest

    def discard(self) -> None:
        """Removes what was written by a command that ends before the file is complete."""
        done = self._writer.sentences
        logger.warning(f"{self.path}: not written, as {done} of {self.expected} sentences came")
        with contextlib.suppress(EOFError), self._opened:
            raise EOFError


def unpadded(sentences: Tensor, pad: int) -> list[Tensor]:
    """The sentences of a batch (B, T) without padding."""
    return [tokens[tokens.ne(pad)] for tokens in sentences.cpu()]


def _numbers(option: str, text: str) -> list[int] | None:
    """``5,6`` → numbers; None if there is no text."""
    try:
        return [int(word) for word in text.split(",")] if text else None
    except ValueError:
        raise InputError(f"{option} {text}: expected numbers from 1 with commas between") from None
