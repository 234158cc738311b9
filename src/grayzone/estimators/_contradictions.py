"""What is asked for and undone by the same parameters: no error, but said."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from grayzone.decision.costs import cost_matrix
from grayzone.decision.rules import rejection_pays
from grayzone.estimators._callbacks import FIT_DEPTH
from grayzone.numerics.checks import as_numpy
from grayzone.numerics.pitfalls import Pitfall

_PAID_TWICE = (
    "class_weight={!r} beside costs: weights move the probabilities to equal class shares, and "
    "costs then move the threshold as if they were those of the rows, so that the rare class is "
    "paid for twice. Leave class_weight out; where classes will be as frequent as each other, "
    f"give the weights as a mapping. {Pitfall.PAID_TWICE}"
)
_NEVER_UNDECIDED = (
    "reject_cost={!r} is never worth paying: whatever the probabilities, some decision is expected "
    "to cost no more, and no row will be left undecided. Lower it, or check that it has the unit "
    f"of costs. {Pitfall.NEVER_UNDECIDED}"
)
_JUDGED_OTHERWISE = (
    "scoring='accuracy' counts all mistakes alike, while decisions are made by costs that differ: "
    "the search would choose what costs more. Leave scoring out, or give "
    f"grayzone.metrics.make_cost_scorer(costs). {Pitfall.JUDGED_OTHERWISE}"
)


def tell_contradictions(
    estimator: Any, example_costs: Any = None, inside: Any = None, depth: int = FIT_DEPTH
) -> None:
    """Warn at the end of a fit where parameters contradict each other.

    ``inside`` is the fitted classifier that decisions are made around, if it is not the estimator
    itself; ``depth`` is the number of frames to the caller of ``fit``.
    """
    weights, costs = _class_weight(estimator if inside is None else inside), estimator.costs
    differ, said = _differ(costs), []
    if differ and not isinstance(costs, str) and _is(weights, "balanced", "balanced_subsample"):
        said.append(_PAID_TWICE.format(weights))
    judge = getattr(estimator, "scoring", None)
    if (differ or example_costs is not None) and _is(judge, "accuracy"):
        said.append(_JUDGED_OTHERWISE)
    if example_costs is None and _never_undecided(estimator):
        said.append(_NEVER_UNDECIDED.format(estimator.reject_cost))
    for sentence in said:
        warnings.warn(sentence, UserWarning, stacklevel=depth)


def _class_weight(estimator: Any) -> Any:
    """Weights of the last step of pipelines and searches.

    Calibration brings class shares back to those of the rows: what is inside of it may be weighted.
    """
    while hasattr(estimator, "steps") or hasattr(estimator, "best_estimator_"):
        steps = getattr(estimator, "steps", None)
        estimator = steps[-1][1] if steps else estimator.best_estimator_
    return getattr(estimator, "class_weight", None)


def _is(value: Any, *names: str) -> bool:
    return isinstance(value, str) and value in names


def _differ(costs: Any) -> bool:
    """Whether some mistakes cost more than others."""
    if costs is None or isinstance(costs, str):
        return costs is not None
    if isinstance(costs, Mapping):
        return len({tuple(np.ravel(cost).tolist()) for cost in costs.values()}) > 1
    matrix = np.asarray(costs, dtype=np.float64)
    errors = matrix[~np.eye(len(matrix), dtype=bool)]
    return bool(errors.min() < errors.max())


def _never_undecided(estimator: Any) -> bool:
    """Whether no row could be left undecided, by costs that all rows share.

    Without costs in the parameters those of rows may still come with what is to be decided.
    """
    costs, reject = estimator.costs, getattr(estimator, "_reject_costs", None)
    if reject is None or costs is None or isinstance(costs, str):
        return False
    return not rejection_pays(cost_matrix(costs, as_numpy(estimator.classes_)), reject)
