"""JSON of other commands: what it is recognised by, and what becomes of it."""

import json
import os
import subprocess
import sys

import pytest

from fairseq_normalign.errors import InputError
from fairseq_normalign.heads.head_scores import HEAD_SCORES
from fairseq_normalign.heads.relevance_log import Entry, GatedHead, as_line
from fairseq_normalign.names import Head
from fairseq_normalign.report import heads
from fairseq_normalign.report.html import head_blocks
from fairseq_normalign.report.html.included import KINDS, SECTIONS, read_included, shown
from fairseq_normalign.report.html.overview import measured_table, overview, sections
from fairseq_normalign.results.blocks import Choice, Grid, Row, Table, as_json
from tests.report.html.made_up import ERRORS, HEADS

ANALYSES = {
    "ATTN-W": {
        **{"mean": 0.5, "min": 0.1, "max": 0.9, "rho": None, "rho_without_specials": 0.5},
        "macro": [{"word": 0.25, "special": None, "overall": 0.5}],
        "micro": [{"word": 0.75, "special": None, "overall": 0.5}],
    }
}
MIXING = {"tokens": {"word": 10, "special": 0, "overall": 10}, "analyses": ANALYSES}
LENGTHS = {"mean": 1.0, "deviation": 0.5, "CV": 0.5, "min": 0.1, "max": 2.0}
BY_CATEGORY = {"word": 0.25, "special": None}
RELATION = {"rho": 0.5, "points": 5, "of": 10}
STATISTICS = {
    "norms_of_x": LENGTHS,
    "norms_of_f": LENGTHS,
    "layers": [
        {
            "layer": 1,
            "norms_of_x": LENGTHS,
            "expansion_rate": 0.5,
            "heads": {
                "encoder.1.2": {
                    "norms_of_f": LENGTHS,
                    "expansion_rate": 0.25,
                    "weights": BY_CATEGORY,
                    "weighted_norms": BY_CATEGORY,
                    "mean_norms_of_f": BY_CATEGORY,
                }
            },
        }
    ],
    "weight_with_norm": {"word": RELATION, "special": {"rho": None, "points": 0, "of": 0}},
    "rank_with_weight": RELATION,
    "rank_with_norm": RELATION,
}


def evaluated(name, heads, bleu):
    by_kind = {f"{kind}_heads": [heads] for kind in ("encoder", "decoder", "cross")}
    sizes = {"parameters": 1000, "megabytes": 0.5, "speed": 1.0}
    return {"model": name, "names": [], "heads": 3 * heads, **by_kind, **sizes, "BLEU": bleu} | {
        "signatures": {"BLEU": "tok:13a"}
    }


EVALUATED = [
    evaluated("full.pt", 4, 20.0),
    {**evaluated("pruned.pt", 2, 18.0), "scratch": evaluated("new.pt", 2, 15.0)},
]
SPREAD = {"mean": 0.5, "deviation": 0.1}
LAYER = {"score": "norm", "attention": "cross", "layer": 1}
SUMMARY = dict.fromkeys(("lowest", "mean", "highest"), SPREAD)
ALL = {
    "heads of one": (HEADS, "heads"),
    "heads of two": (
        {
            "models": {"a": HEADS, "b": HEADS},
            "layers": [{**LAYER, **SUMMARY}],
            "correlations": {"encoder": [{"scores": ["norm", "AER"], **SPREAD}]},
        },
        "heads",
    ),
    "evaluate": (EVALUATED, "pruning"),
    "mixing": (
        {"signature": {}, "models": [{"checkpoint": "x/a.pt", "attentions": {"encoder": MIXING}}]},
        "mixing",
    ),
    "stats": (
        {"signature": {}, "models": [{"checkpoint": "a", "attentions": {"encoder": STATISTICS}}]},
        "statistics",
    ),
    "signature": ({"signature": {"method": "norms"}, "size": 12}, "links"),
}


@pytest.mark.parametrize("name", ALL)
def test_each_kind_is_known_by_what_it_holds(name):
    contents, section = ALL[name]
    (item,) = shown(json.loads(json.dumps(contents)), "x.json")
    assert item.kind.section == section
    json.dumps(as_json(item.blocks), allow_nan=False)


