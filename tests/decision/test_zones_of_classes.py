"""What a zone of several classes can be: intervals as caps; what else is not convex, or not proper.

The statements of docs/guide/zones_of_classes.md.
"""

import numpy as np
import pytest
from scipy.optimize import linprog, minimize
from scipy.special import softmax
from sklearn.base import clone

from grayzone import ImportVectorMachine, TruncatedLogisticRegression
from grayzone.decision.zones import class_caps
from grayzone.metrics import zone_log_loss

CLASSES = np.array(["good", "late", "bad"])


def data(n=90):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 2))
    score = X[:, 0] + 0.7 * rng.normal(size=n)
    return X, CLASSES[np.searchsorted([-0.5, 0.5], score)]


@pytest.mark.parametrize("seed", range(20))
def test_caps_are_the_largest_probabilities_that_intervals_leave(seed):
    rng = np.random.default_rng(seed)
    K = int(rng.integers(3, 6))
    middle = rng.dirichlet(np.ones(K))  # inside all intervals
    low, high = middle * rng.uniform(0.0, 0.9, K), middle + (1.0 - middle) * rng.uniform(0.1, 1, K)
    named = rng.permutation(K)[: rng.integers(1, K + 1)]
    caps = class_caps({int(k): (low[k], high[k]) for k in named}, np.arange(K))
    ends = [(low[k], high[k]) if k in named else (0.0, 1.0) for k in range(K)]
    for k in range(K):
        found = linprog(-np.eye(K)[k], A_eq=np.ones((1, K)), b_eq=[1.0], bounds=ends)
        assert caps[k] == pytest.approx(-found.fun, abs=1e-9)


def test_an_interval_of_one_class_is_caps_of_all():
    zone = {"bad": (0.1, 0.6)}
    # in the order of the classes, which is that of the alphabet
    np.testing.assert_allclose(class_caps(zone, np.sort(CLASSES)), [0.6, 0.9, 0.9])
    mixed = {"bad": (0.1, 0.6), "late": 0.8}
    np.testing.assert_allclose(class_caps(mixed, np.sort(CLASSES)), [0.6, 0.9, 0.8])


@pytest.mark.parametrize(
    "estimator", [TruncatedLogisticRegression(), ImportVectorMachine(max_import_points=2)]
)
def test_fits_take_intervals(estimator):
    X, y = data()
    model = clone(estimator).set_params(zone={"bad": (0.1, 0.6)}).fit(X, y)
    same = clone(estimator).set_params(zone=[0.6, 0.9, 0.9]).fit(X, y)
    np.testing.assert_allclose(model.zone_, [0.6, 0.9, 0.9])
    np.testing.assert_allclose(model.predict_proba(X), same.predict_proba(X), rtol=1e-7)


@pytest.mark.parametrize(
    ("zone", "message"),
    [
        ({"bad": (0.6, 0.1)}, r"zone must give 'bad' an interval .* got \(0.6, 0.1\)"),
        ({"bad": (0.1, 0.6, 0.7)}, "zone must give 'bad' an interval"),
        ({"bad": (0.1, 0.6), "late": 1.5}, "zone must give 'late' an interval"),
        ({"bad": (0.1, 0.6), "late": "x"}, "zone must give 'late' an interval"),
        ({"worse": (0.1, 0.6)}, "zone names 'worse', which is none of the classes"),
        ({"bad": (0.6, 0.9), "late": (0.5, 0.9)}, "lower ends sum to 1.1"),
        ({"bad": (0.0, 0.3), "late": (0.0, 0.3), "good": (0.0, 0.3)}, "upper ends to 0.9"),
    ],
)
def test_bad_intervals_are_told(zone, message):
    with pytest.raises(ValueError, match=message):
        TruncatedLogisticRegression(zone=zone).fit(*data())


# ------------------------------------------------------------------------------------------
# What is convex in the scores, and what is not
# ------------------------------------------------------------------------------------------


def capped(f, y, caps):
    return zone_log_loss([y], softmax(f)[None, :], zone=caps, labels=[0, 1, 2])


def odds(f, y, t):
    """Stop caring for class k once p_k <= t p_y."""
    return np.log1p(np.maximum(np.exp(np.delete(f, y) - f[y]), t).sum())


def floored(f, y, a):
    """The log-loss, the other classes having at least a."""
    p = softmax(f)
    left = 1.0 - np.maximum(np.delete(p, y), a).sum()
    return -np.log(left) if left > 0.0 else np.inf


@pytest.mark.parametrize(
    "loss", [lambda f, y: capped(f, y, [0.6, 0.9, 0.9]), lambda f, y: odds(f, y, 0.2)]
)
def test_caps_and_odds_are_convex_in_the_scores(loss):
    rng = np.random.default_rng(0)
    for _ in range(300):
        y, f, g = int(rng.integers(3)), 2.0 * rng.normal(size=3), 2.0 * rng.normal(size=3)
        t = rng.random()
        assert loss(t * f + (1 - t) * g, y) <= t * loss(f, y) + (1 - t) * loss(g, y) + 1e-12


def test_a_floor_on_another_class_is_not_convex():
    f, g = np.array([0.0, 4.0, 0.0]), np.array([0.0, 0.0, 4.0])
    p, q, middle = (softmax(scores)[0] for scores in (f, g, (f + g) / 2))
    # both ends are where nothing is left to do for class 0, and the middle is not
    assert max(p, q) < 0.03 < middle
    # the log-loss with floors: finite at both ends, infinite between them
    f, g = np.array([-2.0, 0.0, -8.0]), np.array([-8.0, 0.0, -2.0])
    assert np.isfinite([floored(f, 0, 0.1), floored(g, 0, 0.1)]).all()
    assert floored((f + g) / 2, 0, 0.1) == np.inf


def least(loss, p):
    """Probabilities at which the expected loss is least."""
    found = minimize(
        lambda f: sum(p[y] * loss(np.append(f, 0.0), y) for y in range(3)),
        np.zeros(2),
        method="Nelder-Mead",
        options={"xatol": 1e-9, "fatol": 1e-13, "maxiter": 5000},
    )
    return softmax(np.append(found.x, 0.0))


def test_caps_are_faithful_inside_and_floors_on_odds_are_not():
    p = np.array([0.55, 0.35, 0.1])
    np.testing.assert_allclose(least(lambda f, y: capped(f, y, [0.6, 0.9, 0.9]), p), p, atol=1e-4)
    p = np.array([0.6, 0.35, 0.05])
    q = least(lambda f, y: odds(f, y, 0.2), p)
    assert 0.2 < p[1] / p[0] < 5.0  # the odds of these two are inside
    assert q[1] / q[0] == pytest.approx(0.6462, abs=1e-3)
    assert p[1] / p[0] == pytest.approx(0.5833, abs=1e-3)
