"""A convex problem on rows that are at hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from array_api_compat import device

from grayzone.numerics.backend import moved
from grayzone.numerics.columns import product
from grayzone.numerics.designs import Design
from grayzone.numerics.losses import TruncatedLogistic
from grayzone.numerics.margins import Margins, output_pairs
from grayzone.numerics.namespace import array_namespace, is_numpy_array
from grayzone.numerics.threads import split

Array = Any

# Rows whose elementwise work, some dozen temporary arrays, stays in the L2 cache.
_PIECE = 16384


@dataclass(frozen=True)
class Problem:
    r"""Criterion (8): minimise :math:`\sum_i w_i h_i(u_i) + \tfrac{\lambda}{2}\|w\|^2`.

    Coefficients are (Q, p) arrays, Q = 1 for two classes and K for more, the unpenalised
    intercept in the last column. Margins u are (n,), scores (n, Q).

    Attributes
    ----------
    design : Design
        What scores are linear in.
    margins : SignedMargin, SoftmaxMargin or ReferenceMargin
        Map from scores to margins, which knows the classes of the rows.
    loss : TruncatedLogistic
        Losses of the margins, or a stand-in that answers the same questions.
    weight : array of shape (n,)
        What each row weighs.
    penalty : float
        The penalty lambda, 1 / C.

    See Also
    --------
    solve : Minimise it by a strategy.
    minimise_problem : Minimise it by the strategy that suits it.
    TruncatedSpec : Makes problems of rows that are known by their codes.

    Examples
    --------
    >>> import numpy as np
    >>> from grayzone.numerics.designs import as_design
    >>> from grayzone.numerics.losses import Logistic
    >>> from grayzone.numerics.margins import SignedMargin
    >>> from grayzone.solvers import Problem
    >>> X, sign = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([-1.0, 1.0, -1.0, 1.0])
    >>> problem = Problem(as_design(X), SignedMargin(sign), Logistic(sign), np.ones(4), penalty=1.0)
    >>> round(problem.value(np.zeros((1, 2))), 4)  # 4 log 2
    2.7726
    """

    design: Design
    margins: Margins
    loss: Any  # TruncatedLogistic, or a smooth stand-in for it
    weight: Array
    penalty: float

    @property
    def n_outputs(self) -> int:
        """Scores per row."""
        return self.margins.n_outputs

    @property
    def mass(self) -> float:
        """Weight of all rows."""
        return float(array_namespace(self.weight).sum(self.weight))

    def take(self, rows: Array, penalty: float | None = None) -> Problem:
        """Return the problem on these rows.

        Parameters
        ----------
        rows : slice or array of int
            Their places.
        penalty : float, optional
            Another penalty; that of the whole by default.

        Returns
        -------
        Problem
            The problem.
        """
        return Problem(
            self.design.take(rows),
            self.margins.take(rows),
            self.loss.take(rows),
            self.weight[rows],
            self.penalty if penalty is None else penalty,
        )

    def shrinkage(self, coef: Array) -> Array:
        """Return the gradient of the penalty.

        Parameters
        ----------
        coef : array of shape (Q, p)
            Coefficients.

        Returns
        -------
        array of shape (Q, p)
            Zero for intercepts.
        """
        return self.penalty * coef * self.design.penalised()

    def square(self, coef: Array) -> float:
        """Return the squared norm of a function, its intercept left out.

        Parameters
        ----------
        coef : array of shape (Q, p)
            Coefficients.

        Returns
        -------
        float
            The squared norm.
        """
        free = coef * self.design.penalised()
        return self.design.dot(free, free)

    def penalty_value(self, coef: Array, scores: Array | None = None) -> float:
        """Return the value of the penalty.

        Parameters
        ----------
        coef : array of shape (Q, p)
            Coefficients.
        scores : array of shape (n, Q), optional
            Their scores, for designs that can make use of them.

        Returns
        -------
        float
            The value.
        """
        return 0.5 * self.penalty * self.design.dot(coef, coef, scores)

    def pairing(self, coef: Array, other: Array, scores: Array) -> float:
        """Return the inner product of coefficients, intercepts included.

        Parameters
        ----------
        coef, other : array of shape (Q, p)
            Coefficients.
        scores : array of shape (n, Q)
            Scores of ``other``.

        Returns
        -------
        float
            The inner product.
        """
        xp, d = array_namespace(coef), self.design.n_features
        return self.design.dot(coef, other, scores) + float(xp.sum(coef[:, d:] * other[:, d:]))

    def primal(self, coef: Array, u: Array, scores: Array | None = None) -> float:
        """Return criterion (8) at coefficients whose margins are u.

        Parameters
        ----------
        coef : array of shape (Q, p)
            Coefficients.
        u : array of shape (n,)
            Their margins.
        scores : array of shape (n, Q), optional
            Their scores, for designs that can make use of them.

        Returns
        -------
        float
            The value.
        """

        def fit(rows: slice) -> Array:
            return self.loss.take(rows).value(u[rows])

        many = isinstance(self.loss, TruncatedLogistic)
        total = self.loss.value_sum(u, self.weight) if many else None
        total = self.weighted_sum(fit) if total is None else total
        return total + self.penalty_value(coef, scores)

    def value(self, coef: Array) -> float:
        """Return criterion (8) at coefficients.

        Parameters
        ----------
        coef : array of shape (Q, p)
            Coefficients.

        Returns
        -------
        float
            The value.
        """
        scores = self.design.scores(coef)
        return self.primal(coef, self.margins.margin(scores), scores)

    def weighted_sum(self, values: Callable[[slice], Array]) -> float:
        """Sum w times ``values(rows)``, over pieces that stay in the cache, on all threads.

        Parameters
        ----------
        values : callable
            From a slice of rows to one number for each.

        Returns
        -------
        float
            The sum.
        """
        xp = array_namespace(self.weight)

        def work(start: int, stop: int) -> float:
            total = 0.0
            for a in range(start, stop, piece):
                rows = slice(a, min(stop, a + piece))
                total += float(xp.sum(self.weight[rows] * values(rows)))
            return total

        n, here = self.weight.shape[0], is_numpy_array(self.weight)
        piece = _PIECE if here else max(1, n)
        return sum(split(n, work, threads=n / _PIECE if here else 1))

    def gradient(self, scores: Array, a: Array) -> Array:
        """Return the gradient in the coefficients of sum(w a u); the penalty is not in it.

        Parameters
        ----------
        scores : array of shape (n, Q)
            Where the margins u are taken.
        a : array of shape (n,)
            Slopes of the losses, or multipliers.

        Returns
        -------
        array of shape (Q, p)
            The gradient.
        """
        return self.design.gradient(self.weighed(self.margins.pull(scores, a)))

    def weighed(self, values: Array) -> Array:
        """Return values of rows (n, Q) times the rows' weights.

        Parameters
        ----------
        values : array of shape (n, Q)
            The values.

        Returns
        -------
        array of shape (n, Q)
            The products.
        """
        if values.shape[1] == 1:
            return product(self.weight, values[:, 0], is_loaded=self.design.is_loaded)[:, None]
        return self.weight[:, None] * values

    def second_order(
        self, scores: Array, omega: Array, a: Array, pull: Array, rows: Array | None = None
    ) -> tuple[Array, Array]:
        """Return Hessian and gradient of rows, from one pass over them.

        The Hessian is that of weights omega u'u' + a u'', the gradient that of sum(pull u); all
        four arrays belong to ``rows``, weights of rows already in them and the penalty in neither.

        Parameters
        ----------
        scores : array of shape (len(rows), Q)
            Where the margins u are taken.
        omega, a, pull : array of shape (len(rows),)
            Weighted curvatures, slopes, and slopes for the gradient.
        rows : array of int, optional
            Places of the rows; all of them by default.

        Returns
        -------
        hessian : array of shape (Qp, Qp)
            The Hessian.
        gradient : array of shape (Q, p)
            The gradient.
        """
        margins = self.margins if rows is None else self.margins.take(rows)
        xp = array_namespace(omega)
        weights = margins.second_order(scores, omega, a)
        grams, gradient = self.design.gram(weights, margins.pull(scores, pull), rows)
        q = self.n_outputs
        if q == 1:
            return grams[0, :, :], gradient
        blocks: list[list[Any]] = [[None] * q for _ in range(q)]
        for i, (k, m) in enumerate(output_pairs(q)):
            blocks[k][m] = blocks[m][k] = grams[i, :, :]
        H = xp.concat([xp.concat(row, axis=1) for row in blocks], axis=0)
        guarded = self.design.fit_intercept and self.margins.shift_free
        return H + self._shift_guard(H) if guarded else H, gradient

    def _shift_guard(self, H: Array) -> Array:
        """Curvature against adding one constant to all intercepts, which changes nothing else."""
        xp = array_namespace(H)
        p, q = self.design.n_coef, self.n_outputs
        last = xp.asarray([float(j % p == p - 1) for j in range(p * q)], device=device(H))
        scale = xp.sum(xp.linalg.diagonal(H) * last) / q
        return scale * last[:, None] * last[None, :]

    def ridge(self) -> Array:
        """Return the diagonal of the penalty's Hessian.

        Returns
        -------
        array of shape (Qp,)
            Zero for intercepts.
        """
        xp = array_namespace(self.weight)
        return xp.tile(self.penalty * self.design.penalised(), (self.n_outputs,))

    def prior_coef(self) -> Array:
        """Return zero slopes, and the intercepts that give back the class priors of these rows.

        Returns
        -------
        array of shape (Q, p)
            Coefficients.
        """
        design, mass = self.design, self.margins.mass(self.weight)
        return prior_coef(self.margins, mass, design.n_features, design.fit_intercept, self.weight)


def prior_coef(
    margins: Any, mass: Array, n_features: int, fit_intercept: bool, like: Array
) -> Array:
    """Zero slopes, and the intercepts that give back the class priors.

    ``margins`` is the map from scores to margins, or its class; ``mass`` (K,), a NumPy array, is
    what the rows of each class weigh; ``like`` is an array of the kind that is wanted.
    """
    scores = margins.prior_scores(np.log(mass))
    coef = np.zeros((scores.shape[0], n_features + int(fit_intercept)))
    if fit_intercept:
        coef[:, -1] = scores
    return moved(coef, like)
