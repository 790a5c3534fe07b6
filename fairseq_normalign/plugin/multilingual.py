"""``multilingual_normalign``: translation by models that are told languages by codes.

``normalign import`` makes such models: M2M-100, NLLB, mBART, and OPUS-MT of several targets.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from fairseq import utils
from fairseq.data import TransformEosLangPairDataset
from fairseq.dataclass import ChoiceEnum
from fairseq.tasks import register_task

from fairseq_normalign.errors import InputError
from fairseq_normalign.host.special_tokens import (
    DICTIONARY,
    LAYOUTS,
    MULTILINGUAL,
    TARGET_DICTIONARY,
    special_tokens_of,
)
from fairseq_normalign.options import option
from fairseq_normalign.plugin.task import TranslationNormalignConfig, TranslationNormalignTask


class Coded:
    """The sentences of a dataset, with tokens before and behind each."""

    def __init__(self, sentences, before, behind):
        self.sentences = sentences
        self.before, self.behind = torch.tensor(before).long(), torch.tensor(behind).long()

    def __getitem__(self, index):
        return torch.cat([self.before, self.sentences[index], self.behind])

    def __len__(self):
        return len(self.sentences)

    def __getattr__(self, name):  # prefetch and so on, where the dataset has it
        return getattr(self.sentences, name)


@dataclass  # no postponed annotations in this file: fairseq reads the types of these fields
class MultilingualConfig(TranslationNormalignConfig):
    language_codes: ChoiceEnum(list(LAYOUTS)) = option(  # type: ignore[valid-type]
        "m2m_100", "where the codes of the languages are, and how they are written"
    )


@register_task(MULTILINGUAL, dataclass=MultilingualConfig)
class MultilingualTask(TranslationNormalignTask):
    """fairseq's ``translation`` with codes around source and target, by --source-lang and so on."""

    free_prefix = True

    @classmethod
    def setup_task(cls, cfg, **kwargs):
        folder = Path(utils.split_paths(cfg.data)[0])
        source, target = folder / DICTIONARY, folder / TARGET_DICTIONARY
        if not source.is_file():  # of fairseq-preprocess
            source, target = (
                folder / f"dict.{language}.txt" for language in (cfg.source_lang, cfg.target_lang)
            )
        paths = source, target if target.is_file() else source
        dictionaries = [cls.load_dictionary(str(path)) for path in paths]
        return cls(cfg, *dictionaries)

    def load_dataset(self, split, **kwargs):
        super().load_dataset(split, **kwargs)
        self.datasets[split] = self._with_codes(self.datasets[split])

    def build_dataset_for_inference(self, *args, **kwargs):
        return self._with_codes(super().build_dataset_for_inference(*args, **kwargs))

    def _with_codes(self, dataset):
        """A dataset whose sentences end in </s>, with the codes around them."""
        marks = special_tokens_of(self)
        before, (_, *behind) = marks.source  # behind </s>
        dataset.src = Coded(dataset.src, before, behind)
        dataset.sizes = dataset.src_sizes = dataset.src_sizes + len(before) + len(behind)
        if dataset.tgt is not None:
            dataset.tgt = Coded(dataset.tgt, marks.target[0], ())
            dataset.tgt_sizes = dataset.tgt_sizes + len(marks.target[0])
            dataset.sizes = np.vstack([dataset.src_sizes, dataset.tgt_sizes]).T
        eos = self.target_dictionary.eos()
        if marks.start == eos:
            return dataset
        return TransformEosLangPairDataset(
            dataset, src_eos=eos, tgt_bos=eos, new_tgt_bos=marks.start
        )

    def search_options(self, models, args):
        options, code = super().search_options(models, args), self.target_code
        return options if code is None else {**options, "symbols_to_strip_from_output": {code}}

    @property
    def target_code(self) -> int | None:
        """The code that a translation begins with, or that the decoder reads first."""
        marks = special_tokens_of(self)
        if marks.target[0]:
            return marks.target[0][0]
        return None if marks.start == self.target_dictionary.eos() else marks.start

    def inference_step(self, generator, models, sample, prefix_tokens=None, constraints=None):
        if prefix_tokens is not None:
            raise InputError(
                "--prefix-size cannot be used with language codes, which translations begin with"
            )
        marks = special_tokens_of(self)
        source = sample["net_input"]["src_tokens"]
        if marks.target[0]:
            codes = torch.tensor([marks.target[0]], device=source.device)
            prefix_tokens = codes.expand(len(source), -1)
        with torch.no_grad():
            beams = generator.generate(
                models,
                sample,
                prefix_tokens=prefix_tokens,
                constraints=constraints,
                bos_token=marks.start,
            )
        if self.export is not None:
            self.export.add_hypotheses(generator, sample, beams)
        return beams
