"""Rows on a cluster: tasks travel to the workers, and sums and a bounded number of rows back."""

from __future__ import annotations

import pickle
import re
import sys
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import accumulate
from typing import Any

import numpy as np

from grayzone.numerics.checks import as_numpy, check_named
from grayzone.numerics.row_costs import cost_matrices
from grayzone.numerics.threads import one_thread
from grayzone.sources.convert import as_block, check_numeric, names_of
from grayzone.sources.source import Block, Source, Sums, Task, added

Array = Any

_FAN_IN = 8  # sums that one task of the tree adds
_ATTEMPTS = 3  # of a reduction whose workers die
_LOOK = 1.0  # seconds between two looks at a client whose results are waited for


def dask_source(X: Any, y: Any, sample_weight: Any, costs: Any = None) -> DaskSource | None:
    """Return the source of a Dask array or frame; None for anything else."""
    if not is_dask(X):
        if is_of_dask(X):
            raise ValueError(
                f"Of Dask, X must be an array or a data frame; got {type(X).__name__}."
            )
        return None
    if y is None:
        raise ValueError("y must not be None beside a Dask array or frame: a fit needs labels.")
    return DaskSource(X, y, sample_weight, costs)


def is_dask(X: Any) -> bool:
    """Whether X is an array or a frame of Dask; imports nothing."""
    return is_dask_array(X) or is_dask_frame(X)


def is_of_dask(X: Any) -> bool:
    """Whether X is anything that Dask computes: also a series, a bag, a delayed object."""
    base = sys.modules.get("dask.base")
    return base is not None and bool(base.is_dask_collection(X))


def is_dask_array(X: Any) -> bool:
    """Whether X is an array of Dask."""
    arrays = sys.modules.get("dask.array")
    return arrays is not None and isinstance(X, arrays.Array)


def is_dask_frame(X: Any) -> bool:
    """Whether X is a data frame of Dask."""
    frames = sys.modules.get("dask.dataframe")
    return frames is not None and isinstance(X, frames.DataFrame)


def dask_costs(example_costs: Any, classes: Array, X: Any) -> Any:
    """Return costs of rows as a Dask array (n, K, K) in the chunks of another, checked by chunk."""
    import dask.array as da

    if np.isnan(X.chunks[0]).any():
        X = X.compute_chunk_sizes()
    n_rows, K, chunks = X.shape[0], len(classes), X.chunks[0]
    columns = example_costs.values() if isinstance(example_costs, Mapping) else [example_costs]
    if not any(is_of_dask(column) for column in columns):
        matrices = as_numpy(cost_matrices(example_costs, classes, n_rows, some_stake=False))
        return da.from_array(matrices, chunks=(chunks, K, K))
    if not isinstance(example_costs, Mapping):
        _check_shape(example_costs, (n_rows, K, K))
        return example_costs.rechunk((chunks, K, K))
    check_named(example_costs, classes, "example_costs")
    given = [_column_of(example_costs[label], label, chunks) for label in classes.tolist()]
    return da.map_blocks(
        _matrices, *given, classes=classes, dtype=float, chunks=(chunks, K, K), new_axis=[1, 2]
    )


def _column_of(values: Any, label: Any, chunks: tuple[int, ...]) -> Any:
    """One cost a row, of Dask, NumPy or a number, as a Dask array."""
    import dask.array as da

    n_rows = sum(chunks)
    if hasattr(values, "to_dask_array"):  # a series
        values = values.to_dask_array(lengths=True)
    if not is_dask_array(values):
        values = as_numpy(values)
        values = da.from_array(np.full(n_rows, values) if values.ndim == 0 else values)
    if tuple(values.shape) != (n_rows,):
        raise ValueError(
            f"example_costs[{label!r}] has shape {tuple(values.shape)}; expected ({n_rows},)."
        )
    return values.rechunk((chunks,))


def _check_shape(array: Any, expected: tuple[int, ...]) -> None:
    if tuple(array.shape) != expected:
        raise ValueError(f"example_costs has shape {tuple(array.shape)}; expected {expected}.")


def _matrices(*columns: Array, classes: Array) -> Array:
    named = dict(zip(classes.tolist(), columns, strict=True))
    return cost_matrices(named, classes, some_stake=False)


