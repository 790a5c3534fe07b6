import pytest
import torch

from fairseq_normalign.errors import InputError
from fairseq_normalign.host.batches import batches, map_batches
from fairseq_normalign.host.pairs import Pair, PairReader, Sentence, text_pairs
from tests.conftest import ToyTask


def sentence(length: int) -> Sentence:
    return Sentence(torch.ones(length), [*range(length - 1), -1], ["w"] * (length - 1))


def test_batches_hold_at_most_max_tokens_with_padding():
    lengths = [7, 3, 5, 1, 9, 2, 30]
    found = list(batches(lengths, 12))
    assert sorted(index for batch in found for index in batch) == list(range(7))
    assert all(
        len(batch) * max(lengths[i] for i in batch) <= 12 or len(batch) == 1 for batch in found
    )


@pytest.mark.parametrize("window", [1, 2, 100])
def test_results_come_in_input_order(window):
    pairs = [Pair(sentence(length), sentence(2), str(length)) for length in (7, 3, 5, 1, 9, 2, 4)]
    sizes = []

    def run(batch):
        sizes.append(len(batch))
        return [pair.where for pair in batch]

    assert list(map_batches(pairs, run, max_tokens=12, window=window)) == [
        "7",
        "3",
        "5",
        "1",
        "9",
        "2",
        "4",
    ]
    assert max(sizes) <= window


def test_only_a_window_of_pairs_is_taken_at_a_time():
    taken = []

    def pairs():
        for number in range(10):
            taken.append(number)
            yield Pair(sentence(3), sentence(3), str(number))

    results = map_batches(pairs(), lambda batch: batch, max_tokens=100, window=4)
    next(results)
    assert len(taken) == 4


@pytest.fixture
def task():
    task = ToyTask()
    for symbol in ("▁das", "▁ha", "us", "d@@", "as"):
        task.source_dictionary.add_symbol(symbol)
    return task


def test_binarised_pieces_become_words(task):
    tokens = task.source_dictionary.encode_line("▁das ▁ha us", add_if_not_exist=False).long()
    found = PairReader(task, scheme="sentencepiece").binarised_pair(tokens, tokens[2:], "")
    assert found.source.words == [0, 1, 1, -1]
    assert found.source.text == ["das", "haus"]
    assert torch.equal(found.source.tokens, tokens)
    assert found.target.text == ["us"]


def test_text_of_pieces_is_taken_as_it_is(task):
    dictionary = task.source_dictionary
    found = PairReader(task, scheme="subword_nmt").pair("d@@ as haus", "", "")
    assert found.source.words == [0, 0, 1, -1]
    assert found.source.tokens.tolist() == [
        *map(dictionary.index, ("d@@", "as")),
        dictionary.unk(),
        dictionary.eos(),
    ]


class OtherWords:
    """A BPE that does not spell the words it is given."""

    def encode(self, text):
        return "▁other ▁words"


def test_pieces_that_do_not_spell_the_words_are_refused(task):
    with pytest.raises(InputError, match="source line 3: 2 pieces do not spell the 2 words"):
        PairReader(task, bpe=OtherWords(), scheme="sentencepiece").pair("das haus", "", "line 3")


def test_empty_lines_have_no_words(task):
    for line in ("", "   ", []):
        assert PairReader(task).pair(line, "w1", "").source.words == [-1]


def test_a_missing_bpe_model_is_named(task, tmp_path):
    with pytest.raises(InputError, match=r"--bpe sentencepiece, --tokenizer None: .*none\.model"):
        PairReader.from_names(task, bpe="sentencepiece", model=str(tmp_path / "none.model"))


def test_words_of_a_list_are_words(task):
    with pytest.raises(InputError, match="source line 1: 'w1 w2' is not one word"):
        PairReader(task).pair(["w1 w2", "w3"], "w1", "line 1")


def test_text_in_words_for_a_model_of_pieces_is_refused(task):
    lines = [("never heard of it", "w1")] * 100
    with pytest.raises(
        InputError, match="400 of the first 400 source pieces are not in the dictionary"
    ):
        list(text_pairs(lines, PairReader(task)))


def test_unknown_pieces_of_binarised_data_are_warned_about(task):
    tokens = task.source_dictionary.encode_line("▁das never", add_if_not_exist=False).long()
    with pytest.warns(UserWarning, match="hold <unk>, which does not tell where words begin"):
        PairReader(task, scheme="sentencepiece").binarised_pair(tokens, tokens, "")


def test_a_few_lines_of_unknown_words_are_warned_about(task):
    with pytest.warns(
        UserWarning, match="2 of the first 2 source pieces are not in the dictionary"
    ):
        list(text_pairs([("never heard", "w1")], PairReader(task)))
