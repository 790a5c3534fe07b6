"""What heads look at: positions, rare tokens and syntax, gathered over a corpus or a treebank."""

from __future__ import annotations

import random
import warnings
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import torch

from fairseq_normalign.attention.extract import to_words
from fairseq_normalign.errors import InputError
from fairseq_normalign.heads.attention_pass import Seen, record_heads, running_heads, watch
from fairseq_normalign.heads.criteria import RARE_TOP
from fairseq_normalign.heads.profile import Finding
from fairseq_normalign.heads.profiling import Survey
from fairseq_normalign.heads.rare_tokens import RareTokens, rare_tokens, unusable
from fairseq_normalign.heads.roles import PATTERNS, Positions, last_hits, offsets, rare_hits, rarest
from fairseq_normalign.heads.syntax import Syntax
from fairseq_normalign.heads.tally import Tally
from fairseq_normalign.host.batches import map_batches, text_of_batch
from fairseq_normalign.host.pairs import Pair, PairReader, Sentence, examined
from fairseq_normalign.host.teacher_forcing import TeacherForcing, places_by_word
from fairseq_normalign.names import Head, all_heads
from fairseq_normalign.progress import bar
from fairseq_normalign.runs.chunks import cut
from fairseq_normalign.text.treebank import Tree

RANKS = {"rarest": 1, "two rarest": 2}
WINDOW = 200  # trees sorted by length at a time
MOVED = 0.1  # share of the test tokens that change places in our control


class PositionWatcher:
    """Relative positions of maxima in self-attention; in the encoder, also the last token."""

    KEPT = ("positions", "last")

    def __init__(self, survey: Survey | None = None) -> None:
        self.positions: dict[tuple[str, int], Positions] = defaultdict(Positions)
        self.last = Tally()

    def __call__(self, seen: Seen) -> None:
        kind, _ = seen.attention
        if kind != "cross":
            self.positions[seen.attention].add(offsets(seen.recorded.weights, seen.cells))
        if kind == "encoder":
            hits, cases = last_hits(seen.recorded.weights, seen.cells)
            self.last.add(seen.attention, hits.cpu(), cases)

    def result(self) -> Finding:
        """The favourite position, and shares of the patterns of Raganato and Tiedemann (2018)."""
        details = {}
        for attention, positions in self.positions.items():
            for number in range(len(positions.counts)):
                head = Head(*attention, number)
                favourite = positions.favourite(number)
                if favourite is not None:
                    offset, share = favourite
                    patterns = self._patterns(head, positions)
                    details[head] = {"offset": offset, "share": share, "patterns": patterns}
        return Finding(details={"positions": details})

    def _patterns(self, head: Head, positions: Positions) -> dict[str, float]:
        shares = {}
        for name, offset in PATTERNS.items():
            if offset <= 0 or head.kind == "encoder":  # the decoder sees nothing that comes later
                shares[name] = positions.share(head.head, offset)
        last = self.last.means()
        if head in last:
            shares["last"] = last[head]
        return shares


class RareWatcher:
    """How often encoder heads look at the rarest tokens of the sentence."""

    KEPT = ("tallies",)

    def __init__(self, tokens: RareTokens):
        self.tokens = tokens
        self.tallies: dict[tuple[str, str], Tally] = defaultdict(Tally)
        self.batch: Sequence[Pair] | None = None

    def __call__(self, seen: Seen) -> None:
        if seen.attention[0] != "encoder":
            return
        if seen.pairs is not self.batch:  # every layer sees the same batch
            self.batch = seen.pairs
            self.counts = self.tokens.counts(seen.pairs).to(seen.cells.words.device)  # (B, S)
        keys = seen.cells.words.any(1)  # (B, S)
        sentences = self.tokens.examined(self.counts, keys)
        for name, rank in RANKS.items():
            rare = rarest(self.counts, keys, rank=rank)
            hits = rare_hits(seen.recorded.weights, seen.cells, rare, sentences)
            for unit, (sums, cases) in hits.items():
                self.tallies[name, unit].add(seen.attention, sums.cpu(), cases)

    def sentences(self) -> int:
        """How many sentences were looked at."""
        return max(self.tallies["rarest", "sentences"].cases.values(), default=0)

    def details(self) -> dict[Head, dict]:
        """For each head, rank and unit (tokens, sentences, chance) the mean."""
        means: dict[Head, dict] = defaultdict(dict)
        for (rank, unit), tally in self.tallies.items():
            for head, mean in tally.means().items():
                means[head].setdefault(rank, {})[unit] = mean
        return dict(means)


