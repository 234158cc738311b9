"""A copy of a model that has not seen some rows, so that it can be explained on them."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import has_fit_parameter

from grayzone.sources.split import split_rows
from grayzone.training.samples import some_rows

Array = Any
Table = Any  # a pandas DataFrame

SHARE = 0.3  # of the rows, held out
MOST_ROWS = 5_000  # to fit a copy to
FOLDS = 2


class Copy(NamedTuple):
    """A fitted copy of a model, and the rows that it has not seen, in ascending order."""

    estimator: Any
    rows: Array


def held_out_copy(
    estimator: Any,
    table: Table,
    codes: Array,
    *,
    split: tuple[Array, Array] | None = None,
    groups: Array | None = None,
    seed: int = 0,
) -> Copy:
    """Fit a copy of a model to seven tenths of the rows.

    What is kept of a model in the end has seen all rows, and flatters each column that it has
    learnt by heart. The copy is made in the same way, searches and calibrations included, yet with
    two folds where it takes any, and from 5,000 rows at most (all of rare classes, weighted back):
    what is explained is a model of this kind, a little worse than the one that is kept.

    Parameters
    ----------
    estimator : Pipeline
        The fitted pipeline.
    table : DataFrame
        Rows that it was fitted to.
    codes : ndarray of shape (n,)
        Their classes, as places.
    split : pair of arrays of int, optional
        Rows to fit to, and rows to hold out, where groups or times say which; otherwise three
        tenths of each class are held out.
    groups : ndarray of shape (n,), optional
        Rows that stay together within its fit.
    seed : int
        Draws them.

    Returns
    -------
    copy : Copy
        The copy, and the rows held out.
    """
    if split is None:
        n_classes = int(codes.max()) + 1
        split = split_rows(codes, np.arange(n_classes), SHARE, np.random.RandomState(seed))
    inside, outside = split
    again = clone(estimator)
    name, last = again.steps[-1]
    if "cv" in last.get_params(deep=False):
        last.set_params(cv=FOLDS)
    given = {}
    if has_fit_parameter(last, "sample_weight"):
        rows, weight = some_rows(codes[inside], MOST_ROWS, seed)
        given = {f"{name}__sample_weight": weight}
    else:
        rows = np.sort(np.random.default_rng(seed).permutation(len(inside))[:MOST_ROWS])
    if groups is not None and _can_be_parted(codes[inside[rows]], groups[inside[rows]]):
        given[f"{name}__groups"] = groups[inside[rows]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", UserWarning)
        again.fit(table.iloc[inside[rows]], codes[inside[rows]], **given)
    return Copy(again, np.sort(outside))


def _can_be_parted(codes: Array, groups: Array) -> bool:
    """Whether each class has groups for all folds."""
    return all(len(np.unique(groups[codes == code])) >= FOLDS for code in np.unique(codes))
