#!/usr/bin/env bash
# How far each convention moves the alignment error rate, on the German–English data and models of real_deen.sh.
# Changes one thing at a time: from norms of one model, and from both models combined.
#
# usage: conventions.sh [DATA [CHECKPOINTS]]
#   DATA         holds deen/{test.de,test.en,test.talp,spm.model} (default: $NORMALIGN_DATA)
#   CHECKPOINTS  a folder with deen.pt, ende.pt and dict.txt (default: the folder checkpoints beside DATA)
# Writes to conventions/ in the clone; about five minutes on two cores.
. "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
DATA=${1:-${NORMALIGN_DATA:-}}
CHECKPOINTS=${2:-$DATA/../checkpoints}
for file in "$DATA"/deen/{test.de,test.en,test.talp,spm.model} "$CHECKPOINTS"/{deen.pt,ende.pt,dict.txt}; do
  [ -f "$file" ] || { echo "conventions.sh: $file is missing; name DATA and CHECKPOINTS" >&2; exit 2; }
done
TEXT=$(cd "$DATA/deen" && pwd)/test
CHECKPOINTS=$(cd "$CHECKPOINTS" && pwd)
mkdir -p "$ROOT/conventions"
cd "$ROOT/conventions"
cp -f "$CHECKPOINTS/dict.txt" dict.de.txt
cp -f "$CHECKPOINTS/dict.txt" dict.en.txt
BPE=(--bpe sentencepiece --sentencepiece-model "$(dirname "$TEXT")/spm.model" --cpu)
DE_EN=(. --path "$CHECKPOINTS/deen.pt" --source-file "$TEXT.de" --target-file "$TEXT.en" "${BPE[@]}")
EN_DE=(. --path "$CHECKPOINTS/ende.pt" --source-file "$TEXT.en" --target-file "$TEXT.de" "${BPE[@]}")
GOLD=("$TEXT.talp" --gold-index 1)

# A row of the table: what differs, and the AER of some alignment, read in some way.
row() { printf '%-64s %5s\n' "$1" "$(normalign aer "${@:2}" -b -q)"; }
# The same of a fresh alignment, with some options.
aligned() { normalign align "${DE_EN[@]}" -q --combine none --output hyp "${@:2}"; row "$1" "${GOLD[@]}" -i hyp; }

normalign align "${DE_EN[@]}" -q --combine none --output one
normalign align "${EN_DE[@]}" -q --combine none --output reverse
normalign align "${DE_EN[@]}" -q --reverse-path "$CHECKPOINTS/ende.pt" --output two

for links in one two; do
  say "How the files are read: $links"
  row "as they are: words from 1, possible links kept, all lines" "${GOLD[@]}" -i $links
  row "gold read as if words counted from 0 (wrong)" "$TEXT.talp" --gold-index 0 -i $links
  row "links read target word first (wrong)" "${GOLD[@]}" -i $links --reverse-hyp
  row "sure and possible marks swapped, --sure-mark p (wrong)" "${GOLD[@]}" -i $links --sure-mark p
  row "possible links dropped, --possible drop" "${GOLD[@]}" -i $links --possible drop
  row "possible links taken as sure, --possible sure" "${GOLD[@]}" -i $links --possible sure
  row "odd lines, --lines odd" "${GOLD[@]}" -i $links --lines odd
  row "even lines, --lines even" "${GOLD[@]}" -i $links --lines even
  python "$ROOT/scripts/left_out.py" "$TEXT" "$TEXT.talp" $links --longest 30 --gold gold.left --links hyp.left
  row "pairs of more than 30 words: empty lines, still scored" "${GOLD[@]}" -i hyp.left
  row "pairs of more than 30 words: left out of gold, too" gold.left --gold-index 1 -i hyp.left
  python "$ROOT/scripts/left_out.py" "$TEXT" "$TEXT.talp" $links --punctuation --gold gold.left --links hyp.left
  row "links of punctuation left out on both sides" gold.left --gold-index 1 -i hyp.left
done

say "How links are made: one model, norms"
aligned "as they are: layer 1, step input, argmax of words"
aligned "--step output at the layer that is best there" --step output
aligned "--step output at layer 1" --step output --layer 1
aligned "--eos skip: no word may choose </s>" --eos skip
for merges in "sum sum" "mean mean" "mean sum" "max max"; do
  aligned "--source-merge ${merges% *} --target-merge ${merges#* }" --source-merge "${merges% *}" --target-merge "${merges#* }"
done
for rule in piece-argmax mutual-argmax itermax threshold:0.2 relative:0.75; do
  aligned "--extract $rule" --extract $rule
done
aligned "--method weights" --method weights
aligned "--method weights --eos skip" --method weights --eos skip

say "One direction or two: norms"
row "German to English" "${GOLD[@]}" -i one
row "English to German" "${GOLD[@]}" --reverse-gold -i reverse
for heuristic in intersection union grow-diag grow-diag-final grow-diag-final-and; do
  normalign symmetrize one reverse --heuristic $heuristic -o hyp
  row "$heuristic" "${GOLD[@]}" -i hyp
done
normalign symmetrize one reverse --heuristic grow-diag-final-and --variant lilt -o hyp
row "grow-diag-final-and --variant lilt" "${GOLD[@]}" -i hyp
row "both models combined, --reverse-path" "${GOLD[@]}" -i two
