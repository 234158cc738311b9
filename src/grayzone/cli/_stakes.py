"""What is at stake: the target's classes, what errors cost, and what else was asked for."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from grayzone.cli._errors import UserError, shortened
from grayzone.cli._tables import as_text, read_table
from grayzone.decision import threshold_from_costs

Array = Any

MOST_CLASSES = 50
LEAST_ROWS = 5  # of each class: one in each fold
_POSITIVE_WORDS = ("1", "yes", "true", "positive", "bad", "fraud", "y", "t")
UNDECIDED = "undecided"  # what is written for it


@dataclass(frozen=True)
class Stakes:
    """Classes, the positive one of two last, and the cost of deciding j where i is true."""

    classes: tuple[str, ...]
    costs: Array
    reject_cost: float | None = None
    max_fpr: float | None = None

    @property
    def binary(self) -> bool:
        """Whether there are two classes."""
        return len(self.classes) == 2

    @property
    def positive(self) -> str | None:
        """The positive one of two classes."""
        return self.classes[1] if self.binary else None

    @property
    def threshold(self) -> float | None:
        """Probability of the positive class from which on to decide for it."""
        return float(threshold_from_costs(self.costs)) if self.binary else None

    def action_costs(self) -> Array:
        """Costs (K, A) of all decisions, staying undecided last where that is one."""
        if self.reject_cost is None:
            return self.costs
        return np.column_stack([self.costs, np.full(len(self.classes), self.reject_cost)])


def read_target(table: Any, name: str) -> tuple[Array, Array]:
    """Labels as text, and which rows have one.

    Raises
    ------
    UserError
        If the column is missing, or cannot be a target.
    """
    if name not in table.columns:
        raise UserError(
            f"The table has no column {shortened([name])}; it has "
            f"{shortened([str(c) for c in table.columns])}."
        )
    column = table[name]
    known = column.notna().to_numpy()
    if not known.any():
        raise UserError(f"Target {shortened([name])} is empty in every row.")
    labels = as_text(column[known])
    names, counts = np.unique(labels, return_counts=True)
    if len(names) == 1:
        raise UserError(
            f"Target {shortened([name])} has the value {shortened([names[0]])} in every row: there "
            "is nothing to decide."
        )
    if len(names) > MOST_CLASSES:
        raise UserError(
            f"Target {shortened([name])} has {len(names):,} different values; expected 2 to "
            f"{MOST_CLASSES} classes. Is it a number or an identifier?"
        )
    rare = names[counts < LEAST_ROWS]
    if len(rare):
        raise UserError(
            f"Target {shortened([name])}: {shortened(list(rare))} occur in fewer than {LEAST_ROWS} "
            "rows, too few to learn from and to test on."
        )
    return labels, known


def order_classes(labels: Array, positive: str | None) -> tuple[tuple[str, ...], str]:
    """Classes with the positive one of two last, and how it was chosen.

    Raises
    ------
    UserError
        If the positive one is not among them, or there are more than two.
    """
    names, counts = np.unique(labels, return_counts=True)
    known = [str(name) for name in names]
    if positive is not None and positive not in known:
        raise UserError(f"--positive {positive!r} is no label; labels: {shortened(known)}.")
    if len(known) > 2:
        if positive is not None:
            raise UserError(f"--positive is for two classes; the target has {len(known)}.")
        return tuple(known), ""
    if positive is not None:
        chosen, why = positive, "as told"
    else:
        named = [name for name in known if name.lower() in _POSITIVE_WORDS]
        rarest = known[int(np.argmin(counts))]
        chosen, why = (named[0], "by its name") if len(named) == 1 else (rarest, "the rarer one")
    return tuple([name for name in known if name != chosen] + [chosen]), why


def parse_costs(text: str | None, matrix: Path | None, classes: tuple[str, ...]) -> Array:
    """Cost matrix from ``FN=10,FP=1``, ``label=cost`` for each class, or a file.

    Raises
    ------
    UserError
        If it says something else.
    """
    if text is not None and matrix is not None:
        raise UserError("Give --costs or --cost-matrix, not both.")
    if matrix is not None:
        return _read_matrix(matrix, classes)
    costs = np.ones((len(classes), len(classes)))
    np.fill_diagonal(costs, 0.0)
    if text is None:
        return costs
    pairs = [_pair(part) for part in text.split(",")]
    given = dict(pairs)
    if len(given) < len(pairs):
        raise UserError(f"--costs: {text!r} names a cost twice.")
    if len(classes) == 2 and {k.upper() for k in given} <= {"FN", "FP"}:
        by_kind = {k.upper(): v for k, v in given.items()}
        costs[1, 0], costs[0, 1] = by_kind.get("FN", 1.0), by_kind.get("FP", 1.0)
        return costs
    unknown = [name for name in given if name not in classes]
    if unknown:
        known = "FN, FP or " * (len(classes) == 2) + shortened(list(classes))
        raise UserError(f"--costs: {shortened(unknown)} is not known; expected {known}.")
    for k, name in enumerate(classes):
        costs[k] *= given.get(name, 1.0)
    return costs


def _pair(part: str) -> tuple[str, float]:
    name, equals, number = part.rpartition("=")
    if not equals or not name.strip():
        raise UserError(f"--costs: {part!r} is not of the form NAME=COST, such as FN=10.")
    return name.strip(), _cost(number, f"--costs: {name.strip()}")


def _cost(text: str, where: str) -> float:
    try:
        cost = float(text)
    except ValueError:
        raise UserError(f"{where}: {text!r} is no number.") from None
    if not isfinite(cost) or cost <= 0:
        raise UserError(f"{where}: a cost must be a positive number; got {text}.")
    return cost


def _read_matrix(path: Path, classes: tuple[str, ...]) -> Array:
    table = read_table(path, corner="true")
    rows = [str(label) for label in as_text(table.iloc[:, 0])]
    columns = [str(name) for name in table.columns[1:]]
    if sorted(rows) != sorted(classes) or sorted(columns) != sorted(classes):
        raise UserError(
            f"{path} must have a row and a column for each class, {shortened(list(classes))}, the "
            f"true one in the first column; it has rows {shortened(rows)} and columns "
            f"{shortened(columns)}."
        )
    table.index = pd.Index(rows)
    costs = table[list(classes)].loc[list(classes)].apply(pd.to_numeric, errors="coerce").to_numpy()
    off = costs[~np.eye(len(classes), dtype=bool)]
    if not np.all(np.isfinite(costs)) or np.any(np.diag(costs) != 0) or np.any(off <= 0):
        raise UserError(
            f"{path}: costs must be numbers, positive for errors and 0 for right decisions."
        )
    return costs.astype(np.float64)
