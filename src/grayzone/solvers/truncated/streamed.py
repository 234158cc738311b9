r"""Decomposed Newton on rows that are seen a block at a time, wherever they are.

The method of :mod:`grayzone.solvers.truncated.decomposed` with one difference: nothing of the size
of the rows is kept. What is known are the coefficients; each outer step reads the rows once and
asks for sums: the loss, the weighted Gram matrix and the gradient of the rows that are far from the
kink, and the few rows near it themselves, which an interior point then treats exactly. While these
would be too many to hold, the kink is rounded off on the width of the band instead. Where the step
went, how far margins moved and how wide the next band has to be is read off a sample.

The certificate is the same, too: multipliers of rows that were not held are the slopes of their
losses, and their terms are sums over blocks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import inf, isfinite
from typing import Any

import numpy as np
from array_api_compat import device

from grayzone.numerics.centred_design import CentredDesign
from grayzone.numerics.losses import SmoothedLogistic
from grayzone.numerics.namespace import array_namespace
from grayzone.solvers.certificate import Certified, Terms, closed, terms_of
from grayzone.solvers.problem import Problem
from grayzone.solvers.truncated.conjugate import start_from_rounded
from grayzone.solvers.truncated.decomposed import read_off
from grayzone.solvers.truncated.interior_point import Quadratic, interior_point, smooth_newton
from grayzone.solvers.truncated.readings import Distance, Held, Reading, StreamedMultipliers
from grayzone.solvers.truncated.spec import TruncatedSpec
from grayzone.solvers.truncated.streamed_model import (
    FIRST_HELD,
    LAST_INNER,
    NEARLY,
    Model,
    Step,
    gained,
    quantile,
)
from grayzone.sources.gather import Gathered, draw_sample, gather
from grayzone.sources.labelled import Labelled
from grayzone.sources.source import Sums

Array = Any

# Entries of the rows that may be brought together at a time: 32 MB of double precision.
MOST_HELD = 2**22
# Rows up to which all losses are better treated exactly at once than by a sample and a band.
EXACT_ROWS = 4000

# The same of features that kernels make of rows; of such rows the sample has so many a feature.
_MOST_MAPPED, _SAMPLE = 2**20, 40
_ROOM = 2**30  # entries of such features that may be together, 8 GB: of many centres

_WIDTH = 0.1  # of the rounded kinks in the sample
_ENOUGH = 0.3  # decrease promised by the last step on the sample, per coefficient
_NEAR_SHARE, _FIRST_BAND = 0.02, 1e-3  # rows in the first band, and its least width
_REACH = 0.5  # half-width of the next band, as a share of how far rows near the kink moved
_LEAST_NEAR = 40  # rows in a band, for each coefficient
_LEAST_MAPPED = 1  # the same, of features
_HINGED = 1.35  # rows in a band, for each that the last step left on the kink
_DENSITY = 0.01  # share of rows that tells how dense they are around the kink
_WORTH_CERTIFYING = 100.0  # last decrease, in units of the tolerance, that may be the last
_WORTH_MAPPED = 1e-4  # the same of features, relative to the objective
_HOPELESS = 2.0  # part of a gap, in units of the tolerance, that makes it not worth computing
_BALANCED = 1e-13  # distance of factors from one that is nothing but rounding
_HALVINGS, _FEW_HALVINGS = 30, 4  # of a step; few where another model would do better
_MUCH_LOWER, _DOUBLINGS = 0.5, 30  # value that makes a step worth twice its length, and how often
_ROUGH = 0.1  # decrease promised, per coefficient, up to which kinks of mapped rows are rounded off
_LENGTHS = (1.0, 0.7, 0.5, 0.35, 0.2, 0.1, 0.03, 0.01)  # lengths that are looked at
_CROWDED, _MANY = 0.1, 20  # share of a band that can be held, and rows in those that can
_OFF = 1e-3  # share of a slope that is no multiplier of a row on the kink
_NARROWEST = 1e-9  # width of kinks that are rounded off
_PATIENCE = 3  # steps without progress
_NOTHING = 1e-25  # loss of a row that leaves nothing to gain


@dataclass(frozen=True)
class StreamedProblem:
    """Criterion (8) on rows that are reached by sums only."""

    labelled: Labelled
    spec: TruncatedSpec

    @property
    def penalty(self) -> float:
        """The penalty lambda."""
        return self.spec.penalty

    @property
    def mass(self) -> float:
        """Weight of all rows."""
        return float(self.labelled.mass.sum())

    @property
    def most(self) -> int:
        """Rows that may be brought together at a time."""
        if self.spec.features is not None:
            # a coarse Hessian of all rows is cheaper than an exact one of many, and systems of no
            # more rows than coefficients are solved by rows
            most = max(_MOST_MAPPED, self.n_slopes * self.n_slopes)
            return min(most, _ROOM) // self.n_slopes
        return max(1, MOST_HELD // max(1, self.n_slopes))

    def worth_certifying(self, tol: float) -> float:
        """Decrease, relative to the objective, after which a certificate is tried."""
        worth = _WORTH_CERTIFYING * tol
        # a Hessian of features is far dearer than to look at forces
        return worth if self.spec.features is None else max(worth, _WORTH_MAPPED)

    @property
    def n_slopes(self) -> int:
        """Coefficients of a score, the intercept left out."""
        return self.spec.n_slopes(self.labelled.n_features)

    @cached_property
    def rounded_first(self) -> bool:
        """Whether features of rows with a kink are at hand, so that its rounding off is cheap."""
        spec, n_rows = self.spec, self.labelled.n_rows
        if n_rows <= min(self.most, EXACT_ROWS) or not spec.has_kinks or spec.n_outputs > 1:
            return False
        return spec.features is not None and self.labelled.held is not None

    @cached_property
    def sample(self) -> Problem | None:
        """Rows that stand for all; None where these are so few that they are treated exactly."""
        n_rows = self.labelled.n_rows
        if n_rows <= min(self.most, EXACT_ROWS):
            return None
        if self.rounded_first:
            assert self.labelled.held is not None
            whole = self.spec.problem(self.labelled.held)
            if isinstance(whole.design, CentredDesign) and whole.design.kept is not None:
                return whole  # a look at all of them costs next to nothing
        size = min(self.most // 2, max(EXACT_ROWS, n_rows // 5))
        if self.spec.features is not None:
            size = min(n_rows // 5, max(EXACT_ROWS, _SAMPLE * self.n_slopes))
            size = min(size, _ROOM // self.n_slopes)
        return self.spec.problem(draw_sample(self.labelled, size).rows)

    def ridge(self, coef: Array) -> Array:
        """Diagonal (Q, p) of the penalty's Hessian."""
        mask = array_namespace(coef).zeros_like(coef)
        mask[:, : self.n_slopes] = self.penalty
        return mask

    def shrinkage(self, coef: Array) -> Array:
        """Gradient of the penalty."""
        return self.ridge(coef) * coef

    def square(self, coef: Array) -> float:
        """Squared norm of a function, its intercept left out."""
        slopes = coef[:, : self.n_slopes]
        return float(array_namespace(coef).sum(slopes * slopes))

    def read(
        self, coef: Array, band: float, held: Held | None, gathers: bool, bends: bool = True
    ) -> StreamedState:
        """Read the rows at new coefficients; without their Hessian where it may not be needed."""
        sums = self.labelled.reduce(Reading(self.spec, coef, band, gathers, held, bends))
        return StreamedState(
            coef, band, sums["loss"] + 0.5 * self.penalty * self.square(coef), sums
        )

    def value(self, coef: Array) -> float:
        """Criterion (8) at coefficients."""
        return self.read(coef, 0.0, None, gathers=False, bends=False).value

    def gathered(self, parts: list[Gathered]) -> Gathered:
        """Rows that a reading brought along, put together."""
        return gather(parts, self.labelled.like, self.labelled.n_features)

    def distances(self, coef: Array) -> Array:
        """Distances of the sample from the kink; infinite where there is none."""
        assert self.sample is not None
        u = self.sample.margins.margin(self.sample.design.scores(coef))
        return u - self.sample.loss.floor

    def widest(self, distance: Array) -> float:
        """Band that holds as many rows as can be held, by the sample's distances."""
        return quantile(distance, min(1.0, 0.9 * self.most / self.labelled.n_rows))


