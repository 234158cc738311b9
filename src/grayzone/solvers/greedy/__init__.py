"""Greedy choice of the rows that span a kernel function: the import vector machine's engine."""

from grayzone.solvers.greedy.growth import Growth, Rules

__all__ = ["Growth", "Rules"]
