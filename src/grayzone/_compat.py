"""The only place that knows scikit-learn versions and array namespaces."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from array_api_compat import array_namespace, device, is_array_api_obj, is_numpy_array
from array_api_compat import to_device as _to_device
from sklearn import get_config
from sklearn.utils.validation import validate_data

from grayzone._validation import as_numpy

# Frames between a method called by a decorated ``fit`` and the caller of ``fit``, for warnings.
FIT_DEPTH = 5

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:  # before scikit-learn 1.9 there is nobody to report to
    FIT_DEPTH = 4

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """An estimator without callbacks."""

    def with_callbacks(method: Callable[..., Any]) -> Callable[..., Any]:
        """Leave the method as it is."""
        return method


__all__ = [
    "FIT_DEPTH",
    "CallbackSupportMixin",
    "check_same_place",
    "fit_progress",
    "is_elsewhere",
    "moved",
    "validated",
    "with_callbacks",
]

Array = Any
Report = Callable[..., bool]

# ------------------------------------------------------------------------------------------
# Arrays of other libraries
# ------------------------------------------------------------------------------------------


def is_elsewhere(X: Any) -> bool:
    """Tell whether X is an array that is to stay in its own library, on its own device.

    So it is under scikit-learn's ``array_api_dispatch``; without it such arrays become NumPy's.
    """
    dispatched = bool(get_config()["array_api_dispatch"])
    return dispatched and is_array_api_obj(X) and not is_numpy_array(X)


def moved(values: Any, like: Array) -> Array:
    """Give numbers as an array in the library and on the device of another."""
    xp, place = array_namespace(like), device(like)
    if is_numpy_array(like):
        return as_numpy(values)
    if is_array_api_obj(values) and array_namespace(values) == xp:
        return _to_device(values, place)
    host = as_numpy(values)
    return xp.asarray(np.ascontiguousarray(host) if host.ndim else host, device=place)


def validated(estimator: Any, X: Any, y: Any = "no_validation", **options: Any) -> Any:
    """Check data by scikit-learn; arrays of other libraries stay where they are.

    Labels that are numbers follow X, in whatever library they come.
    """
    if not is_elsewhere(X):
        return validate_data(estimator, X, y, **options)
    xp = array_namespace(X)
    options = {**options, "dtype": [xp.float64, xp.float32], "accept_sparse": False}
    if isinstance(y, str):
        return validate_data(estimator, X, **options)
    # of array libraries only NumPy has labels that are no numbers
    elsewhere = is_array_api_obj(y) and not is_numpy_array(y)
    if elsewhere or (y is not None and as_numpy(y).dtype.kind in "biuf"):
        y = moved(y, X)
    return validate_data(estimator, X, y, **options)


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


# ------------------------------------------------------------------------------------------
# Callbacks
# ------------------------------------------------------------------------------------------


@contextmanager
def fit_progress(estimator: Any, task: str, n_tasks: int | None = None) -> Iterator[Report | None]:
    """Tell scikit-learn's callbacks how a fit goes on; None where nobody listens.

    Parameters
    ----------
    estimator : estimator
        One whose ``fit`` is decorated by ``with_callbacks``.
    task : str
        What each subtask is called.
    n_tasks : int, optional
        How many there will be, where known.

    Yields
    ------
    report : callable or None
        To be called with facts (keywords) at the end of each subtask; true if the fit should stop.
    """
    start = getattr(estimator, "_init_callback_context", None)
    if start is None:
        yield None
        return
    root = start(max_subtasks=n_tasks)
    if not getattr(estimator, "_skl_callbacks", None):
        yield None
        return
    root.call_on_fit_task_begin(estimator=estimator)

    def report(**facts: Any) -> bool:
        context = root.subcontext(task_name=task)
        context.call_on_fit_task_begin(estimator=estimator)
        return bool(context.call_on_fit_task_end(estimator=estimator, metadata=facts))

    yield report
    root.call_on_fit_task_end(estimator=estimator)
