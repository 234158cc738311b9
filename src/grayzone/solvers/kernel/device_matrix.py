"""Large positive definite kernel systems on a device: built, factorised and solved in place.

Everything is matrix products on slices, which all array libraries have: a Cholesky factor of panels
needs no second matrix beside it, so that the largest system is as large as the memory.
"""

from __future__ import annotations

from typing import Any

from array_api_compat import device, is_cupy_array, is_torch_array

from grayzone.numerics.kernels import Kernel
from grayzone.numerics.linalg import add_to_diagonal
from grayzone.numerics.namespace import array_namespace
from grayzone.numerics.pitfalls import Pitfall
from grayzone.solvers.kernel.features import indefinite

Array = Any

_PANEL = 4096  # columns of a panel, whose own factor is found by the library
# rows of the diagonal blocks that are inverted for solving: once, or many times
_INVERTED, _INVERTED_OFTEN = 1024, 2048
_WHOLE = 46_000  # rows up to which the library factorises at once: beyond, its indices overflow
_TILE = 2**27  # entries of the largest temporary matrix beside the system, 1 GB
_TRACE = 1e-6  # of the diagonal: negative eigenvalues of that size are rounding errors
_ROUNDING = 1e-15  # of a sum of kernel values, relative, for each of them
_SPARE = 1.5e9  # bytes left for vectors, tiles and the library itself


def is_on_gpu(like: Array) -> bool:
    """Whether an array has the memory of a device to itself."""
    return is_cupy_array(like) or (is_torch_array(like) and like.device.type == "cuda")


def free_memory(like: Array) -> float:
    """Bytes that arrays on the device of another may still take."""
    if not is_on_gpu(like):
        return _free_host_memory()
    if is_torch_array(like):
        import torch

        free, _ = torch.cuda.mem_get_info(like.device)
        kept = torch.cuda.memory_reserved(like.device) - torch.cuda.memory_allocated(like.device)
        return float(free + kept)
    import cupy

    with like.device:
        free, _ = cupy.cuda.runtime.memGetInfo()
        return float(free + cupy.get_default_memory_pool().free_bytes())


def _free_host_memory() -> float:
    """Bytes that this machine can still give; infinite where it does not say."""
    try:
        with open("/proc/meminfo") as lines:
            sizes = dict(line.split(":", 1) for line in lines)
        return 1024.0 * float(sizes["MemAvailable"].split()[0])
    except (OSError, KeyError, ValueError):
        return float("inf")


def fits_in_memory(n_rows: int, like: Array) -> bool:
    """Whether the system of so many rows, factorised, has room beside an array."""
    return system_bytes(n_rows) <= free_memory(like)


def check_memory(n_rows: int, like: Array, matrices: int = 1) -> None:
    """Check before anything is allocated that a fit of so many rows fits.

    ``matrices`` are those of all pairs of rows that are needed at a time.
    """
    needed, free = system_bytes(n_rows, matrices), free_memory(like)
    if needed > free:
        largest = n_rows
        while largest > 0 and system_bytes(largest, matrices) > free:
            largest = int(0.99 * largest)
        raise MemoryError(
            f"An exact kernel fit of {n_rows} rows needs {needed / 1e9:.1f} GB on "
            f"{device(like)}, where {free / 1e9:.1f} GB are free: enough for some {largest} rows. "
            "Take zone=None, which needs no such matrix, fewer rows, or few that span the "
            "function: centres, or ImportVectorMachine, whose memory grows with the rows alone."
        )


def system_bytes(n_rows: int, matrices: int = 1) -> float:
    """Bytes that a system of so many rows takes, with all that is needed beside it."""
    square = 8.0 * n_rows**2
    beside = min(8.0 * n_rows * (2 * _PANEL + _INVERTED_OFTEN), square)
    return matrices * square + beside + min(_SPARE, 16.0 * square + 1e7)


