"""Models as ONNX files that decide the same, and as scorecards.

Importing it registers converters for the estimators of this package with skl2onnx, where that is
installed, so that its own ``to_onnx`` takes them, too.
"""

from __future__ import annotations

from contextlib import suppress

from grayzone.onnx.checking import run
from grayzone.onnx.export import to_onnx
from grayzone.onnx.formulas import NotConvertibleError
from grayzone.onnx.registered import register

__all__ = ["NotConvertibleError", "run", "to_onnx"]

with suppress(
    ImportError
):  # without skl2onnx, or the packages that it needs, there is none to tell
    register()
