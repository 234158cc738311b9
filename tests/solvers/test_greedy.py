"""The engine of the import vector machine against the paper's formulas in plain dense algebra."""

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from plain_greedy import Plain, gaussian_kernel
from scipy.linalg import cholesky, solve_triangular

from grayzone.numerics.designs import DenseDesign
from grayzone.numerics.kernels import Kernel, resolve_kernel
from grayzone.solvers.greedy import Criterion, Growth, Rules
from grayzone.solvers.greedy.basis import NewtonBasis, Pool, pool_of
from grayzone.solvers.greedy.columns import KernelColumns
from grayzone.solvers.greedy.refit import Point, Reading, refit
from grayzone.solvers.greedy.scores import one_step, score, score_by_power
from grayzone.sources.labelled import Rows, label
from grayzone.sources.source import HeldSource

GAMMA = 0.7


def data(n=60, n_classes=2, seed=0, d=2):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    score = X[:, 0] * X[:, 1] + 0.5 * X[:, 0] + 0.4 * rng.normal(size=n)
    return X, np.searchsorted(np.quantile(score, np.arange(1, n_classes) / n_classes), score)


def engine(
    X,
    y,
    C=5.0,
    weight=None,
    intercept=True,
    parametrization="symmetric",
    dtype=np.float64,
    floor=-np.inf,
    seed=0,
    **rules,
):
    """A growth without any point."""
    defaults = {
        "selection": "one-step",
        "n_candidates": None,
        "points_per_step": 1,
        "allow_removal": False,
        "max_points": None,
        "tol": 0.0,
        "lag": 3,
    }
    labelled = label(HeldSource(X, y, weight))
    floors = np.full(y.max() + 1, floor)
    reference = parametrization == "reference"
    criterion = Criterion(floors, 1.0 / C, intercept, reference=reference)
    rng = np.random.default_rng(seed)
    kernel, rules = Kernel("rbf", GAMMA), Rules(**{**defaults, **rules})
    growth = Growth(labelled, kernel, criterion, rules, rng)
    growth.basis.dtype = np.dtype(dtype)
    return growth


def spanned(growth):
    """The rows with their columns."""
    return growth.basis.spanned(growth.labelled)


def fitted_at(growth, coef):
    """The criterion and its derivatives at other coefficients."""
    return Reading(spanned(growth), growth.criterion, coef)(Point(growth.criterion, coef))


def scores_at(growth, coef):
    """Scores of the rows at coefficients of the basis."""
    return DenseDesign(growth.basis.columns, growth.criterion.fit_intercept).scores(coef)


def grown(growth, n_points):
    for _ in growth.grow():
        if growth.basis.size >= n_points:
            break
    return growth


KINDS = {
    "binary": (2, "symmetric"),
    "symmetric": (3, "symmetric"),
    "reference": (3, "reference"),
}


@pytest.fixture(params=KINDS)
def kind(request):
    return KINDS[request.param]


@pytest.fixture(params=[True, False], ids=["intercept", "no intercept"])
def intercept(request):
    return request.param


@pytest.fixture(params=[False, True], ids=["no weights", "weights"])
def problem(request, kind, intercept):
    """A growth with seven points, and the plain criterion of the same problem."""
    n_classes, parametrization = kind
    X, y = data(n_classes=n_classes)
    weight = np.random.default_rng(1).uniform(0.2, 3.0, len(y)) if request.param else None
    growth = engine(X, y, 5.0, weight, intercept, parametrization)
    plain = Plain(gaussian_kernel(X, X, GAMMA), y, 5.0, weight, intercept, parametrization)
    return grown(growth, 7), plain


def kernel_coef(growth, coef, intercept):
    """Coefficients (q + 1, Q) of kernel columns, from those of the basis."""
    q = growth.basis.size
    a = np.linalg.solve(growth.basis.factor.T, coef[:, :q].T)
    b = coef[:, q:].T if intercept else np.zeros((1, coef.shape[0]))
    return np.vstack([a, b])


# ------------------------------------------------------------------------------- the basis


def basis_of(K):
    """A basis of rows whose kernel matrix is known, without any point."""
    rows = Rows(K, np.zeros(len(K), dtype=int), np.ones(len(K)), memory={})
    return NewtonBasis(Kernel("precomputed"), Pool(rows, np.diagonal(K), complete=True))


