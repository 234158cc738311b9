"""Lots that tell streamed rows apart: always the same ones, without a list of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from array_api_compat import device

from grayzone.numerics.checks import as_numpy
from grayzone.numerics.namespace import array_namespace
from grayzone.sources.labelled import Labelled, Rows
from grayzone.sources.source import Sums

Array = Any

_PRIME = 2**31 - 1  # products of numbers below it are 64-bit integers


@dataclass(frozen=True)
class Lots:
    """A number for each row, by a polynomial of its own number modulo a prime.

    Those of any four rows are independent. Rows of class k whose lot is below ``cuts[k]`` are held
    out.
    """

    factors: tuple[int, ...]
    cuts: tuple[int, ...]

    def draw(self, rows: Rows) -> Array:
        """Lots of rows."""
        xp = array_namespace(rows.codes)
        stop = rows.first + rows.codes.shape[0]
        numbers = xp.arange(rows.first, stop, dtype=xp.int64, device=device(rows.codes)) % _PRIME
        lots = xp.zeros_like(numbers)
        for factor in self.factors:
            lots = (lots * numbers + factor) % _PRIME
        return lots

    def held_out(self, rows: Rows) -> Array:
        """Return which rows are held out."""
        xp = array_namespace(rows.codes)
        cuts = xp.asarray(self.cuts, dtype=xp.int64, device=device(rows.codes))
        return self.draw(rows) < xp.take(cuts, rows.codes)


@dataclass(frozen=True)
class _Sides:
    """Rows with a weight and what they weigh, by class and part; extreme lots of the classes."""

    lots: Lots

    def __call__(self, rows: Rows) -> Sums:
        xp = array_namespace(rows.codes)
        drawn, out = self.lots.draw(rows), self.lots.held_out(rows)
        extremes, counts, mass = [], [], []
        for code in range(len(self.lots.cuts)):
            own = (rows.codes == code) & (rows.weight > 0)
            extremes.append(int(xp.min(xp.where(own, drawn, _PRIME))))
            extremes.append(int(xp.max(xp.where(own, drawn, -1))))
            for part in (own & ~out, own & out):
                counts.append(int(xp.sum(xp.astype(part, xp.int64))))
                mass.append(float(xp.sum(xp.where(part, rows.weight, 0.0))))
        return {"extremes": [extremes], "counts": np.array(counts), "mass": np.array(mass)}


def draw_lots(
    plain: Labelled, share: float, rng: np.random.RandomState
) -> tuple[Lots, Array, Array]:
    """Draw lots for rows; gives numbers (K, 2) and weights (K, 2) of the rows of both parts too.

    There is at least one row of each class on either side.
    """
    factors = tuple(int(f) for f in rng.randint(1, _PRIME, size=4, dtype=np.int64))
    cut = round(share * _PRIME)
    lots = Lots(factors, (cut,) * len(plain.classes))
    found = plain.reduce(_Sides(lots))
    counts = found["counts"].reshape(-1, 2)
    _check_counts(plain.classes, counts.sum(axis=1))
    if counts.min() == 0:
        lots = replace(lots, cuts=_moved_cuts(cut, counts, np.array(found["extremes"])))
        found = plain.reduce(_Sides(lots))
        counts = found["counts"].reshape(-1, 2)
    return lots, counts, as_numpy(found["mass"]).reshape(-1, 2)


def _check_counts(classes: Array, counts: Array) -> None:
    if counts.min() < 2:
        raise ValueError(
            f"Holding rows out takes two rows of each class; class "
            f"{classes[int(np.argmin(counts))]!r} has {counts.min()}."
        )


def _moved_cuts(cut: int, counts: Array, extremes: Array) -> tuple[int, ...]:
    """Hold out the row with the least lot where there is none, leave that with the greatest."""
    cuts = []
    for k, (kept, out) in enumerate(counts):
        least, greatest = extremes[:, 2 * k].min(), extremes[:, 2 * k + 1].max()
        cuts.append(int(least) + 1 if out == 0 else int(greatest) if kept == 0 else cut)
    return tuple(cuts)
