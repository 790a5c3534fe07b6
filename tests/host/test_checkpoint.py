import argparse
import collections
import os
import shutil
import zipfile

import numpy as np
import pytest
import torch
from fairseq.logging import meters
from fairseq.models import ARCH_CONFIG_REGISTRY
from omegaconf import OmegaConf

from fairseq_normalign.errors import InputError
from fairseq_normalign.host.checkpoint import convert, load_ensemble, load_single
from tests.conftest import ToyTask, build_model

OPTIONS = {
    "arch": "transformer",
    "task": "translation",
    "source_lang": "a",
    "target_lang": "b",
    "encoder_embed_dim": 16,
    "encoder_ffn_embed_dim": 32,
    "encoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_embed_dim": 16,
    "decoder_ffn_embed_dim": 32,
    "decoder_layers": 2,
    "decoder_attention_heads": 4,
    "criterion": "cross_entropy",
    "left_pad_source": True,
    "left_pad_target": False,
    "max_source_positions": 64,
    "max_target_positions": 64,
    "share_all_embeddings": True,
    "data": "elsewhere",
}


@pytest.fixture
def folder(tmp_path):
    """A data folder with the dictionaries that the checkpoints were made with."""
    for language in "ab":
        ToyTask().source_dictionary.save(str(tmp_path / f"dict.{language}.txt"))
    return tmp_path


def state(**entries) -> dict:
    model = build_model(
        **{k: v for k, v in OPTIONS.items() if k.startswith(("en", "de", "max", "share"))}
    ).state_dict()
    history = [
        {"criterion_name": "CrossEntropyCriterion", "num_updates": 7, "optimizer_name": "Adam"}
    ]
    history[0]["lr_scheduler_state"] = {"best": None}
    return {"model": model, "optimizer_history": history, "extra_state": {}, **entries}


def old_meters() -> dict:
    """Meters of every kind with the module name that fairseq ≤ 0.9 pickled."""
    found = [meters.AverageMeter(), meters.TimeMeter(), meters.StopwatchMeter(), meters.SumMeter()]
    return collections.OrderedDict((type(meter).__name__, meter) for meter in found)


@pytest.fixture(params=["fairseq.logging.meters", "fairseq.meters"])
def meters_module(request, monkeypatch):
    for name in ("AverageMeter", "TimeMeter", "StopwatchMeter", "SumMeter"):
        monkeypatch.setattr(getattr(meters, name), "__module__", request.param)


def test_args_and_meters_of_fairseq_before_0_10(folder, meters_module):
    old = state(args=argparse.Namespace(**OPTIONS), extra_state={"train_meters": old_meters()})
    torch.save(old, folder / "old.pt")
    model, task = load_single(str(folder / "old.pt"), str(folder))
    assert model.encoder.layers[1].self_attn.num_heads == 4
    assert len(task.source_dictionary) == len(ToyTask().source_dictionary)


def config() -> dict:
    args = argparse.Namespace(**OPTIONS)
    ARCH_CONFIG_REGISTRY["transformer"](args)  # a checkpoint has every option
    groups = {
        "task": {**OPTIONS, "_name": "translation"},
        "model": {**vars(args), "_name": "transformer"},
    }
    return {**groups, "criterion": {"_name": "cross_entropy"}, "lists": [1, 2.5, None, True, "x"]}


@pytest.mark.parametrize("as_nodes", [True, False])
def test_configurations_as_omegaconf_nodes_or_plain(folder, as_nodes):
    cfg = OmegaConf.create(config()) if as_nodes else config()
    torch.save(state(args=None, cfg=cfg), folder / "cfg.pt")
    model, _ = load_single(str(folder / "cfg.pt"), str(folder))
    assert len(model.decoder.layers) == 2


def rename_in_pickle(path, old: bytes, new: bytes) -> int:
    """Changes a module name in a checkpoint's pickle, as another version would have written it;
    says how often."""
    with zipfile.ZipFile(path) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    changed = {
        name: data.replace(old, new) if name.endswith("data.pkl") else data
        for name, data in entries.items()
    }
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, data in changed.items():
            archive.writestr(name, data)
    return sum(data.count(old) for data in entries.values())


@pytest.mark.parametrize("module", [b"numpy._core.multiarray", b"numpy.core.multiarray"])
def test_counts_of_eval_bleu(folder, module):
    """Arrays and scalars, under the module names of NumPy 2 and of NumPy 1."""
    counts = {
        "counts": np.array([3, 2, 1, 0]),
        "bleu": np.float64(1.5),
        "half": np.array([0.5], dtype=np.float32),
    }
    path = folder / "bleu.pt"
    torch.save(state(args=argparse.Namespace(**OPTIONS), extra_state=counts), path)
    other = b"numpy._core.multiarray" if np.__version__ >= "2" else b"numpy.core.multiarray"
    assert rename_in_pickle(path, other, module) > 0
    model, _ = load_single(str(path), str(folder))
    assert len(model.encoder.layers) == 2


class Planted:
    """Runs a command when unpickled."""

    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


