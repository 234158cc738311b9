"""Rows as they come, in arrays, frames and sparse matrices, as blocks that tasks understand."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp

from grayzone.numerics.checks import as_numpy, check_integer
from grayzone.sources.source import Block

Array = Any

# Entries of a block: 16 MB in double precision, some of which are in memory at a time.
_ENTRIES = 2**21


def rows_of_a_block(block_rows: Any, n_features: int) -> int:
    """Return the number of rows asked for, or one that suits the number of features."""
    if block_rows is not None:
        return check_integer("block_rows", block_rows, least=1)
    return max(1, _ENTRIES // max(1, n_features))


def as_block(X: Any, y: Any, weight: Any, first: int, what: str, costs: Any = None) -> Block:
    """Return a block of NumPy or CSR rows; ``what`` is what errors call the data.

    Labels, weights, costs and values are looked at when a fit begins, not here.
    """
    rows = as_rows(X, what)
    labels = None if y is None else as_numpy(y)
    if labels is not None and labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels is not None and labels.ndim != 1:
        raise ValueError(f"{what}: y must have one label a row; got shape {labels.shape}.")
    return Block(rows, labels, _weights(weight, rows.shape[0], what), first, _costs(costs))


def _costs(costs: Any) -> Any:
    """Costs of rows as arrays of NumPy, in the form that they come in."""
    if isinstance(costs, Mapping):
        return {label: as_numpy(column) for label, column in costs.items()}
    return None if costs is None else as_numpy(costs)


def as_rows(X: Any, what: str) -> Array:
    """Return rows in single or double precision; other numbers become double precision."""
    if sp.issparse(X):
        return _floating(X.tocsr(), what)
    if hasattr(X, "columns"):
        return _frame(X, what)
    X = as_numpy(X)
    if X.ndim != 2:
        raise ValueError(
            f"{what}: X must have two dimensions, rows and features; got shape {X.shape}."
        )
    return _floating(X, what)


def _floating(X: Array, what: str) -> Array:
    if X.dtype in (np.float32, np.float64) and X.dtype.isnative:
        return X
    if X.dtype.kind not in "biuf":
        raise ValueError(f"{what}: X must be made of numbers; got dtype {X.dtype}.")
    return X.astype(np.float32 if X.dtype.newbyteorder("=") == np.float32 else np.float64)


def _frame(X: Any, what: str) -> Array:
    check_numeric(X, what)
    if is_pandas(X):
        single = all(dtype == np.float32 for dtype in X.dtypes)
        dtype = np.float32 if single else np.float64
        return X.to_numpy(dtype=dtype, na_value=np.nan)
    return _floating(X.to_numpy(), what)


def is_pandas(X: Any) -> bool:
    """Whether a frame is pandas' own."""
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(X, pandas.DataFrame)


def check_numeric(X: Any, what: str) -> None:
    """Check that a frame of pandas or polars has columns of numbers only."""
    for name, dtype in zip(X.columns, X.dtypes, strict=True):
        if not _is_numeric(dtype, is_pandas(X)):
            raise ValueError(
                f"{what}: column {name!r} must be made of numbers; it is of type {dtype}. Encode "
                "it, or leave it out."
            )


def _is_numeric(dtype: Any, pandas: bool) -> bool:
    if not pandas:
        return bool(dtype.is_numeric()) or str(dtype) == "Boolean"
    types = sys.modules["pandas"].api.types
    complex_ = types.is_complex_dtype(dtype)
    return bool((types.is_numeric_dtype(dtype) or types.is_bool_dtype(dtype)) and not complex_)


def names_of(X: Any) -> Array | None:
    """Names of a frame's columns, where all of them are strings."""
    names = list(getattr(X, "columns", ()))
    if not names or not all(isinstance(name, str) for name in names):
        return None
    return np.array(names, dtype=object)


def _weights(weight: Any, n_rows: int, what: str) -> Array | None:
    if weight is None:
        return None
    try:
        weight = as_numpy(weight).astype(np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{what}: sample_weight must be made of numbers.") from error
    if weight.ndim == 0:
        return np.full(n_rows, float(weight))
    return weight[:, 0] if weight.ndim == 2 and weight.shape[1] == 1 else weight
