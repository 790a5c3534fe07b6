"""A model of Hugging Face beside ours that was imported from it, and what is compared of them."""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import logging
import sys
import warnings
from argparse import Namespace
from pathlib import Path
from typing import Any

import sentencepiece
import torch

from fairseq_normalign.attention.recorder import record
from fairseq_normalign.host.checkpoint import load_single
from fairseq_normalign.host.pairs import PairReader
from fairseq_normalign.host.segmentation import apply_reading
from fairseq_normalign.host.special_tokens import special_tokens_of
from fairseq_normalign.host.translate import Translator
from fairseq_normalign.huggingface.conversion import import_folder
from tests.translation_folders import (
    CODES,
    STEPS,
    TARGET,
    marian_folder,
    multilingual_folder,
    padded,
    sentences,
)

SIDES = ("source", "target")
LONGEST = 59  # tokens of a translation with </s>, by the max_length of the folders
SEARCHES = {
    "greedy": ({"beam": 1}, {"num_beams": 1}),
    "beam": ({"beam": 4}, {"num_beams": 4, "early_stopping": True}),
    "patient": ({"beam": 4, "no_early_stop": True}, {"num_beams": 4}),
    "patient, short": (
        {"beam": 2, "lenpen": 0.5, "no_early_stop": True},
        {"num_beams": 2, "length_penalty": 0.5},
    ),
    "short": (
        {"beam": 3, "lenpen": 0.5},
        {"num_beams": 3, "length_penalty": 0.5, "early_stopping": True},
    ),
}
KINDS = {
    "encoder": "encoder_attentions",
    "decoder": "decoder_attentions",
    "cross": "cross_attentions",
}


# Marian's kinds: with one vocabulary for both sides, with two, and with codes of target languages.
MARIAN = {
    "marian": {},
    "apart": {"shared": False},
    "targets": {"codes": [">>aaa<<", ">>bbb<<"]},
    "targets apart": {"codes": [">>aaa<<", ">>bbb<<"], "shared": False},
}
LANGUAGES = {family: tuple(code.strip("_") for code in codes) for family, codes in CODES.items()}
LANGUAGES.update(marian=("xx", "yy"), apart=("xx", "yy"), targets=("xx", "bbb"))
LANGUAGES["targets apart"] = LANGUAGES["targets"]


class Families:
    """Models by family, each beside ours, made when it is first asked for.

    Args:
        steps: of training; without any, nothing is learnt, which is enough for some tests.
    """

    def __init__(self, folder: Path, steps: int = STEPS):
        self.folder, self.steps = folder, steps
        self.made: dict[str, Both] = {}

    def __getitem__(self, family: str) -> Both:
        if family not in self.made:
            self.made[family] = self._make(family)
        return self.made[family]

    def _make(self, family: str) -> Both:
        path = self.folder / family
        if family in MARIAN:
            theirs = marian_folder(path, **MARIAN[family], steps=self.steps)
        else:
            theirs = multilingual_folder(path, family, steps=self.steps)
        source, target = LANGUAGES[family]
        overrides = {"source_lang": source, "target_lang": target}
        return Both(theirs, path, overrides, name=f"{family}-ours")


def write_texts(folder: Path, count: int, seed: int = 9) -> tuple[Path, Path]:
    """Files of two languages."""
    paths = folder / "source", folder / "target"
    for path, lines in zip(paths, both_languages(count, seed), strict=True):
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return paths


def both_languages(count: int, seed: int = 9) -> tuple[list[str], list[str]]:
    return sentences(count, seed=seed), sentences(count, TARGET, seed=seed)


class Both:
    """A model of Hugging Face, and ours that was imported from it."""

    def __init__(self, theirs, folder: Path, overrides: dict | None = None, *, name: str = "ours"):
        self.theirs, self.folder = theirs, folder
        self.ours = folder.with_name(name)
        import_folder(str(folder), str(self.ours))
        self.model, self.task = load_single(str(self.ours / "model.pt"), str(self.ours), overrides)
        args = Namespace(bpe=None, post_process=None, tokenizer=None)
        apply_reading(args, self.ours)
        self.reader = PairReader.from_args(self.task, args)

    def rows(self, side: str) -> list[int]:
        """Hugging Face's number of each token of our dictionary."""
        if (self.folder / "numbers.json").is_file():  # the order is the same
            return list(range(len(self.task.source_dictionary)))
        name = "target_vocab.json" if side == "target" else "vocab.json"
        if not (self.folder / name).is_file():
            name = "vocab.json"
        numbers = json.loads((self.folder / name).read_text(encoding="utf-8"))
        numbers["<s>"] = numbers["<pad>"]
        return [numbers[symbol] for symbol in getattr(self.reader, side).dictionary.symbols]


def run_fairseq(name: str, *words) -> tuple[str, str]:
    """A command of fairseq's in this process, which need not load all libraries again.

    Returns what it prints and what it logs.
    """
    command = importlib.import_module(f"fairseq_cli.{name}").cli_main
    printed, logged = io.StringIO(), io.StringIO()
    handler, before = logging.StreamHandler(logged), sys.argv
    logger = logging.getLogger()
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    sys.argv = [f"fairseq-{name}", *map(str, words)]
    try:
        with contextlib.redirect_stdout(printed), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of Hydra
            command()
    finally:
        sys.argv = before
        logger.removeHandler(handler)
        logger.setLevel(level)
    return printed.getvalue(), logged.getvalue()


