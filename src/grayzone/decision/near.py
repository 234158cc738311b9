r"""How near a decision is to another one, if the costs were a little different.

What errors cost is seldom known exactly. Where errors about class i cost :math:`s_i` times as much,
with :math:`1 \le s_i \le f`, any two of them change by at most the factor :math:`f` against each
other. A row's decision for j is *near a threshold* if another action, k, can become cheaper so,

.. math:: \sum_i p_i \, s_i \, (\mathrm{cost}[i, k] - \mathrm{cost}[i, j]) < 0,

which is the case if it is where :math:`s_i` is largest for the negative terms and smallest for the
others. Of two classes these are the rows whose log-odds are within :math:`\log f` of the threshold.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from array_api_compat import device

from grayzone.decision.costs import Costs, reject_costs
from grayzone.decision.rules import bayes_decision, cuts_between_actions, known_costs
from grayzone.numerics.checks import (
    Array,
    Floats,
    as_amounts,
    as_probabilities,
    check_number,
    is_real,
)
from grayzone.numerics.namespace import array_namespace

FACTOR = 2.0


class _Reach(NamedTuple):
    """How many times as much errors about each class, and staying undecided, may cost."""

    least: Floats
    most: Floats
    undecided: tuple[float, float]


def near_threshold(
    proba: Array, costs: Costs = None, factor: Any = FACTOR, reject_cost: Any = None
) -> Array:
    r"""Return which rows' best decisions would change if the costs changed by a factor.

    Parameters
    ----------
    proba : array of shape (n_samples, n_classes) or (n_samples,)
        Class probabilities, or the probability of the positive class.
    costs : None or array-like, default=None
        As in :func:`bayes_decision`: ``cost[true, predicted]``, the cost of misclassifying each
        class, or costs of each row, ``cost[row, true, predicted]``.
    factor : float or array-like of shape (n_classes, 2), default=2.0
        By how much any two costs, that of staying undecided among them, may change against each
        other. Or how many times as much errors about each class may cost, at least and at most,
        where some are only known to lie in a range.
    reject_cost : float or array-like of shape (n_classes,), default=None
        Cost of staying undecided; None: always decide.

    Returns
    -------
    near : array of bool of shape (n_samples,)
        In the array library and on the device of `proba`.

    See Also
    --------
    near_range : The same of two classes as probabilities.

    Examples
    --------
    >>> import numpy as np
    >>> from grayzone.decision import near_threshold
    >>> p = np.asarray([0.05, 0.12, 0.2, 0.3, 0.4])
    >>> near_threshold(p, costs=[1.0, 4.0])  # decides from .2 on; a factor of 2: .11 to .33
    array([False,  True,  True,  True, False])
    >>> near_threshold(p, costs=[1.0, 4.0], factor=[(1, 1), (0.5, 1)])  # 2 to 4, not 4 to 8
    array([False, False,  True,  True, False])
    """
    proba = as_probabilities(proba)
    xp, n_classes = array_namespace(proba), proba.shape[1]
    reach = _checked(factor, n_classes)
    known = known_costs(costs, proba)
    taken = bayes_decision(proba, known, reject_cost=reject_cost)
    proba = xp.astype(proba, xp.float64, copy=False)
    at_stake = _AtStake(proba, known, reach)
    own = at_stake.of(xp.where(taken < n_classes, taken, 0))
    near = xp.zeros(proba.shape[0], dtype=xp.bool, device=device(proba))
    decided = taken < n_classes
    for k in range(n_classes):
        near = near | (decided & (taken != k) & (at_stake.least(at_stake.of(k) - own) < 0.0))
    if reject_cost is None:
        return near
    refer = proba @ xp.asarray(
        reject_costs(reject_cost, range(n_classes)), dtype=xp.float64, device=device(proba)
    )
    cheapest, dearest = reach.undecided
    near = near | (decided & (cheapest * refer + at_stake.least(-own) < 0.0))
    for k in range(n_classes):
        near = near | (~decided & (at_stake.least(at_stake.of(k)) - dearest * refer < 0.0))
    return near


class _AtStake:
    """Parts of expected costs, by true class, of rows whose costs may differ from what is known."""

    def __init__(self, proba: Array, known: Array, reach: _Reach) -> None:
        xp = array_namespace(proba)
        self.xp, self.proba, self.rows = xp, proba, known.ndim == 3
        self.known, self.fewest, self.most = (
            xp.asarray(values, dtype=xp.float64, device=device(proba))
            for values in (known, reach.least, reach.most)
        )

    def of(self, action: Any) -> Array:
        """Return what an action, or that of each row, may cost: p_i cost[i, action] (n, K)."""
        costs = self.known
        if isinstance(action, int):
            return self.proba * (costs[:, :, action] if self.rows else costs[None, :, action])
        if not self.rows:
            return self.proba * self.xp.take(costs.T, action, axis=0)
        actions = self.xp.arange(costs.shape[2], device=device(action))
        chosen = self.xp.astype(action[:, None] == actions[None, :], self.xp.float64)
        return self.proba * self.xp.sum(costs * chosen[:, None, :], axis=2)

    def least(self, parts: Array) -> Array:
        """Return the least sum of parts (n, K) that costs within reach can make."""
        return self.xp.sum(self.xp.where(parts > 0.0, self.fewest, self.most) * parts, axis=1)


def near_range(costs: Any, factor: Any = FACTOR, reject_cost: Any = None) -> tuple[float, float]:
    """Return the probabilities between which decisions of two classes are near a threshold.

    Parameters
    ----------
    costs : array-like of shape (2, 2) or (2,)
        ``cost[true, predicted]``, or the cost of misclassifying each class.
    factor : float or array-like of shape (2, 2), default=2.0
        As in :func:`near_threshold`.
    reject_cost : float or array-like of shape (2,), default=None
        Cost of staying undecided. Rows in the middle of a wide undecided range may then be near no
        threshold; these are the outer ends.

    Returns
    -------
    low, high : float
        Of the positive class.

    See Also
    --------
    near_threshold : Rows whose best decisions are near a threshold, for any costs.

    Examples
    --------
    >>> from grayzone.decision.near import near_range
    >>> [round(p, 3) for p in near_range([1.0, 4.0])]
    [0.111, 0.333]
    """
    reach = _checked(factor, 2)
    matrix = known_costs(costs, np.full((1, 2), 0.5))
    rejection = None if reject_cost is None else reject_costs(reject_cost, range(2))
    cuts: list[float] = []
    for negative in (reach.least[0], reach.most[0]):
        for positive in (reach.least[1], reach.most[1]):
            for undecided in reach.undecided:
                scaled = matrix * np.array([[negative], [positive]])
                refer = None if rejection is None else undecided * rejection
                cuts.extend(map(float, cuts_between_actions(scaled, refer)))
    if not cuts:
        raise ValueError(f"With the costs {matrix.tolist()} one action is always the best.")
    return min(cuts), max(cuts)


def _checked(factor: Any, n_classes: int) -> _Reach:
    if is_real(factor) and factor >= 1.0:
        most = check_number("factor", factor)
        return _Reach(np.ones(n_classes), np.full(n_classes, most), (1.0, most))
    bounds = as_amounts(factor, "factor")  # a number that is too small has no such shape
    good = bounds.shape == (n_classes, 2) and bool(np.all(bounds > 0.0))
    if not good or np.any(bounds[:, 0] > bounds[:, 1]):
        raise ValueError(
            "factor must be a number of at least 1, or the least and the greatest factor of the "
            f"costs of each of the {n_classes} classes; got {factor!r}."
        )
    return _Reach(bounds[:, 0], bounds[:, 1], (1.0, 1.0))
