"""Reasons for a decision: what the values of a row add to its log-odds.

The log-odds are those of the positive class of two; of more classes, the score of the one that is
decided for (see :func:`~grayzone.training.asking.class_scores`). What is added is told against
typical rows that the model keeps (:mod:`~grayzone.training.typical`), by source column of the table
(:mod:`~grayzone.training.shapley`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from grayzone.tables.errors import UserError
from grayzone.training.asking import class_scores, probabilities
from grayzone.training.shapley import PLAYERS, Shares, shares_of

Array = Any
Table = Any  # a pandas DataFrame

ROUNDS = 1  # orders for each typical row
MOST_COLUMNS = 200  # that are looked at; of more, those that matter by their importance
_LONGEST = 40  # characters of a value
_NONE = 5e-4  # log-odds that are shown as 0.000


class Explained(NamedTuple):
    """Shares of columns in the log-odds of rows, which class they are of, and the rows."""

    shares: Shares
    targets: Array
    table: Table


def explained(
    model: Any,
    table: Table,
    *,
    decided: Array | None = None,
    background: Table | None = None,
    rounds: int = ROUNDS,
    players: int = PLAYERS,
    seed: int = 0,
) -> Explained:
    """Return what each column adds to the log-odds of rows.

    Parameters
    ----------
    model : DecisionModel
        The model that decides.
    table : DataFrame
        Rows with the columns that it needs.
    decided : ndarray of shape (n,), optional
        Places of the classes decided for, -1 for undecided, where costs of the day say so.
    background : DataFrame, optional
        Typical rows to compare with, other than those that the model keeps.
    rounds, players, seed : int
        How shares are sampled where the model is not additive: see
        :func:`~grayzone.training.shapley.shares_of`.

    Returns
    -------
    explained : Explained
        The shares.

    Raises
    ------
    UserError
        If there is nothing to compare with.
    """
    typical = model.background if background is None else background
    if typical is None:
        raise UserError(
            "The model keeps no typical rows to compare with, so that it gives no reasons; expected"
            " one that this version of `grayzone train` wrote."
        )
    X = model.schema.apply(table)
    targets = _targets(model, table, X, decided)
    shares = shares_of(
        lambda rows: class_scores(probabilities(model.estimator, rows)),
        X,
        model.schema.apply(typical),
        targets,
        rounds=rounds,
        players=players,
        candidates=_candidates(model),
        seed=seed,
    )
    return Explained(shares, targets, X)


def _candidates(model: Any) -> Array | None:
    """Places of the columns that matter most, where there are too many to look at each."""
    names = model.schema.names
    if len(names) <= MOST_COLUMNS or not model.importance:
        return None
    place = {name: j for j, name in enumerate(names)}
    told = [name for found in model.importance for name in (found.column, *found.together)]
    return np.sort([place[name] for name in told[:MOST_COLUMNS]])


def _targets(model: Any, table: Table, X: Table, decided: Array | None) -> Array:
    """Class whose score is explained: the positive one of two, else the one decided for."""
    if model.stakes.binary:
        return np.ones(len(X), dtype=np.intp)
    proba = probabilities(model.estimator, X)
    if decided is None:
        decided = model.stakes.decide(proba, model.stakes.row_costs(table), model.cut)
    return np.where(decided >= 0, decided, proba.argmax(axis=1))


def reasons_of(
    model: Any,
    table: Table,
    n: int = 3,
    *,
    decided: Array | None = None,
    background: Table | None = None,
    seed: int = 0,
) -> Table:
    """Return the columns that moved the log-odds of each row most, in words.

    Parameters
    ----------
    model : DecisionModel
        The model that decides.
    table : DataFrame
        Rows with the columns that it needs.
    n : int, default=3
        Reasons for each row.
    decided, background, seed
        As in :func:`explained`.

    Returns
    -------
    reasons : DataFrame
        Columns ``reason_1`` to ``reason_n``, the largest first, such as ``"income = 1200: -0.830"``
        (column, value, what it adds to the log-odds of the positive class or, of more than two, to
        the score of the one decided for); a gap where nothing more adds anything.
    """
    if n < 1:
        raise UserError(f"Reasons must be at least one; got {n}.")
    players = max(PLAYERS, n + 1)
    found = explained(
        model, table, decided=decided, background=background, players=players, seed=seed
    )
    shares = np.nan_to_num(found.shares.shares)
    order = np.argsort(-np.abs(shares), axis=1, kind="stable")[:, :n]
    texts: list[list[str | None]] = [[None] * n for _ in range(len(table))]
    for i, row in enumerate(order):
        for k, j in enumerate(row):
            if abs(shares[i, j]) >= _NONE:
                value = as_shown(found.table.iat[i, j])
                texts[i][k] = f"{model.schema.names[j]} = {value}: {shares[i, j]:+.3f}"
    names = [f"reason_{k + 1}" for k in range(n)]
    return pd.DataFrame(texts, columns=names, index=table.index, dtype=object)


def as_shown(value: Any) -> str:
    """Return a value of a table as a reader knows it.

    Examples
    --------
    >>> from grayzone.training.reasons import as_shown
    >>> as_shown(1200.0), as_shown(None), as_shown(float("nan")), as_shown(0.1 + 0.2)
    ('1200', '(missing)', '(missing)', '0.3')
    """
    if pd.isna(value):
        return "(missing)"
    if isinstance(value, pd.Timestamp):
        return str(value.date()) if value == value.normalize() else str(value)
    if isinstance(value, float):
        return f"{value:.0f}" if value.is_integer() and abs(value) < 1e15 else f"{value:.6g}"
    text = " ".join(str(value).split())
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
