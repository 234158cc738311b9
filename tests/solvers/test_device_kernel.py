"""Kernel fits on arrays of other libraries: the optimum of NumPy's fits, and what they rest on."""

import os
import re
import warnings
from functools import cache

import array_api_strict as strict
import numpy as np
import pytest
from array_api_compat import array_namespace, device
from every import every
from oracle import BinaryProblem, kernel_point, softmax_kernel_point
from problems import (
    BINARY_KERNEL_CASES,
    MULTICLASS_KERNEL_CASES,
    KernelCase,
    by_name,
    gaussian,
    select,
)
from scipy.special import expit
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from grayzone import TruncatedLogisticRegression
from grayzone.numerics.checks import as_numpy
from grayzone.numerics.kernels import Kernel
from grayzone.solvers.kernel import device_matrix, systems
from grayzone.solvers.kernel.device_design import DeviceKernelDesign
from grayzone.solvers.kernel.device_kernel import _least
from grayzone.solvers.kernel.device_matrix import (
    KernelSystem,
    KernelValues,
    check_memory,
)
from grayzone.solvers.kernel.systems import Bordered, Factor, SlopeModel
from grayzone.solvers.truncated import streamed

torch = pytest.importorskip("torch")

# one of the problems has no better solution, and says so
pytestmark = pytest.mark.filterwarnings("ignore:The fitted model is a constant")
TOL = 1e-10
LIBRARIES = {
    "torch": torch.asarray,
    "strict": strict.asarray,
    "device1": lambda a: strict.asarray(a, device=strict.Device("device1")),
}
BOTH = pytest.mark.parametrize("library", ["torch", "strict"])


class Precomputed(KernelCase):
    """Inner products of rows as a precomputed kernel."""

    @cache  # noqa: B019
    def matrix(self):
        X = self.data()[0]
        return X @ X.T


# Sparse rows stay with NumPy, and NumPy's functions are for its arrays alone.
ELSEWHERE = [
    case
    for case in BINARY_KERNEL_CASES
    if case.storage is None and case.name != "callable-280" and case.C <= 1e4
]
OWN = [
    Precomputed("linear", gaussian(120, 3, seed=60), kernel="precomputed", C=10.0),
    KernelCase(
        "sigmoid", gaussian(100, 3, seed=61), kernel="sigmoid", gamma=1e-5, coef0=0.0, C=1e3
    ),
    KernelCase("wide-zone", gaussian(120, 3, seed=62), (0.001, 0.999)),
    KernelCase("narrow-zone", gaussian(120, 3, seed=63), (0.45, 0.55)),
    KernelCase("narrow-zone-C-1e2", gaussian(120, 3, seed=64), (0.45, 0.55), C=1e2),
    KernelCase("zone-beside", gaussian(120, 3, seed=65, shift=1.5), (0.01, 0.1)),
    KernelCase("C-1e-3", gaussian(120, 3, seed=66), C=1e-3),
    KernelCase("C-1e-3-full", gaussian(120, 3, seed=66), None, C=1e-3),
    KernelCase("C-1e2", gaussian(120, 3, seed=67), C=1e2),
    KernelCase("C-1e4-full", gaussian(120, 3, seed=68), None, C=1e4),
]
CASES = ELSEWHERE + OWN
LARGE_C = [case for case in BINARY_KERNEL_CASES if case.C > 1e4]
SOME = select(
    CASES,
    "rbf-120",
    "rbf-repeated-rows",
    "rbf-full",
    "poly-3",
    "laplacian",
    "callable",
    "no-intercept",
    "precomputed",
    "linear",
    "narrow-zone",
    "sigmoid",
)


# ------------------------------------------------------------------------------------------ fits


def there(library, values):
    return None if values is None else LIBRARIES[library](np.array(values))


def estimator_of(case, **parameters):
    return TruncatedLogisticRegression(**(case.parameters | {"tol": TOL} | parameters))


