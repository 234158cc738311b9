"""Rates that two classes' decisions have to keep, as limits for a fit and as thresholds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from grayzone.numerics.checks import check_number
from grayzone.numerics.losses import sigmoid

Array = Any


@dataclass(frozen=True)
class Limit:
    """constant + sum of weight * p(positive) >= 0, with weights < 0 for the negative rows.

    The same as a limit on the probabilities of the rows' own classes, but free of cancellation
    where all probabilities are small.
    """

    weight: Array
    constant: float

    def slack(self, scores: Array) -> float:
        """How much more than the limit there is."""
        return self.constant + float(self.weight @ sigmoid(scores[:, 0]))

    @property
    def scale(self) -> float:
        """What slacks are measured by: the limit or, for ratios, a rate of one in a thousand."""
        return max(abs(self.constant), 1e-3)


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
    """Limit on probabilities of the positive class, and rewards (n, 2) of what is maximised.

    A precision of at least v is FP <= TP (1 - v) / v.
    """
    positive = codes == 1
    rewards = np.zeros((codes.size, 2))
    ups, downs = weight * positive, weight * ~positive
    if target.name == "min_recall":
        rewards[:, 0] = downs
        return Limit(ups / ups.sum(), -target.value), rewards
    rewards[:, 1] = ups
    if target.name == "max_fpr":
        return Limit(-downs / downs.sum(), target.value), rewards
    ratio = (1.0 - target.value) / target.value
    return Limit((ratio * ups - downs) / downs.sum(), 0.0), rewards


def cut_at(target: Target, scores: Array, positive: Array, weight: Array, fresh: bool) -> float:
    """Score from which on to decide for the positive class, so that decisions keep the rate.

    Of all such scores the one with most true positives (fewest false ones for a recall). For
    ``fresh`` rows, which the fit has not seen, the rate of new rows is what is kept on average: one
    more row, on the wrong side, is counted with them. Cuts lie half way between scores, so that
    rounding decides nothing.
    """
    order = np.argsort(-scores, kind="stable")
    ordered = scores[order]
    # how far down one may cut: after each group of equal scores, or above all of them
    ends = np.append(0, np.flatnonzero(np.append(ordered[1:] != ordered[:-1], True)) + 1)
    ups, downs = (
        np.append(0.0, np.cumsum(weight[order] * part[order]))[ends]
        for part in (positive, ~positive)
    )
    if target.name == "max_fpr":
        good = downs <= _allowed(target.value, downs[-1], weight[~positive], fresh)
    elif target.name == "min_recall":
        good = ups[-1] - ups <= _allowed(1.0 - target.value, ups[-1], weight[positive], fresh)
    else:
        good = ups >= target.value * (ups + downs) * (1.0 - 1e-12)
    places = ends[good]
    if not places.size:
        # nothing can be promised: to keep a recall decide always, otherwise never
        return -np.inf if target.name == "min_recall" else np.inf
    return _cut(ordered, int(places[0] if target.name == "min_recall" else places[-1]))


def _allowed(share: float, total: float, weight: Array, fresh: bool) -> float:
    extra = float(np.mean(weight)) if fresh else 0.0
    return share * (total + extra) * (1.0 + 1e-12) - extra


def _cut(ordered: Array, k: int) -> float:
    """Cut between the first k of the descending scores and the others."""
    if k == 0:
        return float(ordered[0] + 1e-6 * (1.0 + abs(ordered[0])))
    if k == ordered.size:
        return float(ordered[-1] - 1e-6 * (1.0 + abs(ordered[-1])))
    return float(0.5 * (ordered[k - 1] + ordered[k]))
