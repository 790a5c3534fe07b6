"""``translation_normalign``: translation whose ``--print-alignment`` aligns by vector norms.

``--export-attention`` writes what attentions did, beside it; ``--source-token-noise`` replaces
tokens while a model trains.
"""

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from fairseq.data import Dictionary
from fairseq.dataclass import ChoiceEnum
from fairseq.tasks import register_task
from fairseq.tasks.translation import TranslationConfig, TranslationTask
from omegaconf import II
from torch import Tensor

from fairseq_normalign.alignment.aligner import AUTO, AlignOptions
from fairseq_normalign.attention.soft import EOS, STEPS
from fairseq_normalign.errors import InputError
from fairseq_normalign.options import option
from fairseq_normalign.plugin.beam_search import PatientGenerator
from fairseq_normalign.plugin.exporting import AttentionExport, ExportConfig

# Tokens of languages, in fairseq's spellings __de__ and [de_DE], and in that of Johnson et al.
# (2017), <2de>.
LANGUAGE = re.compile(r"__[a-z]{2,3}(_\w+)?__|\[[a-z]{2,3}_\w+\]|<2[a-z]{2,3}>")


class SourceNoise:
    """Replaces each source token with probability p by any type of the dictionary.

    With p = 0.1, heads that look at the rarest token are said to go away (Sennrich on Voita et al.,
    2019). All types are equally likely, however frequent they are, and other tokens keep their
    places. Marks are left alone and never drawn: padding, </s>, <s> and tokens of languages. <unk>
    stands for a word: it can be replaced, but is not drawn, nor are the ``madeupword`` types that
    fill up a dictionary.

    Each draw is that of a seed, an update and a sentence's number: another one in every epoch, and
    the same one in a training that is resumed, or spread over more workers.
    """

    def __init__(self, probability: float, dictionary: Dictionary, *, seed: int = 1):
        if not 0 <= probability <= 1:
            raise InputError(f"--source-token-noise {probability}: must be from 0 to 1")
        self.probability, self.seed, self.pad = probability, seed, dictionary.pad()
        unk = dictionary.unk()
        is_mark, is_word = [], []
        for index, symbol in enumerate(dictionary.symbols):
            is_special = index < dictionary.nspecial or LANGUAGE.fullmatch(symbol) is not None
            is_mark.append(is_special and index != unk)
            is_word.append(not (is_special or symbol.startswith("madeupword")))
        self.marks = torch.tensor(is_mark)  # of each type: whether it is part of no word
        self.types = np.flatnonzero(is_word)  # that are drawn

    def replaced(self, tokens: Tensor, numbers: Tensor, update: int) -> Tensor:
        """Source tokens (B, S) of the sentences of these numbers (B,), with noise."""
        before = tokens.cpu()
        after = before.clone()
        for sentence, number in zip(after, numbers.tolist(), strict=True):
            of_sentence = sentence.ne(self.pad)  # wherever the padding is
            sentence[of_sentence] = self._drawn(sentence[of_sentence], number, update)
        return torch.where(self.marks[before], before, after).to(tokens.device)

    def _drawn(self, sentence: Tensor, number: int, update: int) -> Tensor:
        """A sentence (S,) with some of its tokens replaced, be they marks or not."""
        entropy = [abs(self.seed), update, abs(number)]  # fairseq allows any seed
        random = np.random.default_rng(entropy)
        replaced = torch.from_numpy(random.random(len(sentence)) < self.probability)
        others = torch.from_numpy(random.choice(self.types, len(sentence)))
        return torch.where(replaced, others, sentence)


NAME = "translation_normalign"


