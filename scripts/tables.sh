#!/usr/bin/env bash
# Computes the tables of README and docs again: compare what it prints with the page that it names.
# Run it before a release, and after a change that moves links or scores.
#
# usage: tables.sh [TABLE …]    TABLE is a name in $TABLES (default: all). Tables that need trained models of their own are
#   not here: docs/pruning.md, training.md, evolution.md and reproduce.md have their commands beside the tables.
#   NORMALIGN_DATA         holds deen/{train.{de,en}.gz,test.de,test.en,test.talp,spm.model}, enfr/test.{en,fr}, enes/{train.{en,es}.gz,dev.en,dev.es,dev.talp,spm.model} and ud/
#   NORMALIGN_CHECKPOINTS  holds {deen,ende}.pt, dict.txt, {enfr,fren}.pt, dict.enfr.txt, {enes,esen}.pt, dict.enes.txt (default: checkpoints beside it)
# Writes tables/TABLE.txt in the clone; about an hour on two cores.
. "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
TABLES="results conventions compare spanish align alti gradients blocks heads speed"
for table in "$@"; do
  case " $TABLES " in *" $table "*) ;; *) echo "tables.sh: no table $table; the tables are: $TABLES" >&2; exit 2 ;; esac
done
DATA=${NORMALIGN_DATA:-none}
CHECKPOINTS=${NORMALIGN_CHECKPOINTS:-$DATA/../checkpoints}
for file in "$DATA/deen/test.talp" "$CHECKPOINTS/deen.pt"; do
  [ -f "$file" ] || { echo "tables.sh: $file is missing; set NORMALIGN_DATA and NORMALIGN_CHECKPOINTS" >&2; exit 2; }
done
DATA=$(cd "$DATA" && pwd) CHECKPOINTS=$(cd "$CHECKPOINTS" && pwd) SCRIPTS=$ROOT/scripts
mkdir -p "$ROOT"/tables/dict{,.enfr,.enes}
cd "$ROOT/tables"
for language in de en; do cp -f "$CHECKPOINTS/dict.txt" "dict/dict.$language.txt"; done
for language in en fr; do cp -f "$CHECKPOINTS/dict.enfr.txt" "dict.enfr/dict.$language.txt"; done
for language in en es; do cp -f "$CHECKPOINTS/dict.enes.txt" "dict.enes/dict.$language.txt"; done

TEXT=$DATA/deen/test GOLD=$DATA/deen/test.talp
BPE="--bpe sentencepiece --sentencepiece-model $DATA/deen/spm.model --cpu"
of() { echo "dict --path $CHECKPOINTS/$1.pt --source-file $2 --target-file $3 $BPE"; } # a model, and texts for it
DE_EN=$(of deen "$TEXT.de" "$TEXT.en") EN_DE=$(of ende "$TEXT.en" "$TEXT.de")
BOTH="$DE_EN --reverse-path $CHECKPOINTS/ende.pt"
aligned() { normalign align ${@:2} -q -o "$1"; } # words of $DE_EN and the like are split
scored() {
  for lines in all odd even; do
    say "AER, $lines lines"
    normalign aer "$GOLD" --gold-index 1 --lines $lines --intervals -q -i "$@" | sed '/AER|/d'
  done
}
halves() { # the texts and the gold of odd and of even lines
  for file in "$TEXT.de" "$TEXT.en" "$GOLD"; do
    awk 'NR % 2' "$file" > "odd.${file##*.}"
    awk 'NR % 2 == 0' "$file" > "even.${file##*.}"
  done
}

