"""How fast this machine is, and how much of the time of the day is left.

Work is priced in seconds of one machine, and these are turned into seconds of this one by a short
calibration. It is coarse on purpose: the same budget has to buy the same work on a busy machine.
"""

from __future__ import annotations

import time
from functools import cache
from math import inf, log2

import numpy as np

# Times its budget that work may take before it is stopped: more than prices and a busy machine,
# whose processor seconds are up to twice as long, are wrong by.
RUNAWAY = 3.0
STOPPED = "the time that the run was given by the clock was over"
# Seconds that the probe takes on the machine that work was priced on (AMD EPYC, one thread).
_REFERENCE = 2.9e-5
_PROBES = 300  # the quickest one was not interrupted: on a machine with load 8 it varies by 3 %


@cache
def slowness() -> float:
    """Return how much longer work takes here than where it was priced: a power of two.

    Examples
    --------
    >>> from math import log2
    >>> from grayzone.numerics.pace import slowness
    >>> log2(slowness()).is_integer()
    True
    """
    return step_of(_probed() / _REFERENCE)


def step_of(ratio: float) -> float:
    """Return the power of two that is nearest, so that noise seldom makes another one.

    Examples
    --------
    >>> from grayzone.numerics.pace import step_of
    >>> [step_of(ratio) for ratio in (0.6, 0.8, 1.3, 1.9, 5.0)]
    [0.5, 1.0, 1.0, 2.0, 4.0]
    """
    return float(2.0 ** round(log2(ratio)))


def _probed() -> float:
    """Seconds for numbers from places all over an array, added one after the other."""
    rng = np.random.default_rng(0)
    values, places = rng.random(2_000), rng.integers(0, 2_000, 8_000)
    best = inf
    for _ in range(_PROBES):
        start = time.perf_counter()
        np.cumsum(values[places])
        best = min(best, time.perf_counter() - start)
    return best


class Deadline:
    """Seconds of the day that something has from now on; None: any number.

    Parameters
    ----------
    seconds : float or None
        How many.

    Examples
    --------
    >>> from grayzone.numerics.pace import Deadline
    >>> Deadline(60.0).allows(work=1.0), Deadline(0.0).allows(), Deadline(None).allows(1e9)
    (True, False, True)
    """

    def __init__(self, seconds: float | None) -> None:
        self.seconds = seconds
        self._begin, self._used = time.monotonic(), time.process_time()

    def left(self, share: float = 1.0) -> float | None:
        """Return how much is left of a share of the time, at least a millisecond."""
        if self.seconds is None:
            return None
        return max(1e-3, self._end(share) - time.monotonic())

    def over(self, share: float = 1.0) -> bool:
        """Whether a share of the time is over."""
        return time.monotonic() >= self._end(share)

    def allows(self, work: float = 0.0, share: float = 1.0) -> bool:
        """Whether work of so many processor seconds ends in time, at the pace so far."""
        now, used = time.monotonic(), time.process_time() - self._used
        pace = max(1.0, (now - self._begin) / used) if used > 0.0 else 1.0
        return now + work * pace < self._end(share)

    def _end(self, share: float) -> float:
        return inf if self.seconds is None else self._begin + share * self.seconds
