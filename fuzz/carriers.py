"""Forms in which rows come to a fit: arrays of several libraries, files, batches, Dask."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn import config_context

from fuzz.rows import Rows

Array = Any

# The library that each needs, beyond those of the package.
NEEDS = {
    "pandas": "pandas",
    "parquet": "pyarrow",
    "PyTorch": "torch",
    "array-api-strict": "array_api_strict",
    "Dask": "dask",
}
ELSEWHERE = ("PyTorch", "array-api-strict")
STREAMED = ("npy", "batches", "parquet", "Dask")


@cache
def missing() -> list[str]:
    """Return the carriers whose library is not here."""
    return [name for name, library in NEEDS.items() if find_spec(library) is None]


def context(carrier: str) -> Any:
    """Return the context in which arrays of other libraries stay what they are."""
    return config_context(array_api_dispatch=carrier in ELSEWHERE)


@contextmanager
def carried(
    carrier: str, rows: Rows, costs: Any = None, rewards: Any = None
) -> Iterator[dict[str, Any]]:
    """Give the arguments of ``fit``; files are there as long as the context is.

    Costs of rows, if any, come with batches, and beside everything else; rewards are beside all.
    """
    given = {} if costs is None else {"example_costs": put_costs(carrier, costs)}
    if rewards is not None:
        given["rewards"] = put_costs(carrier, rewards)
    if carrier == "batches" and costs is not None:
        yield {"X": _batches(rows, Path(), costs)}
    elif carrier in _SOURCES:
        with TemporaryDirectory(prefix="fuzz-") as folder:
            yield {"X": _SOURCES[carrier](rows, Path(folder)), **given}
    else:
        X, y, weight = _arguments(carrier, rows)
        yield {"X": X, "y": y, "sample_weight": weight, **given}


def _arguments(carrier: str, rows: Rows) -> tuple[Any, ...]:
    X, y, weight = rows
    if carrier == "Dask":
        return tuple(None if part is None else _dask(part) for part in rows)
    if carrier in ELSEWHERE:
        there = y if y.dtype.kind == "U" else put(carrier, y)
        return put(carrier, X), there, None if weight is None else put(carrier, weight)
    return put(carrier, X), y, weight


def put(carrier: str, values: Array) -> Array:
    """Return an array of the kind that a model of this carrier predicts for."""
    return _ARRAYS.get(carrier, np.asarray)(values)


def put_costs(carrier: str, costs: Any) -> Any:
    """Return costs of rows as arrays of the kind that the rows are."""
    if carrier not in ELSEWHERE:
        return costs
    if isinstance(costs, dict):
        return {k: put(carrier, v) if np.ndim(v) else v for k, v in costs.items()}
    return put(carrier, costs)


def taken(values: Any) -> Array:
    """Return what a model has predicted, or learned, as NumPy's."""
    if isinstance(values, np.ndarray) or not hasattr(values, "__dlpack__"):
        return np.asarray(values)
    return np.from_dlpack(values)


def _pandas(values: Array) -> Any:
    import pandas as pd

    return pd.DataFrame(values, columns=_names(values))


def _torch(values: Array) -> Any:
    import torch

    return torch.asarray(np.array(values))


def _strict(values: Array) -> Any:
    import array_api_strict as xp

    return xp.asarray(np.array(values))


def _dask(values: Array) -> Any:
    import dask.array as da

    return da.from_array(values, chunks=(max(1, len(values) // 2), *values.shape[1:]))


_ARRAYS: dict[str, Callable[[Array], Any]] = {
    "Fortran": np.asfortranarray,
    "CSR": sp.csr_array,
    "CSC": sp.csc_array,
    "pandas": _pandas,
    "PyTorch": _torch,
    "array-api-strict": _strict,
}


def _npy(rows: Rows, folder: Path) -> Any:
    from grayzone.sources import open_npy

    paths = []
    for name, values in zip(Rows._fields, rows, strict=True):
        paths.append(None if values is None else folder / f"{name}.npy")
        if values is not None:
            np.save(folder / f"{name}.npy", values)
    return open_npy(*paths, block_rows=25)


def _batches(rows: Rows, folder: Path, costs: Any = None) -> Any:
    from grayzone.sources import from_batches

    def costs_of(some: slice) -> Any:
        if isinstance(costs, dict):
            return {k: v[some] if np.ndim(v) else v for k, v in costs.items()}
        return costs[some]

    def batches() -> Iterator[tuple[Any, ...]]:
        for start in range(0, len(rows.y), 16):
            some = slice(start, start + 16)
            batch = tuple(None if part is None else part[some] for part in rows)
            yield batch if costs is None else (*batch, costs_of(some))

    return from_batches(batches)


def _parquet(rows: Rows, folder: Path) -> Any:
    import pyarrow as pa
    from pyarrow import parquet

    from grayzone.sources import open_parquet

    names = _names(rows.X)
    columns = {name: rows.X[:, j] for j, name in enumerate(names)} | {"label": rows.y}
    if rows.weight is not None:
        columns["weight"] = rows.weight
    parquet.write_table(pa.table(columns), folder / "rows.parquet", row_group_size=25)
    by = None if rows.weight is None else "weight"
    return open_parquet(folder / "rows.parquet", "label", by, columns=names, block_rows=20)


def _names(X: Array) -> list[str]:
    return [f"x{j}" for j in range(X.shape[1])]


_SOURCES: dict[str, Callable[[Rows, Path], Any]] = {
    "npy": _npy,
    "batches": _batches,
    "parquet": _parquet,
}
