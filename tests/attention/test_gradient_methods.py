"""Gradient methods against slow twins: one pair, one prediction and one source token at a time."""

import numpy as np
import pytest
import torch

from fairseq_normalign.attention.methods import Batch, method_of
from fairseq_normalign.errors import InputError
from fairseq_normalign.host.pairs import PairReader, text_pairs
from fairseq_normalign.host.teacher_forcing import TeacherForcing
from tests.conftest import PRE_LN, build_model

METHODS = ("grad-input", "saliency", "smoothgrad:2")
# The second target is longer than what one backward pass is for.
LINES = [
    ("w1@@ w2 w3", "w4 w5@@ w6@@ w7"),
    ("w3 w9", "w9 w8 w7 w6 w5 w4 w3 w2 w1 w2"),
    ("", "w1"),
    ("w2 w2", ""),
]
MODELS = {
    "post-LN": {},
    "pre-LN": PRE_LN,
    "shared embeddings": {"share_all_embeddings": True},
    "normalised embeddings": {"layernorm_embedding": True},
    "heads removed": {
        "arch": "transformer_normalign",
        "alive_heads": "encoder.1.1 encoder.1.3 decoder.1.2 cross.2.2",
    },
    "gates": {"arch": "transformer_normalign", "gate_heads": "all"},
    "BART": {"arch": "bart_base", "share_all_embeddings": True},
}


@pytest.fixture
def pairs(task):
    return list(text_pairs(LINES, PairReader(task, scheme="subword_nmt")))


def computed(model, task, pairs, method: str) -> np.ndarray:
    return method_of(method).compute(Batch(TeacherForcing(model, task), pairs, {}), None, None)


def log_prob(model, pair, t: int, embeddings: torch.Tensor) -> torch.Tensor:
    """log p(y_t | y_<t, x) of one pair, whose source has these embeddings."""
    prev = torch.cat([pair.target.tokens[-1:], pair.target.tokens[:-1]])[None]
    encoder_out = model.encoder(
        pair.source.tokens[None],
        torch.tensor([len(pair.source.tokens)]),
        token_embeddings=embeddings[None],
    )
    output = model.decoder(prev, encoder_out=encoder_out)
    log_probs = output[0].log_softmax(-1)  # in double precision, unlike fairseq's
    return log_probs[0, t, pair.target.tokens[t]]


def slow_products(model, pair, noise=0.0) -> np.ndarray:
    """max(0, d log p(y_t) / d w_s) / Σ_s, w_s = 1 being a factor of E(x_s)."""
    clean = model.encoder.embed_tokens(pair.source.tokens).detach()
    psi = np.zeros((len(pair.target.tokens), len(clean)))
    for t in range(len(psi)):
        for s in range(len(clean)):
            factor = torch.ones((), dtype=clean.dtype, requires_grad=True)
            selected = torch.stack([factor * e if k == s else e for k, e in enumerate(clean)])
            (gradient,) = torch.autograd.grad(log_prob(model, pair, t, selected + noise), factor)
            psi[t, s] = max(0, gradient.item())
        psi[t] /= psi[t].sum() or 1
    return psi


def slow_saliency(model, pair) -> np.ndarray:
    """mean_c |d log p(y_t) / dE(x_s)_c| / Σ_s."""
    clean = model.encoder.embed_tokens(pair.source.tokens).detach()
    psi = np.zeros((len(pair.target.tokens), len(clean)))
    for t in range(len(psi)):
        leaf = clean.clone().requires_grad_()
        (gradient,) = torch.autograd.grad(log_prob(model, pair, t, leaf), leaf)
        for s in range(len(clean)):
            psi[t, s] = np.mean([abs(number) for number in gradient[s].tolist()])
        psi[t] /= psi[t].sum()
    return psi


def slow_smoothgrad(model, pair, samples: int) -> np.ndarray:
    clean = model.encoder.embed_tokens(pair.source.tokens).detach()
    generator = np.random.default_rng(pair.source.tokens.tolist())
    sigma = 0.15 * (max(clean.flatten().tolist()) - min(clean.flatten().tolist()))
    psis = []
    for _ in range(samples):
        noise = sigma * torch.from_numpy(generator.standard_normal(clean.shape))
        psis.append(slow_products(model, pair, noise))
    return sum(psis) / samples


