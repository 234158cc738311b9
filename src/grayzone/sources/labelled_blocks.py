"""Blocks whose labels are known: what classes there are, what they weigh, and each row's code."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from array_api_compat import array_namespace, device, is_numpy_array
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets

from grayzone.numerics.backend import moved
from grayzone.numerics.checks import as_labels, as_numpy
from grayzone.sources.labelled import Rows
from grayzone.sources.source import Block, HeldSource, Source, Sums, added

Array = Any


@dataclass(frozen=True)
class LabelledBlocks:
    """A source with its classes.

    ``counts`` are the rows of each class, ``mass`` is what they weigh, without ``factors``, the
    classes' own weights. All belong to ``classes`` and are NumPy arrays, however rows are kept.
    """

    source: Source
    classes: Array
    counts: Array
    mass: Array
    factors: Array

    @property
    def n_rows(self) -> int:
        """Rows in all blocks."""
        return int(self.counts.sum())

    @property
    def n_features(self) -> int:
        """Features of a row."""
        return self.source.n_features

    @property
    def like(self) -> Array:
        """An array of the kind that results are to be."""
        return self.source.like()

    @property
    def prior(self) -> Array:
        """Class frequencies."""
        return self.mass / self.mass.sum()

    def reduce(self, task: Callable[[Rows], Sums]) -> Sums:
        """Sum a task over all blocks of rows with codes and weights."""
        if isinstance(self.source, HeldSource):
            return task(self.held)
        return self.source.reduce(_Encoded(self.classes, self.factors, self.source.at_a_time, task))

    @cached_property
    def held(self) -> Rows:
        """All rows, of a source that holds them in one place: encoded once."""
        assert isinstance(self.source, HeldSource)
        return encoded(self.source.block, self.classes, self.factors)


def label_blocks(source: Source, class_weight: Any = None) -> LabelledBlocks:
    """Read all blocks once, check them, and find what classes and weights they have."""
    found = source.reduce(_census)
    classes, counts, mass = _merged(found["labels"])
    check_classification_targets(classes)
    factors = np.ones(classes.size)
    if class_weight is not None:
        with np.errstate(divide="ignore"):
            factors = compute_class_weight(
                class_weight, classes=classes, y=classes, sample_weight=mass
            )
        factors = np.where(mass > 0, factors, 0.0)
        if not np.all(np.isfinite(factors)) or np.any(factors < 0):
            raise ValueError(
                f"class_weight must give finite weights >= 0; got {class_weight!r} for classes "
                f"{classes.tolist()}."
            )
    _check_classes(classes, mass * factors)
    return LabelledBlocks(source, classes, counts, mass, factors)


def _census(block: Block) -> Sums:
    _check_block(block)
    if is_numpy_array(block.y):
        labels, codes = np.unique(as_labels(block.y, "y"), return_inverse=True)
        counts = np.bincount(codes)
        mass = counts.astype(float)
        if block.weight is not None:
            mass = np.bincount(codes, as_numpy(block.weight).astype(np.float64))
        return {"labels": [(labels, counts, mass)]}
    xp = array_namespace(block.y)
    labels, counts = xp.unique_counts(block.y)
    check_classification_targets(as_numpy(labels))  # before the loop: there may be very many
    mass = xp.astype(counts, xp.float64)
    if block.weight is not None:
        weight = xp.astype(block.weight, xp.float64)
        mass = xp.stack([xp.sum(xp.where(block.y == label, weight, 0.0)) for label in labels])
    return {"labels": [tuple(as_numpy(a) for a in (labels, counts, mass))]}


def _check_block(block: Block) -> None:
    """Check what no one else has looked at: every error names the rows it means."""
    place = f"rows {block.first} to {block.first + block.X.shape[0] - 1}"
    if block.y.shape[0] != block.X.shape[0]:
        raise ValueError(
            f"X and y must have as many rows; {place} have {block.X.shape[0]} rows of X and "
            f"{block.y.shape[0]} labels."
        )
    if not sp.issparse(block.X):
        xp = array_namespace(block.X)
        if not bool(xp.isfinite(xp.sum(block.X))) and not bool(xp.all(xp.isfinite(block.X))):
            raise ValueError(f"X contains NaN or infinity, in {place}; values must be finite.")
    elif not np.all(np.isfinite(block.X.data)):
        raise ValueError(f"X contains NaN or infinity, in {place}; values must be finite.")
    if block.weight is not None:
        xp = array_namespace(block.weight)
        if block.weight.shape != (block.X.shape[0],):
            raise ValueError(
                f"sample_weight must have one weight a row; {place} have shape "
                f"{tuple(block.weight.shape)}."
            )
        if not bool(xp.all((block.weight >= 0) & (block.weight < xp.inf))):
            raise ValueError(f"sample_weight must be finite and not negative; see {place}.")


def _merged(found: list[tuple[Array, Array, Array]]) -> tuple[Array, Array, Array]:
    labels, counts, mass = (np.concatenate(parts) for parts in zip(*found, strict=True))
    classes, codes = np.unique(labels, return_inverse=True)
    return classes, np.bincount(codes, counts).astype(np.int64), np.bincount(codes, mass)


def _check_classes(classes: Array, mass: Array) -> None:
    present = classes[mass > 0]
    if present.size < 2:
        raise ValueError(
            f"A classifier needs at least two classes with a positive weight; got one class: "
            f"{present.tolist()}."
        )
    if present.size < classes.size:
        raise ValueError(
            f"All rows of the classes {classes[mass == 0].tolist()} have weight zero; leave these "
            "rows out or give them a positive weight."
        )


@dataclass(frozen=True)
class _Encoded:
    """A task on rows, as one on blocks."""

    classes: Array
    factors: Array
    at_a_time: int
    task: Callable[[Rows], Sums]

    def __call__(self, block: Block) -> Sums:
        pieces = _pieces(block, self.at_a_time)
        parts = (encoded(piece, self.classes, self.factors) for piece in pieces)
        return added(self.task(rows) for rows in parts)


def _pieces(block: Block, at_a_time: int) -> Iterator[Block]:
    """Cut a block into pieces that stay in the cache while a task goes over them many times.

    Blocks that are sparse, or elsewhere than in this memory, are given as they are.
    """
    X, y, weight, first = block
    if not is_numpy_array(X):
        yield block
        return
    # not so few that sums of the size of the features squared would take longer than the rows
    step = max(at_a_time // max(1, X.shape[1]), 4 * X.shape[1], 1)
    for a in range(0, X.shape[0], step):
        here = slice(a, a + step)
        own = None if weight is None else weight[here]
        yield Block(X[here], y[here], own, first + a)


def encoded(block: Block, classes: Array, factors: Array) -> Rows:
    """Give a block with codes and weights, in the library and on the device of its X."""
    dense = not sp.issparse(block.X)
    xp = array_namespace(block.X) if dense else np
    where = {"device": device(block.X)} if dense else {}
    if is_numpy_array(block.y):
        codes = moved(
            np.searchsorted(classes, as_labels(block.y, "y")), block.X if dense else np.empty(0)
        )
    else:
        known, y = moved(classes, block.y), block.y
        if y.dtype == xp.bool:  # which libraries do not search for
            known, y = xp.astype(known, xp.uint8), xp.astype(y, xp.uint8)
        codes = xp.searchsorted(known, y)
    codes = xp.astype(codes, xp.int64)
    weight = xp.ones(codes.shape[0], dtype=xp.float64, **where)
    if block.weight is not None:
        weight = xp.astype(moved(block.weight, weight), xp.float64)
    if np.any(factors != 1.0):
        weight = weight * xp.take(moved(factors, weight), codes)
    return Rows(block.X, codes, weight, block.first)