def fit_in(library, estimator, X, y, weight=None):
    with config_context(array_api_dispatch=True):
        return estimator.fit(*(there(library, a) for a in (X, y, weight)))


def fit_case(library, case, **parameters):
    X, y, weight, _ = case.build()
    return fit_in(library, estimator_of(case, **parameters), X, y, weight)


@cache
def in_memory(case):
    X, y, weight, _ = case.build()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # NumPy's fits have tests of their own
        return estimator_of(case).fit(X, y, weight)


def point_of(case, estimator):
    """P and D, recomputed from the fitted attributes and scikit-learn's kernel values."""
    problem = case.build()[-1]
    recompute = kernel_point if isinstance(problem, BinaryProblem) else softmax_kernel_point
    attributes = (estimator.support_, estimator.dual_coef_, estimator.intercept_)
    return recompute(problem, case.matrix(), *(as_numpy(a) for a in attributes))


def assert_honest(case, estimator, tol):
    point = point_of(case, estimator)
    # P - D by subtraction carries a few units in the last place of P
    slack = 1e-12 + 2.0 * point.rounding
    assert 0.0 <= estimator.dual_gap_ <= tol
    assert estimator.dual_gap_ == pytest.approx(point.gap, rel=1e-5, abs=slack)
    assert estimator.objective_ == pytest.approx(point.primal, rel=slack)
    return point


def assert_admissible(case, estimator, point):
    problem, flow = case.build()[-1], as_numpy(estimator.dual_coef_)
    if isinstance(problem, BinaryProblem):
        assert np.all((point.alpha >= 0.0) & (point.alpha <= 1.0 + 1e-15))
        support = as_numpy(estimator.support_)
        np.testing.assert_array_equal(np.sign(flow[0]), problem.sign[support])
    if case.fit_intercept:
        assert np.all(np.abs(flow.sum(axis=1)) <= 1e-12 * np.abs(flow).sum())


def assert_same_function(case, found, expected):
    """Strong convexity: |f - f*|^2 <= 2 C (P - P*), and P - P* is no more than the gap."""
    one, other = (point_of(case, e) for e in (found, expected))
    gaps = [e.dual_gap_ + 1e-15 for e in (found, expected)]
    assert found.objective_ == pytest.approx(expected.objective_, rel=sum(gaps) + 1e-12)
    values = [
        p.scores - as_numpy(e.intercept_)
        for p, e in zip((one, other), (found, expected), strict=True)
    ]
    reach = np.sqrt(np.diag(case.matrix()) * 2.0 * case.C * one.primal)
    bound = reach * sum(np.sqrt(gap) for gap in gaps) + 1e-9
    # each output by itself, hence the norm over outputs
    assert np.all(np.linalg.norm(values[0] - values[1], axis=1) <= bound)


def assert_same_partition(case, found, expected):
    """Partitions, but for rows whose multipliers are within the tolerance of another part."""
    problem = case.build()[-1]
    alphas = [point_of(case, e).alpha for e in (found, expected)]
    masses = [a if a.ndim == 1 else a.clip(min=0.0).sum(axis=1) for a in alphas]
    if isinstance(problem, BinaryProblem):
        kink = expit(problem.floor)
    else:
        kink = -np.expm1(-problem.saturated_loss)
    partition = as_numpy(found.partition_)
    differs = partition != expected.partition_
    clear = [(m > 1e-3) & (np.abs(m - kink) > 1e-3) for m in masses]
    assert not np.any(differs & clear[0] & clear[1])
    np.testing.assert_array_equal(as_numpy(found.support_), np.flatnonzero(partition))


# ------------------------------------------------------------------------------- the same optimum


@by_name(CASES)
def test_two_classes(case):
    found, expected = fit_case("torch", case), in_memory(case)
    point = assert_honest(case, found, TOL)
    assert_admissible(case, found, point)
    assert_same_function(case, found, expected)
    if "repeated" not in case.name and "constant" not in case.name:  # their duals are not unique
        assert_same_partition(case, found, expected)
    size = max(1.0, np.abs(expected.intercept_).max())
    np.testing.assert_allclose(
        as_numpy(found.intercept_), expected.intercept_, rtol=0.0, atol=1e-3 * size
    )


