"""Folders of translation models that are in several files, or that cannot be imported."""

from __future__ import annotations

import json
import shutil

import pytest
import torch

from fairseq_normalign.errors import InputError
from fairseq_normalign.host.conversion import import_folder
from fairseq_normalign.host.hugging_face_export import export_folder
from fairseq_normalign.host.safetensors_file import read_safetensors, write_safetensors
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


def test_parameters_in_several_files_or_in_a_pickle(marian, tmp_path):
    theirs, folder = marian
    theirs.save_pretrained(tmp_path / "sharded", max_shard_size="10KB")
    assert len(list((tmp_path / "sharded").glob("*.safetensors"))) > 2
    shutil.copytree(folder, tmp_path / "pickled")
    (tmp_path / "pickled/model.safetensors").unlink()
    torch.save(theirs.state_dict(), tmp_path / "pickled/pytorch_model.bin")
    for name in ("source.spm", "target.spm", "vocab.json"):
        shutil.copy(folder / name, tmp_path / "sharded")
    states = []
    for source in (folder, tmp_path / "sharded", tmp_path / "pickled"):
        output = tmp_path / f"{source.name}, ours"
        import_folder(str(source), str(output))
        states.append(torch.load(output / "model.pt", weights_only=False)["model"])
    for state in states[1:]:
        for name, values in states[0].items():
            torch.testing.assert_close(state[name], values)


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


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision(dtype, marian, tmp_path):
    """The checkpoint is as small as the folder; the model is in single precision, and the same."""
    shutil.copytree(marian[1], tmp_path / "half")
    path = tmp_path / "half/model.safetensors"
    halved = {name: values.to(dtype) for name, values in read_safetensors(path).items()}
    path.unlink()
    write_safetensors(path, halved, {})
    both = Both(
        marian[0].from_pretrained(tmp_path / "half", dtype=torch.float32), tmp_path / "half"
    )
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


def edited_vocabulary(edit_names):
    def edit(folder):
        numbers = json.loads((folder / "vocab.json").read_text())
        write_json(folder / "vocab.json", edit_names(numbers))

    return edit


def edited_parameters(edit_tensors):
    def edit(folder):
        path = folder / "model.safetensors"
        tensors = {name: values.clone() for name, values in read_safetensors(path).items()}
        edit_tensors(tensors)
        path.unlink()
        write_safetensors(path, tensors, {})

    return edit


def quantised(tensors):
    name = "model.encoder.layers.0.fc1.weight"
    tensors[name] = tensors[name].to(torch.int8)


def broken(tensors):
    tensors["model.encoder.layers.0.fc1.bias"][0] = float("nan")


FOREIGN = train_sentencepiece(["бгдж жзиё абвг"] * 50 + ["джзи ёбвгд"] * 50, 30)
BAD_MARIAN = {
    "no SentencePiece model": (
        lambda folder: (folder / "source.spm").unlink(),
        "has no source.spm; expected the SentencePiece model of its text",
    ),
    "no vocabulary": (
        lambda folder: (folder / "vocab.json").unlink(),
        "has no vocab.json; expected the tokeniser's vocabulary",
    ),
    "text for SentencePiece": (
        lambda folder: (folder / "target.spm").write_text("hello"),
        "target.spm: cannot be read; expected a SentencePiece model",
    ),
    "another language": (
        lambda folder: (folder / "source.spm").write_bytes(FOREIGN),
        "pieces are in the vocabulary of the model; expected the SentencePiece model that belongs",
    ),
    "a number too large": (
        edited_vocabulary(lambda numbers: {**numbers, "new": 9999}),
        "'new' has the number 9999; the model knows ",
    ),
    "no output": (
        edited_config(tie_word_embeddings=False),
        "has no parameter 'lm_head.weight'; are some files missing?",
    ),
    "no vocabulary of the target": (
        edited_config(share_encoder_decoder_embeddings=False),
        "has no target_vocab.json; expected the tokeniser's vocabulary",
    ),
    "no whole number": (
        edited_vocabulary(lambda numbers: {**numbers, "new": "7"}),
        "vocab.json: the piece 'new' has the number '7'",
    ),
    "another </s>": (
        edited_vocabulary(lambda numbers: {**numbers, "</s>": 5}),
        "vocab.json: '</s>' has the number 5; by config.json expected 0",
    ),
    "no <unk>": (
        edited_vocabulary(lambda numbers: {k: v for k, v in numbers.items() if k != "<unk>"}),
        "vocab.json: has no '<unk>', which unknown pieces become",
    ),
    "a larger model": (
        edited_config(vocab_size=5000, decoder_vocab_size=5000),
        "of the 5000 tokens that the model knows; expected the tokeniser of the model",
    ),
    "quantised, by the configuration": (
        edited_config(quantization_config={"bits": 4}),
        "config.json has what is not supported: quantization_config is {'bits': 4}",
    ),
    "quantised, by the numbers": (
        edited_parameters(quantised),
        "'model.encoder.layers.0.fc1.weight' has numbers of the kind torch.int8: it is quantised",
    ),
    "another activation": (
        edited_config(activation_function="mish"),
        "has what is not supported: activation_function is 'mish'",
    ),
    "no start": (
        edited_config(decoder_start_token_id=None),
        "decoder_start_token_id is None in config.json; expected the number of a token",
    ),
    "odd heads": (
        edited_config(encoder_attention_heads=3),
        "d_model 16 is no multiple of the 3 heads of its encoder",
    ),
    "a layer more": (
        edited_config(encoder_layers=3),
        "has no parameter 'model.encoder.layers.2.fc1.weight'; are some files missing?",
    ),
    "a wider layer": (
        edited_config(encoder_ffn_dim=64),
        "has the shape (32, 16); by its config.json expected (64, 16)",
    ),
    "no number": (
        edited_parameters(broken),
        "1 of its parameters have values that are infinite or no numbers",
    ),
    "beams that are no number": (
        lambda folder: write_json(folder / "generation_config.json", {"num_beams": "many"}),
        "num_beams is 'many'; expected a number",
    ),
}


