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

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from array_api_compat import device
from scipy.optimize import minimize

from grayzone.numerics.backend import moved
from grayzone.numerics.checks import as_numpy
from grayzone.numerics.moments import ROUNDING, column_variances
from grayzone.numerics.namespace import array_namespace, is_numpy_array
from grayzone.numerics.threads import PRODUCTS, split
from grayzone.solvers.minimax.aims import Aim
from grayzone.solvers.minimax.basis import Centred, Family, dense_blocks, row_of
from grayzone.solvers.minimax.boosting import MOST_ROWS, KernelBooster
from grayzone.solvers.minimax.direction import reach_of
from grayzone.solvers.minimax.plane import NOWHERE, Covariance, Plane, PlaneMoments
from grayzone.sources.distinct import Distinct

Array = Any
Pair = tuple[float, float]

_RIDGE = 1e-10  # on the variance of a basis, relative to its mean square
_WIDEST = 1e3  # upper bound of gamma, in units of 1 / variance
_ENDLESS = 1e6  # m of a basis that tells nothing apart, for a search that knows no infinity
_SEPARATED = 1e7  # standard deviations at which nothing is left to gain
LARGEST_VALUE = 1e150  # of a basis, whose squares are doubles
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


class Sides(NamedTuple):
    """Moments of the model so far and of a new basis, in the classes x and y, in this order."""

    means: tuple[Pair, Pair]
    parts: tuple[Covariance, Covariance]
    square: float  # mean square of the basis

    def variance(self) -> float:
        """Mean variance of the basis in the classes."""
        return 0.5 * (self.parts[0][2] + self.parts[1][2])


class Candidate(NamedTuple):
    """A basis that may be added, with what it comes to."""

    plane: Plane
    moments: PlaneMoments
    sides: Sides
    row: int
    gamma: Array  # (d,)
    values: Array  # (n,)


# Candidates of some machines, by their places.
Proposed = dict[int, list[Candidate]]


class Whole(NamedTuple):
    """What is known of all rows, where a machine is given a sample of them."""

    variances: Array  # of the features (d,)
    prior: Pair  # shares of the classes y and x


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


