"""What the package offers by its own name."""

import pytest

import fairseq_normalign
from fairseq_normalign.alignment.aligner import NormAligner


def test_the_public_surface_is_there():
    for name in fairseq_normalign.__all__:
        assert getattr(fairseq_normalign, name) is not None
    assert fairseq_normalign.NormAligner is NormAligner
    with pytest.raises(AttributeError, match="has no attribute 'Aligner'"):
        fairseq_normalign.Aligner  # noqa: B018
