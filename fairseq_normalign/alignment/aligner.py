"""Word alignments from one model: below the command, the task, evaluation and the Python API."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from itertools import chain, islice, tee
from typing import Any

import numpy as np

from fairseq_normalign.alignment.evidence import AUTO as AUTO
from fairseq_normalign.alignment.evidence import AlignOptions
from fairseq_normalign.alignment.layer_choice import (
    SAMPLE,
    choose_layers,
    decisive_samples,
    warn_of_noise,
)
from fairseq_normalign.attention.extract import PIECE_ARGMAX, confidences, links_of, row_shares
from fairseq_normalign.attention.methods import full_spec, method_of
from fairseq_normalign.attention.soft import Choice, Evidence, Soft
from fairseq_normalign.attention.soft_alignments import soft_alignments
from fairseq_normalign.errors import InputError
from fairseq_normalign.host.batches import WINDOW, map_batches
from fairseq_normalign.host.checkpoint import load_single
from fairseq_normalign.host.pairs import Pair, PairReader, text_pairs
from fairseq_normalign.host.special_tokens import languages_of
from fairseq_normalign.host.teacher_forcing import TeacherForcing
from fairseq_normalign.names import from_one
from fairseq_normalign.text.links import Link

Text = str | Sequence[str]  # a line, or a list of words
Progress = Callable[[int], object]


class Aligner(ABC):
    """Aligns texts, or sentence pairs that are read already.

    Pairs come in one stream for each model: a :class:`NormAligner` has one, a ``CombinedAligner``
    of two models two. Streams of other aligners' links may follow, sets of (source, target) for
    each pair, if the aligner takes them.
    """

    @property
    @abstractmethod
    def models(self) -> Sequence[NormAligner]:
        """The aligner of each model, which has its ``forcing`` and ``reader``."""

    @abstractmethod
    def run(self, *streams: Iterable[Any], progress: Progress | None = None) -> Iterator[Soft]:
        """The soft alignment of each pair, in input order. Streams.

        Args:
            progress: called with the number of pairs that were finished since its last call.
        """

    @abstractmethod
    def links(self, soft: Soft) -> list[Link]:
        """Hard links of a soft alignment."""

    @abstractmethod
    def confidences(self, soft: Soft, links: Sequence[Link]) -> list[float]:
        """For each link the share that it has of what its target word takes."""

    @abstractmethod
    def signature(self) -> dict[str, Any]:
        """Every choice that moves AER, once nothing is open."""

    def read(self, pairs: Iterable[tuple[Text, Text]]) -> list[Iterable[Any]]:
        """Pairs of texts (source, target) as each model reads them."""
        forward, backward = tee(pairs)
        swapped = ((target, source) for source, target in backward)
        both = zip((forward, swapped), self.models, strict=False)
        return [text_pairs(texts, model.reader) for texts, model in both]

    def links_many(self, *streams: Iterable[Any]) -> Iterator[list[Link]]:
        """Links (source, target) of each pair, 0-based, in input order."""
        return map(self.links, self.run(*streams))

    def align(self, source: Text, target: Text) -> list[Link]:
        """Links ``(source, target)``, 0-based, of one pair of sentences: text or lists of words."""
        return next(self.align_many([(source, target)]))

    def align_many(
        self, pairs: Iterable[tuple[Text, Text]], *links: Iterable[Iterable[Link]]
    ) -> Iterator[list[Link]]:
        """Links of each pair of texts, in input order. Holds a few thousand pairs at a time.

        Args:
            links: those of other aligners, if the aligner takes them.
        """
        return self.links_many(*self.read(pairs), *links)

    def soft(self, source: Text, target: Text) -> Soft:
        """The soft alignment of one pair: ``words`` (T, S), and ``null`` (T,), what </s> gets."""
        streams = [list(stream) for stream in self.read([(source, target)])]
        (pair,) = streams[0]
        soft = next(iter(self.run(*streams)))
        return soft._replace(texts=(pair.source.text, pair.target.text))

    def soft_many(self, pairs: Iterable[tuple[Text, Text]]) -> Iterator[Soft]:
        """The soft alignment of each pair of texts, in input order."""
        return self.run(*self.read(pairs))


class OpenAligner(Aligner):
    """An aligner that may leave something open: what it decides is a value of its own.

    ``decide`` and ``decide_on`` return a :class:`DecidedAligner`. Whoever aligns without deciding
    before has the first pairs decide: the decision is remembered for later pairs.
    """

    remembered: Any = None  # a decision
    link_streams = 0  # how many streams of other aligners' links it takes
    decided_on = SAMPLE  # how many of the first pairs decide

    @abstractmethod
    def decision_on(self, first: Sequence[list[Any]]) -> tuple[Any, float | None]:
        """What the first pairs decide, and how far their words agree, above chance, if known."""

    @abstractmethod
    def run_by(
        self, decision: Any, streams: Sequence[Iterable[Any]], progress: Progress | None
    ) -> Iterator[Soft]:
        """As :meth:`run`, with everything decided."""

    @abstractmethod
    def signature_by(self, decision: Any) -> dict[str, Any]:
        """As :meth:`signature`, with everything decided."""

    @abstractmethod
    def as_json(self, decision: Any) -> dict[str, Any]:
        """A decision as JSON holds it."""

    @abstractmethod
    def from_json(self, contents: Mapping[str, Any]) -> Any:
        """The decision of another process; refuses one that the options forbid."""

    @property
    def sample_size(self) -> int:
        """How many of the first pairs are to decide what is open."""
        return self.decided_on if self.remembered is None else 0

    def decide(
        self, pairs: Iterable[tuple[Text, Text]], *links: Iterable[Iterable[Link]]
    ) -> DecidedAligner:
        """Decides on the first of some pairs of texts."""
        return self.decide_on(*self.read(pairs), *links)[0]

    def decide_on(self, *streams: Iterable[Any]) -> tuple[DecidedAligner, list[Iterable[Any]]]:
        """Decides on the first pairs; returns all pairs again."""
        models = len(self.models)
        if len(streams) != models + self.link_streams:
            raise InputError(
                f"{len(streams)} streams; expected {models + self.link_streams}: pairs for each "
                f"of {models} models, and links of {self.link_streams} other aligners"
            )
        if self.remembered is not None:
            return DecidedAligner(self, self.remembered), list(streams)
        rests = [iter(stream) for stream in streams]
        first = [list(islice(rest, self.decided_on)) for rest in rests]
        decided = DecidedAligner(self, *self.decision_on(first))
        return decided, list(map(chain, first, rests))

    def run(self, *streams: Iterable[Any], progress: Progress | None = None) -> Iterator[Soft]:
        decided, again = self.decide_on(*streams)
        self.remembered = decided.decision
        return decided.run(*again, progress=progress)

    def signature(self) -> dict[str, Any]:
        if self.remembered is None:
            raise ValueError("nothing is decided yet; expected decide(pairs) before")
        return self.signature_by(self.remembered)


class DecidedAligner(Aligner):
    """An aligner that leaves nothing open.

    Args:
        aligner: has the models.
        decision: what it left open.
        agreement: how far the words of the pairs that decided agree, above chance; None if nobody
            asked.
    """

    def __init__(self, aligner: OpenAligner, decision: Any, agreement: float | None = None):
        self.aligner, self.decision, self.agreement = aligner, decision, agreement

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.aligner!r}, {self.signature()})"

    @property
    def models(self) -> Sequence[NormAligner]:
        return self.aligner.models

    def run(self, *streams: Iterable[Any], progress: Progress | None = None) -> Iterator[Soft]:
        return self.aligner.run_by(self.decision, streams, progress)

    def links(self, soft: Soft) -> list[Link]:
        return self.aligner.links(soft)

    def confidences(self, soft: Soft, links: Sequence[Link]) -> list[float]:
        return self.aligner.confidences(soft, links)

    def signature(self) -> dict[str, Any]:
        return self.aligner.signature_by(self.decision)


class NormAligner(OpenAligner):
    """Aligns words by what a translation Transformer's source–target attention adds up.

    Examples:
        >>> aligner = NormAligner.from_checkpoint(
        ...     "best.pt", data="data-bin", bpe="sentencepiece", model="spm.model"
        ... )
        >>> aligner.align("das ist ein haus .", "this is a house .")
        [(0, 0), (1, 1), (2, 2), (3, 3), (4, 4)]

    What ``auto`` leaves open is decided on the first pairs that are aligned, and stays so: later
    pairs are aligned in the same way. ``decide(pairs)`` returns an aligner that knows its layer and
    step. A decision is an ``Evidence``.

    Args:
        options: see ``AlignOptions``; or name them one by one.
    """

    def __init__(
        self,
        forcing: TeacherForcing,
        reader: PairReader,
        options: AlignOptions | None = None,
        **changes: Any,
    ):
        if not forcing.layers_with_heads():
            raise InputError("the source–target attention has no heads left: nothing to align by")
        self.forcing, self.reader = forcing, reader
        self.options = replace(options or AlignOptions(), **changes)
        self.remembered = self._named_evidence()

    @classmethod
    def from_checkpoint(
        cls,
        path: str,
        data: str,
        *,
        device: str = "cpu",
        overrides: dict | None = None,
        **options: Any,
    ) -> NormAligner:
        """Loads a checkpoint.

        Args:
            path: the checkpoint.
            data: the directory with ``dict.*.txt``.
            device: where to run.
            overrides: options to change in the checkpoint's configuration.
            options: those of ``AlignOptions``, and how texts are read: ``bpe``, ``model``,
                ``scheme``, ``tokenizer`` and others (see ``PairReader.from_names``).
        """
        own = {field.name for field in fields(AlignOptions)}
        choices = {name: value for name, value in options.items() if name in own}
        reading = {name: value for name, value in options.items() if name not in own}
        network, task = load_single(path, data, overrides)
        reader = PairReader.from_names(task, **reading)
        return cls(TeacherForcing(network.to(device), task), reader, **choices)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({type(self.forcing.model).__name__}, {self.options})"

    @property
    def models(self) -> Sequence[NormAligner]:
        return [self]

    @property
    def evidence(self) -> Evidence | None:
        """Where the alignment comes from; None while something is open."""
        return self.remembered

    @property
    def languages(self) -> str:
        """``de-en``, for messages."""
        return "-".join(map(str, languages_of(self.reader.task)))

    def _named_evidence(self) -> Evidence | None:
        """What the options name, checked against the model; None if they leave something open."""
        method, head = self.options.method, self.options.head
        layer = self._named_layer()
        steps = method_of(method).steps
        step = steps[0] if len(steps) == 1 else self.options.step
        if step == AUTO or (layer is None and method_of(method).layers):
            return None
        return Evidence(method, layer, step, None if head is None else int(head) - 1)

    def _named_layer(self) -> int | None:
        """The layer that the options name, from 0."""
        if self.options.layer == AUTO:
            return None
        return checked_layer(self.forcing, self.options.layer, self.options.head)

    def decision_on(self, first: Sequence[list[Pair]]) -> tuple[Evidence, float]:
        (pairs,) = decisive_samples([self], first)
        return self.decision_by(self.choice(pairs))

    def decision_by(self, choice: Choice) -> tuple[Evidence, float]:
        """What the options leave open, taken from a choice; and how far words agree."""
        step = choice.step if self.options.step == AUTO else self.options.step
        return Evidence(self.options.method, choice.layers[step], step), choice.agreement

    def choice(self, pairs: Sequence[Pair]) -> Choice:
        """The best layer and step, among those that the options leave open, without gold."""
        layer = self._named_layer()
        choice = choose_layers(
            self.forcing,
            pairs,
            self.options.method,
            layers=None if layer is None else [layer],
            null=self.options.null,
            merges=self.options.merges,
            batch_tokens=self.options.batch_tokens,
        )
        warn_of_noise(choice.agreement, len(pairs), self.languages)
        return choice

    def as_json(self, decision: Evidence) -> dict[str, Any]:
        return decision._asdict()

    def from_json(self, contents: Mapping[str, Any]) -> Evidence:
        evidence = Evidence(**contents)
        for name, value in _named(evidence).items():
            named = getattr(self.options, name)
            if str(named) not in (AUTO, str(value)):
                raise InputError(f"{name} {value}; expected {named}, as the options say")
        self.check(evidence)
        return evidence

    def check(self, evidence: Evidence) -> None:
        """Refuses an evidence that the model has not."""
        if NormAligner(self.forcing, self.reader, **_named(evidence)).evidence != evidence:
            raise InputError("leaves something open; expected layer and step")

    def run_by(
        self,
        decision: Evidence,
        streams: Sequence[Iterable[Pair]],
        progress: Progress | None,
    ) -> Iterator[Soft]:
        for (soft,) in self.evidences_many(streams[0], [decision], progress=progress):
            yield soft

    def evidences_many(
        self,
        pairs: Iterable[Pair],
        evidences: Sequence[Evidence],
        *,
        progress: Progress | None = None,
    ) -> Iterator[list[Soft]]:
        """Several soft alignments of each pair from one forward pass."""
        rule_of = self.options.rule_of
        by_pieces = [place for place in evidences if rule_of(place.method) == PIECE_ARGMAX]
        run = partial(
            soft_alignments,
            self.forcing,
            evidences=evidences,
            merges=self.options.merges,
            keep_pieces=by_pieces,
        )
        # Results wait for their turn: fewer at once if they are many.
        window = max(100, WINDOW // max(1, len(evidences) // 6))
        return map_batches(
            pairs,
            run,
            max_tokens=self.options.batch_tokens,
            window=window,
            progress=progress,
        )

    def links(self, soft: Soft) -> list[Link]:
        return self.links_of(soft, self.options.method)

    def links_of(self, soft: Soft, method: str) -> list[Link]:
        """Links of a soft alignment of another method."""
        return links_of(soft, self.options.rule_of(method), null=self.options.null)

    def confidences(self, soft: Soft, links: Sequence[Link]) -> list[float]:
        return confidences(soft.words, links, null=self._null(soft))

    def shares(self, soft: Soft) -> np.ndarray:
        """A soft alignment as shares of what each target word takes, (T, S)."""
        return row_shares(soft.words, self._null(soft))

    def _null(self, soft: Soft) -> np.ndarray | None:
        return soft.null if self.options.null else None

    def signature_by(self, decision: Evidence) -> dict[str, Any]:
        method, layer, step, head = decision
        options = self.options
        open_step = options.step == AUTO and len(method_of(method).steps) > 1
        return {
            "method": full_spec(method),
            "layer": "all" if layer is None else _marked(options.layer == AUTO, layer + 1),
            "head": "all" if head is None else head + 1,
            "step": _marked(open_step, step),
            **options.extraction(),
        }


def _named(evidence: Evidence) -> dict[str, Any]:
    """An evidence as options name it."""
    method, layer, step, head = evidence
    return {
        "method": method,
        "layer": AUTO if layer is None else layer + 1,
        "head": None if head is None else head + 1,
        "step": step,
    }


def _marked(auto: bool, value: object) -> str | object:
    """A value as signatures show it: what was decided without gold is marked."""
    return f"auto:{value}" if auto else value


def checked_layer(forcing: TeacherForcing, layer: int | str, head: int | None = None) -> int:
    """The 0-based index of a layer that people count from 1, if it has heads, and this one."""
    index = from_one("layer", layer, range(forcing.layers))
    heads = forcing.head_numbers[index]
    if not heads:
        raise InputError(f"layer {layer} has no heads left: it takes nothing from a source")
    if head is not None:
        from_one("head", head, heads, owner=f"layer {layer}")
    return index
