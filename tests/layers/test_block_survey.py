"""Blocks over a corpus against pairs that run alone."""

import weakref
from dataclasses import replace
from itertools import chain

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr

from fairseq_normalign.attention.block import mixing_ratios
from fairseq_normalign.attention.layer import layers_with
from fairseq_normalign.attention.recorder import record_blocks
from fairseq_normalign.errors import InputError
from fairseq_normalign.host.options import ReadyModel
from fairseq_normalign.host.pairs import PairReader, text_pairs
from fairseq_normalign.host.teacher_forcing import TeacherForcing
from fairseq_normalign.layers import block_survey
from fairseq_normalign.layers.block_survey import BlockOptions, survey_blocks
from fairseq_normalign.layers.categories import PRESETS, parse_categories
from fairseq_normalign.names import ANALYSES, KINDS
from fairseq_normalign.plugin.gating import gates
from fairseq_normalign.plugin.pruned import remove_heads
from tests.conftest import build_model, randomised, run_alone
from tests.layers.test_evolution import language, masked

LINES = [
    ("w1@@ w2 w3 w7", "w4 w5@@ w6@@ w7"),
    ("w3", "w9 w8"),
    ("w2 w2 w15", "w1"),
    ("", "w12 w1"),
    ("w5", ""),
]
UNK = 3  # w1@@ and others that are not in the dictionary
STATISTICS = BlockOptions(statistics=True)
NAMES = ["special", "punctuation", "continuation", "word"]


@pytest.fixture
def model(task):
    return ready(randomised(build_model(task=task), seed=2), task)


def ready(network, task, attention="cross"):
    forcing = TeacherForcing(network, task, attention=attention)
    return ReadyModel(forcing, PairReader(task, scheme="subword_nmt"))


@pytest.fixture
def pairs(model):
    return list(text_pairs(LINES, model.reader))


def category_of(words, place):
    """special, punctuation, continuation or word, as places in NAMES."""
    if words[place] < 0:
        return 0
    return 2 if place and words[place] == words[place - 1] else 3


def alone(model, pair):
    """Of one pair: blocks, and (token, category) of what encoder and decoder read."""
    with torch.no_grad(), record_blocks(model.forcing.model, KINDS) as blocks:
        run_alone(model.forcing.model, pair)
    target = pair.target.tokens.roll(1), [-1, *pair.target.words[:-1]]
    tokens = {}
    for side, (ids, words) in {"source": pair.source[:2], "target": target}.items():
        places = range(len(words))
        tokens[side] = [(int(ids[place]), category_of(words, place)) for place in places]
    return blocks, tokens


def rank_of(token, category):
    if category == 0:
        return 3
    return np.nan if token == UNK else token + 4