@dataclass(frozen=True)
class StreamedState:
    """Coefficients, what a reading of the rows there has found, and the step that led to them."""

    coef: Array
    band: float
    value: float
    sums: Sums
    decrease: float = inf
    step: Step | None = None  # only where it was taken whole
    exact: bool = False  # whether all rows were treated exactly
    idle: int = 0  # steps since the objective last fell by more than rounding
    settled: bool = False
    stalled: bool = False

    def certified(self, problem: StreamedProblem, tol: float, last: bool) -> Certified | None:
        """Certify by the multipliers read off and, if that is not enough, by those of the step.

        None where the force on the slopes, which is known without a reading, is too large already.
        """
        choices, best = [self._read_off(problem)], None
        if self.step is not None and self.step.near is not None and problem.spec.has_kinks:
            choices.append(self.step.multipliers)
        for multipliers in choices:
            if not (self.exact or last) and self._force(problem, multipliers) > _HOPELESS * tol:
                continue
            found = self._certificate(problem, multipliers)
            better = best is None or found.certificate.gap < best.certificate.gap
            best = found if better else best
            if best is not None and best.certificate.relative <= tol:
                break
        return best

    def _read_off(self, problem: StreamedProblem) -> Array | None:
        if self.step is None or self.step.near is None:
            return None
        near = self.step.near
        u = near.margins.margin(near.design.scores(self.coef))
        if not problem.spec.has_kinks:
            return near.loss.slope(u)
        return read_off(near, u, self.step.multipliers)

    def _force(self, problem: StreamedProblem, multipliers: Array | None) -> float:
        """Part of the relative gap that is due to the slopes, before classes are balanced."""
        pull, near = self.sums["rest"], None if self.step is None else self.step.near
        if near is not None:
            duals = near.margins.pull(near.design.scores(self.coef), multipliers)
            pull = pull + near.design.gradient(near.weight[:, None] * duals)
        found = closed(problem, self.coef, self.value, Terms(0.0, pull))
        return found.relative

    def _certificate(self, problem: StreamedProblem, multipliers: Array | None) -> Certified:
        """Certificate from the terms of the rows that were held and of all others."""
        held = None if self.step is None else self.step.held
        near = None if self.step is None else self.step.near
        flow, scores, duals = self.sums["flow"], None, None
        if near is not None:
            scores = near.design.scores(self.coef)
            duals = near.margins.pull(scores, multipliers)
            flow = flow + near.margins.flow(duals, near.weight)
        scale = _scaling(problem.spec, flow)
        # what is not scaled has the slopes of the losses for multipliers, and no distance
        distance, pull = 0.0, self.sums["rest"]
        if scale is not None:
            sums = problem.labelled.reduce(Distance(problem.spec, self.coef, held, scale))
            distance, pull = sums["distance"], sums["pull"]
        if near is not None:
            duals = duals if scale is None else near.margins.scaled(duals, scale)
            own = terms_of(near, scores, duals)
            distance, pull = distance + own.distance, pull + own.pull
        found = closed(problem, self.coef, self.value, Terms(distance, pull))
        streamed = StreamedMultipliers(self.coef, held, multipliers, scale)
        return Certified(self.coef, found, self.sums["n_far"], streamed=streamed)


