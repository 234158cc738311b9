"""Tables of named problems shared by the optimisation tests.

A case holds parameters and a function that makes the data, so that importing the tables costs
nothing; `case.build()` makes, once, the arrays to fit on and the matching oracle problem.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from oracle import BinaryProblem, SoftmaxProblem, kernel_features, zone_floor
from scipy.special import expit
from sklearn import datasets
from sklearn.metrics import pairwise

DATA_FOLDER = Path(
    os.environ.get("GRAYZONE_DATA", Path(__file__).parents[2] / ".." / "shared" / "data")
)


# eq=False: a case is itself, so that it can be a key although `zone` or `costs` may be a mapping.
@dataclass(frozen=True, eq=False)
class Case:
    """Parameters of one fit; `data` returns (X, y) or (X, y, sample_weight)."""

    name: str
    data: Callable
    zone: object = 1.0
    C: float = 1.0
    fit_intercept: bool = True
    costs: dict | None = None
    class_weight: dict | None = None

    @property
    def parameters(self):
        """Constructor arguments of the estimator."""
        names = ("zone", "C", "fit_intercept", "costs", "class_weight")
        return {name: getattr(self, name) for name in names}

    @cache  # noqa: B019 (the tables live as long as the tests)
    def build(self):
        """(X, y, sample_weight or None, oracle problem), the same objects at each call."""
        X, y, *rest = self.data()
        sample_weight = rest[0] if rest else None
        classes, label = np.unique(y, return_inverse=True)
        weight = np.ones(len(y)) if sample_weight is None else np.asarray(sample_weight, float)
        if self.class_weight is not None:
            weight = weight * np.array([self.class_weight[c] for c in classes])[label]
        if len(classes) > 2:
            cap = class_caps(self.zone, classes)
            problem = SoftmaxProblem(X, label, weight, cap, self.C, self.fit_intercept)
        else:
            threshold = 0.5
            if self.costs is not None:
                negative, positive = (self.costs[c] for c in classes)
                threshold = negative / (positive + negative)
            sign = np.where(label == 1, 1.0, -1.0)
            floor = zone_floor(sign, self.zone, threshold)
            problem = BinaryProblem(X, sign, weight, floor, self.C, self.fit_intercept)
        return X, y, sample_weight, problem


def class_caps(zone, classes):
    """One cap per class from what a user may pass as `zone` when there are more than two."""
    if zone is None:
        return np.ones(len(classes))
    if isinstance(zone, dict):
        return np.array([zone[c] for c in classes], float)
    if np.ndim(zone) == 0:
        return np.full(len(classes), expit(zone))
    return np.asarray(zone, float)


def by_name(cases):
    """`pytest.mark.parametrize` over a table."""
    return pytest.mark.parametrize("case", cases, ids=[case.name for case in cases])


def select(cases, *names):
    """The named cases of a table, in the order of `names`."""
    table = {case.name: case for case in cases}
    return [table[name] for name in names]


# -------------------------------------------------------------------------------- synthetic data


def gaussian(n, d, noise=1.0, seed=0, labels=(0, 1), shift=0.0):
    """Gaussian rows, labels from a noisy hyperplane; `shift` moves the class balance."""

    def make():
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(n, d))
        score = X[:, : max(1, d // 2)].sum(axis=1) / np.sqrt(max(1, d // 2))
        positive = score + noise * rng.normal(size=n) > shift
        return X, np.asarray(labels)[positive.astype(int)]

    return make


def edited(make, edit):
    """`make` followed by ``edit(X, y, rng)``."""

    def remake():
        X, y = make()
        return edit(X, y, np.random.default_rng(1))

    return remake


def repeat_rows(X, y, rng):
    rows = rng.integers(len(y) // 3, size=len(y))
    return X[rows], y[rows]


def repeat_rows_with_both_labels(X, y, rng):
    return np.vstack([X, X[:20]]), np.concatenate([y, 1 - y[:20]])


def repeat_columns(X, y, rng):
    return np.hstack([X, X[:, ::-1], X[:, :1]]), y


def one_positive(X, y, rng):
    return X, (np.arange(len(y)) == np.argmax(X[:, 0])).astype(int)


def binarise(X, y, rng):
    return (X > 0.3).astype(float), y


def separate(X, y, rng):
    return X + 3.0 * np.sign(X[:, :1]) * np.eye(X.shape[1])[0], (X[:, 0] > 0).astype(int)


def spread_scales(X, y, rng):
    return X * np.logspace(-3, 3, X.shape[1]), y


def constant_column(X, y, rng):
    return np.hstack([X, np.full((len(y), 1), 2.5)]), y


def zero_column(X, y, rng):
    return np.hstack([np.zeros((len(y), 1)), X]), y


def offset_columns(X, y, rng):
    return X + 100.0, y


def noise_labels(X, y, rng):
    return X, rng.integers(2, size=len(y))


def integer_weights(X, y, rng):
    return X, y, rng.integers(1, 6, size=len(y)).astype(float)


def fractional_weights(X, y, rng):
    return X, y, rng.gamma(0.7, size=len(y)) + 1e-3


def weights_with_zeros(X, y, rng):
    return X, y, rng.integers(0, 3, size=len(y)) * 0.75


def wide_weights(X, y, rng):
    return X, y, 10.0 ** rng.uniform(-3, 3, size=len(y))


def two_points():
    return np.array([[-1.0, 0.5], [2.0, 0.0]]), np.array([0, 1])


# ------------------------------------------------------------------------------------- real data


def standardise(X):
    spread = X.std(axis=0)
    return (X - X.mean(axis=0)) / np.where(spread > 0.0, spread, 1.0)


def real(load, classes=None, n=None, standard=False):
    """`n` random rows of `classes` from ``load()``, standardised or as they are."""

    def make():
        X, y = load()
        rows = np.arange(len(y)) if classes is None else np.flatnonzero(np.isin(y, classes))
        if n is not None:
            rows = np.sort(np.random.default_rng(0).choice(rows, size=n, replace=False))
        X, y = np.asarray(X[rows], float), y[rows]
        return (standardise(X) if standard else X), y

    return make


def bundled(name):
    """A loader of a set that comes with scikit-learn."""
    return lambda: getattr(datasets, f"load_{name}")(return_X_y=True)


def stored(name):
    """A loader of a set from the data folder; the test skips where the file is absent."""

    @cache
    def load():
        path = DATA_FOLDER / name
        if not path.exists():
            pytest.skip(f"{name} is not in the data folder")
        if path.suffix == ".npz":
            with np.load(path) as arrays:
                return arrays["X"], arrays["y"]
        table = np.loadtxt(path, delimiter=",", skiprows=1)
        return table[:, :-1], table[:, -1].astype(int)

    return load


covtype = stored("covtype.npz")

BINARY_CASES = [
    # size and shape
    Case("two-points", two_points),
    Case("one-feature", gaussian(80, 1, seed=1)),
    Case("gaussian-50x2", gaussian(50, 2, seed=2)),
    Case("gaussian-200x10", gaussian(200, 10, seed=3)),
    Case("gaussian-500x20", gaussian(500, 20, seed=4), C=0.1),
    Case("gaussian-1000x5", gaussian(1000, 5, seed=5)),
    Case("wide-30x60", gaussian(30, 60, seed=6)),
    Case("wide-40x200-large-C", gaussian(40, 200, seed=7), C=1e2),
    Case("wide-25x80-full-likelihood", gaussian(25, 80, seed=8), zone=None, C=10.0),
    # structure of the rows and columns
    Case("repeated-rows", edited(gaussian(120, 4, seed=9), repeat_rows)),
    Case("contradicting-rows", edited(gaussian(80, 4, seed=10), repeat_rows_with_both_labels)),
    Case("repeated-columns", edited(gaussian(100, 4, seed=11), repeat_columns)),
    Case("one-positive", edited(gaussian(60, 3, seed=12), one_positive)),
    Case("one-positive-large-C", edited(gaussian(60, 3, seed=12), one_positive), C=1e3),
    Case("imbalanced", gaussian(400, 5, seed=13, shift=2.4)),
    Case("binary-features", edited(gaussian(150, 8, seed=14), binarise)),
    Case("separable", edited(gaussian(80, 3, seed=15), separate)),
    Case("separable-large-C", edited(gaussian(80, 3, seed=15), separate), C=1e4),
    Case("separable-full", edited(gaussian(80, 3, seed=15), separate), zone=None, C=10.0),
    Case("separable-full-large-C", edited(gaussian(60, 3, seed=16), separate), zone=None, C=1e3),
    Case("spread-scales", edited(gaussian(150, 7, seed=17), spread_scales)),
    Case("spread-scales-full", edited(gaussian(150, 7, seed=17), spread_scales), zone=None, C=1e2),
    Case("constant-column", edited(gaussian(100, 3, seed=18), constant_column)),
    Case("zero-column", edited(gaussian(100, 3, seed=18), zero_column), C=10.0),
    Case("offset-columns", edited(gaussian(100, 4, seed=19), offset_columns)),
    Case("noise-labels", edited(gaussian(150, 5, seed=20), noise_labels), C=10.0),
    Case("string-labels", gaussian(90, 3, seed=21, labels=("yes", "no"))),
    Case("signed-labels", gaussian(90, 3, seed=22, labels=(-1, 1)), zone=0.3),
    # weights, costs, intercept
    Case("integer-weights", edited(gaussian(120, 5, seed=23), integer_weights)),
    Case("fractional-weights", edited(gaussian(120, 5, seed=24), fractional_weights)),
    Case("weights-with-zeros", edited(gaussian(120, 5, seed=25), weights_with_zeros)),
    Case("weights-with-zeros-full", edited(gaussian(90, 4, seed=26), weights_with_zeros), None),
    Case("wide-weights", edited(gaussian(120, 5, seed=27), wide_weights)),
    Case("class-weight", gaussian(120, 5, seed=28), class_weight={0: 0.5, 1: 4.0}),
    Case("costs", gaussian(150, 5, seed=29, shift=1.0), costs={0: 1.0, 1: 5.0}),
    Case("no-intercept", gaussian(120, 5, seed=30), fit_intercept=False),
    Case("no-intercept-off-centre", gaussian(120, 5, seed=31), (0.6, 0.9), fit_intercept=False),
    Case("no-intercept-full", gaussian(120, 5, seed=32), None, fit_intercept=False),
    # zones
    Case("zone-full", gaussian(150, 6, seed=33), (0.0, 1.0)),
    Case("zone-open-below", gaussian(150, 6, seed=34), (0.0, 0.7)),
    Case("zone-open-above", gaussian(150, 6, seed=35), (0.3, 1.0)),
    Case("zone-wide", gaussian(150, 6, seed=36), (0.001, 0.999)),
    Case("zone-narrow", gaussian(150, 6, seed=37), (0.49, 0.51)),
    Case("zone-narrow-low", gaussian(300, 6, seed=38, shift=1.8), (0.078, 0.1)),
    Case("zone-narrow-low-balanced", gaussian(150, 6, seed=39), (0.078, 0.1)),
    Case("zone-high", gaussian(150, 6, seed=40), (0.6, 0.9)),
    Case("zone-low", gaussian(150, 6, seed=41), (0.05, 0.3)),
    # regularisation
    Case("C-1e-4", gaussian(150, 6, seed=42), C=1e-4),
    Case("C-1e-4-narrow", gaussian(150, 6, seed=43), (0.49, 0.51), C=1e-4),
    Case("C-1e-4-low", gaussian(150, 6, seed=44), (0.078, 0.1), C=1e-4),
    Case("C-1e-2", gaussian(150, 6, seed=45), C=1e-2),
    Case("C-1e3", gaussian(150, 6, seed=46), C=1e3),
    Case("C-1e6", gaussian(150, 6, seed=47), C=1e6),
    Case("C-1e6-full", gaussian(150, 6, seed=48), None, C=1e6),
    Case("C-1e6-narrow", gaussian(150, 6, seed=49), (0.49, 0.51), C=1e6),
    Case("C-1e6-wide-data", gaussian(30, 60, seed=50), C=1e6),
    # real data
    Case("breast-cancer", real(bundled("breast_cancer"), n=300, standard=True)),
    Case("breast-cancer-raw", real(bundled("breast_cancer"), n=200)),
    Case("breast-cancer-raw-full", real(bundled("breast_cancer"), n=200), None, C=1e-2),
    Case("iris-1-2", real(bundled("iris"), classes=(1, 2)), C=10.0),
    Case("iris-0-1", real(bundled("iris"), classes=(0, 1)), (0.2, 0.9)),
    Case("digits-3-8", real(bundled("digits"), classes=(3, 8), n=200), C=1e-2),
    Case("german", real(stored("german_credit_numeric.csv"), n=500, standard=True)),
    Case("german-costs", real(stored("german_credit_numeric.csv"), n=300), costs={0: 1, 1: 5}),
    Case("ionosphere", real(stored("ionosphere.csv")), C=10.0),
    Case("sonar", real(stored("sonar.csv"), standard=True)),
    Case("sonar-raw", real(stored("sonar.csv")), (0.1, 0.6), C=1e3),
    Case("pima", real(stored("pima_diabetes.csv"), n=400, standard=True)),
    Case("pima-raw", real(stored("pima_diabetes.csv"), n=400)),
    Case("covtype-1-7", real(covtype, classes=(1, 7), n=500, standard=True), (0.01, 0.475)),
    Case("covtype-1-2-raw", real(covtype, classes=(1, 2), n=300)),
]

# Small enough for the solvers that are there to be read rather than to be fast.
SMALL_BINARY_CASES = select(
    BINARY_CASES,
    "two-points",
    "gaussian-50x2",
    "wide-30x60",
    "repeated-rows",
    "repeated-columns",
    "one-positive",
    "separable",
    "constant-column",
    "fractional-weights",
    "weights-with-zeros",
    "no-intercept",
    "no-intercept-off-centre",
    "zone-full",
    "zone-open-below",
    "zone-narrow",
    "zone-low",
    "C-1e-2",
    "C-1e3",
    "iris-1-2",
)


def clusters(n, d, n_classes, spread=1.0, seed=0, labels=None):
    """Gaussian clusters around random centres, one per class."""

    def make():
        rng = np.random.default_rng(seed)
        label = np.concatenate([np.arange(n_classes), rng.integers(n_classes, size=n - n_classes)])
        centres = rng.normal(size=(n_classes, d))
        X = centres[label] + spread * rng.normal(size=(n, d))
        return X, label if labels is None else np.asarray(labels)[label]

    return make


MULTICLASS_CASES = [
    Case("iris", real(bundled("iris"))),
    Case("iris-full", real(bundled("iris")), None, C=10.0),
    Case("iris-narrow", real(bundled("iris"), standard=True), zone=0.1, C=1e2),
    Case("wine", real(bundled("wine"), standard=True)),
    Case("wine-raw", real(bundled("wine")), C=1e-2),
    Case("digits", real(bundled("digits"), n=120), C=1e-2),
    Case("clusters-3", clusters(120, 4, 3, seed=1), zone={0: 0.6, 1: 0.9, 2: 1.0}),
    Case("clusters-4", clusters(120, 3, 4, seed=2), zone=np.array([0.5, 0.6, 0.7, 0.95]), C=1e-2),
    Case("clusters-5-full", clusters(150, 6, 5, seed=3), None, C=1e3),
    Case("clusters-5", clusters(150, 6, 5, spread=2.0, seed=4), C=1e3),
    Case("clusters-low-caps", clusters(100, 5, 3, seed=5), zone=np.full(3, 0.34)),
    Case("clusters-wide", clusters(40, 60, 4, seed=6), C=10.0),
    Case("clusters-integer-weights", edited(clusters(100, 4, 3, seed=7), integer_weights)),
    Case("clusters-zero-weights", edited(clusters(100, 4, 4, seed=8), weights_with_zeros)),
    Case("clusters-no-intercept", clusters(100, 4, 3, seed=9), fit_intercept=False),
    Case(
        "clusters-strings",
        clusters(90, 3, 3, seed=10, labels=("low", "mid", "high")),
        zone={"low": 0.5, "mid": 0.8, "high": 0.65},
        class_weight={"low": 1.0, "mid": 2.0, "high": 0.5},
    ),
]


# --------------------------------------------------------------------------------------- kernels


def add_one(A, B):
    """A kernel function: inner products, and one more feature that is 1."""
    product = A @ B.T
    return (product.toarray() if sp.issparse(product) else product) + 1.0


def min_kernel(A, B):
    """A kernel function: the histogram intersection of rows that are not negative."""
    return np.minimum(A[:, None, :], B[None, :, :]).sum(axis=2)


@dataclass(frozen=True, eq=False)
class KernelCase(Case):
    """A fit with a kernel; the oracle sees the rows of L, LL' = K, as linear features."""

    kernel: object = "rbf"
    gamma: float = 0.5
    degree: int = 3
    coef0: float = 0.0
    storage: Callable | None = None

    @property
    def parameters(self):
        names = ("kernel", "gamma", "degree", "coef0")
        return super().parameters | {name: getattr(self, name) for name in names}

    @cache  # noqa: B019
    def matrix(self):
        """Kernel values of all pairs of rows, from scikit-learn."""
        X = super().build()[0]
        gamma, coef0 = self.gamma, self.coef0
        if callable(self.kernel):
            return self.kernel(X, X)
        if self.kernel == "poly":
            return pairwise.polynomial_kernel(X, degree=self.degree, gamma=gamma, coef0=coef0)
        if self.kernel == "sigmoid":
            return pairwise.sigmoid_kernel(X, gamma=gamma, coef0=coef0)
        if self.kernel == "laplacian":
            return pairwise.laplacian_kernel(X, gamma=gamma)
        return pairwise.rbf_kernel(X, gamma=gamma)

    @cache  # noqa: B019
    def build(self):
        X, y, sample_weight, problem = super().build()
        problem = replace(problem, X=kernel_features(self.matrix()))
        if self.kernel == "precomputed":
            X = self.matrix()
        return X if self.storage is None else self.storage(X), y, sample_weight, problem