def refused(folder, edit, tmp_path) -> str:
    shutil.copytree(folder, tmp_path / "theirs")
    edit(tmp_path / "theirs")
    with pytest.raises(InputError) as error:
        import_folder(str(tmp_path / "theirs"), str(tmp_path / "ours"))
    assert not (tmp_path / "ours").exists()
    assert "\n" not in str(error.value)
    assert str(error.value).startswith(str(tmp_path / "theirs"))
    return str(error.value)


@pytest.mark.parametrize("name", BAD_MARIAN)
def test_bad_folders_of_marian(name, marian, tmp_path):
    edit, message = BAD_MARIAN[name]
    assert message in refused(marian[1], edit, tmp_path)


def other_pieces(folder):
    (folder / "sentencepiece.bpe.model").write_bytes(train_sentencepiece(sentences(200), 900))


def other_pieces_and_a_list(folder):
    other_pieces(folder)
    (folder / "tokenizer_config.json").unlink()
    languages = {"additional_special_tokens": ["ace_Arab", "deu_Latn"]}
    write_json(folder / "special_tokens_map.json", languages)


def told_numbers(folder):
    tokens = [{"id": 40, "content": "ace_Arab"}, {"id": 41, "content": "deu_Latn"}]
    write_json(folder / "tokenizer.json", {"added_tokens": tokens})


BAD_NLLB = {
    "no languages": (
        lambda folder: (folder / "tokenizer_config.json").unlink(),
        "no file names its languages; expected tokenizer.json, tokenizer_config.json or special",
    ),
    "damaged languages": (
        lambda folder: write_json(
            folder / "special_tokens_map.json", {"additional_special_tokens": [{"id": 3}]}
        ),
        "special_tokens_map.json: is damaged; expected a tokeniser's file",
    ),
    "another SentencePiece model": (
        other_pieces,
        "the code 'ace_Arab' has the number 91, and 82 follows the pieces of sentencepiece.bpe.mod",
    ),
    "another SentencePiece model, and languages without numbers": (
        other_pieces_and_a_list,
        "of the 96 tokens that the model knows; expected the tokeniser of the model",
    ),
    "numbers that do not follow the pieces": (
        told_numbers,
        "the code 'ace_Arab' has the number 40, and ",
    ),
}


@pytest.mark.parametrize("name", BAD_NLLB)
def test_bad_folders_of_nllb(name, nllb, tmp_path):
    edit, message = BAD_NLLB[name]
    assert message in refused(nllb[1], edit, tmp_path)


def test_mixtures_of_experts_are_refused_by_name(nllb, tmp_path):
    edit = edited_config(model_type="nllb-moe", architectures=["NllbMoeForConditionalGeneration"])
    expected = "its architecture is 'nllb-moe' (NllbMoeForConditionalGeneration); expected one of: "
    assert f"{expected}bert, roberta, marian, m2m_100, mbart" in refused(nllb[1], edit, tmp_path)
