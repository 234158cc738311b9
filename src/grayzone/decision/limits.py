"""Rates that two classes' decisions have to keep, as limits for a fit and as thresholds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace

from grayzone.decision.confidence import check_precision, most_beyond, precise_thresholds
from grayzone.numerics.checks import as_numpy, check_number

Array = Any

_CLOSE = 1e-3  # to a score, as a share of the way to the next one


@dataclass(frozen=True)
class ClassLimit:
    """constant + sum of weight * factor of the class * p(positive) >= 0, over rows of two classes.

    Factors are negative for the negative class. The same as a limit on the probabilities of the
    rows' own classes, but free of cancellation where all probabilities are small.
    """

    factors: Array  # (2,)
    constant: float

    @property
    def scale(self) -> float:
        """What slacks are measured by: the limit or, for ratios, a rate of one in a thousand."""
        return max(abs(self.constant), 1e-3)


class Target(NamedTuple):
    """A rate and what is asked of it: "max_fpr", "min_recall" or "min_precision"."""

    name: str
    value: float
    # Probability with which new rows may break it; None: they keep it on average.
    error: float | None = None
    # What rows it is about, for an error.
    among: str = "rows"

    @classmethod
    def of(
        cls, max_fpr: Any, min_recall: Any, min_precision: Any, confidence: Any = None
    ) -> Target | None:
        """Return the one target there is, checked; None where there is none."""
        error = None if confidence is None else 1.0 - check_share("confidence", confidence)
        asked = {"max_fpr": max_fpr, "min_recall": min_recall, "min_precision": min_precision}
        given = {name: value for name, value in asked.items() if value is not None}
        if len(given) > 1:
            raise ValueError(f"Only one limit can be kept; got {', '.join(given)}.")
        for name, value in given.items():
            return cls(name, check_share(name, value), error)
        return None

    def check_classes(self, classes: Array) -> None:
        """Check that there are two classes."""
        if len(classes) > 2:
            raise ValueError(f"{self.name} is for two classes; y has {len(classes)}.")

    def check_rows(self, negative: int, positive: int) -> None:
        """Check that there are as many held-out rows as a statement of confidence takes."""
        if self.error is not None and self.name == "min_precision":
            check_precision(negative + positive, self.value, self.error, self.among)
        elif self.error is not None:
            self.most_wrong(negative if self.name == "max_fpr" else positive)

    def most_wrong(self, n_rows: int) -> int:
        """Return how many rows of its class, held-out ones, may be on the wrong side of a cut."""
        assert self.error is not None
        share, kind = self.value, "negative"
        if self.name == "min_recall":
            share, kind = 1.0 - self.value, "positive"
        return most_beyond(n_rows, share, self.error, f"{kind} {self.among}")


def check_share(name: str, value: Any) -> float:
    """Check a number between 0 and 1, and return it."""
    if not 0.0 < check_number(name, value) < 1.0:
        raise ValueError(f"{name} must be between 0 and 1; got {value!r}.")
    return float(value)


def make_limit(target: Target, mass: Array) -> tuple[ClassLimit, Array]:
    """Return the limit on probabilities of the positive class, and what is maximised under it.

    That are rewards (2, 2) of decisions, by class; ``mass`` is what rows of the two classes weigh.
    A precision of at least v is FP <= TP (1 - v) / v.
    """
    negative, positive = mass
    if target.name == "min_recall":
        return ClassLimit(np.array([0.0, 1.0 / positive]), -target.value), np.diag([1.0, 0.0])
    rewards = np.diag([0.0, 1.0])
    if target.name == "max_fpr":
        return ClassLimit(np.array([-1.0 / negative, 0.0]), target.value), rewards
    ratio = (1.0 - target.value) / target.value
    return ClassLimit(np.array([-1.0, ratio]) / negative, 0.0), rewards


def cut_at(target: Target, scores: Array, positive: Array, weight: Array, fresh: bool) -> float:
    """Return the score from which on to decide for the positive class, so as to keep the rate.

    Of all such scores the one with most true positives (fewest false ones for a recall). For
    ``fresh`` rows, which the fit has not seen, the rate of new rows is what is kept: with the
    probability that the target asks for, by the numbers of rows, whatever they weigh, or on
    average, where one more row, on the wrong side, is counted with them. Cuts lie between scores,
    so that rounding decides nothing.
    """
    xp = array_namespace(scores)
    if fresh and target.error is not None:
        if target.name == "min_precision":
            return _precise_cut(target, as_numpy(scores), as_numpy(positive))
        weight = xp.ones_like(weight)
    order = xp.argsort(-scores)
    ordered = xp.take(scores, order)
    # how far down one may cut: after each group of equal scores, or above all of them
    last = xp.ones_like(ordered[:1], dtype=xp.bool)
    ends = xp.nonzero(xp.concat([last, ordered[1:] != ordered[:-1], last]))[0]
    sums, totals, means = [], [], []
    for part in (positive, ~positive):
        own = xp.where(part, weight, 0.0)
        running = xp.cumulative_sum(xp.take(own, order), include_initial=True)
        sums.append(xp.take(running, ends))
        totals.append(float(running[-1]))
        means.append(totals[-1] / max(1, int(xp.sum(xp.astype(part, xp.int64)))))
    good = keeps(target, sums, totals, means, fresh)
    places = xp.take(ends, xp.nonzero(good)[0])
    if places.shape[0] == 0:
        return nothing_kept(target)
    k = int(places[0] if target.name == "min_recall" else places[-1])
    above = float(ordered[k - 1]) if k > 0 else np.inf
    below = float(ordered[k]) if k < ordered.shape[0] else -np.inf
    return cut_between(above, below, place_between(target, fresh))


def keeps(
    target: Target,
    decided: Sequence[Array],
    totals: Sequence[float],
    means: Sequence[float],
    fresh: bool,
) -> Array:
    """Whether the rate is kept where rows of these weights are decided for.

    Weights of the positive rows come first, then those of the negative ones: of what is decided
    for, of all rows, and of a row in the mean.
    """
    ups, downs = decided
    if target.name == "max_fpr":
        return downs <= _allowed(target, totals[1], means[1], fresh)
    if target.name == "min_recall":
        return totals[0] - ups <= _allowed(target, totals[0], means[0], fresh)
    return ups >= target.value * (ups + downs) * (1.0 - 1e-12)


def _allowed(target: Target, total: float, mean: float, fresh: bool) -> float:
    """Return what may weigh on the wrong side, of all rows of a class."""
    if fresh and target.error is not None:
        return target.most_wrong(round(total))
    share = target.value if target.name == "max_fpr" else 1.0 - target.value
    extra = mean if fresh else 0.0
    return share * (total + extra) * (1.0 + 1e-12) - extra


def _precise_cut(target: Target, scores: Array, positive: Array) -> float:
    assert target.error is not None
    cuts = precise_thresholds(scores, positive, target.value, target.error)
    if not cuts.size:
        raise none_kept(f"{target.name}={target.value:g}")
    return float(cuts[0])


def none_kept(asked: str) -> ValueError:
    """Return the error that no threshold keeps what was asked for."""
    return ValueError(
        f"No threshold keeps {asked} with this classifier and confidence. More held-out rows, a "
        "better classifier or looser limits would help."
    )


def nothing_kept(target: Target) -> float:
    """Return the cut where nothing can be promised: to keep a recall decide always, else never."""
    return -np.inf if target.name == "min_recall" else np.inf


def place_between(target: Target, fresh: bool) -> float:
    """Return where to cut between neighbouring scores, from 0, the lower one, to 1.

    Half way, unless any cut between them keeps a stated confidence: then where most is gained.
    """
    if not fresh or target.error is None:
        return 0.5
    return 1.0 - _CLOSE if target.name == "min_recall" else _CLOSE


def cut_between(above: float, below: float, place: float = 0.5) -> float:
    """Return a cut between neighbouring scores, half way by default, or just beyond all of them."""
    if np.isinf(above):
        return float(below + 1e-6 * (1.0 + abs(below)))
    if np.isinf(below):
        return float(above - 1e-6 * (1.0 + abs(above)))
    # of neighbouring numbers the middle may be the lower one
    return float(max(place * above + (1.0 - place) * below, np.nextafter(below, np.inf)))
