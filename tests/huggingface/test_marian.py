"""OPUS-MT as a fairseq model: numbers, pieces and translations are those of transformers."""

from __future__ import annotations

import json

import pytest
import sentencepiece
import torch

from fairseq_normalign.errors import InputError
from fairseq_normalign.huggingface.marian import sinusoids
from tests.hugging_face import of_transformers
from tests.imported import SEARCHES, Both, check_same_numbers, check_same_translations, theirs_of
from tests.translation_folders import ODD, SPELLED, TARGET, marian_folder, sentences, write_json

CODED = ["targets", "targets apart"]
VOCABULARIES = ["marian", "apart"]  # one for both sides, and one for each


@pytest.mark.parametrize("name", VOCABULARIES)
def test_states_logits_and_attention_stay(name, imported):
    both = imported[name]
    for source, target in zip(sentences(3, seed=5), sentences(3, TARGET, 6), strict=True):
        check_same_numbers(both, source, target)


def test_numbers_without_scaled_embeddings_and_with_fewer_layers(tmp_path):
    config = {
        "scale_embedding": False,
        "activation_function": "relu",
        "decoder_layers": 1,
        "steps": 0,
    }
    both = Both(marian_folder(tmp_path / "theirs", **config), tmp_path / "theirs")
    check_same_numbers(both, "Aeio nrst.", "Uvw xyz?")


@pytest.mark.parametrize("name", VOCABULARIES)
def test_pieces_and_numbers_are_those_of_the_tokeniser(name, imported):
    both = imported[name]
    tokenizer = of_transformers("MarianTokenizer").from_pretrained(both.folder)
    for text in [*sentences(20, seed=7), *ODD]:
        pair = both.reader.pair(text, text, "line 1")
        theirs = tokenizer(text, text_target=text)
        assert theirs_of(both, pair.source.tokens, "source")[0].tolist() == theirs["input_ids"]
        assert theirs_of(both, pair.target.tokens, "target")[0].tolist() == theirs["labels"]
        assert pair.source.pieces == tokenizer.tokenize(text)


@pytest.mark.parametrize(("search", "name"), list(zip(SEARCHES, VOCABULARIES * 3, strict=False)))
def test_translations_are_the_same(search, name, imported):
    both = imported[name]
    ours, theirs = SEARCHES[search]
    check_same_translations(both, ours, theirs, sentences(60, seed=9))


def test_sinusoids_by_their_formula():
    table = sinusoids(7, 6)
    twin = torch.zeros(7, 6, dtype=torch.double)
    for position in range(7):
        for i in range(3):
            angle = torch.tensor(position / 10000 ** (2 * i / 6), dtype=torch.double)
            twin[position, i], twin[position, 3 + i] = angle.sin(), angle.cos()
    torch.testing.assert_close(table, twin.float())


def test_special_tokens_that_a_text_spells_are_text(imported):
    """transformers would end the sentence at the first </s>."""
    both = imported["marian"]
    processor = sentencepiece.SentencePieceProcessor(model_file=str(both.folder / "source.spm"))
    for text in [*SPELLED, ">>aaa<< aeio"]:
        source = both.reader.pair(text, None, "line 1").source
        assert source.pieces == processor.encode(text, out_type=str)
        assert source.tokens.tolist().count(2) == 1


@pytest.mark.parametrize("name", CODED)
def test_the_code_of_the_target_is_before_the_source(name, imported):
    both = imported[name]
    tokenizer = of_transformers("MarianTokenizer").from_pretrained(both.folder)
    for text in sentences(5, seed=7):
        source = both.reader.pair(text, None, "line 1").source
        numbers = theirs_of(both, source.tokens, "source")[0].tolist()
        assert numbers == tokenizer(f">>bbb<< {text}")["input_ids"]
        assert (source.words[0], source.words[-1]) == (-1, -1)
        assert source.text == text.split()
    check_same_numbers(both, "Aeio nrst.", "Uvw xyz?")
    with pytest.raises(InputError, match="no language 'ccc' in the dictionary, which has "):
        Both(both.theirs, both.folder, {"target_lang": "ccc"}, name=f"{name}, again")


@pytest.mark.parametrize("name", CODED)
def test_a_code_in_the_text_goes_before_that_of_the_options(name, imported):
    """It is a word of the text, which has no piece; any other place makes it text."""
    both = imported[name]
    tokenizer = of_transformers("MarianTokenizer").from_pretrained(both.folder)
    for text in (">>aaa<< Aeio nrst.", ">>bbb<<  aeio", ">>aaa<<", [">>aaa<<", "nrst"]):
        source = both.reader.pair(text, None, "line 1").source
        line = text if isinstance(text, str) else " ".join(text)
        numbers = theirs_of(both, source.tokens, "source")[0].tolist()
        assert numbers == tokenizer(line)["input_ids"]
        assert source.text == line.split()
        assert 0 not in source.words
    own = tokenizer.convert_tokens_to_ids(">>bbb<<")
    for text in ("aeio >>aaa<<", ">>ccc<< aeio", ">>", ""):
        source = both.reader.pair(text, None, "line 1").source
        pieces = tokenizer.spm_source.encode(text, out_type=str)
        assert source.pieces == pieces
        assert theirs_of(both, source.tokens, "source")[0, 0] == own
    target = both.reader.pair("a", ">>aaa<< uvw", "line 1").target
    assert target.words[0] == 0


def test_probabilities_without_padding(tmp_path):
    """``renormalize_logits``: the padding, which is never generated, has no share."""
    folder = tmp_path / "theirs"
    theirs = marian_folder(folder, steps=0)
    settings = json.loads((folder / "generation_config.json").read_text())
    write_json(folder / "generation_config.json", {**settings, "renormalize_logits": True})
    both = Both(theirs, folder)
    logits, _ = both.model(torch.tensor([[5, 6, 2]]), torch.tensor([3]), torch.tensor([[2, 7]]))
    shares = logits.softmax(-1)
    assert shares[..., :2].max() == 0
    torch.testing.assert_close(shares.sum(-1), torch.ones(1, 2))
