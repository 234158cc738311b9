r"""Thresholds of rows with costs of their own, along a direction that is given.

Where the means of the classes y and x are 1 apart, at 0 and 1, a threshold t between them is wrong
for a share of at most :math:`e(t / \sigma_y)` of class y and :math:`e((1 - t) / \sigma_x)` of
class x, with :math:`e(\kappa) = 1 / (1 + \kappa^2)`, whatever their distributions are. The cheapest
in the worst case minimises

.. math:: c_y \, e(t / \sigma_y) + c_x \, e((1 - t) / \sigma_x),

(:math:`\kappa` less what the means may be off, and nothing below 0, where that is known),

with c what an error costs times how often it can happen. It depends on :math:`c_x / c_y` alone, and
falls as that grows: the points :math:`(e_y, e_x)` of all thresholds have a lower convex hull, whose
slopes say where the minimum is for each ratio, and a golden section finds it there.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from grayzone.numerics.checks import Floats

_STEPS = 1024  # between the means, of the first look
_SECTIONS = 48  # of the interval around what it finds
_GOLDEN = 0.5 * (5.0**0.5 - 1.0)
_LEAST = 1e-150  # a standard deviation whose square is a double


def cheapest_cuts(
    price_y: Floats,
    price_x: Floats,
    s_y: float,
    s_x: float,
    off_y: float = 0.0,
    off_x: float = 0.0,
) -> Floats:
    """Return the cheapest thresholds in the worst case, from 0, the mean of y, to 1, that of x.

    Prices are positive; the means may be off by so many standard deviations.

    Examples
    --------
    >>> import numpy as np
    >>> from grayzone.solvers.minimax.row_cuts import cheapest_cuts
    >>> cheapest_cuts(np.array([1.0, 1.0, 5.0]), np.array([1.0, 5.0, 1.0]), 0.25, 0.25).round(3)
    array([0.5  , 0.314, 0.686])
    """
    logs, back = np.unique(np.log(price_x) - np.log(price_y), return_inverse=True)
    s_y, s_x = max(s_y, _LEAST), max(s_x, _LEAST)
    t = np.linspace(0.0, 1.0, _STEPS + 1)

    def wrong_y(cut: Floats) -> Floats:
        return _wrong(cut / s_y - off_y)

    def wrong_x(cut: Floats) -> Floats:
        return _wrong((1.0 - cut) / s_x - off_x)

    corners = _lower_hull(wrong_y(t), wrong_x(t))
    e_y, e_x = wrong_y(t[corners]), wrong_x(t[corners])
    # a corner is best from the ratio on at which the next one towards x ceases to be
    with np.errstate(divide="ignore", invalid="ignore"):
        turns = np.log(e_y[:-1] - e_y[1:]) - np.log(e_x[1:] - e_x[:-1])
    turns = np.nan_to_num(turns, nan=0.0, posinf=np.inf, neginf=-np.inf)  # nothing is bounded
    middle = t[corners[np.searchsorted(-turns, -logs, side="left")]]
    share = 1.0 / (1.0 + np.exp(-np.clip(logs, -700.0, 700.0)))  # of x in both prices

    def cost(cut: Floats) -> Floats:
        return (1.0 - share) * wrong_y(cut) + share * wrong_x(cut)

    low, high = np.maximum(middle - 1.0 / _STEPS, 0.0), np.minimum(middle + 1.0 / _STEPS, 1.0)
    for _ in range(_SECTIONS):
        width = _GOLDEN * (high - low)
        left, right = high - width, low + width
        nearer = cost(left) <= cost(right)
        low, high = np.where(nearer, low, left), np.where(nearer, right, high)
    return (0.5 * (low + high))[back]


def _wrong(kappa: Floats) -> Floats:
    """Largest share of a class that is beyond so many standard deviations from its mean."""
    with np.errstate(over="ignore"):
        return 1.0 / (1.0 + np.maximum(kappa, 0.0) ** 2)


def _lower_hull(e_y: Floats, e_x: Floats) -> NDArray[np.intp]:
    """Return the places, ascending, of the corners of the lower convex hull of points.

    The first coordinate falls from point to point, the second rises.
    """
    kept: list[int] = []
    for k in range(len(e_y)):
        while len(kept) > 1:
            a, b = kept[-2], kept[-1]
            turn = (e_y[a] - e_y[b]) * (e_x[k] - e_x[b]) - (e_y[b] - e_y[k]) * (e_x[b] - e_x[a])
            if turn > 0.0:
                break
            kept.pop()
        kept.append(k)
    return np.asarray(kept)
