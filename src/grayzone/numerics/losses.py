"""Pointwise losses in score space; no design matrix in sight.

A row's *margin* ``u`` is the log-odds against its own class: ``u = -y (f(x) + b)`` for two
classes, ``u = log((1 - p_y) / p_y)`` for more. The truncated log-likelihood of Hérault &
Grandvalet (2007, eq. (8)) is the one-dimensional loss

    h(u) = log(1 + exp(max(u, F)))

whose *floor* ``F`` is where the loss stops rewarding certainty: ``F = -logit(p_max)`` for the
positive class, ``F = logit(p_min)`` for the negative class and ``F = -logit(cap_y)`` for class
``y`` of many. ``F = -inf`` is the plain logistic loss. The loss has a kink at ``u = F``.

Everything is written against the array API, and is finite for every margin from -1e308 to 1e308.

References
----------
Hérault, R. & Grandvalet, Y. (2007). Sparse probabilistic classifiers. ICML.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from grayzone.numerics.columns import ends
from grayzone.numerics.namespace import array_namespace
from grayzone.numerics.pieces import are_many, looped

__all__ = [
    "Logistic",
    "Ramp",
    "SmoothedLogistic",
    "TruncatedLogistic",
    "logit",
    "sigmoid",
    "softplus",
    "xlogx",
]

Array = Any  # an array of any array API namespace


def softplus(u: Array) -> Array:
    """Return log(1 + exp(u)) without overflow, relative accuracy kept for very negative u.

    Parameters
    ----------
    u : array
        Numbers.

    Returns
    -------
    array
        Of the same shape.

    See Also
    --------
    sigmoid : Its derivative.

    Examples
    --------
    >>> import numpy as np
    >>> from grayzone.numerics.losses import softplus
    >>> softplus(np.array([-1.0, 0.0, 800.0])).round(4)
    array([3.133e-01, 6.931e-01, 8.000e+02])
    """
    xp = array_namespace(u)
    return xp.where(u > 0, u, 0.0) + xp.log1p(xp.exp(-xp.abs(u)))


def sigmoid(u: Array) -> Array:
    """Return 1 / (1 + exp(-u)) without overflow, relative accuracy kept on the left tail.

    Parameters
    ----------
    u : array
        Numbers.

    Returns
    -------
    array
        Of the same shape.

    See Also
    --------
    logit : The way back.

    Examples
    --------
    >>> import numpy as np
    >>> from grayzone.numerics.losses import sigmoid
    >>> sigmoid(np.array([-800.0, 0.0, 800.0]))
    array([0. , 0.5, 1. ])
    """
    xp = array_namespace(u)
    e = xp.exp(-xp.abs(u))
    return xp.where(u >= 0, 1.0, e) / (1.0 + e)


def logit(p: Array) -> Array:
    """Return log(p / (1 - p)) for p strictly between 0 and 1.

    Parameters
    ----------
    p : array
        Probabilities.

    Returns
    -------
    array
        Of the same shape.

    See Also
    --------
    sigmoid : The way back.

    Examples
    --------
    >>> import numpy as np
    >>> from grayzone.numerics.losses import logit
    >>> logit(np.array([0.2, 0.5])).round(4)
    array([-1.3863,  0.    ])
    """
    xp = array_namespace(p)
    return xp.log(p) - xp.log1p(-p)


def xlogx(a: Array) -> Array:
    """Return a log(a), 0 at 0.

    Parameters
    ----------
    a : array
        Numbers that are not negative.

    Returns
    -------
    array
        Of the same shape.

    See Also
    --------
    softplus : Its conjugate is a sum of two such terms.

    Examples
    --------
    >>> import numpy as np
    >>> from grayzone.numerics.losses import xlogx
    >>> xlogx(np.array([0.0, 1.0]))
    array([0., 0.])
    """
    xp = array_namespace(a)
    positive = a > 0
    return xp.where(positive, a * xp.log(xp.where(positive, a, 1.0)), 0.0)


# Below this distance the closed form loses more digits than the series leaves out.
_SERIES = 1e-4


def _bernoulli_bregman(a: Array, d: Array) -> Array:
    """KL distance of two Bernoulli laws: log(1 + a (e^d - 1)) - a d for a in [0, 1].

    The log-odds of the two laws differ by d. Never negative, and free of cancellation at small d.
    """
    xp = array_namespace(a, d)
    size = xp.abs(d)
    # The larger exponential is taken out, so that what is left of the logarithm is in (0, 1].
    gone = xp.where(d > 0, 1.0 - a, a)
    kept = xp.where(d > 0, a, 1.0 - a)
    certain = (a <= 0) | (a >= 1)
    inside = kept + gone * xp.exp(-size)
    inside = xp.where(certain, 1.0, inside)
    small = xp.where(size < 1.0, size, 1.0)
    tail = xp.where(size < 1.0, xp.log1p(gone * xp.expm1(-small)), xp.log(inside))
    tiny = xp.where(size < _SERIES, d, 0.0)
    series = 0.5 * a * (1.0 - a) * tiny**2 * (1.0 + (1.0 - 2.0 * a) * tiny / 3.0)
    value = xp.where(size < _SERIES, series, gone * size + tail)
    return xp.where(certain | (value < 0), 0.0, value)


class TruncatedLogistic:
    r"""The truncated logistic loss :math:`h(u) = \log(1 + e^{\max(u, F)})`, eq. (8).

    Parameters
    ----------
    floor : array of shape (n,)
        The floors F, one a row; ``-inf`` leaves that row the plain logistic loss.
    is_loaded : bool
        Whether there are compiled loops at work on the rows anyway.

    See Also
    --------
    Logistic : Without a floor.
    SmoothedLogistic : Without a kink.
    Ramp : With a ceiling as well.

    References
    ----------
    R. Hérault and Y. Grandvalet, "Sparse probabilistic classifiers", ICML 2007.

    Examples
    --------
    >>> import numpy as np
    >>> from grayzone.numerics.losses import TruncatedLogistic
    >>> loss = TruncatedLogistic(np.array([-1.0, -1.0]))
    >>> loss.value(np.array([-5.0, 2.0])).round(4)
    array([0.3133, 2.1269])
    """

    def __init__(self, floor: Array, is_loaded: bool = False) -> None:
        self.floor, self.is_loaded = floor, is_loaded

    @cached_property
    def slope_at_floor(self) -> Array:
        """Largest slope on the kink, sigma(F); 0 where there is no kink."""
        return sigmoid(self.floor)

    @cached_property
    def is_alike(self) -> bool:
        """Whether all rows have a floor, or none has; of NumPy's."""
        least, greatest = self.ends
        return least > -np.inf or greatest == -np.inf

    @cached_property
    def ends(self) -> tuple[float, float]:
        """Lowest and highest floor."""
        return ends(self.floor, self.is_loaded)

    @cached_property
    def finite_floor(self) -> Array:
        """Floors, 0 where infinite: a F is never formed with an infinite F, as 0 inf is not 0."""
        xp = array_namespace(self.floor)
        return xp.where(xp.isfinite(self.floor), self.floor, 0.0)

    def take(self, rows: Array) -> TruncatedLogistic:
        """Return the loss of these rows."""
        return TruncatedLogistic(self.floor[rows], self.is_loaded)

    def value(self, u: Array) -> Array:
        """Loss of each margin."""
        return softplus(array_namespace(u).maximum(u, self.floor))

    def slope(self, u: Array) -> Array:
        """Derivative; at the kink the value from the left, 0."""
        if are_many(u, self.floor, is_loaded=self.is_loaded):
            # compiles, so only when needed
            from grayzone.numerics import jit_losses

            first = np.empty(u.shape[0])
            looped(jit_losses.slope, u, self.floor, first, n_rows=u.shape[0])
            return first
        return array_namespace(u).where(u > self.floor, sigmoid(u), 0.0)

    def curvature(self, u: Array) -> Array:
        """Second derivative away from the kink; 0 on its left side and on it."""
        return self.slopes(u)[1]

    def slopes(self, u: Array) -> tuple[Array, Array]:
        """Slope and curvature, for the price of one exponential."""
        if are_many(u, self.floor, is_loaded=self.is_loaded):
            from grayzone.numerics import jit_losses

            first, second = np.empty(u.shape[0]), np.empty(u.shape[0])
            looped(jit_losses.slopes, u, self.floor, first, second, n_rows=u.shape[0])
            return first, second
        xp = array_namespace(u)
        e = xp.exp(-xp.abs(u))
        share = 1.0 / (1.0 + e)
        active = u > self.floor
        first = xp.where(active, xp.where(u >= 0, 1.0, e) * share, 0.0)
        return first, xp.where(active, e * share * share, 0.0)

    def value_sum(self, u: Array, weight: Array) -> float | None:
        """Sum of weighted losses in one compiled pass; None where rows are not many."""
        if not self._is_looped(u, weight):
            return None
        from grayzone.numerics import jit_losses

        return sum(looped(jit_losses.value_sum, u, self.floor, weight, n_rows=u.shape[0]))

    def fenchel_young_sum(
        self, y: Array, scores: Array, duals: Array, weight: Array
    ) -> float | None:
        """Sum of weighted Fenchel-Young losses of scores and duals (n, 1), likewise."""
        if not self._is_looped(y, scores[:, 0], duals[:, 0], weight):
            return None
        from grayzone.numerics import jit_losses

        columns = y, scores, self.floor, duals, weight
        return sum(looped(jit_losses.fenchel_young_sum, *columns, _SERIES, n_rows=y.shape[0]))

    def _is_looped(self, *columns: Array) -> bool:
        """Whether sums over rows are compiled; what stands in for this loss has other values."""
        plain = type(self) is TruncatedLogistic
        return plain and are_many(*columns, self.floor, is_loaded=self.is_loaded)

    def conjugate(self, a: Array) -> Array:
        r"""Convex conjugate :math:`h^*(a) = \sup_u\, a u - h(u)`, infinite outside [0, 1].

        :math:`a F - \log(1 + e^F)` for :math:`a \le \sigma(F)` and
        :math:`a \log a + (1-a) \log(1-a)` above.
        """
        xp = array_namespace(a)
        linear = a * self.finite_floor - softplus(self.floor)
        inside = xp.clip(a, min=0.0, max=1.0)
        entropy = xlogx(inside) + xlogx(1.0 - inside)
        value = xp.where(a <= self.slope_at_floor, linear, entropy)
        return xp.where((a < 0) | (a > 1), xp.inf, value)

    def fenchel_young(self, u: Array, a: Array) -> Array:
        """Fenchel-Young loss h(u) + h*(a) - a u >= 0, computed without cancellation.

        Zero exactly when ``a`` is a slope of h at ``u``. Summed over rows it is the part of a
        duality gap which the losses answer for.
        """
        xp = array_namespace(u, a)
        s, straight = self.slope_at_floor, a <= self.slope_at_floor
        above = u > self.floor
        rise = xp.where(above, u - self.finite_floor, 0.0)
        v = xp.maximum(u, self.floor)
        inside = ~straight & (a < 1)
        p = xp.where(inside, a, 0.5)
        # Bernoulli distance of sigmoid(max(u, F)) from sigmoid(F), or from a > s
        distance = _bernoulli_bregman(
            xp.where(straight, s, p), xp.where(straight, rise, v - logit(p))
        )
        # a <= s: the conjugate is the line a F - h(F)
        # without a floor, or a slope there that is a number, a = s = 0: softplus(u) is what remains
        bounded = s > 0.0
        lean = xp.where(straight, s - a, 0.0)
        climb = xp.where(bounded, distance + lean * rise, softplus(u))
        fall = a * xp.where(above | ~bounded, 0.0, self.finite_floor - u)
        low = xp.where(above, climb, fall)
        # a > s: that distance, and the ramp below F
        high = xp.where(inside, distance, softplus(-v)) + a * xp.where(above, 0.0, v - u)
        return xp.where((a < 0) | (a > 1), xp.inf, xp.where(straight, low, high))


