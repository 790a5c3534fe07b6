#!/usr/bin/env bash
# The main job on a corpus that it makes itself: generate, preprocess, train, align, score, draw.
# Writes to demo/ in the clone (or to the folder given as argument); about five minutes on two cores.
. "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
OUT=$(mkdir -p "${1:-$ROOT/demo}" && cd "${1:-$ROOT/demo}" && pwd)
PLUGIN="$ROOT/fairseq_normalign"

if [ ! -e "$OUT/corpus/data-bin/test.src-tgt.src.bin" ]; then
  say "Generating a corpus of two invented languages with gold alignments"
  python "$ROOT/data_prep/synthetic.py" "$OUT/corpus"
  say "Splitting it into pieces and binarising it"
  python "$ROOT/data_prep/prepare.py" "$OUT/corpus" "$OUT/corpus"
fi
paste -d '\n' <(sed -n 1,3p "$OUT/corpus/test.src") <(sed -n 1,3p "$OUT/corpus/test.tgt") <(sed -n 1,3p "$OUT/corpus/test.talp")

if [ ! -e "$OUT/model/checkpoint_last.pt" ]; then
  say "Training transformer_normalign_tiny: 3+3 layers, 128 wide, 4 heads (log: $OUT/train.log)"
  fairseq-train "$OUT/corpus/data-bin" --user-dir "$PLUGIN" --arch transformer_normalign_tiny --share-all-embeddings \
    --criterion label_smoothed_cross_entropy --label-smoothing 0.1 --dropout 0 \
    --optimizer adam --adam-betas '(0.9, 0.98)' --lr 3e-3 --lr-scheduler inverse_sqrt --warmup-updates 300 \
    --max-tokens 1000 --max-update 1700 --seed 1 --cpu --save-dir "$OUT/training" \
    --no-epoch-checkpoints --log-format simple --log-interval 100 2>&1 | tee "$OUT/train.log" |
    sed -unE 's/.*train_inner.* ppl=([0-9.]+),.* num_updates=([0-9]+),.*/update \2 of 1700: perplexity \1/p' ||
    { tail -n 20 "$OUT/train.log"; exit 1; } >&2
  mv "$OUT/training" "$OUT/model"
fi

CORPUS=("$OUT/corpus/data-bin" --path "$OUT/model/checkpoint_last.pt" --gen-subset test --remove-bpe sentencepiece --cpu)

say "Alignment error rate of every layer, by attention weights and by vector norms"
normalign align "${CORPUS[@]}" --all --gold "$OUT/corpus/test.talp" --json "$OUT/aer.json" | tee "$OUT/aer.txt"

say "One alignment, its layer chosen without gold, and its score"
normalign align "${CORPUS[@]}" --output "$OUT/test.pharaoh"
normalign aer "$OUT/corpus/test.talp" -i "$OUT/test.pharaoh" --confidence

say "One sentence pair, gold framed"
normalign plot "${CORPUS[@]}" --line 1 --gold "$OUT/corpus/test.talp" --output "$OUT/pair.png"
echo "$OUT/pair.png"
