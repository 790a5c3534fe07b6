"""The scripts of data_prep import one another as plain modules; so do their tests."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "data_prep"))
