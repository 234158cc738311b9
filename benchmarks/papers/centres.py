"""Kernel logistic regression on q given centres, and the ways in which others choose them.

All minimise H = Σ log-loss + ‖f‖² / 2C over f = b + Σ aⱼ K(·, zⱼ), the criterion of Zhu & Hastie
(2002); they differ in the centres z:

- import points, chosen by H, from all rows;
- `at_random`, whose span is that of Williams & Seeger's Nyström approximation;
- `of_clusters`, Lin et al. (2001): a random row of each cluster;
- `of_greedy_columns`, Smola & Schölkopf (2000): columns that leave least of the kernel matrix, here
  the best of all rows at each step where they draw 59;
- `of_descent`, Wu, Schölkopf & Bakır (2006): anywhere, by descent of H along the centres.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve, cholesky, solve_triangular
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.cluster import KMeans
from sklearn.metrics.pairwise import rbf_kernel

JITTER = 1e-10  # of the kernel matrix of the centres, relative to its diagonal of ones
NEWTON_STEPS, NEWTON_TOL = 60, 1e-9


@dataclass(frozen=True)
class Expansion:
    """A fitted function: centres, coefficients, intercept, what is left of H, and the way there."""

    centres: np.ndarray
    coef: np.ndarray
    intercept: float
    gamma: float
    objective: float
    design: np.ndarray  # (n, q + 1), in an orthonormal basis of the span and the constant
    p: np.ndarray
    penalty: float
    n_solves: int = 1  # fits to given centres that it took

    def probability(self, X: np.ndarray) -> np.ndarray:
        """Return the probability of class 1 of rows."""
        return expit(rbf_kernel(X, self.centres, gamma=self.gamma) @ self.coef + self.intercept)

    def gacv(self, y: np.ndarray) -> float:
        """Generalised approximate cross-validation of the log-loss (Xiang & Wahba, 1996).

        Mean loss + tr(H) / n · Σ yᵢ(yᵢ − pᵢ) / (n − tr(WH)), H = ∂f / ∂y being the influence of the
        labels on the scores and W the curvatures of the losses.
        """
        n, weight = len(y), self.p * (1.0 - self.p)
        hessian = (self.design * weight[:, None]).T @ self.design + _ridge(self)
        influence = np.einsum("ij,ij->i", self.design, np.linalg.solve(hessian, self.design.T).T)
        loss = -np.mean(np.log(np.where(y == 1, self.p, 1.0 - self.p)))
        rest = float(np.sum(y * (y - self.p)) / (n - weight @ influence))
        return float(loss + influence.sum() / n * rest)


def _ridge(fit: Expansion) -> np.ndarray:
    diagonal = np.full(fit.design.shape[1], fit.penalty)
    diagonal[-1] = 0.0  # the intercept
    return np.diag(diagonal)


def fit_to(X: np.ndarray, y: np.ndarray, centres: np.ndarray, C: float, gamma: float) -> Expansion:
    """Minimise H over the span of some centres, by Newton's method with halved steps."""
    between = rbf_kernel(centres, gamma=gamma) + JITTER * np.eye(len(centres))
    root = cholesky(between, lower=True)
    span = solve_triangular(root, rbf_kernel(centres, X, gamma=gamma), lower=True).T
    design = np.column_stack([span, np.ones(len(y))])
    ridge = np.append(np.full(len(centres), 1.0 / C), 0.0)
    sign = np.where(y == 1, 1.0, -1.0)

    def criterion(beta: np.ndarray) -> float:
        losses = np.logaddexp(0.0, -sign * (design @ beta))
        return float(losses.sum() + 0.5 * ridge @ beta**2)

    share = np.clip(np.mean(y), 1e-3, 1.0 - 1e-3)
    beta = np.append(np.zeros(len(centres)), np.log(share / (1.0 - share)))
    value = criterion(beta)
    for _ in range(NEWTON_STEPS):
        p = expit(design @ beta)
        gradient = design.T @ (p - y) + ridge * beta
        weight = np.maximum(p * (1.0 - p), 1e-12)
        factor = cho_factor((design * weight[:, None]).T @ design + np.diag(ridge))
        step = cho_solve(factor, gradient)
        decrement, size = float(gradient @ step), 1.0
        if decrement <= NEWTON_TOL * (1.0 + value):
            break
        while criterion(beta - size * step) > value and size > 1e-10:
            size *= 0.5
        beta = beta - size * step
        value = criterion(beta)
    coef = solve_triangular(root, beta[:-1], lower=True, trans="T")
    p = expit(design @ beta)
    return Expansion(centres, coef, float(beta[-1]), gamma, value, design, p, 1.0 / C)


def at_random(X: np.ndarray, q: int, gamma: float, seed: int) -> np.ndarray:
    """Return rows drawn at random."""
    return X[np.random.default_rng(seed).choice(len(X), q, replace=False)]


def of_clusters(X: np.ndarray, q: int, gamma: float, seed: int) -> np.ndarray:
    """Return one row of each of q clusters, drawn at random."""
    rng = np.random.default_rng(seed)
    labels = KMeans(q, n_init=3, random_state=seed).fit_predict(X)
    return X[[rng.choice(np.flatnonzero(labels == k)) for k in np.unique(labels)]]


def of_greedy_columns(X: np.ndarray, q: int, gamma: float, seed: int) -> np.ndarray:
    """Return rows whose kernel columns leave, one after the other, least of the kernel matrix."""
    residual, chosen = rbf_kernel(X, gamma=gamma), list[int]()
    for _ in range(q):
        diagonal = np.maximum(np.diag(residual), 1e-12)
        gains = np.einsum("ij,ij->j", residual, residual) / diagonal
        gains[chosen] = -np.inf
        k = int(np.argmax(gains))
        chosen.append(k)
        residual = residual - np.outer(residual[:, k], residual[:, k]) / diagonal[k]
    return X[chosen]


def of_descent(
    X: np.ndarray, y: np.ndarray, start: np.ndarray, C: float, gamma: float, steps: int = 100
) -> Expansion:
    """Move centres downhill: H at the best coefficients is a function of the centres alone.

    Its gradient is that at fixed coefficients, which are optimal; K(x, z) = exp(−γ|x − z|²).
    """
    n_solves = 0

    def value_and_slope(flat: np.ndarray) -> tuple[float, np.ndarray]:
        nonlocal n_solves
        n_solves += 1
        Z = flat.reshape(start.shape)
        fit = fit_to(X, y, Z, C, gamma)
        # ∂H/∂zⱼ = 2γaⱼ [Σᵢ (pᵢ − yᵢ) Kᵢⱼ (xᵢ − zⱼ) + Σₖ aₖ Kₖⱼ (zₖ − zⱼ) / C]
        pull = (fit.p - y)[:, None] * rbf_kernel(X, Z, gamma=gamma)
        own = fit.coef[:, None] * rbf_kernel(Z, gamma=gamma) / C
        towards = pull.T @ X + own.T @ Z - (pull.sum(0) + own.sum(0))[:, None] * Z
        return fit.objective, (2.0 * gamma * fit.coef[:, None] * towards).ravel()

    found: Any = minimize(
        value_and_slope, start.ravel(), jac=True, method="L-BFGS-B", options={"maxiter": steps}
    )
    fit = fit_to(X, y, found.x.reshape(start.shape), C, gamma)
    return Expansion(**{**vars(fit), "n_solves": n_solves + 1})
