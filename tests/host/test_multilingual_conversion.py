"""M2M-100, NLLB and mBART as fairseq models: numbers, pieces and translations stay."""

from __future__ import annotations

import pytest
import sentencepiece
import torch

from tests.hugging_face import of_transformers
from tests.imported import SEARCHES, Both, check_same_numbers, check_same_translations
from tests.translation_folders import CODES, ODD, TARGET, multilingual_folder, sentences

FAMILIES = list(CODES)


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> dict[str, Both]:
    torch.set_num_threads(1)
    models = {}
    for family in FAMILIES:
        folder = tmp_path_factory.mktemp(family) / "theirs"
        theirs = multilingual_folder(folder, family)
        source, target = (code.strip("_") for code in CODES[family])
        models[family] = Both(theirs, folder, {"source_lang": source, "target_lang": target})
    return models


@pytest.mark.parametrize("family", FAMILIES)
def test_states_logits_and_attention_stay(family, models):
    for source, target in zip(sentences(3, seed=5), sentences(3, TARGET, 6), strict=True):
        check_same_numbers(models[family], source, target)


def expected_numbers(both: Both, family: str, text: str, side: int) -> list[int]:
    """What the slow tokenisers do, which transformers 5 has of M2M-100 alone."""
    processor = sentencepiece.SentencePieceProcessor(
        model_file=str(both.folder / "sentencepiece.bpe.model")
    )
    pieces = [number + 1 if number else 3 for number in processor.encode(text)]
    code = both.task.source_dictionary.index(CODES[family][side])
    if family == "mbart":
        return [*pieces, 2, code] if side == 0 else [*pieces, 2]
    return [code, *pieces, 2]


@pytest.mark.parametrize("family", FAMILIES)
def test_pieces_and_codes(family, models):
    both = models[family]
    for text in [*sentences(20, seed=7), *ODD]:
        pair = both.reader.pair(text, text, "line 1")
        assert pair.source.tokens.tolist() == expected_numbers(both, family, text, 0)
        assert pair.target.tokens.tolist() == expected_numbers(both, family, text, 1)
        for sentence in (pair.source, pair.target):
            codes = [word < 0 for word in sentence.words]
            assert sum(codes) == len(sentence.words) - len(both.reader.source.pieces(sentence))


def test_numbers_of_m2m_are_those_of_its_tokeniser(models):
    both = models["m2m"]
    tokenizer = of_transformers("M2M100Tokenizer").from_pretrained(
        both.folder, src_lang="de", tgt_lang="en"
    )
    for text in [*sentences(20, seed=7), *ODD]:
        pair = both.reader.pair(text, text, "line 1")
        theirs = tokenizer(text, text_target=text)
        assert pair.source.tokens.tolist() == theirs["input_ids"]
        assert pair.target.tokens.tolist() == theirs["labels"]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("search", SEARCHES)
def test_translations_are_the_same(search, family, models):
    both = models[family]
    ours, theirs = SEARCHES[search]
    if family != "mbart":
        code = both.task.target_dictionary.index(CODES[family][1])
        theirs = {**theirs, "forced_bos_token_id": code}
    check_same_translations(both, ours, theirs, sentences(60, seed=9))