def _scaling(spec: TruncatedSpec, flow: Array) -> Array | None:
    """Factors that balance the classes; None where they are ones but for rounding."""
    if not spec.fit_intercept:
        return None
    scale = spec.kind.scaling(flow)
    xp = array_namespace(scale)
    off = float(xp.max(xp.where(flow > 0, xp.abs(scale - 1.0), 0.0)))
    return scale if off > _BALANCED else None


class Streamed:
    """The strategy, for linear functions of rows that are reached by sums."""

    def init(self, problem: StreamedProblem, start: Array | None) -> StreamedState:
        """Start from given coefficients, from those of a sample, or from the class priors."""
        if problem.rounded_first:
            return _rounded_start(problem, start)
        coef = _start(problem) if start is None else start
        band = _first_band(problem, coef)
        if problem.spec.features is not None and isfinite(band):
            return _read(problem, coef, max(band, _WIDTH), None, rounds=True)
        return _read(problem, coef, band, None)

    def step(self, problem: StreamedProblem, state: StreamedState, tol: float) -> StreamedState:
        """Do one outer step: one reading of the rows where all goes well."""
        if not isfinite(state.value):
            raise FloatingPointError
        if "hessian" not in state.sums:
            here = _read(problem, state.coef, state.band, None)
            state = replace(here, decrease=state.decrease, idle=state.idle)
        step = Model(problem, state, tol).step()
        # a model that promises a rise has got out of hand; one at the optimum promises nothing
        credible = step.promised > -1e-9 * abs(state.value)
        after = _moved(problem, state, step, tol) if credible else None
        if after is None and _may_round(problem, state):
            # near rows that are too few, or kinks that are rounded off too widely
            rounded = "rounded_hessian" in state.sums
            band = 0.1 * state.band if rounded else state.band
            return _read(problem, state.coef, band, None, rounds=True)
        if after is None:
            # where nothing is left to gain, what the step found are better multipliers
            here = _read(problem, state.coef, state.band, step.held)
            return replace(here, step=step, decrease=0.0, stalled=True)
        idle = state.idle + 1 if after.decrease <= 1e-13 * after.value else 0
        exact = after.step is not None and problem.sample is None
        worth = after.decrease <= problem.worth_certifying(tol) * after.value
        nothing = after.value <= _NOTHING * problem.mass
        stalled = idle > _PATIENCE or nothing
        return replace(after, idle=idle, exact=exact, settled=exact or worth, stalled=stalled)


