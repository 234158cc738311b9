"""Maps from scores to margins, for two classes and for more; no design matrix in sight.

A row's *margin* ``u`` is the log-odds against its own class: ``u = -y (f(x) + b)`` for two
classes, ``u = log((1 - p_y) / p_y)`` for more. A map carries margins, slopes and curvatures of a
pointwise loss of :mod:`grayzone.numerics.losses` back to the scores.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from array_api_compat import device

from grayzone.numerics.columns import picked, picked_of, product, rises
from grayzone.numerics.losses import TruncatedLogistic, xlogx
from grayzone.numerics.namespace import array_namespace
from grayzone.numerics.pieces import are_many, looped_with

__all__ = [
    "Margins",
    "ReferenceMargin",
    "SignedMargin",
    "SoftmaxMargin",
    "output_pairs",
]

Array = Any


def output_pairs(n_outputs: int) -> list[tuple[int, int]]:
    """Return pairs of outputs (k, m), k >= m: the lower triangle, row by row.

    Parameters
    ----------
    n_outputs : int
        Scores per row.

    Returns
    -------
    list of (int, int)
        The pairs.

    See Also
    --------
    SoftmaxMargin : Its Hessian weights are in this order.

    Examples
    --------
    >>> from grayzone.numerics.margins import output_pairs
    >>> output_pairs(2)
    [(0, 0), (1, 0), (1, 1)]
    """
    return [(k, m) for k in range(n_outputs) for m in range(k + 1)]


class SignedMargin:
    """Margins of two classes: u = -y f for y in {-1, +1}; linear in the scores.

    The map from scores to margins is all that tells two classes from many; a solver needs of it
    ``margin``, its derivative forwards (``push``) and backwards (``pull``), and its curvature.

    Parameters
    ----------
    y : array of shape (n,)
        Signs of the classes, -1 and +1.
    is_loaded : bool
        Whether there are compiled loops at work on the rows anyway.

    See Also
    --------
    SoftmaxMargin : For more classes.

    Examples
    --------
    >>> import numpy as np
    >>> from grayzone.numerics.margins import SignedMargin
    >>> SignedMargin(np.array([1.0, -1.0])).margin(np.array([[2.0], [2.0]]))
    array([-2.,  2.])
    """

    n_outputs = 1
    shift_free = False

    def __init__(self, y: Array, is_loaded: bool = False) -> None:
        self.y, self.is_loaded = y, is_loaded

    @staticmethod
    def prior_scores(log_mass: Array) -> Array:
        """Scores that give back the class priors, from the logarithms of the classes' weights."""
        return log_mass[1:] - log_mass[0]

    @property
    def codes(self) -> Array:
        """Class code of each row, 0 or 1."""
        xp = array_namespace(self.y)
        return xp.astype(self.y > 0, xp.int64)

    def counts(self) -> Array:
        """How many rows each class has, of NumPy's."""
        up = rises(self.y, self.is_loaded)
        return np.array([self.y.size - up, up])

    def picked(self, steps: Array, first: int) -> Array:
        """Every so many rows of each class, of NumPy's, in order."""
        return picked(self.y, steps, first, self.is_loaded)

    def mass(self, weight: Array) -> Array:
        """What the rows of each class weigh, of NumPy's."""
        return np.array(self._sides(self.y[:, None], weight))

    def take(self, rows: Array) -> SignedMargin:
        """Return the map of these rows."""
        return SignedMargin(self.y[rows], self.is_loaded)

    def margin(self, scores: Array) -> Array:
        """Margins (n,) of scores (n, 1), or (t, n) of several sets of them (t, n, 1)."""
        return self._against(scores[..., 0])

    def _against(self, values: Array) -> Array:
        """Return minus the signs times values."""
        return product(self.y, values, -1.0, self.is_loaded)

    def push(self, scores: Array, change: Array) -> Array:
        """Change of the margins when the scores change by ``change``."""
        return self._against(change[:, 0])

    def pull(self, scores: Array, a: Array) -> Array:
        """Gradient in the scores of sum(a * margin), shape (n, 1)."""
        return self._against(a)[:, None]

    def second_order(self, scores: Array, omega: Array, a: Array) -> Array:
        """Hessian weights omega u' u' + a u'' of the pairs of outputs k >= m, shape (n, pairs)."""
        return omega[:, None]

    def curve(self, scores: Array, omega: Array, a: Array, change: Array) -> Array:
        """Hessian times ``change``: second_order without forming it."""
        return omega[:, None] * change

    def balance(self, duals: Array, weight: Array) -> Array:
        """Shrink duals of the heavier class so that the weighted duals sum to zero: y'a = 0.

        Where little is amiss only the first rows are shrunk: what that costs is of second order,
        and the other rows keep duals that are exact slopes of their losses.
        """
        xp = array_namespace(duals)
        n, (down, up) = duals.shape[0], self._sides(duals, weight)
        if not (up > 0 and down > 0):
            return xp.zeros_like(duals)
        sign, excess = (1.0 if up > down else -1.0), abs(up - down)
        if excess <= 1e-14 * (up + down):  # rounding
            return duals
        stop, shrink = n, (down / up if up > down else up / down)
        for some in (n // 64, n // 8):
            mass = weight[:some] * xp.abs(duals[:some, 0])
            first = float(xp.sum(xp.where(self.y[:some] == sign, mass, 0.0)))
            if first > 1e3 * excess:
                stop, shrink = some, 1.0 - excess / first
                break
        own = self.y[:stop]
        factor = xp.where(own == sign, shrink * xp.ones_like(own), 1.0)
        return xp.concat([duals[:stop, :] * factor[:, None], duals[stop:, :]])

    def _sides(self, duals: Array, weight: Array) -> tuple[float, float]:
        """Return what rows of each class give."""
        if are_many(self.y, duals[:, 0], weight, is_loaded=self.is_loaded):
            # compiles, so only when needed
            from grayzone.numerics.jit_losses import sides

            given = self.y, weight, duals
            down, up = looped_with(sides, (2,), *given, n_rows=self.y.size).sum(axis=0).tolist()
            return down, up
        xp = array_namespace(duals)
        mass = weight * xp.abs(duals[:, 0])
        rises = self.y > 0
        sides = xp.where(rises, 0.0, mass), xp.where(rises, mass, 0.0)
        return float(xp.sum(sides[0])), float(xp.sum(sides[1]))

    def flow(self, duals: Array, weight: Array) -> Array:
        """Mass (2, 2) that rows of the row's class give to the column's class."""
        xp = array_namespace(duals)
        mass = weight * xp.abs(duals[:, 0])
        up = xp.sum(xp.where(self.y > 0, mass, 0.0))
        down = xp.sum(xp.where(self.y > 0, 0.0, mass))
        none = xp.zeros_like(up)
        return xp.stack([xp.stack([none, down]), xp.stack([up, none])])

    @staticmethod
    def scaling(flow: Array) -> Array:
        """Factors <= 1 (2, 2) that make both classes give as much; zeros where one gives none."""
        xp = array_namespace(flow)
        least = xp.min(xp.stack([flow[0, 1], flow[1, 0]]))
        return xp.where(flow > 0, least / xp.where(flow > 0, flow, 1.0), 0.0)

    def scaled(self, duals: Array, scale: Array) -> Array:
        """Duals times the factors of their classes."""
        xp = array_namespace(duals)
        return duals * xp.where(self.y > 0, scale[1, 0], scale[0, 1])[:, None]

    def fenchel_young(self, loss: TruncatedLogistic, scores: Array, duals: Array) -> Array:
        """Fenchel-Young loss of each row."""
        return loss.fenchel_young(self.margin(scores), self.margin(duals))

    def fenchel_young_sum(
        self, loss: TruncatedLogistic, scores: Array, duals: Array, weight: Array
    ) -> float | None:
        """Sum of them with weights; None where rows are not many."""
        return loss.fenchel_young_sum(self.y, scores, duals, weight)


class SoftmaxMargin:
    """Margins of K classes under the softmax: u = log(sum over k != y of e^{f_k}) - f_y.

    A convex function of the scores; log(1 + e^u) is the multinomial log-loss -log p_y.

    Parameters
    ----------
    own : boolean array of shape (n, K)
        Which class is the row's own.

    See Also
    --------
    SignedMargin : For two classes.
    ReferenceMargin : With one score less.

    Examples
    --------
    >>> import numpy as np
    >>> from grayzone.numerics.margins import SoftmaxMargin
    >>> SoftmaxMargin(np.eye(3, dtype=bool)[:1]).margin(np.zeros((1, 3))).round(4)
    array([0.6931])
    """

    shift_free = True  # one constant added to all scores changes no margin

    def __init__(self, own: Array) -> None:
        self.own = own  # boolean (n, K): the row's own class
        self.n_outputs = own.shape[1]

    @staticmethod
    def prior_scores(log_mass: Array) -> Array:
        """Scores that give back the class priors, from the logarithms of the classes' weights."""
        return log_mass - array_namespace(log_mass).mean(log_mass)

    @property
    def codes(self) -> Array:
        """Class code of each row, 0 to K - 1."""
        xp = array_namespace(self.own)
        return xp.argmax(xp.astype(self.own, xp.int8), axis=1)

    def counts(self) -> Array:
        """How many rows each class has, of NumPy's."""
        return np.count_nonzero(self.own, axis=0)

    def picked(self, steps: Array, first: int) -> Array:
        """Every so many rows of each class, of NumPy's, in order."""
        return picked_of(self.own.T, steps, first)

    def mass(self, weight: Array) -> Array:
        """What the rows of each class weigh, of NumPy's."""
        return np.bincount(self.codes, weight, minlength=self.own.shape[1])

    def take(self, rows: Array) -> SoftmaxMargin:
        """Return the map of these rows."""
        if isinstance(rows, slice):
            return SoftmaxMargin(self.own[rows, :])
        return SoftmaxMargin(array_namespace(self.own).take(self.own, rows, axis=0))

    def _parts(self, scores: Array) -> tuple[Array, Array]:
        """Return the margin and the softmax among the other classes (0 for the own one)."""
        xp = array_namespace(scores)
        others = xp.where(self.own, -xp.inf, scores)
        top = xp.max(others, axis=-1, keepdims=True)
        e = xp.exp(others - top)
        total = xp.sum(e, axis=-1, keepdims=True)
        own = xp.sum(xp.where(self.own, scores, 0.0), axis=-1)
        return (top + xp.log(total))[..., 0] - own, e / total

    def margin(self, scores: Array) -> Array:
        """Margins (n,) of scores (n, K), or (t, n) of several sets of them (t, n, K)."""
        return self._parts(scores)[0]

    def _jacobian(self, scores: Array) -> Array:
        xp = array_namespace(scores)
        return xp.where(self.own, -1.0, self._parts(scores)[1])

    def push(self, scores: Array, change: Array) -> Array:
        """Change of the margins, to first order, when the scores change by ``change``."""
        return array_namespace(scores).sum(self._jacobian(scores) * change, axis=1)

    def pull(self, scores: Array, a: Array) -> Array:
        """Gradient in the scores of sum(a * margin), shape (n, K)."""
        return a[:, None] * self._jacobian(scores)

    def second_order(self, scores: Array, omega: Array, a: Array) -> Array:
        """Hessian weights omega u' u' + a u'' of the pairs of outputs k >= m, shape (n, pairs)."""
        xp = array_namespace(scores)
        others = self._parts(scores)[1]
        j = xp.where(self.own, -1.0, others)
        weights = []
        for k, m in output_pairs(self.n_outputs):
            w = omega * j[:, k] * j[:, m] - a * others[:, k] * others[:, m]
            weights.append(w + a * others[:, k] if k == m else w)
        return xp.stack(weights, axis=1)

    def curve(self, scores: Array, omega: Array, a: Array, change: Array) -> Array:
        """Hessian times ``change``: second_order without forming it."""
        xp = array_namespace(scores)
        others = self._parts(scores)[1]
        j = xp.where(self.own, -1.0, others)
        bent = others * (change - xp.sum(others * change, axis=1, keepdims=True))
        along = xp.sum(j * change, axis=1)
        return (omega * along)[:, None] * j + a[:, None] * bent

    def balance(self, duals: Array, weight: Array) -> Array:
        """Shrink the duals so that each class's weighted sum is zero."""
        return self.scaled(duals, self.scaling(self.flow(duals, weight)))

    def flow(self, duals: Array, weight: Array) -> Array:
        """Mass (K, K) that rows of the row's class give to the column's class."""
        xp = array_namespace(duals)
        off = weight[:, None] * xp.where(self.own, 0.0, duals)
        return xp.matmul(xp.astype(self.own, duals.dtype).T, off)

    @staticmethod
    def scaling(flow: Array) -> Array:
        """Factors <= 1 (K, K) that balance what enters and leaves each class.

        They are theta d_j / d_k, and theta <= 1 keeps every row's duals inside the domain of the
        conjugate; zeros where no such factors exist.
        """
        xp = array_namespace(flow)
        log_d = _circulation(flow)
        if log_d is None:
            return xp.zeros_like(flow)
        scale = log_d[:, None] - log_d[None, :]
        return xp.exp(scale - xp.max(xp.where(flow > 0, scale, -xp.inf)))

    def scaled(self, duals: Array, scale: Array) -> Array:
        """Duals times the factors of their classes: what a row gives away it also loses."""
        xp = array_namespace(duals)
        own = xp.astype(self.own, duals.dtype)
        given = xp.where(self.own, 0.0, duals) * xp.matmul(own, scale)
        return xp.where(self.own, -xp.sum(given, axis=1, keepdims=True), given)

    def fenchel_young(self, loss: TruncatedLogistic, scores: Array, duals: Array) -> Array:
        """Fenchel-Young loss of each row: the margin's, and KL among the other classes."""
        xp = array_namespace(scores)
        u, others = self._parts(scores)
        given = xp.where(self.own, 0.0, duals)
        a = xp.sum(given, axis=1)
        share = given / xp.where(a > 0, a, 1.0)[:, None]
        top = xp.max(xp.where(self.own, -xp.inf, scores), axis=1, keepdims=True)
        # log of the softmax itself, so that a share far in its tail stays finite
        shifted = xp.where(self.own, 0.0, scores - top)
        log_others = shifted - xp.log(
            xp.sum(xp.where(self.own, 0.0, xp.exp(shifted)), axis=1, keepdims=True)
        )
        # sum q log(q/p) - q + p is termwise non-negative: no cancellation across classes
        kl = xlogx(share) - share * log_others - share + others
        kl = xp.where(self.own, 0.0, kl)
        return loss.fenchel_young(u, a) + a * xp.clip(xp.sum(kl, axis=1), min=0.0)


class ReferenceMargin:
    """Margins of K classes by K - 1 scores: the log-odds against the last class, the reference.

    The multi-logit of Zhu & Hastie (2002), §5: the softmax with the last score held at zero. Which
    class that is makes a difference once the scores are penalised.

    Parameters
    ----------
    own : boolean array of shape (n, K)
        Which class is the row's own; the last one is the reference.

    See Also
    --------
    SoftmaxMargin : With a score for each class.

    Examples
    --------
    >>> import numpy as np
    >>> from grayzone.numerics.margins import ReferenceMargin
    >>> ReferenceMargin(np.eye(3, dtype=bool)[:1]).margin(np.zeros((1, 2))).round(4)
    array([0.6931])
    """

    shift_free = False

    def __init__(self, own: Array) -> None:
        self._softmax = SoftmaxMargin(own)
        self.n_outputs = own.shape[1] - 1

    @staticmethod
    def prior_scores(log_mass: Array) -> Array:
        """Scores that give back the class priors, from the logarithms of the classes' weights."""
        return log_mass[:-1] - log_mass[-1]

    @property
    def codes(self) -> Array:
        """Class code of each row, 0 to K - 1."""
        return self._softmax.codes

    def counts(self) -> Array:
        """How many rows each class has, of NumPy's."""
        return self._softmax.counts()

    def picked(self, steps: Array, first: int) -> Array:
        """Every so many rows of each class, of NumPy's, in order."""
        return self._softmax.picked(steps, first)

    def mass(self, weight: Array) -> Array:
        """What the rows of each class weigh, of NumPy's."""
        return self._softmax.mass(weight)

    def take(self, rows: Array) -> ReferenceMargin:
        """Return the map of these rows."""
        return ReferenceMargin(self._softmax.take(rows).own)

    def _all(self, scores: Array) -> Array:
        """Scores, or changes of them, of all K classes."""
        xp = array_namespace(scores)
        return xp.concat([scores, xp.zeros_like(scores[..., :1])], axis=-1)

    def _all_duals(self, duals: Array) -> Array:
        """Duals of all K classes, which sum to zero."""
        xp = array_namespace(duals)
        return xp.concat([duals, -xp.sum(duals, axis=1, keepdims=True)], axis=1)

    def margin(self, scores: Array) -> Array:
        """Margins (n,) of scores (n, K - 1), or (t, n) of several sets of them."""
        return self._softmax.margin(self._all(scores))

    def push(self, scores: Array, change: Array) -> Array:
        """Change of the margins, to first order, when the scores change by ``change``."""
        return self._softmax.push(self._all(scores), self._all(change))

    def pull(self, scores: Array, a: Array) -> Array:
        """Gradient in the scores of sum(a * margin), shape (n, K - 1)."""
        return self._softmax.pull(self._all(scores), a)[:, :-1]

    def second_order(self, scores: Array, omega: Array, a: Array) -> Array:
        """Hessian weights omega u' u' + a u'' of the pairs of outputs k >= m, shape (n, pairs)."""
        weights = self._softmax.second_order(self._all(scores), omega, a)
        return weights[:, : len(output_pairs(self.n_outputs))]

    def curve(self, scores: Array, omega: Array, a: Array, change: Array) -> Array:
        """Hessian times ``change``: second_order without forming it."""
        return self._softmax.curve(self._all(scores), omega, a, self._all(change))[:, :-1]

    def balance(self, duals: Array, weight: Array) -> Array:
        """Shrink the duals so that each class's weighted sum is zero."""
        return self._softmax.balance(self._all_duals(duals), weight)[:, :-1]

    def flow(self, duals: Array, weight: Array) -> Array:
        """Mass (K, K) that rows of the row's class give to the column's class."""
        return self._softmax.flow(self._all_duals(duals), weight)

    scaling = SoftmaxMargin.scaling

    def scaled(self, duals: Array, scale: Array) -> Array:
        """Duals times the factors of their classes."""
        return self._softmax.scaled(self._all_duals(duals), scale)[:, :-1]

    def fenchel_young(self, loss: TruncatedLogistic, scores: Array, duals: Array) -> Array:
        """Fenchel-Young loss of each row."""
        return self._softmax.fenchel_young(loss, self._all(scores), self._all_duals(duals))


Margins = SignedMargin | SoftmaxMargin | ReferenceMargin


def _circulation(flow: Array, max_iter: int = 100) -> Array | None:
    """Solve for x such that e^{x_j - x_k} flow[j, k] has equal row and column sums.

    Newton's method on the convex sum of e^{x_j - x_k} flow[j, k]; None where no positive
    scaling balances the flow (some class only gives or only receives).
    """
    xp = array_namespace(flow)
    k = flow.shape[0]
    x = xp.zeros_like(flow[0, :])
    ones = xp.ones_like(flow) / k
    eye = xp.eye(k, dtype=flow.dtype, device=device(flow))
    for _ in range(max_iter):
        scaled = flow * xp.exp(x[:, None] - x[None, :])
        out, into = xp.sum(scaled, axis=1), xp.sum(scaled, axis=0)
        total = xp.sum(out)
        if not (xp.all(out > 0) and xp.all(into > 0) and total < xp.inf):
            return None
        imbalance = out - into
        if xp.max(xp.abs(imbalance)) <= 1e-15 * k * total:
            return x
        # classes that hardly take part would leave no digit of the system: what they are off by
        # is within the tolerance
        laplacian = eye * (out + into + 1e-15 * total)[:, None] - scaled - scaled.T
        step = xp.linalg.solve(laplacian + ones * total, imbalance[:, None])[:, 0]
        x = x - step / xp.clip(xp.max(xp.abs(step)), min=1.0)
    return x