@pytest.mark.parametrize("max_tokens", [6, 4000])
def test_layers_are_those_of_pairs_which_run_alone(model, pairs, max_tokens):
    found = survey_blocks(model, pairs, BlockOptions(max_tokens=max_tokens, layers=True)).mixing
    assert set(found) == {*KINDS, "encoder-layer", "decoder-layer"}
    for side in ("encoder", "decoder"):
        mixing, ratios, shares = found[f"{side}-layer"], [], []
        rhos = []  # of each sentence that has any, (L, 3)
        for pair in pairs:
            blocks, _ = alone(model, pair)
            layers = layers_with(model.forcing.model, blocks)
            of_sentence, of_parts, of_maps = [], [], []
            for number in range(2):
                layer = layers[side, number]
                forms = {
                    part: layer.through(vectors)[:, 0] for part, vectors in layer.parts.items()
                }
                own = forms["itself"].norm(dim=-1)  # (4, T)
                context = sum(form for part, form in forms.items() if part != "itself").norm(dim=-1)
                of_sentence.append(context / (context + own))
                lengths = torch.stack([form.norm(dim=-1) for form in forms.values()], -1)
                of_parts.append(lengths / lengths.sum(-1, keepdim=True))  # (4, T, P)
                norms = layer.pair_norms()[:, 0].flatten(1).numpy()
                seen = norms[0] > 0
                forms = (norms[0, seen], *norms[1:, seen])
                of_maps.append([spearmanr(forms[0], form).statistic for form in forms[1:]])
            ratios.append(torch.stack(of_sentence))
            shares.append(torch.stack(of_parts))
            if seen.sum() > 2:
                rhos.append(of_maps)
        ratios, shares = torch.cat(ratios, dim=-1), torch.cat(shares, dim=-2)
        np.testing.assert_allclose(mixing.micro[..., -1], ratios.mean(-1), rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(mixing.kept, np.mean(rhos, axis=0), atol=1e-4)
        if side == "decoder":
            np.testing.assert_allclose(mixing.shares, shares.mean(-2), rtol=1e-4, atol=1e-6)
            np.testing.assert_allclose(mixing.shares.sum(-1), 1, rtol=1e-5)


@pytest.mark.parametrize("max_tokens", [6, 4000])
def test_mixing_is_that_of_pairs_which_run_alone(model, pairs, max_tokens):
    found = survey_blocks(model, pairs, BlockOptions(max_tokens=max_tokens))
    assert found.sentences == len(LINES)
    for kind, mixing in found.mixing.items():
        assert mixing.categories == [*NAMES, "overall"]
        sentences = []  # of each: categories, ratios (L, 5, T)
        ranks, means = [], []
        for pair in pairs:
            blocks, tokens = alone(model, pair)
            of_tokens = tokens[KINDS[kind].queries]
            layers = [mixing_ratios(blocks[kind, layer])[:, 0] for layer in range(2)]
            ratios = torch.stack(layers).numpy()
            sentences.append((np.array([category for _, category in of_tokens]), ratios))
            ranks += [rank_of(*token) for token in of_tokens]
            means.append(ratios.mean(0))
        for category in (0, 2, 3, None):
            column = -1 if category is None else category
            of_category = []
            for categories, ratios in sentences:
                chosen = categories >= 0 if category is None else categories == category
                if chosen.any():
                    of_category.append(ratios[:, :, chosen])
            micro = np.concatenate(of_category, axis=2).mean(2)
            macro = np.mean([ratios.mean(2) for ratios in of_category], axis=0)
            np.testing.assert_allclose(mixing.micro[:, :, column], micro, atol=1e-5)
            np.testing.assert_allclose(mixing.macro[:, :, column], macro, atol=1e-5)
            assert mixing.tokens[column] == sum(ratios.shape[2] for ratios in of_category)
        assert np.isnan(mixing.macro[:, :, 1]).all()  # no punctuation
        every = np.concatenate([ratios for _, ratios in sentences], axis=2)
        np.testing.assert_allclose(mixing.low, every.min((0, 2)), atol=1e-5)
        np.testing.assert_allclose(mixing.high, every.max((0, 2)), atol=1e-5)
        of_occurrences = np.concatenate(means, axis=1)  # (5, N)
        known = np.isfinite(ranks)
        assert mixing.ranked == mixing.ranked_of == known.sum() < len(known)
        for place, name in enumerate(ANALYSES):
            if kind == "cross" and name in ANALYSES[:3]:
                assert mixing.rho[place] is None
            else:
                of_known = of_occurrences[place, known]
                expected = spearmanr(np.array(ranks)[known], of_known).statistic
                assert mixing.rho[place] == pytest.approx(expected, abs=0.02)


def test_the_encoder_alone_needs_no_target(model, task, pairs):
    encoder = ready(model.forcing.model, task, "encoder")
    sources = list(text_pairs([(source, None) for source, _ in LINES], encoder.reader))
    found = survey_blocks(encoder, sources).mixing
    assert set(found) == {"encoder"}
    with_source = [pair for pair in pairs if pair.source.text]
    with_targets = survey_blocks(model, with_source).mixing["encoder"]
    np.testing.assert_allclose(found["encoder"].macro, with_targets.macro, atol=1e-5)


def test_layers_without_heads_mix_nothing(task, pairs):
    network = build_model("transformer_normalign", task=task)
    remove_heads(network, "encoder.2.1 decoder.1.1 decoder.2.1 cross.1.1 cross.2.1")
    mixing = survey_blocks(ready(network, task), pairs).mixing["encoder"]
    assert mixing.macro.shape == (2, 5, 5)
    assert not np.nan_to_num(mixing.macro[0]).any()
    assert mixing.macro[1, :, -1].all()


def test_categories_of_the_user(model, pairs):
    options = BlockOptions(categories=parse_categories("pieces", ["two=w[23]", "ends=</s>"]))
    mixing = survey_blocks(model, pairs, options).mixing["encoder"]
    assert mixing.categories == ["two", "ends", "other", "overall"]
    assert mixing.tokens.tolist() == [5, 5, 4, 14]


def test_frequencies_of_a_file(model, pairs):
    tokens = chain.from_iterable(line for pair in LINES for line in map(str.split, pair))
    counts = {token: 100 - int(token[1:].strip("@")) for token in tokens}
    counted = dict.fromkeys(("source", "target"), (counts, "freq.txt"))
    by_file = survey_blocks(model, pairs, BlockOptions(frequencies=counted)).mixing
    by_ids = survey_blocks(model, pairs).mixing
    for kind in KINDS:
        assert by_file[kind].rho_without_specials == pytest.approx(
            by_ids[kind].rho_without_specials, abs=1e-6
        )


def test_refusals(model, pairs):
    other = {side: ({"x": 1, "y": 2}, "freq.txt") for side in ("source", "target")}
    with pytest.raises(InputError, match=r"freq\.txt: has 0% .*of another vocabulary"):
        survey_blocks(model, pairs, BlockOptions(frequencies=other))
    with pytest.raises(InputError, match="the source dictionary: all counts are equal"):
        survey_blocks(model, pairs, BlockOptions(ranks="counts"))
    with pytest.raises(InputError, match="on a corpus without words"):
        survey_blocks(model, list(text_pairs([("", "")], model.reader)))
    none = BlockOptions(categories=parse_categories("pieces", ["rare=v9"]))
    with pytest.raises(InputError, match="--category rare=v9: matches no token of the dictionary"):
        survey_blocks(model, pairs, none)


def test_a_batch_is_gone_when_the_next_one_is_run(model, pairs, monkeypatch):
    earlier = []
    record = block_survey.recorded_blocks

    def recorded(*batch):
        assert not any(block() for block in earlier)
        blocks = record(*batch)
        earlier.extend(map(weakref.ref, blocks.values()))
        return blocks

    monkeypatch.setattr(block_survey, "recorded_blocks", recorded)
    survey_blocks(model, pairs, BlockOptions(statistics=True, max_tokens=6))
    assert len(earlier) > len(KINDS) * 2


def test_statistics_and_mixing_share_a_pass(model, pairs):
    forwards = []
    model.forcing.model.encoder.register_forward_hook(lambda *_: forwards.append(1))
    both = survey_blocks(model, pairs, STATISTICS)
    assert len(forwards) == 1
    assert set(both.mixing) == set(both.statistics) == set(KINDS)
    assert not survey_blocks(model, pairs, BlockOptions(statistics=True, mixing=False)).mixing


@pytest.mark.parametrize("max_tokens", [6, 4000])
def test_statistics_are_those_of_pairs_which_run_alone(model, pairs, max_tokens):
    options = BlockOptions(statistics=True, mixing=False, max_tokens=max_tokens)
    for kind, found in survey_blocks(model, pairs, options).statistics.items():
        assert found.categories == NAMES
        norms, weights, ranks, of_tokens = [], [], [], []
        for pair in pairs:
            blocks, tokens = alone(model, pair)
            of_keys = tokens[KINDS[kind].keys]
            recorded = [blocks[kind, layer].recorded for layer in range(2)]
            norms.append(torch.stack([r.norms.transformed[0] for r in recorded]))  # (L, H, S)
            received = torch.stack([r.weights[0].mean(1) for r in recorded])  # (L, H, S)
            sums = [received[..., place_of(of_keys, k)].sum(-1) for k in range(4)]
            weights.append(torch.stack(sums, dim=-1))  # (L, H, K)
            ranks += [rank_of(*token) for token in of_keys]
            alphas = []  # of the queries that see a key
            for key in range(received.shape[-1]):
                first = key if KINDS[kind].causal else 0
                alphas.append(torch.stack([r.weights[0, :, first:, key].mean() for r in recorded]))
            alpha = torch.stack(alphas, dim=-1).mean(0)  # (S,)
            of_tokens.append(torch.stack([alpha, norms[-1].mean((0, 1))]))  # (2, S)
        together = torch.cat(norms, dim=-1).double().numpy()
        sums = torch.stack(weights).mean(0)
        for layer in found.layers:
            np.testing.assert_allclose(
                layer.transformed.mean, together[layer.layer].mean(1), rtol=1e-4
            )
            np.testing.assert_allclose(layer.weights, sums[layer.layer], rtol=1e-4, atol=1e-6)
            np.testing.assert_allclose(layer.weights.sum(1), 1, rtol=1e-4)
        assert found.transformed.deviation == pytest.approx(together.std(), rel=1e-4)
        known = np.isfinite(ranks)
        alpha, norm = torch.cat(of_tokens, dim=1).numpy()[:, known]
        for relation, values in ((found.rank_weights, alpha), (found.rank_norms, norm)):
            expected = spearmanr(np.array(ranks)[known], values).statistic
            assert relation.rho == pytest.approx(expected, abs=0.02)
            assert relation.points == relation.of == known.sum()


def place_of(tokens, category):
    return [place for place, (_, of_token) in enumerate(tokens) if of_token == category]


def test_heads_keep_their_names_and_headless_layers_are_absent(task, pairs):
    network = build_model("transformer_normalign", task=task)
    remove_heads(network, "encoder.2.3 decoder.1.1 decoder.2.1")
    options = BlockOptions(statistics=True, mixing=False)
    found = survey_blocks(ready(network, task), pairs, options).statistics
    assert set(found) == {"encoder", "decoder"}
    (layer,) = found["encoder"].layers
    assert list(map(str, layer.heads)) == ["encoder.2.3"]
    assert len(layer.rates) == len(layer.singular) == 1


def test_a_closed_gate_leaves_nothing_of_f(task, pairs):
    network = build_model("transformer_normalign", task=task, gate_heads="encoder")
    projection = gates(network)["encoder", 0]
    with torch.no_grad():
        log_alpha = torch.tensor([5.0, 5.0, 5.0, -5.0])
        projection.scaled_log_alpha.copy_(log_alpha / projection.lr_scale)
    options = BlockOptions(statistics=True, mixing=False)
    layer = survey_blocks(ready(network, task), pairs, options).statistics["encoder"].layers[0]
    assert layer.transformed.mean[3] == 0
    assert layer.transformed.mean[2] > 0
    assert max(layer.singular[3][1:]) == pytest.approx(0, abs=1e-6)  # the first is that of 1 → 1


def test_a_language_model_reads_the_source():
    """Its decoder is all there is, and what it reads first is special."""
    text = language(["w1 w2 w13", "w4 w5"])
    found = survey_blocks(ReadyModel(text.forcing, text.reader), text.pairs, STATISTICS)
    mixing = found.mixing["decoder"]
    assert set(found.mixing) == set(found.statistics) == {"decoder"}
    assert mixing.tokens.tolist() == [2, 0, 0, 5, 7]
    assert not mixing.macro[:, :, 0].any()  # the first token sees itself alone
    assert mixing.macro[:, :, 3].all()


def test_a_masked_language_model():
    text = masked(["w1 w2 w13", "w4 w5"])
    options = replace(STATISTICS, categories=PRESETS["bert-2020"])
    found = survey_blocks(ReadyModel(text.forcing, text.reader), text.pairs, options)
    assert found.mixing["encoder"].tokens.tolist() == [2, 2, 0, 5, 9]
    np.testing.assert_allclose(found.statistics["encoder"].layers[0].weights.sum(1), 1, rtol=1e-4)
