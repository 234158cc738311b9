r"""The sparse machine on rows that are reached by sums.

What a basis comes to is told by the means and covariances of two functions, the model so far and
the basis, in both classes: sums over the rows. So candidates are drawn from, and improved on, a
sample of the rows that is held; then one reading of all rows gives the moments of all candidates,
of all machines that grow at a time: those of several classes, and those of all folds. The best one
is chosen, its coefficients, the threshold and the bound are computed, by these alone.

Sums of squares are taken about means of the sample, so that next to nothing of them cancels:

.. math:: \sum_i p_i (u_i - \bar u)(v_i - \bar v)
          = \sum_i p_i (u_i - u_0)(v_i - v_0) - (\bar u - u_0)(\bar v - v_0).

Folds are dealt out by the values of rows: copies of a row share one, in whatever block they come.
Scores of the rows that a machine has not seen are summed in the reading that its next candidates
are judged by.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from grayzone.numerics.backend import moved
from grayzone.numerics.checks import as_numpy
from grayzone.numerics.moments import ROUNDING
from grayzone.numerics.namespace import array_namespace, is_numpy_array
from grayzone.solvers.minimax.basis import Family, row_of
from grayzone.solvers.minimax.direction import bound_of
from grayzone.solvers.minimax.greedy import (
    LARGEST_VALUE,
    Candidate,
    Greedy,
    Pair,
    Proposed,
    Sides,
    Whole,
    by_turns,
    in_double,
    rows_at,
    too_large,
)
from grayzone.sources.distinct import Distinct, dealt_by_value, distinct_rows
from grayzone.sources.gather import draw_sample
from grayzone.sources.labelled import Labelled, Rows
from grayzone.sources.source import Sums, added

Array = Any

# Entries of the sample, 8 MB of double precision, and rows of each class that it has at least.
SAMPLE, _LEAST_ROWS = 2**20, 64
# Values of bases that are computed at a time, in this memory and on a device.
_AT_A_TIME, _AT_A_TIME_THERE = 2**20, 2**25


class Part(NamedTuple):
    """What a machine is fitted to."""

    fold: int | None = None  # whose rows it does not see
    code: int | None = None  # class that is told from all others; None where there are two

    def sides(self, rows: Rows) -> tuple[Array, Array]:
        """Whether rows are of class x, and whether they are of class y."""
        x = rows.codes == (1 if self.code is None else self.code)
        return x, ~x

    def sees(self, folds: Array) -> Array:
        """Whether the machine is fitted to rows of these folds."""
        return folds != (-1 if self.fold is None else self.fold)


class Readings:
    """All rows by sums, and a sample of them by itself.

    Parameters
    ----------
    labelled : Labelled
        The rows.
    n_folds : int
        Folds that rows are dealt out to; 0 for none.
    seed : int
        Deals them out.

    Attributes
    ----------
    n_folds : int
        The folds; 0 where one of them would leave less than two rows of a class.
    """

    def __init__(self, labelled: Labelled, n_folds: int, seed: int) -> None:
        self.labelled = labelled
        n_classes, self._sample = len(labelled.classes), _sample(labelled)
        self._deal = _Deal(n_folds, seed)
        self._sample_folds = self._deal(self._sample)
        about = as_numpy(array_namespace(self._sample.X).mean(self._sample.X, axis=0))
        task = _Census(self._deal, n_classes, tuple(about.tolist()))
        self._census = {name: as_numpy(a) for name, a in labelled.reduce(task).items()}
        self._about = about
        self.n_folds = n_folds if n_folds and self._all_have_rows() else 0

    def _all_have_rows(self) -> bool:
        """Whether all folds leave two rows of each class, and two of the sample."""
        n_folds, n_classes = self._census["counts"].shape
        sampled = np.zeros((n_folds, n_classes), dtype=np.int64)
        np.add.at(sampled, (self._sample_folds, as_numpy(self._sample.codes)), 1)
        left = [counts.sum(axis=0) - counts for counts in (self._census["counts"], sampled)]
        return all(int(counts.min()) >= 2 for counts in left)

    # ------------------------------------------------------------------------------------------
    # Machines
    # ------------------------------------------------------------------------------------------

    def machine(self, part: Part, make: Callable[[Distinct, Whole], Greedy]) -> Greedy:
        """Make a machine of the rows of a sample, and of what is known of all."""
        rows = self._sample
        seen = np.flatnonzero(part.sees(self._sample_folds))
        x = array_namespace(rows.codes).astype(part.sides(rows)[0], rows.codes.dtype)
        own = (rows_at(values, seen) for values in (in_double(rows.X), x, rows.weight))
        return make(distinct_rows(*own), self._whole(part))

    def _whole(self, part: Part) -> Whole:
        """Variances of the features and shares of the classes, of the rows of a part."""
        seen = part.sees(np.arange(len(self._census["mass"])))
        mass, first, second = (
            self._census[name][seen].sum(axis=0) for name in ("mass", "first", "second")
        )
        total = float(mass.sum())
        off = first / total
        variances = np.maximum(second / total - off**2, 0.0)
        # what rounding makes of a constant column is no variance
        variances[variances <= (ROUNDING * (self._about + off)) ** 2] = 0.0
        share_x = float(mass[1 if part.code is None else part.code]) / total
        return Whole(variances, (1.0 - share_x, share_x))

    def grow(
        self, parts: Sequence[Part], machines: Sequence[Greedy], sizes: Sequence[int]
    ) -> Iterator[dict[int, Pair]]:
        """Add bases by turns, as :func:`by_turns` does; one reading of all rows each turn."""

        def judged(proposed: Proposed) -> Proposed:
            return self._judged(parts, machines, proposed)[0]

        return by_turns(machines, sizes, judged)

    def held_out(
        self, parts: Sequence[Part], machines: Sequence[Greedy], n_bases: int
    ) -> list[list[Pair]]:
        """Bounds of both classes by rows that machines have not seen, after each basis.

        Machines of the same class are taken together, in the order of the classes. Reads all rows
        once for each basis, and once more.
        """
        codes = list(dict.fromkeys(part.code for part in parts))
        spreads: dict[int, list[Array]] = {k: [] for k in range(len(machines))}

        def judged(proposed: Proposed) -> Proposed:
            found, unseen = self._judged(parts, machines, proposed)
            for k, spread in unseen.items():
                spreads[k].append(spread)
            return found

        for _ in by_turns(machines, [n_bases] * len(machines), judged):
            pass
        last = self._judged(parts, machines, {k: [] for k in range(len(machines))})[1]
        for k, known in spreads.items():
            # the first is that of no basis; where it ends early the last stays
            known.append(last[k])
            known[:] = (known[1:] + [last[k]] * n_bases)[:n_bases]
        return [
            [
                _pooled([spreads[k][step] for k, part in enumerate(parts) if part.code == code])
                for step in range(n_bases)
            ]
            for code in codes
        ]

    def _judged(
        self, parts: Sequence[Part], machines: Sequence[Greedy], proposed: Proposed
    ) -> tuple[Proposed, dict[int, Array]]:
        """Candidates with moments of all rows, and spreads of the scores of unseen rows."""
        family = machines[0].family
        views = {k: _view(parts[k], machines[k], own) for k, own in proposed.items()}
        # rows are not told apart where all of them are seen
        deal = self._deal if any(view.part.fold is not None for view in views.values()) else _ALIKE
        sums = self.labelled.reduce(_Moments(family, deal, tuple(views.items())))
        if sums["too large"] > 0:
            raise too_large(family)
        found: Proposed = {}
        for k, own in proposed.items():
            sides = _all_sides(sums[f"seen {k}"], views[k].about)
            found[k] = [machines[k].judged(c, s) for c, s in zip(own, sides, strict=True)]
        return found, {k: _spread(sums[f"unseen {k}"], views[k].about) for k in proposed}


def _sample(labelled: Labelled) -> Rows:
    """Draw rows that candidates are looked for among: all of them where they are few."""
    n_classes = len(labelled.classes)
    n_rows = max(SAMPLE // max(1, labelled.n_features), _LEAST_ROWS * n_classes)
    while n_rows < labelled.n_rows:
        rows = draw_sample(labelled, n_rows).rows
        if np.bincount(as_numpy(rows.codes), minlength=n_classes).min() >= 2:
            return rows
        n_rows *= 2  # numbers of the rows of a class may be such that none of them is drawn
    return draw_sample(labelled, labelled.n_rows * n_classes).rows


# ----------------------------------------------------------------------------------------------
# Tasks
# ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Deal:
    """Folds of rows, by their values."""

    n_folds: int
    seed: int

    def __call__(self, rows: Rows) -> Array:
        if not self.n_folds:
            return np.zeros(rows.n_rows, dtype=np.int64)
        return dealt_by_value(rows.X, rows.codes, self.n_folds, self.seed)


_ALIKE = _Deal(n_folds=0, seed=0)


@dataclass(frozen=True)
class _Census:
    """Numbers and weights of rows by fold and class; sums and squares of the features by fold."""

    deal: _Deal
    n_classes: int
    about: tuple[float, ...]

    def __call__(self, rows: Rows) -> Sums:
        folds, codes = self.deal(rows), as_numpy(rows.codes)
        weight, n_folds = as_numpy(rows.weight), max(1, self.deal.n_folds)
        counts = np.zeros((n_folds, self.n_classes), dtype=np.int64)
        mass = np.zeros((n_folds, self.n_classes))
        np.add.at(counts, (folds, codes), weight > 0)
        np.add.at(mass, (folds, codes), weight)
        shares = np.where(folds == np.arange(n_folds)[:, None], weight, 0.0)
        first, second = self._features(rows, shares)
        return {"counts": counts, "mass": mass, "first": first, "second": second}

    def _features(self, rows: Rows, shares: Array) -> tuple[Array, Array]:
        """Sums (n_folds, d) of the features and of their squares, about some values."""
        X, about = in_double(rows.X), np.array(self.about)
        if not sp.issparse(X):
            X = X - moved(about, X)
            shares = moved(shares, X)
            return as_numpy(shares @ X), as_numpy(shares @ X**2)
        return _sparse_sums(X, about, shares)


def _sparse_sums(X: Array, about: Array, shares: Array) -> tuple[Array, Array]:
    """Do the same for sparse rows: zeros that are not stored are as far off as the value itself."""
    X = X.tocsr(copy=True)
    X.sum_duplicates()
    stored, apart = X.copy(), X
    stored.data[:] = 1.0
    apart.data -= about[X.indices]
    absent = np.sum(shares, axis=1)[:, None] - (stored.T @ shares.T).T
    # rounding is no zero
    some = np.bincount(X.indices, minlength=X.shape[1]) < X.shape[0]
    absent = np.where(some, np.maximum(absent, 0.0), 0.0)
    first, second = ((part.T @ shares.T).T for part in (apart, apart.multiply(apart).tocsr()))
    return first - absent * about, second + absent * about**2


class _View(NamedTuple):
    """A machine as a reading sees it: its model, its candidates, and what sums are taken about."""

    part: Part
    centres: Array  # of the model and the candidates (k + c, d)
    gammas: Array
    coefs: Array  # of the model (k,)
    intercept: float
    about: Array  # means of the model and of the candidates, of x and y (2, 1 + c)


def _view(part: Part, machine: Greedy, candidates: list[Candidate]) -> _View:
    reach, d = machine.spread()[0], machine.variances.size
    # the means of scores differ by 1, that of class x being so far from the threshold
    means = [(reach, reach - 1.0) if machine.centres else (0.0, 0.0)]
    means += [(c.sides.means[0][1], c.sides.means[1][1]) for c in candidates]
    centres = [*machine.centres, *(row_of(machine.rows.X, c.row) for c in candidates)]
    gammas = [*machine.gammas, *(c.gamma for c in candidates)]
    return _View(
        part,
        np.array(centres).reshape(-1, d),
        np.array(gammas).reshape(-1, d),
        np.array(machine.coefs),
        machine.intercept,
        np.array(means).T,
    )


@dataclass(frozen=True)
class _Moments:
    """Sums for each machine: of scores and candidates over rows it has seen, of scores over others.

    Those are named by the place of the machine.
    """

    family: Family
    deal: _Deal
    views: tuple[tuple[int, _View], ...]

    def __call__(self, rows: Rows) -> Sums:
        rows = _heavy(rows)
        most = max(len(view.centres) for _, view in self.views)
        at_a_time = _AT_A_TIME if is_numpy_array(rows.weight) else _AT_A_TIME_THERE
        step = max(1, at_a_time // max(1, most))
        return added(
            self._of(_sliced(rows, start, min(start + step, rows.n_rows)))
            for start in range(0, rows.n_rows, step)
        )

    @np.errstate(over="ignore", invalid="ignore")
    def _of(self, rows: Rows) -> Sums:
        X, folds = in_double(rows.X), self.deal(rows)
        sums: Sums = {"too large": 0}
        for k, view in self.views:
            values = self.family.matrix(X, view.centres, view.gammas)
            xp, size = array_namespace(values), len(view.coefs)
            sums["too large"] += int(xp.count_nonzero(~(xp.abs(values) < LARGEST_VALUE)))
            scores = values[:, :size] @ moved(view.coefs, values) + view.intercept
            both = xp.concat([scores[:, None], values[:, size:]], axis=1)
            seen = moved(view.part.sees(folds), rows.codes)
            of_seen, of_unseen = [], []
            for own, about in zip(view.part.sides(rows), view.about, strict=True):
                apart = both - moved(about, both)
                of_seen.append(_sums(xp.where(own & seen, rows.weight, 0.0), apart, both))
                unseen = xp.where(own & ~seen, rows.weight, 0.0)
                of_unseen.append(_sums(unseen, apart[:, :1], both[:, :1]))
            sums[f"seen {k}"], sums[f"unseen {k}"] = np.array(of_seen), np.array(of_unseen)
        return sums


def _heavy(rows: Rows) -> Rows:
    """Rows that have a weight; one of the others where there are none, as a task sees some row."""
    xp = array_namespace(rows.weight)
    heavy = rows.weight > 0.0
    if bool(xp.all(heavy)):
        return rows
    places = xp.nonzero(heavy)[0]
    return rows.take(places if places.shape[0] else xp.nonzero(~heavy)[0][:1])


def _sliced(rows: Rows, start: int, stop: int) -> Rows:
    here = slice(start, stop)
    return Rows(rows.X[here, :], rows.codes[here], rows.weight[here])


def _sums(weight: Array, apart: Array, values: Array) -> Array:
    """Sums (5, m) of m functions: weights, values, products with the first, squares; both kinds."""
    xp = array_namespace(values)
    sums = (
        xp.sum(weight) + 0.0 * apart[0, :],
        weight @ apart,
        (weight * apart[:, 0]) @ apart,
        weight @ apart**2,
        weight @ values**2,
    )
    return as_numpy(xp.stack(sums))


def _all_sides(sums: Array, about: Array) -> list[Sides]:
    """Moments of the model and each candidate, from sums (2, 5, 1 + c) about some values."""
    mass = sums[:, 0, :1]
    off, mixed, squares = (sums[:, k, :] / mass for k in (1, 2, 3))
    means, mixed = about + off, mixed - off[:, :1] * off
    variances = np.maximum(squares - off**2, 0.0)
    square = np.sum(sums[:, 4, :], axis=0) / np.sum(mass)
    return [
        Sides(
            _pair((float(m[0]), float(m[j])) for m in means),
            _pair(
                (float(v[0]), float(c[j]), float(v[j]))
                for v, c in zip(variances, mixed, strict=True)
            ),
            float(square[j]),
        )
        for j in range(1, about.shape[1])
    ]


def _pair(two: Iterable[Any]) -> tuple[Any, Any]:
    one, other = two
    return one, other


def _spread(sums: Array, about: Array) -> Array:
    """Weights, means and squares about these (2, 3) of the scores of classes x and y."""
    mass, first, _, second, _ = sums[:, :, 0].T
    off = first / np.maximum(mass, 1e-300)
    return np.stack([mass, about[:, 0] + off, np.maximum(second - first * off, 0.0)], axis=1)


def _pooled(spreads: list[Array]) -> Pair:
    """Bounds of the classes y and x by the scores of all folds."""
    bounds = []
    for side, sign in ((1, -1.0), (0, 1.0)):
        mass, means, squares = np.array([spread[side] for spread in spreads]).T
        total = max(float(np.sum(mass)), 1e-300)
        mean = float(mass @ means) / total
        variance = float(np.sum(squares) + mass @ (means - mean) ** 2) / total
        bounds.append(bound_of(sign * mean / max(sqrt(variance), 1e-300)))
    return bounds[0], bounds[1]
