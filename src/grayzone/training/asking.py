"""Questions to a fitted model: what it says of rows, also of such as never were.

A row that never was has the values of several rows that were: a column of one, another of a second.
Shuffled columns, effects of a value and shares of columns in a decision all ask of such rows.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd

Array = Any
Table = Any  # a pandas DataFrame

LEAST = 1e-9  # probability that is told apart from none: log-odds stay within 21
_AT_ONCE = 20_000  # rows that a model is asked of at a time: it may need much memory for each


class Mixture:
    """Columns of a table, to be put together into rows that take each value from any of its rows.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from grayzone.training.asking import Mixture
    >>> mixture = Mixture(pd.DataFrame({"a": [1.0, 2.0], "b": ["x", "y"]}))
    >>> mixture.rows(np.array([[0, 1]]))
         a  b
    0  1.0  y
    """

    def __init__(self, table: Table) -> None:
        self.names = list(table.columns)
        self._columns = [table[name].array for name in self.names]
        self.n_rows = len(table)

    def rows(self, places: Array) -> Table:
        """Return a table whose value in row i and column j is that of row ``places[i, j]``."""
        return pd.DataFrame(
            {
                name: column.take(places[:, j])
                for j, (name, column) in enumerate(zip(self.names, self._columns, strict=True))
            }
        )

    def values(self) -> Array:
        """Return for each row and column the first row that has the same value there."""
        same = np.empty((self.n_rows, len(self._columns)), dtype=np.intp)
        for j, column in enumerate(self._columns):
            codes = pd.factorize(column, use_na_sentinel=False)[0]
            first = np.unique(codes, return_index=True)[1]
            same[:, j] = first[codes]
        return same


def probabilities(estimator: Any, table: Table) -> Array:
    """Return what a pipeline says of the classes (n, K)."""
    parts = [table.iloc[k : k + _AT_ONCE] for k in range(0, len(table), _AT_ONCE)]
    with warnings.catch_warnings():
        # categories that a model has not seen are none of the known: no reason to warn
        warnings.simplefilter("ignore", UserWarning)
        return np.concatenate(
            [np.asarray(estimator.predict_proba(part), dtype=np.float64) for part in parts]
        )


def class_scores(proba: Array) -> Array:
    r"""Return the log of each class's probability over the geometric mean of the others'.

    Of two classes these are the log-odds. They are sums over columns wherever a model is linear or
    additive, multinomial ones as well.

    Examples
    --------
    >>> import numpy as np
    >>> from grayzone.training.asking import class_scores
    >>> class_scores(np.array([[0.2, 0.8]])).round(3)
    array([[-1.386,  1.386]])
    """
    logs = np.log(np.clip(proba, LEAST, 1.0))
    n_classes = logs.shape[1]
    return (n_classes * logs - logs.sum(axis=1, keepdims=True)) / (n_classes - 1)
