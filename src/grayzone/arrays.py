"""Fitted models from one array library and device to another."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from array_api_compat import is_array_api_obj

from grayzone.numerics.backend import moved
from grayzone.numerics.checks import as_numpy

__all__ = ["move_to", "to_numpy"]

Array = Any
Convert = Callable[[Array], Array]


def move_to(estimator: Any, like: Array) -> Any:
    """Return a copy of a fitted estimator whose arrays are where another array is.

    Parameters
    ----------
    estimator : estimator
        A fitted model; it stays as it is.
    like : array
        An array of the library and on the device that the copy is for: what ``predict`` will be
        given.

    Returns
    -------
    moved : estimator
        The copy. Labels that are no numbers stay in NumPy, the only library that has strings.
        Estimators inside of it, the steps of a pipeline, are moved as well; what was given as a
        parameter stays as it is. Like a pickled one, the copy of a linear model has no training
        data, and so no ``support_vectors_``.

    See Also
    --------
    to_numpy : The way back.

    Examples
    --------
    >>> import array_api_strict as xp
    >>> import numpy as np
    >>> from sklearn import config_context
    >>> from grayzone import TruncatedLogisticRegression
    >>> from grayzone.arrays import move_to
    >>> X = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> clf = TruncatedLogisticRegression().fit(X, [0, 0, 1, 1])
    >>> there = xp.asarray(X)
    >>> with config_context(array_api_dispatch=True):
    ...     move_to(clf, there).predict(there)
    Array([0, 0, 1, 1], dtype=array_api_strict.int64)
    """
    return _converted(estimator, lambda a: moved(a, like))


def to_numpy(estimator: Any) -> Any:
    """Return a copy of a fitted estimator with NumPy arrays, on any machine.

    Parameters
    ----------
    estimator : estimator
        A fitted model; it stays as it is.

    Returns
    -------
    moved : estimator
        The copy.

    See Also
    --------
    move_to : From NumPy to where another array is.

    Examples
    --------
    >>> import array_api_strict as xp
    >>> from sklearn import config_context
    >>> from grayzone import TruncatedLogisticRegression
    >>> from grayzone.arrays import to_numpy
    >>> X, y = xp.asarray([[0.0], [1.0], [2.0], [3.0]]), xp.asarray([0, 0, 1, 1])
    >>> with config_context(array_api_dispatch=True):
    ...     clf = TruncatedLogisticRegression().fit(X, y)
    >>> type(to_numpy(clf).coef_).__name__
    'ndarray'
    """
    return _converted(estimator, as_numpy)


def _converted(estimator: Any, convert: Convert) -> Any:
    result = copy.copy(estimator)
    given = estimator.get_params(deep=False)
    # what a copy leaves out, like the training data of a linear model, need not travel
    for name, value in vars(result).items():
        # parameters stay as they were given, but estimators among them may be fitted
        vars(result)[name] = _value(value, _same if name in given else convert, convert)
    return result


def _value(value: Any, convert: Convert, inside: Convert) -> Any:
    """Convert arrays, also those in containers and data classes; ``inside`` is for estimators."""
    if is_array_api_obj(value):
        return convert(value) if _is_numeric(value) else value
    if sp.issparse(value):
        # other libraries have no sparse rows: a model's own are few
        there = convert(np.empty(0))
        return value if isinstance(there, np.ndarray) else convert(value.toarray())
    if hasattr(value, "get_params") and hasattr(value, "fit") and not isinstance(value, type):
        return _converted(value, inside)
    if is_dataclass(value) and not isinstance(value, type):
        parts = {f.name: _value(getattr(value, f.name), convert, inside) for f in fields(value)}
        return replace(value, **parts)
    if isinstance(value, dict):
        return {name: _value(part, convert, inside) for name, part in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_value(part, convert, inside) for part in value)
    return value


def _same(values: Array) -> Array:
    return values


def _is_numeric(values: Array) -> bool:
    return not isinstance(values, np.ndarray) or values.dtype.kind in "biuf"