@pytest.fixture
def chosen():
    """A kernel matrix, some of its points and their basis."""
    X, _ = data(80)
    K, points = gaussian_kernel(X, X, GAMMA), [11, 3, 70, 42, 5, 66]
    basis = basis_of(K)
    for point in points:
        basis.append(point, K[:, point])
    return K, points, basis


def assert_basis_of(basis, K, points):
    """Compare with a Cholesky factor of the points' kernel matrix."""
    R = cholesky(K[np.ix_(points, points)], lower=True)
    columns = solve_triangular(R, K[points], lower=True).T
    assert basis.points == points
    np.testing.assert_allclose(basis.factor, R, rtol=0.0, atol=1e-12)
    np.testing.assert_allclose(basis.columns, columns, rtol=0.0, atol=1e-12)
    left = np.diagonal(K) - np.sum(columns**2, axis=1)
    np.testing.assert_allclose(basis.power, left, rtol=0.0, atol=1e-12)


def test_the_basis_is_a_cholesky_factor(chosen):
    K, points, basis = chosen
    assert_basis_of(basis, K, points)
    a = np.random.default_rng(0).normal(size=(2, len(points)))
    beta = a @ basis.factor
    np.testing.assert_allclose(basis.dual_coef(beta), a, rtol=1e-10)
    np.testing.assert_allclose(basis.columns @ beta.T, K[:, points] @ a.T, rtol=0.0, atol=1e-12)


@pytest.mark.parametrize("j", range(6))
def test_a_basis_with_a_point_removed_is_one_built_without_it(chosen, j):
    K, points, basis = chosen
    columns, factor = basis.without(j)
    assert_basis_of(basis, K, points)  # only looked at so far
    basis.remove(j, columns, factor)
    left = points[:j] + points[j + 1 :]
    assert_basis_of(basis, K, left)
    basis.append(20, K[:, 20])
    assert_basis_of(basis, K, [*left, 20])


def test_the_basis_grows_past_its_first_room():
    X, _ = data(100, d=4)
    K = gaussian_kernel(X, X, 2.0)
    basis = basis_of(K)
    for point in range(90):
        basis.append(point, K[:, point])
    assert_basis_of(basis, K, list(range(90)))


# ------------------------------------------------------------------------ the kernel columns


def held(X, used):
    """Rows of X that are held."""
    n = len(used)
    return Rows(X[used], np.zeros(n, dtype=int), np.ones(n), numbers=used, memory={})


def sums_by_hand(K, points, factors, squares):
    block = K[:, points]
    return factors.T @ block, squares.T @ block**2


@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array, sp.csc_array])
@pytest.mark.parametrize("rows", ["all", "some"])
@pytest.mark.parametrize("keeps", [False, True])
def test_sums_over_columns(storage, rows, keeps):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1100, 3))  # more than two tiles
    used = np.arange(1100) if rows == "all" else np.sort(rng.choice(1100, 700, replace=False))
    K = gaussian_kernel(X[used], X[used], GAMMA)
    n, rows, kernel = used.size, held(storage(X), used), Kernel("rbf", GAMMA)
    points = rng.choice(n, 600, replace=False)
    columns = KernelColumns(kernel, kernel.right(rows.X[points]), keeps=keeps)
    factors, squares = rng.normal(size=(n, 4)), rng.uniform(size=(n, 2))
    sums, square_sums = columns.sums(rows, lambda a, b: factors[a:b], squares)
    expected, expected_squares = sums_by_hand(K, points, factors, squares)
    np.testing.assert_allclose(sums, expected, rtol=0.0, atol=1e-10)
    np.testing.assert_allclose(square_sums, expected_squares, rtol=1e-11)
    np.testing.assert_allclose(columns.values(rows), K[:, points], rtol=1e-12)
    alone, nothing = columns.sums(rows, lambda a, b: factors[a:b])
    np.testing.assert_array_equal(alone, sums)
    assert nothing is None


