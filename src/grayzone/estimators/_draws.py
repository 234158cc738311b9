"""Which rows are fitted to, scored and held out: folds, samples that keep what is rare."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sklearn.model_selection import check_cv
from sklearn.utils import check_random_state

from grayzone.decision.confidence import TooFewRowsError, check_precision, fewest_rows
from grayzone.decision.limits import Target
from grayzone.estimators._limits import targets_of
from grayzone.numerics.checks import Floats
from grayzone.numerics.pitfalls import Pitfall

Array = Any
Fold = tuple[Array, Array]


def random_state_of(given: Any) -> np.random.RandomState:
    """Return the generator of a fit's draws; None is the same seed in every fit."""
    return check_random_state(0 if given is None else given)


def stratified_folds(codes: Array, most: int, seed: int) -> list[Fold]:
    """Deal the rows of each class out to folds: fewer than asked for where a class has fewer.

    A class of one row is in one fold alone, and not known to models of the others.
    """
    rng = np.random.default_rng(seed)
    counts = np.bincount(codes)
    n_folds = min(most, max(2, int(counts.min())))
    dealt = np.concatenate(
        [rng.permutation(np.flatnonzero(codes == k)) for k in range(len(counts))]
    )
    fold = np.empty(len(codes), dtype=np.intp)
    fold[dealt] = np.arange(len(codes)) % n_folds
    return _of_numbers(fold, n_folds)


def group_folds(codes: Array, groups: Array, most: int, seed: int) -> list[Fold]:
    """Deal whole groups out to folds, the largest first, each to where its classes lack most."""
    names, members = np.unique(groups, return_inverse=True)
    if len(names) < 2:
        raise ValueError("groups must be at least two: no group is on both sides of a fold.")
    n_folds, K = min(most, len(names)), int(codes.max()) + 1
    counts = np.zeros((len(names), K))
    np.add.at(counts, (members, codes), 1.0)
    shares = counts / counts.sum(axis=0)
    order = np.random.default_rng(seed).permutation(len(names))
    order = order[np.argsort(-shares[order].max(axis=1), kind="stable")]
    held, place = np.zeros((n_folds, K)), np.empty(len(names), dtype=np.intp)
    for group in order:
        # least sum of squares: what a fold has of these classes already
        place[group] = int(np.argmin((2.0 * held + shares[group]) @ shares[group]))
        held[place[group]] += shares[group]
    folds = _of_numbers(place[members], n_folds)
    check_folds(folds, codes)
    return folds


def _of_numbers(fold: Array, n_folds: int) -> list[Fold]:
    return [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(n_folds)]


def check_folds(folds: Sequence[Fold], codes: Array) -> None:
    """Check that a model of each fold has what it takes: two classes, and both of two."""
    K = len(np.unique(codes))
    for k, (train, test) in enumerate(folds):
        there = len(np.unique(codes[train]))
        if there < 2 or (K == 2 and there < K) or not len(test):
            raise ValueError(
                f"Fold {k} has rows of {there} of {K} classes to learn from and {len(test)} to "
                "decide on; each takes at least two classes, and one row."
            )


def split_folds(cv: Any, codes: Array, groups: Array | None) -> list[Fold]:
    """Return the folds of a splitter, or those given: no row is decided on twice, or seen before.

    Rows may be decided on by none, as the first ones of folds in time are.
    """
    every, times = np.arange(len(codes)), np.zeros(len(codes), dtype=np.intp)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that groups, or few rows, are ignored
        parts = check_cv(cv, codes, classifier=True).split(every, codes, groups)
        folds = [(every[train], every[test]) for train, test in parts]
    for train, test in folds:
        times[test] += 1
        both = np.intersect1d(train, test)
        if groups is not None:
            both = np.intersect1d(groups[train], groups[test])
        if len(both):
            what = "rows" if groups is None else "groups"
            raise ValueError(f"cv has {what} on both sides of a fold, such as {both[0]!r}.")
    if len(folds) < 2 or times.max(initial=0) > 1:
        raise ValueError(
            "cv must have at least two folds, and every row in one test fold or none; got "
            f"{len(folds)} folds, and a row in {times.max(initial=0)}."
        )
    return folds


def within(folds: Sequence[Fold], rows: Array, n_rows: int) -> list[Fold]:
    """Return folds as places among some of the rows, in ascending order."""
    place = np.full(n_rows, -1)
    place[rows] = np.arange(len(rows))
    parts = [(place[train], place[test]) for train, test in folds]
    return [(train[train >= 0], test[test >= 0]) for train, test in parts]


