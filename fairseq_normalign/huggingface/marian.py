"""Marian's models, such as OPUS-MT, as our variant of fairseq's Transformer.

Three things are Marian's own. The decoder begins with the padding token, which fairseq would not
look at: <s>, which Marian has not, gets its embedding, and the variant reads it first. Logits have
a bias. The sines of positions have other wavelengths than fairseq's: they are written as a table.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from fairseq_normalign.errors import InputError
from fairseq_normalign.host.dictionaries import BOS, PAD
from fairseq_normalign.host.language_codes import (
    DICTIONARY,
    FALLBACK,
    LAYOUTS,
    MULTILINGUAL,
    TARGET_DICTIONARY,
)
from fairseq_normalign.host.text_options import reading_file
from fairseq_normalign.huggingface.converted import RESERVED, Converted, Parameters
from fairseq_normalign.huggingface.folder import HuggingFaceFolder, check_fits, read_pieces
from fairseq_normalign.huggingface.tokenizer_files import piece_numbers
from fairseq_normalign.huggingface.translation import (
    SIDES,
    Search,
    check_translation_settings,
    embedding_parameters,
    fairseq_options,
    languages_note,
    layer_parameters,
    read_search,
    take_embeddings,
    token_number,
    translation_commands,
)
from fairseq_normalign.huggingface.vocabulary import Vocabulary, vocabulary

NEVER = -1e4  # a logit without any probability, in half precision too
SPM = {"source": "source.spm", "target": "target.spm"}


def convert_marian(folder: HuggingFaceFolder) -> Converted:
    """Marian: post-LN, two SentencePiece models, and a vocabulary for both or for each."""
    check_translation_settings(folder)
    config = folder.config
    parameters = Parameters(folder, "model.", halves=True)
    embeddings = take_embeddings(parameters, config)  # so that sizes are true from here on
    vocabularies = _vocabularies(folder)
    search = read_search(folder)
    state = embedding_parameters(embeddings, vocabularies)
    state.update(layer_parameters(parameters, config))
    for side in SIDES:
        state[f"{side}.embed_positions.weight"] = _positions(parameters, config, side)
    bias = _bias(parameters, vocabularies[1], len(embeddings.decoder), search)
    if bias.any():
        state["decoder.logits_bias"] = bias
    options = fairseq_options(
        folder,
        embeddings,
        encoder_learned_pos=True,
        decoder_learned_pos=True,
        logits_bias="decoder.logits_bias" in state,
        start_with_bos=config["decoder_start_token_id"] != config["eos_token_id"],
    )
    codes = LAYOUTS["marian"].languages(vocabularies[0].names)  # as in ``>>fra<< Good morning.``
    options.source_lang, options.target_lang = _languages(folder)
    if codes:
        options.task, options.language_codes, options.target_lang = MULTILINGUAL, "marian", None
        notes = [languages_note(codes, "target languages")]
        files: dict[str, str | bytes] = {DICTIONARY: vocabularies[0].dictionary()}
        if vocabularies[1] is not vocabularies[0]:
            files[TARGET_DICTIONARY] = vocabularies[1].dictionary()
    else:
        notes = []
        files = {
            f"dict.{options.source_lang}.txt": vocabularies[0].dictionary(),
            f"dict.{options.target_lang}.txt": vocabularies[1].dictionary(),
        }
    files.update(_text_files(folder))
    commands = translation_commands(options, search, SPM["source"])
    return Converted(options, state, files, commands, parameters.left(), [*notes, *search.notes])


def _vocabularies(folder: HuggingFaceFolder) -> tuple[Vocabulary, Vocabulary]:
    """Of source and target; one for both if they share it."""
    config = folder.config
    is_shared = config.get("share_encoder_decoder_embeddings", True)
    size = config["vocab_size"]
    source = _vocabulary(folder, "vocab.json", SPM.values() if is_shared else ["source.spm"], size)
    if is_shared:
        return source, source
    size = config.get("decoder_vocab_size") or size
    return source, _vocabulary(folder, "target_vocab.json", ["target.spm"], size)


def _vocabulary(folder: HuggingFaceFolder, file: str, models: Any, size: int) -> Vocabulary:
    numbers = piece_numbers(folder, file)
    for name in models:
        check_fits(folder, name, read_pieces(folder, name)[1], numbers)
    eos, pad = token_number(folder, "eos_token_id"), token_number(folder, "pad_token_id")
    told = {"</s>": (numbers.get("</s>"), eos), "<pad>": (numbers.get("<pad>", pad), pad)}
    for name, (number, expected) in told.items():
        if number != expected:
            raise InputError(
                f"{folder.path / file}: {name!r} has the number {number}; by config.json expected "
                f"{expected}"
            )
    if "<unk>" not in numbers:
        raise InputError(f"{folder.path / file}: has no '<unk>', which unknown pieces become")
    start = token_number(folder, "decoder_start_token_id")
    bos = numbers.get("<s>", pad) if start == eos else start
    return vocabulary(folder, numbers, size, [bos, pad, eos, numbers["<unk>"]])


def sinusoids(positions: int, width: int) -> Tensor:
    """Marian's table: sin(p / 10000^(2i / C)) for all i, then the cosines, (P, C)."""
    exponents = 2 * torch.div(torch.arange(width), 2, rounding_mode="floor") / width
    angles = torch.arange(positions)[:, None] / 10000.0 ** exponents.double()  # (P, C)
    return torch.cat([angles[:, 0::2].sin(), angles[:, 1::2].cos()], dim=1).float()


def _positions(parameters: Parameters, config: Mapping[str, Any], side: str) -> Tensor:
    """fairseq's table: it counts from behind the padding's number."""
    count, width = config["max_position_embeddings"], config["d_model"]
    name = f"{side}.embed_positions.weight"
    if parameters.has(name):
        table = parameters.inner(name, count, width)
    else:
        table = sinusoids(count, width)
    return torch.cat([torch.zeros(RESERVED, width), table])


def _bias(parameters: Parameters, target: Vocabulary, size: int, search: Search) -> Tensor:
    """What is added to the logits; <s> is never generated where it is but another padding."""
    bias = torch.zeros(size)
    if "final_logits_bias" in parameters:
        bias = parameters.take("final_logits_bias", 1, size)[0]
    ordered = target.rows(bias).clone()
    if target.order.count(target.order[BOS]) > 1:
        ordered[BOS] = NEVER
    if search.renormalises:
        ordered[PAD] = NEVER
    return ordered


def _languages(folder: HuggingFaceFolder) -> tuple[str, str]:
    """Source and target, two names that files can have."""
    told = [folder.tokenizer_config.get(f"{side}_lang") for side in ("source", "target")]
    names = [str(name) for name in told if re.fullmatch(r"[\w+-]+", str(name or ""))]
    return (names[0], names[1]) if len(set(names)) == 2 else FALLBACK


def _text_files(folder: HuggingFaceFolder) -> dict[str, str | bytes]:
    """The SentencePiece models, and what says how they are used."""
    files: dict[str, str | bytes] = {}
    for name in SPM.values():
        files[name] = read_pieces(folder, name)[0]
    files.update(
        reading_file(
            bpe="sentencepiece",
            source_sentencepiece_model=SPM["source"],
            target_sentencepiece_model=SPM["target"],
        )
    )
    return files