@pytest.mark.skipif(torch.__version__ < "2.6", reason="torch < 2.6 loads whatever it is given")
@pytest.mark.parametrize(
    ("function", "name"), [(os.system, "posix.system"), (eval, "eval"), (os.mkdir, "posix.mkdir")]
)
def test_a_checkpoint_that_would_run_code_is_refused_by_name(folder, function, name):
    trace = folder / "ran"
    argument = {
        os.system: f"touch {trace}",
        eval: f"open({str(trace)!r}, 'w')",
        os.mkdir: str(trace),
    }[function]
    planted = Planted(function, argument)
    torch.save(
        state(args=argparse.Namespace(**OPTIONS), extra_state={"x": planted}), folder / "bad.pt"
    )
    with pytest.raises(
        InputError, match=rf"bad\.pt: refused to load: it holds '.*{name}.*', which could run code"
    ):
        load_single(str(folder / "bad.pt"), str(folder))
    assert not trace.exists()


def test_what_is_not_there_is_named(folder):
    with pytest.raises(InputError, match=r"none\.pt: no such checkpoint"):
        load_ensemble("none.pt", str(folder))
    torch.save(state(args=argparse.Namespace(**OPTIONS)), folder / "ok.pt")
    with pytest.raises(
        InputError, match=r"nowhere: no such directory; expected one that holds dict"
    ):
        load_ensemble(str(folder / "ok.pt"), "nowhere")
    with pytest.raises(InputError, match="names an ensemble"):
        load_single(f"{folder / 'ok.pt'}:{folder / 'ok.pt'}", str(folder))


@pytest.mark.parametrize("content", [b"", b"garbage", b"PK\x03\x04 no zip", bytes(range(256))])
def test_garbage_is_no_checkpoint(folder, content):
    (folder / "garbage.pt").write_bytes(content)
    with pytest.raises(InputError, match=r"garbage\.pt: not a checkpoint"):
        load_single(str(folder / "garbage.pt"), str(folder))


def test_dictionaries_of_other_languages_and_of_other_models(folder):
    torch.save(state(args=argparse.Namespace(**OPTIONS)), folder / "ok.pt")
    larger = ToyTask(50).source_dictionary
    for language in "ab":
        larger.save(str(folder / f"dict.{language}.txt"))
    with pytest.raises(
        InputError, match=r"trained with a dictionary of 34 types, and that in .* has 54"
    ):
        load_single(str(folder / "ok.pt"), str(folder))
    (folder / "dict.a.txt").unlink()
    with pytest.raises(InputError, match=r"dict\.a\.txt: no such dictionary, which .*ok\.pt needs"):
        load_single(str(folder / "ok.pt"), str(folder))


def test_a_checkpoint_becomes_the_variants_and_comes_back(folder):
    torch.save(state(args=argparse.Namespace(**OPTIONS)), folder / "plain.pt")
    convert(str(folder / "plain.pt"), "transformer_normalign", str(folder / "variant.pt"))
    convert(str(folder / "variant.pt"), "transformer", str(folder / "back.pt"))
    models = [
        load_single(str(folder / f"{name}.pt"), str(folder))[0]
        for name in ("plain", "variant", "back")
    ]
    assert [type(model).__name__ for model in models] == [
        "TransformerModel",
        "NormalignTransformer",
        "TransformerModel",
    ]
    for model in models[1:]:
        assert all(
            torch.equal(a, b)
            for a, b in zip(model.parameters(), models[0].parameters(), strict=True)
        )


def test_what_cannot_be_converted(folder):
    torch.save(state(args=argparse.Namespace(**{**OPTIONS, "arch": "fconv"})), folder / "conv.pt")
    with pytest.raises(
        InputError, match=r"conv\.pt: its architecture is 'fconv'; expected a kind of transformer"
    ):
        convert(str(folder / "conv.pt"), "transformer", str(folder / "out.pt"))
    with pytest.raises(InputError, match="--arch lstm: not a kind of transformer"):
        convert(str(folder / "conv.pt"), "lstm", str(folder / "out.pt"))
    assert not (folder / "out.pt").exists()


def test_a_bare_state_dict_is_no_checkpoint(folder):
    torch.save(state()["model"], folder / "bare.pt")
    for load in (
        lambda path: load_single(path, str(folder)),
        lambda path: convert(path, "transformer", f"{path}.out"),
    ):
        with pytest.raises(
            InputError,
            match=r"bare\.pt: has no entry .*; expected a checkpoint that fairseq-train wrote",
        ):
            load(str(folder / "bare.pt"))


@pytest.mark.slow
def test_languages_that_nobody_names(corpus, checkpoint, tmp_path):
    """fairseq-train finds them in the binarised data, and does not write them down."""
    for side in ("src", "tgt"):
        shutil.copy(corpus / "data-bin" / f"dict.{side}.txt", tmp_path)
    with pytest.raises(
        InputError,
        match=r"does not name its languages, .* expected --source-lang and --target-lang",
    ):
        load_single(str(checkpoint), str(tmp_path))
    load_single(str(checkpoint), str(tmp_path), {"source_lang": "src", "target_lang": "tgt"})