def test_columns_of_a_precomputed_kernel():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    used = np.sort(rng.choice(300, 200, replace=False))
    K = gaussian_kernel(X, X, GAMMA)
    given = K.copy()
    points, factors = np.array([5, 17, 180]), rng.normal(size=(200, 2))
    squares = rng.uniform(size=(200, 1))
    columns, rows = KernelColumns(Kernel("precomputed"), used[points]), held(given, used)
    part = K[np.ix_(used, used)]
    found = columns.sums(rows, lambda a, b: factors[a:b], squares)
    for sums, expected in zip(found, sums_by_hand(part, points, factors, squares), strict=True):
        np.testing.assert_allclose(sums, expected, rtol=1e-12)
    np.testing.assert_array_equal(columns.values(rows), part[:, points])
    np.testing.assert_array_equal(given, K)


def test_the_diagonal_of_a_precomputed_kernel_is_that_of_the_rows_that_count():
    X, y = data(30)
    K, weight = gaussian_kernel(X, X, GAMMA) * np.arange(1.0, 31.0)[:, None], np.ones(30)
    weight[[3, 4, 20]] = 0.0
    labelled = label(HeldSource(K, y, weight))
    pool = pool_of(labelled, Kernel("precomputed"), None)
    np.testing.assert_array_equal(pool.diagonal, np.diagonal(K)[weight > 0])


@pytest.mark.parametrize("shift", [0.0, 1e6])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_columns_of_few_points_are_those_of_many(shift, dtype):
    # few points have their differences from all rows, many a product with a factor of the rows
    X = (np.random.default_rng(0).normal(size=(3000, 5)) + shift).astype(dtype)
    kernel = resolve_kernel("rbf", 0.3, 3, 0.0, X)
    rows = Rows(X, np.zeros(3000, dtype=np.int64), np.ones(3000), memory={})
    basis = NewtonBasis(kernel, Pool(rows, np.ones(3000), complete=True), np.float32)
    places = np.arange(0, 3000, 500)
    many = basis.kernel_values(places)
    few = np.hstack([basis.kernel_values(places[:4]), basis.kernel_values(places[4:])])
    np.testing.assert_allclose(few, many, rtol=1e-11, atol=1e-14)
    own = X[:, None, :].astype(np.float64) - X[places].astype(np.float64)
    np.testing.assert_allclose(few, np.exp(-0.3 * np.sum(own**2, axis=2)), rtol=1e-13)


def test_sums_in_single_precision_are_summed_in_double():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 3))
    kernel, rows = Kernel("rbf", GAMMA), held(X, np.arange(3000))
    factors = 1.0 + rng.uniform(size=(3000, 2))  # nothing cancels
    points = np.arange(40)
    double, single = (
        KernelColumns(kernel, kernel.right(X[points], dtype), np.dtype(dtype), True).sums(
            rows, lambda a, b: factors[a:b]
        )[0]
        for dtype in (np.float64, np.float32)
    )
    assert single.dtype == np.float64
    np.testing.assert_allclose(single, double, rtol=1e-5)
    # but what is kept of a point is not rounded
    basis = NewtonBasis(kernel, Pool(rows, np.ones(3000), complete=True), np.float32)
    found = basis.kernel_values(points)
    np.testing.assert_allclose(found, gaussian_kernel(X, X[points], GAMMA), rtol=1e-12)


# ------------------------------------------------------------------------- refits of the span


def test_a_refit_is_the_plain_optimum(problem):
    growth, plain = problem
    S = growth.basis.points
    value, A = plain.fit(S)
    # a Newton step may still promise 1e-8 of the criterion, and brings half of that
    assert growth.fitted.objective == pytest.approx(value, rel=1e-8)
    assert growth.fitted.objective >= value * (1.0 - 1e-13)
    found = plain.columns(S) @ kernel_coef(growth, growth.fitted.coef, plain.intercept)
    scores = scores_at(growth, growth.fitted.coef)
    np.testing.assert_allclose(scores, found, rtol=0.0, atol=1e-11)
    shift = (found - plain.columns(S) @ A).mean(axis=0)
    shift = shift.mean() if len(plain.free) == plain.own.shape[1] else 0.0
    np.testing.assert_allclose(found - shift, plain.columns(S) @ A, rtol=0.0, atol=1e-3)


