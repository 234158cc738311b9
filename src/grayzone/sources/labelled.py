"""Rows with labels, wherever they are: what every fit is given.

Rows that are in one place, in NumPy's memory or on a device, are *held*: they are encoded once, and
what is computed for each of them may be kept. Rows in files, streams and clusters are read a block
at a time, and nothing of their number is kept. Both are reached by :meth:`Labelled.reduce`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from array_api_compat import device
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets

from grayzone.numerics.backend import moved
from grayzone.numerics.checks import (
    HEAVIEST,
    are_extreme,
    as_labels,
    as_numpy,
    check_factors,
    check_values,
    check_weights,
)
from grayzone.numerics.designs import Design, as_design
from grayzone.numerics.namespace import array_namespace, is_numpy_array
from grayzone.numerics.row_costs import action_losses, cost_matrices, costs_at
from grayzone.sources.empty_classes import EmptyClassesError
from grayzone.sources.seen import Seen, checksum
from grayzone.sources.source import Block, HeldSource, Source, Sums, added

Array = Any


@dataclass(frozen=True)
class Rows:
    """Rows as solvers see them; ``weight`` has the classes' weights in it.

    Attributes
    ----------
    X : array of shape (n, d)
        Features, in the precision that they came in; dense or CSR.
    codes : array of shape (n,)
        Places of the labels among the classes.
    weight : array of shape (n,)
        In double precision.
    first : int
        Number of the first row among all, of rows that follow each other.
    numbers : array of shape (n,) or None
        Numbers of the rows among all; None where they follow each other.
    costs : array of shape (n, K, K) or (n, 1, A), or None
        ``cost[row, true, decided]``, where rows have costs of their own; of rewards, what actions
        earn less than the best one, whatever the class is.
    own : array of shape (n, m) or None
        Floors or rewards of the rows themselves; None where those of their classes are theirs.
    """

    X: Array
    codes: Array  # (n,) int64
    weight: Array  # (n,) float64
    first: int = 0
    numbers: Array | None = None
    # what is kept for each row, by name: (what it belongs to, the value); None keeps nothing
    memory: dict[str, tuple[Any, Any]] | None = field(default=None, repr=False, compare=False)
    costs: Array | None = None
    own: Array | None = None

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return int(self.codes.shape[0])

    def design(self, fit_intercept: bool = True) -> Design:
        """Return the rows as a design, in double precision where they are pieces in this memory."""
        streamed = self.memory is None and is_numpy_array(self.X)
        X = self.X.astype(np.float64, copy=False) if streamed else self.X
        return as_design(X, fit_intercept)

    def places(self) -> Array:
        """Return the numbers of the rows among all."""
        if self.numbers is not None:
            return self.numbers
        xp, stop = array_namespace(self.codes), self.first + self.n_rows
        return xp.arange(self.first, stop, dtype=xp.int64, device=device(self.codes))

    def numbers_of(self, places: Array) -> Array:
        """Return the numbers among all of rows at these places."""
        if self.numbers is None:
            return places + self.first if self.first else places
        return array_namespace(places).take(self.numbers, places)

    def take(self, places: Array) -> Rows:
        """Return these rows, with their numbers among all."""
        xp = array_namespace(self.codes)
        X = self.X[places] if is_numpy_array(self.codes) else xp.take(self.X, places, axis=0)
        codes, weight, numbers = (
            xp.take(a, places) for a in (self.codes, self.weight, self.places())
        )
        costs, own = (
            None if a is None else xp.take(a, places, axis=0) for a in (self.costs, self.own)
        )
        return Rows(X, codes, weight, self.first, numbers, self._fresh(), costs, own)

    def weighing(self, weight: Array) -> Rows:
        """Return the rows with other weights."""
        return replace(self, weight=weight, memory=self._fresh())

    def worth(self, weight: Array, own: Array | None, costs: Array | None = None) -> Rows:
        """Return the rows with what their costs come to: weights, and floors or rewards."""
        # what is kept by then, of kernels and designs, is a matter of X alone
        return replace(self, weight=weight, own=own, costs=costs)

    def _fresh(self) -> dict[str, tuple[Any, Any]] | None:
        return None if self.memory is None else {}

    def remembering(self) -> Rows:
        """Return the rows with a memory: those of a stream for as long as a task works on them."""
        return self if self.memory is not None else replace(self, X=self.design().X, memory={})

    def state(self, name: str, token: Any, make: Callable[[], Any]) -> Any:
        """Return what ``make`` computes, from memory where it was computed for the same token.

        One value is kept of each name: that of the last token, compared by identity. Rows of a
        stream keep nothing.
        """
        if self.memory is None:
            return make()
        known = self.memory.get(name)
        if known is None or known[0] is not token:
            del known
            self.memory.pop(name, None)  # gone before there is another
            known = self.memory[name] = token, make()
        return known[1]


@dataclass(frozen=True)
class Labelled:
    """All rows of a fit, with their classes.

    Attributes
    ----------
    source : Source
        Where the rows come from.
    classes : ndarray of shape (K,)
        The labels.
    counts, mass : ndarray of shape (K,)
        How many rows with a weight there are of each class, and what they weigh, without
        ``factors``. NumPy arrays, however rows are kept.
    factors : ndarray of shape (K,)
        The classes' own weights.
    held : Rows or None
        The rows that have a weight, where they are in one place.
    part : callable or None
        Of streamed rows, which ones take part: gives the others no weight.
    seen : Seen or None
        Of streamed rows, what tells whether they are still those that were counted.
    priced : bool
        Whether rows have costs of their own.
    by_rows : bool
        Whether rows have floors or rewards of their own, which follow from their costs.
    beside : int or None
        Where rows came with rewards of actions in place of costs: how many actions there are beside
        the classes.
    """

    source: Source
    classes: Array
    counts: Array
    mass: Array
    factors: Array
    held: Rows | None = None
    part: Callable[[Rows], Rows] | None = None
    seen: Seen | None = None
    priced: bool = False
    by_rows: bool = False
    beside: int | None = None

    @property
    def n_rows(self) -> int:
        """Rows that have a weight."""
        return int(self.counts.sum())

    @property
    def n_features(self) -> int:
        """Features of a row."""
        return int(self.source.n_features if self.held is None else self.held.X.shape[1])

    @property
    def all_held(self) -> Rows:
        """The rows that have a weight, of a fit that is given all of them in one place."""
        assert self.held is not None
        return self.held

    @property
    def given(self) -> Array:
        """Features of rows that are held as they were given: also of those without a weight."""
        assert isinstance(self.source, HeldSource)
        return self.source.block.X

    @property
    def like(self) -> Array:
        """An array of the kind that results are to be."""
        return self.source.like() if self.held is None else self.held.weight

    @property
    def prior(self) -> Array:
        """Class frequencies."""
        return self.mass / self.mass.sum()

    @property
    def cheap_rereads(self) -> bool:
        """Whether a reading costs only its arithmetic: then no two need to be made one."""
        return self.held is not None

    @property
    def plain(self) -> Labelled:
        """The same rows with their own weights, without those of classes or, if held, of stakes.

        Rates, and what is learnt of X alone, are those of the data. Rows without a weight stay so.
        """
        source = self.source
        had_costs = isinstance(source, HeldSource) and source.block.costs is not None
        staked = had_costs and not self.priced
        if np.all(self.factors == 1.0) and not staked:
            return self
        rows = self.held
        if rows is not None:
            xp = array_namespace(rows.weight)
            rows = rows.weighing(xp.where(rows.weight > 0.0, self._own_weight(rows), 0.0))
        return replace(self, factors=np.ones_like(self.factors), held=rows)

    def _own_weight(self, rows: Rows) -> Array:
        """Weights of held rows without those of their classes."""
        assert isinstance(self.source, HeldSource)
        X, weight = self.source.block.X, self.source.block.weight
        every = moved(check_weights(weight, int(X.shape[0])), rows.weight)
        return array_namespace(every).take(every, rows.places())

    def reduce(self, task: Callable[[Rows], Sums]) -> Sums:
        """Sum a task over all rows, block by block in their order."""
        if self.held is not None:
            return task(self.held)
        known = self.classes, self.factors, self.source.at_a_time
        encoded = _Encoded(*known, self.part, self.seen, self.beside, task)
        return self.source.reduce(encoded)

    def take(self, places: Array) -> Labelled:
        """Return a part of rows that are held."""
        assert self.held is not None
        rows = self.held.take(moved(places, self.held.codes))
        counts, mass = _counted(rows.weighing(self._own_weight(rows)), len(self.classes))
        return replace(self, counts=counts, mass=mass, held=rows)

    def part_of(self, part: Callable[[Rows], Rows], counts: Array, mass: Array) -> Labelled:
        """Return the rows that still have a weight after ``part``, which weigh ``mass``.

        Where rows are held they stay, and those that take no part weigh nothing.
        """
        if self.held is not None:
            return replace(self, counts=counts, mass=mass, held=part(self.held))
        both = part if self.part is None else _Both(self.part, part)
        return replace(self, counts=counts, mass=mass, part=both)

    def weighed_by(self, class_weight: Any) -> Labelled:
        """Return the rows with these weights of the classes, "balanced" ones by their own mass."""
        if class_weight is None:
            return self.plain
        factors, rows = _class_factors(class_weight, self.classes, self.mass), self.plain.held
        if rows is not None:
            rows = rows.weighing(rows.weight * _per_row(factors, rows))
        return replace(self.plain, factors=factors, held=rows)

    def with_features(self, source: Source, change: Callable[[Array], Array]) -> Labelled:
        """Return the same rows with other features: of a source, or changed where they are held."""
        if self.held is None:
            return replace(self, source=source, seen=None)
        return replace(self, held=replace(self.held, X=change(self.held.X), memory={}))


# ------------------------------------------------------------------------------------------
# Labels
# ------------------------------------------------------------------------------------------


def label(
    source: Source, class_weight: Any = None, beside: int | None = None, empty: bool = False
) -> Labelled:
    """Find what classes and weights the rows of a source have.

    Rows of a stream are read once, and checked. Where ``beside`` is a number, what rows bring are
    rewards of so many actions more than there are classes. An :class:`EmptyClassesError` says that
    some classes weigh nothing, unless held ones may be ``empty``.
    """
    if isinstance(source, HeldSource):
        return _label_held(source, class_weight, beside, empty)
    found = source.reduce(_census)
    classes, counts, mass = _merged(found["labels"])
    priced = _all_or_none(found["priced"])
    check_classification_targets(classes)
    _check_classes(source, classes, mass)  # before what is nothing is balanced
    factors = _class_factors(class_weight, classes, mass)
    _check_classes(source, classes, mass * factors)
    seen = Seen(dict(found["seen"]))
    return Labelled(source, classes, counts, mass, factors, seen=seen, priced=priced, beside=beside)


def _label_held(source: HeldSource, class_weight: Any, beside: int | None, empty: bool) -> Labelled:
    X, y, weight, _, costs = source.block
    check_values(X)
    if is_numpy_array(y):
        as_labels(y, "y")  # which can be sorted: no mixture
    classes = _classes(y) if is_numpy_array(y) else as_numpy(array_namespace(y).unique_values(y))
    if classes.dtype.kind not in "biuU":  # which are classes whatever their values
        check_classification_targets(classes)
    weight = check_weights(weight, int(X.shape[0]))
    like = np.empty(0) if sp.issparse(X) else X
    codes = _codes(y, classes, like, all_known=True)
    if costs is not None:
        costs = moved(_read(costs, classes, int(X.shape[0]), beside), codes)
    rows = Rows(X, codes, moved(weight, codes), memory={}, costs=costs)
    counts, mass = _counted(rows, classes.size)
    factors = _class_factors(class_weight, classes, mass)
    if not (empty and classes.size > 1):
        _check_classes(source, classes, mass * factors)
    if class_weight is not None:
        rows = rows.weighing(rows.weight * _per_row(factors, rows))
    if counts.sum() < weight.size:
        rows = rows.take(moved(np.flatnonzero(weight > 0), codes))
    return Labelled(
        source, classes, counts, mass, factors, rows, priced=costs is not None, beside=beside
    )


def _read(costs: Any, classes: Array, n_rows: int, beside: int | None, of: str = "") -> Array:
    """Check what decisions about rows cost, or what actions earn; ``of`` says which rows."""
    if beside is not None:
        return action_losses(costs, classes, n_rows, beside=beside, name=f"rewards{of}")
    # what makes no difference in a part of the rows may make one in another
    return cost_matrices(costs, classes, n_rows, some_stake=not of, name=f"example_costs{of}")


_CLOSE = 1000  # whole numbers that are counted rather than sorted


def _classes(y: Array) -> Array:
    """Values that labels of NumPy's have, in order."""
    ends = _close_ends(y)
    if ends is None:
        return np.unique(y)
    least, greatest = ends
    if greatest - least <= 1:
        return np.unique([least, greatest]).astype(y.dtype)
    return (least + np.flatnonzero(np.bincount(y - y.dtype.type(least)))).astype(y.dtype)


