"""Sparse greedy minimax probability machine: bases, their widths and feature weights by a bound."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.optimize import minimize
from sklearn.utils import check_random_state

from grayzone.estimators._callbacks import (
    FIT_DEPTH,
    CallbackSupportMixin,
    fit_progress,
    with_callbacks,
)
from grayzone.estimators.minimax import INSTEAD_OF_BLOCKS, MinimaxClassifier, check_two_rows_each
from grayzone.numerics.checks import (
    HEAVIEST,
    Floats,
    all_or_nothing,
    check_choice,
    check_integer,
    check_number,
)
from grayzone.numerics.moments import ROUNDING
from grayzone.numerics.threads import own_threads, split
from grayzone.solvers.minimax.direction import bound_of
from grayzone.solvers.minimax.held_out import check_folds, held_out_folds, score_bounds
from grayzone.solvers.minimax.plane import NOWHERE, Plane, best_of_line, best_of_plane
from grayzone.sources.distinct import Distinct, distinct_rows
from grayzone.sources.labelled import Labelled, Rows
from grayzone.sources.open import open_rows, refuse_blocks, refuse_elsewhere

Array = Any

_RIDGE = 1e-10  # on the variance of a basis, relative to its mean square
_WIDEST = 1e3  # upper bound of gamma, in units of 1 / variance
_ENDLESS = 1e6  # m of a basis that tells nothing apart, for a search that knows no infinity
_SEPARATED = 1e-7  # m at which nothing is left to gain
_LARGEST_VALUE = 1e150  # of a basis, whose squares are doubles
_WORTH_A_THREAD = 200_000  # entries of X
_INSTEAD = "Give it a NumPy array, or use MinimaxProbabilityMachine."


class SparseMinimaxProbabilityMachine(CallbackSupportMixin, MinimaxClassifier):
    r"""Nonlinear minimax probability machine of few basis functions, chosen by its own bound.

    Basis functions :math:`K_\gamma(\cdot, v)` around training rows v are added one by one [1]_.
    Each time the best of a few random rows is taken, its kernel width or its weights of the
    features are improved, and a minimax problem in two dimensions, the model so far and the new
    basis, gives the coefficients (eq. (11)). All choices maximise the accuracy bound
    :math:`\Omega = 1/(1+m^2)`; no cross-validation is needed for them.

    Parameters
    ----------
    n_bases : int, default=50
        Most basis functions.
    n_candidates : int, default=5
        Random training rows that each basis is the best of.
    gamma : {"features", "width"} or float, default="features"
        "features" gives each basis a weight for each feature, eq. (18); "width" one width for all
        features, eq. (15); a float is that width. The former does not depend on the scales of the
        features, the others do.
    gamma_iter : int, default=1
        Quasi-Newton steps for gamma, from 1 / (n_features * variance). One to three: more of
        them overfit the bound.
    basis : {"gaussian", "poly", "tanh"} or callable, default="gaussian"
        :math:`e^{-\sum_l \gamma_l (x_l - v_l)^2}`,
        :math:`(\sum_l \gamma_l x_l v_l + c_0)^{degree}`,
        :math:`\tanh(\sum_l \gamma_l x_l v_l + c_0)`, or a function of X and one row that returns
        the values (n_samples,), which then has no gamma.
    degree : int, default=3
        Degree of "poly".
    coef0 : float, default=1.0
        Independent term of "poly" and "tanh".
    stopping : {"held-out"} or None, default="held-out"
        "held-out" takes the number of bases, up to ``n_bases``, with the largest held-out bound.
    cv : int, cross-validation generator, iterable or None, default=3
        Folds whose rows are held out, for the held-out bound; None only without ``stopping``. An
        integer is that many folds of distinct rows, by class.
    random_state : int, RandomState instance or None, default=None
        Draws candidates and folds, among distinct rows: their order and their repetitions make no
        difference.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
        Class labels; class x of the paper is ``classes_[1]``.
    accuracy_bound_ : float
        :math:`\Omega` on the training data. It was maximised over bases, widths and weights, and
        is broken by new data more often than not, once gamma is optimised.
    held_out_bound_ : float
        The bound to rely on: the smaller of the two classes' worst-case accuracies by the means
        and variances of scores of held-out rows, from ``cv`` fits to the others. NaN without ``cv``
        or where a class has too few rows.
    bound_path_ : ndarray of shape (n_iter_,)
        :math:`\Omega` after each basis.
    held_out_path_ : ndarray of shape (n_bases,)
        Held-out bound after each basis; only with ``cv``.
    bases_ : ndarray of shape (n_iter_, n_features)
        Rows v of the bases.
    gammas_ : ndarray of shape (n_iter_, n_features)
        Their weights of the features; equal ones for a width.
    feature_weights_ : ndarray of shape (n_features,)
        Mean weights of the features in units of their variances, of sum 1.
    dual_coef_ : ndarray of shape (1, n_iter_)
        Coefficients of the bases.
    intercept_ : ndarray of shape (1,)
        Independent term.
    n_iter_ : int
        Bases.
    n_features_in_ : int
        Features seen in fit.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Their names, where X has names that are all strings.

    See Also
    --------
    MinimaxProbabilityMachine : The exact machine, linear or on all rows of a kernel.

    References
    ----------
    .. [1] Strohmann, T., Grudic, G., Belitski, A. & DeCoste, D. (2004). Sparse greedy minimax
       probability machine classification. NIPS 16.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from grayzone import SparseMinimaxProbabilityMachine
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> clf = SparseMinimaxProbabilityMachine(n_bases=20, random_state=0).fit(X, y)
    >>> bool(clf.score(X, y) > clf.accuracy_bound_ > clf.held_out_bound_), len(clf.bases_) <= 20
    (True, True)
    """

    bases_: Floats
    gammas_: Floats
    feature_weights_: Floats
    bound_path_: Floats
    held_out_path_: Floats
    n_iter_: int

    def __init__(
        self,
        n_bases: int = 50,
        *,
        n_candidates: int = 5,
        gamma: str | float = "features",
        gamma_iter: int = 1,
        basis: Any = "gaussian",
        degree: int = 3,
        coef0: float = 1.0,
        stopping: str | None = "held-out",
        cv: int | None = 3,
        random_state: Any = None,
    ) -> None:
        self.n_bases = n_bases
        self.n_candidates = n_candidates
        self.gamma = gamma
        self.gamma_iter = gamma_iter
        self.basis = basis
        self.degree = degree
        self.coef0 = coef0
        self.stopping = stopping
        self.cv = cv
        self.random_state = random_state

    @all_or_nothing
    @with_callbacks
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit the machine; on any error or interruption the estimator stays as it was.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training data.
        y : array-like of shape (n_samples,)
            Labels of two classes.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each row in the moments.

        Returns
        -------
        self : SparseMinimaxProbabilityMachine
            The fitted estimator.
        """
        self._check_parameters()
        refuse_blocks(self, X, INSTEAD_OF_BLOCKS)
        refuse_elsewhere(self, X, _INSTEAD)
        labelled = open_rows(self, X, y, sample_weight, **self._accepted())
        check_two_rows_each(labelled)
        rng = check_random_state(self.random_state)
        seed = int(rng.randint(2**31 - 1))
        for name in [name for name in vars(self) if name.endswith("_path_")]:
            delattr(self, name)
        self.classes_ = labelled.classes
        with own_threads(), fit_progress(self, "basis", self.n_bases, X=X, y=y) as report:
            n_bases = self._held_out(labelled, rng, seed)
            greedy = self._greedy(labelled.all_held, seed)
            path = []
            for m in greedy.grow(n_bases):
                path.append(bound_of(1.0 / m))
                if report is not None and report(greedy.attributes, accuracy_bound=path[-1]):
                    break
        self._expose(greedy, path)
        self._spread = greedy.spread()
        self._class_shares = (float(labelled.prior[0]), float(labelled.prior[1]))
        return self

    def _check_parameters(self) -> None:
        check_integer("n_bases", self.n_bases, least=1)
        check_integer("n_candidates", self.n_candidates, least=1)
        check_integer("gamma_iter", self.gamma_iter, least=0)
        if isinstance(self.gamma, str):
            check_choice("gamma", self.gamma, ("features", "width"))
        else:
            if check_number("gamma", self.gamma, above=0.0) > HEAVIEST:
                raise ValueError(f"gamma must be at most {HEAVIEST:g}; got {self.gamma!r}.")
        if not callable(self.basis):
            check_choice("basis", self.basis, ("gaussian", "poly", "tanh"))
        check_integer("degree", self.degree, least=1)
        check_number("coef0", self.coef0)
        check_folds(self.cv)
        if self.stopping is not None:
            check_choice("stopping", self.stopping, ("held-out",))
            if self.cv is None:
                raise ValueError("stopping='held-out' needs folds: cv must not be None.")

    def _family(self) -> Family:
        if callable(self.basis):
            return Family("callable", function=self.basis)
        return Family(self.basis, self.degree, float(self.coef0))

    def _greedy(self, rows: Rows, seed: int) -> _Greedy:
        X = rows.X.astype(np.float64, copy=False)
        return _Greedy(self._family(), distinct_rows(X, rows.codes, rows.weight), self, seed)

    def _held_out(self, labelled: Labelled, rng: np.random.RandomState, seed: int) -> int:
        """Set the held-out bounds, and return the number of bases to use."""
        self.held_out_bound_ = float("nan")
        rows = labelled.all_held
        folds = held_out_folds(self.cv, labelled, rows.X, rng)
        if not folds:
            return self.n_bases
        along = np.concatenate(
            [
                self._greedy(rows.take(train), seed).scores_along(rows.X[out], self.n_bases)
                for train, out in folds
            ],
            axis=1,
        )
        out = np.concatenate([out for _, out in folds])
        codes, weight = rows.codes[out], rows.weight[out]
        self.held_out_path_ = np.array([min(score_bounds(s, codes, weight)) for s in along])
        stops = self.stopping == "held-out"
        best = int(np.argmax(self.held_out_path_)) if stops else self.n_bases - 1
        self.held_out_bound_ = float(self.held_out_path_[best])
        return best + 1

    def _expose(self, greedy: _Greedy, path: list[float]) -> None:
        if not path:
            warnings.warn(
                "No basis function has different means in the two classes: the bound is 0.",
                UserWarning,
                stacklevel=FIT_DEPTH,
            )
        for name, value in greedy.attributes().items():
            setattr(self, name, value)
        self.bound_path_ = np.array(path)
        self.accuracy_bound_ = path[-1] if path else 0.0
        d = self.n_features_in_
        weights = np.sum(self.gammas_ * greedy.variances, axis=0)
        total = float(np.sum(weights))
        self.feature_weights_ = weights / total if total > 0.0 else np.full(d, 1.0 / d)
        self.n_iter_ = len(path)

    def _checked(self, X: Array, method: str) -> Array:
        refuse_elsewhere(self, X, _INSTEAD)
        return super()._checked(X, method)

    def _scores(self, X: Array) -> Array:
        X = X.astype(np.float64, copy=False)
        values = self._fitted_family.matrix(X, self.bases_, self.gammas_)
        return values @ self.dual_coef_[0] + self.intercept_[0]


