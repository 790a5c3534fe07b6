"""The text that tests of commands read, and a second model beside the one that was trained."""

import pytest
import torch


@pytest.fixture(scope="session")
def files(corpus):
    """The test set as text."""
    return ["--source-file", corpus / "test.src", "--target-file", corpus / "test.tgt"]


@pytest.fixture(scope="session")
def pieces(corpus):
    """How it is split."""
    return ["--bpe", "sentencepiece", "--sentencepiece-model", corpus / "spm.model"]


@pytest.fixture(scope="session")
def text(files, pieces):
    return [*files, *pieces]


@pytest.fixture(scope="session")
def other(checkpoint, tmp_path_factory):
    """The trained model, spoilt a little."""
    state = torch.load(checkpoint, weights_only=False)
    torch.manual_seed(1)
    for value in state["model"].values():
        value += 0.02 * torch.randn_like(value)
    path = tmp_path_factory.mktemp("other") / "other.pt"
    torch.save({**state, "last_optimizer_state": None}, path)
    return path
