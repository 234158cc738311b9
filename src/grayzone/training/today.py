"""Stakes of the day: decisions may be asked for with other costs than those of training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import inf, isfinite
from typing import Any

import numpy as np

from grayzone.decision.example_costs import cost_matrices, mean_costs
from grayzone.tables.errors import UserError
from grayzone.training.labels import by_place
from grayzone.training.stakes import Stakes, check_sizes, read_costs

Array = Any
Table = Any  # a pandas DataFrame


def stakes_today(
    stakes: Stakes, labels: Array, costs: Any, reject_cost: float | None, table: Table
) -> tuple[Stakes, Array | None]:
    """Return what is at stake today, and the costs (n, K, K) of each row where these differ.

    Parameters
    ----------
    stakes : Stakes
        Those of training.
    labels : ndarray of shape (n_classes,)
        Labels of the table's own type, in the order of the stakes.
    costs : mapping, str, array-like or None
        What it costs to misclassify each label, ``{label: cost}``, of two classes also
        ``{"FN": cost, "FP": cost}``: a number, a range ``(low, high)``, a column of the table, or
        an array with one for each row. The same as text, ``"FN=amount,FP=3..8"``. Or
        ``cost[true, decided]`` or ``cost[row, true, decided]`` in the sorted order of the labels.
        None: those of training.
    reject_cost : float or None
        Cost of staying undecided. None: that of training; infinity: always decide.
    table : DataFrame
        Where columns of costs are.

    Raises
    ------
    UserError, ValueError
        If costs are something else, or the table lacks a column of them.
    """
    if reject_cost is not None:
        stakes = replace(stakes, reject_cost=_rejection(reject_cost))
    if costs is None:
        return stakes, stakes.row_costs(table)
    if isinstance(costs, Mapping):
        texts = dict(zip(labels.tolist(), stakes.classes, strict=True))
        named = {str(texts.get(name, name)): value for name, value in costs.items()}
        if any(map(_is_column, named.values())):
            return _of_rows(stakes, _matrices(_full(named, stakes), stakes.classes, table))
        costs = named
    elif not isinstance(costs, str):
        costs = np.asarray(costs, dtype=np.float64)
        if costs.ndim == 3:
            matrices = cost_matrices(costs, labels, len(table))
            return _of_rows(stakes, by_place(matrices, labels))
        if costs.shape == (len(labels), len(labels)):
            costs = by_place(costs, labels)
    matrix, reach, columns = read_costs(costs, None, stakes.classes, table)
    stakes = replace(stakes, costs=matrix, reach=reach, columns=columns)
    return stakes, stakes.row_costs(table)


def _rejection(cost: float) -> float | None:
    if cost == inf:
        return None
    if not (isfinite(cost) and cost > 0):
        raise UserError(f"reject_cost must be a positive number; got {cost:g}.")
    check_sizes([cost], "reject_cost")
    return float(cost)


def _is_column(value: Any) -> bool:
    """Whether it is a number for each row; a pair is a range."""
    pair = isinstance(value, tuple | list) and len(value) == 2
    return np.ndim(value) == 1 and not pair


def _full(named: Mapping[str, Any], stakes: Stakes) -> dict[str, Any]:
    """Name costs by classes; those that are not named are 1."""
    if stakes.binary and set(named) <= {"FN", "FP"}:
        named = {stakes.classes[name == "FN"]: value for name, value in named.items()}
    return dict.fromkeys(stakes.classes, 1.0) | dict(named)


def _matrices(costs: Any, labels: Any, table: Table) -> Array:
    return cost_matrices(costs, labels, len(table), some_stake=False, name="costs")


def _of_rows(stakes: Stakes, rows: Array) -> tuple[Stakes, Array]:
    mean = mean_costs(rows, np.ones(len(rows))) if len(rows) else stakes.costs
    return replace(stakes, costs=mean, reach=None, columns=None), rows
