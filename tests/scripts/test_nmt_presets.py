"""Recipes of models: what fairseq makes of their options, against the papers."""

from __future__ import annotations

import shlex
from argparse import Namespace

import pytest
import torch
from nmt_presets import PRESETS
from prepare import get_parser, vocabulary_of

# What says where and how a training runs, not what it makes.
OF_THE_RUN = {
    *("data", "save_dir", "user_dir", "log_format", "log_interval", "no_progress_bar"),
    *("num_workers", "max_epoch", "max_update", "plasma_path", "no_seed_provided"),
}
# What fairseq fills in when it builds a model that shares all embeddings.
WHEN_BUILT = {
    "share_decoder_input_output_embed": True,
    "max_source_positions": 1024,
    "max_target_positions": 1024,
}


def parsed(preset: str) -> Namespace:
    """All options of fairseq-train, those of the architecture too."""
    from fairseq.options import get_training_parser, parse_args_and_arch

    import fairseq_normalign.plugin  # noqa: F401  (registers)

    words = ["nowhere", "--source-lang", "de", "--target-lang", "en", "--cpu"]
    parser = get_training_parser()
    return parse_args_and_arch(parser, words + shlex.split(PRESETS[preset].train))


def vocabulary(preset: str):
    words = ["corpus", "out", *shlex.split(PRESETS[preset].prepare)]
    return vocabulary_of(get_parser().parse_args(words))


@pytest.mark.parametrize("preset", PRESETS)
def test_options_are_known_and_go_together(preset):
    options = parsed(preset)
    assert options.criterion == "label_smoothed_cross_entropy"
    assert options.label_smoothing == 0.1
    assert options.lr_scheduler == "inverse_sqrt"
    vocabulary(preset).check()


def test_kobayashi():
    """The published script: transformer_iwslt_de_en, and an update of 8 batches on 2 GPUs."""
    options, preset = parsed("kobayashi"), PRESETS["kobayashi"]
    assert (options.encoder_layers, options.decoder_layers) == (6, 6)
    assert (options.encoder_embed_dim, options.encoder_ffn_embed_dim) == (512, 1024)
    assert options.decoder_attention_heads == 4
    assert not options.decoder_normalize_before
    assert not options.share_all_embeddings
    assert (options.lr, options.warmup_updates, options.warmup_init_lr) == ([1e-3], 4000, 1e-7)
    assert (options.stop_min_lr, options.clip_norm, options.weight_decay) == (9e-8, 0, 0)
    assert (options.batch_size, options.max_tokens, options.max_epoch) == (80, 4000, 100)
    assert (options.best_checkpoint_metric, preset.batches) == ("bleu", 16)
    assert preset.seeds == (2253, 5498, 9819, 9240, 2453)
    ours = vocabulary("kobayashi")
    assert (ours.bpe, ours.size, ours.separate) == ("sentencepiece", 10000, True)
    assert not ours.dummy_prefix
    assert not ours.counted


def test_the_learning_rate_of_voita():
    """4 · min(step^-½, step · 16000^-3/2) · 512^-½, as their script has it."""
    from fairseq.optim import FairseqOptimizer
    from fairseq.optim.lr_scheduler.inverse_square_root_schedule import InverseSquareRootSchedule

    class Remembering(FairseqOptimizer):
        def set_lr(self, rate):
            self.rate = rate

        def get_lr(self):
            return self.rate

    schedule = InverseSquareRootSchedule(parsed("voita"), Remembering(None))
    for step in (1, 500, 15999, 16000, 40000, 1_000_000):
        theirs = 4 * min(step**-0.5, step * 16000**-1.5) * 512**-0.5
        assert schedule.step_update(step) == pytest.approx(theirs, rel=1e-4)


def test_small_is_the_recipe_of_the_stored_models(data):
    """Every option of the stored checkpoint but those of the run."""
    path = data.parent / "checkpoints/deen.pt"
    if not path.exists():
        pytest.skip(f"{path} is missing")
    import fairseq_normalign.plugin  # noqa: F401  (what checkpoints hold)

    stored = vars(torch.load(path, map_location="cpu")["cfg"]["model"])
    options = {**vars(parsed("small")), **WHEN_BUILT}
    different = {
        name: (stored[name], options.get(name))
        for name in stored.keys() - OF_THE_RUN
        if not name.startswith("_") and stored[name] != options.get(name)
    }
    assert different == {}
