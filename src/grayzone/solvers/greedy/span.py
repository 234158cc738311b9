r"""Rows with their columns :math:`\Phi = K_{:,S} R^{-T}`, wherever the rows are.

Where all rows are held their columns are known, and grow with the basis. Those of a block of a
stream are computed again whenever it is read: nothing of the size of the rows is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import scipy.sparse as sp
from array_api_compat import device
from scipy.linalg import solve_triangular

from grayzone.numerics.namespace import array_namespace, is_numpy_array
from grayzone.solvers.greedy.columns import KernelColumns
from grayzone.sources.labelled import Labelled, Rows
from grayzone.sources.source import Block, ChangedSource, Sums

Array = Any
# A task that is given rows and their columns.
SpannedTask = Callable[[Rows, Array], Sums]


def solve_lower(factor: Array, B: Array, *, transposed: bool = False) -> Array:
    """Solve R X = B, or R'X = B, for a lower triangular R."""
    if is_numpy_array(factor):
        trans = "T" if transposed else "N"
        # what is not finite is told apart where a model is complete
        return solve_triangular(factor, B, lower=True, trans=trans, check_finite=False)
    return array_namespace(factor).linalg.solve(factor.T if transposed else factor, B)


@dataclass(frozen=True)
class Span:
    """What gives the columns of any rows: small, for it travels with every task."""

    points: KernelColumns  # the chosen rows, in double precision
    factor: Array  # R (q, q)

    @property
    def size(self) -> int:
        """Number of columns."""
        return int(self.factor.shape[0])

    def columns(self, rows: Rows) -> Array:
        """Phi (n, q) of rows."""
        if not self.size:
            xp = array_namespace(rows.weight)
            return xp.zeros((rows.n_rows, 0), dtype=xp.float64, device=device(rows.weight))
        return solve_lower(self.factor, self.points.values(rows).T).T


@dataclass(frozen=True)
class Known:
    """Columns of all rows, which are held."""

    known: Array  # (n, q)
    many: bool = False  # whether there is enough to do for compiled loops to be worth their loading

    @property
    def size(self) -> int:
        """Number of columns."""
        return int(self.known.shape[1])

    def columns(self, rows: Rows) -> Array:
        """Phi (n, q) of the rows."""
        return self.known


@dataclass(frozen=True)
class Spanned:
    """Labelled rows with their columns."""

    labelled: Labelled
    span: Span | Known

    @property
    def are_many(self) -> bool:
        """Whether compiled loops read the rows, where there are some for the task."""
        return isinstance(self.span, Known) and self.span.many

    def reduce(self, task: SpannedTask) -> Sums:
        """Sum a task over all rows."""
        return self.labelled.reduce(_WithColumns(self.span, task))

    def linear(self) -> Labelled:
        """Return the same rows with columns in the place of features."""
        rows = self.labelled.held
        columns = None if rows is None else self.span.columns(rows)
        source = ChangedSource(self.labelled.source, _InSpan(self.span), self.span.size)
        return self.labelled.with_features(source, lambda _: columns)


@dataclass(frozen=True)
class _WithColumns:
    span: Span | Known
    task: SpannedTask

    def __call__(self, rows: Rows) -> Sums:
        return self.task(rows, self.span.columns(rows))


@dataclass(frozen=True)
class _InSpan:
    span: Span | Known

    def __call__(self, block: Block) -> Block:
        like = block.y if sp.issparse(block.X) else block.X[:, 0]
        return block._replace(X=self.span.columns(Rows(block.X, block.y, like, block.first)))
