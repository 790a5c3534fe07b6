import gc
import json
import operator
import warnings

import pytest

from fairseq_normalign.alignment.aligner import NormAligner
from fairseq_normalign.alignment.combine import geometric_mean
from fairseq_normalign.alignment.combined import CombinedAligner
from fairseq_normalign.alignment.evidence import parse_evidence
from fairseq_normalign.attention.extract import relative
from fairseq_normalign.attention.soft import Evidence
from fairseq_normalign.errors import InputError
from fairseq_normalign.host.pairs import Pair
from tests.conftest import ToyTask, ready_model

pytestmark = pytest.mark.filterwarnings("ignore:only .* pairs", "ignore:.*by chance")
PAIRS = [("w1 w2 w3", "w4 w5"), ("w5", "w7 w8 w9"), ("w2 w4 w6 w8", "w1 w3 w5 w7"), ("", "w1")]


def aligner(languages: str = "ab", seed: int = 1, **options) -> NormAligner:
    task = ToyTask()
    task.args.source_lang, task.args.target_lang = languages
    return NormAligner(*ready_model(task, seed=seed), **options)


def backward(**options) -> NormAligner:
    """A model of the other direction: both sides share a dictionary."""
    return aligner("ba", seed=2, **options)


def test_product_of_two_directions_by_hand():
    evidences = [
        Evidence("norms", 0, "input"),
        Evidence("lrp-epsilon", None, "output"),
        Evidence("weights", 1, "output", reverse=True, weight=2),
    ]
    combined = CombinedAligner(
        aligner(), backward(), combine="product", evidences=evidences, extract="relative:0.9"
    )
    forward = aligner(layer=1, step="input")
    by_relevance = aligner(method="lrp-epsilon")
    reverse = backward(method="weights", layer=2, step="output")
    for pair, links in zip(PAIRS, combined.align_many(PAIRS), strict=True):
        shares = [
            forward.shares(forward.soft(*pair)),
            by_relevance.shares(by_relevance.soft(*pair)),
            reverse.shares(reverse.soft(*pair[::-1])).T,
        ]
        assert links == relative(geometric_mean(shares, [1, 1, 2]), share=0.9)


def test_evidences_in_any_order():
    names = "reverse:norms.1.input*2 norms.2.output reverse:weights.2.3.output norms.1.input*3"
    names = names.split()
    alignments = []
    for order in (names, names[::-1]):
        evidences = list(map(parse_evidence, order))
        combined = CombinedAligner(aligner(), backward(), combine="product", evidences=evidences)
        alignments.append(list(combined.align_many(PAIRS)))
    assert alignments[0] == alignments[1]


def test_a_method_has_evidence_of_every_layer_head_and_step():
    every = CombinedAligner(aligner(method="alti")).decide(PAIRS).decision.evidences
    assert len(set(every)) == 2 * 5 * 2
    assert {evidence.method for evidence in every} == {"alti"}


@pytest.mark.parametrize("directions", [1, 2])
def test_learned_takes_every_head_and_gives_probabilities(directions):
    combined = CombinedAligner(*[aligner(), backward()][:directions])
    decided = combined.decide(PAIRS)
    _, evidences, learned, *_ = decided.decision
    assert len(evidences) == directions * 2 * 5 * 2  # layers × (whole, heads) × steps
    assert learned.evidences.weights.shape == (len(evidences),)
    links = list(decided.align_many(PAIRS))
    assert len(links) == len(PAIRS)
    for _ in range(2):
        assert list(combined.align_many(PAIRS)) == links  # learned once, then used
    for soft in decided.soft_many(PAIRS):
        assert ((soft.words >= 0) & (soft.words <= 1)).all()


def test_default_evidences_of_a_mean_are_the_chosen_layers():
    decided = CombinedAligner(aligner(), combine="product").decide(PAIRS)
    (pairs,) = aligner().read(PAIRS)
    chosen, _ = aligner().chosen(list(pairs))
    assert decided.decision.evidences == chosen