@pytest.mark.parametrize("name", ALL)
def test_nothing_is_of_two_kinds(name):
    contents, _ = ALL[name]
    assert sum(kind.fits(contents) for kind in KINDS) == 1


def test_statistics_with_mixing_have_two_sections():
    contents, _ = ALL["stats"]
    mixing, _ = ALL["mixing"]
    items = shown({**contents, "mixing": mixing["models"]}, "x.json")
    assert [item.kind.section for item in items] == ["statistics", "mixing"]


def gate_log():
    """Two lines of ``--log-relevance``: a gate that is half open, and then closed."""
    entries = []
    for updates, gate in ((10, 0.5), (20, 0.0)):
        state = GatedHead(gate, gate, 0.25)
        entries.append(Entry(updates, 5, "voita", {Head("encoder", 0, 1): state}))
    return "".join(f"{as_line(entry)}\n" for entry in entries)


@pytest.fixture
def piped():
    """A function that names a pipe with a text in it."""
    descriptors = []

    def pipe(text):
        reading, writing = os.pipe()
        descriptors.append(reading)
        os.write(writing, text.encode())  # it has room for the short texts of tests
        os.close(writing)
        return f"/dev/fd/{reading}"

    yield pipe
    for descriptor in descriptors:
        os.close(descriptor)


def test_json_of_a_pipe(piped):
    (item,) = read_included([piped(json.dumps(HEADS))])
    assert item.kind.section == "heads"


def test_a_log_of_gates_is_refused_from_a_pipe(piped):
    path = piped(gate_log())
    with pytest.raises(InputError) as refused:
        read_included([path])
    assert str(refused.value) == (
        f"{path}: can be read only once, and a log of gates is read twice; expected a file"
    )


def test_a_log_of_gates(tmp_path):
    log = tmp_path / "gates"
    log.write_text(gate_log())
    (item,) = read_included([str(log)])
    assert item.kind.section == "gates"
    opened, gates, relevance = item.blocks
    assert [point.y for point in opened.curves[0].points] == [1, 0]
    (curve,) = gates.blocks[0].curves
    assert (curve.name, curve.dashed) == ("encoder.1.2", True)
    assert [(point.x, point.y) for point in curve.points] == [(10, 0.5), (20, 0.0)]
    assert relevance.blocks[0].curves[0].points[0].y == 0.25


def test_percent_is_what_tables_call_so():
    assert head_blocks.PERCENT == heads.PERCENT


def test_json_needs_no_pytorch():
    code = "import sys, fairseq_normalign.report.html.included; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_maps_of_scores_with_roles():
    (item,) = shown(HEADS, "x.json")
    note, choice, relations, correlations = item.blocks
    assert note.text == "Marks are roles: P positional, S syntactic, R rare, L last."
    assert [option.name for option in choice.options] == [
        "encoder self-attention",
        "source–target attention",
    ]
    confidence, aer = choice.options[0].blocks[0].blocks
    assert confidence.values == [[0.25, 0.75], [None, 0.5]]
    assert confidence.marks == [["P", ""], ["", "RL"]]
    assert confidence.notes == [
        ["roles: positional (95 %)", ""],
        ["removed", "roles: rare (95 %), last (95 %)"],
    ]
    assert aer.values[0] == [50.0, None]
    assert relations.rows == [["nsubj→head", 10, 50.0, "", None]]
    assert correlations.options[0].blocks[0].rows == [["confidence", "AER", 0.5, "+0.10 to +0.90"]]


def test_heads_of_several_models_in_the_units_of_their_maps():
    contents, _ = ALL["heads of two"]
    aer = {**LAYER, **SUMMARY, "score": "AER", "lowest": {"mean": 0.25, "deviation": None}}
    (item,) = shown({**contents, "layers": [*contents["layers"], aer]}, "x.json")
    _, table, _ = item.blocks
    assert table.title == "Heads of each layer, mean ± deviation of 2 models"
    assert [row[3:] for row in table.rows] == [
        ["0.500 ± 0.100"] * 3,
        ["25.0 %", "50.0 ± 10.0 %", "50.0 ± 10.0 %"],
    ]


