"""Hugging Face folders as fairseq checkpoints: the same numbers, or one line that says why not."""

from __future__ import annotations

import json
from argparse import Namespace

import pytest
import torch

from fairseq_normalign.errors import InputError
from fairseq_normalign.host.checkpoint import load_single
from fairseq_normalign.host.pairs import PairReader
from fairseq_normalign.huggingface import conversion as cache
from fairseq_normalign.huggingface.conversion import import_folder, whole_folder
from tests.hugging_face import (
    BERT,
    BYTE_PIECES,
    PIECES,
    ROBERTA,
    check_refused,
    guesses,
    make_folder,
    of_transformers,
    random_parameters,
    states,
    symbols_of,
    write_safetensors,
)

TEXTS = ["the unaffables sat, on\ta cat .", "aab c ☃", "[MASK] the mat."]
BYTE_TEXTS = ["the ab. a é\tthe cab", "a", "thehe abba"]
IDS = {"bert": [3, 6, 11, 5, 4, 7, 2, 4], "roberta": [0, 4, 5, 18, 2, 2, 7, 3, 2]}


def imported(folder, tmp_path, name="ours"):
    """The model of a folder and its task."""
    output = tmp_path / name
    import_folder(str(folder), str(output))
    return load_single(str(output / "model.pt"), str(output))


def order(task, names) -> list[int]:
    """The rows of Hugging Face in the order of our dictionary."""
    numbers = {name: number for number, name in enumerate(names)}
    numbers.update((str(number), number) for number in range(len(names)))  # RoBERTa's symbols
    return [numbers[symbol] for symbol in task.source_dictionary.symbols]


def check_identical(config, parameters, model, task, *, tolerance=1e-4):
    """Hidden states of all layers, and guesses where there is a head, against the slow twin."""
    kind = config["model_type"]
    rows = order(task, PIECES if kind == "bert" else BYTE_PIECES)
    tokens = torch.tensor([[rows.index(number) for number in IDS[kind]]])
    with torch.no_grad():
        _, extra = model(tokens, features_only=True, return_all_hiddens=True)
    expected = states(config, parameters, IDS[kind])
    assert len(expected) == config["num_hidden_layers"] + 1
    for ours, theirs in zip(extra["inner_states"], expected, strict=True):
        torch.testing.assert_close(ours[:, 0].double(), theirs, atol=tolerance, rtol=tolerance)
    if model.encoder.lm_head is None:
        return
    with torch.no_grad():
        logits, _ = model(tokens)
    theirs = guesses(config, parameters, expected[-1])[:, rows]
    torch.testing.assert_close(logits[0].double(), theirs, atol=1e-3, rtol=tolerance)


VARIANTS = {
    "BERT": (BERT, True, "bert_normalign"),
    "BERT, no head, tanh": ({**BERT, "hidden_act": "gelu_new"}, False, "bert_normalign"),
    "BERT, large ε": ({**BERT, "layer_norm_eps": 0.1}, True, "bert_normalign"),
    "BERT, three segments": ({**BERT, "type_vocab_size": 3}, True, "bert_normalign"),
    "RoBERTa, relu": ({**ROBERTA, "hidden_act": "relu"}, True, "roberta"),
    "RoBERTa, no head": (ROBERTA, False, "bert_normalign"),
    "RoBERTa, other ε": ({**ROBERTA, "layer_norm_eps": 1e-2}, True, "bert_normalign"),
}


@pytest.mark.parametrize("name", VARIANTS)
def test_hidden_states_and_guesses_stay(name, tmp_path):
    config, head, arch = VARIANTS[name]
    parameters = random_parameters(config, head=head)
    model, task = imported(make_folder(tmp_path / "theirs", config, parameters), tmp_path)
    assert model.args.arch == arch
    assert (model.encoder.lm_head is None) != head
    check_identical(config, parameters, model, task)
    if model.encoder.lm_head is None:
        with pytest.raises(InputError, match="the model was imported without a head that predicts"):
            model(torch.tensor([[0, 8, 2]]))


def test_a_head_with_embeddings_of_its_own(tmp_path):
    parameters = random_parameters(BERT)
    own = torch.randn(len(PIECES), BERT["hidden_size"])
    parameters["cls.predictions.decoder.weight"] = own
    parameters["cls.predictions.decoder.bias"] = parameters["cls.predictions.bias"]
    model, task = imported(make_folder(tmp_path / "theirs", BERT, parameters), tmp_path)
    assert model.args.untie_weights_roberta
    check_identical(BERT, parameters, model, task)


WRITERS = {
    "safetensors": write_safetensors,
    "bin": lambda path, parameters: torch.save(parameters, path),
}


