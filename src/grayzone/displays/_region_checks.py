"""Checks of what is to be drawn in a plane: grids, rows, labels and probabilities."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from array_api_compat import device, is_array_api_obj
from numpy.typing import NDArray
from sklearn.utils import check_array, check_consistent_length

from grayzone.numerics.checks import (
    Floats,
    as_labels,
    as_numpy,
    as_probabilities,
    check_number,
    encode_labels,
    is_auto,
    listed,
)
from grayzone.numerics.namespace import array_namespace, is_numpy_array


def two_features(values: Any, name: str) -> Floats:
    """Check rows of two features and return them as a dense array of floats."""
    dense = values.toarray() if sp.issparse(values) else as_numpy(values)
    rows = check_array(dense, dtype=np.float64, input_name=name)
    if rows.shape[1] != 2:
        raise ValueError(
            f"{name} must have two features to be drawn in a plane; got shape {rows.shape}."
        )
    return rows


def grid_around(rows: Floats, resolution: int, eps: Any) -> tuple[Floats, Floats]:
    """Return the two features on a grid that covers the rows and a little more."""
    low, high = rows.min(axis=0), rows.max(axis=0)
    if is_auto(eps):
        margin = 0.1 * (high - low)
    elif check_number("eps", eps) >= 0:
        margin = np.full(2, float(eps))
    else:
        raise ValueError(f"eps must be 'auto' or a finite number >= 0; got {eps!r}.")
    margin[high + margin == low - margin] = 1.0  # a constant feature has no range
    ends = zip(low - margin, high + margin, strict=True)
    xx0, xx1 = np.meshgrid(*(np.linspace(*pair, resolution) for pair in ends))
    return xx0, xx1


def checked_grid(xx0: Any, xx1: Any) -> tuple[Floats, Floats]:
    first, second = (as_numpy(xx).astype(np.float64) for xx in (xx0, xx1))
    if first.shape != second.shape or first.ndim != 2 or min(first.shape) < 2:
        raise ValueError(
            "xx0 and xx1 must have one shape, (n_rows, n_columns), both at least 2, as from "
            f"numpy.meshgrid; got {first.shape} and {second.shape}."
        )
    if not min(np.ptp(first), np.ptp(second)) > 0:
        raise ValueError("xx0 and xx1 must be finite, and neither may be the same everywhere.")
    return first, second


def in_form_of(X: Any, nodes: Floats) -> Any:
    """Return points of a grid as the kind of table or array that X is."""
    if hasattr(X, "columns"):  # pandas and polars
        return type(X)(dict(zip(X.columns, nodes.T, strict=True)))
    if is_array_api_obj(X) and not is_numpy_array(X):
        return array_namespace(X).asarray(nodes, dtype=X.dtype, device=device(X))
    return nodes


def axis_labels(X: Any) -> dict[str, Any]:
    """Return the names of two columns as labels of axes, if they have names."""
    columns = getattr(X, "columns", None)
    return {} if columns is None else {"xlabel": str(columns[0]), "ylabel": str(columns[1])}


def probabilities_on(values: Any, shape: tuple[int, ...], name: str) -> Floats:
    """Check probabilities on a grid and return them with one row a point and a column a class."""
    array = as_numpy(values)
    n_nodes = shape[0] * shape[1]
    if array.shape[:2] == shape:
        array = array.reshape(n_nodes, *array.shape[2:])
    if array.shape[:1] != (n_nodes,):
        raise ValueError(
            f"{name} has shape {array.shape}; expected the probabilities at the points of the "
            f"grid of shape {shape}, {n_nodes} in all."
        )
    proba: Floats = as_probabilities(array, name).astype(np.float64)
    if proba.min() < 0 or proba.max() > 1:
        raise ValueError(
            f"{name} must be probabilities, between 0 and 1; they range from {proba.min():g} "
            f"to {proba.max():g}."
        )
    if proba.shape[1] < 2:
        raise ValueError(f"{name} stands for one class only: there is nothing to decide.")
    return proba


def checked_levels(levels: Any) -> tuple[float, ...]:
    checked = tuple(check_number("levels", level) for level in np.ravel(levels).tolist())
    if not all(0 < level < 1 for level in checked):
        raise ValueError(f"levels must be probabilities between 0 and 1; got {levels!r}.")
    return checked


def column_labels(classes: Any, y: Any, n_classes: int) -> NDArray[Any]:
    """Return the labels of the columns of probabilities."""
    if classes is None:
        classes = np.arange(n_classes) if y is None else np.unique(as_labels(y, "y"))
    labels = as_labels(classes, "classes")
    if len(labels) != n_classes:
        raise ValueError(
            f"proba stands for {n_classes} classes but there are {len(labels)} labels, "
            f"{listed(labels)}; name the label of each column in classes."
        )
    return labels


def row_labels(y: Any, rows: Any, classes: NDArray[Any]) -> NDArray[Any]:
    """Check the labels of rows: one each, and all of them classes."""
    labels = as_labels(y, "y")
    check_consistent_length(rows, labels)
    encode_labels(labels, classes, "y")
    return labels