def _close_ends(labels: Array) -> tuple[int, int] | None:
    """Return the ends of whole numbers that are close enough to be soon counted."""
    if labels.dtype.kind != "i" or not labels.size:
        return None
    least, greatest = int(labels.min()), int(labels.max())
    close = greatest - least < min(_CLOSE, np.iinfo(labels.dtype).max)
    return (least, greatest) if close else None


def _places(y: Array, classes: Array, all_known: bool) -> Array:
    """Places of labels of NumPy's among the classes."""
    ends = _close_ends(classes) if y.dtype == classes.dtype and y.size else None
    if ends is None or not (all_known or (y.min() >= ends[0] and y.max() <= ends[1])):
        # an inverse of unique would sort all rows
        return np.searchsorted(classes, y)
    least, greatest = ends
    if least == 0 and greatest == classes.size - 1:  # they are places
        return y
    return np.searchsorted(classes, np.arange(least, greatest + 1))[y - y.dtype.type(least)]


def _codes(y: Array, classes: Array, like: Array, all_known: bool = False) -> Array:
    """Places of labels among the classes, in the library and on the device of another array.

    ``all_known`` says that the classes are those of these labels: others may be in other blocks.
    """
    xp = array_namespace(like)
    if is_numpy_array(y):
        found = moved(_places(as_labels(y, "y"), classes, all_known), like)
        return xp.astype(found, xp.int64)  # a copy: labels given are the caller's to change
    known = moved(classes, y)
    if y.dtype == xp.bool:  # which libraries do not search for
        known, y = xp.astype(known, xp.uint8), xp.astype(y, xp.uint8)
    return xp.astype(xp.searchsorted(known, y), xp.int64)


