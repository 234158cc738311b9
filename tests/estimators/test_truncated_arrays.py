"""Linear truncated logistic regression on other arrays and on blocks: the model of NumPy's rows."""

import pickle
from functools import cache

import array_api_strict as strict
import numpy as np
import pytest
from oracle import (
    BinaryProblem,
    alpha_from_dual_coef,
    primal_value,
    relative_gap,
    softmax_alpha_from_dual_coef,
    softmax_primal_value,
    softmax_relative_gap,
    solve_binary,
    solve_softmax,
)
from problems import Case, gaussian, select
from scipy.special import expit
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from grayzone import (
    ImportVectorMachine,
    MinimaxProbabilityMachine,
    TightBoundLogisticRegression,
    TruncatedLogisticRegression,
)
from grayzone.numerics.checks import as_numpy
from grayzone.solvers.truncated import streamed
from grayzone.sources import Block, Source
from grayzone.sources.gather import draw_sample
from grayzone.sources.labelled import label

torch = pytest.importorskip("torch")

TIGHT = 1e-14
EQUAL = 1e-8
LIBRARIES = {
    "torch": torch.asarray,
    "strict": strict.asarray,
    "device1": lambda a: strict.asarray(a, device=strict.Device("device1")),
}
# Rows that a fit may hold; with all rows at hand no sum, sample or band would matter.
FEW = 300


# ------------------------------------------------------------------------------------------ data


def ordered(n=1000, d=5, n_classes=3, seed=0, noise=1.0):
    """Classes along one direction, with noise."""

    def make():
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(n, d))
        score = X @ (1.0 / np.arange(1, d + 1)) + noise * rng.normal(size=n)
        return X, np.searchsorted(np.quantile(score, np.arange(1, n_classes) / n_classes), score)

    return make


def changed(make, change):
    """`make` followed by ``change(X, y, rng)``."""

    def remake():
        return change(*make(), np.random.default_rng(1))

    return remake


def whole_weights(X, y, rng):
    return X, y, rng.integers(3, size=len(y)).astype(float)


def badly_scaled(X, y, rng):
    return X * np.array([1e-3, 1e4, 1.0, 10.0, 0.1]), y


