"""Pairs, soft alignments and results for pages, with words that would like to be HTML."""

from typing import NamedTuple

import numpy as np

from fairseq_normalign.alignment.aer import Counts
from fairseq_normalign.alignment.browser import Browser, System, TextPair
from fairseq_normalign.alignment.error_table import ErrorTable
from fairseq_normalign.attention.extract import argmax
from fairseq_normalign.attention.soft import Evidence
from fairseq_normalign.heads.profile import Finding, Profile
from fairseq_normalign.names import Head
from fairseq_normalign.results.page import overview, page, sections
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
EVIDENCES = [
    Evidence(method, layer, step, head)
    for method in ("norms", "weights")
    for layer in (0, 1)
    for head in (None, 0, 1)
    for step in ("input", "output")
] + [Evidence("saliency", None, "output")]


class View(NamedTuple):
    """What a system has for a pair, by evidence."""

    shares: list[np.ndarray]
    links: list[list[tuple[int, int]]]


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
        openings = [EVIDENCES[0], EVIDENCES[12]]
        system = System(name, EVIDENCES, openings, ("de", "en"))
        for pair, view in zip(pairs, views(number, pairs), strict=True):
            system.add(pair, *view)
        systems.append(system)
    return Browser(pairs, systems, ["a note"])


ENCODER = [Head("encoder", 0, 0), Head("encoder", 0, 1), Head("encoder", 1, 1)]
CROSS = Head("cross", 0, 0)
HEADS = Profile(
    [*ENCODER, CROSS],
    {
        "confidence": Finding(dict(zip([*ENCODER, CROSS], [0.25, 0.75, 0.5, 0.125], strict=True))),
        "AER": Finding({ENCODER[0]: 0.5, CROSS: 0.25}),
        "positions": Finding(
            {ENCODER[0]: 0.95},
            roles={ENCODER[0]: [("positional", "+1 (95 %)")]},
        ),
    },
    signature={"checkpoint": NASTY, "version": "0"},
)
AERS = {
    Evidence("norms", 0, "input"): 7,
    Evidence("norms", 1, "input"): 6,
    Evidence("norms", 0, "output"): 4,
    Evidence("norms", 1, "output"): 5,
    Evidence("saliency", None, "output"): 5,
}
ERRORS = ErrorTable(
    {evidence: Counts(10, 10, hits, hits) for evidence, hits in AERS.items()},
    {
        "norms": [Evidence("norms", 0, "input"), Evidence("norms", 1, "output")],
        "saliency": [Evidence("saliency", None, "output")],
    },
    {evidence: (0.98 - hits / 10, 1.02 - hits / 10) for evidence, hits in AERS.items()},
    signature={"gold": NASTY},
)


def html_of(made_browser=None, title=f"A title {NASTY}"):
    """A whole page."""
    included = [(f"errors{NASTY}.json", ERRORS), ("heads.json", HEADS)]
    contents = {
        "sections": [overview([("corpus", NASTY)], None, included), *sections(included)],
        "browser": None if made_browser is None else made_browser.as_json(),
    }
    packed = {} if made_browser is None else made_browser.packed()
    return "".join(page(title, contents, packed))
