"""Beam search that goes on (``--no-early-stop``), and that aligns (``--print-alignment``).

fairseq's search stops when there are as many translations as beams, whatever its option
``--no-early-stop`` says. Hugging Face's ``generate()`` searches on unless it is told
``early_stopping=True``.
"""

from __future__ import annotations

import logging
import math
from heapq import nlargest
from typing import TYPE_CHECKING

import torch
from fairseq.data.encoders.gpt2_bpe import GPT2BPE
from fairseq.data.encoders.hf_byte_bpe import HuggingFaceByteLevelBPE
from fairseq.search import BeamSearch, Search
from fairseq.sequence_generator import SequenceGenerator
from torch import Tensor

from fairseq_normalign.alignment.aligner import AUTO, DecidedAligner, NormAligner
from fairseq_normalign.errors import InputError
from fairseq_normalign.host.attention_modules import FairseqModule, single_beam
from fairseq_normalign.host.pairs import Pair, PairReader
from fairseq_normalign.host.teacher_forcing import TeacherForcing
from fairseq_normalign.plugin.exporting import unpadded
from fairseq_normalign.text.words import normalise_bpe_name

if TYPE_CHECKING:
    from fairseq_normalign.plugin.task import TranslationNormalignTask

logger = logging.getLogger(__name__)
BYTE_LEVEL = (GPT2BPE, HuggingFaceByteLevelBPE)


class PatientBeams(BeamSearch):
    """Beams that end in </s> when none of them is better than any translation that was found.

    With K beams, log-probabilities s and length penalty λ, a sentence is closed when it has K
    translations and max_beams s/|beam|^λ ≤ min_translations s/|translation|^λ.

    Args:
        dictionary: of the target language.
        penalty: λ.
    """

    def __init__(self, dictionary, penalty: float):
        super().__init__(dictionary)
        self.penalty = penalty
        # Of each sentence that is still searched:
        self.found: list[list[dict[str, Tensor]]] = []
        self.closed: list[bool] = []

    def step(self, step: int, lprobs: Tensor, scores: Tensor, *rest):
        sentences, beams, _ = lprobs.shape
        if step == 0:
            self.found = [[] for _ in range(sentences)]
            self.closed = [False] * sentences
        else:
            best = scores[:, :, step - 1].amax(1) / step**self.penalty
            self.closed = []
            for now, found in zip(best.tolist(), self.found, strict=True):
                is_full = len(found) == beams
                self.closed.append(not now > (min(map(_score, found)) if is_full else -math.inf))
            scores[self.closed] = 0.0  # also if no beam is left: -inf would never end
            lprobs[self.closed] = -math.inf
            lprobs[self.closed, :, self.eos] = 0.0
        return super().step(step, lprobs, scores, *rest)

    def prune_sentences(self, batch_idxs: Tensor) -> None:
        """Keeps these of the sentences."""
        self.found = [self.found[place] for place in batch_idxs.tolist()]


def _score(translation: dict[str, Tensor]) -> float:
    return float(translation["score"])


