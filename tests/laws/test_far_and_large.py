"""Rows far from the origin, values and weights at the ends of the doubles, and no penalty at all.

What is too large for double precision is refused in a sentence; the rest is fitted as if it were
nearer.
"""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from carriers import CARRIERS
from sklearn import config_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.svm import SVC

from grayzone import (
    BayesDecisionClassifier,
    ImportVectorMachine,
    ImportVectorMachineCV,
    MinimaxProbabilityMachine,
    SparseMinimaxProbabilityMachine,
    TightBoundClassifier,
    TightBoundLogisticRegression,
    TightBoundLogisticRegressionCV,
    TruncatedLogisticRegression,
    TruncatedLogisticRegressionCV,
)
from grayzone.numerics.kernels import Extent, Kernel, resolve_kernel

RNG = np.random.default_rng(0)
# on a grid, so that what is far away is the same rows
X = np.round(RNG.normal(size=(60, 3)), 2)
X = np.unique(X, axis=0)
Y = (X[:, 0] + 0.5 * RNG.normal(size=len(X)) > 0.0).astype(int)
NEW = np.round(RNG.normal(size=(20, 3)), 2)

ALL = {
    "truncated": TruncatedLogisticRegression(),
    "truncated, kernel": TruncatedLogisticRegression(kernel="rbf"),
    "search": TruncatedLogisticRegressionCV(Cs=[1.0], zones=(1.0,), cv=2),
    "import points": ImportVectorMachine(max_import_points=5),
    "import point search": ImportVectorMachineCV(Cs=[1.0], cv=2, max_import_points=5),
    "minimax": MinimaxProbabilityMachine(random_state=0),
    "minimax, kernel": MinimaxProbabilityMachine(kernel="rbf", random_state=0),
    "sparse minimax": SparseMinimaxProbabilityMachine(n_bases=2, random_state=0),
    "bounds": TightBoundLogisticRegression(),
    "bound search": TightBoundLogisticRegressionCV(Cs=[1.0], cv=2),
    "bounds of any model": TightBoundClassifier(TruncatedLogisticRegression(), n_bounds=2),
    "decisions": BayesDecisionClassifier(TruncatedLogisticRegression()),
}


@pytest.fixture(params=ALL)
def model(request):
    return ALL[request.param]


# ------------------------------------------------------------------------------------------
# Distances
# ------------------------------------------------------------------------------------------

WITH_DISTANCES = {
    "truncated": TruncatedLogisticRegression(kernel="rbf", tol=1e-11),
    "blocks of a kernel": TruncatedLogisticRegression(kernel="rbf", tol=1e-11),
    "import points": ImportVectorMachine(max_import_points=8),
    "import point search": ImportVectorMachineCV(Cs=[0.1, 1.0], cv=2, max_import_points=5),
    "minimax": MinimaxProbabilityMachine(kernel="rbf", random_state=0),
}
MEMORY = {"dense": np.asarray, "CSR": sp.csr_array}


@pytest.mark.parametrize("memory", MEMORY)
@pytest.mark.parametrize("offset", [1e5, 1e6, 1e8])
@pytest.mark.parametrize("name", WITH_DISTANCES)
def test_an_offset_does_not_matter_to_distances(name, offset, memory):
    stored, model = MEMORY[memory], WITH_DISTANCES[name]
    A, y, B = X, Y, NEW
    if name == "blocks of a kernel":  # in single precision, too many for features of the kernel
        A, B = np.repeat(X, 6, axis=0), NEW
        y = np.repeat(Y, 6)
    near = model.fit(A, y).decision_function(B)
    far = model.fit(stored(A + offset), y).decision_function(stored(B + offset))
    # doubles of that size are so far apart, and solutions within the tolerance
    np.testing.assert_allclose(far, near, atol=1e3 * np.spacing(offset) + 1e-7, rtol=0)