def few_distinct_rows(X, y, rng):
    """Each row several times, now and then with the other label."""
    rows = np.concatenate([np.arange(60), rng.integers(60, size=len(y) - 60)])
    flipped = rng.random(len(y)) < 0.15
    return X[rows], np.where(flipped, 1 - y[rows], y[rows])


def not_negative(X, y, rng):
    return np.abs(X), y


def thin_out(X, y, rng):
    return np.where(rng.random(X.shape) < 0.6, 0.0, X), y


def very_wide_weights(X, y, rng):
    return X, y, 10.0 ** rng.uniform(-4, 3, size=len(y))


SMALL_KERNEL_CASES = [
    KernelCase("rbf-120", gaussian(120, 3, seed=1)),
    KernelCase("rbf-narrow-peaks", gaussian(100, 2, seed=2), gamma=50.0),
    KernelCase("rbf-repeated-rows", edited(gaussian(120, 3, seed=3), few_distinct_rows)),
    KernelCase("rbf-C-1e-4", gaussian(100, 2, seed=4), C=1e-4),
    KernelCase("rbf-C-1e4", gaussian(80, 2, seed=5), C=1e4, gamma=20.0),
    KernelCase("rbf-C-1e6", gaussian(80, 2, seed=5), C=1e6, gamma=20.0),
    KernelCase("rbf-full", gaussian(100, 3, seed=6), None),
    KernelCase("rbf-wide-weights", edited(gaussian(120, 3, seed=7), very_wide_weights)),
    KernelCase("poly-3", gaussian(100, 3, seed=8), kernel="poly", coef0=1.0),
    KernelCase("poly-1", gaussian(100, 3, seed=9), kernel="poly", degree=1, gamma=1.0),
    KernelCase("constant-features", edited(gaussian(90, 1, seed=10), noise_labels), gamma=1e-9),
    KernelCase("laplacian", gaussian(100, 3, seed=11), kernel="laplacian"),
    KernelCase("callable", gaussian(100, 3, seed=12), kernel=add_one),
    KernelCase("no-intercept", gaussian(100, 3, seed=13), (0.6, 0.9), fit_intercept=False),
    KernelCase("precomputed", gaussian(100, 3, seed=14), kernel="precomputed"),
    KernelCase(
        "sparse", edited(gaussian(100, 6, seed=15), thin_out), storage=sp.csr_array, gamma=0.1
    ),
]

