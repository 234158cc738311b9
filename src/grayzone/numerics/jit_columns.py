"""Whole columns of many rows, compiled: sums, products, values by class, places of marked rows.

NumPy passes over them on one thread, which reads and writes memory at a fraction of what all of
them do. Nothing imports this module until many rows are fitted. Every function works on the rows
start to stop, and releases the interpreter lock.
"""

from __future__ import annotations

from math import nan
from typing import Any

from grayzone.numerics.compiled import loop, place

Array = Any


@loop()
def along(values: Array, change: Array, t: float, out: Array, start: int, stop: int) -> None:
    """Set values and t times their change."""
    for k in range(start, stop):
        i = place(k)
        out[i] = values[i] + t * change[i]


@loop()
def product(one: Array, other: Array, factor: float, out: Array, start: int, stop: int) -> None:
    """Set products of two numbers and a factor."""
    for k in range(start, stop):
        i = place(k)
        out[i] = factor * (one[i] * other[i])


@loop()
def products_at(
    rows: Array, one: Array, other: Array, factor: float, out: Array, start: int, stop: int
) -> None:
    """Set products of two numbers of some rows, which are valid places, and a factor."""
    for j in range(start, stop):
        k = place(j)
        i = place(rows[k])
        out[k] = factor * (one[i] * other[i])


@loop()
def sum_of_parts(of_parts: Array, out: Array, start: int, stop: int) -> None:
    """Set sums over the first axis of numbers (k, n)."""
    for i in range(start, stop):
        out[place(i)] = of_parts[0, place(i)]
    for part in range(1, of_parts.shape[0]):
        for i in range(start, stop):
            out[place(i)] += of_parts[part, place(i)]


@loop()
def by_code(of_codes: Array, codes: Array, out: Array, start: int, stop: int) -> None:
    """Set the value of each row's code, which is a valid place among them."""
    for k in range(start, stop):
        i = place(k)
        out[i] = of_codes[place(codes[i])]


@loop()
def ends(values: Array, found: Array, start: int, stop: int) -> None:
    """Find the least and the greatest; where one is no number neither is."""
    least, greatest, odd = values[start], values[start], 0
    for k in range(start, stop):
        x = values[place(k)]
        least = x if x < least else least
        greatest = x if x > greatest else greatest
        odd += 1 if x != x else 0
    found[0], found[1] = (nan, nan) if odd else (least, greatest)


@loop()
def rises(signs: Array, start: int, stop: int) -> float:
    """Count positive numbers."""
    count = 0
    for k in range(start, stop):
        count += 1 if signs[place(k)] > 0.0 else 0
    return float(count)


@loop()
def pick(
    signs: Array, steps: Array, out: Array, coming: Array, first: Array, start: int, stop: int
) -> None:
    """Put numbers of some rows side by side, from the place ``first`` (1,) on.

    Of each sign, first minus, every so many are picked after the row that is the ``coming`` (2,)
    of these rows.
    """
    down, up, at = coming[0], coming[1], place(first[0])
    for k in range(start, stop):
        if signs[place(k)] > 0.0:
            picked = up == 0
            up = (steps[1] if picked else up) - 1
        else:
            picked = down == 0
            down = (steps[0] if picked else down) - 1
        if picked:
            out[at] = k
            at += place(1)


@loop()
def put_places(marks: Array, out: Array, first: Array, start: int, stop: int) -> None:
    """Put the numbers of marked rows side by side, from the place ``first`` (1,) on."""
    at = place(first[0])
    for k in range(start, stop):
        if marks[place(k)]:
            out[at] = k
            at += place(1)
