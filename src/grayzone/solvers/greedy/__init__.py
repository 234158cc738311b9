"""Greedy choice of the rows that span a kernel function: the import vector machine's engine."""

from grayzone.solvers.greedy.approximate_cv import approximate_cv
from grayzone.solvers.greedy.criterion import Criterion
from grayzone.solvers.greedy.growth import Growth, Model, Rules
from grayzone.solvers.greedy.held_out import Watch
from grayzone.solvers.greedy.moving import move_points

__all__ = ["Criterion", "Growth", "Model", "Rules", "Watch", "approximate_cv", "move_points"]
