r"""Kernel functions, block by block.

A block is one matrix product and one elementwise function: the *left* and *right* factors of two
sets of rows are made such that ``left @ right.T`` is already the argument of that function. For
the Gaussian kernel the squared norms are two more columns of the factors,

    (sqrt(2 g) x, -g |x|^2, 1) . (sqrt(2 g) z, 1, -g |z|^2) = -g |x - z|^2,

so that no other pass over the block is needed. Right factors of many columns are made once and
sliced; left factors are made a few rows at a time.

Distances do not change when all rows are shifted, but their digits do: sums of squares far from the
origin cancel. So both sides are counted from a *centre* near the training rows. Sparse rows would
not stay sparse: of them only columns that are mostly stored are shifted, and values that are large
in a few rows of a column cost the distances of these rows the digits that their squares take.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from math import inf, isfinite, log, prod, sqrt
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from array_api_compat import device
from scipy.spatial.distance import cdist
from sklearn.metrics.pairwise import manhattan_distances

from grayzone.numerics.backend import moved
from grayzone.numerics.checks import as_numpy, check_choice, check_integer, check_number
from grayzone.numerics.namespace import array_namespace
from grayzone.numerics.pitfalls import Pitfall
from grayzone.numerics.threads import LOOPS, PRODUCTS, edges, long_product, split

Array = Any

_NUMPY = array_namespace(np.empty(0))
NAMES = ("linear", "poly", "rbf", "sigmoid", "laplacian", "precomputed")
# those whose values or distances may grow beyond all doubles, and the largest that may be squared
COMPUTED = ("linear", "poly", "rbf", "sigmoid", "laplacian")
_LARGEST_VALUE = 1e150
# Entries of a tile, which stay in the L2 cache between the product and the function.
TILE_ROWS, TILE_COLUMNS = 256, 1024
# Entries of a tile on a device, where what counts is the number of calls.
_DEVICE_TILE = 2**27
# Reach of kernels from which on rounding takes half of the digits of distances: in single precision
# they are then clipped, in double precision differences are squared instead.
_CLIPPED_FROM = tuple(float(np.finfo(kind).eps) ** -0.5 for kind in (np.float32, np.float64))
# Entries for which the hand-over to a thread pays.
WORTH_A_THREAD = 200_000
# Values of a product from which compiled loops are worth their loading.
_MANY_VALUES = 2**26


@dataclass(frozen=True)
class Kernel:
    r"""A positive semi-definite function of two rows, its parameters resolved.

    Parameters
    ----------
    name : str or callable
        "linear" :math:`x'z`, "poly" :math:`(\gamma x'z + c_0)^{degree}`, "rbf"
        :math:`e^{-\gamma\|x-z\|^2}`, "sigmoid" :math:`\tanh(\gamma x'z + c_0)` (which need not be
        positive semi-definite), "laplacian" :math:`e^{-\gamma\|x-z\|_1}`, "precomputed" (rows hold
        kernel values), or a function of two matrices that returns the block of their values.
    gamma : float, default=1.0
        Width of kernels that have one.
    degree : int, default=3
        Degree of "poly".
    coef0 : float, default=0.0
        Independent term of "poly" and "sigmoid".
    centre : array of shape (n_features,) or None, default=None
        Where distances are counted from: any point near the rows. None is the origin.
    reach : float, default=0.0
        At most :math:`\gamma\|x-c\|^2` of the rows that have this centre c: what rounding errors of
        distances are relative to.

    Examples
    --------
    >>> import numpy as np
    >>> from grayzone.numerics.kernels import Kernel
    >>> Kernel("rbf", gamma=0.5)(np.array([[0.0], [2.0]]), np.array([[1.0]])).round(3)
    array([[0.607],
           [0.607]])
    """

    name: str | Callable[[Array, Array], Array]
    gamma: float = 1.0
    degree: int = 3
    coef0: float = 0.0
    # values do not depend on them, up to rounding: kernels that differ in nothing else are equal
    centre: Array | None = field(default=None, compare=False, repr=False)
    reach: float = field(default=0.0, compare=False, repr=False)

    @property
    def is_definite(self) -> bool:
        """Whether the function is positive semi-definite whatever the rows are."""
        known = self.name in ("linear", "rbf", "laplacian")
        return known or (self.name == "poly" and self.coef0 >= 0.0)

    def right(self, X: Array, dtype: Any = np.float64) -> Array:
        """Right factor of rows of X; of a precomputed kernel, the numbers of its columns."""
        if self.is_far:
            return _astype(X, np.float64)
        if self.name == "rbf":
            X = X if self.centre is None else _less(X, self.centre)
            drop = -self.gamma * _row_squares(X)
            return _with_columns(self._scaled(X, sqrt(2.0 * self.gamma), dtype), 1.0, drop)
        if self.name in ("poly", "sigmoid"):
            return _with_columns(self._scaled(X, 1.0, dtype), 1.0)
        return X if self.name == "precomputed" else self._scaled(X, 1.0, dtype)

    def left(self, X: Array, dtype: Any = np.float64) -> Array:
        """Left factor of rows of X."""
        return X if self.name == "precomputed" else self.flipped(self.right(X, dtype))

    def flipped(self, right: Array) -> Array:
        """Left factor of the rows that have this right one."""
        if self.name == "rbf" and not self.is_far:
            return _last_two_exchanged(right)
        if self.name in ("poly", "sigmoid"):
            scaled = self._scaled(right[:, : right.shape[1] - 1], self.gamma, right.dtype)
            return _with_columns(scaled, self.coef0)
        return right

    @property
    def is_symmetric(self) -> bool:
        """Whether right factors of rows are their flipped left ones, too."""
        return self.name in ("linear", "rbf")

    def _scaled(self, X: Array, factor: float, dtype: Any) -> Array:
        if factor == 1.0:
            return _astype(X, dtype)
        return _astype(_astype(X, np.float64) * factor, dtype)

    def near(self, extent: Extent) -> Self:
        """Return the same kernel for rows of this extent, whose values are checked to be doubles.

        Distances are counted from the middle of the rows.
        """
        if self.name == "rbf":
            reach = self.gamma * extent.square_about(extent.centre)
            if reach < _LARGEST_VALUE:
                return replace(self, centre=extent.centre, reach=reach)
        elif self._largest_log(extent.square_about(0.0)) < log(_LARGEST_VALUE):
            return self
        raise ValueError(
            f"X has values up to {extent.largest:.3g}, too large for the {self.name} kernel with "
            f"gamma={self.gamma:.3g}: its values, or distances, would be above "
            f"{_LARGEST_VALUE:g}. Scale the features, or lower gamma or the degree. "
            f"{Pitfall.UNSCALED}"
        )

    def _largest_log(self, square: float) -> float:
        """Logarithm of the largest number in the values of rows of at most such squared norms."""
        if self.name == "linear":
            return log(max(square, 1.0))
        inside = log(max(self.gamma * max(square, 1.0) + abs(self.coef0), 1.0))
        return self.degree * inside if self.name == "poly" else inside

    def between(self, left: Array, right: Array, out: Array | None = None) -> Array:
        """Block of kernel values of a left and a right factor.

        ``out``, of their precision, is for NumPy alone.
        """
        if self.name == "precomputed":
            block = _place(left)[0].take(left, right, axis=1)
        elif callable(self.name):
            block = _called(self.name, left, right)
        elif self.name == "laplacian" or self.is_far:
            block = (_squared_distances if self.is_far else _city_block)(left, right)
            block *= -self.gamma
            block = _applied("exp", block)
        else:
            return self._finish(_product(left, right, out))
        if out is None:
            return block
        out[...] = block
        return out

    def _finish(self, block: Array) -> Array:
        """Values of inner products, which are overwritten."""
        if self.name == "rbf":
            return _applied("exp", self._clipped(block))
        if self.name == "sigmoid":
            return _applied("tanh", block)
        if self.name == "poly":
            block **= self.degree
        return block

    @property
    def is_far(self) -> bool:
        """Whether sums of squares would keep too few digits of distances, also in double precision.

        Differences keep them, at the price of a slower loop.
        """
        return self.name == "rbf" and self.reach > _CLIPPED_FROM[1]

    def by_differences(self) -> Self:
        """Return the same kernel of dense rows, with distances of few points from them as they are.

        A factor of all rows would take longer to make than these differences.
        """
        return replace(self, reach=inf) if self.name == "rbf" else self

    def _clipped(self, block: Array) -> Array:
        """Negative distances, none above zero: rounding may lift them where it takes many digits.

        That is a pass over the block, which few kernels need.
        """
        if self.reach <= _CLIPPED_FROM[0] or not str(block.dtype).endswith("float32"):
            return block
        if isinstance(block, np.ndarray):
            return np.minimum(block, 0.0, out=block)
        return array_namespace(block).clip(block, max=0.0)

    def __call__(self, X: Array, Z: Array) -> Array:
        """Kernel values of all pairs of rows, in double precision."""
        return self.between(self.left(X), self.right(Z))

    def diagonal(self, X: Array) -> Array:
        """Kernel values of each row with itself."""
        xp, place = _place(X)
        if self.name in ("rbf", "laplacian"):
            return xp.ones(X.shape[0], dtype=xp.float64, device=place)
        if self.name == "precomputed":
            return xp.astype(xp.linalg.diagonal(X), xp.float64)
        if callable(self.name):
            rows = (_astype(X[i : i + 1, :], np.float64) for i in range(X.shape[0]))
            values = [xp.reshape(_called(self.name, row, row), (1,)) for row in rows]
            return xp.astype(xp.concat(values), xp.float64)
        square = _row_squares(X)
        if self.name == "linear":
            return square
        return self._finish(self.gamma * square + self.coef0)

    def product(self, X: Array, right: Array, coef: Array, dtype: Any = np.float64) -> Array:
        """Sum over the rows behind ``right`` of their kernel values times coef (m, Q).

        No more than a tile of kernel values exists at any time, on each thread.
        """
        n, m = X.shape[0], coef.shape[0]
        rows, columns = self._tile_shape(X, m)
        (xp, place), coef = _place(X), _astype(coef, dtype)
        times = xp.matmul if _is_elsewhere(X) else long_product
        found = self._product_looped(X, right, coef)
        if found is not None:
            return found

        # new rows may be of any size: who asks looks at what comes out
        @np.errstate(over="ignore", invalid="ignore")
        def part(start: int, stop: int) -> Array:
            total = xp.zeros((stop - start, coef.shape[1]), dtype=xp.float64, device=place)
            size = min(rows, stop - start) * columns
            buffer = None if _is_elsewhere(X) else np.empty(size, dtype=dtype)
            for a in range(start, stop, rows):
                b = min(stop, a + rows)
                left = self.left(_stored_like(right, X[a:b, :]), dtype)
                for c in range(0, m, columns):
                    d = min(m, c + columns)
                    shape = b - a, d - c
                    out = None if buffer is None else buffer[: prod(shape)].reshape(shape)
                    some = right if (c, d) == (0, m) else right[c:d]
                    tile = _astype(self.between(left, some, out), dtype)
                    total[a - start : b - start, :] += times(tile, coef[c:d, :])
            return total

        alone = callable(self.name) or _is_elsewhere(X)
        work = 1 if alone else n * m / WORTH_A_THREAD
        parts = split(n, part, threads=work, kind=PRODUCTS)
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _product_looped(self, X: Array, right: Array, coef: Array) -> Array | None:
        """Do so by one compiled call a thread, where there are very many values of a Gaussian.

        NumPy's exponentials are compiled for few processors, and threads queue between its calls.
        """
        n, m = X.shape[0], coef.shape[0]
        if n * m < _MANY_VALUES or self.name != "rbf" or self.is_far:
            return None
        here = isinstance(X, np.ndarray) and isinstance(right, np.ndarray)
        if not (here and right.dtype == coef.dtype == np.float64 and right.flags.c_contiguous):
            return None
        from grayzone.numerics.jit_gaussian import add_product  # compiles, so only when needed

        centre = np.zeros(X.shape[1]) if self.centre is None else as_numpy(self.centre)
        given = X, centre.astype(np.float64), float(self.gamma), right, coef
        out = np.zeros((n, coef.shape[1]))
        parts = edges(n, threads=n * m / WORTH_A_THREAD, kind=LOOPS)
        # rows of any size may be asked about: what is not a number then must not become one
        return out if add_product(*given, out, parts) else None

    def _tile_shape(self, X: Array, m: int) -> tuple[int, int]:
        """Rows and columns of a tile: one of m columns at most."""
        if _is_elsewhere(X):
            return max(1, _DEVICE_TILE // max(1, m)), max(1, m)
        # a foreign function may cost more by the call than it gains from the cache
        return TILE_ROWS, max(1, m if callable(self.name) else min(m, TILE_COLUMNS))


# ------------------------------------------------------------------------------------------
# Matrices of any library, dense or sparse
# ------------------------------------------------------------------------------------------


def _is_elsewhere(X: Array) -> bool:
    """Whether X is an array of another library than NumPy and SciPy."""
    return not (isinstance(X, np.ndarray) or sp.issparse(X))


def _place(X: Array) -> tuple[Any, Any]:
    """Library and device of an array; NumPy's without a question, which small blocks would feel."""
    if _is_elsewhere(X):
        return array_namespace(X), device(X)
    return _NUMPY, "cpu"