def lively(model):
    """The model in double precision, none of its parameters being zero or one."""
    generator = torch.Generator().manual_seed(3)
    for parameter in model.parameters():
        parameter.data += 0.1 * torch.randn(parameter.shape, generator=generator)
    for table in (model.encoder.embed_tokens, model.decoder.embed_tokens):
        if table is not None:
            table.weight.data[1] = 0  # of padding
    return model.double()


def assert_equals(matrices: np.ndarray, pairs, twin) -> None:
    """Whether each pair has the twin's matrix, and zeros behind its end."""
    assert matrices.shape[1:] == (
        max(len(pair.target.tokens) for pair in pairs),
        max(len(pair.source.tokens) for pair in pairs),
    )
    for matrix, pair in zip(matrices, pairs, strict=True):
        expected = np.zeros(matrix.shape)
        expected[: len(pair.target.tokens), : len(pair.source.tokens)] = twin(pair)
        np.testing.assert_allclose(matrix, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", MODELS)
def test_gradients_of_every_kind_of_model_equal_the_slow_twins(name, task, pairs):
    model = lively(build_model(**{"task": task, **MODELS[name]}))
    products = computed(model, task, pairs, "grad-input")
    assert_equals(products, pairs, lambda pair: slow_products(model, pair))
    saliencies = computed(model, task, pairs, "saliency")
    assert_equals(saliencies, pairs, lambda pair: slow_saliency(model, pair))


@pytest.mark.parametrize("samples", [1, 2, 3])
def test_smoothgrad_is_the_mean_of_its_samples(samples, task, pairs):
    model = lively(build_model(task=task, share_all_embeddings=True))
    matrices = computed(model, task, pairs, f"smoothgrad:{samples}")
    assert_equals(matrices, pairs, lambda pair: slow_smoothgrad(model, pair, samples))


def test_activation_checkpoints_change_nothing(task, pairs):
    plain = build_model(task=task)
    model = build_model(task=task, checkpoint_activations=True)
    model.load_state_dict(plain.state_dict())
    forwards = [module.forward for module in model.encoder.layers]
    expected = computed(plain, task, pairs, "grad-input")
    np.testing.assert_allclose(computed(model, task, pairs, "grad-input"), expected, rtol=1e-4)
    assert forwards == [module.forward for module in model.encoder.layers]


@pytest.mark.parametrize("method", METHODS)
def test_groups_of_pairs_change_nothing(method, task, pairs, monkeypatch):
    """Of 17 pairs, one backward pass is for 3."""
    model = build_model(task=task)
    many = [*pairs * 4, pairs[0]]
    expected = computed(model, task, many, method)
    monkeypatch.setattr("fairseq_normalign.attention.gradient_methods.FEW_TOKENS", 0)
    np.testing.assert_allclose(computed(model, task, many, method), expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("method", METHODS)
def test_the_model_is_left_as_it_was(method, task, pairs):
    model = build_model(task=task, share_all_embeddings=True, dropout=0.5)
    expected = computed(model, task, pairs, method)
    model.train()
    with torch.no_grad():
        np.testing.assert_allclose(computed(model, task, pairs, method), expected, rtol=1e-4)
    assert all(module.training for module in model.modules())
    assert all(parameter.grad is None for parameter in model.parameters())
    assert all(parameter.requires_grad for parameter in model.parameters())
    assert not model.encoder.embed_tokens._forward_hooks
    model.requires_grad_(False).eval()
    np.testing.assert_allclose(computed(model, task, pairs, method), expected, rtol=1e-4)
    assert not any(parameter.requires_grad for parameter in model.parameters())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("method", METHODS)
def test_half_precision(method, dtype, task, pairs):
    """All but few cells: where the only positive product is all but 0, its share is 1 or 0."""
    model = build_model(task=task)
    expected = computed(model, task, pairs, method)
    halved = computed(model.to(dtype), task, pairs, method)
    assert halved.dtype == np.float32
    assert np.isfinite(halved).all()
    differences = np.abs(halved - expected)
    assert np.quantile(differences, 0.97) < (0.01 if dtype == torch.float16 else 0.05)


def test_an_adaptive_softmax_is_refused(task, pairs):
    """It overwrites what its gradients need."""
    model = build_model(task=task, adaptive_softmax_cutoff="10,20")
    message = "TransformerModel was built with --adaptive-softmax-cutoff, which gradients do not"
    with pytest.raises(InputError, match=message):
        computed(model, task, pairs, "saliency")
