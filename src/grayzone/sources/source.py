"""Rows that come in blocks, wherever they are, and sums over them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, wait
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from grayzone.numerics.threads import elsewhere, n_workers, own_threads, pool

Array = Any
# Named sums: arrays and numbers are added, lists are joined.
Sums = dict[str, Any]
Task = Callable[["Block"], Sums]


class Block(NamedTuple):
    """Consecutive rows.

    Attributes
    ----------
    X : array or CSR matrix of shape (n, d)
        The rows, in single or double precision.
    y : array of shape (n,) or None
        Their labels; None where rows are predicted for only.
    weight : array of shape (n,) or None
        What each row weighs; None is one each.
    first : int
        Number of the first row among all.
    costs : array of shape (n, K, K), mapping or None
        What decisions about each row cost: an array, or ``{label: (n,) or a number}``; None where
        that is not known.

    See Also
    --------
    Source : Gives blocks.

    Examples
    --------
    >>> import numpy as np
    >>> from grayzone.sources import Block
    >>> block = Block(np.zeros((2, 3)), np.array([0, 1]), None, first=100)
    >>> block.X.shape, block.first
    ((2, 3), 100)
    """

    X: Array  # (n, d), single or double precision
    y: Array  # labels (n,)
    weight: Array | None  # (n,); None is one each
    first: int  # number of the first row among all
    costs: Any = None  # of decisions: (n, K, K), or {label: (n,) or a number}; None where unknown


class Source(ABC):
    """Blocks of rows that can be read again and again, always in the same order.

    A fit asks for sums over all rows only: a *task* turns a block into named sums, and those of
    all blocks are added in their order, so that results do not depend on timing. Tasks are
    small objects that can be pickled; they travel to where the rows are.

    A source of one's own has ``n_features`` and :meth:`blocks`; the rest may stay as it is.

    Attributes
    ----------
    n_features : int
        Number of columns of X.
    feature_names : ndarray of shape (n_features,) or None
        Names of the columns, where they have any.
    has_labels : bool
        Whether blocks have labels; without them, rows can be predicted for only.
    at_a_time : int
        Entries of the rows that a task is given at a time, where threads share one interpreter.

    See Also
    --------
    from_batches : A source of whatever can be iterated over, without a class.
    open_npy : Rows of ``.npy`` files.
    open_parquet : Rows of Parquet and Arrow files.

    Examples
    --------
    >>> import numpy as np
    >>> from grayzone import TruncatedLogisticRegression
    >>> from grayzone.sources import Block, Source
    >>> class Drawn(Source):
    ...     n_features = 2
    ...
    ...     def blocks(self):
    ...         rng = np.random.default_rng(0)
    ...         for first in range(0, 10_000, 2_000):
    ...             X = rng.normal(size=(2_000, 2))
    ...             y = X[:, 0] - X[:, 1] + rng.logistic(size=2_000) > 0
    ...             yield Block(X, y, None, first)
    >>> clf = TruncatedLogisticRegression().fit(Drawn())
    >>> clf.coef_.round(1)
    array([[ 1., -1.]])
    """

    n_features: int
    feature_names: Array | None = None
    has_labels: bool = True  # without them, rows can be predicted for only
    # entries of the rows that a task is given at a time, where threads share one interpreter: 8 MB
    at_a_time: int = 2**20

    @abstractmethod
    def blocks(self) -> Iterator[Block]:
        """Read the blocks from the first to the last; empty ones are not given to tasks.

        Yields
        ------
        Block
            The rows, a block at a time.
        """

    def like(self) -> Array:
        """Return an array of the kind that sums are to be.

        Returns
        -------
        array
            An empty array of NumPy, unless rows are elsewhere.
        """
        return np.empty(0)

    def reduce(self, task: Task) -> Sums:
        """Sum a task over all blocks, a few of them at a time, on all threads.

        Parameters
        ----------
        task : callable
            Turns a :class:`Block` into a dictionary of named sums.

        Returns
        -------
        dict
            Sums of all blocks by name: arrays and numbers are added, lists are joined.
        """
        with own_threads():
            return added(_in_order(task, (b for b in self.blocks() if b.X.shape[0] > 0)))


def _in_order(task: Task, blocks: Iterator[Block]) -> Iterator[Sums]:
    """Results in the order of the blocks; no more blocks are read than threads need."""
    workers = n_workers()
    if workers == 1:
        yield from map(task, blocks)
        return
    waiting: deque[Future[Sums]] = deque()
    try:
        for block in blocks:
            waiting.append(pool(workers).submit(elsewhere(task), block))
            if len(waiting) > workers:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        for job in waiting:
            job.cancel()
        wait(waiting)  # what has begun still reads its block


def added(parts: Iterable[Sums]) -> Sums:
    """Add named sums; lists are joined."""
    total: Sums = {}
    for part in parts:
        total = {name: total[name] + part[name] for name in part} if total else part
    if not total:
        raise ValueError("There are no rows: the source gave no blocks.")
    return total


class ChangedSource(Source):
    """Blocks of another source, each of them changed; both changes and tasks travel to the rows."""

    def __init__(
        self, base: Source, change: Callable[[Block], Block], n_features: int | None = None
    ) -> None:
        self.base, self.change, self.at_a_time = base, change, base.at_a_time
        self.n_features = base.n_features if n_features is None else n_features
        self.feature_names = base.feature_names if n_features is None else None

    def blocks(self) -> Iterator[Block]:
        return map(self.change, self.base.blocks())

    def like(self) -> Array:
        return self.base.like()

    def reduce(self, task: Task) -> Sums:
        return self.base.reduce(_Changed(self.change, task))


@dataclass(frozen=True)
class _Changed:
    change: Callable[[Block], Block]
    task: Task

    def __call__(self, block: Block) -> Sums:
        return self.task(self.change(block))


class HeldSource(Source):
    """One block of arrays that are in memory already: that of a device, or of this process."""

    def __init__(self, X: Array, y: Array, weight: Array | None = None, costs: Any = None) -> None:
        self.block = Block(X, y, weight, 0, costs)
        self.n_features = X.shape[1]

    def blocks(self) -> Iterator[Block]:
        yield self.block

    def like(self) -> Array:
        return self.block.X

    def reduce(self, task: Task) -> Sums:
        return task(self.block)
