"""Typical rows: what a row is compared with when a model gives reasons.

They travel with the model, so that they are no rows of anybody: rows of the table are put in order
by what the model says of them, cut into equal parts, and each part becomes one row of its medians
and most frequent categories. A number that fewer than five rows have is rounded to three digits, a
date to the day. Of a text that fewer than five rows have, words are kept that five rows have or,
where there are none, those that would be the same with other digits ("A0000").
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

import numpy as np
import pandas as pd

from grayzone.tables.schema import NUMBER, TEXT, Schema
from grayzone.training.asking import class_scores, probabilities

Array = Any
Table = Any  # a pandas DataFrame

N_TYPICAL = 8
MOST_ROWS = 2_000
FEWEST = 5  # rows that have a value which is kept as it is
_DIGITS = 3


def typical_rows(estimator: Any, table: Table, schema: Schema, *, seed: int = 0) -> Table:
    """Return eight typical rows, or fewer where there are fewer than forty rows.

    Parameters
    ----------
    estimator : Pipeline
        The fitted pipeline whose decisions will be explained.
    table : DataFrame
        Rows that it was fitted to, in the columns of its schema.
    schema : Schema
        Kinds of the columns.
    seed : int
        Draws rows, where there are more than 2,000.

    Returns
    -------
    rows : DataFrame
        In the same columns, of the same types.
    """
    drawn = np.sort(np.random.default_rng(seed).permutation(len(table))[:MOST_ROWS])
    some = table.iloc[drawn]
    scores = class_scores(probabilities(estimator, some))
    # of two classes the order of the log-odds; of more, along what differs most between rows
    axis = np.linalg.svd(scores - scores.mean(axis=0), full_matrices=False)[2][0]
    order = np.argsort(scores @ axis, kind="stable")
    parts = np.array_split(order, max(1, min(N_TYPICAL, len(some) // FEWEST)))
    kinds = {column.name: column.kind for column in schema.columns}
    columns = {
        name: _typical(some[name], kinds[str(name)], parts).astype(some[name].dtype)
        for name in some.columns
    }
    return pd.DataFrame(columns)


def _typical(column: Any, kind: str, parts: list[Array]) -> Any:
    """One value of a column for each part; a gap where most of its rows have one."""
    counts = column.value_counts()
    common = set(counts.index[counts >= FEWEST])
    words = _common_words(column.dropna()) if kind == TEXT else set()
    values: list[Any] = []
    for part in parts:
        known = column.iloc[part].dropna()
        if 2 * len(known) <= len(part):
            values.append(None)
        elif kind == NUMBER:
            values.append(_number(float(known.median()), common))
        elif kind == TEXT:
            values.append(_text(known, common, words))
        else:
            values.append(known.sort_values().iloc[len(known) // 2].normalize())
    return pd.Series(values, dtype=object)


def _number(middle: float, common: set[Any]) -> float:
    return middle if middle in common else float(f"{middle:.{_DIGITS}g}")


def _text(known: Any, common: set[Any], words: set[str]) -> str | None:
    """The text that most rows have or, where each has its own, what is common in one of them."""
    counts = known.where(known.isin(common), "").value_counts().drop("", errors="ignore")
    # of as many rows, the first by the alphabet
    text = min(counts.items(), key=lambda item: (-item[1], item[0]))[0] if len(counts) else None
    if text is not None and 2 * counts[text] > len(known) - counts.sum():
        return str(text)
    for form in (str, _masked):
        kept = [" ".join(w for w in map(form, t.split()) if w in words) for t in known]
        middle = sorted(filter(None, kept), key=lambda t: (len(t), t))
        if middle:
            return middle[len(middle) // 2]
    return text


def _common_words(texts: Any) -> set[str]:
    """Words that five rows have, as they are or but for their digits."""
    counts: Counter[str] = Counter()
    for text in texts:
        words = text.split()
        counts.update({*words, *map(_masked, words)})
    return {word for word, count in counts.items() if count >= FEWEST}


def _masked(word: str) -> str:
    return re.sub(r"\d", "0", word)
