r"""Bases added one by one, each of them by a minimax problem in two dimensions.

The model so far and a new basis are two features, eq. (10) of Strohmann et al. (2004); their best
direction, eq. (11), is the next model. Theorem 1 there says that the bound of the two dimensions is
the bound of that model in all k + 1 of them, at these coefficients. It stays true where moments may
be off: the largest variance of :math:`f = \sum_j c_j \varphi_j` over covariances with
:math:`\|V^{-1/2}(\Sigma - \Sigma_x)V^{-1/2}\|_F \le \rho`, V the diagonal of the bases' variances,
is :math:`c'\Sigma_x c + \rho\sum_j c_j^2 v_j`, and the second part is carried along as one number:
a model :math:`a_1 f + a_2\varphi` has :math:`a_1^2 \sum_j c_j^2 v_j + a_2^2 v`.

Where the classes are not to be treated alike, the ratio of their kappas is that of the model so far
while a basis is looked for, and is chosen anew, in the plane, when it has been added. Neither step
makes the aim worse.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import sqrt
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from array_api_compat import device, is_numpy_array
from scipy.optimize import minimize

from grayzone.numerics.backend import moved
from grayzone.numerics.checks import as_numpy
from grayzone.numerics.moments import ROUNDING, column_variances
from grayzone.numerics.namespace import array_namespace
from grayzone.numerics.threads import split
from grayzone.solvers.minimax.aims import Aim
from grayzone.solvers.minimax.basis import Centred, Family, dense_blocks, row_of
from grayzone.solvers.minimax.boosting import MOST_ROWS, KernelBooster
from grayzone.solvers.minimax.direction import reach_of
from grayzone.solvers.minimax.plane import NOWHERE, Plane, PlaneMoments
from grayzone.sources.distinct import Distinct

Array = Any
Pair = tuple[float, float]

_RIDGE = 1e-10  # on the variance of a basis, relative to its mean square
_WIDEST = 1e3  # upper bound of gamma, in units of 1 / variance
_ENDLESS = 1e6  # m of a basis that tells nothing apart, for a search that knows no infinity
_SEPARATED = 1e7  # standard deviations at which nothing is left to gain
_LARGEST_VALUE = 1e150  # of a basis, whose squares are doubles
_WORTH_A_THREAD = 200_000  # entries of X


@dataclass(frozen=True)
class Search:
    """How a basis is looked for.

    Attributes
    ----------
    gamma : {"features", "width"} or float
        What is improved, or a width.
    gamma_iter : int
        Quasi-Newton steps for it.
    n_candidates : int
        Rows that a basis is the best of.
    boosted : bool
        Whether these are proposed by kernel boosting, or drawn.
    """

    gamma: str | float = "features"
    gamma_iter: int = 1
    n_candidates: int = 5
    boosted: bool = False


class _Basis(NamedTuple):
    """A candidate with what it comes to."""

    plane: Plane
    moments: PlaneMoments
    row: int
    gamma: Array  # (d,)
    values: Array  # (n,)


def in_double(X: Array) -> Array:
    """Rows of any library, or sparse ones, in double precision."""
    if sp.issparse(X):
        return X.astype(np.float64, copy=False)
    xp = array_namespace(X)
    return xp.astype(X, xp.float64, copy=False)


def rows_at(values: Array, places: Array) -> Array:
    """Entries or rows at places that NumPy knows."""
    if sp.issparse(values) or is_numpy_array(values):
        return values[places]
    return array_namespace(values).take(values, moved(places, values), axis=0)


class Greedy:
    """A model that bases are being added to.

    ``scores`` are its values on the rows; the means of the classes differ by 1 there.

    Parameters
    ----------
    family : Family
        Basis functions.
    rows : Distinct
        Distinct rows of the classes y and x, by the codes 0 and 1; CSR, or of any array library.
        Values and scores of rows stay where these are; centres, gammas and all else is NumPy's.
    search, aim : Search, Aim
        How bases are looked for, and what for.
    seed : int
        Draws candidates.
    """

    def __init__(self, family: Family, rows: Distinct, search: Search, aim: Aim, seed: int) -> None:
        self.family, self.rows, self.search, self.aim = family, rows, search, aim
        self.rng = np.random.RandomState(seed)
        xp = array_namespace(rows.weight)
        mass = [xp.where(rows.codes == code, rows.weight, 0.0) for code in (1, 0)]
        self.shares = [m / xp.sum(m) for m in mass]  # of classes x and y
        total = float(xp.sum(rows.weight))
        self.prior = float(xp.sum(mass[1])) / total, float(xp.sum(mass[0])) / total
        self.variances = column_variances(rows.X, rows.weight / total)
        self._centred = Centred(rows.X) if family.name == "gaussian" else None
        self.scores = xp.zeros_like(rows.weight)
        self._loose = 0.0  # sum of c_j^2 v_j, what the covariances' error acts on
        self.ratio = 1.0
        self.centres: list[Array] = []
        self.gammas: list[Array] = []
        self.coefs: list[float] = []
        self.intercept = 0.0
        self._booster: tuple[KernelBooster, Array] | None = None

    def grow(self, n_bases: int) -> Iterator[Pair]:
        """Add bases, giving the classes' bounds after each, until none is left that helps."""
        for _ in range(n_bases):
            best = self._best_candidate()
            if best.plane is NOWHERE:
                return
            self._add(best)
            yield self.aim.bounds(self._last.kappas(self.ratio))
            if min(self._last.kappas(self.ratio)) > _SEPARATED:
                return

    def spread(self) -> tuple[float, float, float]:
        """Return the distance of the threshold from the mean of class x, and the deviations."""
        if not self.centres:
            return 0.0, 0.0, 0.0
        return self._reach, self._last.s_y, self._last.s_x

    def scores_along(self, X: Array, n_bases: int) -> Array:
        """Scores of other rows after each basis, (n_bases, n); if it ends early the last stay."""
        X, n = in_double(X), X.shape[0]
        xp, kind = array_namespace(self.scores), {"dtype": self.scores.dtype}
        kind["device"] = device(self.scores)
        scores, path = xp.zeros(n, **kind), xp.zeros((n_bases, n), **kind)
        for k, _ in enumerate(self.grow(n_bases)):
            new = self.family.matrix(X, self.centres[-1][None], self.gammas[-1][None])[:, 0]
            scores = self._last.first * scores + self._last.second * new - self._shift
            path[k:, :] = scores
        return path

    def _add(self, best: _Basis) -> None:
        plane = best.plane
        if not self.aim.is_even:
            self.ratio = self.aim.ratio(best.moments, self.prior)
            plane = best.moments.at(self.ratio)
        after = plane.first * self.scores + plane.second * best.values
        # b = a'x - kappa_x s_x: with even classes as many standard deviations from either mean
        self._reach = reach_of(plane.kappas(self.ratio), plane.s_x)
        self._last, self._shift = plane, float(self.shares[0] @ after) - self._reach
        self.scores = after - self._shift
        own = plane.second * self._deviation(best.values)
        self._loose = plane.first * self._loose * plane.first + own * own
        self.coefs = [plane.first * c for c in self.coefs] + [plane.second]
        self.intercept = plane.first * self.intercept - self._shift
        self.centres.append(row_of(self.rows.X, best.row))
        self.gammas.append(best.gamma)
        if self._booster is not None:
            booster, sample = self._booster
            values = as_numpy(rows_at(best.values, sample))
            booster.add(int(np.searchsorted(sample, best.row)), values)

    def _deviation(self, values: Array) -> float:
        """Root of the mean variance of a basis in the classes."""
        each = [float(share @ (values - float(share @ values)) ** 2) for share in self.shares]
        return sqrt(0.5 * (each[0] + each[1]))

    def _best_candidate(self) -> _Basis:
        chosen = self._candidates()

        def part(start: int, stop: int) -> list[_Basis]:
            return [self._improved(int(row)) for row in chosen[start:stop]]

        many = self._entries() > _WORTH_A_THREAD and self.family.name != "callable"
        threads = chosen.size if many else 1
        found = [basis for part in split(chosen.size, part, threads=threads) for basis in part]
        return min(found, key=lambda basis: basis.plane.m_at(self.ratio))

    def _entries(self) -> int:
        """Entries that threads may share; those on a device are no matter of threads."""
        X = self.rows.X
        if sp.issparse(X):
            return int(X.nnz)
        return int(X.size) if is_numpy_array(X) else 0

    def _candidates(self) -> Array:
        """Rows that the next basis is the best of."""
        n = int(self.rows.codes.shape[0])
        n_chosen = min(self.search.n_candidates, n)
        if not self.search.boosted:
            return self.rng.choice(n, n_chosen, replace=False)
        if self._booster is None:
            self._booster = self._new_booster()
        booster, sample = self._booster
        return sample[booster.propose(n_chosen)]

    def _new_booster(self) -> tuple[KernelBooster, Array]:
        """Kernel boosting on a sample of the rows of both classes, with gamma where it starts."""
        codes, parts = as_numpy(self.rows.codes), []
        for code in (0, 1):
            own = np.flatnonzero(codes == code)
            parts.append(self.rng.choice(own, min(own.size, MOST_ROWS // 2), replace=False))
        sample = np.sort(np.concatenate(parts))
        X = rows_at(self.rows.X, sample)
        X = X if sp.issparse(X) else as_numpy(X)
        _, unit, start = self._free(X.shape[1])
        gamma = np.broadcast_to(start * unit, X.shape[1])
        columns = []
        for centres in dense_blocks(X):
            gammas = np.broadcast_to(gamma, centres.shape)
            columns.append(self.family.matrix(X, centres, gammas))
        values = np.concatenate(columns, axis=1)
        x, y = (as_numpy(rows_at(share, sample)) for share in self.shares)
        share = x + y
        for code in (0, 1):
            own = codes[sample] == code
            share[own] *= 0.5 / np.sum(share[own])
        return KernelBooster(values, np.where(codes[sample] == 1, 1.0, -1.0), share), sample

    @np.errstate(over="ignore", invalid="ignore")
    def _improved(self, row: int) -> _Basis:
        """Candidate of a row, its gamma improved by a few bounded quasi-Newton steps."""
        X, v = self.rows.X, row_of(self.rows.X, row)
        d = X.shape[1]
        if self.family.name == "callable":
            values = self.family.called(X, v)
            moments, _ = self._moments(values)
            return _Basis(moments.at(self.ratio), moments, row, np.zeros(d), values)
        terms = self.family.terms(X, self._centred, v)
        one_width, unit, start = self._free(d)
        whole = terms.dot(np.full(d, unit)) if one_width else None

        def sums(g: Array) -> Array:
            return terms.dot(g * unit) if whole is None else whole * float(g[0])

        def m_and_gradient(g: Array) -> tuple[float, Array]:
            s = sums(g)
            values = self.family.value(s)
            plane, of_values = self._plane(values)
            of_s = of_values * self.family.slope(s, values)
            slope = unit * terms.back(of_s) if whole is None else np.array([float(whole @ of_s)])
            return min(plane.m_at(self.ratio), _ENDLESS), slope

        g = start
        if isinstance(self.search.gamma, str) and self.search.gamma_iter > 0:
            options = {"maxiter": self.search.gamma_iter}
            bounds = [(0.0, _WIDEST)] * start.size
            g = minimize(
                m_and_gradient, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options
            ).x
        values = self.family.value(sums(g))
        xp = array_namespace(values)
        if not bool(xp.all(xp.abs(values) < _LARGEST_VALUE)):
            raise ValueError(
                f"Values of basis={self.family.name!r} are above {_LARGEST_VALUE:g}: scale the "
                "features, or lower gamma or the degree."
            )
        moments, _ = self._moments(values)
        gamma = np.broadcast_to(g * unit, d).copy()
        return _Basis(moments.at(self.ratio), moments, row, gamma, values)

    def _free(self, d: int) -> tuple[bool, Array, Array]:
        """Whether one width is all that is free, what a unit of it is, and where to start."""
        gamma = self.search.gamma
        if gamma == "features":
            # in units of the variances; a constant feature has no say
            unit = np.where(self.variances > 0.0, 1.0 / np.maximum(self.variances, 1e-300), 0.0)
            return False, unit, np.full(d, 1.0 / d)
        width = 1.0 / max(float(np.mean(self.variances)), 1e-300)
        start = 1.0 / d if isinstance(gamma, str) else gamma / width
        return True, np.array(width), np.array([start])

    def _moments(self, values: Array) -> tuple[PlaneMoments, list[tuple[Array, Array]]]:
        """Moments of the model and a new basis, and both of them about their means, by class."""
        means, parts, centred = [], [], []
        ridge = _RIDGE * float(array_namespace(values).mean(values**2))
        for share in self.shares:
            mean, before = float(share @ values), float(share @ self.scores)
            new, old = values - mean, self.scores - before
            weighted = share * new
            parts.append([float(share @ old**2), float(weighted @ old), float(weighted @ new)])
            means.append((before, mean))
            centred.append((old, new))
        variance = 0.5 * (parts[0][2] + parts[1][2])
        for part, rho in zip(parts, reversed(self.aim.loose), strict=True):
            part[2] += ridge
            if rho > 0.0:
                part[0] += rho * self._loose
                part[2] += rho * variance
        d1, d2 = means[0][0] - means[1][0], means[0][1] - means[1][1]
        if abs(d2) <= ROUNDING * (abs(means[0][1]) + abs(means[1][1])):
            d2 = 0.0
        x, y = ((part[0], part[1], part[2]) for part in parts)
        return PlaneMoments((d1, d2), x, y, alone=not self.centres), centred

    def _plane(self, values: Array) -> tuple[Plane, Array]:
        r"""Best coefficients of the model and a new basis, and the gradient of m in its values.

        With s_i the centred score, p_i the share of the row in its class and r the ratio,
        dm / dK_i = a_2 (r s_i / sigma_x - m) p_i on class x, a_2 (s_i / sigma_y + m) p_i on class
        y; where covariances may be off, also a_2^2 (r rho_x / sigma_x + rho_y / sigma_y) / 2 times
        the centred K_i p_i on both, as their error is relative to the mean variance of K.
        """
        moments, centred = self._moments(values)
        plane = moments.at(self.ratio)
        gradient = array_namespace(values).zeros_like(values)
        if plane is NOWHERE:
            return plane, gradient
        m = plane.m_at(self.ratio)
        factors = self.ratio / max(plane.s_x, 1e-300), 1.0 / max(plane.s_y, 1e-300)
        rho_y, rho_x = self.aim.loose
        loose = 0.0
        if rho_x > 0.0 or rho_y > 0.0:
            per_unit = rho_x * factors[0] + rho_y * factors[1]
            loose = 0.5 * plane.second * per_unit * plane.second
        for (old, new), share, factor, sign in zip(
            centred, self.shares, factors, (-1.0, 1.0), strict=True
        ):
            scores = plane.first * old + plane.second * new
            gradient = gradient + share * (
                plane.second * (factor * scores + sign * m) + loose * new
            )
        return plane, gradient
