"""What a fit is given: blocks where the rows are not NumPy's, in memory."""

from __future__ import annotations

from math import isfinite
from typing import Any

import numpy as np
import scipy.sparse as sp
from array_api_compat import device, is_array_api_obj
from sklearn import get_config
from sklearn.utils.validation import validate_data

from grayzone.numerics.backend import is_elsewhere, moved
from grayzone.numerics.checks import as_numpy
from grayzone.numerics.namespace import array_namespace, is_numpy_array
from grayzone.numerics.threads import square_sum
from grayzone.sources.dask import dask_source, is_dask_array, is_of_dask
from grayzone.sources.labelled import Labelled, label
from grayzone.sources.source import HeldSource, Source

Array = Any

# What is said of costs beside blocks that have their own.
COSTS_OF_BLOCKS = (
    "Blocks bring their own costs; example_costs must be None beside them. Open them with costs: "
    "open_parquet(..., costs={label: column}), open_npy(..., costs=...)."
)


def open_rows(
    estimator: Any,
    X: Any,
    y: Any,
    sample_weight: Any,
    *,
    class_weight: Any = None,
    by_rows: bool = False,
    example_costs: Any = None,
    takes_costs: bool = False,
    rewards: Any = None,
    beside: int = 0,
    **accepted: Any,
) -> Labelled:
    """Return the rows that a fit was given, checked, with their classes.

    Parameters
    ----------
    estimator : estimator
        Gets ``n_features_in_`` and, where there are names, ``feature_names_in_``.
    X, y, sample_weight : objects
        What its ``fit`` was given.
    class_weight : mapping, "balanced" or None
        Weights of the classes.
    by_rows : bool
        Whether rows will be read a few at a time: then a sparse X is one of rows.
    example_costs : object
        Costs of each row that its ``fit`` was given; blocks bring theirs.
    takes_costs : bool
        Whether a fit does anything with costs of rows: blocks may have some.
    rewards : object
        Rewards of each row and action that its ``fit`` was given, in place of costs.
    beside : int
        How many actions there are beside the classes, where there are rewards.
    **accepted
        What ``validate_data`` is told of the kinds of X there may be, in NumPy's memory.

    Returns
    -------
    rows : Labelled
        The rows, held where they are in one place.
    """
    if rewards is not None:
        example_costs = _of_every_class(rewards, X)
    source = given_blocks(estimator, X, y, sample_weight, example_costs)
    if source is None:
        X, y = validated(estimator, X, y, **accepted)
        if by_rows and sp.issparse(X):
            X = X.tocsr()
        source = HeldSource(X, y, sample_weight, example_costs)
    labelled = label(source, class_weight, None if rewards is None else beside)
    if labelled.priced and not takes_costs:
        raise ValueError(
            f"{type(estimator).__name__} learns nothing from costs of rows, which these blocks "
            "have; open them without."
        )
    return labelled


def _of_every_class(rewards: Any, X: Any) -> Any:
    """Return rewards (n, A) as costs of rows travel, (n, 1, A): the same whatever the class is."""
    if isinstance(X, Source):
        raise ValueError(
            f"rewards are for rows in memory or of Dask; {type(X).__name__} has none. Costs of "
            "decisions come with blocks: open them with costs."
        )
    if is_of_dask(rewards) and not (is_of_dask(X) and is_dask_array(rewards)):
        raise ValueError("rewards must be an array, and one of Dask only beside rows of Dask.")
    values = rewards if is_array_api_obj(rewards) or is_of_dask(rewards) else as_numpy(rewards)
    if getattr(values, "ndim", 0) != 2:
        raise ValueError(
            f"rewards must be an array reward[row, action] of two dimensions; got shape "
            f"{tuple(getattr(values, 'shape', ()))}."
        )
    return values[:, None, :]


def given_blocks(
    estimator: Any, X: Any, y: Any, sample_weight: Any, example_costs: Any = None
) -> Source | None:
    """Return the source of blocks that a fit was given, or None for rows in memory.

    Sets ``n_features_in_`` and, where there are names, ``feature_names_in_``.
    """
    if isinstance(X, Source):
        return _checked(estimator, X, y, sample_weight, example_costs)
    cluster = dask_source(X, y, sample_weight, example_costs)
    if cluster is not None:
        return _checked(estimator, cluster)
    if is_elsewhere(X):
        X, y = validated(estimator, X, y)
        return HeldSource(X, y, _row_weights(sample_weight, X), example_costs)
    return None


def in_blocks(X: Any) -> bool:
    """Whether rows come in blocks: from a source, or from Dask."""
    return isinstance(X, Source) or is_of_dask(X)


def refuse_blocks(estimator: Any, X: Any, instead: str) -> None:
    """Raise an error where rows come in blocks, before one of them is read or computed."""
    if in_blocks(X):
        raise ValueError(
            f"{type(estimator).__name__} takes no blocks of rows; got {type(X).__name__}. {instead}"
        )


