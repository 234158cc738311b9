r"""Rewards of all actions, from logs of the ones that were taken.

Logs tell what action :math:`a_i` was taken at x_i, with what probability :math:`p_i` (its
*propensity*), and what it earned, :math:`r_i`; nothing is known of the others. With any guess
:math:`b_{ia}` of rewards,

.. math:: R_{ia} = b_{ia} + \frac{1[a = a_i]}{p_i} (r_i - b_{ia})

has the true rewards as its mean over the actions that might have been taken, so that the mean of
:math:`\sum_a R_{ia} \pi(a|x_i)` over the rows is an unbiased estimate of what a policy would earn:
(4.1) of Le Roux (2017) where only the rewards of the actions taken are observed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from grayzone.numerics.checks import Array, Floats, as_labels, as_numpy, listed


def rewards_from_logs(
    actions: ArrayLike,
    rewards: ArrayLike,
    propensities: ArrayLike,
    *,
    labels: ArrayLike | None = None,
    baseline: Any = 0.0,
) -> Floats:
    r"""Return estimated rewards of every row and action, from those of the actions taken.

    Parameters
    ----------
    actions : array-like of shape (n_samples,)
        Labels of the actions that were taken.
    rewards : array-like of shape (n_samples,)
        What they have earned.
    propensities : array-like of shape (n_samples,)
        Probability with which each was taken, above 0 and at most 1. Rows of small ones weigh much.
    labels : array-like of shape (n_actions,), default=None
        All actions, in the order of the columns; None: those that occur, sorted.
    baseline : float, "mean" or array-like of shape (n_samples, n_actions), default=0.0
        What rewards are guessed to be. 0 is inverse propensity weighting. "mean" is the mean
        reward weighed by inverse propensities, :math:`\sum_i (r_i/p_i) / \sum_i (1/p_i)`, which
        spares the estimate what propensities alone would do to it. The self-normalised estimate of
        a policy's value :math:`v` as `baseline` makes a fit maximise that estimate. Guesses by a
        model, for each row and action, make the estimate doubly robust: it is unbiased if either
        the propensities or the guesses are right.

    Returns
    -------
    rewards : ndarray of shape (n_samples, n_actions)
        For ``fit(X, actions, rewards=...)`` of :class:`grayzone.TightBoundLogisticRegression`.

    See Also
    --------
    grayzone.TightBoundLogisticRegression : Learns from rewards of every action.

    References
    ----------
    D. G. Horvitz and D. J. Thompson, "A generalization of sampling without replacement from a
    finite universe", Journal of the American Statistical Association, 1952.

    M. Dudík, J. Langford and L. Li, "Doubly robust policy evaluation and learning", ICML 2011.

    A. Swaminathan and T. Joachims, "The self-normalized estimator for counterfactual learning",
    NeurIPS 2015.

    Examples
    --------
    >>> from grayzone.decision import rewards_from_logs
    >>> rewards_from_logs(["mail", "call", "call"], [1.0, 0.0, 3.0], [0.5, 0.25, 0.25])
    array([[ 0.,  2.],
           [ 0.,  0.],
           [12.,  0.]])
    """
    taken = as_labels(actions, "actions")
    columns = np.unique(taken) if labels is None else as_labels(labels, "labels")
    own = taken[:, None] == columns[None, :]
    if not np.all(np.any(own, axis=1)):
        row = int(np.argmin(np.any(own, axis=1)))
        raise ValueError(
            f"actions has {taken.tolist()[row]!r} in row {row}, which is none of the labels "
            f"{listed(columns)}."
        )
    earned = _of_rows(rewards, "rewards", len(taken))
    chances = _of_rows(propensities, "propensities", len(taken))
    if np.any((chances <= 0.0) | (chances > 1.0)):
        row = int(np.argmax((chances <= 0.0) | (chances > 1.0)))
        raise ValueError(
            f"propensities must be above 0 and at most 1: what was taken was possible; got "
            f"{chances[row]:g} in row {row}."
        )
    guesses = _guesses(baseline, earned, chances, own.shape)
    return guesses + np.where(own, (earned[:, None] - guesses) / chances[:, None], 0.0)


def _of_rows(values: ArrayLike, name: str, n_rows: int) -> Floats:
    try:
        numbers = as_numpy(values).astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be made of numbers; got {values!r}.") from error
    if numbers.shape != (n_rows,):
        raise ValueError(f"{name} has shape {numbers.shape}; expected ({n_rows},), one a row.")
    if not np.all(np.isfinite(numbers)):
        row = int(np.argmin(np.isfinite(numbers)))
        raise ValueError(f"{name} must be finite; got {numbers[row]:g} in row {row}.")
    return numbers


def _guesses(baseline: Any, earned: Floats, chances: Floats, shape: tuple[int, ...]) -> Array:
    """Return what rewards (n, A) are guessed to be."""
    if isinstance(baseline, str) and baseline == "mean":
        return np.full(shape, float(np.average(earned, weights=1.0 / chances)))
    try:
        guesses = as_numpy(baseline).astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"baseline must be a number, 'mean' or an array; got {baseline!r}."
        ) from error
    if guesses.shape not in ((), shape) or not np.all(np.isfinite(guesses)):
        raise ValueError(
            f"baseline must be finite, and a number or of shape {shape}; got shape {guesses.shape}."
        )
    return np.broadcast_to(guesses, shape)