class Logistic(TruncatedLogistic):
    """The plain logistic loss log(1 + exp(u)): the truncated one with its floor at -inf.

    Parameters
    ----------
    like : array of shape (n,)
        An array of the kind and length that the floors are to be.

    See Also
    --------
    TruncatedLogistic : With a floor.

    Examples
    --------
    >>> import numpy as np
    >>> from grayzone.numerics.losses import Logistic
    >>> float(Logistic(np.zeros(1)).value(np.zeros(1))[0])
    0.6931471805599453
    """

    def __init__(self, like: Array) -> None:
        xp = array_namespace(like)
        super().__init__(xp.full_like(like, -xp.inf))


class SmoothedLogistic:
    r"""The truncated loss with its kink rounded off by a polynomial, §4.1.

    :math:`h_\epsilon(u) = \log(1 + e^{F + m(u - F)})`, where m rounds max(0, t) on
    :math:`|t| \le \epsilon` with second derivative
    :math:`\tfrac{3}{4\epsilon}(1 - t^2/\epsilon^2)`: twice continuously differentiable and convex.

    Parameters
    ----------
    exact : TruncatedLogistic
        The loss to smooth.
    width : float
        Half the width of the rounded piece.

    See Also
    --------
    TruncatedLogistic : The loss that it rounds off.

    References
    ----------
    R. Hérault and Y. Grandvalet, "Sparse probabilistic classifiers", ICML 2007.

    Examples
    --------
    >>> import numpy as np
    >>> from grayzone.numerics.losses import SmoothedLogistic, TruncatedLogistic
    >>> loss = SmoothedLogistic(TruncatedLogistic(np.zeros(1)), 0.5)
    >>> loss.slope(np.zeros(1)).round(4)
    array([0.2617])
    """

    def __init__(self, exact: TruncatedLogistic, width: float) -> None:
        self.exact = exact
        self.width = width

    def _bent(self, u: Array) -> tuple[Any, Array, Array]:
        """Rows on the rounded piece, their place t in (-1, 1) on it, and their floors.

        In NumPy's memory these are few places; a device rather looks at all rows than for some.
        """
        xp, floor = array_namespace(u), self.exact.floor
        bent = xp.abs(u - floor) < self.width
        if isinstance(bent, np.ndarray):
            bent = bent.nonzero()[0]
            return bent, (u[bent] - floor[bent]) / self.width, floor[bent]
        floor = self.exact.finite_floor
        return bent, xp.clip(u - floor, min=-self.width, max=self.width) / self.width, floor

    @staticmethod
    def _filled(values: Array, bent: Any, own: Array) -> Array:
        """Values with their own ones on the rounded piece."""
        if isinstance(values, np.ndarray):
            values[bent] = own
            return values
        return array_namespace(values).where(bent, own, values)

    def _rounded(self, t: Array, floor: Array) -> Array:
        """Margin after rounding, F + m(u - F)."""
        square = t * t
        return floor + self.width * (3 / 16 + t / 2 + square * (3 / 8 - square / 16))

    def value(self, u: Array) -> Array:
        """Loss of each margin."""
        bent, t, floor = self._bent(u)
        return self._filled(self.exact.value(u), bent, softplus(self._rounded(t, floor)))

    def slope(self, u: Array) -> Array:
        """First derivative."""
        bent, t, floor = self._bent(u)
        own = sigmoid(self._rounded(t, floor)) * (0.5 + t * (0.75 - t * t / 4))
        return self._filled(self.exact.slope(u), bent, own)

    def curvature(self, u: Array) -> Array:
        """Second derivative."""
        return self.slopes(u)[1]

    def value_sum(self, u: Array, weight: Array) -> float | None:
        """Sum of weighted losses in one compiled pass; None where rows are not many."""
        floor = self.exact.floor
        if not are_many(u, floor, weight, is_loaded=self.exact.is_loaded):
            return None
        # compiles, so only when needed
        from grayzone.numerics import jit_losses

        columns = u, floor, weight, self.width
        return sum(looped(jit_losses.smoothed_sum, *columns, n_rows=u.shape[0]))

    def slopes(self, u: Array) -> tuple[Array, Array]:
        """Slope and curvature together."""
        floor = self.exact.floor
        if are_many(u, floor, is_loaded=self.exact.is_loaded):
            # compiles, so only when needed
            from grayzone.numerics import jit_losses

            own = np.empty((2, u.shape[0]))
            looped(jit_losses.smoothed_slopes, u, floor, self.width, *own, n_rows=u.shape[0])
            return own[0], own[1]
        slope, bend = self.exact.slopes(u)
        bent, t, floor = self._bent(u)
        p = sigmoid(self._rounded(t, floor))
        square = t * t
        first, second = 0.5 + t * (0.75 - square / 4), 0.75 * (1 - square) / self.width
        own = p * ((1.0 - p) * first * first + second)
        return self._filled(slope, bent, p * first), self._filled(bend, bent, own)


