"""Word alignments from one model: below the command, the task, evaluation and the Python API."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields, replace
from functools import partial
from itertools import chain, islice, tee
from pathlib import Path
from typing import Any

import numpy as np

from fairseq_normalign.alignment.decision import Decision, learned_text, read_learned
from fairseq_normalign.alignment.evidence import AUTO as AUTO
from fairseq_normalign.alignment.evidence import NONE, AlignOptions, check_place, every_evidence
from fairseq_normalign.alignment.layer_choice import (
    SAMPLE,
    LayerVote,
    decisive_samples,
    warn_of_noise,
)
from fairseq_normalign.attention.extract import PIECE_ARGMAX, links_of, row_shares, values_of
from fairseq_normalign.attention.methods import full_spec, method_of
from fairseq_normalign.attention.soft import Evidence, Soft
from fairseq_normalign.attention.soft_alignments import share_matrices, soft_alignments
from fairseq_normalign.attention.trained_head import fingerprint
from fairseq_normalign.errors import InputError
from fairseq_normalign.files import whole_file
from fairseq_normalign.host.batches import WINDOW, Result, map_batches
from fairseq_normalign.host.checkpoint import load_single
from fairseq_normalign.host.pairs import Pair, PairReader, text_pairs
from fairseq_normalign.host.special_tokens import languages_of
from fairseq_normalign.host.teacher_forcing import TeacherForcing
from fairseq_normalign.names import from_one
from fairseq_normalign.progress import bar
from fairseq_normalign.runs.folder import DAMAGE
from fairseq_normalign.text.links import Link

Text = str | Sequence[str]  # a line, or a list of words
Progress = Callable[[int], object]


class Aligner(ABC):
    """Aligns texts, or sentence pairs that are read already.

    Pairs come in one stream for each model: a :class:`NormAligner` has one, a ``CombinedAligner``
    of two models two. Streams of other aligners' links may follow, sets of (source, target) for
    each pair, if the aligner takes them.
    """

    forcing: TeacherForcing  # of the model that translates source to target
    reader: PairReader
    models: Sequence[NormAligner]  # the aligner of each model, which has such a pair of its own

    @abstractmethod
    def decide_on(self, *streams: Iterable[Any]) -> tuple[DecidedAligner, list[Iterable[Any]]]:
        """Decides on the first pairs what is open; returns all pairs again."""

    def decide(
        self, pairs: Iterable[tuple[Text, Text]], *links: Iterable[Iterable[Link]]
    ) -> DecidedAligner:
        """An aligner that has chosen layers or learned weights on the first of these pairs."""
        return self.decide_on(*self.read(pairs), *links)[0]

    @abstractmethod
    def signature(self) -> dict[str, Any]:
        """Every choice that changes AER, once layers and weights are decided."""

    def _settled(self, streams: Sequence[Iterable[Any]]) -> tuple[DecidedAligner, list]:
        """As :meth:`decide_on`; an aligner may remember what the first pairs decided."""
        return self.decide_on(*streams)

    def run(self, *streams: Iterable[Any], progress: Progress | None = None) -> Iterator[Soft]:
        """The soft alignment of each pair, in input order. Streams.

        Args:
            progress: called with the number of pairs that were finished since its last call.
        """
        decided, again = self._settled(streams)
        return decided.aligner.run_by(decided.decision, again, progress)

    def links_many(self, *streams: Iterable[Any]) -> Iterator[list[Link]]:
        """Links (source, target) of each pair, 0-based, in input order."""
        decided, again = self._settled(streams)
        return map(decided.links, decided.run(*again))

    def read(self, pairs: Iterable[tuple[Text, Text]]) -> list[Iterable[Any]]:
        """Pairs of texts (source, target) as each model reads them."""
        forward, backward = tee(pairs)
        swapped = ((target, source) for source, target in backward)
        both = zip((forward, swapped), self.models, strict=False)
        return [text_pairs(texts, model.reader) for texts, model in both]

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
        return next(self.soft_many([(source, target)]))

    def soft_many(self, pairs: Iterable[tuple[Text, Text]]) -> Iterator[Soft]:
        """The soft alignment of each pair of texts, in input order."""
        return self.run(*self.read(pairs))


class OpenAligner(Aligner):
    """An aligner that may leave something open: ``decide`` returns a :class:`DecidedAligner`.

    Whoever aligns without deciding before has the first pairs decide: the decision is remembered
    for later pairs.
    """

    combine = NONE  # how evidences become one soft alignment
    remembered: Decision | None = None
    link_streams = 0  # how many streams of other aligners' links it takes
    decided_on = SAMPLE  # how many of the first pairs decide

    @abstractmethod
    def decision_on(self, first: Sequence[list[Any]]) -> Decision:
        """What the first pairs decide."""

    @abstractmethod
    def run_by(
        self, decision: Decision, streams: Sequence[Iterable[Any]], progress: Progress | None
    ) -> Iterator[Soft]:
        """The soft alignment of each pair."""

    @abstractmethod
    def links_by(self, decision: Decision, soft: Soft) -> list[Link]:
        """Hard links of a soft alignment."""

    @abstractmethod
    def shares_by(self, decision: Decision, soft: Soft) -> np.ndarray:
        """The probability of each link, or its share of what its target word takes, (T, S)."""

    @abstractmethod
    def signature_by(self, decision: Decision) -> dict[str, Any]:
        """As :meth:`signature`, with everything decided."""

    def agreement_on(self, decision: Decision, first: Sequence[list[Any]]) -> float | None:
        """Agreement of words in other pairs; warns if it is no better than chance."""
        return None

    @property
    def sample_size(self) -> int:
        """How many of the first pairs are to decide what is open."""
        return self.decided_on if self.remembered is None else 0

    def decide_on(self, *streams: Iterable[Any]) -> tuple[DecidedAligner, list[Iterable[Any]]]:
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
        return DecidedAligner(self, self.decision_on(first)), list(map(chain, first, rests))

    def _settled(self, streams: Sequence[Iterable[Any]]) -> tuple[DecidedAligner, list]:
        decided, again = self.decide_on(*streams)
        self.remembered = decided.decision
        return decided, again

    def by(self, decision: Decision) -> DecidedAligner:
        """The aligner with a stored decision, which must be of the same options and models."""
        fits = (
            decision.combine != NONE if self.combine == AUTO else self.combine == decision.combine
        )
        if not fits:
            raise InputError(
                f"learned with combine {decision.combine}, but the options give {self.combine}"
            )
        for evidence in decision.evidences:
            self.models[evidence.reverse].check(evidence)
        return DecidedAligner(self, decision)

    def load_learned(self, path: str | Path) -> DecidedAligner:
        """The aligner with what a file keeps; refuses one of other models or options."""
        decision, models, stored = read_learned(path)
        if models != _fingerprints(self):
            counts = {(1, 2): "a reverse model as well: add -r", (2, 1): "one model: leave out -r"}
            both = len(self.models), len(models)
            advice = counts.get(
                both, "other models, or another precision: use the same, or a new file"
            )
            raise InputError(f"{path}: learned with {advice}")
        try:
            decided = self.by(decision)
            now = decided.signature()
        except InputError as error:
            raise InputError(f"{path}: {error}") from None
        except DAMAGE:
            raise InputError(f"{path}: damaged; name another file to learn again") from None
        for name in [*stored, *now]:
            value, given = stored.get(name, "none"), now.get(name, "none")
            if name != "extract" and value != given:
                raise InputError(
                    f"{path}: learned with {name} {value}, but the options give {given}"
                )
        return decided

    def signature(self) -> dict[str, Any]:
        if self.remembered is None:
            raise ValueError("nothing is decided yet; call decide(pairs) before")
        return self.signature_by(self.remembered)


class DecidedAligner(Aligner):
    """An aligner that leaves nothing open, and never changes.

    Args:
        aligner: has the models.
        decision: what it left open.
    """

    def __init__(self, aligner: OpenAligner, decision: Decision):
        self.aligner, self.decision, self.models = aligner, decision, aligner.models
        self.forcing, self.reader = aligner.forcing, aligner.reader

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.aligner!r}, {self.signature()})"

    @property
    def agreement(self) -> float | None:
        """How far words of the pairs that decided agree, above chance; None if nobody asked."""
        return self.decision.agreement

    def decide_on(self, *streams: Iterable[Any]) -> tuple[DecidedAligner, list[Iterable[Any]]]:
        return self, list(streams)

    def links(self, soft: Soft) -> list[Link]:
        """Hard links of a soft alignment."""
        return self.aligner.links_by(self.decision, soft)

    def shares(self, soft: Soft) -> np.ndarray:
        """The probability of each link, or its share of what its target word takes, (T, S)."""
        return self.aligner.shares_by(self.decision, soft)

    def confidences(self, soft: Soft, links: Sequence[Link]) -> list[float]:
        """The same of some links."""
        return values_of(self.shares(soft), links)

    def signature(self) -> dict[str, Any]:
        return self.aligner.signature_by(self.decision)

    def learned(self) -> str:
        """What a learned file keeps."""
        return learned_text(self.decision, _fingerprints(self), self.signature())

    def save(self, path: str | Path) -> None:
        """Writes a learned file, for ``load(MODEL, learned=path)`` and ``align --learned``."""
        with whole_file(path) as file:
            file.write(self.learned())


def _fingerprints(aligner: Aligner) -> list[str]:
    return [fingerprint(model.forcing.model) for model in aligner.models]


class NormAligner(OpenAligner):
    """Aligns words by the source–target attention of one translation model, by default by norms.

    Examples:
        >>> aligner = NormAligner.from_checkpoint(
        ...     "best.pt", data="data-bin", bpe="sentencepiece", model="spm.model"
        ... )
        >>> aligner.align("das ist ein haus .", "this is a house .")
        [(0, 0), (1, 1), (2, 2), (3, 3), (4, 4)]

    What is ``auto`` is chosen on the first pairs that are aligned, and then kept: later
    pairs are aligned in the same way. ``decide(pairs)`` returns an aligner with this layer and
    step.

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
        self.options = options = replace(options or AlignOptions(), **changes)
        # What the options name, from 0; None where they leave it open.
        self.layer = self.head = None
        if options.layer != AUTO:
            self.layer = checked_layer(forcing, options.layer, options.head)
        if options.head is not None:
            self.head = options.head - 1
        method = method_of(options.method)
        step = options.step if len(method.steps) > 1 else method.steps[0]
        if step != AUTO and (self.layer is not None or not method.layers):
            named = Evidence(options.method, self.layer, step, self.head)
            self.remembered = Decision(NONE, [named])

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
        choices = {name: options.pop(name) for name in own & options.keys()}
        network, task = load_single(path, data, overrides)
        reader = PairReader.from_names(task, **options)
        return cls(TeacherForcing(network.to(device), task), reader, **choices)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({type(self.forcing.model).__name__}, {self.options})"

    @property
    def models(self) -> Sequence[NormAligner]:  # type: ignore[override]
        return [self]  # made when asked for, so that nothing keeps the aligner alive

    @property
    def evidence(self) -> Evidence | None:
        """Where the alignment comes from; None while something is open."""
        return self.remembered and self.remembered.evidence

    @property
    def languages(self) -> str:
        """``de-en``, for messages."""
        return "-".join(map(str, languages_of(self.reader.task)))

    def decision_on(self, first: Sequence[list[Pair]]) -> Decision:
        (pairs,) = decisive_samples([self], first)
        return self.decision_by(pairs)

    def decision_by(self, pairs: Sequence[Pair]) -> Decision:
        """What some pairs decide, be they many or few."""
        chosen, agreement = self.chosen(pairs)
        fitting = [place for place in chosen if self.options.step in (place.step, AUTO)]
        return Decision(NONE, fitting[:1], None, len(pairs), agreement)

    def chosen(self, pairs: Sequence[Pair]) -> tuple[list[Evidence], float]:
        """The best layer for each step, without gold, the better step first.

        Only layers that the options leave open are looked at. The number says how far source and
        target words agree there, above chance.
        """
        candidates = every_evidence(self.forcing, [self.options.method], heads=False)
        if self.layer is not None:
            of_layer = [evidence for evidence in candidates if evidence.layer == self.layer]
            candidates = [evidence._replace(head=self.head) for evidence in of_layer]
        with bar("choosing a layer", total=len(pairs)) as shown:
            (vote,) = self.votes([candidates], pairs, progress=shown.update)
        chosen = vote.chosen()
        agreement = vote.agreement_of(chosen[0])
        warn_of_noise(agreement, len(pairs), self.languages)
        return chosen, agreement

    def votes(
        self,
        candidates: Sequence[Sequence[Evidence]],
        pairs: Iterable[Pair],
        *,
        progress: Progress | None = None,
    ) -> list[LayerVote]:
        """What pairs say of several choices of layers and steps, in one pass."""
        votes = [LayerVote(of_choice, null=self.options.null) for of_choice in candidates]
        for softs in self.evidences_many(pairs, list(chain(*candidates)), progress=progress):
            rest = iter(softs)
            for vote in votes:
                vote.add(list(islice(rest, len(vote.candidates))))
        return votes

    def check(self, evidence: Evidence) -> None:
        """Refuses an evidence that the model does not have."""
        layer, head = evidence.numbers
        check_place(evidence.method, layer is not None, evidence.step)
        if layer is not None:
            checked_layer(self.forcing, layer, head)

    def run_by(
        self, decision: Decision, streams: Sequence[Iterable[Pair]], progress: Progress | None
    ) -> Iterator[Soft]:
        for (soft,) in self.evidences_many(streams[0], [decision.evidence], progress=progress):
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
        run = partial(soft_alignments, keep_pieces=by_pieces)
        return self._by_pair(run, pairs, evidences, progress)

    def shares_many(
        self,
        pairs: Iterable[Pair],
        evidences: Sequence[Evidence],
        *,
        progress: Progress | None = None,
    ) -> Iterator[np.ndarray]:
        """The same as shares of what each target word takes, (E, T, S) for each pair."""
        run = partial(share_matrices, null=self.options.null)
        return self._by_pair(run, pairs, evidences, progress)

    def _by_pair(
        self,
        compute: Callable[..., Iterator[Result]],
        pairs: Iterable[Pair],
        evidences: Sequence[Evidence],
        progress: Progress | None,
    ) -> Iterator[Result]:
        run = partial(compute, self.forcing, evidences=evidences, merges=self.options.merges)
        # Results wait for their turn: fewer at once if they are many.
        window = max(100, WINDOW // max(1, len(evidences) // 6))
        return map_batches(
            pairs, run, max_tokens=self.options.batch_tokens, window=window, progress=progress
        )

    def links_by(self, decision: Decision, soft: Soft) -> list[Link]:
        return self.links(soft, decision.evidence.method)

    def links(self, soft: Soft, method: str | None = None) -> list[Link]:
        """Hard links of a soft alignment, perhaps of another method."""
        rule = self.options.rule_of(method or self.options.method)
        return links_of(soft, rule, null=self.options.null)

    def shares_by(self, decision: Decision, soft: Soft) -> np.ndarray:
        return self.shares(soft)

    def shares(self, soft: Soft) -> np.ndarray:
        """A soft alignment as shares of what each target word takes, (T, S)."""
        return row_shares(soft.words, soft.null if self.options.null else None)

    def signature_by(self, decision: Decision) -> dict[str, Any]:
        evidence, options = decision.evidence, self.options
        layer, head = evidence.numbers
        open_step = options.step == AUTO and len(method_of(evidence.method).steps) > 1
        return {
            "method": full_spec(evidence.method),
            "layer": _marked(options.layer == AUTO, layer) if layer else "all",
            "head": head or "all",
            "step": _marked(open_step, evidence.step),
            **options.extraction(),
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
