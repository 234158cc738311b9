"""Steps before a classifier, written down as operators.

Scalers, imputers, encoders, bins and choices of columns of scikit-learn, and what comes before a
model of a table in this package; other steps are left to skl2onnx.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import singledispatch
from typing import Any

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.feature_selection import SelectorMixin
from sklearn.impute import SimpleImputer
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    RobustScaler,
    StandardScaler,
)
from sklearn.utils.validation import check_is_fitted

from grayzone.estimators.table_features import ScaledFeatures, TableColumns, TableFeatures
from grayzone.onnx.foreign import foreign_step
from grayzone.onnx.formulas import NotConvertibleError
from grayzone.onnx.graph import ML, Tensor
from grayzone.onnx.rows import GAP, NUMBER, TEXT, Column, Rows, beside
from grayzone.onnx.table_steps import scaled_features, table_columns

Array = Any

_UNKNOWN = -1  # place of a category that is not among those of a fit


def transformed(step: Any, rows: Rows) -> Rows:
    """Write down what a fitted step makes of rows; the same step on the same rows once.

    Parameters
    ----------
    step : transformer, "passthrough" or None
        A fitted step.
    rows : Rows
        Rows of a graph.

    Raises
    ------
    NotConvertibleError
        If it has no counterpart.
    """
    if step is None or (isinstance(step, str) and step == "passthrough"):
        return rows
    key = id(step), id(rows)
    if key not in rows.graph.kept:
        check_is_fitted(step)
        _check_names(step, rows)
        # the rows are kept beside the result: their number must not become that of others
        rows.graph.kept[key] = _transformed(step, rows), rows
    made: Rows = rows.graph.kept[key][0]
    return made


def _check_names(step: Any, rows: Rows) -> None:
    known = getattr(step, "n_features_in_", rows.width)
    if not isinstance(step, ColumnTransformer) and known != rows.width:
        raise ValueError(
            f"X has {rows.width} columns; {type(step).__name__} was fitted with {known}."
        )


@singledispatch
def _transformed(step: Any, rows: Rows) -> Rows:
    if isinstance(step, SelectorMixin):
        return rows.select(np.flatnonzero(step.get_support()).tolist())
    return foreign_step(step, rows)


@_transformed.register
def _(step: Pipeline, rows: Rows) -> Rows:
    for _, part in step.steps:
        rows = transformed(part, rows)
    return rows


@_transformed.register
def _(step: FeatureUnion, rows: Rows) -> Rows:
    parts = [_weighed(part, rows, step, name) for name, part in step.transformer_list]
    return beside(rows.graph, [part for part in parts if part is not None])


def _weighed(part: Any, rows: Rows, union: FeatureUnion, name: str) -> Rows | None:
    if isinstance(part, str) and part == "drop":
        return None
    made, weight = transformed(part, rows), (union.transformer_weights or {}).get(name)
    if weight is None:
        return made
    return Rows(rows.graph, made.numbers().times(np.full(made.width, weight)), made.width)


@_transformed.register
def _(step: ColumnTransformer, rows: Rows) -> Rows:
    parts = []
    for name, part, keys in step.transformers_:
        dropped = isinstance(part, str) and part == "drop"
        chosen = rows.select(keys)
        if dropped or not chosen.width:
            continue
        made = transformed(part, chosen)
        weight = (step.transformer_weights or {}).get(name)
        if weight is not None:
            made = Rows(rows.graph, made.numbers().times(np.full(made.width, weight)), made.width)
        parts.append(made)
    return beside(rows.graph, parts)


# Numbers


@_transformed.register
def _(step: StandardScaler, rows: Rows) -> Rows:
    X = rows.numbers()
    if step.with_mean:
        X = X - np.asarray(step.mean_, dtype=np.float64)
    return Rows(rows.graph, _divided(X, step.scale_), rows.width)


@_transformed.register
def _(step: RobustScaler, rows: Rows) -> Rows:
    X = rows.numbers()
    if step.with_centering:
        X = X - step.center_
    return Rows(rows.graph, _divided(X, step.scale_ if step.with_scaling else None), rows.width)


@_transformed.register
def _(step: MaxAbsScaler, rows: Rows) -> Rows:
    return Rows(rows.graph, _divided(rows.numbers(), step.scale_), rows.width)


@_transformed.register
def _(step: MinMaxScaler, rows: Rows) -> Rows:
    X = rows.numbers().times(step.scale_) + step.min_
    if step.clip:
        low, high = map(float, step.feature_range)
        X = X.applied("Clip", low, high)
    return Rows(rows.graph, X, rows.width)


def _divided(X: Tensor, scale: Array | None) -> Tensor:
    return X if scale is None else X.over(scale)


@_transformed.register
def _(step: FunctionTransformer, rows: Rows) -> Rows:
    known = {np.log1p: lambda X: (X + 1.0).applied("Log"), np.exp: lambda X: X.applied("Exp")}
    known |= {np.log: lambda X: X.applied("Log"), np.sqrt: lambda X: X.applied("Sqrt")}
    if step.func is None:
        return rows
    if step.func not in known or step.kw_args:
        raise NotConvertibleError(
            f"FunctionTransformer({getattr(step.func, '__name__', step.func)}) cannot be exported: "
            "a file holds formulas, no code. numpy.log, log1p, exp and sqrt can."
        )
    return Rows(rows.graph, known[step.func](rows.numbers()), rows.width)


@_transformed.register
def _(step: PCA, rows: Rows) -> Rows:
    X = (rows.numbers() - step.mean_) @ step.components_.T
    if step.whiten:
        X = X.over(np.sqrt(np.maximum(step.explained_variance_, np.finfo(np.float64).eps)))
    return Rows(rows.graph, X, step.n_components_)


@_transformed.register
def _(step: SimpleImputer, rows: Rows) -> Rows:
    missing = step.missing_values
    gap = missing is None or (isinstance(missing, float) and np.isnan(missing))
    parts, flags = [], []
    for place, fill in enumerate(step.statistics_):
        column = rows.column(place)
        if column.kind == TEXT:
            is_gap = column.tensor.equals(np.array(GAP if gap else missing, dtype=object))
        else:
            is_gap = column.tensor.applied("IsNaN") if gap else column.tensor.equals(float(missing))
        flags.append(is_gap.cast("DOUBLE"))
        if column.kind == NUMBER and isinstance(fill, float) and np.isnan(fill):
            if not step.keep_empty_features:
                continue  # a column without a value is left out
            fill = 0.0
        with_type = float(fill) if column.kind == NUMBER else np.array(str(fill), dtype=object)
        parts.append(Column(is_gap.where(with_type, column.tensor), column.kind))
    if step.add_indicator and step.indicator_ is not None:
        parts += [Column(flags[place], NUMBER) for place in step.indicator_.features_]
    return Rows.of_columns(rows.graph, dict(enumerate(parts)))


# Categories and bins


def places_of(column: Column, categories: Sequence[Any], name: Any) -> Tensor:
    """Place (n, 1) of each value among categories; -1 where it is none of them."""
    graph = column.tensor.graph
    if column.kind == TEXT:
        texts = [GAP if _is_gap(value) else value for value in categories]
        if not all(isinstance(value, str) for value in texts) or len(set(texts)) < len(texts):
            raise NotConvertibleError(
                f"The categories of column {name!r} are not all text, or '' is one beside a gap."
            )
        return graph.add(
            "LabelEncoder",
            column.tensor,
            domain=ML,
            keys_strings=texts,
            values_int64s=list(range(len(texts))),
            default_int64=_UNKNOWN,
        )
    known = np.asarray(categories, dtype=np.float64)
    same = column.tensor.equals(known)
    if np.isnan(known).any():
        same = same | (column.tensor.applied("IsNaN") & np.isnan(known)[None])
    found = same.cast("DOUBLE")
    there = found.sum(1) > 0.0
    return there.where(found.argmax().upright(), np.int64(_UNKNOWN))


def _is_gap(value: Any) -> bool:
    return value is None or (isinstance(value, float) and np.isnan(value))


@_transformed.register
def _(step: OneHotEncoder, rows: Rows) -> Rows:
    infrequent = getattr(step, "infrequent_categories_", None)
    parts, widths = [], []
    for place, categories in enumerate(step.categories_):
        rare = None if infrequent is None else infrequent[place]
        columns, default = _one_hot_columns(categories, rare, step.handle_unknown)
        if step.drop_idx_ is not None and step.drop_idx_[place] is not None:
            target = columns[int(step.drop_idx_[place])]
            kept = [k for k in range(max(columns) + 1) if k != target]
        else:
            kept = list(range(max(columns) + 1))
        found = places_of(rows.column(place), list(categories), rows.names[place])
        # the last row of the table is that of unknown categories
        table = np.zeros((len(categories) + 1, max(columns) + 1))
        table[np.arange(len(categories)), columns] = 1.0
        table[-1] = default
        index = (found < np.int64(0)).where(np.int64(len(categories)), found)
        flat = rows.graph.add("Squeeze", index, np.array([1]))
        parts.append(rows.graph.add("Gather", table[:, kept], flat, axis=0))
        widths.append(len(kept))
    some = [part for part, width in zip(parts, widths, strict=True) if width]
    return Rows(rows.graph, rows.graph.concat(some), sum(widths))


def _one_hot_columns(
    categories: Array, rare: Array | None, unknown: str
) -> tuple[list[int], float | Array]:
    """Column of each category, and what an unknown one has: nothing, gaps, or the rare column.

    A fit that refuses unknown categories refuses by an error; a file has none, and its answers are
    not numbers then.
    """
    if rare is None:
        columns = list(range(len(categories)))
        width = len(columns)
    else:
        seldom = {value for value in rare.tolist()}
        often = [k for k, value in enumerate(categories.tolist()) if value not in seldom]
        columns = [often.index(k) if k in often else len(often) for k in range(len(categories))]
        width = len(often) + 1
    if unknown == "error":
        return columns, np.nan
    last = np.zeros(width)
    if unknown in ("infrequent_if_exist", "warn") and rare is not None:
        last[-1] = 1.0
    return columns, last


@_transformed.register
def _(step: OrdinalEncoder, rows: Rows) -> Rows:
    rare = getattr(step, "infrequent_categories_", None)
    if rare is not None and any(values is not None for values in rare):
        raise NotConvertibleError("OrdinalEncoder with infrequent categories cannot be exported.")
    unknown = step.unknown_value if step.handle_unknown == "use_encoded_value" else np.nan
    parts = []
    for place, categories in enumerate(step.categories_):
        found = places_of(rows.column(place), list(categories), rows.names[place])
        code = (found < np.int64(0)).where(float(unknown), found.cast("DOUBLE"))
        gaps = [k for k, value in enumerate(categories.tolist()) if _is_gap(value)]
        if gaps:
            code = found.equals(np.int64(gaps[0])).where(float(step.encoded_missing_value), code)
        parts.append(code)
    return Rows(rows.graph, rows.graph.concat(parts), rows.width)


@_transformed.register
def _(step: KBinsDiscretizer, rows: Rows) -> Rows:
    parts = []
    for place, edges in enumerate(step.bin_edges_):
        column = rows.column(place).numbers(f"Column {rows.names[place]!r}")
        # numbers of inner edges that are reached, from the first bin on
        code = (column >= np.asarray(edges[1:-1])[None]).cast("DOUBLE").sum(1)
        if step.encode == "ordinal":
            parts.append(code)
        else:
            parts.append(code.equals(np.arange(len(edges) - 1.0)[None]).cast("DOUBLE"))
    width = rows.width if step.encode == "ordinal" else int(np.sum(step.n_bins_))
    return Rows(rows.graph, rows.graph.concat(parts), width)


# Tables of this package


@_transformed.register
def _(step: TableColumns, rows: Rows) -> Rows:
    return table_columns(step, rows, places_of)


@_transformed.register
def _(step: ScaledFeatures, rows: Rows) -> Rows:
    return scaled_features(step, rows)


@_transformed.register
def _(step: TableFeatures, rows: Rows) -> Rows:
    return transformed(step.scaled_, transformed(step.columns_, rows))
