"""Folders of translation models that are in several files, or that cannot be imported."""

from __future__ import annotations

import json
import shutil

import pytest
import torch

from fairseq_normalign.host.trust import read_safetensors
from fairseq_normalign.huggingface.conversion import import_folder
from fairseq_normalign.huggingface.export import export_folder
from fairseq_normalign.huggingface.folder import HuggingFaceFolder
from fairseq_normalign.huggingface.translation import read_search, search_options
from tests.hugging_face import check_refused, symbols_of, write_safetensors
from tests.imported import LANGUAGES, Both, check_same_numbers
from tests.translation_folders import (
    CODES,
    marian_folder,
    multilingual_folder,
    sentences,
    train_sentencepiece,
    write_json,
)


@pytest.fixture(scope="module")
def marian(tmp_path_factory):
    folder = tmp_path_factory.mktemp("marian") / "theirs"
    return marian_folder(folder, steps=0), folder


@pytest.fixture(scope="module")
def nllb(tmp_path_factory):
    folder = tmp_path_factory.mktemp("nllb") / "theirs"
    return multilingual_folder(folder, "nllb", steps=0), folder


@pytest.mark.parametrize("family", ["marian", "apart", "nllb", "mbart"])
def test_embeddings_that_are_not_tied(family, tmp_path):
    """Encoder, decoder and logits have their own, which a model of Hugging Face may share, too."""
    folder = tmp_path / "theirs"
    if family in CODES:
        theirs = multilingual_folder(folder, family, steps=0, tie_word_embeddings=False)
    else:
        own = {"shared": family == "marian", "tie_word_embeddings": False}
        theirs = marian_folder(folder, steps=0, **own)
    torch.nn.init.normal_(theirs.lm_head.weight, std=0.1)
    theirs.save_pretrained(folder)
    languages = dict(zip(("source_lang", "target_lang"), LANGUAGES[family], strict=True))
    check_same_numbers(Both(theirs, folder, languages), "Aeio nrst.", "Uvw xyz?")


def test_half_precision(marian, tmp_path):
    """The checkpoint is as small as the folder; the model is in single precision, and the same."""
    dtype = torch.bfloat16
    shutil.copytree(marian[1], tmp_path / "half")
    path = tmp_path / "half/model.safetensors"
    halved = {name: values.to(dtype) for name, values in read_safetensors(path)[0].items()}
    path.unlink()
    write_safetensors(path, halved)
    theirs = marian[0].from_pretrained(tmp_path / "half", dtype=torch.float32)
    both = Both(theirs, tmp_path / "half")
    assert {parameter.dtype for parameter in both.model.parameters()} == {torch.float32}
    stored = torch.load(both.ours / "model.pt", weights_only=False)["model"]
    assert stored["encoder.embed_tokens.weight"].dtype == dtype
    check_same_numbers(both, "Aeio nrst.", "Uvw xyz?")
    export_folder(str(both.ours / "model.pt"), str(both.ours), str(tmp_path / "back"))


def edited_config(**settings):
    def edit(folder):
        config = json.loads((folder / "config.json").read_text())
        write_json(folder / "config.json", {**config, **settings})

    return edit


def without_unknown(folder):
    numbers = json.loads((folder / "vocab.json").read_text())
    del numbers["<unk>"]
    write_json(folder / "vocab.json", numbers)


def edited_parameters(edit_tensors):
    def edit(folder):
        path = folder / "model.safetensors"
        tensors = {name: values.clone() for name, values in read_safetensors(path)[0].items()}
        edit_tensors(tensors)
        path.unlink()
        write_safetensors(path, tensors)

    return edit


def quantised(tensors):
    name = "model.encoder.layers.0.fc1.weight"
    tensors[name] = tensors[name].to(torch.int8)


POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"


def other_pieces(folder):
    (folder / "sentencepiece.bpe.model").write_bytes(train_sentencepiece(sentences(200), 900))


def removed(name):
    return lambda folder: (folder / name).unlink()


def replaced(name, text):
    return lambda folder: (folder / name).write_text(text)


BAD = [
    ("marian", removed("source.spm"), "no source.spm, which is needed; copy it from the base mod"),
    ("marian", replaced("target.spm", "hello"), "target.spm: not a SentencePiece model"),
    ("marian", replaced("model.safetensors", POINTER), "a git-lfs pointer, not the file; run: gi"),
    ("marian", without_unknown, "vocab.json: not the vocabulary of this model"),
    ("marian", edited_parameters(quantised), "fc1.weight' has numbers of type torch.int8; quant"),
    ("nllb", removed("tokenizer_config.json"), "no file has the numbers of its language codes; a"),
    ("nllb", other_pieces, "language codes do not follow the pieces of sentencepiece.bpe.model"),
]


