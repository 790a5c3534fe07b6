"""Recipes of translation models as data: options of data_prep/prepare.py and of fairseq-train."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Preset:
    """One recipe.

    Attributes:
        origin: where its numbers come from.
        prepare: the options of data_prep/prepare.py that fix the segmentation.
        train: the options of fairseq-train, but for data, languages, seed, device and folder.
        batches: how many batches make an update, on all GPUs together.
        checkpoint: the file of the training folder that counts.
        seeds: of the original runs.
        gpu: further options where there is a GPU.
    """

    origin: str
    prepare: str
    train: str
    batches: int = 1
    checkpoint: str = "checkpoint_best.pt"
    seeds: tuple[int, ...] = (1,)
    gpu: str = ""


# Six layers, 512 wide, 2048 in the feed-forward network, 8 heads: fairseq's `transformer`.
PRESETS = {
    "small": Preset(
        origin="the models of the README",
        prepare="--vocab-size 4000 --counted",
        train="""
            --arch transformer --share-all-embeddings --dropout 0.1
            --encoder-layers 3 --encoder-embed-dim 256
            --encoder-ffn-embed-dim 512 --encoder-attention-heads 4
            --decoder-layers 3 --decoder-embed-dim 256
            --decoder-ffn-embed-dim 512 --decoder-attention-heads 4
            --optimizer adam --adam-betas '(0.9, 0.98)'
            --lr 1.5e-3 --lr-scheduler inverse_sqrt --warmup-updates 800
            --criterion label_smoothed_cross_entropy --label-smoothing 0.1
            --max-tokens 1280 --max-update 8000
            --no-epoch-checkpoints --save-interval-updates 1000 --keep-interval-updates 2
        """,
        checkpoint="checkpoint_last.pt",
    ),
    "kobayashi": Preset(
        origin="Kobayashi et al. (2020), EMNLP, and their published script",
        prepare="--separate --vocab-size 10000 --no-dummy-prefix",
        # --eval-bleu-remove-bpe without a name takes off `@@ `, of which SentencePiece has none:
        # as in their script, the BLEU that chooses the checkpoint counts pieces.
        train="""
            --arch transformer_iwslt_de_en --activation-fn relu --dropout 0.1
            --optimizer adam --adam-betas '(0.9, 0.98)' --clip-norm 0 --weight-decay 0
            --lr 1e-3 --stop-min-lr 9e-8 --lr-scheduler inverse_sqrt
            --warmup-updates 4000 --warmup-init-lr 1e-7
            --criterion label_smoothed_cross_entropy --label-smoothing 0.1
            --batch-size 80 --max-tokens 4000 --max-epoch 100
            --skip-invalid-size-inputs-valid-test
            --eval-bleu --eval-tokenized-bleu --eval-bleu-detok moses --eval-bleu-remove-bpe
            --eval-bleu-args '{"beam": 5, "max_len_a": 1.2, "max_len_b": 10}'
            --best-checkpoint-metric bleu --maximize-best-checkpoint-metric
            --save-interval-updates 10000 --keep-last-epochs 5
        """,
        batches=16,  # an update of 8 batches on each of 2 GPUs
        seeds=(2253, 5498, 9819, 9240, 2453),
        gpu="--fp16",
    ),
    "kobayashi-arxiv": Preset(
        origin="Kobayashi et al. (2020), first arXiv version, Table 5",
        # The table leaves open segmentation, checkpoint and dropout: here as above, and fairseq's
        # best by loss and 0.1. It prints `transformer_lm` for the architecture, a slip.
        prepare="--separate --vocab-size 10000 --no-dummy-prefix",
        train="""
            --arch transformer
            --optimizer adam --adam-betas '(0.9, 0.98)' --weight-decay 1e-4
            --lr 5e-4 --lr-scheduler inverse_sqrt --warmup-updates 4000
            --criterion label_smoothed_cross_entropy --label-smoothing 0.1
            --max-tokens 4096 --max-epoch 40
            --skip-invalid-size-inputs-valid-test --keep-last-epochs 5
        """,
        batches=8,  # of 2¹² tokens: 2¹⁵
    ),
    "voita": Preset(
        origin="Voita et al. (2019), ACL, and their published script",
        prepare="--bpe subword_nmt --separate --vocab-size 32000 --counted",
        # Adam stands for their LazyAdam; there is no bias on source embeddings. The paper prints
        # 0.98 for β₂. They stop by hand, when the curve is flat: --max-update. The peak of their
        # learning rate is 4 · 16000^-½ · 512^-½.
        train="""
            --arch transformer --encoder-normalize-before --decoder-normalize-before
            --dropout 0.1 --attention-dropout 0.1 --activation-dropout 0.1
            --optimizer adam --adam-betas '(0.9, 0.998)'
            --lr 1.3975e-3 --lr-scheduler inverse_sqrt --warmup-updates 16000
            --criterion label_smoothed_cross_entropy --label-smoothing 0.1
            --max-source-positions 200 --max-target-positions 200
            --skip-invalid-size-inputs-valid-test
            --max-tokens 4000 --max-update 8000000
            --eval-bleu --eval-tokenized-bleu --eval-bleu-detok space --eval-bleu-remove-bpe
            --eval-bleu-args '{"beam": 4, "lenpen": 0.6}'
            --best-checkpoint-metric bleu --maximize-best-checkpoint-metric
            --no-epoch-checkpoints --save-interval-updates 2048 --keep-interval-updates 10
        """,
        batches=4,  # of 4,000 tokens: 16,000
        seeds=(42,),
    ),
}
