"""The Python API: word alignments from a fairseq checkpoint."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, islice

import numpy as np

from fairseq_normalign.alignment.extract import extractor, row_shares
from fairseq_normalign.alignment.links import Link
from fairseq_normalign.alignment.soft import EOS, STEPS, Evidence, Soft
from fairseq_normalign.analysis.layer_choice import SAMPLE, Choice, choose_layers, decisive_pairs
from fairseq_normalign.analysis.methods import LRP, METHODS, soft_alignments
from fairseq_normalign.errors import InputError
from fairseq_normalign.host.batches import WINDOW, map_batches
from fairseq_normalign.host.checkpoint import load_single
from fairseq_normalign.host.pairs import Pair, PairReader, text_pairs
from fairseq_normalign.host.teacher_forcing import TeacherForcing

AUTO = "auto"


class NormAligner:
    """Aligns words by what a translation Transformer's source–target attention adds up.

    >>> aligner = NormAligner.from_checkpoint("best.pt", data="data-bin", bpe="sentencepiece",
    model="spm.model") >>> aligner.align("das ist ein haus .", "this is a house .") [(0, 0), (1, 1),
    (2, 2), (3, 3), (4, 4)]

    Args:
        method: ``weights`` (α), ``norms`` (‖Σ_h αf(x)‖) or ``head-norms`` (mean of ‖αf(x)‖) of a
            layer; or ``lrp``, ``lrp-epsilon``, ``lrp-attnlrp``: relevance of source words for the
            target word, through all layers.
        layer: decoder layer, from 1; ``auto`` decides without gold (see ``plugin.layers``).
        head: head of that layer, from 1; all of them by default.
        step: ``input`` takes a target word's alignment where the decoder reads it, ``output`` where
            it predicts it; ``auto`` decides without gold.
        eos: ``null``: a target word that takes most from the source's </s> gets no link; ``skip``:
            </s> is left out.
        extract: how links are taken from the soft alignment: a name in
            ``alignment.extract.EXTRACTORS``, perhaps with a number, as in ``threshold:0.3``.
    """

    def __init__(
        self,
        forcing: TeacherForcing,
        reader: PairReader,
        *,
        method: str = "norms",
        layer: int | str = AUTO,
        head: int | None = None,
        step: str = AUTO,
        eos: str = "null",
        extract: str = "argmax",
    ):
        for name, value, choices in (
            ("method", method, (*METHODS, *LRP)),
            ("step", step, (*STEPS, AUTO)),
            ("eos", eos, EOS),
        ):
            if value not in choices:
                raise InputError(f"unknown {name} {value!r}; expected one of: {', '.join(choices)}")
        self.forcing, self.reader = forcing, reader
        self.method, self.step, self.eos, self.extract = method, step, eos, extractor(extract)
        self.layer = None if layer == AUTO else from_one("layer", layer, forcing.layers)
        self.head = None if head is None else from_one("head", head, forcing.heads)
        if self.layer is None and head is not None:
            raise InputError(f"head {head} of which layer? layer auto chooses among whole layers")
        if method in LRP:
            if self.layer is not None:
                raise InputError(
                    f"method {method} explains the whole model; expected no layer with it, and "
                    "no head"
                )
            if step == "input":
                raise InputError(
                    f"method {method} explains the word that is predicted; expected step output"
                )
            self.layer, self.step = 0, "output"

    @classmethod
    def from_checkpoint(
        cls,
        path: str,
        data: str,
        *,
        bpe: str | None = None,
        model: str | None = None,
        tokenizer: str | None = None,
        device: str = "cpu",
        overrides: dict | None = None,
        **options,
    ) -> NormAligner:
        """Loads a checkpoint.

        Args:
            path: the checkpoint.
            data: the directory with ``dict.*.txt``.
            bpe: fairseq's name of the model's BPE, if texts are to be split into pieces.
            model: the BPE's file (SentencePiece model or BPE codes).
            tokenizer: fairseq's name of a tokeniser, if texts are not split into words yet.
            device: where to run.
            overrides: options to change in the checkpoint's configuration.
            options: see the class.
        """
        network, task = load_single(path, data, overrides)
        reader = PairReader.from_names(task, bpe=bpe, model=model, tokenizer=tokenizer)
        return cls(TeacherForcing(network.to(device), task), reader, **options)

    def align(self, source: str | Sequence[str], target: str | Sequence[str]) -> list[Link]:
        """Links ``(source, target)``, 0-based, of one pair of sentences: text or lists of words."""
        return next(self.align_many([(source, target)]))

    def align_many(
        self, pairs: Iterable[tuple], *, batch_tokens: int = 4000
    ) -> Iterator[list[Link]]:
        """Links of each pair, in input order. Streams: takes and holds a few thousand pairs at a
        time."""
        return (self.links(soft) for soft in self.soft_many(pairs, batch_tokens=batch_tokens))

    def soft(self, source: str | Sequence[str], target: str | Sequence[str]) -> Soft:
        """The soft alignment of one pair: ``words`` (T, S), and ``null`` (T,), what goes to the
        source's </s>."""
        return next(self.soft_many([(source, target)]))

    def soft_many(self, pairs: Iterable[tuple], *, batch_tokens: int = 4000) -> Iterator[Soft]:
        """The soft alignment of each pair, in input order."""
        encoded = text_pairs(pairs, self.reader)
        evidence, encoded = self.evidence(encoded, batch_tokens=batch_tokens)
        return (
            softs[0]
            for softs in self.evidences_many(encoded, [evidence], batch_tokens=batch_tokens)
        )

    def links(self, soft: Soft) -> list[Link]:
        """Hard links of a soft alignment."""
        return self.extract(soft.words, null=self._null(soft))

    def shares(self, soft: Soft) -> np.ndarray:
        """A soft alignment as shares of what each target word takes, (T, S)."""
        return row_shares(soft.words, self._null(soft))

    def _null(self, soft: Soft) -> np.ndarray | None:
        return soft.null if self.eos == "null" else None

    def evidences_many(
        self, pairs: Iterable[Pair], evidences: Sequence[Evidence], *, batch_tokens: int = 4000
    ) -> Iterator[list[Soft]]:
        """Several soft alignments of each encoded pair from one forward pass."""
        window = max(
            100, WINDOW // max(1, len(evidences) // 6)
        )  # results wait for their turn: fewer if they are many
        return map_batches(
            pairs,
            partial(soft_alignments, self.forcing, evidences=evidences),
            max_tokens=batch_tokens,
            window=window,
        )

    def evidence(
        self, pairs: Iterable[Pair], *, batch_tokens: int = 4000
    ) -> tuple[Evidence, Iterable[Pair]]:
        """What the options name, with layer and step decided on the first pairs if need be; and all
        pairs again.

        What was decided stays: later pairs are aligned in the same way.
        """
        if self.layer is None or self.step == AUTO:
            pairs = iter(pairs)
            first = list(islice(pairs, SAMPLE))
            pairs = chain(first, pairs)
            choice = self.choice(
                decisive_pairs(first, self.reader, self.forcing), batch_tokens=batch_tokens
            )
            self.step = choice.step if self.step == AUTO else self.step
            self.layer = choice.layers[self.step]
        return Evidence(self.method, self.layer, self.step, self.head), pairs

    def choice(self, pairs: Iterable[Pair], *, batch_tokens: int = 4000) -> Choice:
        """The best layer and step, among those that the options leave open, without gold."""
        layers = None if self.layer is None else [self.layer]
        null = self.eos == "null"
        return choose_layers(
            self.forcing, pairs, self.method, layers=layers, null=null, batch_tokens=batch_tokens
        )


def from_one(name: str, value: int, count: int) -> int:
    """The 0-based index of layer or head ``value``, which people count from 1."""
    if not str(value).isdigit():
        raise InputError(f"{name} {value!r}: expected a number from 1")
    if not 1 <= int(value) <= count:
        raise InputError(f"{name} {value}: the model has {name}s 1 to {count}")
    return int(value) - 1
