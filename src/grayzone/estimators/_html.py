"""What notebooks show of a fitted estimator, below scikit-learn's diagram of its parameters."""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from typing import Any

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from grayzone.estimators.facts import facts_of
from grayzone.numerics.checks import as_numpy

_STYLE = "border-collapse:collapse;margin:.4em 0;font:14px system-ui,sans-serif"
_CELL = "text-align:left;padding:.15em .8em .15em 0;border-bottom:1px solid #8884"
_MOST_CLASSES = 10
_PATHS = (("expected_error_path_", "Expected error"), ("mean_cost_path_", "Mean cost"))


class FittedSummary:
    """Mixin, before ``BaseEstimator``: adds a table of what a fit found to the HTML repr."""

    @property
    def _repr_html_(self) -> Callable[[], str]:
        """What IPython shows; scikit-learn's configuration may say that there is none."""
        diagram: Callable[[], str] = super()._repr_html_  # type: ignore[misc]
        return lambda: diagram() + _table(self)

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        shown: dict[str, str] = super()._repr_mimebundle_(**kwargs)  # type: ignore[misc]
        if "text/html" in shown:
            shown["text/html"] += _table(self)
        return shown


def _table(estimator: Any) -> str:
    """What a fit found, as a table; nothing before there was one."""
    try:
        check_is_fitted(estimator)
    except NotFittedError:
        return ""
    rows = "".join(_row(text, value) for text, value in _lines(estimator))
    return f'<table style="{_STYLE}" aria-label="As fitted"><tbody>{rows}</tbody></table>'


def _row(text: str, value: str) -> str:
    cells = f'<th style="{_CELL}">{escape(text)}</th><td style="{_CELL}">{escape(value)}</td>'
    return f"<tr>{cells}</tr>"


def _lines(estimator: Any) -> list[tuple[str, str]]:
    classes = [str(label) for label in as_numpy(estimator.classes_)]
    more = len(classes) - _MOST_CLASSES
    listed = ", ".join(classes[:_MOST_CLASSES]) + (f" and {more} more" if more > 0 else "")
    lines = [("Classes", listed)]
    threshold = getattr(estimator, "threshold_", None)
    if threshold is not None and np.ndim(threshold) == 0:
        lines.append(("Decision threshold", f"{float(threshold):.4g}"))
    for name, text in _PATHS:
        path = getattr(estimator, name, None)
        if path is not None and len(path):
            lines.append((f"{text}, first and last bound", f"{path[0]:.4g}, {path[-1]:.4g}"))
    return lines + facts_of(estimator).lines