def drawn(codes: Array, most: int, seed: int) -> tuple[Array, Floats]:
    """Draw at most so many rows, all of rare classes; return them and how many each stands for.

    Classes that have more than their equal part share what the others leave.
    """
    counts = np.bincount(codes)
    if len(codes) <= most:
        return np.arange(len(codes)), np.ones(len(codes))
    quota, left, n_left = np.zeros(len(counts), dtype=np.intp), most, int(np.sum(counts > 0))
    for k in np.argsort(counts, kind="stable"):
        if counts[k]:
            # of each class some: a model has to know it
            quota[k] = min(counts[k], max(left // n_left, min(2, counts[k])))
            left, n_left = left - quota[k], n_left - 1
    rng = np.random.default_rng(seed)
    kept = [rng.permutation(np.flatnonzero(codes == k))[:n] for k, n in enumerate(quota)]
    rows = np.sort(np.concatenate(kept))
    return rows, (counts / np.maximum(quota, 1))[codes[rows]]


_HELD_OUT = 0.3  # share of the rows that a limit is about


@dataclass(frozen=True)
class Given:
    """All rows of a fit: which are used, which are held out, what they weigh.

    Attributes
    ----------
    codes, weight : ndarray of shape (n,)
        Places of the labels, and weights.
    used : ndarray of ints
        Rows that weigh something.
    groups : ndarray of shape (n,) or None
        Groups of the rows.
    n_classes : int
        How many classes there are.
    held_out : ndarray of ints
        Rows that no model learns from.
    """

    codes: Array
    weight: Floats
    used: Array
    groups: Array | None
    n_classes: int
    held_out: Array = field(default_factory=lambda: np.empty(0, dtype=np.intp))

    def for_limits(self, limits: dict[str, float], error: float, seed: int, most: int) -> Given:
        """Hold out the rows that limits take: of the class that they are about, or of all.

        At most half of them, and no more than `most` unless they are needed.
        """
        if not limits:
            return self
        targets = targets_of(limits, error)
        for target in targets:
            target.check_classes(np.arange(self.n_classes))
        rng = np.random.default_rng(seed)
        if self.groups is not None:
            out = self._groups_out(targets, most, rng)
        elif "min_precision" in limits:
            out = self._out_of(self.used, "rows", targets, most, rng)
        else:
            labels = {"max_fpr": (0, "negative rows"), "min_recall": (1, "positive rows")}
            out = np.concatenate(
                [
                    self._out_of(self.used[self.codes[self.used] == k], of, [target], most, rng)
                    for target in targets
                    for k, of in (labels[target.name],)
                ]
            )
        given = replace(self, held_out=np.sort(out))
        for target in targets:
            target.check_rows(*given.held_counts)
        return given

    def _out_of(
        self, rows: Array, of: str, targets: Sequence[Target], most: int, rng: Any
    ) -> Array:
        needed = max(rows_needed(target, self.codes[rows]) for target in targets)
        asked = ", ".join(f"{target.name}={target.value:g}" for target in targets)
        if needed > len(rows) // 2:
            raise TooFewRowsError(
                f"{asked} takes at least {2 * needed:,} {of}, half of which are held out of the "
                f"fit, to hold with the confidence that is asked for; there are {len(rows):,}. "
                f"{Pitfall.TOO_FEW_ROWS}"
            )
        return rng.permutation(rows)[: _number_out(needed, len(rows), most)]

    def _groups_out(self, targets: Sequence[Target], most: int, rng: Any) -> Array:
        """Whole groups, with as many rows of the class that each limit is about, or of all."""
        assert self.groups is not None
        names, members = np.unique(self.groups[self.used], return_inverse=True)
        order, out = rng.permutation(len(names)), np.zeros(len(names), dtype=np.bool_)
        codes = self.codes[self.used]
        classes = {"max_fpr": codes == 0, "min_recall": codes == 1}
        for target in targets:
            own = classes.get(target.name, np.ones(len(codes), dtype=np.bool_))
            held = np.bincount(members, own, minlength=len(names))
            number = _number_out(rows_needed(target, codes[own]), int(own.sum()), most)
            rest = order[(held[order] > 0) & ~out[order]]
            taken = np.cumsum(held[rest]) + held[out].sum()
            out[rest[taken - held[rest] < number]] = True
        return self.used[out[members]]

    @property
    def held_counts(self) -> list[int]:
        """How many rows of each class are held out."""
        return np.bincount(self.codes[self.held_out], minlength=self.n_classes).tolist()

    @property
    def fitted(self) -> Array:
        """Rows that models may learn from."""
        return np.setdiff1d(self.used, self.held_out)

    @property
    def fit_weight(self) -> Floats:
        """Weights for learning: classes weigh what they do with the rows that are held out."""
        whole = np.bincount(self.codes[self.used], self.weight[self.used])
        left = np.bincount(
            self.codes[self.fitted], self.weight[self.fitted], minlength=self.n_classes
        )
        if not np.all(left > 0.0):
            raise ValueError(
                "Beside the rows held out for limits, no row of a class is left to learn from."
            )
        return self.weight * (whole / left)[self.codes]

    def drawn(self, most: int, seed: int) -> tuple[Array, Floats]:
        """Rows that members learn from and are asked about, and how many each stands for."""
        rows = self.fitted
        some, stands_for = drawn(self.codes[rows], most, seed)
        return rows[some], stands_for

    def standing_for(self, asked: Array, known: Array) -> Floats:
        """Weights of rows whose answers are known, for all of their class that were to be asked."""
        weight = np.zeros(len(self.codes))
        for k in range(self.n_classes):
            mine = known[self.codes[known] == k]
            if len(mine):
                weight[mine] = self.weight[mine] * (np.sum(self.codes[asked] == k) / len(mine))
        return weight


def _number_out(needed: int, n_rows: int, most: int) -> int:
    """How many of so many rows are held out where a limit needs some."""
    return max(needed, min(round(_HELD_OUT * n_rows), most))


def rows_needed(target: Target, codes: Array) -> int:
    """Return how many held-out rows of these a limit takes, at least."""
    assert target.error is not None
    if target.name == "min_precision":
        return check_precision(len(codes), target.value, target.error) + 1
    share = target.value if target.name == "max_fpr" else 1.0 - target.value
    return fewest_rows(share, target.error)
