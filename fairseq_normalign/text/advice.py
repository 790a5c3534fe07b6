"""What messages about text call the things that a user can change: flags, or words in Python."""

from __future__ import annotations

from typing import NamedTuple

from fairseq_normalign.text.text_doctor import Diagnosis


class Wording(NamedTuple):
    """Names of options, and what mends each diagnosis of ``text.text_doctor``."""

    bpe: str
    tokenizer: str
    files: dict[str, str]  # of the BPE, by fairseq's option
    remedies: dict[str, str]

    def advice(self, diagnosis: Diagnosis) -> str:
        remedy = self.remedies[diagnosis.remedy].format(scheme=diagnosis.scheme)
        return f"{diagnosis.symptom}; {remedy}"


PYTHON = Wording(
    bpe="bpe",
    tokenizer="tokenizer",
    files={
        "sentencepiece_model": "model",
        "bpe_codes": "model",
        "bpe_vocab_file": "model",
        "source_sentencepiece_model": "source_model",
        "source_bpe_codes": "source_model",
        "target_sentencepiece_model": "target_model",
        "target_bpe_codes": "target_model",
        "bpe_separator": "the separator",
    },
    remedies={
        "scheme": "expected {scheme}",
        "words": "expected the scheme of the model's pieces",
        "numbers": "expected the BPE with its files, which knows the pieces by number",
        "segment": "expected the model's BPE ({scheme}) with its file, or segmented text",
        "twice": "expected words, or no BPE",
        "codes": "is it the model's own BPE, and that of this language?",
        "lowercase": "expected lowercased text",
        "form": "expected text that is normalised to it",
        "swapped": "are the two texts swapped?",
        "model": "are the BPE and the dictionary those of the model?",
        "join": "to join them to words, name the scheme ({scheme})",
    },
)

COMMAND = Wording(
    bpe="--bpe",
    tokenizer="--tokenizer",
    files={option: "--" + option.replace("_", "-") for option in PYTHON.files},
    remedies={
        **PYTHON.remedies,
        "scheme": "expected --bpe or --remove-bpe {scheme}",
        "words": "expected --remove-bpe to name the scheme of the model's pieces, or neither",
        "numbers": "expected --bpe with its files, which knows the pieces by number",
        "segment": "expected --bpe {scheme} with its model or codes; or segmented text, and "
        "--remove-bpe {scheme} to join its pieces to words",
        "twice": "leave out --bpe, and name the scheme with --remove-bpe {scheme}",
        "codes": "is it the model's own BPE? If the languages have one each, name both: "
        "--source-bpe-codes and --target-bpe-codes, or --source-sentencepiece-model and "
        "--target-sentencepiece-model",
        "model": "are the BPE (--bpe) and the dictionary those of the model?",
        "join": "to join them to words, give --remove-bpe {scheme}",
    },
)
