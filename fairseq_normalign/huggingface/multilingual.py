"""M2M-100, NLLB and mBART of Hugging Face as fairseq's Transformer with normalised inputs.

They came from fairseq, and their layers, positions and first tokens are as there. What is decided
here is how their tokenisers number pieces, which codes of languages there are, and where they are.
"""

from __future__ import annotations

from itertools import count
from typing import NamedTuple

from fairseq_normalign.errors import InputError
from fairseq_normalign.host.special_tokens import (
    LAYOUTS,
    MULTILINGUAL,
    SPECIAL,
    listed,
)
from fairseq_normalign.huggingface.converted import Converted, Parameters, vocabulary
from fairseq_normalign.huggingface.folder import (
    HuggingFaceFolder,
    Numbers,
    Tensors,
    named_tokens,
    read_pieces,
    tokenizer_class,
)
from fairseq_normalign.huggingface.translation import (
    BIAS,
    POSITIONS,
    SIDES,
    convert_translation,
    open_translation,
)

SPM = "sentencepiece.bpe.model"
OFFSET = 1  # of Hugging Face's numbers to SentencePiece's, whose first three are others
OF_SENTENCEPIECE = 3  # its <unk>, <s> and </s>
FIRST = {name: number for number, name in enumerate(SPECIAL)}  # as in fairseq
MASK = "<mask>"
# What a config.json of M2M-100 means that does not tell them; others have gelu, and no scale.
M2M_DEFAULTS = {"activation_function": "relu", "scale_embedding": True}
FILLERS = 8  # rows behind the codes, at most: those of M2M-100
MOST_OF_MBART = 26  # mBART-25's languages; mBART-50 has twice as many, and another layout
# Languages in the order of their rows, of models whose folders do not tell their numbers.
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
    "nllb": (
        "ace_Arab ace_Latn acm_Arab acq_Arab aeb_Arab afr_Latn ajp_Arab aka_Latn amh_Ethi "
        "apc_Arab arb_Arab ars_Arab ary_Arab arz_Arab asm_Beng ast_Latn awa_Deva ayr_Latn "
        "azb_Arab azj_Latn bak_Cyrl bam_Latn ban_Latn bel_Cyrl bem_Latn ben_Beng bho_Deva "
        "bjn_Arab bjn_Latn bod_Tibt bos_Latn bug_Latn bul_Cyrl cat_Latn ceb_Latn ces_Latn "
        "cjk_Latn ckb_Arab crh_Latn cym_Latn dan_Latn deu_Latn dik_Latn dyu_Latn dzo_Tibt "
        "ell_Grek eng_Latn epo_Latn est_Latn eus_Latn ewe_Latn fao_Latn pes_Arab fij_Latn "
        "fin_Latn fon_Latn fra_Latn fur_Latn fuv_Latn gla_Latn gle_Latn glg_Latn grn_Latn "
        "guj_Gujr hat_Latn hau_Latn heb_Hebr hin_Deva hne_Deva hrv_Latn hun_Latn hye_Armn "
        "ibo_Latn ilo_Latn ind_Latn isl_Latn ita_Latn jav_Latn jpn_Jpan kab_Latn kac_Latn "
        "kam_Latn kan_Knda kas_Arab kas_Deva kat_Geor knc_Arab knc_Latn kaz_Cyrl kbp_Latn "
        "kea_Latn khm_Khmr kik_Latn kin_Latn kir_Cyrl kmb_Latn kon_Latn kor_Hang kmr_Latn "
        "lao_Laoo lvs_Latn lij_Latn lim_Latn lin_Latn lit_Latn lmo_Latn ltg_Latn ltz_Latn "
        "lua_Latn lug_Latn luo_Latn lus_Latn mag_Deva mai_Deva mal_Mlym mar_Deva min_Latn "
        "mkd_Cyrl plt_Latn mlt_Latn mni_Beng khk_Cyrl mos_Latn mri_Latn zsm_Latn mya_Mymr "
        "nld_Latn nno_Latn nob_Latn npi_Deva nso_Latn nus_Latn nya_Latn oci_Latn gaz_Latn "
        "ory_Orya pag_Latn pan_Guru pap_Latn pol_Latn por_Latn prs_Arab pbt_Arab quy_Latn "
        "ron_Latn run_Latn rus_Cyrl sag_Latn san_Deva sat_Beng scn_Latn shn_Mymr sin_Sinh "
        "slk_Latn slv_Latn smo_Latn sna_Latn snd_Arab som_Latn sot_Latn spa_Latn als_Latn "
        "srd_Latn srp_Cyrl ssw_Latn sun_Latn swe_Latn swh_Latn szl_Latn tam_Taml tat_Cyrl "
        "tel_Telu tgk_Cyrl tgl_Latn tha_Thai tir_Ethi taq_Latn taq_Tfng tpi_Latn tsn_Latn "
        "tso_Latn tuk_Latn tum_Latn tur_Latn twi_Latn tzm_Tfng uig_Arab ukr_Cyrl umb_Latn "
        "urd_Arab uzn_Latn vec_Latn vie_Latn war_Latn wol_Latn xho_Latn ydd_Hebr yor_Latn "
        "yue_Hant zho_Hans zho_Hant zul_Latn"
    ),
}
# By layout: which of them its models may have.
OF_LAYOUT = {"m2m_100": ("m2m100", "wmt21"), "nllb": ("nllb",), "mbart": ("mbart", "mbart50")}


