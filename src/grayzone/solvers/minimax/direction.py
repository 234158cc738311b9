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

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp
from typing import Any

import numpy as np
from scipy.optimize import brentq

from grayzone.numerics.backend import moved
from grayzone.numerics.checks import as_numpy
from grayzone.numerics.namespace import array_namespace

Array = Any

# Share of the largest standard deviation below which a direction has none.
_NO_VARIANCE = 1e-13
# Part of the difference of the means, relative, that may lie in directions without variance.
_NO_DIFFERENCE = 1e-9
_LEAST_SCALE = 1e-290  # of a feature, whose inverse is a double with room to spare
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
        return reach_of(self.kappas, self.deviations[1])

    @property
    def bounds(self) -> tuple[float, float]:
        """Worst-case accuracies of the classes y and x, where their moments are right."""
        return bound_of(self.kappas[0]), bound_of(self.kappas[1])


def reach_of(kappas: tuple[float, float], deviation: float) -> float:
    """Distance of the threshold from the mean of class x, that of the means being 1."""
    if not np.isfinite(kappas[1]):
        return 0.5
    if not max(kappas) > 0.0:
        return 0.0
    return min(max(kappas[1] * deviation, _ASIDE), 1.0 - _ASIDE)


def bound_of(kappa: float) -> float:
    """Worst-case accuracy at a distance of so many standard deviations: kappa^2 / (1 + kappa^2).

    Examples
    --------
    >>> from grayzone.solvers.minimax.direction import bound_of
    >>> bound_of(2.0), bound_of(-1.0)
    (0.8, 0.0)
    """
    if kappa <= 0.0:
        return 0.0
    return kappa**2 / (1.0 + kappa**2) if kappa < 1.0 else 1.0 / (1.0 + (1.0 / kappa) ** 2)


def joint_bound(bounds: Sequence[float]) -> float:
    r"""Bound of the share of rows that all of several machines are right about.

    A row is lost where one machine at least is wrong; whatever else the events have to do with each
    other, that has a probability of at most the sum of theirs (Boole's inequality):
    :math:`1 - \sum_k (1 - \Omega_k)`, and no less than 0; that of one machine is its own.

    Examples
    --------
    >>> from grayzone.solvers.minimax.direction import joint_bound
    >>> joint_bound([0.875, 0.9375]), joint_bound([0.5, 0.25, 0.5])
    (0.8125, 0.0)
    """
    if len(bounds) == 1:
        return float(bounds[0])
    return max(0.0, 1.0 - sum(1.0 - bound for bound in bounds))


