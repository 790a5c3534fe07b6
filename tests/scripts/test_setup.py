"""The setup that all shell scripts share, with a Python that only pretends to install."""

from __future__ import annotations

import shutil

import pytest

from tests.conftest import ROOT, run

PRETENDED = """#!/bin/sh
[ "$1" = -m ] || exit 0
echo "$@" >> "{calls}"
echo "Requirement already satisfied: pip"
echo "Collecting torch"
echo "  Downloading torch-{long}.whl (900 MB)"
echo "Building wheel for fairseq (pyproject.toml): still running..."
{end}
"""


@pytest.fixture
def clone(tmp_path):
    """A clone whose environment is there, but empty."""
    (tmp_path / "scripts").mkdir()
    shutil.copy(ROOT / "scripts/setup.sh", tmp_path / "scripts")
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / ".venv/bin").mkdir(parents=True)
    (tmp_path / ".venv/bin/activate").write_text(f'PATH="{tmp_path}/.venv/bin:$PATH"\n')
    return tmp_path


def pretend(clone, end: str = "") -> None:
    python = clone / ".venv/bin/python"
    python.write_text(PRETENDED.format(calls=clone / "calls", long="x" * 200, end=end))
    python.chmod(0o755)


def set_up(clone, **options):
    return run("/usr/bin/env", "bash", clone / "scripts/setup.sh", cwd=clone, **options)


@pytest.mark.parametrize(("torch", "are_taken"), [({}, True), ({"TORCH": "torch==2.6"}, False)])
def test_the_versions_that_were_checked_are_taken(clone, torch, are_taken):
    (clone / "constraints.txt").touch()
    pretend(clone)
    set_up(clone, env=torch)
    calls = (clone / "calls").read_text().splitlines()
    assert len(calls) == 3
    for call in calls:
        assert (f" -c {clone}/constraints.txt " in call) == are_taken


def test_what_is_installed_is_not_installed_again(clone):
    pretend(clone)
    set_up(clone)
    before = (clone / "calls").read_text()
    assert set_up(clone).stdout == ""
    assert (clone / "calls").read_text() == before


def test_a_failure_of_pip_ends_the_setup(clone):
    pretend(clone, "echo 'ERROR: no torch' >&2; exit 1")
    done = set_up(clone, check=False)
    assert done.returncode == 1
    assert "ERROR: no torch" in done.stderr
    assert (clone / "calls").read_text().count("pip install") == 1