def _per_row(of_classes: Array, rows: Rows) -> Array:
    return array_namespace(rows.codes).take(moved(of_classes, rows.weight), rows.codes)


def _counted(rows: Rows, n_classes: int) -> tuple[Array, Array]:
    """Rows of each class that have a weight, and what they weigh."""
    codes, weight = rows.codes, rows.weight
    if is_numpy_array(codes):
        least = weight.min() if weight.size else 0.0
        heavy = codes if least > 0 else codes[weight > 0]
        if n_classes == 2:
            ones = np.count_nonzero(heavy)
            counts = np.array([heavy.size - ones, ones])
        else:
            counts = np.bincount(heavy, minlength=n_classes)
        if least == 1.0 == weight.max():
            return counts, counts.astype(np.float64)
        return counts, np.bincount(codes, weight, minlength=n_classes)
    # summed where they are: bringing them here would take longer than a step of a fit
    xp, members = array_namespace(codes), [codes == k for k in range(n_classes)]
    heavy = weight > 0
    counts = xp.stack([xp.count_nonzero(of_class & heavy) for of_class in members])
    mass = xp.stack([xp.sum(xp.where(of_class, weight, 0.0)) for of_class in members])
    return as_numpy(counts), as_numpy(mass)


def _class_factors(class_weight: Any, classes: Array, mass: Array) -> Array:
    """Check and return the weights of the classes; those without a row have none."""
    if class_weight is None:
        return np.ones(classes.size)
    with np.errstate(divide="ignore"):  # "balanced" divides by the weight of each class
        factors = compute_class_weight(class_weight, classes=classes, y=classes, sample_weight=mass)
    factors = np.where(mass > 0, factors, 0.0)
    check_factors(factors, class_weight, classes)
    return factors