@by_name(LARGE_C)
def test_penalties_that_leave_next_to_nothing(case):
    # what NumPy's fits reach there, a hundred times coarser than the default tolerance
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = fit_case("torch", case, tol=1e-6)
    assert_honest(case, found, 1e-4)


@pytest.mark.parametrize("C", [1e5, 1e6])
@pytest.mark.parametrize("zone", [1.0, (0.3, 0.7), None], ids=str)
def test_small_penalties_are_no_reason_to_stop_at_the_start(zone, C):
    X, y = gaussian(150, 4, seed=0)()
    options = {"kernel": "rbf", "C": C, "zone": zone}
    expected = TruncatedLogisticRegression(**options).fit(X, y)
    found = fit_in("torch", TruncatedLogisticRegression(**options), X, y)
    assert found.dual_gap_ <= 1e-6
    assert found.objective_ == pytest.approx(expected.objective_, rel=1e-5)


@by_name(MULTICLASS_KERNEL_CASES)
def test_more_classes(case):
    found, expected = fit_case("torch", case), in_memory(case)
    # rounding errors of features are multiplied by C in the function that the duals span
    point = assert_honest(case, found, 1e-8 if case.name == "three-classes-C-100" else TOL)
    assert_admissible(case, found, point)
    assert_same_function(case, found, expected)
    assert_same_partition(case, found, expected)


@by_name(SOME + MULTICLASS_KERNEL_CASES[:2])
def test_strict_arrays(case):
    found, expected = fit_case("device1", case), in_memory(case)
    point = assert_honest(case, found, TOL)
    assert_admissible(case, found, point)
    assert_same_function(case, found, expected)
    X = there("device1", case.build()[0])
    for name in ("intercept_", "support_", "dual_coef_", "partition_", "classes_"):
        value = getattr(found, name)
        assert array_namespace(value) == strict, name
        assert device(value) == device(X), name


@by_name(CASES + MULTICLASS_KERNEL_CASES)
def test_gap_is_honest_at_a_low_tolerance(case):
    found = fit_case("torch", case, tol=1e-2)
    assert_admissible(case, found, assert_honest(case, found, 1e-2))


@BOTH
@by_name([*select(CASES, "rbf-120", "precomputed", "callable"), MULTICLASS_KERNEL_CASES[0]])
def test_predictions_for_new_rows(case, library):
    X, y, _, _ = case.build()
    half = len(y) // 2
    if case.kernel == "precomputed":
        train, new = X[:half, :half], X[half:, :half]
    else:
        train, new = X[:half], X[half:]
    expected = estimator_of(case).fit(train, y[:half])
    found = fit_in(library, estimator_of(case), train, y[:half])
    with config_context(array_api_dispatch=True):
        for method in ("decision_function", "predict_proba"):
            values = getattr(found, method)(there(library, new))
            assert array_namespace(values) == array_namespace(there(library, new))
            np.testing.assert_allclose(as_numpy(values), getattr(expected, method)(new), atol=1e-4)
    if case.kernel != "precomputed":
        vectors = as_numpy(found.support_vectors_)
        np.testing.assert_array_equal(vectors, train[as_numpy(found.support_)])


def test_many_classes_where_few_rows_are_held(monkeypatch):
    """The features of a kernel are rows as any others: they may come in sums and bands."""
    case = MULTICLASS_KERNEL_CASES[4]
    monkeypatch.setattr(streamed, "MOST_HELD", 40 * 6)  # features of this kernel
    found = fit_case("torch", case)
    assert_honest(case, found, TOL)
    assert_same_function(case, found, in_memory(case))