def known_languages(layout: str) -> list[list[str]]:
    """The languages of each well-known model of a layout, in the order of their rows."""
    return [KNOWN[name].split() for name in OF_LAYOUT[layout]]


class Tokens(NamedTuple):
    """What a tokeniser says."""

    numbers: Numbers  # of pieces and codes
    languages: list[str]
    layout: str  # of LAYOUTS
    added: list[str]  # tokens that are neither pieces nor codes


def convert_m2m(folder: HuggingFaceFolder) -> Converted:
    """M2M-100 and NLLB: sines of positions as in fairseq."""
    folder.config = {**M2M_DEFAULTS, **folder.config}
    parameters = open_translation(folder)
    parameters.taken.update(f"{side}.embed_positions.weights" for side in SIDES)  # old files' sines
    tokens = _m2m_tokens(folder) if folder.has("vocab.json") else _nllb_tokens(folder)
    return _convert(folder, parameters, tokens, {})


def convert_mbart(folder: HuggingFaceFolder) -> Converted:
    """mBART: learned positions, and a LayerNorm over embeddings."""
    parameters = open_translation(folder)
    own = {name: parameters.take(name) for name in POSITIONS.values()}
    if "final_logits_bias" in parameters:
        own[BIAS] = parameters.take("final_logits_bias")[0]
    return _convert(folder, parameters, _mbart_tokens(folder), own)


def _convert(
    folder: HuggingFaceFolder,
    parameters: Parameters,
    tokens: Tokens,
    own: Tensors,
) -> Converted:
    """One vocabulary for all languages, and layers that are normalised before."""
    size, special = folder.config["vocab_size"], list(FIRST.values())
    words = vocabulary(folder, tokens.numbers, size, special, fillers=FILLERS)
    notes = [f"{len(tokens.languages)} languages: {listed(tokens.languages)}"]
    if tokens.added:
        notes.append(
            f"added tokens, which are text where a text spells them: {listed(tokens.added)}"
        )
    return convert_translation(
        folder,
        parameters,
        (words, words),
        own,
        {"sentencepiece_model": SPM},
        notes,
        layernorm_embedding=bool(own),  # that of mBART
        task=MULTILINGUAL,
        language_codes=tokens.layout,
        encoder_normalize_before=True,
        decoder_normalize_before=True,
    )


def _m2m_tokens(folder: HuggingFaceFolder) -> Tokens:
    """M2M-100: ``vocab.json``, then the codes, ``__en__`` and so on."""
    tokenizer_class(folder, ["M2M100Tokenizer"])
    pieces = folder.json("vocab.json")
    if not FIRST.items() <= pieces.items():
        raise InputError(f"{folder.path / 'vocab.json'}: other numbers than {FIRST}")
    fillers = folder.tokenizer_config.get("num_madeup_words")
    return _with_codes(folder, pieces, "m2m_100", FILLERS if fillers is None else int(fillers))


