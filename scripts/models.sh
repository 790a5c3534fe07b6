# What train_nmt.py left in $FOLDER. To be sourced after setup.sh, with FOLDER and TEST set.
#
# SEEDS                 the seeds
# DIRECTIONS            the directions, the first one first: de-en en-de
# model DIRECTION SEED  sets CHECKPOINT, and CORPUS: the options of normalign for the text TEST.de, TEST.en

fail() { echo "$(basename "$0"): $*" >&2; exit 2; }

MODELS="$FOLDER/models.tsv"
[ -f "$MODELS" ] || fail "$MODELS: not found; expected a folder that train_nmt.py has finished"
SEEDS=($(awk -F '\t' 'NR > 1 && !seen[$1]++ { print $1 }' "$MODELS"))
DIRECTIONS=($(awk -F '\t' 'NR > 1 && !seen[$2 "-" $3]++ { print $2 "-" $3 }' "$MODELS"))
[ "${#SEEDS[@]}" -gt 0 ] || fail "$MODELS: no models; expected a line for each"

model() {
  local line source target checkpoint data bpe source_model target_model file=sentencepiece-model
  line=$(awk -F '\t' -v direction="$1" -v seed="$2" '$2 "-" $3 == direction && $1 == seed' "$MODELS")
  IFS=$'\t' read -r _ source target checkpoint data bpe source_model target_model <<< "$line"
  CHECKPOINT="$FOLDER/$checkpoint"
  [ -f "$CHECKPOINT" ] || fail "$CHECKPOINT: not found; expected the model of $1 with seed $2"
  [ "$bpe" = sentencepiece ] || file=bpe-codes
  CORPUS=("$FOLDER/$data" --source-lang "$source" --target-lang "$target"
    --source-file "$TEST.$source" --target-file "$TEST.$target" --bpe "$bpe"
    "--source-$file" "$FOLDER/$source_model" "--target-$file" "$FOLDER/$target_model")
}
