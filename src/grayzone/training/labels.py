"""Labels of a target: texts within a model, and of the table's own type for whoever asks it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from grayzone.decision.rules import action_labels

Array = Any

TEXT, WHOLE, NUMBER, TRUTH = "text", "int", "float", "bool"
LABEL_TYPES = (TEXT, WHOLE, NUMBER, TRUTH)
_LONG = 100  # characters: an array of longer texts does not spare room for each in every row
_KINDS = {"boolean": TRUTH, "integer": WHOLE, "floating": NUMBER, "mixed-integer-float": NUMBER}
_TRUTHS = {"False": False, "True": True}


def label_type_of(column: Any) -> str:
    """Return the type that the labels of a column have, one of :data:`LABEL_TYPES`.

    Examples
    --------
    >>> import pandas as pd
    >>> from grayzone.training.labels import label_type_of
    >>> [label_type_of(pd.Series(values)) for values in ([0, 1], ["no", "yes"], [True, None])]
    ['int', 'text', 'bool']
    """
    if isinstance(column.dtype, pd.CategoricalDtype):
        column = column.cat.categories.to_series()
    kind = _KINDS.get(pd.api.types.infer_dtype(column, skipna=True), TEXT)
    if kind != WHOLE:
        return kind
    known = column.dropna()
    small = np.iinfo(np.int64)
    return WHOLE if small.min <= known.min() and known.max() <= small.max else TEXT


def labels_of(classes: Sequence[str], label_type: str) -> Array:
    """Return labels of a type, from the texts that stand for them.

    Raises
    ------
    ValueError
        If a text is none of that type, or two are the same label.

    Examples
    --------
    >>> from grayzone.training.labels import labels_of
    >>> labels_of(["0", "1"], "int")
    array([0, 1])
    """
    if label_type == TRUTH:
        labels = np.array([_TRUTHS.get(text, text) for text in classes])
        right = labels.dtype.kind == "b"
    elif label_type == WHOLE:
        labels = np.array([int(text) for text in classes], dtype=np.int64)
        right = [str(label) for label in labels.tolist()] == list(classes)
    elif label_type == NUMBER:
        labels = np.array([float(text) for text in classes])
        right = bool(np.isfinite(labels).all())
    else:
        wide = max(map(len, classes)) > _LONG
        labels = np.array(list(classes), dtype=object if wide else str)
        right = label_type == TEXT
    if not right or len(np.unique(labels)) < len(classes):
        raise ValueError(f"its classes are no labels of the type {label_type}")
    return labels


def by_place(costs: Array, labels: Array) -> Array:
    """Return costs of classes in their sorted order, by the places that a model has for them.

    Examples
    --------
    >>> import numpy as np
    >>> from grayzone.training.labels import by_place
    >>> by_place(np.array([[0.0, 5.0], [1.0, 0.0]]), np.array(["yes", "no"]))
    array([[0., 1.],
           [5., 0.]])
    """
    places = np.argsort(np.argsort(labels))
    return costs[..., places, :][..., places]


def actions_of(labels: Array) -> Array:
    """Return labels and, last, what stands for "undecided" beside them.

    As everywhere in this package that is -1 beside numbers, and "undecided" beside texts; where -1
    is a label, it is the next whole number below all labels.

    Raises
    ------
    ValueError
        If "undecided" is a label.

    Examples
    --------
    >>> import numpy as np
    >>> from grayzone.training.labels import actions_of
    >>> actions_of(np.array([0, 1])), actions_of(np.array([-1, 1]))
    (array([ 0,  1, -1]), array([-1,  1, -2]))
    """
    taken = not isinstance(labels[0], str) and -1 in labels
    return action_labels(labels, int(np.floor(labels.min())) - 1 if taken else "auto")
