r"""Slopes of the log-odds beyond the zone, by maximum likelihood.

Beyond its zone a truncated fit says no more than "beyond": rows there have no part in it, and
log-odds stop short. With g the log-odds of a class and e their value where the zone ends, let them
be :math:`e + s (g - e)` from there on. The slope s > 0 of each class minimises

.. math:: \sum_{i: g_i > e} w_i \log\bigl(1 + e^{\mp(e + s (g_i - e))}\bigr)
          + \kappa \log\bigl(1 + e^{e + s \bar d}\bigr),

with a minus for rows of the class and a plus for others: a convex problem in one number. Training
rows are all too well told apart, hence the last term, a row that belongs to another class at the
(weighted) mean distance :math:`\bar d` of those beyond. It weighs a fifth of the penalty,
:math:`\kappa = \|f\|^2 / 10 C` where that is a squared norm, so that neither the unit of weights
nor writing them as repeated rows makes a difference, and it does not count where rows are many. It
keeps a slope from growing above 1; one that the rows alone put below 1 is theirs.

One reading finds what is needed, wherever the rows are: distances are few enough on a logarithmic
scale.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit

from grayzone.numerics.backend import moved
from grayzone.numerics.checks import Floats, as_numpy
from grayzone.numerics.namespace import array_namespace
from grayzone.numerics.spread import spread
from grayzone.numerics.tails import excess
from grayzone.solvers.truncated.spec import TruncatedSpec
from grayzone.sources.labelled import Labelled, Rows
from grayzone.sources.source import Sums

Array = Any

# Slopes are between these: monotone, and finite where no row beyond is of another class.
LEAST, MOST = 0.02, 100.0
# Log-odds that no slope takes the mean distance beyond: nothing is more certain than that.
_CERTAIN = 20.0
# Distances at which losses are known; what is further away is as good as certain.
_NODES = np.concatenate([[0.0], np.geomspace(1e-6, 1e4, 221)])
# Share of ||f||^2 / C that a row of another class weighs.
_DOUBT = 0.1
_ROUNDS, _ROUNDING = 100, 1e-11


@dataclass(frozen=True)
class _Beyond:
    """Weights of the rows beyond each end by distance, and the distances of those that are wrong.

    ``scores`` are those of rows that are held, where they are known.
    """

    spec: TruncatedSpec
    coef: Array
    ends: Array
    scores: Array | None

    def __call__(self, rows: Rows) -> Sums:
        scores, xp = self.scores, array_namespace(rows.weight)
        if scores is None:
            scores = self.spec.problem(rows).design.scores(moved(self.coef, rows.weight))
        distances = excess(scores, self.ends)
        nodes = moved(_NODES, rows.weight)
        masses, wrong = [], []
        for k in range(self.spec.n_classes):
            some = xp.nonzero(distances[:, k] > 0.0)[0]
            d, weight, codes = (
                xp.take(a, some) for a in (distances[:, k], rows.weight, rows.codes)
            )
            d = xp.minimum(d, nodes[-1])
            masses.append(as_numpy(spread(d, weight, nodes)))
            wrong.append(float(xp.sum(xp.where(codes == k, 0.0, weight * d))))
        sums: Sums = {"masses": np.stack(masses), "wrong": np.array(wrong)}
        if self.spec.kernel is not None:  # of rows that are held, in one piece
            design = self.spec.problem(rows).design
            sums["square"] = design.dot(self.coef, self.coef, scores)
        return sums


def tail_slopes(
    labelled: Labelled,
    spec: TruncatedSpec,
    coef: Array,
    ends: Floats,
    scores: Array | None = None,
) -> Floats:
    """Return the slope of each class beyond its end; 1 where the end is infinite, or no row is.

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
    """
    slopes = np.ones(len(ends))
    if not np.any(np.isfinite(ends)):
        return slopes
    sums = labelled.reduce(_Beyond(spec, coef, ends, scores))
    square = sums.get("square")
    if square is None:
        square = float(np.sum(as_numpy(coef)[:, : _n_slopes(spec, coef)] ** 2))
    if spec.l1_ratio:  # twice the penalty, whatever it is
        size = float(np.sum(np.abs(as_numpy(coef)[:, : _n_slopes(spec, coef)])))
        square = 2.0 * spec.l1_ratio * size + (1.0 - spec.l1_ratio) * float(square)
    doubt = _DOUBT * spec.penalty * float(square)
    for k in np.flatnonzero(np.isfinite(ends)):
        slopes[k] = _slope(sums["masses"][k], float(sums["wrong"][k]), float(ends[k]), doubt)
    return slopes


def _n_slopes(spec: TruncatedSpec, coef: Array) -> int:
    return int(coef.shape[1]) - int(spec.fit_intercept)


def _slope(mass: Floats, wrong: float, end: float, doubt: float) -> float:
    """Slope of one class: doubt may keep it from growing, not make it less than as fitted."""
    here = (mass > 0.0) & (_NODES > 0.0)
    mass, distance = mass[here], _NODES[here]
    total = float(mass @ distance)
    if not total > 0.0:
        return 1.0
    if _rise(1.0, mass, distance, wrong, end)[0] >= 0.0:
        return _lowest(mass, distance, wrong, end, LEAST, 1.0)
    mean = float(mass @ distance**2) / total
    mass, distance = np.append(mass, doubt), np.append(distance, mean)
    most = max(1.0, min(MOST, _CERTAIN / mean))
    return _lowest(mass, distance, wrong + doubt * mean, end, 1.0, most)


def _rise(
    s: float, mass: Floats, distance: Floats, wrong: float, end: float
) -> tuple[float, float]:
    """First and second derivative of minus the log-likelihood.

    As log(1 + e^z) = z + log(1 + e^-z), a wrong row is a right one and a straight line.
    """
    q, pull = expit(-(end + s * distance)), mass * distance
    return wrong - float(pull @ q), float((pull * distance) @ (q * (1.0 - q)))


def _lowest(
    mass: Floats, distance: Floats, wrong: float, end: float, low: float, high: float
) -> float:
    """Minimise between two slopes, by Newton's method between bounds that close in.

    The derivative is concave: from the lower bound no step goes too far, but for rounding errors.
    """
    s = least = low
    most = high
    for _ in range(_ROUNDS):
        first, second = _rise(s, mass, distance, wrong, end)
        if s == least and first >= 0.0:
            return least
        if second > 0.0 and abs(first) <= _ROUNDING * s * second:
            break
        low, high = (low, s) if first > 0.0 else (s, high)
        step = s - first / second if second > 0.0 else low
        if step >= high == most and _rise(most, mass, distance, wrong, end)[0] <= 0.0:
            return most
        s = step if low < step < high else (low * high) ** 0.5
    return s
