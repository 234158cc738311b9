r"""What restricting a function of a kernel to few centres costs, at most.

The multipliers of the restricted fit are feasible for the dual of the fit to all rows, too, whose
value there is a lower bound of what any function could reach. With :math:`\beta_i = w_i \alpha_i
y_i`, :math:`\tilde K = \Phi\Phi'` the kernel values as the centres know them, and P, D the values
of the restricted problem,

.. math:: P - D_{\mathrm{full}}(\alpha) = (P - D) + \tfrac{1}{2\lambda} \beta'(K - \tilde K)\beta
          \;\ge\; P - \min_f P_{\mathrm{full}}(f).

So they are when all of them are made smaller by one factor, and the best of some factors is taken:
far from enough centres the last term is large. It takes the kernel values of all pairs of rows that
have a multiplier. Where these are too many the products of some rows, drawn at random, stand for
all: an unbiased estimate of that term, and so an estimate of the bound.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from grayzone.numerics.backend import moved
from grayzone.numerics.namespace import array_namespace
from grayzone.solvers.certificate import Terms, closed, terms_of
from grayzone.solvers.kernel.device_matrix import is_on_gpu
from grayzone.solvers.loop import Solution
from grayzone.solvers.truncated.spec import TruncatedSpec
from grayzone.sources.labelled import Rows

Array = Any

# Kernel values that are computed at most, in this memory and on a GPU: a second or so.
MOST_VALUES, _ON_GPU = 2**26, 2**32
_LEAST_ROWS = 16  # that stand for all
# Factors by which multipliers are made smaller.
_FACTORS = (1.0, 0.8, 0.6, 0.4, 0.3, 0.2, 0.1, 0.05, 0.02, 0.01, 0.0)


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
    problem = spec.problem(rows)
    pull = problem.design.gradient(rows.weight[:, None] * found.duals)
    left, exact = unexplained(rows, spec, found.duals, pull, seed)
    scores = problem.design.scores(solution.coef) if solution.scores is None else solution.scores
    gaps = []
    for t in _FACTORS:
        distance = terms_of(problem, scores, t * found.duals, spanned=True).distance
        own = closed(problem, solution.coef, found.primal, Terms(distance, t * pull)).gap
        gaps.append(own + t * t * left / (2.0 * spec.penalty))
    return Restriction(min(gaps) / found.primal if found.primal > 0.0 else 0.0, exact)


def unexplained(
    rows: Rows, spec: TruncatedSpec, duals: Array, pull: Array, seed: int = 0
) -> tuple[float, bool]:
    """Return what centres leave of the squared norm that multipliers span, and if that is exact.

    ``pull`` are the sums of the features times the multipliers.
    """
    assert spec.features is not None
    xp, kernel = array_namespace(rows.weight), spec.features.kernel
    beta = rows.weight[:, None] * duals
    active = xp.nonzero(xp.any(beta != 0.0, axis=1))[0]
    n = int(active.shape[0])
    if n == 0:
        return 0.0, True
    some, beta = rows.take(active), xp.take(beta, active, axis=0)
    most = _ON_GPU if is_on_gpu(beta) else MOST_VALUES
    exact, chosen = n * n <= most, np.arange(n)
    if not exact:
        size = max(_LEAST_ROWS, most // n)
        chosen = np.sort(np.random.default_rng(seed).permutation(n)[:size])
    places = moved(chosen, some.codes)
    part = some.take(places)
    values = kernel.product(part.X, kernel.right(some.X), beta)
    values = values - spec.features.scores(part.X, pull[:, : spec.features.n_centres])
    left = float(xp.sum(xp.take(beta, places, axis=0) * values)) * n / len(chosen)
    return max(0.0, left), exact
