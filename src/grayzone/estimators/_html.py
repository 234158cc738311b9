"""What notebooks show of a fitted estimator, below scikit-learn's diagram of its parameters."""

from __future__ import annotations

from html import escape
from typing import Any

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from grayzone.numerics.checks import as_numpy

_STYLE = "border-collapse:collapse;margin:.4em 0;font:14px system-ui,sans-serif"
_CELL = "text-align:left;padding:.15em .8em .15em 0;border-bottom:1px solid #8884"
_MOST_CLASSES = 10


class FittedSummary:
    """Mixin, before ``BaseEstimator``: adds a table of what a fit found to the HTML repr."""

    def _html_repr(self) -> str:
        shown: str = super()._html_repr()  # type: ignore[misc]
        try:
            check_is_fitted(self)
        except NotFittedError:
            return shown
        rows = "".join(_row(text, value) for text, value in _lines(self))
        table = f'<table style="{_STYLE}" aria-label="As fitted"><tbody>{rows}</tbody></table>'
        return shown + table


def _row(text: str, value: str) -> str:
    cells = f'<th style="{_CELL}">{escape(text)}</th><td style="{_CELL}">{escape(value)}</td>'
    return f"<tr>{cells}</tr>"


def _lines(estimator: Any) -> list[tuple[str, str]]:
    from grayzone.estimators.facts import facts_of

    classes = [str(label) for label in as_numpy(estimator.classes_)]
    more = len(classes) - _MOST_CLASSES
    listed = ", ".join(classes[:_MOST_CLASSES]) + (f" and {more} more" if more > 0 else "")
    lines = [("Classes", listed)]
    threshold = getattr(estimator, "threshold_", None)
    if threshold is not None and np.ndim(threshold) == 0:
        lines.append(("Decision threshold", f"{float(threshold):.4g}"))
    path = getattr(estimator, "expected_error_path_", None)
    if path is not None and len(path):
        lines.append(("Expected error, first and last bound", f"{path[0]:.4g}, {path[-1]:.4g}"))
    return lines + facts_of(estimator).lines
