"""Import vector machines on blocks of rows and on arrays of other libraries.

What they have to find is known: the model of the same rows as NumPy arrays, which other files hold
against the formulas.
"""

import pickle
from functools import cache

import array_api_strict
import numpy as np
import pytest
from recording import Recording
from scipy.special import logsumexp
from sklearn import config_context
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.exceptions import NotFittedError
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.preprocessing import scale
from sklearn.utils.validation import check_is_fitted

from grayzone import ImportVectorMachine
from grayzone.arrays import to_numpy
from grayzone.numerics.checks import as_numpy
from grayzone.solvers.greedy import basis
from grayzone.sources import Block, Source
from grayzone.sources.labelled import Rows, label
from grayzone.sources.split import split

torch = pytest.importorskip("torch")

LIBRARIES = {"torch": torch.asarray, "strict": array_api_strict.asarray}


class Listed(Source):
    """Blocks from a list of row ranges; tasks and sums travel as bytes, which are counted."""

    def __init__(self, X, y, weight=None, n_blocks=4):
        self.n_features = X.shape[1]
        self.most = 0
        self._data, self._cuts = (X, y, weight), np.array_split(np.arange(X.shape[0]), n_blocks)

    def blocks(self):
        X, y, weight = self._data
        for rows in self._cuts:
            some = slice(rows[0], rows[-1] + 1)
            yield Block(X[some], y[some], None if weight is None else weight[some], int(rows[0]))

    def reduce(self, task):
        sent = pickle.dumps(task)
        sums = super().reduce(pickle.loads(sent))
        self.most = max(self.most, len(sent), len(pickle.dumps(sums)))
        return sums


@cache
def two_classes():
    X, y = load_breast_cancer(return_X_y=True)
    return scale(X), y


@cache
def three_classes():
    X, y = load_wine(return_X_y=True)
    return scale(X), y


def some_weights(y, seed=0):
    """Weights from 0 to 3; a fifth of the rows have none."""
    rng = np.random.default_rng(seed)
    return np.where(rng.random(len(y)) < 0.2, 0.0, 3.0 * rng.random(len(y)))


def fit_elsewhere(library, X, y, weight=None, **parameters):
    make = LIBRARIES[library]
    with config_context(array_api_dispatch=True):
        weight = None if weight is None else make(weight)
        return ImportVectorMachine(**parameters).fit(make(X), make(y), weight)


def assert_same(model, expected, coef=1e-8):
    """Points in the same order, criteria to rounding, coefficients relative to the largest."""
    model = to_numpy(model)
    assert model.import_points_.tolist() == expected.import_points_.tolist()
    assert np.allclose(model.objective_path_, expected.objective_path_, rtol=1e-12, atol=0)
    assert model.objective_ == pytest.approx(expected.objective_, rel=1e-12)
    for name in ("dual_coef_", "intercept_"):
        found, known = getattr(model, name), getattr(expected, name)
        assert found.shape == known.shape
        size = max(np.abs(expected.dual_coef_).max(), 1.0)
        assert np.abs(found - known).max() <= coef * size
    assert np.array_equal(model.import_vectors_, expected.import_vectors_)
    assert model.n_iter_ == expected.n_iter_
    # an upper bound, by two ways of balancing the duals
    assert model.dual_gap_ <= max(1e-8, 10 * expected.dual_gap_)


def from_outside(X, Z, gamma=0.05):
    return np.exp(-gamma * ((X[:, None, :] - Z[None, :, :]) ** 2).sum(axis=2))


def affine(X, Z):
    return X @ Z.T + 1.0


SETTINGS = {
    "one step": {},
    "power": {"selection": "power"},
    "drawn candidates": {"n_candidates": 40, "random_state": 3},
    "three at a time": {"points_per_step": 3},
    "three at a time by power": {"points_per_step": 3, "selection": "power"},
    "zone": {"zone": 1.0, "max_import_points": 6},
    "zone, power, no intercept": {
        "zone": 0.5,
        "fit_intercept": False,
        "selection": "power",
        "max_import_points": 5,
    },
    "removal": {"allow_removal": True, "tol": 1e-3},
    "no intercept": {"fit_intercept": False},
    "reference": {"parametrization": "reference"},
    "reference, zone": {"parametrization": "reference", "zone": 0.7, "max_import_points": 5},
    "balanced": {"class_weight": "balanced", "costs": "balanced"},
    "laplacian": {"kernel": "laplacian", "max_import_points": 6},
    "poly": {"kernel": "poly", "max_import_points": 6, "coef0": 1.0, "degree": 2},
    "linear": {"kernel": "linear", "max_import_points": 6},
    "sigmoid": {"kernel": "sigmoid", "gamma": 1e-3, "max_import_points": 3},
    "callable": {"kernel": affine, "max_import_points": 6},
    "no points": {"max_import_points": 1, "C": 1e-12},
    "stopping rule": {"tol": 1e-2, "max_import_points": None, "gamma": "auto"},
}


