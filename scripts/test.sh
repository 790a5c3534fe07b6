#!/usr/bin/env bash
# Sets up, then checks style and imports and runs the tests. Arguments go to pytest.
. "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
cd "$ROOT"

say "Style, types and imports"
ruff format --check .
ruff check .
lint-imports
mypy

say "Tests"
python -m pytest -n "${JOBS:-2}" --dist loadscope --cov --cov-report=term:skip-covered "$@"
