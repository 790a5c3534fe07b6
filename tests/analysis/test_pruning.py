import argparse

import pytest
import torch

from fairseq_normalign.analysis.pruning import Prunable
from fairseq_normalign.errors import InputError
from fairseq_normalign.heads.names import Head, all_heads
from fairseq_normalign.host.checkpoint import load_single
from tests.conftest import ToyTask, build_model
from tests.stored import OPTIONS, state


@pytest.fixture
def folder(tmp_path):
    """A data folder with the dictionaries that the checkpoints were made with."""
    for language in "ab":
        ToyTask().source_dictionary.save(str(tmp_path / f"dict.{language}.txt"))
    return tmp_path


def store(path, *, parameters=None, **options) -> str:
    stored = state(args=argparse.Namespace(**{**OPTIONS, **options}))
    torch.save({**stored, "model": parameters or stored["model"]}, path)
    return str(path)


def gated_parameters() -> dict:
    sizes = {name: value for name, value in OPTIONS.items() if name.startswith(("max", "share"))}
    parameters = build_model("transformer_normalign", gate_heads="all", **sizes).state_dict()
    parameters["encoder.layers.1.self_attn.out_proj.log_alpha"][2] = -9.0
    return parameters


@pytest.mark.parametrize("form", ["args", "cfg"])
def test_closed_heads_go(folder, form):
    options = {"arch": "transformer_normalign", "gate_heads": "all", "gate_lr_scale": 100.0}
    path = store(folder / "gated.pt", parameters=gated_parameters(), **options)
    if form == "cfg":
        stored = torch.load(path)
        model = argparse.Namespace(**vars(stored["args"]), _name="transformer_normalign")
        task = {**OPTIONS, "_name": "translation"}
        torch.save({**stored, "args": None, "cfg": {"model": model, "task": task}}, path)
    prunable = Prunable(path)
    assert prunable.closed == {Head("encoder", 1, 2)}
    prunable.write(prunable.open_heads(), str(folder / "small.pt"))
    model, _ = load_single(str(folder / "small.pt"), str(folder))
    heads = [layer.self_attn.num_heads for layer in model.encoder.layers]
    assert heads == [4, 3]


def test_options_that_a_checkpoint_leaves_to_its_architecture(folder):
    """As of the oldest checkpoints."""
    parameters = build_model(
        **{**sized(OPTIONS), "encoder_attention_heads": 8, "decoder_attention_heads": 8}
    ).state_dict()
    path = store(folder / "old.pt", parameters=parameters)
    stored = torch.load(path)
    for side in ("encoder", "decoder"):
        delattr(stored["args"], f"{side}_attention_heads")
    torch.save(stored, path)
    assert len(all_heads(Prunable(path).counts)) == 2 * 8 * 3


def sized(options: dict) -> dict:
    return {name: value for name, value in options.items() if name.startswith(("en", "de", "max"))}


def test_a_checkpoint_that_does_not_fit_its_options(folder):
    parameters = state()["model"]
    del parameters["decoder.layers.0.encoder_attn.v_proj.bias"]
    path = store(folder / "misfit.pt", parameters=parameters)
    with pytest.raises(
        InputError, match=r"misfit\.pt: .* 1 parameter is missing \(first: 'decoder"
    ):
        Prunable(path)
    parameters = {**state()["model"], "encoder.layers.0.self_attn.q_proj.weight": torch.ones(16, 4)}
    path = store(folder / "misfit.pt", parameters=parameters)
    with pytest.raises(InputError, match=r"misfit\.pt: .* 1 parameter is of another shape"):
        Prunable(path)
    path = store(folder / "gates.pt", parameters=gated_parameters())
    with pytest.raises(InputError, match=r"gates\.pt: .* 7 parameters are unknown"):
        Prunable(path)


def test_parameters_that_are_no_numbers(folder):
    parameters = state()["model"]
    parameters["encoder.layers.0.fc1.bias"][0] = float("nan")
    path = store(folder / "nan.pt", parameters=parameters)
    with pytest.raises(
        InputError, match=r"nan\.pt: 1 of its parameters .*'encoder\.layers\.0\.fc1"
    ):
        Prunable(path)


def test_an_output_that_is_the_input(folder):
    path = store(folder / "full.pt")
    (folder / "link.pt").hardlink_to(path)
    before = (folder / "full.pt").read_bytes()
    for output in ("full.pt", "link.pt"):
        with pytest.raises(InputError, match=r"full\.pt"):
            Prunable(path).write([Head("encoder", 0, 0)], str(folder / output))
    assert (folder / "full.pt").read_bytes() == before


def test_the_criterion_of_gates_goes_with_them(folder):
    path = store(folder / "full.pt", criterion="label_smoothed_cross_entropy_l0")
    prunable = Prunable(path)
    prunable.write(all_heads(prunable.counts), str(folder / "out.pt"))
    assert torch.load(folder / "out.pt")["args"].criterion == "label_smoothed_cross_entropy"
