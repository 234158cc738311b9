"""The import vector machine in plain dense algebra, with no code of the package.

`Plain` is criterion (6) and (9) of Zhu & Hastie (2002), written in the coefficients of kernel
columns and minimised by Newton's method: what engine and estimators are compared with.
"""

import numpy as np
from scipy.spatial.distance import cdist


def gaussian_kernel(X, Z, gamma):
    return np.exp(-gamma * cdist(X, Z, "sqeuclidean"))


class Plain:
    """Criterion (6) or (9): sum of w (-log p_y) + (1/2C) sum over outputs of a'K_S a.

    Coefficients are (q + 1, Q), those of the intercepts last. Classes that have no function of
    their own, the first of two or the reference, have the score zero.
    """

    def __init__(self, K, y, C=1.0, weight=None, intercept=True, parametrization="symmetric"):
        classes, label = np.unique(y, return_inverse=True)
        self.K, self.penalty, self.intercept = K, 1.0 / C, intercept
        self.weight = np.ones(len(y)) if weight is None else np.asarray(weight, float)
        self.own = np.eye(len(classes))[label]
        if len(classes) == 2:
            self.free = [1]
        else:
            self.free = list(range(len(classes) - (parametrization == "reference")))

    def columns(self, S):
        return np.column_stack([self.K[:, S], np.ones(len(self.K))])

    def start(self, S):
        return np.zeros((len(S) + 1, len(self.free)))

    def value(self, S, A):
        a = A[:-1]
        return self.loss(self.columns(S) @ A) + 0.5 * self.penalty * np.sum(
            a * (self.K[np.ix_(S, S)] @ a)
        )

    def loss(self, scores):
        own, shifted, total = self.parts(scores)
        return self.weight @ (np.log(total) - np.sum(own * shifted, axis=1))

    def probabilities(self, scores):
        _, shifted, total = self.parts(scores)
        return np.exp(shifted) / total[:, None]

    def parts(self, scores):
        """Own classes, scores of all classes less the largest one, and the sum of their powers."""
        full = np.zeros_like(self.own)
        full[:, self.free] = scores
        shifted = full - full.max(axis=1, keepdims=True)
        return self.own, shifted, np.exp(shifted).sum(axis=1)

    def derivatives(self, S, A):
        """Gradient and Hessian, output by output; without an intercept its place is held at 0."""
        D, (p, n_outputs) = self.columns(S), A.shape
        P = self.probabilities(D @ A)
        ridge = np.zeros((p, p))
        ridge[:-1, :-1] = self.penalty * self.K[np.ix_(S, S)]
        gradient = D.T @ (self.weight[:, None] * (P - self.own)[:, self.free]) + ridge @ A
        H = np.zeros((n_outputs, p, n_outputs, p))
        for k, i in enumerate(self.free):
            for m, j in enumerate(self.free):
                w = self.weight * P[:, i] * ((i == j) - P[:, j])
                H[k, :, m] = D.T @ (w[:, None] * D) + (k == m) * ridge
        if not self.intercept:
            gradient[-1] = 0.0
            H[:, -1], H[:, :, :, -1] = 0.0, 0.0
            H[np.arange(n_outputs), -1, np.arange(n_outputs), -1] = 1.0
        elif n_outputs == self.own.shape[1]:
            H[:, -1, :, -1] += 1.0  # the same constant in all scores changes nothing
        return gradient.T.ravel(), H.reshape(n_outputs * p, n_outputs * p)

    def newton_step(self, S, A):
        """Change of the coefficients, and the decrease of the quadratic model."""
        gradient, H = self.derivatives(S, A)
        change = -np.linalg.solve(H, gradient)
        return change.reshape(A.shape[::-1]).T, -0.5 * gradient @ change

    def fit(self, S, A=None):
        """Minimum over the coefficients of S, and where it is."""
        A = self.start(S) if A is None else A
        value = self.value(S, A)
        for _ in range(100):
            change, gain = self.newton_step(S, A)
            before, value = value, self.value(S, A + change)
            while value > before and gain > 1e-13 * before:  # rounding is no reason to go back
                change = 0.5 * change
                value = self.value(S, A + change)
            A = A + change
            if gain <= 1e-13 * value:
                return value, A
        raise AssertionError("the plain Newton method did not converge")

    def best_addition(self, S, A):
        """Step (B2) and (B3): the best row to add, the criterion with it, and coefficients."""
        rest = np.setdiff1d(np.arange(len(self.K)), S)
        fits = [self.fit([*S, row], np.insert(A, len(S), 0.0, axis=0)) for row in rest]
        best = int(np.argmin([value for value, _ in fits]))
        return int(rest[best]), *fits[best]

    def greedy(self, n_points):
        """The basic algorithm: points in order of choice, and the criterion after each."""
        S, path = [], []
        _, A = self.fit(S)
        for _ in range(n_points):
            row, value, A = self.best_addition(S, A)
            S.append(row)
            path.append(value)
        return S, path


# ------------------------------------------------------------------------------- problems
