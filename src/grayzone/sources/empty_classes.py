"""Classes without a row that weighs anything: who says so, and rows without these labels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from grayzone.numerics.checks import as_numpy
from grayzone.sources.source import Block, Source

Array = Any


class EmptyClassesError(ValueError):
    """The rows of some classes all weigh nothing.

    Parameters
    ----------
    source : Source
        The rows.
    classes : ndarray of shape (K,)
        All labels.
    present : ndarray of shape (K,)
        Which of them have a row that weighs something: one at least.
    """

    def __init__(self, source: Source, classes: Array, present: NDArray[np.bool_]) -> None:
        self.source, self.classes, self.present = source, classes, present
        super().__init__(
            f"All rows of the classes {classes[~present].tolist()} have weight zero; leave these "
            "rows out or give them a positive weight."
            if present.sum() > 1
            else "A classifier needs at least two classes with a positive weight; got one class: "
            f"{classes[present].tolist()}."
        )


@dataclass(frozen=True)
class Relabelled:
    """A block whose rows of empty classes have another label: they still weigh nothing."""

    classes: Array
    present: NDArray[np.bool_]

    def __call__(self, block: Block) -> Block:
        labels = as_numpy(block.y)
        kept = self.present[np.searchsorted(self.classes, labels)]
        weight = 1.0 if block.weight is None else as_numpy(block.weight)
        return block._replace(
            y=np.where(kept, labels, self.classes[self.present][0]),
            weight=np.where(kept, weight, 0.0),
            costs=of_present(block.costs, self.classes, self.present, per_row=True),
        )


def of_present(
    value: Any, classes: Array, present: NDArray[np.bool_], per_row: bool = False
) -> Any:
    """Return of what is said of each class, in a mapping or along all axes, what is of some.

    ``per_row`` says that rows are along the first axis of an array. Other values stay as they are.
    """
    if isinstance(value, Mapping):
        gone = set(classes[~present].tolist())
        return {label: part for label, part in value.items() if label not in gone}
    if value is None or isinstance(value, str) or np.ndim(value) == 0:
        return value
    values = as_numpy(value)
    rows = [np.arange(len(values))] if per_row else []
    sides = values.ndim - len(rows)
    if values.shape[len(rows) :] != (len(classes),) * sides:
        return value  # whose shape is wrong, as will be said
    return values[np.ix_(*rows, *[present] * sides)]