@pytest.mark.parametrize(("family", "edit", "message"), BAD)
def test_bad_folders(family, edit, message, request, tmp_path):
    _, folder = request.getfixturevalue(family)
    shutil.copytree(folder, tmp_path / "theirs")
    edit(tmp_path / "theirs")
    check_refused(tmp_path / "theirs", message)


def search_of(folder, path, config, generation):
    """The options of the search, by the settings of the two files; None for no second file."""
    shutil.copytree(folder, path)
    edited_config(**config)(path)
    (path / "generation_config.json").unlink()
    if generation is not None:
        write_json(path / "generation_config.json", generation)
    options = search_options(read_search(HuggingFaceFolder(str(path))), longest=64).split()
    beam, longest = (options.index(name) + 1 for name in ("--beam", "--max-len-b"))
    return options[beam], options[longest]


def test_settings_of_the_search_are_of_one_file(marian, tmp_path):
    """As with transformers: generation_config.json, or config.json if there is none."""
    config = {"num_beams": 6, "max_length": 50}
    assert search_of(marian[1], tmp_path / "a", config, None) == ("6", "48")
    assert search_of(marian[1], tmp_path / "b", config, {"num_beams": 2}) == ("2", "62")
    assert search_of(marian[1], tmp_path / "c", config, {})[0] == "1"


def test_new_tokens_are_those_behind_the_first(marian, tmp_path):
    told = {"max_new_tokens": 30, "max_length": 50, "min_new_tokens": 3}
    assert search_of(marian[1], tmp_path / "a", {}, told) == ("1", "29")
    notes = import_folder(str(tmp_path / "a"), str(tmp_path / "ours")).notes
    assert notes == ["settings that fairseq's search ignores: min_new_tokens"]


@pytest.fixture(scope="module")
def m2m(tmp_path_factory):
    folder = tmp_path_factory.mktemp("m2m") / "theirs"
    return multilingual_folder(folder, "m2m", steps=0), folder


SETS = {
    "fillers that are not told": {"num_madeup_words": None},
    # transformers 4 lists no codes; the model may have other rows behind them than it tells
    "a set of languages": {"language_codes": "m2m100", "num_madeup_words": 0},
}


@pytest.mark.parametrize("name", SETS)
def test_languages_that_are_not_listed(name, m2m, tmp_path):
    shutil.copytree(m2m[1], tmp_path / "theirs")
    write_json(tmp_path / "theirs/tokenizer_config.json", SETS[name])
    imported = import_folder(str(tmp_path / "theirs"), str(tmp_path / "ours"))
    assert imported.notes[0].startswith("100 languages: af, am, ")


def with_more_tokens(folder, path, *, count):
    """A copy of a folder whose model knows more tokens; returns the number of the first."""
    shutil.copytree(folder, path)
    config = json.loads((path / "config.json").read_text())
    size = config["vocab_size"]

    def lengthen(tensors):
        shared = tensors["model.shared.weight"]
        tensors["model.shared.weight"] = torch.cat([shared, torch.randn(count, shared.shape[1])])
        if "final_logits_bias" in tensors:
            tensors["final_logits_bias"] = torch.zeros(1, size + count)

    edited_parameters(lengthen)(path)
    edited_config(vocab_size=size + count)(path)
    return size


def test_a_language_and_a_token_that_were_added_behind_the_mask(nllb, tmp_path):
    """As in NLLB that was tuned for one language more."""
    path, ours = tmp_path / "theirs", tmp_path / "ours"
    first = with_more_tokens(nllb[1], path, count=2)
    write_json(path / "added_tokens.json", {"tyv_Cyrl": first, "<doc>": first + 1})
    notes = import_folder(str(path), str(ours)).notes
    assert notes[0] == "5 languages: ace_Arab, deu_Latn, eng_Latn, fra_Latn, tyv_Cyrl"
    assert notes[-1] == "added tokens, which are text where a text spells them: <doc>"
    assert symbols_of(ours)[first - 1 :] == ["<mask>", "tyv_Cyrl", "<doc>"]
    languages = {"source_lang": "deu_Latn", "target_lang": "tyv_Cyrl"}
    theirs = type(nllb[0]).from_pretrained(path).eval()
    both = Both(theirs, path, languages, name="both")
    assert both.reader.pair("aeio", "uvw", "line 1").target.tokens[0] == first
    check_same_numbers(both, "Aeio nrst.", "Uvw xyz?")