def test_no_kernel_at_all_for_three_classes():
    y = np.arange(60) % 3
    zeros = np.zeros((60, 60))
    estimator = TruncatedLogisticRegression(kernel="precomputed", tol=1e-9)
    expected = clone(estimator).fit(zeros, y)
    found = fit_in("torch", estimator, zeros, y)
    assert found.objective_ == pytest.approx(expected.objective_, rel=1e-9)


# -------------------------------------------------------------------------------- how fits may end


@by_name(select(CASES, "rbf-120", "rbf-full", "narrow-zone", "precomputed"))
def test_an_accuracy_out_of_reach(case):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = fit_case("torch", case, tol=1e-18)
    assert_honest(case, found, 1e-11)


# ---------------------------------------------------------------------------------- bad kernels


def indefinite(name):
    X, y = gaussian(120, 4, seed=70)()
    near = Kernel("rbf", 0.2)(X, X)
    return {
        "sigmoid-0.1": (X, y, {"kernel": "sigmoid", "gamma": 0.1}),
        "sigmoid-1": (X, y, {"kernel": "sigmoid", "gamma": 1.0}),
        "sigmoid-negative": (X, y, {"kernel": "sigmoid", "gamma": 0.1, "coef0": -1.0}),
        "negative": (-near, y, {"kernel": "precomputed"}),
        "slightly": (near - 0.3 * np.eye(120), y, {"kernel": "precomputed", "C": 0.1}),
        "slightly-full": (
            near - 0.3 * np.eye(120),
            y,
            {"kernel": "precomputed", "C": 0.1, "zone": None},
        ),
    }[name]


@BOTH
@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize(
    "name",
    ["sigmoid-0.1", "sigmoid-1", "sigmoid-negative", "negative", "slightly", "slightly-full"],
)
def test_indefinite_kernels_are_refused(name, n_classes, library):
    """Along an eigenvector of a negative eigenvalue the criterion falls without end: no gap."""
    X, y, options = indefinite(name)
    y = y if n_classes == 2 else np.arange(120) % 3
    with pytest.raises(ValueError, match="not positive semi-definite"):
        TruncatedLogisticRegression(**options).fit(X, y)
    with pytest.raises(ValueError, match="not positive semi-definite"):
        fit_in(library, TruncatedLogisticRegression(**options), X, y)


@BOTH
def test_kernel_matrices_have_to_be_symmetric_squares(library):
    X, y = gaussian(60, 3)()
    K = X @ X.T
    estimator = TruncatedLogisticRegression(kernel="precomputed")
    with pytest.raises(ValueError, match="square matrix"):
        fit_in(library, estimator, K[:, :-1], y)
    with pytest.raises(ValueError, match="has to be symmetric"):
        fit_in(library, estimator, K + np.triu(np.ones_like(K)), y)


# ---------------------------------------------------------------------------------- the memory


def room_for(monkeypatch, n_bytes):
    monkeypatch.setattr(device_matrix, "free_memory", lambda like: float(n_bytes))


@pytest.mark.parametrize("case", [ELSEWHERE[0], MULTICLASS_KERNEL_CASES[0]], ids=lambda c: c.name)
@BOTH
def test_too_little_memory_is_an_error_before_anything_is_computed(case, library, monkeypatch):
    X, y, _, _ = case.build()
    room_for(monkeypatch, 1e6)

    def too_late(*args):
        raise AssertionError("kernel values before the memory was planned")

    monkeypatch.setattr(Kernel, "between", too_late)
    estimator = fit_in(library, TruncatedLogisticRegression(), X, y).set_params(kernel="rbf")
    before = vars(estimator).copy()
    with pytest.raises(MemoryError) as caught:
        fit_in(library, estimator, X, y)
    message = str(caught.value)
    assert f"kernel fit of {len(y)} rows needs" in message
    assert re.search(r"needs \d+\.\d GB on .*, where 0\.0 GB are free", message)
    assert vars(estimator) == before