def _nllb_tokens(folder: HuggingFaceFolder) -> Tokens:
    """NLLB: SentencePiece's numbers, then the codes, ``eng_Latn`` and so on, and <mask>."""
    tokenizer_class(folder, ["NllbTokenizer"])
    tokens = _with_codes(folder, _shifted_pieces(folder), "nllb", None)
    is_legacy = folder.tokenizer_config.get("legacy_behaviour") is True
    return tokens._replace(layout="nllb_legacy") if is_legacy else tokens


def _mbart_tokens(folder: HuggingFaceFolder) -> Tokens:
    """mBART-25 and mBART-50: SentencePiece's numbers, then the codes, and <mask>."""
    kind = tokenizer_class(folder, ["MBartTokenizer", "MBart50Tokenizer"])
    tokens = _with_codes(folder, _shifted_pieces(folder), "mbart", 0)
    by_count = "MBart50Tokenizer" if len(tokens.languages) > MOST_OF_MBART else "MBartTokenizer"
    is_50 = (kind or by_count) == "MBart50Tokenizer"
    return tokens._replace(layout="mbart50") if is_50 else tokens


def _shifted_pieces(folder: HuggingFaceFolder) -> Numbers:
    _, pieces = read_pieces(folder, SPM)
    numbers = dict(FIRST)
    for number, piece in enumerate(pieces[OF_SENTENCEPIECE:], OF_SENTENCEPIECE):
        numbers[piece] = number + OFFSET
    return numbers


def _with_codes(
    folder: HuggingFaceFolder, pieces: Numbers, layout: str, fillers: int | None
) -> Tokens:
    """Pieces, codes and further tokens, by the numbers that files tell.

    Codes without numbers follow the pieces, in the order of a well-known model.

    Args:
        fillers: how many rows follow the codes if no file names these; None if one must.
    """
    form = LAYOUTS[layout]
    named = named_tokens(folder)
    numbers = {**pieces}
    numbers.update((name, number) for name, number in named.items() if number is not None)
    is_moved = any(numbers[piece] != number for piece, number in pieces.items())
    taken = set(numbers.values())
    free = (number for number in count(len(pieces)) if number not in taken)
    lacks_mask = layout != "m2m_100" and MASK not in numbers  # whether no file names that row
    codes = [name for name in named if form.languages([name])]
    unnumbered = [code for code in codes if code not in numbers]
    if not codes and fillers is not None:
        rows = folder.config["vocab_size"] - len(numbers) - fillers - lacks_mask
        codes = unnumbered = [form.symbol(name) for name in _known(folder, layout, rows)]
    if not codes or (unnumbered and form.languages(unnumbered) not in known_languages(layout)):
        raise InputError(
            f"{folder}: no file has the numbers of its language codes; add tokenizer.json or "
            "tokenizer_config.json from the base model"
        )
    numbers.update(zip(unnumbered, free, strict=False))
    if lacks_mask:
        numbers[MASK] = next(free)
    codes.sort(key=numbers.__getitem__)
    if is_moved or len(set(numbers.values())) < len(numbers) or next(free) < numbers[codes[0]]:
        raise InputError(
            f"{folder}: the numbers of language codes do not follow the pieces of {SPM}; is it of "
            "another model?"
        )
    known = {*pieces, *codes, MASK}
    added = [name for name in numbers if name not in known]
    return Tokens(numbers, form.languages(codes), layout, added)


def _known(folder: HuggingFaceFolder, layout: str, rows: int) -> list[str]:
    """Languages that the tokeniser names by their set, or else by how many rows are left.

    A folder need not list those of well-known models; transformers 4 names the set alone.
    """
    named = folder.tokenizer_config.get("language_codes")
    if named in OF_LAYOUT[layout]:
        return KNOWN[named].split()
    fitting = [languages for languages in known_languages(layout) if len(languages) == rows]
    return fitting[0] if fitting else []
