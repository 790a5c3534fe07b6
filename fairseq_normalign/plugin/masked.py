"""``bert_normalign``: BERT as a fairseq model, and the task whose dictionary has its names."""

from __future__ import annotations

from pathlib import Path

from fairseq import utils
from fairseq.data import Dictionary
from fairseq.models import register_model, register_model_architecture
from fairseq.models.roberta import RobertaEncoder, RobertaModel
from fairseq.models.roberta.model import base_architecture
from fairseq.models.transformer import TransformerEncoder
from fairseq.modules.transformer_sentence_encoder import init_bert_params
from fairseq.tasks import register_task
from fairseq.tasks.masked_lm import MaskedLMConfig, MaskedLMTask
from torch import Tensor, nn

from fairseq_normalign.errors import InputError
from fairseq_normalign.options import declare

EPSILON = 1e-12  # of BERT's LayerNorm; fairseq's RoBERTa has 1e-5
SEGMENTS = 2


def segment_ids(tokens: Tensor, separator: int, segments: int) -> Tensor:
    """The passage of each token, (B, S): 0 up to the first separator, itself included, then 1.

    Padding has a number, too, but no token looks at it.
    """
    before = tokens.eq(separator).cumsum(dim=1) - tokens.eq(separator).long()
    return before.clamp(max=segments - 1)


class SegmentedEncoder(TransformerEncoder):
    """fairseq's encoder with an embedding more: of the passage that a token is in."""

    def __init__(self, args, dictionary, embed_tokens):
        super().__init__(args, dictionary, embed_tokens)
        self.separator = dictionary.eos()
        self.embed_segments = nn.Embedding(args.segments, args.encoder_embed_dim)

    def forward_embedding(self, src_tokens, token_embedding=None):
        if token_embedding is None:
            token_embedding = self.embed_tokens(src_tokens)
        ids = segment_ids(src_tokens, self.separator, self.embed_segments.num_embeddings)
        return super().forward_embedding(src_tokens, token_embedding + self.embed_segments(ids))


class BertEncoder(RobertaEncoder):
    """RoBERTa's encoder with segments, another ε, and perhaps without a head that guesses words."""

    def __init__(self, args, dictionary):
        super().__init__(args, dictionary)
        for module in self.modules():
            if hasattr(module, "eps") and hasattr(module, "normalized_shape"):  # also apex's
                module.eps = args.layer_norm_eps

    def build_encoder(self, args, dictionary, embed_tokens):
        if not args.segments:
            return super().build_encoder(args, dictionary, embed_tokens)
        encoder = SegmentedEncoder(args, dictionary, embed_tokens)
        encoder.apply(init_bert_params)
        return encoder

    def build_lm_head(self, embed_dim, output_dim, activation_fn, weight):
        if self.args.without_lm_head:
            return None
        return super().build_lm_head(embed_dim, output_dim, activation_fn, weight)

    def output_layer(self, features, masked_tokens=None, **unused):
        if self.lm_head is None:
            raise InputError(
                "the model was imported without a head that predicts words: use features_only"
            )
        return super().output_layer(features, masked_tokens)


OPTIONS = f"""
--layer-norm-eps X    ε of all LayerNorms (default: {EPSILON})
--segments N          how many kinds of passages have an embedding (default: {SEGMENTS})
--without-lm-head     no head that guesses words
"""


@register_model("bert_normalign")
class BertModel(RobertaModel):
    """BERT with the parameters and names of fairseq's RoBERTa; ``normalign import`` makes it."""

    @classmethod
    def add_args(cls, parser):
        RobertaModel.add_args(parser)
        declare(parser, OPTIONS, layer_norm_eps=float, segments=int)

    @classmethod
    def build_model(cls, args, task):
        bert_architecture(args)
        if getattr(args, "max_positions", None) is None:
            args.max_positions = getattr(args, "tokens_per_sample", None) or task.max_positions()
        return cls(args, BertEncoder(args, task.source_dictionary))


@register_model_architecture("bert_normalign", "bert_normalign")
def bert_architecture(args) -> None:
    """BERT-base, where nothing else is said."""
    args.layer_norm_eps = utils.safe_getattr(args, "layer_norm_eps", EPSILON)
    args.segments = utils.safe_getattr(args, "segments", SEGMENTS)
    args.without_lm_head = utils.safe_getattr(args, "without_lm_head", False)
    base_architecture(args)


class BertDictionary(Dictionary):
    """fairseq's dictionary with BERT's names: [CLS] for <s>, [SEP] for </s>, [MASK] for <mask>."""

    def __init__(self) -> None:
        super().__init__(bos="[CLS]", pad="[PAD]", eos="[SEP]", unk="[UNK]")

    def add_symbol(self, word, n=1, overwrite=False):
        word = "[MASK]" if word == "<mask>" else word  # fairseq's task adds it
        return super().add_symbol(word, n, overwrite)


@register_task("masked_lm_normalign", dataclass=MaskedLMConfig)
class BertTask(MaskedLMTask):
    """fairseq's ``masked_lm`` with BERT's special tokens."""

    separators = 1  # between two passages; RoBERTa has 2

    @classmethod
    def setup_task(cls, cfg, **kwargs):
        folder = utils.split_paths(cfg.data)[0]
        dictionary = BertDictionary()
        dictionary.add_from_file(str(Path(folder) / "dict.txt"))
        return cls(cfg, dictionary)