def test_a_refit_that_cannot_win_is_given_up(problem):
    growth, _ = problem
    rows, criterion = spanned(growth), growth.criterion
    start = np.zeros_like(growth.fitted.coef)
    value = growth.fitted.objective
    assert refit(rows, criterion, start, above=0.5 * value) is None
    # what may win is never given up, however little is left of the limit
    for limit in (value * (1.0 + 1e-7), 2.0 * value, np.inf):
        found = refit(rows, criterion, start, above=limit)
        assert found is not None
        assert found.objective == pytest.approx(value, rel=1e-8)


# -------------------------------------------------------------------- step (B2*), all at once


def explicit_steps(plain, S, A):
    """One Newton step with each row as well: its gain over that on S, and where it leads."""
    _, alone = plain.newton_step(S, A)
    gains, values, scores = {}, {}, {}
    for row in np.setdiff1d(np.arange(len(plain.K)), S):
        more = np.insert(A, len(S), 0.0, axis=0)
        change, gain = plain.newton_step([*S, row], more)
        gains[row] = gain - alone
        values[row] = plain.value([*S, row], more + change)
        scores[row] = plain.columns([*S, row]) @ (more + change)
    return gains, values, scores


@pytest.fixture(params=["converged", "not converged"])
def somewhere(request, problem):
    """Growth, plain criterion, and a point on the span, the optimum or another one."""
    growth, plain = problem
    if request.param == "converged":
        return growth, plain, growth.fitted
    coef = growth.fitted.coef + 0.3 * np.random.default_rng(3).normal(size=growth.fitted.coef.shape)
    return growth, plain, fitted_at(growth, coef)


def test_one_step_is_an_explicit_newton_step_with_each_candidate(somewhere):
    growth, plain, fitted = somewhere
    S, basis = growth.basis.points, growth.basis
    everyone = np.arange(growth.n_rows)
    A = kernel_coef(growth, fitted.coef, plain.intercept)
    assert fitted.objective == pytest.approx(plain.value(S, A), rel=1e-12)
    gains, values, scores = explicit_steps(plain, S, A)
    rest = np.array(sorted(gains))

    found = score(spanned(growth), fitted, basis, everyone)
    promised = found.gains()
    assert np.all(np.isneginf(promised[S]))
    explicit = np.array([gains[row] for row in rest])
    assert explicit.max() > 1e-3  # there is something to be found
    # the gain of a row is the difference of two decreases, which are as large as `alone`
    scale = explicit.max() + plain.newton_step(S, A)[1]
    np.testing.assert_allclose(promised[rest], explicit, rtol=1e-7, atol=1e-11 * scale)

    tried = one_step(spanned(growth), fitted, basis, found, rest)
    np.testing.assert_allclose(tried.values, [values[row] for row in rest], rtol=1e-9)
    np.testing.assert_allclose(tried.columns, plain.K[:, rest], rtol=1e-12)
    for row, coef in list(zip(rest, tried.coefs, strict=True))[::7]:
        phi = basis.spanned_with(None, row, plain.K[:, row]).span.known
        led = DenseDesign(phi, plain.intercept).scores(coef)
        expected = scores[row]
        if len(plain.free) == plain.own.shape[1] and plain.intercept:
            led = led - led.mean()  # a constant in all scores is nobody's business
            expected = expected - expected.mean()
        np.testing.assert_allclose(led, expected, rtol=0.0, atol=1e-7)


def test_the_choice_is_the_best_of_these_steps(problem):
    growth, plain = problem
    S = list(growth.basis.points)
    A = kernel_coef(growth, growth.fitted.coef, plain.intercept)
    _, values, _ = explicit_steps(plain, S, A)
    assert growth._add()
    assert growth.basis.points == [*S, min(values, key=values.get)]


