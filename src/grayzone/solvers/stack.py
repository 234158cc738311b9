r"""Several classifiers' log-probabilities as one: slopes that are not negative, free intercepts.

For scores :math:`S_{m}(x) \in \mathbb{R}^K` of M classifiers,

.. math:: p(x) = \mathrm{softmax}\Bigl(\sum_m w_m S_m(x) + b\Bigr), \qquad
          \min_{w \ge 0,\, b} \; -\sum_i \omega_i \sum_k t_{ik} \log p_k(x_i)
          + \rho \sum_m (w_m - \bar w)^2,

which is convex. One classifier without a penalty and with Platt's targets is a calibration by a
sigmoid on log-odds; several with the penalty :math:`\rho = 10` towards equal weights are a stack.

References
----------
J. Platt, "Probabilistic outputs for support vector machines", 1999.
L. Breiman, "Stacked regressions", Machine Learning, 1996.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import log_softmax

from grayzone.numerics.checks import Floats

Array = Any

RIDGE = 10.0  # of a stack, towards equal weights
LEAST = 1e-3  # probability that is told apart from none: log-odds stay within 6.9
_KEEP = 1e-6  # ridge of a calibration, for scores that say nothing
_TOL = 1e-9  # largest slope along which the mean loss still falls
_STEPS = 100


@dataclass(frozen=True)
class Stack:
    """Weights of classifiers, intercepts of classes, and how far from the optimum they are.

    Attributes
    ----------
    weights : ndarray of shape (M,)
        Slopes, none negative.
    intercept : ndarray of shape (K,)
        Intercepts; that of the first class is zero.
    objective : float
        The criterion, with the sum over rows.
    kkt_residual : float
        Largest violation of the conditions of optimality, for each unit of weight of the rows.
    """

    weights: Floats
    intercept: Floats
    objective: float
    kkt_residual: float

    def log_proba(self, scores: Floats) -> Floats:
        """Return the log-probabilities of rows with scores (M, n, K)."""
        return log_softmax(np.tensordot(self.weights, scores, 1) + self.intercept, axis=1)


def log_scores(proba: Floats) -> Floats:
    """Return log-probabilities whose mean over the classes is zero, none of them extreme.

    Half the difference of two classes' is their log-odds.

    Examples
    --------
    >>> import numpy as np
    >>> from grayzone.solvers.stack import log_scores
    >>> log_scores(np.asarray([[0.5, 0.5], [0.0, 1.0]])).round(2)
    array([[ 0.  ,  0.  ],
           [-3.45,  3.45]])
    """
    held = np.clip(proba, LEAST, 1.0 - LEAST)
    logs = np.log(held / held.sum(axis=1, keepdims=True))
    centred: Floats = logs - logs.mean(axis=1, keepdims=True)
    return centred


def calibrate(scores: Floats, codes: Array, weight: Floats, start: Stack | None = None) -> Stack:
    r"""Fit a slope and intercepts to one classifier's scores (n, K), by Platt's method.

    A row of a class of weight :math:`N` has the target :math:`(N + 1) / (N + K)` for it, and the
    rest for the others, so that the slope stays finite where nothing is misjudged. A ``start``
    from nearly the same rows saves steps.
    """
    K = scores.shape[1]
    mass = np.bincount(codes, weight, minlength=K)[codes]
    targets = np.repeat((1.0 / (mass + K))[:, None], K, axis=1)
    targets[np.arange(len(codes)), codes] = (mass + 1.0) / (mass + K)
    return minimise_stack(scores[None], targets, weight, ridge=_KEEP, towards=1.0, start=start)


def fit_stack(scores: Floats, codes: Array, weight: Floats, start: Stack | None = None) -> Stack:
    """Fit weights of several classifiers' calibrated scores (M, n, K)."""
    M, _, K = scores.shape
    targets = np.eye(K)[codes]
    return minimise_stack(scores, targets, weight, ridge=RIDGE, towards=1.0 / M, start=start)


