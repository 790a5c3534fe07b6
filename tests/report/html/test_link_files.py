"""Links of files beside the models in the browser of alignments."""

import base64
import zlib

import numpy as np
import pytest

from fairseq_normalign.errors import InputError
from fairseq_normalign.report.html.link_files import system_of_links
from fairseq_normalign.report.html.packing import LINKED
from tests.report.html.made_up import PAIRS

LINES = ["0-0 2-2 2-1", "1-1", "5-5", "0-2", ""]  # line 3 is of a pair that is left out


def system_of(folder, lines, total=5):
    path = folder / "links"
    path.write_text("".join(f"{line}\n" for line in lines))
    return system_of_links(str(path), "links", PAIRS, ("de", "en"), total)


@pytest.mark.parametrize("total", [5, None])
def test_links_are_cells_and_have_error_rates(tmp_path, total):
    system = system_of(tmp_path, LINES, total)
    assert len(system.packed) == len(PAIRS)
    cells = np.frombuffer(zlib.decompress(base64.b64decode(system.packed[0])), np.uint8)
    rows = cells.reshape(3, 4)  # a house . ← ein haus . </s>
    assert np.argwhere(rows & LINKED).tolist() == [[0, 0], [1, 2], [2, 2]]
    assert system.as_json()["soft"] is False
    # Of three links one is sure, and there is one sure link in all: 1 - (1 + 1) / (3 + 1).
    assert system.aers[0] == [0.5]


def test_links_of_another_corpus_are_refused(tmp_path):
    with pytest.raises(InputError, match="links: has 4 lines; expected 5, one for each pair"):
        system_of(tmp_path, LINES[:4])
    with pytest.raises(InputError, match="links: has 6 lines; expected 5, one for each pair"):
        system_of(tmp_path, [*LINES, ""])
    with pytest.raises(InputError, match="links: has 4 lines; expected 5, one for each pair"):
        system_of(tmp_path, LINES[:4], total=None)
    with pytest.raises(InputError, match=r"links:1: another aligner's link 3-0 where there are 3"):
        system_of(tmp_path, ["3-0", *LINES[1:]])
