"""A linear model as a table of points, which a spreadsheet or a database can add up."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from grayzone.estimators.bayes import BayesDecisionClassifier
from grayzone.estimators.decision_ensemble import DecisionEnsembleClassifier
from grayzone.estimators.rate_limit import RateLimitClassifier
from grayzone.scorecards.cuts import Linear, linear_of
from grayzone.scorecards.effects import Effect, NoScorecardError, columns_of, passed
from grayzone.scorecards.sql import sql_of

Array = Any

HEADER = ("column", "kind", "from", "below", "category", "points", "points_per_unit")
_WRAPPERS = (BayesDecisionClassifier, RateLimitClassifier)


@dataclass(frozen=True)
class Scorecard:
    """Points of each column, and the points from which on each decision is made.

    Attributes
    ----------
    base : float
        Points that all rows have.
    effects : tuple of Effect
        What the value of each column adds.
    cuts : tuple of float
        Points, ascending, at which decisions change.
    decisions : tuple
        Labels: the first below the first cut, the second from there on, and so on.

    See Also
    --------
    scorecard : Makes it of a fitted model.

    Examples
    --------
    >>> from grayzone import TruncatedLogisticRegression
    >>> from grayzone.scorecards import scorecard
    >>> clf = TruncatedLogisticRegression(C=10.0).fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1])
    >>> card = scorecard(clf, ["age"])
    >>> card.decisions
    (0, 1)
    >>> card.decide({"age": [1.0, 2.0]}).tolist()
    [0, 1]
    """

    base: float
    effects: tuple[Effect, ...]
    cuts: tuple[float, ...]
    decisions: tuple[Any, ...]

    def rows(self) -> list[dict[str, Any]]:
        """Return the lines of the table, by the names of its columns.

        A line of kind "range" is for numbers from ``from`` on and below ``below``: ``points`` plus
        ``points_per_unit`` for each unit of the number. Points that are not there are not known: a
        row of that kind has no decision.

        Returns
        -------
        list of dict
            The lines.
        """
        lines = [_line("", "base", points=self.base)]
        for effect in self.effects:
            if effect.levels is None:
                lines += _ranges(effect)
            else:
                lines += [
                    _line(effect.column, "category", category=name, points=value)
                    for name, value in effect.levels.items()
                ]
                lines.append(_line(effect.column, "other", points=effect.other))
            lines.append(_line(effect.column, "gap", points=effect.gap))
        below: list[float | None] = [*self.cuts, None]
        for start, end, label in zip([None, *self.cuts], below, self.decisions, strict=True):
            lines.append(_line("", "decision", start, end, category=label))
        return lines

    def to_csv(self) -> str:
        """Return the table as CSV, numbers with all their digits.

        Returns
        -------
        str
            The table, with a line of names.
        """
        out = io.StringIO()
        writer = csv.DictWriter(out, HEADER, lineterminator="\n")
        writer.writeheader()
        for line in self.rows():
            writer.writerow({name: _written(value) for name, value in line.items()})
        return out.getvalue()

    def to_sql(self, table: str) -> str:
        """Return a query that adds ``points`` and ``decision`` to the rows of a table.

        Where the model has columns of these names, they are ``points_`` and ``decision_``.

        Parameters
        ----------
        table : str
            Its name.

        Returns
        -------
        str
            The query.

        Raises
        ------
        ValueError
            If a name or a category holds a character that no text in a database may have.
        """
        return sql_of(self.base, self.effects, self.cuts, self.decisions, table)

    def points(self, X: Any) -> Array:
        """Return the points of rows; NaN where they are not known.

        Parameters
        ----------
        X : mapping or DataFrame
            Columns by name.

        Returns
        -------
        ndarray of shape (n_rows,)
            The points.
        """
        total: Any = self.base
        for effect in self.effects:
            total = total + _points(effect, X[effect.column])
        return np.asarray(total, dtype=np.float64)

    def decide(self, X: Any) -> Array:
        """Return the decision about rows; None where points are not known.

        Parameters
        ----------
        X : mapping or DataFrame
            Columns by name.

        Returns
        -------
        ndarray of shape (n_rows,)
            The labels.
        """
        points = self.points(X)
        known = np.array([*self.decisions, None], dtype=object)
        place = np.searchsorted(np.asarray(self.cuts), points, side="right")
        return known[np.where(np.isnan(points), len(self.decisions), place)]


def scorecard(
    model: Any, columns: Sequence[str] | None = None, *, points_per_doubling: float | None = None
) -> Scorecard:
    """Return a fitted linear model of two classes as a table of points that decides the same.

    The classifier has to be linear (a linear kernel, logistic regression, or a decision model of
    ``--model logistic-regression``, ``truncated`` or ``tight-bound``), alone or behind scalers,
    imputers, bins and one-hot encoding; it may decide by costs, by a limit, or stay undecided.

    Parameters
    ----------
    model : estimator or DecisionModel
        A fitted model.
    columns : sequence of str, default=None
        Names of the columns, where the model was fitted to an array without any.
    points_per_doubling : float, default=None
        Points that double the odds, 20 in many scorecards. None: points are log-odds.

    Returns
    -------
    card : Scorecard
        ``to_csv()``, ``to_sql(table)``, ``decide(table)``.

    Raises
    ------
    NoScorecardError
        If the model is no sum over columns; a ValueError that says why.

    See Also
    --------
    grayzone.onnx.to_onnx : A file that decides the same, for models of every kind.

    Examples
    --------
    >>> import pandas as pd
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from grayzone import TruncatedLogisticRegression
    >>> from grayzone.scorecards import scorecard
    >>> X = pd.DataFrame({"age": [20.0, 30.0, 40.0, 50.0, 60.0, 70.0]})
    >>> model = make_pipeline(StandardScaler(), TruncatedLogisticRegression())
    >>> card = scorecard(model.fit(X, [0, 0, 1, 0, 1, 1]))
    >>> card.decide(X)
    array([0, 0, 0, 1, 1, 1], dtype=object)
    >>> [line["kind"] for line in card.rows()]
    ['base', 'range', 'gap', 'decision', 'decision']
    """
    pipeline, columns, cut, labels = _taken(model, columns)
    check_is_fitted(pipeline)
    steps, linear = _linear(pipeline)
    names = columns if columns is not None else _names(pipeline)
    effects = columns_of(names)
    for step in steps:
        effects = passed(step, effects)
    if len(effects) != len(linear.coef):
        raise NoScorecardError(
            f"The classifier has {len(linear.coef)} coefficients for {len(effects)} features."
        )
    if cut is not None:
        linear = linear.limited(cut)
    if labels is not None:
        linear = linear.relabelled(labels)
    factor = 1.0 if points_per_doubling is None else float(points_per_doubling) / np.log(2.0)
    if not (np.isfinite(factor) and factor > 0.0):
        raise ValueError(f"points_per_doubling must be positive; got {points_per_doubling!r}.")
    total = _by_column(effects, factor * linear.coef)
    cuts = tuple(float(factor * value) for value in linear.cuts)
    return Scorecard(float(factor * linear.intercept), total, cuts, linear.decisions)


def _taken(model: Any, columns: Any) -> tuple[Any, Any, float | None, Any]:
    """Return the pipeline, the columns, the cut of a limit and the labels by place."""
    room = sys.modules.get("grayzone.training.model")
    if room is None or not isinstance(model, room.DecisionModel):
        return model, columns, None, None
    from grayzone.training.labels import actions_of, labels_of

    if model.stakes.columns is not None:
        raise NoScorecardError(
            "Rows have costs of their own, and so thresholds: no cut of points decides for all. "
            "Export the model to ONNX, which takes the columns of costs."
        )
    labels = labels_of(model.stakes.classes, model.label_type)
    known = dict(enumerate(labels.tolist()))
    if model.stakes.reject_cost is not None:
        known[-1] = actions_of(labels).tolist()[-1]
    return model.estimator, model.schema.names, model.cut, known


def _linear(model: Any) -> tuple[list[Any], Linear]:
    """Return the steps before a linear classifier, and what it decides by."""
    if isinstance(model, Pipeline):
        steps, linear = _linear(model.steps[-1][1])
        return [step for _, step in model.steps[:-1]] + steps, linear
    if isinstance(model, FrozenEstimator):
        return _linear(model.estimator)
    if isinstance(model, GridSearchCV | RandomizedSearchCV):
        return _linear(model.best_estimator_)
    if isinstance(model, _WRAPPERS):
        steps, inner = _linear(model.estimator_)
        return steps, inner.around(model)
    if isinstance(model, DecisionEnsembleClassifier):
        if len(model.members_) > 1:
            raise NoScorecardError(
                "An ensemble has no scorecard: train logistic-regression, truncated or tight-bound "
                "alone."
            )
        steps, inner = _linear(next(iter(model.members_.values())))
        return steps, inner.stacked(model)
    return [], linear_of(model)


def _names(model: Any) -> list[str]:
    known = getattr(model, "feature_names_in_", None)
    if known is None and isinstance(model, Pipeline):
        known = getattr(model.steps[0][1], "feature_names_in_", None)
    if known is None:
        return [f"x{j}" for j in range(model.n_features_in_)]
    return [str(name) for name in known]


def _by_column(effects: Sequence[Effect], weights: Array) -> tuple[Effect, ...]:
    """Add up what features of the same column stand for, times their coefficients."""
    total: dict[str, Effect] = {}
    for effect, weight in zip(effects, weights, strict=True):
        if effect.raw and effect.levels is None and weight == 0.0:
            continue
        part = effect.scaled(float(weight))
        known = total.get(effect.column)
        total[effect.column] = part if known is None else known.plus(part)
    return tuple(total.values())


def _line(
    column: str,
    kind: str,
    start: float | None = None,
    below: float | None = None,
    category: Any = None,
    points: float | None = None,
    per_unit: float | None = None,
) -> dict[str, Any]:
    values = (column, kind, start, below, category, points, per_unit)
    return dict(zip(HEADER, values, strict=True))


def _ranges(effect: Effect) -> list[dict[str, Any]]:
    edges: list[Any] = [None, *effect.edges.tolist(), None]
    parts = zip(edges[:-1], edges[1:], effect.offsets, effect.slopes, strict=True)
    return [
        _line(effect.column, "range", start, end, points=float(offset), per_unit=float(slope))
        for start, end, offset, slope in parts
    ]


def _written(value: Any) -> Any:
    if value is None or (isinstance(value, float) and np.isnan(value)):
        return ""
    return repr(float(value)) if isinstance(value, float) else value


def _points(effect: Effect, values: Any) -> Array:
    if effect.levels is not None:
        known: Mapping[str, float] = effect.levels
        return np.array(
            [
                effect.gap if v is None or v != v else known.get(str(v), effect.other)
                for v in np.asarray(values, dtype=object).tolist()
            ]
        )
    numbers = np.asarray(values, dtype=np.float64)
    place = np.searchsorted(effect.edges, numbers, side="right")
    place = np.minimum(place, len(effect.edges))  # of NaN, which is none of the pieces
    points = effect.offsets[place] + effect.slopes[place] * numbers
    return np.where(np.isnan(numbers), effect.gap, points)
