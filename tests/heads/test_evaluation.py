"""Each column of a comparison against what other code says of the same models."""

import math
from argparse import Namespace
from itertools import product

import pytest
import torch
from sacrebleu import corpus_bleu, corpus_chrf

from fairseq_normalign.alignment.aer import Counts, count
from fairseq_normalign.alignment.aligner import NormAligner
from fairseq_normalign.errors import InputError
from fairseq_normalign.heads import evaluation
from fairseq_normalign.heads.comparison import EvaluateOptions
from fairseq_normalign.heads.evaluation import (
    aer_scores,
    compare,
    open_heads,
    read_corpus,
    side_by_side,
    translation_metrics,
)
from fairseq_normalign.host import raw_corpus
from fairseq_normalign.host.attention_modules import attentions
from fairseq_normalign.host.checkpoint import load_single
from fairseq_normalign.host.compat import without_leftovers
from fairseq_normalign.host.pairs import PairReader
from fairseq_normalign.host.translate import Translator
from fairseq_normalign.text.links import GoldFile
from tests.conftest import ToyTask, build_model
from tests.stored import OPTIONS, state, write_binarised

SOURCE = ["w1 w2 w3", "w4 w5", "w5 w6 w7 w8 w9", "w2 w2 w1 w7"]
# Capitals and blanks stay as they are.
TARGET = ["w3 w2 w1 w1", "W5 w4", "w9 w8 w7", "w1 w7 w20  w20"]
GOLD = ["1-3 2p2 3-1", "2-1 1-2", "5-1 4-2 3p3", "3-1 4-2"]
SHORT = {"max_len_a": 0, "max_len_b": 8}


def save(path, *, heads: int = 4, noise: float = 0.0, languages: str = "ab") -> str:
    """A random model as a checkpoint."""
    own = {"encoder_attention_heads": heads, "decoder_attention_heads": heads}
    own |= dict(zip(("source_lang", "target_lang"), languages, strict=True))
    stored = state(args=Namespace(**{**OPTIONS, **own}))
    torch.manual_seed(2)
    for value in stored["model"].values():
        value += noise * torch.randn_like(value)
    torch.save(stored, path)
    return str(path)


@pytest.fixture
def folder(folder):
    for name, lines in {"t.a": SOURCE, "t.b": TARGET, "t.talp": GOLD, "empty": []}.items():
        (folder / name).write_text("".join(f"{line}\n" for line in lines))
    return folder


@pytest.fixture
def paths(folder):
    return [save(folder / "one.pt"), save(folder / "two.pt", heads=2, noise=0.3)]


@pytest.fixture
def texts(folder):
    return str(folder / "t.a"), str(folder / "t.b")


def test_texts_that_are_swapped(monkeypatch, folder, paths, texts):
    monkeypatch.setattr(raw_corpus, "SWAPPED", -math.inf)
    with pytest.raises(InputError, match="source and target seem to be swapped"):
        compare(paths, str(folder), texts)


@pytest.mark.parametrize("lowercase", [True, False])
def test_rows(lowercase, folder, paths, texts):
    rows = compare(paths, str(folder), texts, search=SHORT, tokenize="none", lowercase=lowercase)
    assert [row.name for row in rows] == ["one.pt", "two.pt"]
    for row, path, heads in zip(rows, paths, (4, 2), strict=True):
        expected = product(("encoder", "decoder", "cross"), (0, 1), range(heads))
        assert row.heads == tuple(expected)
        state = without_leftovers(torch.load(path, weights_only=True)["model"])
        shared = ("decoder.embed_tokens.weight", "decoder.output_projection.weight")
        not_counted = (*shared, "version", "_float_tensor")
        counted = [value for key, value in state.items() if not key.endswith(not_counted)]
        assert row.parameters == sum(value.numel() for value in counted)
        assert row.megabytes * 1e6 == 4 * row.parameters
        model, task = load_single(path, str(folder))
        translator = Translator(model, PairReader(task), SHORT)
        translations = list(translator.translations(read_corpus(texts, translator.reader)[0]))
        # Translations have no capitals.
        references = [line.lower() for line in TARGET] if lowercase else TARGET
        bleu = corpus_bleu(translations, [references], tokenize="none", force=True)
        assert row.scores == {
            "BLEU": bleu.score,
            "chrF": corpus_chrf(translations, [references]).score,
        }
        assert f"case:{'lc' if lowercase else 'mixed'}" in row.signatures["BLEU"]
        assert "tok:none" in row.signatures["BLEU"]
        assert set(row.signatures) == {"BLEU", "chrF"}
    assert rows[0].speed == 1
    assert rows[1].speed > 0
    assert rows[0].scores != rows[1].scores


def test_models_from_scratch_are_rows_of_their_own(folder, paths, texts):
    first, again = compare(paths[:1], str(folder), texts, scratch=paths[1:], search=SHORT)
    assert [first.from_scratch, again.from_scratch] == [False, True]
    (alone,) = compare(paths[1:], str(folder), texts, search=SHORT)
    assert again.scores == alone.scores


