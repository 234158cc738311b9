r"""Kernel logistic regression for many penalties and folds at once, on a device.

All fits share the kernel matrix, so that one product of it with a matrix serves them all: column j
of what follows belongs to one fit, with a penalty :math:`\lambda_j` of its own and weights that are
zero on the rows it does not see. A Newton step of every fit is the system

.. math:: (\lambda_j I + D_j K D_j) v_j = D_j (z_j - b_j), \qquad a_j = D_j v_j, \quad
          D_j^2 = w_j p_j (1 - p_j), \quad \textstyle\sum a_j = 0,

solved by conjugate gradients that keep to the constraint. The preconditioner replaces K by
:math:`\Phi\Phi'`, its part on the columns of some rows (Nyström): what it leaves is well
conditioned. Fits whose duality gap is small enough leave the matrix.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from array_api_compat import device

from grayzone.numerics.backend import moved
from grayzone.numerics.checks import as_numpy
from grayzone.numerics.linalg import lower_factor
from grayzone.numerics.losses import Logistic, sigmoid, softplus
from grayzone.numerics.namespace import array_namespace
from grayzone.solvers.kernel.device_matrix import KernelValues, inverse_of_lower

Array = Any

_RANK = 1024  # rows whose columns the preconditioner knows
_JITTER = 1e-10  # of the diagonal of their kernel values
_COLUMNS = 2**23  # entries of a matrix of fits that are worked on at a time
_PRODUCTS = 100  # most conjugate gradients in a step
_FLAT = 1e-3  # root of the curvature of a row that counts as none
_INNER = 0.01  # accuracy of the systems at first, and when few digits are missing
_STEEPEST = 60.0  # margins beyond this say no more
_SEARCHES = 30
_AT_ONCE = 10  # penalties
_PATIENCE = 10  # steps of all fits without a smaller gap


class PathSolution(NamedTuple):
    """Functions of all fits on all rows, and what they reached."""

    scores: Array  # (n, P), intercepts included
    gaps: Array  # (P,) relative duality gaps, NumPy
    n_iter: Array  # (P,) Newton steps, NumPy


class Fits(NamedTuple):
    """Fits side by side: coefficients, intercepts, scores, weights and penalties."""

    coef: Array  # (n, P)
    intercept: Array  # (P,)
    scores: Array  # (n, P)
    weight: Array  # (n, P)
    penalty: Array  # (P,)

    def take(self, places: Array) -> Fits:
        """Return these fits."""
        xp = array_namespace(self.coef)
        return Fits(*(xp.take(a, places, axis=a.ndim - 1) for a in self))

    def with_columns(self, columns: Array, new: Fits) -> Fits:
        """Return the fits with those of some columns (a NumPy array) replaced."""
        n_fits = self.penalty.shape[0]
        if columns.size == n_fits:
            return new
        others = np.setdiff1d(np.arange(n_fits), columns)
        order = moved(np.argsort(np.concatenate([others, columns])), self.penalty)
        kept = self.take(moved(others, self.penalty))
        xp = array_namespace(self.penalty)
        both = (xp.concat([a, b], axis=a.ndim - 1) for a, b in zip(kept, new, strict=True))
        return Fits(*both).take(order)


def fit_path(
    values: KernelValues,
    y: Array,
    weight: Array,
    penalties: Array,
    *,
    fit_intercept: bool,
    tol: float,
    max_iter: int,
    seed: int = 0,
) -> PathSolution:
    """Fit plain kernel logistic regression for every column of weights and every penalty.

    Some penalties are fitted at once, the largest first; the next start from the last of them.

    Parameters
    ----------
    values : KernelValues
        Kernel values of all rows, kept.
    y : array of shape (n,)
        -1 and 1.
    weight : array of shape (n, F)
        Weights of each fold; zero on the rows that it does not see.
    penalties : NumPy array of shape (P,)
        Values of lambda.
    fit_intercept : bool
        Whether there are intercepts.
    tol : float
        Relative duality gap asked of every fit.
    max_iter : int
        Most Newton steps of a fit.
    seed : int
        Draws the rows of the preconditioner.

    Returns
    -------
    solution : PathSolution
        Scores of all rows by the fits of all folds, those of a fold side by side.
    """
    xp, (n, n_folds), n_pen = array_namespace(y), weight.shape, penalties.shape[0]
    order = np.argsort(-penalties, kind="stable")
    path = KernelFits(values, nystrom(values, seed), y, fit_intercept)
    step = max(1, min(_AT_ONCE, _COLUMNS // (n * n_folds)))
    found: dict[tuple[int, int], tuple[Array, float, int]] = {}
    last: Fits | None = None
    for a in range(0, n_pen, step):
        some = order[a : a + step]
        place = moved(np.repeat(np.arange(n_folds), some.size), y)
        wide = xp.take(weight, place, axis=1)
        penalty = moved(np.tile(penalties[some], n_folds), y)
        start = path.start(wide, penalty)
        if last is not None:
            kept = last.take(place)
            start = start._replace(coef=kept.coef, intercept=kept.intercept, scores=kept.scores)
        fits, gaps, n_iter = path.run(start, tol, max_iter)
        for j, (fold, k) in enumerate((f, int(p)) for f in range(n_folds) for p in some):
            found[fold, k] = fits.scores[:, j], gaps[j], n_iter[j]
        last = fits.take(moved(np.arange(1, n_folds + 1) * some.size - 1, y))
    scores, gaps, n_iter = zip(
        *(found[f, p] for f in range(n_folds) for p in range(n_pen)), strict=True
    )
    return PathSolution(xp.stack(scores, axis=1), np.array(gaps), np.array(n_iter))


def nystrom(values: KernelValues, seed: int, rank: int = _RANK) -> Array:
    """Features (n, r) whose inner products are K on the columns of some rows."""
    xp, n = array_namespace(values.X), values.X.shape[0]
    chosen = np.sort(np.random.default_rng(seed).permutation(n)[: min(n, rank)])
    places = moved(chosen, values.X)
    columns = values.columns(places)
    square = xp.take(columns, places, axis=0)
    size = float(xp.max(xp.linalg.diagonal(square)))
    eye = xp.eye(square.shape[0], dtype=xp.float64, device=device(columns))
    lower = lower_factor(square + max(_JITTER * size, 1e-300) * eye)
    return xp.matmul(columns, inverse_of_lower(lower).T)


class KernelFits:
    """Newton steps of several fits at a time, on one kernel matrix."""

    def __init__(
        self,
        values: KernelValues,
        features: Array,
        y: Array,
        fit_intercept: bool,
    ) -> None:
        self.values, self.features, self.y = values, features, y[:, None]
        self.fit_intercept = fit_intercept
        self.xp, self.idle = array_namespace(y), 0

    def run(self, fits: Fits, tol: float, max_iter: int) -> tuple[Fits, Array, Array]:
        """Newton steps of all fits, until each is good enough; gives gaps and steps, too."""
        n_fits = fits.penalty.shape[0]
        every, left, worst = fits, np.arange(n_fits), 1.0
        gaps, n_iter = np.full(n_fits, np.inf), np.zeros(n_fits, dtype=int)
        for _ in range(max_iter):
            fits = self.step(fits, min(_INNER, worst))
            found = as_numpy(self._gaps(fits))
            better = found < gaps[left]
            gaps[left], n_iter[left] = found, n_iter[left] + 1
            self.idle = 0 if np.any(better) else self.idle + 1
            done = ~(found > tol) | (self.idle > _PATIENCE)
            worst = max(float(np.max(found)), 1e-12) ** 0.5
            if np.any(done):
                every = every.with_columns(left, fits)
                left = left[~done]
                fits = fits.take(moved(np.flatnonzero(~done), fits.penalty))
            if not left.size:
                break
        return (every.with_columns(left, fits) if left.size else every), gaps, n_iter

    def start(self, weight: Array, penalty: Array) -> Fits:
        """No function but an intercept that gives back the class priors."""
        xp = self.xp
        zeros = xp.zeros_like(weight)
        intercept = xp.zeros_like(penalty)
        if self.fit_intercept:
            up = xp.sum(xp.where(self.y > 0, weight, 0.0), axis=0)
            intercept = xp.log(up / xp.sum(xp.where(self.y > 0, 0.0, weight), axis=0))
        return Fits(zeros, intercept, zeros + intercept, weight, penalty)

    def step(self, fits: Fits, accuracy: float) -> Fits:
        """One Newton step of every fit."""
        xp = self.xp
        u = xp.clip(-self.y * fits.scores, min=-_STEEPEST, max=_STEEPEST)
        grown = xp.exp(0.5 * u)
        root = xp.sqrt(fits.weight) * grown / (1.0 + grown * grown)
        system = _System(self.values, self.features, root, fits.penalty, self.fit_intercept)
        # From the coefficients there are; but rows without curvature have the multiplier that
        # their slope is, y w p: divided by D, anything else would dwarf all other rows.
        slope = self.y * xp.sqrt(fits.weight) * grown / fits.penalty
        flat = root <= _FLAT * xp.sqrt(fits.weight)
        start = xp.where(flat, slope, fits.coef / xp.where(flat, 1.0, root))
        rest = root * fits.scores - fits.penalty * (start - slope)
        change, intercept = system.solve(start, rest, accuracy)
        coef = root * (start + change)
        scores = self.values.product(coef) + intercept
        return self._searched(fits, fits._replace(coef=coef, intercept=intercept, scores=scores))

    def _searched(self, fits: Fits, trial: Fits) -> Fits:
        """Go to the least value on the way to the trial, each fit by itself."""
        xp = self.xp
        coef, scores = trial.coef - fits.coef, trial.scores - fits.scores
        intercept = trial.intercept - fits.intercept
        norm = scores - intercept
        linear = fits.penalty * xp.sum(fits.coef * norm, axis=0)
        square = fits.penalty * xp.sum(coef * norm, axis=0)

        def slope(t: Array) -> Array:
            s = fits.weight * sigmoid(-self.y * (fits.scores + t * scores))
            return linear + t * square - xp.sum(self.y * s * scores, axis=0)

        t = xp.ones_like(linear)
        if bool(xp.any(slope(t) > 0.0)):
            t = _least(slope, t)
        return fits._replace(
            coef=fits.coef + t * coef,
            intercept=fits.intercept + t * intercept,
            scores=fits.scores + t * scores,
        )

    def _gaps(self, fits: Fits) -> Array:
        """Relative duality gaps of the functions that the duals span."""
        xp, w = self.xp, fits.weight
        seen = w > 0
        duals = fits.penalty * self.y * fits.coef / xp.where(seen, w, 1.0)
        duals = xp.where(seen, xp.clip(duals, min=0.0, max=1.0), 0.0)
        if self.fit_intercept:
            up = xp.sum(xp.where(self.y > 0, w * duals, 0.0), axis=0)
            down = xp.sum(xp.where(self.y > 0, 0.0, w * duals), axis=0)
            least = xp.minimum(up, down)
            duals = duals * (least / xp.clip(xp.where(self.y > 0, up, down), min=1e-300))
        coef = self.y * w * duals / fits.penalty
        function = self.values.product(coef)
        u = -self.y * (function + fits.intercept)
        distance = Logistic(u).fenchel_young(u, duals)
        gap = xp.sum(xp.where(seen, w * distance, 0.0), axis=0)
        norm = 0.5 * fits.penalty * xp.sum(coef * function, axis=0)
        return gap / (xp.sum(w * softplus(u), axis=0) + norm)


def _least(slope: Any, high: Array) -> Array:
    """Places in (0, 1] where slopes of convex functions change sign, by bisection."""
    xp = array_namespace(high)
    over = slope(high) > 0.0
    low = xp.zeros_like(high)
    for _ in range(_SEARCHES):
        middle = 0.5 * (low + high)
        up = slope(middle) > 0.0
        low, high = xp.where(up, low, middle), xp.where(up, middle, high)
    # downhill all the way to the lower end, however short that is
    return xp.where(over, low, 1.0)


class _System:
    """The systems of one Newton step of all fits, with a preconditioner for each."""

    def __init__(
        self,
        values: KernelValues,
        features: Array,
        root: Array,
        penalty: Array,
        fit_intercept: bool,
    ) -> None:
        xp = array_namespace(root)
        self.xp, self.values, self.features = xp, values, features
        self.root, self.penalty = root, penalty
        r = features.shape[1]
        eye = xp.eye(r, dtype=xp.float64, device=device(root))
        squares = [
            xp.matmul((features * (root[:, j] ** 2)[:, None]).T, features) + penalty[j] * eye
            for j in range(root.shape[1])
        ]
        self.inverse = inverse_of_lower(lower_factor(xp.stack(squares)))
        self.border = self.precondition(root) if fit_intercept else None

    def times(self, v: Array) -> Array:
        """Product with the systems' matrices."""
        return self.penalty * v + self.root * self.values.product(self.root * v)

    def precondition(self, x: Array) -> Array:
        """Solve with the features in the place of the kernel."""
        xp = self.xp
        t = xp.matmul(self.features.T, self.root * x).T[:, :, None]
        t = xp.matmul(xp.matrix_transpose(self.inverse), xp.matmul(self.inverse, t))
        return (x - self.root * xp.matmul(self.features, t[:, :, 0].T)) / self.penalty

    def _constrained(self, r: Array) -> tuple[Array, Array]:
        """Preconditioned residual that leaves the sum of coefficients as it is; the multiplier."""
        xp, z = self.xp, self.precondition(r)
        if self.border is None:
            return z, xp.zeros_like(self.penalty)
        size = xp.sum(self.root * self.border, axis=0)
        multiplier = xp.sum(self.root * z, axis=0) / size
        return z - multiplier * self.border, multiplier

    def solve(self, start: Array, rest: Array, accuracy: float) -> tuple[Array, Array]:
        """Changes of v from a start to the solutions, and intercepts.

        ``rest`` is the right-hand side less lambda times the start. The first change makes the
        coefficients sum to zero, and the others keep it so.
        """
        xp = self.xp
        r = rest - self.root * self.values.product(self.root * start)
        change = xp.zeros_like(start)
        if self.border is not None:
            size = xp.sum(self.root * self.border, axis=0)
            change = -xp.sum(self.root * start, axis=0) / size * self.border
            r = r - self.times(change)
        z, intercept = self._constrained(r)
        p, rz = z, xp.sum(r * z, axis=0)
        goal = accuracy**2 * rz
        for _ in range(_PRODUCTS):
            q = self.times(p)
            # columns that are done stay as they are
            live = rz > goal
            step = xp.where(live, rz / xp.clip(xp.sum(p * q, axis=0), min=1e-300), 0.0)
            change, r = change + step * p, r - step * q
            z, intercept = self._constrained(r)
            rz, before = xp.sum(r * z, axis=0), rz
            if not bool(xp.any(rz > goal)):
                break
            p = z + (rz / xp.clip(before, min=1e-300)) * p
        return change, intercept
