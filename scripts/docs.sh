#!/usr/bin/env bash
# Sets up, then builds the documentation into site/ in the clone, in strict mode: a link, an anchor or a picture that is
# not there is an error (not with mkdocs' --quiet, which counts no warnings). Arguments go to mkdocs, e.g.
# `bash scripts/docs.sh --site-dir elsewhere`.
. "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
cd "$ROOT"

if ! python -c 'import mkdocs, material, mkdocs_jupyter, mkdocstrings_handlers.python' 2> /dev/null; then
  say "Installing what builds the documentation"
  pip_install --no-build-isolation -e "$ROOT[docs]"
fi

say "Building site/"
# The theme would advertise its successor.
NO_MKDOCS_2_WARNING=1 mkdocs build --strict "$@"
echo "Open site/index.html; to search, too: python -m http.server -d site"
