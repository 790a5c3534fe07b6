"""What PyPI gets: an sdist, the wheel that is built from it, and what they do outside the clone."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import fairseq
import pytest

from fairseq_normalign.version import __version__
from tests.conftest import PACKAGE

CLONE = Path(PACKAGE).parent
STEM = f"fairseq_normalign-{__version__}"
DATA = ("py.typed", "cli/fairseq_options.txt", "results/assets/page.html")
BUILD = "import sys; from setuptools import build_meta as b; getattr(b, sys.argv[1])(sys.argv[2])"


def run_apart(*words, folder: Path, **environment: str) -> str:
    """What a command prints, in another folder and without this clone on Python's path."""
    own = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = list(map(str, words))
    options = {"cwd": folder, "env": {**own, **environment}, "text": True, "check": False}
    done = subprocess.run(command, capture_output=True, **options)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def sdist(tmp_path_factory) -> Path:
    """Built from a copy, so that the clone stays as it is."""
    folder = tmp_path_factory.mktemp("sdist")
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(CLONE / name, folder)
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(PACKAGE, folder / "fairseq_normalign", ignore=ignored)
    run_apart(sys.executable, "-c", BUILD, "build_sdist", folder / "dist", folder=folder)
    return folder / "dist" / f"{STEM}.tar.gz"


@pytest.fixture(scope="module")
def wheel(sdist, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    run_apart(sys.executable, "-c", BUILD, "build_wheel", folder, folder=folder / STEM)
    (made,) = folder.glob("*.whl")
    return made


def add_fairseq(folder: Path) -> None:
    """fairseq as if it were installed in a folder of packages: it looks for plugins beside it."""
    (folder / "fairseq").mkdir()
    for path in Path(fairseq.__file__).parent.iterdir():
        (folder / "fairseq" / path.name).symlink_to(path)


@pytest.mark.slow
def test_both_hold_the_whole_package(sdist, wheel):
    modules = {str(path.relative_to(CLONE)) for path in Path(PACKAGE).rglob("*.py")}
    expected = modules | {f"fairseq_normalign/{name}" for name in DATA}
    with tarfile.open(sdist) as archive:
        names = {name.removeprefix(f"{STEM}/") for name in archive.getnames()}
    assert expected | {"LICENSE", "README.md"} <= names
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        metadata = archive.read(f"{STEM}.dist-info/METADATA").decode("utf-8")
    assert expected <= names
    assert not [name for name in names if name.startswith(("tests", "scripts", "benchmarks"))]
    assert "License-Expression: MIT" in metadata
    assert "Project-URL: Issues, https://github.com/" in metadata
    extras = set(re.findall(r"^Provides-Extra: (.*)$", metadata, re.MULTILINE))
    assert extras == {"bpe", "dev", "docs", "ray", "zst"}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["wheel", "sdist"])
def test_a_fresh_environment_installs_it(kind, request, tmp_path):
    """By pip, in an environment that sees the packages of this one but not the clone."""
    packages = Path(fairseq.__file__).parents[1]
    place = request.getfixturevalue(kind)
    run_apart(sys.executable, "-m", "venv", "--without-pip", "fresh", folder=tmp_path)
    (own,) = (tmp_path / "fresh/lib").glob("python*/site-packages")
    (own / "others.pth").write_text(f"{packages}\n")  # without its own .pth files
    add_fairseq(own)
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    binaries = tmp_path / "fresh/bin"
    options = ("--quiet", "--no-index", "--no-deps", "--no-build-isolation", "--force-reinstall")
    run_apart(binaries / "python", "-m", "pip", "install", *options, place, folder=folder)
    where = "import fairseq_normalign; print(fairseq_normalign.__file__)"
    found = run_apart(binaries / "python", "-c", where, folder=folder)
    assert found.startswith(str(own))
    version = run_apart(binaries / "normalign", "--version", folder=folder)
    assert version == f"normalign {__version__}\n"
    (folder / "gold").write_text("0-0 1-1\n")
    assert float(run_apart(binaries / "normalign", "aer", "gold", "gold", "-b", folder=folder)) == 0
    words = ("--user-dir", "fairseq_normalign", "--task", "translation_normalign", "--help")
    generate = ("-c", "from fairseq_cli.generate import cli_main; cli_main()", *words)
    assert "--align-method" in run_apart(binaries / "python", *generate, folder=folder)


def test_the_citation_names_this_version():
    for name in ("CITATION.cff", "docs/index.md"):
        text = (CLONE / name).read_text(encoding="utf-8")
        assert re.search(rf"^ *version *[:=] *{{?{re.escape(__version__)}\b", text, re.MULTILINE)
