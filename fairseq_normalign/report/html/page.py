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
from collections.abc import Iterable, Iterator, Mapping
from importlib import resources
from string import Template
from typing import Any

MARK = "<!--data-->"  # where data stands in the template
SCRIPTS = ("dom.js", "charts.js", "alignments.js", "page.js")
STYLES = ("page.css",)

# Characters that mean something to HTML, or to readers of JavaScript, as JSON can spell them.
ESCAPES = {character: f"\\u{ord(character):04x}" for character in "<>&\u2028\u2029"}
TABLE = str.maketrans(ESCAPES)


def page(title: str, contents: Mapping[str, Any], packed: Mapping[str, str]) -> Iterator[str]:
    """The page in parts.

    Args:
        contents: what is drawn, as JSON takes it.
        packed: base64 texts by id, which the page unpacks when they are needed.
    """
    style = "\n".join(map(_asset, STYLES))
    script = "\n".join(map(_asset, SCRIPTS))
    template = Template(_asset("page.html"))
    before, after = template.substitute(
        title=html.escape(_storable(title)),
        policy=html.escape(policy(style, script)),
        style=style,
        script=script,
    ).split(MARK, 1)
    yield before
    yield data_element("contents", safe_json(contents))
    for name, text in packed.items():
        yield data_element(name, text)
    yield after


def data_element(name: str, text: str) -> str:
    """Data that the script finds by its id."""
    return f'<script type="application/json" id="{html.escape(name)}">{text}</script>\n'


def safe_json(contents: Any) -> str:
    """JSON that is the same text to HTML: no ``<``, so that ``</script>`` ends nothing."""
    text = json.dumps(contents, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return _storable(text.translate(TABLE))


def _storable(text: str) -> str:
    """Text with what UTF-8 cannot hold, as half a surrogate pair, spelled out as JSON does."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def policy(style: str, script: str) -> str:
    """What the page may do: run its script, use its style, and no more."""
    return "; ".join(
        [
            "default-src 'none'",
            f"script-src '{_hash(script)}'",
            f"style-src '{_hash(style)}'",
            "base-uri 'none'",
            "form-action 'none'",
        ]
    )


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"sha256-{base64.b64encode(digest).decode('ascii')}"


def _asset(name: str) -> str:
    return resources.files(__package__).joinpath("assets", name).read_text(encoding="utf-8")


def written(parts: Iterable[str], file: Any) -> int:
    """Writes the parts; returns how many bytes they are."""
    size = 0
    for part in parts:
        file.write(part)
        size += len(part.encode("utf-8"))
    return size