@pytest.mark.parametrize("gigabytes", [2.0, 3.0, 8.0, 40.0, 140.0])
def test_as_many_rows_as_are_said_to_fit_do_fit(gigabytes, monkeypatch):
    room_for(monkeypatch, gigabytes * 1e9)
    like = torch.empty(0)
    with pytest.raises(MemoryError) as caught:
        check_memory(10**6, like)
    largest = int(re.search(r"enough for some (\d+) rows", str(caught.value)).group(1))
    check_memory(largest, like)
    with pytest.raises(MemoryError):
        check_memory(int(1.02 * largest) + 2, like)


@pytest.mark.parametrize("error", [ValueError, OSError, AttributeError])
def test_systems_that_do_not_tell_their_memory(error, monkeypatch):
    """There is no such figure on macOS, and no such function on Windows."""

    def unknown(name):
        raise error("unrecognized configuration name")

    monkeypatch.setattr(os, "sysconf", unknown)
    case = ELSEWHERE[0]
    assert_honest(case, fit_case("torch", case), TOL)


@BOTH
@by_name(select(CASES, "rbf-120", "poly-3", "laplacian", "callable", "no-intercept", "rbf-full"))
def test_kernel_values_that_are_not_kept(case, library, monkeypatch):
    n = len(case.build()[1])
    kept = fit_case(library, case)
    # enough for a system, not for the values beside it
    room_for(monkeypatch, 20.0 * n**2 + device_matrix._SPARE)
    monkeypatch.setattr(device_matrix, "_TILE", 17 * n)
    monkeypatch.setattr(device_matrix, "_PANEL", 13)
    found = fit_case(library, case)
    assert_honest(case, found, TOL)
    np.testing.assert_allclose(
        as_numpy(found.intercept_), as_numpy(kept.intercept_), rtol=1e-6, atol=1e-9
    )
    np.testing.assert_array_equal(as_numpy(found.partition_), as_numpy(kept.partition_))
    size = float(np.abs(as_numpy(kept.dual_coef_)).max())
    np.testing.assert_allclose(
        as_numpy(found.dual_coef_), as_numpy(kept.dual_coef_), rtol=0.0, atol=1e-5 * size
    )


@pytest.mark.parametrize("room", [1e15, 0.0], ids=["kept", "anew"])
@BOTH
def test_products_and_systems_of_kernel_values(room, library, monkeypatch):
    room_for(monkeypatch, room)
    monkeypatch.setattr(device_matrix, "_TILE", 100)
    rng = np.random.default_rng(0)
    X, kernel = rng.normal(size=(40, 3)), Kernel("rbf", 0.3)
    K = kernel(X, X)
    values = KernelValues(kernel, there(library, X))
    assert (values.kept is None) == (room == 0.0)
    coef = rng.normal(size=(40, 2))
    coef[::3] = 0.0
    for c in (coef, 0.0 * coef):
        product = as_numpy(values.product(there(library, c)))
        np.testing.assert_allclose(product, K @ c, atol=1e-13)
    for places in (np.arange(40), np.array([1, 5, 6, 30]), np.array([7])):
        root = rng.uniform(0.1, 3.0, size=places.size)
        system = values.system(there(library, places), there(library, root), 0.5)
        matrix = 0.5 * np.eye(places.size) + root[:, None] * K[np.ix_(places, places)] * root
        rhs = rng.normal(size=(places.size, 3))
        solved = as_numpy(system.solve(there(library, rhs)))
        np.testing.assert_allclose(solved, np.linalg.solve(matrix, rhs), rtol=1e-11, atol=1e-12)
    # a precomputed kernel is never computed anew
    K32 = there(library, K.astype(np.float32))
    product = as_numpy(KernelValues(Kernel("precomputed"), K32).product(there(library, coef)))
    np.testing.assert_allclose(product, K.astype(np.float32).astype(float) @ coef, atol=1e-13)


# ---------------------------------------------------------------------------------- the factor