def dtype_of(xp: Any, dtype: Any) -> Any:
    """Return the type that a library has for one of NumPy's; its own is what it is."""
    return getattr(xp, np.dtype(dtype).name) if isinstance(dtype, (type, np.dtype)) else dtype


def _astype(X: Array, dtype: Any) -> Array:
    if not _is_elsewhere(X):
        return X.astype(dtype, copy=False)
    xp = array_namespace(X)
    return xp.astype(X, dtype_of(xp, dtype), copy=False)


def _with_columns(X: Array, *columns: Array | float) -> Array:
    """X with further columns, in its own precision."""
    (xp, place), (n, d) = _place(X), X.shape
    if sp.issparse(X):
        more = np.column_stack([np.broadcast_to(c, n) for c in columns]).astype(X.dtype)
        return sp.csr_array(sp.hstack([X, more], format="csr"))
    out = xp.empty((n, d + len(columns)), dtype=X.dtype, device=place)
    out[:, :d] = X
    for j, column in enumerate(columns):
        out[:, d + j] = column if isinstance(column, float) else _astype(column, X.dtype)
    return out


def _last_two_exchanged(X: Array) -> Array:
    """Matrix whose last two columns have changed places."""
    d = X.shape[1]
    if sp.issparse(X):
        return X[:, [*range(d - 2), d - 1, d - 2]]
    return _place(X)[0].concat([X[:, : d - 2], X[:, d - 1 :], X[:, d - 2 : d - 1]], axis=1)