class KernelValues:
    """Kernel values of all pairs of rows: kept where there is room for it, else computed anew.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    X : array of shape (n, n_features)
        The rows; of a precomputed kernel, its values (n, n).
    """

    def __init__(self, kernel: Kernel, X: Array) -> None:
        self.kernel, self.X, n = kernel, X, X.shape[0]
        self.precomputed = kernel.name == "precomputed"
        # beside the values a system and its factor have to fit
        fits = 3 * 8.0 * n * n + _SPARE <= free_memory(X)
        self.kept = self.all() if fits or self.precomputed else None

    def all(self) -> Array:
        """Kernel values of all pairs of rows, in one matrix."""
        kept = getattr(self, "kept", None)
        if kept is not None:
            return kept
        if self.precomputed:
            xp = array_namespace(self.X)
            return xp.astype(self.X, xp.float64, copy=False)
        return _filled(self.kernel, self.X, self.X)

    def product(self, coef: Array) -> Array:
        """Kernel values times coefficients (n, k)."""
        xp = array_namespace(coef)
        if self.kept is not None:
            return xp.matmul(self.kept, coef)
        places = xp.nonzero(xp.any(coef != 0.0, axis=1))[0]
        right = self.kernel.right(xp.take(self.X, places, axis=0))
        return self.kernel.product(self.X, right, xp.take(coef, places, axis=0))

    def columns(self, places: Array) -> Array:
        """Kernel values of all rows with those at places, a new matrix."""
        xp = array_namespace(places)
        if self.kept is not None:
            return xp.take(self.kept, places, axis=1)
        return _filled(self.kernel, self.X, xp.take(self.X, places, axis=0))

    def check_definite(self) -> None:
        """Check that the kernel is one, where it need not be: its factor has to exist."""
        if self.kernel.is_definite:
            return
        xp, n = array_namespace(self.X), self.X.shape[0]
        every = xp.arange(n, device=device(self.X))
        size = float(xp.max(xp.abs(self.kernel.diagonal(self.X))))
        ones = xp.ones(n, dtype=xp.float64, device=device(self.X))
        self.system(every, ones, max(_TRACE * size, 1e-300))

    def between(self, some: Array, others: Array) -> Array:
        """Kernel values of pairs of rows, a new matrix."""
        xp = array_namespace(some)
        if self.kept is not None:
            return xp.take(xp.take(self.kept, some, axis=0), others, axis=1)
        X = self.X
        return _filled(self.kernel, xp.take(X, some, axis=0), xp.take(X, others, axis=0))

    def system(
        self, places: Array, root: Array, penalty: float, often: bool = False
    ) -> KernelSystem:
        """Factorise lambda I + D K D on the rows at places, D having the diagonal ``root``.

        ``often`` says that the system will be solved many times.
        """
        xp, m = array_namespace(root), root.shape[0]
        whole, definite = m == self.X.shape[0], self.kernel.is_definite
        if self.kept is None:
            X = self.X if whole else xp.take(self.X, places, axis=0)
            return KernelSystem(_built(self.kernel, X, root, penalty), often, definite)
        K = self.kept if whole else self.between(places, places)
        return KernelSystem(scaled(K, root, penalty), often, definite)


class KernelSystem:
    """The factor of a positive definite matrix, of which only the lower triangle is read.

    The matrix is overwritten. Larger blocks are inverted if it is to be solved ``often``. Where it
    is known to be ``definite``, only rounding errors can leave it no factor.
    """

    def __init__(self, matrix: Array, often: bool = False, definite: bool = False) -> None:
        self._size = _INVERTED_OFTEN if often else _INVERTED
        try:
            self._lower = _cholesky(matrix)
        except Exception as error:  # each array library raises its own here
            if "memory" in str(error).lower():
                raise
            if definite:
                raise ValueError(
                    "Rounding errors of large kernel values leave their matrix no Cholesky factor. "
                    f"Scale the features, or lower gamma, the degree or C. {Pitfall.UNSCALED}"
                ) from error
            raise indefinite("its matrix has no Cholesky factor") from error
        self._inverses = _diagonal_inverses(self._lower, self._size)

    def solve(self, rhs: Array) -> Array:
        """Solve for right-hand sides (m, k), which are overwritten."""
        return self.backward(self.forward(rhs))

    def forward(self, rhs: Array) -> Array:
        """Solve with the lower factor, in the place of the right-hand sides."""
        xp, m, L = array_namespace(rhs), rhs.shape[0], self._lower
        for k, inverse in enumerate(self._inverses):
            a, b = k * self._size, min(m, (k + 1) * self._size)
            left = rhs[a:b, :] - xp.matmul(L[a:b, :a], rhs[:a, :])
            rhs[a:b, :] = xp.matmul(inverse, left)
        return rhs

    def backward(self, rhs: Array) -> Array:
        """Solve with the transposed factor, in the place of the right-hand sides."""
        xp, m, L = array_namespace(rhs), rhs.shape[0], self._lower
        for k in range(len(self._inverses) - 1, -1, -1):
            a, b = k * self._size, min(m, (k + 1) * self._size)
            left = rhs[a:b, :] - xp.matmul(L[b:, a:b].T, rhs[b:, :])
            rhs[a:b, :] = xp.matmul(self._inverses[k].T, left)
        return rhs