def _check_classes(source: Source, classes: Array, mass: Array) -> None:
    present = mass > 0
    if classes.size < 2 or not np.any(present):
        raise ValueError(
            f"A classifier needs at least two classes with a positive weight; got one class: "
            f"{classes[present].tolist()}."
        )
    if not np.all(present):
        raise EmptyClassesError(source, classes, present)


# ------------------------------------------------------------------------------------------
# Streams
# ------------------------------------------------------------------------------------------


def _census(block: Block) -> Sums:
    """Check a block that no one else has looked at, and count its labels."""
    _check_block(block)
    if is_numpy_array(block.y):
        labels, codes = np.unique(as_labels(block.y, "y"), return_inverse=True)
    else:
        xp = array_namespace(block.y)
        labels, codes = (as_numpy(a) for a in xp.unique_inverse(block.y))
    weight = np.ones(codes.size)
    if block.weight is not None:
        weight = as_numpy(block.weight).astype(np.float64)
    counts = np.bincount(codes[weight > 0], minlength=labels.size)
    seen = (block.first, block.X.shape[0]), checksum(block)
    return {
        "labels": [(labels, counts, np.bincount(codes, weight))],
        "seen": [seen],
        "priced": [block.costs is not None],
    }


def _check_block(block: Block) -> None:
    """Check values, labels and weights: every error names the rows it means."""
    place = f"rows {block.first} to {block.first + block.X.shape[0] - 1}"
    if block.y.shape[0] != block.X.shape[0]:
        raise ValueError(
            f"X and y must have as many rows; {place} have {block.X.shape[0]} rows of X and "
            f"{block.y.shape[0]} labels."
        )
    values = block.X.data if sp.issparse(block.X) else block.X
    xp = array_namespace(values)
    if not bool(xp.isfinite(xp.sum(values))) and not bool(xp.all(xp.isfinite(values))):
        raise ValueError(f"X contains NaN or infinity, in {place}; values must be finite.")
    check_values(block.X, f", in {place}")
    if block.weight is not None:
        if block.weight.shape != (block.X.shape[0],):
            raise ValueError(
                f"sample_weight must have one weight a row; {place} have shape "
                f"{tuple(block.weight.shape)}."
            )
        xp = array_namespace(block.weight)
        if not bool(xp.all((block.weight >= 0) & (block.weight < xp.inf))):
            raise ValueError(f"sample_weight must be finite and not negative; see {place}.")
        if bool(xp.any(are_extreme(block.weight))):
            raise ValueError(
                f"sample_weight must be zero or between {1.0 / HEAVIEST:g} and {HEAVIEST:g}; see "
                f"{place}."
            )


