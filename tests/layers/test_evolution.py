"""The evolution of representations in tiny models of one text."""

from argparse import Namespace

import numpy as np
import pytest
import torch
from fairseq.tasks.language_modeling import LanguageModelingTask
from fairseq.tasks.masked_lm import MaskedLMTask

from fairseq_normalign.attention.states import States
from fairseq_normalign.errors import InputError
from fairseq_normalign.host.pairs import PairReader, text_pairs
from fairseq_normalign.host.teacher_forcing import TeacherForcing
from fairseq_normalign.layers.evolution import (
    evolution,
    kept_states,
)
from fairseq_normalign.layers.evolution_plan import ALL, ANY, EvolutionOptions, plan_of
from fairseq_normalign.layers.token_table import BOUNDARY, ReadText, tokens_of
from tests.conftest import ToyTask, build_model

SMALL = {"types": 6, "occurrences": 20, "tokens": 160, "groups": 3}


def lines(count: int = 150) -> list[str]:
    """Sentences of 5 to 9 words, low numbers more frequent."""
    rng = np.random.default_rng(0)
    texts = []
    for _ in range(count):
        words = np.minimum(rng.geometric(0.12, size=rng.integers(5, 10)), 29)
        texts.append(" ".join(f"w{word}" for word in words))
    return texts


def toy_task():
    task = ToyTask()
    dictionary = task.source_dictionary
    for number, symbol in enumerate(dictionary.symbols):
        dictionary.count[dictionary.index(symbol)] = 1000 - number
    return task


def read_text(model, task, part, texts=None, name="model"):
    states = States(TeacherForcing(model, task, attention=part))
    reader = PairReader(task, scheme="none")
    sentences = [(line, line if part == "decoder" else None) for line in texts or lines()]
    return ReadText(name, states, reader, list(text_pairs(sentences, reader)))


def translation(part="encoder", texts=None, name="translation"):
    task = toy_task()
    return read_text(build_model(task=task), task, part, texts, name)


def language(texts=None):
    task = LanguageModelingTask(
        Namespace(data="nowhere", tokens_per_sample=64), toy_task().source_dictionary
    )
    sizes = {"decoder_input_dim": 16, "decoder_output_dim": 16, "tokens_per_sample": 64}
    model = build_model("transformer_lm_big", task, **sizes)
    return read_text(model, task, "decoder", texts, "language")


def planned(text, **options):
    return plan_of([text], tokens_of(text), EvolutionOptions(**SMALL, **options))


def masked(texts=None):
    """As RoBERTa, it reads <s> first."""
    task = MaskedLMTask.__new__(MaskedLMTask)
    task.dictionary, task.cfg = toy_task().source_dictionary, toy_task().args
    model = build_model("roberta", task, max_positions=64, tokens_per_sample=64)
    return read_text(model, task, "encoder", texts, "masked")


def test_tokens_are_the_pieces_in_their_order():
    tokens = tokens_of(translation(texts=["w1 w2 w1", "zzz w2", ""]))
    assert tokens.symbols.tolist() == ["w1", "w2", "w1", "w2"]  # what is unknown is left out
    assert tokens.texts.tolist() == ["w1", "w2", "w1", "w2"]
    assert tokens.sentences.tolist() == [0, 0, 0, 1]
    assert tokens.positions.tolist() == [0, 1, 2, 1]
    one, two = tokens.types[:2]
    assert tokens.left.tolist() == [BOUNDARY, one, two, 2]  # the third type is <unk>
    assert tokens.right.tolist() == [two, one, BOUNDARY, BOUNDARY]


@pytest.mark.parametrize("make", [translation, language, masked])
def test_all_models_have_the_same_tokens(make):
    ours, theirs = tokens_of(make()), tokens_of(translation("decoder"))
    for here, there in zip(ours, theirs, strict=True):
        assert list(here) == list(there)


@pytest.mark.parametrize("make", [translation, language, masked])
def test_states_that_are_kept_are_those_of_sentences_alone(make):
    text = make(texts=lines(12))
    tokens = tokens_of(text)
    kept = np.array([0, 3, 9, 10, len(tokens.types) - 1])
    done = []
    states = kept_states(text, tokens, kept, max_tokens=12, progress=done.append)
    assert sum(done) == len(np.unique(tokens.sentences[kept]))
    for row, place in enumerate(kept):
        pair = text.pairs[tokens.sentences[place]]
        read = text.places(pair)[tokens.positions[place]]
        for layer, alone in enumerate(text.states.run([pair])):
            torch.testing.assert_close(states[layer, row], alone[0, read], rtol=1e-4, atol=1e-5)


