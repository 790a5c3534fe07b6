"""The tokens that a task puts around a sentence: </s>, and codes of languages if it has them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from fairseq.data import Dictionary
from fairseq.tasks.language_modeling import LanguageModelingTask
from fairseq.tasks.masked_lm import MaskedLMTask
from fairseq.tasks.multilingual_translation import MultilingualTranslationTask
from fairseq.tasks.sentence_prediction import SentencePredictionTask
from fairseq.tasks.translation_from_pretrained_bart import TranslationFromPretrainedBARTTask
from fairseq.tasks.translation_multi_simple_epoch import TranslationMultiSimpleEpochTask

from fairseq_normalign.errors import InputError

SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")  # fairseq adds them to every dictionary
BOS, PAD, EOS, UNK = range(len(SPECIAL))
MULTILINGUAL = "multilingual_normalign"  # the task that puts codes around sentences
ANY, BARE = ".+", "[a-z]{2,3}_[A-Za-z]{2,4}"  # languages with signs around them, and without
FALLBACK = ("source", "target")  # languages of a model that does not tell them
DICTIONARY = "dict.txt"  # of a multilingual model
TARGET_DICTIONARY = "dict.target.txt"  # where the target has its own
LISTED = 12  # languages that a message names


class CodeLayout(NamedTuple):
    """Codes of one family of models.

    Attributes:
        form: how a code is written in the dictionary, ``{}`` for the language.
        source: what is around the pieces, ``…``, of a source: ``</s>``, and ``S`` or ``T``, the
            code of the source language or of the target language.
        target: the same of a target.
        start: what the decoder reads first.
        in_text: whether a source may itself begin with a code, as Marian's tokeniser reads it.
    """

    form: str
    source: str
    target: str
    start: str
    in_text: bool = False

    def symbol(self, language: str) -> str:
        return self.form.format(language)

    def languages(self, symbols: Iterable[str]) -> list[str]:
        """The languages whose codes are among some symbols."""
        before, _, after = map(re.escape, self.form.partition("{}"))
        code = re.compile(f"{before}({ANY if before else BARE}){after}")
        matches = map(code.fullmatch, symbols)
        return [match[1] for match in matches if match is not None]

    def tokens(self, dictionary: Dictionary) -> list[int]:
        """The codes that a dictionary has."""
        return [dictionary.index(self.symbol(name)) for name in self.languages(dictionary.symbols)]

    def code(self, dictionary: Dictionary, language: str) -> int:
        """The code of a language as a token of a dictionary."""
        symbol = self.symbol(language)
        if symbol not in dictionary or not self.languages([symbol]):
            known = listed(self.languages(dictionary.symbols))
            raise InputError(f"no language {language!r} in the dictionary, which has {known}")
        return dictionary.index(symbol)


LAYOUTS = {
    "m2m_100": CodeLayout("__{}__", "S … </s>", "T … </s>", "</s>"),
    "nllb": CodeLayout("{}", "S … </s>", "T … </s>", "</s>"),
    "nllb_legacy": CodeLayout("{}", "… </s> S", "T … </s>", "</s>"),
    "mbart": CodeLayout("{}", "… </s> S", "… </s>", "T"),
    "mbart50": CodeLayout("{}", "S … </s>", "T … </s>", "</s>"),
    "marian": CodeLayout(">>{}<<", "T … </s>", "… </s>", "</s>", in_text=True),
}


def listed(languages: Sequence[str]) -> str:
    """The first of some languages."""
    return ", ".join(languages[:LISTED]) + (", …" if len(languages) > LISTED else "")


MASKED = (MaskedLMTask, SentencePredictionTask)  # RoBERTa, as trained and as fine-tuned
Tokens = tuple[int, ...]


class SpecialTokens(NamedTuple):
    """Tokens that belong to no word, before and after the pieces of a sentence."""

    source: tuple[Tokens, Tokens]
    target: tuple[Tokens, Tokens]
    start: int  # what the decoder reads first
    between: Tokens = ()  # between two passages, in models that read two as one source
    codes: frozenset[int] = frozenset()  # one of these may be a source's first word: its own code


def task_options(task: Any) -> Any:
    """A task's options: ``cfg``, or ``args`` of legacy tasks."""
    return getattr(task, "cfg", None) or task.args


def languages_of(task: Any) -> tuple[str | None, str | None]:
    """A task's source and target language, where it has them."""
    options = task_options(task)
    return getattr(options, "source_lang", None), getattr(options, "target_lang", None)


def is_multilingual(task: Any) -> bool:
    """Whether the languages decide the special tokens: one model may be of several directions."""
    coded = getattr(task_options(task), "language_codes", None)
    return bool(coded) or isinstance(task, tuple(BY_LANGUAGES))


def special_tokens_of(task: Any) -> SpecialTokens:
    """The special tokens of a task; those of ``translation`` unless it is known to have others."""
    if getattr(task_options(task), "language_codes", None):
        return _of_languages(task, _imported)
    for kind, of_languages in BY_LANGUAGES.items():
        if isinstance(task, kind):
            return _of_languages(task, of_languages)
    if isinstance(task, MASKED):
        return _masked(task)
    if isinstance(task, LanguageModelingTask):
        return _language_model(task)
    source, target = task.source_dictionary.eos(), task.target_dictionary.eos()
    return SpecialTokens(((), (source,)), ((), (target,)), target)


