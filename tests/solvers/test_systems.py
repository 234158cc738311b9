"""Newton systems of few rows beside many coefficients: the same fits by smaller systems."""

import numpy as np
import pytest

from grayzone import TruncatedLogisticRegression
from grayzone.numerics.linalg import factorise
from grayzone.solvers.truncated import systems
from grayzone.solvers.truncated.systems import FewRows


@pytest.fixture
def always_few(monkeypatch):
    """Count the models whose rows are taken for few, which they then always are."""
    made = []
    init = FewRows.__init__

    def counted(self, *arguments):
        made.append(self)
        init(self, *arguments)

    monkeypatch.setattr(FewRows, "__init__", counted)
    monkeypatch.setattr(systems, "_MANY", 2)
    monkeypatch.setattr(systems, "_PER_ROW", 0.2)
    return made


@pytest.mark.parametrize("largest", [1.0, 1e8], ids=["weights alike", "weights of rows at a kink"])
def test_few_rows_solve_what_the_whole_matrix_does(largest):
    rng = np.random.default_rng(3)
    rows, base = rng.normal(size=(7, 30)), rng.normal(size=(40, 30))
    hessian, weights = base.T @ base, largest ** rng.uniform(size=7)
    weights[0] = 0.0
    b = rng.normal(size=30)
    whole = hessian + (rows.T * weights) @ rows
    found = FewRows(hessian, rows).weighted(weights)(b)
    digits = 1e-14 * np.linalg.cond(whole)  # as many as such a system has
    np.testing.assert_allclose(found, np.linalg.solve(whole, b), rtol=0.0, atol=digits)
    np.testing.assert_allclose(found, factorise(whole)(b), rtol=0.0, atol=digits)


@pytest.mark.parametrize("zone", [1.0, 0.2])
def test_fits_are_the_same_by_smaller_systems(always_few, monkeypatch, zone):
    rng = np.random.default_rng(5)
    X = rng.normal(size=(3000, 60)) * np.exp(rng.normal(size=60))
    y = X @ rng.normal(size=60) / 4 + rng.logistic(size=3000) > 0
    model = TruncatedLogisticRegression(zone=zone, C=100.0, tol=1e-9)
    small = model.fit(X, y)
    value, coef = small.objective_, small.coef_
    assert always_few
    assert small.dual_gap_ <= 1e-9
    monkeypatch.setattr(systems, "_MANY", 10**9)
    whole = model.fit(X, y)
    assert value == pytest.approx(whole.objective_, rel=1e-9)
    np.testing.assert_allclose(coef, whole.coef_, atol=1e-4 * np.abs(coef).max())
