r"""How a score comes about: shares of columns in its difference from that of typical rows.

The share of a column is its Shapley value in the game whose players are columns: what the score
gains where the column is taken from the row that is explained, on average over the orders in which
columns are taken from it rather than from a typical row :math:`b`, and over typical rows,

.. math:: \varphi_j = \mathrm{mean}_b \; \mathrm{mean}_\pi \;
          f(x_{\pi \le j}, b_{\pi > j}) - f(x_{\pi < j}, b_{\pi \ge j}).

They sum to :math:`f(x) - \mathrm{mean}_b f(b)`, whatever orders are drawn.

- Where f is a sum over columns (linear and additive models, on their log-odds) every order gives
  the same, and one is enough: the shares are exact. Whether it is one is seen on the typical rows.
- Otherwise each typical row is walked to the row from both ends of an order, so that interactions
  of two columns are halved exactly as they should be, and of more by sampling. Half the difference
  of the two walks tells the standard error, generously.

References
----------
E. Štrumbelj and I. Kononenko, "Explaining prediction models and individual predictions with feature
contributions", Knowledge and Information Systems, 2014.

R. Mitchell, J. Cooper, E. Frank and G. Holmes, "Sampling permutations for Shapley value
estimation", JMLR, 2022 (antithetic orders).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from grayzone.training.asking import Mixture

Array = Any
Table = Any  # a pandas DataFrame
Scores = Callable[[Table], Array]  # of a table, (n, K)

PLAYERS = 12  # columns of a row that are told apart, with one for all others
_EXACT = 1e-5  # of a score: differences that are rounding, where features are in single precision
_CELLS = 10_000_000  # of made-up rows at a time
_TRIED = 3  # typical rows that additivity is seen on, and which columns matter


class Shares(NamedTuple):
    """Shares of columns in the scores of rows.

    Attributes
    ----------
    base : ndarray of shape (n,)
        Mean score of the typical rows, for the class that a row is explained for.
    score : ndarray of shape (n,)
        Score of the row.
    shares : ndarray of shape (n, d)
        What each column adds; NaN for those that are only known together.
    others : ndarray of shape (n,)
        What the columns without a share of their own add together.
    error : ndarray of shape (n, d)
        Standard errors of the shares; zero where they are exact.
    """

    base: Array
    score: Array
    shares: Array
    others: Array
    error: Array


def shares_of(
    scores: Scores,
    table: Table,
    typical: Table,
    targets: Array,
    *,
    rounds: int = 1,
    players: int = PLAYERS,
    candidates: Array | None = None,
    seed: int = 0,
) -> Shares:
    """Return the shares of all columns in the scores of rows.

    A row's shares do not depend on what other rows there are.

    Parameters
    ----------
    scores : callable
        Scores (n, K) of a table, which sum to zero.
    table : DataFrame
        Rows to explain.
    typical : DataFrame
        Rows that they are compared with, in the same columns.
    targets : ndarray of shape (n,)
        Which of the K scores of each row is explained.
    rounds : int
        Orders for each typical row, each walked from both ends, where shares are not exact.
    players : int
        Columns that are told apart there: of more, those that change the score of a row most where
        they are the first or the last to be taken from it, and all others together.
    candidates : ndarray of int, optional
        Places of the columns that may be told apart, where there are so many that looking at each
        takes too long; shares are sampled then.
    seed : int
        Draws orders.

    Returns
    -------
    shares : Shares
        The shares. A row takes one question to the model for each column where they are exact, and
        otherwise about ``2 * rounds * len(typical) * (players - 1)``.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> from grayzone.training.shapley import shares_of
    >>> rows = pd.DataFrame({"a": [3.0], "b": [2.0]})
    >>> typical = pd.DataFrame({"a": [0.0, 2.0], "b": [0.0, 0.0]})
    >>> product = lambda table: np.outer(table["a"] * table["b"], [-1.0, 1.0])
    >>> shares_of(product, rows, typical, np.array([1])).shares
    array([[2., 4.]])
    """
    asked = _Asked(scores, table, typical)
    if candidates is None:
        may, additive = np.arange(asked.n_columns), _is_additive(asked)
    else:
        may, additive = candidates, False
    plan = _Plan(min(players, asked.n_columns), rounds, seed, additive, may)
    at_once = max(2 * rounds * len(typical) * players, len(may)) * asked.n_columns
    size = max(1, _CELLS // at_once)
    parts = []
    for start in range(0, len(table), size):
        rows = np.arange(start, min(start + size, len(table)))
        parts.append(_shares(asked, rows + len(typical), targets[rows], plan))
    return Shares(*(np.concatenate(field) for field in zip(*parts, strict=True)))


class _Plan(NamedTuple):
    """How shares are found."""

    players: int
    rounds: int
    seed: int
    additive: bool = False
    candidates: Array = ()


class _Asked:
    """Typical rows and rows to explain in one mixture, of which each row is asked once."""

    def __init__(self, scores: Scores, table: Table, typical: Table) -> None:
        self.n_typical = len(typical)
        self._scores = scores
        self._mixture = Mixture(pd.concat([typical, table], ignore_index=True))
        self._values = self._mixture.values()
        self.n_columns = len(self._mixture.names)
        self.typical = self._every(np.arange(self.n_typical)[:, None])

    def __call__(self, places: Array, targets: Array) -> Array:
        """Scores of rows made up from places (..., n, m, d), for the targets of n rows."""
        every = self._every(places)
        chosen = np.broadcast_to(targets[:, None, None], (*every.shape[:-1], 1))
        return np.take_along_axis(every, chosen, axis=-1)[..., 0]

    def _every(self, places: Array) -> Array:
        """Scores (..., K) of rows made up from places (..., d); those that are equal only once."""
        d = self.n_columns
        places = np.broadcast_to(places, (*places.shape[:-1], d))
        same = self._values[places.reshape(-1, d), np.arange(d)]
        different, which = np.unique(same, axis=0, return_inverse=True)
        said = self._scores(self._mixture.rows(different))
        return said[which.ravel()].reshape(*places.shape[:-1], -1)


def _shares(asked: _Asked, rows: Array, targets: Array, plan: _Plan) -> Shares:
    """Shares of rows, which are known by their places in the mixture."""
    n_rows, d = len(rows), asked.n_columns
    score = asked(rows[:, None, None], targets)[:, 0]
    base = asked.typical.mean(axis=0)[targets]
    shares, error, others = np.zeros((n_rows, d)), np.zeros((n_rows, d)), np.zeros(n_rows)
    left = np.arange(n_rows)
    if plan.additive:
        shares = _one_by_one(asked, rows, targets)
        away = np.abs(shares.sum(axis=1) - (score - base))
        # beyond what typical rows show a score may be cut off
        left = np.flatnonzero(away > _EXACT * (1.0 + np.abs(score)))
    if len(left):
        players = _players(asked, rows[left], targets[left], score[left], plan)
        gains, spread = _walks(asked, rows[left], targets[left], players, score[left], plan)
        together = (players == plan.players - 1) & (plan.players < d)
        shares[left] = np.where(together, np.nan, np.take_along_axis(gains, players, axis=1))
        error[left] = np.where(together, np.nan, np.take_along_axis(spread, players, axis=1))
        others[left] = gains[:, -1] if plan.players < d else 0.0
    return Shares(base, score, shares, others, error)


def _one_by_one(asked: _Asked, rows: Array, targets: Array) -> Array:
    """What each column adds on its own, less what those of typical rows do."""
    d = asked.n_columns
    alone = np.eye(d, dtype=bool)
    of_rows = asked(np.where(alone, rows[:, None, None], 0), targets)
    typical = np.where(alone, np.arange(asked.n_typical)[:, None, None], 0)
    means = {
        target: asked(typical, np.full(asked.n_typical, target)).mean(axis=0)
        for target in np.unique(targets)
    }
    return of_rows - np.stack([means[target] for target in targets])


def _is_additive(asked: _Asked) -> bool:
    """Whether walks between a few typical rows gain the same from either end."""
    d, B = asked.n_columns, asked.n_typical
    if d < 2:
        return True
    rows = np.arange(min(B, _TRIED, max(1, _CELLS // (2 * B * d**2))))
    players = np.tile(np.arange(d), (len(rows), 1))
    for target in range(1, asked.typical.shape[1]):  # scores sum to zero
        targets = np.full(len(rows), target)
        known = asked.typical[rows, target]
        spread = _walks(asked, rows, targets, players, known, _Plan(d, 1, 0))[1]
        if np.any(spread > _EXACT * (1.0 + np.abs(asked.typical).max())):
            return False
    return True


def _players(asked: _Asked, rows: Array, targets: Array, score: Array, plan: _Plan) -> Array:
    """Number the columns of each row; those that seem to have the least shares are one player."""
    d, last, may = asked.n_columns, plan.players - 1, plan.candidates
    if d <= plan.players:
        return np.tile(np.arange(d), (len(rows), 1))
    alone, x = may[:, None] == np.arange(d), rows[:, None, None]
    gained = np.zeros((len(rows), len(may)))
    for b in np.unique(np.linspace(0, asked.n_typical - 1, _TRIED).astype(np.intp)):
        # the first and the last step of walks from a typical row
        gained += asked(np.where(alone, x, b), targets) - asked.typical[b][targets][:, None]
        gained += score[:, None] - asked(np.where(alone, b, x), targets)
    order = np.argsort(-np.abs(gained), axis=1, kind="stable")
    players = np.full((len(rows), d), last)
    np.put_along_axis(players, may[order], np.minimum(np.arange(len(may)), last)[None], axis=1)
    return players


def _walks(
    asked: _Asked, rows: Array, targets: Array, players: Array, score: Array, plan: _Plan
) -> tuple[Array, Array]:
    """Mean gain of each player on walks from typical rows to rows, and its standard error."""
    n_rows, P, W = len(rows), plan.players, plan.rounds * asked.n_typical
    typical = np.arange(W) % asked.n_typical
    # of each player the turn, in an order for each walk and in the same from its other end
    turn = np.argsort(np.random.default_rng(plan.seed).random((W, P)), axis=1)
    turns = np.stack([turn, P - 1 - turn], axis=1)
    # (W, 2, n, P - 1, d): columns of the first t players are those of the row
    taken = turns[:, :, players][..., None, :] < np.arange(1, P)[:, None]
    inner = asked(np.where(taken, rows[:, None, None], typical.reshape(-1, 1, 1, 1, 1)), targets)
    start = np.broadcast_to(asked.typical[typical][:, None, targets, None], (W, 2, n_rows, 1))
    end = np.broadcast_to(score[:, None], (W, 2, n_rows, 1))
    steps = np.diff(np.concatenate([start, inner, end], axis=-1), axis=-1)
    gains = np.take_along_axis(steps, np.broadcast_to(turns[:, :, None], steps.shape), axis=-1)
    spread = np.sum(((gains[:, 0] - gains[:, 1]) / 2.0) ** 2, axis=0)
    return gains.mean(axis=(0, 1)), np.sqrt(spread) / W