def _masked(task: Any) -> SpecialTokens:
    """<s> before, </s> after, and no target; two </s> between passages, but in BERT one [SEP]."""
    bos, eos = task.source_dictionary.bos(), task.source_dictionary.eos()
    separators = getattr(task, "separators", 2)
    return SpecialTokens(((bos,), (eos,)), ((), ()), bos, between=(eos,) * separators)


def mask_of(task: Any) -> int:
    """The token that stands for a word that a masked language model is to guess."""
    for symbol in ("[MASK]", "<mask>"):
        if isinstance(task, MASKED) and symbol in task.source_dictionary:
            return task.source_dictionary.index(symbol)
    raise InputError(
        f"the task {type(task).__name__} has no mask; expected a masked language model"
    )


def _language_model(task: LanguageModelingTask) -> SpecialTokens:
    """What fairseq lets it read first: </s>, or <s> with ``--add-bos-token``; and no target.

    It predicts </s>, but never reads it after a sentence.
    """
    bos, eos = task.source_dictionary.bos(), task.source_dictionary.eos()
    start = bos if getattr(task_options(task), "add_bos_token", False) else eos
    return SpecialTokens(((start,), ()), ((), ()), start)


def _of_languages(task: Any, of_languages: Callable[..., SpecialTokens]) -> SpecialTokens:
    """Special tokens that the languages decide."""
    options = task_options(task)
    source, target = options.source_lang, options.target_lang
    if source is None or target is None:
        pairs = getattr(options, "lang_pairs", None) or []
        named = pairs if isinstance(pairs, str) else ", ".join(pairs)
        raise InputError(
            "a multilingual model needs a source and a target language; found "
            f"source_lang {source}, target_lang {target}; expected --source-lang and --target-lang"
            + (f" of one of: {named}" if named else "")
        )
    try:
        return of_languages(task, source, target)
    except (AssertionError, KeyError) as error:  # a language that the model does not know
        reason = error.args[0] if error.args else "unknown to the model"
        raise InputError(f"languages {source}-{target}: {reason}") from None


def _multilingual(task: MultilingualTranslationTask, source: str, target: str) -> SpecialTokens:
    """Language tokens in the place of the source's </s> and of the decoder's first input."""
    eos = task.target_dictionary.eos()
    after_source = task.get_encoder_langtok(source, target)
    start = task.get_decoder_langtok(target)
    return SpecialTokens(((), (after_source,)), ((), (eos,)), start)


def _multi_simple_epoch(
    task: TranslationMultiSimpleEpochTask, source: str, target: str
) -> SpecialTokens:
    """Language tokens before the sentences.

    With ``--lang-tok-replacing-bos-eos`` they are in the place of </s>.
    """
    eos = task.target_dictionary.eos()
    options, manager = task_options(task), task.data_manager
    source_spec, target_spec = options.langtoks["main"]
    of_source = manager.get_encoder_langtok(source, target, source_spec)
    of_target = manager.get_decoder_langtok(target, target_spec)
    before_source = () if of_source is None else (of_source,)
    before_target = () if of_target is None else (of_target,)
    if options.lang_tok_replacing_bos_eos:
        (start,) = before_target or (eos,)
        return SpecialTokens(((), before_source or (eos,)), ((), (eos,)), start)
    return SpecialTokens((before_source, (eos,)), (before_target, (eos,)), eos)


def _imported(task: Any, source: str, target: str) -> SpecialTokens:
    """What models of other toolkits have, by the layout that the task names."""
    layout = LAYOUTS[task_options(task).language_codes]
    dictionary = task.source_dictionary
    tokens = {"</s>": dictionary.eos()}
    for name, language in {"S": source, "T": target}.items():
        if name in layout.source + layout.target + layout.start:
            tokens[name] = layout.code(dictionary, language)

    def around(pieces: str) -> tuple[Tokens, Tokens]:
        before, after = ([tokens[name] for name in names.split()] for names in pieces.split("…"))
        return tuple(before), tuple(after)

    own = layout.tokens(dictionary) if layout.in_text else ()
    start = tokens[layout.start]
    return SpecialTokens(around(layout.source), around(layout.target), start, codes=frozenset(own))


def _pretrained_bart(
    task: TranslationFromPretrainedBARTTask, source: str, target: str
) -> SpecialTokens:
    """mBART: a language token after </s>, which is also the decoder's first input."""
    of_source = _language_token(task.source_dictionary, source)
    of_target = _language_token(task.target_dictionary, target)
    prepends = getattr(task_options(task), "prepend_bos", False)
    before = (task.source_dictionary.bos(),) if prepends else ()
    eos = task.target_dictionary.eos()
    return SpecialTokens((before, (eos, of_source)), (before, (eos, of_target)), of_target)


def _language_token(dictionary: Dictionary, language: str) -> int:
    token = dictionary.index(f"[{language}]")
    if token == dictionary.unk():
        raise KeyError(f"no [{language}] in the dictionary")
    return token


# fairseq's tasks whose special tokens the languages decide.
BY_LANGUAGES: dict[type, Callable[..., SpecialTokens]] = {
    MultilingualTranslationTask: _multilingual,
    TranslationMultiSimpleEpochTask: _multi_simple_epoch,
    TranslationFromPretrainedBARTTask: _pretrained_bart,
}