@every("size", [1, 2, 5, 8, 16, 33])
@pytest.mark.parametrize(("panel", "inverted"), [(1, 1), (3, 2), (4, 5), (8, 4), (100, 100)])
@BOTH
def test_blocked_factor(size, panel, inverted, library, monkeypatch):
    monkeypatch.setattr(device_matrix, "_PANEL", panel)
    monkeypatch.setattr(device_matrix, "_INVERTED", inverted)
    monkeypatch.setattr(device_matrix, "_INVERTED_OFTEN", 2 * inverted)
    monkeypatch.setattr(device_matrix, "_WHOLE", 0)
    rng = np.random.default_rng(size)
    A = rng.normal(size=(size, size))
    matrix = A @ A.T + 0.1 * np.eye(size)
    given = np.where(np.tri(size, dtype=bool), matrix, np.nan)  # above it anything may be
    lower = np.tril(as_numpy(device_matrix._cholesky(there(library, given))))
    np.testing.assert_allclose(lower, np.linalg.cholesky(matrix), rtol=1e-9, atol=1e-11)
    rhs = rng.normal(size=(size, 2))
    # backward stable: the error is that of the condition number
    accuracy = 1e-14 * np.linalg.cond(matrix) * np.abs(np.linalg.solve(matrix, rhs)).max()
    for often in (False, True):
        system = KernelSystem(there(library, given), often)
        solved = as_numpy(system.solve(there(library, rhs)))
        np.testing.assert_allclose(solved, np.linalg.solve(matrix, rhs), rtol=0.0, atol=accuracy)


# ---------------------------------------------------------------------------- parts of the method


def design_of(library):
    X, _ = gaussian(60, 3, seed=80)()
    return DeviceKernelDesign(Kernel("rbf", 0.4), there(library, X), True)


def model_of(library, rng, used):
    omega = np.where(used, rng.uniform(0.05, 0.25, size=60), 0.0)
    rise = np.where(used, rng.normal(size=60), 0.0)
    return SlopeModel(*(there(library, a) for a in (rise, omega, omega)))


@BOTH
def test_a_factor_helps_to_solve_systems_near_it(library, monkeypatch):
    monkeypatch.setattr(systems, "_INNER", 1e-12)
    monkeypatch.setattr(systems, "_PRODUCTS", 200)
    rng = np.random.default_rng(0)
    used = np.arange(60) % 4 > 0
    rows = design_of(library)
    first, second = (model_of(library, rng, used) for _ in range(2))
    zeros = there(library, np.zeros(60))
    factor = Factor(rows.values, 0.5, first)
    factor.solved(first)
    assert factor.serves(second)
    found = as_numpy(factor.improved(second, zeros, zeros[0]))
    expected = as_numpy(Factor(rows.values, 0.5, second).solved(second))
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-10)
    assert np.all(found[~used] == 0.0)
    # by definition: (K + lambda W) a = (z, 1) on the rows that are used
    X, w = as_numpy(rows.X)[used], as_numpy(second.weight)[used]
    matrix = Kernel("rbf", 0.4)(X, X) + np.diag(0.5 / w)
    rhs = np.column_stack([as_numpy(second.rise)[used] / w, np.ones(w.size)])
    np.testing.assert_allclose(expected[used], np.linalg.solve(matrix, rhs), rtol=1e-9)


@BOTH
def test_a_factor_knows_where_it_does_not_help(library, monkeypatch):
    rng = np.random.default_rng(0)
    rows = design_of(library)
    used = np.arange(60) % 4 > 0
    model = model_of(library, rng, used)
    factor = Factor(rows.values, 1e3, model)
    factor.solved(model)
    assert not factor.serves(model_of(library, rng, ~used))
    far = model._replace(
        weight=model.weight * there(library, np.where(used, 10.0 ** (rng.uniform(-4, 4, 60)), 0.0))
    )
    assert not factor.serves(far)
    monkeypatch.setattr(systems, "_PRODUCTS", 1)
    monkeypatch.setattr(systems, "_INNER", 1e-15)
    zeros = there(library, np.zeros(60))
    assert factor.improved(far, zeros, zeros[0]) is None


