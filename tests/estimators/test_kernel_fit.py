"""Estimators with kernels: what they expose, what they agree with, and what they refuse."""

import pickle
import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from problems import (
    LARGE_KERNEL_CASES,
    MULTICLASS_KERNEL_CASES,
    SMALL_KERNEL_CASES,
    by_name,
    select,
)
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.metrics.pairwise import linear_kernel, rbf_kernel
from sklearn.model_selection import cross_val_predict

from grayzone import TruncatedLogisticRegression

CASES = (
    select(SMALL_KERNEL_CASES, "rbf-120", "rbf-repeated-rows", "poly-3", "no-intercept", "sparse")
    + select(LARGE_KERNEL_CASES, "rbf-300", "rbf-300-narrow", "rbf-300-zero-weights", "sparse-400")
    + MULTICLASS_KERNEL_CASES[:2]
)


def moons(n, seed=0, noise=0.35, flipped=0.0):
    """Two half circles, and a share of wrong labels."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 2
    angle = rng.uniform(0.0, np.pi, size=n)
    X = np.column_stack([np.cos(angle), np.sin(angle)]) * np.where(y, -1.0, 1.0)[:, None]
    X += np.where(y[:, None], [0.5, 0.25], [-0.5, -0.25]) + noise * rng.normal(size=(n, 2))
    wrong = rng.random(n) < flipped
    return X, np.where(wrong, 1 - y, y)


def blobs(n, n_classes, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % n_classes
    centres = rng.normal(scale=1.5, size=(n_classes, 2))
    return centres[y] + rng.normal(size=(n, 2)), y


def fit(case, **parameters):
    X, y, sample_weight, _ = case.build()
    estimator = TruncatedLogisticRegression(**(case.parameters | {"tol": 1e-9} | parameters))
    return estimator.fit(X, y, sample_weight=sample_weight)


SIZES = pytest.mark.parametrize("n", [120, 400])


# -------------------------------------------------------------------------------------- attributes


@by_name(CASES)
def test_rows_without_influence_can_be_removed(case):
    X, y, sample_weight, _ = case.build()
    whole = fit(case)
    rows = whole.support_
    part = TruncatedLogisticRegression(**case.parameters, tol=1e-9).fit(
        X[rows], y[rows], sample_weight=None if sample_weight is None else sample_weight[rows]
    )
    # what is left out has the same loss, its floor, in both problems
    weight, floor = case.build()[-1].weight, None
    removed = np.setdiff1d(np.arange(len(y)), rows)
    if len(whole.classes_) == 2:
        floor = np.logaddexp(0.0, case.build()[-1].floor)
    else:
        floor = case.build()[-1].saturated_loss
    constant = float(np.sum((weight * floor)[removed]))
    assert part.objective_ + constant == pytest.approx(whole.objective_, rel=3e-9)
    # slopes and bends beyond the zone are those of all rows
    part.tail_slopes_, part.tail_bends_ = whole.tail_slopes_, whole.tail_bends_
    np.testing.assert_allclose(part.predict_proba(X), whole.predict_proba(X), atol=1e-3)


@pytest.mark.parametrize("first", ["linear", "rbf", "precomputed", "laplacian"])
@pytest.mark.parametrize("second", ["linear", "rbf", "precomputed", "laplacian"])
def test_a_refit_with_another_kernel_leaves_nothing_behind(first, second):
    X, y = moons(60)
    K = rbf_kernel(X)
    fresh = TruncatedLogisticRegression(kernel=second).fit(K if second == "precomputed" else X, y)
    for warm_start in (False, True):
        estimator = TruncatedLogisticRegression(kernel=first, warm_start=warm_start)
        estimator.fit(K if first == "precomputed" else X, y).set_params(kernel=second)
        given = K if second == "precomputed" else X
        estimator.fit(given, y)
        assert vars(estimator).keys() == vars(fresh).keys()
        assert hasattr(estimator, "coef_") == (second == "linear")
        np.testing.assert_allclose(
            estimator.decision_function(given), fresh.decision_function(given), atol=1e-3
        )


def test_coef_is_not_there_and_says_so():
    X, y = moons(60)
    estimator = TruncatedLogisticRegression(kernel="rbf").fit(X, y)
    with pytest.raises(AttributeError, match="coef_"):
        estimator.coef_  # noqa: B018


# -------------------------------------------------------------------------------- equal problems


@SIZES
def test_full_likelihood_is_logistic_regression_on_features(n):
    X, y = moons(n)
    kernel = rbf_kernel(X, gamma=0.7)
    values, vectors = np.linalg.eigh(kernel)
    features = vectors * np.sqrt(np.maximum(values, 0.0))
    ours = TruncatedLogisticRegression(kernel="rbf", gamma=0.7, zone=None, tol=1e-12).fit(X, y)
    theirs = LogisticRegression(C=1.0, tol=1e-10, solver="newton-cholesky").fit(features, y)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(features), atol=1e-6)


@SIZES
@pytest.mark.parametrize("zone", [1.0, None])
def test_linear_kernels_are_the_linear_model(n, zone):
    X, y = moons(n)
    linear = TruncatedLogisticRegression(zone=zone, tol=1e-12).fit(X, y)
    others = {
        "function": {"kernel": linear_kernel},
        "polynomial": {"kernel": "poly", "degree": 1, "coef0": 0.0, "gamma": 1.0},
    }
    for parameters in others.values():
        other = TruncatedLogisticRegression(**parameters, zone=zone, tol=1e-12).fit(X, y)
        np.testing.assert_allclose(other.predict_proba(X), linear.predict_proba(X), atol=1e-6)
        np.testing.assert_allclose(other.dual_coef_ @ X[other.support_], linear.coef_, atol=1e-6)


@SIZES
@pytest.mark.parametrize("n_classes", [2, 3])
def test_precomputed_is_the_kernel_itself(n, n_classes):
    X, y = blobs(n + 50, n_classes)
    X, new, y = X[:n], X[n:], y[:n]
    rest = {"tol": 1e-11, "tails": "as-fitted"}
    rbf = TruncatedLogisticRegression(kernel="rbf", gamma=0.5, **rest).fit(X, y)
    # the very values: those of another formula differ in their last place
    K, between = rbf._kernel(X, X), rbf._kernel(new, X)
    given = TruncatedLogisticRegression(kernel="precomputed", **rest).fit(K, y)
    assert given.n_features_in_ == n
    assert given.objective_ == pytest.approx(rbf.objective_, rel=1e-10)
    # P - P* >= |f - f*|^2 / (2C): so far may two functions within the tolerance be apart, at most,
    # where blocks take their own way; small fits are one computation on equal values
    apart = 2.0 * np.sqrt(2.0 * 1e-11 * rbf.objective_) if n > 250 and n_classes == 2 else 1e-10
    for ours, theirs in (
        (given.decision_function(K), rbf.decision_function(X)),
        (given.decision_function(between), rbf.decision_function(new)),
    ):
        function = ours - np.squeeze(given.intercept_), theirs - np.squeeze(rbf.intercept_)
        np.testing.assert_allclose(*function, atol=apart)
    np.testing.assert_array_equal(given.predict(between), rbf.predict(new))
    # the same multipliers give the same scores, from the data and from kernel values
    scores = between[:, given.support_] @ given.dual_coef_.T + given.intercept_
    found = given.decision_function(between).reshape(scores.shape)
    np.testing.assert_allclose(found, scores, atol=1e-12)
    copy = pickle.loads(pickle.dumps(given))
    np.testing.assert_array_equal(copy.predict_proba(between), given.predict_proba(between))
    with pytest.raises(ValueError, match=f"expecting {n} features"):
        given.predict(between[:, :-1])


@SIZES
@pytest.mark.parametrize("kernel", ["rbf", "laplacian", linear_kernel])
def test_cache_size_changes_nothing(n, kernel):
    X, y = moons(n)
    large = TruncatedLogisticRegression(kernel=kernel).fit(X, y)
    tiny = TruncatedLogisticRegression(kernel=kernel, cache_size=0.01).fit(X, y)
    assert max(large.dual_gap_, tiny.dual_gap_) <= 1e-6
    assert tiny.objective_ == pytest.approx(large.objective_, rel=1e-6)


# ------------------------------------------------------------------------------------------- ramp


# ------------------------------------------------------------------------------ what is no kernel


def indefinite_matrix(n):
    """Symmetric, with pairs of rows of opposite classes further apart than nowhere."""
    X, y = moons(n)
    K = rbf_kernel(X)
    K[np.ix_(np.arange(0, n, 2), np.arange(1, n, 2))] += 2.0
    K[np.ix_(np.arange(1, n, 2), np.arange(0, n, 2))] += 2.0
    return K, y


@pytest.mark.parametrize("n", [40, 400])
def test_indefinite_kernel_matrix(n):
    K, y = indefinite_matrix(n)
    assert np.linalg.eigvalsh(K)[0] < -1.0
    with pytest.raises(ValueError, match="positive semi-definite"):
        TruncatedLogisticRegression(kernel="precomputed").fit(K, y)


@pytest.mark.parametrize("n", [40, 400])
def test_negative_definite_kernel_matrix(n):
    X, y = moons(n)
    with pytest.raises(ValueError, match="positive semi-definite"):
        TruncatedLogisticRegression(kernel="precomputed").fit(-rbf_kernel(X), y)


def test_indefinite_kernel_matrix_of_many_classes():
    K, _ = indefinite_matrix(60)
    with pytest.raises(ValueError, match="positive semi-definite"):
        TruncatedLogisticRegression(kernel="precomputed").fit(K, np.arange(60) % 3)


@SIZES
def test_zero_kernel_is_a_constant(n):
    y = (np.arange(n) < n // 4).astype(int)
    estimator = TruncatedLogisticRegression(kernel="precomputed", zone=None, tol=1e-12)
    estimator.fit(np.zeros((n, n)), y)
    np.testing.assert_allclose(estimator.predict_proba(np.zeros((3, n)))[:, 1], 0.25, atol=1e-6)


@pytest.mark.filterwarnings("ignore:The fitted model is a constant")
@SIZES
@pytest.mark.parametrize("zone", [None, (0.0, 0.7), (0.3, 1.0), 1.0])
@pytest.mark.parametrize("C", [1e-3, 1.0])
def test_few_rows_of_one_class(n, zone, C):
    X, _ = moons(n)
    for few in (1, n // 30):
        y = (np.arange(n) < few).astype(int)
        for labels in (y, 1 - y):
            estimator = TruncatedLogisticRegression(kernel="rbf", zone=zone, C=C).fit(X, labels)
            assert estimator.dual_gap_ <= 1e-6
            assert np.isfinite(estimator.predict_proba(X)).all()


def test_not_symmetric():
    X, y = moons(50)
    K = rbf_kernel(X)
    K[3, 7] += 0.01
    with pytest.raises(ValueError, match="symmetric"):
        TruncatedLogisticRegression(kernel="precomputed").fit(K, y)


def test_not_square():
    X, y = moons(50)
    with pytest.raises(ValueError, match="square"):
        TruncatedLogisticRegression(kernel="precomputed").fit(rbf_kernel(X)[:, :20], y)


def test_sparse_kernel_matrix():
    X, y = moons(50)
    with pytest.raises((TypeError, ValueError), match=r"(?i)sparse"):
        TruncatedLogisticRegression(kernel="precomputed").fit(sp.csr_array(rbf_kernel(X)), y)


@pytest.mark.parametrize("kernel", ["radial", "", None, 3, ["rbf"]])
def test_bad_kernel(kernel):
    X, y = moons(50)
    with pytest.raises(ValueError, match="kernel must be one of"):
        TruncatedLogisticRegression(kernel=kernel).fit(X, y)


@pytest.mark.parametrize("kernel", ["rbf", "poly"])
@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"gamma": 0.0}, "gamma must be"),
        ({"gamma": "wide"}, "gamma must be one of"),
        ({"degree": 0}, "degree must be"),
        ({"coef0": np.nan}, "coef0 must be"),
        ({"cache_size": 0.0}, "cache_size must be"),
    ],
)
def test_bad_parameters(kernel, parameters, message):
    X, y = moons(50)
    with pytest.raises(ValueError, match=message):
        TruncatedLogisticRegression(kernel=kernel, **parameters).fit(X, y)


@SIZES
def test_a_function_that_returns_another_shape(n):
    X, y = moons(n)
    with pytest.raises(ValueError, match="kernel function returned an array of shape"):
        TruncatedLogisticRegression(kernel=lambda A, B: (A @ B.T)[:, 1:]).fit(X, y)


def test_active_set_is_for_two_classes():
    X, y = blobs(60, 3)
    with pytest.raises(ValueError, match="two classes"):
        TruncatedLogisticRegression(kernel="rbf", solver="active-set").fit(X, y)


# ---------------------------------------------------------------------------- with scikit-learn


def test_cross_validation_of_a_precomputed_kernel_is_that_of_the_kernel():
    X, y = moons(90)
    given, named = (
        cross_val_predict(
            TruncatedLogisticRegression(kernel=kernel, gamma=0.5, tol=1e-10),
            data,
            y,
            cv=3,
            method="decision_function",
        )
        for kernel, data in (("precomputed", rbf_kernel(X, gamma=0.5)), ("rbf", X))
    )
    np.testing.assert_allclose(given, named, atol=1e-5)


# ----------------------------------------------------------------------------- many rows, classes


def test_predictions_do_not_form_the_kernel_matrix():
    X, y = moons(1500, noise=0.6)
    estimator = TruncatedLogisticRegression(kernel="rbf", zone=None, tol=1e-2).fit(X, y)
    assert estimator.support_.size >= 500
    new = np.random.default_rng(5).normal(size=(20_000, 2))
    estimator.predict_proba(new[:10])
    tracemalloc.start()
    estimator.predict_proba(new)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * len(new) * estimator.support_.size / 10


# -------------------------------------------------------------------------------------- warm start


@SIZES
@pytest.mark.parametrize(
    "change", [{}, {"C": 3.0}, {"C": 0.1}, {"C": 100.0}, {"zone": 0.3}, {"zone": None}], ids=str
)
def test_warm_start_reaches_the_same_optimum(n, change):
    X, y = moons(n)
    warm = TruncatedLogisticRegression(kernel="rbf", warm_start=True, tol=1e-8).fit(X, y)
    warm.set_params(**change).fit(X, y)
    cold = clone(warm).fit(X, y)
    assert max(warm.dual_gap_, cold.dual_gap_) <= 1e-8
    assert warm.objective_ == pytest.approx(cold.objective_, rel=1e-7)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("kernel", ["rbf", "precomputed", "poly"])
def test_warm_start_on_other_rows_is_a_fresh_start(kernel, n_classes):
    X, y = blobs(90, n_classes)
    other, labels = blobs(110, n_classes, seed=9)

    def given(data):
        return rbf_kernel(data) if kernel == "precomputed" else data

    warm = TruncatedLogisticRegression(kernel=kernel, warm_start=True).fit(given(X), y)
    warm.fit(given(other), labels)
    cold = clone(warm).fit(given(other), labels)
    np.testing.assert_array_equal(warm.dual_coef_, cold.dual_coef_)
    assert warm.n_iter_ == cold.n_iter_


def test_warm_start_on_as_many_other_rows():
    X, y = moons(300)
    other, labels = moons(300, seed=1)
    warm = TruncatedLogisticRegression(kernel="rbf", warm_start=True, tol=1e-8).fit(X, y)
    warm.fit(other, labels)
    cold = clone(warm).fit(other, labels)
    np.testing.assert_array_equal(warm.dual_coef_, cold.dual_coef_)
    np.testing.assert_array_equal(warm.support_, cold.support_)


def test_warm_start_at_the_optimum_has_little_to_do():
    X, y = moons(1000)
    warm = TruncatedLogisticRegression(kernel="rbf", warm_start=True).fit(X, y)
    objective, n_iter = warm.objective_, warm.n_iter_
    warm.fit(X, y)
    assert warm.n_iter_ <= n_iter
    assert warm.objective_ == pytest.approx(objective, rel=1e-6)


def test_warm_start_where_the_intercept_comes_and_goes():
    X, y = moons(300)
    warm = TruncatedLogisticRegression(kernel="rbf", warm_start=True, tol=1e-8).fit(X, y)
    for fit_intercept in (False, True):
        warm.set_params(fit_intercept=fit_intercept).fit(X, y)
        cold = clone(warm).fit(X, y)
        assert warm.objective_ == pytest.approx(cold.objective_, rel=1e-7)
