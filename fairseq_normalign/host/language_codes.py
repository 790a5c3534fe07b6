"""Where multilingual models have the codes of the languages, and how they write them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import islice
from typing import NamedTuple

from fairseq.data import Dictionary

from fairseq_normalign.errors import InputError

MULTILINGUAL = "multilingual_normalign"  # the task that puts codes around sentences
ANY, BARE = ".+", "[a-z]{2,3}_[A-Za-z]{2,4}"  # languages with signs around them, and without
LISTED = 12  # languages that a message names


class CodeLayout(NamedTuple):
    """Codes of one family of models.

    Attributes:
        form: how a code is written in the dictionary, ``{}`` for the language.
        source: where the source has a code, if anywhere: ``before`` its pieces, or ``after`` </s>.
        source_names: whose language that is, the ``source``'s or the ``target``'s.
        target: whether the target begins with its code, which is predicted behind </s>; else,
            the decoder reads ``start`` first.
        start: what the decoder reads first, ``</s>`` or the ``code``.
        in_text: whether a source may itself begin with a code, as Marian's tokeniser reads it.
    """

    form: str
    source: str
    source_names: str
    target: bool
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


LAYOUTS = {
    "m2m_100": CodeLayout("__{}__", "before", "source", target=True, start="</s>"),
    "nllb": CodeLayout("{}", "before", "source", target=True, start="</s>"),
    "nllb_legacy": CodeLayout("{}", "after", "source", target=True, start="</s>"),
    "mbart": CodeLayout("{}", "after", "source", target=False, start="code"),
    "mbart50": CodeLayout("{}", "before", "source", target=True, start="</s>"),
    "marian": CodeLayout(">>{}<<", "before", "target", target=False, start="</s>", in_text=True),
}


# Languages in the order of their rows, of models whose folders do not list them.
KNOWN = {
    "m2m100": (
        "af am ar ast az ba be bg bn br bs ca ceb cs cy da de el en es et fa ff fi fr fy ga gd gl "
        "gu ha he hi hr ht hu hy id ig ilo is it ja jv ka kk km kn ko lb lg ln lo lt lv mg mk ml "
        "mn mr ms my ne nl no ns oc or pa pl ps pt ro ru sd si sk sl so sq sr ss su sv sw ta th "
        "tl tn tr uk ur uz vi wo xh yi yo zh zu"
    ),
    "wmt21": "en ha is ja cs ru zh de",
    "mbart": (
        "ar_AR cs_CZ de_DE en_XX es_XX et_EE fi_FI fr_XX gu_IN hi_IN it_IT ja_XX kk_KZ ko_KR "
        "lt_LT lv_LV my_MM ne_NP nl_XX ro_RO ru_RU si_LK tr_TR vi_VN zh_CN"
    ),
    "mbart50": (
        "ar_AR cs_CZ de_DE en_XX es_XX et_EE fi_FI fr_XX gu_IN hi_IN it_IT ja_XX kk_KZ ko_KR "
        "lt_LT lv_LV my_MM ne_NP nl_XX ro_RO ru_RU si_LK tr_TR vi_VN zh_CN af_ZA az_AZ bn_IN "
        "fa_IR he_IL hr_HR id_ID ka_GE km_KH mk_MK ml_IN mn_MN mr_IN pl_PL ps_AF pt_XX sv_SE "
        "sw_KE ta_IN te_IN th_TH tl_XX uk_UA ur_PK xh_ZA gl_ES sl_SI"
    ),
}


def known_languages(count: int) -> list[str]:
    """The languages of a model that has so many codes; [] if there is no such model."""
    lists = [languages.split() for languages in KNOWN.values()]
    return next((languages for languages in lists if len(languages) == count), [])


class Codes(NamedTuple):
    """Tokens around the sentences of a pair of languages."""

    before_source: tuple[int, ...]
    after_source: tuple[int, ...]  # </s> and what follows it
    before_target: tuple[int, ...]
    start: int  # what the decoder reads first


def codes_of(dictionary: Dictionary, layout: CodeLayout, source: str, target: str) -> Codes:
    """The codes of two languages as tokens of a dictionary."""
    eos = dictionary.eos()
    of_source = _code(dictionary, layout, source if layout.source_names == "source" else target)
    of_target = of_source
    if layout.target or layout.start == "code":
        of_target = _code(dictionary, layout, target)
    return Codes(
        before_source=(of_source,) if layout.source == "before" else (),
        after_source=(eos, of_source) if layout.source == "after" else (eos,),
        before_target=(of_target,) if layout.target else (),
        start=of_target if layout.start == "code" else eos,
    )


def listed(languages: Iterable[str]) -> str:
    """The first of some languages."""
    first = list(islice(languages, LISTED + 1))
    return ", ".join(first[:LISTED]) + (", …" if len(first) > LISTED else "")


def _code(dictionary: Dictionary, layout: CodeLayout, language: str) -> int:
    symbol = layout.symbol(language)
    if symbol not in dictionary or not layout.languages([symbol]):
        known = listed(layout.languages(dictionary.symbols))
        raise InputError(f"no language {language!r} in the dictionary; expected one of: {known}")
    return dictionary.index(symbol)