def binarised(both: Both, languages: tuple[str, str], count: int, folder: Path) -> Path:
    """What ``fairseq-preprocess`` makes of the pieces of a text."""
    dictionaries = []
    for side, language, lines in zip(SIDES, languages, both_languages(count), strict=True):
        names = (f"{side}.spm", "sentencepiece.bpe.model")
        model = next(both.ours / name for name in names if (both.ours / name).is_file())
        split = sentencepiece.SentencePieceProcessor(model_file=str(model)).encode
        pieces = [" ".join(line) for line in split(lines, out_type=str)]
        (folder / f"text.{language}").write_text("\n".join(pieces) + "\n", encoding="utf-8")
        own = both.ours / f"dict.{language}.txt"
        names = (own.name, f"dict.{side}.txt", "dict.txt")
        dictionaries.append(
            next(both.ours / name for name in names if (both.ours / name).is_file())
        )
    run_fairseq(
        *("preprocess", "-s", languages[0], "-t", languages[1]),
        *("--testpref", folder / "text", "--trainpref", folder / "text"),
        *("--srcdict", dictionaries[0], "--tgtdict", dictionaries[1]),
        *("--destdir", folder / "data-bin", "--workers", 1),
    )
    return folder / "data-bin"


def theirs_of(both: Both, tokens, side: str) -> torch.Tensor:
    rows = both.rows(side)
    return torch.tensor([[rows[token] for token in tokens.tolist()]])


def check_same_numbers(both: Both, source: str, target: str) -> None:
    """States, logits and attention weights of one pair."""
    pair = both.reader.pair(source, target, "line 1")
    start = torch.tensor([special_tokens_of(both.task).start])
    read = torch.cat([start, pair.target.tokens[:-1]])
    their_read = theirs_of(both, read, "target")
    their_read[0, 0] = both.theirs.config.decoder_start_token_id
    both.theirs.set_attn_implementation("eager")
    with torch.no_grad():
        expected = both.theirs(
            input_ids=theirs_of(both, pair.source.tokens, "source"),
            decoder_input_ids=their_read,
            output_attentions=True,
            output_hidden_states=True,
        )
    model = both.model
    with torch.no_grad(), record(model, tuple(KINDS), values=False) as recording:
        source_tokens = pair.source.tokens[None]
        lengths = torch.tensor([source_tokens.shape[1]])
        encoded = model.encoder(source_tokens, src_lengths=lengths, return_all_hiddens=True)
        logits, extra = model.decoder(read[None], encoder_out=encoded, return_all_hiddens=True)
    close = {"atol": 1e-4, "rtol": 1e-4}
    torch.testing.assert_close(
        encoded["encoder_out"][0][:, 0], expected.encoder_last_hidden_state[0], **close
    )
    pairs = [
        (encoded["encoder_states"][1:-1], expected.encoder_hidden_states[1:-1]),
        (extra["inner_states"][:-1], expected.decoder_hidden_states[:-1]),
    ]
    for ours, theirs in pairs:
        assert len(ours) >= 1
        for state, hidden in zip(ours, theirs, strict=True):
            torch.testing.assert_close(state[:, 0], hidden[0], **close)
    rows = both.rows("target")
    torch.testing.assert_close(logits[0, :, 1:], expected.logits[0][:, rows[1:]], **close)
    for kind, name in KINDS.items():
        for layer, weights in enumerate(getattr(expected, name)):
            torch.testing.assert_close(recording[kind, layer].weights, weights, **close)


def translated(both: Both, texts: list[str], **search) -> list[list[int]]:
    """Our translations, in Hugging Face's numbers."""
    limits = {"max_len_a": 0, "max_len_b": LONGEST - 1, "min_len": 0}
    translator = Translator(both.model, both.reader, {**search, **limits})
    pairs = [both.reader.pair(text, None, "line 1") for text in texts]
    rows = both.rows("target")
    return [[rows[token] for token in tokens] for tokens in translator(pairs)]


def translated_by_theirs(both: Both, texts: list[str], **options: Any) -> list[list[int]]:
    pairs = [both.reader.pair(text, None, "line 1") for text in texts]
    sources = [theirs_of(both, pair.source.tokens, "source")[0].tolist() for pair in pairs]
    return generated_by(both.theirs, sources, **options)


def generated_by(theirs: Any, sources: list[list[int]], **options: Any) -> list[list[int]]:
    """Translations by a model of Hugging Face, without the first token and padding."""
    pad, eos = theirs.config.pad_token_id, theirs.config.eos_token_id
    inputs = padded(sources, pad)
    generated = theirs.generate(inputs, attention_mask=inputs.ne(pad), **options)
    translations = []
    for tokens in generated[:, 1:].tolist():
        end = tokens.index(eos) + 1 if eos in tokens else len(tokens)
        assert all(token == pad for token in tokens[end:])
        translations.append(tokens[:end])
    return translations


def check_same_translations(
    both: Both, search: dict, theirs: dict, texts: list[str], *, fewest: int = 50
) -> None:
    """Token by token, of all translations that end before the limit: there, searches differ.

    At the limit, </s> costs nothing in Hugging Face's search, or is not asked for.
    """
    expected = translated_by_theirs(both, texts, **theirs)
    found = translated(both, texts, **search)
    compared = 0
    for ours, tokens in zip(found, expected, strict=True):
        if len(tokens) < LONGEST:
            assert ours == tokens
            compared += 1
    assert compared >= fewest
    assert len(set(map(tuple, expected))) > fewest / 2
