r"""What errors cost for each row: thresholds and stakes of rows.

``cost[row, true, decided]`` is what a decision costs for *this* row; :func:`cost_matrices` makes it
of any form of ``example_costs``. Of two classes, an error on a negative row costs
:math:`C^-_i = c_{i01} - c_{i00}` more than the right decision, one on a positive row
:math:`C^+_i = c_{i10} - c_{i11}`. What is computed stays in the library and on the device of the
costs.

A row has *no threshold* where nothing is at stake (both are zero: any decision is right), or where
an error costs less than the right decision. Its probability then says nothing about what to decide
(or the wrong thing): a fit leaves such rows out, as if they weighed nothing.

References
----------
R. Hérault and Y. Grandvalet, "Sparse probabilistic classifiers", ICML 2007.

C. Elkan, "The foundations of cost-sensitive learning", IJCAI 2001.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from array_api_compat import device

from grayzone.numerics.checks import Array, Floats, as_numpy
from grayzone.numerics.namespace import array_namespace
from grayzone.numerics.row_costs import cost_matrices

__all__ = ["cost_matrices", "have_thresholds", "mean_costs", "row_stakes", "row_thresholds"]


def row_thresholds(matrices: Array) -> Array:
    r"""Return the probability from which on deciding for the positive class pays, for each row.

    Rule (1) of Hérault & Grandvalet (2007) with the costs of the row,

    .. math:: p \ge \frac{C^-_i}{C^+_i + C^-_i}.

    Parameters
    ----------
    matrices : array of shape (n_samples, 2, 2)
        ``cost[row, true, decided]``, as :func:`cost_matrices` gives it.

    Returns
    -------
    thresholds : array of shape (n_samples,)
        Numbers in [0, 1]; NaN for rows without a threshold, which have nothing at stake or an
        error that costs less than the right decision.

    See Also
    --------
    threshold_from_costs : The same for costs that all rows share.

    Examples
    --------
    >>> from grayzone.decision import cost_matrices, row_thresholds
    >>> row_thresholds(cost_matrices({"ham": 1.0, "spam": [4.0, 1.0, 0.0]}, ["ham", "spam"]))
    array([0.2, 0.5, 1. ])
    """
    xp = array_namespace(matrices)
    false_positive, false_negative = errors_of_rows(matrices)
    # halves, exactly, so that no sum overflows
    both = 0.5 * false_positive + 0.5 * false_negative
    good = have_thresholds(matrices)
    return xp.where(good, 0.5 * false_positive / xp.where(good, both, 1.0), xp.nan)


def row_stakes(matrices: Array) -> Array:
    r"""Return what is at stake in the decision about each row.

    The dearest decision minus the cheapest, averaged over the classes that a row could have; of two
    classes :math:`(C^+_i + C^-_i) / 2`, and zero for rows without a threshold, whatever they
    cost. A row's loss weighs as much as its stake: then the loss of two classes has, at the row's
    threshold, slopes in the ratio of its costs, in the same unit for all rows.

    Parameters
    ----------
    matrices : array of shape (n_samples, n_classes, n_classes)
        ``cost[row, true, decided]``, as :func:`cost_matrices` gives it.

    Returns
    -------
    stakes : array of shape (n_samples,)
        In the unit of the costs.

    See Also
    --------
    row_thresholds : Thresholds of the same rows.
    cost_matrices : Costs of each row as an array.

    Examples
    --------
    >>> from grayzone.decision import cost_matrices, row_stakes
    >>> row_stakes(cost_matrices({"ham": 1.0, "spam": [4.0, 1.0, 0.0]}, ["ham", "spam"]))
    array([2.5, 1. , 0.5])
    """
    xp = array_namespace(matrices)
    # a mean of shares, so that no sum overflows
    spans = (xp.max(matrices, axis=2) - xp.min(matrices, axis=2)) / matrices.shape[1]
    stakes = xp.sum(spans, axis=1)
    return xp.where(have_thresholds(matrices), stakes, 0.0) if matrices.shape[1] == 2 else stakes


def mean_costs(matrices: Array, weights: Array) -> Floats:
    """Return the mean of the rows' matrices, as a NumPy array.

    Parameters
    ----------
    matrices : array of shape (n_samples, n_classes, n_classes)
        ``cost[row, true, decided]``.
    weights : array of shape (n_samples,)
        Weights of the rows, of the same library.

    Returns
    -------
    cost : ndarray of shape (n_classes, n_classes)
        The matrix that rows of unknown costs are decided by.

    Examples
    --------
    >>> import numpy as np
    >>> from grayzone.decision.example_costs import cost_matrices, mean_costs
    >>> mean_costs(cost_matrices({0: [1.0, 3.0], 1: 5.0}, classes=[0, 1]), np.ones(2))
    array([[0., 2.],
           [5., 0.]])
    """
    xp, (n, K) = array_namespace(matrices), matrices.shape[:2]
    shares = weights / xp.sum(weights)
    return as_numpy(shares @ xp.reshape(matrices, (n, K * K))).reshape(K, K)


def true_costs(matrices: Array, codes: Array) -> Array:
    """Return what actions cost for each row, given its true class: (n, A) of (n, K, A).

    Of (n, 1, A) that is whatever the class is.

    Examples
    --------
    >>> import numpy as np
    >>> from grayzone.decision.example_costs import cost_matrices, true_costs
    >>> true_costs(cost_matrices({0: [1.0, 3.0], 1: 5.0}, classes=[0, 1]), np.array([1, 0]))
    array([[5., 0.],
           [0., 3.]])
    """
    if matrices.shape[1] == 1:
        return matrices[:, 0, :]
    xp = array_namespace(matrices)
    known = xp.arange(matrices.shape[1], device=device(codes))
    own = xp.astype(codes[:, None] == known[None, :], xp.float64)
    return xp.sum(own[:, :, None] * matrices, axis=1)


def errors_of_rows(matrices: Array) -> tuple[Array, Array]:
    """Return what an error costs more than the right decision, for each of two classes."""
    return matrices[:, 0, 1] - matrices[:, 0, 0], matrices[:, 1, 0] - matrices[:, 1, 1]


def have_thresholds(matrices: Array) -> Array:
    """Whether no error about a row is cheaper than the right decision, and one is dearer."""
    false_positive, false_negative = errors_of_rows(matrices)
    none_cheaper = (false_positive >= 0.0) & (false_negative >= 0.0)
    return none_cheaper & ((false_positive > 0.0) | (false_negative > 0.0))


def row_cuts(matrices: Array, reject_costs: Any = None) -> tuple[Array, Array]:
    """Return the lowest and the highest probability at which the decision about a row changes.

    Both are the row's threshold unless staying undecided, which costs `reject_costs` for each true
    class, is the best action in between. NaN for rows without a threshold.

    Examples
    --------
    >>> from grayzone.decision.example_costs import cost_matrices, row_cuts
    >>> row_cuts(cost_matrices({0: [1.0, 1.0], 1: [1.0, 3.0]}, classes=[0, 1]), [0.25, 0.25])
    (array([0.25      , 0.08333333]), array([0.75, 0.75]))
    """
    thresholds = row_thresholds(matrices)
    if reject_costs is None:
        return thresholds, thresholds
    xp, (negative, positive) = array_namespace(matrices), reject_costs
    # what staying undecided costs more than the right decision, and less than the error
    more, less = negative - matrices[:, 0, 0], matrices[:, 1, 0] - positive
    low = _meeting(more, less)
    more, less = positive - matrices[:, 1, 1], matrices[:, 0, 1] - negative
    high = 1.0 - _meeting(more, less)
    apart = (low < high) & (thresholds == thresholds)
    # never undecided next to a class that is never decided for
    inner_low, inner_high = xp.where(low > 0.0, low, high), xp.where(high < 1.0, high, low)
    return xp.where(apart, inner_low, thresholds), xp.where(apart, inner_high, thresholds)


def _meeting(more: Array, less: Array) -> Array:
    """Share of `more` in both, within 0 and 1: where two expected costs are the same."""
    xp = array_namespace(more)
    good = (more >= 0.0) & (less >= 0.0) & ((more > 0.0) | (less > 0.0))
    share = 0.5 * more / xp.where(good, 0.5 * more + 0.5 * less, 1.0)
    return xp.where(good, share, xp.where(less > 0.0, xp.zeros_like(less), 1.0))


def shared_matrix(matrices: Array) -> Floats | None:
    """Return the one matrix that all rows have, or None where they differ."""
    if not matrices.shape[0]:
        return None
    xp = array_namespace(matrices)
    if not bool(xp.all(matrices == matrices[:1, ...])):
        return None
    return np.array(as_numpy(matrices[0, ...]))
