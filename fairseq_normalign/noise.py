"""What PyTorch and fairseq say that a user cannot act on stays off the screen.

Our own warnings are not touched, nor what fairseq's commands say.
"""

from __future__ import annotations

import logging
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

# How fairseq calls its libraries.
HIDDEN = (
    "Support for mismatched key_padding_mask",
    "The PyTorch API of nested tensors is in prototype stage",
    "enable_nested_tensor is True",
    "pkg_resources is deprecated",
)


def hide_warnings() -> None:
    """Hides the warnings that are no news, until the filters of warnings change."""
    for message in HIDDEN:
        warnings.filterwarnings("ignore", message=message)


@contextmanager
def first_import() -> Iterator[None]:
    """Within it, fairseq may be imported: it then greets nobody and leaves logging as it was.

    On import, fairseq opens the root logger for all debug messages, of all libraries. If it has
    been imported before, logging is somebody else's choice.
    """
    hide_warnings()
    if "fairseq" in sys.modules:
        yield
        return
    root = logging.root
    handlers, level, disabled = list(root.handlers), root.level, root.manager.disable
    logging.disable(max(disabled, logging.INFO))
    try:
        yield
    finally:
        logging.disable(disabled)
        root.handlers[:] = handlers
        root.setLevel(level)