# ----------------------------------------------------------------------------------------------
# Start, band
# ----------------------------------------------------------------------------------------------


def _start(problem: StreamedProblem) -> Array:
    """Solution on the sample, to within what a sample can say; or the class priors."""
    spec, labelled, sample = problem.spec, problem.labelled, problem.sample
    mass = labelled.mass * labelled.factors
    coef = spec.prior_coef(mass, problem.n_slopes, labelled.like)
    if sample is None:
        return coef
    share = labelled.n_rows / sample.design.n_rows
    smooth = replace(sample, loss=SmoothedLogistic(sample.loss, _WIDTH))
    penalty = Quadratic(_diagonal(sample.ridge()), sample.shrinkage(coef))
    tol = _ENOUGH * share * spec.n_outputs * sample.design.n_coef
    inner = smooth_newton(smooth, penalty, sample.design.scores(coef), tol=tol)
    if not inner.converged and spec.has_kinks and spec.is_uniform:
        # at the priors of rare classes hardly a row has any curvature
        coef = 0.0 * coef
        scores = sample.design.scores(coef)
        inner = interior_point(sample, penalty._replace(gradient=coef), scores, tol=tol)
    return coef + inner.change


def _rounded_start(problem: StreamedProblem, start: Array | None) -> StreamedState:
    """State at a fit with rounded kinks, and with as many rows around them as can be held."""
    assert problem.labelled.held is not None
    coef = start_from_rounded(problem.spec.problem(problem.labelled.held), start)
    share = FIRST_HELD * problem.most / problem.labelled.n_rows
    band = quantile(_finite(abs(problem.distances(coef))), min(1.0, share))
    return _read(problem, coef, max(band, _NARROWEST), None)