class Ramp:
    r"""The loss saturated on both sides, :math:`\log(1 + e^{\min(\max(u, F), G)})`, §3.3.

    It is the smaller of a convex loss and a constant, ``min(h(u), log(1 + e^G))``: rows beyond the
    ceiling G are given up. The convex part is ``convex``, and majorising the minimum by
    the piece in force gives a descent method: fit the convex loss to the rows not given up.

    Parameters
    ----------
    floor, ceiling : arrays of shape (n,)
        F and G, F < G.

    See Also
    --------
    TruncatedLogistic : Its convex part.

    References
    ----------
    R. Hérault and Y. Grandvalet, "Sparse probabilistic classifiers", ICML 2007.

    Examples
    --------
    >>> import numpy as np
    >>> from grayzone.numerics.losses import Ramp
    >>> Ramp(np.array([-1.0]), np.array([1.0])).value(np.array([50.0])).round(4)
    array([1.3133])
    """

    def __init__(self, floor: Array, ceiling: Array) -> None:
        self.convex = TruncatedLogistic(floor)
        self.ceiling = ceiling

    def value(self, u: Array) -> Array:
        """Loss of each margin."""
        return self.convex.value(array_namespace(u).minimum(u, self.ceiling))

    def given_up(self, u: Array) -> Array:
        """Return which rows lie beyond the ceiling, where nothing pulls any more."""
        return u > self.ceiling

    def slope(self, u: Array) -> Array:
        """Derivative; 0 on both saturated sides."""
        return array_namespace(u).where(self.given_up(u), 0.0, self.convex.slope(u))

    def curvature(self, u: Array) -> Array:
        """Second derivative away from both kinks."""
        return array_namespace(u).where(self.given_up(u), 0.0, self.convex.curvature(u))
