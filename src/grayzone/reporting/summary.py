"""All numbers of a report, from probabilities and decisions on rows that were not fitted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from math import log
from typing import Any, NamedTuple

import numpy as np

from grayzone.decision.cost_interval import (
    CROSS_FITTED,
    CostInterval,
    cost_interval,
    one_more,
)
from grayzone.decision.costs import has_threshold
from grayzone.decision.near import FACTOR, near_threshold
from grayzone.decision.zones import zone_around
from grayzone.estimators.facts import Facts
from grayzone.metrics.curves import reliability_bins, risk_coverage_curve
from grayzone.metrics.truth import read_binary
from grayzone.reporting.cuts import cells_of, cuts_of, relative, steps_of, sums_from
from grayzone.reporting.parts import (
    Compared,
    Effect,
    Example,
    Finding,
    GrayZone,
    Importance,
    Limit,
    Promise,
    Segment,
    Verdict,
)

Array = Any
Summary = dict[str, Any]

BINS = 10
POINTS = 400  # of curves, at most
CONFIDENCE = 0.95  # of intervals


def summarise(
    *,
    title: str,
    classes: list[str],
    costs: Array,
    proba: Array,
    codes: Array,
    decided: Array,
    reject_cost: float | None,
    facts: Facts,
    row_costs: Array | None = None,
    weight: Array | None = None,
    threshold: float | None = None,
    band: tuple[float, float] | None = None,
    verdict: Verdict | None = None,
    promise: Promise | None = None,
    limit: Limit | None = None,
    gray_zone: GrayZone | None = None,
    importance: Sequence[Importance] | None = None,
    effects: Sequence[Effect] | None = None,
    examples: Sequence[Example] | None = None,
    segments: Sequence[Segment] | None = None,
    findings: Sequence[Finding] | None = None,
    compared: Sequence[Compared] | None = None,
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
        ``cost[true, decided]``; the mean where rows have their own.
    proba : array of shape (n, K)
        Probabilities.
    codes, decided : arrays of shape (n,)
        True and decided classes; -1 is undecided.
    reject_cost : float or None
        What staying undecided costs.
    facts : Facts
        What the model is made of.
    row_costs : array of shape (n, K, K), optional
        ``cost[row, true, decided]``, where rows have costs of their own.
    weight : array of shape (n,), optional
        How many rows each stands for; all numbers are weighted by it.
    threshold : float, optional
        Of two classes, where it is not the one of the costs.
    band : pair, optional
        Thresholds of two classes whose costs are only known to lie in a range.
    verdict, promise, limit, gray_zone : records of :mod:`grayzone.reporting.parts`, optional
        Whether to use the model, what its decisions will cost, the limit that was asked for, and
        rows that could be decided either way, by default where a cost changed by a factor of 2.
        The promise is about these rows and decisions.
    importance, effects, examples, segments, findings, compared : sequences of records, optional
        Columns, values of columns, reasons for single rows, parts of the rows, what is odd about
        the data, and models.
    columns : list of dict, optional
        Name, kind and share of missing values of the table's columns.
    usage : str
        Python code.
    notes : list of str, optional
        What a reader should know.
    """
    n, K = proba.shape
    w = np.ones(n) if weight is None else np.asarray(weight, dtype=np.float64)
    own = None if row_costs is None else np.asarray(row_costs)
    matrices = np.broadcast_to(costs, (n, K, K)) if own is None else own
    records: dict[str, Sequence[Any] | None]
    records = {"importance": importance, "effects": effects, "examples": examples}
    records |= {"segments": segments, "findings": findings, "compared": compared}
    summary: Summary = {
        "title": title,
        "classes": classes,
        "costs": np.asarray(costs).tolist(),
        "reject_cost": reject_cost,
        "has_row_costs": own is not None,
        **_decisions(matrices, codes, decided, w, reject_cost, CROSS_FITTED if promise else 0.0),
        **_made_of(facts),
        "verdict": None if verdict is None else asdict(verdict),
        "limit": None if limit is None else asdict(limit),
        **{name: [asdict(part) for part in parts or []] for name, parts in records.items()},
        "columns": columns or [],
        "usage": usage,
        "notes": notes or [],
        "risk_coverage": _risk_coverage(proba, codes, w),
    }
    if promise is not None:
        summary["promise"] = asdict(promise)
    summary["binary"], one = None, None  # the one threshold of all rows
    if K == 2 and has_threshold(costs):
        judged = _Judged(proba[:, 1], codes, decided, w)
        summary["binary"], one = _two_classes(judged, costs, own, reject_cost, threshold, band)
    zone = gray_zone or _gray_zone(proba, w, costs if own is None else own, reject_cost, band, one)
    summary["gray_zone"] = asdict(zone)
    return summary


