"""Alignments of a long corpus, chunk by chunk: see ``runs``."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fairseq_normalign.alignment.aligner import DecidedAligner, OpenAligner
from fairseq_normalign.attention.soft import Soft
from fairseq_normalign.errors import InputError
from fairseq_normalign.files import new_file, real_path
from fairseq_normalign.host.lengths import TooLong
from fairseq_normalign.host.raw_corpus import ChunkReader
from fairseq_normalign.runs.chunks import Chunk, Partial, digest
from fairseq_normalign.runs.engines import Progress
from fairseq_normalign.runs.folder import DAMAGE
from fairseq_normalign.strict_json import parse_json
from fairseq_normalign.text.link_formats import WRITERS, AlignedPair


class Aligning:
    """Models that align, in one process.

    Args:
        aligner: may leave something open.
        reader: turns chunks into what the aligner takes.
    """

    def __init__(self, aligner: OpenAligner, reader: ChunkReader):
        self.aligner, self.reader = aligner, reader
        self._decided: tuple[Any, DecidedAligner] | None = None

    def decided(self, prepared: Mapping[str, Any]) -> DecidedAligner:
        """The aligner that leaves nothing open; made once, as a lexicon may be large."""
        if self._decided is None or self._decided[0] is not prepared:
            self._decided = prepared, decided_by(self.aligner, prepared, "the run")
        return self._decided[1]


class Links:
    """Lines of links.

    Args:
        sample: how many of the first pairs decide what the aligner leaves open.
        index: of the first word.
        confidence: whether each link is followed by its share.
        format: of the lines, a name in ``text.link_formats``.
        decision: a file with what another run has decided, if it is there.
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
        decision: str | None = None,
        signed: Mapping[str, Any] | None = None,
    ):
        self.first_pairs, self.format = sample, format
        self.index, self.confidence, self.decision = index, confidence, decision
        self.signed = dict(signed or {})

    def prepare(self, models: Aligning, first: Chunk) -> dict[str, Any]:
        too_long = TooLong()
        if self.decision is not None and Path(self.decision).exists():
            decided = decided_by(models.aligner, _stored(self.decision), self.decision)
        else:
            decided, _ = models.aligner.decide_on(*models.reader.streams(first, too_long))
        return {
            "decision": models.aligner.as_json(decided.decision),
            "signature": {**decided.signature(), **self.signed},
            "agreement": decided.agreement,
            "policy": models.reader.too_long if too_long.count else None,  # for the long ones
        }

    def chunk(
        self, models: Aligning, chunk: Chunk, prepared: Mapping[str, Any], progress: Progress
    ) -> Partial:
        aligner = models.decided(prepared)
        streams, notes = models.reader.read(chunk)
        lines = []
        softs = aligner.run(*streams, progress=progress)
        for pair, soft in zip(streams[0], softs, strict=True):
            links = aligner.links(soft)
            shares = aligner.confidences(soft, links) if self.confidence else None
            of_all = shares_of_all(aligner, soft) if self.format == "marian-soft" else None
            texts = pair.source.text, pair.target.text
            aligned = AlignedPair(links, shares, *texts, of_all)
            lines.append(WRITERS[self.format](aligned, self.index) + "\n")
        return Partial(text="".join(lines), notes=notes)


def shares_of_all(aligner: DecidedAligner, soft: Soft) -> np.ndarray:
    """The share of each cell, as ``--confidence`` writes that of a link, (T, S)."""
    targets, sources = soft.words.shape
    cells = [(source, target) for target in range(targets) for source in range(sources)]
    return np.reshape(aligner.confidences(soft, cells), (targets, sources))


def keep_decision(path: str | None, prepared: Mapping[str, Any], models: Aligning) -> None:
    """Writes what was decided to a file; one that is there must say the same.

    Refuses to go on with a run that was decided with another policy for long pairs.
    """
    policy, own = prepared["policy"], models.reader.too_long
    if policy not in (None, own):
        raise InputError(
            f"this run was decided with --too-long {policy}, and this command is with "
            f"--too-long {own}; use the same, or --restart"
        )
    if path is None:
        return
    text = json.dumps({"decision": prepared["decision"]}, indent=1, allow_nan=False)
    with contextlib.suppress(FileExistsError):  # another run, or shard, has it, too
        new_file(real_path(path), text)
    aligner = models.aligner
    stored = decided_by(aligner, _stored(path), path)
    if digest(aligner.as_json(stored.decision)) != digest(prepared["decision"]):
        raise InputError(
            f"{path}: differs from what this run has decided when it was begun; expected the same "
            "command, or --restart"
        )


def _stored(path: str) -> Any:
    """JSON in a file; None if there is none."""
    try:
        return parse_json(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def decided_by(aligner: OpenAligner, contents: Any, where: str) -> DecidedAligner:
    """The aligner with a decision that was stored."""
    try:
        return DecidedAligner(aligner, aligner.from_json(contents["decision"]))
    except InputError as error:
        raise InputError(f"{where}: {error}") from None
    except DAMAGE:
        raise InputError(
            f"{where}: is not what such a run decides; expected a file that --decision has written "
            "with the same models and method"
        ) from None
