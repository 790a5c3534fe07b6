"""Peak memory of a process.

``python -m benchmarks.peak FOLDER ARGUMENTS`` runs ``normalign ARGUMENTS`` there and prints it.
"""

from __future__ import annotations

import os
import resource
import sys
from pathlib import Path

from fairseq_normalign.cli.main import main as normalign


def peak_of_this_process() -> float:
    """ru_maxrss in megabytes, less what a process inherits.

    Linux starts it at the size of the parent.
    """
    status = Path("/proc/self/status")
    if status.exists():
        return int(status.read_text().split("VmHWM:")[1].split()[0]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (
        1024**2 if sys.platform == "darwin" else 1024
    )


def main(folder: str, *command: str) -> int:
    os.chdir(folder)
    status = normalign(list(command))
    print(peak_of_this_process(), file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
