r"""Rows for new bases by kernel boosting, after Crammer, Keshet & Singer (2003).

They build a kernel :math:`K = \sum_t \alpha_t\,\varphi_t\varphi_t'` from simple ones: pairs of rows
that it gets wrong so far weigh more,

.. math:: D_{ij} = \frac{p_i p_j}{1 + e^{y_i y_j K_{ij}}},

the next function has the largest :math:`\sum_{ij} D_{ij} y_i y_j\,\varphi_i\varphi_j` at
:math:`\sum_i p_i\varphi_i^2 = 1`, and :math:`\alpha_t = \tfrac12\log(W_+/W_-)`, with
:math:`W_\pm` the sums of :math:`D_{ij}|\varphi_i\varphi_j|` over the pairs that it has right and
wrong. Strohmann et al. (2004, section 4) ask how that relates to sparse greedy minimax machines:
both add one function a time. Here boosting proposes and the bound decides. Functions are those
around rows, with the mean half way between the classes at 0, which stand for the generalised
eigenvectors of Crammer et al.: an eigenvector is a sum over all rows, and no sparse basis. A row
that was taken is not proposed again while there are others; otherwise few rows come all the time.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Array = Any

MOST_ROWS = 256  # of a sample whose pairs are weighed, and whose rows are proposed
_LEAST = 1e-12  # of W, which is a share


class KernelBooster:
    """A boosted kernel on a sample of rows.

    Parameters
    ----------
    values : array of shape (m, m)
        The functions around the rows of the sample, by columns, on its rows.
    signs : array of shape (m,)
        1 for class x, -1 for class y.
    shares : array of shape (m,)
        What rows weigh; those of each class have the sum 1 / 2.

    Examples
    --------
    >>> import numpy as np
    >>> from grayzone.solvers.minimax.boosting import KernelBooster
    >>> values = np.array([[1.0, 0.3, 0.9], [0.3, 1.0, 0.2], [0.9, 0.2, 1.0]])
    >>> booster = KernelBooster(values, np.array([1.0, -1.0, 1.0]), np.array([0.25, 0.5, 0.25]))
    >>> sorted(booster.propose(2).tolist())
    [1, 2]
    """

    def __init__(self, values: Array, signs: Array, shares: Array) -> None:
        self._signs, self._shares = signs, shares
        self._functions = self._normalised(values)
        self.kernel = np.zeros((signs.size, signs.size))
        self._taken = np.zeros(signs.size, dtype=bool)

    def _normalised(self, values: Array) -> Array:
        """Functions by columns, 0 half way between the classes, and of mean square 1."""
        centred = values - self._shares @ values
        size = np.sqrt(self._shares @ centred**2)
        # what rounding makes of a function that does not vary is none
        real = size > 1e-12 * np.maximum(np.max(np.abs(values), axis=0), 1e-300)
        return np.where(real, centred / np.where(real, size, 1.0), 0.0)

    def pair_weights(self) -> Array:
        """D, (m, m): what each pair weighs by now."""
        right = np.clip(np.outer(self._signs, self._signs) * self.kernel, -500.0, 500.0)
        return np.outer(self._shares, self._shares) / (1.0 + np.exp(right))

    def propose(self, n: int) -> Array:
        """Places in the sample of the n functions that do most for pairs that are wrong so far."""
        signed = self._signs[:, None] * self._functions
        gains = np.sum(signed * (self.pair_weights() @ signed), axis=0)
        if np.all(self._taken):
            self._taken[:] = False
        order = np.argsort(-gains, kind="stable")
        return order[~self._taken[order]][:n]

    def add(self, place: int, values: Array) -> float:
        """Add the function around a row of the sample to the kernel; return its weight.

        ``values`` has those on the sample, which need not be those that it was proposed with.
        """
        self._taken[place] = True
        function = self._normalised(values[:, None])[:, 0]
        base = np.outer(function, function)
        gains = np.outer(self._signs, self._signs) * base * self.pair_weights()
        right, wrong = (float(np.sum(np.maximum(sign * gains, 0.0))) for sign in (1.0, -1.0))
        alpha = 0.5 * float(np.log(max(right, _LEAST)) - np.log(max(wrong, _LEAST)))
        self.kernel += alpha * base
        return alpha
