"""Thresholds that keep limits on rates, from scores of rows that a classifier has not seen."""

from __future__ import annotations

from typing import Any

import numpy as np

from grayzone.decision.confidence import precise_thresholds
from grayzone.decision.limits import Target, check_share, cut_at, none_kept

Array = Any

LIMITS = ("max_fpr", "min_recall", "min_precision")


def limits_of(estimator: Any) -> dict[str, float]:
    """Return the limits among an estimator's parameters, checked, and its confidence."""
    limits = {name: getattr(estimator, name) for name in LIMITS}
    limits = {name: value for name, value in limits.items() if value is not None}
    for name, value in {**limits, "confidence": estimator.confidence}.items():
        check_share(name, value)
    return limits


def targets_of(limits: dict[str, float], error: float, among: str = "rows") -> list[Target]:
    """Return what is asked of each rate: limits share the error."""
    share = error / len(limits)
    return [Target(name, value, share, among) for name, value in limits.items()]


def allowed_thresholds(
    limits: dict[str, float],
    scores: Array,
    positive: Array,
    groups: Array,
    names: Array,
    error: float,
) -> Array:
    """Return thresholds, ascending, that keep all limits in all the groups named."""
    share = error / len(limits)
    low, high = -np.inf, np.inf
    for name in names:
        mine = groups == name
        among = "rows" if len(names) == 1 else f"rows of the group {name!r}"
        for limit, value in limits.items():
            precise = limit == "min_precision"
            target = Target(limit, value, share / len(names) if precise else share, among)
            target.check_rows(int(np.sum(mine & ~positive)), int(np.sum(mine & positive)))
            if precise:
                continue
            cut = cut_at(target, scores[mine], positive[mine], np.ones(np.sum(mine)), True)
            # one threshold for all groups: the strictest of their own keeps the limit in each
            low, high = (max(low, cut), high) if limit == "max_fpr" else (low, min(high, cut))
    if "min_precision" in limits:
        value, several = limits["min_precision"], groups if len(names) > 1 else None
        allowed = precise_thresholds(scores, positive, value, share / len(names), several)
        allowed = allowed[(allowed >= low) & (allowed <= high)]
    else:
        ends = [end for end in (low, high) if np.isfinite(end)]
        allowed = np.array(ends if low <= high else [])
    if not allowed.size:
        raise none_kept(", ".join(f"{name}={value:g}" for name, value in limits.items()))
    return allowed


def range_of(allowed: Array, limits: dict[str, float]) -> tuple[float, float]:
    """Return the least and the largest threshold that keep all limits."""
    return (
        -np.inf if set(limits) == {"min_recall"} else float(allowed[0]),
        np.inf if set(limits) == {"max_fpr"} else float(allowed[-1]),
    )


def chosen_threshold(allowed: Array, limits: dict[str, float], best: float | None) -> float:
    """Return the threshold nearest to the cheapest; without one what decides for most rows.

    Where only a recall is asked for, that is for fewest.
    """
    if best is None:
        return float(allowed[-1] if set(limits) == {"min_recall"} else allowed[0])
    if "min_precision" in limits:
        return float(allowed[np.argmin(np.abs(allowed - best))])
    return float(np.clip(best, *range_of(allowed, limits)))


def rates_of(decided: Array, positive: Array, weight: Array | None = None) -> dict[str, float]:
    """Return rates of decisions; a rate of no rows is NaN."""

    def share(part: Array, of: Array) -> float:
        if not np.any(of):
            return float("nan")
        return float(np.average(part[of], weights=None if weight is None else weight[of]))

    return {
        "fpr": share(decided, ~positive),
        "recall": share(decided, positive),
        "precision": share(positive, decided),
    }