def _first_band(problem: StreamedProblem, coef: Array) -> float:
    """Half-width of the first band: all rows where they are few, else a small share."""
    if not problem.spec.has_kinks:
        return 0.0
    if problem.sample is None:
        return inf
    distance = _finite(abs(problem.distances(coef)))
    # at an earlier optimum rows lie on the kink itself, and others soon will
    return max(quantile(distance, _NEAR_SHARE), min(_FIRST_BAND, problem.widest(distance)))


def _next_band(problem: StreamedProblem, state: StreamedState, step: Step, whole: bool) -> float:
    """Half-width for the next reading, by how far the step would move rows near the kink.

    They move much less in the next step than in this one, unless this one had to be cut short.
    The band holds some rows in any case: that costs little, and they may cross the kink.
    """
    if not problem.spec.has_kinks or problem.sample is None:
        return state.band
    xp, n_rows = array_namespace(state.coef), problem.labelled.n_rows
    was, now = problem.distances(state.coef), problem.distances(state.coef + step.change)
    bounded = xp.isfinite(now)
    distance, moved = xp.abs(was[bounded]), xp.abs(now[bounded] - was[bounded])
    if problem.rounded_first:
        return _hinged_band(problem, xp.abs(now[bounded]), step)
    reach = quantile(moved[distance <= quantile(distance, 0.2)], 0.99)
    widest = problem.widest(distance)
    if not whole:
        # no more rows than can be held
        return max(state.band, min(2.0 * reach, widest))
    each = _LEAST_NEAR if problem.spec.features is None else _LEAST_MAPPED
    some = min(1.0, each * problem.sample.design.n_coef / n_rows)
    # so few rows that the sample has none of them: their density is that of some more
    least = some * quantile(distance, max(some, _DENSITY)) / max(some, _DENSITY)
    band = min(state.band, max(_REACH * reach, least))
    # from the second step on rows are better held than rounded off, unless they lie on the kink
    crowded = widest < _CROWDED * band or n_rows < _MANY * problem.most
    return band if crowded else min(band, widest)


def _hinged_band(problem: StreamedProblem, distance: Array, step: Step) -> float:
    """Half-width that holds the rows that a step left on the kink, and some more."""
    near, a, share = step.near, step.multipliers, 1.0
    if near is not None:
        xp, top = array_namespace(a), near.loss.slope_at_floor
        hinged = int(xp.count_nonzero((a > _OFF * top) & (a < (1.0 - _OFF) * top)))
        share = _HINGED * hinged / problem.labelled.n_rows
    return max(min(quantile(distance, share), problem.widest(distance)), _NARROWEST)


def _gathers(problem: StreamedProblem, coef: Array, band: float) -> bool:
    """Whether the rows of the band are few enough to be held."""
    if problem.sample is None:
        return True
    xp = array_namespace(coef)
    share = float(xp.mean(xp.astype(xp.abs(problem.distances(coef)) <= band, xp.float64)))
    return share * problem.labelled.n_rows <= problem.most


def _may_round(problem: StreamedProblem, state: StreamedState) -> bool:
    """Whether another step from here, with kinks rounded off otherwise, may do better."""
    return problem.spec.has_kinks and problem.sample is not None and state.band > _NARROWEST


# ----------------------------------------------------------------------------------------------
# Steps
# ----------------------------------------------------------------------------------------------


def _read(
    problem: StreamedProblem,
    coef: Array,
    band: float,
    held: Held | None,
    rounds: bool = False,
    bends: bool = True,
) -> StreamedState:
    gathers = problem.spec.has_kinks and not rounds and bends and _gathers(problem, coef, band)
    return problem.read(coef, band, held, gathers, bends)


