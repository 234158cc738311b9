"""Tables that are in memory, or in a file: all as pandas DataFrames."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from grayzone.tables.reading import read_table

Table = Any  # a pandas DataFrame


def as_table(table: Any, names: Sequence[str] = (), text: Collection[str] = ()) -> Table:
    """Return a table as a pandas DataFrame.

    Parameters
    ----------
    table : DataFrame, array or path
        A DataFrame of pandas or polars, a table of PyArrow, a file that :func:`read_table` reads,
        or an array whose columns are those of `names`.
    names : sequence of str, default=()
        Names of the columns of an array.
    text : collection of str, default=()
        Columns of a file that are left as they are written.

    Raises
    ------
    TypeError, ValueError
        If it is something else, or an array of another width.
    UserError
        If a file cannot be read.

    Examples
    --------
    >>> import numpy as np
    >>> from grayzone.tables.frames import as_table
    >>> as_table(np.eye(2), ["age", "amount"])
       age  amount
    0  1.0     0.0
    1  0.0     1.0
    """
    if isinstance(table, pd.DataFrame):
        return table
    if isinstance(table, str | Path):
        return read_table(Path(table), text=text)
    if hasattr(table, "to_pandas"):
        return table.to_pandas()
    if isinstance(table, np.ndarray) and table.ndim == 2 and names:
        if table.shape[1] != len(names):
            raise ValueError(
                f"An array has {table.shape[1]} columns; expected {len(names)}: "
                f"{', '.join(names[:5])}{' …' * (len(names) > 5)}. A DataFrame names its own."
            )
        return pd.DataFrame(table, columns=list(names))
    raise TypeError(
        "A table must be a DataFrame of pandas or polars, or the path of a file; got "
        f"{type(table).__name__}."
    )
