r"""Functions that few rows span, as linear functions of features: a design whose rows are mapped.

With centres Z, :math:`K_{ZZ} = L L'` and :math:`\varphi(x) = L^{-1} k(Z, x)`, the functions
:math:`f = \sum_j a_j k(z_j, \cdot)` are :math:`w'\varphi` with :math:`w = L'a` and the same norm,
:math:`\|f\|^2 = a'K_{ZZ}a = \|w\|^2`. So every problem on linear functions is one on these, with
rows :math:`\varphi(x)` in place of x.

Scores and gradients do not need the features, only kernel values: :math:`w'\varphi(x) = k(x, Z) a`.
Both are in double precision, always. Gram matrices need the features, and n m^2 multiplications. A
Newton step may be taken with a Hessian that is a little wrong, so that large ones are summed from
features in single precision: of both factors of a product the same rounded numbers, so that what
comes out is positive definite and close to the truth in every direction, small ones included.
Where a device multiplies numbers in half precision and adds in single, features are rounded to
that: no more coarsely than the fastest products in single precision would. Where Hessians are
those of few rows, what is kept of all rows are the values: features of many rows and centres are as
dear as a Gram matrix.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from functools import cache, cached_property, partial
from typing import Any

import scipy.sparse as sp
from array_api_compat import device, is_torch_array

from grayzone.numerics.designs import DenseDesign, Design
from grayzone.numerics.kernels import TILE_COLUMNS, TILE_ROWS, WORTH_A_THREAD, Kernel
from grayzone.numerics.namespace import array_namespace, is_numpy_array
from grayzone.numerics.threads import PRODUCTS, split

Array = Any

# Entries of the features that are made at a time, in NumPy's memory and on a device.
_CHUNK, _DEVICE_CHUNK = 2**21, 2**26
_LEAST_ROWS = 1024  # of a chunk: adding up sums of the size of the centres squared has its price
# Columns of a triangular factor or of a Gram matrix that are made at a time, as a share of all:
# what is known to be zero, or to be the transpose of what is there, is left out.
_PANELS, _LEAST_PANEL = 8, 512
# Multiply-adds of a Gram matrix from which single precision pays.
_WORTH_ROUNDING = 2e9
# Largest energy of rounding errors of features that are made in single precision, all rows added.
_NOISE = 1e-6
_SINGLE = 6e-8
# Rows times squared centres, and rows a centre, from which values are kept in place of features if
# these are asked for of few rows.
_DEAR, _MANY = 1e10, 50
# Rounding error of the smallest numbers in half precision; columns that products of them like.
_HALF, _ALIGNED = 3e-8, 8


def are_dear(n_rows: int, n_centres: int) -> bool:
    """Whether features of so many rows are not worth their price if few are asked for."""
    return n_rows >= _MANY * n_centres and n_rows * float(n_centres) ** 2 >= _DEAR


@dataclass(frozen=True, eq=False)
class CentreMap:
    """The map from rows to features: small beside the rows, for it travels to where they are.

    Attributes
    ----------
    kernel : Kernel
        The kernel.
    rows : {array, sparse matrix} of shape (m, n_features)
        The centres.
    right : array
        Their right factor.
    inverse : array of shape (m, m)
        Inverse of the Cholesky factor of their kernel values.
    """

    kernel: Kernel
    rows: Array
    right: Array
    inverse: Array

    @property
    def n_centres(self) -> int:
        """How many centres there are."""
        return int(self.inverse.shape[0])

    @cached_property
    def _steepness(self) -> float:
        """Largest factor by which rounding errors of kernel values grow in a feature."""
        xp = array_namespace(self.inverse)
        return float(xp.max(xp.sum(self.inverse**2, axis=1))) ** 0.5

    @cached_property
    def _rounded(self) -> Array:
        xp = array_namespace(self.inverse)
        return xp.astype(self.inverse, xp.float32)

    def first(self, k: int) -> CentreMap:
        """Return the map of the first centres: its features are the first ones of this."""
        inverse = array_namespace(self.inverse).asarray(self.inverse[:k, :k], copy=True)
        return CentreMap(self.kernel, self.rows[:k, :], self.right[:k, :], inverse)

    def expansion(self, slopes: Array) -> Array:
        """Coefficients (Q, m) of the centres for coefficients (Q, m) of the features."""
        return array_namespace(slopes).matmul(slopes, self.inverse)

    def slopes(self, expansion: Array) -> Array:
        """Coefficients (Q, m) of the features for those of the centres: a L."""
        xp = array_namespace(expansion)
        return xp.linalg.solve(self.inverse.T, expansion.T).T

    def values(self, X: Array) -> Array:
        """Kernel values (n, m) of rows with the centres, in double precision."""
        return self.kernel.between(self.kernel.left(self._stored(X)), self.right)

    def _stored(self, X: Array) -> Array:
        """X dense or sparse as the centres are."""
        if sp.issparse(X) == sp.issparse(self.right):
            return X
        return X.toarray() if sp.issparse(X) else sp.csr_array(X)

    def scores(self, X: Array, slopes: Array) -> Array:
        """Scores (n, Q) of rows for coefficients (Q, m) of the features."""
        return self.kernel.product(X, self.right, self.expansion(slopes).T)

    def features(self, X: Array) -> Array:
        """Features (n, m) of rows, in double precision."""
        return self.features_of(self.values(X))

    def features_of(self, values: Array) -> Array:
        """Features (n, m) of rows with these kernel values."""
        return self._triangular(values, self.inverse)

    def rounded_features_of(self, values: Array, n_rows: int) -> Array:
        """Features in single precision, good enough for a Gram matrix of so many rows in all.

        Where the centres are far enough apart all of the work is in single precision.
        """
        xp = array_namespace(values)
        if n_rows * (_SINGLE * self._steepness) ** 2 <= _NOISE:
            return self._triangular(xp.astype(values, xp.float32), self._rounded)
        return xp.astype(self._triangular(values, self.inverse), xp.float32)

    def _triangular(self, values: Array, inverse: Array) -> Array:
        """Product of kernel values and the transposed inverse, of which one half is zero."""
        xp, m = array_namespace(values), self.n_centres
        step = max(_LEAST_PANEL, -(-m // _PANELS))
        if m <= step:
            return xp.matmul(values, inverse.T)
        out = xp.empty(values.shape, dtype=values.dtype, device=device(values))
        for c in range(0, m, step):
            d = min(m, c + step)
            out[:, c:d] = xp.matmul(values[:, :d], inverse[c:d, :d].T)
        return out

    def pulled(self, X: Array, residual: Array) -> Array:
        """Sums (Q, m) of features times residuals (n, Q), in double precision."""
        n, m = X.shape[0], self.n_centres
        xp, here = array_namespace(residual), is_numpy_array(residual)
        rows, columns = (TILE_ROWS, TILE_COLUMNS) if here else (max(1, _DEVICE_CHUNK // m), m)
        columns = m if callable(self.kernel.name) else columns

        def part(start: int, stop: int) -> Array:
            shape = residual.shape[1], m
            total = xp.zeros(shape, dtype=xp.float64, device=device(residual))
            for a in range(start, stop, rows):
                b = min(stop, a + rows)
                left = self.kernel.left(self._stored(X[a:b, :]))
                for c in range(0, m, columns):
                    d = min(m, c + columns)
                    some = self.right if (c, d) == (0, m) else self.right[c:d, :]
                    values = self.kernel.between(left, some)
                    total[:, c:d] += xp.matmul(residual[a:b, :].T, values)
            return total

        threads = n * m / WORTH_A_THREAD if here and not callable(self.kernel.name) else 1
        return self.feature_sums(sum(split(n, part, threads=threads, kind=PRODUCTS)))

    def feature_sums(self, value_sums: Array) -> Array:
        """Sums (Q, m) of features, for those of kernel values."""
        return array_namespace(value_sums).matmul(value_sums, self.inverse.T)


class CentredDesign(Design):
    """Rows as features of centres: kept as far as there is room, else made when asked for.

    Parameters
    ----------
    X : {array, sparse matrix} of shape (n, n_features)
        The rows.
    features : CentreMap
        What their features are.
    fit_intercept : bool
        Whether there is an intercept.
    budget : float
        Bytes that features may take.
    coarse : bool
        Whether large Gram matrices may be in single precision.
    few : bool
        Whether Gram matrices will be asked for of few rows only, so that features of many are not
        worth their price: then kernel values are kept instead.
    """

    exact_is_dear = True

    def __init__(
        self,
        X: Array,
        features: CentreMap,
        fit_intercept: bool = True,
        *,
        budget: float = 1e9,
        coarse: bool = True,
        few: bool = False,
    ) -> None:
        self.X, self.features, self.fit_intercept = X, features, fit_intercept
        self.n_rows, self.n_features = int(X.shape[0]), features.n_centres
        self.n_coef = self.n_features + int(fit_intercept)
        self.budget, self.coarse = budget, coarse
        self.few = few
        self._last: tuple[Array, Design] | None = None  # rows that were taken, and their design

    @property
    def _here(self) -> bool:
        return is_numpy_array(self.features.inverse)

    @cached_property
    def _penalised(self) -> Array:
        inverse = self.features.inverse
        xp = array_namespace(inverse)
        ones = xp.ones(self.n_coef, dtype=xp.float64, device=device(inverse))
        if self.fit_intercept:
            ones[-1] = 0.0
        return ones

    def precisely(self, coarse: bool) -> CentredDesign:
        """Return the same design, with Gram matrices that may be coarse, or may not."""
        if coarse == self.coarse:
            return self
        other = copy(self)
        other.coarse = coarse
        return other

    def of_first(self, k: int) -> Design:
        """Return the design of the features of the first centres."""
        features, own = self.features.first(k), 0.5 * self.budget
        part = CentredDesign(self.X, features, self.fit_intercept, budget=own, coarse=self.coarse)
        if self.kept is not None:
            part.kept = DenseDesign(self.kept.X[:, :k], self.fit_intercept)
        elif self.kept_values is not None:
            part.few, part.kept_values = True, self.kept_values[:, :k]
        return part

    @property
    def quick_grams(self) -> bool:
        """Whether Gram matrices cost no more than a few readings of the features."""
        return self.coarse and _adds_halves(self.features.inverse)

    # ------------------------------------------------------------------------------------------
    # Features that are kept
    # ------------------------------------------------------------------------------------------

    @cached_property
    def kept(self) -> DenseDesign | None:
        """The features of all rows in double precision, where there is room for them."""
        if self.few or not self.has_room:
            return None
        return DenseDesign(self._filled("float64", self._features), self.fit_intercept)

    @cached_property
    def kept_values(self) -> Array | None:
        """The kernel values of all rows, where these are enough and there is room for them."""
        if not (self.few and self.has_room):
            return None
        return self._filled("float64", lambda rows: self.features.values(self._rows(rows)))

    @property
    def has_room(self) -> bool:
        """Whether there is room for features, or values, in double precision."""
        return 8.0 * self.n_rows * self.n_features <= self.budget

    @cached_property
    def _kept_rounded(self) -> Array | None:
        """The same in single precision, where there is no room for more."""
        if self.few or self.kept is not None:
            return None
        if 4.0 * self.n_rows * self.n_features > self.budget:
            return None
        return self._filled("float32", self._rounded_features)

    def _filled(self, dtype: str, made: Callable[[slice], Array]) -> Array:
        xp = array_namespace(self.features.inverse)
        shape, place = (self.n_rows, self.n_features), device(self.features.inverse)
        out = xp.empty(shape, dtype=getattr(xp, dtype), device=place)

        def fill(start: int, stop: int) -> None:
            for a, b in self.chunks(start, stop):
                out[a:b, :] = made(slice(a, b))

        split(self.n_rows, fill, threads=self._threads(self.n_rows), kind=PRODUCTS)
        return out

    def chunks(self, start: int, stop: int) -> Iterator[tuple[int, int]]:
        """Return ranges of rows whose features are made at a time."""
        size = _CHUNK if self._here else _DEVICE_CHUNK
        step = max(_LEAST_ROWS, size // self.n_features)
        for a in range(start, stop, step):
            yield a, min(stop, a + step)

    def _threads(self, n_rows: int) -> float:
        """How many threads are busy with features of so many rows."""
        alone = callable(self.features.kernel.name) or not self._here
        return 1 if alone else n_rows * self.n_features / WORTH_A_THREAD

    def _rows(self, rows: Array | slice) -> Array:
        """Some of the rows, as they came."""
        if isinstance(rows, slice):
            return self.X[rows, :]
        if is_numpy_array(self.X) or sp.issparse(self.X):
            return self.X[rows]
        return array_namespace(self.X).take(self.X, rows, axis=0)

    def _values(self, rows: Array | slice) -> Array:
        """Kernel values of some rows."""
        if self.kept_values is None:
            return self.features.values(self._rows(rows))
        return self._of(self.kept_values, rows)

    def _features(self, rows: Array | slice) -> Array:
        return self.features.features_of(self._values(rows))

    def _rounded_features(self, rows: Array | slice) -> Array:
        return self.features.rounded_features_of(self._values(rows), self.n_rows)

    def _of(self, kept: Array, rows: Array | slice) -> Array:
        """Some rows of what is kept."""
        if isinstance(rows, slice):
            return kept[rows, :]
        return kept[rows] if self._here else array_namespace(kept).take(kept, rows, axis=0)

    def _some(self, rows: Array | slice) -> Array:
        """Features of some rows, in double precision."""
        return self._features(rows) if self.kept is None else self._of(self.kept.X, rows)

    def _some_rounded(self, rows: Array | slice) -> Array:
        """The same in single precision, or in double where these are kept."""
        if self.kept is not None:
            return self._some(rows)
        known = self._kept_rounded
        return self._rounded_features(rows) if known is None else self._of(known, rows)

    # ------------------------------------------------------------------------------------------
    # The contract
    # ------------------------------------------------------------------------------------------

    def scores(self, coef: Array) -> Array:
        if self.kept is not None:
            return self.kept.scores(coef)
        m = self.n_features
        if self._by_values is not None:
            slopes = self.features.expansion(coef[:, :m])
            out = self._by_values.scores(slopes)
        else:
            out = self.features.scores(self.X, coef[:, :m])
        return out + coef[:, m] if self.fit_intercept else out

    def gradient(self, residual: Array) -> Array:
        if self.kept is not None:
            return self.kept.gradient(residual)
        if self._by_values is not None:
            pulled = self.features.feature_sums(self._by_values.gradient(residual))
        else:
            pulled = self.features.pulled(self.X, residual)
        return self._append_sums(pulled, residual)

    @cached_property
    def _by_values(self) -> DenseDesign | None:
        """Kept values as a design of their own, without an intercept."""
        return None if self.kept_values is None else DenseDesign(self.kept_values, False)

    def gram(
        self, weights: Array, residual: Array, rows: Array | None = None
    ) -> tuple[Array, Array]:
        xp, (n, k) = array_namespace(weights), weights.shape
        large = n > 0 and n * float(self.n_features) ** 2 >= _WORTH_ROUNDING
        if self.coarse and large and k == 1 and bool(xp.all(weights >= 0.0)):
            return self._coarse_gram(xp.sqrt(weights), rows), self._pulled(residual, rows)
        if self.kept is not None:
            return self.kept.gram(weights, residual, rows)
        return self._exact_gram(weights, residual, rows)

    def _exact_gram(
        self, weights: Array, residual: Array, rows: Array | None
    ) -> tuple[Array, Array]:
        """Gram matrices of features that are made a chunk at a time; none of them is kept."""
        xp, (n, k), p = array_namespace(weights), weights.shape, self.n_coef
        grams = xp.zeros((k, p, p), dtype=xp.float64, device=device(weights))
        pull = xp.zeros((residual.shape[1], p), dtype=xp.float64, device=device(weights))
        for a, b in self.chunks(0, n):
            some = DenseDesign(self._some(_part(rows, a, b)), self.fit_intercept)
            gram, pulled = some.gram(weights[a:b, :], residual[a:b, :])
            grams += gram
            pull += pulled
        return grams, pull

    def _pulled(self, residual: Array, rows: Array | None) -> Array:
        """Transposed product of some rows with their residuals, in double precision."""
        if rows is None:
            return self.gradient(residual)
        if self.kept is None:
            return self._append_sums(self.features.pulled(self._rows(rows), residual), residual)
        xp = array_namespace(residual)
        parts = (
            xp.matmul(residual[a:b, :].T, self._some(rows[a:b]))
            for a, b in self.chunks(0, residual.shape[0])
        )
        return self._append_sums(sum(parts), residual)

    def _coarse_gram(self, root: Array, rows: Array | None) -> Array:
        """Gram matrix (1, p, p) of rows times the roots of their weights, in single precision.

        Sums over the rows of a chunk are in single precision, those over chunks in double.
        """
        xp, p, (n, _) = array_namespace(root), self.n_coef, root.shape
        largest = float(xp.max(root))
        half = _adds_halves(root) and 0.0 < n * (_HALF * largest) ** 2 <= _NOISE
        unit, dtype = (largest, xp.float16) if half else (1.0, xp.float32)
        root = xp.astype(root / unit, xp.float32)
        _ = self.kept is None and self._kept_rounded  # made by all threads together

        def part(start: int, stop: int) -> Array:
            total = xp.zeros((p, p), dtype=xp.float64, device=device(root))
            for a, b in self.chunks(start, stop):
                block = self._some_rounded(_part(rows, a, b))
                columns = p if self._here else -(-p // _ALIGNED) * _ALIGNED
                scaled = xp.zeros((b - a, columns), dtype=dtype, device=device(root))
                scaled[:, : self.n_features] = xp.astype(block, xp.float32, copy=False) * root[a:b]
                if self.fit_intercept:
                    scaled[:, self.n_features : p] = root[a:b]
                _add_square(total, scaled)
            return total

        with coarse_products(root):
            total = sum(split(n, part, threads=self._threads(n), kind=PRODUCTS))
        lower = xp.tril(total)
        return (unit * unit) * (lower + xp.tril(total, k=-1).T)[None, :, :]

    def square_sums(self, weights: Array) -> Array:
        xp = array_namespace(weights)
        parts = (
            xp.matmul(weights[a:b, :].T, self._some(slice(a, b)) ** 2)
            for a, b in self.chunks(0, self.n_rows)
        )
        return self._append_sums(sum(parts), weights)

    def row_squares(self) -> Array:
        xp = array_namespace(self.features.inverse)
        pieces = self.chunks(0, self.n_rows)
        return xp.concat([xp.sum(self._some(slice(a, b)) ** 2, axis=1) for a, b in pieces])

    def inner(self, rows: Array, others: Array) -> Array:
        left, right = self._some(rows), self._some(others)
        return array_namespace(left).matmul(left, right.T)

    def take(self, rows: Array) -> Design:
        """Design of these rows, whose Gram matrices are exact: they are asked for one by one."""
        known, xp = self._last, array_namespace(rows)
        if known is not None and known[0].shape == rows.shape and bool(xp.all(known[0] == rows)):
            return known[1]
        design = self.part(rows).precisely(coarse=False)
        if isinstance(design, CentredDesign) and design.kept is not None:
            self._last = rows, design.kept
            return design.kept
        return design

    def part(self, rows: Array) -> CentredDesign:
        design = CentredDesign(
            self._rows(rows),
            self.features,
            self.fit_intercept,
            budget=self.budget,
            coarse=self.coarse,
        )
        if self.kept is not None:
            design.kept = DenseDesign(self._some(rows), self.fit_intercept)
        elif self.kept_values is not None:  # of these few rows the features, made from values
            design.kept_values = self._of(self.kept_values, rows)
        return design


def _part(rows: Array | None, a: int, b: int) -> Array | slice:
    return slice(a, b) if rows is None else rows[a:b]


def _add_square(total: Array, scaled: Array) -> None:
    """Add the lower triangle of scaled' scaled; what is above it is left as it is."""
    xp, p = array_namespace(total), total.shape[0]
    if is_numpy_array(total):  # one operand twice halves the work (syrk)
        total += scaled.T @ scaled
        return
    product = xp.matmul
    if scaled.dtype != xp.float32:
        product = partial(xp.mm, out_dtype=xp.float32)
    step = max(_LEAST_PANEL, -(-p // (_PANELS * _ALIGNED)) * _ALIGNED)
    for c in range(0, p, step):
        d = min(p, c + step)
        total[c:, c:d] += product(scaled[:, c:].T, scaled[:, c : c + step])[: p - c, : d - c]


def _adds_halves(like: Array) -> bool:
    """Whether products of numbers in half precision can be added in single precision."""
    return is_torch_array(like) and like.device.type == "cuda" and _torch_adds_halves()


@cache
def _torch_adds_halves() -> bool:
    import torch

    one = torch.ones((_ALIGNED, _ALIGNED), dtype=torch.float16, device="cuda")
    try:
        torch.mm(one, one, out_dtype=torch.float32)
    except (TypeError, RuntimeError):  # before PyTorch 2.8
        return False
    return True


@contextmanager
def coarse_products(like: Array) -> Iterator[None]:
    """Let matrix products in single precision be as fast as the device can.

    PyTorch rounds factors to 11 bits where it may (TF32), eight times as fast on recent devices.
    """
    if not (is_torch_array(like) and like.device.type == "cuda"):
        yield
        return
    import torch

    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