class DaskSource(Source):
    """Chunks of a Dask array, or partitions of a Dask frame; ``fit`` makes it from these.

    Each reduction is one Dask graph: a task for every block of rows, on the worker that has the
    block, and a tree that adds their sums, in the order of the rows and with the same number of
    summands whatever the number of workers is. Only the last sums come to the client. Tasks compute
    on one BLAS thread, so that results do not depend on how many a worker has. Nothing is
    kept on the workers between reductions: one that dies costs what it was doing, no more.

    Blocks are computed anew for each reduction unless they are persisted; that is the user's
    choice: call ``X, y = dask.persist(X, y)`` first where the workers' memory has room, and leave
    it where data are larger than that.

    All is computed by the scheduler that is Dask's current one when the source is made: by ``fit``,
    when it begins. Where that is a client and it is closed or loses its scheduler, the fit ends
    with an error within a second of Dask's notice: at once if the scheduler's process ends, after
    ``distributed.comm.timeouts.tcp`` (30 s) if its machine falls silent.

    Parameters
    ----------
    X : dask.array.Array or dask.dataframe.DataFrame
        Rows. Chunks along the features are merged; sizes that are not known are computed, once.
    y : Dask or NumPy array, series, or frame of one column
        Labels; they are cut as X is.
    weight : the same or a number, optional
        Weight of each row's loss.
    costs : array of shape (n_samples, K, K) or mapping {label: array of shape (n_samples,)}, \
            optional
        What decisions about each row cost, of Dask, NumPy or, in a mapping, numbers.

    Attributes
    ----------
    traffic : list of tuple
        For each reduction so far its name, and how many bytes its task and the final sums have.

    See Also
    --------
    open_parquet : Rows of files, on one machine.
    Source : The contract.

    Examples
    --------
    >>> import dask
    >>> import dask.array as da
    >>> from grayzone import TruncatedLogisticRegression
    >>> from grayzone.sources import DaskSource
    >>> X = da.random.default_rng(0).normal(size=(1000, 3), chunks=(250, 3))
    >>> X, y = dask.persist(X, X[:, 0] > X[:, 1])
    >>> clf = TruncatedLogisticRegression().fit(X, y)
    >>> clf.predict_proba(X)
    dask.array<..., shape=(1000, 2), dtype=float64, chunksize=(250, 2), chunktype=numpy.ndarray>
    >>> source = DaskSource(X, y)
    >>> clf = clf.fit(source)
    >>> name, out, back = source.traffic[0]
    >>> name, out < 1000, back < 1000
    ('census', True, True)
    """

    # 2 MB: processes share the cache, but no interpreter that many small pieces would keep busy
    at_a_time = 2**18

    def __init__(self, X: Any, y: Any, weight: Any = None, costs: Any = None) -> None:
        if is_dask_frame(X):
            check_numeric(X._meta, "X")
            self.feature_names = names_of(X)
            self.n_features = len(X.columns)
        else:
            self.n_features = _n_features(X)
        self._home = _Home(X)
        self._labels = list(costs) if isinstance(costs, Mapping) else None
        beside = {"y": y, "sample_weight": weight, **_cost_columns(costs)}
        self._pieces, sizes = _cut(X, beside, self._home)
        self._first = [0, *accumulate(sizes)][:-1]
        self.n_rows = sum(sizes)
        self.traffic: list[tuple[str, int, int]] = []

    def blocks(self) -> Iterator[Block]:
        """Bring the blocks to this process, one at a time."""
        import dask

        for pieces, first in zip(self._pieces, self._first, strict=True):
            yield _block(self._home.compute(dask.delayed(pieces)), first, self._labels)

    def reduce(self, task: Task) -> Sums:
        """Sum a task over all blocks, on the workers."""
        name = _name(task)
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                sums = self._reduced(task, name)
                break
            except _losses():
                if attempt == _ATTEMPTS:
                    raise
        self.traffic.append((name, _size(task), _size(sums)))
        return sums

    def _reduced(self, task: Task, name: str) -> Sums:
        import dask

        label = f"grayzone-{name}"
        # keys of their own for every attempt: those of a failed one may still be known as failed
        token = uuid.uuid4().hex
        work = dask.delayed(task, name=f"grayzone-task-{token}", traverse=False)
        run, add = dask.delayed(_run, pure=False), dask.delayed(added, pure=False)
        known = self.n_features, self._labels
        level = [
            run(work, pieces, first, *known, dask_key_name=f"{label}-{k}-{token}")
            for k, (pieces, first) in enumerate(zip(self._pieces, self._first, strict=True))
        ]
        if not level:
            raise ValueError("There are no rows: all chunks are empty.")
        depth = 0
        while len(level) > 1:
            depth += 1
            level = [
                add(level[k : k + _FAN_IN], dask_key_name=f"{label}-sum-{depth}-{k}-{token}")
                for k in range(0, len(level), _FAN_IN)
            ]
        sums: Sums = self._home.compute(level[0])
        return sums


