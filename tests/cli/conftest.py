"""The text that tests of commands read, and a second model beside the one that was trained."""

import pytest
import torch

from tests.stored import store

WORDS = [f"w{number}" for number in range(30)]
PAIRS = 43  # of the text


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
def place(tmp_path_factory):
    """Small random models, ab.pt and its like ab2.pt, ba.pt of the other direction, and a text."""
    folder = tmp_path_factory.mktemp("place")
    for language in "ab":
        lines = [f"{word} {100 - number}\n" for number, word in enumerate(WORDS)]
        (folder / f"dict.{language}.txt").write_text("".join(lines))
    for name, (source, target), seed in (("ab", "ab", 97), ("ab2", "ab", 2), ("ba", "ba", 98)):
        languages = {"source_lang": source, "target_lang": target}
        store(folder / f"{name}.pt", seed=seed, **languages)
    for language, factor in (("a", 3), ("b", 5)):
        lines = []
        for number in range(PAIRS):
            length = (number * factor) % 7 + (number != 20)
            words = [WORDS[(number * factor + place) % 30] for place in range(length)]
            lines.append(" ".join(words) + "\n")
        (folder / f"text.{language}").write_text("".join(lines))
    (folder / "gold").write_text("0-0\n" * 20 + "\n" + "0-0\n" * (PAIRS - 21))
    tree = ["1\tw1\t_\tX\t_\t_\t2\tnsubj\t_\t_", "2\tw9\t_\tX\t_\t_\t0\troot\t_\t_"]
    (folder / "trees").write_text("\n".join([*tree, "", ""]) * 8)
    return folder


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
