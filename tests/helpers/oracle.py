"""Independent oracles for the truncated likelihood.

Everything here is written from the definitions of the criterion and of its dual, and imports
nothing from the package, so that a test which compares the two compares two derivations.

Binary problem, with ``u_i = -s_i (x_i.w + b)`` and ``s_i`` the sign of the class::

    P(w, b) = sum_i w_i log(1 + exp(max(u_i, F_i))) + |w|^2 / (2 C)
    D(a)    = -sum_i w_i h_i*(a_i) - C/2 |sum_i w_i a_i s_i x_i|^2

with ``0 <= a_i <= 1`` and, where there is an intercept, ``sum_i w_i a_i s_i = 0``.

Multi-class problem, with ``c_i = -log cap`` of the row's own class::

    P(W, b)  = sum_i w_i max(-log p_{y_i}, c_i) + |W|_F^2 / (2 C)
    D(alpha) = -sum_i w_i phi_i*(alpha_i) - C/2 |sum_i w_i alpha_i x_i'|_F^2

with ``alpha_ik >= 0`` off the own class, rows that sum to zero, ``-alpha_iy <= 1`` and, where there
is an intercept, ``sum_i w_i alpha_i = 0``.

Any admissible ``a`` or ``alpha`` bounds the optimum from below, so an oracle solution carries its
own certificate: what the conic solver says about itself is never believed.
"""

import math
import warnings
from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest
from scipy.special import expit, logit, logsumexp, xlogy

# The conic solver is asked again, in another scaling, until its certified relative gap is this
# small: a hundredth of the accuracy that the tests ask of the estimator.
ENOUGH = 1e-10


@dataclass(frozen=True, eq=False)
class BinaryProblem:
    """Data of one binary fit: `sign` is +1 for the positive class, `floor` is F per row."""

    X: np.ndarray
    sign: np.ndarray
    weight: np.ndarray
    floor: np.ndarray
    C: float
    fit_intercept: bool


@dataclass(frozen=True, eq=False)
class SoftmaxProblem:
    """Data of one multi-class fit: `label` holds class indices, `cap` one probability per class."""

    X: np.ndarray
    label: np.ndarray
    weight: np.ndarray
    cap: np.ndarray
    C: float
    fit_intercept: bool

    @property
    def saturated_loss(self):
        """-log cap of each row's own class."""
        return -np.log(self.cap)[self.label]


@dataclass(frozen=True, eq=False)
class OracleSolution:
    """A primal point, its exact objective, and a certified lower bound of the optimum."""

    coef: np.ndarray
    intercept: np.ndarray | float
    objective: float
    lower_bound: float

    @property
    def gap(self):
        return (self.objective - self.lower_bound) / self.objective


def zone_limits(zone, threshold=0.5):
    """(p_min, p_max) from what a user may pass as `zone`."""
    if zone is None:
        return 0.0, 1.0
    if np.ndim(zone) == 0:
        return expit(logit(threshold) - zone), expit(logit(threshold) + zone)
    return tuple(zone)


def zone_floor(sign, zone, threshold=0.5):
    """F per row: -logit(p_max) for the positive class, logit(p_min) for the negative one."""
    p_min, p_max = zone_limits(zone, threshold)
    return np.where(sign > 0, -logit(p_max), logit(p_min))


def exact_norm2(rows, X):
    """Squared Frobenius norm of ``rows @ X``, in extended precision.

    The sum cancels down to coef / C, which leaves few digits in double precision when C is large.
    """
    product = np.asarray(rows, np.longdouble) @ np.asarray(X, np.longdouble)
    return float(np.sum(product**2))


def kernel_features(K):
    """L with LL' = K, from its eigenvalues: the rows are linear features of the kernel."""
    values, vectors = np.linalg.eigh(K)
    kept = values > 1e-15 * values[-1]
    return vectors[:, kept] * np.sqrt(values[kept])


# ---------------------------------------------------------------------------------------- binary


def negative_margin(problem, coef, intercept):
    """u_i = -s_i (x_i.w + b)."""
    return -problem.sign * (problem.X @ np.ravel(coef) + np.squeeze(intercept))


def primal_value(problem, coef, intercept):
    """P(w, b)."""
    u = negative_margin(problem, coef, intercept)
    losses = problem.weight * np.logaddexp(0.0, np.maximum(u, problem.floor))
    return math.fsum(losses) + math.fsum(np.ravel(coef) ** 2) / (2.0 * problem.C)


def conjugate(alpha, floor):
    """h*(a): linear up to sigma(F), the negative entropy beyond (and everywhere if F = -inf)."""
    entropy = xlogy(alpha, alpha) + xlogy(1.0 - alpha, 1.0 - alpha)
    finite = np.where(np.isfinite(floor), floor, 0.0)
    linear = alpha * finite - np.logaddexp(0.0, finite)
    return np.where(np.isfinite(floor) & (alpha <= expit(floor)), linear, entropy)


