#!/usr/bin/env bash
# Sets up, then checks style and imports and runs the tests. Arguments go to pytest: --cov measures coverage, -m "not slow"
# leaves out what trains, decodes, fuzzes, starts Ray or a browser.
. "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
cd "$ROOT"

say "Style, types and imports"
ruff format --check .
ruff check .
lint-imports
mypy

# The page of `normalign report` is tested in a real browser; without one, those tests are skipped and say why.
if ! python -c 'import playwright' 2> /dev/null; then
  python -m pip install --quiet playwright || echo "playwright cannot be installed: tests in a browser are skipped"
fi
if ! command -v chromium > /dev/null && [ "$(id -u)" = 0 ] && command -v apt-get > /dev/null; then
  say "Installing chromium"
  { timeout 120 apt-get update && timeout 300 apt-get install --yes --no-install-recommends chromium; } > /dev/null 2>&1 ||
    echo "chromium cannot be installed: tests in a browser are skipped"
fi

say "Tests"
python -m pytest -n "${JOBS:-2}" --dist loadscope "$@"
