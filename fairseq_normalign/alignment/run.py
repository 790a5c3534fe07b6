"""Alignments of a long corpus, chunk by chunk: see ``runs``."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fairseq_normalign.alignment.aligner import DecidedAligner, OpenAligner
from fairseq_normalign.alignment.decision import Decision, read_learned
from fairseq_normalign.alignment.evidence import AUTO, LEARNED
from fairseq_normalign.alignment.layer_choice import FEW
from fairseq_normalign.alignment.lexicon import LEAST
from fairseq_normalign.attention.extract import best_link
from fairseq_normalign.attention.soft import Soft
from fairseq_normalign.errors import InputError
from fairseq_normalign.files import new_file, real_path
from fairseq_normalign.host.pairs import Pair
from fairseq_normalign.host.raw_corpus import ChunkReader
from fairseq_normalign.runs.chunks import Chunk, Partial, digest
from fairseq_normalign.runs.engines import Progress
from fairseq_normalign.runs.folder import DAMAGE
from fairseq_normalign.text.link_formats import WRITERS, AlignedPair


class Aligning:
    """Models that align, in one process.

    Args:
        aligner: may leave something open.
        reader: turns chunks into what the aligner takes.
        learned: the aligner with what a learned file keeps, if there is one.
    """

    def __init__(
        self, aligner: OpenAligner, reader: ChunkReader, learned: DecidedAligner | None = None
    ):
        self.aligner, self.reader, self.learned = aligner, reader, learned
        self._decided: tuple[Any, DecidedAligner] | None = None

    def decided(self, prepared: Mapping[str, Any]) -> DecidedAligner:
        """The aligner that leaves nothing open; made once, as a lexicon may be large."""
        if self._decided is None or self._decided[0] is not prepared:
            try:
                decided = self.aligner.by(Decision.from_json(prepared["decision"]))
            except DAMAGE as error:
                raise InputError(f"the run is damaged: {error}; start again by --restart") from None
            self._decided = prepared, decided
        return self._decided[1]


class Links:
    """Lines of links.

    Args:
        sample: how many of the first pairs decide what the aligner leaves open.
        index: of the first word.
        confidence: whether each link is followed by its share.
        format: of the lines, a name in ``text.link_formats``.
        never_empty: a pair without links gets the best one.
        count: write expected numbers of links instead.
        signed: what the signature tells beside the aligner's choices.
    """

    name = "links"
    pairs_per_chunk = 1000

    def __init__(
        self,
        sample: int,
        *,
        index: int = 0,
        confidence: bool = False,
        format: str = "pharaoh",
        never_empty: bool = False,
        count: bool = False,
        signed: Mapping[str, Any] | None = None,
    ):
        self.first_pairs, self.format = sample, format
        self.never_empty, self.count = never_empty, count
        self.index, self.confidence, self.signed = index, confidence, dict(signed or {})

    def prepare(self, models: Aligning, first: Chunk) -> dict[str, Any]:
        decided = models.learned
        streams, notes = models.reader.read(first)
        if decided is None:
            decided, _ = models.aligner.decide_on(*streams)
        agreement = decided.decision.agreement
        if models.learned is not None and first.items:
            few = [stream[:FEW] for stream in streams]
            agreement = models.aligner.agreement_on(decided.decision, few)
        return {
            "agreement": agreement,  # of source and target words in this text
            "decision": decided.decision.as_json(),
            "signature": {**decided.signature(), **self.signed},
            "policy": notes["policy"] if notes["too_long"][0] else None,  # for the long ones
        }

    def chunk(
        self, models: Aligning, chunk: Chunk, prepared: Mapping[str, Any], progress: Progress
    ) -> Partial:
        aligner = models.decided(prepared)
        streams, notes = models.reader.read(chunk)
        lines = []
        softs = aligner.run(*streams, progress=progress)
        for pair, soft in zip(streams[0], softs, strict=True):
            lines.append(self.line(aligner, pair, soft) + "\n")
        return Partial(text="".join(lines), notes=notes)

    def line(self, aligner: DecidedAligner, pair: Pair, soft: Soft) -> str:
        if self.count:
            return expected_counts(pair, shares_of_all(aligner, soft))
        links = aligner.links(soft)
        if self.never_empty and not links:
            links = best_link(soft.words)
        shares = aligner.confidences(soft, links) if self.confidence else None
        of_all = shares_of_all(aligner, soft) if self.format == "marian-soft" else None
        aligned = AlignedPair(links, shares, pair.source.text, pair.target.text, of_all)
        return WRITERS[self.format](aligned, self.index)


def expected_counts(pair: Pair, shares: np.ndarray) -> str:
    """Expected numbers of links: source and target words, and the share of each two of them."""
    cells = []
    for t, s in zip(*np.nonzero(shares >= LEAST), strict=True):
        cells += [pair.source.text[s], pair.target.text[t], f"{shares[t, s]:.4f}"]
    return " ".join(cells)


def shares_of_all(aligner: DecidedAligner, soft: Soft) -> np.ndarray:
    """The share that each cell has of its row, (T, S)."""
    shares = aligner.shares(soft).astype(float)
    return shares / np.maximum(shares.sum(axis=1, keepdims=True), 1)


def check_policy(prepared: Mapping[str, Any], policy: str) -> None:
    """Refuses to go on with a run that was decided with another policy for long pairs."""
    if prepared["policy"] not in (None, policy):
        raise InputError(
            f"this run was started with --too-long {prepared['policy']}; use the same, or --restart"
        )


def keep_learned(path: str, decided: DecidedAligner) -> None:
    """Writes what was decided or learned to a file; one that is there must say the same.

    Refuses to write one of too few pairs: later runs would use what was never learned.
    """
    decision = decided.decision
    is_few = decided.aligner.combine == AUTO and decision.combine != LEARNED
    if is_few and not Path(path).exists():
        raise InputError(
            f"{path}: no such file, and {decision.pairs} pairs are too few to learn from; align "
            f"{FEW} or more, or leave out --learned"
        )
    with contextlib.suppress(FileExistsError):  # another run, or shard, has made it
        new_file(real_path(path), decided.learned())
    stored, _, _ = read_learned(path)
    if digest(stored.as_json()) != digest(decided.decision.as_json()):
        raise InputError(
            f"{path}: differs from what this run has learned when it was started; use another "
            "file, or --restart"
        )
