r"""What costs of rows come to in a policy: rewards of each row and action.

With :math:`c_{iya}` what action a costs for row i, whose class is y, its reward is
:math:`R_{ia} = (\max_b c_{iyb} - c_{iya}) / u`, in the unit
:math:`u = \sum_i w_i (\max_j c_{iyj} - \min_j c_{iyj}) / \sum_i w_i` over decisions j: that of
:func:`grayzone.decision.costs.cost_unit` where all rows cost the same.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from array_api_compat import array_namespace

from grayzone.decision.costs import check_unit, reject_costs
from grayzone.decision.example_costs import true_costs
from grayzone.decision.limits import Target
from grayzone.estimators._stakes import refuse_both
from grayzone.numerics.backend import moved
from grayzone.numerics.checks import HEAVIEST, Floats, as_numpy
from grayzone.sources.labelled import Labelled, Rows
from grayzone.sources.source import Sums

Array = Any


class RowRewards(NamedTuple):
    """Rewards of rows that have costs of their own, in a unit that is that of all."""

    costs: Floats  # mean costs (K, K)
    unit: float
    reject_costs: tuple[float, ...] | None

    @classmethod
    def of(cls, labelled: Labelled, estimator: Any, target: Target | None) -> RowRewards:
        """Find the unit; there must be neither costs for all rows nor a limit."""
        refuse_both(estimator.costs, labelled)
        if target is not None:
            raise ValueError(
                f"{target.name} already says what to trade for what; there must be no "
                "example_costs beside it."
            )
        K, rejects = len(labelled.classes), None
        if estimator.reject_cost is not None:
            rejects = tuple(reject_costs(estimator.reject_cost, labelled.classes).tolist())
        sums = labelled.plain.reduce(_CostSums(K, rejects))
        weight = float(sums["weight"])
        unit = float(sums["spans"]) / weight if weight > 0.0 else 0.0
        if not unit > 0.0:
            raise ValueError(
                "example_costs make no difference: all decisions about the training rows cost the "
                "same, given their classes."
            )
        check_unit(unit)
        if max(sums["most"]) > HEAVIEST * unit:
            raise ValueError(
                f"example_costs and reject_cost are too far apart: the largest is "
                f"{max(sums['most']) / unit:.3g} times what errors cost on average; at most "
                f"{HEAVIEST:g} times can be trained for."
            )
        return cls(as_numpy(sums["costs"]).reshape(K, K) / weight, unit, rejects)

    def given_to(self, labelled: Labelled) -> Labelled:
        """Return rows with their rewards; those that have nothing at stake weigh nothing."""
        part = _Rewarded(self.unit, self.reject_costs)
        weighed = labelled.part_of(part, labelled.counts, labelled.mass)
        return replace(weighed, priced=False, by_rows=True)


def _spans(costs: Array) -> Array:
    """Return what the dearest decision costs more than the cheapest, (n, K)."""
    xp = array_namespace(costs)
    return xp.max(costs, axis=2) - xp.min(costs, axis=2)


@dataclass(frozen=True)
class _CostSums:
    """Sums over rows that have anything at stake: weights, costs, and spans for their classes."""

    n_classes: int
    reject_costs: tuple[float, ...] | None

    def __call__(self, rows: Rows) -> Sums:
        xp, K = array_namespace(rows.weight), self.n_classes
        spans = _spans(rows.costs)
        weight = xp.where(xp.max(spans, axis=1) > 0.0, rows.weight, 0.0)
        own = true_costs(spans[:, :, None], rows.codes)[:, 0]
        return {
            "weight": float(xp.sum(weight)),
            "spans": float(xp.sum(weight * own)),
            "costs": as_numpy(weight @ xp.reshape(rows.costs, (rows.n_rows, K * K))),
            "most": [max(float(xp.max(rows.costs)), *(self.reject_costs or (0.0,)))],
        }


@dataclass(frozen=True)
class _Rewarded:
    """Rows with their rewards, and costs of all actions."""

    unit: float
    reject_costs: tuple[float, ...] | None

    def __call__(self, rows: Rows) -> Rows:
        xp, costs = array_namespace(rows.weight), rows.costs
        assert costs is not None
        weight = xp.where(xp.max(_spans(costs), axis=1) > 0.0, rows.weight, 0.0)
        if self.reject_costs is not None:
            undecided = moved(list(self.reject_costs), costs)[None, :, None]
            costs = xp.concat([costs, undecided + xp.zeros_like(costs[:, :, :1])], axis=2)
        own = true_costs(costs, rows.codes)
        rewards = (xp.max(own, axis=1, keepdims=True) - own) / self.unit
        return rows.worth(weight, rewards, costs)
