"""Exact kernel logistic regression of more rows than a device has room for the kernel matrix of.

Newton's systems are solved by conjugate gradients (:mod:`grayzone.solvers.kernel.device_path`), for
which kernel values are computed anew in every product: memory grows with the rows times the columns
that the preconditioner knows. All sums are in double precision, and so is the certificate: it is
that of the function of all rows.
"""

from __future__ import annotations

import time
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
from array_api_compat import is_torch_array

from grayzone.numerics.margins import SignedMargin
from grayzone.numerics.namespace import array_namespace
from grayzone.solvers.certificate import State
from grayzone.solvers.kernel.device_design import DeviceKernelDesign
from grayzone.solvers.kernel.device_kernel import spanned_state
from grayzone.solvers.kernel.device_matrix import fits_in_memory, free_memory, system_bytes
from grayzone.solvers.kernel.device_path import KernelFits, nystrom
from grayzone.solvers.problem import Problem

Array = Any

# Columns that the preconditioner knows: at most so many, and this share of the free memory.
_RANK, _SHARE = 8192, 0.1
_INNER = 0.03  # accuracy of the systems at first; later the root of the gap
_TRIED = 2048  # rows whose values with all others are computed to see how long that takes
_PRODUCTS = 100, 400  # that a fit takes, about
_SEED = 0  # draws the columns
_DEPTH = 10  # calls between the fit that somebody asked for and this


def is_beyond_memory(problem: Problem) -> bool:
    """Whether a smooth problem of two classes has too many rows for its kernel matrix."""
    xp, design = array_namespace(problem.weight), problem.design
    smooth = not bool(xp.any(xp.isfinite(problem.loss.floor)))
    known = isinstance(design, DeviceKernelDesign) and design.kernel.name != "precomputed"
    return smooth and known and not fits_in_memory(design.n_rows, problem.weight)


class BeyondMemory:
    """The strategy, for the plain logistic loss and two classes."""

    def init(self, problem: Problem, start: Array | None) -> State:
        """Tell what is to come, and start from the class priors."""
        design = problem.design
        assert isinstance(design, DeviceKernelDesign)
        free = free_memory(problem.weight)
        rank = int(max(64, min(_RANK, design.n_rows, _SHARE * free / (8.0 * design.n_rows))))
        warnings.warn(_plan(design, rank, free), UserWarning, stacklevel=_DEPTH)
        features = nystrom(design.values, _SEED, rank)
        assert isinstance(problem.margins, SignedMargin)
        y, xp = problem.margins.y, array_namespace(problem.weight)
        fits = KernelFits(design.values, features, y, design.fit_intercept)
        penalty = problem.penalty * xp.ones_like(problem.weight[:1])
        point = fits.start(problem.weight[:, None], penalty)
        return self._state(problem, fits, point)

    def step(self, problem: Problem, state: State, tol: float) -> State:
        """Take one Newton step of all rows, as exact as the gap makes worth while."""
        fits, point = state.memory
        assert state.certificate is not None
        accuracy = min(_INNER, max(state.certificate.relative, 1e-12) ** 0.5)
        return self._state(problem, fits, fits.step(point, accuracy))

    @staticmethod
    def _state(problem: Problem, fits: KernelFits, point: Any) -> State:
        assert isinstance(problem.design, DeviceKernelDesign)
        found = spanned_state(problem, problem.design, point.coef[:, 0], point.intercept[0])
        assert found.certificate is not None
        return replace(found, memory=(fits, point), value=found.certificate.primal)


def _plan(design: DeviceKernelDesign, rank: int, free: float) -> str:
    """Say what such a fit takes, before it starts."""
    seconds = _seconds_of_product(design)
    n, (few, many) = design.n_rows, _PRODUCTS
    memory = 8.0 * n * (3 * rank + 20)
    return (
        f"The kernel matrix of {n:,} rows would take {system_bytes(n) / 1e9:,.0f} GB, and "
        f"{free / 1e9:,.1f} are free: its values are computed anew in every product, and the fit "
        f"takes some {memory / 1e9:,.1f} GB. A product takes about {seconds:.2g} s, a fit {few} to "
        f"{many} of them, the more the larger C is: {few * seconds / 60:.2g} to "
        f"{many * seconds / 60:.2g} minutes. Functions that centres=10_000 rows span are fitted in "
        "a fraction of that."
    )


def _seconds_of_product(design: DeviceKernelDesign) -> float:
    """Seconds that a product with the matrix takes, by that of some rows."""
    xp, n = array_namespace(design.X), design.n_rows
    some, ones = design.X[: min(n, _TRIED), :], xp.ones_like(design.X[:, :1], dtype=xp.float64)
    right = design.kernel.right(design.X)
    best = np.inf
    for _ in range(2):  # the first time libraries make themselves ready
        _wait(design.X)
        began = time.perf_counter()
        design.kernel.product(some, right, ones)
        _wait(design.X)
        best = min(best, time.perf_counter() - began)
    return float(best * n / some.shape[0])


def _wait(like: Array) -> None:
    """Wait until a device has done what it was asked for."""
    if is_torch_array(like) and like.device.type == "cuda":
        import torch

        torch.cuda.synchronize(like.device)
    elif hasattr(like, "device") and hasattr(like.device, "synchronize"):
        like.device.synchronize()
