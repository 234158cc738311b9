r"""An interval for what decisions cost on average, which holds for few rows and rare errors.

An error that was seen in none of sixty rows may happen in one of twenty, so mean ± 1.96 standard
errors, which has no width there, will not do. Clopper & Pearson's (1934) interval for a share is
exact: with k errors in n rows its ends are quantiles of the Beta distributions of k errors in
n + 1 rows, where the one row more is right for the lower end and wrong for the upper end. Gaffke
(2005) does the same for the mean of any bounded values: these, and one more at the end of their
range, get random weights of a flat Dirichlet distribution. Here that distribution is replaced by
the Beta distribution of the same mean and variance. So there is nothing to draw, and where all
errors cost the same the interval is Clopper & Pearson's.

The row more is wrong in the dearest way: it is of the class whose errors would cost most, and where
rows have costs of their own, one that is drawn in proportion to them. (The largest cost of all
would hold as well, with intervals several times as wide where few rows cost most.)

References
----------
C. J. Clopper and E. S. Pearson, "The use of confidence or fiducial limits illustrated in the case
of the binomial", Biometrika, 1934.

N. Gaffke, "Three test statistics for a nonparametric one-sided hypothesis on the mean of a
nonnegative variable", Mathematical Methods of Statistics, 2005.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.special import betaincinv

Array = Any

# Where each row was decided on by a model that had learned from four fifths of the others, so many
# errors do not count at the lower end: the model that is kept has learned from more rows and may
# make some errors less, and errors of one of these models come together. `python -m
# benchmarks.promise_coverage` shows that intervals hold with it, and not without.
CROSS_FITTED = 4.0


class CostInterval(NamedTuple):
    """Ends of an interval for a mean cost, and a standard error that counts one error more."""

    low: float
    high: float
    error: float


def cost_interval(
    paid: Array,
    possible: Array,
    codes: Array,
    confidence: float,
    *,
    weight: Array | None = None,
    groups: Array | None = None,
    forgiven: float = 0.0,
) -> CostInterval:
    """Return an interval for the mean cost of decisions on new rows.

    Parameters
    ----------
    paid : ndarray of shape (n,)
        What the decision about each row cost.
    possible : ndarray of shape (n, K)
        What deciding for each class would have cost.
    codes : ndarray of int, shape (n,)
        Places of the rows' classes.
    confidence : float
        Probability with which the interval holds the mean.
    weight : ndarray of shape (n,), default=None
        How many rows each stands for.
    groups : ndarray of shape (n,), default=None
        Rows with the same value are one draw.
    forgiven : float, default=0.0
        Errors that do not count at the lower end: `CROSS_FITTED` for decisions of several models
        of which each had learned from other rows.

    Returns
    -------
    interval : CostInterval
        Its ends and a standard error.

    Examples
    --------
    No error in sixty rows, and the exact interval of a share.

    >>> import numpy as np
    >>> from scipy.stats import binomtest
    >>> from grayzone.decision.cost_interval import cost_interval
    >>> paid, possible, codes = np.zeros(60), np.tile([0.0, 1.0], (60, 1)), np.zeros(60, dtype=int)
    >>> low, high, _ = cost_interval(paid, possible, codes, 0.95)
    >>> round(low, 4), round(high, 4), round(binomtest(0, 60).proportion_ci(0.95).high, 4)
    (0.0, 0.0596, 0.0596)
    """
    best = float(np.min(possible))
    unit = float(max(np.max(possible), np.max(paid))) - best
    if not unit > 0.0:
        return CostInterval(best, best, 0.0)
    share = np.ones(len(paid)) if weight is None else np.asarray(weight, dtype=np.float64)
    share = share / share.sum()
    draws = np.arange(len(paid)) if groups is None else np.unique(groups, return_inverse=True)[1]
    seen = _products(share, (paid - best) / unit, draws)
    n, sums, tail = seen.shape[1], seen.sum(axis=1), 0.5 * (1.0 - confidence)
    wrong = max(one_more((possible - best) / unit, codes, share, draws), key=lambda one: one[2])
    right = np.array([1.0 / n, 1.0 / n**2, 0.0, 0.0, 0.0])
    # how many errors were seen, where large ones count as one and small ones hardly
    errors = sums[2] ** 2 / sums[4] if sums[4] > 0.0 else 0.0
    kept = 1.0 - forgiven / errors if errors > forgiven else 0.0
    low = _moments(sums * [1.0, 1.0, kept, kept, kept] + right, n)
    high = _moments(sums + wrong, n)
    return CostInterval(
        best + unit * _quantile(*low, tail),
        best + unit * _quantile(*high, 1.0 - tail),
        unit * float(np.sqrt(max(low[1], high[1]))),
    )


def one_more(possible: Array, codes: Array, weight: Array, draws: Array | None = None) -> Array:
    """Return, for each class, what is expected of one draw more that is decided in the worst way.

    It is drawn in proportion to what that costs. Five products are expected of it: its weight,
    the square, its weight times its cost, the same times its weight, and the square of weight times
    cost.

    Parameters
    ----------
    possible : ndarray of shape (n, K)
        What deciding for each class costs, at least 0.
    codes : ndarray of int, shape (n,)
        Places of the rows' classes.
    weight : ndarray of shape (n,)
        How many rows each stands for.
    draws : ndarray of int, shape (n,), default=None
        Places of the rows' draws; by default each row is one.

    Returns
    -------
    products : ndarray of shape (K, 5)
        Zeros where no row of a class can cost anything.
    """
    draws = np.arange(len(codes)) if draws is None else draws
    worst, products = np.max(possible, axis=1), np.zeros((possible.shape[1], 5))
    for k in range(len(products)):
        parts = _products(weight * (codes == k), worst, draws)
        total = parts[2].sum()
        if total > 0.0:
            products[k] = parts @ parts[2] / total
    return products


def _products(weight: Array, cost: Array, draws: Array) -> Array:
    """Sum up rows of one draw; return the five products of each draw."""
    share, paid = (np.bincount(draws, part) for part in (weight, weight * cost))
    return np.stack([share, share**2, paid, share * paid, paid**2])


def _moments(sums: Array, n_draws: int) -> tuple[float, float]:
    """Mean and variance of the mean under random weights, from sums of products."""
    share, share2, cost, share_cost, cost2 = sums.tolist()
    mean = cost / share
    spread = cost2 - 2.0 * mean * share_cost + mean**2 * share2
    return mean, max(spread, 0.0) / share**2 * (n_draws + 1) / (n_draws + 2)


def _quantile(mean: float, variance: float, probability: float) -> float:
    """Quantile of the Beta distribution of a mean and a variance."""
    room = mean * (1.0 - mean)
    if not 0.0 < variance < room:  # all values are the same, or nearly as far apart as can be
        return mean if variance <= 0.0 else float(probability > 0.5)
    size = room / variance - 1.0
    return float(betaincinv(mean * size, (1.0 - mean) * size, probability))
