"""``--no-early-stop`` against a search that is written down sentence by sentence."""

import pytest
import torch
from fairseq.search import Sampling

from fairseq_normalign.errors import InputError
from fairseq_normalign.plugin.beam_search import PatientGenerator
from tests.conftest import ToyTask, build_model

PAD, EOS, LONGEST = 1, 2, 12


def searched(model, source, beams, penalty):
    """All translations that are kept, best first, as (score, tokens)."""
    found, running = [], [(0.0, [])]
    for length in range(1, LONGEST + 2):
        candidates = []
        for score, tokens in running:
            logits, _ = model(
                source, torch.tensor([len(source[0])]), torch.tensor([[EOS, *tokens]])
            )
            each = logits[0, -1].log_softmax(-1)
            each[PAD] = -torch.inf
            for token in range(len(each)) if length <= LONGEST else [EOS]:
                candidates.append((score + float(each[token]), [*tokens, token]))
        candidates = sorted(candidates, reverse=True)[: 2 * beams]
        ended = [each for each in candidates[:beams] if each[1][-1] == EOS]
        found += [(score / length**penalty, tokens) for score, tokens in ended]
        found = sorted(found, reverse=True)[:beams]
        running = [each for each in candidates if each[1][-1] != EOS][:beams]
        if not running or (len(found) == beams and running[0][0] / length**penalty <= found[-1][0]):
            break
    return found


@pytest.fixture(scope="module")
def model():
    model = build_model()
    with torch.no_grad():
        model.decoder.output_projection.weight *= 8  # so that some translations end early
    return model


SOURCES = [[5, 6, 7, 8, EOS], [9, 10, EOS], [11, EOS], [12, 13, 14, EOS], [7, 7, 20, 21, 22, EOS]]


def generated(model, sources, prefix=None, **options):
    longest = max(map(len, sources))
    tokens = torch.tensor([[PAD] * (longest - len(source)) + source for source in sources])
    lengths = torch.tensor(list(map(len, sources)))
    sample = {"net_input": {"src_tokens": tokens, "src_lengths": lengths}}
    task = ToyTask()
    task.free_prefix = False
    options = {"max_len_b": LONGEST, "min_len": 0, "task": task, **options}
    generator = PatientGenerator([model], task.target_dictionary, **options)
    return generator.generate([model], sample, prefix_tokens=prefix)


@pytest.mark.parametrize("penalty", [0.0, 0.6, 1.0, 2.0])
@pytest.mark.parametrize("beams", [1, 2, 4])
@torch.no_grad()
def test_the_search_goes_on_while_a_beam_is_better(model, beams, penalty):
    batch = generated(model, SOURCES, beam_size=beams, len_penalty=penalty, patient=True)
    for source, translations in zip(SOURCES, batch, strict=True):
        expected = searched(model, torch.tensor([source]), beams, penalty)
        assert [each["tokens"].tolist() for each in translations] == [each for _, each in expected]
        scores = torch.tensor([score for score, _ in expected])
        torch.testing.assert_close(
            torch.stack([each["score"] for each in translations]), scores, rtol=1e-4, atol=1e-4
        )


@torch.no_grad()
def test_a_prefix_that_ends(model):
    """No beam is left then."""
    prefix = torch.tensor([[5, 6, EOS, PAD], [5, 6, 7, 8]])
    both = []
    for patient in (False, True):
        batch = generated(model, SOURCES[:2], beam_size=3, patient=patient, prefix=prefix)
        both.append([beam[0]["tokens"].tolist() for beam in batch])
    assert both[0][0] == both[1][0] == [5, 6, EOS]
    assert both[1][1][:4] == [5, 6, 7, 8]


def test_other_searches_have_no_patience(model):
    sampling = Sampling(ToyTask().target_dictionary)
    with pytest.raises(InputError, match="--no-early-stop works with plain beam search only"):
        generated(model, SOURCES, patient=True, search_strategy=sampling)
