"""The marks that a task puts around a sentence: </s>, and language tokens where it has them."""

from __future__ import annotations

from typing import NamedTuple

from fairseq.tasks.masked_lm import MaskedLMTask
from fairseq.tasks.multilingual_translation import MultilingualTranslationTask
from fairseq.tasks.sentence_prediction import SentencePredictionTask
from fairseq.tasks.translation_from_pretrained_bart import TranslationFromPretrainedBARTTask
from fairseq.tasks.translation_multi_simple_epoch import TranslationMultiSimpleEpochTask

from fairseq_normalign.errors import InputError

MASKED = (
    MaskedLMTask,
    SentencePredictionTask,
)  # RoBERTa, as trained and as fine-tuned: <s> before, and no target
Tokens = tuple[int, ...]


class SpecialTokens(NamedTuple):
    """Tokens that belong to no word, before and after the pieces, and the token that the decoder
    reads first."""

    source: tuple[Tokens, Tokens]
    target: tuple[Tokens, Tokens]
    start: int


def task_options(task):
    """A task's options: ``cfg``, or ``args`` of legacy tasks."""
    return getattr(task, "cfg", None) or task.args


def special_tokens_of(task) -> SpecialTokens:
    """The marks of a task; those of ``translation`` unless it is known to have others."""
    for kind, marks in MARKS.items():
        if isinstance(task, kind):
            return marks(task, *_languages(task))
    if isinstance(task, MASKED):
        dictionary = task.source_dictionary
        return SpecialTokens(((dictionary.bos(),), (dictionary.eos(),)), ((), ()), dictionary.bos())
    source, target = ((), (task.source_dictionary.eos(),)), ((), (task.target_dictionary.eos(),))
    return SpecialTokens(source, target, task.target_dictionary.eos())


def _languages(task) -> tuple[str, str]:
    languages = task_options(task).source_lang, task_options(task).target_lang
    if None in languages:
        raise InputError("a multilingual model needs --source-lang and --target-lang")
    return languages


def _multilingual(task: MultilingualTranslationTask, source: str, target: str) -> SpecialTokens:
    """Language tokens in the place of the source's </s> and of the decoder's first input."""
    eos = task.target_dictionary.eos()
    return SpecialTokens(
        ((), (task.get_encoder_langtok(source, target),)),
        ((), (eos,)),
        task.get_decoder_langtok(target),
    )


def _multi_simple_epoch(
    task: TranslationMultiSimpleEpochTask, source: str, target: str
) -> SpecialTokens:
    """Language tokens before the sentences, or in the place of </s> with
    --lang-tok-replacing-bos-eos."""
    eos = task.target_dictionary.eos()
    source_spec, target_spec = task_options(task).langtoks["main"]
    of_source = task.data_manager.get_encoder_langtok(source, target, source_spec)
    of_target = task.data_manager.get_decoder_langtok(target, target_spec)
    if task_options(task).lang_tok_replacing_bos_eos:
        start = eos if of_target is None else of_target
        return SpecialTokens(((), (eos if of_source is None else of_source,)), ((), (eos,)), start)
    before_source, before_target = (
        () if token is None else (token,) for token in (of_source, of_target)
    )
    return SpecialTokens((before_source, (eos,)), (before_target, (eos,)), eos)


def _pretrained_bart(
    task: TranslationFromPretrainedBARTTask, source: str, target: str
) -> SpecialTokens:
    """mBART: a language token after </s>, which is also the decoder's first input."""
    of_source = task.source_dictionary.index(f"[{source}]")
    of_target = task.target_dictionary.index(f"[{target}]")
    before = (
        (task.source_dictionary.bos(),) if getattr(task_options(task), "prepend_bos", False) else ()
    )
    eos = task.target_dictionary.eos()
    return SpecialTokens((before, (eos, of_source)), (before, (eos, of_target)), of_target)


MARKS = {
    MultilingualTranslationTask: _multilingual,
    TranslationMultiSimpleEpochTask: _multi_simple_epoch,
    TranslationFromPretrainedBARTTask: _pretrained_bart,
}