def _row_squares(X: Array) -> Array:
    if sp.issparse(X):
        X = X.astype(np.float64)
        return np.asarray(X.multiply(X).sum(axis=1)).ravel()
    if isinstance(X, np.ndarray):  # without a matrix of the squares
        return np.einsum("ij,ij->i", X, X, dtype=np.float64)
    xp = array_namespace(X)
    return xp.sum(xp.astype(X, xp.float64) ** 2, axis=1)


def _less(X: Array, centre: Array) -> Array:
    """Rows in double precision, counted from a centre; of sparse ones, in the columns it is in."""
    if not sp.issparse(X):
        return _astype(X, np.float64) - moved(centre, X)
    centre = as_numpy(centre)
    columns = np.flatnonzero(centre)
    if not columns.size:
        return X
    n, k = X.shape[0], columns.size
    stored = np.tile(-centre[columns], n), np.tile(columns, n), np.arange(0, n * k + 1, k)
    return sp.csr_array(X.astype(np.float64) + sp.csr_array(stored, shape=X.shape))


def _applied(function: str, block: Array) -> Array:
    """Values of an elementwise function, in place where NumPy has them."""
    if isinstance(block, np.ndarray):
        return getattr(np, function)(block, out=block)
    return getattr(array_namespace(block), function)(block)