@pytest.mark.parametrize("carrier", ["PyTorch", "array-api-strict", "npy", "batches of CSR"])
@pytest.mark.parametrize("name", ["truncated", "import points"])
def test_an_offset_does_not_matter_to_distances_elsewhere(name, carrier, tmp_path):
    form = CARRIERS[carrier]
    if form.missing() is not None:
        pytest.skip(form.missing())
    if name == "truncated" and not form.held:
        pytest.skip("kernels of blocks are for import points")
    model, offset = WITH_DISTANCES[name], 1e6
    near = model.fit(X, Y).decision_function(NEW)
    with form.context():
        model.fit(*form.fit_arguments(tmp_path, X + offset, Y, None))
        far = model.decision_function(form.X(NEW + offset) if form.held else NEW + offset)
    far = np.asarray(far if not hasattr(far, "__dlpack__") else _host(far))
    np.testing.assert_allclose(far, near, atol=1e-6, rtol=0)


def _host(values):
    from carriers import plain

    return plain(values)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_no_kernel_value_is_above_one(dtype):
    # a width that leaves no digit of distances: what is left of them may be negative
    far = np.repeat(RNG.normal(size=(50, 3)), 2, axis=0)
    kernel = resolve_kernel("rbf", 1e12, 3, 0.0, far)
    block = kernel.between(kernel.left(far, dtype), kernel.right(far, dtype))
    assert np.max(block) <= 1.0
    assert np.max(Kernel("rbf", 1e12)(far, far)) > 1.0  # which knows no extent


def test_the_centre_of_parts_is_near_that_of_all():
    parts = [
        (part.shape[0], Extent.of(part)) for part in (X[:10] + 1e6, sp.csr_array(X[10:] + 1e6))
    ]
    joined, whole = Extent.joined(parts), Extent.of(X + 1e6)
    np.testing.assert_allclose(joined.centre, whole.centre)
    np.testing.assert_array_equal([joined.low, joined.high], [whole.low, whole.high])


def test_sparse_rows_stay_sparse():
    rng = np.random.default_rng(0)
    rows = sp.csr_array(rng.random((200, 50)) * (rng.random((200, 50)) < 0.05))
    kernel = resolve_kernel("rbf", "scale", 3, 0.0, rows)
    assert kernel.right(rows).nnz <= rows.nnz + 2 * 200
    np.testing.assert_allclose(kernel(rows, rows), kernel(rows.toarray(), rows.toarray()))


@pytest.mark.parametrize("value", [0.1, 1 / 3, 125.7302210933933, 1e6 + 0.1, 1e15 / 3])
@pytest.mark.parametrize("shape", [(10, 1), (40, 3)])
def test_constant_columns_have_no_distances(value, shape):
    model = MinimaxProbabilityMachine(kernel="rbf", random_state=0)
    with pytest.warns(UserWarning, match="The classes have the same mean"):
        model.fit(np.full(shape, value), np.arange(shape[0]) % 2)
    assert model.accuracy_bound_ == 0.0
    assert model._kernel.gamma == 1.0


@pytest.mark.parametrize("stored", [np.asarray, sp.csr_array])
def test_the_width_of_rows_far_away_is_that_of_svc(stored):
    far = stored(X[:, :1] + 1e6)
    width = resolve_kernel("rbf", "scale", 3, 0.0, far).gamma
    assert width == pytest.approx(SVC().fit(X[:, :1], Y)._gamma, rel=1e-9)


# ------------------------------------------------------------------------------------------
# Sizes
# ------------------------------------------------------------------------------------------


