"""Which rows a model is fitted to and which it decides on: the folds that all models share."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold

from grayzone.tables.errors import UserError, option, shortened

Array = Any
Fold = tuple[Array, Array]

LEAST_FITTED = 2  # rows of each class that a model is fitted to
FIRST_PART = 0.5  # share of the rows, the earliest, that are never decided on out of time
_TRIES = 20  # ways to share groups out


def folds_of(
    codes: Array,
    n_folds: int,
    seed: int,
    groups: Array | None = None,
    time: Array | None = None,
    classes: Sequence[str] | None = None,
) -> list[Fold]:
    """Share rows out into folds: stratified, no group on both sides, later rows after earlier ones.

    Without ``time`` every row is decided on once. With it, rows are put in order; the later half is
    cut into blocks, and each block is decided on by a model of all rows before it. Rows of one
    moment are never parted. With groups as well, a model is not fitted to earlier rows of a group
    that it decides on.

    Parameters
    ----------
    codes : array of int, shape (n,)
        Places of the rows' classes.
    n_folds : int
        How many folds are wanted; there are fewer where groups or moments are fewer.
    seed : int
        Of everything random.
    groups : array of shape (n,), optional
        Rows with the same value stay together.
    time : array of shape (n,), optional
        Numbers or dates to put rows in order by.
    classes : sequence of str, optional
        What the classes are called in messages.

    Returns
    -------
    folds : list of (array, array)
        Places of the rows to fit to, and of those to decide on, in order.

    Raises
    ------
    UserError
        If that cannot be: too few groups or moments, or a class that some model would not see.

    Examples
    --------
    >>> import numpy as np
    >>> from grayzone.training.folds import folds_of
    >>> codes = np.array([0, 1] * 4)
    >>> [test.tolist() for _, test in folds_of(codes, 2, 0, time=np.arange(8))]
    [[4, 5], [6, 7]]
    """
    codes = np.asarray(codes)
    names = classes or [f"number {k}" for k in range(int(codes.max()) + 1)]
    if time is not None:
        return _out_of_time(codes, n_folds, np.asarray(time), groups, names)
    if groups is not None:
        return _by_group(codes, n_folds, seed, np.asarray(groups), names)
    splitter = StratifiedKFold(n_folds, shuffle=True, random_state=seed)
    return list(splitter.split(np.zeros(len(codes)), codes))


def _by_group(
    codes: Array, n_folds: int, seed: int, groups: Array, names: Sequence[str]
) -> list[Fold]:
    n_groups = len(np.unique(groups))
    if n_groups < 2:
        raise UserError(f"{option('group')}: all rows are of one group; at least two are needed.")
    n_folds = min(n_folds, n_groups)
    tried: list[str] = []
    for shares in _shares(codes, n_folds, seed, groups):
        folds = [(np.flatnonzero(shares != k), np.flatnonzero(shares == k)) for k in range(n_folds)]
        wrong = next(
            (text for text in (_lacking(codes, fold, names) for fold in folds) if text), ""
        )
        if not wrong and all(len(test) for _, test in folds):
            return folds
        tried.append(wrong or "some folds would be empty")
    raise UserError(
        f"{option('group')}: the {n_groups:,} groups cannot be shared out into {n_folds} folds: "
        f"{tried[0]}."
    )


def _shares(codes: Array, n_folds: int, seed: int, groups: Array) -> Iterator[Array]:
    """Yield fold numbers of rows, with whole groups in each, as like in classes as can be."""
    for shift in range(_TRIES):
        splitter = StratifiedGroupKFold(n_folds, shuffle=True, random_state=(seed + shift) % 2**32)
        shares = np.empty(len(codes), dtype=np.intp)
        with warnings.catch_warnings():
            # of classes that are rarer than folds, which is looked at afterwards
            warnings.simplefilter("ignore", UserWarning)
            for k, (_, test) in enumerate(splitter.split(np.zeros(len(codes)), codes, groups)):
                shares[test] = k
        yield shares


def _out_of_time(
    codes: Array, n_folds: int, time: Array, groups: Array | None, names: Sequence[str]
) -> list[Fold]:
    moments, ranks = np.unique(time, return_inverse=True)
    if len(moments) < 2:
        raise UserError(f"{option('time')}: all rows are of one moment; at least two are needed.")
    # how many rows there are up to the end of each moment
    ends = np.cumsum(np.bincount(ranks))
    wanted = len(codes) * np.linspace(FIRST_PART, 1.0, n_folds + 1)
    cuts = np.unique(np.searchsorted(ends, wanted - 0.5))
    cuts = np.unique(np.minimum(cuts, len(moments) - 1))
    if len(cuts) < 2:  # the last moment has half of the rows
        cuts = np.array([len(moments) - 2, len(moments) - 1])
    folds = []
    for first, last in pairwise(cuts):
        test = np.flatnonzero((ranks > first) & (ranks <= last))
        past = ranks <= first
        if groups is not None:
            past &= ~np.isin(groups, np.asarray(groups)[test])
        fold = np.flatnonzero(past), test
        wrong = _lacking(codes, fold, names)
        if wrong:
            within = " (rows of groups that are decided on are left out)" * (groups is not None)
            since = str(moments[first + 1]).removesuffix("T00:00:00.000000000")
            raise UserError(f"{option('time')}: among the rows before {since}{within} {wrong}.")
        folds.append(fold)
    return folds


def _lacking(codes: Array, fold: Fold, names: Sequence[str]) -> str:
    """Return which class a model would not see enough of; "" if none."""
    there = np.bincount(codes[fold[0]], minlength=int(codes.max()) + 1)
    for code in np.unique(codes):
        if there[code] < LEAST_FITTED:
            return (
                f"class {shortened([names[code]])} has {there[code]} rows; a model needs "
                f"{LEAST_FITTED} of each class to learn from"
            )
    return ""
