#!/usr/bin/env python
"""Executes the example notebook, docs/notebook.ipynb, in place: in docs/, beside the demo's folder.

`bash scripts/demo.sh` makes what it reads; `pip install -e '.[docs]'` installs what executes it.
"""

from __future__ import annotations

import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).parents[1] / "docs/notebook.ipynb"
SECONDS = 600  # that a cell may take


def execute(path: Path, folder: Path) -> nbformat.NotebookNode:
    """The notebook with fresh outputs, and nothing that changes from run to run for no reason."""
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook,
        timeout=SECONDS,
        resources={"metadata": {"path": str(folder)}},
        record_timing=False,
    )
    client.execute()
    notebook.metadata.language_info = {"name": "python"}  # without the version of Python
    return notebook


def main() -> None:
    demo = NOTEBOOK.parents[1] / "demo"
    if not (demo / "reverse/checkpoint_last.pt").exists():
        sys.exit(f"{demo}: no models in it; expected those of bash scripts/demo.sh")
    nbformat.write(execute(NOTEBOOK, NOTEBOOK.parent), NOTEBOOK)


if __name__ == "__main__":
    main()
