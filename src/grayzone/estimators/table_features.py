"""What comes before a model of a table: numbers, dates, categories and texts, gaps, scales.

Everything that is fitted is a plain array or list: nothing else is in a file that keeps it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from scipy.interpolate import BSpline
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import HashingVectorizer

from grayzone.numerics.checks import Floats

Array = Any
Table = Any

RARE = 10  # rows of a category, or gaps of a number, that have a feature of their own
MOST_LEVELS = 200
TEXT_FEATURES, BUCKETS = 10, 2**12
_MOST_TEXTS = 10_000  # that features of texts are learnt from
_TEXT_LETTERS = 1_000  # of a text that are read
KNOTS = 5
DEGREE = 3
_DAY = 86_400  # seconds
_DATE_PARTS = 4
FAR = 1e100  # scaled numbers end here: their squares, and what models multiply them by, are finite


def is_table(X: Array) -> bool:
    """Whether data have columns with types of their own."""
    return hasattr(X, "columns") and hasattr(X, "dtypes")


class TableColumns(TransformerMixin, BaseEstimator):
    """A table as numbers: codes of categories first, then numbers, dates and texts.

    Gaps, and categories that are not known, are NaN. A date is a number of days, the day of the
    year, of the week, and the hour. Categories of fewer than ten rows are one; a text column of
    which that would leave little has, beside it, ten numbers by its three-letter pieces.

    Attributes
    ----------
    categories_, numbers_, dates_, texts_ : list
        Names of the columns that are taken for each.
    levels_ : list of lists of str
        Categories, in order; the code of a rare one is their number, where there were rare ones.
    has_rare_ : list of bool
        Whether there were.
    text_maps_ : list of ndarrays of shape (n_buckets, 10)
        Projections of hashed pieces.
    """

    def fit(self, X: Table, y: Any = None) -> Self:
        """Learn the categories, and what texts are like."""
        kinds: dict[str, list[Any]] = {"number": [], "date": [], "category": []}
        for name in X.columns:
            kinds[_kind(X[name].dtype)].append(name)
        self.numbers_, self.dates_ = kinds["number"], kinds["date"]
        self.categories_ = kinds["category"]
        self.n_features_in_ = len(list(X.columns))
        self.levels_, self.has_rare_, self.texts_, self.text_maps_ = [], [], [], []
        for name in self.categories_:
            values = _strings(X[name])
            levels, n_rare, n_known = _levels(values)
            self.levels_.append(levels)
            self.has_rare_.append(n_rare > 0)
            if n_rare > 0.2 * n_known and n_rare > RARE:
                self.texts_.append(name)
                self.text_maps_.append(_text_map(values))
        return self

    def transform(self, X: Table) -> Floats:
        """Return the numbers (n, features)."""
        parts = [
            _codes(_strings(X[name]), levels, rare)[:, None]
            for name, levels, rare in zip(
                self.categories_, self.levels_, self.has_rare_, strict=True
            )
        ]
        parts += [_numbers(X[name], name)[:, None] for name in self.numbers_]
        parts += [_date_parts(X[name]) for name in self.dates_]
        parts += [
            _text_numbers(_strings(X[name]), by)
            for name, by in zip(self.texts_, self.text_maps_, strict=True)
        ]
        return np.concatenate([np.empty((X.shape[0], 0)), *parts], axis=1)

    @property
    def n_levels_(self) -> list[int]:
        """How many codes each category has."""
        return [
            len(levels) + rare for levels, rare in zip(self.levels_, self.has_rare_, strict=True)
        ]


class ScaledFeatures(TransformerMixin, BaseEstimator):
    """Numbers filled and scaled, flags of gaps, one feature for each category, bent effects.

    Parameters
    ----------
    n_levels : sequence of ints
        How many codes each of the first columns has: these are categories, the others numbers.
    bent : bool, default=False
        Whether numbers have B-splines, with knots at quantiles, beside themselves.

    Attributes
    ----------
    medians_, means_, scales_ : ndarray of shape (n_numbers,)
        What gaps are filled with, and how numbers are scaled.
    gaps_ : ndarray of ints
        Numbers whose gaps have a flag.
    centred_ : bool
        Whether means are taken off: not from sparse data.
    knots_ : ndarray of shape (n_numbers, 5)
        Knots of the splines; not finite where a number has too few values to bend.
    bent_means_, bent_scales_ : ndarray
        How the splines are scaled.
    """

    def __init__(self, n_levels: Sequence[int] = (), bent: bool = False) -> None:
        self.n_levels = n_levels
        self.bent = bent

    def fit(self, X: Array, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn medians, scales and knots."""
        self.n_features_in_ = X.shape[1]
        self.centred_ = not sp.issparse(X)
        weight = np.ones(X.shape[0]) if sample_weight is None else np.asarray(sample_weight)
        weight = weight / weight.sum()
        if not self.centred_:
            self.medians_ = self.means_ = np.zeros(X.shape[1])
            self.scales_ = _spread(np.sqrt(_sparse_squares(X, weight)))
            self.gaps_ = np.empty(0, dtype=np.intp)
            return self
        numbers = np.asarray(X, dtype=np.float64)[:, len(self.n_levels) :]
        missing = np.isnan(numbers)
        n_missing = missing.sum(axis=0)
        self.gaps_ = np.flatnonzero((n_missing >= RARE) & (len(X) - n_missing >= RARE))
        self.medians_ = np.asarray(
            [
                _quantiles(c[~gap], 0.5, weight[~gap])
                for c, gap in zip(numbers.T, missing.T, strict=True)
            ]
        ).reshape(numbers.shape[1])
        filled = np.where(missing, self.medians_, numbers)
        self.means_, self.scales_ = _moments(filled, weight)
        if self.bent:
            scaled = (filled - self.means_) / self.scales_
            self.knots_ = np.full((numbers.shape[1], KNOTS), np.nan)
            for knots, column in zip(self.knots_, scaled.T, strict=True):
                knots[:] = _knots(column, weight)
            self.bent_means_, self.bent_scales_ = _moments(self._splines(scaled), weight)
        return self

    def transform(self, X: Array) -> Array:
        """Return the features (n, n_features)."""
        if sp.issparse(X) and not self.centred_:
            return self._scaled_sparse(_without_gaps(X))
        X = X.toarray() if sp.issparse(X) else np.asarray(X, dtype=np.float64)
        codes, numbers = X[:, : len(self.n_levels)], X[:, len(self.n_levels) :]
        missing = np.isnan(numbers)
        filled = np.where(missing, self.medians_, numbers)
        with np.errstate(over="ignore"):
            scaled = np.clip((filled - self.means_) / self.scales_, -FAR, FAR)
        parts = [scaled, missing[:, self.gaps_].astype(np.float64)]
        parts += [
            (code[:, None] == np.arange(n)).astype(np.float64)
            for code, n in zip(codes.T, self.n_levels, strict=True)
        ]
        if self.bent:
            parts.append((self._splines(scaled) - self.bent_means_) / self.bent_scales_)
        return np.concatenate(parts, axis=1)

    def _scaled_sparse(self, X: Any) -> Any:
        with np.errstate(over="ignore"):
            scaled = X @ sp.diags_array(1.0 / self.scales_)
        scaled.data = np.clip(scaled.data, -FAR, FAR)
        return scaled

    def _splines(self, scaled: Floats) -> Floats:
        """B-splines of the columns that have knots, constant beyond the outermost."""
        parts = [np.empty((len(scaled), 0))]
        for column, knots in zip(scaled.T, self.knots_, strict=False):
            if np.isfinite(knots).all():
                ends = np.full(DEGREE, knots[0]), np.full(DEGREE, knots[-1])
                within = np.clip(column, knots[0], knots[-1])
                bases = BSpline.design_matrix(within, np.r_[ends[0], knots, ends[1]], DEGREE)
                parts.append(bases.toarray()[:, 1:])  # they sum to one
        return np.concatenate(parts, axis=1)