def test_states_without_a_token_are_those_of_sentences_alone():
    text = translation(texts=lines(6))
    tokens = tokens_of(text)
    starts = np.searchsorted(tokens.sentences, range(6))
    hidden = {sentence: int(starts[sentence]) + 1 for sentence in range(6)}
    kept = starts + 2
    found = kept_states(text, tokens, kept, hidden=hidden, max_tokens=12)
    for sentence, pair in enumerate(text.pairs):
        for layer, alone in enumerate(text.states.run_without([pair], [1])):
            close = {"rtol": 1e-4, "atol": 1e-5}
            torch.testing.assert_close(found[layer, sentence], alone[0, 2], **close)


def test_three_kinds_of_models_side_by_side():
    texts = [translation(), language(), masked()]
    found = evolution(texts, words=["w1", "w2"], **SMALL)
    assert [model.part for model in found.models] == ["encoder", "decoder", "encoder"]
    names = ["translation", "language", "masked"]
    assert list(found.between) == [(names[0], names[1]), (names[0], names[2]), tuple(names[1:])]
    assert found.random["identity"] == pytest.approx(1 / 6, abs=0.05)
    assert found.ceiling == pytest.approx(np.log(6))
    for model in found.models:
        columns = {name: np.array(values) for name, values in model.columns.items()}
        assert columns["identity"][0] > 2 * found.random["identity"]
        assert columns["position"][0] < found.random["position"]
        for name in ("identity", "left", "right"):
            assert ((columns[name] >= 0) & (columns[name] <= 1)).all()
        assert (columns["shuffled"] < columns["information"]).all()
        assert (columns["information"] <= found.ceiling).all()
        groups = list(model.change)[1:]
        assert list(model.change) == [ALL, *groups]
        assert list(model.influence) == [ANY, *groups]
        assert len(groups) == 3
        for changes in model.change.values():
            assert len(changes) == 2
        assert max(model.change[ALL]) < min(columns["shuffled change"])
        assert np.diag(model.layers) == pytest.approx(np.zeros(3), abs=1e-6)
        assert model.layers[0][1] == pytest.approx(model.change[ALL][0])
        plane, share = model.planes[2]
        assert plane.shape == (len(found.pictured), 2)
        assert 0 < share <= 1
    assert found.signature["influence-on"] == "later"


@pytest.mark.filterwarnings("ignore:.*tokens")  # too few to compare layers
def test_an_edge_of_the_sentence_is_no_neighbour():
    text = translation(texts=["w1 w2", "w2 w1"] * 30)
    found = evolution([text], types=2, occurrences=40)
    assert found.random["left"] == found.random["right"] == 1
    columns = found.models[0].columns
    assert columns["left"] == columns["right"] == [1, 1, 1]


def test_a_token_that_nobody_looks_at_has_no_influence():
    text = translation()
    with torch.no_grad():
        text.states.attentions[0].out_proj.weight.zero_()
    (model,) = evolution([text], **SMALL).models
    for first, second in model.influence.values():
        assert first == pytest.approx(0, abs=1e-6)
        assert second > 0.001


def test_influence_is_that_on_others_and_in_decoders_on_later_ones():
    for text in (translation(), language()):
        plan = planned(text)
        for by_sentence, others in plan.hidden.values():
            assert len(set(others.tolist())) == len(others) == 160
            for other in others:
                hidden = by_sentence[int(plan.tokens.sentences[other])]
                assert other > hidden if text.states.causal else other != hidden


def test_groups_begin_at_bounds():
    found = planned(translation(), bounds=(990,))
    assert list(found.views) == [ALL, "<990", "≥990"]
    counts = {f"w{number}": 1000 - 4 - number for number in range(30)}
    for place in found.views["<990"]:
        assert counts[found.tokens.symbols[place]] < 990


def test_groups_that_are_too_small_are_told():
    message = r"groups of frequency with fewer than 160 tokens are left out: <971 \(\d+\)"
    with pytest.warns(UserWarning, match=message):
        plan = planned(translation(), bounds=(971,))
    assert list(plan.views) == [ALL, "≥971"]


REFUSED = {
    "--tokens 159: PWCCA needs 10 tokens for each of 16 neurons": {"tokens": 159},
    "--occurrences 10: 10 neighbours are looked for": {"occurrences": 10},
    "the text has 0 types of tokens that come 9999 times; 2 are needed": {"occurrences": 9999},
    "--words: 'w77' comes 0 times in the text; 2 are needed": {"words": ["w77"]},
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_is_refused(message):
    with pytest.raises(InputError, match=message):
        evolution([translation()], **{**SMALL, **REFUSED[message]})


def test_models_must_read_the_same_pieces():
    other = translation(texts=["w1 w2 w3"] * 150, name="other")
    message = "sentence 1: translation reads '.*' and other 'w1 w2 w3'; the models must read"
    with pytest.raises(InputError, match=message):
        evolution([translation(), other], **SMALL)
