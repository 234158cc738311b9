"""Packages that an export takes, imported when it is asked for."""

from __future__ import annotations

import importlib
from typing import Any


def needed(name: str) -> Any:
    """Return a package of the extra, or say how to install it.

    Raises
    ------
    ImportError
        If it is not installed.
    """
    try:
        module = importlib.import_module(name)
        if name == "onnx":
            for part in ("checker", "helper", "numpy_helper"):
                importlib.import_module(f"onnx.{part}")
    except ImportError as error:
        raise ImportError(
            f"Exporting to ONNX needs {name}: pip install 'grayzone[onnx]'."
        ) from error
    return module