class _Judged(NamedTuple):
    """Rows of two classes: probability of the positive one, truth, decision, weight."""

    p: Array
    codes: Array
    decided: Array
    w: Array


def _made_of(facts: Facts) -> Summary:
    return {
        "facts": facts.lines,
        "model": facts.name,
        "weights": facts.weights,
        "bound_path": facts.bound_path,
        "points": facts.points,
    }


def _two_classes(
    rows: _Judged,
    costs: Array,
    own: Array | None,
    reject_cost: float | None,
    threshold: float | None,
    band: tuple[float, float] | None,
) -> tuple[Summary, float | None]:
    """Curves and sliders of two classes, and the threshold, if one decides about all rows."""
    score = rows.p if own is None else relative(rows.p, own, rows.decided)
    told = threshold if own is None else 0.5
    cuts = cuts_of(score, rows.decided, costs, reject_cost, told)
    sliders = _sliders(cuts, score, rows.codes, rows.w, own)
    one = cuts[0] if own is None and cuts is not None and cuts[0] == cuts[1] else None
    return {**_binary(rows.p, rows.codes, rows.w), "band": band, **sliders}, one


def _decisions(
    matrices: Array,
    codes: Array,
    decided: Array,
    w: Array,
    reject_cost: float | None,
    forgiven: float,
) -> Summary:
    """What decisions come to, and what it would cost always to decide the same."""
    n, K = matrices.shape[:2]
    sure = np.flatnonzero(decided >= 0)
    paid = np.full(n, reject_cost or 0.0)
    paid[sure] = matrices[sure, codes[sure], decided[sure]]
    cells = cells_of(codes, decided, w, paid, (K, K + (reject_cost is not None)))
    counts = np.bincount(codes, w, minlength=K)
    own = matrices[np.arange(n), codes]  # what each decision costs about each row
    per_rule = np.stack([np.bincount(codes, w * own[:, k], minlength=K) for k in range(K)], 1)
    mean, error = _mean(paid, w)
    return {
        "n_rows": n,
        "mass": _whole(counts.sum()),
        "counts": _whole(counts),
        "mean_cost": mean,
        "mean_cost_error": error,
        "promise": _expected(
            mean, cost_interval(paid, own, codes, CONFIDENCE, weight=w, forgiven=forgiven)
        ),
        "interval": _of_intervals(own, codes, w, forgiven),
        "always": (per_rule.sum(axis=0) / counts.sum()).tolist(),
        "per_rule": per_rule.tolist(),
        "undecided": float(np.average(decided < 0, weights=w)),
        "confusion": _whole(cells[:, :, 0]),
        "rates": _rates(cells[:, :, 0]) if K == 2 else {},
        "cells": cells.tolist(),
    }


def _gray_zone(
    proba: Array,
    w: Array,
    costs: Array,
    reject_cost: float | None,
    band: tuple[float, float] | None,
    one: float | None,
) -> GrayZone:
    """Rows near the one threshold there is, or near a change of the best decision."""
    if one is None:
        near = near_threshold(proba, costs, FACTOR, reject_cost)
        return GrayZone(None, None, float(np.average(near, weights=w)), FACTOR)
    low, high = band or zone_around(float(np.clip(one, 1e-6, 1.0 - 1e-6)), log(FACTOR))
    near = (proba[:, 1] >= low) & (proba[:, 1] <= high)
    return GrayZone(low, high, float(np.average(near, weights=w)), None if band else FACTOR)


def _whole(values: Array) -> Any:
    """Numbers as they are told: whole ones as such."""
    values = np.asarray(values)
    whole = np.array_equal(values, np.round(values))
    return (values.astype(np.int64) if whole else values).tolist()


