"""Layer-wise relevance propagation: how relevance passes back through one operation.

There are three sets of rules.

An activation (B, T, C) has relevance (B, P, T, C): P counts the predictions that relevance starts
from. Dropout is off and activation functions are ignored: relevance passes them unchanged.

Each rule set has the same methods, each taking an operation's inputs and what is passed back to its
output, and returning what is passed back to its inputs: ``voita`` passes relevance R, the others
pass R / x like a gradient, which takes half the work; ``relevance`` returns R for both. Inputs may
have more tokens than what is passed back, which is of the first ones. All divide by sums that may
come near 0, and keep away from it by an ε, which moves results: :func:`rule_set` reads it from text
such as ``epsilon:1e-3``. A new rule set is a class and one line in :data:`RULES`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import ClassVar, NamedTuple

import numpy as np
import torch
from scipy.special import entr
from torch import Tensor

from fairseq_normalign.errors import InputError
from fairseq_normalign.strict_json import decimal

ALPHA = BETA = 0.5  # Voita et al., 2021, in their code
EPS = 1e-5  # the same
LOWEST_EPS = 1e-30  # what single precision can still divide by
BLOCK = 1 << 22  # numbers in the largest temporary tensor of attention
# The same for layer norm, whose numbers are used up at once: what fits a processor's cache.
CACHED = 1 << 18
# Tokens whose inner units are taken from the weights of a feed-forward net together, and the share
# of units that are not 0 above which all are multiplied.
TOKENS, SPARSE = 16, 0.25

Parameters = tuple[Tensor, Tensor]  # weight and bias of a linear map


def through_units(relevance: Tensor, second: Tensor, factor: Tensor, first: Tensor) -> Tensor:
    """Σ_n Σ_j R_j V_jn f_n W_ni, without the units n whose factor is 0 for a token.

    ReLU leaves few units of a trained net, others for each token but the same for all predictions.

    Args:
        relevance: R, (B, P, T, J).
        second: V, (J, N).
        factor: f, (B, T, N).
        first: W, (N, C).

    Returns:
        (B, P, T, C).
    """
    counts = factor.count_nonzero(-1).flatten()
    if counts.sum() > SPARSE * factor.numel():
        return ((relevance @ second) * factor.unsqueeze(1)) @ first
    by_token = relevance.transpose(1, 2).flatten(0, 1)  # (B·T, P, J)
    passed = by_token.new_empty(*by_token.shape[:2], first.shape[1])
    factor, columns = factor.flatten(0, 1), second.t().contiguous()
    for tokens in counts.argsort().split(TOKENS):  # about as many units each
        units = factor[tokens].abs().topk(int(counts[tokens[-1]])).indices  # (TOKENS, U)
        of_units = by_token[tokens] @ columns[units].transpose(1, 2)  # (TOKENS, P, U)
        of_units *= factor[tokens].gather(1, units).unsqueeze(1)
        passed[tokens] = of_units @ first[units]
    return passed.unflatten(0, (len(relevance), -1)).transpose(1, 2)


def _by_token(passed: Tensor, factor: Tensor) -> Tensor:
    """What is passed to some tokens (B, P, T, C) times a factor (B, ≥ T, C) of all."""
    return passed * factor[:, None, : passed.shape[2]]


def _attended(weights: Tensor, relevance: Tensor) -> Tensor:
    """Σ_t α_ts R_t: (B, H, T, S) and (B, P, H, T, D) → (B, P, H, S, D)."""
    return torch.einsum("bhts,bphtd->bphsd", weights, relevance)


@dataclass(frozen=True)
class Epsilon:
    """R_i = Σ_j R_j z_ji / (Σ_i z_ji + ε sign).

    Bach et al. (2015); Voita et al. (2019), after Ding et al. (2017).

    A bias is part of the sum and keeps its share: relevance is conserved where there is no bias.
    The standard deviation of a layer norm and attention weights are held constant. Differentiated
    in full, the terms of a layer norm add up to 0, as its output does not change with the scale of
    its input, and those of attention weights to a covariance, which may be 0 as well: nothing to
    divide by.
    """

    eps: float = EPS  # ε

    name: ClassVar[str] = "epsilon"

    @property
    def spec(self) -> str:
        """What :func:`rule_set` reads, with its ε: ``epsilon:1e-05``."""
        return f"{self.name}:{self.eps!r}"

    def stable(self, total: Tensor) -> Tensor:
        """x + ε sign(x) with sign(0) = +: something that can be divided by."""
        return torch.where(total < 0, total - self.eps, total + self.eps)

    def kept(self, total: Tensor) -> Tensor:
        """x / (x + ε sign): 1, but less near 0."""
        size = total.abs()
        return size / (size + self.eps)

    def relevance(self, x: Tensor, passed: Tensor) -> Tensor:
        """R of x (B, T, C), (B, P, T, C)."""
        return _by_token(passed, x)

    def unchanged(self, x: Tensor, y: Tensor, passed: Tensor) -> Tensor:
        """Where y has the relevance of x, elementwise: a constant factor, or a constant term."""
        return _by_token(passed, torch.where(x == 0, 0, y / x))

    def linear(self, x: Tensor, y: Tensor, weight: Tensor, bias: Tensor, passed: Tensor) -> Tensor:
        """Through y_j = Σ_i W_ji x_i + b_j, where z_ji = W_ji x_i.

        Args:
            x: (B, T, C).
            y: (B, T, N).
            weight: (N, C).
            passed: to y, (B, P, T, N).

        Returns:
            What is passed to x, (B, P, T, C).
        """
        return _by_token(passed, self.kept(y)) @ weight

    def feed_forward(
        self, states: Sequence[Tensor], first: Parameters, second: Parameters, passed: Tensor
    ) -> Tensor:
        """Through two linear maps.

        Args:
            states: what the first one reads and returns, what the second one reads and returns;
                (B, T, ·) each.
        """
        tokens = passed.shape[2]
        _, unit, inner, y = (state[:, :tokens] for state in states)
        of_y = _by_token(passed, self.kept(y))
        return through_units(of_y, second[0], inner / self.stable(unit), first[0])

    def add(self, u: Tensor, w: Tensor, passed: Tensor) -> tuple[Tensor, Tensor]:
        """Through u + w, elementwise: both (B, T, C)."""
        of_both = _by_token(passed, self.kept(u + w))
        return of_both, of_both

    def logit(self, x: Tensor, row: Tensor, bias: Tensor | float) -> Tensor:
        """From a logit w·x + b of relevance 1 to x: all (B, T, C), each x with its own row w."""
        return row / self.stable((row * x).sum(-1) + bias).unsqueeze(-1)

    def layer_norm(
        self, x: Tensor, weight: Tensor, bias: Tensor, eps: float, passed: Tensor
    ) -> Tensor:
        """Through y_j = γ_j (x_j − μ)/σ + β_j with σ held constant: z_ji = γ_j/σ (δ_ji − 1/C) x_i.

        Args:
            eps: of the layer norm.
        """
        scale = weight * (x.var(-1, unbiased=False, keepdim=True) + eps).rsqrt()  # γ/σ, (B, T, C)
        y = scale * (x - x.mean(-1, keepdim=True)) + bias
        of_terms = _by_token(passed, scale * self.kept(y))
        return of_terms.sub_(of_terms.mean(-1, keepdim=True))

    def attention(
        self, q: Tensor, k: Tensor, v: Tensor, weights: Tensor, passed: Tensor
    ) -> tuple[Tensor | None, Tensor | None, Tensor]:
        """Through o_t = Σ_s α_ts v_s with α held constant: z = α_ts v_sd.

        Args:
            q: scaled queries, (B, H, T, D).
            k, v: keys and values, (B, H, S, D).
            weights: α, (B, H, T, S), 0 where masked.
            passed: to o, (B, P, H, T, D).

        Returns:
            What is passed to q, k and v, shaped like them with P after B; None stands for zeros.
        """
        return None, None, _attended(weights, passed * self.kept(weights @ v).unsqueeze(1))


@dataclass(frozen=True)
class AttnLRP(Epsilon):
    """AttnLRP (Achtibat et al., 2024): the ε rule, and own rules for attention.

    Attention has rules for its products and for its softmax.

    A layer norm passes relevance unchanged where it divides by σ (Proposition 3.4), and by the ε
    rule where it centres, which together is the ε rule with σ held constant, as in the authors'
    code. Biases keep their share, and the softmax rule does not conserve relevance.
    """

    name: ClassVar[str] = "attnlrp"

    def attention(
        self, q: Tensor, k: Tensor, v: Tensor, weights: Tensor, passed: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Through o = αv, α = softmax(l) and l = q·k; arguments as in :meth:`Epsilon.attention`.

        R(α_ts) = Σ_d α_ts v_sd R_td / 2o_td, and likewise R(v_sd) (Proposition 3.3);
        R(l_ts) = l_ts (R(α_ts) − α_ts Σ_s R(α_ts)) (Proposition 3.1);
        R(q_te) = Σ_s q_te k_se R(l_ts) / 2l_ts, and likewise R(k_se).
        """
        logits, context = q @ k.transpose(-2, -1), weights @ v
        half = self.kept(2 * logits).unsqueeze(1) / 2  # l/2l: ½, or 0 at 0
        passed = passed * (self.kept(2 * context).unsqueeze(1) / 2)
        of_v = _attended(weights, passed)
        weights = weights.unsqueeze(1)
        of_weights = torch.einsum("bphtd,bhsd->bphts", passed, v).mul_(weights)  # R(α)
        of_logits = of_weights.sub_(weights * of_weights.sum(-1, keepdim=True))
        of_logits = of_logits.mul_(half)  # R(l)/2l
        of_q = torch.einsum("bphts,bhsd->bphtd", of_logits, k)
        of_k = torch.einsum("bphts,bhtd->bphsd", of_logits, q)
        return of_q, of_k, of_v


