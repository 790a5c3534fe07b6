"""Word alignments from one model: below the command, the task, evaluation and the Python API."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from itertools import chain, islice
from typing import Any

import numpy as np

from fairseq_normalign.alignment.layer_choice import (
    SAMPLE,
    choose_layers,
    decisive_pairs,
    warn_of_noise,
)
from fairseq_normalign.attention.extract import (
    MERGES,
    PIECE_ARGMAX,
    check_extract,
    confidences,
    links_of,
    row_shares,
)
from fairseq_normalign.attention.methods import full_spec, method_of
from fairseq_normalign.attention.soft import (
    EOS,
    STEPS,
    SUM_AND_MEAN,
    Choice,
    Evidence,
    Merges,
    Soft,
)
from fairseq_normalign.attention.soft_alignments import soft_alignments
from fairseq_normalign.errors import InputError
from fairseq_normalign.host.batches import WINDOW, map_batches
from fairseq_normalign.host.checkpoint import load_single
from fairseq_normalign.host.pairs import Pair, PairReader, text_pairs
from fairseq_normalign.host.special_tokens import languages_of
from fairseq_normalign.host.teacher_forcing import TeacherForcing
from fairseq_normalign.names import from_one
from fairseq_normalign.text.links import Link

AUTO = "auto"
Text = str | Sequence[str]  # a line, or a list of words
Progress = Callable[[int], object]


@dataclass(frozen=True)
class AlignOptions:
    """Every choice of one model that moves AER.

    Args:
        method: a name in ``methods.METHODS``, perhaps with a number, as in ``lrp-epsilon:0.001``.
        layer: decoder layer, from 1; ``auto`` decides without gold (see ``layer_choice``).
        head: head of that layer, from 1 as in the model that no head was removed from; all of them
            by default.
        step: ``input`` takes a target word's alignment where the decoder reads it, ``output`` where
            it predicts it; ``auto`` decides without gold.
        eos: ``null``: a target word that takes most from the source's </s> gets no link; ``skip``:
            </s> is left out.
        extract: how links are taken from the soft alignment: a name in
            ``attention.extract.EXTRACTORS``, perhaps with a number, as in ``threshold:0.3``; or
            ``piece-argmax``, which links pieces, and words any of whose pieces are linked. By
            default the method's own rule, which is ``argmax`` of most methods.
        source_merge: how source pieces become words: ``sum``, ``mean`` or ``max``.
        target_merge: the same of target pieces.
        batch_tokens: how many tokens, padding included, are run at once; moves nothing but time.
    """

    method: str = "norms"
    layer: int | str = AUTO
    head: int | None = None
    step: str = AUTO
    eos: str = "null"
    extract: str | None = None
    source_merge: str = "sum"
    target_merge: str = "mean"
    batch_tokens: int = 4000

    def __post_init__(self) -> None:
        method = method_of(self.method)
        self._check_choice("step", (*STEPS, AUTO))
        self._check_choice("eos", EOS)
        self._check_choice("source_merge", tuple(MERGES))
        self._check_choice("target_merge", tuple(MERGES))
        check_extract(self.rule)
        if self.by_pieces and self.merges != SUM_AND_MEAN:
            raise InputError(
                f"extract {self.rule} links pieces before they are merged; expected no "
                f"source_merge or target_merge with it, not {self.merges}"
            )
        if not method.layers and (self.layer != AUTO or self.head is not None):
            raise InputError(
                f"method {self.method} explains the whole model; expected no layer with it, and "
                "no head"
            )
        if self.step not in (*method.steps, AUTO):
            raise InputError(
                f"method {self.method} cannot answer for step {self.step}; expected step "
                f"{' or '.join(method.steps)}"
            )
        if self.layer == AUTO and self.head is not None:
            raise InputError(f"head {self.head} of which layer? layer auto chooses whole layers")

    def _check_choice(self, name: str, choices: Sequence[str]) -> None:
        value = getattr(self, name)
        if value not in choices:
            raise InputError(f"unknown {name} {value!r}; expected one of: {', '.join(choices)}")

    @property
    def merges(self) -> Merges:
        return Merges(self.source_merge, self.target_merge)

    @property
    def rule(self) -> str:
        """How links are taken."""
        return self.rule_of(self.method)

    def rule_of(self, method: str) -> str:
        """How links of another method would be taken: in its own way, if none is named."""
        return method_of(method).extract if self.extract is None else self.extract

    @property
    def by_pieces(self) -> bool:
        """Whether links are taken from pieces instead of words."""
        return self.rule == PIECE_ARGMAX

    def extraction(self, method: str | None = None) -> dict[str, str]:
        """How soft alignments, perhaps of another method, become links, as signatures tell it."""
        method = method or self.method
        rule = self.rule_of(method)
        return {
            "eos": self.eos if method_of(method).eos else "skip",
            "merge": "none" if rule == PIECE_ARGMAX else str(self.merges),
            "extract": rule,
        }

    @property
    def null(self) -> bool:
        """Whether </s> may win, and then there is no link."""
        return self.eos == "null"


class Aligner(ABC):
    """What all aligners can do with sentence pairs that are read already.

    Pairs come in one stream for each model: a :class:`NormAligner` has one, a ``CombinedAligner``
    of two models two.
    """

    # How far the words of the pairs that decided agree, above chance; None if nobody asked.
    agreement: float | None = None

    @property
    @abstractmethod
    def models(self) -> Sequence[NormAligner]:
        """The aligner of each model, which has its ``forcing`` and ``reader``."""

    @abstractmethod
    def decide_on(self, *streams: Iterable[Pair]) -> tuple[Aligner, list[Iterable[Pair]]]:
        """An aligner that leaves nothing open, decided on the first pairs; and all pairs again."""

    def decide(self, pairs: Iterable[tuple[Text, Text]]) -> Aligner:
        """An aligner that leaves nothing open, decided on the first of some pairs of texts."""
        return self.decide_on(*self.read(pairs))[0]

    @property
    @abstractmethod
    def sample_size(self) -> int:
        """How many of the first pairs decide what is left open."""

    @abstractmethod
    def decision(self) -> dict[str, Any]:
        """What was decided, as JSON holds it; of an aligner that has decided."""

    @abstractmethod
    def with_decision(self, decision: dict[str, Any]) -> Aligner:
        """This aligner with what it leaves open taken from another one's decision."""

    @abstractmethod
    def run(self, *streams: Iterable[Pair], progress: Progress | None = None) -> Iterator[Soft]:
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
        """Every choice that moves AER; of an aligner that has decided."""

    @abstractmethod
    def read(self, pairs: Iterable[tuple[Text, Text]]) -> list[Iterable[Pair]]:
        """Pairs of texts (source, target) as the streams that the other methods take."""

    def links_many(self, *streams: Iterable[Pair]) -> Iterator[list[Link]]:
        """Links (source, target) of each pair, 0-based, in input order."""
        return map(self.links, self.run(*streams))

    def align(self, source: Text, target: Text) -> list[Link]:
        """Links ``(source, target)``, 0-based, of one pair of sentences: text or lists of words."""
        return next(self.align_many([(source, target)]))

    def align_many(self, pairs: Iterable[tuple[Text, Text]]) -> Iterator[list[Link]]:
        """Links of each pair of texts, in input order. Holds a few thousand pairs at a time."""
        return self.links_many(*self.read(pairs))

    def soft(self, source: Text, target: Text) -> Soft:
        """The soft alignment of one pair: ``words`` (T, S), and ``null`` (T,), what </s> gets."""
        streams = [list(stream) for stream in self.read([(source, target)])]
        (pair,) = streams[0]
        soft = next(iter(self.run(*streams)))
        return soft._replace(texts=(pair.source.text, pair.target.text))

    def soft_many(self, pairs: Iterable[tuple[Text, Text]]) -> Iterator[Soft]:
        """The soft alignment of each pair of texts, in input order."""
        return self.run(*self.read(pairs))


