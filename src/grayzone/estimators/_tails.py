"""Probabilities beyond the zone: as fitted, or with slopes and bends of their own."""

from __future__ import annotations

from typing import Any

import numpy as np

from grayzone.decision.rules import certain_from
from grayzone.decision.zones import floor_of
from grayzone.estimators._stakes import reach_of
from grayzone.numerics.checks import Floats, as_numpy
from grayzone.numerics.namespace import array_namespace
from grayzone.numerics.tails import differs, stretched
from grayzone.solvers import Solution, TruncatedSpec
from grayzone.solvers.truncated.tails import tail_shapes
from grayzone.sources.labelled import Labelled

Array = Any

TAILS = ("calibrated", "as-fitted")

# Relative rounding error of the ends of a zone.
_ROUNDING = 1e-12


class Tailed:
    """A classifier with the parameter ``tails``, once it has a zone; before its base classes."""

    tails: str
    _caps: Any
    _action_costs: Any
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

    def _fit_tails(
        self, labelled: Labelled, spec: TruncatedSpec, solution: Solution
    ) -> tuple[Array, Array]:
        """Slopes and bends beyond the zone, 1 and 0 for classes that are not calibrated."""
        ends, caps = self._tail_ends(), self._caps()
        # where some decision is made beyond the zone, a slope would change it
        decided = caps >= certain_from(self._action_costs()) * (1.0 - _ROUNDING)
        alone = caps >= 0.5 if len(caps) > 2 else caps > 0.0
        if self.tails == "as-fitted" or solution.constant or not np.any(decided & alone):
            return np.ones(len(caps)), np.zeros(len(caps))
        ends = np.where(decided & alone, ends, np.inf)
        scores = None if labelled.held is None else solution.scores
        return tail_shapes(labelled, spec, solution.coef, ends, scores)

    def _beyond(self, scores: Array) -> Array:
        """Scores with the slopes and bends that they have beyond the zone."""
        slopes = vars(self).get("tail_slopes_")  # a model on the way to its fit has none
        if slopes is None:
            return scores
        if not bool(array_namespace(slopes).any(differs(slopes, self.tail_bends_))):
            return scores
        return stretched(scores, self._tail_ends(), slopes, self.tail_bends_)
