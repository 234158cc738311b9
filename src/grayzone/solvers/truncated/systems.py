r"""Newton systems of a quadratic model and the losses of some rows.

Their matrix is :math:`H + \Phi'\Omega\Phi`, and :math:`\Omega` is another one in every inner step.
Where rows are many beside coefficients it is summed and factorised. Where they are few,

.. math:: (H + \Phi'\Omega\Phi)^{-1} = H^{-1} - W (\Omega^{-1} + \Phi W)^{-1} W',
   \qquad W = H^{-1}\Phi',

needs the factor of H once, and then systems of the size of the rows (Woodbury). Its solutions are
refined with the matrix itself, whose products are cheap, unless they are good already.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from grayzone.numerics.designs import DenseDesign
from grayzone.numerics.linalg import add_to_diagonal, factorise
from grayzone.numerics.namespace import array_namespace
from grayzone.solvers.problem import Problem

Array = Any
Solve = Callable[[Array], Array]

# Coefficients from which on a system of their size is dear, and how many there have to be a row.
_MANY, _PER_ROW = 1000, 1
# Least curvature of a coefficient in the model, beside the largest, for H alone to be inverted.
_HELD = 1e-10
_SOLVED = 1e-10  # what may be left of a right-hand side, relative


class Systems:
    """The systems of one model and one set of rows, for weights that change.

    Parameters
    ----------
    problem : Problem
        The rows and their losses.
    hessian : array of shape (Qp, Qp)
        That of the model.
    """

    def __init__(self, problem: Problem, hessian: Array) -> None:
        self.problem, self.hessian = problem, hessian
        self._few = few_rows(problem, hessian) if self._are_few() else None

    def _are_few(self) -> bool:
        """Whether rows are so few, and the model alone so well determined, that Woodbury pays."""
        problem, n_coef = self.problem, self.hessian.shape[0]
        few = n_coef >= _MANY and _PER_ROW * problem.design.n_rows <= n_coef
        return few and is_held(problem, self.hessian)

    def at(self, scores: Array, omega: Array, a: Array, pull: Array) -> tuple[Solve, Array]:
        """Return the function that solves, and the gradient (Q, p) of sum(pull u).

        The arguments are those of :meth:`grayzone.solvers.problem.Problem.second_order`.
        """
        problem = self.problem
        if self._few is None:
            H, pulled = problem.second_order(scores, omega, a, pull)
            return factorise(self.hessian + H), pulled
        weights = problem.margins.second_order(scores, omega, a)[:, 0]
        pulled = problem.design.gradient(problem.margins.pull(scores, pull))
        return self._few.weighted(weights), pulled


def is_held(problem: Problem, hessian: Array) -> bool:
    """Whether a model's Hessian may be inverted without these rows, dense ones with one score."""
    if not (problem.n_outputs == 1 and isinstance(problem.design, DenseDesign)):
        return False
    xp = array_namespace(hessian)
    diagonal = xp.linalg.diagonal(hessian)
    return float(xp.min(diagonal)) > _HELD * float(xp.max(diagonal))


def few_rows(problem: Problem, hessian: Array) -> FewRows:
    """Return the rows of a dense design beside a model's Hessian."""
    assert isinstance(problem.design, DenseDesign)
    return FewRows(hessian, problem.design.extended())


class FewRows:
    """A factorised matrix H and few rows Φ, for H + Φ'ΩΦ with any weights."""

    def __init__(self, hessian: Array, rows: Array) -> None:
        self.hessian, self.rows = hessian, rows
        self.base = factorise(hessian, often=True)
        self.spread = self.base(rows.T)  # H⁻¹ Φ'
        self.inner = array_namespace(rows).matmul(rows, self.spread)

    def weighted(self, weights: Array) -> Solve:
        """Return the function that solves systems with these weights."""
        xp, rows = array_namespace(weights), self.rows
        root = xp.sqrt(weights)
        matrix = root[:, None] * self.inner * root[None, :]
        add_to_diagonal(matrix, 1.0)
        small = factorise(matrix)

        def once(r: Array) -> Array:
            x = self.base(r)
            return x - self.spread @ (root * small(root * (rows @ x)))

        def solve(r: Array) -> Array:
            x = once(r)
            left = r - self.hessian @ x - rows.T @ (weights * (rows @ x))
            if float(xp.max(xp.abs(left))) <= _SOLVED * float(xp.max(xp.abs(r))):
                return x
            return x + once(left)

        return solve
