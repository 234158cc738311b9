r"""Proper scores of a threshold that is only known to lie in a range.

Every proper score of a probability is a mixture over thresholds c of what a decision at c costs,

.. math:: S(p, y) = \int_0^1 L_c(p, y)\, w(c)\, dc, \qquad
    L_c(p, 1) = (1 - c)\, [p < c], \quad L_c(p, 0) = c\, [p \ge c],

with the weights :math:`w(c) = 1 / (c (1 - c))` for the log-loss and :math:`w(c) = 2` for Brier's
(Schervish, 1989). Keep the thresholds of a range [a, b] only, and what is left is the same score of
the probability that is clipped to the range, up to a constant of the class.

References
----------
.. [1] M. Schervish, "A general method for comparing probability assessors", Annals of Statistics,
   1989.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from grayzone.decision.zones import binary_zone
from grayzone.metrics.truth import read_binary

Array = Any


def zone_brier(
    y_true: ArrayLike,
    y_proba: Array,
    *,
    zone: Any,
    sample_weight: ArrayLike | None = None,
    pos_label: Any = None,
) -> float:
    r"""Return Brier's score of two-class probabilities for thresholds inside the zone.

    .. math:: \frac{1}{n} \sum_i \int_{p_{\min}}^{p_{\max}} 2\, L_c(p_i, y_i)\, dc =
        \frac{1}{n} \sum_i (y_i - q_i)^2 - (y_i - r_{y_i})^2

    with :math:`q_i` the probability clipped to the zone and :math:`r_y` the end of the zone on the
    side of class y: twice the mean cost of decisions, over all thresholds of the zone. Whoever
    knows only that the threshold lies there is served best by the probabilities of least score,
    and what these are beyond the zone does not matter.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels, of two classes.
    y_proba : array of shape (n_samples,) or (n_samples, 2)
        Probability of the positive class; the second column of two.
    zone : None, float or pair of floats
        ``(p_min, p_max)``, a float h for :func:`~grayzone.decision.zone_around` 0.5, or None for
        all thresholds, Brier's score itself.
    sample_weight : array-like of shape (n_samples,), default=None
        Weight of each row.
    pos_label : str or number, default=None
        The positive class; by default the last of the sorted labels.

    Returns
    -------
    score : float
        Not negative; 0 where all rows are certain, and rightly so, at the ends of the zone.

    See Also
    --------
    zone_log_loss : The log-loss with caps, a convex bound of the same for the log-loss.

    Examples
    --------
    >>> from grayzone.metrics import zone_brier
    >>> y, p = [0, 1, 1], [0.01, 0.6, 0.99]
    >>> round(zone_brier(y, p, zone=(0.25, 0.75)), 4)
    0.0325
    >>> round(zone_brier(y, p, zone=None), 4)
    0.0534
    """
    truth, p = read_binary(y_true, y_proba, sample_weight, pos_label)
    low, high = binary_zone(zone, 0.5)
    clipped = np.clip(p, low, high)
    positive = truth.codes == 1
    losses = np.where(positive, (1.0 - clipped) ** 2 - (1.0 - high) ** 2, clipped**2 - low**2)
    return float(truth.weights @ losses / truth.weights.sum())
