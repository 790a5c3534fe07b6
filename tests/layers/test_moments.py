import numpy as np

from fairseq_normalign.layers.moments import Moments, pooled
from fairseq_normalign.runs.joins import moments_of


def test_pooled():
    values = [np.array([[1.0, 2.0], [3.0, 5.0]]), np.array([[7.0, 1.0, 4.0]])]
    parts = [Moments(moments_of(part)) for part in values]
    together = np.concatenate([part.ravel() for part in values])
    found = pooled(parts)
    assert found.count == 7
    np.testing.assert_allclose(found.mean, [together.mean()])
    np.testing.assert_allclose(found.deviation, [together.std()])
    np.testing.assert_allclose(found.variation, [together.std() / together.mean()])
    assert (found.low, found.high) == ([1], [7])


def test_a_mean_of_nothing_has_no_variation():
    moments = Moments(moments_of(np.zeros((1, 3))))
    assert np.isnan(moments.variation).all()
    assert moments.deviation == [0]
