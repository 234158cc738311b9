"""What each candidate point would gain, from sums over blocks of rows.

The formulas are those of :mod:`grayzone.solvers.greedy.scores`, in any array library. A task sends
back sums over a block's rows of their kernel values with the candidates; all else is of the size of
the candidates and of the basis.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from array_api_compat import array_namespace, device, is_numpy_array

from grayzone.numerics.backend import moved
from grayzone.numerics.kernels import Kernel
from grayzone.numerics.margins import output_pairs
from grayzone.solvers.greedy.refit_by_blocks import BlockFitted, Point
from grayzone.solvers.greedy.scores import LEAST_POWER
from grayzone.solvers.greedy.span_by_blocks import BlockBasis, Spanned, kernel_values, tiles
from grayzone.sources.labelled import Rows
from grayzone.sources.source import Sums

Array = Any

# Candidates at a time: in memory a tile stays in the cache, on a device there are few of them.
_COLUMNS, _DEVICE_COLUMNS = 512, 8192


def enough_power(basis: BlockBasis) -> Array:
    """Whether rows of the pool have enough residual power to add something."""
    return basis.power > LEAST_POWER * basis.diagonal


# ------------------------------------------------------------------------------------------
# Tasks
# ------------------------------------------------------------------------------------------


def _kernel_sums(
    kernel: Kernel,
    X: Array,
    right: Array,
    factors: Callable[[int, int, Array], Array],
    width: int,
    squares: Array | None = None,
) -> tuple[Array, Array | None]:
    """Sums over rows of X of kernel values times factors, and of their squares times others.

    ``factors`` gives those of rows a to b, of that left factor; they have ``width`` columns.
    """
    xp, m = array_namespace(right), int(right.shape[0])
    columns = min(max(m, 1), _COLUMNS if is_numpy_array(right) else _DEVICE_COLUMNS)
    starts = range(0, m, columns)
    totals, squared = [0.0] * len(starts), [0.0] * len(starts)
    for a, b, tile in tiles(X, max(columns, width)):
        left = kernel.left(tile)
        transposed = factors(a, b, left).T
        for i, c in enumerate(starts):
            end = min(m, c + columns)
            some = right[c:end] if right.ndim == 1 else right[c:end, :]
            values = kernel.between(left, some)
            values = values if values.dtype == xp.float64 else xp.astype(values, xp.float64)
            totals[i] = totals[i] + xp.matmul(transposed, values)
            if squares is not None:
                squared[i] = squared[i] + xp.matmul(squares[a:b, :].T, values * values)
    joined = xp.concat(totals, axis=1)
    return joined, None if squares is None else xp.concat(squared, axis=1)


def _in_place_of_features(rows: Rows, phi: Array) -> Rows:
    return Rows(phi, rows.codes, rows.weight, rows.first)


@dataclass(frozen=True)
class _Slopes:
    """Gradient of the losses along the candidates: all that the choice by power needs."""

    point: Point
    kernel: Kernel
    right: Array

    def __call__(self, rows: Rows, phi: Array) -> Sums:
        problem, scores, slope, _ = self.point.parts(_in_place_of_features(rows, phi))
        residual = problem.margins.pull(scores, problem.weight * slope)
        sums, _ = _kernel_sums(
            self.kernel, rows.X, self.right, lambda a, b, _: residual[a:b, :], residual.shape[1]
        )
        return {"pulled": sums}


@dataclass(frozen=True)
class _Model:
    """Gradient, cross terms and curvatures of the losses along the candidates."""

    point: Point
    kernel: Kernel
    right: Array

    def __call__(self, rows: Rows, phi: Array) -> Sums:
        problem, scores, slope, bend = self.point.parts(_in_place_of_features(rows, phi))
        xp, w, margins = array_namespace(scores), problem.weight, problem.margins
        residual = margins.pull(scores, w * slope)
        weights = margins.second_order(scores, w * bend, w * slope)
        p = self.point.coef.shape[1]
        width = weights.shape[1] * p

        def factors(a: int, b: int, left: Array) -> Array:
            own = phi[a:b, :]
            if p > phi.shape[1]:
                ones = xp.ones((b - a, 1), dtype=xp.float64, device=device(phi))
                own = xp.concat([own, ones], axis=1)
            scaled = xp.reshape(weights[a:b, :, None] * own[:, None, :], (b - a, width))
            return xp.concat([scaled, residual[a:b, :]], axis=1)

        n_factors = width + residual.shape[1]
        sums, squares = _kernel_sums(
            self.kernel, rows.X, self.right, factors, n_factors, squares=weights
        )
        return {"crossed": sums[:width, :], "pulled": sums[width:, :], "squares": squares}


@dataclass(frozen=True)
class _Mixed:
    """Mixed curvatures of the losses along the candidates and one that was taken."""

    point: Point
    kernel: Kernel
    right: Array
    taken: Array

    def __call__(self, rows: Rows, phi: Array) -> Sums:
        problem, scores, slope, bend = self.point.parts(_in_place_of_features(rows, phi))
        w = problem.weight
        weights = problem.margins.second_order(scores, w * bend, w * slope)

        def factors(a: int, b: int, left: Array) -> Array:
            return self.kernel.between(left, self.taken) * weights[a:b, :]

        width = weights.shape[1]
        sums, _ = _kernel_sums(self.kernel, rows.X, self.right, factors, width)
        return {"mixed": sums}


@dataclass(frozen=True)
class _Trials:
    """Losses at several functions, each with a candidate's kernel function of its own."""

    point: Point
    kernel: Kernel
    right: Array
    coefs: Array  # (t Q, p)
    steps: Array  # (t, Q)

    def __call__(self, rows: Rows, phi: Array) -> Sums:
        problem = self.point.frame.problem(_in_place_of_features(rows, phi))
        xp, (t, n_outputs) = array_namespace(phi), self.steps.shape
        spanned = problem.design.scores(self.coefs).T
        scores = xp.permute_dims(xp.reshape(spanned, (t, n_outputs, phi.shape[0])), (0, 2, 1))
        own = kernel_values(self.kernel, rows.X, self.right).T
        scores = scores + own[:, :, None] * self.steps[:, None, :]
        losses = problem.loss.value(problem.margins.margin(scores))
        return {"losses": xp.matmul(losses, problem.weight)}