@pytest.mark.parametrize(
    ("text", "evidence", "reverse", "weight"),
    [
        ("norms.1.input", Evidence("norms", 0, "input"), False, 1),
        ("reverse:head-norms.3.2.output*0.5", Evidence("head-norms", 2, "output", 1), True, 0.5),
        ("lrp.output", Evidence("lrp", None, "output"), False, 1),
        ("reverse:lrp:0.001.output*2", Evidence("lrp:0.001", None, "output"), True, 2),
    ],
)
def test_specs(text, evidence, reverse, weight):
    assert parse_evidence(text) == evidence._replace(reverse=reverse, weight=weight)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"combine": "sum"}, "unknown combination 'sum'; expected one of: auto, learned, product"),
        ({"evidences": [Evidence("norms", 5, "input")]}, "layer 6: the model has layers 1 to 2"),
        ({"evidences": [Evidence(reverse=True)]}, "there is no reverse model"),
        ({"evidences": [Evidence(weight=0)]}, "the evidences have weight 0"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(InputError, match=message):
        CombinedAligner(aligner(), **options)


@pytest.mark.parametrize(
    ("languages", "seed", "message"),
    [
        ("ab", 2, "the reverse model translates a → b, and the model a → b; use b → a"),
        ("ac", 2, "translates a → c, and the model a → b; use b → a"),
        ("bc", 2, "translates b → c, and the model a → b; use b → a"),
        ("ba", 1, "is the model itself, with the same weights"),
    ],
)
def test_reverse_models_that_are_none(languages, seed, message):
    both = [aligner(), aligner(languages, seed)]
    with pytest.raises(InputError, match=message):
        CombinedAligner(*both)


def test_a_multilingual_model_may_be_its_own_reverse_model():
    both = [aligner(), aligner("ba")]
    for one in both:
        one.reader.task.args.language_codes = "m2m_100"
    CombinedAligner(*both)


@pytest.mark.parametrize(("combine", "pairs"), [("product", []), ("learned", [("", "")] * 2)])
def test_nothing_to_align(combine, pairs):
    aligned = list(CombinedAligner(aligner(), combine=combine).align_many(pairs))
    assert aligned == [[] for _ in pairs]


def test_models_that_read_different_sentences():
    combined = CombinedAligner(aligner(), backward())
    pairs = [aligner().reader.pair("w1 w2 w3", "w4 w5", "line 7")]
    with pytest.raises(
        InputError, match="line 7: the models read different sentences; is the reverse model of"
    ):
        list(combined.run(pairs, pairs))


def test_one_pair_decides_for_all_that_follow_unless_others_have():
    combined = CombinedAligner(aligner(), combine="learned")
    message = "only 1 pairs, and no validation set: to learn weights well, align 100 pairs or more"
    with pytest.warns(UserWarning, match=message):
        combined.align(*PAIRS[0])
    decided = CombinedAligner(aligner()).decide(MANY)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="only .* pairs")
        assert decided.align(*MANY[0]) == next(decided.align_many(MANY))


def test_a_file_behind_the_name_of_a_method(tmp_path):
    path = tmp_path / "heads.2.input"  # which is no layer
    path.touch()
    evidence = parse_evidence(f"reverse:aligner:{path}.input*2")
    assert evidence == Evidence(f"aligner:{path}", None, "input", None, True, 2.0)


MANY = [(f"w{n % 9 + 1} w{n % 7 + 2} w3", f"w{n % 8 + 1} w{n % 5 + 2}") for n in range(120)]


def diagonal(pairs=MANY):
    return [[(0, 0), (1, 1)] for _ in pairs]


def test_links_of_another_aligner():
    combined = CombinedAligner(aligner(), backward(), links=1)
    alignments = list(combined.align_many(MANY, diagonal()))
    assert len(alignments) == len(MANY)
    assert combined.signature()["links"] == 1
    again = list(combined.align_many(MANY, (iter(links) for links in diagonal())))
    assert again == alignments


@pytest.mark.parametrize(
    ("links", "message"),
    [
        (diagonal(MANY[:-1]), "pair 120: another aligner's links are of fewer pairs"),
        (diagonal([*MANY, MANY[0]]), "pair 121: another aligner's links are of more pairs"),
        (
            [[(7, 0)], *diagonal(MANY[1:])],
            "another aligner's links, .*: link 7-0 where there are 3 source",
        ),
        ([[(-1, 0)], *diagonal(MANY[1:])], "link -1-0 where there are"),
    ],
)
def test_links_that_do_not_fit(links, message):
    combined = CombinedAligner(aligner(), backward(), links=1)
    with pytest.raises(InputError, match=message):
        list(combined.align_many(MANY, links))