class Frontier:
    """All best directions of two classes.

    The covariances are decomposed once, where they are; what is left are vectors, which are
    NumPy's, and the search for a direction makes use of nothing else.

    Parameters
    ----------
    difference : array of shape (d,)
        Mean of class x minus that of class y.
    root_y, root_x : arrays of shape (k, d)
        Roots R of the covariances R'R, which may be singular; of the same library.

    Examples
    --------
    >>> import numpy as np
    >>> from grayzone.solvers.minimax.direction import Frontier
    >>> found = Frontier(np.array([4.0, 0.0]), np.eye(2), np.eye(2)).at(1.0)
    >>> found.coef.round(12), [round(kappa, 12) for kappa in found.kappas]
    (array([0.25, 0.  ]), [2.0, 2.0])
    """

    def __init__(self, difference: Array, root_y: Array, root_x: Array) -> None:
        xp = array_namespace(difference)
        roots = xp.concat([root_x, root_y])
        # in units of each feature, so that their scales do not enter the condition number
        scale = xp.linalg.vector_norm(roots, axis=0)
        # one that does not vary is measured by what it differs by
        scale = xp.where(scale > 0.0, scale, xp.abs(difference))
        scale = xp.where(scale > 0.0, scale, xp.ones_like(scale))
        least = float(xp.min(scale))
        if least < _LEAST_SCALE:
            raise ValueError(
                f"Rows that vary by {least:.2g} only have no direction in double precision; scale "
                "the features."
            )
        d = difference / scale
        left, sizes, right = _svd(roots / scale)
        varies = sizes > _NO_VARIANCE * max(float(sizes[0]), 1e-300)
        rank = int(xp.sum(xp.astype(varies, xp.int64)))
        whiten = right[:rank, :].T / sizes[:rank]
        # cosines and sines of the two roots on the common span: shares of the classes in a variance
        n_x = root_x.shape[0]
        _, cosines, rotation = _svd(left[:n_x, :rank])
        self._cosines = np.zeros(rank)
        self._cosines[: cosines.shape[0]] = np.minimum(as_numpy(cosines), 1.0)
        self._basis = (whiten @ rotation.T) / scale[:, None]
        sines = xp.linalg.vector_norm(left[n_x:, :rank] @ rotation.T, axis=0)
        self._sines, self._c = as_numpy(sines), as_numpy(self._basis.T @ difference)
        apart = right[rank:, :].T @ (right[rank:, :] @ d)
        norms = [float(xp.linalg.vector_norm(v)) for v in (apart, d)]
        self.separable = norms[0] > _NO_DIFFERENCE * norms[1]
        self._apart = apart / max(float(apart @ d), 1e-300) / scale

    def at(self, ratio: float) -> Direction:
        """Direction with kappa_x = ratio * kappa_y."""
        if self.separable:
            return Direction(self._apart, (0.0, 0.0), (np.inf, np.inf), 0.0)
        z, deviations, kappas = self._whitened(ratio)
        coef = self._basis @ moved(z, self._basis)
        residual = 0.0
        if 0.0 < kappas[0] < np.inf:
            residual = self._residual(z, ratio, *deviations)
        return Direction(coef, deviations, kappas, residual)

    def kappas(self, ratio: float) -> tuple[float, float]:
        """What the classes y and x are bounded by along that direction, at less expense."""
        return (np.inf, np.inf) if self.separable else self._whitened(ratio)[2]

    def _whitened(self, ratio: float) -> tuple[Array, tuple[float, float], tuple[float, float]]:
        """Direction in whitened coordinates, standard deviations along it, and kappas."""
        z = self._c / self._stretch(*self._theta(ratio), ratio)
        along = float(z @ self._c)
        if not along > 0.0:
            return np.zeros_like(z), (0.0, 0.0), (0.0, 0.0)
        z = z / along
        s_y, s_x = (float(np.linalg.norm(part * z)) for part in (self._sines, self._cosines))
        m = ratio * s_x + s_y
        if not m > 0.0:
            return z, (0.0, 0.0), (np.inf, np.inf)
        return z, (s_y, s_x), (1.0 / m, ratio / m)

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

        if not np.isfinite(slope(0.0)):
            raise FloatingPointError("distances of the class means are out of range")
        low, high = -1.0, 1.0
        while low > -_FARTHEST and not slope(low) > 0.0:
            low *= 2.0
        while high < _FARTHEST and not slope(high) < 0.0:
            high *= 2.0
        if slope(low) > 0.0 > slope(high):
            return _sigmoids(float(brentq(slope, low, high, xtol=1e-14, rtol=1e-15)))
        return _sigmoids(low if not slope(low) > 0.0 else high)

    def _residual(self, z: Array, ratio: float, s_y: float, s_x: float) -> float:
        """What is left of r Sigma_x a / s_x + Sigma_y a / s_y = m d, in whitened coordinates.

        A class without variance along a has a cone of subgradients; the best of them counts.
        """
        m = ratio * s_x + s_y
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


def _svd(A: Array) -> tuple[Array, Array, Array]:
    """Singular values, their left vectors, and right ones for all columns."""
    wide = A.shape[0] < A.shape[1]
    left, sizes, right = array_namespace(A).linalg.svd(A, full_matrices=wide)
    return left, sizes, right


def _sigmoids(t: float) -> tuple[float, float]:
    return 1.0 / (1.0 + exp(-t)), 1.0 / (1.0 + exp(t))
