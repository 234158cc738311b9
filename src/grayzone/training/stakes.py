"""What is at stake: the target's classes, what errors cost, and what else was asked for."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from grayzone.decision import bayes_decision, near_range, near_threshold, threshold_from_costs
from grayzone.decision.costs import check_sizes as check_amounts
from grayzone.decision.costs import error_costs
from grayzone.decision.limits import Target, cut_at
from grayzone.decision.near import FACTOR
from grayzone.decision.rules import cuts_between_actions, rejection_pays
from grayzone.numerics.pitfalls import Pitfall
from grayzone.tables.errors import UserError, nearest, not_among, option, shortened
from grayzone.tables.reading import as_text, read_table

Array = Any

MOST_CLASSES = 50
LEAST_ROWS = 5  # of each class: one in each fold
CONFIDENCE = 0.95  # with which a limit is kept on new rows
LIMITS = ("max_fpr", "min_recall", "min_precision")
_POSITIVE_WORDS = ("1", "yes", "true", "positive", "bad", "fraud", "y", "t")
UNDECIDED = "undecided"  # what is written for it
_EDGE = 1e-6  # probabilities nearer to 0 and 1 than this are no thresholds to be near to


@dataclass(frozen=True)
class Stakes:
    """Classes, the positive one of two last, what errors cost, and limits.

    Attributes
    ----------
    classes : tuple of str
        Labels.
    costs : array of shape (K, K)
        Cost of deciding j where i is true: of a range the geometric middle, of a column its mean.
    reject_cost : float or None
        Cost of staying undecided.
    max_fpr, min_recall, min_precision : float or None
        A limit, of which there is at most one.
    reach : tuple of K pairs, or None
        How many times as much errors about each class may cost, where ranges were given.
    columns : tuple of K names, or None
        Columns that have the cost of misclassifying each row if it has that class; None for costs
        that all rows share.
    """

    classes: tuple[str, ...]
    costs: Array
    reject_cost: float | None = None
    max_fpr: float | None = None
    min_recall: float | None = None
    min_precision: float | None = None
    reach: tuple[tuple[float, float], ...] | None = None
    columns: tuple[str | None, ...] | None = None

    @property
    def binary(self) -> bool:
        """Whether there are two classes."""
        return len(self.classes) == 2

    @property
    def never_undecided(self) -> bool:
        """Whether staying undecided is allowed, and dearer than deciding for every row."""
        if self.reject_cost is None or self.reach is not None or self.columns is not None:
            return False
        return not rejection_pays(self.costs, [self.reject_cost] * len(self.classes))

    @property
    def positive(self) -> str | None:
        """The positive one of two classes."""
        return self.classes[1] if self.binary else None

    @property
    def threshold(self) -> float | None:
        """Probability of the positive class from which on to decide for it."""
        return float(threshold_from_costs(self.costs)) if self.binary else None

    @property
    def undecided_between(self) -> tuple[float, float] | None:
        """Probabilities of the positive class between which rows stay undecided."""
        if not self.binary or self.reject_cost is None or self.columns is not None:
            return None
        cuts = cuts_between_actions(self.costs, self.reject_cost).tolist()
        return (cuts[0], cuts[1]) if len(cuts) == 2 else None

    @property
    def limit(self) -> Target | None:
        """The limit that was asked for, to be kept with confidence."""
        return Target.of(self.max_fpr, self.min_recall, self.min_precision, CONFIDENCE)

    def without_limits(self) -> Stakes:
        """Return the same without a limit."""
        return replace(self, max_fpr=None, min_recall=None, min_precision=None)

    @property
    def factor(self) -> Any:
        """By how much costs may be off: the ranges that were given, or a factor."""
        return FACTOR if self.reach is None else self.reach

    def action_costs(self) -> Array:
        """Costs (K, A) of all decisions, staying undecided last where that is one."""
        if self.reject_cost is None:
            return self.costs
        return np.column_stack([self.costs, np.full(len(self.classes), self.reject_cost)])

    def row_costs(self, table: Any) -> Array | None:
        """Costs (n, K, K) of the rows of a table; None where all rows share theirs.

        Raises
        ------
        UserError
            If a column is missing, or holds what is no cost.
        """
        if self.columns is None:
            return None
        of_classes = [
            np.full(len(table), self.costs[k].max()) if name is None else _amounts(table, name)
            for k, name in enumerate(self.columns)
        ]
        off_diagonal = 1.0 - np.eye(len(self.classes))
        return np.column_stack(of_classes)[:, :, None] * off_diagonal

    def known_before(self, after: Collection[str], table: Any, codes: Array) -> Stakes:
        """Return what is known when decisions are made: of costs known after it, only means.

        These are means over the rows of the class whose errors a column has the costs of.

        Parameters
        ----------
        after : collection of str
            Columns of costs that are known only after a decision.
        table : DataFrame
            The rows.
        codes : array of int, shape (n,)
            Places of their classes.
        """
        costs, columns = self.costs.copy(), list(self.columns or ())
        for k, name in enumerate(columns):
            if name is not None and name in after:
                mean = float(_amounts(table, name)[codes == k].mean())
                if not mean:
                    raise UserError(
                        f"{option('costs')}: column {shortened([name])} has no cost above 0 in the "
                        f"rows of {shortened([self.classes[k]])}."
                    )
                costs[k] = np.where(np.arange(len(costs)) == k, 0.0, mean)
                columns[k] = None
        return replace(self, costs=costs, columns=tuple(columns) if any(columns) else None)

    def decide(self, proba: Array, costs: Array | None = None, cut: float | None = None) -> Array:
        """Places of the classes to decide for, -1 for undecided.

        By a threshold where there is one, else by the costs of the rows or those that all share.
        """
        if cut is not None:
            return (proba[:, 1] >= cut).astype(np.intp)
        known = self.costs if costs is None else costs
        places = np.asarray(bayes_decision(proba, known, reject_cost=self.reject_cost))
        return np.where(places == len(self.classes), -1, places).astype(np.intp)

    def possible(self, codes: Array, costs: Array | None = None) -> Array:
        """Cost of deciding for each class, given the true classes."""
        return self.costs[codes] if costs is None else costs[np.arange(len(codes)), codes]

    def paid(self, codes: Array, decided: Array, costs: Array | None = None) -> Array:
        """Cost of each decision, given the true classes."""
        own = self.possible(codes, costs)[np.arange(len(codes)), np.maximum(decided, 0)]
        return np.where(decided < 0, self.reject_cost or 0.0, own)

    def near(self, proba: Array, costs: Array | None = None, cut: float | None = None) -> Array:
        """Which rows' best decisions would change with the costs; a threshold implies some."""
        if cut is not None:
            if not _EDGE <= cut <= 1.0 - _EDGE:
                return np.zeros(len(proba), dtype=bool)
            return np.asarray(near_threshold(proba, [cut, 1.0 - cut], self.factor))
        known = self.costs if costs is None else costs
        return np.asarray(near_threshold(proba, known, self.factor, self.reject_cost))

    def near_range(self, cut: float | None = None) -> tuple[float, float] | None:
        """Probabilities of the positive one of two classes that are near a threshold, if any."""
        if not self.binary or (cut is not None and not _EDGE <= cut <= 1.0 - _EDGE):
            return None
        costs = self.costs if cut is None else np.array([cut, 1.0 - cut])
        low, high = near_range(costs, self.factor, self.reject_cost)
        return low, high

    def cut_for(self, scores: Array, positive: Array) -> float:
        """Threshold that keeps the limit on new rows, from scores of rows that were not fitted."""
        assert self.limit is not None
        return float(cut_at(self.limit, scores, positive, np.ones(len(scores)), fresh=True))