class _Home:
    """The scheduler that a source computes by, to the end.

    Dask looks for its current one at each call, and takes the threads of this process where there
    is none any more: all rows would come here, without a word.
    """

    def __init__(self, X: Any) -> None:
        from dask.base import get_scheduler

        self._schedule = get_scheduler(collections=[X])
        self._client = _client_of(self._schedule)
        if self._client is not None:
            self._address = self._client.scheduler.address

    def compute(self, value: Any) -> Any:
        """Compute one delayed value."""
        import dask

        if self._client is None:
            return dask.compute(value, scheduler=self._schedule)[0]
        with self._kept(self._client) as client:
            future = client.compute(value)
            try:
                return self._awaited(client, future)
            finally:
                future.release()

    def persist(self, values: list[Any]) -> list[Any]:
        """Compute delayed values, and keep them where they are."""
        import dask

        if self._client is None:
            return list(dask.persist(*values, scheduler=self._schedule))
        with self._kept(self._client) as client:
            return list(client.persist(values))

    def _awaited(self, client: Any, future: Any) -> Any:
        from distributed import wait

        while True:
            try:
                wait(future, timeout=_LOOK)
            except TimeoutError:
                self._check(client)
            else:
                return future.result()

    @contextmanager
    def _kept(self, client: Any) -> Iterator[Any]:
        """Say of whatever goes wrong when the client is lost that this is why."""
        self._check(client)
        try:
            yield client
        except Exception as error:
            self._check(client, error)
            raise

    def _check(self, client: Any, error: Exception | None = None) -> None:
        if client.status == "running":
            return
        lost = "has lost its scheduler" if client.status == "connecting" else "was closed"
        raise RuntimeError(
            f"The Dask client of the scheduler at {self._address}, with which the fit began, "
            f"{lost}. What its workers held is out of reach, and rows are not brought here "
            "instead: connect again, make X anew and fit again."
        ) from error


def _client_of(schedule: Any) -> Any:
    """Return the client that a scheduling function is of; None where it has none to watch."""
    owner, distributed = getattr(schedule, "__self__", None), sys.modules.get("distributed")
    if distributed is None or not isinstance(owner, distributed.Client):
        return None
    try:
        distributed.get_worker()
    except ValueError:
        return owner
    return None  # within a task: its worker ends with the scheduler, and makes room while it waits


def _name(task: Any) -> str:
    """Name a task as the dashboard shows it: that of the innermost, in words."""
    while hasattr(task, "task"):
        task = task.task
    name = getattr(task, "__name__", type(task).__name__)
    words = re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)
    return "-".join(word.lower() for word in words) or "sum"


def _size(values: Any) -> int:
    """Bytes of something pickled; its arrays are counted, not copied."""
    buffers: list[pickle.PickleBuffer] = []
    try:
        head = pickle.dumps(values, protocol=5, buffer_callback=buffers.append)
    except (AttributeError, pickle.PicklingError):  # a function of a notebook, say
        import cloudpickle

        head = cloudpickle.dumps(values, protocol=5, buffer_callback=buffers.append)
    return len(head) + sum(buffer.raw().nbytes for buffer in buffers)


def _losses() -> tuple[type[BaseException], ...]:
    """Errors that say that a worker was lost, not that a task went wrong."""
    if "distributed" not in sys.modules:
        return ()
    from concurrent.futures import CancelledError

    from distributed import KilledWorker
    from distributed.comm import CommClosedError

    return KilledWorker, CommClosedError, CancelledError


# ------------------------------------------------------------------------------------------
# On a worker
# ------------------------------------------------------------------------------------------


def _run(
    task: Task, pieces: Sequence[Any], first: int, n_features: int, labels: list[Any] | None
) -> Sums:
    with one_thread():  # which all threads of a worker share
        block = _block(pieces, first, labels)
        if block.X.shape[1] != n_features:
            raise ValueError(
                f"{_place(first)}: X has {block.X.shape[1]} features, expected {n_features}."
            )
        return task(block)


def _block(pieces: Sequence[Any], first: int, labels: list[Any] | None) -> Block:
    """Make a block of its pieces; ``labels`` are those of costs that are a mapping."""
    X, y, weight, *costs = pieces
    priced: Any = costs[0] if costs else None
    if labels is not None:
        priced = dict(zip(labels, costs, strict=True))
    return as_block(X, y, weight, first, _place(first), priced)


def _place(first: int) -> str:
    return f"block from row {first} on"


# ------------------------------------------------------------------------------------------
# Pieces of X, y and weights
# ------------------------------------------------------------------------------------------


