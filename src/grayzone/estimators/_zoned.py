"""Costs, threshold and zone: what a fit is for."""

from __future__ import annotations

from typing import Any

import numpy as np

from grayzone.decision.costs import cost_matrix, threshold_of
from grayzone.decision.ranges import cuts_of
from grayzone.decision.rules import certain_from
from grayzone.decision.zones import binary_floors, binary_zone, class_caps, floor_of
from grayzone.estimators._stakes import refuse_both, staked
from grayzone.numerics.checks import as_numpy, is_real
from grayzone.sources.labelled import Labelled

Array = Any


class Zoned:
    """An estimator with the parameters ``costs`` and ``zone``, and what they come to.

    One that may stay undecided is a :class:`MayStayUndecided` first.
    """

    costs: Any
    zone: Any
    _reject_costs: list[float] | None = None
    # of rows with costs of their own, how far their zones reach
    _reach: tuple[float, float] | None = None

    def _set_rejection(self, classes: Array) -> None:
        """Set nothing: without the parameter ``reject_cost`` all rows are decided."""

    def _set_decision(self, labelled: Labelled) -> Labelled:
        """Set ``classes_``, ``cost_matrix_``, ``threshold_`` and ``zone_``.

        Returns the rows: those that have costs of their own weigh what is at stake in them, and
        the decision is that of their mean costs.
        """
        classes, prior, costs = labelled.classes, labelled.prior, self.costs
        self.classes_ = classes
        self._set_rejection(classes)
        self._reach = None
        if labelled.priced:
            refuse_both(costs, labelled)
            width = self.zone if is_real(self.zone) and len(classes) == 2 else None
            labelled, costs, self._reach = staked(labelled, width, self._reject_costs)
        self.cost_matrix_ = cost_matrix(costs, classes, prior)
        self.threshold_: float | None = None
        if len(classes) > 2:
            K, decided = len(classes), None
            if self._reject_costs is not None:
                decided = certain_from(self._action_costs(), against=[K])
            self.zone_: Any = class_caps(self.zone, classes, decided)
            return labelled
        if self._reject_costs is None:
            self.threshold_ = threshold_of(self.cost_matrix_)
        cuts: Any = self.threshold_
        if is_real(self.zone):
            cuts = cuts_of(costs, classes, self.cost_matrix_, self._reject_costs)
        self.zone_ = binary_zone(self.zone, cuts)
        return labelled

    def _action_costs(self) -> Array:
        """Costs (K, A) of all actions, staying undecided last where that is one."""
        if self._reject_costs is None:
            return self.cost_matrix_
        return np.column_stack([self.cost_matrix_, self._reject_costs])

    def _caps(self) -> Array:
        """Probability of each class from which its rows saturate."""
        if len(self.classes_) > 2:
            return as_numpy(self.zone_)
        p_min, p_max = self.zone_
        return np.array([1.0 - p_min, p_max])

    def _floors(self) -> Array:
        """Floors F of the losses of each class."""
        if len(self.classes_) == 2:
            return binary_floors(*self.zone_)
        return floor_of(self._caps())