def read_target(table: Any, name: str) -> tuple[Array, Array]:
    """Labels as text, and which rows have one.

    Raises
    ------
    UserError
        If the column is missing, or cannot be a target.
    """
    if name not in table.columns:
        known = [str(column) for column in table.columns]
        raise UserError(f"{option('target')}: {not_among([name], known)}")
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
        raise UserError(
            f"{option('positive')} {positive!r} is no label; labels: {shortened(known)}. "
            f"{Pitfall.ORDER_OF_CLASSES}"
        )
    if len(known) > 2:
        if positive is not None:
            raise UserError(
                f"{option('positive')} is for two classes; the target has {len(known)}."
            )
        return tuple(known), ""
    if positive is not None:
        chosen, why = positive, "as told"
    else:
        named = [name for name in known if name.lower() in _POSITIVE_WORDS]
        rarest = known[int(np.argmin(counts))]
        chosen, why = (named[0], "by its name") if len(named) == 1 else (rarest, "the rarer one")
    return tuple([name for name in known if name != chosen] + [chosen]), why


Given = str | Mapping[Any, Any] | Any  # "FN=10,FP=1", {label: cost} or a K x K array


def read_costs(
    given: Given | None, matrix: Path | None, classes: tuple[str, ...], table: Any
) -> tuple[Array, tuple[tuple[float, float], ...] | None, tuple[str | None, ...] | None]:
    """Cost matrix, ranges and columns, from ``FN=10,FP=1``, ``label=cost``, a mapping or a file.

    A cost is a number, a range (``3..8`` or a pair) or the name of a column of the table.

    Raises
    ------
    UserError
        If it says something else.
    """
    if given is not None and matrix is not None:
        raise UserError(f"Give {option('costs')} or {option('cost_matrix')}, not both.")
    if matrix is not None:
        return _read_matrix(matrix, classes), None, None
    if given is None:
        return error_costs(np.ones(len(classes))), None, None
    if not isinstance(given, str | Mapping):
        return _checked_matrix(np.asarray(given, dtype=np.float64), classes, "costs"), None, None
    pairs = _pairs(given) if isinstance(given, str) else [(str(k), v) for k, v in given.items()]
    of_classes = _by_class(pairs, classes)
    middles, reach = np.ones(len(classes)), [(1.0, 1.0)] * len(classes)
    columns: list[str | None] = [None] * len(classes)
    for k, (name, value) in enumerate(of_classes):
        if isinstance(value, str) and value in table.columns and not _is_number(value):
            columns[k] = value
            middles[k] = float(_amounts(table, value).mean())
            if not middles[k]:
                raise UserError(
                    f"{option('costs')}: {name}: column {shortened([value])} has no cost above 0."
                )
            continue
        low, high = _range(value, f"{option('costs')}: {name}", table)
        middles[k] = sqrt(low) * sqrt(high) if low < high else low
        reach[k] = (low / middles[k], high / middles[k])
    uncertain = any(low < high for low, high in reach)
    return (
        error_costs(middles),
        tuple(reach) if uncertain else None,
        tuple(columns) if any(columns) else None,
    )