# ------------------------------------------------------------------------------------------
# Scores
# ------------------------------------------------------------------------------------------


@dataclass
class BlockScores:
    """Candidates and their slopes: for the choice by power, which no second derivative enters."""

    places: Array  # in the pool (m,)
    at: Array  # Phi at the candidates (m, q)
    eligible: Array  # (m,)
    power: Array  # residual power (m,)
    slope: Array  # gradient along the candidates (m, Q)

    def limit(self, basis: BlockBasis) -> None:
        """Leave only candidates that have enough residual power."""
        xp = array_namespace(self.places)
        self.power = xp.take(basis.power, self.places)
        self.eligible = self.eligible & xp.take(enough_power(basis), self.places)

    def gains(self) -> Array:
        """What each candidate promises, -inf for those that add nothing: |slope|^2 / power."""
        xp = array_namespace(self.slope)
        gain = xp.sum(self.slope**2, axis=1) / xp.clip(self.power, min=1e-300)
        return xp.where(self.eligible, gain, -xp.inf)

    def deflate(self, spanned: Spanned, fitted: BlockFitted, basis: BlockBasis, taken: int) -> None:
        """Turn to what the others gain once the candidate ``taken`` has joined."""
        xp = array_namespace(self.places)
        others = xp.arange(self.places.shape[0], device=device(self.places)) != taken
        self.eligible = self.eligible & others