@dataclass  # no postponed annotations in this file: fairseq reads the types of these fields
class TranslationNormalignConfig(TranslationConfig, ExportConfig):
    align_method: str = option("norms", "what is compared; `normalign methods` lists them")
    align_layer: str = option(AUTO, "decoder layer, from 1; auto decides without gold")
    align_step: ChoiceEnum([*STEPS, AUTO]) = option(  # type: ignore[valid-type]
        AUTO, "align a word where the decoder reads it or where it predicts it"
    )
    align_eos: ChoiceEnum(list(EOS)) = option(  # type: ignore[valid-type]
        "null", "null: a word that takes most from </s> gets no link; skip: </s> is left out"
    )
    align_words: str = option(
        AUTO,
        "print links of words, joined as this BPE says; auto: as the marks on the "
        "dictionary's symbols say; none: links of pieces",
    )
    source_token_noise: float = option(
        0.0,
        "in training, replace each source token with this probability by any type of "
        "the dictionary",
    )
    seed: int = II("common.seed")


@register_task(NAME, dataclass=TranslationNormalignConfig)
class TranslationNormalignTask(TranslationTask):
    """fairseq's ``translation`` with another ``--print-alignment``, exports, noise in training."""

    free_prefix = False  # whether tokens that a translation must begin with cost nothing
    export: AttentionExport | None = None  # of the batches that fairseq asked for

    def __init__(self, cfg, src_dict, tgt_dict):
        super().__init__(cfg, src_dict, tgt_dict)
        self.noise = None
        if cfg.source_token_noise:
            self.noise = SourceNoise(cfg.source_token_noise, src_dict, seed=cfg.seed)

    def train_step(self, sample, model, criterion, optimizer, update_num, **more):
        if self.noise is not None:
            inputs = sample["net_input"]
            noisy = self.noise.replaced(inputs["src_tokens"], sample["id"], update_num)
            sample = {**sample, "net_input": {**inputs, "src_tokens": noisy}}
        return super().train_step(sample, model, criterion, optimizer, update_num, **more)

    def get_batch_iterator(self, dataset, *args, **kwargs):
        """All of a corpus that is translated.

        fairseq leaves out the last batch if its size is no multiple of 8.
        """
        if dataset is not self.datasets.get(self.cfg.train_subset):
            kwargs["required_batch_size_multiple"] = 1
        epochs = super().get_batch_iterator(dataset, *args, **kwargs)
        if self.cfg.export_attention:
            if self.export is not None:
                raise InputError("--export-attention exports one subset; several are named")
            self.export = AttentionExport(self, epochs)
        return epochs

    def build_dataset_for_inference(self, *args, **kwargs):
        if self.cfg.export_attention:
            raise InputError(
                "--export-attention does not work with fairseq-interactive; use fairseq-generate, "
                "or normalign export --hypotheses with what was printed"
            )
        return super().build_dataset_for_inference(*args, **kwargs)

    def build_model(self, cfg, from_checkpoint=False):
        if self.cfg.export_attention and not from_checkpoint:
            raise InputError(
                "--export-attention does not work with fairseq-train; use fairseq-generate or "
                "fairseq-validate (a criterion asks the model: model(..., export=...))"
            )
        return super().build_model(cfg, from_checkpoint)

    def build_bpe(self, args):
        self.bpe = super().build_bpe(args)
        return self.bpe

    def build_generator(self, models, args, seq_gen_cls=None, extra_gen_cls_kwargs=None, **kwargs):
        extra = {**(extra_gen_cls_kwargs or {}), **self.search_options(models, args)}
        generator = super().build_generator(models, args, PatientGenerator, extra, **kwargs)
        if self.export is not None:
            self.export.follow(generator, models, args)
        return generator

    def search_options(self, models, args) -> dict[str, Any]:
        """How translations are searched for, and aligned."""
        wanted = getattr(args, "print_alignment", None)
        if wanted and len(models) > 1:
            raise InputError("--print-alignment works with one model; --path names several")
        if wanted and getattr(args, "score_reference", False):  # fairseq would print its own
            raise InputError(
                "--print-alignment does not align references; use normalign align for them"
            )
        return {
            "task": self,
            "patient": getattr(args, "no_early_stop", False),
            "print_alignment": wanted,
            "nbest": getattr(args, "nbest", 1),
        }

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
