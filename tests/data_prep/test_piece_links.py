"""Links of pieces against loops, and what fairseq would make of them."""

import pytest
from piece_links import piece_links

from fairseq_normalign.errors import InputError

SOURCE, TARGET = [0, 0, 1, 2], [0, 1, 1, 2, 2]
LINKS = [(0, 1), (2, 0), (1, 2)]


@pytest.mark.parametrize("read", [False, True])
def test_every_piece_with_every_piece(read):
    expected = []
    for source, source_word in enumerate(SOURCE):
        for target, target_word in enumerate(TARGET):
            row = target + 1 if read else target
            if (source_word, target_word) in LINKS and row < len(TARGET):
                expected.append((source, row))
    assert piece_links(LINKS, SOURCE, TARGET, read=read) == sorted(expected)


def test_no_index_is_one_that_fairseq_gives_all_links_up_for():
    """It does so for t ≥ T, and the row that reads the last piece is row T."""
    links = piece_links([(0, 2)], SOURCE, TARGET, read=True)
    assert links == [(0, 4), (1, 4)]
    assert piece_links([(0, 0)], [0], [0], read=True) == []


@pytest.mark.parametrize("link", [(3, 0), (0, 3)])
def test_a_link_beyond_the_sentence_is_refused(link):
    with pytest.raises(InputError, match=rf"^here:1: link {link[0]}-{link[1]} where there"):
        piece_links([link], SOURCE, TARGET, where="here:1")
