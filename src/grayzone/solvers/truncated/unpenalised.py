r"""The optimum without a penalty, as the limit of penalties that vanish.

A certificate bounds what *any* function could gain, and without a penalty some are infinitely far
away. With a penalty :math:`\lambda` whose minimum f has the gap g,

.. math:: P_0(f) - P_0(h) \le g + \tfrac\lambda2(\|h\|^2 - \|f\|^2),

so that among the functions h with :math:`\|h\|^2 \le 2\|f\|^2` none is better by more than the gap
and the penalty of f. Penalties are lowered, each fit starting from the one before, until that is as
little as was asked for, and a hundred times less penalty does not let f grow any more. Where the
classes can be told apart without an error the likelihood has no optimum: f grows for ever.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from grayzone.numerics.namespace import array_namespace
from grayzone.solvers.loop import Solution
from grayzone.solvers.truncated.spec import TruncatedSpec

Array = Any

_FIRST = 1.0  # penalty to begin with: that of C = 1
_FEWEST = 1e-10  # relative accuracy beyond which penalties are not lowered
_AIM = 0.05  # of the accuracy, that the penalty may take up
_MOST_AT_ONCE, _LEAST_AT_ONCE = 1e-6, 1e-2  # what a penalty is lowered by
_GROWN = 1.01  # ratio of norms of which the larger one is no larger
_ENOUGH = 16  # fits


def without_penalty(
    fit: Callable[[TruncatedSpec, Array | None], Solution],
    spec: TruncatedSpec,
    n_features: int,
    tol: float,
) -> tuple[TruncatedSpec, Solution, bool]:
    """Minimise criterion (8) for C = inf.

    Parameters
    ----------
    fit : callable
        Minimises for a spec, from start coefficients or None.
    spec : TruncatedSpec
        Losses and intercept; its penalty does not matter.
    n_features : int
        Features of a row, whose coefficients come first.
    tol : float
        Relative accuracy.

    Returns
    -------
    spec : TruncatedSpec
        With the last penalty.
    solution : Solution
        Its certificate is that of the criterion without a penalty, among functions of up to
        1.4 times the norm.
    found : bool
        Whether there is an optimum: whether the penalty takes up next to nothing.
    """
    penalty, start, accuracy, n_iter, before = _FIRST, None, max(tol, _FEWEST), 0, 0.0
    for _ in range(_ENOUGH):
        spec = replace(spec, penalty=penalty)
        solution = fit(spec, start)
        start, found, n_iter = solution.coef, solution.certificate, n_iter + solution.n_iter
        slopes = start[:, :n_features]
        square = float(array_namespace(slopes).sum(slopes * slopes))
        owed, grown = 0.5 * penalty * square, square > _GROWN**2 * before
        done = not grown and owed <= 0.5 * accuracy * found.primal
        if done:
            break
        aim = _AIM * accuracy * found.primal / max(owed, 1e-300)
        penalty, before = penalty * min(max(aim, _MOST_AT_ONCE), _LEAST_AT_ONCE), square
    certificate = replace(found, primal=found.primal - owed, gap=found.gap + owed)
    solution = replace(solution, certificate=certificate, n_iter=n_iter)
    return spec, solution, done
