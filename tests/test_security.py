"""What ruff's rules of security do not see, in all files that users run."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT

FOLDERS = ("fairseq_normalign", "data_prep", "scripts", "benchmarks")
FILES = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))
FORBIDDEN_MODULES = {"pickle", "cPickle", "dill", "marshal", "shelve", "joblib", "cloudpickle"}
# Readers that would run code in a file, and the argument that keeps them from it.
SAFE = {
    "torch.load": ("weights_only", True),
    "np.load": ("allow_pickle", False),
    "numpy.load": ("allow_pickle", False),
    "np.lib.format.read_array": ("allow_pickle", False),
}


def calls(path: Path) -> Iterator[tuple[str, ast.Call]]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func), node


def imported(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add((node.module or "").partition(".")[0])
    return names


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_nothing_that_is_read_runs(path):
    assert not imported(path) & FORBIDDEN_MODULES
    for name, call in calls(path):
        assert name not in ("eval", "exec", "compile", "os.system", "os.popen"), call.lineno
        if name in SAFE:
            argument, value = SAFE[name]
            given = {keyword.arg: ast.unparse(keyword.value) for keyword in call.keywords}
            assert given.get(argument) == str(value), f"line {call.lineno}: {name}"
        if name.startswith("subprocess."):
            assert "shell" not in {keyword.arg for keyword in call.keywords}, call.lineno