def dual_value(problem, alpha):
    """D(a); a lower bound of the optimum when `alpha` is admissible."""
    losses = problem.weight * conjugate(alpha, problem.floor)
    combination = problem.weight * alpha * problem.sign
    return -math.fsum(losses) - 0.5 * problem.C * exact_norm2(combination, problem.X)


def admissible_alpha(problem, alpha):
    """Clip to [0, 1] and scale the heavier class down so that sum_i w_i a_i s_i = 0."""
    alpha = np.clip(alpha, 0.0, 1.0)
    if not problem.fit_intercept:
        return alpha
    positive = problem.sign > 0
    mass = problem.weight * alpha
    per_class = np.array([math.fsum(mass[~positive]), math.fsum(mass[positive])])
    shrink = np.divide(per_class.min(), per_class, out=np.zeros(2), where=per_class > 0.0)
    return alpha * shrink[positive.astype(int)]


def alpha_from_dual_coef(problem, support, dual_coef):
    """Per-row a from ``dual_coef = C w a s`` on the support; a row of weight zero gets 0."""
    full = np.zeros(len(problem.sign))
    full[support] = np.ravel(dual_coef)
    scale = problem.C * problem.weight * problem.sign
    return np.divide(full, scale, out=np.zeros_like(full), where=problem.weight > 0.0)


def relative_gap(problem, coef, intercept, alpha):
    """(P - D) / P, by plain subtraction."""
    primal = primal_value(problem, coef, intercept)
    return (primal - dual_value(problem, alpha)) / primal


@cache
def solve_binary(problem):
    """Minimise P with CVXPY and Clarabel, certified by the dual point the solver returns."""
    cp = pytest.importorskip("cvxpy")
    rows = np.flatnonzero(problem.weight > 0.0)
    X, sign, weight, floor = (
        array[rows] for array in (problem.X, problem.sign, problem.weight, problem.floor)
    )
    kinked = np.flatnonzero(np.isfinite(floor))

    def attempt(unit, column, settings):
        coef, intercept, xi = cp.Variable(X.shape[1]), cp.Variable(), cp.Variable(len(rows))
        scores = (X / column) @ coef + (intercept if problem.fit_intercept else 0.0)
        above_margin = xi >= -cp.multiply(sign, scores)
        shrink = 1.0 / (column * np.sqrt(2.0 * problem.C * unit))
        penalty = cp.sum_squares(cp.multiply(shrink, coef))
        loss = cp.sum(cp.multiply(weight / unit, cp.logistic(xi)))
        constraints = [above_margin] + ([xi[kinked] >= floor[kinked]] if len(kinked) else [])
        run_clarabel(cp, cp.Problem(cp.Minimize(loss + penalty), constraints), settings)
        alpha = np.zeros(len(problem.sign))
        alpha[rows] = above_margin.dual_value * unit / weight
        alpha = admissible_alpha(problem, alpha)
        point = coef.value / column, float(intercept.value) if problem.fit_intercept else 0.0
        return point, primal_value(problem, *point), dual_value(problem, alpha)

    return best_of_attempts(cp, attempt, X, weight)


# ----------------------------------------------------------------------------------- multi-class


def softmax_scores(problem, coef, intercept):
    return problem.X @ coef.T + intercept


def softmax_losses(problem, scores):
    """-log p_y per row, before the cap."""
    own = scores[np.arange(len(scores)), problem.label]
    return logsumexp(scores - own[:, None], axis=1)


def softmax_primal_value(problem, coef, intercept):
    """P(W, b)."""
    losses = softmax_losses(problem, softmax_scores(problem, coef, intercept))
    capped = problem.weight * np.maximum(losses, problem.saturated_loss)
    return math.fsum(capped) + math.fsum(np.ravel(coef) ** 2) / (2.0 * problem.C)


def softmax_conjugate(alpha, label, saturated_loss):
    """phi*(alpha) of ``phi(f) = max(-log p_y(f), c)``, one value per row of `alpha`.

    phi is the largest mixture ``theta (-log p_y) + (1 - theta) c``, so phi* is the smallest
    ``theta q(alpha / theta + e_y) - (1 - theta) c`` with q the negative entropy; it is attained at
    ``1 - tau / theta = exp(-c)``, where tau is the mass off the own class, or at theta = 1.
    """
    other = alpha.copy()
    other[np.arange(len(alpha)), label] = 0.0
    tau = other.sum(axis=1)
    gain = -np.expm1(-saturated_loss)
    theta = np.divide(tau, gain, out=np.where(tau > 0.0, np.inf, 0.0), where=gain > 0.0)
    theta = np.clip(theta, tau, np.maximum(tau, 1.0))
    # x log(x / theta) = x log x - x log theta keeps 0 log 0 = 0 without a special case.
    entropy = xlogy(other, other).sum(axis=1) - xlogy(tau, theta)
    rest = np.maximum(theta - tau, 0.0)
    return entropy + xlogy(rest, rest) - xlogy(rest, theta) - (1.0 - theta) * saturated_loss


