"""Noise in the source: what is replaced, by what, and that training with it can be repeated."""

from argparse import Namespace

import pytest
import torch
from fairseq.data import Dictionary

from fairseq_normalign.plugin.task import (
    SourceNoise,
    TranslationNormalignConfig,
    TranslationNormalignTask,
)
from tests.conftest import PACKAGE, TRAIN, ToyTask, build_model, run

PAD, EOS, UNK = 1, 2, 3


@pytest.fixture
def dictionary() -> Dictionary:
    """Ten words from 4 on, two languages, and what fills it up."""
    dictionary = Dictionary()
    for number in range(10):
        dictionary.add_symbol(f"w{number}")
    for symbol in ("__de__", "[de_DE]", "<2de>", "madeupword0000"):
        dictionary.add_symbol(symbol, n=0)
    return dictionary


def sentences(count: int = 400, length: int = 10) -> tuple[torch.Tensor, torch.Tensor]:
    """Sentences of a language token, words, <unk> and </s>, padded on the left, and numbers."""
    line = [PAD, PAD, 14, UNK, *range(4, 4 + length), EOS]
    return torch.tensor([line] * count), torch.arange(count)


def test_words_are_replaced_with_the_probability_and_marks_never(dictionary):
    tokens, numbers = sentences()
    noisy = SourceNoise(0.1, dictionary).replaced(tokens, numbers, 7)
    differs = noisy != tokens
    assert not differs[:, :3].any()
    assert not differs[:, -1].any()
    # A word is drawn for itself once in ten times; <unk> never.
    assert differs[:, 4:-1].float().mean().item() == pytest.approx(0.1 * 0.9, abs=0.015)
    assert differs[:, 3].float().mean().item() == pytest.approx(0.1, abs=0.05)


def test_all_words_are_drawn_equally_often_and_nothing_else(dictionary):
    tokens, numbers = sentences(2000)
    noisy = SourceNoise(1, dictionary).replaced(tokens, numbers, 7)[:, 3:-1]
    counts = torch.bincount(noisy.flatten(), minlength=len(dictionary)) / noisy.numel()
    assert counts[4:14].tolist() == pytest.approx([0.1] * 10, abs=0.01)
    assert counts[4:14].sum().item() == pytest.approx(1)


def test_a_draw_depends_on_seed_update_and_sentence_alone(dictionary):
    tokens, numbers = sentences(6)
    noise = SourceNoise(0.5, dictionary)
    noisy = noise.replaced(tokens, numbers, 7)
    assert not torch.equal(noisy[0], noisy[1])
    assert torch.equal(noise.replaced(tokens, numbers, 7), noisy)
    assert not torch.equal(noise.replaced(tokens, numbers, 8), noisy)
    assert not torch.equal(SourceNoise(0.5, dictionary, seed=2).replaced(tokens, numbers, 7), noisy)
    unpadded, padded_right = tokens[2:4, 2:], tokens[2:4].roll(-2, 1)
    assert torch.equal(noise.replaced(unpadded, numbers[2:4], 7), noisy[2:4, 2:])
    assert torch.equal(noise.replaced(padded_right, numbers[2:4], 7), noisy[2:4].roll(-2, 1))


class Heard:
    """A criterion that keeps the source that the model reads."""

    def __call__(self, model, sample):
        self.source = sample["net_input"]["src_tokens"]
        return torch.zeros((), requires_grad=True), 1, {}


def make_task(noise: float) -> TranslationNormalignTask:
    dictionary = ToyTask().source_dictionary
    cfg = TranslationNormalignConfig(source_token_noise=noise, seed=1)
    return TranslationNormalignTask(cfg, dictionary, dictionary)


@pytest.mark.parametrize("noise", [0.0, 1.0])
def test_the_task_has_noise_in_training_alone(noise, batch):
    task, model, heard = make_task(noise), build_model(), Heard()
    sample = {"net_input": batch, "id": torch.tensor([3, 1])}
    optimizer = Namespace(backward=lambda loss: None)
    task.train_step(sample, model, heard, optimizer, 3, ignore_grad=False)
    assert torch.equal(heard.source, batch["src_tokens"]) == (noise == 0)
    model.eval()
    task.cfg.eval_bleu = False
    task.valid_step(sample, model, heard)
    assert torch.equal(heard.source, batch["src_tokens"])


@pytest.mark.slow
def test_a_training_with_noise_is_resumed_bit_by_bit(corpus, tmp_path):
    def train(folder, updates, *more):
        run(
            *(*TRAIN, corpus / "data-bin", "--user-dir", PACKAGE, "--save-dir", tmp_path / folder),
            *("--task", "translation_normalign", "--arch", "transformer", "--dropout", 0.1),
            *("--encoder-layers", 1, "--decoder-layers", 1, "--encoder-embed-dim", 16),
            *("--decoder-embed-dim", 16, "--update-freq", 2, "--max-update", updates, *more),
            *("--save-interval-updates", 6, "--no-epoch-checkpoints"),
            cwd=tmp_path,
        )
        stored = torch.load(tmp_path / folder / "checkpoint_last.pt", weights_only=False)
        return stored["model"]["encoder.layers.0.fc1.weight"]

    whole = train("whole", 12, "--source-token-noise", 0.3)
    train("parts", 6, "--source-token-noise", 0.3)
    assert torch.equal(train("parts", 12, "--source-token-noise", 0.3), whole)
    assert not torch.equal(train("quiet", 12), whole)
