"""The Python scripts import one another as plain modules; so do their tests."""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "data_prep")]
