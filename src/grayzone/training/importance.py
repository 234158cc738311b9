"""Which columns of the table decisions need: what it costs to shuffle one, on held-out rows.

A column is shuffled before anything else looks at the table, so that what encoders make of it is
shuffled as a whole. Columns that say nearly the same are shuffled together: alone, each would look
dispensable beside the other.

References
----------
L. Breiman, "Random forests", Machine Learning, 2001.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from grayzone.decision.limits import Target, cut_at
from grayzone.numerics.pace import Deadline
from grayzone.reporting.parts import Importance
from grayzone.training.account import mean_and_error
from grayzone.training.asking import Mixture, class_scores, probabilities
from grayzone.training.samples import some_columns, some_rows
from grayzone.training.stakes import Stakes

Array = Any
Table = Any  # a pandas DataFrame

REPEATS = 5
WORK = 200_000  # rows that a model is asked of, in all
JUDGED_BY = 0.85  # share of the time of the day by which columns are judged
LEAST_ROWS = 300  # that a column is judged on, where there are as many
MOST_GROUPS = 40  # of columns that are judged; of more, those that move probabilities most
ALIKE = 0.98  # correlation of ranks, or share of rows, from which on two columns say the same
_ALIKE_ROWS = 2_000
_CATEGORIES = 50
_CELLS = 100_000  # columns of the table times those that are judged: a row takes time by its width


def importance_of(
    estimator: Any,
    table: Table,
    codes: Array,
    stakes: Stakes,
    *,
    cut: float | None = None,
    costs: Array | None = None,
    known: Array | None = None,
    seed: int = 0,
    work: int = WORK,
    deadline: Deadline | None = None,
) -> list[Importance]:
    """Return how much more decisions cost where each column of a table is shuffled.

    Under a limit, errors of the other kind count instead, at the threshold at which these rows just
    keep it: the share of positive rows that is missed or, under a limit on the recall, the share of
    negative ones that is not.

    Parameters
    ----------
    estimator : Pipeline
        A fitted pipeline from a table to decisions; it is the one that is explained. Of a model
        that has seen all rows, :func:`~grayzone.training.held_out.held_out_copy` makes one that
        has not.
    table : DataFrame
        Rows that it has not seen, in the columns of its schema.
    codes : ndarray of shape (n,)
        Their classes, as places in `stakes.classes`.
    stakes : Stakes
        What decisions cost.
    cut : float, optional
        Probability of the positive class from which on to decide for it, where it is not costs
        that decide.
    costs : ndarray of shape (n, K, K), optional
        Costs of each row, which its decision is judged by; they are not shuffled.
    known : ndarray of shape (n, K, K), optional
        The same as far as they are known when it is made.
    seed : int
        Draws rows and shuffles them.
    work : int
        Rows to ask the model of, in all. Of many rows and columns, some rows of each class are
        drawn (all of rare ones, weighted back); of more than 40 columns, those are judged that move
        probabilities most, and of more than 300 only those that differ most between classes.
    deadline : Deadline, optional
        After most of its time (`JUDGED_BY`) no further column is judged.

    Returns
    -------
    importance : list of Importance
        The largest first. The standard error is that of the mean over rows, and repeats.
    """
    rng = np.random.default_rng(seed)
    places = some_columns(table, codes, max(_CELLS // table.shape[1], MOST_GROUPS))
    groups = [places[group].tolist() for group in _alike(table.iloc[:, places])]
    if len(groups) > MOST_GROUPS:
        groups = _that_matter(estimator, table, groups, rng, work // 4)
    most = max(work // (len(groups) * REPEATS), LEAST_ROWS)
    rows, weight = some_rows(codes, most, seed)
    judged = _Judged(
        estimator,
        stakes,
        cut,
        codes[rows],
        weight,
        None if costs is None else costs[rows],
        None if known is None else known[rows],
    )
    mixture = Mixture(table.iloc[rows])
    as_it_is = judged.losses(mixture.rows(_places(mixture, 1)), 1)[0]
    found: list[Importance] = []
    for group in groups:
        if found and deadline is not None and deadline.over(JUDGED_BY):
            break
        places = _places(mixture, REPEATS)
        places[:, group] = _donors(weight, REPEATS, rng)[:, None]
        lost = (judged.losses(mixture.rows(places), REPEATS) - as_it_is).mean(axis=0)
        mean, error = judged.mean(lost)
        first, *others = (str(table.columns[j]) for j in group)
        found.append(Importance(first, mean, error, tuple(others)))
    return sorted(found, key=lambda one: -one.cost)


class _Judged:
    """Decisions of a model about rows, and what each of them costs."""

    def __init__(
        self,
        estimator: Any,
        stakes: Stakes,
        cut: float | None,
        codes: Array,
        weight: Array,
        costs: Array | None,
        known: Array | None,
    ) -> None:
        self.estimator, self.stakes, self.cut = estimator, stakes, cut
        self.codes, self.weight, self.costs, self.known = codes, weight, costs, known

    def losses(self, table: Table, repeats: int) -> Array:
        """Return the cost of each row, or what is wrong at a limit, for each repetition."""
        said = probabilities(self.estimator, table)
        if self.stakes.limit is not None:
            return np.stack([self._wrong(p[:, 1]) for p in np.split(said, repeats)])
        costs, known = (
            None if some is None else np.tile(some, (repeats, 1, 1))
            for some in (self.costs, self.known)
        )
        decided = self.stakes.decide(said, known, self.cut)
        lost = self.stakes.paid(np.tile(self.codes, repeats), decided, costs)
        return lost.reshape(repeats, -1)

    def _wrong(self, scores: Array) -> Array:
        """Which rows are decided wrongly, of the class that the limit does not protect."""
        limit, positive = self.stakes.limit, self.codes == 1
        assert limit is not None
        on_average = Target(limit.name, limit.value)
        cut = cut_at(on_average, scores, positive, self.weight, fresh=False)
        wrong = scores >= cut if limit.name == "min_recall" else scores < cut
        return wrong[self._concerned].astype(np.float64)

    @property
    def _concerned(self) -> Array:
        limit = self.stakes.limit
        if limit is None:
            return np.ones(len(self.codes), dtype=bool)
        return self.codes == (0 if limit.name == "min_recall" else 1)

    def mean(self, losses: Array) -> tuple[float, float]:
        """Return the mean of losses in all rows that these stand for, and its standard error."""
        return mean_and_error(losses, self.weight[self._concerned])


def _places(mixture: Mixture, repeats: int) -> Array:
    """Every row as it is, several times."""
    each = np.tile(np.arange(mixture.n_rows), repeats)
    return np.repeat(each[:, None], len(mixture.names), axis=1)


def _donors(weight: Array, repeats: int, rng: np.random.Generator) -> Array:
    """Rows that give their values to others: each once or, where rows weigh more, as often."""
    n_rows = len(weight)
    if np.all(weight == weight[0]):
        return np.concatenate([rng.permutation(n_rows) for _ in range(repeats)])
    return rng.choice(n_rows, repeats * n_rows, p=weight / weight.sum())


def _that_matter(
    estimator: Any, table: Table, groups: list[list[int]], rng: np.random.Generator, work: int
) -> list[list[int]]:
    """Return the groups of columns that move log-odds most when they are shuffled."""
    n_rows = min(len(table), max(work // len(groups), 50))
    mixture = Mixture(table.iloc[rng.choice(len(table), n_rows, replace=False)])
    as_they_are = class_scores(probabilities(estimator, mixture.rows(_places(mixture, 1))))
    moved = []
    for group in groups:
        places = _places(mixture, 1)
        places[:, group] = rng.permutation(n_rows)[:, None]
        scores = class_scores(probabilities(estimator, mixture.rows(places)))
        moved.append(np.abs(scores - as_they_are).mean())
    order = np.argsort(-np.asarray(moved), kind="stable")[:MOST_GROUPS]
    return [groups[k] for k in sorted(order)]


def _alike(table: Table) -> list[list[int]]:
    """Put columns that say nearly the same into groups, in the order of the table.

    Numbers and dates whose ranks go together, either way; categories that stand for each other in
    nearly all rows, whatever they are called.
    """
    some = table.iloc[:: max(1, -(-len(table) // _ALIKE_ROWS))]
    coded = [pd.factorize(some[name], use_na_sentinel=False)[0] for name in some.columns]
    sizes = [int(codes.max()) + 1 for codes in coded]
    same = _same_ranks(some)
    few = [j for j, size in enumerate(sizes) if 1 < size <= _CATEGORIES]
    shares = [np.bincount(codes).max() / len(some) for codes in coded]
    for a, j in enumerate(few):
        for k in few[a + 1 :]:
            # what the most frequent values differ by is known of none of the two by the other
            if abs(shares[j] - shares[k]) >= _unknown(max(shares[j], shares[k])):
                continue
            pairs = np.bincount(coded[j] * sizes[k] + coded[k], minlength=sizes[j] * sizes[k])
            counts = pairs.reshape(sizes[j], sizes[k])
            known = min(counts.max(axis=1).sum(), counts.max(axis=0).sum()) / len(some)
            same[j, k] = same[k, j] = 1.0 - known < _unknown(max(shares[j], shares[k]))
    return _components(same)


def _unknown(usual: float) -> float:
    """Share of rows in which two columns that say the same may differ.

    A value that nearly all rows have says little of any other column.
    """
    return (1.0 - ALIKE) * (1.0 - usual) * 2.0


def _same_ranks(table: Table) -> Array:
    ordered = [
        not (pd.api.types.is_object_dtype(dtype) or pd.api.types.is_string_dtype(dtype))
        for dtype in table.dtypes
    ]
    ranks = np.zeros(table.shape)
    for j in np.flatnonzero(ordered):
        column = table.iloc[:, j].rank().to_numpy()
        ranks[:, j] = np.where(np.isnan(column), -1.0, column)
    ranks -= ranks.mean(axis=0)
    norms = np.linalg.norm(ranks, axis=0)
    ranks /= np.where(norms > 0.0, norms, 1.0)
    return np.abs(ranks.T @ ranks) > ALIKE


def _components(same: Array) -> list[list[int]]:
    from scipy.sparse.csgraph import connected_components

    labels = connected_components(same, directed=False)[1]
    groups: dict[int, list[int]] = {}
    for j, label in enumerate(labels):
        groups.setdefault(int(label), []).append(j)
    return list(groups.values())
