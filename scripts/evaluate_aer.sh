#!/usr/bin/env bash
# The tables of a paper from the models that train_nmt.py made: error rates of layers × methods, then of the
# alignments that extract_alignments.sh wrote, with means over the seeds.
#
# usage: evaluate_aer.sh FOLDER TEST GOLD [INDEX [OPTIONS]]
#   FOLDER   what train_nmt.py wrote, with models.tsv
#   TEST     the text TEST.de, TEST.en in the languages of the models, split into words
#   GOLD     gold links of these, in the order of the first direction
#   INDEX    number of the first word in GOLD: 0 (the default) or 1
#   OPTIONS  of normalign align, as --cpu
# Writes FOLDER/aer/: what it prints, and de-en.json and so on.
. "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
[ $# -ge 3 ] || { echo "usage: evaluate_aer.sh FOLDER TEST GOLD [INDEX [OPTIONS]]" >&2; exit 2; }
FOLDER=$1 TEST=$2 GOLD=$3 INDEX=${4:-0}
shift $(($# < 4 ? $# : 4))
. "$ROOT/scripts/models.sh"
FORWARD=${DIRECTIONS[0]}
[ -d "$FOLDER/alignments" ] || fail "$FOLDER/alignments: not found; expected that extract_alignments.sh has run"
OUT="$FOLDER/aer"
mkdir -p "$OUT"

for direction in "${DIRECTIONS[@]}"; do
  say "$direction: alignment error rate of every layer, seeds ${SEEDS[*]}"
  PATHS=()
  for seed in "${SEEDS[@]}"; do
    model "$direction" "$seed"
    PATHS+=("$CHECKPOINT")
  done
  TABLE=(--gold "$GOLD" --gold-index "$INDEX" -o "$OUT/$direction.json")
  [ "$direction" = "$FORWARD" ] || TABLE+=(--reverse-gold)
  normalign methods "${CORPUS[@]}" --path "${PATHS[@]}" "${TABLE[@]}" "$@" | tee "$OUT/$direction.txt"
done

# AER of one alignment for each seed, their mean and sample deviation; further arguments go to normalign aer.
score() {
  local files=() seed
  for seed in "${SEEDS[@]}"; do files+=("$FOLDER/alignments/seed$seed/$1"); done
  normalign aer "$GOLD" --gold-index "$INDEX" "${@:2}" -i "${files[@]}" -b -w 6 | awk -v name="$1" '
    { value[NR] = $1; sum += $1; line = line sprintf(" %6.1f", $1) }
    END {
      mean = sum / NR
      for (i = 1; i <= NR; i++) squares += (value[i] - mean) ^ 2
      printf "%-22s%s   mean %5.1f", name, line, mean
      if (NR > 1) printf " ±%.1f", sqrt(squares / (NR - 1))
      print ""
    }'
}

say "Alignments: AER of seeds ${SEEDS[*]}"
for direction in "${DIRECTIONS[@]}"; do
  for method in weights norms; do
    if [ "$direction" = "$FORWARD" ]; then score "$direction.$method"; else score "$direction.$method" --reverse-gold; fi
  done
done > "$OUT/alignments.txt"
SYSTEMS=(product learned)
[ "${#DIRECTIONS[@]}" -lt 2 ] || SYSTEMS=(intersection grow-diag-final-and product learned)
for system in "${SYSTEMS[@]}"; do score "$system"; done >> "$OUT/alignments.txt"
cat "$OUT/alignments.txt"
