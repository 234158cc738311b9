"""Rates that two classes' decisions have to keep, as limits for a fit and as thresholds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from grayzone.decision.confidence import check_precision, most_beyond, precise_thresholds
from grayzone.numerics.checks import as_numpy, check_number
from grayzone.numerics.namespace import array_namespace
from grayzone.numerics.pitfalls import Pitfall

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
    asked: str = "The limit"  # what errors call it

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
        given = cls.several(max_fpr, min_recall, min_precision, confidence)
        if len(given) > 1:
            names = ", ".join(target.name for target in given)
            raise ValueError(f"Only one limit can be kept; got {names}.")
        return given[0] if given else None

    @classmethod
    def several(
        cls, max_fpr: Any, min_recall: Any, min_precision: Any, confidence: Any = None
    ) -> tuple[Target, ...]:
        """Return all targets there are, checked; they share the error."""
        error = None if confidence is None else 1.0 - check_share("confidence", confidence)
        asked = {"max_fpr": max_fpr, "min_recall": min_recall, "min_precision": min_precision}
        given = {name: value for name, value in asked.items() if value is not None}
        share = error if error is None or not given else error / len(given)
        return tuple(cls(name, check_share(name, value), share) for name, value in given.items())

    @property
    def asked(self) -> str:
        """What errors call it."""
        return f"{self.name}={self.value:g}"

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
        factors, constant, rewards = [0.0, 1.0 / positive], -target.value, [1.0, 0.0]
    elif target.name == "max_fpr":
        factors, constant, rewards = [-1.0 / negative, 0.0], target.value, [0.0, 1.0]
    else:
        ratio = (1.0 - target.value) / target.value
        factors, constant, rewards = [-1.0 / negative, ratio / negative], 0.0, [0.0, 1.0]
    return ClassLimit(np.array(factors), constant, target.asked), np.diag(rewards)


def make_limits(targets: Sequence[Target], mass: Array) -> tuple[tuple[ClassLimit, ...], Array]:
    """Return the limits of a fit, and the rewards that are maximised under them.

    Where true positives are maximised under other limits, a recall is had in full or not at all:
    decisions are asked for it, not the fit.
    """
    asked = [target for target in targets if target.name != "min_recall"] or targets
    made = [make_limit(target, mass) for target in asked]
    return tuple(limit for limit, _ in made), made[0][1]


def cut_at(target: Target, scores: Array, positive: Array, weight: Array, fresh: bool) -> float:
    """Return the score from which on to decide for the positive class, so as to keep the rate.

    Of all such scores the one with most true positives (fewest false ones for a recall). For
    ``fresh`` rows, which the fit has not seen, the rate of new rows is what is kept: with the
    probability that the target asks for, by the numbers of rows, whatever they weigh, or on
    average, where one more row, on the wrong side, is counted with them. Cuts lie between scores,
    so that rounding decides nothing.
    """
    return cut_for_all((target,), scores, positive, weight, fresh)


def cut_for_all(
    targets: Sequence[Target], scores: Array, positive: Array, weight: Array, fresh: bool
) -> float:
    """Return the score from which on all rates are kept, as :func:`cut_at` does for one.

    Of several, the one with most true positives; where there is none, an error names them.
    """
    xp = array_namespace(scores)
    if fresh and targets[0].error is not None:
        if any(target.name == "min_precision" for target in targets):
            return _precise_cut(targets, as_numpy(scores), as_numpy(positive))
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
    good = keeps_all(targets, sums, totals, means, fresh)
    places = xp.take(ends, xp.nonzero(good)[0])
    if places.shape[0] == 0:
        return nothing_kept(targets, _most_found(targets, sums, totals, means, fresh))
    k = int(places[0] if for_fewest(targets) else places[-1])
    above = float(ordered[k - 1]) if k > 0 else np.inf
    below = float(ordered[k]) if k < ordered.shape[0] else -np.inf
    return cut_between(above, below, place_between(targets, fresh))


def for_fewest(targets: Sequence[Target]) -> bool:
    """Whether to decide for as few rows as may be: where nothing but a recall is asked for."""
    return all(target.name == "min_recall" for target in targets)


def keeps_all(targets: Sequence[Target], *known: Any) -> Array:
    """Whether all rates are kept; see :func:`keeps`."""
    good = keeps(targets[0], *known)
    for target in targets[1:]:
        good = good & keeps(target, *known)
    return good


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


def _precise_cut(targets: Sequence[Target], scores: Array, positive: Array) -> float:
    """Return the lowest of the scores at which a precision is stated, and the other rates are."""
    (precise,) = (target for target in targets if target.name == "min_precision")
    others = [target for target in targets if target.name != "min_precision"]
    assert precise.error is not None
    cuts = precise_thresholds(scores, positive, precise.value, precise.error)
    totals = [float(np.sum(part)) for part in (positive, ~positive)]
    for cut in cuts.tolist():
        decided = [float(np.sum(part & (scores >= cut))) for part in (positive, ~positive)]
        if not others or keeps_all(others, decided, totals, [1.0, 1.0], True):
            return float(cut)
    raise none_kept(" and ".join(target.asked for target in targets))


def none_kept(asked: str) -> ValueError:
    """Return the error that no threshold keeps what was asked for."""
    return ValueError(
        f"No threshold keeps {asked} with this classifier and confidence. More held-out rows, a "
        f"better classifier or looser limits would help. {Pitfall.TOO_FEW_ROWS}"
    )


def nothing_kept(targets: Sequence[Target], found: float | None = None) -> float:
    """Return the cut where nothing can be promised: to keep a recall decide always, else never.

    What is asked of several rates at once is not kept by either; ``found`` is the recall that the
    limits beside it leave.
    """
    if len(targets) == 1:
        return -np.inf if for_fewest(targets) else np.inf
    asked = " and ".join(target.asked for target in targets)
    others = " and ".join(target.asked for target in targets if target.name != "min_recall")
    left = "" if found is None else f": under {others} decisions find {found:.3g} of the positives"
    raise ValueError(
        f"No threshold keeps {asked} together{left}. Looser limits or better features would help."
    )


def _most_found(
    targets: Sequence[Target], sums: Sequence[Array], totals: Sequence[float], *known: Any
) -> float | None:
    """Return the largest recall under the other limits; None where they are not kept either."""
    others = [target for target in targets if target.name != "min_recall"]
    if not others or len(others) == len(targets):
        return None
    good = as_numpy(keeps_all(others, sums, totals, *known))
    return float(as_numpy(sums[0])[good].max() / totals[0]) if np.any(good) else None


def place_between(targets: Sequence[Target], fresh: bool) -> float:
    """Return where to cut between neighbouring scores, from 0, the lower one, to 1.

    Half way, unless any cut between them keeps a stated confidence: then where most is gained.
    """
    if not fresh or targets[0].error is None:
        return 0.5
    return 1.0 - _CLOSE if for_fewest(targets) else _CLOSE


def cut_between(above: float, below: float, place: float = 0.5) -> float:
    """Return a cut between neighbouring scores, half way by default, or just beyond all of them."""
    if np.isinf(above):
        return float(below + 1e-6 * (1.0 + abs(below)))
    if np.isinf(below):
        return float(above - 1e-6 * (1.0 + abs(above)))
    # of neighbouring numbers the middle may be the lower one
    return float(max(place * above + (1.0 - place) * below, np.nextafter(below, np.inf)))