@cache
def expected_model(setting, n_classes, weighted=True):
    X, y = two_classes() if n_classes == 2 else three_classes()
    parameters = {"max_import_points": 10, "tol": 0.0, **SETTINGS[setting]}
    model = ImportVectorMachine(**parameters)
    return model.fit(X, y, some_weights(y) if weighted else None), X, y, parameters


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("where", ["torch", "blocks"])
def test_same_model_as_numpy(where, setting, n_classes):
    expected, X, y, parameters = expected_model(setting, n_classes)
    weight = some_weights(y)
    if where == "blocks":
        model = ImportVectorMachine(**parameters).fit(Listed(X, y, weight))
    else:
        model = fit_elsewhere(where, X, y, weight, **parameters)
    assert_same(model, expected)


@pytest.mark.parametrize("where", ["torch", "blocks"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_exact_selection(where, n_classes):
    X, y = two_classes() if n_classes == 2 else three_classes()
    parameters = {
        "selection": "exact",
        "max_import_points": 3,
        "n_candidates": 30,
        "random_state": 0,
    }
    expected = ImportVectorMachine(**parameters).fit(X, y)
    if where == "blocks":
        model = ImportVectorMachine(**parameters).fit(Listed(X, y, n_blocks=2))
    else:
        model = fit_elsewhere(where, X, y, **parameters)
    assert_same(model, expected)


def criterion(model, X, y, weight):
    """Mean loss of these rows, and what they and the penalty come to: plain algebra."""
    f = rbf_kernel(X, model.import_vectors_, gamma=model._kernel.gamma) @ model.dual_coef_.T
    f += model.intercept_
    scores = np.hstack([np.zeros_like(f), f]) if f.shape[1] == 1 else f
    own = scores[np.arange(len(y)), np.searchsorted(model.classes_, y)]
    loss = weight @ (logsumexp(scores, axis=1) - own)
    K = rbf_kernel(model.import_vectors_, gamma=model._kernel.gamma)
    penalty = 0.5 / model.C * np.sum(model.dual_coef_ * (model.dual_coef_ @ K))
    return loss / weight.sum(), loss + penalty


@pytest.mark.parametrize("n_classes", [2, 3])
def test_early_stopping_on_blocks(n_classes):
    X, y = two_classes() if n_classes == 2 else three_classes()
    weight = some_weights(y)
    parameters = {"early_stopping": True, "random_state": 1, "validation_fraction": 0.2}
    model = ImportVectorMachine(**parameters).fit(Listed(X, y, weight))
    again = ImportVectorMachine(**parameters).fit(Listed(X, y, weight, n_blocks=7))
    assert_same(again, model)
    _, out = split(label(Listed(X, y, weight)), 0.2, np.random.RandomState(1))
    everything = Rows(X, np.searchsorted(model.classes_, y), weight, 0)
    held_out = out.part(everything).weight > 0
    kept = ~held_out & (weight > 0)
    assert np.all(kept[model.import_points_])
    loss, _ = criterion(model, X[held_out], y[held_out], weight[held_out])
    assert loss == pytest.approx(model.held_out_path_.min(), rel=1e-10)
    _, value = criterion(model, X[kept], y[kept], weight[kept])
    assert value == pytest.approx(model.objective_, rel=1e-10)


def moons(n, seed=0):
    rng = np.random.default_rng(seed)
    t, y = np.pi * rng.random(n), (rng.random(n) < 0.3).astype(int)
    centres = np.where(y[:, None] == 1, [[1.0, 0.5]], [[0.0, 0.0]])
    arc = np.column_stack([np.cos(t), np.sin(t)]) * np.where(y[:, None] == 1, -1.0, 1.0)
    return centres + arc + 0.3 * rng.normal(size=(n, 2)), y


@pytest.mark.parametrize("n_candidates", [None, 50, 300])
def test_points_are_drawn_from_a_part_of_many_rows(monkeypatch, n_candidates):
    monkeypatch.setattr(basis, "POOL", 200)
    X, y = moons(5000)
    parameters = {"max_import_points": 15, "random_state": 0, "n_candidates": n_candidates}
    model = ImportVectorMachine(**parameters).fit(Listed(X, y, n_blocks=9))
    assert np.array_equal(model.import_vectors_, X[model.import_points_])
    assert len(set(model.import_points_)) == 15
    _, value = criterion(model, X, y, np.ones(len(y)))
    assert value == pytest.approx(model.objective_, rel=1e-10)
    assert model.dual_gap_ <= 1e-8
    # a good part is nearly as good as all rows
    best = ImportVectorMachine(**parameters).fit(X, y)
    assert model.objective_ <= 1.02 * best.objective_


def test_draws_follow_random_state():
    X, y = moons(600)
    fits = [
        ImportVectorMachine(max_import_points=5, n_candidates=20, random_state=seed).fit(
            Listed(X, y)
        )
        for seed in (0, 0, 1)
    ]
    points = [fit.import_points_.tolist() for fit in fits]
    assert points[0] == points[1]
    assert points[0] != points[2]


@pytest.mark.parametrize("zone", [None, 0.5])
def test_what_travels_does_not_grow_with_the_rows(monkeypatch, zone):
    monkeypatch.setattr(basis, "POOL", 100)
    sizes = []
    for n in (2000, 16000):
        X, y = moons(n)
        source = Listed(X, y, n_blocks=5)
        model = ImportVectorMachine(max_import_points=6, n_candidates=50, zone=zone, random_state=0)
        model.fit(source)
        sizes.append(source.most)
    if zone is None:
        assert sizes[1] <= 1.1 * sizes[0]
        assert sizes[1] < 100_000
    else:  # rows near the kink travel, with a bound of their own
        assert sizes[1] < 64 * 2**20


@pytest.mark.parametrize("library", LIBRARIES)
def test_precomputed_kernel_elsewhere(library):
    X, y = three_classes()
    K = rbf_kernel(X, gamma=0.05)
    expected = ImportVectorMachine(max_import_points=5, kernel="precomputed").fit(K, y)
    model = fit_elsewhere(library, K, y, max_import_points=5, kernel="precomputed")
    assert_same(model, expected)
    with config_context(array_api_dispatch=True):
        found = model.predict_proba(LIBRARIES[library](K))
    assert np.allclose(as_numpy(found), expected.predict_proba(K), rtol=1e-9, atol=1e-12)


def test_kernel_function_in_another_library():
    X, y = three_classes()
    expected = ImportVectorMachine(kernel=from_outside, max_import_points=4).fit(X, y)

    def same_kernel(A, B, gamma=0.05):
        return torch.exp(-gamma * ((A[:, None, :] - B[None, :, :]) ** 2).sum(dim=2))

    model = fit_elsewhere("torch", X, y, kernel=same_kernel, max_import_points=4)
    assert_same(model, expected)


def test_callbacks_are_told_of_rounds():
    pytest.importorskip("sklearn.callback")
    X, y = two_classes()
    recording = Recording("round")
    model = ImportVectorMachine(max_import_points=3).set_callbacks(recording)
    model.fit(Listed(X, y))
    assert [f["objective"] for f in recording.facts] == model.objective_path_.tolist()
    assert [f["n_import_points"] for f in recording.facts] == [1, 2, 3]


def test_errors():
    X, y = two_classes()
    model = ImportVectorMachine()
    for bad, match in (
        ((Listed(X, y), y), "bring their own labels"),
        ((Listed(X, np.zeros(len(y), dtype=int)), None), "at least two classes"),
        ((Listed(np.full_like(X, np.nan), y), None), "NaN or infinity, in rows 0 to"),
    ):
        with pytest.raises(ValueError, match=match):
            model.fit(*bad)
        with pytest.raises(NotFittedError):
            check_is_fitted(model)
    with pytest.raises(ValueError, match="precomputed' needs the kernel values of all pairs"):
        ImportVectorMachine(kernel="precomputed").fit(Listed(X, y))
    with pytest.raises(ValueError, match="not positive semi-definite"):
        ImportVectorMachine(kernel="sigmoid", gamma=5.0, coef0=-1.0, tol=0.0).fit(Listed(X, y))


def test_precomputed_kernel_is_checked():
    rng = np.random.default_rng(0)
    K, y = rng.random((20, 20)), np.arange(20) % 2
    with pytest.raises(ValueError, match="symmetric"):
        fit_elsewhere("torch", K, y, kernel="precomputed")
    with pytest.raises(ValueError, match="square"):
        fit_elsewhere("torch", K[:, :10], y, kernel="precomputed")
