r"""The minimax direction of two features, in closed form up to one root.

With :math:`a = p + t n`, p along the difference of the means and n across it, each standard
deviation is :math:`s_k\sqrt{(t - u_k)^2 + v_k}`: the criterion (11) of Strohmann et al. (2004) is
a convex function of t whose minimum lies between :math:`u_1` and :math:`u_2`. The roots of the
quartic that squaring leads to lose digits, and do not exist where a covariance is singular.
"""

from __future__ import annotations

from math import inf, sqrt
from typing import NamedTuple

_EPS = 2.3e-16

Pair = tuple[float, float]
Covariance = tuple[float, float, float]  # of the first feature, of both, of the second


class Plane(NamedTuple):
    """A direction a with a'(x - y) = 1, and the standard deviations of the classes along it."""

    first: float
    second: float
    s_x: float
    s_y: float

    @property
    def m(self) -> float:
        """What is minimised, s_x + s_y."""
        return self.s_x + self.s_y

    def m_at(self, ratio: float) -> float:
        """What is minimised where kappa_x is to be that many times kappa_y."""
        return ratio * self.s_x + self.s_y

    def kappas(self, ratio: float) -> Pair:
        """What the classes y and x are bounded by, of that ratio."""
        m = self.m_at(ratio)
        return (1.0 / m, ratio / m) if m > 0.0 else (inf, inf)


class PlaneMoments(NamedTuple):
    """Moments of two classes in two features, or in the second one of them alone.

    ``difference`` is that of the means, x minus y; ``x`` and ``y`` are the covariances.
    """

    difference: Pair
    x: Covariance
    y: Covariance
    alone: bool = False

    @property
    def separable(self) -> bool:
        """Whether neither class varies along the best direction: all ratios are as good."""
        return self.at().m == 0.0

    def at(self, ratio: float = 1.0) -> Plane:
        """Best direction with kappa_x = ratio * kappa_y; NOWHERE where the means are the same."""
        if self.alone:
            return best_of_line(self.difference[1], self.x[2], self.y[2])
        return best_of_plane(self.difference, self.x, self.y, ratio)

    def kappas(self, ratio: float) -> Pair:
        """What the classes y and x are bounded by along it."""
        return self.at(ratio).kappas(ratio)


NOWHERE = Plane(0.0, 0.0, inf, inf)


def best_of_line(difference: float, variance_x: float, variance_y: float) -> Plane:
    """Direction of one feature, the second: eq. (8)."""
    if difference == 0.0:
        return NOWHERE
    a = 1.0 / difference
    return Plane(0.0, a, abs(a) * sqrt(variance_x), abs(a) * sqrt(variance_y))


def best_of_plane(difference: Pair, x: Covariance, y: Covariance, ratio: float = 1.0) -> Plane:
    """Direction of two features that minimises the sum of the standard deviations.

    That of class x counts ``ratio`` times.

    Examples
    --------
    >>> from grayzone.solvers.minimax.plane import best_of_plane
    >>> best_of_plane((4.0, 0.0), (1.0, 0.0, 1.0), (1.0, 0.0, 1.0))
    Plane(first=0.25, second=0.0, s_x=0.25, s_y=0.25)
    """
    # in units of each feature; one that does not vary is measured by what it differs by
    q1 = sqrt(x[0] + y[0]) or abs(difference[0]) or 1.0
    q2 = sqrt(x[2] + y[2]) or abs(difference[1]) or 1.0
    d1, d2 = difference[0] / q1, difference[1] / q2
    square = d1 * d1 + d2 * d2
    if not square > 0.0:
        return NOWHERE
    p, n = (d1 / square, d2 / square), (-d2 / square, d1 / square)
    arms = [_arm(_scaled(c, q1, q2), p, n, square) for c in (x, y)]
    t = _crossing(arms[0].times(ratio), arms[1])
    s_x, s_y = (arm.deviation(t) for arm in arms)
    return Plane((p[0] + t * n[0]) / q1, (p[1] + t * n[1]) / q2, s_x, s_y)


def _scaled(c: Covariance, q1: float, q2: float) -> Covariance:
    return c[0] / q1 / q1, c[1] / q1 / q2, c[2] / q2 / q2


class _Arm(NamedTuple):
    """A standard deviation along the line: s sqrt((t - u)^2 + v), or a constant where s = 0."""

    s: float
    u: float
    v: float
    constant: float

    def deviation(self, t: float) -> float:
        return self.s * sqrt((t - self.u) ** 2 + self.v) if self.s > 0.0 else self.constant

    def times(self, factor: float) -> _Arm:
        return self._replace(s=factor * self.s, constant=factor * self.constant)

    def slope(self, t: float) -> tuple[float, float]:
        """First and second derivative; 0 at the kink of an arm without v."""
        r = sqrt((t - self.u) ** 2 + self.v)
        return (self.s * (t - self.u) / r, self.s * self.v / r / r / r) if r > 0.0 else (0.0, inf)


def _arm(c: Covariance, p: Pair, n: Pair, square: float) -> _Arm:
    def form(a: Pair, b: Pair) -> float:
        return a[0] * (c[0] * b[0] + c[1] * b[1]) + a[1] * (c[1] * b[0] + c[2] * b[1])

    across, along = form(n, n), form(p, p)
    # of which rounding leaves as much where the features cancel
    noise = (abs(n[0]) * sqrt(c[0]) + abs(n[1]) * sqrt(c[2])) ** 2
    if not across > 4.0 * _EPS * noise:
        return _Arm(0.0, 0.0, 0.0, sqrt(max(along, 0.0)))
    determinant = c[0] * c[2] - c[1] * c[1]
    if determinant <= 4.0 * _EPS * c[0] * c[2]:
        determinant = 0.0  # rounding errors of a singular covariance
    return _Arm(sqrt(across), -form(n, p) / across, determinant / (square * across) ** 2, 0.0)


def _crossing(one: _Arm, other: _Arm) -> float:
    """Minimise the sum of two arms: safeguarded Newton steps on the slope, between their feet."""
    if not (one.s > 0.0 and other.s > 0.0):
        return one.u if one.s > 0.0 else other.u
    low, high = min(one.u, other.u), max(one.u, other.u)
    t = 0.5 * (low + high)
    for _ in range(200):
        (g1, h1), (g2, h2) = one.slope(t), other.slope(t)
        slope, bend = g1 + g2, h1 + h2
        if slope > 0.0:
            high = t
        else:
            low = t
        step = t - slope / bend if 0.0 < bend < inf else 0.5 * (low + high)
        after = step if low < step < high else 0.5 * (low + high)
        if slope == 0.0 or abs(after - t) <= _EPS * abs(t) or high - low <= _EPS * abs(high):
            break
        t = after
    # a kink is met exactly, not up to rounding
    return min((t, one.u, other.u), key=lambda x: one.deviation(x) + other.deviation(x))
