"""fairseq checkpoints as Hugging Face folders: transformers computes the same logits."""

from __future__ import annotations

import json
from argparse import Namespace

import pytest
import torch

from fairseq_normalign.errors import InputError
from fairseq_normalign.heads.pruning import Prunable
from fairseq_normalign.host.checkpoint import load_single, save
from fairseq_normalign.huggingface.conversion import Written, import_folder
from fairseq_normalign.huggingface.export import export_folder
from fairseq_normalign.names import parse_heads
from tests.conftest import PRE_LN, ToyTask, build_model
from tests.hugging_face import of_transformers
from tests.imported import LANGUAGES, MARIAN
from tests.translation_folders import marian_folder, multilingual_folder, train_sentencepiece

SIZES = {"max_source_positions": 64, "max_target_positions": 64}
for _side in ("encoder", "decoder"):
    SIZES.update({f"{_side}_embed_dim": 16, f"{_side}_ffn_embed_dim": 32})
    SIZES.update({f"{_side}_layers": 2, f"{_side}_attention_heads": 4})
SOURCE = torch.tensor([[5, 9, 7, 12, 2], [6, 8, 2, 1, 1]])
READ = torch.tensor([[2, 11, 5, 8], [2, 14, 7, 6]])


def stored(path, *, hydra: bool = False, **options) -> torch.nn.Module:
    """A folder with the checkpoint of a random model and its dictionaries.

    Args:
        hydra: the options of the task are apart from those of the model, as newer versions do.
    """
    path.mkdir()
    task = ToyTask()
    for language in ("a", "b"):
        task.source_dictionary.save(str(path / f"dict.{language}.txt"))
    options = {**SIZES, **options}
    model = build_model("transformer_normalign", task, **options)
    names = {"arch": "transformer_normalign", "task": "translation", "criterion": "cross_entropy"}
    languages = {"source_lang": "a", "target_lang": "b", "data": ".", "alive_heads": "all"}
    args = Namespace(**options, **names, **languages)
    history = [{"criterion_name": "none", "lr_scheduler_state": {"best": None}}]
    state = {"args": args, "model": model.state_dict(), "optimizer_history": history}
    if hydra:
        of_model = {**vars(args), "_name": names["arch"]}
        for name in ("task", "source_lang", "target_lang"):
            del of_model[name]
        of_task = {"_name": "translation", "source_lang": "a", "target_lang": "b"}
        state.update(args=None, cfg={"model": of_model, "task": of_task})
    save({**state, "extra_state": {}}, str(path / "model.pt"))
    return model


def check_same_logits(folder, model, kind: str) -> None:
    theirs = of_transformers(kind).from_pretrained(folder).eval()
    read = READ.clone()
    read[:, 0] = theirs.config.decoder_start_token_id
    with torch.no_grad():
        expected, _ = model(SOURCE, SOURCE.ne(1).sum(1), READ)
        inputs = {"input_ids": SOURCE, "attention_mask": SOURCE.ne(1).long()}
        logits = theirs(**inputs, decoder_input_ids=read).logits
    torch.testing.assert_close(logits, expected, atol=1e-4, rtol=1e-4)


def exported(tmp_path, *, model: str = "model.pt", data: str = "ours") -> Written:
    paths = (tmp_path / "ours" / model, tmp_path / data, tmp_path / "hf")
    return export_folder(*map(str, paths))


LEARNED = {"encoder_learned_pos": True, "decoder_learned_pos": True}
BART = {
    **{"share_all_embeddings": True, "layernorm_embedding": True, **PRE_LN, **LEARNED},
    "max_target_positions": 32,  # positions are cut to the shorter side
}
PLAIN = {
    "post-LN, shared": ({"share_all_embeddings": True}, "MarianMTModel"),
    "post-LN, tied": ({"share_decoder_input_output_embed": True}, "MarianMTModel"),
    "post-LN, apart": ({}, "MarianMTModel"),
    "post-LN, learned, gelu": ({**LEARNED, "activation_fn": "gelu"}, "MarianMTModel"),
    "pre-LN": ({"share_all_embeddings": True, **PRE_LN}, "M2M100ForConditionalGeneration"),
    "like BART": (BART, "MBartForConditionalGeneration"),
}


