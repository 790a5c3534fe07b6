"""``transformer_normalign``: fairseq's Transformer with gates, removed heads and exports."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from fairseq.models import register_model, register_model_architecture
from fairseq.models.transformer import TransformerDecoder, TransformerModel
from fairseq.models.transformer import transformer_legacy as fairseq_sizes
from torch import nn

from fairseq_normalign.attention.quantities import QUANTITIES
from fairseq_normalign.attention.recorder import record
from fairseq_normalign.errors import InputError
from fairseq_normalign.heads.head_scores import CLOSE_RULES
from fairseq_normalign.host.attention_modules import attentions
from fairseq_normalign.host.checkpoint import read
from fairseq_normalign.names import KINDS, parse_kinds
from fairseq_normalign.options import declare
from fairseq_normalign.plugin.gating import INITIAL, LR_SCALE, gate_heads
from fairseq_normalign.plugin.pruned import alive_heads, remove_heads, start_of_training

Layers = int | Collection[int] | None
Asked = str | Collection[str] | Mapping[str, Layers]  # quantities of a kind, or their layers
EXPORT = '{"cross": ["weights", "vectors"]} or {"cross": {"vectors": -1}}'


@contextmanager
def exported(model: nn.Module, export: Mapping[str, Asked]) -> Iterator[dict[str, dict[str, list]]]:
    """What ``export`` names, of a forward pass in this context, with gradients.

    Yields:
        name → kind → an entry for each layer, None where nothing was asked for or recorded. It is
        filled when the context ends.
    """
    if not isinstance(export, Mapping):
        raise InputError(f"export={export!r}: use a dict, as in {EXPORT}")
    counts = Counter(kind for kind, _ in attentions(model))  # layers
    wanted: dict[tuple[str, str], list[int]] = {}  # layers from 0, by quantity and kind
    for kind, asked in export.items():
        if kind not in counts:
            raise InputError(
                f"export: {type(model).__name__} has no {kind!r} attention; it has: "
                f"{', '.join(counts)}"
            )
        by_name = asked if isinstance(asked, Mapping) else dict.fromkeys(_listed(asked))
        for name, layers in by_name.items():
            if name not in QUANTITIES:
                raise InputError(
                    f"export: unknown quantity {name!r} of {kind} attention; known: "
                    f"{', '.join(QUANTITIES)}"
                )
            wanted[name, kind] = _layers(kind, layers, counts[kind])
    kinds = {kind for _, kind in wanted}
    needed = set(chain(*wanted.values()))  # no more layers than are wanted
    values = any(QUANTITIES[name].needs_values for name, _ in wanted)
    results: dict[str, dict[str, list]] = {}
    with record(model, kinds, layers=needed, values=values, detach=False) as recording:
        yield results
    for (name, kind), layers in wanted.items():
        by_layer = [None] * counts[kind]
        for layer in layers:
            recorded = recording.get((kind, layer))
            if recorded is not None:  # layerdrop may have left it out
                by_layer[layer] = QUANTITIES[name].compute(recorded)
        results.setdefault(name, {})[kind] = by_layer


def _layers(kind: str, layers: Layers, count: int) -> list[int]:
    """Indices as Python's lists have them, -1 being the last of ``count``, from 0; None: all."""
    numbers = range(count) if layers is None else _listed(layers)
    for layer in numbers:
        if not (isinstance(layer, int) and -count <= layer < count):
            raise InputError(
                f"export: no layer {layer!r} of {kind} attention; its layers are 0 to {count - 1}, "
                "and -1 is the last one"
            )
    return [layer % count for layer in numbers]


def _listed(names: Any) -> Collection[Any]:
    """One name or number as a list of one."""
    return [names] if isinstance(names, str | int) else names


