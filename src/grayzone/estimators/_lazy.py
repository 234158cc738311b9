"""Predictions for rows in blocks, some not before they are asked for; in the rows' precision."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import wraps
from typing import Any, cast

import numpy as np
from sklearn.utils.validation import check_is_fitted

from grayzone.arrays import to_numpy
from grayzone.numerics.backend import is_single
from grayzone.numerics.checks import Given, Result, as_numpy
from grayzone.numerics.namespace import array_namespace
from grayzone.sources.convert import as_rows, check_numeric, names_of
from grayzone.sources.dask import dask_costs, is_dask, is_dask_frame
from grayzone.sources.open import COSTS_OF_BLOCKS
from grayzone.sources.source import Source

Array = Any

# The largest number of single precision.
_LARGEST = float(np.finfo(np.float32).max)
# Logarithms above it are of numbers that are one in single precision.
_LOG_OF_ONE = -(2.0**-25)


def lazily(method: Callable[Given, Result]) -> Callable[Given, Result]:
    """Let a method that predicts take sources of blocks, and arrays and frames of Dask.

    For a source it returns a generator of arrays, one a block; for a Dask array or frame, a Dask
    array whose chunks are predicted on the workers when it is computed. Numbers, but not labels,
    have the precision of the rows; they are computed in double precision.
    """
    name = method.__name__
    compute = cast(Callable[..., Any], method)
    by_costs = "example_costs" in inspect.signature(method).parameters

    @wraps(method)
    def predicted(self: Any, X: Any, *args: Any, **options: Any) -> Any:
        if not (isinstance(X, Source) or is_dask(X)):
            values = compute(self, X, *args, **options)
            return values if name == "predict" or not is_single(X) else _single(values, name)
        given = inspect.signature(method).bind(self, X, *args, **options)  # or an error
        costs = given.arguments.get("example_costs")
        check_is_fitted(self)
        names = X.feature_names if isinstance(X, Source) else names_of(X)
        n_features = X.n_features if isinstance(X, Source) else int(X.shape[1])
        _check_features(self, names, n_features)
        call = _Call(_nameless(self), name)
        if isinstance(X, Source):
            if costs is not None:
                raise ValueError(COSTS_OF_BLOCKS)
            return _by_blocks(call, X, by_costs)
        if costs is not None:
            return _on_array_with_costs(call, X, costs)
        return _on_frame(call, X) if is_dask_frame(X) else _on_array(call, X)

    return cast(Callable[Given, Result], predicted)


def _single(values: Array, method: str) -> Array:
    xp = array_namespace(values)
    if method == "predict_log_proba":
        # logarithms are those of the probabilities that are returned, of which these are 1
        values = xp.where(values > _LOG_OF_ONE, xp.zeros_like(values), values)
    values = xp.clip(values, min=-_LARGEST, max=_LARGEST)
    return xp.astype(values, xp.float32, copy=False)


def _check_features(estimator: Any, names: Array | None, n_features: int) -> None:
    kind = type(estimator).__name__
    if n_features != estimator.n_features_in_:
        raise ValueError(
            f"X has {n_features} features, but {kind} is expecting {estimator.n_features_in_} "
            "features as input."
        )
    known = getattr(estimator, "feature_names_in_", None)
    if names is not None and known is not None and not np.array_equal(names, known):
        raise ValueError(
            f"The feature names should match those that were passed during fit: {kind} was fitted "
            f"with {known.tolist()}, got {names.tolist()}."
        )


def _nameless(estimator: Any) -> Any:
    """Copy for NumPy rows, without names of features: blocks have none, they are checked before."""
    result = to_numpy(estimator)
    result.__dict__.pop("feature_names_in_", None)
    return result


@dataclass(frozen=True)
class _Call:
    """A method of a fitted estimator, as it travels to where the rows are."""

    estimator: Any
    method: str

    def __call__(self, X: Any, costs: Any = None) -> Array:
        rows, options = as_rows(X, "X"), {} if costs is None else {"example_costs": costs}
        if rows.shape[0] == 0:
            return self.like(rows.dtype)[:0]
        return getattr(self.estimator, self.method)(rows, **options)

    @property
    def __name__(self) -> str:
        """Name that the dashboard shows: every version of Dask asks a function for its own."""
        return f"grayzone-{self.method.replace('_', '-')}"

    def like(self, dtype: Any) -> Array:
        """Predict for one row, to see what comes out."""
        zeros = np.zeros((1, self.estimator.n_features_in_), dtype)
        return getattr(self.estimator, self.method)(zeros)


def _by_blocks(call: _Call, source: Source, by_costs: bool) -> Iterator[Array]:
    for block in source.blocks():
        yield call(block.X, block.costs if by_costs else None)


def _on_array_with_costs(call: _Call, X: Any, costs: Any) -> Any:
    """Decide about chunks, each with the costs of its rows."""
    import dask.array as da

    if is_dask_frame(X):
        check_numeric(X._meta, "X")
        X = X.to_dask_array(lengths=True)
    X = X.rechunk({1: -1})
    like = call.like(_precision(X))
    matrices = dask_costs(costs, as_numpy(call.estimator.classes_), X)
    parts = (X, "ij", matrices, "ikl")
    return da.blockwise(call, "i", *parts, concatenate=True, dtype=like.dtype, meta=like[:0])


def _on_array(call: _Call, X: Any) -> Any:
    X = X.rechunk({1: -1})
    like = call.like(_precision(X))
    shape: dict[str, Any] = {"drop_axis": 1}
    if like.ndim == 2:
        shape = {"chunks": (X.chunks[0], (like.shape[1],))}
    return X.map_blocks(call, dtype=like.dtype, meta=like[:0], **shape)


def _on_frame(call: _Call, X: Any) -> Any:
    check_numeric(X._meta, "X")
    return X.map_partitions(call, meta=call.like(_precision(X._meta))[:0])


def _precision(X: Any) -> Any:
    return np.float32 if is_single(X) else np.float64