Signed = tuple[Tensor, Tensor]  # a positive and a negative part, of the same shape


def _signs(x: Tensor) -> Signed:
    """x⁺ and x⁻, which add up to x."""
    return x.clamp(min=0), x.clamp(max=0)


def _products(equation: str, a: Signed, b: Signed) -> Signed:
    """Sums of products by their sign, a⁺b⁺ + a⁻b⁻ and a⁺b⁻ + a⁻b⁺, in Einstein's notation."""
    (a_up, a_down), (b_up, b_down) = a, b
    up = torch.einsum(equation, a_up, b_up) + torch.einsum(equation, a_down, b_down)
    down = torch.einsum(equation, a_up, b_down) + torch.einsum(equation, a_down, b_up)
    return up, down


def _by_sign(x: Tensor, factors: Signed) -> Tensor:
    """x⁺ times one factor and x⁻ times the other: x (B, …) and factors (B, P, …)."""
    x, (up, down) = x.unsqueeze(1), factors
    return torch.where(x > 0, up, down).mul_(x)


def _sum(parts: Iterable[Tensor]) -> Tensor:
    return reduce(torch.add, parts)


def _ratio(part: Tensor, whole: Tensor) -> Tensor:
    """part / whole; 0 where the whole is 0."""
    return torch.where(whole > 0, part / whole, 0)


