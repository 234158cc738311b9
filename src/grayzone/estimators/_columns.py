"""What comes before a model of a table: numbers and categories, gaps, scales."""

from __future__ import annotations

from typing import Any

import scipy.sparse as sp
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, SplineTransformer, StandardScaler

Array = Any

# For models that are linear in what they get, for kernels among them; the same with bent effects of
# numbers; for trees, which cut.
SCALED, SPLINES, TREES = "scaled", "splines", "trees"
_RARE = 10  # rows of a category that has a column of its own
MOST_CATEGORIES = 200
_KNOTS = 5


def columns_of(X: Array) -> tuple[list[Any], list[Any]] | None:
    """Return the names of a table's numbers and of its categories; None for an array."""
    if not (hasattr(X, "columns") and hasattr(X, "dtypes")):
        return None
    names, types = list(X.columns), list(X.dtypes)
    numbers = [name for name, dtype in zip(names, types, strict=True) if _is_number(dtype)]
    return numbers, [name for name in names if name not in set(numbers)]


def _is_number(dtype: Any) -> bool:
    if hasattr(dtype, "is_numeric"):  # polars
        return bool(dtype.is_numeric()) or str(dtype) == "Boolean"
    return getattr(dtype, "kind", "O") in "biuf"


def preparation(X: Array, kind: str) -> Any:
    """Return an unfitted transformer from data like X to features of a kind.

    Numbers come first, then categories.
    """
    columns = columns_of(X)
    if columns is None:
        return _numbers(kind, sp.issparse(X))
    numbers, categories = columns
    steps = [("numbers", _numbers(kind, False), numbers), ("categories", _coded(kind), categories)]
    return ColumnTransformer([step for step in steps if step[2]], sparse_threshold=0.0)


def _numbers(kind: str, sparse: bool) -> Any:
    if kind == TREES:  # which place gaps by themselves
        return "passthrough"
    filled = ("fill", SimpleImputer(strategy="median", keep_empty_features=True))
    scaled = ("scale", StandardScaler(with_mean=not sparse))
    if kind == SCALED:
        return Pipeline([filled, scaled])
    bent: Any = SplineTransformer(
        _KNOTS, knots="quantile", extrapolation="linear", include_bias=False
    )
    # columns of few values have fewer knots than asked for: the values themselves are there, too
    bent = Pipeline([("bend", bent), ("scale", StandardScaler())])
    both = FeatureUnion([("as they are", "passthrough"), ("bent", bent)])
    return Pipeline([filled, scaled, ("both", both)])


def _coded(kind: str) -> Any:
    if kind == TREES:
        return OrdinalEncoder(
            handle_unknown="use_encoded_value",
            unknown_value=float("nan"),
            encoded_missing_value=float("nan"),
            max_categories=MOST_CATEGORIES,
        )
    return OneHotEncoder(
        handle_unknown="infrequent_if_exist",
        min_frequency=_RARE,
        max_categories=MOST_CATEGORIES,
        sparse_output=False,
    )