def test_scores_by_power_are_squared_slopes_over_what_is_not_spanned(somewhere):
    growth, plain, fitted = somewhere
    S, basis = growth.basis.points, growth.basis
    A = kernel_coef(growth, fitted.coef, plain.intercept)
    found = score_by_power(spanned(growth), fitted, basis, np.arange(growth.n_rows)).gains()
    inverse = np.linalg.inv(plain.K[np.ix_(S, S)])
    for row in np.setdiff1d(np.arange(growth.n_rows), S):
        gradient, _ = plain.derivatives([*S, row], np.insert(A, len(S), 0.0, axis=0))
        slope = gradient.reshape(len(plain.free), -1)[:, len(S)]
        k = plain.K[S, row]
        power = plain.K[row, row] - k @ inverse @ k
        assert found[row] == pytest.approx(slope @ slope / power, rel=1e-7, abs=1e-10)
    assert np.all(np.isneginf(found[S]))


# -------------------------------------------------------------------------- blocks of points


def test_deflated_scores_are_those_computed_afresh(somewhere):
    growth, plain, fitted = somewhere
    basis, before = growth.basis, spanned(growth)
    everyone = np.arange(growth.n_rows)
    found = score(before, fitted, basis, everyone)
    coef = fitted.coef
    for _ in range(3):
        taken = int(np.argmax(found.gains()))
        column = plain.K[:, taken]
        coef = np.insert(coef, basis.size, 0.0, axis=1)
        basis.append(taken, column)
        found.deflate(before, fitted, basis, taken, column)
        found.limit(basis)
        # the same function, seen on the span with one column more
        fresh = score(spanned(growth), fitted_at(growth, coef), basis, everyone)
        rest = np.flatnonzero(fresh.eligible)
        np.testing.assert_array_equal(found.eligible, fresh.eligible)
        np.testing.assert_allclose(found.power, fresh.power, rtol=0.0, atol=1e-14)
        np.testing.assert_allclose(found.slope[rest], fresh.slope[rest], rtol=0.0, atol=1e-9)
        np.testing.assert_allclose(
            found.curvature[rest], fresh.curvature[rest], rtol=0.0, atol=1e-9
        )
        best = fresh.gains()[rest].max()
        np.testing.assert_allclose(
            found.gains()[rest], fresh.gains()[rest], rtol=1e-6, atol=1e-9 * best
        )


@pytest.mark.parametrize("selection", ["one-step", "power"])
@pytest.mark.parametrize("points_per_step", [2, 5, 60])
def test_a_path_of_blocks_goes_down(selection, points_per_step, kind):
    n_classes, parametrization = kind
    X, y = data(n_classes=n_classes)
    growth = engine(
        X, y, parametrization=parametrization, selection=selection, points_per_step=points_per_step
    )
    empty, sizes = growth.fitted.objective, []
    for _ in growth.grow():
        sizes.append(growth.basis.size)
    steps = np.diff([0, *sizes])
    # a block is full, but for the last ones that are left
    assert np.all(steps <= points_per_step)
    assert steps[0] == min(points_per_step, sizes[-1])
    assert len(set(growth.basis.points)) == growth.basis.size
    # more points may do no harm but for the accuracy of a refit
    path = np.array([empty, *growth.path])
    assert np.all(np.diff(path) <= 1e-8 * path[1:])


# ---------------------------------------------------------------------------- the exact choice


def test_exact_selection_is_the_basic_algorithm(kind, intercept):
    n_classes, parametrization = kind
    X, y = data(30, n_classes)
    weight = np.random.default_rng(1).uniform(0.2, 3.0, len(y))
    growth = engine(X, y, 5.0, weight, intercept, parametrization, selection="exact")
    plain = Plain(gaussian_kernel(X, X, GAMMA), y, 5.0, weight, intercept, parametrization)
    points, path = plain.greedy(5)
    grown(growth, 5)
    assert growth.basis.points == points
    np.testing.assert_allclose(growth.path, path, rtol=1e-8)


# -------------------------------------------------------------------------------- removals


def removal_costs(growth, plain):
    """How much the criterion rises when each point is left out, by refits."""
    S = growth.basis.points
    whole, _ = plain.fit(S)
    return np.array([plain.fit(S[:j] + S[j + 1 :])[0] - whole for j in range(len(S))])


def test_removal_estimates_are_the_cost_of_removals(problem):
    growth, plain = problem
    grown(growth, 12)
    estimates, costs = growth.removal_estimates(), removal_costs(growth, plain)
    assert np.corrcoef(estimates, costs)[0, 1] > 0.99
    # nor do only the large ones agree
    assert np.corrcoef(np.log(estimates), np.log(costs))[0, 1] > 0.99
    assert np.argmin(estimates) == np.argmin(costs)


