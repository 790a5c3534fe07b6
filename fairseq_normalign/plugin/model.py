"""``transformer_normalign``: fairseq's Transformer that exports what its attentions add up."""

from __future__ import annotations

from functools import partial
from typing import Collection

from fairseq.models import register_model, register_model_architecture
from fairseq.models.transformer import TransformerModel
from fairseq.models.transformer import transformer_legacy as fairseq_sizes

from fairseq_normalign.plugin.recorder import attentions, record


# Registered the legacy way, without a dataclass: Hydra fails to parse one derived from TransformerConfig.
@register_model("transformer_normalign")
class NormalignTransformer(TransformerModel):
    """A Transformer with the parameters and options of fairseq's ``transformer``: their checkpoints fit each other."""

    def forward(
        self,
        src_tokens,
        src_lengths,
        prev_output_tokens,
        return_all_hiddens: bool = True,
        features_only: bool = False,
        alignment_layer: int | None = None,
        alignment_heads: int | None = None,
        export: Collection[str] = (),
    ):
        """As fairseq's, with what attentions did in the second output if ``export`` names their kinds.

        For each kind (``encoder``, ``decoder``, ``cross``), a list with an entry for each layer:
        ``extra["attentions"][kind]`` holds weights α (B, H, T, S), ``extra["norms"][kind]`` the
        :class:`~fairseq_normalign.norms.contributions.Norms`; None for a layer that layerdrop left out. Gradients pass,
        so that a criterion may use them.
        """
        run = partial(
            super().forward,
            src_tokens,
            src_lengths,
            prev_output_tokens,
            return_all_hiddens=return_all_hiddens,
            features_only=features_only,
            alignment_layer=alignment_layer,
            alignment_heads=alignment_heads,
        )
        if not export:
            return run()
        with record(self, export, detach=False) as recording:
            logits, extra = run()
        found = {kind: [recording.get(name) for name in attentions(self) if name[0] == kind] for kind in export}
        for entry, attribute in (("attentions", "weights"), ("norms", "norms")):
            extra[entry] = {
                kind: [getattr(layer, attribute, None) for layer in layers] for kind, layers in found.items()
            }
        return logits, extra


def tiny(args) -> None:
    """3+3 layers, 128 wide, 4 heads: learns a toy language in minutes on a CPU."""
    for side in ("encoder", "decoder"):
        for option, value in (("embed_dim", 128), ("ffn_embed_dim", 256), ("layers", 3), ("attention_heads", 4)):
            name = f"{side}_{option}"
            setattr(args, name, getattr(args, name, value))
    fairseq_sizes.base_architecture(args)


for _suffix, _architecture in {
    "": fairseq_sizes.base_architecture,
    "_iwslt_de_en": fairseq_sizes.transformer_iwslt_de_en,
    "_wmt_en_de": fairseq_sizes.transformer_wmt_en_de,
    "_big": fairseq_sizes.transformer_wmt_en_de_big,
    "_tiny": tiny,
}.items():
    register_model_architecture("transformer_normalign", f"transformer_normalign{_suffix}")(_architecture)
