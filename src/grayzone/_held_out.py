r"""Bounds from scores of rows that the model has not seen.

By Cantelli's inequality a class whose scores have the mean :math:`\mu` and the standard deviation
:math:`\sigma` is on the right side of zero with a probability of at least
:math:`\kappa^2/(1+\kappa^2)`, :math:`\kappa = \pm\mu/\sigma`. Moments of training scores flatter a
model that was fitted to them; those of held-out scores do not.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from grayzone.solvers.minimax import bound_of

Array = Any


def score_bounds(scores: Array, codes: Array, weight: Array) -> tuple[float, float]:
    """Worst-case accuracies of the classes 0 and 1, deciding for 1 where scores are positive.

    Examples
    --------
    >>> import numpy as np
    >>> from grayzone._held_out import score_bounds
    >>> score_bounds(np.array([-3.0, -1.0, 1.0, 3.0]), np.array([0, 0, 1, 1]), np.ones(4))
    (0.8, 0.8)
    """
    bounds = []
    for code, sign in ((0, -1.0), (1, 1.0)):
        own = codes == code
        mean = float(np.average(scores[own], weights=weight[own]))
        variance = float(np.average((scores[own] - mean) ** 2, weights=weight[own]))
        deviation = max(np.sqrt(variance), 1e-300)
        bounds.append(bound_of(sign * mean / deviation))
    return bounds[0], bounds[1]


def folds_that_fit(codes: Array, asked: int) -> int:
    """How many folds leave two rows of each class in every training part; 0 where none do."""
    fewest = int(np.bincount(codes, minlength=2).min())
    for n in range(min(asked, fewest), 1, -1):
        if fewest - -(-fewest // n) >= 2:
            return n
    return 0