def test_open_heads_have_the_names_of_the_full_model():
    alive = "encoder.1.2 encoder.1.4 cross.2.3"
    pruned = build_model("transformer_normalign", alive_heads=alive)
    assert " ".join(map(str, open_heads(pruned))) == alive
    gated = build_model("transformer_normalign", alive_heads=alive, gate_heads="encoder")
    with torch.no_grad():
        attentions(gated)["encoder", 0].out_proj.scaled_log_alpha[0] = -1
    assert " ".join(map(str, open_heads(gated))) == "encoder.1.4 cross.2.3"


@pytest.mark.filterwarnings("ignore:layer and step are decided")
@pytest.mark.parametrize("reverse", [True, False])
def test_aer_is_that_of_the_aligner(reverse, folder, paths, texts):
    gold = GoldFile(str(folder / "t.talp"), index=1, reverse=reverse)
    rows = compare(paths, str(folder), texts, gold=gold, gold_texts=texts, search=SHORT, limit=1)
    for row, path in zip(rows, paths, strict=True):
        aligner = NormAligner.from_checkpoint(path, str(folder))
        links = map(set, aligner.align_many(zip(SOURCE, TARGET, strict=True)))
        assert row.scores["AER"] == pytest.approx(100 * sum(map(count, links, gold), Counts()).aer)
        evidence = aligner.evidence
        chosen = f"layer:auto:{evidence.layer + 1}|head:all|step:auto:{evidence.step}|"
        assert row.signatures["AER"].startswith(
            f"AER|ref-index:1|reverse:{'ref' if reverse else 'none'}|"
        )
        assert chosen in row.signatures["AER"]


class Fake:
    """A translator that takes a given time for a batch, and says when it was called."""

    def __init__(self, name: str, seconds: float, clock: list, calls: list):
        self.name, self.seconds, self.clock, self.calls = name, seconds, clock, calls

    def __call__(self, pairs):
        self.calls.append((self.name, [pair.where for pair in pairs]))
        self.clock[0] += self.seconds
        return [pair.source.tokens.tolist() for pair in pairs]

    def text(self, tokens):
        return f"{self.name}{len(tokens)}"


def test_models_take_turns_and_the_first_batch_is_not_timed_at_first(monkeypatch):
    reader = PairReader(ToyTask())
    pairs = [reader.pair("w1 " * length, None, str(length)) for length in (3, 1, 2)]
    clock, calls = [0.0], []
    monkeypatch.setattr(evaluation.time, "process_time", lambda: clock[0])
    translations, speeds = side_by_side(
        [Fake("a", 2, clock, calls), Fake("b", 0.5, clock, calls)], pairs, max_tokens=6
    )
    assert translations == [["a4", "a2", "a3"], ["b4", "b2", "b3"]]
    short, long = ["1", "2"], ["3"]
    assert calls == [(name, lines) for lines in (short, short, long) for name in "ab"]
    assert speeds == [9 / (2 * 2), 9 / (2 * 0.5)]  # all tokens, and two batches


def test_binarised_references_are_joined_and_unknown_words_match_none(folder, paths):
    dictionary = ToyTask().target_dictionary
    for language, lines in {"a": SOURCE, "b": ["w1 w2@@ w3", "w1 nothing"] * 2}.items():
        write_binarised(folder / f"test.a-b.{language}", lines, dictionary)
    _, task = load_single(paths[0], str(folder))
    pairs, references = read_corpus("test", PairReader(task), limit=3)
    assert [pair.source.text for pair in pairs] == [line.split() for line in SOURCE[:3]]
    assert references == ["w1 ⁇ w3", "w1 ⁇", "w1 ⁇ w3"]  # w2@@ is in no dictionary
    (row,) = compare(paths[:1], str(folder), "test", search=SHORT)
    (folder / "r.b").write_text("".join(f"{line}\n" for line in [*references, "w1 ⁇"]))
    (other,) = compare(
        paths[:1], str(folder), (str(folder / "t.a"), str(folder / "r.b")), search=SHORT
    )
    assert row.scores == other.scores


def test_what_is_refused(folder, paths, texts):
    empty, reader = str(folder / "empty"), PairReader(ToyTask())
    gold = EvaluateOptions(gold=GoldFile(empty), gold_texts=(empty, empty))
    back = save(folder / "back.pt", languages="ba")
    directions = (
        r"back\.pt: its languages or dictionaries are not those of .*one\.pt; pass models of"
    )
    for message, refused in {
        directions: lambda: compare([*paths, back], str(folder), texts),
        "empty: nothing to translate": lambda: read_corpus((empty, empty), reader),
        r"line counts differ: .*t\.a has 4, .*empty has 0 lines": lambda: read_corpus(
            (texts[0], empty), reader, limit=2
        ),
        "empty: the gold file and its texts are empty": lambda: aer_scores([], gold),
        "unknown tokeniser '14a'; expected one of sacrebleu's: none, ": lambda: translation_metrics(
            "14a"
        ),
    }.items():
        with pytest.raises(InputError, match=message):
            refused()
