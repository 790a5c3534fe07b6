"""fairseq's own commands with imported models: the translations of transformers, token by token."""

from __future__ import annotations

import re

import pytest
import sentencepiece

from tests.conftest import PACKAGE, run
from tests.imported import Both, translated_by_theirs
from tests.translation_folders import CODES, TARGET, marian_folder, multilingual_folder, sentences

pytestmark = pytest.mark.slow

SEARCH = ("--beam", 3, "--max-len-a", 0, "--max-len-b", 58, "--min-len", 0)
TASKS = {
    "marian": ("--task", "translation_normalign"),
    "m2m": ("--task", "multilingual_normalign", "--language-codes", "m2m_100"),
    "mbart": ("--task", "multilingual_normalign", "--language-codes", "mbart"),
}


def binarised(both: Both, languages: list[str], texts: list[list[str]]):
    """What ``fairseq-preprocess`` makes of pieces."""
    folder = both.ours.parent
    dictionaries = []
    for number, language in enumerate(languages):
        names = (("source.spm", "target.spm")[number], "sentencepiece.bpe.model")
        model = next(both.ours / name for name in names if (both.ours / name).is_file())
        split = sentencepiece.SentencePieceProcessor(model_file=str(model)).encode
        lines = [" ".join(split(text, out_type=str)) for text in texts[number]]
        (folder / f"text.{language}").write_text("\n".join(lines) + "\n", encoding="utf-8")
        own = both.ours / f"dict.{language}.txt"
        dictionaries.append(own if own.is_file() else both.ours / "dict.txt")
    run(
        *("fairseq-preprocess", "-s", languages[0], "-t", languages[1]),
        *("--testpref", folder / "text", "--trainpref", folder / "text"),
        *("--srcdict", dictionaries[0], "--tgtdict", dictionaries[1]),
        *("--destdir", folder / "data-bin", "--workers", 1),
        cwd=folder,
    )
    return folder / "data-bin"


@pytest.mark.parametrize("family", TASKS)
def test_generate_and_train(family, tmp_path):
    folder = tmp_path / "theirs"
    if family == "marian":
        theirs, languages, overrides = marian_folder(folder), ["xx", "yy"], None
    else:
        theirs = multilingual_folder(folder, family)
        languages = [code.strip("_") for code in CODES[family]]
        overrides = {"source_lang": languages[0], "target_lang": languages[1]}
    both = Both(theirs, folder, overrides)
    texts = [sentences(20, seed=9), sentences(20, TARGET, seed=9)]
    data = binarised(both, languages, texts)
    model = ("--path", both.ours / "model.pt", "--user-dir", PACKAGE, "--cpu", *TASKS[family])
    pair = ("-s", languages[0], "-t", languages[1])
    done = run(
        *("fairseq-generate", data, *model, *pair, *SEARCH, "--print-alignment", "hard"),
        cwd=tmp_path,
    )
    printed = dict(re.findall(r"^H-(\d+)\t\S+\t(.*)$", done.stdout, flags=re.MULTILINE))
    options = {} if family != "m2m" else {"forced_bos_token_id": both.task.target_code}
    expected = translated_by_theirs(both, texts[0], num_beams=3, early_stopping=True, **options)
    rows = both.rows("target")
    special = {symbol: index for index, symbol in enumerate(both.task.target_dictionary.symbols)}
    for number, tokens in enumerate(expected):
        pieces = [rows[special[piece]] for piece in printed[str(number)].split()]
        codes = 1 if family == "m2m" else 0
        assert pieces == tokens[codes:-1]
    links = re.findall(r"^A-(\d+)\t(.*)$", done.stdout, flags=re.MULTILINE)
    lengths = dict(re.findall(r"^S-(\d+)\t(.*)$", done.stdout, flags=re.MULTILINE))
    assert len(links) == 20
    for number, line in links:
        pairs = [tuple(map(int, link.split("-"))) for link in line.split()]
        source = [piece for piece in lengths[number].split() if piece not in CODES.get(family, [])]
        assert all(i < len(source) and j < len(printed[number].split()) for i, j in pairs)
    trained = run(
        *("fairseq-train", data, "--user-dir", PACKAGE, "--cpu", *TASKS[family], *pair),
        *("--arch", "transformer_normalign", "--finetune-from-model", both.ours / "model.pt"),
        *architecture(family),
        *("--max-update", 2, "--max-tokens", 500, "--optimizer", "adam", "--lr", 1e-6),
        *("--criterion", "cross_entropy", "--disable-validation", "--save-dir", tmp_path / "save"),
        cwd=tmp_path,
    )
    loss = float(re.search(r"\| loss ([\d.]+)", trained.stdout + trained.stderr)[1])
    assert loss < 5  # as of a model that was taught; 7 bits would be chance


def architecture(family: str) -> list:
    """The options that build the model, as fairseq-train does not take them from a checkpoint."""
    options: list = ["--share-all-embeddings"]
    for side in ("encoder", "decoder"):
        options += [f"--{side}-embed-dim", 16, f"--{side}-ffn-embed-dim", 32]
        options += [f"--{side}-layers", 2, f"--{side}-attention-heads", 4]
        if family != "m2m":
            options.append(f"--{side}-learned-pos")
        if family != "marian":
            options.append(f"--{side}-normalize-before")
    if family == "marian":
        options += ["--logits-bias", "--start-with-bos", "--activation-fn", "swish"]
    if family == "mbart":
        options += ["--layernorm-embedding", "--activation-fn", "gelu"]
    return [*options, "--max-source-positions", 64, "--max-target-positions", 64]
