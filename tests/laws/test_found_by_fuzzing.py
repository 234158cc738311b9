"""What campaigns of random problems have found: each defect with its name, reduced by hand."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn import config_context
from sklearn.exceptions import ConvergenceWarning

from grayzone import (
    BayesDecisionClassifier,
    ImportVectorMachine,
    ImportVectorMachineCV,
    TruncatedLogisticRegression,
)
from grayzone.decision import bayes_decision
from grayzone.numerics.checks import all_or_nothing
from grayzone.numerics.margins import SoftmaxMargin
from grayzone.numerics.threads import elsewhere, n_workers
from grayzone.sources import open_npy

# Warnings are errors here, NumPy's too.


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_overflow_on_the_way_of_a_fit_is_no_news():
    X = np.full((6, 3), 1e3)
    X[:, 0] += np.arange(6)
    y = np.array([0, 1, 2, 3, 4, 5])
    weight = np.array([1e12, 1.0, 1.0, 1.0, 1.0, 1.0])
    model = ImportVectorMachine(kernel="poly", coef0=1e3, degree=5, C=1e-3, selection="power")
    assert np.all(np.isfinite(model.fit(X, y, weight).dual_coef_))
    kernel = {"kernel": "poly", "gamma": 0.01, "coef0": 1e3, "degree": 9}
    model = TruncatedLogisticRegression(C=1e6, **kernel).fit(
        np.full((10, 3), 1e6), np.arange(10) % 2
    )
    assert np.all(np.isfinite(model.dual_coef_))


def test_a_model_that_is_not_finite_is_an_error_and_changes_nothing():
    class Careless:
        intercept_ = None

        @all_or_nothing
        def fit(self, values):
            self.coef_ = np.asarray(values) * 1e308
            return self

    model = Careless().fit([0.1])
    with pytest.raises(ValueError, match=r"double precision.*coef_ is not finite.*Scale the"):
        model.fit([0.1, 10.0])
    assert model.coef_.shape == (1,)


def test_work_in_threads_keeps_the_settings_of_errors_and_splits_no_further():
    def work():
        return np.float64(1e308) * 10.0, n_workers()

    with np.errstate(over="ignore"), ThreadPoolExecutor(1) as pool:
        assert pool.submit(elsewhere(work)).result() == (np.inf, 1)


def test_infinite_values_of_both_signs_in_a_file_are_said_without_a_warning(tmp_path):
    X = np.array([[np.inf, -np.inf], [0.0, 1.0], [1.0, 2.0]], dtype=np.float32)
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", [0, 1, 0])
    rows = open_npy(tmp_path / "X.npy", tmp_path / "y.npy", block_rows=2)
    with pytest.raises(ValueError, match="X contains NaN or infinity, in rows 0 to 1"):
        ImportVectorMachine().fit(rows)


def test_costs_beyond_single_precision_decide_in_single_precision():
    proba = np.array([[0.5, 0.5], [1.0, 0.0]], dtype=np.float32)
    costs = np.array([[0.0, 1e300], [2e300, 0.0]])
    assert bayes_decision(proba, costs, reject_cost=1e299).tolist() == [2, 0]
    three = np.array([[0.2, 0.3, 0.5]], dtype=np.float32)
    assert bayes_decision(three, 1e300 * (1.0 - np.eye(3))).tolist() == [2]


def test_a_wrapper_decides_by_costs_beyond_single_precision():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(30, 2)).astype(np.float32)
    y = (X[:, 0] > 0).astype(int)
    model = BayesDecisionClassifier(
        TruncatedLogisticRegression(zone=None), costs={0: 1e300, 1: 1e300}, reject_cost=1e290
    ).fit(X, y)
    assert set(model.predict(X).tolist()) <= {0, 1, -1}


def test_classes_that_hardly_take_part_are_balanced():
    flow = np.array([[0.0, 1e12, 1e-12], [3e12, 0.0, 1e-12], [1e-12, 2e-12, 0.0]])
    scale = SoftmaxMargin.scaling(flow)
    balanced = flow * scale
    off = np.abs(balanced.sum(axis=0) - balanced.sum(axis=1))
    assert np.all(np.isfinite(scale))
    assert np.max(off) <= 1e-14 * balanced.sum()


@pytest.mark.parametrize("estimator", [ImportVectorMachine, ImportVectorMachineCV])
def test_a_gaussian_kernel_is_never_called_indefinite(estimator):
    # rounding errors of distances: rows 1e4 apart, of a width of 1e-4
    rng = np.random.default_rng(4)
    y = np.arange(40) % 2
    X = 1e-3 * rng.normal(size=(40, 1)) + 1e4 * y[:, None]
    weight = np.ones(40)
    weight[0] = 1e12
    parameters = {"C": 1.0} if estimator is ImportVectorMachine else {"Cs": [1e-6, 1e4]}
    model = estimator(gamma=1e8, zone=1e-6, random_state=0, **parameters).fit(X, y, weight)
    assert np.all(np.isfinite(model.predict_proba(X)))


def test_a_polynomial_of_large_values_has_a_factor_on_a_device():
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(5)
    X = rng.normal(size=(30, 1))
    y = (np.arange(30) < 4).astype(np.int64)
    model = TruncatedLogisticRegression(kernel="poly", gamma=1e-6, coef0=1e3, degree=9)
    with config_context(array_api_dispatch=True), pytest.warns(ConvergenceWarning, match="gap"):
        model.fit(torch.asarray(X), torch.asarray(y))
    assert bool(torch.all(torch.isfinite(model.dual_coef_)))


def test_kernel_values_that_come_sparse_are_taken_on_a_device():
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(6)
    X, y = rng.normal(size=(20, 2)), np.arange(20) % 2

    def kernel(A, B):
        return sp.csr_array(np.asarray(A) @ np.asarray(B).T)

    model = TruncatedLogisticRegression(kernel=kernel, zone=None, tol=1e-12)
    expected = model.fit(X, y).predict_proba(X)
    with config_context(array_api_dispatch=True):
        model.fit(torch.asarray(X), torch.asarray(y))
        proba = model.predict_proba(torch.asarray(X)).numpy()
    np.testing.assert_allclose(proba, expected, atol=1e-5)
