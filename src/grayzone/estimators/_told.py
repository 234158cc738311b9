"""What is said at the end of a fit that did not go as one would wish."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from grayzone.estimators._base import NO_OPTIMUM
from grayzone.estimators._callbacks import FIT_DEPTH
from grayzone.numerics.backend import moved
from grayzone.numerics.namespace import array_namespace
from grayzone.numerics.pitfalls import Pitfall
from grayzone.numerics.tails import leading
from grayzone.solvers import Solution, Status
from grayzone.sources.labelled import Labelled

Array = Any

# Rows whose predictions are compared with what was certified, and by how much they may differ.
_TRIED, _UNFAITHFUL = 100, 1e-3
# What to do where the optimum is a constant.
CONSTANT_HELP = (
    "If the threshold is not the one you decide by, say so with costs (costs='balanced' puts it at "
    "the class prior); else take a wider zone, or the data hold nothing for this decision."
)


class Told:
    """An estimator that warns of what its solution is not."""

    kernel: Any
    tol: float
    max_iter: int
    dual_gap_: float

    def _tell_unless_converged(self, solution: Solution) -> None:
        if solution.fine(self.tol):
            return
        if solution.status is Status.NO_OPTIMUM:
            warnings.warn(NO_OPTIMUM, ConvergenceWarning, stacklevel=FIT_DEPTH)
            return
        advice = f"Scale the features, raise max_iter (now {self.max_iter}) or tol, or lower C."
        if solution.status is Status.ROUNDED:
            advice = "Scale the features, or lower C or the degree of a polynomial kernel."
        if solution.status is Status.STOPPED:
            advice = "Let it go on for a better model."
        warnings.warn(
            f"The fit stopped at a relative duality gap of {self.dual_gap_:.2e}, above "
            f"tol={self.tol:g}: {solution.status.value}. {advice} {Pitfall.NOT_CONVERGED}",
            ConvergenceWarning,
            stacklevel=FIT_DEPTH,
        )

    def _tell_unless_faithful(self: Any, labelled: Labelled, solution: Solution) -> None:
        """Warn where some rows' predictions are not the scores that were certified."""
        scores = solution.scores
        if scores is None:
            return
        take = array_namespace(scores).take
        said = unfaithful(self, labelled, lambda some: take(scores, some, axis=0))
        if said is not None:
            warnings.warn(said, ConvergenceWarning, stacklevel=FIT_DEPTH)

    def _tell_if_constant(self, solution: Solution) -> None:
        if not solution.constant:
            return
        warnings.warn(
            "The fitted model is a constant: the class priors lie outside the zone, and no "
            f"function of these features gains more than its penalty. {CONSTANT_HELP} "
            f"{Pitfall.CONSTANT}",
            UserWarning,
            stacklevel=FIT_DEPTH,
        )


def unfaithful(model: Any, labelled: Labelled, scores_of: Callable[[Array], Array]) -> str | None:
    """Return what is to be said where predictions of held rows are not the scores of the fit.

    Of some rows, by their places; what decides between classes is how far behind the leading one
    the others are.
    """
    if labelled.held is None or model.kernel == "precomputed":
        return None
    n_rows = labelled.held.n_rows
    apart = -(-n_rows // _TRIED)
    some = moved(np.arange(0, n_rows, apart), labelled.like)
    certified, predicted = scores_of(some), model._scores_of(labelled.held.X[::apart, :])
    xp = array_namespace(certified)
    if certified.shape[1] > 1:
        leads = leading(certified)
        certified, predicted = (
            scores - xp.sum(xp.where(leads, scores, 0.0), axis=1, keepdims=True)
            for scores in (certified, predicted)
        )
    away = float(xp.max(xp.abs(predicted - certified) / (1.0 + xp.abs(certified))))
    if away <= _UNFAITHFUL:
        return None
    return (
        "Predictions of the training rows are not the scores that the fit has certified: they "
        f"differ by up to {away:.1e}, by rounding errors of large values. Scale the features, or "
        f"lower C or the degree of a polynomial kernel. {Pitfall.UNSCALED}"
    )
