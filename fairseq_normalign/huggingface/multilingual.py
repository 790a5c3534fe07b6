"""M2M-100, NLLB and mBART of Hugging Face as fairseq's Transformer with normalised inputs.

They came from fairseq, and their layers, positions and first tokens are as there. What is decided
here is how their tokenisers number pieces, which codes of languages there are, and where they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import count
from typing import NamedTuple

from torch import Tensor

from fairseq_normalign.errors import InputError
from fairseq_normalign.host.dictionaries import SPECIAL
from fairseq_normalign.host.language_codes import (
    DICTIONARY,
    KNOWN,
    LAYOUTS,
    MULTILINGUAL,
    OF_LAYOUT,
    known_languages,
    listed,
)
from fairseq_normalign.host.text_options import reading_file
from fairseq_normalign.host.wordpiece import CONFIGURATION
from fairseq_normalign.huggingface.converted import RESERVED, Converted, Parameters
from fairseq_normalign.huggingface.folder import HuggingFaceFolder, check_fits, read_pieces
from fairseq_normalign.huggingface.tokenizer_files import (
    Numbers,
    named_tokens,
    piece_numbers,
    tokenizer_class,
)
from fairseq_normalign.huggingface.translation import (
    SIDES,
    Embeddings,
    check_translation_settings,
    embedding_parameters,
    fairseq_options,
    languages_note,
    layer_parameters,
    norm_parameters,
    read_search,
    take_embeddings,
    translation_commands,
)
from fairseq_normalign.huggingface.vocabulary import Vocabulary, vocabulary

SPM = "sentencepiece.bpe.model"
OFFSET = 1  # of Hugging Face's numbers to SentencePiece's, whose first three are others
OF_SENTENCEPIECE = 3  # its <unk>, <s> and </s>
FIRST = {name: number for number, name in enumerate(SPECIAL)}  # as in fairseq
MASK = "<mask>"
# What a config.json of M2M-100 means that does not tell them; others have gelu, and no scale.
M2M_DEFAULTS = {"activation_function": "relu", "scale_embedding": True}
FILLERS = 8  # rows behind the codes, at most: those of M2M-100
OF_TOKENISER = "expected the SentencePiece model of this tokeniser"
MOST_OF_MBART = 26  # mBART-25's languages; mBART-50 has twice as many, and another layout


class Tokens(NamedTuple):
    """What a tokeniser says."""

    numbers: Numbers  # of pieces and codes
    languages: list[str]
    layout: str  # of LAYOUTS
    added: list[str]  # tokens that are neither pieces nor codes


def convert_m2m(folder: HuggingFaceFolder) -> Converted:
    """M2M-100 and NLLB: sines of positions as in fairseq."""
    folder.config = {**M2M_DEFAULTS, **folder.config}
    check_translation_settings(folder)
    parameters = Parameters(folder, "model.", halves=True)
    embeddings = take_embeddings(parameters, folder.config)
    tokens = _m2m_tokens(folder) if folder.has("vocab.json") else _nllb_tokens(folder)
    for side in SIDES:
        parameters.drop(f"{side}.embed_positions.weights")  # so in old files: the sines
    return _convert(folder, parameters, embeddings, tokens, {}, {})


def convert_mbart(folder: HuggingFaceFolder) -> Converted:
    """mBART: learned positions, and a LayerNorm over embeddings."""
    check_translation_settings(folder)
    config = folder.config
    parameters = Parameters(folder, "model.", halves=True)
    embeddings = take_embeddings(parameters, config)
    state = norm_parameters(parameters, config, "layernorm_embedding")
    rows = config["max_position_embeddings"] + RESERVED
    for side in SIDES:
        name = f"{side}.embed_positions.weight"
        state[name] = parameters.inner(name, rows, config["d_model"])
    options = {
        "encoder_learned_pos": True,
        "decoder_learned_pos": True,
        "layernorm_embedding": True,
    }
    size = config["vocab_size"]
    if "final_logits_bias" in parameters:
        bias = parameters.take("final_logits_bias", 1, size)[0]
        if bias.any():
            state["decoder.logits_bias"] = bias
            options["logits_bias"] = True
    return _convert(folder, parameters, embeddings, _mbart_tokens(folder), state, options)


def _convert(
    folder: HuggingFaceFolder,
    parameters: Parameters,
    embeddings: Embeddings,
    tokens: Tokens,
    state: dict[str, Tensor],
    options: dict[str, bool],
) -> Converted:
    """The model, by what families do not share: parameters and options."""
    size, special = folder.config["vocab_size"], list(FIRST.values())
    words = vocabulary(folder, tokens.numbers, size, special, fillers=FILLERS)
    state.update(embedding_parameters(embeddings, (words, words)))
    state.update(layer_parameters(parameters, folder.config))
    state.update(norm_parameters(parameters, folder.config, "layer_norm"))
    built = fairseq_options(
        folder,
        embeddings,
        task=MULTILINGUAL,
        language_codes=tokens.layout,
        encoder_normalize_before=True,
        decoder_normalize_before=True,
        **options,
    )
    search = read_search(folder)
    files = _files(folder, words)
    notes = [languages_note(tokens.languages), *search.notes]
    if tokens.added:
        notes.append(
            f"added tokens, which are text where a text spells them: {listed(tokens.added)}"
        )
    commands = translation_commands(built, search, SPM)
    return Converted(built, state, files, commands, parameters.left(), notes)


def _files(folder: HuggingFaceFolder, words: Vocabulary) -> dict[str, str | bytes]:
    content, _ = read_pieces(folder, SPM)
    return {
        DICTIONARY: words.dictionary(),
        SPM: content,
        **reading_file(bpe="sentencepiece", sentencepiece_model=SPM),
    }


def _m2m_tokens(folder: HuggingFaceFolder) -> Tokens:
    """M2M-100: ``vocab.json``, then the codes, ``__en__`` and so on."""
    tokenizer_class(folder, ["M2M100Tokenizer"])
    pieces = piece_numbers(folder, "vocab.json")
    for name, number in FIRST.items():
        if pieces.get(name) != number:
            raise InputError(
                f"{folder.path / 'vocab.json'}: {name!r} has the number {pieces.get(name)}; "
                f"expected {number}"
            )
    check_fits(folder, SPM, read_pieces(folder, SPM)[1], pieces)
    fillers = folder.tokenizer_config.get("num_madeup_words")
    if fillers is None:
        fillers = FILLERS
    if type(fillers) is not int or fillers < 0:
        raise InputError(
            f"{folder.path / CONFIGURATION}: num_madeup_words is {fillers!r}; expected a number"
        )
    return _with_codes(folder, pieces, "m2m_100", fillers)


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
    first = max(pieces.values()) + 1
    numbers = _told_numbers(folder, pieces, named)
    codes = [name for name in named if form.languages([name])]
    unnumbered = [code for code in codes if code not in numbers]
    if not codes and fillers is not None:
        unnumbered = [form.symbol(name) for name in _known(folder, numbers, layout, fillers)]
    if unnumbered:
        _check_order(folder, form.languages(unnumbered), layout)
    numbers.update(zip(unnumbered, _free(numbers, first), strict=False))
    codes = codes or unnumbered
    if not codes:
        raise InputError(
            f"{folder}: no file names its languages; expected tokenizer.json, "
            "tokenizer_config.json or special_tokens_map.json with the codes as special tokens"
        )
    if _has_mask(layout) and MASK not in numbers:
        numbers[MASK] = next(_free(numbers, first))
    codes.sort(key=numbers.__getitem__)
    _check_follow(folder, numbers, codes[0], first)
    known = {*pieces, *codes, MASK}
    added = [name for name in numbers if name not in known]
    return Tokens(numbers, form.languages(codes), layout, added)


def _has_mask(layout: str) -> bool:
    return layout != "m2m_100"


def _free(numbers: Numbers, first: int) -> Iterator[int]:
    """Numbers that no token has, from one on."""
    taken = set(numbers.values())
    return (number for number in count(first) if number not in taken)


def _told_numbers(
    folder: HuggingFaceFolder, pieces: Numbers, named: Mapping[str, int | None]
) -> Numbers:
    """Pieces and all tokens whose numbers are told; none may be in the place of another."""
    numbers = dict(pieces)
    names = {number: piece for piece, number in pieces.items()}
    for name, number in named.items():
        if number is None:
            continue
        if names.get(number, name) != name or numbers.get(name, number) != number:
            there = f"{names[number]!r}" if number in names else "nothing"
            raise InputError(
                f"{folder}: {name!r} has the number {number}, which is {there} by {SPM}; "
                f"{OF_TOKENISER}"
            )
        numbers[name], names[number] = number, name
    return numbers


def _check_follow(folder: HuggingFaceFolder, numbers: Numbers, code: str, first: int) -> None:
    """Refuses codes that neither follow the pieces nor tokens that do."""
    free = next(_free(numbers, first))
    if free < numbers[code]:
        raise InputError(
            f"{folder}: the code {code!r} has the number {numbers[code]}, and {free} follows the "
            f"pieces of {SPM}; {OF_TOKENISER}"
        )


def _known(folder: HuggingFaceFolder, numbers: Numbers, layout: str, fillers: int) -> list[str]:
    """Languages that the tokeniser names by their set, or else by how many rows are left.

    A folder need not list those of well-known models; transformers 4 names the set alone.
    """
    named = folder.tokenizer_config.get("language_codes")
    if named in OF_LAYOUT[layout]:
        return KNOWN[named].split()
    left = folder.config["vocab_size"] - len(set(numbers.values())) - fillers
    if _has_mask(layout) and MASK not in numbers:
        left -= 1
    fitting = [languages for languages in known_languages(layout) if len(languages) == left]
    return fitting[0] if fitting else []


def _check_order(folder: HuggingFaceFolder, languages: list[str], layout: str) -> None:
    """Refuses a list without numbers that is of no well-known model: it may be in any order."""
    if languages not in known_languages(layout):
        raise InputError(
            f"{folder}: lists {len(languages)} languages without numbers, not as a well-known "
            "model does; expected their numbers in tokenizer.json or tokenizer_config.json"
        )
