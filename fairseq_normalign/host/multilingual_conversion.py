"""M2M-100, NLLB and mBART of Hugging Face as fairseq's Transformer with normalised inputs.

They came from fairseq, and their layers, positions and first tokens are as there. What is decided
here is how their tokenisers number pieces, which codes of languages there are, and where they are.
"""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from fairseq_normalign.errors import InputError
from fairseq_normalign.host.converted import Converted, Parameters
from fairseq_normalign.host.generation_settings import read_search
from fairseq_normalign.host.hugging_face import HuggingFaceFolder
from fairseq_normalign.host.language_codes import LAYOUTS, MULTILINGUAL, known_languages
from fairseq_normalign.host.reading import reading_file
from fairseq_normalign.host.sentencepiece_files import check_fits, read_pieces
from fairseq_normalign.host.tokenizer_files import Numbers, named_tokens, piece_numbers
from fairseq_normalign.host.translation_conversion import (
    RESERVED,
    SIDES,
    Embeddings,
    check_translation_settings,
    embedding_parameters,
    fairseq_options,
    languages_note,
    layer_parameters,
    norm_parameters,
    take_embeddings,
    translation_commands,
)
from fairseq_normalign.host.vocabulary import SPECIAL, Vocabulary, vocabulary

SPM = "sentencepiece.bpe.model"
OFFSET = 1  # of Hugging Face's numbers to SentencePiece's, whose first three are others
OF_SENTENCEPIECE = 3  # its <unk>, <s> and </s>
FIRST = {name: number for number, name in enumerate(SPECIAL)}  # as in fairseq
MASK = "<mask>"
FILLERS = 8  # rows behind the codes, at most: those of M2M-100
MOST_OF_MBART = 26  # mBART-25's languages; mBART-50 has twice as many, and another layout


class Tokens(NamedTuple):
    """What a tokeniser says."""

    numbers: Numbers  # of pieces and codes
    languages: list[str]
    layout: str  # of LAYOUTS


def convert_m2m(folder: HuggingFaceFolder) -> Converted:
    """M2M-100 and NLLB: sines of positions as in fairseq."""
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
    commands = translation_commands(built, search, SPM)
    return Converted(built, state, files, commands, parameters.left(), notes)


def _files(folder: HuggingFaceFolder, words: Vocabulary) -> dict[str, str | bytes]:
    content, _ = read_pieces(folder, SPM)
    return {
        "dict.txt": words.dictionary(),
        SPM: content,
        **reading_file(bpe="sentencepiece", sentencepiece_model=SPM),
    }


def _m2m_tokens(folder: HuggingFaceFolder) -> Tokens:
    """M2M-100: ``vocab.json``, then the codes, ``__en__`` and so on."""
    numbers = piece_numbers(folder, "vocab.json")
    for name, number in FIRST.items():
        if numbers.get(name) != number:
            raise InputError(
                f"{folder.path / 'vocab.json'}: {name!r} has the number {numbers.get(name)}; "
                f"expected {number}"
            )
    check_fits(folder, SPM, read_pieces(folder, SPM)[1], numbers)
    layout = LAYOUTS["m2m_100"]
    codes = [name for name in named_tokens(folder) if layout.languages([name])]
    fillers = folder.tokenizer_config.get("num_madeup_words", FILLERS)
    codes = codes or [layout.symbol(name) for name in _known(folder, numbers, fillers)]
    return _with_codes(folder, numbers, codes, layout.languages(codes), "m2m_100")


def _nllb_tokens(folder: HuggingFaceFolder) -> Tokens:
    """NLLB: SentencePiece's numbers, then the codes, ``eng_Latn`` and so on, and <mask>."""
    is_legacy = folder.tokenizer_config.get("legacy_behaviour") is True
    layout = "nllb_legacy" if is_legacy else "nllb"
    numbers, codes = _shifted_pieces(folder), _bare_codes(folder)
    return _with_codes(folder, numbers, codes, codes, layout)


def _mbart_tokens(folder: HuggingFaceFolder) -> Tokens:
    """mBART-25 and mBART-50: SentencePiece's numbers, then the codes, and <mask>."""
    numbers = _shifted_pieces(folder)
    codes = _bare_codes(folder) or _known(folder, numbers, 1)
    layout = "mbart50" if len(codes) > MOST_OF_MBART else "mbart"
    return _with_codes(folder, numbers, codes, codes, layout)


def _shifted_pieces(folder: HuggingFaceFolder) -> Numbers:
    _, pieces = read_pieces(folder, SPM)
    numbers = dict(FIRST)
    for number, piece in enumerate(pieces[OF_SENTENCEPIECE:], OF_SENTENCEPIECE):
        numbers[piece] = number + OFFSET
    return numbers


def _bare_codes(folder: HuggingFaceFolder) -> list[str]:
    """The special tokens that are no marks of sentences: the codes."""
    return [name for name in named_tokens(folder) if name not in (*SPECIAL, MASK)]


def _known(folder: HuggingFaceFolder, pieces: Numbers, others: int) -> list[str]:
    """Languages by how many rows are left: a folder need not list those of well-known models.

    Args:
        others: how many rows follow the codes.
    """
    return known_languages(folder.config["vocab_size"] - max(pieces.values()) - 1 - others)


def _with_codes(
    folder: HuggingFaceFolder, pieces: Numbers, codes: list[str], languages: list[str], layout: str
) -> Tokens:
    """Codes follow the pieces in their order, which files with their numbers must confirm."""
    if not codes:
        raise InputError(
            f"{folder}: no file names its languages; expected tokenizer.json, "
            "tokenizer_config.json or special_tokens_map.json with the codes as special tokens"
        )
    numbers = dict(pieces)
    told = named_tokens(folder)
    first = max(pieces.values()) + 1
    for number, code in enumerate(codes, first):
        if told.get(code) not in (None, number):
            raise InputError(
                f"{folder}: the code {code!r} has the number {told[code]}, and {number} follows "
                f"the pieces of {SPM}; expected the SentencePiece model of this tokeniser"
            )
        numbers[code] = number
    if layout != "m2m_100":
        numbers[MASK] = first + len(codes)
    return Tokens(numbers, languages, layout)