class TableFeatures(TransformerMixin, BaseEstimator):
    """A table as features that a linear model or a kernel takes.

    Attributes
    ----------
    columns_ : TableColumns
        What makes numbers of the table.
    scaled_ : ScaledFeatures
        What makes features of the numbers.
    """

    def fit(self, X: Table, y: Any = None) -> Self:
        """Learn the categories, medians and scales."""
        self.columns_ = TableColumns().fit(X)
        numbers = self.columns_.transform(X)
        self.scaled_ = ScaledFeatures(self.columns_.n_levels_).fit(numbers)
        return self

    def transform(self, X: Table) -> Floats:
        """Return the features (n, n_features)."""
        features: Floats = self.scaled_.transform(self.columns_.transform(X))
        return features


def _kind(dtype: Any) -> str:
    if hasattr(dtype, "is_numeric"):  # polars
        if dtype.is_temporal():
            return "date"
        return "number" if dtype.is_numeric() or str(dtype) == "Boolean" else "category"
    kind = getattr(dtype, "kind", "O")
    if kind == "M":
        return "date"
    return "number" if kind in "biuf" else "category"


def _strings(column: Any) -> list[str | None]:
    """Values as text; None where there is none."""
    values = column.to_numpy() if hasattr(column, "to_numpy") else np.asarray(column)
    return [
        value
        if type(value) is str
        else None
        # pd.NA first: it does not say whether it equals itself
        if value is None or str(value) in ("<NA>", "NaT") or value != value
        else str(value)
        for value in values.tolist()
    ]