def test_auto_learns_weights_where_there_are_pairs_enough():
    learned = CombinedAligner(aligner(), combine="learned").decide(MANY)
    auto = CombinedAligner(aligner(), combine="auto")
    assert auto.decide(MANY).signature() == learned.signature()
    message = "only 99 pairs, .*: aligned by the product of the layers that look best; for learn"
    with pytest.warns(UserWarning, match=message):
        few = auto.decide(MANY[:99])
    product = CombinedAligner(aligner(), combine="product").decide(MANY[:99])
    assert few.signature() == product.signature()
    assert list(few.align_many(MANY)) == list(product.align_many(MANY))


KINDS = {
    "one layer": lambda **options: aligner(),
    "product": lambda **options: CombinedAligner(aligner(), backward(), combine="product"),
    "learned": lambda **options: CombinedAligner(aligner(), backward(), **options),
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_learned_file_gives_the_same_links(kind, tmp_path):
    path = tmp_path / "learned"
    decided = KINDS[kind]().decide(MANY)
    decided.save(path)
    again = KINDS[kind]().load_learned(path)
    assert again.align(*MANY[3]) == list(decided.align_many(MANY))[3]
    assert again.signature() == decided.signature()
    assert again.agreement == decided.agreement
    again.save(tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == path.read_bytes()


def test_a_learned_file_keeps_what_a_bitext_said(tmp_path):
    text, path = tmp_path / "pairs", tmp_path / "learned"
    text.write_text("".join(f"{source} ||| {target}\n" for source, target in MANY))
    decided = KINDS["learned"](bitext=[str(text)]).decide(MANY)
    assert decided.signature()["bitext"] == 240  # with the corpus itself
    decided.save(path)
    text.unlink()
    again = KINDS["learned"]().load_learned(path)
    assert list(again.align_many(MANY)) == list(decided.align_many(MANY))
    of_all = again.soft(*MANY[3]).words
    assert again.confidences(again.soft(*MANY[3]), [(2, 1)]) == [pytest.approx(of_all[1, 2])]
    with pytest.raises(InputError, match="bitext: needs combination learned, not product"):
        CombinedAligner(aligner(), combine="product", bitext=["x"])


def test_pairs_that_are_aligned_are_forgotten():
    decided = KINDS["learned"]().decide(MANY)
    before = sum(type(thing) is Pair for thing in gc.get_objects())
    aligned = decided.align_many(("w1 w2", "w4") for _ in range(4000))
    for _ in range(3900):
        next(aligned)
    held = sum(type(thing) is Pair for thing in gc.get_objects()) - before
    assert held < 3000  # of the two models: some wait for pairs of similar length


def test_a_learned_file_that_does_not_fit(tmp_path):
    path = tmp_path / "learned"
    KINDS["learned"]().decide(MANY).save(path)
    KINDS["learned"](extract="relative:0.8").load_learned(path)  # links may be taken in other ways
    other_eos = CombinedAligner(aligner(eos="skip"), backward(eos="skip"))
    others = {
        "learned: learned with a reverse model as well: add -r": aligner(),
        "learned: learned with combine learned, but the options give product": KINDS["product"](),
        "learned: learned with links none, but the options give 1": KINDS["learned"](links=1),
        "learned: learned with eos null, but the options give skip": other_eos,
    }
    for message, other in others.items():
        with pytest.raises(InputError, match=message):
            other.load_learned(path)
    aligner().decide(MANY).save(path)
    with pytest.raises(InputError, match="learned with combine none, but the options give auto"):
        CombinedAligner(aligner(), combine="auto").load_learned(path)


DAMAGED = "not a file of normalign align --learned, or a damaged one"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda contents: contents.clear(), DAMAGED),
        (lambda contents: contents.update(version=1), DAMAGED),
        (lambda contents: contents["decision"]["evidences"][0].pop(), DAMAGED),
        (lambda contents: contents["decision"]["model"].update(clue_weights=[1.0]), DAMAGED),
        (lambda contents: operator.setitem(contents["decision"]["evidences"][0], 1, 8), "layer 9:"),
    ],
)
def test_a_damaged_learned_file(change, message, tmp_path):
    path = tmp_path / "learned"
    with pytest.raises(InputError, match="no such file; normalign align … --learned"):
        KINDS["one layer"]().load_learned(path)
    KINDS["learned"]().decide(MANY).save(path)
    contents = json.loads(path.read_text())
    change(contents)
    path.write_text(json.dumps(contents))
    with pytest.raises(InputError, match=message):
        KINDS["learned"]().load_learned(path)