def _product(left: Array, right: Array, out: Array | None) -> Array:
    if not sp.issparse(left):
        return left @ right.T if out is None else np.matmul(left, right.T, out=out)
    block = (left @ right.T).toarray()
    if out is None:
        return block
    out[...] = block
    return out


def _called(function: Callable[[Array, Array], Array], left: Array, right: Array) -> Array:
    """Block that a kernel function returns, checked."""
    block = function(left, right)
    block = block.toarray() if sp.issparse(block) else block
    if _is_elsewhere(left):
        block = moved(block, left) if isinstance(block, np.ndarray) else block
    else:
        block = np.asarray(block)
    expected = (left.shape[0], right.shape[0])
    if tuple(block.shape) != expected:
        raise ValueError(
            f"The kernel function returned an array of shape {tuple(block.shape)} for "
            f"{expected[0]} and {expected[1]} rows; expected {expected}."
        )
    xp = _place(block)[0]
    if not xp.isdtype(block.dtype, ("bool", "integral", "real floating")):
        raise ValueError(f"The kernel function returned {block.dtype}; expected numbers.")
    double = block.dtype == xp.float64
    if not bool(xp.all(xp.abs(block) < _LARGEST_VALUE if double else xp.isfinite(block))):
        raise ValueError(
            "The kernel function returned NaN, infinity or a value beyond what can be squared; "
            f"expected numbers below {_LARGEST_VALUE:g}."
        )
    return block


