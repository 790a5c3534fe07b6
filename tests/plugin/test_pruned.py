from itertools import chain

import pytest
import torch
from fairseq.sequence_generator import SequenceGenerator

from fairseq_normalign.heads.pruning import fold_gates
from fairseq_normalign.host.attention_modules import head_counts, head_names, keep_heads
from fairseq_normalign.names import KINDS, Head, all_heads, parse_heads
from fairseq_normalign.plugin.gating import gates
from tests.conftest import ToyTask, build_model

# some of each kind, no cross-attention in layer 1, no self-attention in the encoder's layer 2; and
# none
ALIVE = {
    "some": "encoder.1.2 encoder.1.4 decoder.1.1 decoder.2.2 decoder.2.3 cross.2.1 cross.2.3 "
    "cross.2.4",
    "none": "none",
    "all": "all",
}


def gated_and_pruned(alive: str, **options):
    """A gated model with random gates, closed but for some, and the same without closed heads."""
    gated = build_model("transformer_normalign", gate_heads="all", **options)
    kept = parse_heads(alive, all_heads(head_counts(gated)))
    with torch.no_grad():
        for parameter in gated.parameters():
            parameter.normal_(std=0.3)
        for name, projection in gates(gated).items():
            for head in range(4):
                value = 2 * torch.rand(()) if Head(*name, head) in kept else -5
                projection.scaled_log_alpha[head] = value / projection.lr_scale
    pruned = build_model("transformer_normalign", alive_heads=alive, **options)
    pruned.load_state_dict(
        keep_heads(fold_gates(gated.state_dict()), kept, dict.fromkeys(KINDS, 4))
    )
    return gated, pruned


@pytest.mark.parametrize("alive", ALIVE)
@pytest.mark.parametrize("pre_ln", [False, True])
def test_pruned_does_what_gated_does(batch, alive, pre_ln):
    options = {"encoder_normalize_before": pre_ln, "decoder_normalize_before": pre_ln}
    gated, pruned = gated_and_pruned(ALIVE[alive], **options)
    assert torch.allclose(gated(**batch)[0], pruned(**batch)[0], rtol=1e-4, atol=1e-5)
    if alive != "all":
        assert size(pruned) < size(gated)


def size(model):
    return sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize("alive", ALIVE)
def test_beam_search_finds_the_same(batch, alive):
    models = gated_and_pruned(ALIVE[alive])
    translations = []
    for model in models:
        generator = SequenceGenerator(
            [model], ToyTask().target_dictionary, beam_size=3, max_len_b=12
        )
        hypotheses = generator.generate([model], {"net_input": batch})
        scored = [(hypo["tokens"].tolist(), hypo["score"].item()) for hypo in chain(*hypotheses)]
        translations.append(scored)
    for (tokens, score), (expected, expected_score) in zip(*translations, strict=True):
        assert tokens == expected
        assert score == pytest.approx(expected_score, rel=1e-4)


def test_incremental_decoding_is_the_forced_one(batch):
    _, model = gated_and_pruned(ALIVE["some"])
    encoder_out = model.encoder(batch["src_tokens"][:1], batch["src_lengths"][:1])
    target, state, steps = batch["prev_output_tokens"][:1], {}, []
    for length in range(1, 5):
        steps.append(
            model.decoder(target[:, :length], encoder_out=encoder_out, incremental_state=state)[0]
        )
    forcing = model.decoder(target, encoder_out=encoder_out)[0]
    assert torch.allclose(torch.cat(steps, dim=1), forcing, rtol=1e-4, atol=1e-5)


def test_heads_keep_their_names():
    """In the order of the counts, whatever was removed; without a record, they count from 1."""
    model = build_model("transformer_normalign", alive_heads=ALIVE["some"])
    assert list(map(str, head_names(model))) == ALIVE["some"].split()
    assert len(head_names(model)) == len(all_heads(head_counts(model)))
    full = build_model()
    assert head_names(full) == all_heads(head_counts(full))
    assert head_names(build_model("transformer_normalign", alive_heads="none")) == []
