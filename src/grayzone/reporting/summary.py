"""All numbers of a report, from probabilities and decisions on rows that were not fitted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from grayzone.decision.costs import has_threshold, threshold_of
from grayzone.decision.zones import zone_around
from grayzone.estimators.facts import Facts
from grayzone.metrics.curves import reliability_bins, risk_coverage_curve
from grayzone.metrics.truth import read_binary

Array = Any
Summary = dict[str, Any]

STEPS = 1_000  # of the threshold slider
BINS = 10
POINTS = 400  # of curves, at most
RARE = 0.02  # thresholds below this, or as near to one, have a logarithmic slider


# What models are compared by.
COST, MISSED = "mean cost", "share of positives missed at the limit"


@dataclass(frozen=True)
class Compared:
    """A model that was compared: the mean of a measure, its standard error, or why not."""

    name: str
    mean: float | None
    error: float | None
    seconds: float
    baseline: bool
    chosen: bool
    left_out: str = ""
    measure: str = COST


def summarise(
    *,
    title: str,
    classes: list[str],
    costs: Array,
    proba: Array,
    codes: Array,
    decided: Array,
    reject_cost: float | None,
    zone: tuple[float, float] | None,
    facts: Facts,
    threshold: float | None = None,
    band: tuple[float, float] | None = None,
    compared: list[Compared] | None = None,
    columns: list[dict[str, Any]] | None = None,
    usage: str = "",
    notes: list[str] | None = None,
) -> Summary:
    """Compute everything that a report shows.

    Parameters
    ----------
    title : str
        Heading.
    classes : list of str
        Labels, the positive one of two last.
    costs : array of shape (K, K)
        ``cost[true, decided]``.
    proba : array of shape (n, K)
        Probabilities.
    codes, decided : arrays of shape (n,)
        True and decided classes; -1 is undecided.
    reject_cost : float or None
        What staying undecided costs.
    zone : pair or None
        The gray zone; by default around the threshold.
    facts : Facts
        What the model is made of.
    threshold : float, optional
        Of two classes, where it is not the one of the costs.
    band : pair, optional
        Thresholds of two classes whose costs are only known to lie in a range.
    compared : list of Compared, optional
        Models that were compared.
    columns : list of dict, optional
        Name, kind and share of missing values of the table's columns.
    usage : str
        Python code.
    notes : list of str, optional
        What a reader should know.
    """
    undecided = np.full((len(costs), 0 if reject_cost is None else 1), reject_cost or 0.0)
    paid = np.hstack([costs, undecided])[codes, decided]
    summary: Summary = {
        "title": title,
        "classes": classes,
        "costs": costs.tolist(),
        "reject_cost": reject_cost,
        "n_rows": len(codes),
        "counts": np.bincount(codes, minlength=len(classes)).tolist(),
        "mean_cost": float(paid.mean()),
        "mean_cost_error": float(paid.std(ddof=1) / np.sqrt(len(paid))) if len(paid) > 1 else None,
        "always": [float(costs[codes, k].mean()) for k in range(len(classes))],
        "undecided": float(np.mean(decided < 0)),
        "confusion": _confusion(codes, decided, len(classes), reject_cost is not None),
        "facts": facts.lines,
        "model": facts.name,
        "weights": facts.weights,
        "bound_path": facts.bound_path,
        "points": facts.points,
        "compared": [vars(c) for c in compared or []],
        "columns": columns or [],
        "usage": usage,
        "notes": notes or [],
        "binary": None,
        "risk_coverage": _risk_coverage(proba, codes),
    }
    if len(classes) == 2 and has_threshold(costs):
        at = float(threshold_of(costs)) if threshold is None else threshold
        summary["binary"] = {**_binary(proba[:, 1], codes, at, zone), "band": band}
    return summary


def _confusion(codes: Array, decided: Array, n_classes: int, undecided: bool) -> list[list[int]]:
    n_actions = n_classes + int(undecided)
    table = np.zeros((n_classes, n_actions), dtype=int)
    np.add.at(table, (codes, np.where(decided < 0, n_classes, decided)), 1)
    return table.tolist()


def _risk_coverage(proba: Array, codes: Array) -> list[dict[str, float]]:
    labels = np.arange(proba.shape[1])
    curve = risk_coverage_curve(codes, proba, labels=labels)
    keep = np.unique(np.linspace(0, len(curve.coverage) - 1, POINTS).astype(int))
    return [
        {"coverage": float(curve.coverage[k]), "risk": float(curve.risk[k])}
        for k in keep
        if np.isfinite(curve.risk[k])
    ]


def _binary(p: Array, codes: Array, at: float, zone: tuple[float, float] | None) -> Summary:
    """Counts at every step of the slider, and the reliability of probabilities."""
    steps = _steps(at)
    positive, negative = np.sort(p[codes == 1]), np.sort(p[codes == 0])
    tp = len(positive) - np.searchsorted(positive, steps, side="left")
    fp = len(negative) - np.searchsorted(negative, steps, side="left")
    low, high = zone or zone_around(float(np.clip(at, 1e-6, 1 - 1e-6)))
    truth, p = read_binary(codes, p, None, 1)
    everywhere = np.ones(len(p), dtype=bool)
    bins = reliability_bins(truth, p, everywhere, (0.0, 1.0), BINS, "quantile")
    return {
        "threshold": at,
        "start": int(np.argmin(np.abs(steps - at))),
        "steps": steps.tolist(),
        "tp": tp.tolist(),
        "fp": fp.tolist(),
        "positives": len(positive),
        "negatives": len(negative),
        "curve": _curve(p, codes),
        "zone": [float(low), float(high)],
        "in_zone": float(np.mean((p >= low) & (p <= high))),
        "reliability": [
            {"predicted": float(m), "observed": float(o), "rows": float(w)}
            for m, o, w in zip(*bins, strict=True)
        ],
    }


def _curve(p: Array, codes: Array) -> list[dict[str, float]]:
    """ROC and precision-recall curves through rates at distinct probabilities, evenly thinned."""
    order = np.argsort(-p, kind="stable")
    ends = np.append(np.flatnonzero(np.diff(p[order])), len(p) - 1)
    tp, fp = (np.append(0, np.cumsum(codes[order] == k)[ends]) for k in (1, 0))
    tpr, fpr = tp / max(tp[-1], 1), fp / max(fp[-1], 1)
    along = tpr + fpr  # grows along the curve
    keep = np.unique(np.searchsorted(along, np.linspace(0.0, along[-1], POINTS)))
    precision = np.divide(tp, tp + fp, out=np.ones(len(tp)), where=tp + fp > 0)
    return [
        {"tpr": float(tpr[k]), "fpr": float(fpr[k]), "precision": float(precision[k])} for k in keep
    ]


def _steps(at: float) -> Array:
    """Thresholds of the slider, the one in force among them."""
    if RARE <= at <= 1.0 - RARE:
        steps = np.linspace(0.0, 1.0, STEPS + 1)
    else:
        reach = max(8.0, abs(float(np.log(max(at, 1e-9) / max(1.0 - at, 1e-9)))) + 3.0)
        steps = 1.0 / (1.0 + np.exp(-np.linspace(-reach, reach, STEPS + 1)))
    steps[int(np.argmin(np.abs(steps - at)))] = at
    return np.sort(steps)
