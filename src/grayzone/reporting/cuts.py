"""What decisions come to wherever they are cut: sums of rows, for the sliders of a report.

Of two classes, rows below a lower cut are decided for the negative one, rows from an upper cut on
for the positive one, and those between stay undecided. Where rows have costs of their own, each has
its own threshold; what is cut is then the probability *relative to it*, which is .5 there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from grayzone.decision.costs import has_threshold, threshold_of
from grayzone.decision.example_costs import row_thresholds
from grayzone.decision.rules import cuts_between_actions

Array = Any
Cuts = tuple[float, float]
Record = dict[str, Any]

STEPS = 1_000  # of a slider
RARE = 0.02  # cuts below this, or as near to one, have sliders that are even in log-odds


def relative(p: Array, matrices: Array, decided: Array) -> Array:
    """Return probabilities whose odds are those of rows divided by the odds of their thresholds.

    Where nothing is at stake any decision is right: the row stays where it was decided.
    """
    at = row_thresholds(matrices)
    free = np.isnan(at)
    at = np.where(free, 0.5, at)
    for_, against = p * (1.0 - at), (1.0 - p) * at
    both = for_ + against
    score = np.where(both > 0, for_ / np.where(both > 0, both, 1.0), 0.5)
    return np.where(free, (decided == 1).astype(np.float64), score)


def cuts_of(
    score: Array, decided: Array, costs: Array, reject_cost: float | None, told: float | None
) -> Cuts | None:
    """Return the cuts that decisions obey, those of the costs first; None where they obey none."""
    for low, high in _candidates(score, decided, costs, reject_cost, told):
        below, between, above = (score[decided == k] for k in (0, -1, 1))
        if (
            low <= high
            and np.all(below < low)
            and np.all((between >= low) & (between < high))
            and np.all(above >= high)
        ):
            return float(low), float(high)
    return None


def _candidates(
    score: Array, decided: Array, costs: Array, reject_cost: float | None, told: float | None
) -> Iterator[Cuts]:
    if told is not None:
        yield told, told
    if has_threshold(costs):
        of_costs = threshold_of(costs)
        yield of_costs, of_costs
        if reject_cost is not None:
            found = cuts_between_actions(costs, reject_cost)
            if len(found) == 2:
                # a row at the lower cut is decided
                yield float(np.nextafter(found[0], 1.0)), float(found[1])
    yield 0.5, 0.5
    yield (
        _between(score[decided == 0], score[decided != 0]),
        _between(score[decided != 1], score[decided == 1]),
    )


def _between(below: Array, above: Array) -> float:
    """Return a number above some and not above others, as far as there is one."""
    if not len(below):
        return 0.0
    low, high = np.max(below, initial=0.0), np.min(above, initial=1.0)
    middle = 0.5 * (low + high)
    return float(middle if middle > low else np.nextafter(low, 2.0))


def steps_of(cuts: Cuts) -> Array:
    """Return where the sliders can stand, the cuts in force among them."""
    if cuts[0] >= RARE and cuts[1] <= 1.0 - RARE:
        steps = np.linspace(0.0, 1.0, STEPS + 1)
    else:
        inside = np.clip(cuts, 1e-9, 1.0 - 1e-9)
        reach = max(8.0, float(np.max(np.abs(np.log(inside / (1.0 - inside))))) + 3.0)
        steps = 1.0 / (1.0 + np.exp(-np.linspace(-reach, reach, STEPS + 1)))
    near = {int(np.argmin(np.abs(steps - cut))) for cut in cuts}
    return np.union1d(np.delete(steps, sorted(near)), cuts)


def sums_from(
    steps: Array, score: Array, codes: Array, weight: Array, matrices: Array | None
) -> list[Record]:
    """Return, for each class, sums over its rows from every step on, and over all of them.

    ``w`` and ``w2`` sum weights and their squares; where rows have their own costs, ``right`` and
    ``wrong`` are for a decision each the sums of weights times costs, of squares of weights times
    costs, and of squares of both.
    """
    found = []
    for k in (0, 1):
        rows = np.flatnonzero(codes == k)
        rows = rows[np.argsort(score[rows], kind="stable")]
        first = np.append(0, np.searchsorted(score[rows], steps, side="left"))
        w = weight[rows]

        def above(values: Array, first: Array = first) -> list[float]:
            # from the end, so that nothing is left of what was subtracted
            return np.append(np.cumsum(values[::-1])[::-1], 0.0)[first].tolist()

        sums: Record = {"w": above(w), "w2": above(w**2)}
        if matrices is not None:
            for name, decided in (("right", k), ("wrong", 1 - k)):
                cost = matrices[rows, k, decided]
                sums[name] = [above(w * cost), above(w**2 * cost), above((w * cost) ** 2)]
        found.append(sums)
    return found


def cells_of(
    codes: Array, decided: Array, weight: Array, paid: Array, shape: tuple[int, int]
) -> Array:
    """Return the same five sums of rows by truth and decision, "undecided" last."""
    cells = np.zeros((*shape, 5))
    values = np.stack([weight, weight**2, weight * paid, weight**2 * paid, (weight * paid) ** 2], 1)
    np.add.at(cells, (codes, decided), values)
    return cells
