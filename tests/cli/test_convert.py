import argparse
import shutil

import pytest
import torch

from fairseq_normalign.cli.main import main
from tests.stored import OPTIONS, state


@pytest.fixture
def plain(tmp_path):
    """A folder with a checkpoint of fairseq's Transformer."""
    torch.save(state(args=argparse.Namespace(**OPTIONS)), tmp_path / "plain.pt")
    return tmp_path / "plain.pt"


def test_to_the_variant(plain):
    output = plain.with_name("variant.pt")
    assert main(["convert", str(plain), "--arch", "transformer_normalign", "-o", str(output)]) == 0
    assert torch.load(output)["args"].arch == "transformer_normalign"


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("plain.pt", "plain.pt: would overwrite the input"),
        ("link.pt", "link.pt: would overwrite the input"),
        ("nowhere/x.pt", "nowhere/x.pt: cannot be written: no such directory"),
        (".", "cannot be written: it is a directory"),
    ],
)
def test_outputs_that_are_refused(plain, capsys, output, message):
    plain.with_name("link.pt").symlink_to(plain)
    shutil.copy(plain, plain.with_name("before.pt"))
    arguments = ["--arch", "transformer_normalign", "-o", str(plain.parent / output)]
    assert main(["convert", str(plain), *arguments]) == 2
    error = capsys.readouterr().err
    assert error.startswith("normalign convert: ")
    assert message in error
    assert error.count("\n") == 1
    assert plain.read_bytes() == plain.with_name("before.pt").read_bytes()


def test_a_checkpoint_that_does_not_fit(plain, capsys):
    broken = torch.load(plain)
    del broken["model"]["encoder.layers.0.fc1.bias"]
    torch.save(broken, plain)
    output = plain.with_name("variant.pt")
    assert main(["convert", str(plain), "--arch", "transformer_normalign", "-o", str(output)]) == 2
    assert "1 parameter is missing (first: 'encoder.layers.0.fc1.bias')" in capsys.readouterr().err
    assert not output.exists()
