"""Early stopping: growth ends where the loss of held-out rows no longer falls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from grayzone.numerics.kernels import Kernel
from grayzone.numerics.namespace import array_namespace
from grayzone.solvers.greedy.criterion import Criterion
from grayzone.solvers.greedy.growth import Growth
from grayzone.sources.labelled import Labelled, Rows
from grayzone.sources.source import Sums

Array = Any


class Watch:
    """The loss of held-out rows, and the model with the smallest.

    Parameters
    ----------
    growth : Growth
        What is being grown.
    labelled : Labelled
        The held-out rows.

    Attributes
    ----------
    path : list of float
        Their mean loss after each round of additions.
    best : Model
        The model with the smallest one.
    """

    def __init__(self, growth: Growth, labelled: Labelled) -> None:
        self.growth, self.labelled = growth, labelled
        self.path: list[float] = []
        self.best = growth.model()
        self._least, self._since = self._loss(), 0

    def saw_enough(self) -> bool:
        """Look at a new model; true when the last few were no better."""
        loss, rules = self._loss(), self.growth.rules
        self.path.append(loss)
        if loss < self._least:
            self._since = 0 if loss < self._least * (1.0 - rules.tol) else self._since + 1
            self._least, self.best = loss, self.growth.model()
        else:
            self._since += 1
        return self._since >= rules.lag

    def _loss(self) -> float:
        model, growth = self.growth.model(), self.growth
        task = _Loss(
            growth.criterion, growth.basis.kernel, model.right, model.dual_coef, model.intercept
        )
        sums = self.labelled.reduce(task)
        return float(sums["loss"] / sums["weight"])


@dataclass(frozen=True)
class _Loss:
    """Loss of rows, and what they weigh."""

    criterion: Criterion
    kernel: Kernel
    right: Array
    dual_coef: Array
    intercept: Array

    def __call__(self, rows: Rows) -> Sums:
        scores = self.kernel.product(rows.X, self.right, self.dual_coef.T) + self.intercept
        problem = self.criterion.on_span(rows, scores)
        loss = problem.loss.value(problem.margins.margin(scores))
        total = array_namespace(loss).sum
        return {"loss": float(total(rows.weight * loss)), "weight": float(total(rows.weight))}
