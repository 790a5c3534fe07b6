"""The files of a model, as people keep them in folders."""

import pytest

from fairseq_normalign.errors import InputError
from fairseq_normalign.host.model_files import find_checkpoint, find_data, find_pieces

SPM = "▁the 10\ns 5\n"
BPE = "th@@ 10\ne 5\n"
NUMBERS = "262 10\n50118 5\n"
WORDS = "the 10\ncat 5\n"


def make(folder, *names, **contents):
    for name in names:
        (folder / name).write_text(contents.get(name.replace(".", "_"), ""))
    return folder


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (["checkpoint_last.pt", "checkpoint_best.pt", "checkpoint9.pt"], "checkpoint_best.pt"),
        (["model.pt", "checkpoint_last.pt"], "model.pt"),
        (["deen.pt", "dict.txt"], "deen.pt"),
    ],
)
def test_the_checkpoint_of_a_folder(tmp_path, names, found):
    assert find_checkpoint(str(make(tmp_path, *names))) == tmp_path / found


def test_a_checkpoint_may_be_named_itself_and_a_folder_of_hugging_face_has_none(tmp_path):
    make(tmp_path, "a.pt", "b.pt", "config.json")
    assert find_checkpoint(str(tmp_path / "b.pt")) == tmp_path / "b.pt"
    (tmp_path / "theirs").mkdir()
    assert find_checkpoint(str(make(tmp_path / "theirs", "config.json"))) is None


@pytest.mark.parametrize(
    ("names", "model", "message"),
    [
        (["a.pt", "b.pt"], ".", r"has several checkpoints: a\.pt, b\.pt; name one of them"),
        (["dict.txt"], ".", r"no checkpoint \(\*\.pt\) and no config\.json in this folder"),
        ([], "none.pt", r"none\.pt: no such file or folder$"),
        ([], "Helsinki-NLP/opus-mt-de-en", r"hf download Helsinki-NLP/opus-mt-de-en --local-dir"),
    ],
)
def test_what_is_missing_or_ambiguous(tmp_path, monkeypatch, names, model, message):
    monkeypatch.chdir(make(tmp_path, *names))
    with pytest.raises(InputError, match=message):
        find_checkpoint(model)


def test_a_text_is_no_model(tmp_path):
    (tmp_path / "a.de").write_text("ein haus\n")
    with pytest.raises(InputError, match=r"a\.de: a text, not a checkpoint; MODEL comes before"):
        find_checkpoint(str(tmp_path / "a.de"))


def test_dictionaries_are_beside_the_checkpoint_or_where_it_was_trained(tmp_path, monkeypatch):
    for folder in ("model", "data", "other"):
        (tmp_path / folder).mkdir()
    checkpoint = tmp_path / "model/m.pt"
    monkeypatch.chdir(make(tmp_path, "dict.txt"))  # of whatever model
    assert find_data(checkpoint) is None
    trained_on = f"{tmp_path / 'other'}:{tmp_path / 'data'}"
    assert find_data(checkpoint, trained_on) is None
    make(tmp_path / "data", "dict.de.txt", "dict.en.txt")
    assert find_data(checkpoint, trained_on) == tmp_path / "data"
    make(tmp_path / "model", "dict.txt")
    assert find_data(checkpoint, trained_on) == tmp_path / "model"


OF_FAIRSEQ = {"bpe": "sentencepiece", "sentencepiece_model": "sentencepiece.bpe.model"}
ONE_EACH = {
    "bpe": "sentencepiece",
    "source_sentencepiece_model": "spm.de.model",
    "target_sentencepiece_model": "spm.en.model",
}
OF_GPT2 = {"bpe": "gpt2", "gpt2_encoder_json": "vocab.json", "gpt2_vocab_bpe": "merges.txt"}


@pytest.mark.parametrize(
    ("dictionary", "names", "expected"),
    [
        (SPM, ["spm.model"], {"bpe": "sentencepiece", "sentencepiece_model": "spm.model"}),
        (SPM, ["x.model"], {"bpe": "sentencepiece", "sentencepiece_model": "x.model"}),
        (SPM, ["sentencepiece.bpe.model", "x.model"], OF_FAIRSEQ),
        (SPM, ["spm.de.model", "spm.en.model"], ONE_EACH),
        (BPE, ["bpecodes"], {"bpe": "subword_nmt", "bpe_codes": "bpecodes"}),
        (BPE, ["bpe.codes"], {"bpe": "fastbpe", "bpe_codes": "bpe.codes"}),
        (BPE, ["spm.model"], {}),
        (WORDS, ["spm.model", "codes"], {}),
        (NUMBERS, ["vocab.json", "merges.txt", "encoder.json"], OF_GPT2),
        (NUMBERS, ["vocab.json"], {}),
    ],
)
def test_pieces(tmp_path, dictionary, names, expected):
    contents = {"bpecodes": "#version: 0.2\nt h\n", "bpe_codes": "t h 10\nth e 4\n"}
    make(tmp_path, "dict.de.txt", *names, dict_de_txt=dictionary, **contents)
    found = find_pieces([tmp_path], tmp_path / "dict.de.txt", lambda: ("de", "en"))
    own = {
        name: value if name == "bpe" else str(tmp_path / value) for name, value in expected.items()
    }
    assert found == own


def test_two_models_without_a_usual_name_are_ambiguous(tmp_path):
    make(tmp_path, "dict.txt", "a.model", "b.model", dict_txt=SPM)
    with pytest.raises(InputError, match=r"which of a\.model, b\.model splits text .* --sentencep"):
        find_pieces([tmp_path], tmp_path / "dict.txt", lambda: ("de", "en"))
