"""``normalign report DATA --path CHECKPOINT -o FILE.html``: everything on one page."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence
from itertools import islice
from typing import Any

from fairseq_normalign.attention.extract import RULES, check_extract
from fairseq_normalign.attention.methods import METHODS
from fairseq_normalign.attention.soft import EOS
from fairseq_normalign.cli import checks, options
from fairseq_normalign.cli.checks import check_several
from fairseq_normalign.cli.shell import note
from fairseq_normalign.errors import InputError
from fairseq_normalign.files import (
    is_stream,
    read_lines,
    refuse_unwritable,
    short_names,
    whole_file,
)
from fairseq_normalign.results.page import Included, overview, page, sections
from fairseq_normalign.results.result import read_result

PARTS = ("heads", "mixing", "statistics")
PAGE_BYTES = 600_000  # what the page takes beside the soft alignments
DESCRIPTION = """Write an HTML report, one file: alignments of a corpus to browse, error rates of
layers and methods, maps of heads, mixing ratios, and results that other commands wrote as JSON.
Without a model it shows that JSON alone."""
EXAMPLE = """normalign report deen/ test.de test.en -o report.html
         normalign report --include heads.json mixing.json relevance.jsonl -o report.html"""


PAGE = """
page:
  -o --output FILE = required  the page: .html
  --include FILE...   JSON of methods, aer, heads, mixing, stats, evolution, probe or evaluate, or
                      the log of gates
  --title TITLE       title of the page (default: normalign report)
  --max-megabytes N = 15  how large the page may be: pairs that do not fit are left out
"""
OPTIONS = f"""
what is measured:
  --method NAME... = norms weights
      ways to align: {", ".join(METHODS)}; those of the whole model are slow
  --links FILE...     links of the same pairs to browse beside: of two models combined, of another
                      aligner; words from 0
  --extract NAME      how links are chosen: {", ".join(RULES)} (default: each method's own)
  --eos {"|".join(EOS)} = null
      null: a word that takes most from </s> gets no link; skip: </s> is left out
  --no-heads          whole layers alone: a smaller file, sooner
  --measure [{"|".join(PARTS)}...] = heads mixing
      what to show beside alignments, or nothing
  --limit N = 500     pairs that heads and mixing are measured on
  --max-sentences N = 500  pairs that can be browsed, the first ones
{options.gold_options("gold links: framed, and error rates of all layers and heads")}"""


def check(args: Namespace) -> None:
    """Refuses options that cannot be meant, before anything is loaded."""
    if not args.output.endswith((".html", ".htm")):
        raise InputError(f"--output {args.output}: the name must end in .html")
    refuse_unwritable(args.output, *args.include)
    checks.requires(args, "path", "gold", "links", "method", "measure", value="or MODEL")
    if not args.path:  # a page of results that other commands wrote
        if not args.include:
            raise InputError("nothing to show; name a MODEL, or --include FILE.json")
        return
    check_several(args)
    if args.gold:  # sentences show links, and error rates are taken by them
        checks.refuse_streams(args.gold, *args.links)
    check_extract(args.extract or "argmax")
    args.method = list(dict.fromkeys(args.method))
    checks.check_methods(args, *args.method)


parse_args = options.model_command(
    "report",
    DESCRIPTION,
    EXAMPLE,
    options.CORPUS + OPTIONS + PAGE,
    check,
    several=True,
    may_lack_model=True,
)


def main(args: Namespace) -> None:
    included = read_included(args.include)
    contents: dict[str, Any] = {"browser": None}
    packed: dict[str, str] = {}
    first = overview([], None, included)
    if args.path:
        from fairseq_normalign.cli.model import complete
        from fairseq_normalign.cli.report_models import gathered

        complete(args)
        budget = max(1, 1_000_000 * args.max_megabytes - PAGE_BYTES)
        first, included, browser = gathered(args, included, budget)
        contents, packed = {"browser": browser.as_json()}, browser.packed()
    contents["sections"] = [first, *sections(included)]
    write(args, "".join(page(args.title or "normalign report", contents, packed)))


def read_included(paths: Sequence[str]) -> list[Included]:
    """What files hold: JSON of our commands, or logs of ``fairseq-train --log-relevance``."""
    from fairseq_normalign.heads.relevance_log import GateLog, read_log

    included: list[Included] = []
    for path, name in zip(paths, short_names(paths), strict=True):
        first = "" if is_stream(path) else next(islice(read_lines(path), 1), "")
        is_log = first.startswith("{") and '"updates"' in first
        included.append((name, GateLog(read_log(path)) if is_log else read_result(path)))
    return included


def write(args: Namespace, text: str) -> None:
    """Writes the page, and says how large it is."""
    with whole_file(args.output) as file:
        file.write(text)
    size = len(text.encode("utf-8"))
    note(f"{args.output}: {size / 1e6:.1f} MB")
