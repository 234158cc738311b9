"""A report on a decision model: one HTML file that opens without a network."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from grayzone.decision.costs import cost_matrix, has_threshold, threshold_of
from grayzone.estimators.facts import Facts, facts_of, threshold_band
from grayzone.reporting.summary import Compared, summarise

__all__ = ["Compared", "Facts", "Report", "report"]

Array = Any


class Report:
    """A report; a notebook shows it, :meth:`save` writes it.

    Attributes
    ----------
    html : str
        The whole page.
    summary : dict
        The numbers in it.
    """

    def __init__(self, html: str, summary: dict[str, Any]) -> None:
        self.html, self.summary = html, summary

    def save(self, path: str | Path) -> Path:
        """Write the page to a file and return its path."""
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
    title: str | None = None,
) -> Report:
    """Report on the decisions of a fitted classifier for rows that it has not seen.

    What they cost, beside always deciding one way; the cost at every threshold, with sliders for
    the threshold and the costs; reliability with the gray zone, ROC and precision-recall curves
    with the operating point, risk against coverage; what the model is made of. The page needs no
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
        What staying undecided costs, where the estimator may.
    title : str, default=None
        Heading; by default the name of the estimator.

    Returns
    -------
    report : Report
        With ``html``, ``summary`` and ``save(path)``.

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
    from grayzone.reporting.page import render

    if not hasattr(estimator, "predict_proba"):
        raise TypeError(f"{type(estimator).__name__} has no predict_proba to report on.")
    classes = np.asarray(estimator.classes_)
    codes = _codes(y, classes)
    facts = facts_of(estimator)
    band = facts.band if costs is None else threshold_band(costs, estimator)
    if costs is None:
        costs = facts.cost_matrix
    prior = np.bincount(codes, minlength=len(classes)) / len(codes)
    matrix = cost_matrix(costs, classes, prior)
    proba = np.asarray(estimator.predict_proba(X), dtype=np.float64)
    if proba.shape != (len(codes), len(classes)):
        raise ValueError(
            f"predict_proba gives shape {proba.shape}; expected {(len(codes), len(classes))}, a "
            "row for each label and a column for each class."
        )
    decided = _codes(estimator.predict(X), classes, undecided=reject_cost is not None)
    summary = summarise(
        title=title or facts.name,
        classes=[str(label) for label in classes],
        costs=matrix,
        proba=proba,
        codes=codes,
        decided=decided,
        reject_cost=reject_cost,
        zone=facts.zone,
        facts=facts,
        columns=_columns(X),
        band=band,
        threshold=_threshold(facts.threshold, matrix, proba, decided),
    )
    return Report(render(summary), summary)


def _columns(X: Any) -> list[dict[str, Any]]:
    """Columns of a data frame; an array has none to tell of."""
    import pandas as pd

    if not isinstance(X, pd.DataFrame):
        return []
    return [
        {
            "name": str(name),
            "kind": "number" if pd.api.types.is_numeric_dtype(column) else str(column.dtype),
            "missing": float(column.isna().mean()),
        }
        for name, column in X.items()
    ]


def _threshold(told: float | None, matrix: Array, proba: Array, decided: Array) -> float | None:
    """Threshold that the decisions obey; None, for that of the costs, where they obey none."""
    if len(matrix) != 2:
        return None
    p = proba[:, 1]
    low = np.max(p[decided == 0], initial=-np.inf)
    high = np.min(p[decided == 1], initial=np.inf)
    of_costs = threshold_of(matrix) if has_threshold(matrix) else None
    for value in (told, of_costs, 0.5):
        if value is not None and low < value <= high:
            return value
    return float(0.5 * (low + high)) if low < high and np.isfinite(high - low) else None


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
