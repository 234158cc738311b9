"""Import points of many rows are chosen by compiled loops: the same points, to rounding."""

import subprocess
import sys
from dataclasses import replace
from textwrap import dedent

import numpy as np
import pytest

from grayzone import ImportVectorMachine
from grayzone.numerics.kernels import resolve_kernel
from grayzone.solvers.greedy import growth, many
from grayzone.solvers.greedy.columns import Factors, KernelColumns
from grayzone.sources.labelled import Rows


def data(n=3000, n_classes=2, d=4):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    score = np.sin(2.0 * X[:, 0]) * X[:, 1] + 0.5 * X[:, 2] + 0.4 * rng.normal(size=n)
    return X, np.searchsorted(np.quantile(score, np.arange(1, n_classes) / n_classes), score)


def fits(monkeypatch, X, y, weight=None, **parameters):
    """The fit that NumPy does, and the one of compiled loops."""
    options = {"max_import_points": 12, "n_candidates": 400, "random_state": 0, **parameters}
    found = []
    for least in (np.inf, 1):
        monkeypatch.setattr(growth, "_MANY", least)
        found.append(ImportVectorMachine(**options).fit(X, y, sample_weight=weight))
    return found


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"fit_intercept": False},
        {"n_candidates": None, "max_import_points": 6},
        {"points_per_step": 3},
        {"selection": "power"},
        {"allow_removal": True},
        {"zone": (0.3, 0.7), "max_import_points": 5},
        {"kernel": "poly", "degree": 2},
        {"gamma": 300.0},
    ],
    ids=str,
)
def test_the_same_points_are_chosen(monkeypatch, options):
    plain, compiled = fits(monkeypatch, *data(), **options)
    np.testing.assert_array_equal(compiled.import_points_, plain.import_points_)
    np.testing.assert_allclose(compiled.objective_path_, plain.objective_path_, rtol=1e-9)
    np.testing.assert_allclose(compiled.dual_coef_, plain.dual_coef_, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("parametrization", ["symmetric", "reference"])
def test_the_same_points_are_chosen_for_several_classes(monkeypatch, parametrization):
    X, y = data(n_classes=3)
    plain, compiled = fits(monkeypatch, X, y, parametrization=parametrization)
    np.testing.assert_array_equal(compiled.import_points_, plain.import_points_)
    np.testing.assert_allclose(compiled.objective_, plain.objective_, rtol=1e-9)


@pytest.mark.parametrize("storage", [np.asfortranarray, lambda X: X.astype(np.float32)])
def test_rows_of_any_order_and_precision(monkeypatch, storage):
    X, y = data()
    plain, compiled = fits(monkeypatch, storage(X), y)
    np.testing.assert_array_equal(compiled.import_points_, plain.import_points_)
    np.testing.assert_allclose(compiled.objective_, plain.objective_, rtol=1e-9)


def test_rows_that_weigh_nothing_are_not_there(monkeypatch):
    X, y = data()
    weight = np.where(np.arange(3000) % 3 == 0, 0.0, np.linspace(0.1, 3.0, 3000))
    plain, compiled = fits(monkeypatch, X, y, weight)
    np.testing.assert_array_equal(compiled.import_points_, plain.import_points_)
    np.testing.assert_allclose(compiled.objective_, plain.objective_, rtol=1e-9)


def test_rows_that_are_nearly_spanned_are_scored_in_double_precision(monkeypatch):
    # In single precision the choice ends after four points. Of rows that are nearly spanned others
    # are chosen on other processors, which costs less than a hundredth.
    plain, compiled = fits(monkeypatch, *data(d=3), gamma=1e-3, C=1e4, tol=0.0)
    for model in (plain, compiled):
        assert len(model.import_points_) == 12
        assert model.objective_ < 0.95 * model.objective_path_[3]
    assert compiled.objective_ == pytest.approx(plain.objective_, rel=0.01)


def test_losses_that_are_no_numbers_are_left_to_numpy(monkeypatch):
    monkeypatch.setattr(many, "isfinite", lambda loss: False)
    plain, other = fits(monkeypatch, *data())
    np.testing.assert_array_equal(other.import_points_, plain.import_points_)


@pytest.mark.parametrize("reach", ["near", "far"])
@pytest.mark.parametrize("squared", [False, True])
def test_sums_over_columns_are_those_of_numpy(reach, squared):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 3))
    kernel = resolve_kernel("rbf", 0.3, 3, 0.0, X)
    # by differences there are no compiled sums
    kernel = kernel if reach == "near" else kernel.by_differences()
    rows = Rows(X, np.zeros(2000, dtype=int), np.ones(2000), memory={})
    weights = rng.uniform(size=(2000, 2))
    weights[::2] = 0.0
    factors = Factors(rng.normal(size=(2000, 3)), weights, rng.normal(size=(2000, 1)), True)
    assert factors.size == factors(0, 10).shape[1] == 9
    right = kernel.right(X[:700], np.float32)
    columns = KernelColumns(kernel, right, np.dtype(np.float32), keeps=True)
    squares = weights if squared else None
    plain, compiled = (
        replace(columns, many=many).sums(rows, factors, squares) for many in (False, True)
    )
    size = np.abs(factors(0, 2000)).T @ kernel(X, X[:700])
    assert np.all(np.abs(plain[0] - compiled[0]) <= 3e-6 * size)
    if squared:
        np.testing.assert_allclose(compiled[1], plain[1], rtol=3e-6)
    else:
        assert compiled[1] is plain[1] is None


def test_small_fits_load_no_compiler():
    program = """
        import sys
        import numpy as np
        from grayzone import ImportVectorMachine
        X = np.random.default_rng(0).normal(size=(3000, 3))
        y = X[:, 0] * X[:, 1] > 0
        ImportVectorMachine(max_import_points=20, n_candidates=400, random_state=0).fit(X, y)
        assert "numba" not in sys.modules
    """
    subprocess.run([sys.executable, "-c", dedent(program)], check=True, timeout=120)