class NormAligner(Aligner):
    """Aligns words by what a translation Transformer's source–target attention adds up.

    Examples:
        >>> aligner = NormAligner.from_checkpoint(
        ...     "best.pt", data="data-bin", bpe="sentencepiece", model="spm.model"
        ... )
        >>> aligner.align("das ist ein haus .", "this is a house .")
        [(0, 0), (1, 1), (2, 2), (3, 3), (4, 4)]

    What ``auto`` leaves open is decided on the first pairs that are aligned, and stays so: later
    pairs are aligned in the same way. ``decide(pairs)`` returns an aligner that knows its layer and
    step.

    Args:
        options: see ``AlignOptions``; or name them one by one.
    """

    def __init__(
        self,
        forcing: TeacherForcing,
        reader: PairReader,
        options: AlignOptions | None = None,
        *,
        evidence: Evidence | None = None,
        **changes: Any,
    ):
        _check_names(changes)
        if not forcing.layers_with_heads():
            raise InputError("the source–target attention has no heads left: nothing to align by")
        self.forcing, self.reader = forcing, reader
        self.options = replace(options or AlignOptions(), **changes)
        self.evidence = evidence or self._named_evidence()  # None while something is open

    @classmethod
    def from_checkpoint(
        cls,
        path: str,
        data: str,
        *,
        bpe: str | None = None,
        model: str | None = None,
        source_model: str | None = None,
        target_model: str | None = None,
        scheme: str | None = None,
        tokenizer: str | None = None,
        device: str = "cpu",
        overrides: dict | None = None,
        **options: Any,
    ) -> NormAligner:
        """Loads a checkpoint.

        Args:
            path: the checkpoint.
            data: the directory with ``dict.*.txt``.
            bpe: fairseq's name of the model's BPE, if texts are to be split into pieces.
            model: the BPE's file (SentencePiece model or BPE codes).
            source_model: the same for the source alone, if each side has its own.
            target_model: the same for the target.
            scheme: how pieces join to words, if texts are split into pieces already.
            tokenizer: fairseq's name of a tokeniser, if texts are not split into words yet.
            device: where to run.
            overrides: options to change in the checkpoint's configuration.
            options: see ``AlignOptions``.
        """
        network, task = load_single(path, data, overrides)
        reader = PairReader.from_names(
            task,
            bpe=bpe,
            model=model,
            source_model=source_model,
            target_model=target_model,
            scheme=scheme,
            tokenizer=tokenizer,
        )
        return cls(TeacherForcing(network.to(device), task), reader, **options)

    def __repr__(self) -> str:
        options = self.options
        choices = {"method": options.method, "layer": options.layer, "step": options.step}
        if self.evidence is not None:
            choices = self.signature()
        shown = "|".join(f"{name}:{value}" for name, value in choices.items())
        return f"{type(self).__name__}({type(self.forcing.model).__name__}, {shown})"

    @property
    def models(self) -> Sequence[NormAligner]:
        return [self]

    def _named_evidence(self) -> Evidence | None:
        """What the options name, checked against the model; None if they leave something open."""
        layer = self._named_layer()
        steps = method_of(self.options.method).steps
        step = steps[0] if len(steps) == 1 else self.options.step
        if step == AUTO or (layer is None and method_of(self.options.method).layers):
            return None
        head = None if self.options.head is None else int(self.options.head) - 1
        return Evidence(self.options.method, layer, step, head)

    def _named_layer(self) -> int | None:
        """The layer that the options name, from 0."""
        if self.options.layer == AUTO:
            return None
        return checked_layer(self.forcing, self.options.layer, self.options.head)

    def read(self, pairs: Iterable[tuple[Text, Text]]) -> list[Iterable[Pair]]:
        return [text_pairs(pairs, self.reader)]

    def decide_on(self, *streams: Iterable[Pair]) -> tuple[NormAligner, list[Iterable[Pair]]]:
        (pairs,) = streams
        if self.evidence is not None:
            return self, [pairs]
        rest = iter(pairs)
        first = list(islice(rest, SAMPLE))
        choice = self.choice(decisive_pairs(first, self.reader, self.forcing))
        return self.decided(choice), [chain(first, rest)]

    @property
    def sample_size(self) -> int:
        return SAMPLE if self.evidence is None else 0

    def decision(self) -> dict[str, Any]:
        return self.place._asdict()

    def with_decision(self, decision: dict[str, Any]) -> NormAligner:
        evidence = Evidence(**decision)
        if evidence.method != self.options.method:
            raise InputError(f"method {evidence.method}; expected {self.options.method}")
        decided: dict[str, Any] = {
            "layer": AUTO if evidence.layer is None else evidence.layer + 1,
            "head": None if evidence.head is None else evidence.head + 1,
            "step": evidence.step,
        }
        for name, value in decided.items():
            named = getattr(self.options, name)
            if str(named) not in (AUTO, str(value)):
                raise InputError(f"{name} {value}; expected {named}, as the options say")
        if NormAligner(self.forcing, self.reader, self.options, **decided).evidence != evidence:
            raise InputError("leaves something open; expected layer and step")
        return NormAligner(self.forcing, self.reader, self.options, evidence=evidence)

    def decided(self, choice: Choice) -> NormAligner:
        """This aligner with what its options leave open taken from a choice."""
        step = choice.step if self.options.step == AUTO else self.options.step
        evidence = Evidence(self.options.method, choice.layers[step], step)
        decided = NormAligner(self.forcing, self.reader, self.options, evidence=evidence)
        decided.agreement = choice.agreement
        return decided

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

    @property
    def languages(self) -> str:
        """``de-en``, for messages."""
        return "-".join(map(str, languages_of(self.reader.task)))

    def run(self, *streams: Iterable[Pair], progress: Progress | None = None) -> Iterator[Soft]:
        aligner, (pairs,) = self.decide_on(*streams)
        self.evidence = aligner.evidence  # what was decided stays
        for (soft,) in self.evidences_many(pairs, [aligner.place], progress=progress):
            yield soft

    @property
    def place(self) -> Evidence:
        """Where the alignment comes from; of an aligner that has decided."""
        if self.evidence is None:
            raise ValueError("layer and step are not decided yet; expected decide(pairs) before")
        return self.evidence

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
        return links_of(soft, self.options.rule, null=self.options.null)

    def confidences(self, soft: Soft, links: Sequence[Link]) -> list[float]:
        return confidences(soft.words, links, null=self._null(soft))

    def shares(self, soft: Soft) -> np.ndarray:
        """A soft alignment as shares of what each target word takes, (T, S)."""
        return row_shares(soft.words, self._null(soft))

    def _null(self, soft: Soft) -> np.ndarray | None:
        return soft.null if self.options.null else None

    def signature(self) -> dict[str, Any]:
        method, layer, step, head = self.place
        options = self.options
        open_step = options.step == AUTO and len(method_of(method).steps) > 1
        return {
            "method": full_spec(method),
            "layer": "all" if layer is None else _marked(options.layer == AUTO, layer + 1),
            "head": "all" if head is None else head + 1,
            "step": _marked(open_step, step),
            **options.extraction(),
        }


def _marked(auto: bool, value: object) -> str | object:
    """A value as signatures show it: what was decided without gold is marked."""
    return f"auto:{value}" if auto else value


def _check_names(options: dict[str, Any]) -> None:
    known = [field.name for field in fields(AlignOptions)]
    for name in options:
        if name not in known:
            raise InputError(f"unknown option {name!r}; expected one of: {', '.join(known)}")


def checked_layer(forcing: TeacherForcing, layer: int | str, head: int | None = None) -> int:
    """The 0-based index of a layer that people count from 1, if it has heads, and this one."""
    index = from_one("layer", layer, range(forcing.layers))
    heads = forcing.head_numbers[index]
    if not heads:
        raise InputError(f"layer {layer} has no heads left: it takes nothing from a source")
    if head is not None:
        from_one("head", head, heads, owner=f"layer {layer}")
    return index
