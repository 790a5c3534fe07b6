import numpy as np

from fairseq_normalign.layers.moments import Moments, pooled


def test_batches_join_to_what_numpy_says_of_all():
    random = np.random.default_rng(0)
    values = 1000 + random.normal(size=(3, 50)).astype(np.float32)
    moments = Moments(3)
    for batch in np.split(values, [0, 1, 20, 33], axis=1):
        moments.add(batch)
    assert moments.count == 50
    exact = values.astype(np.float64)
    np.testing.assert_allclose(moments.mean, exact.mean(1))
    np.testing.assert_allclose(moments.deviation, exact.std(1))
    np.testing.assert_allclose(moments.variation, exact.std(1) / exact.mean(1))
    np.testing.assert_allclose(moments.low, exact.min(1))
    np.testing.assert_allclose(moments.high, exact.max(1))


def test_pooled():
    parts = []
    values = [np.array([[1.0, 2.0], [3.0, 5.0]]), np.array([[7.0, 1.0, 4.0]])]
    for part in values:
        moments = Moments(len(part))
        moments.add(part)
        parts.append(moments)
    together = np.concatenate([part.ravel() for part in values])
    assert pooled(parts).count == 7
    np.testing.assert_allclose(pooled(parts).mean, [together.mean()])
    np.testing.assert_allclose(pooled(parts).deviation, [together.std()])
    assert pooled(parts).high == [7]


def test_a_mean_of_nothing_has_no_variation():
    moments = Moments(1)
    moments.add(np.zeros((1, 3)))
    assert np.isnan(moments.variation).all()
    assert moments.deviation == [0]
