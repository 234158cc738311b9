r"""Costs that are not known exactly: ranges of them, and of the thresholds that they imply.

A mapping's value may be a range ``(low, high)``. What decides is the geometric middle of each: for
two classes that is the middle, in log-odds, of the thresholds that the ranges imply.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from grayzone.decision.costs import (
    Costs,
    class_costs,
    cost_matrix,
    error_costs,
    threshold_from_costs,
    threshold_of,
)
from grayzone.decision.rules import cuts_between_actions
from grayzone.decision.zones import Cuts, floor_of
from grayzone.numerics.checks import Floats, as_numpy
from grayzone.numerics.pitfalls import Pitfall


def threshold_range(
    costs: Costs, classes: ArrayLike | None = None, prior: ArrayLike | None = None
) -> tuple[float, float]:
    r"""Return the least and the greatest threshold that a range of costs implies.

    With :math:`C^+ \in [a^+, b^+]` and :math:`C^- \in [a^-, b^-]` rule (1) of Hérault & Grandvalet
    (2007) puts the threshold between

    .. math:: \frac{a^-}{b^+ + a^-} \quad\text{and}\quad \frac{b^-}{a^+ + b^-},

    and the odds of :func:`threshold_from_costs` are the geometric middle of theirs.

    Parameters
    ----------
    costs : None, "balanced", mapping or array-like of shape (2, 2)
        As in :func:`cost_matrix`; a mapping's values may be ranges ``(low, high)``.
    classes : array-like of shape (2,), default=None
        The two labels, the positive one last. By default the sorted keys of a mapping.
    prior : array-like of shape (2,), default=None
        Class frequencies, needed for "balanced".

    Returns
    -------
    low, high : float
        The same number twice where all costs are known.

    See Also
    --------
    threshold_from_costs : What decides.

    Examples
    --------
    >>> from grayzone.decision import threshold_from_costs, threshold_range
    >>> low, high = threshold_range({"good": 1, "bad": (3, 9)}, classes=["good", "bad"])
    >>> round(low, 3), round(high, 3)
    (0.1, 0.25)
    >>> round(threshold_from_costs({"good": 1, "bad": (3, 9)}, classes=["good", "bad"]), 3)
    0.161
    """
    if classes is None and isinstance(costs, Mapping):
        classes = np.unique(list(costs))
    middle = threshold_from_costs(costs, classes, prior)
    labels = as_numpy([0, 1] if classes is None else classes)
    if not has_range(costs, labels):
        return middle, middle
    ends = [threshold_from_costs(matrix, labels) for matrix in corners(costs, labels)]
    return min(ends), max(ends)


def has_range(costs: Costs, classes: NDArray[Any]) -> bool:
    """Whether some cost of a mapping is a range of more than one number."""
    if not isinstance(costs, Mapping):
        return False
    low, high = class_costs(costs, classes)
    return bool(np.any(low < high))


def corners(costs: Costs, classes: NDArray[Any]) -> Iterator[Floats]:
    """Cost matrices at all ends of the ranges; the matrix itself where there are none."""
    if not isinstance(costs, Mapping):
        yield cost_matrix(costs, classes)
        return
    for ends in product(*zip(*class_costs(costs, classes), strict=True)):
        yield error_costs(np.array(ends))


def cuts_of(costs: Costs, classes: NDArray[Any], matrix: Floats, reject_cost: Any = None) -> Cuts:
    """Return where decisions between two classes change, and the units of a zone's width there.

    ``matrix`` is the :func:`~grayzone.decision.cost_matrix` that the costs come to.

    A width is in log-odds. Where costs are ranges its units are the distances from the cuts of the
    middle to the furthest that the ranges imply, so that a width of 1 reaches just as far.
    """
    low, high = _outer_cuts(matrix, reject_cost)
    if not has_range(costs, classes):
        return Cuts(low, high)
    furthest = [_outer_cuts(matrix, reject_cost) for matrix in corners(costs, classes)]
    ends = min(ends[0] for ends in furthest), max(ends[1] for ends in furthest)
    # floors are minus log-odds
    below, above = floor_of([ends[0], high]) - floor_of([low, ends[1]])
    return Cuts(low, high, max(0.0, float(below)), max(0.0, float(above)))


def _outer_cuts(matrix: Floats, reject_cost: Any) -> tuple[float, float]:
    if reject_cost is None:
        threshold = threshold_of(matrix)
        return threshold, threshold
    cuts = cuts_between_actions(matrix, reject_cost)
    if not len(cuts):
        raise ValueError(
            "With these costs and this reject_cost one action is the best whatever the "
            "probability, and there is no threshold for a zone to lie around; got cost[true, "
            f"predicted] = {matrix.tolist()} and reject_cost={reject_cost!r}. {Pitfall.NO_ZONE}"
        )
    return float(cuts[0]), float(cuts[-1])
