"""Bands around curves: the rows drawn again, with replacement.

A curve over thresholds is made of sums over the rows between neighbouring thresholds. All
replicates are such sums of drawn rows, found by counting: no loop over thresholds.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from grayzone.numerics.checks import Floats, check_integer, check_number

# Draws that are held at once.
_DRAWN_AT_ONCE = 2**21


def check_confidence(confidence: Any) -> float:
    """Check the share of replicates that a band holds."""
    if not 0.0 < check_number("confidence", confidence) < 1.0:
        raise ValueError(f"confidence must be between 0 and 1; got {confidence!r}.")
    return float(confidence)


def check_replicates(n_bootstrap: Any) -> int:
    """Check a number of replicates: none, or enough for a quantile to mean anything."""
    if check_integer("n_bootstrap", n_bootstrap, least=0) == 1:
        raise ValueError("n_bootstrap must be 0, for no band, or at least 2; got 1.")
    return int(n_bootstrap)


def bootstrap_sums(
    values: Floats,
    cells: NDArray[np.intp],
    n_cells: int,
    n_bootstrap: int,
    random_state: Any,
    strata: NDArray[np.intp] | None = None,
) -> Floats:
    """Return the sums of values (V, n) over drawn rows in each cell: (n_bootstrap, V, n_cells).

    Each replicate draws as many rows as there are, or as there are of each stratum.
    """
    rng = check_random_state(random_state)
    n = len(cells)
    pools = [np.arange(n)] if strata is None else _pools(strata)
    sums = np.empty((n_bootstrap, len(values), n_cells))
    step = max(1, _DRAWN_AT_ONCE // n)
    for first in range(0, n_bootstrap, step):
        part = sums[first : first + step]
        rows = np.concatenate(
            [pool[rng.randint(len(pool), size=(len(part), len(pool)))] for pool in pools], axis=1
        )
        places = (cells[rows] + n_cells * np.arange(len(part))[:, None]).ravel()
        for k, value in enumerate(values):
            counted = np.bincount(places, value[rows].ravel(), minlength=len(part) * n_cells)
            part[:, k] = counted.reshape(len(part), n_cells)
    return sums


def _pools(strata: NDArray[np.intp]) -> list[NDArray[np.intp]]:
    return [np.flatnonzero(strata == stratum) for stratum in np.unique(strata)]


def percentile_band(replicates: Floats, confidence: float) -> tuple[Floats, Floats]:
    """Return the middle share of the replicates (n_bootstrap, n_points) at each point."""
    tail = 0.5 * (1.0 - confidence)
    lower, upper = np.quantile(replicates, [tail, 1.0 - tail], axis=0)
    return lower, upper