# More rows than are solved by features of the kernel: blocks of multipliers.
LARGE_KERNEL_CASES = [
    KernelCase("rbf-300", gaussian(300, 2, seed=20)),
    KernelCase("rbf-550", gaussian(550, 2, seed=21), gamma=0.1),
    KernelCase("rbf-400-C-1e-4", gaussian(400, 2, seed=22), C=1e-4),
    KernelCase("rbf-300-C-1e4", gaussian(300, 2, seed=23), C=1e4, gamma=0.1),
    KernelCase("rbf-300-C-1e6", gaussian(300, 2, seed=24), C=1e6, gamma=20.0),
    KernelCase("rbf-300-C-1e6-smooth", gaussian(300, 2, seed=24), C=1e6, gamma=0.02),
    KernelCase("rbf-300-narrow", gaussian(300, 2, seed=25), (0.49, 0.51)),
    KernelCase("rbf-300-open-below", gaussian(300, 2, seed=26), (0.0, 0.7)),
    KernelCase("rbf-300-open-above", gaussian(300, 2, seed=27), (0.3, 1.0)),
    KernelCase("rbf-300-full", gaussian(300, 2, seed=28), None, C=10.0),
    KernelCase("rbf-300-no-intercept", gaussian(300, 2, seed=29), fit_intercept=False),
    KernelCase("rbf-300-wide-weights", edited(gaussian(300, 2, seed=30), very_wide_weights)),
    KernelCase("rbf-300-zero-weights", edited(gaussian(420, 2, seed=31), weights_with_zeros)),
    KernelCase("rbf-300-class-weight", gaussian(300, 2, seed=32), class_weight={0: 0.1, 1: 8.0}),
    KernelCase("rbf-300-costs", gaussian(300, 2, seed=33, shift=1.0), costs={0: 1.0, 1: 5.0}),
    KernelCase("rbf-500-imbalanced", gaussian(500, 2, seed=34, shift=2.8)),
    KernelCase("rbf-700-repeated-rows", edited(gaussian(700, 2, seed=35), few_distinct_rows)),
    KernelCase("poly-2-500", gaussian(500, 3, seed=36), kernel="poly", degree=2, coef0=1.0),
    KernelCase("poly-1-400", gaussian(400, 3, seed=37), kernel="poly", degree=1, gamma=1.0),
    KernelCase(
        "poly-1-400-no-intercept",
        gaussian(400, 3, seed=38),
        (0.2, 0.4),
        kernel="poly",
        degree=1,
        gamma=1.0,
        fit_intercept=False,
        C=1e2,
    ),
    KernelCase(
        "constant-features-300", edited(gaussian(300, 1, seed=39), noise_labels), gamma=1e-9
    ),
    KernelCase("laplacian-270", gaussian(270, 1, seed=40), kernel="laplacian"),
    KernelCase("precomputed-300", gaussian(300, 2, seed=42), kernel="precomputed", C=100.0),
    KernelCase(
        "callable-280", edited(gaussian(280, 1, seed=43), not_negative), kernel=min_kernel, C=0.1
    ),
    KernelCase(
        "sparse-400", edited(gaussian(400, 2, seed=44), thin_out), storage=sp.csr_array, gamma=1.0
    ),
]

MULTICLASS_KERNEL_CASES = [
    KernelCase("three-classes", clusters(80, 2, 3, seed=50), gamma=0.3),
    KernelCase("four-classes-caps", clusters(60, 2, 4, seed=51), np.array([0.5, 0.6, 0.7, 0.9])),
    KernelCase("three-classes-full", clusters(90, 2, 3, seed=52), None, C=10.0),
    KernelCase("three-classes-C-100", clusters(60, 2, 3, seed=53), C=100.0, gamma=2.0),
    KernelCase(
        "three-classes-poly", clusters(150, 2, 3, seed=54), kernel="poly", degree=2, coef0=1.0
    ),
    KernelCase(
        "three-classes-weights",
        edited(clusters(60, 2, 3, seed=55), fractional_weights),
        fit_intercept=False,
    ),
]

BINARY_KERNEL_CASES = SMALL_KERNEL_CASES + LARGE_KERNEL_CASES
