"""Checkpoints of one version of fairseq, read with another."""

import argparse

import pytest
import torch

from fairseq_normalign.host.attention_modules import COPIES
from fairseq_normalign.host.checkpoint import convert, load_single
from fairseq_normalign.host.compat import without_leftovers
from tests.conftest import build_model, run
from tests.stored import OPTIONS, state

CROSS = "decoder.layers.1.encoder_attn.q_proj.weight"


def copies_of(parameters: dict, prefix: str) -> dict:
    """What fairseq 0.12.2 stores of an encoder layer besides its parameters."""
    q_k_v = [f"{prefix}self_attn.{name}_proj." for name in "qkv"]
    copies = {}
    for part in ("weight", "bias"):
        copies[f"{prefix}in_proj_{part}"] = torch.cat([parameters[name + part] for name in q_k_v])
        copies[f"{prefix}out_proj_{part}"] = parameters[f"{prefix}self_attn.out_proj.{part}"]
        copies[f"{prefix}fc1_{part}"] = parameters[f"{prefix}fc1.{part}"]
        copies[f"{prefix}fc2_{part}"] = parameters[f"{prefix}fc2.{part}"]
    return {name: values.clone() for name, values in copies.items()}


def lean_state() -> dict:
    """A checkpoint of a version that stores no more than it reads."""
    lean = state(args=argparse.Namespace(**OPTIONS))
    return {**lean, "model": without_leftovers(lean["model"])}


def full_state() -> dict:
    """The same, as fairseq 0.12.2 stores it."""
    full = lean_state()
    parameters = full["model"]
    for layer in (0, 1):
        parameters.update(copies_of(parameters, f"encoder.layers.{layer}."))
    for side in ("encoder", "decoder"):  # memory that nobody has written to
        parameters[f"{side}.embed_positions._float_tensor"] = torch.tensor([float("nan")])
    return full


@pytest.fixture
def folder(folder):
    """The model as two versions of fairseq store it, too."""
    torch.save(lean_state(), folder / "lean.pt")
    torch.save(full_state(), folder / "full.pt")
    return folder


@pytest.mark.parametrize("name", ["lean.pt", "full.pt"])
def test_a_model_has_its_parameters_and_no_copies(folder, batch, name):
    model, _ = load_single(str(folder / name), str(folder))
    parameters = dict(model.named_parameters())
    assert not [name for name in parameters if COPIES.search(name)]
    assert torch.equal(parameters[CROSS], lean_state()["model"][CROSS])
    with torch.no_grad():
        assert torch.isfinite(model(**batch)[0]).all()


def test_what_is_converted_has_no_copies_and_loads_again(folder):
    convert(str(folder / "full.pt"), "transformer_normalign", str(folder / "converted.pt"))
    stored = torch.load(folder / "converted.pt")["model"]
    assert set(stored) == set(lean_state()["model"])
    model, _ = load_single(str(folder / "converted.pt"), str(folder))
    assert torch.equal(dict(model.named_parameters())[CROSS], stored[CROSS])


@pytest.mark.parametrize("arch", ["transformer", "transformer_normalign"])
def test_a_model_in_training_loads_both(arch):
    model = build_model(arch, share_all_embeddings=True)
    names = set(model.state_dict())
    for stored in (lean_state(), full_state()):
        model.load_state_dict(stored["model"], strict=True)
        assert torch.equal(model.state_dict()[CROSS], stored["model"][CROSS])
    assert set(model.state_dict()) == names


STOPPED_EARLY = """
import torch
from fairseq.data.iterators import BufferedIterator

import fairseq_normalign.plugin

class Batches:
    def __len__(self):
        return 1000

    def __iter__(self):
        for _ in range(1000):
            torch.ones(3000, 300).sort()
            yield "batch"

print(next(BufferedIterator({ahead}, Batches())))
"""


@pytest.mark.parametrize("ahead", [1, 1000])
def test_a_command_that_stops_while_batches_are_read_ahead_ends_well(ahead):
    done = run("python", "-c", STOPPED_EARLY.format(ahead=ahead))
    assert done.stdout == "batch\n"
