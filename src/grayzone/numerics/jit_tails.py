"""What rows beyond the ends of a gray zone weigh, compiled: one pass over their scores.

Nothing imports this module until many rows are fitted.
"""

from __future__ import annotations

from math import log1p
from typing import Any

from grayzone.numerics.compiled import loop, place

Array = Any


@loop()
def beyond(
    scores: Array,
    codes: Array,
    weight: Array,
    ends: Array,
    bend: float,
    far: float,
    apart: float,
    masses: Array,
    wrong: Array,
    start: int,
    stop: int,
) -> None:
    """Add what rows of two classes beyond each end weigh to masses (2, J) and wrong (2,).

    A row that is d beyond it has x = log(1 + bend min(d, far)). The weight of x is shared by the
    two nodes around it, which are ``apart``; of rows of the other class weights times x are added.
    """
    last = masses.shape[1] - 2
    for k in range(start, stop):
        i = place(k)
        for c in range(2):
            distance = (scores[i, 0] if c else -scores[i, 0]) - ends[c]
            if distance > 0.0:
                x = log1p(bend * min(distance, far))
                at = x / apart
                node = min(int(at), last)
                upper = weight[i] * (at - node)
                masses[c, node] += weight[i] - upper
                masses[c, node + 1] += upper
                if codes[i] != c:
                    wrong[c] += weight[i] * x
