"""AER of the alignments that CTranslate2 and stock fairseq return: the table of docs/engines.md.

python scripts/engines.py deen ordered ordered-input -s de -t en --text test.de test.en \\
    --gold test.talp --gold-index 1

Each folder has a checkpoint, dictionaries and spm.model. Targets are forced. "next row" takes the
alignment of a word from the decoder row that reads it. Needs `pip install ctranslate2`.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import ctranslate2
import numpy as np
import sentencepiece
from ctranslate2.converters.fairseq import FairseqConverter

import fairseq_normalign.plugin  # noqa: F401  (its checkpoints load)
from fairseq_normalign import GoldFile, score_links

PLUGIN = Path(__file__).resolve().parents[1] / "fairseq_normalign"
Texts = list[list[str]]  # of pieces


def words_of(pieces: list[str]) -> np.ndarray:
    """The word of each piece."""
    return np.cumsum([piece.startswith("▁") for piece in pieces]) - 1


def of_ctranslate2(folder: Path, sides: dict[str, Texts], work: str, step: int) -> Iterator[set]:
    """Links of words: the best source word by the summed weights of its pieces."""
    (checkpoint,) = folder.glob("*.pt")
    converter = FairseqConverter(str(checkpoint), str(folder), *sides)
    translator = ctranslate2.Translator(converter.convert(f"{work}/ct2", force=True))
    for source, target in zip(*sides.values(), strict=True):
        (result,) = translator.translate_batch(
            [source],
            target_prefix=[target],
            max_decoding_length=len(target) + 1,
            beam_size=1,
            return_attention=True,
            return_end_token=True,
        )
        rows = np.array(result.attention[0])[step : step + len(target), : len(source)]  # (T, S)
        of_source, of_target = words_of(source), words_of(target)
        shares = np.zeros((of_target[-1] + 1, of_source[-1] + 1))
        np.add.at(shares, (of_target[:, None], of_source), rows)
        yield {(int(best), place) for place, best in enumerate(shares.argmax(axis=1))}


def of_fairseq(folder: Path, sides: dict[str, Texts], work: str, step: int) -> Iterator[set]:
    """Links of words any of whose pieces are linked."""
    for language, texts in sides.items():
        Path(f"{work}/test.{language}").write_text("".join(" ".join(line) + "\n" for line in texts))
    (checkpoint,) = folder.glob("*.pt")
    s, t = sides
    run(
        f"fairseq-preprocess -s {s} -t {t} --testpref {work}/test --destdir {work}/bin "
        f"--srcdict {folder}/dict.{s}.txt --tgtdict {folder}/dict.{t}.txt"
    )
    log = run(
        f"fairseq-generate {work}/bin --path {checkpoint} --user-dir {PLUGIN} --score-reference "
        "--print-alignment hard --cpu --batch-size 1 --required-batch-size-multiple 1"
    )
    lines = dict(line[2:].split("\t") for line in log.splitlines() if line.startswith("A-"))
    for number, (source, target) in enumerate(zip(*sides.values(), strict=True)):
        of_source, of_target = words_of(source), words_of(target)
        pairs = [map(int, link.split("-")) for link in lines[str(number)].split()]
        yield {(int(of_source[i]), int(of_target[j - step])) for i, j in pairs if j >= step}


def run(command: str) -> str:
    program, *rest = command.split()
    path = Path(sys.executable).with_name(program)
    return subprocess.run([path, *rest], check=True, capture_output=True, text=True).stdout


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("-s", "--source-lang", required=True)
    parser.add_argument("-t", "--target-lang", required=True)
    parser.add_argument("--text", nargs=2, type=Path, required=True)
    parser.add_argument("--gold", required=True)
    parser.add_argument("--gold-index", type=int, default=0)
    args = parser.parse_args()
    gold = list(GoldFile(args.gold, index=args.gold_index))
    bpe = sentencepiece.SentencePieceProcessor(str(args.folders[0] / "spm.model"))
    encoded = [bpe.encode(path.read_text().splitlines(), out_type=str) for path in args.text]
    sides = dict(zip((args.source_lang, args.target_lang), encoded, strict=True))
    print("folder\trow\tCTranslate2\tfairseq")
    for folder in args.folders:
        for step, row in enumerate(["own", "next"]):
            with tempfile.TemporaryDirectory() as work:
                links = [list(of(folder, sides, work, step)) for of in (of_ctranslate2, of_fairseq)]
            print(
                folder, row, *(f"{score_links(found, gold).aer:.1%}" for found in links), sep="\t"
            )


if __name__ == "__main__":
    main()
