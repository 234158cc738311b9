"""Staying undecided, as one of the actions of an estimator."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from grayzone.decision import action_labels, reject_costs


class MayStayUndecided:
    """An estimator with the parameters ``reject_cost`` and ``undecided_label``."""

    reject_cost: Any
    undecided_label: Any
    actions_: NDArray[Any]
    # what staying undecided costs for each true class: plain numbers, wherever the data are
    _reject_costs: list[float] | None = None

    def _set_rejection(self, classes: NDArray[Any]) -> None:
        """Set the labels of all actions, and what staying undecided costs."""
        self.actions_, self._reject_costs = classes, None
        if self.reject_cost is not None:
            self.actions_ = action_labels(classes, self.undecided_label)
            self._reject_costs = reject_costs(self.reject_cost, classes).tolist()