def _pairs(text: str) -> list[tuple[str, str]]:
    pairs = []
    for part in text.split(","):
        name, equals, value = part.rpartition("=")
        if not equals or not name.strip():
            raise UserError(
                f"{option('costs')}: {part!r} is not of the form NAME=COST, such as FN=10."
            )
        pairs.append((name.strip(), value.strip()))
    if len({name for name, _ in pairs}) < len(pairs):
        raise UserError(f"{option('costs')}: {text!r} names a cost twice.")
    return pairs


def _by_class(pairs: list[tuple[str, Any]], classes: tuple[str, ...]) -> list[tuple[str, Any]]:
    """Names and costs in the order of the classes; what is not named costs 1."""
    given = dict(pairs)
    if len(classes) == 2 and {name.upper() for name in given} <= {"FN", "FP"}:
        by_kind = {name.upper(): value for name, value in given.items()}
        return [(kind, by_kind.get(kind, 1.0)) for kind in ("FP", "FN")]
    kinds = ["FN", "FP"] if len(classes) == 2 else []
    expected = " and ".join(kinds) + ", or labels: " * bool(kinds) + shortened(list(classes))
    unknown = [name for name in given if name not in classes]
    if odd := [name for name in unknown if name.upper() not in kinds]:
        near = nearest(odd[0], [*kinds, *classes])
        meant = f" Did you mean {near!r}?" * (near is not None)
        raise UserError(
            f"{option('costs')}: {shortened(odd)} is not known; expected {expected}.{meant}"
        )
    if unknown:
        raise UserError(
            f"{option('costs')}: {shortened(list(given))} are of two kinds; expected {expected}."
        )
    return [(name, given.get(name, 1.0)) for name in classes]


def _range(value: Any, where: str, table: Any) -> tuple[float, float]:
    """Ends of a range of costs; of a number, itself twice."""
    if isinstance(value, str):
        ends = value.split("..")
        if len(ends) > 2 or not all(map(_is_number, ends)):
            raise UserError(
                f"{where}: {value!r} is no number, no range such as 3..8, and no column of the "
                f"table, which has {shortened([str(name) for name in table.columns])}."
            )
        numbers = [float(end) for end in ends]
    else:
        try:
            numbers = [float(end) for end in np.atleast_1d(value)]
        except (TypeError, ValueError):
            raise UserError(f"{where}: {value!r} is no number, range or column.") from None
    low, high = numbers[0], numbers[-1]
    if len(numbers) > 2 or not 0 < low <= high < float("inf"):
        wanted = "a positive number" if len(numbers) == 1 else "a range from one to a larger number"
        raise UserError(f"{where}: a cost must be {wanted}; got {value}.")
    check_sizes(numbers, where)
    return low, high


def check_sizes(costs: Any, where: str) -> None:
    """Refuse costs that are too large or too small to be reckoned with.

    Raises
    ------
    UserError
        If there are any.
    """
    try:
        check_amounts(costs, where)
    except ValueError as error:
        raise UserError(str(error)) from error


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _amounts(table: Any, name: str) -> Array:
    """What errors about the rows cost, from a column."""
    if name not in table.columns:
        raise UserError(f"The table has no column {shortened([name])}, which has costs of rows.")
    amounts = pd.to_numeric(table[name], errors="coerce").to_numpy(dtype=np.float64)
    wrong = ~(np.isfinite(amounts) & (amounts >= 0.0))
    check_sizes(amounts[~wrong], f"Column {shortened([name])}")
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise UserError(
            f"Column {shortened([name])} should have the cost of an error in each row, a number of "
            f"at least 0; row {row + 1} has {shortened([str(table[name].iloc[row])])} "
            f"({int(wrong.sum()):,} such rows)."
        )
    return amounts


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
    return _checked_matrix(costs.astype(np.float64), classes, str(path))


def _checked_matrix(costs: Array, classes: tuple[str, ...], where: str) -> Array:
    off = ~np.eye(len(classes), dtype=bool)
    if costs.shape != off.shape:
        raise UserError(
            f"{where}: expected a row and a column for each of the classes "
            f"{shortened(list(classes))}; got an array of shape {costs.shape}."
        )
    if not np.all(np.isfinite(costs)) or np.any(costs[~off] != 0) or np.any(costs[off] <= 0):
        raise UserError(
            f"{where}: costs must be numbers, positive for errors and 0 for right decisions."
        )
    check_sizes(costs[off], where)
    return costs
