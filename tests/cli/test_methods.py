"""``normalign methods`` lists both tables."""

from fairseq_normalign.attention.methods import METHODS
from fairseq_normalign.heads.head_scores import HEAD_SCORES, ranking_scores
from tests.conftest import run


def test_every_method_and_every_score_is_listed():
    methods, scores = run("normalign", "methods").stdout.split("\n\n")
    for name in METHODS:
        assert f"\n  {name} " in methods
    for name in HEAD_SCORES:
        mark = " *" if name in ranking_scores() else ""
        assert f"\n  {name}{mark} " in scores
    assert "NAME:NUMBER sets epsilon (default: 1e-05)" in " ".join(methods.split())