class PatientGenerator(SequenceGenerator):
    """fairseq's beam search, with patience if it is asked for, and with alignments.

    To align is one teacher-forced pass over what was found. The ``alignment`` of a hypothesis holds
    links (source, target) or, if soft, for each target word its shares of the source words as text.

    Args:
        task: ``translation_normalign``; its ``free_prefix`` says that tokens that are given, as
            codes of languages are, cost nothing, as in Hugging Face's search.
        patient: keep the best translations instead of the first, and search on as long as a beam
            is better than the worst of them; see ``PatientBeams``.
        print_alignment: ``hard`` or ``soft``; no alignments by default.
        nbest: how many hypotheses of a sentence are aligned.
    """

    search: Search

    def __init__(
        self,
        models,
        tgt_dict,
        *,
        task: TranslationNormalignTask,
        patient: bool = False,
        print_alignment: str | None = None,
        nbest: int = 1,
        **kwargs,
    ):
        super().__init__(models, tgt_dict, **kwargs)
        self.task, self.print_alignment, self.nbest = task, print_alignment, nbest
        self.aligner: NormAligner | None = None  # until there is something to align
        self.decided: DecidedAligner | None = None
        if patient and type(self.search) is not BeamSearch:
            name = type(self.search).__name__
            raise InputError(f"--no-early-stop works with plain beam search only, not {name}")
        if patient:
            penalty = self.len_penalty if self.normalize_scores else 0.0
            self.search = PatientBeams(tgt_dict, penalty)

    def _prefix_tokens(self, step, lprobs, *rest):
        lprobs, tokens, scores = super()._prefix_tokens(step, lprobs, *rest)
        if self.task.free_prefix:
            lprobs = lprobs.masked_fill(lprobs.isfinite(), 0.0)
        return lprobs, tokens, scores

    def finalize_hypos(self, *state):
        if not isinstance(self.search, PatientBeams):
            return super().finalize_hypos(*state)
        step, bbsz_idx, eos_scores, tokens, scores, finalized, finished, beam_size, *rest = state
        # Scores are compared here, one by one: a GPU would be waited for each time.
        more = (step, bbsz_idx, eos_scores.cpu(), tokens, scores)
        searched = [number for number, is_finished in enumerate(finished) if not is_finished]
        new = [[] for _ in finalized]
        ended = super().finalize_hypos(*more, new, finished, beam_size, *rest)
        for number, is_closed in zip(searched, self.search.closed, strict=True):
            if not is_closed:  # else all it has new is how it was closed
                known = [*finalized[number], *new[number]]
                finalized[number][:] = nlargest(beam_size, known, key=_score)
        self.search.found = [finalized[number] for number in searched]
        return ended

    def is_finished(self, step, unfin_idx, max_len, *more):
        if isinstance(self.search, PatientBeams):
            return step == max_len or self.search.closed[unfin_idx]
        return super().is_finished(step, unfin_idx, max_len, *more)

    @torch.no_grad()
    def generate(self, models, sample, **kwargs):
        if not self.print_alignment:
            return super().generate(models, sample, **kwargs)
        aligner = self.aligner = self.aligner or new_aligner(self.task, *models)
        finalized = super().generate(models, sample, **kwargs)
        hypotheses = []
        pairs = []
        sources = unpadded(sample["net_input"]["src_tokens"], self.pad)
        for source, beam in zip(sources, finalized, strict=True):
            for hypothesis in beam[: self.nbest]:
                target = hypothesis["tokens"].cpu()
                hypotheses.append(hypothesis)
                pairs.append(aligner.reader.binarised_pair(source, target, "hypothesis"))
        with single_beam(*models):
            self.decided = self.decided or _decided(aligner, pairs)
            softs = list(self.decided.run(pairs))
        for hypothesis, soft in zip(hypotheses, softs, strict=True):
            if self.print_alignment == "soft":
                rows = self.decided.shares(soft)
                hypothesis["alignment"] = [[f"{share:.6f}" for share in row] for row in rows]
            else:
                hypothesis["alignment"] = self.decided.links(soft)
        return finalized


def new_aligner(task: TranslationNormalignTask, network: FairseqModule) -> NormAligner:
    """By what the command has built: fairseq builds its BPE after the generator.

    Pieces are joined by their marks, but GPT-2's are numbers, which its BPE alone can spell.
    """
    words, bpe = task.cfg.align_words, getattr(task, "bpe", None)
    scheme = None if words == AUTO else normalise_bpe_name(words)
    if words == AUTO and isinstance(bpe, BYTE_LEVEL):
        scheme = "gpt2"
    reader = PairReader(task, bpe=bpe if scheme == "gpt2" else None, scheme=scheme)
    if words == AUTO and reader.scheme != "none":
        logger.info(
            f"links are of words, joined by the dictionary's marks ({reader.scheme}); "
            "--align-words none gives links of pieces"
        )
    return NormAligner(TeacherForcing(network, task), reader, task.align_options())


def _decided(aligner: NormAligner, pairs: list[Pair]) -> DecidedAligner:
    """The aligner, its layer and step decided on the first batch if need be."""
    decided, _ = aligner.decide_on(pairs)
    if aligner.evidence is None:
        place = "layer:{layer}|step:{step}".format(**decided.signature())
        logger.info(f"aligning by {place}, chosen without gold")
    return decided
