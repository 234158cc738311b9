"""The library that arrays belong to, asked for in every small function of rows."""

from __future__ import annotations

from typing import Any

import array_api_compat
import array_api_compat.numpy as numpy_namespace
import numpy as np

__all__ = ["array_namespace"]


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
