"""A little of ``python -m tests.fuzz``, always the same: damaged files and odd command lines."""

import pytest

from fairseq_normalign.cli.main import COMMANDS
from tests import fuzz_targets
from tests.fuzz import Check, command_checks, file_check, heavy_checks, light_checks, run
from tests.fuzz_commands import Commands

LIGHT = {check.name: check for check in light_checks()}
HEAVY = {check.name: check for check in heavy_checks()}


@pytest.mark.parametrize("name", LIGHT)
def test_parsers_read_or_refuse(name):
    run(LIGHT[name], 40)


@pytest.mark.parametrize("name", HEAVY)
def test_models_are_read_or_refused(name):
    run(HEAVY[name], 2)


@pytest.fixture(scope="module")
def commands():
    with Commands() as commands:
        yield {check.name: check for check in command_checks(commands)}


@pytest.mark.parametrize("name", COMMANDS)
def test_commands_run_or_say_why_not(name, commands: dict[str, Check]):
    run(commands[f"normalign {name}"], 3)


def test_every_whole_file_is_read():
    """The files that are damaged are such as the parsers take, or nothing would be tested."""
    for target in [*fuzz_targets.LIGHT, *fuzz_targets.heavy()]:
        assert all(map(file_check(target).holds, target.wholes)), target.name
