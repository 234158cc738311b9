"""What an exported model is given: one matrix, or a table with an input for each column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from grayzone.onnx.formulas import NotConvertibleError
from grayzone.onnx.graph import Graph, Tensor

Array = Any

NUMBER, TEXT = "number", "text"
GAP = ""  # what stands for a gap in a column of text: ONNX has no other


def values_of(column: Any) -> Array:
    """Values of a column of pandas or polars; gaps of numbers with masks are NaN."""
    dtype = getattr(column, "dtype", None)
    masked = getattr(getattr(dtype, "numpy_dtype", None), "kind", "O") in "biuf"
    if hasattr(dtype, "na_value") and masked:
        return column.to_numpy(dtype=np.float64, na_value=np.nan)
    return np.asarray(column)


@dataclass(frozen=True)
class Column:
    """A column (n, 1), of doubles or of text."""

    tensor: Tensor
    kind: str

    def numbers(self, name: str) -> Tensor:
        """Values as doubles."""
        if self.kind == TEXT:
            raise NotConvertibleError(
                f"{name} is text where numbers are needed; encode it first, for instance by "
                "OneHotEncoder in a ColumnTransformer."
            )
        return self.tensor


class Rows:
    """Rows of a matrix, or of a table whose columns have names.

    Parameters
    ----------
    graph : Graph
        Where they are.
    matrix : Tensor, optional
        All columns beside each other, of one kind.
    width : int
        Number of columns.
    kind : {"number", "text"}
        What a matrix holds.
    table : dict, optional
        Columns by name, in place of a matrix.
    """

    def __init__(
        self,
        graph: Graph,
        matrix: Tensor | None,
        width: int,
        kind: str = NUMBER,
        table: dict[Any, Column] | None = None,
    ) -> None:
        self.graph, self.matrix, self.width = graph, matrix, width
        self.kind, self.table = kind, table

    @classmethod
    def of_columns(cls, graph: Graph, table: dict[Any, Column]) -> Rows:
        """Return the rows of a table."""
        return cls(graph, None, len(table), table=table)

    @property
    def names(self) -> list[Any]:
        """Names of columns, or their places."""
        return list(range(self.width)) if self.table is None else list(self.table)

    def column(self, place: int) -> Column:
        """Return a column by its place."""
        if self.table is not None:
            return self.table[self.names[place]]
        assert self.matrix is not None
        return Column(self.matrix.columns([place]), self.kind)

    def numbers(self) -> Tensor:
        """All columns beside each other, as doubles."""
        if self.table is None:
            assert self.matrix is not None
            return Column(self.matrix, self.kind).numbers("The table")
        parts = [column.numbers(f"Column {name!r}") for name, column in self.table.items()]
        return self.graph.concat(parts)

    def select(self, keys: Any) -> Rows:
        """Return some columns, by whatever a ColumnTransformer has for them."""
        places = self._places(keys)
        if self.table is not None:
            names = self.names
            return Rows.of_columns(self.graph, {names[p]: self.table[names[p]] for p in places})
        assert self.matrix is not None
        return Rows(self.graph, self.matrix.columns(places), len(places), self.kind)

    def _places(self, keys: Any) -> list[int]:
        names = self.names
        if isinstance(keys, str) or np.isscalar(keys):
            keys = [keys]
        if isinstance(keys, slice):
            if isinstance(keys.start, str) or isinstance(keys.stop, str):
                first = 0 if keys.start is None else names.index(keys.start)
                last = len(names) if keys.stop is None else names.index(keys.stop) + 1
                return list(range(first, last))
            return list(range(self.width))[keys]
        listed = list(np.asarray(keys).tolist()) if not isinstance(keys, list) else keys
        if listed and all(isinstance(key, bool | np.bool_) for key in listed):
            return [place for place, key in enumerate(listed) if key]
        if any(isinstance(key, str) for key in listed):
            missing = [key for key in listed if key not in names]
            if missing:
                raise ValueError(
                    f"X lacks the columns {missing[:5]} that the model was fitted with; it has "
                    f"{names[:8]}."
                )
            return [names.index(key) for key in listed]
        return [int(key) % self.width for key in listed]


def beside(graph: Graph, parts: Sequence[Rows]) -> Rows:
    """Put the columns of several beside each other, as numbers."""
    some = [part for part in parts if part.width]
    if not some:
        raise NotConvertibleError("A step of the pipeline leaves no columns.")
    return Rows(graph, graph.concat([part.numbers() for part in some]), sum(p.width for p in some))
