"""Inputs of an exported model, from rows as they will be given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from grayzone.onnx.graph import Graph
from grayzone.onnx.rows import NUMBER, TEXT, Column, Rows, values_of

Array = Any

ONE = "X"  # the name of a matrix
RESERVED = {"label", "probabilities", "scores", "decision", "expected_costs"}
RESERVED |= {"costs", "reject_cost"}


@dataclass(frozen=True)
class Inputs:
    """Rows of a graph, what is declared of them, and the precision of answers.

    ``declared`` has types and shapes by name.
    """

    rows: Rows
    declared: dict[str, tuple[str, list[Any]]]
    kind: str


def inputs_of(graph: Graph, X: Any, model: Any) -> Inputs:
    """Return the inputs for rows like X; None is a matrix of doubles.

    Raises
    ------
    ValueError
        If X has other columns than the model, or values of a type that ONNX has not.
    """
    if X is None:
        width = getattr(model, "n_features_in_", None)
        if width is None:
            raise ValueError("Give some rows X: the model does not say how many features it has.")
        return _matrix(graph, np.empty((0, width)))
    if hasattr(X, "columns") and not sp.issparse(X):
        return _table(graph, X, model)
    if sp.issparse(X):
        return _matrix(graph, np.empty((0, X.shape[1]), dtype=X.dtype))
    array = np.asarray(X)
    if array.ndim != 2:
        raise ValueError(f"X must have two dimensions; got an array of shape {array.shape}.")
    return _matrix(graph, array)


def _matrix(graph: Graph, array: Array) -> Inputs:
    kind, text = _type_of(array, "X")
    tensor, width = graph.input(ONE), array.shape[1]
    if kind not in ("DOUBLE", "STRING"):
        tensor = tensor.cast("DOUBLE")
    rows = Rows(graph, tensor, width, TEXT if text else NUMBER)
    return Inputs(rows, {ONE: (kind, ["n", width])}, "FLOAT" if kind == "FLOAT" else "DOUBLE")


def _table(graph: Graph, X: Any, model: Any) -> Inputs:
    names = [str(name) for name in X.columns]
    _check_names(names, model)
    columns, declared = {}, {}
    for name, label in zip(names, X.columns, strict=True):
        kind, text = _type_of(values_of(X[label]), f"Column {name!r}")
        tensor = graph.input(name)
        if kind not in ("DOUBLE", "STRING"):
            tensor = tensor.cast("DOUBLE")
        columns[name] = Column(tensor, TEXT if text else NUMBER)
        declared[name] = kind, ["n", 1]
    numbers = {kind for kind, _ in declared.values()} & {"DOUBLE", "INT64", "FLOAT"}
    single = numbers == {"FLOAT"}
    return Inputs(Rows.of_columns(graph, columns), declared, "FLOAT" if single else "DOUBLE")


def _check_names(names: list[str], model: Any) -> None:
    if len(set(names)) < len(names):
        raise ValueError("Columns of X must have different names.")
    check_reserved(names)
    known = [str(name) for name in getattr(model, "feature_names_in_", names)]
    missing = [name for name in known if name not in names]
    if missing:
        raise ValueError(
            f"X lacks {len(missing)} of {len(known)} columns that the model was fitted with: "
            f"{missing[:5]}."
        )
    if known != names[: len(known)] or len(known) < len(names):
        raise ValueError(
            f"Columns of X must be those of the fit, in that order: {known[:8]}; got {names[:8]}."
        )


def check_reserved(names: list[str]) -> None:
    """Check that no column has the name of an output, or of an input that need not be given."""
    reserved = sorted(RESERVED & set(names))
    if reserved:
        raise ValueError(
            f"A column is called {reserved[0]!r}, as an output or input of exported models is; "
            "rename it."
        )


def _type_of(array: Array, what: str) -> tuple[str, bool]:
    """Return the type that an input has, and whether it is text."""
    if array.dtype.kind == "f":
        return ("FLOAT" if array.dtype.itemsize <= 4 else "DOUBLE"), False
    if array.dtype.kind in "iu":
        return "INT64", False
    if array.dtype.kind == "b":
        return "BOOL", False
    values = [value for value in array.ravel().tolist() if value is not None and value == value]
    if array.dtype.kind in "US" or all(isinstance(value, str) for value in values):
        return "STRING", True
    if array.dtype.kind == "O" and all(isinstance(v, int | float) for v in values):
        return "DOUBLE", False
    if array.dtype.kind in "mM":
        raise ValueError(
            f"{what} holds dates, which a file of operators cannot read: turn them into numbers "
            "before the model, or decide in Python."
        )
    kinds = sorted({type(value).__name__ for value in values})[:4]
    raise ValueError(
        f"{what} holds values of the types {', '.join(kinds)}; expected numbers, or text "
        "throughout. A DataFrame has a type for each column."
    )
