"""Every kind of model that the recorder supports: parts of an attention add up to its output."""

from argparse import Namespace

import pytest
import torch
from fairseq.models import ARCH_CONFIG_REGISTRY, ARCH_MODEL_REGISTRY

from fairseq_normalign.attention.recorder import record
from fairseq_normalign.errors import InputError
from fairseq_normalign.host.attention_modules import attentions
from fairseq_normalign.names import KINDS
from tests.attention.test_states import language_model, language_task
from tests.conftest import ToyTask, attention_output, build_model

MODELS = {
    "transformer_wmt_en_de_big_t2t": {"arch": "transformer_wmt_en_de_big_t2t"},
    "transformer_normalign": {"arch": "transformer_normalign"},
    "transformer_align": {"arch": "transformer_align"},
    "bart_base": {"arch": "bart_base", "share_all_embeddings": True},
    "mbart_base": {"arch": "mbart_base", "share_all_embeddings": True},
    "pre-LN": {"encoder_normalize_before": True, "decoder_normalize_before": True},
    "shared embeddings": {"share_all_embeddings": True},
    "quant-noise": {"quant_noise_pq": 0.1, "quant_noise_pq_block_size": 4},
    "layerdrop": {"encoder_layerdrop": 0.5, "decoder_layerdrop": 0.5},
    "learned positions": {"encoder_learned_pos": True, "decoder_learned_pos": True},
    "no cross-attention width": {
        "encoder_embed_dim": 24,
        "encoder_ffn_embed_dim": 24,
        "decoder_embed_dim": 16,
    },
    "adaptive softmax": {"adaptive_softmax_cutoff": "10,20"},
    "activation checkpoints": {"checkpoint_activations": True},
}


def check_exact(model, run, kinds, tolerance=1e-4):
    kept, hooks = {}, []
    for name, attention in attentions(model).items():
        keep = lambda module, args, output, name=name: kept.update({name: output[0]})  # noqa: E731
        hooks.append(attention.register_forward_hook(keep))
    with torch.no_grad(), record(model, kinds) as recording:
        run()
    for hook in hooks:
        hook.remove()
    assert set(recording) == {name for name in attentions(model) if name[0] in kinds}
    for name, recorded in recording.items():
        actual = kept[name].transpose(0, 1).float()
        torch.testing.assert_close(
            attention_output(recorded).float(), actual, atol=tolerance, rtol=tolerance
        )
        assert recorded.norms.summed.isfinite().all()


@pytest.mark.parametrize("name", MODELS)
def test_architectures_and_options(name, batch):
    model = build_model(**MODELS[name])
    check_exact(model, lambda: model(**batch), KINDS)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_precisions(dtype, batch):
    model = build_model().to(dtype)
    tolerance = {torch.float16: 2e-2, torch.bfloat16: 2e-1, torch.float64: 1e-6}[dtype]
    check_exact(model, lambda: model(**batch), KINDS, tolerance)


def test_layers_in_training_are_not_dropped_at_random():
    model = build_model(encoder_layerdrop=0.9).train()
    assert len([name for name in attentions(model) if name[0] == "encoder"]) == 2


def test_roberta(batch):
    task = ToyTask()
    task.max_positions = lambda: 64
    model = build_model("roberta", task, max_positions=64)
    check_exact(model, lambda: model(batch["src_tokens"], features_only=True), ("encoder",))


def test_language_model(batch):
    model = language_model(language_task())
    without_padding = batch["src_tokens"][:1]  # left padding would be all it sees
    check_exact(model, lambda: model(without_padding), ("decoder",))
    with (
        pytest.raises(
            InputError, match="TransformerLanguageModel has no cross attention to record"
        ),
        record(model),
    ):
        pass


def test_convolutions_have_cross_attention_only(batch):
    sides = {"conv_dim": 16, "conv_type": "lightweight", "kernel_size_list": [3, 3], "glu": True}
    options = {}
    for name, value in sides.items():
        options[f"encoder_{name}"] = options[f"decoder_{name}"] = value
    model = build_model(
        "lightconv", **options, weight_softmax=True, relu_dropout=0.0, input_dropout=0.0
    )
    check_exact(model, lambda: model(**batch), ("cross",))
    with (
        pytest.raises(InputError, match="LightConvModel has no decoder attention to record"),
        record(model, ("decoder",)),
    ):
        pass


def test_every_architecture_has_the_size_of_fairseqs_own():
    sizes = {
        "transformer_normalign": "transformer",
        "transformer_normalign_iwslt_de_en": "transformer_iwslt_de_en",
        "transformer_normalign_wmt_en_de": "transformer_wmt_en_de",
        "transformer_normalign_big": "transformer_wmt_en_de_big",
    }
    for ours, theirs in sizes.items():
        namespaces = Namespace(), Namespace()
        for arch, args in zip((ours, theirs), namespaces, strict=True):
            ARCH_CONFIG_REGISTRY[arch](args)
        assert namespaces[0] == namespaces[1]
        assert issubclass(ARCH_MODEL_REGISTRY[ours], ARCH_MODEL_REGISTRY[theirs])
