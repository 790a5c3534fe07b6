"""Pairs, soft alignments and results for pages, with words that would like to be HTML."""

import numpy as np

from fairseq_normalign.alignment.aer import Counts
from fairseq_normalign.alignment.error_table import ErrorTable
from fairseq_normalign.attention.extract import argmax
from fairseq_normalign.attention.soft import Choice, Evidence
from fairseq_normalign.report.html.browser import Browser, System, TextPair, View
from fairseq_normalign.report.html.included import Included, shown
from fairseq_normalign.report.html.overview import overview, sections
from fairseq_normalign.report.html.packing import Quality
from fairseq_normalign.report.html.page import page
from fairseq_normalign.results.blocks import Section, as_json
from fairseq_normalign.text.links import Gold

NASTY = "<script>window.hacked=1</script>"
PAIRS = [
    TextPair(1, ["ein", "haus", "."], ["a", "house", "."], Gold({(0, 0)}, {(0, 0), (1, 1)})),
    TextPair(
        2,
        [NASTY, "</script>", "<!--", "<img", "src=x", "onerror=hacked=1>"],
        ["a\u2028b", "&amp;", "$&", "\\u003c"],
        Gold({(1, 1), (2, 2)}, {(1, 1), (2, 2)}),
    ),
    TextPair(
        4, ["שלום", "עולם", "."], ["你好", "世界", "。"], Gold({(0, 0), (1, 1)}, {(0, 0), (1, 1)})
    ),
    TextPair(5, ["مرحبا"], ["bonjour", "à", "tous"], Gold(set(), set())),
]
LONG_PAIRS = [
    TextPair(1, [f"wort{place}" for place in range(50)], [f"word{place}" for place in range(45)]),
    TextPair(2, ["שלום"] * 60, ["peace"] * 60),
    TextPair(3, ["a", "short", "one"], ["سلام"] * 60),
    TextPair(4, [f"noch{place}" for place in range(50)], [f"more{place}" for place in range(45)]),
]
EVIDENCES = [
    Evidence(method, layer, step, head)
    for method in ("norms", "weights")
    for layer in (0, 1)
    for head in (None, 0, 1)
    for step in ("input", "output")
] + [Evidence("saliency", None, "output")]
QUALITY = Quality(63, 0.0)  # of single heads


def view_of(pair, seed):
    """Random shares, and their links."""
    random = np.random.default_rng(seed)
    shares, links = [], []
    for _ in EVIDENCES:
        cells = random.dirichlet(np.full(len(pair.source) + 1, 0.5), len(pair.target))
        shares.append(cells)
        links.append(argmax(cells[:, :-1], null=cells[:, -1]))
    return View(shares, links)


def views(system, pairs=PAIRS):
    return [view_of(pair, 100 * system + place) for place, pair in enumerate(pairs)]


def browser(*names, pairs=PAIRS):
    systems = []
    for number, name in enumerate(names):
        openings = {"norms": EVIDENCES[0], "weights": EVIDENCES[12]}
        system = System(name, EVIDENCES, openings, ("de", "en"))
        for pair, view in zip(pairs, views(number, pairs), strict=True):
            system.add(pair, view, QUALITY)
        systems.append(system)
    return Browser(pairs, systems, QUALITY, ["a note"])


def head(name, functions=(), **scores):
    roles = [f"{function} (95 %)" for function in functions]
    return {"head": name, "scores": scores, "roles": roles, "functions": list(functions)}


HEADS = {
    "signature": {"checkpoint": NASTY, "version": "0"},
    "heads": [
        head("encoder.1.1", ["positional"], confidence=0.25, AER=0.5),
        head("encoder.1.2", confidence=0.75),
        head("encoder.2.2", ["rare", "last"], confidence=0.5),
        head("cross.1.1", confidence=0.125, AER=0.25),
    ],
    "relations": {"nsubj→head": {"cases": 10, "baseline": 0.5, "offset": -1}},
    "trees": {},
    "relevance": None,
    "correlations": {
        "encoder": [
            {"scores": ["confidence", "AER"], "rho": 0.5, "interval": [0.1, 0.9], "heads": 4}
        ]
    },
}
AERS = {
    ("norms", 0, "input"): 3,
    ("norms", 1, "input"): 4,
    ("norms", 0, "output"): 6,
    ("norms", 1, "output"): 5,
    ("saliency", None, "output"): 4,
}
SCORES = {
    Evidence(*place): Counts(10, 10, 10 - tenths, 10 - tenths) for place, tenths in AERS.items()
}
ERRORS = ErrorTable(
    SCORES,
    {
        "norms": Choice({"input": 0, "output": 0}, "input"),
        "saliency": Choice({"output": None}, "output"),
    },
    {evidence: (counts.aer - 0.02, counts.aer + 0.02) for evidence, counts in SCORES.items()},
    signature={"gold": NASTY},
)


def html_of_blocks(*blocks):
    """A page of one section."""
    section = Section("made-up", "Made up", blocks)
    return "".join(page("Blocks", {"sections": as_json([section]), "browser": None}, {}))


def html_of(made_browser=None, title=f"A title {NASTY}"):
    """A whole page."""
    included = [Included(f"errors{NASTY}.json", ERRORS), shown(HEADS, "heads.json")]
    contents = {
        "sections": as_json([overview([("corpus", NASTY)], None, included), *sections(included)]),
        "browser": None if made_browser is None else made_browser.as_json(),
    }
    packed = {} if made_browser is None else dict(made_browser.packed())
    return "".join(page(title, contents, packed))
