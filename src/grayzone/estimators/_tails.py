"""Probabilities beyond the zone: as fitted, or with slopes and bends of their own."""

from __future__ import annotations

from typing import Any

import numpy as np

from grayzone.decision.zones import floor_of
from grayzone.estimators._stakes import reach_of
from grayzone.numerics.checks import Floats, as_numpy
from grayzone.numerics.namespace import array_namespace
from grayzone.numerics.tails import stretched

Array = Any

TAILS = ("calibrated", "as-fitted")


class Tailed:
    """A classifier with the parameter ``tails``, once it has a zone; before its base classes."""

    tails: str
    zone_: Any
    tail_slopes_: Array
    tail_bends_: Array

    def _tail_ends(self) -> Floats:
        """Log-odds of each class at which its rows leave the zone.

        Where rows have zones of their own, all of these: decisions by their costs are made there.
        """
        reach = reach_of(self)
        if reach is not None:
            return floor_of(reach) * np.array([1.0, -1.0])
        return -floor_of(as_numpy(self.zone_))

    def _beyond(self, scores: Array) -> Array:
        """Scores with the slopes and bends that they have beyond the zone."""
        slopes = vars(self).get("tail_slopes_")  # a model on the way to its fit has none
        if slopes is None or bool(array_namespace(slopes).all(slopes == 1.0)):
            return scores
        return stretched(scores, self._tail_ends(), slopes, self.tail_bends_)
