"""``translation_normalign``: translation whose ``--print-alignment`` aligns by vector norms.

``--export-attention`` writes what attentions did, beside it.
"""

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field

import torch
from fairseq.dataclass import ChoiceEnum
from fairseq.sequence_generator import SequenceGenerator
from fairseq.tasks import register_task
from fairseq.tasks.translation import TranslationConfig, TranslationTask
from omegaconf import II

from fairseq_normalign.alignment.soft import EOS, STEPS, Soft
from fairseq_normalign.alignment.words import normalise_bpe_name
from fairseq_normalign.analysis.aligner import AUTO, AlignOptions, NormAligner
from fairseq_normalign.errors import InputError
from fairseq_normalign.host.attention import single_beam
from fairseq_normalign.host.pairs import PairReader
from fairseq_normalign.host.teacher_forcing import TeacherForcing
from fairseq_normalign.plugin.exporting import (
    AttentionExport,
    ExportConfig,
    ExportedBatches,
    unpadded,
)
from fairseq_normalign.plugin.source_noise import SourceNoise

logger = logging.getLogger(__name__)

NAME = "translation_normalign"


@dataclass  # no postponed annotations in this file: fairseq reads the types of these fields
class TranslationNormalignConfig(TranslationConfig, ExportConfig):
    align_method: str = field(
        default="norms", metadata={"help": "what is compared; `normalign methods` lists them"}
    )
    align_layer: str = field(
        default=AUTO, metadata={"help": "decoder layer, from 1; auto decides without gold"}
    )
    align_step: ChoiceEnum([*STEPS, AUTO]) = field(  # type: ignore[valid-type]
        default=AUTO,
        metadata={"help": "align a word where the decoder reads it or where it predicts it"},
    )
    align_eos: ChoiceEnum(list(EOS)) = field(  # type: ignore[valid-type]
        default="null",
        metadata={
            "help": "null: a word that takes most from </s> gets no link; skip: </s> is left out"
        },
    )
    align_words: str = field(
        default="none",
        metadata={
            "help": "print links of words, joined as this BPE says (default: links of pieces)"
        },
    )
    source_token_noise: float = field(
        default=0.0,
        metadata={
            "help": "in training, replace each source token with this probability by any type of "
            "the dictionary"
        },
    )
    seed: int = II("common.seed")


@register_task(NAME, dataclass=TranslationNormalignConfig)
class TranslationNormalignTask(TranslationTask):
    """fairseq's ``translation`` with another ``--print-alignment``, exports, noise in training."""

    export: AttentionExport | None = None  # of the batches that fairseq asked for

    def __init__(self, cfg, src_dict, tgt_dict):
        super().__init__(cfg, src_dict, tgt_dict)
        self.noise = None
        if cfg.source_token_noise:
            self.noise = SourceNoise(cfg.source_token_noise, src_dict, seed=cfg.seed)

    def train_step(self, sample, model, criterion, optimizer, update_num, **more):
        if self.noise is not None:
            sample = self.noise(sample, update_num)
        return super().train_step(sample, model, criterion, optimizer, update_num, **more)

    def get_batch_iterator(self, dataset, *args, **kwargs):
        """All of a corpus that is translated.

        fairseq leaves out the last batch if its size is no multiple of 8.
        """
        if dataset is not self.datasets.get(self.cfg.train_subset):
            kwargs["required_batch_size_multiple"] = 1
        epochs = super().get_batch_iterator(dataset, *args, **kwargs)
        if not self.cfg.export_attention:
            return epochs
        if self.export is not None:
            raise InputError(
                f"--export-attention has the sentences of {self.export.subset} already; expected "
                "one subset"
            )
        self.export = AttentionExport(self, epochs)
        return ExportedBatches(epochs, self.export)

    def build_dataset_for_inference(self, *args, **kwargs):
        if self.cfg.export_attention:
            raise InputError(
                "--export-attention does not go with text that comes bit by bit; expected "
                "fairseq-generate, or normalign export --hypotheses with what was printed"
            )
        return super().build_dataset_for_inference(*args, **kwargs)

    def build_model(self, cfg, from_checkpoint=False):
        if self.cfg.export_attention and not from_checkpoint:
            raise InputError(
                "--export-attention does not go with training; expected fairseq-generate or "
                "fairseq-validate; a criterion asks the model itself: model(..., export=...)"
            )
        return super().build_model(cfg, from_checkpoint)

    def build_generator(self, models, args, seq_gen_cls=None, extra_gen_cls_kwargs=None, **kwargs):
        wanted = getattr(args, "print_alignment", None)
        if wanted and seq_gen_cls is None:
            if len(models) > 1:
                raise InputError("--print-alignment aligns by one model; --path names several")
            if getattr(args, "score_reference", False):  # fairseq would print its own
                raise InputError(
                    "--print-alignment aligns hypotheses; expected normalign align for references"
                )
            seq_gen_cls = AligningGenerator
            extra_gen_cls_kwargs = {
                **(extra_gen_cls_kwargs or {}),
                "task": self,
                "soft": wanted == "soft",
                "nbest": getattr(args, "nbest", 1),
            }
        generator = super().build_generator(
            models, args, seq_gen_cls, extra_gen_cls_kwargs, **kwargs
        )
        if self.export is not None:
            self.export.follow(generator, models, args)
        return generator

    def inference_step(self, generator, models, sample, *args, **kwargs):
        beams = super().inference_step(generator, models, sample, *args, **kwargs)
        if self.export is not None:
            self.export.add_hypotheses(generator, sample, beams)
        return beams

    def valid_step(self, sample, model, criterion):
        results = super().valid_step(sample, model, criterion)
        if self.export is not None:
            self.export.add_references(model, sample)
        return results

    def align_options(self) -> AlignOptions:
        """How to align, as the options of the task say."""
        return AlignOptions(
            method=self.cfg.align_method,
            layer=self.cfg.align_layer,
            step=str(self.cfg.align_step),
            eos=str(self.cfg.align_eos),
        )


class AligningGenerator(SequenceGenerator):
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
        reader = PairReader(task, scheme=normalise_bpe_name(task.cfg.align_words))
        forcing = TeacherForcing(self.network, task)
        self.aligner = NormAligner(forcing, reader, task.align_options())

    @torch.no_grad()
    def generate(self, models, sample, **kwargs):
        finalized = super().generate(models, sample, **kwargs)
        hypotheses = []
        pairs = []
        sources = unpadded(sample["net_input"]["src_tokens"], self.pad)
        for source, beam in zip(sources, finalized, strict=True):
            for hypothesis in beam[: self.nbest]:
                target = hypothesis["tokens"].cpu()
                hypotheses.append(hypothesis)
                pairs.append(self.aligner.reader.binarised_pair(source, target, "hypothesis"))
        with single_beam(self.network):
            softs = list(self._decided(pairs).run(pairs))
        for hypothesis, soft in zip(hypotheses, softs, strict=True):
            hypothesis["alignment"] = self._shown(soft)
        return finalized

    def _decided(self, pairs: list) -> NormAligner:
        """The aligner, its layer and step decided on the first batch if need be."""
        if self.aligner.evidence is None:
            self.aligner, _ = self.aligner.decide(pairs)
            place = "layer:{layer}|step:{step}".format(**self.aligner.signature())
            logger.info(f"aligning by {place}, chosen without gold")
        return self.aligner

    def _shown(self, soft: Soft) -> list:
        if not self.soft:
            return self.aligner.links(soft)
        return [_as_text(shares) for shares in self.aligner.shares(soft)]


def _as_text(shares: Iterable[float]) -> list[str]:
    return [f"{share:.6f}" for share in shares]