def test_parameters_in_a_pickle_and_in_several_files(tmp_path):
    parameters = random_parameters(BERT)
    names = list(parameters)
    states = []
    for ending in ("safetensors", "bin"):
        stem = "model" if ending == "safetensors" else "pytorch_model"
        whole = make_folder(tmp_path / f"{ending}, whole", BERT)
        sharded = make_folder(tmp_path / f"{ending}, sharded", BERT)
        for folder in (whole, sharded):
            (folder / "model.safetensors").unlink()
        places = {}
        write = WRITERS[ending]
        for part, members in {"a": names[:7], "b": names[7:]}.items():
            file = f"{stem}-{part}.{ending}"
            write(sharded / file, {name: parameters[name] for name in members})
            places.update(dict.fromkeys(members, file))
        index = sharded / f"{stem}.{ending}.index.json"
        index.write_text(json.dumps({"weight_map": places}))
        write(whole / f"{stem}.{ending}", parameters)
        for folder in (whole, sharded):
            output = tmp_path / f"{folder.name}, ours"
            import_folder(str(folder), str(output))
            states.append(torch.load(output / "model.pt", weights_only=False)["model"])
    for state in states[1:]:
        torch.testing.assert_close(dict(state), dict(states[0]), atol=0, rtol=0)


def test_old_names_of_layer_norms(tmp_path):
    parameters = random_parameters(BERT)
    old = {}
    for name, values in parameters.items():
        renamed = name.replace("LayerNorm.weight", "LayerNorm.gamma")
        old[renamed.replace("LayerNorm.bias", "LayerNorm.beta")] = values
    old["bert.embeddings.position_ids"] = torch.arange(20).float()
    model, task = imported(make_folder(tmp_path / "theirs", BERT, old), tmp_path)
    check_identical(BERT, parameters, model, task)


def test_rows_without_a_piece_have_names_that_no_text_has(tmp_path):
    config = {**BERT, "vocab_size": len(PIECES) + 5}
    folder = make_folder(tmp_path / "theirs", config)
    (folder / "added_tokens.json").write_text(json.dumps({"[NEW]": len(PIECES) + 1}))
    result = import_folder(str(folder), str(tmp_path / "ours"))
    number = len(PIECES)
    assert symbols_of(tmp_path / "ours")[number:] == [
        f"madeupword{number:04d}",
        "[NEW]",
        *(f"madeupword{number + more:04d}" for more in (2, 3, 4)),
    ]
    assert "text is not split at added tokens (1, first: '[NEW]')" in result.notes


def reader_of(task, folder, kind) -> PairReader:
    """With the options that the command prints."""
    options = {"bpe": "bert", "bpe_vocab_file": str(folder / "vocab.txt"), "bpe_cased": False}
    if kind == "roberta":
        options = {
            "bpe": "gpt2",
            "gpt2_encoder_json": str(folder / "encoder.json"),
            "gpt2_vocab_bpe": str(folder / "vocab.bpe"),
        }
    return PairReader.from_args(task, Namespace(post_process=None, tokenizer=None, **options))


CLASSES = {
    "bert": (BERT, "BertForMaskedLM", "BertTokenizer", TEXTS),
    "roberta": (ROBERTA, "RobertaForMaskedLM", "RobertaTokenizer", BYTE_TEXTS),
}


