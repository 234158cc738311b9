"""What rows beyond a zone weigh, by a compiled loop beside NumPy."""

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from grayzone.numerics import pieces
from grayzone.solvers import TruncatedSpec
from grayzone.solvers.truncated.tails import tail_shapes
from grayzone.sources import from_batches
from grayzone.sources.labelled import label


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("ends", [(0.5, 1.0), (np.inf, 0.2), (-0.1, 0.1)])
def test_compiled_masses_are_those_of_numpy(monkeypatch, ends, threads):
    rng, n = np.random.default_rng(0), 2000
    X, y = rng.normal(size=(n, 2)), rng.integers(2, size=n)
    rows = label(from_batches(lambda: [(X, y)]))
    spec = TruncatedSpec(np.array([-1.0, -1.0]), penalty=1.0, fit_intercept=True)
    coef = np.array([[3.0, -1.0, 0.2]])
    expected = tail_shapes(rows, spec, coef, np.array(ends))
    assert np.any(expected[1] > 0.0)
    monkeypatch.setattr(pieces, "MANY", 0)
    monkeypatch.setattr("grayzone.solvers.truncated.tails.PIECE", 16)
    with threadpool_limits(threads, user_api="blas"):
        found = tail_shapes(rows, spec, coef, np.array(ends))
    for mine, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-10)