def refuse_elsewhere(estimator: Any, X: Any, instead: str) -> None:
    """Raise an error for arrays that are to stay in another library."""
    if is_elsewhere(X):
        raise TypeError(
            f"{type(estimator).__name__} computes with NumPy; got {type(X).__name__} under "
            f"array_api_dispatch. {instead}"
        )


def _row_weights(sample_weight: Any, X: Array) -> Array | None:
    """Weights of rows elsewhere, in double precision; a single number is that of each row."""
    if sample_weight is None:
        return None
    xp = array_namespace(X)
    weight = xp.astype(moved(sample_weight, X), xp.float64)
    one_each = xp.ones(X.shape[0], dtype=xp.float64, device=device(X))
    return weight * one_each if weight.ndim == 0 else weight


def _checked(
    estimator: Any, source: Source, y: Any = None, sample_weight: Any = None, costs: Any = None
) -> Source:
    if y is not None or sample_weight is not None:
        raise ValueError(
            "Blocks bring their own labels and weights; y and sample_weight must be None beside "
            "them."
        )
    if costs is not None:
        raise ValueError(COSTS_OF_BLOCKS)
    if not source.has_labels:
        raise ValueError(
            f"{type(source).__name__} has no labels, only rows to predict for; a fit needs them."
        )
    if not source.n_features:
        raise ValueError(
            f"{type(source).__name__} has rows of no features; a fit needs at least one feature."
        )
    _note_features(estimator, source.n_features, source.feature_names)
    return source


def _note_features(estimator: Any, n_features: int, names: Array | None = None) -> None:
    estimator.n_features_in_ = n_features
    vars(estimator).pop("feature_names_in_", None)
    if names is not None:
        estimator.feature_names_in_ = names


def validated(
    estimator: Any, X: Any, y: Any = "no_validation", reset: bool = True, **options: Any
) -> Any:
    """Check data by scikit-learn; arrays of other libraries stay where they are.

    Labels that are numbers follow X, in whatever library they come. ``options`` say which dtypes
    and formats of sparse matrices there may be.
    """
    if not is_elsewhere(X):
        y = as_numpy(y) if is_elsewhere(y) else y
        # by a sum that may overflow scikit-learn looks for infinities
        with np.errstate(over="ignore", invalid="ignore"):
            if _is_plain(X) and isfinite(square_sum(X)):
                if _is_expected(estimator, X, y, reset):
                    if reset:
                        _note_features(estimator, X.shape[1])
                    return (X, y) if reset else X
                options["ensure_all_finite"] = False
            return validate_data(estimator, X, y, reset=reset, **options)
    xp = array_namespace(X)
    options = {**options, "dtype": [xp.float64, xp.float32], "accept_sparse": False, "reset": reset}
    if isinstance(y, str):
        return validate_data(estimator, X, **options)
    # of array libraries only NumPy has labels that are no numbers
    elsewhere = is_array_api_obj(y) and not is_numpy_array(y)
    if elsewhere or (y is not None and as_numpy(y).dtype.kind in "biuf"):
        y = moved(y, X)
    return validate_data(estimator, X, y, **options)


def _is_plain(X: Any) -> bool:
    """Whether rows are what every check hands back as it is, but for values that are no numbers."""
    if not (type(X) is np.ndarray and X.dtype == np.float64 and X.ndim == 2 and X.size):
        return False
    return bool(X.flags.c_contiguous or X.flags.f_contiguous)


def _is_expected(estimator: Any, X: Array, y: Any, reset: bool) -> bool:
    """Whether rows that are plain, and their labels, leave scikit-learn nothing to say.

    To find out that they are no data frame takes it longer than all checks of a few thousand rows.
    """
    if reset:
        return type(y) is np.ndarray and y.shape == X.shape[:1] and y.dtype.kind in "biu"
    known = vars(estimator)
    same = known.get("n_features_in_") == X.shape[1] and "feature_names_in_" not in known
    return same and isinstance(y, str)


def check_same_place(estimator: Any, X: Any, fitted: Array, method: str) -> None:
    """Check that X is an array of the kind, and on the device, that the model was fitted on."""
    here = X if is_elsewhere(X) else np.empty(0)
    spaces = [array_namespace(a) for a in (here, fitted)]
    if spaces[0] == spaces[1] and device(here) == device(fitted):
        return
    turned_off = "" if get_config()["array_api_dispatch"] else " (array_api_dispatch is off)"
    raise ValueError(
        f"Inputs passed to {type(estimator).__name__}.{method}() must use the same namespace and "
        f"the same device as those passed to fit(): got {spaces[0].__name__} on {device(here)}"
        f"{turned_off}, fitted with {spaces[1].__name__} on {device(fitted)}. "
        "grayzone.arrays.move_to moves a fitted model."
    )
