"""Blocks from anything that can be iterated over again and again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from grayzone.sources.convert import as_block, names_of
from grayzone.sources.source import Block, Source

Array = Any
Batch = tuple[Any, ...]


def from_batches(make_iterator: Callable[[], Iterable[Batch]]) -> BatchSource:
    """Take rows that some iterator yields, batch by batch, for ``fit`` and ``predict``.

    Parameters
    ----------
    make_iterator : callable
        Called without arguments at the beginning of every reading; returns a *new* iterator over
        the same rows in the same order, as a generator function does. It yields ``(X, y)``,
        ``(X, y, sample_weight)`` or ``(X, y, sample_weight, example_costs)``, of which all but X
        may be None; ``(X, None)`` will do for predictions. X may be a NumPy array, a
        frame of pandas or polars, or a sparse matrix. Single precision stays so; other numbers
        become double precision. Batches of some thousand rows or more are best.

    Returns
    -------
    source : BatchSource
        To be given to ``fit`` in place of X, without y; or to a method that predicts, which then
        yields one array a batch.

    See Also
    --------
    open_npy : Rows of ``.npy`` files.
    open_parquet : Tables of Parquet and Arrow files.

    Examples
    --------
    >>> import numpy as np
    >>> from grayzone import TruncatedLogisticRegression
    >>> from grayzone.sources import from_batches
    >>> def batches():
    ...     rng = np.random.default_rng(0)
    ...     for _ in range(5):
    ...         X = rng.normal(size=(200, 3))
    ...         yield X, np.where(X[:, 0] > X[:, 1], "yes", "no")
    >>> clf = TruncatedLogisticRegression().fit(from_batches(batches))
    >>> clf.predict([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    array(['yes', 'no'], dtype='<U3')
    """
    return BatchSource(make_iterator)


class BatchSource(Source):
    """Rows of an iterator; made by :func:`from_batches`."""

    def __init__(self, make_iterator: Callable[[], Iterable[Batch]]) -> None:
        if hasattr(make_iterator, "__next__") or not callable(make_iterator):
            raise TypeError(
                "make_iterator must be a function that returns a new iterator every time it is "
                f"called, for a fit reads all rows many times; got {type(make_iterator).__name__}. "
                "Give the generator function itself, or `lambda: iter(batches)` for a list."
            )
        self._make = make_iterator
        self._n_rows: int | None = None
        with self._reading() as batches:
            for number, batch in enumerate(batches):
                X, y, *_ = _parts(batch, number)
                if not _is_empty(X):
                    block = as_block(X, y, None, 0, f"batch {number}")
                    self.n_features, self.feature_names = block.X.shape[1], names_of(X)
                    self.has_labels = y is not None
                    return
        raise ValueError("There are no rows: make_iterator() gave no batches that have any.")

    def blocks(self) -> Iterator[Block]:
        """Read the blocks from the first to the last; empty batches are passed over."""
        first = 0
        with self._reading() as batches:
            for number, batch in enumerate(batches):
                X, y, weight, costs = _parts(batch, number)
                if _is_empty(X):
                    continue
                what = f"batch {number} (from row {first} on)"
                block = as_block(X, y, weight, first, what, costs)
                self._check(block, names_of(X), number)
                first += block.X.shape[0]
                yield block
        if self._n_rows is None:
            self._n_rows = first
        elif first != self._n_rows:
            raise RuntimeError(
                f"make_iterator() gave {self._n_rows} rows at first and {first} now. Every call "
                "must return a new iterator over the same rows, in the same order."
            )

    @contextmanager
    def _reading(self) -> Iterator[Iterator[Batch]]:
        made = self._make()
        if not isinstance(made, Iterable):
            raise TypeError(
                f"make_iterator() must return an iterator of batches; got {type(made).__name__}."
            )
        batches = iter(made)
        try:
            yield batches
        finally:
            # a generator that is not read to its end may hold files open
            getattr(batches, "close", lambda: None)()

    def _check(self, block: Block, names: Array | None, number: int) -> None:
        if block.X.shape[1] != self.n_features:
            raise ValueError(
                f"All batches must have the same features: batch {number} (from row {block.first} "
                f"on) has {block.X.shape[1]}, the first has {self.n_features}."
            )
        if (block.y is not None) != self.has_labels:
            raise ValueError(
                f"All batches must have labels, or none: batch {number} (from row {block.first} "
                f"on) has {'labels' if block.y is not None else 'none'}, unlike the first."
            )
        if _listed(names) != _listed(self.feature_names):
            raise ValueError(
                f"All batches must have the same features in the same order: batch {number} (from "
                f"row {block.first} on) has {_listed(names)}, the first has "
                f"{_listed(self.feature_names)}."
            )


def _parts(batch: Any, number: int) -> Batch:
    if not isinstance(batch, (tuple, list)) or len(batch) not in (2, 3, 4):
        size = f" of {len(batch)}" if isinstance(batch, (tuple, list)) else ""
        raise TypeError(
            f"A batch must be (X, y) or (X, y, sample_weight), or have example_costs last; batch "
            f"{number} is a {type(batch).__name__}{size}."
        )
    return (*batch, None, None)[:4]


def _is_empty(X: Any) -> bool:
    """Whether a batch has no rows; its columns may have any type then."""
    return np.shape(X)[:1] == (0,)


def _listed(names: Array | None) -> str:
    return "no names" if names is None else str(names.tolist())
