r"""Thresholds under which a rate keeps its limit, at a stated confidence.

A threshold read off a sample keeps a limit on *that sample*; on new rows it breaks it about every
second time. Here thresholds come with a proof: for rows drawn independently from where new rows
come from, and scores that have not seen them, the probability that the rate of new rows breaks its
limit is at most an error that was asked for, whatever the distribution of the scores.

- *False positive rate, recall* (the Neyman–Pearson umbrella of Tong, Feng & Li, 2018): the
  threshold is an order statistic of the scores of a class. Of n negative rows, the share of new
  ones above the k-th smallest score is more than :math:`\alpha` with probability at most
  :math:`P(B \ge k)`, where B is binomial with n draws of probability :math:`1-\alpha`. With equal
  scores it is less often. Every higher threshold keeps the limit as well, so that costs may choose
  among them, and so may groups: where each has a threshold of its own for the whole error, the
  highest of these breaks the limit somewhere only if it is below the threshold that just keeps it
  in the one group whose is highest, in truth; that group's own then is, too. No error is split.
- *Precision*: the rows above the next score after the m highest are drawn independently from all
  that are above it, so that the number of positive ones among them is binomial with the precision
  there. Numbers m are tried in an order fixed beforehand, each by the exact binomial test of
  Clopper & Pearson (1934), and a sequence ends where its first test fails, so that all that passed
  hold at once (Angelopoulos et al., 2021): an error takes that the first threshold of a sequence
  at which the precision is below the limit p passes. Which one is first depends on the numbers of
  rows between the scores at which the precision crosses p. Given these numbers, rows between
  neighbouring crossings are positive with probability p, and those below the last one more seldom;
  so the positive rows are no more than those of a binomial test at p would be, and it errs as
  seldom as it says. (This is for scores that differ; where many are equal, it is seen in
  simulations.)
- *Limits of several kinds* share the error. The thresholds that keep one end where those that keep
  the other begin, in the worst case, and then both errors count.

References
----------
X. Tong, Y. Feng and J. J. Li, "Neyman–Pearson classification algorithms and NP receiver operating
characteristics", Science Advances, 2018.

C. J. Clopper and E. S. Pearson, "The use of confidence or fiducial limits illustrated in the case
of the binomial", Biometrika, 1934.

A. N. Angelopoulos, S. Bates, E. J. Candès, M. I. Jordan and L. Lei, "Learn then test: calibrating
predictive algorithms to achieve risk control", 2021.
"""

from __future__ import annotations

from math import ceil, log, log1p
from typing import Any

import numpy as np
from scipy.special import bdtr, betainc
from scipy.stats import binom

from grayzone.numerics.pitfalls import Pitfall

Array = Any

# Sequences of tests for a precision, which begin at different numbers of rows.
_STARTS = 4
# Ratio of neighbouring numbers of rows in a sequence.
_RATIO = 1.1
_HELP = "More rows, a looser limit or a lower confidence would do."


class TooFewRowsError(ValueError):
    """There are fewer rows than a statement of this confidence takes."""


def fewest_rows(rate: float, error: float) -> int:
    r"""Return how many rows of a class a limit on a rate of it takes.

    With fewer not even a threshold beyond all of them would do: :math:`(1-\text{rate})^n` must be
    at most the error.

    Parameters
    ----------
    rate : float
        Share of the class that may be on the wrong side.
    error : float
        Probability with which the limit may be broken.

    Returns
    -------
    n_rows : int
        The smallest number.

    Examples
    --------
    >>> from grayzone.decision.confidence import fewest_rows
    >>> fewest_rows(0.05, 0.05), fewest_rows(0.01, 0.05)
    (59, 299)
    """
    return ceil(log(error) / log1p(-rate) - 1e-9)


