#!/usr/bin/env bash
# Trains three tiny models of one text: translation, language and masked language model, each of 4 layers, 128 wide, 4 heads.
# All read the same sentences of the source language, in the same pieces. Then shows how their representations evolve.
#
# usage: train_three.sh [OUT [DATA SOURCE TARGET]]
#   OUT     where everything goes (default: three/ in the clone)
#   DATA    data that fairseq-preprocess wrote, of languages SOURCE and TARGET (default: an invented corpus that is made here)
# UPDATES=N sets how long each is trained (default: 1500), about five minutes of one core for each.
. "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
OUT=$(mkdir -p "${1:-$ROOT/three}" && cd "${1:-$ROOT/three}" && pwd)
UPDATES=${UPDATES:-1500}
SOURCE=${3:-src}
TARGET=${4:-tgt}
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}

if [ $# -ge 2 ]; then
  DATA=$(cd "$2" && pwd)
else
  DATA="$OUT/corpus/data-bin"
  if [ ! -e "$DATA/test.src-tgt.src.bin" ]; then
    say "Generating a corpus of two invented languages, splitting it into pieces and binarising it"
    python "$ROOT/data_prep/synthetic.py" "$OUT/corpus"
    python "$ROOT/data_prep/prepare.py" "$OUT/corpus" "$OUT/corpus"
  fi
fi

# One folder for all three: a language model looks for dict.txt and train.bin, a translation model for dict.SOURCE.txt and so on.
mkdir -p "$OUT/data"
ln -sf "$DATA"/dict.*.txt "$DATA"/{train,valid}."$SOURCE-$TARGET".* "$OUT/data/"
ln -sf "$DATA/dict.$SOURCE.txt" "$OUT/data/dict.txt"
for split in train valid; do
  for ending in bin idx; do
    ln -sf "$DATA/$split.$SOURCE-$TARGET.$SOURCE.$ending" "$OUT/data/$split.$ending"
  done
done

ENCODER=(--encoder-layers 4 --encoder-embed-dim 128 --encoder-ffn-embed-dim 256 --encoder-attention-heads 4)
DECODER=(--decoder-embed-dim 128 --decoder-ffn-embed-dim 256 --decoder-attention-heads 4)
ALIKE=(--dropout 0.1 --activation-fn relu --optimizer adam --adam-betas '(0.9, 0.98)' --clip-norm 1
  --lr 2e-3 --lr-scheduler inverse_sqrt --warmup-updates 300 --max-tokens 1000 --max-update "$UPDATES" --seed 1
  --disable-validation --no-epoch-checkpoints --cpu --log-format simple --log-interval 100)

train() { # NAME, options
  if [ -e "$OUT/$1.pt" ]; then return; fi
  say "Training the $1 model (log: $OUT/$1.log)"
  fairseq-train "$OUT/data" --user-dir "$ROOT/fairseq_normalign" --save-dir "$OUT/$1" "${ALIKE[@]}" "${@:2}" 2>&1 | tee "$OUT/$1.log" |
    sed -unE 's/.*train_inner.* ppl=([0-9.]+),.* num_updates=([0-9]+),.*/update \2: perplexity \1/p' ||
    { tail -n 20 "$OUT/$1.log"; exit 1; } >&2
  mv "$OUT/$1/checkpoint_last.pt" "$OUT/$1.pt"
  rm -r "${OUT:?}/$1"
}

# One matrix of embeddings needs one dictionary for both languages.
EMBEDDINGS=(--share-decoder-input-output-embed)
if cmp -s "$OUT/data/dict.$SOURCE.txt" "$OUT/data/dict.$TARGET.txt"; then EMBEDDINGS=(--share-all-embeddings); fi

train translation --task translation --source-lang "$SOURCE" --target-lang "$TARGET" --arch transformer \
  "${ENCODER[@]}" "${DECODER[@]}" --decoder-layers 2 "${EMBEDDINGS[@]}" \
  --criterion label_smoothed_cross_entropy --label-smoothing 0.1
train language --task language_modeling --sample-break-mode eos --tokens-per-sample 512 --arch transformer_lm \
  "${DECODER[@]}" --decoder-layers 4 --decoder-input-dim 128 --decoder-output-dim 128 --share-decoder-input-output-embed
train masked --task masked_lm --sample-break-mode eos --tokens-per-sample 512 --arch roberta \
  "${ENCODER[@]}" --max-positions 512 --criterion masked_lm

say "How their representations evolve"
normalign evolution "$OUT/data" --path "$OUT"/{translation,language,masked}.pt --gen-subset train --cpu \
  --output "$OUT/evolution.json" --plot "$OUT/evolution.png" | tee "$OUT/evolution.txt"
echo "$OUT/evolution.png"
