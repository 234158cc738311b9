"""F-measures through costs: against brute force, known probabilities, and fits from the start."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import expit
from scipy.stats import norm
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import fbeta_score
from sklearn.model_selection import KFold

from grayzone import (
    BayesDecisionClassifier,
    TightBoundLogisticRegression,
    TruncatedLogisticRegression,
    best_f_measure,
    roc_by_costs,
)
from grayzone.sources import from_batches

Bounds = TightBoundLogisticRegression


def known(n, seed):
    """Few positives, by a logistic function of one of two features."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    return X, (rng.random(n) < expit(2.0 * X[:, 0] - 3.0)).astype(int)


def mixture(n, seed):
    """Return positives in two clouds, of which a line can have one."""
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < 0.2).astype(int)
    far = rng.random(n) < 0.35
    centre = np.where(far[:, None], [-2.5, 2.0], [1.5, 0.5])
    return np.where(y[:, None] == 1, centre, 0.0) + rng.normal(size=(n, 2)), y


@pytest.mark.parametrize("beta", [0.5, 1.0, 2.0])
def test_with_known_probabilities_it_finds_the_best_threshold(beta):
    # decisions are best from a threshold on p: all of them are tried, by integrals
    x = np.linspace(-8.0, 8.0, 20001)
    p, mass = expit(2.0 * x - 3.0), norm.pdf(x) * (x[1] - x[0])
    right = np.cumsum((p * mass)[::-1])[::-1]
    decided = np.cumsum(mass[::-1])[::-1]
    # (1 + b^2) TP + b^2 FN + FP is b^2 times all positives plus all that is decided for
    f = (1.0 + beta**2) * right / (beta**2 * right[0] + decided)
    best = f.max()
    assert p[np.argmax(f)] == pytest.approx(best / (1.0 + beta**2), abs=1e-3)
    X, y = known(6000, 0)
    choice = best_f_measure(Bounds(n_bounds=1), X, y, beta=beta, asymmetries=19, cv=3)
    # the costs of a largest F-measure t are 1 + b^2 - t and t
    assert choice.asymmetry == pytest.approx(1.0 - best / (1.0 + beta**2), abs=0.08)
    X_new, y_new = known(60_000, 1)
    reached = fbeta_score(y_new, choice.model.predict(X_new), beta=beta)
    assert reached == pytest.approx(best, abs=0.015)
    assert choice.f_measure == pytest.approx(best, abs=0.04)


def best_cut(scores, y):
    """Return the largest F-measure of thresholds on scores, by trying all."""
    right = np.cumsum(y[np.argsort(-scores)])
    return np.max(2.0 * right / (y.sum() + np.arange(1, len(y) + 1)))


@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_the_best_line_by_brute_force(seed):
    X, y = mixture(500, seed)
    angles = np.linspace(0.0, 2.0 * np.pi, 721)[:-1]
    lines = X @ np.stack([np.cos(angles), np.sin(angles)])
    best = max(best_cut(scores, y) for scores in lines.T)
    values = np.linspace(0.5, 0.95, 19)
    path = roc_by_costs(Bounds(C=100.0, n_bounds=30), X, y, asymmetries=values)
    reached = max(fbeta_score(y, model.predict(X), beta=1.0) for model in path.models)
    assert best - 0.015 <= reached <= best + 1e-12
    if seed in (1, 3):
        # the line through one cloud, which no threshold on the log-loss fit is parallel to
        log_odds = LogisticRegression(C=100.0).fit(X, y).decision_function(X)
        assert best_cut(log_odds, y) < reached - 0.05


def test_f_measures_are_those_of_all_held_out_decisions():
    X, y = mixture(300, 1)
    weight = np.random.default_rng(1).uniform(0.5, 2.0, 300)
    choice = best_f_measure(
        Bounds(), X, y, beta=2.0, asymmetries=[0.9, 0.6, 0.75], cv=KFold(3), sample_weight=weight
    )
    np.testing.assert_array_equal(choice.asymmetries, [0.6, 0.75, 0.9])
    for a, found in zip(choice.asymmetries, choice.f_measures, strict=True):
        decided = np.empty(300, dtype=int)
        for train, test in KFold(3).split(X):
            fold = Bounds(costs={0: 1.0 - a, 1: a}).fit(X[train], y[train], weight[train])
            decided[test] = fold.predict(X[test])
        assert found == pytest.approx(fbeta_score(y, decided, beta=2.0, sample_weight=weight))
    assert choice.f_measure == choice.f_measures.max()
    again = Bounds(costs={0: 1.0 - choice.asymmetry, 1: choice.asymmetry}).fit(X, y, weight)
    np.testing.assert_allclose(choice.model.coef_, again.coef_, atol=1e-10)


@pytest.mark.parametrize(
    "model",
    [
        Bounds(),
        Bounds(reject_cost=0.05),
        TruncatedLogisticRegression(),
        BayesDecisionClassifier(LogisticRegression()),
    ],
    ids=repr,
)
def test_any_estimator_with_costs_and_any_labels(model):
    X, y = mixture(300, 2)
    names = np.array(["no", "yes"])[y]
    choice = best_f_measure(model, sp.csr_array(X), names, asymmetries=4, cv=2)
    assert 0.0 < choice.f_measure <= 1.0
    assert not hasattr(model, "coef_")
    assert getattr(choice.model, "warm_start", False) is False


def test_a_path_of_warm_starts_is_that_of_fits_from_the_start():
    X, y = mixture(400, 3)
    curve = roc_by_costs(Bounds(n_bounds=5), X, y, asymmetries=5)
    for a, model in zip(curve.asymmetries, curve.models, strict=True):
        alone = clone(Bounds(n_bounds=5)).set_params(costs={0: 1.0 - a, 1: a}).fit(X, y)
        np.testing.assert_allclose(model.coef_, alone.coef_, atol=1e-5 * abs(alone.coef_).max())
        assert model.warm_start is False


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"beta": 0.0}, "beta"),
        ({"beta": np.nan}, "beta"),
        ({"asymmetries": 0}, "asymmetries must be an integer"),
        ({"asymmetries": [0.5, 1.0]}, "strictly between 0 and 1"),
        ({"y": np.arange(40) % 3}, "F-measure is for two classes; y has 3"),
        ({"sample_weight": np.ones(3)}, "sample_weight must have shape"),
        ({"cv": [(np.arange(20), np.arange(20, 40))]}, "training rows of both classes"),
    ],
)
def test_what_will_not_do(change, message):
    X = np.random.default_rng(0).normal(size=(40, 2))
    given = {"X": X, "y": (np.arange(40) >= 20).astype(int), **change}
    with pytest.raises(ValueError, match=message):
        best_f_measure(Bounds(), **given)


def test_blocks_are_refused():
    X, y = mixture(40, 0)
    with pytest.raises(ValueError, match="best_f_measure takes no blocks"):
        best_f_measure(Bounds(), from_batches(lambda: iter([(X, y)])), y)