@pytest.mark.parametrize("kind", CLASSES)
@pytest.mark.parametrize("is_saved", [False, True])
def test_text_is_read_and_guessed_as_by_the_original(is_saved, kind, tmp_path):
    """Newer versions save tokenizer.json and no vocabulary beside it."""
    config, model_class, tokenizer_class, texts = CLASSES[kind]
    folder = make_folder(tmp_path / "theirs", config)
    original = of_transformers(model_class).from_pretrained(folder).eval()
    tokenizer = of_transformers(tokenizer_class).from_pretrained(folder)
    if is_saved:
        folder = tmp_path / "saved"
        original.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
    model, task = imported(folder, tmp_path)
    reader = reader_of(task, tmp_path / "ours", kind)
    rows = order(task, PIECES if kind == "bert" else BYTE_PIECES)
    for text in texts:
        inputs = tokenizer(*text.split("\t"), return_tensors="pt")
        pair = reader.pair(text, None, "line 1")
        numbers = [rows[token] for token in pair.source.tokens]
        assert numbers == inputs["input_ids"][0].tolist()
        with torch.no_grad():
            theirs = original(**inputs, output_hidden_states=True)
            tokens = pair.source.tokens.unsqueeze(0)
            logits, extra = model(tokens, return_all_hiddens=True)
        for ours, hidden in zip(extra["inner_states"], theirs.hidden_states, strict=True):
            torch.testing.assert_close(ours[:, 0], hidden[0], atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(logits, theirs.logits[:, :, rows], atol=1e-3, rtol=1e-4)


def spoiled_config(**changes):
    def spoil(folder):
        (folder / "config.json").write_text(json.dumps({**BERT, **changes}))

    return spoil


def spoiled_file(name, content):
    def spoil(folder):
        (folder / name).write_text(content)

    return spoil


def spoiled_parameters(change):
    def spoil(folder):
        parameters = random_parameters(BERT)
        change(parameters)
        write_safetensors(folder / "model.safetensors", parameters)

    return spoil


def widen(parameters):
    parameters["bert.embeddings.LayerNorm.bias"] = torch.zeros(17)


def diverge(parameters):
    parameters["bert.embeddings.LayerNorm.bias"][3] = float("nan")


SETTINGS = {"position_embedding_type": "relative_key", "hidden_act": "silu", "is_decoder": True}
TOLD = "hidden_act is 'silu'; position_embedding_type is 'relative_key'; is_decoder is True"
LONGER = "".join(f"{piece}\n" for piece in [*PIECES, "more"])
JAPANESE = '{"tokenizer_class": "BertJapaneseTokenizer"}'
REFUSED = [
    (spoiled_parameters(diverge), "1 of its parameters have values that are infinite or no"),
    (spoiled_file("tokenizer.json", '{"added_tokens": [1]}'), "damaged or half-downloaded"),
    (spoiled_config(model_type="gpt2"), "model_type 'gpt2' is not supported; supported: bert, rob"),
    (spoiled_config(**SETTINGS), f"config.json has unsupported settings: {TOLD}"),
    (spoiled_parameters(widen), r"size mismatch .*layernorm_embedding.bias: .*Size\(\[17\]"),
    (spoiled_file("vocab.txt", "a\nb\n"), "vocab.txt: no piece begins with ##; expected the voca"),
    (
        spoiled_file("vocab.txt", LONGER),
        "'more' has the number 23, but the model has 23 embeddings",
    ),
    (lambda folder: (folder / "vocab.txt").unlink(), "no vocab.txt, nor BERT's WordPiece in tok"),
    (spoiled_file("tokenizer_config.json", JAPANESE), "BertJapaneseTokenizer, is not supported"),
]


@pytest.mark.parametrize(("spoil", "message"), REFUSED)
def test_what_is_refused_in_one_line(spoil, message, tmp_path):
    folder = make_folder(tmp_path / "theirs", BERT)
    spoil(folder)
    check_refused(folder, message)


@pytest.mark.parametrize(
    ("piece", "said", "is_told"),
    [("The", "{}", True), ("The", '{"do_lower_case": false}', False), ("the", "{}", False)],
)
def test_a_vocabulary_with_capitals_of_which_no_file_tells(piece, said, is_told, tmp_path):
    folder = make_folder(tmp_path / "theirs", BERT)
    pieces = [piece if known == "the" else known for known in PIECES]
    (folder / "vocab.txt").write_text("".join(f"{known}\n" for known in pieces))
    (folder / "tokenizer_config.json").write_text(said)
    notes = import_folder(str(folder), str(tmp_path / "ours")).notes
    assert any("--bpe-cased" in note for note in notes) == is_told


def test_an_output_that_is_there_is_left_alone(tmp_path):
    (tmp_path / "file").write_text("old")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "dict.txt").write_text("old")
    (tmp_path / "empty").mkdir()
    for name, message in {
        "file": "file': exists already; pass a new folder",
        "full": "full': exists already; pass a new folder",
        "missing/new": "new: cannot be written: no such directory",
    }.items():
        with pytest.raises(InputError, match=message), whole_folder(str(tmp_path / name), {}):
            raise AssertionError
    with whole_folder(str(tmp_path / "empty"), {"dict.txt": "new"}):
        pass
    assert (tmp_path / "empty" / "dict.txt").read_text() == "new"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "file", "full"]


def test_what_an_import_that_was_killed_has_left_is_removed(tmp_path):
    left = tmp_path / ".new.part"
    left.mkdir()
    (left / "model.pt").write_text("half")
    with whole_folder(str(tmp_path / "new"), {}) as part:
        assert not (left / "model.pt").exists()
        with (
            pytest.raises(InputError, match="new: another run is writing it"),
            whole_folder(str(tmp_path / "new"), {}),
        ):
            raise AssertionError
        assert part.exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return make_folder(tmp_path / "bert", BERT)


def test_a_folder_is_imported_once(folder, monkeypatch):
    checkpoint = cache.cached_import(str(folder))
    assert checkpoint.is_file()
    assert (checkpoint.parent / "dict.txt").is_file()
    monkeypatch.setattr(cache, "import_folder", None)  # not called again
    assert cache.cached_import(str(folder)) == checkpoint


def test_the_import_of_another_process_counts(folder, monkeypatch):
    def lost(path, output):
        imported(path, output)
        raise InputError(f"{output}: is there already; expected the name of a new folder")

    imported = cache.import_folder
    monkeypatch.setattr(cache, "import_folder", lost)
    assert cache.cached_import(str(folder)).is_file()


def test_a_link_that_leads_nowhere(folder):
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors").symlink_to("gone")
    with pytest.raises(InputError, match=r"no weights \(model.* is the download complete"):
        cache.cached_import(str(folder))


def test_a_damaged_folder_leaves_nothing(folder, tmp_path):
    (folder / "model.safetensors").write_bytes(b"damaged")
    with pytest.raises(InputError):
        cache.cached_import(str(folder))
    assert not list((tmp_path / "cache/normalign").iterdir())