@pytest.mark.parametrize("name", PLAIN)
def test_logits_stay(name, tmp_path):
    options, kind = PLAIN[name]
    model = stored(tmp_path / "ours", **options)
    exported(tmp_path)
    check_same_logits(tmp_path / "hf", model, kind)


def test_pruned_heads_are_zeros(tmp_path):
    stored(tmp_path / "ours", share_all_embeddings=True)
    prunable = Prunable(str(tmp_path / "ours/model.pt"))
    left = parse_heads("encoder.1.2 encoder.2.1 decoder.1.1 decoder.1.4 cross.2.3", prunable.heads)
    prunable.write(left, str(tmp_path / "ours/pruned.pt"))
    result = exported(tmp_path, model="pruned.pt")
    assert result.notes[0].startswith("19 of 24 heads were pruned, which the format cannot say")
    model, _ = load_single(str(tmp_path / "ours/pruned.pt"), str(tmp_path / "ours"))
    check_same_logits(tmp_path / "hf", model, "MarianMTModel")


@pytest.mark.parametrize("name", ["post-LN, shared", "post-LN, tied"])
def test_back_and_there(name, tmp_path):
    """What was written is imported again."""
    options, _ = PLAIN[name]
    model = stored(tmp_path / "ours", **options)
    pieces = [f"w{number}" for number in range(30)]
    spm = train_sentencepiece([" ".join(pieces)] * 50, 40, user_defined_symbols=pieces)
    (tmp_path / "ours/spm.model").write_bytes(spm)
    exported(tmp_path)
    import_folder(str(tmp_path / "hf"), str(tmp_path / "again"))
    again, _ = load_single(str(tmp_path / "again/model.pt"), str(tmp_path / "again"))
    with torch.no_grad():
        expected, logits = (
            network(SOURCE, SOURCE.ne(1).sum(1), READ)[0] for network in (model, again)
        )
    torch.testing.assert_close(logits, expected, atol=1e-4, rtol=1e-4)


def check_there_and_back(tmp_path, family: str, kind: str, *, notes: str) -> None:
    import_folder(str(tmp_path / "theirs"), str(tmp_path / "ours"))
    assert "".join(exported(tmp_path).notes)[: len(notes) or None] == notes
    languages = dict(zip(("source_lang", "target_lang"), LANGUAGES[family], strict=True))
    ours = tmp_path / "ours"
    model, _ = load_single(str(ours / "model.pt"), str(ours), languages)
    check_same_logits(tmp_path / "hf", model, kind)


@pytest.mark.parametrize("kind", ["apart", "targets"])
def test_there_and_back(kind, tmp_path):
    """OPUS-MT in, and out again: transformers translates as with the first folder."""
    theirs = marian_folder(tmp_path / "theirs", **MARIAN[kind], steps=100).eval()
    check_there_and_back(tmp_path, kind, "MarianMTModel", notes="")
    again = of_transformers("MarianMTModel").from_pretrained(tmp_path / "hf").eval()
    tokenizer = of_transformers("MarianTokenizer")
    texts = ["Aeio nrst.", "Tse ☃!", ">>bbb<< Aeio nrst."]
    translations = []
    for network, folder in ((theirs, "theirs"), (again, "hf")):
        tokens = tokenizer.from_pretrained(tmp_path / folder)
        inputs = tokens(texts, return_tensors="pt", padding=True)
        generated = network.generate(**inputs, num_beams=2, max_length=30)
        special = (tokens.pad_token_id, network.config.decoder_start_token_id)
        kept = [[token for token in row if token not in special] for row in generated.tolist()]
        translations.append([[tokens.decoder[token] for token in row] for row in kept])
    assert translations[0] == translations[1]


