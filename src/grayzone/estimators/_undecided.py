"""Staying undecided, as one of the actions of an estimator."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from grayzone.decision import action_labels, reject_costs


class MayStayUndecided:
    """An estimator with the parameters ``reject_cost`` and ``undecided_label``."""

    reject_cost: Any
    undecided_label: Any
    # what staying undecided costs for each true class: plain numbers, wherever the data are
    _reject_costs: list[float] | None = None

    def _set_rejection(self, classes: NDArray[Any]) -> NDArray[Any]:
        """Set what staying undecided costs; returns the labels of all actions."""
        self._reject_costs = None
        if self.reject_cost is None:
            return classes
        self._reject_costs = reject_costs(self.reject_cost, classes).tolist()
        return action_labels(classes, self.undecided_label)
