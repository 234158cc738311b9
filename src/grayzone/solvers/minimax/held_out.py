r"""Bounds from scores of rows that the model has not seen.

By Cantelli's inequality a class whose scores have the mean :math:`\mu` and the standard deviation
:math:`\sigma` is on the right side of zero with a probability of at least
:math:`\kappa^2/(1+\kappa^2)`, :math:`\kappa = \pm\mu/\sigma`. Moments of training scores flatter a
model that was fitted to them; those of held-out scores do not.
"""

from __future__ import annotations

from math import sqrt
from typing import Any

import numpy as np
from sklearn.model_selection import check_cv

from grayzone.numerics.checks import as_numpy, check_integer, is_real
from grayzone.numerics.namespace import array_namespace
from grayzone.solvers.minimax.direction import bound_of
from grayzone.sources.distinct import deal_folds, row_groups
from grayzone.sources.labelled import Labelled

Array = Any


def score_bounds(scores: Array, codes: Array, weight: Array) -> tuple[float, float]:
    """Worst-case accuracies of the classes 0 and 1, deciding for 1 where scores are positive.

    Examples
    --------
    >>> import numpy as np
    >>> from grayzone.solvers.minimax.held_out import score_bounds
    >>> score_bounds(np.array([-3.0, -1.0, 1.0, 3.0]), np.array([0, 0, 1, 1]), np.ones(4))
    (0.8, 0.8)
    """
    xp, bounds = array_namespace(scores), []
    scores = scores / max(float(xp.max(xp.abs(scores))), 1e-300)  # no unit of theirs matters
    for code, sign in ((0, -1.0), (1, 1.0)):
        own, w = scores[codes == code], weight[codes == code]
        mean = float(xp.sum(own * w) / xp.sum(w))
        variance = float(xp.sum((own - mean) ** 2 * w) / xp.sum(w))
        deviation = max(sqrt(variance), 1e-300)
        bounds.append(bound_of(sign * mean / deviation))
    return bounds[0], bounds[1]


def check_folds(cv: Any) -> None:
    """Check a number of folds; other kinds of folds are checked when they are made."""
    if is_real(cv):
        check_integer("cv", cv, least=2)


def held_out_folds(
    cv: Any, labelled: Labelled, known: Array | None, rng: np.random.RandomState
) -> list[tuple[Array, Array]]:
    """Training and held-out rows of each fold, as places among the rows that have a weight.

    Parameters
    ----------
    cv : int, cross-validation generator, iterable or None
        Folds whose rows are held out; an integer deals out distinct rows.
    labelled : Labelled
        The rows, in one place.
    known : array or None
        Data by which copies of rows are told; None where there are none.
    rng : RandomState
        Shuffles the rows before they are dealt out.

    Returns
    -------
    folds : list of pairs of arrays
        None of them without ``cv``, or where a class has too few rows for any.
    """
    if cv is None:
        return []
    codes = as_numpy(labelled.all_held.codes)
    if not is_real(cv):
        return _given_folds(cv, labelled, codes)
    known = np.arange(codes.size)[:, None] if known is None else known
    first, number = row_groups(known, codes)
    n_folds = _folds_that_fit(codes[first], cv)
    if not n_folds:
        return []
    fold = deal_folds(codes[first], n_folds, rng)[number]
    return [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(n_folds)]


def _folds_that_fit(codes: Array, asked: int) -> int:
    """How many folds leave two rows of each class in every training part; 0 where none do."""
    fewest = int(np.bincount(codes, minlength=2).min())
    for n in range(min(asked, fewest), 1, -1):
        if fewest - -(-fewest // n) >= 2:
            return n
    return 0


def _given_folds(cv: Any, labelled: Labelled, codes: Array) -> list[tuple[Array, Array]]:
    X, numbers = labelled.given, as_numpy(labelled.all_held.places())
    n_classes = len(labelled.classes)
    place = np.full(X.shape[0], -1)
    place[numbers] = np.arange(numbers.size)
    y = np.zeros(X.shape[0], dtype=np.int64)
    y[numbers] = codes
    folds = []
    for train, out in check_cv(cv, y, classifier=True).split(X, y):
        pair = place[train][place[train] >= 0], place[out][place[out] >= 0]
        if np.bincount(codes[pair[0]], minlength=n_classes).min() < 2:
            raise ValueError("A fold of cv leaves less than two training rows of a class.")
        folds.append(pair)
    seen = codes[np.concatenate([out for _, out in folds])] if folds else codes[:0]
    if np.bincount(seen, minlength=n_classes).min() < 1:
        raise ValueError("cv must hold out rows of every class; a bound is that of all.")
    return folds
