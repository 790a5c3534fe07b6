"""The first section of the page, and all sections in their order."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from importlib import metadata

from fairseq_normalign.report.html.included import Included
from fairseq_normalign.results.blocks import (
    Block,
    Facts,
    Heading,
    Note,
    Row,
    Section,
    Table,
)
from fairseq_normalign.results.result import signature_text
from fairseq_normalign.version import __version__

# The sections of the page, by kind of result; other kinds come after them.
ORDER = (
    *("alignments", "scores", "heads", "gates", "pruning"),
    *("mixing", "statistics", "evolution", "probing"),
)
PACKAGES = ("torch", "fairseq", "fairseq-fixed", "numpy")


def written_with() -> Facts:
    """What wrote a page of files alone: numbers in them may be of other versions."""
    items = [("normalign", __version__), ("numbers", "from the files below; see their signatures")]
    return Facts(items, "This page was written with")


def versions() -> Facts:
    """What the numbers were made with."""
    items = [("normalign", __version__), ("Python", platform.python_version())]
    for package in PACKAGES:
        try:
            items.append((package, metadata.version(package)))
        except metadata.PackageNotFoundError:
            continue
    return Facts(items, "Measured with")


def overview(
    facts: Sequence[tuple[str, str]],
    models: Table | None,
    included: Sequence[Included],
    advice: Sequence[Note] = (),
) -> Section:
    """Models, data, versions, and what was measured with which settings.

    Args:
        facts: what is to be told of corpus and models.
        advice: what looks wrong and comes first.
    """
    blocks: list[Block] = [*advice, *findings(included)]
    if models is not None:
        blocks.append(models)
    corpus = [Facts(list(facts), "Data")] if facts else []
    made_with = versions() if models is not None else written_with()
    blocks += [Row([*corpus, made_with]), measured_table(included)]
    return Section("overview", "Overview", blocks)


def findings(included: Sequence[Included]) -> list[Block]:
    """The most important things found, before all details."""
    items = []
    for name, result in included:
        items += [(name, finding) for finding in result.findings]
    return [Facts(items, "Findings")] if items else []


def measured_table(included: Sequence[Included]) -> Block:
    """What each file or model brings, and its signature."""
    if not included:
        return Note("Nothing was measured beside the alignments.")
    rows = []
    for name, result in included:
        rows.append([result.title, name, signature_text(result.signature) or "–"])
    return Table(["section", "of", "signature"], rows, "What was measured")


def sections(included: Sequence[Included]) -> list[Section]:
    """A section for each kind of result, every file or model under its name."""
    by_kind: dict[str, list[Included]] = {kind: [] for kind in ORDER}
    for item in included:
        by_kind.setdefault(item.result.kind, []).append(item)
    made = []
    for kind, items in by_kind.items():
        blocks: list[Block] = []
        for name, result in items:
            blocks += [Heading(name), *result.blocks()]
        if items:
            first = items[0].result
            made.append(Section(kind, first.title, blocks, first.about))
    return made
