"""A report on a decision model: one HTML file that opens without a network."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from grayzone.decision.costs import check_sizes, cost_matrix
from grayzone.decision.example_costs import cost_matrices, mean_costs
from grayzone.estimators.facts import Facts, facts_of, threshold_band
from grayzone.numerics.checks import check_weights
from grayzone.reporting.page import render
from grayzone.reporting.parts import Compared
from grayzone.reporting.summary import summarise

__all__ = ["Compared", "Facts", "Report", "report"]

Array = Any


class Report:
    """A report; a notebook shows it, ``save`` writes it.

    Attributes
    ----------
    html : str
        The whole page.
    summary : dict
        The numbers in it.

    See Also
    --------
    grayzone.report : Makes it.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> import grayzone
    >>> X, y = [[0.0], [1.0], [2.0], [3.0]], [0, 1, 0, 1]
    >>> page = grayzone.report(LogisticRegression().fit(X, y), X, y, title="A first look")
    >>> page.summary["n_rows"]
    4
    >>> "A first look" in page.html
    True
    """

    def __init__(self, html: str, summary: dict[str, Any]) -> None:
        self.html, self.summary = html, summary

    def save(self, path: str | Path) -> Path:
        """Write the page to a file and return its path.

        Parameters
        ----------
        path : path
            The file; it is replaced where there is one.

        Returns
        -------
        Path
            Where it is.
        """
        path = Path(path)
        path.write_text(self.html, encoding="utf-8")
        return path

    def _repr_html_(self) -> str:
        """Show the page in a frame of its own, so that styles do not mix."""
        page = escape(self.html, quote=True)
        style = "width:100%;height:45em;border:0"
        return f'<iframe title="Report" srcdoc="{page}" style="{style}"></iframe>'

    def __repr__(self) -> str:
        return f"Report({self.summary['title']!r}, {self.summary['n_rows']:,} rows)"


def report(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    costs: Any = None,
    reject_cost: float | None = None,
    example_costs: Any = None,
    sample_weight: Any = None,
    title: str | None = None,
) -> Report:
    """Report on the decisions of a fitted classifier for rows that it has not seen.

    What they cost, beside always deciding one way and referring everyone; the cost at every
    threshold, with sliders for the threshold, the costs, the share of positives and the capacity,
    which all numbers follow; reliability with the gray zone, ROC and precision-recall curves with
    the operating point, risk against coverage; what the model is made of. The page needs no
    network.

    Parameters
    ----------
    estimator : fitted classifier
        With ``predict_proba``; a pipeline or a search around one as well.
    X : array-like of shape (n_samples, n_features)
        Rows that were not fitted.
    y : array-like of shape (n_samples,)
        Their labels.
    costs : None, "balanced", mapping or array of shape (K, K), default=None
        What errors cost; by default those of the estimator, if it has any, and otherwise 1 each.
        Where they are ranges, the page shows what decisions would cost over all their thresholds.
    reject_cost : float, default=None
        What staying undecided costs, where the estimator may; by default what it was told.
    example_costs : mapping or array, default=None
        Costs of each row, as ``predict`` of the estimator takes them.
    sample_weight : array-like of shape (n_samples,), default=None
        How many rows each stands for.
    title : str, default=None
        Heading; by default the name of the estimator.

    Returns
    -------
    report : Report
        With ``html``, ``summary`` and ``save(path)``.

    See Also
    --------
    grayzone.train : Train on a table, with a report on held-out rows.
    grayzone.metrics.expected_cost : What decisions cost, as a number.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.model_selection import train_test_split
    >>> from sklearn.preprocessing import scale
    >>> import grayzone
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> X_train, X_test, y_train, y_test = train_test_split(scale(X), y, random_state=0)
    >>> model = grayzone.TruncatedLogisticRegression(costs={0: 5, 1: 1}).fit(X_train, y_train)
    >>> page = grayzone.report(model, X_test, y_test, costs={0: 5, 1: 1})
    >>> page
    Report('TruncatedLogisticRegression', 143 rows)
    >>> page.save("report.html")  # doctest: +SKIP
    """
    if not hasattr(estimator, "predict_proba"):
        raise TypeError(f"{type(estimator).__name__} has no predict_proba to report on.")
    classes = np.asarray(estimator.classes_)
    codes = _codes(y, classes)
    facts = facts_of(estimator)
    band = facts.band if costs is None else threshold_band(costs, estimator)
    if costs is None:
        costs = facts.cost_matrix
    if reject_cost is None:
        reject_cost = _one_cost(facts.reject_costs)
    weight = check_weights(sample_weight, len(codes))
    prior = np.bincount(codes, weight, minlength=len(classes)) / weight.sum()
    proba = np.asarray(estimator.predict_proba(X), dtype=np.float64)
    if proba.shape != (len(codes), len(classes)):
        raise ValueError(
            f"predict_proba gives shape {proba.shape}; expected {(len(codes), len(classes))}, a "
            "row for each label and a column for each class."
        )
    rows, given = None, {}
    if example_costs is not None:
        rows = cost_matrices(example_costs, classes, len(codes))
        costs, given = mean_costs(rows, weight), {"example_costs": example_costs}
    matrix = cost_matrix(costs, classes, prior)
    check_sizes(matrix, "costs")
    check_sizes(0.0 if rows is None else rows, "example_costs")
    check_sizes(0.0 if reject_cost is None else reject_cost, "reject_cost")
    decided = _codes(estimator.predict(X, **given), classes, undecided=reject_cost is not None)
    summary = summarise(
        title=title or facts.name,
        classes=[str(label) for label in classes],
        costs=matrix,
        proba=proba,
        codes=codes,
        decided=decided,
        reject_cost=reject_cost,
        row_costs=rows,
        weight=weight,
        facts=facts,
        columns=_columns(X),
        band=band,
        threshold=facts.threshold,
    )
    return Report(render(summary), summary)


def _one_cost(reject_costs: list[float] | None) -> float | None:
    """Return what staying undecided costs, whatever the true class is."""
    if reject_costs is None:
        return None
    if len(set(reject_costs)) > 1:
        raise ValueError(
            "The estimator's reject_cost differs from class to class, and a report has one for "
            f"all; give reject_cost, a number. The estimator has {reject_costs}."
        )
    return float(reject_costs[0])


def _columns(X: Any) -> list[dict[str, Any]]:
    """Columns of a data frame; an array has none to tell of."""
    pd = sys.modules.get("pandas")
    if pd is None or not isinstance(X, pd.DataFrame):
        return []
    return [
        {
            "name": str(name),
            "kind": "number" if pd.api.types.is_numeric_dtype(column) else str(column.dtype),
            "missing": float(column.isna().mean()),
        }
        for name, column in X.items()
    ]


def _codes(labels: Any, classes: Array, undecided: bool = False) -> Array:
    """Places of labels among the classes; -1 for others where staying undecided is possible."""
    labels = np.asarray(labels)
    if labels.ndim != 1 or not len(labels):
        raise ValueError(f"labels must be a list with at least one; got shape {labels.shape}.")
    places: Mapping[Any, int] = {label: k for k, label in enumerate(classes.tolist())}
    found = np.array([places.get(label, -1) for label in labels.tolist()])
    if not undecided and np.any(found < 0):
        other = labels[found < 0].tolist()
        raise ValueError(
            f"{other[0]!r} is none of the classes {classes.tolist()}; if it means undecided, give "
            "reject_cost."
        )
    return found