def softmax_dual_value(problem, alpha):
    """D(alpha); a lower bound of the optimum when `alpha` is admissible."""
    losses = problem.weight * softmax_conjugate(alpha, problem.label, problem.saturated_loss)
    combination = (problem.weight[:, None] * alpha).T
    return -math.fsum(losses) - 0.5 * problem.C * exact_norm2(combination, problem.X)


def admissible_softmax_alpha(problem, alpha):
    """Repair a nearly admissible `alpha`.

    With an intercept the mass that rows of class k hand out must equal the mass that class k
    receives. That is the balancing of a K x K matrix by a diagonal similarity (Osborne): scale what
    class k hands out by r and what it receives by 1/r.
    """
    own = np.arange(len(alpha)), problem.label
    alpha = np.maximum(alpha, 0.0)
    alpha[own] = 0.0
    for _ in range(1000 if problem.fit_intercept else 0):
        worst = 0.0
        for k in range(alpha.shape[1]):
            rows = problem.label == k
            received = math.fsum(problem.weight * alpha[:, k])
            given = math.fsum(problem.weight[rows] * alpha[rows].sum(axis=1))
            if received == 0.0 or given == 0.0:
                alpha[rows], alpha[:, k] = 0.0, 0.0
                continue
            ratio = math.sqrt(received / given)
            alpha[rows] *= ratio
            alpha[:, k] /= ratio
            worst = max(worst, abs(ratio - 1.0))
        if worst < 1e-15:
            break
    alpha /= max(1.0, alpha.sum(axis=1).max())
    alpha[own] = -alpha.sum(axis=1)
    return alpha


def softmax_alpha_from_dual_coef(problem, support, dual_coef):
    """Per-row alpha from ``dual_coef[:, i] = -C w_i alpha_i``; a row of weight zero gets 0."""
    full = np.zeros((len(problem.label), len(problem.cap)))
    full[support] = -np.asarray(dual_coef).T
    scale = np.broadcast_to((problem.C * problem.weight)[:, None], full.shape)
    return np.divide(full, scale, out=np.zeros_like(full), where=scale > 0.0)


def softmax_relative_gap(problem, coef, intercept, alpha):
    """(P - D) / P, by plain subtraction."""
    primal = softmax_primal_value(problem, coef, intercept)
    return (primal - softmax_dual_value(problem, alpha)) / primal


@cache
def solve_softmax(problem):
    """Minimise P with CVXPY and Clarabel, certified by the dual point the solver returns."""
    cp = pytest.importorskip("cvxpy")
    rows = np.flatnonzero(problem.weight > 0.0)
    X, label, weight = problem.X[rows], problem.label[rows], problem.weight[rows]
    saturated = problem.saturated_loss[rows]
    n_classes = len(problem.cap)
    is_own = np.eye(n_classes)[label]
    capped = np.flatnonzero(saturated > 0.0)

    def attempt(unit, column, settings):
        coef, intercept = cp.Variable((n_classes, X.shape[1])), cp.Variable((1, n_classes))
        scores, xi = cp.Variable(is_own.shape), cp.Variable(len(rows))
        linear = (X / column) @ coef.T
        if problem.fit_intercept:
            linear = linear + np.ones((len(rows), 1)) @ intercept
        definition = scores == linear
        own = cp.sum(cp.multiply(is_own, scores), axis=1)
        constraints = [definition, xi >= cp.log_sum_exp(scores, axis=1) - own]
        if len(capped):
            constraints.append(xi[capped] >= saturated[capped])
        # The scores are free up to a common shift of the intercepts, which only costs digits.
        constraints.append(cp.sum(intercept) == 0.0)
        shrink = np.tile(1.0 / (column * np.sqrt(2.0 * problem.C * unit)), (n_classes, 1))
        penalty = cp.sum_squares(cp.multiply(shrink, coef))
        loss = cp.sum(cp.multiply(weight / unit, xi))
        run_clarabel(cp, cp.Problem(cp.Minimize(loss + penalty), constraints), settings)
        alpha = np.zeros((len(problem.label), n_classes))
        alpha[rows] = -definition.dual_value * unit / weight[:, None]
        alpha = admissible_softmax_alpha(problem, alpha)
        point = coef.value / column, intercept.value[0] * problem.fit_intercept
        return point, softmax_primal_value(problem, *point), softmax_dual_value(problem, alpha)

    return best_of_attempts(cp, attempt, X, weight)


# ---------------------------------------------------------------------------------- conic solver


