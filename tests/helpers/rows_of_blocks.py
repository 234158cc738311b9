"""Rows for fits by blocks, and what they are held against."""

import numpy as np

from grayzone import TruncatedLogisticRegression
from grayzone.solvers.truncated import streamed

N, D = 2000, 5
NAMES = list("abcde")


def make_rows():
    """Rows, labels and weights."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, D))
    score = X @ np.array([1.0, -0.5, 0.3, 0.0, 0.2]) + rng.normal(size=N)
    return X, (score > 0.3).astype(np.int64), rng.uniform(0.5, 2.0, size=N)


def hold_few(monkeypatch):
    """Let a fit hold 400 rows only; with all 2000 at hand no sum over blocks would matter."""
    monkeypatch.setattr(streamed, "MOST_HELD", 400 * D)


def tight(**parameters):
    """Ask for as much accuracy as there is."""
    return TruncatedLogisticRegression(tol=1e-14, **parameters)


def assert_same_model(one, other, rtol=1e-8):
    """Check that coefficients and intercepts are equal."""
    scale = np.abs(one.coef_).max()
    np.testing.assert_allclose(other.coef_, one.coef_, rtol=0, atol=rtol * scale)
    np.testing.assert_allclose(other.intercept_, one.intercept_, rtol=0, atol=rtol * scale)
