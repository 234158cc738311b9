"""Rates that two classes' decisions have to keep, as limits for a fit and as thresholds."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from grayzone._validation import check_number
from grayzone.solvers.constrained_policy import Limit

Array = Any


class Target(NamedTuple):
    """A rate and what is asked of it: "max_fpr", "min_recall" or "min_precision"."""

    name: str
    value: float

    @classmethod
    def of(cls, max_fpr: Any, min_recall: Any, min_precision: Any) -> Target | None:
        """Give the one target there is, checked; None where there is none."""
        asked = {"max_fpr": max_fpr, "min_recall": min_recall, "min_precision": min_precision}
        given = {name: value for name, value in asked.items() if value is not None}
        if len(given) > 1:
            raise ValueError(f"Only one limit can be kept; got {', '.join(given)}.")
        for name, value in given.items():
            if not 0.0 < check_number(name, value) < 1.0:
                raise ValueError(f"{name} must be between 0 and 1; got {value!r}.")
            return cls(name, float(value))
        return None


def make_limit(target: Target, codes: Array, weight: Array) -> tuple[Limit, Array]:
    """Limit on probabilities of the rows' own classes, and rewards (n, 2) of what is maximised.

    The false positive rate is 1 minus the mean probability of negatives' own class, and so on; a
    precision of at least v is FP <= TP (1 - v) / v.
    """
    positive = codes == 1
    rewards = np.zeros((codes.size, 2))
    if target.name == "min_recall":
        rewards[~positive, 0] = weight[~positive]
        own = weight * positive
        return Limit(own / own.sum(), target.value), rewards
    rewards[positive, 1] = weight[positive]
    negatives = weight * ~positive
    if target.name == "max_fpr":
        return Limit(negatives / negatives.sum(), 1.0 - target.value), rewards
    ratio = (1.0 - target.value) / target.value
    return Limit((negatives + ratio * weight * positive) / negatives.sum(), 1.0), rewards


def cut_at(target: Target, scores: Array, positive: Array, weight: Array, fresh: bool) -> float:
    """Score from which on to decide for the positive class, so that decisions keep the rate.

    Of all such scores the one with most true positives (fewest false ones for a recall). For
    ``fresh`` rows, which the fit has not seen, the rate of new rows is what is kept on average: one
    more row, on the wrong side, is counted with them.
    """
    if target.name == "min_recall":
        own, limit = scores[positive], 1.0 - target.value
        return -_upper_quantile(-own, weight[positive], limit, fresh)
    if target.name == "max_fpr":
        return _above(_upper_quantile(scores[~positive], weight[~positive], target.value, fresh))
    return _precise(target.value, scores, positive, weight)


def _upper_quantile(scores: Array, weight: Array, share: float, fresh: bool) -> float:
    """Largest score that no more than this share of the weight exceeds."""
    order = np.argsort(-scores, kind="stable")
    ordered, mass = scores[order], np.cumsum(weight[order])
    total = float(mass[-1]) + (float(np.mean(weight)) if fresh else 0.0)
    inside = mass <= share * total * (1.0 + 1e-12)
    if np.all(inside):
        return float(np.nextafter(ordered[-1], -np.inf))
    return float(ordered[int(np.argmin(inside))])


def _above(score: float) -> float:
    return float(np.nextafter(score, np.inf))


def _precise(value: float, scores: Array, positive: Array, weight: Array) -> float:
    """Smallest score from which on the precision is kept; above all where none is."""
    order = np.argsort(-scores, kind="stable")
    ordered = scores[order]
    right, all_ = np.cumsum((weight * positive)[order]), np.cumsum(weight[order])
    ends = np.append(ordered[1:] != ordered[:-1], True)  # ties go together
    good = np.flatnonzero(ends & (right >= value * all_ * (1.0 - 1e-12)))
    return float(ordered[good[-1]]) if good.size else _above(float(ordered[0]))