GATES = f"""
--gate-heads KINDS    gates on the heads of encoder, decoder (self-attention) and cross
                      (source–target), or some of them, with commas between; or all
--gate-init X = {INITIAL}  log α of a gate at first (default: %(default)s)
--gate-lr-scale X = {LR_SCALE}  how many times the learning rate gates have (default: %(default)s)
--close-rule {"|".join(CLOSE_RULES)} = {CLOSE_RULES[0]}
    a gate is closed if its value is 0 (value), or if log α < 0 (paper) (default: %(default)s)
"""
DECODER = """
--freeze encoder|decoder  do not train what this side alone has
--logits-bias         a bias for each type of the target
--start-with-bos      the decoder reads <s> first, not </s>
"""


# Registered the legacy way, without a dataclass: Hydra fails to parse one derived from
# TransformerConfig.
@register_model("transformer_normalign")
class NormalignTransformer(TransformerModel):
    """A Transformer with the parameters and options of fairseq's ``transformer``.

    Checkpoints of the two fit each other.
    """

    @classmethod
    def add_args(cls, parser):
        super().add_args(parser)
        allow_swish(parser)
        declare(parser, GATES, gate_init=float, gate_lr_scale=float)
        parser.add_argument(
            "--alive-heads",
            # fairseq leaves out what has no default; checkpoints of other models lack it, too
            default=None,
            metavar="HEADS",
            help="build these heads alone, as in 'encoder.1.3 cross.2.1', or those of the "
            "checkpoint of this name (default: those of the checkpoint that --finetune-from-model "
            "or --restore-file names)",
        )
        declare(parser, DECODER)

    @classmethod
    def build_decoder(cls, args, tgt_dict, embed_tokens):
        if getattr(args, "logits_bias", False) or getattr(args, "start_with_bos", False):
            return MarianDecoder(args, tgt_dict, embed_tokens)
        return super().build_decoder(args, tgt_dict, embed_tokens)

    @classmethod
    def build_model(cls, args, task):
        model = super().build_model(args, task)
        args.alive_heads = alive_heads(args, model)
        remove_heads(model, args.alive_heads)
        kinds = parse_kinds("--gate-heads", getattr(args, "gate_heads", None))
        if kinds:
            gate_heads(
                model,
                kinds,
                initial=getattr(args, "gate_init", INITIAL),
                lr_scale=getattr(args, "gate_lr_scale", LR_SCALE),
                close_rule=getattr(args, "close_rule", CLOSE_RULES[0]),
            )
        side = getattr(args, "freeze", None)
        if side:
            frozen = sorted({kind for kind in kinds if KINDS[kind].side == side})
            if frozen:
                raise InputError(f"--freeze {side}: gates of {', '.join(frozen)} would never close")
            freeze(model, side)
        return model

    def forward(
        self,
        src_tokens,
        src_lengths,
        prev_output_tokens,
        *,
        export: Mapping[str, Asked] | None = None,
        **more,
    ):
        """As fairseq's, with what attentions did in the second output, if ``export`` says so.

        ``export={"cross": ["weights", "vectors"]}`` names quantities of kinds of attention, those
        of ``attention.quantities`` and of ``KINDS``: ``extra["vectors"]["cross"][layer]`` is then a
        tensor, (B, T, S, C). Lists have an entry for each layer. Vectors are large: in
        ``export={"cross": {"weights": None, "vectors": [-1]}}``, they are built for the last layer
        alone, and the others are None; so is a layer that layerdrop left out.

        Gradients pass, so that a criterion may use them. Weights are those before dropout.
        """
        if not export:
            return super().forward(src_tokens, src_lengths, prev_output_tokens, **more)
        with exported(self, export) as results:
            logits, extra = super().forward(src_tokens, src_lengths, prev_output_tokens, **more)
        extra.update(results)
        return logits, extra


