"""Tables in Parquet and Arrow files, read a group of rows at a time."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from grayzone.numerics.checks import is_real
from grayzone.sources.convert import rows_of_a_block
from grayzone.sources.files import Stamp, stamp
from grayzone.sources.source import Block, Source

Array = Any

_PARQUET = (".parquet", ".pq")
_ARROW = (".arrow", ".feather", ".ipc")
_BUFFER = 2**18  # bytes of a column that are read at a time


def open_parquet(
    path: Any,
    target: str | None = None,
    weight: str | None = None,
    columns: Sequence[str] | None = None,
    *,
    costs: Mapping[Any, str | float] | None = None,
    block_rows: int | None = None,
) -> ArrowSource:
    """Open rows of Parquet or Arrow files, for ``fit`` and ``predict``, without loading them.

    Files are read by their row groups, large ones in parts; a few blocks of rows are in memory at a
    time, whatever the number of rows is. Every step of a fit reads the files once; they must
    not change meanwhile. Needs pyarrow: ``pip install 'grayzone[arrow]'``.

    Parameters
    ----------
    path : path or sequence of paths
        A file, several, or a folder, of which all files that end in ``.parquet``, ``.pq``,
        ``.arrow``, ``.feather`` or ``.ipc`` are taken, in the order of their names.
    target : str, default=None
        Column of labels; not needed for predictions.
    weight : str, default=None
        Column of sample weights.
    columns : sequence of str, default=None
        Columns that are features; by default all others. They must be made of numbers, without
        nulls. Where all are in single precision they stay so; others become double precision.
    costs : mapping, default=None
        What decisions about each row cost, the ``example_costs`` of a fit and of predictions:
        ``{label: column}``, the column that has what it costs to misclassify a row of that label,
        or one number for all rows. Such a column is no feature unless ``columns`` names it.
    block_rows : int, default=None
        Rows of a block; by default as many as take 16 MB in double precision.

    Returns
    -------
    source : ArrowSource
        To be given to ``fit`` in place of X, without y; or to a method that predicts, which then
        yields one array a block.

    See Also
    --------
    open_npy : The same for ``.npy`` files.
    from_batches : The same for whatever can be iterated over again and again.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> import pyarrow as pa
    >>> import pyarrow.parquet
    >>> from grayzone import TruncatedLogisticRegression
    >>> from grayzone.sources import open_parquet
    >>> folder = tempfile.TemporaryDirectory()
    >>> a, b = np.random.default_rng(0).normal(size=(2, 1000))
    >>> table = pa.table({"a": a, "b": b, "label": a > b})
    >>> pa.parquet.write_table(table, Path(folder.name, "rows.parquet"), row_group_size=250)
    >>> source = open_parquet(folder.name, target="label")
    >>> clf = TruncatedLogisticRegression().fit(source)
    >>> clf.feature_names_in_
    array(['a', 'b'], dtype=object)
    >>> loans = pa.table({"a": a, "amount": np.abs(b), "paid": np.where(a > b, "yes", "no")})
    >>> pa.parquet.write_table(loans, Path(folder.name, "rows.parquet"))
    >>> source = open_parquet(folder.name, target="paid", costs={"no": "amount", "yes": 0.1})
    >>> clf.fit(source).feature_names_in_
    array(['a'], dtype=object)
    >>> folder.cleanup()
    """
    return ArrowSource(path, target, weight, columns, costs, block_rows)


class _File(NamedTuple):
    stamp: Stamp
    schema: Any

    @property
    def path(self) -> str:
        return self.stamp.path


class ArrowSource(Source):
    """Rows of tables in files; made by :func:`open_parquet`."""

    def __init__(
        self,
        path: Any,
        target: str | None,
        weight: str | None,
        columns: Sequence[str] | None,
        costs: Mapping[Any, str | float] | None,
        block_rows: int | None,
    ) -> None:
        self._files = [_File(stamp(name), _schema(name)) for name in _listed(path)]
        self._target, self._weight, self._costs = target, weight, _checked_costs(costs)
        others = [name for name in (target, weight) if name is not None]
        priced = [name for name in self._costs.values() if isinstance(name, str)]
        if isinstance(columns, str):
            raise TypeError(f"columns must be a sequence of names; got the string {columns!r}.")
        known = dict.fromkeys([*others, *priced])
        chosen = _features(self._files[0], known) if columns is None else list(columns)
        if not chosen or len(set(chosen)) < len(chosen) or set(chosen) & set(others):
            raise ValueError(
                f"columns must name at least one feature, none twice, and neither target nor "
                f"weight; got {chosen}."
            )
        for file in self._files:
            _check_columns(file, chosen, list(known), whole=columns is None)
            _check_numbers(file, [*chosen, *priced, *([] if weight is None else [weight])])
        self._wanted = list(dict.fromkeys([*chosen, *known]))
        self._dtype = _common_type(self._files, chosen)
        self.has_labels = target is not None
        self._chosen = chosen
        self.n_features, self.feature_names = len(chosen), np.array(chosen, dtype=object)
        self.block_rows = rows_of_a_block(block_rows, self.n_features)

    def blocks(self) -> Iterator[Block]:
        """Read the blocks from the first to the last."""
        first = 0
        for file in self._files:
            file.stamp.check()
            for batches in _joined(_batches(file, self._wanted, self.block_rows), self.block_rows):
                block = self._block(file, batches, first)
                first += block.X.shape[0]
                yield block
            file.stamp.check()

    def _block(self, file: _File, batches: list[Any], first: int) -> Block:
        n_rows = sum(batch.num_rows for batch in batches)
        place = f"{file.path}, rows {first} to {first + n_rows - 1} of all"
        X = np.empty((n_rows, self.n_features), self._dtype)
        for k, name in enumerate(self._chosen):
            _fill(X[:, k], batches, name, place)
        labels = None if self._target is None else _labels(batches, self._target, place)
        weight = None if self._weight is None else _numbers(batches, self._weight, place)
        costs = {
            label: _numbers(batches, of, place) if isinstance(of, str) else of
            for label, of in self._costs.items()
        }
        return Block(X, labels, weight, first, costs or None)


def _listed(path: Any) -> list[str]:
    """Name all files."""
    if isinstance(path, (str, os.PathLike)):
        if not os.path.isdir(path):
            return [os.fspath(path)]
        found = sorted(
            str(name)
            for name in Path(path).rglob("*")
            if name.suffix in _PARQUET + _ARROW and not name.name.startswith((".", "_"))
        )
        if not found:
            endings = ", ".join(_PARQUET + _ARROW)
            raise FileNotFoundError(f"{os.fspath(path)} has no files that end in {endings}.")
        return found
    names = [name for part in path for name in _listed(part)]
    if not names:
        raise ValueError("path must name at least one file; got an empty sequence.")
    return names


# ------------------------------------------------------------------------------------------
# Schemas
# ------------------------------------------------------------------------------------------


def _schema(path: str) -> Any:
    with _opened(path) as file:
        return file.schema if path.endswith(_ARROW) else file.schema_arrow


def _checked_costs(costs: Any) -> dict[Any, str | float]:
    """Check costs, which are columns or numbers; none for None."""
    if costs is None:
        return {}
    if not isinstance(costs, Mapping) or not costs:
        raise TypeError(f"costs must be a mapping {{label: column, or a number}}; got {costs!r}.")
    for label, of in costs.items():
        if not (isinstance(of, str) or is_real(of)):
            raise TypeError(
                f"costs must give each label the name of a column or a number; got {of!r} for "
                f"{label!r}."
            )
    return dict(costs)


def _features(file: _File, others: Iterable[str]) -> list[str]:
    """All columns but those, and but the index that pandas may have written."""
    index = (file.schema.pandas_metadata or {}).get("index_columns", [])
    return [name for name in file.schema.names if name not in others and name not in index]


def _check_columns(file: _File, features: list[str], others: list[str], whole: bool) -> None:
    """Check that a file has these columns, once each; all of its columns, where asked to."""
    names = file.schema.names
    for name in (*features, *others):
        if names.count(name) != 1:
            found = "more than one" if name in names else "no"
            raise ValueError(f"{file.path} has {found} column {name!r}; it has {names}.")
    extra = [name for name in _features(file, others) if name not in features]
    if whole and extra:
        raise ValueError(
            f"{file.path} has the columns {extra}, which the first file does not have. Name the "
            "features by columns."
        )


def _check_numbers(file: _File, columns: Iterable[str]) -> None:
    import pyarrow.types as types

    numeric = (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal)
    for name in columns:
        kind = file.schema.field(name).type
        if not any(is_kind(kind) for is_kind in numeric):
            raise ValueError(
                f"{file.path}: column {name!r} must be made of numbers; it is of type {kind}. "
                "Encode it, or leave it out by columns."
            )


def _common_type(files: list[_File], features: list[str]) -> Any:
    import pyarrow as pa

    single = all(
        file.schema.field(name).type == pa.float32() for file in files for name in features
    )
    return np.float32 if single else np.float64


# ------------------------------------------------------------------------------------------
# Reading
# ------------------------------------------------------------------------------------------


@contextmanager
def _opened(path: str) -> Iterator[Any]:
    try:
        import pyarrow as pa
        from pyarrow import ipc, parquet
    except ImportError as error:
        raise ImportError(
            "Parquet and Arrow files are read by pyarrow: pip install 'grayzone[arrow]'."
        ) from error
    # opened by Python: a missing file is its error, and there is no map that could outlast a block
    with open(path, "rb") as raw:
        try:
            if path.endswith(_ARROW):
                file = ipc.open_file(raw)
            else:  # without these a whole row group, often a million rows, is read at once
                file = parquet.ParquetFile(raw, buffer_size=_BUFFER, pre_buffer=False)
        except pa.ArrowInvalid as error:
            raise ValueError(f"{path} cannot be read: {error}") from error
        with file:
            yield file


def _batches(file: _File, wanted: list[str], block_rows: int) -> Iterator[Any]:
    """Read record batches of no more than so many rows."""
    with _opened(file.path) as opened:
        if not file.path.endswith(_ARROW):
            for group in range(opened.num_row_groups):
                yield from opened.iter_batches(block_rows, row_groups=[group], columns=wanted)
            return
        for k in range(opened.num_record_batches):
            batch = opened.get_batch(k).select(wanted)
            for first in range(0, batch.num_rows, block_rows):
                yield batch.slice(first, block_rows)


def _joined(batches: Iterator[Any], block_rows: int) -> Iterator[list[Any]]:
    """Put small batches together, up to so many rows."""
    held: list[Any] = []
    for batch in batches:
        if held and sum(b.num_rows for b in held) + batch.num_rows > block_rows:
            yield held
            held = []
        if batch.num_rows:
            held.append(batch)
    if held:
        yield held


def _columns(batches: list[Any], name: str, place: str) -> Iterator[Any]:
    for batch in batches:
        column = batch.column(name)
        if column.null_count:
            raise ValueError(
                f"Column {name!r} has {column.null_count} nulls ({place}); all values must be "
                "known. Fill them, or leave these rows out."
            )
        yield column


def _numbers(batches: list[Any], name: str, place: str) -> Array:
    values = np.empty(sum(batch.num_rows for batch in batches))
    _fill(values, batches, name, place)
    return values


def _fill(out: Array, batches: list[Any], name: str, place: str) -> None:
    import pyarrow as pa

    at = 0
    for column in _columns(batches, name, place):
        if pa.types.is_decimal(column.type):
            column = column.cast(pa.float64())
        out[at : at + len(column)] = column.to_numpy(zero_copy_only=False)
        at += len(column)


def _labels(batches: list[Any], name: str, place: str) -> Array:
    import pyarrow as pa

    parts = []
    for column in _columns(batches, name, place):
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        parts.append(column.to_numpy(zero_copy_only=False))
    return np.concatenate(parts)