@dataclass
class BlockNewtonScores(BlockScores):
    """Candidates and the quadratic model of the criterion along each of them.

    Slopes are those left beside a Newton step on the span; p coefficients belong to each output.
    """

    curvature: Array  # S (m, Q, Q)
    cross: Array  # c (Qp, m, Q)
    solved: Array  # A^-1 c (Qp, m, Q)

    def gains(self) -> Array:
        """Decrease that each candidate promises; -inf for those that add nothing."""
        xp = array_namespace(self.slope)
        # of points that are spanned already nothing but rounding errors are left to solve with
        curvature = xp.where(self.eligible[:, None, None], self.curvature, _eye(self.curvature))
        gain = -0.5 * xp.sum(self.slope * _steps(curvature, self.slope), axis=1)
        return xp.where(self.eligible & (gain >= 0.0), gain, -xp.inf)

    def steps(self, chosen: Array) -> Array:
        """Newton step of the coefficients of these candidates' columns, (len, Q)."""
        xp = array_namespace(chosen)
        return _steps(xp.take(self.curvature, chosen, axis=0), xp.take(self.slope, chosen, axis=0))

    def deflate(self, spanned: Spanned, fitted: BlockFitted, basis: BlockBasis, taken: int) -> None:
        """Turn to what the others gain once the candidate ``taken`` has joined."""
        super().deflate(spanned, fitted, basis, taken)
        xp, kernel = array_namespace(self.slope), basis.kernel
        right, own = basis.right(self.places), basis.right(self.places[taken : taken + 1])
        task = _Mixed(fitted.point, kernel, right, own)
        mixed = _symmetric(spanned.reduce(task)["mixed"], self.slope.shape[1])
        between = xp.take(basis.column(int(self.places[taken])), self.places)
        mixed = mixed + fitted.point.frame.penalty * between[:, None, None] * _eye(mixed)
        crossed = self.cross[:, taken, :].T  # (Q, Qp)
        mixed = mixed - xp.matmul(crossed, xp.permute_dims(self.solved, (1, 0, 2)))
        root = xp.linalg.cholesky(_safe(self.curvature[taken : taken + 1, :, :])[0, :, :])
        inverse = xp.linalg.inv(root)
        rows = xp.matmul(inverse, mixed)
        lost = xp.matmul(inverse, self.slope[taken, :])
        self.slope = self.slope - xp.matmul(xp.permute_dims(rows, (0, 2, 1)), lost)
        self.curvature = self.curvature - xp.matmul(xp.permute_dims(rows, (0, 2, 1)), rows)
        # for the next one taken, the span has one column more, along which A is now the identity
        more = xp.permute_dims(rows, (1, 0, 2))
        self.cross = xp.concat([self.cross, more])
        self.solved = xp.concat([self.solved, more])


def _eye(S: Array) -> Array:
    """Identity (1, Q, Q) of the kind of these matrices."""
    xp = array_namespace(S)
    return xp.eye(S.shape[-1], dtype=S.dtype, device=device(S))[None, :, :]


def _safe(S: Array) -> Array:
    """S with a trace of its diagonal more: rounding errors may have eaten up all of it."""
    xp = array_namespace(S)
    trace = xp.sum(xp.linalg.diagonal(S), axis=-1) / S.shape[-1]
    return S + xp.clip(1e-12 * trace, min=1e-300)[:, None, None] * _eye(S)


def _steps(curvature: Array, slope: Array) -> Array:
    S = _safe(curvature)
    if slope.shape[1] == 1:
        return -slope / S[:, :, 0]
    return -array_namespace(S).linalg.solve(S, slope[:, :, None])[:, :, 0]


def _symmetric(sums: Array, n_outputs: int) -> Array:
    """Matrices (m, Q, Q) from the sums (pairs, m) of their lower triangles."""
    xp, place = array_namespace(sums), _pair_places(n_outputs)
    rows = [xp.stack([sums[i, :] for i in row], axis=-1) for row in place]
    return xp.stack(rows, axis=-2)


def _pair_places(n_outputs: int) -> list[list[int]]:
    """Place of each pair of outputs, either way round, among the pairs."""
    known = {pair: i for i, pair in enumerate(output_pairs(n_outputs))}
    outputs = range(n_outputs)
    return [[known[max(k, j), min(k, j)] for j in outputs] for k in outputs]