def _levels(values: list[str | None]) -> tuple[list[str], int, int]:
    """Frequent categories in order, and how many rows have others, and any."""
    counts = Counter(values)
    n_known = len(values) - counts.pop(None, 0)
    often = [level for level, n in counts.most_common(MOST_LEVELS) if n >= RARE]
    # all of few categories: without them the column would say nothing
    often = often or [level for level, _ in counts.most_common(1)]
    kept = sum(counts[level] for level in often)
    return sorted(str(level) for level in often), n_known - kept, n_known


def _codes(values: list[str | None], levels: list[str], rare: bool) -> Floats:
    places: dict[str | None, float] = {level: float(k) for k, level in enumerate(levels)}
    other = float(len(levels)) if rare else float("nan")
    places[None] = float("nan")
    return np.asarray([places.get(value, other) for value in values], dtype=np.float64)


def _numbers(column: Any, name: Any) -> Floats:
    if hasattr(column, "to_numpy") and getattr(column.dtype, "na_value", None) is not None:
        values = column.to_numpy(dtype=np.float64, na_value=np.nan)  # pandas with masks
    else:
        values = np.asarray(column, dtype=np.float64)
    if np.isinf(values).any():
        row = int(np.argmax(np.isinf(values)))
        raise ValueError(
            f"Input X contains infinity: column {name!r} does in row {row}; expected numbers, or "
            "NaN for gaps."
        )
    return values


def _date_parts(column: Any) -> Floats:
    """Days since 1970, day of the year and of the week, and hour."""
    if hasattr(column, "dt") and getattr(column.dt, "tz", None) is not None:
        column = column.dt.tz_convert(None)
    seconds = np.asarray(column).astype("datetime64[s]")
    days = seconds.astype("datetime64[D]")
    out = np.empty((len(seconds), _DATE_PARTS))
    out[:, 0] = seconds.astype(np.int64) / _DAY
    out[:, 1] = (days - days.astype("datetime64[Y]").astype("datetime64[D]")).astype(np.int64)
    out[:, 2] = (days.astype(np.int64) + 3) % 7
    out[:, 3] = (seconds - days).astype(np.int64) / 3600.0
    out[np.isnat(seconds)] = np.nan
    return out


def _pieces(values: Sequence[str | None]) -> Any:
    """Hashed three-letter pieces of texts, as shares."""
    hashed = HashingVectorizer(
        analyzer="char_wb", ngram_range=(3, 3), n_features=BUCKETS, alternate_sign=False
    )
    return hashed.transform([(value or "")[:_TEXT_LETTERS] for value in values])


def _text_map(values: Sequence[str | None]) -> Floats:
    """Weights of pieces, seldom ones more, on the directions in which texts differ most."""
    some = [value for value in values if value][:_MOST_TEXTS]
    pieces = _pieces(some)
    seldom = np.log((1.0 + len(some)) / (1.0 + np.bincount(pieces.indices, minlength=BUCKETS)))
    rank = min(TEXT_FEATURES, len(some) - 1)
    svd = TruncatedSVD(rank, random_state=0).fit(pieces @ sp.diags_array(seldom))
    projection = np.zeros((BUCKETS, TEXT_FEATURES))
    projection[:, :rank] = seldom[:, None] * svd.components_.T
    return projection


def _text_numbers(values: list[str | None], projection: Floats) -> Floats:
    numbers = np.asarray(_pieces(values) @ projection)
    numbers[[value is None for value in values]] = np.nan
    return numbers


def _quantiles(column: Floats, shares: Any, weight: Floats) -> Any:
    """Quantiles of rows that weigh differently; zero where there are none."""
    if not len(column):
        return 0.0
    return np.quantile(column, shares, weights=weight, method="inverted_cdf")


def _moments(numbers: Floats, weight: Floats) -> tuple[Floats, Floats]:
    """Means of columns, and what they are divided by."""
    means = weight @ numbers
    return means, _spread(np.sqrt(weight @ (numbers - means) ** 2))


def _knots(column: Floats, weight: Floats) -> Floats:
    """Quantiles of a column, of its different values where many are the same."""
    different = np.unique(column)
    if len(different) < 3:
        return np.full(KNOTS, np.nan)
    shares = np.linspace(0.0, 1.0, KNOTS)
    knots = _quantiles(column, shares, weight)
    if np.any(np.diff(knots) <= 1e-6):
        knots = np.quantile(different, shares)
    return knots if np.all(np.diff(knots) > 1e-6) else np.full(KNOTS, np.nan)


def _spread(deviations: Floats) -> Floats:
    return np.where(deviations > 1e-12, deviations, 1.0)


def _without_gaps(X: Any) -> Any:
    if not np.isnan(X.data).any():
        return X
    X = X.copy()
    X.data = np.nan_to_num(X.data, nan=0.0)
    return X


def _sparse_squares(X: Any, weight: Floats) -> Floats:
    """Mean squared deviation of sparse columns."""
    X = _without_gaps(X)
    squares = X.multiply(X).T @ weight - (X.T @ weight) ** 2
    return np.maximum(np.asarray(squares), 0.0)
