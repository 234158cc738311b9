"""A bounded number of rows, brought together from wherever they are."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from array_api_compat import device

from grayzone.numerics.backend import moved
from grayzone.numerics.namespace import array_namespace
from grayzone.sources.labelled import Labelled, Rows
from grayzone.sources.source import Sums

Array = Any

# The golden ratio of 2^32: multiples of it are spread evenly (Knuth).
_GOLDEN = 2_654_435_769


class Gathered(NamedTuple):
    """Rows that were brought together, with their numbers among all."""

    rows: Rows
    numbers: Array


def gather(parts: list[Gathered], like: Array, n_features: int) -> Gathered:
    """Put gathered rows together, in their order and in double precision."""
    xp = array_namespace(like)
    place = device(like)
    if not parts:
        empty = xp.zeros((0,), dtype=xp.float64, device=place)
        numbers = xp.zeros((0,), dtype=xp.int64, device=place)
        X = xp.zeros((0, n_features), dtype=xp.float64, device=place)
        return Gathered(Rows(X, numbers, empty, 0), numbers)
    rows = Rows(
        xp.astype(_joined([p.rows.X for p in parts]), xp.float64, copy=False),
        _joined([p.rows.codes for p in parts]),
        _joined([p.rows.weight for p in parts]),
        0,
        costs=_joined([p.rows.costs for p in parts]),
        own=_joined([p.rows.own for p in parts]),
    )
    return Gathered(rows, _joined([p.numbers for p in parts]))


def _joined(parts: list[Array | None]) -> Array | None:
    if parts[0] is None:
        return None
    return parts[0] if len(parts) == 1 else array_namespace(*parts).concat(parts)


def picked(rows: Rows, places: Array) -> list[Gathered]:
    """Gather these rows of a block, in its own precision: they may have far to go."""
    if places.shape[0] == 0:
        return []
    some = rows.take(places)
    X = some.X.toarray() if sp.issparse(some.X) else some.X
    return [Gathered(replace(some, X=X, numbers=None, memory=None), some.places())]


@dataclass(frozen=True)
class Draw:
    """A share of the rows of each class, by their numbers: the same rows in every reading."""

    shares: tuple[float, ...]

    def __call__(self, rows: Rows) -> Sums:
        """Gather the drawn rows."""
        xp, numbers = array_namespace(rows.codes), rows.places()
        # neighbours are far apart in this order, whatever the order of the rows is
        order = xp.astype((numbers % 2**31) * _GOLDEN % 2**32, xp.float64) / 2**32
        shares = xp.take(moved(np.array(self.shares), rows.weight), rows.codes)
        return {"drawn": picked(rows, xp.nonzero((order < shares) & (rows.weight > 0))[0])}


def draw_sample(labelled: Labelled, most: int) -> Gathered:
    """Draw about so many rows, of rare classes more, weighted so that they stand for all.

    Parameters
    ----------
    labelled : Labelled
        All rows.
    most : int
        How many rows, about.

    Returns
    -------
    sample : Gathered
        The rows; those of each class weigh as much as all of that class do.
    """
    share = max(1, most // len(labelled.classes))
    # what rare classes do not use, the others may
    spare = np.maximum(share - labelled.counts, 0).sum() / max(1, np.sum(labelled.counts > share))
    shares = np.minimum(1.0, (share + spare) / np.maximum(labelled.counts, 1))
    found = labelled.reduce(Draw(tuple(shares.tolist())))
    rows, numbers = gather(found["drawn"], labelled.like, labelled.n_features)
    xp = array_namespace(rows.codes)
    factors = [
        mass / max(float(xp.sum(xp.where(rows.codes == code, rows.weight, 0.0))), 1e-300)
        for code, mass in enumerate(labelled.mass * labelled.factors)
    ]
    weight = rows.weight * xp.take(moved(np.array(factors), rows.weight), rows.codes)
    return Gathered(rows.weighing(weight), numbers)


def brought_here(labelled: Labelled) -> Labelled:
    """Return streamed rows as held ones, in NumPy's memory: for as many as fit there."""
    reading = labelled.reduce(Draw((1.0,) * len(labelled.classes)))
    rows, numbers = gather(reading["drawn"], labelled.like, labelled.n_features)
    return replace(labelled, held=replace(rows, numbers=numbers, memory={}))
