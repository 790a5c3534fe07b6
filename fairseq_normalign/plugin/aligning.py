"""Beam search whose translations come with alignments: ``--print-alignment``."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import torch
from fairseq.data.encoders.gpt2_bpe import GPT2BPE
from fairseq.data.encoders.hf_byte_bpe import HuggingFaceByteLevelBPE

from fairseq_normalign.alignment.aligner import AUTO, DecidedAligner, NormAligner
from fairseq_normalign.host.attention_modules import single_beam
from fairseq_normalign.host.pairs import Pair, PairReader
from fairseq_normalign.host.teacher_forcing import TeacherForcing
from fairseq_normalign.plugin.beam_search import PatientGenerator
from fairseq_normalign.plugin.exporting import unpadded
from fairseq_normalign.text.words import normalise_bpe_name

if TYPE_CHECKING:
    from fairseq_normalign.plugin.task import TranslationNormalignTask

logger = logging.getLogger(__name__)
BYTE_LEVEL = (GPT2BPE, HuggingFaceByteLevelBPE)


class AligningGenerator(PatientGenerator):
    """Beam search, then one teacher-forced pass over what it found, which is aligned.

    Each hypothesis' ``alignment`` holds links (source, target) or, if ``soft``, for each target
    word its shares of the source words as text.
    """

    def __init__(
        self,
        models,
        tgt_dict,
        *,
        task: TranslationNormalignTask,
        soft: bool,
        nbest: int = 1,
        **kwargs,
    ):
        super().__init__(models, tgt_dict, **kwargs)
        (self.network,) = models
        self.soft, self.nbest = soft, nbest
        self.task = task
        words = task.cfg.align_words
        self.scheme = None if words == AUTO else normalise_bpe_name(words)
        self.aligner: NormAligner | None = None  # until there is something to align
        self.decided: DecidedAligner | None = None

    @torch.no_grad()
    def generate(self, models, sample, **kwargs):
        aligner = self.aligner = self.aligner or self._new_aligner()
        finalized = super().generate(models, sample, **kwargs)
        hypotheses = []
        pairs = []
        sources = unpadded(sample["net_input"]["src_tokens"], self.pad)
        for source, beam in zip(sources, finalized, strict=True):
            for hypothesis in beam[: self.nbest]:
                target = hypothesis["tokens"].cpu()
                hypotheses.append(hypothesis)
                pairs.append(aligner.reader.binarised_pair(source, target, "hypothesis"))
        with single_beam(self.network):
            self.decided = self.decided or _decided(aligner, pairs)
            softs = list(self.decided.run(pairs))
        for hypothesis, soft in zip(hypotheses, softs, strict=True):
            if self.soft:
                rows = aligner.shares(soft)
                hypothesis["alignment"] = [[f"{share:.6f}" for share in row] for row in rows]
            else:
                hypothesis["alignment"] = self.decided.links(soft)
        return finalized

    def _new_aligner(self) -> NormAligner:
        """By what the command has built: fairseq builds its BPE after the generator.

        Pieces are joined by their marks, but GPT-2's are numbers, which its BPE alone can spell.
        """
        bpe = getattr(self.task, "bpe", None)
        scheme = self.scheme
        if scheme is None and isinstance(bpe, BYTE_LEVEL):
            scheme = "gpt2"
        reader = PairReader(self.task, bpe=bpe if scheme == "gpt2" else None, scheme=scheme)
        if self.scheme is None and reader.scheme != "none":
            logger.info(
                f"links are of words, joined by the dictionary's marks ({reader.scheme}); "
                "--align-words none gives links of pieces"
            )
        forcing = TeacherForcing(self.network, self.task)
        return NormAligner(forcing, reader, self.task.align_options())


def _decided(aligner: NormAligner, pairs: list[Pair]) -> DecidedAligner:
    """The aligner, its layer and step decided on the first batch if need be."""
    decided, _ = aligner.decide_on(pairs)
    if aligner.evidence is None:
        place = "layer:{layer}|step:{step}".format(**decided.signature())
        logger.info(f"aligning by {place}, chosen without gold")
    return decided