@dataclass(frozen=True)
class Family:
    """Basis functions phi(s), where s is linear in gamma: s = sum_l gamma_l D_l(x, v)."""

    name: str
    degree: int = 3
    coef0: float = 1.0
    function: Callable[[Array, Array], Array] | None = field(default=None, compare=False)

    def products(self, X: Array, v: Array) -> Array:
        """D, (n, d)."""
        return -((X - v) ** 2) if self.name == "gaussian" else X * v

    def value(self, s: Array) -> Array:
        """phi(s)."""
        if self.name == "gaussian":
            return np.exp(s)
        return (s + self.coef0) ** self.degree if self.name == "poly" else np.tanh(s + self.coef0)

    def slope(self, s: Array, value: Array) -> Array:
        """Derivative of phi, given its value."""
        if self.name == "gaussian":
            return value
        if self.name == "poly":
            return self.degree * (s + self.coef0) ** (self.degree - 1)
        return 1.0 - value**2

    def called(self, X: Array, v: Array) -> Array:
        """Values of a function that was given."""
        assert self.function is not None
        values = np.asarray(self.function(X, v), dtype=np.float64)
        if values.shape != (X.shape[0],) or not np.all(np.isfinite(values)):
            raise ValueError(
                f"basis must return finite values of shape {(X.shape[0],)} for so many rows; got "
                f"shape {values.shape}."
            )
        return values

    def matrix(self, X: Array, centres: Array, gammas: Array) -> Array:
        """Values of all bases, (n, k)."""
        if self.name == "callable":
            columns = [self.called(X, v) for v in centres]
            return np.column_stack(columns) if columns else np.empty((X.shape[0], 0))
        if self.name != "gaussian":
            return self.value(X @ (gammas * centres).T)
        # around the mean of the bases, so that large coordinates do not cancel
        middle = centres.mean(axis=0) if len(centres) else 0.0
        X, centres = X - middle, centres - middle
        s = 2.0 * X @ (gammas * centres).T - (X * X) @ gammas.T
        return self.value(np.minimum(s - np.sum(gammas * centres**2, axis=1), 0.0))