def _stored_like(other: Array, X: Array) -> Array:
    """X dense or sparse as another matrix is: new data need not come as the training data did."""
    if sp.issparse(X) == sp.issparse(other):
        return X
    return X.toarray() if sp.issparse(X) else sp.csr_array(X)


def _city_block(left: Array, right: Array) -> Array:
    """Sums of absolute differences, by what each library has for them."""
    if sp.issparse(left):
        return manhattan_distances(_short_indices(left), _short_indices(right))
    if isinstance(left, np.ndarray):
        return cdist(left, right, "cityblock")
    # a feature at a time: all at once would take n times m times d numbers
    xp = array_namespace(left)
    return sum(xp.abs(left[:, j, None] - right[None, :, j]) for j in range(left.shape[1]))


def _squared_distances(left: Array, right: Array) -> Array:
    """Sums of squared differences, which are exact where rows are close, wherever they are."""
    if sp.issparse(left):
        left, right = left.toarray(), right.toarray()
    if isinstance(left, np.ndarray):
        return cdist(left, right, "sqeuclidean")
    xp = array_namespace(left)
    return sum(xp.square(left[:, j, None] - right[None, :, j]) for j in range(left.shape[1]))


def _short_indices(X: Array) -> Array:
    # scikit-learn's loop over sparse rows knows no others
    indices, indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
    return sp.csr_matrix((X.data, indices, indptr), shape=X.shape)


def resolve_kernel(
    name: Any, gamma: Any, degree: Any, coef0: Any, X: Array, weight: Array | None = None
) -> Kernel:
    """Check the parameters of a kernel, and set its width by the data where asked to.

    Parameters
    ----------
    name : str or callable
        As in :class:`Kernel`.
    gamma : {"scale", "auto"} or float
        "scale" is 1 / (n_features * X.var()), "auto" 1 / n_features, as in ``SVC``.
    degree, coef0 : int, float
        As in :class:`Kernel`.
    X : {array, sparse matrix} of shape (n, n_features)
        The data.
    weight : array of shape (n,), optional
        Weights of the rows in X.var(); a row of weight 2 counts as two rows.

    Returns
    -------
    kernel : Kernel
        Its width is a positive number.

    Examples
    --------
    >>> import numpy as np
    >>> from grayzone.numerics.kernels import resolve_kernel
    >>> resolve_kernel("rbf", "scale", 3, 0.0, np.array([[0.0, 2.0], [2.0, 0.0]])).gamma
    0.5
    """
    if not callable(name):
        check_choice("kernel", name, NAMES)
    check_integer("degree", degree, least=1)
    check_number("coef0", coef0)
    if not isinstance(gamma, str):
        check_number("gamma", gamma, above=0.0)
        width = float(gamma)
    else:
        check_choice("gamma", gamma, ("scale", "auto"))
        d = X.shape[1]
        width = _scaled_width_of(X, weight) if gamma == "scale" else 1.0 / d
    kernel = Kernel(name, width, int(degree), float(coef0))
    return kernel.near(Extent.of(X)) if name in COMPUTED else kernel


def scaled_width(n_features: int, variance: float, extent: Extent) -> float:
    """Return 1 / (n_features * variance), which is gamma="scale"; 1 where nothing varies.

    What rounding makes of equal values is no variance, but values that differ have one.
    """
    if not (extent.varies and variance > 0.0):
        return 1.0
    width = 1.0 / (n_features * variance)
    if not isfinite(width):
        raise ValueError(
            f"gamma='scale' is 1 / (n_features * X.var()), which is beyond all doubles for a "
            f"variance of {variance:.2g}; scale the features, or give a number for gamma. "
            f"{Pitfall.UNSCALED}"
        )
    return width