def score_by_blocks(
    spanned: Spanned, fitted: BlockFitted, basis: BlockBasis, places: Array
) -> BlockNewtonScores:
    """Score candidates by (B2*), up to the evaluation of the criterion itself."""
    xp, (n_outputs, p) = array_namespace(fitted.coef), fitted.coef.shape
    sums = spanned.reduce(_Model(fitted.point, basis.kernel, basis.right(places)))
    found = _first_order(fitted, basis, places, sums["pulled"])
    penalty, m = fitted.point.frame.penalty, int(places.shape[0])
    held = penalty * found.at.T
    if p > basis.size:
        held = xp.concat([held, xp.zeros_like(sums["crossed"][:1, :])])
    by_pair = [sums["crossed"][i * p : (i + 1) * p, :] for i in range(len(output_pairs(n_outputs)))]
    rows = []
    for k, places_of in enumerate(_pair_places(n_outputs)):
        row = [by_pair[i] + held if j == k else by_pair[i] for j, i in enumerate(places_of)]
        rows.append(xp.stack(row, axis=-1))
    cross = xp.concat(rows)  # (Qp, m, Q)
    flat = xp.reshape(cross, (n_outputs * p, m * n_outputs))
    solved = xp.reshape(fitted.solve(flat), cross.shape)
    curvature = _symmetric(sums["squares"], n_outputs)
    diagonal = xp.take(basis.diagonal, places)
    curvature = curvature + penalty * diagonal[:, None, None] * _eye(curvature)
    curvature = curvature - _inner(cross, solved)
    gradient = xp.reshape(fitted.gradient, (1, n_outputs * p))
    shift = xp.matmul(gradient, xp.reshape(solved, (n_outputs * p, m * n_outputs)))
    slope = found.slope - xp.reshape(shift, (m, n_outputs))
    return BlockNewtonScores(
        places, found.at, found.eligible, found.power, slope, curvature, cross, solved
    )


def _inner(left: Array, right: Array) -> Array:
    """Sums over the first axis of products, (m, Q, Q) from two (Qp, m, Q)."""
    xp = array_namespace(left)
    if left.shape[2] == 1:
        return xp.sum(left * right, axis=0)[:, :, None]
    return xp.matmul(xp.permute_dims(left, (1, 2, 0)), xp.permute_dims(right, (1, 0, 2)))


def score_by_power_and_blocks(
    spanned: Spanned, fitted: BlockFitted, basis: BlockBasis, places: Array
) -> BlockScores:
    """Score candidates by squared slope over residual power: no second derivatives."""
    sums = spanned.reduce(_Slopes(fitted.point, basis.kernel, basis.right(places)))
    return _first_order(fitted, basis, places, sums["pulled"])


def _first_order(
    fitted: BlockFitted, basis: BlockBasis, places: Array, pulled: Array
) -> BlockScores:
    xp, q = array_namespace(places), basis.size
    at = xp.take(basis.columns, places, axis=0)
    slope = pulled.T + fitted.point.frame.penalty * xp.matmul(at, fitted.coef[:, :q].T)
    every = xp.ones(places.shape[0], dtype=xp.bool, device=device(places))
    found = BlockScores(places, at, every, xp.take(basis.power, places), slope)
    found.limit(basis)
    return found


class Trials(NamedTuple):
    """Where one Newton step with each of some candidates leads."""

    values: Array  # the criterion (t,)
    coefs: Array  # coefficients in the basis that has the candidate's column as well (t, Q, p + 1)


def one_step_by_blocks(
    spanned: Spanned,
    fitted: BlockFitted,
    basis: BlockBasis,
    found: BlockNewtonScores,
    chosen: Array,
) -> Trials:
    """Criterion (6) after one Newton step with each of these candidates, and where it leads."""
    xp, (n_outputs, p) = array_namespace(chosen), fitted.coef.shape
    q, t, frame = basis.size, int(chosen.shape[0]), fitted.point.frame
    steps = found.steps(chosen)
    shift = -fitted.solve(xp.reshape(fitted.gradient, (-1,)))
    solved = xp.permute_dims(xp.take(found.solved, chosen, axis=1), (1, 0, 2))  # (t, Qp, Q)
    change = shift[None, :] - xp.matmul(solved, steps[:, :, None])[:, :, 0]
    coefs = fitted.coef[None, :, :] + xp.reshape(change, (t, n_outputs, p))
    right = basis.right(xp.take(found.places, chosen))
    side_by_side = xp.reshape(coefs, (t * n_outputs, p))
    task = _Trials(fitted.point, basis.kernel, right, side_by_side, steps)
    losses = moved(spanned.reduce(task)["losses"], steps)
    # the candidate's kernel column is part old basis, part new column
    old = coefs[:, :, :q] + steps[:, :, None] * xp.take(found.at, chosen, axis=0)[:, None, :]
    new = xp.sqrt(xp.take(found.power, chosen))[:, None] * steps
    values = losses + 0.5 * frame.penalty * (
        xp.sum(old * old, axis=(1, 2)) + xp.sum(new * new, axis=1)
    )
    coefs = xp.concat([old, new[:, :, None], coefs[:, :, q:]], axis=2)
    return Trials(xp.where(xp.isfinite(values), values, xp.inf), coefs)
