"""Rows whose multipliers are furthest from the optimum, compiled: a block is made of them.

Nothing imports this module until a kernel is fitted.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from grayzone.numerics.compiled import clear, loop
from grayzone.numerics.jit import NEVER, can_move
from grayzone.numerics.team import share
from grayzone.numerics.threads import LOOPS, edges

Array = Any

_BINS = 1024
_READ_BY_A_THREAD = 8192  # rows


@loop()
def _extremes(pull: Array, a: Array, y: Array, found: Array, start: int, stop: int) -> None:
    top, bottom = -NEVER, NEVER
    for k in range(start, stop):
        rises, falls = can_move(a[k], y[k], 0.0)
        if rises:
            top = max(top, pull[k])
        if falls:
            bottom = min(bottom, pull[k])
    found[0], found[1] = top, bottom


def extremes(pull: Array, a: Array, y: Array) -> tuple[float, float]:
    """Return the largest pull of rows that can rise, and the smallest of rows that can fall."""
    parts = _parts(y.size)
    found = np.empty((len(parts) - 1, 2))
    share(_extremes, (pull, a, y), (found,), parts)
    tops, bottoms = found.T.tolist()
    return max(tops), min(bottoms)


@loop()
def _count(
    pull: Array,
    a: Array,
    y: Array,
    top: float,
    bottom: float,
    place: Array,
    counts: Array,
    start: int,
    stop: int,
) -> None:
    """Set the bins of rows that should rise, and of those that should fall; -1 is none."""
    clear(counts)
    bins = counts.shape[1]
    scale = bins / (top - bottom)
    for k in range(start, stop):
        rises, falls = can_move(a[k], y[k], 0.0)
        place[0, k] = place[1, k] = -1
        if rises and pull[k] > bottom:
            place[0, k] = min(bins - 1, int(scale * (pull[k] - bottom)))
            counts[0, place[0, k]] += 1
        if falls and pull[k] < top:
            place[1, k] = min(bins - 1, int(scale * (top - pull[k])))
            counts[1, place[1, k]] += 1


@loop()
def _allow(counts: Array, half: int, room: Array) -> None:
    """Set the last bin of each side, and how many rows of it each part may take.

    The first parts take what there is room for, as one part of all rows would.
    """
    for side in range(2):
        left, b = half, counts.shape[2]
        while b > 0:
            there = 0
            for part in range(counts.shape[0]):
                there += counts[part, side, b - 1]
            if there > left or b == 1:
                break
            left -= there
            b -= 1
        for part in range(counts.shape[0]):
            own = min(left, counts[part, side, b - 1])
            room[part, side, 0], room[part, side, 1] = b - 1, own
            left -= own


@loop()
def _take(place: Array, room: Array, chosen: Array, start: int, stop: int) -> float:
    m = 0
    for k in range(start, stop):
        take = False
        for side in range(2):
            if place[side, k] > room[side, 0]:
                take = True
            elif place[side, k] == room[side, 0] and room[side, 1] > 0:
                room[side, 1] -= 1
                take = True
        if take and m < chosen.shape[0]:
            chosen[m] = k
            m += 1
    return float(m)


def violators(pull: Array, a: Array, y: Array, top: float, bottom: float, half: int) -> Array:
    """Return rows furthest from the optimum: about ``half`` that should rise, as many to fall.

    By histogram, so that one pass finds the limits and another the rows; they are the same
    whatever the number of threads.
    """
    n, parts = y.size, _parts(y.size)
    k = len(parts) - 1
    place, counts = np.empty((2, n), dtype=np.int16), np.empty((k, 2, _BINS), dtype=np.int64)
    room = np.empty((k, 2, 2), dtype=np.int64)
    chosen = np.empty((k, min(n, 2 * half)), dtype=np.int64)
    share(_count, (pull, a, y, float(top), float(bottom), place), (counts,), parts)
    _allow(counts, half, room)
    sizes = share(_take, (place,), (room, chosen), parts)
    return np.concatenate([some[: int(m)] for some, m in zip(chosen, sizes, strict=True)])


def _parts(n_rows: int) -> list[int]:
    return edges(n_rows, threads=n_rows / _READ_BY_A_THREAD, kind=LOOPS)