def _scaled_width_of(X: Array, weight: Array | None) -> float:
    """Return gamma="scale" of rows that are at hand."""
    (xp, place), (n, d) = _place(X), X.shape
    weight = xp.ones(n, dtype=xp.float64, device=place) if weight is None else weight
    total = float(xp.sum(weight)) * d
    mean = float(weight @ sums_about(X, 0.0)) / total
    sums, squares, step = 0.0, 0.0, _DEVICE_TILE // max(1, d) if _is_elsewhere(X) else TILE_COLUMNS
    for a in range(0, n, step):
        some = slice(a, min(n, a + step))
        sums += float(weight[some] @ sums_about(X[some, :], mean))
        squares += float(weight[some] @ squares_about(X[some, :], mean))
    return scaled_width(d, variance_of(total, sums, squares), Extent.of(X))


def variance_of(total: float, sums: float, squares: float) -> float:
    """Return the variance by sums of differences, and of their squares, from nearly the mean.

    A mean of large values that differ by little is off by its rounding: the sum tells how much.
    """
    return squares / total - (sums / total) ** 2


def sums_about(X: Array, mean: float) -> Array:
    """Return the sum over each row of its differences from one number."""
    if sp.issparse(X):
        stored, absent = _stored_about(X, mean)
        return np.asarray(stored.sum(axis=1)).ravel() - absent * mean
    xp = _place(X)[0]
    return xp.sum(X if mean == 0.0 else _astype(X, np.float64) - mean, axis=1, dtype=xp.float64)


def squares_about(X: Array, mean: float) -> Array:
    """Return the sum over each row of its squared differences from one number."""
    if not sp.issparse(X):
        return _row_squares(_astype(X, np.float64) - mean)
    stored, absent = _stored_about(X, mean)
    return _row_squares(stored) + absent * mean**2


def _stored_about(X: Array, mean: float) -> tuple[Array, Array]:
    """Return stored values less a number, and how many each row has that are not stored."""
    stored = X.astype(np.float64).tocsr()
    stored.sum_duplicates()
    stored.data -= mean
    return stored, X.shape[1] - np.diff(stored.indptr)


@dataclass(frozen=True)
class Extent:
    """Where rows are: the least and the largest value of each column, and their middle."""

    low: Array
    high: Array
    centre: Array

    @property
    def largest(self) -> float:
        """The largest absolute value."""
        return float(np.max(np.maximum(np.abs(self.low), np.abs(self.high))))

    @property
    def varies(self) -> bool:
        """Whether there are two different values."""
        return bool(np.min(self.low) < np.max(self.high))

    def square_about(self, point: Array | float) -> float:
        """Return what no squared distance of a row from a point is above."""
        return float(np.sum(np.maximum(self.high - point, point - self.low) ** 2))

    @classmethod
    def of(cls, X: Array) -> Extent:
        """Return the extent of rows of any library; that of sparse rows is about their zeros."""
        n = X.shape[0]
        if sp.issparse(X):
            low, high = (np.asarray(a.todense()).ravel() for a in (X.min(axis=0), X.max(axis=0)))
            mean = np.asarray(X.sum(axis=0, dtype=np.float64)).ravel() / n
            mostly = 2 * np.bincount(X.tocsr().indices, minlength=X.shape[1]) > n
            return cls(low, high, np.where(mostly, _coarse(mean, low, high), 0.0))
        xp = _place(X)[0]
        low, high, total = xp.min(X, axis=0), xp.max(X, axis=0), xp.sum(X, axis=0, dtype=xp.float64)
        low, high, total = (as_numpy(a).astype(np.float64) for a in (low, high, total))
        return cls(low, high, _coarse(total / n, low, high))

    @classmethod
    def joined(cls, parts: list[tuple[int, Extent]]) -> Extent:
        """Return the extent of rows that came in parts, each with how many there are."""
        counts = np.array([n for n, _ in parts], dtype=np.float64)
        low = np.min([part.low for _, part in parts], axis=0)
        high = np.max([part.high for _, part in parts], axis=0)
        centre = counts @ [part.centre for _, part in parts] / np.sum(counts)
        return cls(low, high, _coarse(centre, low, high))


def _coarse(centre: Array, low: Array, high: Array) -> Array:
    """Centre on a grid of about a hundredth of the range: the order of a sum does not show in it.

    Differences from such a number are exact for most values.
    """
    spread = high - low
    fine = spread > 1e-290
    grid = np.exp2(np.ceil(np.log2(np.where(fine, spread, 1.0))) - 7.0)
    return np.where(fine, np.round(centre / grid) * grid, low)
