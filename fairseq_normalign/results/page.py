"""The page: one file of HTML that needs no other, and nothing of the network.

What it shows is data in ``<script>`` elements that no browser runs; its own script takes them as
text. A Content-Security-Policy allows that one script and style, by their hashes, and nothing else:
text of a corpus or of a file can become neither code nor a request.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import platform
from collections.abc import Iterator, Mapping, Sequence
from importlib import metadata, resources
from string import Template
from typing import Any

from fairseq_normalign.results.blocks import Block, Facts, Heading, Note, Row, Table, as_json
from fairseq_normalign.results.result import Result, signature_text
from fairseq_normalign.version import __version__

# The sections of the page, by kind of result; other kinds come after them.
ORDER = (
    *("alignments", "scores", "heads", "gates", "pruning"),
    *("mixing", "statistics", "evolution", "probing"),
)
PACKAGES = ("torch", "fairseq", "fairseq-fixed", "numpy")
MARK = "<!--data-->"  # where data stands in the template
SCRIPTS = ("dom.js", "charts.js", "alignments.js", "page.js")

Included = tuple[str, Result]  # a result on the page, behind the file or model that it is of

# Characters that mean something to HTML, or to readers of JavaScript, as JSON can spell them.
ESCAPES = str.maketrans({sign: f"\\u{ord(sign):04x}" for sign in "<>&\u2028\u2029"})


Section = dict[str, Any]  # a part of the page, as JSON takes it


def section(id: str, title: str, blocks: Sequence[Block], about: str = "") -> Section:
    """A part of the page.

    Args:
        about: what a reader may not know.
    """
    return {"id": id, "title": title, "blocks": as_json(blocks), "about": about}


def overview(
    facts: Sequence[tuple[str, str]],
    models: Table | None,
    included: Sequence[Included],
) -> Section:
    """The first section: findings, models, data, versions, and what was measured how.

    Args:
        facts: what is to be told of corpus and models.
    """
    found, measured = [], []
    for name, result in included:
        found += [(name, finding) for finding in result.findings]
        measured.append([result.title, name, signature_text(result.signature) or "–"])
    blocks: list[Block] = []
    if found:
        blocks.append(Facts(found, "Findings"))
    if models is not None:
        blocks.append(models)
    corpus = [Facts(list(facts), "Data")] if facts else []
    blocks.append(Row([*corpus, _versions(measured_now=models is not None)]))
    if measured:
        blocks.append(Table(["section", "of", "signature"], measured, "What was measured"))
    else:
        blocks.append(Note("Nothing was measured beside the alignments."))
    return section("overview", "Overview", blocks)


def _versions(*, measured_now: bool) -> Facts:
    """What the numbers were made with; numbers in files may be of other versions."""
    items = [("normalign", __version__)]
    if not measured_now:
        items.append(("numbers", "from the files below; see their signatures"))
        return Facts(items, "This page was written with")
    items.append(("Python", platform.python_version()))
    for package in PACKAGES:
        try:
            items.append((package, metadata.version(package)))
        except metadata.PackageNotFoundError:
            continue
    return Facts(items, "Measured with")


def sections(included: Sequence[Included]) -> list[Section]:
    """A section for each kind of result, every file or model under its name."""
    by_kind: dict[str, list[Included]] = {kind: [] for kind in ORDER}
    for name, result in included:
        by_kind.setdefault(result.kind, []).append((name, result))
    made = []
    for kind, items in by_kind.items():
        blocks: list[Block] = []
        for name, result in items:
            blocks += [Heading(name), *result.blocks()]
        if items:
            _, first = items[0]
            made.append(section(kind, first.title, blocks, first.about))
    return made


def page(title: str, contents: Mapping[str, Any], packed: Mapping[str, str]) -> Iterator[str]:
    """The page in parts.

    Args:
        contents: what is drawn, as JSON takes it.
        packed: base64 texts by id, which the page unpacks when they are needed.
    """
    style = _asset("page.css")
    script = "\n".join(map(_asset, SCRIPTS))
    before, after = (
        Template(_asset("page.html"))
        .substitute(
            title=html.escape(_storable(title)),
            policy=html.escape(policy(style, script)),
            style=style,
            script=script,
        )
        .split(MARK, 1)
    )
    yield before
    for name, text in {"contents": safe_json(contents), **packed}.items():
        yield f'<script type="application/json" id="{html.escape(name)}">{text}</script>\n'
    yield after


def safe_json(contents: Any) -> str:
    """JSON that is the same text to HTML: no ``<``, so that ``</script>`` ends nothing."""
    text = json.dumps(contents, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return _storable(text.translate(ESCAPES))


def _storable(text: str) -> str:
    """Text with what UTF-8 cannot hold, as half a surrogate pair, spelled out as JSON does."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def policy(style: str, script: str) -> str:
    """What the page may do: run its script, use its style, and no more."""
    return (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; "
        "base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"sha256-{base64.b64encode(digest).decode('ascii')}"


def _asset(name: str) -> str:
    return resources.files(__package__).joinpath("assets", name).read_text(encoding="utf-8")
