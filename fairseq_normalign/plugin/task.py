"""``translation_normalign``: translation whose ``--print-alignment`` aligns by vector norms."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from fairseq.dataclass import ChoiceEnum
from fairseq.sequence_generator import SequenceGenerator
from fairseq.tasks import register_task
from fairseq.tasks.translation import TranslationConfig, TranslationTask

from fairseq_normalign.alignment.extract import argmax, row_shares
from fairseq_normalign.alignment.soft import EOS, STEPS, Evidence, Soft
from fairseq_normalign.alignment.words import normalise_bpe_name
from fairseq_normalign.analysis.layer_choice import choose_layers, decisive_pairs
from fairseq_normalign.analysis.methods import METHODS, soft_alignments
from fairseq_normalign.errors import InputError
from fairseq_normalign.host.pairs import Pair, PairReader
from fairseq_normalign.host.teacher_forcing import TeacherForcing

logger = logging.getLogger(__name__)


@dataclass  # no postponed annotations in this file: fairseq reads the types of these fields
class TranslationNormalignConfig(TranslationConfig):
    align_method: ChoiceEnum(list(METHODS)) = field(
        default="norms", metadata={"help": "what is compared"}
    )
    align_layer: str = field(
        default="auto", metadata={"help": "decoder layer, from 1; auto decides without gold"}
    )
    align_step: ChoiceEnum([*STEPS, "auto"]) = field(
        default="auto",
        metadata={"help": "align a word where the decoder reads it or where it predicts it"},
    )
    align_eos: ChoiceEnum(list(EOS)) = field(
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


@register_task("translation_normalign", dataclass=TranslationNormalignConfig)
class TranslationNormalignTask(TranslationTask):
    """fairseq's ``translation`` with another ``--print-alignment``."""

    def get_batch_iterator(self, dataset, *args, **kwargs):
        """All of a corpus that is translated: fairseq leaves out the last batch if its size is no
        multiple of 8."""
        if dataset is not self.datasets.get(self.cfg.train_subset):
            kwargs["required_batch_size_multiple"] = 1
        return super().get_batch_iterator(dataset, *args, **kwargs)

    def build_generator(self, models, args, seq_gen_cls=None, extra_gen_cls_kwargs=None, **kwargs):
        wanted = getattr(args, "print_alignment", None)
        if wanted and seq_gen_cls is None:
            if len(models) > 1:
                raise InputError("--print-alignment aligns by one model; --path names several")
            seq_gen_cls = AligningGenerator
            extra_gen_cls_kwargs = {
                **(extra_gen_cls_kwargs or {}),
                "task": self,
                "soft": wanted == "soft",
            }
            extra_gen_cls_kwargs["nbest"] = getattr(args, "nbest", 1)
        return super().build_generator(models, args, seq_gen_cls, extra_gen_cls_kwargs, **kwargs)


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
        self.options, self.soft, self.nbest = task.cfg, soft, nbest
        self.reader = PairReader(task, scheme=normalise_bpe_name(task.cfg.align_words))
        self.forcing = TeacherForcing(self.network, task)
        self.layer = None if task.cfg.align_layer == "auto" else self._layer(task.cfg.align_layer)
        self.step = str(task.cfg.align_step)

    def _layer(self, text: str) -> int:
        if not (text.isdigit() and 1 <= int(text) <= self.forcing.layers):
            raise InputError(
                f"--align-layer {text}: expected auto, or a layer from 1 to {self.forced.layers}"
            )
        return int(text) - 1

    @torch.no_grad()
    def generate(self, models, sample, **kwargs):
        finalized = super().generate(models, sample, **kwargs)
        sources = _sources(sample, self.pad)
        found = [
            (tokens, hypo)
            for tokens, beam in zip(sources, finalized, strict=True)
            for hypo in beam[: self.nbest]
        ]
        pairs = [
            self.reader.binarised_pair(tokens, hypo["tokens"].cpu(), "hypothesis")
            for tokens, hypo in found
        ]
        with _single_beam(self.network):
            softs = self._aligned(pairs)
        for (_, hypothesis), soft in zip(found, softs, strict=True):
            hypothesis["alignment"] = self._shown(soft)
        return finalized

    def _aligned(self, pairs: list[Pair]) -> list[Soft]:
        method = str(self.options.align_method)
        if self.layer is None or self.step == "auto":
            layers, null = (
                None if self.layer is None else [self.layer],
                str(self.options.align_eos) == "null",
            )
            sample = decisive_pairs(pairs, self.reader, self.forcing)
            choice = choose_layers(self.forcing, sample, method, layers=layers, null=null)
            self.step = choice.step if self.step == "auto" else self.step
            self.layer = choice.layers[self.step]
            logger.info(
                f"aligning by layer {self.layer + 1}, step {self.step}, chosen without gold"
            )
        return [
            soft
            for (soft,) in soft_alignments(
                self.forcing, pairs, [Evidence(method, self.layer, self.step)]
            )
        ]

    def _shown(self, soft: Soft) -> list:
        null = soft.null if str(self.options.align_eos) == "null" else None
        if self.soft:
            return [[f"{share:.6f}" for share in row] for row in row_shares(soft.words, null)]
        return argmax(soft.words, null=null)


def _sources(sample: dict, pad: int) -> list[torch.Tensor]:
    return [tokens[tokens.ne(pad)] for tokens in sample["net_input"]["src_tokens"].cpu()]


@contextmanager
def _single_beam(model) -> Iterator[None]:
    """Tells attention that the batch holds no beams: in beam search it keeps one copy of the source
    for all of them."""
    sizes = [
        (module, module.beam_size) for module in model.modules() if hasattr(module, "beam_size")
    ]
    for module, _ in sizes:
        module.beam_size = 1
    try:
        yield
    finally:
        for module, size in sizes:
            module.beam_size = size
