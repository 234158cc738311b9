"""What a fit is given: blocks where the rows are not NumPy's, in memory."""

from __future__ import annotations

from typing import Any

from array_api_compat import array_namespace, device

from grayzone._compat import is_elsewhere, moved, validated
from grayzone.blocks._dask import dask_source, is_of_dask
from grayzone.blocks._source import HeldSource, Source

Array = Any


def given_blocks(estimator: Any, X: Any, y: Any, sample_weight: Any) -> Source | None:
    """Give the source of blocks that a fit was given, or None for rows in memory.

    Sets ``n_features_in_`` and, where there are names, ``feature_names_in_``.
    """
    if isinstance(X, Source):
        return _checked(estimator, X, y, sample_weight)
    cluster = dask_source(X, y, sample_weight)
    if cluster is not None:
        return _checked(estimator, cluster, None, None)
    if is_elsewhere(X):
        X, y = validated(estimator, X, y)
        return HeldSource(X, y, _row_weights(sample_weight, X))
    return None


def in_blocks(X: Any) -> bool:
    """Tell whether rows come in blocks: from a source, or from Dask."""
    return isinstance(X, Source) or is_of_dask(X)


def refuse_blocks(estimator: Any, X: Any, instead: str) -> None:
    """Raise an error where rows come in blocks, before one of them is read or computed."""
    if in_blocks(X):
        raise ValueError(
            f"{type(estimator).__name__} takes no blocks of rows; got {type(X).__name__}. {instead}"
        )


def _row_weights(sample_weight: Any, X: Array) -> Array | None:
    """Weights of rows elsewhere, in double precision; a single number is that of each row."""
    if sample_weight is None:
        return None
    xp = array_namespace(X)
    weight = xp.astype(moved(sample_weight, X), xp.float64)
    one_each = xp.ones(X.shape[0], dtype=xp.float64, device=device(X))
    return weight * one_each if weight.ndim == 0 else weight


def _checked(estimator: Any, source: Source, y: Any, sample_weight: Any) -> Source:
    if y is not None or sample_weight is not None:
        raise ValueError(
            "Blocks bring their own labels and weights; y and sample_weight must be None beside "
            "them."
        )
    if not source.has_labels:
        raise ValueError(
            f"{type(source).__name__} has no labels, only rows to predict for; a fit needs them."
        )
    estimator.n_features_in_ = source.n_features
    estimator.__dict__.pop("feature_names_in_", None)
    if source.feature_names is not None:
        estimator.feature_names_in_ = source.feature_names
    return source
