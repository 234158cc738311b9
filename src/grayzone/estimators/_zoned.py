"""Costs, threshold and zone: what a fit is for."""

from __future__ import annotations

from typing import Any

import numpy as np

from grayzone.decision.costs import cost_matrix, threshold_from_costs
from grayzone.decision.zones import binary_zone, class_caps, floor_of
from grayzone.sources.labelled import Labelled

Array = Any


class Zoned:
    """An estimator with the parameters ``costs`` and ``zone``, and what they come to."""

    costs: Any
    zone: Any

    def _set_decision(self, labelled: Labelled) -> None:
        """Set ``classes_``, ``cost_matrix_``, ``threshold_`` and ``zone_``."""
        classes, prior = labelled.classes, labelled.prior
        self.classes_ = classes
        self.cost_matrix_ = cost_matrix(self.costs, classes, prior)
        if len(classes) == 2:
            self.threshold_: float | None = threshold_from_costs(self.costs, classes, prior)
            self.zone_: Any = binary_zone(self.zone, self.threshold_)
        else:
            self.threshold_ = None
            self.zone_ = class_caps(self.zone, classes)

    def _caps(self) -> Array:
        """Probability of each class from which its rows saturate."""
        if len(self.classes_) > 2:
            return self.zone_
        p_min, p_max = self.zone_
        return np.array([1.0 - p_min, p_max])

    def _floors(self) -> Array:
        """Floors F of the losses of each class."""
        floors = floor_of(self._caps())
        if len(floors) == 2:
            # not by way of 1 - p_min, which rounds
            floors[0] = -floor_of(self.zone_[0])
        return floors
