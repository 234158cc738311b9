"""What comes before a model of a table in this package, written down as operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from grayzone.estimators.table_features import DEGREE, FAR, ScaledFeatures, TableColumns
from grayzone.onnx.formulas import NotConvertibleError
from grayzone.onnx.graph import Tensor
from grayzone.onnx.rows import GAP, Column, Rows

Array = Any


def table_columns(
    step: TableColumns, rows: Rows, places_of: Callable[[Column, Any, Any], Tensor]
) -> Rows:
    """Codes of categories and numbers, as ``TableColumns.transform``."""
    for kind, names in (("dates", step.dates_), ("free text", step.texts_)):
        if names:
            raise NotConvertibleError(
                f"Columns {', '.join(map(repr, names[:5]))} are {kind}, which a file of operators "
                "cannot read. Leave them out of the training, turn them into numbers or "
                "categories before it, or decide in Python, with grayzone.load_model."
            )
    graph, parts, table = rows.graph, [], dict(zip(rows.names, range(rows.width), strict=True))
    for name, levels, rare in zip(step.categories_, step.levels_, step.has_rare_, strict=True):
        if GAP in levels:
            raise NotConvertibleError(f"'' is a category of column {name!r}, and a gap in ONNX.")
        column = rows.column(table[name])
        found = places_of(column, levels, name)
        other = float(len(levels)) if rare else float("nan")
        code = (found < np.int64(0)).where(other, found.cast("DOUBLE"))
        gap = column.tensor.equals(np.array(GAP, dtype=object))
        parts.append(gap.where(float("nan"), code))
    parts += [rows.column(table[name]).numbers(f"Column {name!r}") for name in step.numbers_]
    return Rows(graph, graph.concat(parts), len(parts))


def scaled_features(step: ScaledFeatures, rows: Rows) -> Rows:
    """Numbers filled and scaled, flags of gaps, a column a category, as ``ScaledFeatures``."""
    X, graph, n_codes = rows.numbers(), rows.graph, len(step.n_levels)
    if not step.centred_:
        gap = X.applied("IsNaN")
        divided = gap.where(0.0, X).over(step.scales_)
        return Rows(graph, divided.applied("Clip", -FAR, FAR), rows.width)
    parts, width = [], 0
    n_numbers = rows.width - n_codes
    scaled: Tensor | None = None
    if n_numbers:
        numbers = X.columns(np.arange(n_codes, rows.width))
        missing = numbers.applied("IsNaN")
        filled = missing.where(step.medians_, numbers)
        scaled = (filled - step.means_).over(step.scales_).applied("Clip", -FAR, FAR)
        parts.append(scaled)
        if len(step.gaps_):
            parts.append(missing.columns(step.gaps_).cast("DOUBLE"))
        width += n_numbers + len(step.gaps_)
    for place, n in enumerate(step.n_levels):
        if n:
            parts.append(X.columns([place]).equals(np.arange(float(n))[None]).cast("DOUBLE"))
        width += n
    if step.bent and scaled is not None:
        splines = _splines(step, scaled)
        if splines:
            bent = (graph.concat(splines) - step.bent_means_).over(step.bent_scales_)
            parts.append(bent)
        width += len(step.bent_means_)
    return Rows(graph, graph.concat(parts), width)


def _splines(step: ScaledFeatures, scaled: Tensor) -> list[Tensor]:
    """B-splines of the columns that have knots, but the first of each."""
    parts = []
    for place, knots in enumerate(step.knots_):
        if np.isfinite(knots).all():
            within = scaled.columns([place]).applied("Clip", float(knots[0]), float(knots[-1]))
            bases = bspline(within, np.r_[[knots[0]] * DEGREE, knots, [knots[-1]] * DEGREE])
            parts.append(bases.columns(np.arange(1, len(knots) + DEGREE - 1)))
    return parts


def bspline(x: Tensor, knots: Array) -> Tensor:
    """All B-splines (n, len(knots) - 4) of numbers (n, 1) within the knots, by de Boor's recursion.

    The last interval is closed.
    """
    low, high = knots[:-1], knots[1:]
    # the end of all knots belongs to the last interval that is none of length zero
    last = np.flatnonzero(low < high)[-1]
    reached = x >= low[None]
    before = (x < high[None]) | (np.arange(len(low)) == last)[None]
    bases = (reached & before & (low < high)[None]).cast("DOUBLE")
    for degree in range(1, DEGREE + 1):
        n = len(knots) - degree - 1
        left, right = _ramp(knots, degree, 0, n), _ramp(knots, degree, 1, n)
        rises = (x - knots[None, :n]) * left[None]
        falls = (knots[None, degree + 1 : degree + 1 + n] - x) * right[None]
        bases = rises * bases.columns(np.arange(n)) + falls * bases.columns(np.arange(1, n + 1))
    return bases


def _ramp(knots: Array, degree: int, shift: int, n: int) -> Array:
    """One over the length of each spline's support of the degree below; zero where it has none."""
    lengths = knots[shift + degree : shift + degree + n] - knots[shift : shift + n]
    return np.where(lengths > 0.0, 1.0 / np.where(lengths > 0.0, lengths, 1.0), 0.0)
