"""What costs of rows come to in a fit: weights by what is at stake, zones and floors of rows."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from grayzone.decision import adjust_prior
from grayzone.decision.costs import check_unit
from grayzone.decision.example_costs import row_cuts, row_stakes, row_thresholds
from grayzone.decision.zones import row_floors
from grayzone.numerics.checks import HEAVIEST, Floats, as_numpy
from grayzone.numerics.losses import sigmoid
from grayzone.numerics.namespace import array_namespace
from grayzone.numerics.pitfalls import Pitfall
from grayzone.sources.labelled import Labelled, Rows
from grayzone.sources.source import Sums

Array = Any


def refuse_both(costs: Any, labelled: Labelled) -> None:
    """Raise an error where there are costs for all rows and costs of each."""
    if labelled.priced and costs is not None:
        raise ValueError(
            f"costs must be None beside example_costs, which say what each row costs; got "
            f"costs={costs!r}."
        )


class Staked(NamedTuple):
    """Rows that weigh what is at stake in them, their mean costs, and how far their zones reach."""

    labelled: Labelled
    costs: Floats
    reach: tuple[float, float] | None


def staked(
    labelled: Labelled, width: float | None, reject_costs: list[float] | None = None
) -> Staked:
    r"""Weigh rows by what is at stake in them; those of two classes get zones of their own.

    With stakes :math:`s_i` and weights :math:`w_i`, the loss of a row weighs
    :math:`w_i s_i / \bar s`, where :math:`\bar s = \sum_i w_i s_i / \sum_i w_i`.

    Parameters
    ----------
    labelled : Labelled
        Rows that have costs.
    width : float or None
        Half-width of their zones; None where a zone is one for all rows.
    reject_costs : list of float or None
        What staying undecided costs for each true class.

    Returns
    -------
    staked : Staked
        The rows with such weights, and their floors; mean costs of those that have a stake. Rows
        that have nothing at stake weigh nothing.
    """
    stakes = _Stakes(width, None if reject_costs is None else tuple(reject_costs))
    sums = labelled.plain.reduce(_StakeSums(stakes, len(labelled.classes)))
    mass, counts, weight = sums["staked"], sums["counts"], float(sums["weight"])
    if not np.all(counts > 0):
        raise ValueError(
            "example_costs must leave something at stake in rows of each class: a threshold "
            "strictly between 0 and 1, where a zone is to lie around it; they do for "
            f"{counts.tolist()} rows of the classes {labelled.classes.tolist()}."
        )
    least, most = min(sums["least"]), max(sums["most"])
    # the mean stake; where all are the same, rows weigh what they do without costs, to the last bit
    unit = most if least == most else float(mass.sum()) / weight
    check_unit(unit)
    _check_spread(unit, least, most)
    part = _Weighed(stakes, unit)
    weighed = labelled.part_of(part, counts, mass / unit)
    weighed, reach = replace(weighed, priced=False, by_rows=width is not None), None
    if width is not None:
        ends = min(sums["lowest"]), -min(sums["highest"])
        reach = float(sigmoid(np.array(ends[0]))), float(sigmoid(np.array(ends[1])))
    return Staked(weighed, sums["costs"] / weight, reach)


def reach_of(model: Any) -> tuple[float, float] | None:
    """Return the probabilities of two classes between which a model was fitted to be faithful.

    That is its zone or, of a model that was fitted with costs of each row, the range of theirs.
    """
    reach = getattr(model, "_reach", None) or getattr(model, "zone_", None)
    return reach if isinstance(reach, tuple) else None


def warn_beyond_reach(
    model: Any, matrices: Array, shares: tuple[Any, Any] | None = None, depth: int = 4
) -> None:
    """Warn where costs of rows put thresholds beyond all zones that a model was fitted for.

    ``shares`` are those of the classes where decisions are made, and those of the fit, where these
    are others; ``depth`` is the number of frames to the caller of ``predict``.
    """
    reach = reach_of(model)
    if reach is None:
        return
    thresholds = as_numpy(row_thresholds(matrices))
    thresholds = thresholds[~np.isnan(thresholds)]
    if shares is not None:
        thresholds = adjust_prior(thresholds, *shares)
    n_beyond = int(np.count_nonzero((thresholds < reach[0]) | (thresholds > reach[1])))
    if n_beyond:
        warnings.warn(
            f"The costs of {n_beyond} of {matrices.shape[0]} rows put their thresholds outside the "
            f"zone ({reach[0]:.3g}, {reach[1]:.3g}) that the model was fitted for, where its "
            "probabilities only say that they are beyond it. Fit it with such costs, with a wider "
            f"zone, or with zone=None. {Pitfall.BEYOND_THE_ZONE}",
            UserWarning,
            stacklevel=depth,
        )


def _check_spread(unit: float, least: float, most: float) -> None:
    if most > HEAVIEST * unit or least < unit / HEAVIEST:
        raise ValueError(
            f"example_costs are too far apart: stakes of rows are from {least:.3g} to "
            f"{most:.3g}, {unit:.3g} on average; at most {HEAVIEST:g} times that can be "
            f"trained for, and no less than its inverse but zero. {Pitfall.UNITS}"
        )


@dataclass(frozen=True)
class _Stakes:
    """Stakes of rows and, where these have zones of their own, the floors of both classes."""

    width: float | None
    reject_costs: tuple[float, ...] | None

    def of(self, rows: Rows) -> tuple[Array, Array | None]:
        stakes = row_stakes(rows.costs)
        if self.width is None:
            return stakes, None
        xp = array_namespace(stakes)
        floors = row_floors(*row_cuts(rows.costs, self.reject_costs), self.width)
        zoned = xp.isfinite(floors[:, :1])
        # rows without a zone weigh nothing, and any floor will do
        return xp.where(zoned[:, 0], stakes, 0.0), xp.where(zoned, floors, 0.0)


@dataclass(frozen=True)
class _StakeSums:
    """Sums over the rows that have a stake: their weights, costs, and stakes by class."""

    stakes: _Stakes
    n_classes: int

    def __call__(self, rows: Rows) -> Sums:
        xp, K = array_namespace(rows.weight), self.n_classes
        stakes, floors = self.stakes.of(rows)
        weight = xp.where(stakes > 0.0, rows.weight, 0.0)
        staked, used = weight * stakes, weight > 0.0
        members = [used & (rows.codes == code) for code in range(K)]
        costs = weight @ xp.reshape(rows.costs, (rows.n_rows, K * K))
        return {
            "weight": float(xp.sum(weight)),
            "costs": as_numpy(costs).reshape(K, K),
            "staked": np.array([float(xp.sum(xp.where(m, staked, 0.0))) for m in members]),
            "counts": np.array([int(xp.count_nonzero(m)) for m in members]),
            "least": [float(xp.min(xp.where(used, stakes, xp.inf)))],
            "most": [float(xp.max(xp.where(used, stakes, 0.0)))],
            # log-odds at the lower ends of zones, and minus those at the upper ends
            "lowest": _least_of(floors, 0, used),
            "highest": _least_of(floors, 1, used),
        }


def _least_of(floors: Array | None, column: int, used: Array) -> list[float]:
    if floors is None:
        return []
    xp = array_namespace(floors)
    return [float(xp.min(xp.where(used, floors[:, column], xp.inf)))]


@dataclass(frozen=True)
class _Weighed:
    """Rows that weigh what is at stake in them, with their floors."""

    stakes: _Stakes
    unit: float

    def __call__(self, rows: Rows) -> Rows:
        stakes, floors = self.stakes.of(rows)
        return rows.worth(rows.weight * (stakes / self.unit), floors)