def _filled(kernel: Kernel, some: Array, others: Array) -> Array:
    """Kernel values of all pairs of rows, computed in tiles."""
    xp, n, m = array_namespace(some), some.shape[0], others.shape[0]
    K = xp.empty((n, m), dtype=xp.float64, device=device(some))
    right, step = kernel.right(others), max(1, _TILE // max(1, m))
    for a in range(0, n, step):
        b = min(n, a + step)
        K[a:b, :] = kernel.between(kernel.left(some[a:b, :]), right)
    return K


def _built(kernel: Kernel, X: Array, root: Array, penalty: float) -> Array:
    """Lower triangle of lambda I + D K D; what is above the diagonal is arbitrary."""
    xp, m = array_namespace(root), root.shape[0]
    # zeros: the diagonal is added in blocks, and a NaN that lies in fresh memory would warn
    B = xp.zeros((m, m), dtype=xp.float64, device=device(root))
    right, step = kernel.right(X), max(1, min(_PANEL, _TILE // max(1, m)))
    for a in range(0, m, step):
        b = min(m, a + step)
        rows = kernel.between(kernel.left(X[a:b, :]), right[:b, :])
        B[a:b, :b] = rows * root[a:b, None] * root[None, :b]
    _add_diagonal(B, penalty)
    return B


def scaled(K: Array, root: Array, penalty: float) -> Array:
    """Return lambda I + D K D from all values of K."""
    B = K * root[:, None]
    B *= root[None, :]
    _add_diagonal(B, penalty)
    return B


def _add_diagonal(B: Array, value: float) -> None:
    xp, m = array_namespace(B), B.shape[0]
    if m == 0:
        return
    # a penalty below the rounding errors of the values would leave no factor
    rounding = _ROUNDING * m * float(xp.max(xp.abs(xp.linalg.diagonal(B))))
    add_to_diagonal(B, float(max(value, rounding)))


def _cholesky(B: Array) -> Array:
    """Lower factor in the place of B, whose upper triangle stays arbitrary."""
    xp, m = array_namespace(B), B.shape[0]
    if m <= _WHOLE and 2.0 * 8.0 * m * m + _SPARE <= free_memory(B) + 8.0 * m * m:
        return xp.linalg.cholesky(B)
    for a in range(0, m, _PANEL):
        b = min(m, a + _PANEL)
        lower = xp.linalg.cholesky(B[a:b, a:b])
        B[a:b, a:b] = lower
        if b == m:
            break
        panel = xp.matmul(B[b:, a:b], inverse_of_lower(lower).T)
        B[b:, a:b] = panel
        for c in range(b, m, 2 * _PANEL):
            d = min(m, c + 2 * _PANEL)
            B[c:, c:d] -= xp.matmul(panel[c - b :, :], panel[c - b : d - b, :].T)
    return B


def _diagonal_inverses(L: Array, size: int) -> list[Array]:
    xp, m = array_namespace(L), L.shape[0]
    whole = m // size
    starts = [k * size for k in range(whole)]
    inverses: list[Array] = []
    if whole:
        stacked = xp.stack([L[a : a + size, a : a + size] for a in starts])
        inverses = list(xp.unstack(inverse_of_lower(stacked)))
    if whole * size < m:
        inverses.append(inverse_of_lower(L[whole * size :, whole * size :]))
    return inverses


def inverse_of_lower(L: Array) -> Array:
    """Inverse of lower triangular matrices, of which only that triangle is read."""
    xp = array_namespace(L)
    # beyond the standard, and many times faster where a library has it
    solve = getattr(xp.linalg, "solve_triangular", None)
    if solve is None:
        return xp.linalg.inv(xp.tril(L))
    eye = xp.eye(L.shape[-1], dtype=L.dtype, device=device(L))
    return solve(L, xp.broadcast_to(eye, L.shape), upper=False)
