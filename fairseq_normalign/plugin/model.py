"""``transformer_normalign``: fairseq's Transformer that exports what its attentions add up."""

from __future__ import annotations

from fairseq.models import register_model, register_model_architecture
from fairseq.models.transformer import TransformerModel
from fairseq.models.transformer import transformer_legacy as fairseq_sizes


# Registered the legacy way, without a dataclass: Hydra fails to parse one derived from TransformerConfig.
@register_model("transformer_normalign")
class NormalignTransformer(TransformerModel):
    """A Transformer with the parameters and options of fairseq's ``transformer``: their checkpoints fit each other."""


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