def test_a_removal_leads_to_the_best_seen_of_its_size(kind):
    n_classes, parametrization = kind
    X, y = data(100, n_classes, seed=3)
    growth = engine(X, y, 20.0, parametrization=parametrization, allow_removal=True, tol=1e-6)
    plain = Plain(gaussian_kernel(X, X, GAMMA), y, 20.0, parametrization=parametrization)
    seen, sizes, sets = {}, [0], []
    for objective in growth.grow():
        size = growth.basis.size
        sets.append(frozenset(growth.basis.points))
        if size <= sizes[-1]:
            assert objective < seen[size]
        seen[size] = min(objective, seen.get(size, np.inf))
        sizes.append(size)
        assert objective == pytest.approx(plain.fit(growth.basis.points)[0], rel=1e-8)
        if len(sizes) > 25:
            break
    assert np.any(np.diff(sizes) <= 0)  # there was a removal
    assert len(set(sets)) == len(sets)  # and no set of points came back
    K, points = plain.K, growth.basis.points
    assert_basis_of(growth.basis, K, points)
    # what is known of the fit belongs to the basis as it is
    again = fitted_at(growth, growth.fitted.coef)
    assert again.objective == pytest.approx(growth.fitted.objective, rel=1e-12)
    np.testing.assert_allclose(again.hessian, growth.fitted.hessian, rtol=0.0, atol=1e-9)


# ---------------------------------------------------------------------------- another penalty


def test_another_penalty_goes_on_from_the_points_there_are(kind):
    n_classes, parametrization = kind
    X, y = data(n_classes=n_classes)
    growth = grown(engine(X, y, C=0.5, parametrization=parametrization), 4)
    points = list(growth.basis.points)
    growth.set_penalty(1.0 / 50.0)
    plain = Plain(gaussian_kernel(X, X, GAMMA), y, 50.0, parametrization=parametrization)
    assert growth.basis.points == points
    assert growth.fitted.objective == pytest.approx(plain.fit(points)[0], rel=1e-8)
    grown(growth, 7)
    assert growth.basis.points[:4] == points
    assert growth.fitted.objective == pytest.approx(plain.fit(growth.basis.points)[0], rel=1e-8)
    assert all(later <= earlier for earlier, later in pairwise(growth.path[4:]))


# -------------------------------------------------------------------------- other precisions


def test_points_of_little_power_are_not_chosen():
    X, y = data(40)
    near = np.vstack([X, X + 1e-6])  # power 1e-12 once its neighbour is there
    growth = engine(near, np.tile(y, 2))
    for _ in growth.grow():
        pass
    chosen = np.array(growth.basis.points) % 40
    assert len(set(chosen.tolist())) == chosen.size


# ---------------------------------------------------------------------------- truncated loss


def test_kinks_are_refitted_to_the_truncated_optimum():
    X, y = data(50)
    growth = grown(engine(X, y, 2.0, floor=-1.0), 6)
    S, sign = growth.basis.points, np.where(y == 1, 1.0, -1.0)
    K = gaussian_kernel(X, X, GAMMA)

    def value(scores, norm):
        u = np.maximum(-sign * scores, -1.0)
        return np.logaddexp(0.0, u).sum() + 0.25 * norm

    q = growth.basis.size
    model = growth.model()
    a, b = model.dual_coef, model.intercept
    scores = K[:, S] @ a[0] + b
    norm = a[0] @ K[np.ix_(S, S)] @ a[0]
    assert growth.fitted.objective == pytest.approx(value(scores, norm), rel=1e-10)
    # no small move along any column of the basis lowers it by more than the gap that is left
    columns = np.column_stack([growth.basis.columns, np.ones(len(y))])
    beta = growth.fitted.coef[0]
    for j in range(q + 1):
        for step in (1e-2, -1e-2, 1e-4, -1e-4):
            moved = beta.copy()
            moved[j] += step
            tried = value(columns @ moved, np.sum(moved[:q] ** 2))
            assert tried >= growth.fitted.objective * (1.0 - 1e-8)
