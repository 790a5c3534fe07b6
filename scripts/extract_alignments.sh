#!/usr/bin/env bash
# Word alignments of a test set by every model that train_nmt.py made, and by both directions together.
#
# usage: extract_alignments.sh FOLDER TEST [OPTIONS]
#   FOLDER   what train_nmt.py wrote, with models.tsv
#   TEST     the text TEST.de, TEST.en in the languages of the models, split into words
#   OPTIONS  of normalign align, as --cpu
# Writes FOLDER/alignments/seed1/ and so on: de-en.weights, de-en.norms and their reverses en-de.…, each with the
# source word of its model first, counted from 0; intersection and grow-diag-final-and of the norms of both
# directions; product and learned, the evidence of the models of the seed combined. Layers are chosen without gold.
. "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
[ $# -ge 2 ] || { echo "usage: extract_alignments.sh FOLDER TEST [OPTIONS]" >&2; exit 2; }
FOLDER=$1 TEST=$2
shift 2
. "$ROOT/scripts/models.sh"
FORWARD=${DIRECTIONS[0]} REVERSE=${DIRECTIONS[1]:-}

for seed in "${SEEDS[@]}"; do
  OUT="$FOLDER/alignments/seed$seed"
  mkdir -p "$OUT"
  say "Seed $seed, to $OUT"
  for direction in "${DIRECTIONS[@]}"; do
    model "$direction" "$seed"
    for method in weights norms; do
      normalign align "${CORPUS[@]}" --path "$CHECKPOINT" "$@" --combine none --method $method --output "$OUT/$direction.$method"
    done
  done
  model "$FORWARD" "$seed"
  MODELS_OF_SEED=(--path "$CHECKPOINT")
  if [ -n "$REVERSE" ]; then
    for heuristic in intersection grow-diag-final-and; do
      normalign symmetrize "$OUT/$FORWARD.norms" "$OUT/$REVERSE.norms" --heuristic $heuristic -o "$OUT/$heuristic"
    done
    model "$REVERSE" "$seed"
    MODELS_OF_SEED+=(--reverse-path "$CHECKPOINT")
    model "$FORWARD" "$seed"
  fi
  for combination in product learned; do
    normalign align "${CORPUS[@]}" "${MODELS_OF_SEED[@]}" "$@" --combine $combination --output "$OUT/$combination"
  done
done
