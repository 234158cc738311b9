"""Models as ONNX files that decide the same, and as scorecards.

Importing it registers converters for the estimators of this package with skl2onnx, where that is
installed, so that its own ``to_onnx`` takes them, too.
"""

from __future__ import annotations

import importlib.util

from grayzone.onnx.checking import run
from grayzone.onnx.export import to_onnx
from grayzone.onnx.formulas import NotConvertibleError

__all__ = ["NotConvertibleError", "run", "to_onnx"]

if all(importlib.util.find_spec(name) is not None for name in ("onnx", "skl2onnx")):
    from grayzone.onnx.registered import register

    register()