def test_multilingual_models_leave_the_tokeniser(tmp_path):
    multilingual_folder(tmp_path / "theirs", "mbart", steps=0)
    notes = "no tokenizer was written: copy the files of the folder"
    check_there_and_back(tmp_path, "mbart", "MBartForConditionalGeneration", notes=notes)


def test_options_of_the_task_may_be_apart(tmp_path):
    """So has fairseq-hydra-train them."""
    model = stored(tmp_path / "ours", hydra=True, share_all_embeddings=True)
    (tmp_path / "ours/spm.model").write_bytes(b"pieces")
    assert exported(tmp_path).notes == []
    written = json.loads((tmp_path / "hf/tokenizer_config.json").read_text())
    assert (written["source_lang"], written["target_lang"]) == ("a", "b")
    (tmp_path / "hf/tokenizer_config.json").unlink()
    check_same_logits(tmp_path / "hf", model, "MarianMTModel")


def test_languages_that_are_not_named(tmp_path):
    """They are those of the binarised data."""
    stored(tmp_path / "ours")
    state = torch.load(tmp_path / "ours/model.pt", weights_only=False)
    state["args"].source_lang = None
    del state["args"].target_lang
    torch.save(state, tmp_path / "ours/model.pt")
    message = "ours/model.pt: does not name its languages; pass --data with the folder of the bin"
    for data in ("ours", "none"):
        with pytest.raises(InputError, match=message):
            exported(tmp_path, data=data)
    (tmp_path / "ours/train.b-a.b.idx").write_bytes(b"")
    (tmp_path / "ours/spm.model").write_bytes(b"pieces")
    exported(tmp_path)
    written = json.loads((tmp_path / "hf/tokenizer_config.json").read_text())
    assert (written["source_lang"], written["target_lang"]) == ("b", "a")


ONE_EACH = {
    "source_sentencepiece_model": "two.spm",
    "target_sentencepiece_model": "one.model",
}
SENTENCEPIECE_FILES = [
    (["one.model"], None, ["one.model", "one.model"]),
    (["one.model", "two.spm"], ONE_EACH, ["two.spm", "one.model"]),
    ([], None, []),
    (["one.model", "two.spm"], None, []),
    (["one.model"], {"bpe": "sentencepiece"}, []),
]


@pytest.mark.parametrize(("files", "told", "expected"), SENTENCEPIECE_FILES)
def test_sentencepiece_models_of_both_sides(files, told, expected, tmp_path):
    stored(tmp_path / "ours")
    for file in files:
        (tmp_path / "ours" / file).write_text(file)
    if told:
        (tmp_path / "ours/reading.json").write_text(json.dumps(told))
    notes = exported(tmp_path).notes
    copies = [tmp_path / "hf" / name for name in ("source.spm", "target.spm")]
    assert [path.read_text() for path in copies if path.exists()] == expected
    if not expected:
        (note,) = notes
        assert note.startswith("no tokenizer was written: there is not one SentencePiece model")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "reading.json: not JSON; expected a file of normalign import"),
        ('{"sentencepiece_model": "gone.model"}', "gone.model: no such SentencePiece model, which"),
    ],
)
def test_a_wrong_reading_file(text, message, tmp_path):
    stored(tmp_path / "ours")
    (tmp_path / "ours/reading.json").write_text(text)
    with pytest.raises(InputError, match=message):
        exported(tmp_path)
    assert not (tmp_path / "hf").exists()


REFUSED = [
    ({"encoder_normalize_before": True}, "this combination of widths, positions and LayerNorms"),
    (PRE_LN, "embeddings that are not all shared, as in M2M100ForConditionalGeneration"),
    ({"activation_fn": "tanh"}, "the activation function tanh"),
    ({"gate_heads": "cross"}, "gates; fold them first: normalign prune --keep all"),
]


@pytest.mark.parametrize(("options", "message"), REFUSED)
def test_what_no_format_holds(options, message, tmp_path):
    stored(tmp_path / "ours", **options)
    with pytest.raises(InputError, match="Hugging Face has no format for it: ") as error:
        exported(tmp_path)
    assert message in str(error.value)
    assert not (tmp_path / "hf").exists()
