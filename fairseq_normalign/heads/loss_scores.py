"""What translation loses without a head: by the gradient of the loss, and with the head off."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

import torch
from sacrebleu.metrics import BLEU
from torch import Tensor, nn

from fairseq_normalign.attention.recorder import check_finite, evaluation_mode
from fairseq_normalign.errors import InputError
from fairseq_normalign.heads.attention_pass import Tally, running_heads
from fairseq_normalign.heads.head_scores import ABLATION_PAIRS, BLEU_SENTENCES
from fairseq_normalign.heads.profile import Finding
from fairseq_normalign.heads.profiling import Survey
from fairseq_normalign.heads.translation import bleu_metric
from fairseq_normalign.host.attention_modules import (
    Name,
    attentions,
    explicit_path,
    head_count,
    head_counts,
    out_projection,
    refuse_unsupported,
    single_beam,
    stored_out_weight,
)
from fairseq_normalign.host.batches import numbered_batches, text_of, text_of_batch
from fairseq_normalign.host.pairs import Pair
from fairseq_normalign.host.teacher_forcing import TeacherForcing, target_log_probs
from fairseq_normalign.host.translate import Translator, reference
from fairseq_normalign.names import Head, all_heads
from fairseq_normalign.progress import bar
from fairseq_normalign.runs.sums import Pass, Sums


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


@contextmanager
def ablated(model: nn.Module, head: Head) -> Iterator[None]:
    """The model with one head off, its columns of W_O being zero.

    They are restored exactly, also after an error.
    """
    attention = attentions(model)[head.kind, head.layer]
    by_head = stored_out_weight(attention).data.unflatten(1, (head_count(attention), -1))
    columns = by_head[:, head.head]  # (C, D), a view
    before = columns.clone()
    columns.zero_()
    try:
        yield
    finally:
        columns.copy_(before)


def ablation(
    forcing: TeacherForcing,
    pairs: Sequence[Pair],
    *,
    max_tokens: int = 4000,
    sums: Sums | None = None,
) -> dict[Head, float]:
    """How much the loss per target token grows with one head off, for every head.

    That takes 1 + H passes over the pairs.
    """

    def loss() -> float:
        return token_loss(forcing, pairs, max_tokens=max_tokens)

    heads = all_heads(running_heads(forcing))
    scores = AblatedScores()
    this_pass = (sums or Sums()).begin("ablation", [scores], unit="heads")
    scores.measure(forcing.model, heads, loss, pairs, this_pass)
    return {head: scores.without[head] - scores.whole for head in heads}


def bleu_ablation(
    translator: Translator,
    pairs: Sequence[Pair],
    bleu: BLEU,
    *,
    max_tokens: int = 4000,
    sums: Sums | None = None,
) -> dict[Head, float]:
    """How much BLEU falls with one head off, for every head: 1 + H times beam search."""
    references = [reference(pair, translator.reader) for pair in pairs]

    def score() -> float:
        translations = list(translator.translations(pairs, max_tokens=max_tokens))
        return bleu.corpus_score(translations, [references]).score

    heads = all_heads(head_counts(translator.model))
    scores = AblatedScores()
    this_pass = (sums or Sums()).begin("ablation-by-BLEU", [scores], unit="heads")
    scores.measure(translator.model, heads, score, pairs, this_pass)
    return {head: scores.whole - scores.without[head] for head in heads}


class AblatedScores:
    """Some score of a model, whole and with each head off."""

    KEPT = ("whole", "without")

    def __init__(self) -> None:
        self.whole = 0.0
        self.without: dict[Head, float] = {}

    def measure(
        self,
        model: nn.Module,
        heads: Sequence[Head],
        score: Callable[[], float],
        pairs: Sequence[Pair],
        this_pass: Pass,
    ) -> None:
        """Measures the model as it is, then without each head.

        Args:
            score: of the model as it is when this is called.
            pairs: what it is measured on.
        """

        def text(head: Head | None) -> bytes:
            return text_of(pairs) if head is None else str(head).encode()

        steps = [None, *heads]
        with bar(this_pass.title, total=this_pass.left(len(heads)), unit="heads") as shown:
            for head in this_pass.over(steps, text=text, size=_heads, progress=shown.update):
                if head is None:
                    self.whole = score()
                else:
                    with ablated(model, head):
                        self.without[head] = score()


def _heads(head: Head | None) -> int:
    return 0 if head is None else 1


@torch.no_grad()
def token_loss(forcing: TeacherForcing, pairs: Sequence[Pair], *, max_tokens: int = 4000) -> float:
    """Cross-entropy per target token, </s> included."""
    tokens = sum(len(pair.target.tokens) for pair in pairs)
    if tokens == 0:
        raise InputError("the loss needs target sentences; the corpus has none")
    loss = 0.0
    for numbered in numbered_batches(pairs, max_tokens=max_tokens):
        batch = [pair for _, pair in numbered]
        loss += losses(forcing, batch).double().sum().item()
    return loss / tokens


def importance(survey: Survey) -> dict[Head, float]:
    """See ``gradient_importance``."""
    max_tokens = survey.options.max_tokens
    return gradient_importance(
        survey.forcing, survey.pairs, max_tokens=max_tokens, sums=survey.sums
    )


def loss_ablation(survey: Survey) -> Finding:
    """See ``ablation``; on the first pairs only."""
    options = survey.options
    pairs = survey.pairs[: options.ablation or ABLATION_PAIRS]
    scores = ablation(survey.forcing, pairs, max_tokens=options.max_tokens, sums=survey.sums)
    return Finding(scores, settings={"ablation": len(pairs)})


def bleu_loss(survey: Survey) -> Finding:
    """See ``bleu_ablation``; on the first sentences only.

    The model is made ready for beam search, and cannot be aligned any more.
    """
    options = survey.options
    translator = Translator(survey.forcing.model, survey.reader, options.search)
    bleu = bleu_metric(options.tokenize)
    pairs = survey.pairs[: options.ablation_bleu or BLEU_SENTENCES]
    scores = bleu_ablation(translator, pairs, bleu, max_tokens=options.max_tokens, sums=survey.sums)
    return Finding(scores, settings={"ablation-bleu": f"{len(pairs)}-{options.tokenize}"})