class MarianDecoder(TransformerDecoder):
    """fairseq's decoder with Marian's ends: it may begin with <s>, and have a bias for each type.

    fairseq's tasks and searches begin with </s>, wherever they come from. It is read here as <s>:
    a target has no other </s> than its first one, as that at the end is never read.
    """

    def __init__(self, args, dictionary, embed_tokens):
        super().__init__(args, dictionary, embed_tokens)
        self.eos, self.bos = dictionary.eos(), dictionary.bos()
        self.starts_with_bos = getattr(args, "start_with_bos", False)
        self.logits_bias = None
        if getattr(args, "logits_bias", False):
            self.logits_bias = nn.Parameter(torch.zeros(len(dictionary)))

    def extract_features(self, prev_output_tokens, *args, **kwargs):
        if self.starts_with_bos:
            is_start = prev_output_tokens.eq(self.eos)
            prev_output_tokens = prev_output_tokens.masked_fill(is_start, self.bos)
        return super().extract_features(prev_output_tokens, *args, **kwargs)

    def output_layer(self, features):
        logits = super().output_layer(features)
        return logits if self.logits_bias is None else logits + self.logits_bias


def allow_swish(parser: ArgumentParser) -> None:
    """Lets --activation-fn be swish, which fairseq has, but not among its choices."""
    for action in parser._actions:
        if action.dest == "activation_fn" and "swish" not in (action.choices or ["swish"]):
            action.choices = [*(action.choices or []), "swish"]


def freeze(model: TransformerModel, side: str) -> None:
    """Stops the training of all parameters that one side does not share with the other."""
    other = {"encoder": "decoder", "decoder": "encoder"}[side]
    shared = set(getattr(model, other).parameters())
    for parameter in getattr(model, side).parameters():
        parameter.requires_grad_(parameter in shared)


def tiny(args) -> None:
    """3+3 layers, 128 wide, 4 heads: learns a toy language in minutes on a CPU."""
    sizes = {"embed_dim": 128, "ffn_embed_dim": 256, "layers": 3, "attention_heads": 4}
    for side in ("encoder", "decoder"):
        for option, size in sizes.items():
            name = f"{side}_{option}"
            setattr(args, name, getattr(args, name, size))
    fairseq_sizes.base_architecture(args)


# Options that say which parameters a model has and what it computes, which every architecture sets.
SIDED = (
    *("embed_dim", "ffn_embed_dim", "layers", "attention_heads"),
    *("normalize_before", "learned_pos"),
)
BUILT = (
    *(f"{side}_{name}" for side in ("encoder", "decoder") for name in SIDED),
    *("decoder_input_dim", "decoder_output_dim", "activation_fn", "layernorm_embedding"),
    *("share_all_embeddings", "share_decoder_input_output_embed", "merge_src_tgt_embed"),
    *("no_scale_embedding", "no_token_positional_embeddings", "adaptive_input"),
    *("adaptive_softmax_cutoff", "tie_adaptive_weights"),
    *("no_cross_attention", "cross_self_attention"),
)
# The same, which an architecture may leave open.
PERHAPS = (
    *("max_source_positions", "max_target_positions", "adaptive_softmax_factor"),
    *("no_decoder_final_norm", "logits_bias", "start_with_bos"),
)


def as_fine_tuned(sizes: Callable[[Namespace], None], args: Namespace) -> None:
    """Sizes that were not given: those of the model that is fine-tuned, or the architecture's."""
    is_open = not all(hasattr(args, name) for name in BUILT)  # unlike in a checkpoint
    if is_open and getattr(args, "finetune_from_model", None):
        take_sizes(args, start_of_training(args))
    sizes(args)


def take_sizes(args: Namespace, path: str | None) -> None:
    """Fills in what was not given from the options of a checkpoint, if it is there."""
    if path is None or not Path(path).is_file():  # which fairseq tells
        return
    _, stored = read(path)
    for name in (*BUILT, *PERHAPS):
        if hasattr(stored, name) and not hasattr(args, name):
            setattr(args, name, getattr(stored, name))


ARCHITECTURES = {
    "transformer_normalign": fairseq_sizes.base_architecture,
    "transformer_normalign_iwslt_de_en": fairseq_sizes.transformer_iwslt_de_en,
    "transformer_normalign_wmt_en_de": fairseq_sizes.transformer_wmt_en_de,
    "transformer_normalign_big": fairseq_sizes.transformer_wmt_en_de_big,
    "transformer_normalign_tiny": tiny,
}
for _name, _sizes in ARCHITECTURES.items():
    register_model_architecture("transformer_normalign", _name)(partial(as_fine_tuned, _sizes))