class _Basis(NamedTuple):
    """A candidate with what it comes to."""

    plane: Plane
    row: int
    gamma: Array  # (d,)
    values: Array  # (n,)


class _Greedy:
    """A model that bases are being added to.

    ``scores`` are its values on the rows; the means of the classes differ by 1 there.
    """

    def __init__(
        self, family: Family, rows: Distinct, settings: SparseMinimaxProbabilityMachine, seed: int
    ) -> None:
        self.family, self.rows, self.settings = family, rows, settings
        self.rng = np.random.RandomState(seed)
        mass = rows.weight * (rows.codes == 1), rows.weight * (rows.codes == 0)
        self.shares = [m / np.sum(m) for m in mass]  # of classes x and y
        everywhere = rows.weight / np.sum(rows.weight)
        mean = everywhere @ rows.X
        self.variances = everywhere @ (rows.X - mean) ** 2
        # what rounding makes of a constant feature is no variance
        self.variances[self.variances <= (ROUNDING * mean) ** 2] = 0.0
        self.scores = np.zeros(rows.codes.size)
        self.centres: list[Array] = []
        self.gammas: list[Array] = []
        self.coefs: list[float] = []
        self.intercept = 0.0

    def grow(self, n_bases: int) -> Iterator[float]:
        """Add bases, giving m after each, until none is left that tells the classes apart."""
        for _ in range(n_bases):
            best = self._best_candidate()
            if best.plane is NOWHERE:
                return
            self._add(best)
            yield max(best.plane.m, 1e-150)
            if best.plane.m < _SEPARATED:
                return

    def attributes(self) -> dict[str, Any]:
        """Return what a fitted machine of the bases by now computes its scores from."""
        d = self.variances.size
        return {
            "_fitted_family": self.family,  # whatever the parameters are by then
            "bases_": np.array(self.centres).reshape(-1, d),
            "gammas_": np.array(self.gammas).reshape(-1, d),
            "dual_coef_": np.array(self.coefs).reshape(1, -1),
            "intercept_": np.array([self.intercept]),
        }

    def spread(self) -> tuple[float, float, float]:
        """Return the distance of the threshold from the mean of class x, and the deviations."""
        if not self.centres:
            return 0.0, 0.0, 0.0
        return self._reach, self._last.s_y, self._last.s_x

    def scores_along(self, X: Array, n_bases: int) -> Array:
        """Scores of other rows after each basis, (n_bases, n); if it ends early the last stay."""
        X = X.astype(np.float64, copy=False)
        scores, path = np.zeros(X.shape[0]), np.zeros((n_bases, X.shape[0]))
        for k, _ in enumerate(self.grow(n_bases)):
            new = self.family.matrix(X, self.centres[-1][None], self.gammas[-1][None])[:, 0]
            scores = self._last.first * scores + self._last.second * new - self._shift
            path[k:] = scores
        return path

    def _add(self, best: _Basis) -> None:
        plane = best.plane
        after = plane.first * self.scores + plane.second * best.values
        # b = a'x - s_x / m: as many standard deviations from either mean
        self._reach = plane.s_x / plane.m if plane.m > 0.0 else 0.5
        self._last, self._shift = plane, float(self.shares[0] @ after) - self._reach
        self.scores = after - self._shift
        self.coefs = [plane.first * c for c in self.coefs] + [plane.second]
        self.intercept = plane.first * self.intercept - self._shift
        self.centres.append(self.rows.X[best.row])
        self.gammas.append(best.gamma)

    def _best_candidate(self) -> _Basis:
        n = self.rows.codes.size
        chosen = self.rng.choice(n, min(self.settings.n_candidates, n), replace=False)

        def part(start: int, stop: int) -> list[_Basis]:
            return [self._improved(int(row)) for row in chosen[start:stop]]

        threads = self.rows.X.size > _WORTH_A_THREAD and self.family.name != "callable"
        found = [basis for part in split(chosen.size, part, worth=threads) for basis in part]
        return min(found, key=lambda basis: basis.plane.m)

    @np.errstate(over="ignore", invalid="ignore")
    def _improved(self, row: int) -> _Basis:
        """Candidate of a row, its gamma improved by a few bounded quasi-Newton steps."""
        X, v = self.rows.X, self.rows.X[row]
        d = X.shape[1]
        if self.family.name == "callable":
            values = self.family.called(X, v)
            return _Basis(self._plane(values)[0], row, np.zeros(d), values)
        D, unit, start = self._directions(self.family.products(X, v))

        def m_and_gradient(g: Array) -> tuple[float, Array]:
            s = D @ g
            values = self.family.value(s)
            plane, gradient = self._plane(values)
            return min(plane.m, _ENDLESS), D.T @ (gradient * self.family.slope(s, values))

        if not isinstance(self.settings.gamma, str) or self.settings.gamma_iter == 0:
            g = start
        else:
            options = {"maxiter": self.settings.gamma_iter}
            bounds = [(0.0, _WIDEST)] * start.size
            g = minimize(
                m_and_gradient, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options
            ).x
        values = self.family.value(D @ g)
        if not np.all(np.abs(values) < _LARGEST_VALUE):
            raise ValueError(
                f"Values of basis={self.settings.basis!r} are above {_LARGEST_VALUE:g}: scale the "
                "features, or lower gamma or the degree."
            )
        return _Basis(self._plane(values)[0], row, np.broadcast_to(g * unit, d).copy(), values)

    def _directions(self, D: Array) -> tuple[Array, Array, Array]:
        """D for each free gamma, what one unit of these is in gammas, and where to start."""
        gamma, d = self.settings.gamma, D.shape[1]
        if gamma == "features":
            # in units of the variances; a constant feature has no say
            unit = np.where(self.variances > 0.0, 1.0 / np.maximum(self.variances, 1e-300), 0.0)
            return D * unit, unit, np.full(d, 1.0 / d)
        width = 1.0 / max(float(np.mean(self.variances)), 1e-300)
        start = 1.0 / d if isinstance(gamma, str) else gamma / width
        return np.sum(D, axis=1, keepdims=True) * width, np.array(width), np.array([start])

    def _plane(self, values: Array) -> tuple[Plane, Array]:
        """Best coefficients of the model and a new basis, and the gradient of m in its values.

        dm / dK_i = a_2 (s_i / sigma_x - m) p_i on class x, a_2 (s_i / sigma_y + m) p_i on class y,
        with s_i the centred score and p_i the share of the row in its class.
        """
        means, parts, centred = [], [], []
        ridge = _RIDGE * float(np.mean(values**2))
        for share in self.shares:
            mean, before = float(share @ values), float(share @ self.scores)
            new, old = values - mean, self.scores - before
            weighted = share * new
            parts.append(
                (float(share @ old**2), float(weighted @ old), float(weighted @ new) + ridge)
            )
            means.append((before, mean))
            centred.append((old, new))
        d1, d2 = means[0][0] - means[1][0], means[0][1] - means[1][1]
        if abs(d2) <= ROUNDING * (abs(means[0][1]) + abs(means[1][1])):
            d2 = 0.0
        if self.centres:
            plane = best_of_plane((d1, d2), parts[0], parts[1])
        else:
            plane = best_of_line(d2, parts[0][2], parts[1][2])
        gradient = np.zeros(values.size)
        if plane is NOWHERE:
            return plane, gradient
        for (old, new), share, s, sign in zip(
            centred, self.shares, (plane.s_x, plane.s_y), (-1.0, 1.0), strict=True
        ):
            scores = plane.first * old + plane.second * new
            gradient += plane.second * share * (scores / max(s, 1e-300) + sign * plane.m)
        return plane, gradient
