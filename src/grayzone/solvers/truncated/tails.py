r"""Log-odds beyond the zone, by maximum likelihood.

Beyond its zone a truncated fit says no more than "beyond": rows there have no part in it, and
log-odds stop short. Many rows lie just beyond the end, where the fit has no reason to tell them
apart, and are far more certain than that; few lie far away, and are hardly more so. With g the
log-odds of a class and e their value where the zone ends, let them therefore be

.. math:: e + a \log(1 + b (g - e))

from there on, b = 100: odds grow as a power a of the distance. The power of each class minimises

.. math:: \sum_{i: x_i > 0} w_i \log\bigl(1 + e^{\mp(e + a x_i)}\bigr)
          + \kappa \log\bigl(1 + e^{e + a \bar x}\bigr), \qquad x_i = \log(1 + b (g_i - e)),

with a minus for rows of the class and a plus for others: a convex problem in one number. Where no
row beyond is of another class, the last term keeps it finite: a row that is, at the (weighted) mean
:math:`\bar x`. It weighs a tenth of the penalty, :math:`\kappa = \|f\|^2 / 20 C` where
that is a squared norm, so that neither the unit of weights nor writing them as repeated rows makes
a difference, and it does not count where rows are many. Training rows are told apart too well,
which it makes up for in part. (Scores that rows would have had without a part in the fit are
better, but what one row is depends on how weights are written.)

One reading finds what is needed, wherever the rows are: values of x are few enough.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import expm1
from typing import Any

import numpy as np
from scipy.special import expit

from grayzone.numerics.backend import moved
from grayzone.numerics.checks import Floats, as_numpy
from grayzone.numerics.namespace import array_namespace, is_numpy_array
from grayzone.numerics.pieces import PIECE, are_many
from grayzone.numerics.spread import spread
from grayzone.numerics.tails import rows_beyond
from grayzone.numerics.threads import LOOPS, edges, split
from grayzone.solvers.truncated.spec import TruncatedSpec
from grayzone.sources.labelled import Labelled, Rows
from grayzone.sources.source import Sums

Array = Any

# How soon log-odds level off. The larger the better, up to a jump; but what scores of rows at the
# end of the zone lack in precision grows by as much.
BEND = 100.0
# Powers are between these: monotone, and finite where no row beyond is of another class.
LEAST, MOST = 0.01, 20.0
# Log-odds that no power takes the mean distance beyond: nothing is more certain than that.
_CERTAIN = 20.0
# Logarithms at which losses are known; what is further away is taken for the last.
_APART = 0.05
_NODES: Floats = _APART * np.arange(281.0)
_FARTHEST = expm1(_NODES[-1]) / BEND
# Share of ||f||^2 / C that a row of another class weighs.
_DOUBT = 0.05
# Mean x of all rows up to which none is beyond: those at the end are there but for rounding.
_TRACE = 1e-4
_ROUNDS, _ROUNDING = 100, 1e-11


@dataclass(frozen=True)
class _Beyond:
    """Weights of the rows beyond each end by x, and the weighted x of those that are wrong.

    ``scores`` are those of rows that are held, where they are known.
    """

    spec: TruncatedSpec
    coef: Array
    ends: Array
    scores: Array | None

    def __call__(self, rows: Rows) -> Sums:
        scores, design = self.scores, self.spec.design(rows)
        if scores is None:
            scores = design.scores(moved(self.coef, rows.weight))
        masses, wrong = self._masses(scores, rows, design.is_loaded)
        sums: Sums = {"masses": masses, "wrong": wrong}
        if self.spec.kernel is not None:  # of rows that are held, in one piece
            sums["square"] = design.dot(self.coef, self.coef, scores)
        return sums

    def _masses(self, scores: Array, rows: Rows, is_loaded: bool) -> tuple[Array, Array]:
        """Return the sums (K, J) and (K,) of the rows."""
        n, K = rows.n_rows, self.spec.n_classes
        if K == 2 and are_many(scores[:, 0], rows.weight, is_loaded=is_loaded):
            # compiles, so only when needed
            from grayzone.numerics.jit_tails import beyond
            from grayzone.numerics.team import share, sums

            parts = edges(n, threads=n / PIECE, kind=LOOPS)
            masses, wrong = sums(len(parts) - 1, K, _NODES.size), sums(len(parts) - 1, K)
            given = scores, rows.codes, rows.weight, self.ends, BEND, _FARTHEST, _APART
            share(beyond, given, (masses, wrong), parts)
            return masses.sum(axis=0), wrong.sum(axis=0)
        work = partial(self._part, scores, rows)
        found = split(n, work, threads=n / PIECE if is_numpy_array(rows.weight) else 1)
        masses, wrong = (sum(of_parts) for of_parts in zip(*found, strict=True))
        return masses, wrong

    def _part(self, scores: Array, rows: Rows, start: int, stop: int) -> tuple[Array, Array]:
        """Return both sums (K, J) and (K,) of the rows start to stop."""
        xp, K = array_namespace(rows.weight), self.spec.n_classes
        weights, labels = rows.weight[start:stop], rows.codes[start:stop]
        masses, wrong = np.zeros((K, _NODES.size)), np.zeros(K)
        for k, (some, own) in enumerate(rows_beyond(scores[start:stop, :], self.ends)):
            weight, codes = xp.take(weights, some), xp.take(labels, some)
            own = xp.log1p(BEND * xp.where(own < _FARTHEST, own, _FARTHEST))
            masses[k] = as_numpy(spread(own, weight, _APART, _NODES.size))
            wrong[k] = float(xp.sum(xp.where(codes == k, 0.0, weight * own)))
        return masses, wrong


def tail_shapes(
    labelled: Labelled,
    spec: TruncatedSpec,
    coef: Array,
    ends: Floats,
    scores: Array | None = None,
) -> tuple[Floats, Floats]:
    """Return slope and bend of each class beyond its end; 1 and 0 where no row is beyond.

    Parameters
    ----------
    labelled : Labelled
        The rows.
    spec : TruncatedSpec
        What was fitted.
    coef : array of shape (Q, p)
        Coefficients of the fit.
    ends : ndarray of shape (K,)
        Log-odds at which the zone ends; infinite where a class is to stay as fitted.
    scores : array of shape (n, Q), optional
        Scores of rows that are held, where they are known.

    Returns
    -------
    slopes, bends : ndarrays of shape (K,)
        Slopes where the zone ends are powers times bends.
    """
    slopes, bends = np.ones(len(ends)), np.zeros(len(ends))
    if not np.any(np.isfinite(ends)):
        return slopes, bends
    sums = labelled.reduce(_Beyond(spec, coef, ends, scores))
    square = sums.get("square")
    if square is None:
        square = float(np.sum(as_numpy(coef)[:, : _n_slopes(spec, coef)] ** 2))
    if spec.l1_ratio:  # twice the penalty, whatever it is
        size = float(np.sum(np.abs(as_numpy(coef)[:, : _n_slopes(spec, coef)])))
        square = 2.0 * spec.l1_ratio * size + (1.0 - spec.l1_ratio) * float(square)
    doubt = _DOUBT * spec.penalty * float(square)
    trace = _TRACE * float(np.sum(labelled.mass * labelled.factors))
    for k in np.flatnonzero(np.isfinite(ends)):
        if float(sums["masses"][k] @ _NODES) > trace:
            power = _power(sums["masses"][k], float(sums["wrong"][k]), float(ends[k]), doubt)
            slopes[k], bends[k] = BEND * power, BEND
    return slopes, bends


def _n_slopes(spec: TruncatedSpec, coef: Array) -> int:
    return int(coef.shape[1]) - int(spec.fit_intercept)


def _power(mass: Floats, wrong: float, end: float, doubt: float) -> float:
    """Power of one class."""
    here = (mass > 0.0) & (_NODES > 0.0)
    mass, x = mass[here], _NODES[here]
    pull = mass * x
    mean = float(pull @ x) / float(pull.sum())
    pull, x = np.append(pull, doubt * mean), np.append(x, mean)
    rise = partial(_rise, x, pull, pull * x, wrong + doubt * mean, end)
    return _lowest(rise, LEAST, min(MOST, _CERTAIN / mean))


def _rise(
    x: Floats, pull: Floats, bent: Floats, wrong: float, end: float, a: float
) -> tuple[float, float]:
    """First and second derivative of minus the log-likelihood, at a power.

    As log(1 + e^z) = z + log(1 + e^-z), a wrong row is a right one and a straight line.
    """
    q = expit(-(end + a * x))
    return wrong - float(pull @ q), float(bent @ (q * (1.0 - q)))


def _lowest(rise: Callable[[float], tuple[float, float]], low: float, high: float) -> float:
    """Minimise between two powers, by Newton's method between bounds that close in.

    The derivative is concave: from the lower bound no step goes too far, but for rounding errors.
    """
    a = least = low
    most = high
    for _ in range(_ROUNDS):
        first, second = rise(a)
        if a == least and first >= 0.0:
            return least
        if second > 0.0 and abs(first) <= _ROUNDING * a * second:
            break
        low, high = (low, a) if first > 0.0 else (a, high)
        step = a - first / second if second > 0.0 else low
        if step >= high == most and rise(most)[0] <= 0.0:
            return most
        a = step if low < step < high else (low * high) ** 0.5
    return a