def bordered(library, rows, model, core, border):
    masks = (there(library, m) for m in (core, border))
    return Bordered(rows.values, 0.5, model, *masks)


@pytest.mark.parametrize("room", [1e15, 0.0], ids=["kept", "anew"])
@BOTH
def test_a_core_serves_many_borders(room, library, monkeypatch):
    room_for(monkeypatch, room)
    rng = np.random.default_rng(1)
    rows, place = design_of(library), np.arange(60)
    core, border = place < 30, (place >= 30) & (place < 50)
    first = model_of(library, rng, core | border)
    found = bordered(library, rows, first, core, border)
    K, scores = Kernel("rbf", 0.4)(as_numpy(rows.X), as_numpy(rows.X)), rng.normal(size=60)
    for extra in (border, border & (place % 3 == 0), np.zeros(60, dtype=bool)):
        used = core | extra
        # the bends of the core have drifted: a line through the same slopes, with the old bends
        omega = np.where(core, 1.05 * as_numpy(first.omega), rng.uniform(0.01, 100.0, size=60))
        omega = np.where(used, omega, 0.0)
        rise = np.where(used, rng.normal(size=60), 0.0)
        model = SlopeModel(*(there(library, a) for a in (rise, omega, omega)))
        assert found.serves(model, there(library, core))
        kept = np.where(core, as_numpy(first.omega), omega)[used]
        line = rise[used] - (omega[used] - kept) * scores[used]
        matrix = K[np.ix_(used, used)] + np.diag(0.5 / kept)
        rhs = np.column_stack([line / kept, np.ones(kept.size)])
        solved = as_numpy(found.solved(model, there(library, scores)))
        np.testing.assert_allclose(solved[used], np.linalg.solve(matrix, rhs), rtol=1e-9)
        assert np.all(solved[~used] == 0.0)


@BOTH
def test_a_core_knows_where_it_does_not_serve(library):
    rng = np.random.default_rng(1)
    rows, place = design_of(library), np.arange(60)
    core, border = place < 30, (place >= 30) & (place < 50)
    model = model_of(library, rng, core | border)
    found = bordered(library, rows, model, core, border)
    log = there(library, core)
    assert found.serves(model, log)
    assert not found.serves(model, there(library, place < 29))  # one of the core has left
    assert not found.serves(model_of(library, rng, place < 51), log)  # one is in neither
    drifted = np.where(place == 3, 1.2, 1.0)
    assert not found.serves(model._replace(omega=model.omega * there(library, drifted)), log)
    outside = np.where(place == 33, 50.0, 1.0)  # what the border does is its own affair
    assert found.serves(model._replace(omega=model.omega * there(library, outside)), log)


@pytest.mark.parametrize(
    ("core", "border", "kept", "expected"),
    [
        (60, 0, True, False),  # nothing comes and goes
        (0, 60, True, False),
        (10, 31, True, False),  # the border is nearly everything
        (10, 30, True, True),
        (40, 20, True, True),
        (30, 30, False, False),  # more than the memory that was planned
        (40, 15, False, True),
    ],
)
def test_when_a_border_pays(core, border, kept, expected, monkeypatch):
    room_for(monkeypatch, 1e15 if kept else 0.0)
    place = np.arange(60)
    masks = (torch.asarray(m) for m in (place < core, (place >= core) & (place < core + border)))
    assert Bordered.pays(design_of("torch").values, *masks) is expected


def test_searches_along_a_line():
    assert _least(lambda t: -1.0) == 1.0
    assert _least(lambda t: t - 1.0) == 1.0
    assert _least(lambda t: 1.0) == 1.0  # no descent at all: a full step is as good as any
    for zero in (1e-3, 0.2, 0.7, 0.999):
        assert abs(_least(lambda t, zero=zero: t - zero) - zero) <= 1e-3 * zero
        # slopes rise at a kink, by far more on one side than on the other
        kink = _least(lambda t, zero=zero: -1.0 if t < zero else 50.0)
        assert abs(kink - zero) <= 0.01 * zero
