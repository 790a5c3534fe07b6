#!/usr/bin/env bash
# Real German–English data: 508 pairs with gold alignments (Vilar et al., 2006), and two models, one for each direction.
# Prints the error rate of every layer, of the two directions together, and what each ingredient of the best is worth.
#
# usage: real_deen.sh [DATA [CHECKPOINTS]]
#   DATA         holds deen/{test.de,test.en,test.talp,spm.model} (default: $NORMALIGN_DATA)
#   CHECKPOINTS  what train_nmt.py wrote (its first seed is taken); or a folder with deen.pt, ende.pt and dict.txt, their
#                joint dictionary (default: $NORMALIGN_CHECKPOINTS, else the folder checkpoints beside DATA)
# Writes to real_deen/ in the clone; about five minutes on two cores.
. "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
DATA=${1:-${NORMALIGN_DATA:-}}
if [ -z "$DATA" ]; then
  echo "real_deen.sh: name the data folder as an argument or in NORMALIGN_DATA" >&2
  exit 2
fi
CHECKPOINTS=${2:-${NORMALIGN_CHECKPOINTS:-$DATA/../checkpoints}}
need() {
  local file
  for file; do [ -f "$file" ] || { echo "real_deen.sh: $file is missing" >&2; exit 2; }; done
}

OUT="$ROOT/real_deen"
need "$DATA"/deen/test.{de,en,talp}
[ -f "$CHECKPOINTS/models.tsv" ] || need "$DATA/deen/spm.model" "$CHECKPOINTS"/{deen.pt,ende.pt,dict.txt}
TEXT=$(cd "$DATA/deen" && pwd)/test
CHECKPOINTS=$(cd "$CHECKPOINTS" && pwd)
mkdir -p "$OUT"
if [ -f "$CHECKPOINTS/models.tsv" ]; then
  FOLDER=$CHECKPOINTS TEST=$TEXT
  . "$ROOT/scripts/models.sh"
  model de-en "${SEEDS[0]}"
  DE_EN=("${CORPUS[@]}" --path "$CHECKPOINT" --cpu)
  model en-de "${SEEDS[0]}"
  EN_DE=("${CORPUS[@]}" --path "$CHECKPOINT" --cpu)
  REVERSE=$CHECKPOINT
else
  for language in de en; do cp -f "$CHECKPOINTS/dict.txt" "$OUT/dict.$language.txt"; done
  BPE=(--bpe sentencepiece --sentencepiece-model "$(dirname "$TEXT")/spm.model" --cpu)
  DE_EN=("$OUT" --path "$CHECKPOINTS/deen.pt" --source-file "$TEXT.de" --target-file "$TEXT.en" "${BPE[@]}")
  EN_DE=("$OUT" --path "$CHECKPOINTS/ende.pt" --source-file "$TEXT.en" --target-file "$TEXT.de" "${BPE[@]}")
  REVERSE="$CHECKPOINTS/ende.pt"
fi
GOLD=(--gold "$TEXT.talp" --gold-index 1)

say "German to English: alignment error rate of every layer"
normalign methods "${DE_EN[@]}" "${GOLD[@]}" -o "$OUT/de-en.json"
say "English to German"
normalign methods "${EN_DE[@]}" "${GOLD[@]}" --reverse-gold -o "$OUT/en-de.json"

say "Aligning in many ways, layers chosen without gold"
cd "$OUT"
align() { echo "$1"; normalign align "${@:2}" --output "$1"; }
align de-en.weights "${DE_EN[@]}" --combine none --method weights
align de-en.norms "${DE_EN[@]}" --combine none
align en-de.norms "${EN_DE[@]}" --combine none
normalign symmetrize de-en.norms en-de.norms --heuristic intersection -o intersection
normalign symmetrize de-en.norms en-de.norms --heuristic grow-diag-final-and -o grow-diag-final-and
BOTH=("${DE_EN[@]}" --reverse-path "$REVERSE")
align de-en.steps-mutual "${DE_EN[@]}" --combine product --extract mutual-argmax
align de-en.steps "${DE_EN[@]}" --combine product
align de-en.learned "${DE_EN[@]}" --combine learned
align both.steps-mutual "${BOTH[@]}" --combine product --extract mutual-argmax
align both.steps "${BOTH[@]}" --combine product
align both.learned-weights "${BOTH[@]}" --combine learned --method weights
align both.learned "${BOTH[@]}" --combine learned

SYSTEMS=(de-en.weights de-en.norms intersection grow-diag-final-and de-en.steps-mutual de-en.steps de-en.learned
  both.steps-mutual both.steps both.learned-weights both.learned)
for lines in all even; do
  say "AER on $lines lines, with 95% intervals"
  normalign aer "$TEXT.talp" --gold-index 1 --lines "$lines" -i "${SYSTEMS[@]}" --intervals -q |
    sed '/AER|/d' | tee "systems.$lines.txt"
done
normalign aer "$TEXT.talp" --gold-index 1 --reverse-gold -i en-de.norms --intervals

say "One sentence pair, gold framed"
normalign plot "${DE_EN[@]}" "${GOLD[@]}" --line 30 --layer 1 --output "$OUT/pair.png"
echo "$OUT/pair.png"