class RareRole:
    """Maxima on rare tokens, and a control: the same after some tokens have changed places.

    Only sentences count whose rarest token is not among the most frequent (Voita et al., 2019). If
    there are none, or if counts do not tell tokens apart, there is nothing to measure: that is
    said, and refused if the options ask for it.
    """

    KEPT = ("tallies",)

    def __init__(self, survey: Survey):
        self.survey = survey
        self.watcher: RareWatcher | None = None
        tokens = rare_tokens(survey)
        if isinstance(tokens, str):
            _tell(tokens)
        else:
            self.watcher = RareWatcher(tokens)

    def __call__(self, seen: Seen) -> None:
        if self.watcher is not None:
            self.watcher(seen)

    @property
    def tallies(self) -> dict[tuple[str, str], Tally]:
        """The sums of the watcher; none if nothing is measured."""
        return {} if self.watcher is None else self.watcher.tallies

    @tallies.setter
    def tallies(self, tallies: dict[tuple[str, str], Tally]) -> None:
        if self.watcher is not None:
            self.watcher.tallies = tallies

    def result(self) -> Finding:
        if self.watcher is None:
            return Finding()
        rare = self.watcher.details()
        if not rare:
            top = self._top()
            reason = f"the rarest token of every sentence is among the {top} most frequent"
            _tell(unusable(self.survey, reason))
            return Finding()
        options = self.survey.options
        control = RareWatcher(self.watcher.tokens)
        pairs = list(moved_pairs(self.survey.pairs, seed=options.seed))
        watch(
            self.survey.forcing,
            pairs,
            [control],
            max_tokens=options.max_tokens,
            sums=self.survey.sums,
            name="attention-moved",
        )
        own = options.counts is None
        settings = {
            "frequencies": "dictionary" if own else Path(options.counts_name).name,
            "rare-top": self._top(),
            "rare-sentences": self.watcher.sentences(),
            "seed": options.seed,
        }
        return Finding(details={"rare": rare, "rare_moved": control.details()}, settings=settings)

    def _top(self) -> int:
        top = self.survey.options.rare_top
        return RARE_TOP if top is None else top


def _tell(reason: str) -> None:
    warnings.warn(f"no rare-token roles: {reason}", stacklevel=2)


def moved(pair: Pair, generator: random.Random, share: float = MOVED) -> Pair:
    """The pair with a share of its source tokens, two at least, having changed places.

    What is left of a head's maxima tells whether it looks for the rare token wherever it is. This
    is not Sennrich's control, which is about training: see ``plugin.source_noise``.
    """
    places = [place for place, word in enumerate(pair.source.words) if word >= 0]
    wanted = max(2, round(share * len(places)))
    chosen = generator.sample(places, min(len(places), wanted))
    order = list(range(len(pair.source.words)))
    for place, other in zip(chosen, chosen[1:] + chosen[:1], strict=True):
        order[place] = other
    words = [pair.source.words[place] for place in order]
    return pair._replace(source=Sentence(pair.source.tokens[order], words, pair.source.text))


def moved_pairs(pairs: Iterable[Pair], *, seed: int = 1) -> Iterator[Pair]:
    generator = random.Random(seed)
    return (moved(pair, generator) for pair in pairs)


def syntax(survey: Survey) -> Finding:
    """Relations and trees in the weights of all encoder heads, between words."""
    options = survey.options
    if not options.trees:
        raise InputError("syntactic roles and UAS need a treebank; expected trees")
    forcing = TeacherForcing(survey.forcing.model, survey.reader.task, attention="encoder")
    heads = all_heads(running_heads(forcing))
    if not heads:
        warnings.warn("no syntactic roles: the encoder has no heads left", stacklevel=2)
        return Finding()
    measured = measure_syntax(forcing, survey)
    for relation in measured.missing():
        warnings.warn(
            f"{options.trees_name}: no sentence has the relation {relation!r}", stacklevel=2
        )
    scores, branching = measured.attachment_scores()
    details = {"relations": measured.accuracies(), "parsed": heads, "branching": branching}
    attached = dict(zip(heads, scores, strict=True))
    return Finding(attached, details, settings={"trees": len(options.trees)})


def measure_syntax(forcing: TeacherForcing, survey: Survey) -> Syntax:
    """The trees as all encoder heads see them, in the order of ``all_heads``.

    Args:
        forcing: looks at the encoder, as ``TeacherForcing(…, attention="encoder")``.
    """
    trees = survey.options.trees
    pairs = list(examined(_sentences(trees, survey.reader), survey.reader, name="treebank"))
    run = partial(_weights_between_words, forcing)
    measured = Syntax()
    this_pass = survey.sums.begin("trees", [measured], unit="sentences")
    windows = (window.items for window in cut(zip(trees, pairs, strict=True), WINDOW))
    with bar("trees", total=this_pass.left(len(trees)), unit="sentences") as shown:
        for window in this_pass.over(windows, text=text_of_batch, size=len):
            of_window = [pair for _, pair in window]
            weights = map_batches(of_window, run, max_tokens=survey.options.max_tokens)
            for (tree, _), of_tree in zip(window, weights, strict=True):
                measured.add(of_tree, tree)
                shown.update()
    return measured


def _sentences(trees: Sequence[Tree], reader: PairReader) -> Iterator[Pair]:
    """The sentences of a treebank, which have no target."""
    for number, tree in enumerate(trees, 1):
        yield reader.pair(tree.words, None, f"line {number} ({tree.where})")


def _weights_between_words(forcing: TeacherForcing, batch: list[Pair]) -> Iterator[np.ndarray]:
    """Weights of all heads together, (H, N, N) for each sentence."""
    forcing.check_lengths(batch)
    with torch.no_grad(), record_heads(forcing, values=False) as recording:
        forcing.forward(batch)
    by_layer = [recording[attention].weights for attention in running_heads(forcing)]
    weights = torch.cat(by_layer, 1).float().cpu().numpy()
    for matrix, pair in zip(weights, batch, strict=True):
        yield between_words(matrix, pair.source)


def between_words(weights: np.ndarray, sentence: Sentence) -> np.ndarray:
    """Weights between pieces (H, T, T) → between words (H, N, N), without marks.

    Keys of a word are added, its queries averaged.
    """
    order, ids = places_by_word(sentence)
    words = to_words(weights[:, order[:, None], order], ids, ids)
    return words[:, : len(sentence.text), : len(sentence.text)]
