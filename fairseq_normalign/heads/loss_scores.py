"""What translation loses without a head: by the gradient of the loss, and with the head off."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from fairseq_normalign.attention.recorder import check_finite, evaluation_mode
from fairseq_normalign.attention.states import hooked
from fairseq_normalign.errors import InputError
from fairseq_normalign.heads.attention_pass import Tally
from fairseq_normalign.heads.evaluation import translation_metrics
from fairseq_normalign.heads.head_scores import ABLATION_PAIRS, BLEU_SENTENCES
from fairseq_normalign.heads.profile import Finding
from fairseq_normalign.heads.profiling import HeadMeasure, Items, Known, Pairs
from fairseq_normalign.host.attention_modules import (
    FairseqModule,
    Name,
    attentions,
    explicit_path,
    head_count,
    head_counts,
    head_numbers,
    layers_of,
    out_projection,
    projections,
    refuse_unsupported,
    stored_out_weight,
)
from fairseq_normalign.host.pairs import Pair
from fairseq_normalign.host.raw_corpus import ChunkReader
from fairseq_normalign.host.teacher_forcing import TeacherForcing, losses
from fairseq_normalign.host.translate import Translator, check_translates, reference
from fairseq_normalign.names import KINDS, Head
from fairseq_normalign.runs.chunks import Chunk


def finite_losses(forcing: TeacherForcing, pairs: list[Pair]) -> Tensor:
    """The loss of each pair, (B,); refuses pairs that are too long, and numbers that are none."""
    forcing.check_lengths(pairs)
    by_pair = losses(forcing, pairs)
    check_finite(by_pair.detach(), [pair.where for pair in pairs])
    return by_pair


class Importance(HeadMeasure):
    """I_h = mean over pairs of |∂L/∂ξ_h| at ξ = 1 (Michel et al., 2019).

    ξ_h multiplies the output of head h.

    ξ_h stands before W_O, so that ∂L/∂ξ_h = ⟨∂L/∂head_h, head_h⟩; L is the summed cross-entropy of
    the pair, so long pairs count more; ``LossAblation`` is per token. Pairs of a batch do not see
    each other: one backward pass gives the gradients of all. Not normalised by layer.
    """

    pairs_per_chunk = 200

    def add_batch(self, tally: Tally, models: ChunkReader, batch: list[Pair]) -> None:
        model = models.forcing.model
        counts = head_counts(model)
        with torch.enable_grad(), head_outputs(model) as outputs:
            total = finite_losses(models.forcing, batch).sum()
            gradients = torch.autograd.grad(total, list(outputs.values()))
        for (name, output), gradient in zip(outputs.items(), gradients, strict=True):
            products = output.detach().float() * gradient.float()  # (T, B, H·D)
            by_head = products.unflatten(2, (counts[name], -1)).sum((0, 3))  # (B, H)
            check_finite(by_head, [pair.where for pair in batch])
            tally.add_cases(self.score, name, by_head.abs().T.cpu())


@contextmanager
def head_outputs(model: nn.Module) -> Iterator[dict[Name, Tensor]]:
    """What goes into W_O of each attention in a forward pass, (T, B, H·D), by (kind, layer)."""
    outputs: dict[Name, Tensor] = {}
    by_name = attentions(model)
    names = {}
    for name, attention in by_name.items():
        refuse_unsupported(name, attention)
        names[out_projection(attention)] = name

    def keep(module, args, kwargs):
        outputs[names[module]] = args[0] if args[0].requires_grad else args[0].requires_grad_()

    on_explicit_path = explicit_path(by_name.values())  # on which W_O is called
    with evaluation_mode(model), on_explicit_path, hooked(names, before=keep):
        yield outputs


@contextmanager
def ablated(model: nn.Module, head: Head) -> Iterator[None]:
    """The model with one head off, its columns of W_O being zero.

    They are restored exactly, also after an error.

    Args:
        head: by the name that it had before others were removed.
    """
    attention = attentions(model)[head.kind, head.layer]
    by_head = stored_out_weight(attention).data.unflatten(1, (head_count(attention), -1))
    columns = by_head[:, head_numbers(attention).index(head.head)]  # (C, D), a view
    before = columns.clone()
    columns.zero_()
    try:
        yield
    finally:
        columns.copy_(before)


class LossAblation(HeadMeasure):
    """How much the loss per target token grows with one head off: 1 + H passes over the pairs."""

    def items(self, models: ChunkReader, items: Items) -> Items:
        return items[: self.options.ablation or ABLATION_PAIRS]

    def add_batch(self, tally: Tally, models: ChunkReader, batch: list[Pair]) -> None:
        tokens = sum(len(pair.target.tokens) for pair in batch)
        if tokens:
            tally.join("tokens.sum", [tokens])
            tally.join("losses.sum", losses_without_each(models.forcing, batch, tally.heads))

    def finding(self, tally: Tally) -> Finding:
        if "losses.sum" not in tally.arrays:
            raise InputError("the loss needs target sentences; the corpus has none")
        by_token = (tally.arrays["losses.sum"] / tally.arrays["tokens.sum"]).tolist()
        settings = {"ablation": int(tally.arrays["pairs.sum"][0])}
        return Finding(growth(tally.heads, by_token), settings)


@torch.no_grad()
def losses_without_each(
    forcing: TeacherForcing, batch: list[Pair], heads: Sequence[Head]
) -> list[float]:
    """The summed loss of a batch, then without each of the heads.

    What runs before W_O of a head is the same without it: later passes return what the first did.
    """
    model, by_name = forcing.model, attentions(forcing.model)
    outputs: dict[nn.Module, Any] = {}

    def keep(module, args, kwargs, output):
        outputs[module] = output

    def summed() -> float:
        return finite_losses(forcing, batch).double().sum().item()

    before_heads = {name: _before(model, *name) for name in by_name}
    with head_outputs(model) as of_heads:
        with hooked({*chain(*before_heads.values())}, after=keep):
            scores = [summed()]
        before_projection = dict(of_heads)
        for head in heads:
            name = head[:2]
            known = {module: outputs[module] for module in before_heads[name] if module in outputs}
            with ablated(model, head):
                projected = out_projection(by_name[name])(before_projection[name])
                known[by_name[name]] = projected, None
                with returning(known):
                    scores.append(summed())
    return scores


def _before(model: FairseqModule, kind: str, layer: int) -> list[FairseqModule]:
    """Modules that no head of an attention changes, as far as they cost time."""
    side = KINDS[kind].side
    layers = layers_of(getattr(model, side))
    modules = layers[:layer]
    if side == "decoder":
        modules.append(model.encoder)
        for (other, _), attention in attentions(model).items():
            if other == "cross":  # its keys and values are of the encoder's output
                modules += projections(attention)[1:]
    else:  # the decoder's first layer looks at the target before it looks at the source
        first = layers_of(getattr(model, "decoder", None))[:1]
        modules += [layer.self_attn for layer in first if not layer.cross_self_attention]
    if kind == "cross":
        modules.append(layers[layer].self_attn)
    return modules


@contextmanager
def returning(outputs: Mapping[nn.Module, Any]) -> Iterator[None]:
    """Modules that return something which is known, and are not run."""
    before = {module: vars(module).get("forward") for module in outputs}
    for module, output in outputs.items():
        module.forward = lambda *_, known=output, **__: known
    try:
        yield
    finally:
        for module, own in before.items():
            del module.forward
            if own is not None:  # as in fairseq's checkpoints of activations
                module.forward = own


def growth(heads: Sequence[Head], losses: Sequence[float]) -> dict[Head, float]:
    """How much larger the loss is without each head than that of the whole model, the first."""
    whole, *without = losses
    return {head: loss - whole for head, loss in zip(heads, without, strict=True)}


class BleuAblation(HeadMeasure):
    """How much BLEU falls with one head off, for every head: 1 + H times beam search.

    Partials hold references and translations.
    """

    def items(self, models: ChunkReader, items: Items) -> Items:
        return items[: self.options.ablation_bleu or BLEU_SENTENCES]

    def prepared(self, models: ChunkReader, first: Chunk) -> Known:
        check_translates(models.forcing.model)
        translation_metrics(self.options.tokenize)  # refuses what is no tokeniser
        return {}

    def add(self, tally: Tally, models: ChunkReader, pairs: Pairs) -> None:
        model = deepcopy(models.forcing.model)  # beam search changes the one that it runs
        translator = Translator(model, models.reader, self.options.search)

        def translations() -> list[str]:
            return list(translator.translations(pairs.values(), max_tokens=self.options.max_tokens))

        references = [reference(pair, models.reader) for pair in pairs.values()]
        columns = [references, translations()]
        for head in tally.heads:
            with ablated(model, head):
                columns.append(translations())
        tally.join("texts.rows", np.array(columns, dtype=np.str_).T)

    def finding(self, tally: Tally) -> Finding:
        if "texts.rows" not in tally.arrays:
            raise InputError("BLEU needs sentences to translate; all of them were skipped")
        bleu = translation_metrics(self.options.tokenize)["BLEU"]
        references, *translations = tally.arrays["texts.rows"].T.tolist()
        losses = [-bleu.corpus_score(texts, [references]).score for texts in translations]
        settings = {"ablation-bleu": f"{len(references)}-{self.options.tokenize}"}
        return Finding(growth(tally.heads, losses), settings)