def test_mean_rank_correlations_of_several_models():
    contents, _ = ALL["heads of two"]
    pairs = [
        {"scores": ["norm", "AER"], "mean": -0.25, "deviation": 0.1},
        {"scores": ["norm", "entropy"], "mean": 0.5, "deviation": 0.0},
    ]
    (item,) = shown({**contents, "correlations": {"encoder": pairs, "cross": []}}, "x.json")
    choice = item.blocks[-1]
    assert (choice.label, [option.name for option in choice.options]) == (
        "over the heads of",
        ["encoder"],
    )
    (table,) = choice.options[0].blocks
    assert table.title == "Rank correlations (Spearman), mean ± deviation of 2 models"
    assert table.columns == ["score", "and score", "mean ρ", "deviation"]
    assert table.rows == [["norm", "AER", -0.25, 0.1], ["norm", "entropy", 0.5, 0.0]]


def test_mixing_ratios_in_percent_without_empty_categories():
    contents, _ = ALL["mixing"]
    (item,) = shown(contents, "x.json")
    about, choice, summary = item.blocks
    assert about.text == "ATTN-W: attention alone, by its weights α."
    assert isinstance(choice, Choice)
    grid = choice.options[0].blocks[0].blocks[0]
    assert (grid.columns, grid.values) == (["word", "overall"], [[25.0, 50.0]])
    assert choice.options[1].blocks[0].blocks[0].values == [[75.0, 50.0]]
    assert summary.rows == [["encoder self-attention", "ATTN-W", 50.0, 10.0, 90.0, None, 0.5]]


def test_heads_left_against_quality():
    (item,) = shown(EVALUATED, "x.json")
    (curves,) = item.blocks[0].blocks
    trained, scratch = curves.curves
    assert [(point.x, point.y, point.note) for point in trained.points] == [
        (6, 18.0, "pruned.pt"),
        (12, 20.0, "full.pt"),
    ]
    assert [(point.x, point.y) for point in scratch.points] == [(6, 15.0)]
    assert item.blocks[2].rows == [("BLEU", "tok:13a")]


def test_statistics_by_category_and_head():
    contents, _ = ALL["stats"]
    (item,) = shown(contents, "x.json")
    _, categories, heads, lengths, relations = item.blocks
    assert isinstance(categories, Row)
    assert categories.blocks[0].values == [[0.25, None]]
    assert isinstance(heads.blocks[0], Grid)
    assert heads.blocks[0].values == [[None, 1.0]]
    assert isinstance(lengths, Table)
    assert [row[0] for row in relations.rows] == [
        "α with ‖f(x)‖: word",
        "frequency rank with α",
        "frequency rank with ‖f(x)‖",
    ]


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        ("[1, 2]", "x.json: JSON of no kind that is known; expected what normalign align --all"),
        ("{}", "JSON of no kind that is known"),
        (
            '{"signature": {}, "correlations": {}, "heads": [{"head": "cross.1.999999999", '
            '"scores": {}, "roles": [], "functions": []}]}',
            "number 999999999; expected at most 1000",
        ),
        (json.dumps([{**EVALUATED[0], "heads": "x"}, EVALUATED[0]]), "is damaged"),
        (
            json.dumps([{**EVALUATED[0], "heads": "x"}, {**EVALUATED[1], "heads": "y"}]),
            "expected numbers on its axis, or names, not both",
        ),
        ("no", r"x.json: no JSON \(Expecting value"),
        ('{"models": NaN}', "no JSON .NaN is no number of JSON."),
        ("[" * 100_000, "no JSON"),
        (
            '{"signature": {}, "heads": [{"head": "x"}], "correlations": {}}',
            "looks like what heads",
        ),
        ('{"models": [{"checkpoint": "a", "attentions": {"x": {"analyses": {}}}}]}', "is damaged"),
    ],
)
def test_other_files_are_refused_in_one_line(contents, message, tmp_path):
    path = tmp_path / "x.json"
    path.write_text(contents)
    with pytest.raises(InputError, match=message) as refused:
        read_included([str(path)])
    assert "\n" not in str(refused.value)


def test_folders_are_refused(tmp_path):
    with pytest.raises(InputError, match="is a directory; expected JSON"):
        read_included([str(tmp_path)])


