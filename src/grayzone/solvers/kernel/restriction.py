r"""What restricting a function of a kernel to few centres costs, at most.

The multipliers of the restricted fit are feasible for the dual of the fit to all rows, too, whose
value there is a lower bound of what any function could reach. With :math:`\beta_i = w_i \alpha_i
y_i`, :math:`\tilde K = \Phi\Phi'` the kernel values as the centres know them, and P, D the values
of the restricted problem,

.. math:: P - D_{\mathrm{full}}(\alpha) = (P - D) + \tfrac{1}{2\lambda} \beta'(K - \tilde K)\beta
          \;\ge\; P - \min_f P_{\mathrm{full}}(f).

It takes the kernel values of all pairs of rows that have a multiplier. Where these are too many
the product of some rows, drawn at random, stands for all: an unbiased estimate of the same number.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from grayzone.numerics.backend import moved
from grayzone.numerics.namespace import array_namespace
from grayzone.solvers.loop import Solution
from grayzone.solvers.truncated.spec import TruncatedSpec
from grayzone.sources.labelled import Rows

Array = Any

# Kernel values that are computed at most: a second or so.
MOST_VALUES = 2**26
_LEAST_ROWS = 16  # that stand for all


class Restriction(NamedTuple):
    """Cost of the restriction, as a share of the objective, and whether it is a bound."""

    cost: float
    is_bound: bool


def restriction_cost(
    rows: Rows, spec: TruncatedSpec, solution: Solution, seed: int = 0
) -> Restriction:
    """Bound, or estimate, how much lower the objective of a function of all rows might be.

    Parameters
    ----------
    rows : Rows
        The rows that were fitted to.
    spec : TruncatedSpec
        The problem, with its centres.
    solution : Solution
        What was found, with the duals of its certificate.
    seed : int
        Draws the rows that stand for all, where these are too many.

    Returns
    -------
    restriction : Restriction
        As a share of the objective of the restricted fit.
    """
    found = solution.certificate
    assert spec.features is not None
    assert found.duals is not None
    xp, kernel = array_namespace(rows.weight), spec.features.kernel
    pull = rows.weight[:, None] * found.duals
    known = spec.problem(rows).design.gradient(pull)[:, : spec.features.n_centres]
    active = xp.nonzero(xp.any(pull != 0.0, axis=1))[0]
    n = int(active.shape[0])
    if n == 0:
        return Restriction(found.relative, True)
    some = rows.take(active)
    pull = xp.take(pull, active, axis=0)
    exact = n * n <= MOST_VALUES
    chosen = np.arange(n)
    if not exact:
        size = max(_LEAST_ROWS, MOST_VALUES // n)
        chosen = np.sort(np.random.default_rng(seed).permutation(n)[:size])
    places = moved(chosen, some.codes)
    part = some.take(places)
    values = kernel.product(part.X, kernel.right(some.X), pull)
    values = values - spec.features.scores(part.X, known)
    left = float(xp.sum(xp.take(pull, places, axis=0) * values)) * n / len(chosen)
    cost = found.gap + max(0.0, left) / (2.0 * spec.penalty)
    return Restriction(cost / found.primal if found.primal > 0.0 else 0.0, exact)
