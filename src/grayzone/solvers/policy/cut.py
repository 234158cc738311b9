"""Where to cut scores so that decisions keep a rate, wherever the rows are.

Scores of held rows are sorted where they are. Those of a stream are known as groups: ranges with
what their rows weigh. The best place between two groups is compared with what could at best be
found inside of a group; as long as one of them could hold a better place another reading divides
it, down to single scores where it has few.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from grayzone.decision.limits import (
    Target,
    cut_between,
    cut_for_all,
    for_fewest,
    keeps_all,
    nothing_kept,
    place_between,
)
from grayzone.numerics.backend import moved
from grayzone.numerics.checks import as_numpy
from grayzone.numerics.namespace import array_namespace
from grayzone.sources.labelled import Labelled, Rows
from grayzone.sources.source import Sums
from grayzone.sources.split import split

Array = Any

_MOST_SCORES = 2**19  # that are brought together
_N_RANGES = 2**12  # that a range is divided into
_WIDEST = 700.0  # scores up to its hyperbolic sine are told apart by the first reading


class _Groups(NamedTuple):
    """Groups of scores above ``bottom`` and at most ``top``, in descending order; none is empty."""

    top: Array
    bottom: Array
    counts: Array
    ups: Array  # weight of positive rows
    downs: Array  # weight of negative rows


def cut_scores(labelled: Labelled, coef: Array, targets: Sequence[Target], *, fresh: bool) -> float:
    """Return the score from which on to decide for the positive class, so as to keep all rates.

    ``coef`` has an intercept; rows that are ``fresh`` have not been seen by the fit. See
    :func:`grayzone.decision.limits.cut_for_all`.
    """
    counting = fresh and targets[0].error is not None
    precise = any(target.name == "min_precision" for target in targets)
    if counting and precise and labelled.held is None:
        return cut_for_all(targets, *_brought(labelled, coef), fresh)
    if counting:
        labelled = labelled.part_of(_one_each, labelled.counts, labelled.counts.astype(np.float64))
    rows = labelled.held
    if rows is not None:
        scores = rows.design().scores(moved(coef, rows.weight))[:, 0]
        return cut_for_all(targets, scores, rows.codes == 1, rows.weight, fresh)
    reader = _Reader(labelled, coef)
    groups = reader.divided(-np.inf, np.inf, labelled.n_rows)
    means = (labelled.mass / labelled.counts)[::-1]
    while True:
        place, wanting = _search(groups, targets, means, fresh)
        if wanting is None:
            break
        top, bottom, counts, *_ = (column[wanting] for column in groups)
        part = reader.divided(bottom, top, int(counts))
        columns = zip(groups, part, strict=True)
        groups = _Groups(*(np.r_[old[:wanting], new, old[wanting + 1 :]] for old, new in columns))
    if place is None:
        return nothing_kept(targets)
    edge = float(groups.top[place]) if place < groups.top.size else -np.inf
    return reader.cut(edge, place_between(targets, fresh))


def _one_each(rows: Rows) -> Rows:
    """Count rows, whatever they weigh."""
    xp = array_namespace(rows.weight)
    return rows.weighing(xp.astype(rows.weight > 0, xp.float64))


def _brought(labelled: Labelled, coef: Array) -> tuple[Array, Array, Array]:
    """Scores of streamed rows, whether they are positive, and weights; of many, a random part."""
    if labelled.n_rows > _MOST_SCORES:
        share = _MOST_SCORES / labelled.n_rows
        labelled = split(labelled, share, np.random.RandomState(_MOST_SCORES))[1]
    found = labelled.reduce(_Singles(coef, -np.inf, np.inf))["scores"]
    scores, ups, downs = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return scores, ups > 0, ups + downs


def _search(
    groups: _Groups, targets: Sequence[Target], means: Array, fresh: bool
) -> tuple[int | None, int | None]:
    """Return the best place, groups above it, or else the group that could hold a better one."""
    ups, downs = (np.append(0.0, np.cumsum(part)) for part in (groups.ups, groups.downs))
    totals = float(ups[-1]), float(downs[-1])
    good = keeps_all(targets, (ups, downs), totals, means, fresh)
    # at best all positive rows of a group come first, and none of the others
    maybe = keeps_all(targets, (ups[1:], downs[:-1]), totals, means, fresh)
    maybe &= np.nextafter(groups.bottom, np.inf) < groups.top
    places, wanting = np.flatnonzero(good), np.flatnonzero(maybe)
    if for_fewest(targets):
        place = int(places[0]) if places.size else groups.top.size + 1
        open_ = wanting.size > 0 and wanting[0] < place
        return (int(place) if places.size else None), (int(wanting[0]) if open_ else None)
    place = int(places[-1]) if places.size else -1
    open_ = wanting.size > 0 and wanting[-1] >= place
    return (place if places.size else None), (int(wanting[-1]) if open_ else None)


# ------------------------------------------------------------------------------------------
# Readings
# ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Reader:
    """Scores of rows, asked for again and again."""

    labelled: Labelled
    coef: Array

    def divided(self, bottom: float, top: float, n_scores: int) -> _Groups:
        """Groups of the scores above the bottom and at most the top."""
        if n_scores <= _MOST_SCORES:
            singles = _Singles(self.coef, bottom, top)
            return _single_groups(self.labelled.reduce(singles)["scores"])
        edges = _edges(bottom, top)
        ranges = _Ranges(self.coef, edges)
        inside = self.labelled.reduce(ranges)["ranges"][:, 1:-1]  # those outside are known
        full = np.flatnonzero(inside[0] > 0)[::-1]
        counts, ups, downs = inside[:, full]
        return _Groups(edges[full + 1], edges[full], counts, ups, downs)

    def cut(self, edge: float, place: float) -> float:
        """Cut between the scores next to an edge, or just beyond all of them."""
        sums = self.labelled.reduce(_Neighbours(self.coef, edge))
        return cut_between(min(sums["above"]), max(sums["below"]), place)


def _edges(bottom: float, top: float) -> Array:
    """Edges of ranges; the first ones are narrow about zero and cover all numbers."""
    if np.isinf(bottom) and np.isinf(top):
        inner = np.sinh(np.linspace(-_WIDEST, _WIDEST, _N_RANGES + 1))
        return np.r_[-np.inf, inner, np.inf]
    largest = np.finfo(np.float64).max
    low, high = max(bottom, -largest), min(top, largest)
    # a number between neighbours would be one of them
    inner = np.unique(np.clip(np.linspace(low, high, _N_RANGES + 1)[1:-1], low, high))
    inner = inner[(inner > low) & (inner < high)]
    if inner.size == 0:
        inner = np.array([np.nextafter(low, high)])
    return np.r_[bottom, inner, top]


def _single_groups(gathered: list[tuple[Array, Array, Array]]) -> _Groups:
    scores, ups, downs = (np.concatenate(parts) for parts in zip(*gathered, strict=True))
    top, codes = np.unique(scores, return_inverse=True)
    counts, ups, downs = (np.bincount(codes, w, top.size) for w in (None, ups, downs))
    bottom = np.nextafter(top, -np.inf)
    return _Groups(*(column[::-1] for column in (top, bottom, counts, ups, downs)))


@dataclass(frozen=True)
class _Singles:
    """Scores in a range, one by one, with weights of either class."""

    coef: Array
    bottom: float
    top: float

    def __call__(self, rows: Rows) -> Sums:
        xp = array_namespace(rows.weight)
        scores, ups, downs = _scored(rows, self.coef)
        inside = xp.nonzero((scores > self.bottom) & (scores <= self.top) & (rows.weight > 0))[0]
        return {"scores": [tuple(as_numpy(xp.take(a, inside)) for a in (scores, ups, downs))]}


@dataclass(frozen=True)
class _Ranges:
    """Rows and weights of either class between ascending edges, and outside of them."""

    coef: Array
    edges: Array

    def __call__(self, rows: Rows) -> Sums:
        xp = array_namespace(rows.weight)
        scores, ups, downs = _scored(rows, self.coef)
        there = xp.astype(rows.weight > 0, xp.float64)
        order = xp.argsort(scores)
        edges = moved(self.edges, scores)
        at = as_numpy(xp.searchsorted(xp.take(scores, order), edges, side="right"))
        columns = []
        for amounts in (there, ups, downs):
            running = np.append(0.0, as_numpy(xp.cumulative_sum(xp.take(amounts, order))))
            columns.append(np.diff(np.r_[0.0, running[at], running[-1]]))
        return {"ranges": np.stack(columns)}


@dataclass(frozen=True)
class _Neighbours:
    """The least score above an edge, and the greatest that is not."""

    coef: Array
    edge: float

    def __call__(self, rows: Rows) -> Sums:
        xp = array_namespace(rows.weight)
        scores, _, _ = _scored(rows, self.coef)
        there = rows.weight > 0
        above = xp.min(xp.where(there & (scores > self.edge), scores, xp.inf))
        below = xp.max(xp.where(there & (scores <= self.edge), scores, -xp.inf))
        return {"above": [float(above)], "below": [float(below)]}


def _scored(rows: Rows, coef: Array) -> tuple[Array, Array, Array]:
    """Scores of rows, and weights of those of either class."""
    xp = array_namespace(rows.weight)
    scores = rows.design().scores(moved(coef, rows.weight))[:, 0]
    positive = rows.codes == 1
    return scores, xp.where(positive, rows.weight, 0.0), xp.where(positive, 0.0, rows.weight)