def same_or_refused(model, A, y, weight=None):
    """Fit, or be refused by ValueError; what is fitted is finite."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        try:
            model.fit(A, y, weight)
        except ValueError as error:
            return str(error)
    assert np.all(np.isfinite(np.asarray(model.predict(A), dtype=float)))
    if hasattr(model, "predict_proba"):
        assert np.all(np.isfinite(model.predict_proba(A)))
    return None


@pytest.mark.parametrize("size", [1e-320, 1e-160, 1e-100, 1e110, 1e160, 1e300])
def test_values_of_any_size_are_fitted_or_refused(model, size):
    refused = same_or_refused(model, size * X, Y)
    if size > 1e100:
        assert refused is not None
        assert "X has values up to" in refused


@pytest.mark.parametrize("size", [1e-300, 1e-20, 1e60, 1e308])
def test_weights_of_any_size_are_fitted_or_refused(model, size):
    refused = same_or_refused(model, X, Y, np.full(len(Y), size))
    assert (refused is None) == (1e-50 <= size <= 1e50)


@pytest.mark.parametrize("size", [1e-320, 1e-49, 1e49])
@pytest.mark.parametrize("whom", ["a row", "a class"])
def test_weights_far_apart_are_fitted_or_refused(model, size, whom):
    weight = np.ones(len(Y))
    weight[{"a row": np.arange(3, 4), "a class": Y == 1}[whom]] = size
    same_or_refused(model, X, Y, weight)


@pytest.mark.parametrize("selection", ["one-step", "power"])
@pytest.mark.parametrize("seed", range(2))
def test_import_points_of_wild_weights(selection, seed):
    weight = 10.0 ** np.random.default_rng(seed).uniform(-49.0, 49.0, size=len(Y))
    model = ImportVectorMachine(selection=selection, max_import_points=5)
    same_or_refused(model, X, Y, weight)


def test_scores_beyond_all_doubles_are_said():
    model = TruncatedLogisticRegression(kernel="poly").fit(X, Y)
    for method in ("predict", "predict_proba", "predict_log_proba", "decision_function"):
        rows = np.vstack([X[:2], np.full((1, 3), 1e120)])
        with pytest.raises(ValueError, match="Row 2 of X has values so large that its scores are"):
            getattr(model, method)(rows)


@pytest.mark.parametrize("kernel", ["linear", "rbf", "laplacian"])
def test_scores_of_rows_far_away(kernel):
    model = TruncatedLogisticRegression(kernel=kernel).fit(X, Y)
    proba = model.predict_proba(1e120 * NEW)
    assert np.all(np.isfinite(proba))
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)


def test_a_kernel_function_may_return_a_sparse_matrix():
    def dense(A, B):
        return A @ B.T

    def sparse(A, B):
        return sp.csr_array(A @ B.T)

    expected = TruncatedLogisticRegression(kernel=dense).fit(X, Y).decision_function(NEW)
    found = TruncatedLogisticRegression(kernel=sparse).fit(X, Y).decision_function(NEW)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("value", "said"), [(np.nan, "NaN, infinity"), (1e200, "beyond what can be squared")]
)
def test_kernel_functions_of_no_numbers(value, said):
    with pytest.raises(ValueError, match=f"kernel function returned .*{said}"):
        ImportVectorMachine(kernel=lambda A, B: np.full((len(A), len(B)), value)).fit(X, Y)


# ------------------------------------------------------------------------------------------
# Costs
# ------------------------------------------------------------------------------------------


def test_costs_without_a_difference_are_said():
    with pytest.raises(ValueError, match=r"These costs make no difference.*costs the same"):
        TightBoundLogisticRegression(costs=np.ones((2, 2))).fit(X, Y)


# ------------------------------------------------------------------------------------------
# No penalty
# ------------------------------------------------------------------------------------------


# scikit-learn 1.8 warns of what C=inf means
@pytest.mark.filterwarnings("ignore:Setting penalty=None will ignore")
@pytest.mark.parametrize("scale", [1e-4, 1.0, 1e4])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_no_penalty_is_that_of_logistic_regression(n_classes, scale):
    rng = np.random.default_rng(1)
    A = scale * rng.normal(size=(300, 4)) * [1.0, 2.0, 3.0, 0.1]
    score = A @ [1.0, 0.5, -0.3, 2.0] / scale + 2.0 * rng.normal(size=300)
    y = np.searchsorted([0.0] if n_classes == 2 else [-1.0, 1.0], score)
    options = {"tol": 1e-10, "max_iter": 10_000, "solver": "newton-cholesky"}
    expected = LogisticRegression(C=np.inf, **options).fit(A, y).predict_proba(A)
    model = TruncatedLogisticRegression(C=np.inf, zone=None, tol=1e-9).fit(A, y)
    np.testing.assert_allclose(model.predict_proba(A), expected, atol=1e-6)
    assert model.dual_gap_ < 1e-9
    duals = model.dual_coef_ @ model.support_vectors_
    np.testing.assert_allclose(duals, model.coef_, rtol=1e-2, atol=1e-2 * np.abs(duals).max())
    bounds = TightBoundLogisticRegression(C=np.inf, n_bounds=1).fit(A, y)
    np.testing.assert_allclose(bounds.predict_proba(A), expected, atol=1e-6)


def test_no_penalty_is_the_limit_of_a_vanishing_one():
    model = TruncatedLogisticRegression(C=np.inf, tol=1e-9).fit(X, Y)
    near = TruncatedLogisticRegression(C=1e8, tol=1e-9).fit(X, Y)
    assert model.objective_ == pytest.approx(near.objective_, rel=1e-6)
    assert model.objective_ <= near.objective_


@pytest.mark.parametrize(
    "model",
    [
        TruncatedLogisticRegression(C=np.inf, zone=None),
        TightBoundLogisticRegression(C=np.inf, n_bounds=1),
        TightBoundLogisticRegression(C=np.inf),
    ],
)
def test_without_a_penalty_separable_classes_have_no_optimum(model):
    with pytest.warns(ConvergenceWarning, match="C=inf has no optimum here"):
        model.fit(X, (X[:, 0] > 0.0).astype(int))
    assert np.all(np.isfinite(model.coef_))


def test_a_zone_has_an_optimum_without_a_penalty():
    y = (X[:, 0] > 0.0).astype(int)
    model = TruncatedLogisticRegression(C=np.inf).fit(X, y)
    # every row is on its side of the zone: no loss is left but that of the floor
    assert model.objective_ == pytest.approx(len(y) * np.log1p(np.exp(-1.0)), rel=1e-5)


def test_import_points_need_a_penalty():
    with pytest.raises(ValueError, match=r"got inf\. No penalty at all is for linear models"):
        ImportVectorMachine(C=np.inf).fit(X, Y)


def test_rows_that_are_far_apart_are_themselves():
    """A row has a distance of zero from itself, whatever is lost of the distance from others."""
    far = np.array([[0.0], [1e8], [1e8 + 1e-4], [-3e8]])
    kernel = resolve_kernel("rbf", 1e8, 3, 0.0, far)
    expected = np.exp(-1e8 * (far - far.T) ** 2)
    for rows in (far, sp.csr_array(far)):
        np.testing.assert_allclose(kernel(rows, rows), expected, rtol=1e-12, atol=0.0)


def test_a_wide_kernel_is_no_worse_than_svc():
    """Found by fuzzing: columns of different scales and a large gamma; the optimum was missed."""
    rows = np.array([[1e8 * k] for k in range(5)] * 2) + np.repeat([0.0, 1.0], 5)[:, None]
    y = np.arange(10) % 2
    model = TruncatedLogisticRegression(kernel="rbf", gamma=1e8, C=10.0).fit(rows, y)
    # every row is alone, and taken to the floor of its loss
    assert model.objective_ == pytest.approx(10 * (np.log1p(np.exp(-1.0)) + 0.05), rel=1e-6)
    assert model.score(rows, y) == 1.0


def test_an_outlier_does_not_carry_the_scores_away():
    """Found by fuzzing: the solver's scores were those of other coefficients than it returned."""
    rows = np.array([1e30, 1.01e8 + 2, 1.01e8 + 1, 1.01e8 + 2, 1.01e8 + 1, 1.01e8 + 2])[:, None]
    y = np.array([0, 1, 0, 1, 0, 1])
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        model = TruncatedLogisticRegression(C=1e6, solver="primal", tails="as-fitted")
        model.fit(rows, y)
    score = np.where(y == 1, 1.0, -1.0) * model.decision_function(rows)
    own = np.sum(np.logaddexp(0.0, -np.minimum(score, 1.0))) + 0.5e-6 * np.sum(model.coef_**2)
    assert own <= 1.001 * 6 * np.log(2) or any(
        issubclass(w.category, ConvergenceWarning) for w in told
    )
    assert own == pytest.approx(model.objective_, rel=1e-3)


def test_tensors_whose_rows_are_all_certain():
    torch = pytest.importorskip("torch")
    rows, y = torch.asarray([[0.0], [1.0], [2.0], [3.0]], dtype=torch.float64), [0, 0, 1, 1]
    with config_context(array_api_dispatch=True):
        model = TruncatedLogisticRegression(kernel="rbf", C=0.1, costs={0: 5, 1: 1})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a constant
            model.fit(rows, torch.asarray(y))
    assert bool(torch.all(torch.isfinite(model.dual_coef_)))
