"""Rows that span a function of a kernel: which ones, and the features that they make of others.

Rows are drawn by their numbers, so that the centres are the same wherever the rows are and however
they are cut into blocks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from array_api_compat import device
from scipy.linalg.lapack import dtrtri

from grayzone.numerics.backend import moved
from grayzone.numerics.centred_design import CentreMap
from grayzone.numerics.checks import as_numpy
from grayzone.numerics.kernels import Kernel
from grayzone.numerics.linalg import lower_factor
from grayzone.numerics.namespace import array_namespace, is_numpy_array
from grayzone.numerics.pivoted import pivoted_columns
from grayzone.solvers.kernel.device_matrix import inverse_of_lower
from grayzone.solvers.kernel.features import indefinite, pivoted_factor
from grayzone.sources.gather import gather, picked
from grayzone.sources.labelled import Labelled, Rows
from grayzone.sources.source import Sums

Array = Any

SELECTIONS = ("random", "leverage", "import")

# What the centres before leave of a centre's squared norm, relative, below which it is left out.
_LEAST, _EPS = 1e-12, 2e-16
_RESIDUAL = 1e-5  # what may be left of the kernel values of an indefinite kernel, relative
# The golden ratio of 2^32: multiples of it are spread evenly (Knuth).
_GOLDEN = 2_654_435_769
_RARE = 5  # a class has at least one centre in so many of its equal share
_CANDIDATES = {"random": 1, "leverage": 10, "import": 2}  # rows that are looked at, per centre
_PILOTS = 500  # rows by which leverages are judged


class Centres(NamedTuple):
    """Centres that are left, and where they come from."""

    features: CentreMap
    numbers: Array | None  # of the rows among all; None where these were given
    n_asked: int

    @property
    def n_dropped(self) -> int:
        """Centres that others span already."""
        return self.n_asked - self.features.n_centres


def find_centres(
    labelled: Labelled, kernel: Kernel, centres: Any, selection: str, seed: int
) -> Centres:
    """Choose the centres of a fit, or take those that are given, and factorise.

    Parameters
    ----------
    labelled : Labelled
        The rows.
    kernel : Kernel
        The kernel.
    centres : int or array of shape (m, n_features)
        How many rows, or the centres themselves.
    selection : {"random", "leverage", "import"}
        How rows are chosen.
    seed : int
        Draws them.
    """
    if not isinstance(centres, int):
        Z = _given(centres, labelled)
        features, _ = centre_map(kernel, Z, labelled.like)
        return Centres(features, None, int(Z.shape[0]))
    Z, numbers = _drawn(labelled, _CANDIDATES[selection] * centres, seed)
    if selection != "random" and numbers.shape[0] > centres:
        choose = _by_leverage if selection == "leverage" else _by_power
        places = np.sort(choose(kernel, Z, centres, labelled, seed))
        Z, numbers = _taken(Z, places), numbers[places]
    features, kept = centre_map(kernel, Z, labelled.like)
    return Centres(features, numbers[kept], int(numbers.shape[0]))


def _given(centres: Any, labelled: Labelled) -> Array:
    like = labelled.like
    if sp.issparse(centres):
        return centres.tocsr().astype(np.float64)
    xp = array_namespace(like)
    return xp.astype(moved(centres, like), xp.float64)


def _taken(Z: Array, places: Array) -> Array:
    if is_numpy_array(Z) or sp.issparse(Z):
        return Z[places]
    return array_namespace(Z).take(Z, moved(places, Z), axis=0)


# ----------------------------------------------------------------------------------------------
# Drawing
# ----------------------------------------------------------------------------------------------


def allotted(n_centres: int, counts: Array) -> Array:
    """Centres of each class: by their rows, and some of rare ones.

    Examples
    --------
    >>> import numpy as np
    >>> from grayzone.solvers.kernel.centres import allotted
    >>> allotted(20, np.array([1000, 30]))
    array([18,  2])
    """
    counts = np.asarray(counts)
    total = min(int(n_centres), int(counts.sum()))
    least = np.minimum(counts, total // (_RARE * counts.size))
    rest, room = total - int(least.sum()), counts - least
    shares = rest * room / max(1, room.sum())
    more = np.floor(shares).astype(np.int64)
    missing = rest - int(more.sum())
    more[np.argsort(more - shares, kind="stable")[:missing]] += 1
    return least + more


def _keys(rows: Rows, shift: int) -> Array:
    """Numbers in [0, 1) by which rows are drawn: neighbours are far apart in their order."""
    xp = array_namespace(rows.codes)
    places = (rows.places() + shift) % 2**31
    return xp.astype(places * _GOLDEN % 2**32, xp.float64) / 2**32


@dataclass(frozen=True)
class _First:
    """The rows of each class whose keys are below its share."""

    shares: tuple[float, ...]
    shift: int

    def __call__(self, rows: Rows) -> Sums:
        xp = array_namespace(rows.codes)
        shares = xp.take(moved(np.array(self.shares), rows.weight), rows.codes)
        chosen = (_keys(rows, self.shift) < shares) & (rows.weight > 0)
        return {"drawn": picked(rows, xp.nonzero(chosen)[0])}


def _drawn(labelled: Labelled, n_rows: int, seed: int) -> tuple[Array, Array]:
    """Rows of all classes in their order, and their numbers among all (NumPy)."""
    wanted = allotted(n_rows, labelled.counts)
    shift = int(np.random.default_rng(seed).integers(2**31))
    if labelled.held is not None:
        held = labelled.held
        places = _lowest(as_numpy(held.codes), as_numpy(_keys(held, shift)), wanted)
        return _taken(held.X, places), as_numpy(held.places())[places]
    spare = wanted + 6.0 * np.sqrt(wanted) + 10.0
    while True:
        shares = np.minimum(1.0, spare / np.maximum(labelled.counts, 1))
        found = labelled.reduce(_First(tuple(shares.tolist()), shift))["drawn"]
        rows, numbers = gather(found, labelled.like, labelled.n_features)
        codes = as_numpy(rows.codes)
        if np.all(np.bincount(codes, minlength=wanted.size) >= wanted) or np.all(shares == 1.0):
            break
        spare *= 2.0
    own = Rows(rows.X, rows.codes, rows.weight, numbers=numbers)
    places = _lowest(codes, as_numpy(_keys(own, shift)), wanted)
    return _taken(rows.X, places), as_numpy(numbers)[places]


def _lowest(codes: Array, keys: Array, wanted: Array) -> Array:
    """Places, in their order, of so many rows of each class: those of the lowest keys."""
    places = []
    for code, n in enumerate(wanted):
        own = np.flatnonzero(codes == code)
        places.append(own[np.argsort(keys[own], kind="stable")[:n]])
    return np.sort(np.concatenate(places))


def _by_leverage(kernel: Kernel, Z: Array, n: int, labelled: Labelled, seed: int) -> Array:
    r"""Rows at random by their ridge leverage scores, approximately.

    With features of some pilot rows, :math:`\varphi'(\sum \varphi\varphi' + \rho)^{-1}\varphi` and,
    for what the pilots leave of a row, its share of :math:`\rho`, which is such that about n
    directions count: the trace of the kernel matrix by n.
    """
    rng, size = np.random.default_rng(seed), Z.shape[0]
    pilots = np.sort(rng.permutation(size)[: min(n, _PILOTS)])
    features, _ = centre_map(kernel, _taken(Z, pilots), labelled.like)
    F = features.features(Z)
    xp = array_namespace(F)
    own = kernel.diagonal(Z)
    ridge = max(labelled.n_rows * float(xp.mean(own)) / n, 1e-300)
    G = xp.matmul(F.T, F) * (labelled.n_rows / size)
    G = G + ridge * xp.eye(F.shape[1], dtype=F.dtype, device=device(F))
    half = xp.matmul(F, inverse_of_lower(lower_factor(G)).T)
    rest = xp.clip(own - xp.sum(F * F, axis=1), min=0.0)
    scores = as_numpy(xp.sum(half * half, axis=1) + rest / ridge)
    # a draw without replacement: the first arrivals of clocks with these rates
    arrivals = rng.exponential(size=size) / np.maximum(scores, 1e-300)
    return np.argsort(arrivals, kind="stable")[:n]


def _by_power(kernel: Kernel, Z: Array, n: int, labelled: Labelled, seed: int) -> Array:
    """Row by row the one that those before explain least: the pivots of a Cholesky factor."""
    unit, _ = _unit_values(kernel, Z)
    by = pivoted_factor if is_numpy_array(unit) else pivoted_columns
    _, pivots = by(unit, _least(Z.shape[0]))
    return np.asarray(pivots[:n])


# ----------------------------------------------------------------------------------------------
# Factors
# ----------------------------------------------------------------------------------------------


def centre_map(kernel: Kernel, Z: Array, like: Array) -> tuple[CentreMap, Array]:
    """Return the map of centres that are independent, and which of Z these are.

    A centre of which the others leave less than a trace, as of one that is there twice, is left
    out: they span it already.
    """
    m = Z.shape[0]
    unit, norms = _unit_values(kernel, Z)
    lower = _lower(unit, _least(m))
    kept = np.arange(m)
    if lower is None:
        lower, kept = _independent(kernel, unit)
        norms, Z = _taken(norms, kept), _taken(Z, kept)
    inverse = moved(_inverse(lower) / norms[None, :], like)
    return CentreMap(kernel, Z, kernel.right(Z), inverse), kept


def _least(m: int) -> float:
    return max(_LEAST, _EPS * m)


def _unit_values(kernel: Kernel, Z: Array) -> tuple[Array, Array]:
    """Kernel values of the centres, each scaled to norm one, and these norms."""
    K = kernel(Z, Z)
    xp = array_namespace(K)
    diagonal = xp.linalg.diagonal(K)
    largest = float(xp.max(diagonal))
    if not largest > 0.0:
        raise ValueError("The kernel has no positive value at any centre with itself; check it.")
    # of kernels that need not be definite nobody knows the errors: all have one scale
    own = diagonal if kernel.is_definite else 0.0 * diagonal
    norms = xp.sqrt(xp.where(own > 0.0, own, largest + 0.0 * own))
    return K / norms[:, None] / norms[None, :], norms


def _lower(unit: Array, least: float) -> Array | None:
    """Cholesky factor; None where there is none, or a centre is nearly spanned by others."""
    xp = array_namespace(unit)
    try:
        lower = lower_factor(unit)
    except FloatingPointError:
        return None
    power = float(xp.min(xp.linalg.diagonal(lower))) ** 2
    return lower if power > least else None


def _independent(kernel: Kernel, unit: Array) -> tuple[Array, Array]:
    """Cholesky factor of centres that are independent, and which ones these are."""
    xp, least = array_namespace(unit), _least(unit.shape[0])
    by = pivoted_factor if is_numpy_array(unit) else pivoted_columns
    L, pivots = by(xp.asarray(unit, copy=True), least)
    if not kernel.is_definite:
        worst = float(xp.max(xp.abs(unit - xp.matmul(L, L.T))))
        if worst > max(_RESIDUAL, 1e3 * _EPS * unit.shape[0]):
            raise indefinite(f"among the centres a value is off by {worst:.2e}")
    order = np.sort(pivots)
    some = _taken(_taken(unit, order).T, order)
    lower = _lower(some, 0.0)
    if lower is not None:
        return lower, order
    # in the order in which they were chosen, in which there is a factor
    return xp.tril(_taken(L, pivots)), np.asarray(pivots)


def _inverse(lower: Array) -> Array:
    if not is_numpy_array(lower):
        return inverse_of_lower(lower)
    inverse, _ = dtrtri(lower, lower=True)
    return np.tril(inverse)
