"""Marian's models, such as OPUS-MT, as our variant of fairseq's Transformer.

Three things are Marian's own. The decoder begins with the padding token, which fairseq would not
look at: <s>, which Marian has not, gets its embedding, and the variant reads it first. Logits have
a bias. The sines of positions have other wavelengths than fairseq's: they are written as a table.
"""

from __future__ import annotations

import re

import torch
from torch import Tensor

from fairseq_normalign.errors import InputError
from fairseq_normalign.host.special_tokens import BOS, FALLBACK, LAYOUTS, MULTILINGUAL, PAD, listed
from fairseq_normalign.huggingface.converted import (
    RESERVED,
    Converted,
    Parameters,
    Vocabulary,
    vocabulary,
)
from fairseq_normalign.huggingface.folder import Config, HuggingFaceFolder
from fairseq_normalign.huggingface.translation import (
    BIAS,
    POSITIONS,
    convert_translation,
    open_translation,
    read_search,
)

NEVER = -1e4  # a logit without any probability, in half precision too
SPM = {
    "source_sentencepiece_model": "source.spm",
    "target_sentencepiece_model": "target.spm",
}


def convert_marian(folder: HuggingFaceFolder) -> Converted:
    """Marian: post-LN, two SentencePiece models, and a vocabulary for both or for each."""
    config = folder.config
    parameters = open_translation(folder)
    source, target = _vocabularies(folder)
    own = {name: _positions(parameters, config, name) for name in POSITIONS.values()}
    own[BIAS] = _bias(parameters, target, read_search(folder))
    source_lang, target_lang = _languages(folder)
    options: Config = {"source_lang": source_lang, "target_lang": target_lang}
    notes = []
    codes = LAYOUTS["marian"].languages(source.names)  # as in ``>>fra<< Good morning.``
    if codes:
        options.update(task=MULTILINGUAL, language_codes="marian", target_lang=None)
        notes = [f"{len(codes)} target languages: {listed(codes)}"]
    options["start_with_bos"] = config["decoder_start_token_id"] != config["eos_token_id"]
    return convert_translation(folder, parameters, (source, target), own, SPM, notes, **options)


def _vocabularies(folder: HuggingFaceFolder) -> tuple[Vocabulary, Vocabulary]:
    """Of source and target; one for both if they share it."""
    size = folder.config["vocab_size"]
    source = _vocabulary(folder, "vocab.json", size)
    if folder.config.get("share_encoder_decoder_embeddings", True):
        return source, source
    size = folder.config.get("decoder_vocab_size") or size
    return source, _vocabulary(folder, "target_vocab.json", size)


def _vocabulary(folder: HuggingFaceFolder, file: str, size: int) -> Vocabulary:
    numbers = folder.json(file)
    config = folder.config
    eos, pad, start = (config[f"{name}_token_id"] for name in ("eos", "pad", "decoder_start"))
    marks = [numbers.get("</s>"), numbers.get("<pad>", pad)]
    is_unique = len(set(numbers.values())) == len(numbers)
    if marks != [eos, pad] or not is_unique or "<unk>" not in numbers:
        raise InputError(
            f"{folder.path / file}: not the vocabulary of this model: tokens share numbers, it "
            "lacks <unk>, or config.json has other numbers for </s> and <pad>"
        )
    bos = numbers.get("<s>", pad) if start == eos else start
    return vocabulary(folder, numbers, size, [bos, pad, eos, numbers["<unk>"]])


def sinusoids(positions: int, width: int) -> Tensor:
    """Marian's table: sin(p / 10000^(2i / C)) for all i, then the cosines, (P, C)."""
    exponents = torch.arange(0, width, 2) / width
    angles = torch.arange(positions)[:, None] / 10000.0 ** exponents.double()  # (P, C / 2)
    return torch.cat([angles.sin(), angles.cos()], dim=1).float()


def _positions(parameters: Parameters, config: Config, name: str) -> Tensor:
    """fairseq's table: it counts from behind the padding's number."""
    count, width = config["max_position_embeddings"], config["d_model"]
    table = parameters.take(name) if name in parameters else sinusoids(count, width)
    return torch.cat([torch.zeros(RESERVED, width), table])


def _bias(parameters: Parameters, target: Vocabulary, search: Config) -> Tensor:
    """What is added to the logits; <s> is never generated where it is but another padding."""
    bias = torch.zeros(len(target.names))
    if "final_logits_bias" in parameters:
        bias = parameters.take("final_logits_bias")[0]
    ordered = target.rows(bias).clone()
    if target.order.count(target.order[BOS]) > 1:
        ordered[BOS] = NEVER
    if search.get("renormalize_logits") is True:  # what may not be generated has no probability
        ordered[PAD] = NEVER
    return ordered


def _languages(folder: HuggingFaceFolder) -> tuple[str, str]:
    """Source and target, two names that files can have."""
    told = [folder.tokenizer_config.get(f"{side}_lang") for side in ("source", "target")]
    names = [str(name) for name in told if re.fullmatch(r"[\w+-]+", str(name or ""))]
    return (names[0], names[1]) if len(set(names)) == 2 else FALLBACK