def _mean(paid: Array, w: Array) -> tuple[float, float | None]:
    """Weighted mean and its standard error; that of one row is not known."""
    mean, n = float(np.average(paid, weights=w)), len(paid)
    if n == 1:
        return mean, None
    spread = np.sum((w * (paid - mean)) ** 2) * n / (n - 1)
    return mean, float(np.sqrt(spread) / w.sum())


def _rates(cells: Array) -> dict[str, float | None]:
    """Rates of two classes by truth and decision; of no rows there is none."""
    hits, alarms = cells[1, 1], cells[:, 1].sum()
    of = {
        "recall": (hits, cells[1].sum()),
        "false_positive_rate": (cells[0, 1], cells[0].sum()),
        "precision": (hits, alarms),
    }
    return {name: float(part / whole) if whole > 0 else None for name, (part, whole) in of.items()}


def _expected(mean: float, interval: CostInterval) -> Summary:
    """What decisions will cost where these rows are all that is known."""
    return {"cost": mean, **interval._asdict(), "how": ""}


def _of_intervals(possible: Array, codes: Array, w: Array, forgiven: float) -> Summary:
    """What intervals need beside sums of rows, wherever decisions are cut."""
    best = float(np.min(possible))
    worst = np.max(possible, axis=1) - best
    unit = float(np.max(worst)) or 1.0  # squares of costs may be out of range
    most = [float(np.max(worst, where=codes == k, initial=0.0)) for k in range(possible.shape[1])]
    more = one_more((possible - best) / unit, codes, w).tolist()
    return {"best": best, "unit": unit, "most": most, "one_more": more, "forgiven": forgiven}


def _risk_coverage(proba: Array, codes: Array, w: Array) -> list[dict[str, float]]:
    labels = np.arange(proba.shape[1])
    curve = risk_coverage_curve(codes, proba, labels=labels, sample_weight=w)
    keep = np.unique(np.linspace(0, len(curve.coverage) - 1, POINTS).astype(int))
    return [
        {"coverage": float(curve.coverage[k]), "risk": float(curve.risk[k])}
        for k in keep
        if np.isfinite(curve.risk[k])
    ]


def _binary(p: Array, codes: Array, w: Array) -> Summary:
    """Ranking and reliability of probabilities."""
    truth, p = read_binary(codes, p, w, 1)
    everywhere = np.ones(len(p), dtype=bool)
    bins = reliability_bins(truth, p, everywhere, (0.0, 1.0), BINS, "quantile")
    return {
        **_ranking(p, codes, w),
        "reliability": [
            {"predicted": float(m), "observed": float(o), "rows": _whole(mass)}
            for m, o, mass in zip(*bins, strict=True)
        ],
    }


def _sliders(
    cuts: tuple[float, float] | None, score: Array, codes: Array, w: Array, matrices: Array | None
) -> Summary:
    """Sums at every step; none where no cut explains the decisions."""
    if cuts is None:
        return {"cuts": None, "steps": None}
    steps = steps_of(cuts)
    return {
        "cuts": cuts,
        "steps": steps.tolist(),
        "start": np.searchsorted(steps, cuts).tolist(),
        "sums": sums_from(steps, score, codes, w, matrices),
    }


def _ranking(p: Array, codes: Array, w: Array) -> Summary:
    """ROC curve through rates at distinct probabilities, evenly thinned, and the area below."""
    order = np.argsort(-p, kind="stable")
    ends = np.append(np.flatnonzero(np.diff(p[order])), len(p) - 1)
    tp, fp = (np.append(0.0, np.cumsum(w[order] * (codes[order] == k))[ends]) for k in (1, 0))
    tpr, fpr = (x / x[-1] if x[-1] > 0 else x for x in (tp, fp))
    both = tp[-1] > 0 and fp[-1] > 0
    along = tpr + fpr  # grows along the curve
    keep = np.unique(np.searchsorted(along, np.linspace(0.0, along[-1], POINTS)))
    return {
        "auc": float(np.trapezoid(tpr, fpr)) if both else None,
        "curve": [{"tpr": float(tpr[k]), "fpr": float(fpr[k])} for k in keep],
    }
