r"""Directions that keep two classes apart in the worst case, given their means and covariances.

For a direction a with :math:`a'(\bar x - \bar y) = 1` and standard deviations
:math:`\sigma_x = \sqrt{a'\Sigma_x a}`, :math:`\sigma_y`, some threshold is right for a share of at
least :math:`\kappa^2 / (1 + \kappa^2)` of each class, whatever their distributions are, when
:math:`\kappa_x\sigma_x + \kappa_y\sigma_y \le 1` (Marshall & Olkin; Lanckriet et al., 2002). The
best pairs :math:`(\kappa_x, \kappa_y)` have a ratio r each and come from

.. math:: m_r = \min_a\; r\sigma_x + \sigma_y, \qquad \kappa_x = r / m_r,\ \kappa_y = 1 / m_r.

As :math:`(r\sigma_x + \sigma_y)^2 = \min_\theta r^2\sigma_x^2/\theta + \sigma_y^2/(1-\theta)`, one
simultaneous diagonalisation of both covariances leaves a concave function of one variable,

.. math:: \frac{1}{m_r^2} = \max_\theta \sum_i
          \frac{c_i^2}{r^2\lambda_i/\theta + (1-\lambda_i)/(1-\theta)}.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp
from typing import Any

import numpy as np
from scipy.optimize import brentq

Array = Any

# Share of the largest standard deviation below which a direction has none.
_NO_VARIANCE = 1e-13
# Part of the difference of the means, relative, that may lie in directions without variance.
_NO_DIFFERENCE = 1e-9
_ASIDE = 1e-9  # of the distance of the means, that a threshold keeps from either
_FARTHEST = 80.0  # log-odds of theta


@dataclass(frozen=True)
class Direction:
    """A direction of the frontier.

    ``coef`` has the difference of the means projected to 1; ``deviations`` are the standard
    deviations of the classes y and x along it, ``kappas`` what each is bounded by.
    """

    coef: Array
    deviations: tuple[float, float]
    kappas: tuple[float, float]
    residual: float  # of the optimality conditions, relative

    @property
    def reach(self) -> float:
        """Distance of the threshold from the mean of class x; half way where nothing varies.

        A class without variance is on its side of the threshold, not on it.
        """
        kappa = self.kappas[1]
        if not np.isfinite(kappa):
            return 0.5
        if not max(self.kappas) > 0.0:
            return 0.0
        return min(max(kappa * self.deviations[1], _ASIDE), 1.0 - _ASIDE)

    @property
    def bounds(self) -> tuple[float, float]:
        """Worst-case accuracies of the classes y and x."""
        return bound_of(self.kappas[0]), bound_of(self.kappas[1])


def bound_of(kappa: float) -> float:
    """Worst-case accuracy at a distance of so many standard deviations: kappa^2 / (1 + kappa^2).

    Examples
    --------
    >>> from grayzone.solvers.minimax import bound_of
    >>> bound_of(2.0), bound_of(-1.0)
    (0.8, 0.0)
    """
    if kappa <= 0.0:
        return 0.0
    return kappa**2 / (1.0 + kappa**2) if kappa < 1.0 else 1.0 / (1.0 + (1.0 / kappa) ** 2)


class Frontier:
    """All best directions of two classes.

    Parameters
    ----------
    difference : array of shape (d,)
        Mean of class x minus that of class y.
    root_y, root_x : arrays of shape (k, d)
        Roots R of the covariances R'R, which may be singular.

    Examples
    --------
    >>> import numpy as np
    >>> from grayzone.solvers.minimax import Frontier
    >>> found = Frontier(np.array([4.0, 0.0]), np.eye(2), np.eye(2)).at(1.0)
    >>> found.coef.round(12), [round(kappa, 12) for kappa in found.kappas]
    (array([0.25, 0.  ]), [2.0, 2.0])
    """

    def __init__(self, difference: Array, root_y: Array, root_x: Array) -> None:
        roots = np.concatenate([root_x, root_y])
        # in units of each feature, so that their scales do not enter the condition number
        scale = np.linalg.norm(roots, axis=0)
        # one that does not vary is measured by what it differs by
        scale = np.where(scale > 0.0, scale, np.abs(difference))
        scale = np.where(scale > 0.0, scale, 1.0)
        d = difference / scale
        left, sizes, right = np.linalg.svd(roots / scale, full_matrices=True)
        kept = np.zeros(right.shape[0], dtype=bool)
        kept[: sizes.size] = sizes > _NO_VARIANCE * max(float(sizes[0]), 1e-300)
        whiten = right[kept].T / sizes[kept[: sizes.size]]
        # cosines and sines of the two roots on the common span: shares of the classes in a variance
        _, cosines, rotation = np.linalg.svd(left[: len(root_x), : kept.sum()])
        self._cosines = np.zeros(kept.sum())
        self._cosines[: cosines.size] = np.minimum(cosines, 1.0)
        self._basis = (whiten @ rotation.T) / scale[:, None]
        self._sines = np.linalg.norm(left[len(root_x) :, : kept.sum()] @ rotation.T, axis=0)
        self._c = self._basis.T @ difference
        apart = right[~kept].T @ (right[~kept] @ d)
        self.separable = bool(np.linalg.norm(apart) > _NO_DIFFERENCE * np.linalg.norm(d))
        self._apart = apart / (scale * max(float(apart @ d), 1e-300))

    def at(self, ratio: float) -> Direction:
        """Direction with kappa_x = ratio * kappa_y."""
        if self.separable:
            return Direction(self._apart, (0.0, 0.0), (np.inf, np.inf), 0.0)
        theta = self._theta(ratio)
        z = self._c / self._stretch(*theta, ratio)
        along = float(z @ self._c)
        if not along > 0.0:
            return Direction(np.zeros(len(self._basis)), (0.0, 0.0), (0.0, 0.0), 0.0)
        return self._direction(z / along, ratio)

    def _stretch(self, theta: float, rest: float, ratio: float) -> Array:
        """r^2 lambda / theta + (1 - lambda) / (1 - theta), from theta and 1 - theta."""
        first, second = (ratio * self._cosines) ** 2 / theta, self._sines**2 / rest
        return np.maximum(first + second, 1e-300)

    def _theta(self, ratio: float) -> tuple[float, float]:
        """Maximise the concave function of theta, by the root of its slope in log-odds.

        Gives theta and 1 - theta. Where one class has no variance that matters the maximum lies at
        an end.
        """
        square = self._c**2

        def slope(t: float) -> float:
            theta, rest = _sigmoids(t)
            # times theta (1 - theta), which is what d theta / d t comes to
            gain = (ratio * self._cosines) ** 2 * rest / theta - self._sines**2 * theta / rest
            return float(np.sum(square * gain / self._stretch(theta, rest, ratio) ** 2))

        low, high = -1.0, 1.0
        while low > -_FARTHEST and not slope(low) > 0.0:
            low *= 2.0
        while high < _FARTHEST and not slope(high) < 0.0:
            high *= 2.0
        if slope(low) > 0.0 > slope(high):
            return _sigmoids(float(brentq(slope, low, high, xtol=1e-14, rtol=1e-15)))
        return _sigmoids(low if not slope(low) > 0.0 else high)

    def _direction(self, z: Array, ratio: float) -> Direction:
        s_y, s_x = (float(np.linalg.norm(part * z)) for part in (self._sines, self._cosines))
        m = ratio * s_x + s_y
        coef = self._basis @ z
        if not m > 0.0:
            return Direction(coef, (0.0, 0.0), (np.inf, np.inf), 0.0)
        residual = self._residual(z, ratio, m, s_y, s_x)
        return Direction(coef, (s_y, s_x), (1.0 / m, ratio / m), residual)

    def _residual(self, z: Array, ratio: float, m: float, s_y: float, s_x: float) -> float:
        """What is left of r Sigma_x a / s_x + Sigma_y a / s_y = m d, in whitened coordinates.

        A class without variance along a has a cone of subgradients; the best of them counts.
        """
        left, free = -m * self._c, []
        for weight, part, s in ((1.0, self._sines, s_y), (ratio, self._cosines, s_x)):
            if s > 1e-13 * m:
                left = left + weight * part**2 * z / s
            else:
                free.append(weight * part)
        for part in free:
            inside = part > 1e-13
            u = np.where(inside, left / np.where(inside, part, 1.0), 0.0)
            left = left - part * u / max(1.0, float(np.linalg.norm(u)))
        return float(np.linalg.norm(left) / (m * np.linalg.norm(self._c)))


def _sigmoids(t: float) -> tuple[float, float]:
    return 1.0 / (1.0 + exp(-t)), 1.0 / (1.0 + exp(t))