results() { bash "$SCRIPTS/real_deen.sh" "$DATA" "$CHECKPOINTS"; } # README, docs/results.md, docs/align.md
conventions() { bash "$SCRIPTS/conventions.sh" "$DATA" "$CHECKPOINTS"; }
compare() { # eflomal samples: its rows are means of three runs
  python "$SCRIPTS/compare_aligners.py" --train "$DATA/deen/train" --test "$TEXT" -s de -t en --gold "$GOLD" --gold-index 1 \
    --path "$CHECKPOINTS/deen.pt" --reverse-path "$CHECKPOINTS/ende.pt" --corpus "dict $BPE" --out compare
}
spanish() {
  python "$SCRIPTS/compare_aligners.py" --train "$DATA/enes/train" --test "$DATA/enes/dev" -s en -t es --gold "$DATA/enes/dev.talp" \
    --path "$CHECKPOINTS/enes.pt" --reverse-path "$CHECKPOINTS/esen.pt" --out spanish \
    --corpus "dict.enes --bpe sentencepiece --sentencepiece-model $DATA/enes/spm.model --cpu"
}
align() {
  for method in weights norms lrp-epsilon lrp-attnlrp; do
    for rule in argmax piece-argmax; do aligned $method.$rule $DE_EN --combine none --method $method --extract $rule; done
  done
  aligned weights.chen $DE_EN --method weights --step input --eos skip --extract piece-argmax
  aligned shift-att.one $DE_EN --method shift-att
  aligned shift-att.both $BOTH --method shift-att
  scored {weights,norms,lrp-epsilon,lrp-attnlrp}.{argmax,piece-argmax} weights.chen shift-att.one shift-att.both
  aligned shift-att.reverse $EN_DE --method shift-att
  normalign aer "$GOLD" --gold-index 1 --reverse-gold -i shift-att.reverse --intervals
}
alti() {
  halves
  for half in odd even; do
    for model in "$(of deen $half.de $half.en)" "$(of ende $half.en $half.de) --reverse-gold"; do
      say "$half lines: ${model#* --path }"
      for methods in "weights norms alti" "alti-l2 alti-encoder alti-rollout" "layer-norms value-zeroing value-zeroing-ff"; do
        normalign methods $model --gold $half.talp --gold-index 1 --method $methods
      done
    done
  done
  for method in norms alti alti-l2; do
    for combine in product learned; do aligned both.$method.$combine $BOTH --method $method --combine $combine; done
  done
  aligned both.norms+alti-l2 $BOTH --combine learned --evidence {,reverse:}norms.{1,2,3}{,.1,.2,.3,.4}.{input,output} \
    {,reverse:}alti-l2.{1,2,3}.{input,output}
  scored both.{norms,alti,alti-l2}.{product,learned} both.norms+alti-l2
  python -m benchmarks alti
}
gradients() {
  halves
  for text in de en talp; do head -n 100 odd.$text > hundred.$text; done
  for part in odd even hundred; do
    methods="grad-input saliency"
    if [ $part = hundred ]; then methods="$methods smoothgrad:1 smoothgrad:3 smoothgrad:10 smoothgrad norms"; fi
    for model in "$(of deen $part.de $part.en)" "$(of ende $part.en $part.de) --reverse-gold"; do
      for rule in "" "--extract piece-argmax --eos skip"; do
        say "$part lines: ${model#* --path } $rule"
        normalign methods $model --gold $part.talp --gold-index 1 --method $methods $rule
      done
    done
  done
  python -m benchmarks gradients
}
blocks() {
  local enfr="dict.enfr --bpe sentencepiece --sentencepiece-model $DATA/enfr/spm.model --cpu"
  local english="$DATA/enfr/test.en" french="$DATA/enfr/test.fr"
  for model in "$DE_EN" "$EN_DE" \
    "$enfr --path $CHECKPOINTS/enfr.pt --source-file $english --target-file $french" \
    "$enfr --path $CHECKPOINTS/fren.pt --source-file $french --target-file $english"; do
    say "${model#* --path }"
    normalign stats $model --mixing
    normalign mixing $model --scope ff-res-ln
  done
  python -m benchmarks mixing
}
heads() {
  for text in de en talp; do head -n 200 "$TEXT.$text" > first.$text; done
  local common="--relevance voita --ablation 200 --ablation-bleu 100 --gold first.talp --gold-index 1 --lowercase"
  normalign heads $(of deen first.de first.en) $common --conllu "$DATA"/ud/de_pud*.conllu
  normalign heads $(of ende first.en first.de) $common --reverse-gold --conllu "$DATA"/ud/en_pud*.conllu
}
speed() { python -m benchmarks; } # and the costs that other pages tell; large-corpora: python -m benchmarks large samples

page_of() {
  case $1 in
    conventions) echo score ;;
    align | alti | gradients) echo methods ;;
    blocks) echo blocks ;;
    *) echo results ;;
  esac
}

for table in ${@:-$TABLES}; do
  say "$table: docs/$(page_of "$table").md"
  "$table" | tee "$table.txt"
done
