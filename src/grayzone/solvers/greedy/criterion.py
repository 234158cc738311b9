"""Criterion (6), or (8) with a zone, on a span; and what the truncated solvers do for it.

All that this family takes from the solvers of the truncated likelihood is here: fits to losses that
have kinks, and duality gaps.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import inf
from typing import Any, NamedTuple

from array_api_compat import device

from grayzone.numerics.designs import DenseDesign
from grayzone.numerics.losses import TruncatedLogistic
from grayzone.numerics.margins import Margins, ReferenceMargin
from grayzone.numerics.namespace import array_namespace, is_numpy_array
from grayzone.solvers import (
    Certificate,
    Problem,
    Record,
    Solution,
    TruncatedSpec,
    certify,
    minimise_problem,
    minimise_streamed,
)
from grayzone.solvers.greedy.span import Spanned
from grayzone.solvers.truncated.readings import Held, near_kink
from grayzone.sources.labelled import Rows
from grayzone.sources.source import Sums

Array = Any

_WITH_KINKS = 1e-10  # duality gap, relative, where the loss has kinks
_MOST_WITH_KINKS = 60  # steps: far more than a fit takes that rounding lets end
MAX_STEPS = 200
# Readings of the rows that take as long as a step where losses have kinks: with all rows in NumPy's
# memory, and by an interior point on rows that are reached by sums.
_HELD_STEP, _STREAMED_STEP = 4.0, 80.0


@dataclass(frozen=True)
class Criterion(TruncatedSpec):
    """Floors of the classes, penalty and intercept; small, for it travels with every task.

    With ``reference`` the last of K > 2 classes has no function of its own.
    """

    reference: bool = False

    @property
    def n_outputs(self) -> int:
        """Scores per row."""
        return super().n_outputs - int(self.reference)

    @property
    def kind(self) -> type[Margins]:
        """Map from scores to margins."""
        return ReferenceMargin if self.reference else super().kind

    @cached_property
    def is_plain(self) -> bool:
        """Whether all losses are logistic ones of two classes."""
        return self.n_classes == 2 and not (self.has_kinks or self.by_rows)

    def on_span(self, rows: Rows, phi: Array) -> Problem:
        """Return the part of the problem that rows with these columns are."""
        margins, loss = rows.state("margins and losses", self, lambda: self._of_rows(rows))
        design = DenseDesign(phi, self.fit_intercept)
        return Problem(design, margins, loss, rows.weight, self.penalty)

    def _of_rows(self, rows: Rows) -> tuple[Margins, TruncatedLogistic]:
        problem = self.problem(replace(rows, X=rows.weight[:, None]))
        return problem.margins, problem.loss


@dataclass(frozen=True)
class Multipliers:
    """Multipliers of rows where the slopes of their losses do not tell them: near the kink."""

    values: Array
    numbers: Array | None = None  # of the rows, ascending; None is every row

    def put(self, slope: Array, first: int) -> Array:
        """Replace the slopes of some of consecutive rows from ``first`` on."""
        if self.numbers is None:
            return self.values
        if self.numbers.shape[0] == 0:
            return slope
        xp = array_namespace(slope)
        rows = first + xp.arange(slope.shape[0], dtype=xp.int64, device=device(slope))
        place = xp.searchsorted(self.numbers, rows)
        place = xp.clip(place, max=self.numbers.shape[0] - 1)
        own = xp.take(self.values, place)
        return xp.where(xp.take(self.numbers, place) == rows, own, slope)


class Minimum(NamedTuple):
    """The optimum on a span, where losses have kinks."""

    coef: Array
    multipliers: Multipliers
    certificate: Certificate
    work: float  # readings that would have taken as long


def minimise_with_kinks(
    spanned: Spanned, criterion: Criterion, start: Array, above: float = inf
) -> Minimum:
    """Minimise over the functions of a span, as long as the minimum may be below ``above``."""

    def hopeless(record: Record) -> bool:
        return record.objective * (1.0 - record.gap) > above

    options: dict[str, Any] = {"tol": _WITH_KINKS, "max_iter": _MOST_WITH_KINKS}
    options |= {"start": start, "callback": hopeless}
    rows = spanned.labelled.held
    if rows is not None and is_numpy_array(rows.weight):
        problem = criterion.on_span(rows, spanned.span.columns(rows))
        solution = minimise_problem(problem, "auto" if above == inf else "primal", **options)
        return _minimum(solution, Multipliers(solution.multipliers), _HELD_STEP)
    linear = spanned.linear()
    solution = minimise_streamed(linear, criterion, **options)
    if linear.held is not None:
        return _minimum(solution, Multipliers(solution.multipliers))
    exact, values = solution.streamed.held, solution.streamed.near
    if exact is None or values is None:
        xp, place = array_namespace(solution.coef), device(solution.coef)
        values = xp.zeros(0, dtype=xp.float64, device=place)
        return _minimum(solution, Multipliers(values, xp.astype(values, xp.int64)))
    parts = linear.reduce(_Near(criterion, exact))["numbers"]
    return _minimum(solution, Multipliers(values, array_namespace(values).concat(parts)))


def _minimum(solution: Solution, multipliers: Multipliers, each: float = _STREAMED_STEP) -> Minimum:
    return Minimum(solution.coef, multipliers, solution.certificate, each * solution.n_iter)


def gap_without_kinks(spanned: Spanned, criterion: Criterion, coef: Array) -> float:
    """Relative duality gap of coefficients among all functions of a span."""
    if not coef.shape[1]:
        return 0.0
    rows = spanned.labelled.held
    if rows is None:
        # no step at all: where there are no kinks this is the certificate of the start
        options: dict[str, Any] = {"tol": _WITH_KINKS, "max_iter": 0, "start": coef}
        return minimise_streamed(spanned.linear(), criterion, **options).certificate.relative
    problem = criterion.on_span(rows, spanned.span.columns(rows))
    scores = problem.design.scores(coef)
    slope = problem.loss.slope(problem.margins.margin(scores))
    return certify(problem, coef, scores, slope).relative


@dataclass(frozen=True)
class _Near:
    """Numbers of the rows that a solve held."""

    criterion: Criterion
    held: Held

    def __call__(self, rows: Rows) -> Sums:
        near = near_kink(self.criterion.problem(rows), self.held)
        return {"numbers": [rows.first + array_namespace(near).nonzero(near)[0]]}
