"""Pitfalls that warnings and errors link to.

Each has a section of the same code in the documentation, ``docs/pitfalls.md``: what is seen,
why, and what mends it. Once it was released, a code is never used for something else.
"""

from __future__ import annotations

from enum import Enum

# The one place that knows where the documentation is.
PAGE = "https://grayzone.readthedocs.io/en/stable/pitfalls.html"


class Pitfall(Enum):
    """What goes wrong often enough to have a code; a message ends with it.

    Examples
    --------
    >>> from grayzone.numerics.pitfalls import Pitfall
    >>> print(f"The fitted model is a constant. {Pitfall.CONSTANT}")
    The fitted model is a constant. [GZ001: https://grayzone.readthedocs.io/.../pitfalls.html#gz001]
    """

    CONSTANT = "GZ001"
    BEYOND_THE_ZONE = "GZ002"
    COSTS_LOST = "GZ003"
    PAID_TWICE = "GZ004"
    NOTHING_HELD_OUT = "GZ005"
    TOO_FEW_ROWS = "GZ006"
    JUDGED_OTHERWISE = "GZ007"
    READ_BEYOND = "GZ008"
    NOT_CONVERGED = "GZ009"
    UNSCALED = "GZ010"
    ORDER_OF_CLASSES = "GZ011"
    RESAMPLED = "GZ012"
    NEVER_UNDECIDED = "GZ013"
    NO_ZONE = "GZ014"
    UNITS = "GZ015"
    ANOTHER_MODEL = "GZ016"
    MORE_BOUNDS = "GZ017"
    SAME_MEANS = "GZ018"

    def __str__(self) -> str:
        """Return the end of a message that links to it."""
        return f"[{self.value}: {PAGE}#{self.value.lower()}]"
