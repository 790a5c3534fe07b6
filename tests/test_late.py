import sys

import pytest

import fairseq_normalign
from fairseq_normalign.late import imported, late


def test_a_late_function_is_imported_when_it_is_called():
    sys.modules.pop("fairseq_normalign.alignment.agreement", None)
    agreement = late("alignment.agreement:agreement")
    assert "fairseq_normalign.alignment.agreement" not in sys.modules
    assert agreement([{(0, 0)}], [{(0, 0)}]) == 1
    assert "fairseq_normalign.alignment.agreement" in sys.modules


def test_the_public_surface_is_there():
    for name in fairseq_normalign.__all__:
        assert getattr(fairseq_normalign, name) is not None
    assert imported("alignment.aligner:NormAligner") is fairseq_normalign.NormAligner
    with pytest.raises(AttributeError, match="has no attribute 'Aligner'"):
        fairseq_normalign.Aligner  # noqa: B018