def test_sections_stand_in_their_order_under_the_names_of_files(tmp_path):
    for name, contents in {"b.json": HEADS, "a.json": ERRORS.json()}.items():
        (tmp_path / name).write_text(json.dumps(contents))
    included = read_included([str(tmp_path / "b.json"), str(tmp_path / "a.json")])
    made = sections(included)
    assert [section.title for section in made] == [SECTIONS["alignments"], SECTIONS["heads"]]
    assert made[0].blocks[0].text == "a.json"
    table = measured_table(included)
    assert table.rows[0][:2] == ["Attention heads", "b.json"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("evaluate", "BLEU|tok:13a"),
        ("heads of two", "checkpoint:<script>window.hacked=1</script>|version:0"),
        ("signature", "method:norms"),
    ],
)
def test_the_overview_has_the_signatures_of_files(name, expected):
    contents, _ = ALL[name]
    assert measured_table(shown(contents, "x.json")).rows[0][-1] == expected


def test_a_page_of_files_does_not_say_what_they_were_measured_with():
    (row, _) = overview([], None, shown(HEADS, "x.json")).blocks
    (facts,) = row.blocks
    assert facts.title == "This page was written with"
    assert [name for name, _ in facts.items] == ["normalign", "numbers"]
    (_, row, _) = overview([], Table(["model"], [["a.pt"]]), shown(HEADS, "x.json")).blocks
    assert "Python" in [name for name, _ in row.blocks[0].items]


@pytest.mark.parametrize(
    ("name", "tool"),
    [
        ("heads of one", "normalign heads"),
        ("mixing", "normalign mixing"),
    ],
)
def test_headings_name_the_command_as_people_know_it(name, tool):
    contents, _ = ALL[name]
    (section,) = sections(shown(contents, "x.json"))
    assert section.blocks[0].note == tool


def test_low_is_good_in_what_head_scores_say():
    low = [name for name, score in HEAD_SCORES.items() if score.low]
    assert sorted(head_blocks.LOW) == sorted(low)
    (item,) = shown(HEADS, "x.json")
    confidence, aer = item.blocks[1].options[0].blocks[0].blocks
    assert (confidence.low, aer.low) == (False, True)
    assert (confidence.absent, aer.absent) == ("removed", "no value")


def of_roles(position, rare):
    """A head with the shares that roles are awarded by."""
    head = {"head": "encoder.1.1", "scores": {"norm": 1.0}, "roles": [], "functions": []}
    head["position"] = {"offset": -2, "share": position, "patterns": {}}
    head["rare"] = {"rarest": {"tokens": rare, "sentences": 0.5, "chance": 0.1}}
    return {
        "signature": {"positional": 0.9, "rare": 0.5},
        "heads": [head],
        "correlations": {"encoder": [{"scores": ["norm", "AER"], "rho": None, "heads": 1}]},
    }


def test_shares_that_make_roles_are_maps_and_roles_that_no_head_has_are_told():
    (item,) = shown(of_roles(0.625, 0.25), "x.json")
    row, positional, rare = item.blocks  # no empty table of correlations
    assert [grid.title for grid in row.blocks] == ["norm", "position share", "rare-token share"]
    assert [grid.values for grid in row.blocks] == [[[1.0]], [[62.5]], [[25.0]]]
    assert row.blocks[1].notes == [["at −2"]]
    assert positional.text == (
        "No head is positional: that needs 90 % of the maxima; encoder.1.1 has 62.5 %."
    )
    assert rare.text == "No head is rare: that needs 50 % of the maxima; encoder.1.1 has 25.0 %."


def test_roles_that_a_head_has_are_not_missed():
    contents = of_roles(0.95, 0.25)
    contents["heads"][0]["functions"] = ["positional"]
    (item,) = shown(contents, "x.json")
    assert [block.text[:17] for block in item.blocks if block.type == "note"] == [
        "Marks are roles: ",
        "No head is rare: ",
    ]


def test_gates_have_the_colours_of_their_layers(tmp_path):
    log = tmp_path / "gates"
    state = GatedHead(0.5, 0.5, 0.25)
    heads = {Head("encoder", layer, head): state for layer in (0, 2) for head in (0, 1)}
    log.write_text(f"{as_line(Entry(10, 5, 'voita', heads))}\n")
    (item,) = read_included([str(log)])
    gates = item.blocks[1].blocks[0]
    assert [curve.colour for curve in gates.curves] == [0, 0, 1, 1]
    assert gates.colours == ["layer 1", "layer 3"]
    assert item.signature_text == "sentences:5|rules:voita"