def _n_features(X: Any) -> int:
    if X.ndim != 2:
        raise ValueError(f"X must have two dimensions, rows and features; got shape {X.shape}.")
    if np.isnan(X.shape[1]):
        raise ValueError("X must have a known number of features; call X.compute_chunk_sizes().")
    return int(X.shape[1])


def _cost_columns(costs: Any) -> dict[str, Any]:
    """Name the columns of costs, as errors do; those of no class are rewards."""
    if isinstance(costs, Mapping):
        return {f"example_costs[{label!r}]": column for label, column in costs.items()}
    if costs is None:
        return {}
    by_action = np.ndim(costs) == 3 and costs.shape[1] == 1
    return {"rewards" if by_action else "example_costs": costs}


def _cut(X: Any, beside: dict[str, Any], home: _Home) -> tuple[list[list[Any]], list[int]]:
    """Cut X and what is beside it into the same blocks of rows, none of them empty."""
    rows, columns = _Column(X), {name: _Column(values) for name, values in beside.items()}
    _measure([column for column in (rows, *columns.values()) if column.pieces is not None], home)
    assert rows.pieces is not None
    assert rows.sizes is not None
    sizes = rows.sizes
    for name, column in columns.items():
        column.recut(sizes, name)
    cuts = (column.cut(sizes, home, name) for name, column in columns.items())
    pieces = zip(rows.pieces, *cuts, strict=True)
    kept = [(list(piece), n) for piece, n in zip(pieces, sizes, strict=True) if n]
    return [piece for piece, _ in kept], [n for _, n in kept]


class _Column:
    """X, labels, weights or costs: in pieces where they are Dask's, else as they are."""

    def __init__(self, values: Any) -> None:
        self.values = values
        self.matrix: tuple[int, ...] = ()  # shape of a row's costs
        self.pieces: list[Any] | None = None
        self.sizes: list[int] | None = None
        if is_dask_array(values):
            self._set(values)
        elif hasattr(values, "to_delayed"):  # a frame or a series
            self.pieces = list(values.to_delayed())

    def _set(self, array: Any) -> None:
        array = array.rechunk(dict.fromkeys(range(1, array.ndim), -1))
        self.matrix = array.shape[1:] if array.ndim == 3 else ()
        self.pieces = array.to_delayed().ravel().tolist()
        chunks = array.chunks[0]
        self.sizes = None if np.isnan(chunks).any() else [int(n) for n in chunks]

    def recut(self, sizes: list[int], name: str) -> None:
        """Cut the pieces as those of X are cut."""
        if self.pieces is None or self.sizes == sizes:
            return
        assert self.sizes is not None
        _check_length(sum(self.sizes), sum(sizes), name)
        import dask
        import dask.array as da

        flat = dask.delayed(_flat)
        parts = zip(self.pieces, self.sizes, strict=True)
        kind = {"dtype": float if self.matrix else object}
        arrays = [da.from_delayed(flat(piece), (n, *self.matrix), **kind) for piece, n in parts]
        whole = da.concatenate(arrays).rechunk({0: tuple(sizes)})
        self.pieces = whole.to_delayed().ravel().tolist()

    def cut(self, sizes: list[int], home: _Home, name: str) -> list[Any]:
        """Return the pieces; those of arrays in memory are sent to the cluster once, and kept."""
        if self.pieces is not None:
            return self.pieces
        if self.values is None or np.ndim(self.values) == 0:
            return [self.values] * len(sizes)
        import dask

        values = as_numpy(self.values)
        _check_length(values.shape[0], sum(sizes), name)
        stops = list(accumulate(sizes))
        send = dask.delayed(_same, pure=False)
        parts = [send(values[b - n : b]) for b, n in zip(stops, sizes, strict=True)]
        return home.persist(parts)


def _check_length(found: int, n_rows: int, name: str) -> None:
    if found != n_rows:
        raise ValueError(f"{name} must have one entry a row; X has {n_rows} rows, got {found}.")


def _measure(columns: list[_Column], home: _Home) -> None:
    """Compute sizes that are not known, all in one go."""
    import dask

    unknown = [column for column in columns if column.sizes is None]
    length = dask.delayed(_length, pure=False)
    if unknown:
        lengths = [[length(piece) for piece in column.pieces or ()] for column in unknown]
        for column, sizes in zip(unknown, home.compute(dask.delayed(lengths)), strict=True):
            column.sizes = list(sizes)


def _length(piece: Any) -> int:
    return int(piece.shape[0])


def _flat(piece: Any) -> Array:
    values = as_numpy(piece)
    return values if values.ndim == 3 else values.reshape(-1)


def _same(values: Array) -> Array:
    return values
