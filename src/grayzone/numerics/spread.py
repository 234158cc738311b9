"""Weights of many values, as weights of a few nodes."""

from __future__ import annotations

from typing import Any

import numpy as np
from array_api_compat import device

from grayzone.numerics.namespace import array_namespace, is_numpy_array

Array = Any


def spread(values: Array, weight: Array, nodes: Array) -> Array:
    """Share the weight of each value between the two nodes around it, in proportion.

    Sums of functions that are linear between nodes stay as they are, and depend on the values
    continuously.

    Parameters
    ----------
    values, weight : arrays of shape (n,)
        Values lie between the first and the last node.
    nodes : array of shape (J,)
        In ascending order, of the same library.

    Returns
    -------
    mass : array of shape (J,)
        What the nodes weigh.

    Examples
    --------
    >>> import numpy as np
    >>> from grayzone.numerics.spread import spread
    >>> spread(np.array([0.25, 2.0]), np.array([4.0, 1.0]), np.array([0.0, 1.0, 2.0]))
    array([3., 1., 1.])
    """
    if is_numpy_array(values):
        place = np.minimum(np.searchsorted(nodes, values, side="right") - 1, len(nodes) - 2)
        below = nodes[place]
        share = weight * (values - below) / (nodes[place + 1] - below)
        upper = np.bincount(place + 1, share, len(nodes))
        return np.bincount(place, weight - share, len(nodes)) + upper
    return _spread_sorted(values, weight, nodes)


def _spread_sorted(values: Array, weight: Array, nodes: Array) -> Array:
    """Do the same where nothing counts by number: sums between nodes are differences of sums."""
    xp, n = array_namespace(values), values.shape[0]
    order = xp.argsort(values)
    sorted_, weight = xp.take(values, order), xp.take(weight, order)
    ends = xp.searchsorted(sorted_, nodes[1:-1])
    zero = xp.zeros(1, dtype=ends.dtype, device=device(values))
    ends = xp.concat([zero, ends, zero + n])
    # sums of weights, and of weighted values, between two nodes
    none = xp.zeros(1, dtype=weight.dtype, device=device(values))
    below = xp.concat([none, xp.cumulative_sum(weight)])
    mass = xp.diff(xp.take(below, ends))
    below = xp.concat([none, xp.cumulative_sum(weight * sorted_)])
    upper = (xp.diff(xp.take(below, ends)) - nodes[:-1] * mass) / xp.diff(nodes)
    return xp.concat([mass - upper, none]) + xp.concat([none, upper])