def _moved(
    problem: StreamedProblem, state: StreamedState, step: Step, tol: float
) -> StreamedState | None:
    """Look where a step leads, and shorten it while the objective does not fall."""
    length = 1.0 if problem.spec.features is None else _best_length(problem, state, step)
    band = _next_band(problem, state, step, whole=length == 1.0)
    few = "rounded_hessian" in state.sums and step.promised < state.value
    rounds = _is_rough(problem, step)
    # a Hessian of features is dear, and not wanted where a certificate may be all that is left
    slack = LAST_INNER * tol if problem.rounded_first else 0.0
    last = step.promised <= problem.worth_certifying(tol) * state.value
    bends = problem.spec.features is None or rounds or not last
    for _ in range(_FEW_HALVINGS if few else _HALVINGS):
        coef = state.coef + length * step.change
        held = step.held if length == 1.0 else None
        after = _read(problem, coef, band, held, rounds, bends)
        if _fell(after.value, state.value, length * step.promised, slack):
            whole = step if length == 1.0 else None
            if whole is not None and after.value < _MUCH_LOWER * state.value:
                further = _further(problem, state.coef, step.change, after)
                after, whole = further, whole if further is after else None
            return replace(after, decrease=state.value - after.value, step=whole)
        if length == 1.0:
            band = _next_band(problem, state, step, whole=False)
        length *= _shorter(after.value, state.value, length * step.promised)
    return None


def _is_rough(problem: StreamedProblem, step: Step) -> bool:
    """Whether kinks of mapped rows are better rounded off for another step: that costs far less."""
    if problem.spec.features is None or problem.sample is None:
        return False
    return step.promised > _ROUGH * problem.sample.design.n_coef * problem.spec.n_outputs


def _best_length(problem: StreamedProblem, state: StreamedState, step: Step) -> float:
    """Length of a step, of some, that is best; the whole where it does nearly as well.

    A look at losses is cheap beside the Hessian that another reading would bring.
    """
    if _is_rounding(step.promised, state.value):
        return 1.0
    gains = gained(problem, state, step, _LENGTHS)
    best = int(np.argmax(gains))
    return 1.0 if gains[0] >= NEARLY * gains[best] else _LENGTHS[best]


def _further(
    problem: StreamedProblem, coef: Array, change: Array, after: StreamedState
) -> StreamedState:
    """Go on in the direction of a step while twice its length is much better.

    Where next to nothing holds the function back and all rows are told apart, losses fall
    exponentially: by their curvature a step gains a factor of e, however many it would take.
    """
    length = 2.0
    for _ in range(_DOUBLINGS):
        trial = _read(problem, coef + length * change, after.band, None)
        if not trial.value < _MUCH_LOWER * after.value:
            break
        after, length = trial, 2.0 * length
    return after


def _diagonal(values: Array) -> Array:
    xp = array_namespace(values)
    return xp.eye(values.shape[0], dtype=values.dtype, device=device(values)) * values[:, None]


def _fell(value: float, before: float, promised: float, slack: float = 0.0) -> bool:
    """Whether the objective fell by a fair share, or by all that rounding lets one see.

    ``slack`` is the accuracy of the step, relative to the objective.
    """
    if value <= before - 1e-4 * promised:
        return True
    return _is_rounding(promised, before) and value - before <= max(1e-13, slack) * abs(before)


def _is_rounding(promised: float, value: float) -> bool:
    """Whether a decrease drowns in the rounding of the objective."""
    return promised <= 1e-11 * abs(value)


def _shorter(value: float, before: float, promised: float) -> float:
    """Factor for a step that did not do, by the parabola through what is known."""
    bend = value - before + 2.0 * promised
    return min(0.5, max(promised / bend, 0.1)) if isfinite(bend) and bend > 0 else 0.1


def _finite(values: Array) -> Array:
    return values[array_namespace(values).isfinite(values)]