def run_clarabel(cp, program, settings):
    """Solve in place; raise `SolverError` unless a point came back."""
    with warnings.catch_warnings():
        # cvxpy's own deprecations, and its warning about accuracy: the certificate judges that.
        warnings.filterwarnings("ignore", category=DeprecationWarning, module="cvxpy")
        warnings.filterwarnings("ignore", category=FutureWarning, module="cvxpy")
        warnings.filterwarnings("ignore", message="Solution may be inaccurate")
        program.solve(solver=cp.CLARABEL, max_iter=300, **settings)
    if program.status not in (cp.OPTIMAL, cp.OPTIMAL_INACCURATE):
        raise cp.SolverError(f"Clarabel stopped with status {program.status}")


def best_of_attempts(cp, attempt, X, weight):
    """The best primal point and the best lower bound over a few scalings of one program.

    Interior points stall on exponential cones now and then, and where they do depends on the
    scaling of the objective and of the columns and on the tolerance asked for, hence the list.
    """
    rms = np.sqrt(np.mean(X**2, axis=0))
    scaled, plain = np.where(rms > 0.0, rms, 1.0), np.ones(X.shape[1])
    point, objective, bound = None, np.inf, -np.inf
    plan = [
        (tol, relative, column)
        for tol in (1e-12, 1e-11, 1e-10, 1e-9)
        for relative in (False, True)
        for column in (scaled, plain)
    ]
    for tol, relative, column in plan:
        unit = objective if relative and np.isfinite(objective) else weight.sum()
        settings = {"tol_gap_abs": tol, "tol_gap_rel": tol, "tol_feas": tol}
        try:
            candidate, value, lower = attempt(unit, column, settings)
        except cp.SolverError:
            continue
        if value < objective:
            point, objective = candidate, value
        bound = max(bound, lower)
        if objective - bound <= ENOUGH * objective:
            break
    if point is None:
        raise RuntimeError("the conic solver found no point in any scaling")
    return OracleSolution(*point, objective, bound)


# --------------------------------------------------------------------------------------- kernels


@dataclass(frozen=True)
class KernelPoint:
    """A function of the kernel's space, from fitted attributes: values, P, D, and their rounding.

    ``f = K c`` with ``c = C w a s`` (or ``-C w alpha``), so that the penalty is ``c'Kc / (2C)`` in
    P and in D. `rounding` bounds what double precision may change in P and D, relative to P: each
    value of f carries an error of a few units in the last place of the sum of its terms.
    """

    alpha: np.ndarray
    scores: np.ndarray
    primal: float
    dual: float
    rounding: float

    @property
    def gap(self):
        return (self.primal - self.dual) / self.primal


def _spanned(K, support, dual_coef, intercept):
    """Values f + b (n, Q), c'Kc summed over outputs, and the error that each value may carry."""
    wide = np.asarray(K, np.longdouble)[:, support]
    coef = np.asarray(dual_coef, np.longdouble).T
    f = wide @ coef
    square = float(np.sum(coef * f[support]))
    error = 4e-16 * (np.abs(wide) @ np.abs(coef)).astype(float)
    return (f + np.asarray(intercept, np.longdouble)).astype(float), square, error


def kernel_point(problem, K, support, dual_coef, intercept):
    """P and D of a binary problem; its features are not looked at."""
    scores, square, error = _spanned(K, support, dual_coef, intercept)
    penalty = square / (2.0 * problem.C)
    alpha = alpha_from_dual_coef(problem, support, dual_coef)
    u = -problem.sign * scores[:, 0]
    losses = problem.weight * np.logaddexp(0.0, np.maximum(u, problem.floor))
    primal = math.fsum(losses) + penalty
    dual = -math.fsum(problem.weight * conjugate(alpha, problem.floor)) - penalty
    slopes = expit(np.maximum(u, problem.floor)) + alpha
    moved = float(np.sum(problem.weight * slopes * error[:, 0]))
    return KernelPoint(alpha, scores, primal, dual, moved / primal)


def softmax_kernel_point(problem, K, support, dual_coef, intercept):
    """P and D of a multi-class problem; its features are not looked at."""
    scores, square, error = _spanned(K, support, dual_coef, intercept)
    penalty = square / (2.0 * problem.C)
    alpha = softmax_alpha_from_dual_coef(problem, support, dual_coef)
    losses = problem.weight * np.maximum(softmax_losses(problem, scores), problem.saturated_loss)
    primal = math.fsum(losses) + penalty
    conjugates = softmax_conjugate(alpha, problem.label, problem.saturated_loss)
    dual = -math.fsum(problem.weight * conjugates) - penalty
    moved = float(np.sum(problem.weight[:, None] * error * (1.0 + np.abs(alpha))))
    return KernelPoint(alpha, scores, primal, dual, moved / primal)
