"""The library that arrays belong to, asked for in every small function of rows."""

from __future__ import annotations

from typing import Any, TypeGuard

import array_api_compat
import array_api_compat.numpy as numpy_namespace
import numpy as np
from numpy.typing import NDArray

__all__ = ["array_namespace", "is_numpy_array"]


def array_namespace(*arrays: Any) -> Any:
    """Return the array API namespace of arrays, of NumPy's own without a search.

    Examples
    --------
    >>> import numpy as np
    >>> from grayzone.numerics.namespace import array_namespace
    >>> array_namespace(np.zeros(2)).__name__
    'array_api_compat.numpy'
    """
    for array in arrays:
        if type(array) is not np.ndarray:
            return array_api_compat.array_namespace(*arrays)
    return numpy_namespace


def is_numpy_array(array: Any) -> TypeGuard[NDArray[Any]]:
    """Whether an array, or a number, is NumPy's, without a search for other libraries.

    Examples
    --------
    >>> import numpy as np
    >>> from grayzone.numerics.namespace import is_numpy_array
    >>> is_numpy_array(np.zeros(2)), is_numpy_array([0.0, 0.0])
    (True, False)
    """
    return isinstance(array, np.ndarray | np.generic)
