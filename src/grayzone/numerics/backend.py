"""Where arrays are: the one place that asks which library and device they belong to."""

from __future__ import annotations

from typing import Any

import numpy as np
from array_api_compat import device, is_array_api_obj
from array_api_compat import to_device as _to_device
from sklearn import get_config

from grayzone.numerics.checks import as_numpy
from grayzone.numerics.namespace import array_namespace, is_numpy_array

__all__ = ["is_elsewhere", "is_single", "moved"]

Array = Any


def is_elsewhere(X: Any) -> bool:
    """Whether X is an array that is to stay in its own library, on its own device.

    So it is under scikit-learn's ``array_api_dispatch``; without it such arrays become NumPy's.
    """
    dispatched = bool(get_config()["array_api_dispatch"])
    return dispatched and is_array_api_obj(X) and not is_numpy_array(X)


def is_single(X: Any) -> bool:
    """Whether an array, a sparse matrix or all columns of a frame are in single precision."""
    dtypes = [X.dtype] if hasattr(X, "dtype") else list(getattr(X, "dtypes", []))
    # "float32", "torch.float32" or, of frames, "Float32"
    return bool(dtypes) and all(str(dtype).lower().endswith("float32") for dtype in dtypes)


def moved(values: Any, like: Array) -> Array:
    """Return numbers as an array in the library and on the device of another."""
    if is_numpy_array(like):
        return as_numpy(values)
    xp, place = array_namespace(like), device(like)
    if is_array_api_obj(values) and array_namespace(values) == xp:
        return _to_device(values, place)
    host = as_numpy(values)
    return xp.asarray(np.ascontiguousarray(host) if host.ndim else host, device=place)
