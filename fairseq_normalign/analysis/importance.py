"""What the loss says of heads: by its gradient, and by its change when a head is off."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

import torch
from torch import Tensor, nn

from fairseq_normalign.analysis.kept_sums import text_of_batch
from fairseq_normalign.heads.names import Head
from fairseq_normalign.heads.tally import Tally
from fairseq_normalign.host.attention import (
    Name,
    attentions,
    explicit_path,
    head_counts,
    out_projection,
    refuse_unsupported,
    single_beam,
)
from fairseq_normalign.host.batches import numbered_batches
from fairseq_normalign.host.pairs import Pair
from fairseq_normalign.host.predictions import target_log_probs
from fairseq_normalign.host.recorder import evaluation_mode
from fairseq_normalign.host.teacher_forcing import TeacherForcing
from fairseq_normalign.norms.finite import check_finite
from fairseq_normalign.progress import bar
from fairseq_normalign.runs.sums import Sums


def losses(forcing: TeacherForcing, pairs: list[Pair]) -> Tensor:
    """Cross-entropy of the reference, summed over the tokens of each pair, </s> included, (B,)."""
    forcing.check_lengths(pairs)
    src_tokens, prev_output_tokens, target = forcing.tensors(pairs)
    model = forcing.model
    with single_beam(model):
        output = model(src_tokens, src_tokens.ne(forcing.pad).sum(1), prev_output_tokens)
    of_target = target_log_probs(model, output, target).float()
    by_pair = -of_target.masked_fill(target.eq(forcing.pad), 0).sum(1)
    check_finite(by_pair.detach(), [pair.where for pair in pairs])
    return by_pair


def gradient_importance(
    forcing: TeacherForcing,
    pairs: Sequence[Pair],
    *,
    max_tokens: int = 4000,
    sums: Sums | None = None,
) -> dict[Head, float]:
    """I_h = mean over pairs of |∂L/∂ξ_h| at ξ = 1 (Michel et al., 2019).

    ξ_h multiplies the output of head h.

    ξ_h stands before W_O, so that ∂L/∂ξ_h = ⟨∂L/∂head_h, head_h⟩; L is the summed cross-entropy of
    the pair, so long pairs count more; ``ablation`` is per token. Pairs of a batch do not see each
    other: one backward pass gives the gradients of all. Not normalised by layer.
    """
    tally = Tally()
    this_pass = (sums or Sums()).begin("importance", [tally])
    batches = numbered_batches(pairs, max_tokens=max_tokens)
    with bar("importance", total=this_pass.left(len(pairs))) as shown:
        progress = shown.update
        for numbered in this_pass.over(batches, text=text_of_batch, size=len, progress=progress):
            _add_importance(tally, forcing, [pair for _, pair in numbered])
    return tally.means()


def _add_importance(tally: Tally, forcing: TeacherForcing, batch: list[Pair]) -> None:
    counts = head_counts(forcing.model)
    with torch.enable_grad(), head_outputs(forcing.model) as outputs:
        total = losses(forcing, batch).sum()
        gradients = torch.autograd.grad(total, list(outputs.values()))
    for (name, output), gradient in zip(outputs.items(), gradients, strict=True):
        products = output.detach().float() * gradient.float()
        by_head = products.unflatten(2, (counts[name], -1)).sum((0, 3))  # (B, H)
        check_finite(by_head, [pair.where for pair in batch])
        tally.add(name, by_head.abs().sum(0).cpu(), len(batch))


@contextmanager
def head_outputs(model: nn.Module) -> Iterator[dict[Name, Tensor]]:
    """What goes into W_O of each attention in a forward pass, (T, B, H·D), by (kind, layer)."""
    outputs: dict[Name, Tensor] = {}

    def keeper(name):
        def keep(module, args):
            outputs[name] = args[0] if args[0].requires_grad else args[0].requires_grad_()

        return keep

    by_name = attentions(model)
    for name, attention in by_name.items():
        refuse_unsupported(name, attention)
    with ExitStack() as stack:
        stack.enter_context(evaluation_mode(model))
        stack.enter_context(explicit_path(by_name.values()))  # on which W_O is called
        for name, attention in by_name.items():
            handle = out_projection(attention).register_forward_pre_hook(keeper(name))
            stack.callback(handle.remove)
        yield outputs
