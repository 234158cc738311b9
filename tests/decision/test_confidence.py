"""Thresholds at a stated confidence: how often they fail, in many samples."""

import numpy as np
import pytest
from scipy.stats import binom, norm

from grayzone.decision.confidence import (
    TooFewRowsError,
    fewest_rows,
    most_beyond,
    precise_thresholds,
)
from grayzone.decision.limits import Target, cut_at

ERROR, DRAWS = 0.1, 1000


def share_of_failures(fails):
    """Whether failures are no more than the error allows, with four standard errors to spare."""
    return np.mean(fails) <= ERROR + 4 * np.sqrt(ERROR * (1 - ERROR) / len(fails))


def least_threshold(scores, rate, error=ERROR):
    """Return the least threshold that at most a share of new rows of a class reach."""
    negative, weight = np.zeros(len(scores), dtype=bool), np.ones(len(scores))
    return cut_at(Target("max_fpr", rate, error), scores.astype(float), negative, weight, True)


def largest_threshold(scores, rate, error=ERROR):
    """Return the largest threshold that at most a share of new rows of a class miss."""
    positive, weight = np.ones(len(scores), dtype=bool), np.ones(len(scores))
    return cut_at(Target("min_recall", 1.0 - rate, error), scores, positive, weight, True)


@pytest.mark.parametrize("n", [22, 50, 300])
@pytest.mark.parametrize("rate", [0.1, 0.3])
def test_limits_hold_on_new_rows(n, rate):
    """Rates of new rows are known exactly: scores are standard normal."""
    rng = np.random.default_rng(0)
    reached, missed = [], []
    for _ in range(DRAWS):
        scores = rng.normal(size=n)
        reached.append(norm.sf(least_threshold(scores, rate)))
        missed.append(norm.cdf(largest_threshold(scores, rate)))
    assert share_of_failures(np.array(reached) > rate)
    assert share_of_failures(np.array(missed) > rate)
    # and they give away no more than one row
    beyond = most_beyond(n, rate, ERROR)
    assert binom.cdf(beyond, n, rate) <= ERROR < binom.cdf(beyond + 1, n, rate)


def test_limits_hold_where_scores_are_equal():
    rng = np.random.default_rng(1)
    rates = np.array([0.5, 0.3, 0.15, 0.05])  # of the scores 0 to 3
    fails = []
    for _ in range(DRAWS):
        threshold = least_threshold(rng.choice(4, 60, p=rates), 0.2)
        fails.append(rates[np.arange(4) >= threshold].sum() > 0.2 + 1e-12)
    assert share_of_failures(fails)


@pytest.mark.parametrize("slope", [0.5, 2.0])
def test_a_precision_holds_at_every_threshold_that_is_given(slope):
    rng = np.random.default_rng(2)
    grid = np.linspace(-6, 6, 20_001)
    chance = 1 / (1 + np.exp(-slope * grid))
    mass = norm.pdf(grid)
    above = np.cumsum((mass * chance)[::-1])[::-1] / np.cumsum(mass[::-1])[::-1]
    fails, found = [], 0
    for _ in range(300):
        scores = rng.normal(size=400)
        positive = rng.random(400) < 1 / (1 + np.exp(-slope * scores))
        thresholds = precise_thresholds(scores, positive, 0.7, ERROR)
        found += thresholds.size > 0
        fails.append(np.any(np.interp(thresholds, grid, above) < 0.7))
    assert share_of_failures(fails)
    assert found > (250 if slope > 1 else 0)


def test_a_precision_holds_where_scores_are_equal():
    """As those of a tree are; the precision above a score need not grow with it."""
    rng = np.random.default_rng(4)
    chances = np.array([0.1, 0.5, 0.95, 0.6, 0.9])  # to be positive, of the scores 0 to 4
    shares = np.array([0.4, 0.2, 0.2, 0.1, 0.1])
    above = [np.sum((shares * chances)[k:]) / np.sum(shares[k:]) for k in range(5)]
    for precision in (0.7, 0.75, above[1] + 1e-9, above[2] + 1e-9, above[3] + 1e-9):
        fails = []
        for _ in range(200):
            scores = rng.choice(5, 200, p=shares)
            positive = rng.random(200) < chances[scores]
            found = precise_thresholds(scores, positive, precision, ERROR)
            fails.append(any(above[int(np.ceil(t))] < precision for t in found))
        assert share_of_failures(fails)


def test_groups_have_the_precision_each():
    rng = np.random.default_rng(3)
    scores, groups = rng.normal(size=2000), np.arange(2000) % 2
    good = rng.random(2000) < 1 / (1 + np.exp(-3 * scores))
    whole = precise_thresholds(scores, good, 0.8, ERROR)
    # the second group has no positive rows
    assert whole.size
    assert not precise_thresholds(scores, good & (groups == 0), 0.8, ERROR, groups).size
    assert precise_thresholds(scores, good, 0.8, ERROR, groups).size


@pytest.mark.parametrize(("rate", "error"), [(0.05, 0.05), (0.01, 0.05), (0.5, 0.5), (0.2, 0.01)])
def test_fewest_rows(rate, error):
    n = fewest_rows(rate, error)
    assert (1 - rate) ** n <= error * (1 + 1e-9) < (1 - rate) ** (n - 1)
    assert most_beyond(n, rate, error) >= 0
    with pytest.raises(TooFewRowsError, match=f"at least {n} rows .* there are {n - 1}"):
        most_beyond(n - 1, rate, error)


def test_too_few_rows_for_a_precision():
    with pytest.raises(TooFewRowsError, match="more than 44 rows"):
        precise_thresholds(np.arange(10.0), np.ones(10, bool), 0.9, 0.04)
