r"""Thresholds under which a rate keeps its limit, at a stated confidence.

A threshold read off a sample keeps a limit on *that sample*; on new rows it breaks it about every
second time. Here thresholds come with a proof: for rows drawn independently from where new rows
come from, and scores that have not seen them, the probability that the rate of new rows breaks its
limit is at most an error that was asked for, whatever the distribution of the scores.

- *False positive rate, recall* (the Neyman–Pearson umbrella of Tong, Feng & Li, 2018): the
  threshold is an order statistic of the scores of a class. Of n negative rows, the share of new
  ones above the k-th smallest score is more than :math:`\alpha` with probability at most
  :math:`P(B \ge k)`, where B is binomial with n draws of probability :math:`1-\alpha`.
- *Precision*: among the m rows with the highest scores the number of positive ones is binomial with
  the precision at that threshold (the rows are chosen by their scores alone). Numbers m are tried
  in an order fixed beforehand, each by the exact binomial test of Clopper & Pearson (1934), and a
  sequence ends where its first test fails; so all that passed hold at once (Angelopoulos et
  al., 2021).

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
from scipy.stats import binom

from grayzone.decision.limits import cut_between

Array = Any

# Sequences of tests for a precision, which begin at different numbers of rows.
_STARTS = 4
# Ratio of neighbouring numbers of rows in a sequence.
_RATIO = 1.1


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
            f"seen, to hold with a probability of {1.0 - error:g}; there are {n_rows}."
        )
    number = int(binom.ppf(error, n_rows, rate))
    while number >= 0 and binom.cdf(number, n_rows, rate) > error:
        number -= 1
    return number


def least_threshold(scores: Array, rate: float, error: float, of: str = "negative rows") -> float:
    """Return the least threshold that lets at most a share of new rows of a class reach it.

    Parameters
    ----------
    scores : ndarray of shape (n,)
        Scores of held-out rows of the class.
    rate, error : float
        As in :func:`most_beyond`.
    of : str
        What rows they are, for an error.

    Returns
    -------
    threshold : float
        Rows whose score is at least that are decided for.

    Examples
    --------
    >>> import numpy as np
    >>> from grayzone.decision.confidence import least_threshold
    >>> least_threshold(np.arange(1000.0), rate=0.05, error=0.05)
    961.5
    """
    place = len(scores) - 1 - most_beyond(len(scores), rate, error, of)
    ordered = np.sort(np.asarray(scores, dtype=np.float64))
    above = np.min(ordered[ordered > ordered[place]], initial=np.inf)
    # of neighbouring numbers the middle may be the lower one
    return max(cut_between(float(above), ordered[place]), np.nextafter(ordered[place], np.inf))


def largest_threshold(scores: Array, rate: float, error: float, of: str = "positive rows") -> float:
    """Return the largest threshold that lets at most a share of new rows of a class miss it.

    Parameters
    ----------
    scores : ndarray of shape (n,)
        Scores of held-out rows of the class.
    rate, error : float
        As in :func:`most_beyond`.
    of : str
        What rows they are, for an error.

    Returns
    -------
    threshold : float
        Rows whose score is at least that are decided for.

    Examples
    --------
    >>> import numpy as np
    >>> from grayzone.decision.confidence import largest_threshold
    >>> largest_threshold(np.arange(1000.0), rate=0.05, error=0.05)
    37.5
    """
    place = most_beyond(len(scores), rate, error, of)
    ordered = np.sort(np.asarray(scores, dtype=np.float64))
    below = np.max(ordered[ordered < ordered[place]], initial=-np.inf)
    return cut_between(ordered[place], float(below))


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
    order = np.argsort(-scores, kind="stable")
    ordered, n, share = scores[order], len(scores), error / _STARTS
    groups = np.zeros(n) if groups is None else groups
    members = [groups[order] == name for name in np.unique(groups)]
    # rows, and positive ones, of each group among the first of all
    rows = np.stack([np.cumsum(mine) for mine in members])
    found = np.stack([np.cumsum(mine & positive[order]) for mine in members])
    needed = fewest_rows(1.0 - precision, share)
    enough = np.flatnonzero(rows.min(axis=0) >= needed)
    if not enough.size or enough[0] + 1 >= n:
        raise TooFewRowsError(
            f"A precision of {precision:g} takes more than {needed} rows that the fit has not seen"
            f"{', of each group' if len(members) > 1 else ''}, to hold with a probability of "
            f"{1.0 - error:g}; there are {int(rows[:, -1].min())}."
        )
    kept: set[float] = set()
    for begin in np.geomspace(enough[0] + 1, n - 1, _STARTS + 1)[:-1]:
        number = ceil(begin)
        while number < n:
            # the rows above the next score are drawn independently from all that are
            threshold = np.nextafter(ordered[number], np.inf)
            m = int(np.searchsorted(-ordered, -threshold, side="right"))
            if m == 0 or np.any(binom.sf(found[:, m - 1] - 1, rows[:, m - 1], precision) > share):
                break
            kept.add(float(threshold))
            number = max(number + 1, ceil(_RATIO * number))
    return np.sort(np.array(list(kept)))