def repeated(X, y, rng):
    rows = rng.integers(len(y) // 10, size=len(y))
    return X[rows], y[rows]


def flat_features(X, y, rng):
    return np.column_stack([X, np.ones(len(X)), np.zeros(len(X))]), y


def rare_positives(X, y, rng):
    score = X[:, 0] + 0.5 * rng.normal(size=len(X))
    return X, (score > np.sort(score)[-len(X) // 500 - 1]).astype(int)


def separable(X, y, rng):
    return X, (X[:, 0] + 0.1 * X[:, 1] > 0.0).astype(int)


def names(X, y, rng):
    return X, np.where(y == 1, "yes", "no")


def single_precision(X, y, rng):
    return X.astype(np.float32), y


def shifted(X, y, rng):
    return X + 0.3, y


TWO, THREE = gaussian(1000, 5), ordered()
CASES = [
    Case("plain", TWO),
    Case("full-likelihood", TWO, zone=None),
    Case("zone-pair", TWO, zone=(0.3, 0.7)),
    Case("positive-kink-only", TWO, zone=(0.0, 0.7)),
    Case("negative-kink-only", TWO, zone=(0.2, 1.0)),
    Case("narrow-zone", TWO, zone=(0.49, 0.51), C=100.0),
    Case("very-wide-zone", TWO, zone=(0.001, 0.999)),
    Case("costs", TWO, costs={0: 1.0, 1: 6.0}),
    Case("no-intercept", changed(TWO, shifted), fit_intercept=False),
    Case("class-weights", TWO, class_weight={0: 2.0, 1: 0.3}),
    Case("zero-weights", changed(TWO, whole_weights)),
    Case("names", changed(TWO, names)),
    Case("single-precision", changed(TWO, single_precision)),
    Case("wide", gaussian(60, 100)),
    Case("repeated-rows", changed(TWO, repeated)),
    Case("flat-features", changed(TWO, flat_features)),
    Case("badly-scaled", changed(TWO, badly_scaled)),
    Case("rare", changed(gaussian(3000, 4), rare_positives), class_weight={0: 1.0, 1: 50.0}),
    Case("rare-full-likelihood", changed(gaussian(3000, 4), rare_positives), zone=None),
    Case("separable-large-C", changed(TWO, separable), C=1e4),
    Case("separable-full-likelihood", changed(TWO, separable), C=1e6, zone=None),
    Case("C-1e-6", TWO, C=1e-6),
    Case("C-1e-3", TWO, C=1e-3),
    Case("C-1e3", TWO, C=1e3),
    Case("C-1e6", TWO, C=1e6),
    Case("three", THREE),
    Case("three-full-likelihood", THREE, zone=None),
    Case("three-caps", THREE, zone={0: 0.4, 1: 0.5, 2: 0.45}),
    Case("three-one-cap", THREE, zone={0: 0.6, 1: 1.0, 2: 1.0}),
    Case("three-no-intercept", changed(THREE, shifted), fit_intercept=False),
    Case("three-zero-weights", changed(THREE, whole_weights), zone={0: 0.6, 1: 0.9, 2: 0.7}),
    Case("three-wide", ordered(45, 60)),
    Case("three-badly-scaled", changed(THREE, badly_scaled)),
    Case("three-C-1e-6", THREE, C=1e-6),
    Case("three-C-1e2", THREE, C=1e2),
]


def by_name(cases):
    return pytest.mark.parametrize("case", cases, ids=[case.name for case in cases])


# ------------------------------------------------------------------------------------------ fits


class ListSource(Source):
    """Rows in blocks that end at ``cuts``; tasks travel as on a cluster, what comes is counted."""

    def __init__(self, X, y, weight=None, cuts=None):
        n = len(y)
        # some rows, one row, none, and the rest in two blocks
        cuts = (n // 3, n // 3 + 1, n // 3 + 1, n // 2) if cuts is None else cuts
        self.X, self.y, self.weight = X, y, weight
        self.edges = [0, *cuts, n]
        self.n_features = X.shape[1]
        self.gathered = {}

    def blocks(self):
        for a, b in zip(self.edges[:-1], self.edges[1:], strict=True):
            weight = None if self.weight is None else self.weight[a:b]
            yield Block(self.X[a:b], self.y[a:b], weight, a)

    def reduce(self, task):
        found = super().reduce(pickle.loads(pickle.dumps(task)))
        for name in {"drawn", "near", "joined"} & found.keys():
            came = sum(part.numbers.shape[0] for part in found[name])
            self.gathered[name] = max(came, self.gathered.get(name, 0))
        return found


@pytest.fixture
def hold(monkeypatch):
    """Limit the rows that fits may hold."""

    def limit(rows, n_features):
        if rows is not None:
            monkeypatch.setattr(streamed, "MOST_HELD", rows * n_features)

    return limit


def tight(case, **parameters):
    return TruncatedLogisticRegression(**(case.parameters | {"tol": TIGHT} | parameters))


@cache
def in_memory(case):
    X, y, weight, _ = case.build()
    return tight(case).fit(X, y, weight)


def there(library, values):
    """An array in a library; names stay NumPy's."""
    if values is None or values.dtype.kind == "U":
        return values
    return LIBRARIES[library](np.array(values))


def fit_in(library, estimator, X, y, weight=None):
    with config_context(array_api_dispatch=True):
        return estimator.fit(*(there(library, a) for a in (X, y, weight)))


def fit_case(library, case, **parameters):
    X, y, weight, _ = case.build()
    if library == "blocks":
        return tight(case, **parameters).fit(ListSource(X, y, weight))
    return fit_in(library, tight(case, **parameters), X, y, weight)


def value_at(problem, estimator):
    """The criterion, recomputed from the fitted coefficients."""
    primal = primal_value if isinstance(problem, BinaryProblem) else softmax_primal_value
    return primal(problem, as_numpy(estimator.coef_), as_numpy(estimator.intercept_))


def dual_point(problem, estimator):
    """Dual variables (n,) or (n, K), recomputed from the fitted attributes."""
    binary = isinstance(problem, BinaryProblem)
    alpha_of = alpha_from_dual_coef if binary else softmax_alpha_from_dual_coef
    return alpha_of(problem, as_numpy(estimator.support_), as_numpy(estimator.dual_coef_))


def recomputed_gap(problem, estimator):
    """(P - D) / P, recomputed from the fitted attributes alone."""
    gap = relative_gap if isinstance(problem, BinaryProblem) else softmax_relative_gap
    coef, intercept = as_numpy(estimator.coef_), as_numpy(estimator.intercept_)
    return gap(problem, coef, intercept, dual_point(problem, estimator))


def assert_same_coefficients(found, expected):
    coef = as_numpy(found.coef_)
    assert coef.shape == expected.coef_.shape
    np.testing.assert_allclose(
        coef, expected.coef_, rtol=0.0, atol=EQUAL * np.abs(expected.coef_).max()
    )
    # intercepts are log-odds, which count from one on
    size = max(1.0, np.abs(expected.intercept_).max())
    np.testing.assert_allclose(
        as_numpy(found.intercept_), expected.intercept_, rtol=0.0, atol=EQUAL * size
    )


def assert_same_rows(found, expected, problem):
    """Support, partition and duals, but for rows whose multiplier is one of two by rounding."""
    alphas = [dual_point(problem, e) for e in (found, expected)]
    masses = [a if a.ndim == 1 else a.clip(min=0.0).sum(axis=1) for a in alphas]
    np.testing.assert_allclose(alphas[0], alphas[1], rtol=0.0, atol=1e-6)
    if isinstance(problem, BinaryProblem):
        at_kink = expit(problem.floor)
    else:
        at_kink = -np.expm1(-problem.saturated_loss)
    partition = as_numpy(found.partition_)
    assert partition.dtype == np.int8
    differs = partition != expected.partition_
    clear = [(m > 1e-8) & (np.abs(m - at_kink) > 1e-6) for m in masses]
    assert not np.any(differs & (clear[0] | clear[1]))
    assert np.count_nonzero(differs) <= 2
    support = as_numpy(found.support_)
    assert support.dtype == np.int64
    np.testing.assert_array_equal(support, np.flatnonzero(partition))
    if not np.any(differs):
        np.testing.assert_array_equal(support, expected.support_)


def assert_admissible(estimator, problem):
    alpha = dual_point(problem, estimator)
    if alpha.ndim == 1:
        assert np.all((alpha >= 0.0) & (alpha <= 1.0 + 1e-15))
    else:
        own = np.take_along_axis(alpha, problem.label[:, None], axis=1)
        assert np.all(own >= -1.0 - 1e-15)
        np.put_along_axis(alpha, problem.label[:, None], 0.0, axis=1)
        assert np.all(alpha >= 0.0)
        np.testing.assert_allclose(alpha.sum(axis=1), -own[:, 0], atol=1e-15)
    if estimator.fit_intercept:
        flow = as_numpy(estimator.dual_coef_)
        assert np.all(np.abs(flow.sum(axis=1)) <= 1e-12 * np.abs(flow).sum())


# ------------------------------------------------------------------------------- the same numbers


@pytest.mark.parametrize(("library", "held"), [("torch", None), ("blocks", FEW)])
@by_name(CASES)
def test_the_model_is_that_of_rows_in_memory(case, library, held, hold):
    X, _, _, problem = case.build()
    hold(held, X.shape[1])
    found, expected = fit_case(library, case), in_memory(case)
    assert_same_coefficients(found, expected)
    assert found.objective_ == pytest.approx(expected.objective_, rel=1e-12)
    assert found.objective_ == pytest.approx(value_at(problem, found), rel=1e-13)
    assert 0.0 <= found.dual_gap_ <= TIGHT
    if library == "torch":
        assert_same_rows(found, expected, problem)
        assert_admissible(found, problem)
        # P - D by subtraction carries a few units in the last place of P.
        assert abs(found.dual_gap_ - recomputed_gap(problem, found)) <= 1e-13


@pytest.mark.parametrize("library", ["torch", "blocks"])
def test_balanced_classes(library, hold):
    case = select(CASES, "rare")[0]
    X, y, _, _ = case.build()
    hold(FEW, X.shape[1])
    expected = tight(case, class_weight="balanced").fit(X, y)
    assert_same_coefficients(fit_case(library, case, class_weight="balanced"), expected)


# ---------------------------------------------------------------------------------- certificates


@pytest.mark.parametrize(("held", "tol"), [(None, 1e-3), (FEW, 1e-6)])
@by_name(CASES)
def test_gap_is_honest_at_any_tolerance(case, held, tol, hold):
    X, _, _, problem = case.build()
    hold(held, X.shape[1])
    found = fit_case("torch", case, tol=tol)
    assert 0.0 <= found.dual_gap_ <= tol
    gap = recomputed_gap(problem, found)
    assert found.dual_gap_ == pytest.approx(gap, rel=1e-5, abs=1e-12)
    assert found.objective_ == pytest.approx(value_at(problem, found), rel=1e-13)
    assert_admissible(found, problem)
    # P - D has |w - w(a)|^2 / (2 C) in it
    combination = as_numpy(found.dual_coef_) @ X[as_numpy(found.support_)]
    distance = np.linalg.norm(as_numpy(found.coef_) - combination)
    assert distance**2 <= 2.0 * case.C * (found.dual_gap_ * (1 + 1e-6) + 1e-13) * found.objective_


@by_name(CASES)
def test_gap_of_blocks_bounds_the_distance_to_the_optimum(case, hold):
    X, _, _, problem = case.build()
    hold(FEW, X.shape[1])
    found, best = fit_case("blocks", case, tol=1e-3), in_memory(case)
    assert 0.0 <= found.dual_gap_ <= 1e-3
    assert found.objective_ == pytest.approx(value_at(problem, found), rel=1e-13)
    bound = found.objective_ * (1.0 - found.dual_gap_)
    assert bound <= best.objective_ * (1.0 + 1e-13)
    assert not hasattr(found, "support_")
    assert not hasattr(found, "partition_")


@pytest.mark.parametrize("library", ["torch", "blocks"])
@pytest.mark.parametrize("name", ["zone", "one-kink", "three"])
def test_optimum_of_a_conic_solver(name, library, hold):
    case = SMALL[name]
    X, _, _, problem = case.build()
    hold(20, X.shape[1])
    found = fit_case(library, case, tol=1e-10)
    solve = solve_binary if isinstance(problem, BinaryProblem) else solve_softmax
    solution = solve(problem)
    assert found.objective_ <= solution.objective * (1.0 + 1e-9)
    assert found.objective_ >= solution.lower_bound * (1.0 - 1e-13)


SMALL = {
    "zone": Case("zone", changed(gaussian(80, 3), whole_weights), zone=(0.3, 0.8), C=10.0),
    "one-kink": Case("one-kink", gaussian(60, 3), zone=(0.0, 0.7)),
    "three": Case("three", ordered(60, 3), zone={0: 0.5, 1: 0.7, 2: 1.0}),
}


@pytest.mark.filterwarnings("ignore:The fitted model is a constant")
@pytest.mark.parametrize("tol", [1e-4, 1e-6, 1e-8])
@pytest.mark.parametrize("library", ["torch", "blocks"])
def test_all_rows_of_a_class_on_the_kink(library, tol, hold):
    """Few positives, which the many negatives on the kink outweigh: the best slopes are zero.

    More rows lie on the kink than can be held: their kinks stay rounded off, and how narrow that
    can be made limits the gap, to some 1e-9.
    """
    X, y = changed(gaussian(3000, 4), rare_positives)()
    best = TruncatedLogisticRegression(tol=1e-12).fit(X, y)
    assert np.abs(best.coef_).max() < 1e-9
    hold(FEW, 4)
    estimator = TruncatedLogisticRegression(tol=tol)
    found = (
        estimator.fit(ListSource(X, y)) if library == "blocks" else fit_in("torch", estimator, X, y)
    )
    assert found.dual_gap_ <= tol
    assert found.objective_ == pytest.approx(best.objective_, rel=max(tol, 1e-13))


# ---------------------------------------------------------------------------------------- blocks


@pytest.mark.parametrize("zone", [1.0, (0.0, 0.7), (0.2, 1.0), None])
@pytest.mark.parametrize("order", ["sorted", "reversed", "mixed"])
def test_blocks_may_have_one_class_only(zone, order, hold):
    X, y = gaussian(1200, 4, shift=0.4)()
    if order != "mixed":
        rows = np.argsort(y if order == "sorted" else -y, kind="stable")
        X, y = X[rows], y[rows]
    expected = TruncatedLogisticRegression(zone=zone, tol=TIGHT).fit(X, y)
    hold(FEW, 4)
    # blocks of all sizes, and mixed rows one by one at the end
    cuts = (100, 101, 101, 600, 1197, 1198, 1199)
    found = TruncatedLogisticRegression(zone=zone, tol=TIGHT).fit(ListSource(X, y, cuts=cuts))
    assert_same_coefficients(found, expected)


@pytest.mark.parametrize("seed", range(12))
def test_random_blocks(seed, hold):
    """Any cuts, zones, weights and limits: the optimum of rows in memory, to the gap."""
    rng = np.random.default_rng(seed)
    n, d, n_classes = int(rng.integers(50, 900)), int(rng.integers(1, 7)), int(rng.integers(2, 4))
    X, y = ordered(n, d, n_classes, seed, noise=float(rng.choice([0.0, 0.3, 3.0])))()
    weight = rng.choice([0.0, 0.1, 1.0, 7.0], size=n) if seed % 2 else None
    zone = None if seed % 5 == 0 else float(rng.uniform(0.05, 4.0))
    if n_classes == 2 and seed % 3 == 0:
        zone = (0.0, float(rng.uniform(0.1, 0.9))) if seed % 2 else (float(rng.uniform()), 1.0)
    options = {"zone": zone, "C": 10.0 ** rng.uniform(-4, 4), "fit_intercept": seed % 4 > 0}
    expected = TruncatedLogisticRegression(tol=1e-10, **options).fit(X, y, weight)
    hold(int(rng.integers(20, 200)), d)
    cuts = np.sort(rng.integers(0, n + 1, size=int(rng.integers(1, 9)))).tolist()
    found = TruncatedLogisticRegression(tol=1e-10, **options).fit(ListSource(X, y, weight, cuts))
    assert found.objective_ == pytest.approx(expected.objective_, rel=3e-10)
    assert found.dual_gap_ <= 1e-10
    # the criterion is strongly convex: |w - w*|^2 <= 2 C (P - P*)
    bound = sum(np.sqrt(2.0 * options["C"] * e.dual_gap_ * e.objective_) for e in (found, expected))
    assert np.linalg.norm(found.coef_ - expected.coef_) <= bound + 1e-8


@pytest.mark.parametrize("rows", [1, 2, 7])
def test_many_tiny_blocks(rows, hold):
    X, y = gaussian(240, 3)()
    expected = TruncatedLogisticRegression(tol=1e-15).fit(X, y)
    hold(60, 3)
    source = ListSource(X, y, cuts=range(rows, 240, rows))
    assert_same_coefficients(TruncatedLogisticRegression(tol=1e-15).fit(source), expected)


MOST = 500


def heavy_tails(X, y, rng):
    X = rng.standard_cauchy(size=X.shape)
    return X, (X[:, 0] + rng.normal(size=len(X)) > 0.0).astype(int)


@pytest.mark.parametrize(
    ("make", "options"),
    [
        (gaussian(10_000, 5), {}),
        (gaussian(10_000, 5), {"zone": None}),
        (gaussian(10_000, 5), {"zone": (0.49, 0.51)}),
        (changed(gaussian(10_000, 5), rare_positives), {}),
        (changed(gaussian(10_000, 5), rare_positives), {"zone": None}),
        (changed(gaussian(10_000, 5), separable), {"zone": None, "C": 1e4}),
        (changed(gaussian(10_000, 5), heavy_tails), {}),
        (ordered(10_000), {"zone": {0: 0.4, 1: 0.5, 2: 0.45}}),
    ],
    ids=["plain", "full", "narrow", "rare", "rare-full", "separable", "heavy-tails", "three"],
)
def test_few_rows_come_back_however_many_there_are(make, options, hold):
    X, y = make()
    hold(MOST, X.shape[1])
    source = ListSource(X, y, cuts=range(1000, 10_000, 1000))
    TruncatedLogisticRegression(**options).fit(source)
    # The band is estimated from a sample, hence the factor; all rows are twenty times as many.
    assert max(source.gathered.values()) <= 3 * MOST


def test_a_sample_is_small_also_from_small_blocks(hold):
    X, y = gaussian(2000, 3)()
    hold(100, 3)
    source = ListSource(X, y, cuts=range(5, 2000, 5))
    TruncatedLogisticRegression(tol=1e-2).fit(source)
    # half of what may be held was asked for
    assert source.gathered["drawn"] <= 100


def test_a_sample_stands_for_all_rows():
    X, y, weight = changed(changed(gaussian(3000, 4), rare_positives), whole_weights)()
    weight[y == 1] = 2.0
    labelled = label(ListSource(X, y, weight), {0: 1.0, 1: 3.0})
    sample = draw_sample(labelled, 200)
    rows = sample.rows
    assert rows.codes.shape[0] < 400
    # all positives are there, for they are rare; each class weighs what it weighs among all
    assert np.count_nonzero(rows.codes == 1) == np.count_nonzero(y == 1)
    for code, factor in enumerate((1.0, 3.0)):
        total = factor * weight[y == code].sum()
        assert rows.weight[rows.codes == code].sum() == pytest.approx(total, rel=1e-12)
    np.testing.assert_array_equal(rows.X, X[sample.numbers])
    np.testing.assert_array_equal(rows.codes, y[sample.numbers])
    assert np.all(weight[sample.numbers] > 0.0)


def test_an_empty_block_has_no_say_in_what_labels_are():
    X, y = gaussian(100, 3)()

    class WithEmpty(ListSource):
        def blocks(self):
            yield Block(np.empty((0, 3)), np.empty(0, dtype=object), None, 0)
            yield from super().blocks()

    found = TruncatedLogisticRegression().fit(WithEmpty(X, y))
    np.testing.assert_array_equal(found.classes_, [0, 1])
    assert found.classes_.dtype.kind == "i"


# ---------------------------------------------------------------------------- labels and weights

X_SMALL, Y_SMALL = gaussian(120, 3)()


# ------------------------------------------------------------------------------- warm start, error


def test_warm_start_from_another_library_and_other_shapes():
    X, y = X_SMALL, Y_SMALL
    warm = TruncatedLogisticRegression(tol=TIGHT, warm_start=True).fit(X, y)
    first = warm.coef_
    fit_in("strict", warm, X, y)
    np.testing.assert_allclose(as_numpy(warm.coef_), first, rtol=1e-8)
    fit_in("torch", warm, X, np.digitize(X[:, 0], [-0.5, 0.5]))
    assert tuple(warm.coef_.shape) == (3, 3)
    warm.set_params(fit_intercept=False)
    fit_in("torch", warm, X[:, :2], y)
    expected = TruncatedLogisticRegression(tol=TIGHT, fit_intercept=False).fit(X[:, :2], y)
    assert_same_coefficients(warm, expected)
    warm.fit(ListSource(X, y))
    without = TruncatedLogisticRegression(tol=TIGHT, fit_intercept=False).fit(X, y)
    assert_same_coefficients(warm, without)
    warm.fit(X, y)
    assert_same_coefficients(warm, without)


# ------------------------------------------------------------------------------------ moving about

ESTIMATORS = {
    "truncated": (TruncatedLogisticRegression(), 2),
    "truncated-three": (TruncatedLogisticRegression(), 3),
    "truncated-rbf": (TruncatedLogisticRegression(kernel="rbf"), 2),
    "truncated-rbf-three": (TruncatedLogisticRegression(kernel="rbf"), 3),
    "import-vectors": (ImportVectorMachine(), 2),
    "import-vectors-three": (ImportVectorMachine(), 3),
    "tight-bound": (TightBoundLogisticRegression(max_fpr=0.2, random_state=0), 2),
    "minimax": (MinimaxProbabilityMachine(), 2),
    "minimax-rbf": (MinimaxProbabilityMachine(kernel="rbf"), 2),
}


@cache
def fitted(name, names=False):
    """An estimator fitted to NumPy arrays, and its rows."""
    estimator, n_classes = ESTIMATORS[name]
    X, y = ordered(120, 3, n_classes)()
    return clone(estimator).fit(X, np.array(["a", "b", "c"])[y] if names else y), X


def test_losses_that_fall_exponentially_take_few_steps():
    # kernel values of 1e40 and more: nothing holds the function back, and by their curvature each
    # step divided what is left of the losses by e; it took 144 of them to come to 1e-38
    centres = np.repeat([[0.0, 4.0, 1.0], [3.0, -1.0, 2.0], [-4.0, 0.0, -3.0]], 20, axis=0)
    X = centres + np.random.default_rng(0).normal(size=centres.shape)
    y = np.repeat([0, 1, 2], 20)
    model = TruncatedLogisticRegression(kernel="poly", gamma=1e8, degree=5, zone=None)
    with config_context(array_api_dispatch=True), pytest.warns(ConvergenceWarning):
        model.fit(strict.asarray(X), strict.asarray(y))
    assert model.n_iter_ <= 40
    assert model.objective_ <= 1e-20
