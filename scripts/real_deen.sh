#!/usr/bin/env bash
# The same table on real German–English data: 508 pairs with gold alignments (Vilar et al., 2006).
#
# usage: real_deen.sh [DATA [CHECKPOINTS]]
#   DATA         holds deen/{test.de,test.en,test.talp,spm.model} (default: $NORMALIGN_DATA)
#   CHECKPOINTS  holds deen.pt, ende.pt and dict.txt, their joint dictionary (default: $NORMALIGN_CHECKPOINTS, else
#                the folder checkpoints beside DATA)
# Writes to real_deen/ in the clone.
. "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
DATA=${1:-${NORMALIGN_DATA:-}}
if [ -z "$DATA" ]; then
  echo "real_deen.sh: name the data folder as an argument or in NORMALIGN_DATA" >&2
  exit 2
fi
CHECKPOINTS=${2:-${NORMALIGN_CHECKPOINTS:-$DATA/../checkpoints}}
for file in "$DATA"/deen/{test.de,test.en,test.talp,spm.model} "$CHECKPOINTS"/{deen.pt,ende.pt,dict.txt}; do
  [ -f "$file" ] || { echo "real_deen.sh: $file is missing" >&2; exit 2; }
done

OUT="$ROOT/real_deen"
mkdir -p "$OUT"
for language in de en; do cp -f "$CHECKPOINTS/dict.txt" "$OUT/dict.$language.txt"; done
TEXT=("$DATA/deen/test")

for direction in de-en en-de; do
  source=${direction%-*} target=${direction#*-}
  CORPUS=("$OUT" --path "$CHECKPOINTS/$source$target.pt" --source-file "$TEXT.$source" --target-file "$TEXT.$target"
    --bpe sentencepiece --sentencepiece-model "$DATA/deen/spm.model" --cpu)
  gold=(--gold "$TEXT.talp" --gold-index 1)
  reverse=()
  [ "$direction" = de-en ] || { gold+=(--reverse-gold) reverse=(--reverse-ref); }

  say "$direction: alignment error rate of every layer, by attention weights and by vector norms"
  normalign align "${CORPUS[@]}" --all "${gold[@]}" --json "$OUT/$direction.json" | tee "$OUT/$direction.txt"

  say "$direction: norms, the layer chosen without gold"
  normalign align "${CORPUS[@]}" --output "$OUT/$direction.pharaoh"
  normalign aer "$TEXT.talp" --ref-index 1 "${reverse[@]}" -i "$OUT/$direction.pharaoh" --confidence
done

say "One sentence pair, gold framed"
normalign plot "${CORPUS[@]}" --line 30 "${gold[@]}" --output "$OUT/pair.png"
echo "$OUT/pair.png"
