"""Alignments of a long corpus, chunk by chunk: see ``runs``."""

from __future__ import annotations

import contextlib
import json
import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fairseq_normalign.alignment.links import format_links
from fairseq_normalign.analysis.aligner import Aligner, Progress
from fairseq_normalign.errors import InputError
from fairseq_normalign.files import new_file
from fairseq_normalign.host.binarised import UnknownPieces
from fairseq_normalign.host.lengths import TooLong
from fairseq_normalign.host.raw_corpus import TOKENS, ChunkReader
from fairseq_normalign.runs.chunks import Chunk, Result
from fairseq_normalign.runs.folder import RunFolder, read_json

PARTS = {"decision", "signature", "pairs", "policy"}  # of what is decided


class ChunkAligner:
    """Turns chunks into lines of links.

    Args:
        aligner: one that leaves nothing open.
        index: of the first word.
        confidence: whether each link is followed by its share.
    """

    def __init__(
        self, aligner: Aligner, reader: ChunkReader, *, index: int = 0, confidence: bool = False
    ):
        self.aligner, self.reader = aligner, reader
        self.index, self.confidence = index, confidence

    def __call__(self, chunk: Chunk, progress: Progress | None = None) -> Result:
        too_long = TooLong()
        streams = self.reader.streams(chunk, too_long)
        unknown = UnknownPieces(self.aligner.models[0].reader)
        if self.reader.kind == TOKENS:
            streams[0] = list(streams[0])
            for pair in streams[0]:
                unknown.add(pair)
        lines = []
        for soft in self.aligner.run(*streams, progress=progress):
            links = self.aligner.links(soft)
            shares = self.aligner.confidences(soft, links) if self.confidence else None
            lines.append(format_links(links, index=self.index, confidences=shares) + "\n")
        notes = {
            "too_long": [too_long.count, too_long.places],
            "policy": self.reader.too_long,
            "unknown": [unknown.unknown, unknown.pieces],
        }
        return Result("".join(lines), notes)


class Notes:
    """What is to be told of all chunks at the end."""

    def __init__(self, reader: ChunkReader, names: Sequence[str]):
        self.reader, self.names = reader, names
        self.too_long = TooLong()
        self.unknown = UnknownPieces(reader.models[0].reader)

    def add(self, notes: dict[str, Any]) -> None:
        """The notes of a chunk; refuses one whose long pairs were dealt with in another way."""
        count, places = notes["too_long"]
        if count and notes["policy"] != self.reader.too_long:
            raise InputError(
                f"{places[0]} was done before with --too-long {notes['policy']}, and this run is "
                f"with --too-long {self.reader.too_long}; expected the same, or --restart"
            )
        self.too_long.add(count, places)
        self.unknown.add_counts(*notes["unknown"])

    def policy(self) -> dict[str, str]:
        """For the signature, if there were long pairs."""
        return {"too-long": self.reader.too_long} if self.too_long.count else {}

    def tell(self) -> None:
        self.unknown.tell(self.names)
        summary = self.too_long.summary(self.reader.too_long)
        if summary:
            warnings.warn(summary, stacklevel=2)


def decide(
    aligner: Aligner,
    reader: ChunkReader,
    first: Sequence[Any],
    folder: RunFolder | None,
    path: str | None = None,
    **more: object,
) -> dict[str, Any]:
    """What is decided on the first pairs, or was by another run in the same folder.

    Args:
        path: where the decision is read instead, or is kept if there is no such file.
        more: what the signature tells beside the aligner's choices.
    """
    pairs = Chunk(0, 0, first[: aligner.sample_size])
    known = None if folder is None else folder.decided()
    if known is not None and not known.keys() >= PARTS:
        raise InputError("what this run has decided is damaged; expected --restart")
    if known is None:
        too_long = TooLong()
        if path is not None and Path(path).exists():
            decided = read_decision(path, aligner)
        else:
            decided, _ = aligner.decide_on(*reader.streams(pairs, too_long))
        known = {
            "decision": decided.decision(),
            "signature": {**decided.signature(), **more},
            "agreement": decided.agreement,
            "pairs": pairs.digest(),
            "policy": reader.too_long if too_long.count else None,  # for the long ones of them
        }
        if folder is not None:
            known = folder.decide(known)
    elif path is not None and Path(path).exists():
        _refuse_other_decision(path, known["decision"])
    if path is not None and not Path(path).exists():
        text = json.dumps({"decision": known["decision"]}, indent=1, allow_nan=False)
        with contextlib.suppress(FileExistsError):  # another shard has it, too
            new_file(Path(os.path.realpath(path)), text)
    if known["policy"] not in (None, reader.too_long):
        raise InputError(
            f"this run was decided with --too-long {known['policy']}, and this command is with "
            f"--too-long {reader.too_long}; expected the same, or --restart"
        )
    if known["pairs"] != pairs.digest():
        raise InputError(
            f"the first {len(pairs.items)} pairs are others than those on which this run was "
            "decided; expected the same text, or --restart"
        )
    return known


def _refuse_other_decision(path: str, decision: dict[str, Any]) -> None:
    if read_json(Path(path)).get("decision") != decision:
        raise InputError(
            f"{path}: differs from what this run has decided when it was begun; expected the same "
            "command, or --restart"
        )


def read_decision(path: str, aligner: Aligner) -> Aligner:
    """The aligner with what another run has decided."""
    try:
        decision = read_json(Path(path))["decision"]
        return aligner.with_decision(decision)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    except (KeyError, TypeError, ValueError, AttributeError):
        raise InputError(
            f"{path}: is not what such a run decides; expected a file that --decision has written "
            "with the same models and method"
        ) from None