def too_large(family: Family) -> ValueError:
    """Return the error of values that have no squares."""
    return ValueError(
        f"Values of basis={family.name!r} are above {LARGEST_VALUE:g}: scale the "
        "features, or lower gamma or the degree."
    )


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
    whole : Whole or None
        Where ``rows`` are a sample, what is known of all; see :func:`by_turns` for the rest.
    """

    def __init__(
        self,
        family: Family,
        rows: Distinct,
        search: Search,
        aim: Aim,
        seed: int,
        whole: Whole | None = None,
    ) -> None:
        self.family, self.rows, self.search, self.aim = family, rows, search, aim
        self.rng = np.random.RandomState(seed)
        xp = array_namespace(rows.weight)
        mass = [xp.where(rows.codes == code, rows.weight, 0.0) for code in (1, 0)]
        self.shares = [m / xp.sum(m) for m in mass]  # of classes x and y
        total = float(xp.sum(rows.weight))
        if whole is None:
            prior = float(xp.sum(mass[1])) / total, float(xp.sum(mass[0])) / total
            whole = Whole(column_variances(rows.X, rows.weight / total), prior)
        self.variances, self.prior = whole
        self._centred = Centred(rows.X) if family.name == "gaussian" else None
        self._set_scores(xp.zeros_like(rows.weight))
        self._loose = 0.0  # sum of c_j^2 v_j, what the covariances' error acts on
        self.ratio = 1.0
        self.centres: list[Array] = []
        self.gammas: list[Array] = []
        self.coefs: list[float] = []
        self.intercept = 0.0
        self._booster: tuple[KernelBooster, Array] | None = None

    def grow(self, n_bases: int) -> Iterator[Pair]:
        """Add bases, giving the classes' bounds after each, until none is left that helps."""
        for found in by_turns([self], [n_bases]):
            yield found[0]

    def add_best(self, candidates: list[Candidate]) -> Pair | None:
        """Add the best of some bases; return the classes' bounds, or None where none of them helps.

        The best is the one of the smallest m by its moments, whichever rows these are of.
        """
        best = min(candidates, key=lambda basis: basis.plane.m_at(self.ratio))
        if best.plane is NOWHERE:
            return None
        self._add(best)
        return self.aim.bounds(self._last.kappas(self.ratio))

    def is_apart(self) -> bool:
        """Whether nothing is left to gain."""
        return bool(self.centres) and min(self._last.kappas(self.ratio)) > _SEPARATED

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

    def _add(self, best: Candidate) -> None:
        plane = best.plane
        if not self.aim.is_even:
            self.ratio = self.aim.ratio(best.moments, self.prior)
            plane = best.moments.at(self.ratio)
        after = plane.first * self.scores + plane.second * best.values
        # b = a'x - kappa_x s_x: with even classes as many standard deviations from either mean
        self._reach = reach_of(plane.kappas(self.ratio), plane.s_x)
        before, new = best.sides.means[0]
        self._last = plane
        self._shift = plane.first * before + plane.second * new - self._reach
        self._set_scores(after - self._shift)
        own = plane.second * sqrt(best.sides.variance())
        self._loose = plane.first * self._loose * plane.first + own * own
        self.coefs = [plane.first * c for c in self.coefs] + [plane.second]
        self.intercept = plane.first * self.intercept - self._shift
        self.centres.append(row_of(self.rows.X, best.row))
        self.gammas.append(best.gamma)
        if self._booster is not None:
            booster, sample = self._booster
            values = as_numpy(rows_at(best.values, sample))
            booster.add(int(np.searchsorted(sample, best.row)), values)

    def _set_scores(self, scores: Array) -> None:
        """Go to a model, whose moments by class serve all candidates: mean, rest and variance."""
        self.scores = scores
        self._model: list[tuple[float, Array, float]] = []
        for share in self.shares:
            mean = float(share @ scores)
            rest = scores - mean
            self._model.append((mean, rest, float(share @ rest**2)))

    def candidates(self) -> list[Candidate]:
        """Bases around some rows, each improved: what the next one is the best of."""
        chosen = self._drawn()

        def part(start: int, stop: int) -> list[Candidate]:
            return [self._improved(int(row)) for row in chosen[start:stop]]

        many = self._entries() > _WORTH_A_THREAD and self.family.name != "callable"
        threads = chosen.size if many else 1
        return [
            basis
            for part in split(chosen.size, part, threads=threads, kind=PRODUCTS)
            for basis in part
        ]

    def judged(self, candidate: Candidate, sides: Sides) -> Candidate:
        """Return a candidate with what it comes to by other moments."""
        moments = self._in_plane(sides)
        return candidate._replace(plane=moments.at(self.ratio), moments=moments, sides=sides)

    def _entries(self) -> int:
        """Entries that threads may share; those on a device are no matter of threads."""
        X = self.rows.X
        if sp.issparse(X):
            return int(X.nnz)
        return int(X.size) if is_numpy_array(X) else 0

    def _drawn(self) -> Array:
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
    def _improved(self, row: int) -> Candidate:
        """Candidate of a row, its gamma improved by a few bounded quasi-Newton steps."""
        X, v = self.rows.X, row_of(self.rows.X, row)
        d = X.shape[1]
        if self.family.name == "callable":
            return self._candidate(row, np.zeros(d), self.family.called(X, v))
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
        if not bool(xp.all(xp.abs(values) < LARGEST_VALUE)):
            raise too_large(self.family)
        return self._candidate(row, np.broadcast_to(g * unit, d).copy(), values)

    def _candidate(self, row: int, gamma: Array, values: Array) -> Candidate:
        sides, _ = self._sides(values)
        moments = self._in_plane(sides)
        return Candidate(moments.at(self.ratio), moments, sides, row, gamma, values)

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

    def _sides(self, values: Array) -> tuple[Sides, list[tuple[Array, Array]]]:
        """Moments of the model and a new basis, and both of them about their means, by class."""
        means, parts, centred = [], [], []
        for share, (before, old, variance) in zip(self.shares, self._model, strict=True):
            mean = float(share @ values)
            new = values - mean
            weighted = share * new
            parts.append((variance, float(weighted @ old), float(weighted @ new)))
            means.append((before, mean))
            centred.append((old, new))
        square = float(values @ values) / values.shape[0]
        return Sides((means[0], means[1]), (parts[0], parts[1]), square), centred

    def _in_plane(self, sides: Sides) -> PlaneMoments:
        """Return the moments of a problem in two dimensions: what may be off is added to them."""
        ridge, covariances = _RIDGE * sides.square, []
        for (old, mixed, new), rho in zip(sides.parts, reversed(self.aim.loose), strict=True):
            # none of what may be infinite, where nothing is off
            off = (rho * self._loose, rho * sides.variance()) if rho > 0.0 else (0.0, 0.0)
            covariances.append((old + off[0], mixed, new + ridge + off[1]))
        (before_x, mean_x), (before_y, mean_y) = sides.means
        d1, d2 = before_x - before_y, mean_x - mean_y
        if abs(d2) <= ROUNDING * (abs(mean_x) + abs(mean_y)):
            d2 = 0.0
        return PlaneMoments((d1, d2), covariances[0], covariances[1], alone=not self.centres)

    def _plane(self, values: Array) -> tuple[Plane, Array]:
        r"""Best coefficients of the model and a new basis, and the gradient of m in its values.

        With s_i the centred score, p_i the share of the row in its class and r the ratio,
        dm / dK_i = a_2 (r s_i / sigma_x - m) p_i on class x, a_2 (s_i / sigma_y + m) p_i on class
        y; where covariances may be off, also a_2^2 (r rho_x / sigma_x + rho_y / sigma_y) / 2 times
        the centred K_i p_i on both, as their error is relative to the mean variance of K.
        """
        sides, centred = self._sides(values)
        plane = self._in_plane(sides).at(self.ratio)
        if plane is NOWHERE:
            return plane, array_namespace(values).zeros_like(values)
        m = plane.m_at(self.ratio)
        factors = self.ratio / max(plane.s_x, 1e-300), 1.0 / max(plane.s_y, 1e-300)
        rho_y, rho_x = self.aim.loose
        loose = 0.0
        if rho_x > 0.0 or rho_y > 0.0:
            per_unit = rho_x * factors[0] + rho_y * factors[1]
            loose = 0.5 * plane.second * per_unit * plane.second
        parts = []
        for (old, new), share, factor, sign in zip(
            centred, self.shares, factors, (-1.0, 1.0), strict=True
        ):
            # of the model, of the basis, and of neither
            a = plane.second * factor
            b = a * plane.second + loose
            parts.append(share * (a * plane.first * old + b * new + plane.second * sign * m))
        return plane, parts[0] + parts[1]


def by_turns(
    machines: Sequence[Greedy],
    sizes: Sequence[int],
    judge: Callable[[Proposed], Proposed] | None = None,
) -> Iterator[dict[int, Pair]]:
    """Add a basis to each machine by turns, until all have as many as they may or none helps.

    Parameters
    ----------
    machines : sequence of Greedy
        The machines.
    sizes : sequence of int
        How many bases each may have.
    judge : callable or None
        Given the candidates of all machines of a turn, returns them with moments of all rows; None
        where machines have all of them.

    Yields
    ------
    dict of {int: pair of floats}
        Bounds of both classes, by the places of the machines that have one basis more.
    """
    growing = dict(enumerate(machines))
    for turn in range(max(sizes)):
        growing = {k: m for k, m in growing.items() if turn < sizes[k] and not m.is_apart()}
        proposed = {k: machine.candidates() for k, machine in growing.items()}
        if judge is not None and proposed:
            proposed = judge(proposed)
        added = {k: growing[k].add_best(candidates) for k, candidates in proposed.items()}
        found = {k: pair for k, pair in added.items() if pair is not None}
        if not found:
            return
        growing = {k: growing[k] for k in found}
        yield found
