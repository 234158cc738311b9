"""Weights of many values, as weights of a few nodes that are evenly spaced."""

from __future__ import annotations

from typing import Any

import numpy as np
from array_api_compat import device

from grayzone.numerics.namespace import array_namespace, is_numpy_array

Array = Any


def spread(values: Array, weight: Array, apart: float, n_nodes: int) -> Array:
    """Share the weight of each value between the two nodes around it, in proportion.

    Nodes are 0, ``apart``, 2 ``apart`` and so on: which two are around a value takes no search.
    Sums of functions that are linear between nodes stay as they are, and depend on the values
    continuously.

    Parameters
    ----------
    values, weight : arrays of shape (n,)
        Values lie between the first and the last node.
    apart : float
        Distance between nodes.
    n_nodes : int
        Their number J.

    Returns
    -------
    mass : array of shape (J,)
        What the nodes weigh.

    Examples
    --------
    >>> import numpy as np
    >>> from grayzone.numerics.spread import spread
    >>> spread(np.array([0.25, 2.0]), np.array([4.0, 1.0]), apart=1.0, n_nodes=3)
    array([3., 1., 1.])
    """
    if is_numpy_array(values):
        at = values / apart
        place = np.minimum(at.astype(np.intp), n_nodes - 2)
        share = weight * (at - place)
        mass = np.bincount(place, weight - share, n_nodes)
        mass[1:] += np.bincount(place, share, n_nodes - 1)
        return mass
    xp = array_namespace(values)
    places = xp.arange(n_nodes, dtype=values.dtype, device=device(values))
    return _spread_sorted(values, weight, apart * places)


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