def _all_or_none(priced: list[bool]) -> bool:
    if any(priced) and not all(priced):
        raise ValueError(
            f"All blocks must have costs of their rows, or none: {sum(priced)} of {len(priced)} do."
        )
    return all(priced)


def _merged(found: list[tuple[Array, Array, Array]]) -> tuple[Array, Array, Array]:
    labels, counts, mass = (np.concatenate(parts) for parts in zip(*found, strict=True))
    classes, codes = np.unique(labels, return_inverse=True)
    return classes, np.bincount(codes, counts).astype(np.int64), np.bincount(codes, mass)


@dataclass(frozen=True)
class _Both:
    """A part of a part of the rows."""

    first: Callable[[Rows], Rows]
    second: Callable[[Rows], Rows]

    def __call__(self, rows: Rows) -> Rows:
        return self.second(self.first(rows))


@dataclass(frozen=True)
class _Encoded:
    """A task on rows, as one on blocks."""

    classes: Array
    factors: Array
    at_a_time: int
    part: Callable[[Rows], Rows] | None
    seen: Seen | None
    beside: int | None
    task: Callable[[Rows], Sums]

    def __call__(self, block: Block) -> Sums:
        if self.seen is not None:
            self.seen.check(block)
        pieces = (self._rows(piece) for piece in _pieces(block, self.at_a_time))
        return added(self.task(rows) for rows in pieces)

    def _rows(self, block: Block) -> Rows:
        codes = _codes(block.y, self.classes, np.empty(0) if sp.issparse(block.X) else block.X)
        xp = array_namespace(codes)
        weight = xp.ones(codes.shape[0], dtype=xp.float64, device=device(codes))
        if block.weight is not None:
            weight = xp.astype(moved(block.weight, codes), xp.float64)
        costs = None
        if block.costs is not None:
            n_rows = int(block.X.shape[0])
            place = f" (of rows {block.first} to {block.first + n_rows - 1})"
            costs = moved(_read(block.costs, self.classes, n_rows, self.beside, place), codes)
        rows = Rows(block.X, codes, weight, block.first, costs=costs)
        if np.any(self.factors != 1.0):
            rows = rows.weighing(weight * _per_row(self.factors, rows))
        return rows if self.part is None else self.part(rows)


def _pieces(block: Block, at_a_time: int) -> Iterator[Block]:
    """Cut a block into pieces that stay in the cache while a task goes over them many times.

    Blocks that are sparse, or elsewhere than in this memory, are given as they are.
    """
    X, y, weight, first, costs = block
    if not is_numpy_array(X):
        yield block
        return
    # not so few that sums of the size of the features squared would take longer than the rows
    step = max(at_a_time // max(1, X.shape[1]), 4 * X.shape[1], 1)
    for a in range(0, X.shape[0], step):
        here = slice(a, a + step)
        own = None if weight is None else weight[here]
        yield Block(X[here], y[here], own, first + a, costs_at(costs, here))