def most_beyond(n_rows: int, rate: float, error: float, of: str = "rows") -> int:
    r"""Return how many of a class's rows may lie beyond a threshold, so that few new ones do.

    The largest j for which a binomial number of `n_rows` draws of probability `rate` is at most j
    with a probability of at most `error`: below it, a threshold with j rows beyond it has a larger
    rate than that.

    Parameters
    ----------
    n_rows : int
        Rows of the class.
    rate : float
        Share of new rows that may be on the wrong side.
    error : float
        Probability with which that may fail.
    of : str
        What rows they are, for an error.

    Returns
    -------
    number : int
        Rows beyond the threshold, which lies at the next one.

    Examples
    --------
    >>> from grayzone.decision.confidence import most_beyond
    >>> [most_beyond(n, 0.05, 0.05) for n in (59, 100, 1000)]
    [0, 1, 38]
    """
    needed = fewest_rows(rate, error)
    if n_rows < needed:
        raise TooFewRowsError(
            f"A limit of {rate:g} on a rate takes at least {needed} {of} that the fit has not "
            f"seen, to hold with a probability of {1.0 - error:g}; there are {n_rows}. {_HELP} "
            f"{Pitfall.TOO_FEW_ROWS}"
        )
    number = int(binom.ppf(error, n_rows, rate))
    while number >= 0 and bdtr(number, n_rows, rate) > error:
        number -= 1
    return number


def check_precision(n_rows: int, precision: float, error: float, of: str = "rows") -> int:
    """Check that there are rows enough for a limit on a precision; returns how many it takes.

    Parameters
    ----------
    n_rows : int
        Held-out rows.
    precision, error : float
        As in :func:`precise_thresholds`.
    of : str
        What rows they are, for an error.

    Returns
    -------
    needed : int
        With so many, all positive, a first test can pass; it takes one more to set a threshold.

    Examples
    --------
    >>> from grayzone.decision.confidence import check_precision
    >>> check_precision(1000, 0.9, 0.05)
    42
    """
    needed = fewest_rows(1.0 - precision, error / _STARTS)
    if n_rows <= needed:
        raise TooFewRowsError(
            f"A precision of {precision:g} takes more than {needed} {of} that the fit has not "
            f"seen, to hold with a probability of {1.0 - error:g}; there are {n_rows}. {_HELP} "
            f"{Pitfall.TOO_FEW_ROWS}"
        )
    return needed


def precise_thresholds(
    scores: Array, positive: Array, precision: float, error: float, groups: Array | None = None
) -> Array:
    """Return thresholds from which on, with one error for all, decisions have a precision.

    Parameters
    ----------
    scores : ndarray of shape (n,)
        Scores of held-out rows.
    positive : ndarray of shape (n,)
        Whether they are positive.
    precision : float
        Share of the rows decided for that must be positive.
    error : float
        Probability with which any of the thresholds may fail, in a group.
    groups : ndarray of shape (n,), default=None
        Group of each row: the precision has to be reached in each.

    Returns
    -------
    thresholds : ndarray of shape (k,)
        In ascending order; none where nothing can be stated.

    Examples
    --------
    >>> import numpy as np
    >>> from grayzone.decision.confidence import precise_thresholds
    >>> scores = np.linspace(0, 1, 1000)
    >>> float(precise_thresholds(scores, scores > 0.5, 0.9, 0.05).min().round(3))
    0.494
    """
    scores = np.asarray(scores, dtype=np.float64)
    order = np.argsort(-scores, kind="stable")
    ordered, n, share = scores[order], len(scores), error / _STARTS
    groups = np.zeros(n) if groups is None else groups
    members = [groups[order] == name for name in np.unique(groups)]
    # rows, and positive ones, of each group among the first of all
    rows = np.stack([np.cumsum(mine) for mine in members])
    found = np.stack([np.cumsum(mine & positive[order]) for mine in members])
    of = "rows" if len(members) == 1 else "rows of each group"
    needed = check_precision(int(rows[:, -1].min()), precision, error, of)
    first = int(np.argmax(rows.min(axis=0) >= needed)) + 1
    kept: set[float] = set()
    for begin in np.geomspace(first, n - 1, _STARTS + 1)[:-1]:
        number = ceil(begin)
        while number < n:
            # the rows above the next score are drawn independently from all that are
            threshold = np.nextafter(ordered[number], np.inf)
            m = int(np.searchsorted(-ordered, -threshold, side="right"))
            if m == 0 or np.any(_chance(found[:, m - 1], rows[:, m - 1], precision) > share):
                break
            kept.add(float(threshold))
            number = max(number + 1, ceil(_RATIO * number))
    return np.sort(np.array(list(kept)))


def _chance(found: Array, n_rows: Array, rate: float) -> Array:
    """Return the probability that a binomial number is at least what was found."""
    return np.where(found > 0, betainc(np.maximum(found, 1), n_rows - found + 1, rate), 1.0)
