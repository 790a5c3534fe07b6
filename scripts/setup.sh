# Sets up .venv in the clone, or reuses the one that is there. To be sourced: leaves the environment active and the
# project's folder in $ROOT.
#
# PYTHON  the interpreter to use (default: python3.11, else python3)
# TORCH   what to install as PyTorch (default: torch==2.13.0)
# BEAT    seconds between two signs of life while pip is silent (default: 60)

set -euo pipefail
ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

say() { printf '\n== %s\n' "$*"; }
# Installs, and shows how it goes, as ten silent minutes would look like a hang: on a terminal pip's own bars, elsewhere a
# line for each step and for each minute.
pip_install() {
  local beat status=0
  set -- ${CHECKED:+-c "$CHECKED"} "$@"
  if [ -t 1 ]; then
    python -m pip install "$@"
    return
  fi
  (while sleep "${BEAT:-60}" > /dev/null 2>&1; do echo "  installing for $((SECONDS / 60)) min"; done) &
  beat=$!
  python -m pip install --progress-bar off "$@" |
    sed -unE '/^ *(Collecting|Processing|Downloading|Building|Preparing|Running|Installing|Successfully)|still running/s/^ *(.{,100}).*/  \1/p' || status=$?
  kill "$beat" 2> /dev/null || true
  return "$status"
}
trap 'echo "$(basename "$0"): stopped at line $LINENO: $BASH_COMMAND" >&2' ERR

PYTHON=${PYTHON:-$(command -v python3.11 || command -v python3 || true)}
if [ -z "$PYTHON" ] && [ ! -x "$ROOT/.venv/bin/python" ]; then
  echo "no python3.11 or python3 found: install Python, or name one with PYTHON=…" >&2
  exit 1
fi
if [ ! -x "$ROOT/.venv/bin/python" ]; then
  if ! "$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 10))'; then
    echo "$PYTHON is $("$PYTHON" --version 2>&1): expected Python 3.10 or later, by PYTHON=…" >&2
    exit 1
  fi
  say "Making .venv with $PYTHON"
  "$PYTHON" -m venv "$ROOT/.venv" || { echo "python -m venv failed: install the venv module (python3-venv)" >&2; exit 1; }
fi
. "$ROOT/.venv/bin/activate"

# Done once for each version of the metadata.
STAMP="$ROOT/.venv/installed-$(cksum < "$ROOT/pyproject.toml" | tr ' ' '-')"
if [ ! -e "$STAMP" ]; then
  # The versions that were checked, on the Python that they were checked with, unless another PyTorch is asked for.
  CHECKED="$ROOT/constraints.txt"
  if [ -n "${TORCH:-}" ] || [ ! -e "$CHECKED" ] || ! python -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))'; then
    CHECKED=
  fi
  if python -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
    say "Installing PyTorch, then fairseq (built here, about 3 minutes the first time)"
    # fairseq is built in this environment: in one of its own, pip would download PyTorch a second time.
    pip_install "${TORCH:-torch==2.13.0}" numpy cython 'setuptools>=77' wheel
    pip_install --no-build-isolation fairseq-fixed==0.12.3.1
  else
    say "Installing PyTorch, then fairseq 0.12.2"
    # pip 24.1 refuses the metadata of omegaconf. fairseq is built in an environment of its own: with PyTorch around, its
    # build looks for files that it does not ship.
    pip_install 'pip<24.1'
    pip_install "${TORCH:-torch==2.13.0}" 'numpy<2' 'setuptools>=77' wheel
    pip_install fairseq==0.12.2
  fi
  say "Installing fairseq_normalign"
  pip_install --no-build-isolation -e "$ROOT[dev]"
  touch "$STAMP"
fi
