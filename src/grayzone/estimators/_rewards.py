r"""What costs, or rewards, of rows come to in a policy: rewards of each row and action.

With :math:`c_{iya}` what action a costs for row i, whose class is y, its reward is
:math:`R_{ia} = (\max_b c_{iyb} - c_{iya}) / u`, in the unit
:math:`u = \sum_i w_i (\max_j c_{iyj} - \min_j c_{iyj}) / \sum_i w_i` over decisions j: that of
:func:`grayzone.decision.costs.cost_unit` where all rows cost the same. Rewards that are given, R(y,
x_i) of (4.1) of Le Roux (2017), say what actions earn whatever the class is; the least of a row
counts as zero, which changes no decision.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from array_api_compat import device

from grayzone.decision.costs import check_unit, reject_costs
from grayzone.decision.example_costs import true_costs
from grayzone.decision.limits import Target
from grayzone.estimators._stakes import refuse_both
from grayzone.numerics.backend import moved
from grayzone.numerics.checks import HEAVIEST, Array, Floats, as_numpy
from grayzone.numerics.namespace import array_namespace
from grayzone.numerics.pitfalls import Pitfall
from grayzone.sources.labelled import Labelled, Rows
from grayzone.sources.source import Sums

_HELD = {
    "example_costs": "all decisions about the training rows cost the same, given their classes",
    "rewards": "all classes earn the same in every training row",
}


def check_alone(estimator: Any, example_costs: Any) -> int:
    """Check that nothing else says what to trade for what beside rewards.

    Returns how many actions there are beside the classes.
    """
    for name, value in (
        ("example_costs", example_costs),
        ("costs", estimator.costs),
        ("reject_cost", estimator.reject_cost),
    ):
        if value is not None:
            raise ValueError(
                f"{name} must be None beside rewards, which say what each action earns."
            )
    label = estimator.undecided_label
    return int(not (isinstance(label, str) and label == "auto"))


class RowRewards(NamedTuple):
    """Rewards of rows that have costs or rewards of their own, in a unit that is that of all."""

    costs: Floats  # mean costs (K, K)
    unit: float
    reject_costs: tuple[float, ...] | None

    @classmethod
    def of(cls, labelled: Labelled, estimator: Any, targets: Sequence[Target]) -> RowRewards:
        """Find the unit; there must be neither costs for all rows nor a limit."""
        K, by_action = len(labelled.classes), labelled.beside is not None
        if targets:
            given = "rewards" if by_action else "example_costs"
            raise ValueError(
                f"{targets[0].name} already says what to trade for what; there must be no {given} "
                "beside it."
            )
        if by_action:
            sums = labelled.plain.reduce(_LossSums(K))
            means = as_numpy(sums["losses"]) / as_numpy(sums["mass"])[:, None]
            costs = means[:, :K]
            rejects = tuple(means[:, K].tolist()) if labelled.beside else None
        else:
            refuse_both(estimator.costs, labelled)
            rejects = None
            if estimator.reject_cost is not None:
                rejects = tuple(reject_costs(estimator.reject_cost, labelled.classes).tolist())
            sums = labelled.plain.reduce(_CostSums(K, rejects))
            costs = as_numpy(sums["costs"]).reshape(K, K) / max(float(sums["weight"]), 1e-300)
        unit = _checked_unit(sums, "rewards" if by_action else "example_costs")
        return cls(costs, unit, rejects)

    def given_to(self, labelled: Labelled) -> Labelled:
        """Return rows with their rewards; those whose costs are all alike weigh nothing."""
        by_action = labelled.beside is not None
        part = _Rewarded(self.unit, None if by_action else self.reject_costs)
        weighed = labelled.part_of(part, labelled.counts, labelled.mass)
        return replace(weighed, priced=False, by_rows=True)


def _checked_unit(sums: Sums, name: str) -> float:
    """Return what the dearest decision costs more than the cheapest, on average over rows."""
    weight = float(sums["weight"])
    unit = float(sums["spans"]) / weight if weight > 0.0 else 0.0
    if not unit > 0.0:
        raise ValueError(f"{name} make no difference: {_HELD[name]}.")
    check_unit(unit)
    if max(sums["most"]) > HEAVIEST * unit:
        also = " and reject_cost" if name == "example_costs" else ""
        raise ValueError(
            f"{name}{also} are too far apart: the largest is {max(sums['most']) / unit:.3g} times "
            f"what errors cost on average; at most {HEAVIEST:g} times can be trained for. "
            f"{Pitfall.UNITS}"
        )
    return unit


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
class _LossSums:
    """Sums over rows with rewards: weights, spans between classes, and losses by label."""

    n_classes: int

    def __call__(self, rows: Rows) -> Sums:
        xp, K, costs = array_namespace(rows.weight), self.n_classes, rows.costs
        assert costs is not None
        known = xp.arange(K, device=device(rows.codes))
        of_class = xp.where(rows.codes[:, None] == known[None, :], rows.weight[:, None], 0.0)
        return {
            "weight": float(xp.sum(rows.weight)),
            "spans": float(xp.sum(rows.weight * _spans(costs[:, :, :K])[:, 0])),
            "losses": as_numpy(of_class.T @ costs[:, 0, :]),
            "mass": as_numpy(xp.sum(of_class, axis=0)),
            "most": [float(xp.max(costs))],
        }


@dataclass(frozen=True)
class _Rewarded:
    """Rows with their rewards, and costs of all actions."""

    unit: float
    reject_costs: tuple[float, ...] | None

    def __call__(self, rows: Rows) -> Rows:
        xp, costs, weight = array_namespace(rows.weight), rows.costs, rows.weight
        assert costs is not None
        if costs.shape[1] > 1:
            weight = xp.where(xp.max(_spans(costs), axis=1) > 0.0, weight, 0.0)
        if self.reject_costs is not None:
            undecided = moved(list(self.reject_costs), costs)[None, :, None]
            costs = xp.concat([costs, undecided + xp.zeros_like(costs[:, :, :1])], axis=2)
        own = true_costs(costs, rows.codes)
        rewards = (xp.max(own, axis=1, keepdims=True) - own) / self.unit
        return rows.worth(weight, rewards, costs)
