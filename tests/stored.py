"""Small checkpoints, as fairseq stores them."""

from argparse import Namespace
from pathlib import Path

import torch
from fairseq.data import Dictionary, indexed_dataset

from tests.conftest import build_model

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


def state(*, seed: int = 1, **entries) -> dict:
    """A checkpoint of a small random model; ``args`` or ``cfg`` are to be added."""
    model = build_model(
        seed=seed,
        **{k: v for k, v in OPTIONS.items() if k.startswith(("en", "de", "max", "share"))},
    ).state_dict()
    history = [
        {"criterion_name": "CrossEntropyCriterion", "num_updates": 7, "optimizer_name": "Adam"}
    ]
    history[0]["lr_scheduler_state"] = {"best": None}
    return {"model": model, "optimizer_history": history, "extra_state": {}, **entries}


def store(path, *, seed: int = 1, parameters: dict | None = None, **options) -> str:
    """Writes a checkpoint of a small random model, or of these parameters, with these options."""
    stored = state(seed=seed, args=Namespace(**{**OPTIONS, **options}))
    torch.save({**stored, "model": parameters or stored["model"]}, path)
    return str(path)


def write_binarised(path: Path, lines: list[str], dictionary: Dictionary) -> None:
    """One side of what ``fairseq-preprocess`` writes."""
    builder = indexed_dataset.make_builder(f"{path}.bin", "mmap", len(dictionary))
    for line in lines:
        builder.add_item(dictionary.encode_line(line, add_if_not_exist=False))
    builder.finalize(f"{path}.idx")


def write_two_models(folder: Path, sources: list[str], targets: list[str]) -> None:
    """Dictionaries, ``one.pt``, ``two.pt`` with larger weights, and a text."""
    counts = "".join(f"w{number} {100 - number}\n" for number in range(30))
    for language, lines in {"a": sources, "b": targets}.items():
        (folder / f"dict.{language}.txt").write_text(counts)
        (folder / f"text.{language}").write_text("".join(f"{line}\n" for line in lines))
    store(folder / "one.pt")
    parameters = state()["model"]
    for name, parameter in parameters.items():
        if name.endswith("weight"):
            parameter *= 1.5
    store(folder / "two.pt", parameters=parameters)