@dataclass(frozen=True)
class Voita(Epsilon):
    """R_i = Σ_j R_j (α z⁺_ji / (Σ_i z⁺_ji + ε) + β z⁻_ji / (Σ_i z⁻_ji − ε)), then rescaled.

    Voita et al. (2021).

    z_ji = ∂y_j/∂x_i x_i, layer norm and softmax differentiated in full. Relevance is never
    negative, and conserved: what biases, ε and rows of one sign have kept back is given to the
    inputs in proportion, by token where the operation works on single tokens, then by prediction.
    Differs from their code: a bias is one more input, not spread evenly over the others, which
    would keep the sums from being products of matrices; a rescaling divides without ε, which would
    shrink tokens of little relevance.
    """

    name: ClassVar[str] = "voita"

    def passed(self, relevance: Tensor, up: Tensor, down: Tensor) -> Signed:
        """R α / (Σ z⁺ + ε) and R β / (Σ z⁻ − ε), by which z⁺ and z⁻ are multiplied, (B, P, …).

        Args:
            up: Σ z⁺, (B, …).
            down: Σ z⁻, (B, …).
        """
        by_up = (ALPHA / (up + self.eps)).unsqueeze(1)
        by_down = (BETA / (down - self.eps)).unsqueeze(1)
        return relevance * by_up, relevance * by_down

    def relevance(self, x: Tensor, passed: Tensor) -> Tensor:
        return passed

    def unchanged(self, x: Tensor, y: Tensor, passed: Tensor) -> Tensor:
        return passed

    def shares(self, terms: Tensor, bias: Tensor | float = 0.0) -> Tensor:
        """α z⁺_i / (Σ_i z⁺_i + b⁺ + ε) + β z⁻_i / (Σ_i z⁻_i + b⁻ − ε) over the last axis."""
        bias_up, bias_down = _signs(torch.as_tensor(bias))
        up, down = _signs(terms)
        up = up * (ALPHA / (up.sum(-1) + bias_up + self.eps)).unsqueeze(-1)
        return up + down * (BETA / (down.sum(-1) + bias_down - self.eps)).unsqueeze(-1)

    @staticmethod
    def rescaled(relevance: Tensor, *parts: Tensor) -> tuple[Tensor, ...]:
        """The parts (B, P, T, ·) with the sum of the relevance they came from.

        First each token has that sum, then each prediction.

        A token whose parts are all 0 leaves its relevance to the others.
        """
        mass = relevance.sum(-1)  # (B, P, T)
        passed = _sum(part.sum(-1) for part in parts)
        kept = (mass * (passed > 0)).sum(-1, keepdim=True)
        by_token = _ratio(mass, passed)
        by_prediction = _ratio(mass.sum(-1, keepdim=True), kept)
        factor = (by_token * by_prediction).unsqueeze(-1)
        return tuple(part * factor for part in parts)

    def linear(
        self, x: Tensor, y: Tensor, weight: Tensor, bias: Tensor, relevance: Tensor
    ) -> Tensor:
        """As :meth:`Epsilon.linear`: z⁺ and z⁻ are W⁺x⁺ + W⁻x⁻ and W⁺x⁻ + W⁻x⁺."""
        x = x[:, : relevance.shape[2]]
        weights = _signs(weight)
        up, down = _products("btc,nc->btn", _signs(x), weights)
        bias_up, bias_down = _signs(bias)
        passed = self.passed(relevance, up + bias_up, down + bias_down)
        factors = _products("bptn,nc->bptc", passed, weights)
        return self.rescaled(relevance, _by_sign(x, factors))[0]

    def feed_forward(
        self, states: Sequence[Tensor], first: Parameters, second: Parameters, relevance: Tensor
    ) -> Tensor:
        x, unit, inner, y = states
        return self.linear(x, unit, *first, self.linear(inner, y, *second, relevance))

    def add(self, u: Tensor, w: Tensor, relevance: Tensor) -> tuple[Tensor, Tensor]:
        shares = self.shares(torch.stack([u, w], dim=-1))
        parts = (_by_token(relevance, share) for share in shares.unbind(-1))
        of_u, of_w = self.rescaled(relevance, *parts)
        return of_u, of_w

    def logit(self, x: Tensor, row: Tensor, bias: Tensor | float) -> Tensor:
        shares = self.shares(row * x, bias)
        return _ratio(shares, shares.sum(-1, keepdim=True))

    def layer_norm(
        self, x: Tensor, weight: Tensor, bias: Tensor, eps: float, relevance: Tensor
    ) -> Tensor:
        """Through y_j = γ_j n_j + β_j, n = (x − μ)/σ: z_ji = γ_j/σ (δ_ji − 1/C − n_i n_j/C) x_i.

        Their signs do not factor: C × C numbers for each token, a block of tokens at a time.
        """
        x = x[:, : relevance.shape[2]]
        deviation = (x.var(-1, unbiased=False, keepdim=True) + eps).sqrt()
        normed = (x - x.mean(-1, keepdim=True)) / deviation
        size = max(1, CACHED // x.shape[-1] ** 2)
        by_token = relevance.transpose(1, 2)  # (B, T, P, C)
        inputs = (by_token, x, normed, weight / deviation)
        blocks = zip(*(part.flatten(0, 1).split(size) for part in inputs), strict=True)
        passed = []
        for of_output, *parts in blocks:
            passed.append(of_output @ self.shares(self._layer_norm_terms(*parts), bias))
        of_inputs = torch.cat(passed).unflatten(0, x.shape[:2])  # (B, T, P, C)
        return self.rescaled(relevance, of_inputs.transpose(1, 2))[0]

    @staticmethod
    def _layer_norm_terms(x: Tensor, normed: Tensor, scale: Tensor) -> Tensor:
        """z_ji of each token, (N, C) to (N, C, C): the diagonal s_j x_j, and two outer products."""
        left = torch.stack([scale, scale * normed], dim=-1) / -x.shape[-1]
        terms = left @ torch.stack([x, normed * x], dim=-2)
        terms.diagonal(dim1=-2, dim2=-1).add_(scale * x)
        return terms

    def attention(
        self, q: Tensor, k: Tensor, v: Tensor, weights: Tensor, relevance: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Through o_t = Σ_s α_ts v_s, α = softmax(q·k); arguments as in :meth:`Epsilon.attention`.

        For an output o_td, the terms of v_sd are α_ts v_sd, those of k_se are u_tsd q_te k_se with
        u_tsd = α_ts (v_sd − o_td), and those of q_te are their sum over s. Normalised and rescaled
        together. Works on a block of queries at a time.
        """
        size = max(1, BLOCK // (q[:, :, 0].numel() * (k.shape[2] + q.shape[-1])))
        blocks = zip(
            q.split(size, 2), weights.split(size, 2), relevance.split(size, 3), strict=True
        )
        by_block = [
            self._attention_block(some_q, k, v, some_weights, of_output)
            for some_q, some_weights, of_output in blocks
        ]
        queries, keys, values = zip(*by_block, strict=True)
        of_q, of_k, of_v = torch.cat(queries, dim=3), _sum(keys), _sum(values)
        axes = (2, 3, 4)
        passed = _sum(part.sum(axes) for part in (of_q, of_k, of_v))
        factor = _ratio(relevance.sum(axes), passed)[:, :, None, None, None]
        return of_q * factor, of_k * factor, of_v * factor

    def _attention_block(
        self, q: Tensor, k: Tensor, v: Tensor, weights: Tensor, relevance: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """What :meth:`attention` says, before the rescaling."""
        difference = v.unsqueeze(2) - (weights @ v).unsqueeze(3)
        u = weights.unsqueeze(-1) * difference  # (B, H, T, S, D)
        signs, queries, values = _signs(u), _signs(q), _signs(v)
        products = _products("bhte,bhse->bhts", queries, _signs(k))  # Σ_e (q_te k_se)⁺ and ⁻
        of_keys = _products("bhtsd,bhts->bhtd", signs, products)
        q_terms = _signs(torch.einsum("bhtsd,bhse->bhtde", u, k) * q.unsqueeze(3))
        totals = []
        for of_value, of_key, q_term in zip(values, of_keys, q_terms, strict=True):
            totals.append(weights @ of_value + q_term.sum(-1) + of_key)
        up, down = self.passed(relevance, *totals)
        of_q_up, of_q_down = map(partial(torch.einsum, "bphtd,bhtde->bphte"), (up, down), q_terms)
        with_products = _products("bphtd,bhtsd->bphts", (up, down), signs)
        of_k = _by_sign(k, _products("bphts,bhte->bphse", with_products, queries))
        of_v = _by_sign(v, (_attended(weights, up), _attended(weights, down)))
        return of_q_up + of_q_down, of_k, of_v


RULES: dict[str, type[Epsilon]] = {rules.name: rules for rules in (Voita, Epsilon, AttnLRP)}


def rule_set(rules: str | Epsilon) -> Epsilon:
    """``NAME`` or ``NAME:ε``, such as ``epsilon:1e-3``, as a rule set; a rule set stays itself."""
    if isinstance(rules, Epsilon):
        return rules
    name, colon, text = rules.partition(":")
    try:
        eps = decimal(text) if colon else EPS
    except ValueError:
        eps = 0.0
    if name not in RULES or not LOWEST_EPS <= eps <= 1:
        raise InputError(
            f"rules {rules!r}: choose from {', '.join(RULES)}; an ε from {LOWEST_EPS:g} to 1 may "
            "follow, as in epsilon:1e-3"
        )
    return RULES[name](eps)


def head_shares(relevance: Tensor) -> Tensor:
    """Each head's share of the relevance of all heads of its layer, by absolute value.

    Voita et al. (2019).

    Args:
        relevance: of the heads' outputs before W_O, (B, P, H, T, D).

    Returns:
        (B, P, H); 0 for a prediction whose relevance passes no head.
    """
    by_head = relevance.abs().sum((3, 4))
    return _ratio(by_head, by_head.sum(-1, keepdim=True))


class Contributions(NamedTuple):
    """Where each prediction of a sentence comes from, (P,) each (Voita et al., 2021)."""

    source: np.ndarray  # share of the source in the relevance of source and prefix
    source_entropy: np.ndarray  # of the relevance of source tokens, in nats
    prefix_entropy: np.ndarray  # of the relevance of prefix tokens


def contributions(source: np.ndarray, prefix: np.ndarray) -> Contributions:
    """What the source contributes, by the relevance of source tokens (P, S) and inputs (P, T).

    The inputs are the decoder's. Relevance counts by its absolute value.

    Differs from their notebooks: the decoder's first input, the start mark, counts as a token of
    the prefix.
    """
    source, prefix = np.abs(source), np.abs(prefix)
    of_source, of_prefix = source.sum(-1), prefix.sum(-1)
    with np.errstate(invalid="ignore"):  # nan where all is 0
        share = of_source / (of_source + of_prefix)
    return Contributions(share, _entropy(source), _entropy(prefix))


def _entropy(relevance: np.ndarray) -> np.ndarray:
    """−Σ p ln p over the last axis, p = relevance / Σ relevance; nan where all is 0."""
    with np.errstate(invalid="ignore"):
        return entr(relevance / relevance.sum(-1, keepdims=True)).sum(-1)
