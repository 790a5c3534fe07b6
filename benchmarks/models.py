"""Random models and random text of the sizes that are measured."""

from __future__ import annotations

import random
from argparse import Namespace
from collections.abc import Iterator
from typing import NamedTuple

import torch
from fairseq.data import Dictionary
from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_REGISTRY
from fairseq.tasks.translation import TranslationConfig, TranslationTask
from torch import Tensor, nn


class Shape(NamedTuple):
    name: str
    layers: int
    width: int
    heads: int
    inner: int  # width of the feed-forward layers
    vocabulary: int
    batch: int = 16
    length: int = 30  # of sources and targets


BASE = Shape("base", layers=6, width=512, heads=8, inner=2048, vocabulary=10_000)
SMALL = Shape("small", layers=3, width=256, heads=4, inner=512, vocabulary=4_000)
TINY = Shape("tiny", layers=3, width=128, heads=4, inner=256, vocabulary=1_000)


def build_task(shape: Shape) -> TranslationTask:
    """A translation task whose pieces are w0@@, w1, w2@@, …, a half of which end a word."""
    dictionary = Dictionary()
    for number in range(shape.vocabulary - len(dictionary)):
        dictionary.add_symbol(f"w{number}" if number % 2 else f"w{number}@@")
    return TranslationTask(TranslationConfig(), dictionary, dictionary)


def build_model(
    shape: Shape, task: TranslationTask, arch: str = "transformer", **more
) -> nn.Module:
    args = Namespace(**options_of(shape), **more)
    ARCH_CONFIG_REGISTRY[arch](args)
    torch.manual_seed(0)
    return ARCH_MODEL_REGISTRY[arch].build_model(args, task).eval()


def options_of(shape: Shape) -> dict[str, int]:
    """A shape in fairseq's words."""
    sizes = {
        "layers": shape.layers,
        "embed_dim": shape.width,
        "attention_heads": shape.heads,
        "ffn_embed_dim": shape.inner,
    }
    options = {}
    for name, size in sizes.items():
        options[f"encoder_{name}"] = options[f"decoder_{name}"] = size
    return {**options, "max_source_positions": 1024, "max_target_positions": 1024}


def token_batch(shape: Shape) -> dict[str, Tensor]:
    """What a teacher-forced forward takes."""
    torch.manual_seed(0)
    size = (shape.batch, shape.length)
    source, target = (torch.randint(4, shape.vocabulary, size) for _ in range(2))
    return {
        "src_tokens": source,
        "src_lengths": torch.full((shape.batch,), shape.length),
        "prev_output_tokens": target,
    }


def texts(shape: Shape, count: int) -> Iterator[tuple[str, str]]:
    """Sentence pairs of 5 to 35 pieces."""
    generator = random.Random(0)
    for _ in range(count):
        length = generator.randint(5, 30)
        yield tuple(_sentence(shape, length + generator.randint(0, 5), generator) for _ in range(2))


def _sentence(shape: Shape, length: int, generator: random.Random) -> str:
    numbers = [generator.randrange(shape.vocabulary - 5) for _ in range(length)]
    numbers[-1] |= 1  # the last piece ends its word
    return " ".join(f"w{number}" if number % 2 else f"w{number}@@" for number in numbers)
