"""Limits inside the training of a linear model: they hold on new rows, at a confidence."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import logit
from scipy.stats import norm

import grayzone.solvers.policy.cut as cuts
from grayzone import TightBoundLogisticRegression
from grayzone.decision.confidence import TooFewRowsError, fewest_rows, most_beyond
from grayzone.decision.limits import Target, cut_at, cut_between
from grayzone.solvers.policy.cut import cut_scores
from grayzone.sources import from_batches
from grayzone.sources.labelled import label
from grayzone.sources.source import HeldSource
from grayzone.sources.split import split, split_rows

LIMITS = {"max_fpr": 0.1, "min_recall": 0.8, "min_precision": 0.6}
EVERY_LIMIT = pytest.mark.parametrize("name", LIMITS)
SHARE, SHIFT = 0.3, 1.5  # of positive rows, which are normal around it; the others around zero


def draw(n, seed):
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < SHARE).astype(int)
    return (rng.normal(size=n) + SHIFT * y)[:, None], y


def fit(X, y, **parameters):
    return TightBoundLogisticRegression(n_bounds=1, max_iter=20, **parameters).fit(X, y)


def border(model):
    """Where the one feature decides."""
    assert model.coef_[0, 0] > 0.0
    return (logit(model.threshold_) - model.intercept_[0]) / model.coef_[0, 0]


def is_broken(name, cut):
    """Whether new rows break a limit, exactly, where the feature decides from a cut on."""
    fpr, recall = norm.sf(cut), norm.sf(cut - SHIFT)
    precision = SHARE * recall / (SHARE * recall + (1.0 - SHARE) * fpr)
    rate = {"max_fpr": fpr, "min_recall": recall, "min_precision": precision}[name]
    return rate > LIMITS[name] if name == "max_fpr" else rate < LIMITS[name]


# ------------------------------------------------------------------------------------ new rows


def not_too_many(broken, error):
    return np.mean(broken) <= error + 3.0 * np.sqrt(error * (1.0 - error) / len(broken))


@EVERY_LIMIT
def test_cuts_break_a_limit_no_more_often_than_said(name):
    broken, error, coef = [], 0.1, np.array([[1.0, 0.0]])
    for seed in range(400):
        held_out = label(HeldSource(*draw(300, seed)))
        try:
            cut = cut_scores(held_out, coef, (Target(name, LIMITS[name], error),), fresh=True)
        except ValueError as told:  # of a precision, that nothing can be stated
            assert "No threshold keeps min_precision=0.6" in str(told)  # noqa: PT017
            cut = None
        broken.append(cut is not None and is_broken(name, cut))
    assert not_too_many(broken, error)
    if name != "min_precision":  # whose tests share the error
        assert np.mean(broken) > 0.3 * error


def test_fits_break_a_limit_no_more_often_than_said():
    stated, trained = [], []
    for seed in range(25):
        rows = draw(300, seed)
        stated.append(border(fit(*rows, max_fpr=0.1, confidence=0.8, random_state=seed)))
        trained.append(border(fit(*rows, max_fpr=0.1, confidence=None)))
    assert not_too_many([is_broken("max_fpr", cut) for cut in stated], 0.2)
    # every other draw breaks it where training rows set the threshold
    assert np.mean([is_broken("max_fpr", cut) for cut in trained]) > 0.3


def test_rows_are_held_out_by_default():
    X, y = draw(500, 0)
    default = fit(X, y, max_fpr=0.1, random_state=3)
    named = fit(X, y, max_fpr=0.1, random_state=3, confidence=0.95, validation_fraction=0.3)
    assert default.threshold_ == named.threshold_
    train, out = split_rows(y, np.arange(2), 0.3, np.random.RandomState(3))
    alone = fit(X[train], y[train], max_fpr=0.1, confidence=None)
    np.testing.assert_allclose(default.coef_, alone.coef_, rtol=1e-12)
    # as many negative rows reach the threshold as a binomial number allows
    reached = default.predict(X[out][y[out] == 0]).sum()
    assert reached == most_beyond(int(np.sum(y[out] == 0)), 0.1, 0.05)
    # without a limit nothing is held out
    np.testing.assert_array_equal(fit(X, y).coef_, fit(X, y, confidence=None).coef_)


def test_more_confidence_is_more_careful():
    X, y = draw(800, 1)
    found = [
        fit(X, y, max_fpr=0.1, confidence=c, random_state=0).threshold_ for c in (0.5, 0.9, 0.99)
    ]
    assert found[0] < found[1] < found[2]


# ----------------------------------------------------------------------------- too few rows


@pytest.mark.parametrize(
    ("limit", "needed"),
    [
        ({"max_fpr": 0.01}, "at least 299 negative rows"),
        ({"min_recall": 0.99}, "at least 299 positive rows"),
        ({"min_precision": 0.99}, f"more than {fewest_rows(0.01, 0.0125)} rows"),
    ],
)
def test_too_few_rows(limit, needed):
    X, y = draw(400, 0)
    model = TightBoundLogisticRegression(**limit)
    with pytest.raises(TooFewRowsError, match=f"{needed}.*0.95.*there are") as told:
        model.fit(X, y)
    for way in ("More rows", "looser limit", "lower confidence", "validation_fraction", "=None"):
        assert way in str(told.value)
    assert not hasattr(model, "coef_")
    # what it says would help does help
    if "max_fpr" in limit:
        assert fit(X, y, **limit, confidence=None).threshold_ is not None
        assert fit(*draw(1600, 0), **limit, random_state=0).threshold_ is not None
        assert fit(X, y, max_fpr=0.1, random_state=0).threshold_ is not None
        assert fit(X, y, **limit, confidence=0.5, random_state=0).threshold_ is not None


def test_the_fewest_rows_are_enough():
    n = fewest_rows(0.1, 0.05)
    X, _ = draw(400, 0)
    y = (np.arange(400) >= 2 * n).astype(int)
    X = X + y[:, None]
    settings = {"max_fpr": 0.1, "random_state": 0}
    assert fit(X, y, validation_fraction=0.5, **settings).threshold_ is not None
    with pytest.raises(TooFewRowsError, match=f"there are {n - 1}"):
        fit(X[2:], y[2:], validation_fraction=0.5, **settings)


def test_a_precision_that_no_threshold_has():
    X, y = draw(600, 0)
    noise = np.random.default_rng(0).normal(size=X.shape)
    # the training rows have it by chance, or else that is what is said
    with pytest.raises(ValueError, match=r"No threshold keeps min_precision=0\.5|cannot be kept"):
        fit(noise, y, min_precision=0.5, random_state=0)


@pytest.mark.parametrize("confidence", [0.0, 1.0, -1, 2, np.nan, "high", [0.9]])
def test_confidence_lies_between_zero_and_one(confidence):
    with pytest.raises(ValueError, match="confidence must be"):
        fit(*draw(200, 0), max_fpr=0.2, confidence=confidence)


# ---------------------------------------------------------------------------------- carriers


def scored(n=300, seed=0, decimals=1):
    """Rows of one feature with many equal values, and weights, some of them zero."""
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < 0.5).astype(int)
    X = np.round(rng.normal(size=(n, 1)) + y[:, None], decimals)
    return X, y, rng.integers(0, 4, size=n).astype(float)


def in_batches(X, y, weight):
    size = len(y) // 5 + 1
    pieces = [slice(a, a + size) for a in range(0, len(y), size)]
    return from_batches(lambda: ((X[p], y[p], weight[p]) for p in pieces))


@EVERY_LIMIT
@pytest.mark.parametrize("most", [2**19, 60])
def test_streams_are_cut_where_held_rows_are(name, most, monkeypatch):
    monkeypatch.setattr(cuts, "_MOST_SCORES", most)
    X, y, weight = scored()
    target = Target(name, LIMITS[name] if name != "min_precision" else 0.4, 0.1)
    there = weight > 0
    coef = np.array([[2.0, -0.3]])
    scores = X[there, 0] * 2.0 - 0.3
    expected = cut_at(target, scores, y[there] == 1, np.ones(there.sum()), True)
    held = label(HeldSource(X, y, weight))
    assert cut_scores(held, coef, (target,), fresh=True) == expected
    found = cut_scores(label(in_batches(X, y, weight)), coef, (target,), fresh=True)
    if name == "min_precision" and most < 300:
        # of many rows a part is looked at
        assert found in np.nextafter(scores, np.inf)
    else:
        assert found == pytest.approx(expected, rel=1e-12)


@EVERY_LIMIT
def test_held_out_rows_are_counted_whatever_they_weigh(name):
    X, y = draw(700, 0)
    weight = np.random.default_rng(0).choice([0.5, 2.0, 7.0], 700)
    coef = np.array([[1.0, 0.0]])
    target = Target(name, LIMITS[name], 0.05)
    found = [
        cut_scores(label(HeldSource(X, y, w)), coef, (target,), fresh=True) for w in (None, weight)
    ]
    assert found[0] == found[1]


@EVERY_LIMIT
def test_blocks_and_sparse_rows_keep_limits(name):
    X, y = draw(800, 0)
    settings = {name: LIMITS[name], "random_state": 0}
    dense, sparse = (fit(rows, y, **settings) for rows in (X, sp.csr_array(X)))
    assert sparse.threshold_ == pytest.approx(dense.threshold_, rel=1e-9)
    blocks = TightBoundLogisticRegression(n_bounds=1, **settings)
    blocks.fit(in_batches(X, y, np.ones(800)))
    assert not is_broken(name, border(blocks))
    assert border(blocks) == pytest.approx(border(dense), abs=0.5)


def test_a_part_of_a_part_of_a_stream():
    X, y, weight = scored(400)
    labelled = label(in_batches(X, y, weight))
    rng = np.random.RandomState(0)
    _, out = split(labelled, 0.5, rng)
    _, fewer = split(out, 0.5, rng)
    assert 0.1 < fewer.n_rows / labelled.n_rows < 0.4
    seen = fewer.reduce(lambda rows: {"n": np.sum(rows.weight > 0)})["n"]
    assert seen == fewer.n_rows


@pytest.mark.parametrize("by_class", [True, False])
def test_rows_of_each_class_on_either_side(by_class):
    codes = np.repeat([0, 1], [2, 98])
    for seed in range(20):
        train, out = split_rows(codes, np.arange(2), 0.3, np.random.RandomState(seed), by_class)
        assert sorted([*train, *out]) == list(range(100))
        assert set(codes[train]) == set(codes[out]) == {0, 1}
        assert len(out) == pytest.approx(30, abs=1)


def test_a_cut_between_neighbouring_numbers_is_above_the_lower():
    for below in (0.1, 1.0, 3.0, 1e-300, -0.7):
        above = np.nextafter(below, np.inf)
        assert below < cut_between(above, below) <= above