def minimise_stack(
    scores: Floats,
    targets: Floats,
    weight: Floats,
    *,
    ridge: float,
    towards: float,
    start: Stack | None = None,
) -> Stack:
    """Minimise the criterion by Newton steps on what is not held at zero.

    Parameters
    ----------
    scores : ndarray of shape (M, n, K)
        Scores of each classifier.
    targets : ndarray of shape (n, K)
        What the classes of rows are; rows sum to one.
    weight : ndarray of shape (n,)
        Weights of the rows.
    ridge, towards : float
        Strength of the penalty on weights, and where it draws them.
    start : Stack, default=None
        Where to begin; None: at the weights that the penalty draws to.

    Returns
    -------
    stack : Stack
        The optimum, with its certificate.
    """
    problem = _Problem(scores, targets, weight, ridge, towards)
    M = len(scores)
    point = np.concatenate([np.full(M, towards), np.zeros(scores.shape[2] - 1)])
    if start is not None:
        point = np.concatenate([start.weights, start.intercept[1:]])
    value, gradient, hessian = problem.at(point)
    for _ in range(_STEPS):
        if problem.residual(point, gradient) <= _TOL:
            break
        free = np.ones(len(point), dtype=bool)
        # a step away from zero of what is drawn below it would be no descent (Bertsekas, 1982)
        free[:M] = (point[:M] > 0.0) | (gradient[:M] < 0.0)
        step = np.zeros(len(point))
        step[free] = np.linalg.lstsq(hessian[np.ix_(free, free)], -gradient[free])[0]
        found = problem.lower(point, value, gradient, step)
        if found is None:
            break
        point, (value, gradient, hessian) = found, problem.at(found)
    intercept = np.concatenate([[0.0], point[M:]])
    return Stack(point[:M], intercept, value, problem.residual(point, gradient))


@dataclass(frozen=True)
class _Problem:
    """The criterion as a function of the weights and the intercepts of all but the first class."""

    scores: Floats
    targets: Floats
    weight: Floats
    ridge: float
    towards: float

    def logs(self, point: Floats) -> Floats:
        """Log-probabilities of the rows."""
        M = len(self.scores)
        return Stack(point[:M], np.concatenate([[0.0], point[M:]]), 0.0, 0.0).log_proba(self.scores)

    def value(self, point: Floats) -> float:
        away = point[: len(self.scores)] - self.towards
        loss = self.weight @ np.sum(self.targets * self.logs(point), axis=1)
        return float(self.ridge * (away @ away) - loss)

    def at(self, point: Floats) -> tuple[float, Floats, Floats]:
        """Value, gradient and Hessian."""
        M, _, K = self.scores.shape
        away = point[:M] - self.towards
        logs = self.logs(point)
        proba = np.exp(logs)
        loss = self.weight @ np.sum(self.targets * logs, axis=1)
        # scores and indicators of classes (P, n, K): what the parameters are slopes of
        parts = np.concatenate(
            [self.scores, np.broadcast_to(np.eye(K)[1:, None, :], (K - 1, *proba.shape))]
        )
        gradient = np.einsum("pik,ik->p", parts, self.weight[:, None] * (proba - self.targets))
        gradient[:M] += 2.0 * self.ridge * away
        centred = parts - np.einsum("pik,ik->pi", parts, proba)[:, :, None]
        rooted = (centred * np.sqrt(self.weight[:, None] * proba)).reshape(len(parts), -1)
        hessian = rooted @ rooted.T
        hessian[np.arange(M), np.arange(M)] += 2.0 * self.ridge
        return float(self.ridge * (away @ away) - loss), gradient, hessian

    def residual(self, point: Floats, gradient: Floats) -> float:
        """Largest slope along which a permitted step would descend, per unit of weight."""
        M = len(self.scores)
        slopes = np.abs(gradient)
        slopes[:M] = np.where(point[:M] > 0.0, slopes[:M], np.maximum(-gradient[:M], 0.0))
        return float(slopes.max() / self.weight.sum())

    def lower(self, point: Floats, value: float, gradient: Floats, step: Floats) -> Floats | None:
        """Return a lower point along a step that is cut off at zero, or None: rounding is left."""
        M, length = len(self.scores), 1.0
        for _ in range(40):
            trial = point + length * step
            trial[:M] = np.maximum(trial[:M], 0.0)
            if self.value(trial) <= value + 1e-4 * float(gradient @ (trial - point)):
                return trial
            length *= 0.5
        return None
