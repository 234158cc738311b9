r"""Newton's method on the kernel matrix itself, for devices that factorise large matrices fast.

The kink of the truncated loss is rounded off on a width :math:`\mu`: its slope rises linearly from
0 at :math:`F - \mu/2`. A Newton step then is one system in the rows whose slope can change, the
*band* around the kink and the logarithmic rows; saturated rows drop out. With the model
:math:`w(c + \omega u)` of the slopes, :math:`\lambda a = y\,w\,(c + \omega u)` and
:math:`u = -y(Ka + b)`,

.. math:: (\lambda I + D K D) v = D (y c/\omega - b), \qquad a = D v, \quad D = \sqrt{w\omega},

whose right-hand side knows nothing of where a row of the band is now: only to which part it
belongs. So when the width shrinks, the parts are kept, and one step leads to where the multipliers,
which hardly change, put every row. The width goes down until the certificate is good enough: the
gap is a fraction of it. By then the logarithmic rows far from the kink hardly move; they are
factorised once for many steps, each of which is a small system of the rows near it. (Starting from
the solution of a part of the rows does not help: with a kernel the others have too much to say of
their own.)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf
from typing import Any, NamedTuple

from grayzone.numerics.losses import sigmoid, softplus
from grayzone.numerics.margins import SignedMargin
from grayzone.numerics.namespace import array_namespace
from grayzone.solvers.certificate import State, certify_duals
from grayzone.solvers.kernel.device_design import DeviceKernelDesign
from grayzone.solvers.kernel.device_matrix import check_memory
from grayzone.solvers.kernel.systems import Bordered, Factor, SlopeModel
from grayzone.solvers.problem import Problem

Array = Any

_FIRST_WIDTH, _NARROWER = 2.0, 0.4  # of the rounded kink, and the first factor to the next
_MUCH_NARROWER, _HARDLY = 0.03, 0.8  # least factor, and the one that is hardly worth a width
_AHEAD = 0.1  # gap, in widths of the kink, at which the kink gets narrower
_PATIENCE = 30  # steps without progress
_REACH = 0.75  # widths around the kink within which rows are taken to change their part
_SEARCHES, _SEARCHED = 30, 0.01  # evaluations along a step, and the slope that is left there


class _Parts(NamedTuple):
    """Which rows are in the band around the kink, and which are logarithmic."""

    band: Array
    log: Array


class _Point(NamedTuple):
    """Coefficients of the kernel functions, intercept, and the scores of all rows."""

    coef: Array
    intercept: Array
    scores: Array


class _Rounded:
    """The truncated loss with its kink rounded off on a width; 0 leaves it as it is."""

    def __init__(self, floor: Array, width: float) -> None:
        xp = array_namespace(floor)
        self.bounded = xp.isfinite(floor)
        floor = xp.where(self.bounded, floor, 0.0)
        self.width = width
        self.low, self.high = floor - 0.5 * width, floor + 0.5 * width
        self.top = sigmoid(self.high)

    def parts(self, u: Array) -> _Parts:
        """Parts that margins fall into."""
        above = ~self.bounded | (u > self.high)
        return _Parts(self.bounded & ~above & (u > self.low), above)

    def near(self, u: Array, reach: float) -> Array:
        """Rows within so many widths of the kink."""
        xp = array_namespace(u)
        return self.bounded & (xp.abs(u - 0.5 * (self.low + self.high)) <= reach * self.width)

    def value(self, u: Array) -> Array:
        """Loss of each margin."""
        xp = array_namespace(u)
        parts = self.parts(u)
        inside = xp.clip(u - self.low, min=0.0) / max(self.width, 1e-300)
        inside = xp.clip(inside, max=1.0)
        bent = softplus(self.high) - 0.5 * self.width * self.top * (1.0 - inside * inside)
        return xp.where(parts.log, softplus(u), bent)

    def slope(self, u: Array) -> Array:
        """Derivative."""
        xp = array_namespace(u)
        parts = self.parts(u)
        bent = self.top * (u - self.low) / max(self.width, 1e-300)
        return xp.where(parts.log, sigmoid(u), xp.where(parts.band, bent, 0.0))

    def model(self, u: Array, parts: _Parts) -> tuple[Array, Array]:
        """Slope c + omega u of each row: that of its part, tangent where it is logarithmic."""
        xp = array_namespace(u)
        at = xp.where(self.bounded, xp.maximum(u, self.high), u)
        e = xp.exp(-xp.abs(at))
        bend = e / (1.0 + e) ** 2
        steep = self.top / max(self.width, 1e-300)
        omega = xp.where(parts.log, bend, xp.where(parts.band, steep, 0.0))
        rise = xp.where(parts.log, sigmoid(at) - bend * at, -steep * self.low)
        return xp.where(parts.band | parts.log, rise, 0.0), omega


@dataclass
class _Kink:
    """Width on which the kink is rounded off, and by how much the next one is narrower.

    The multipliers of a width predict those of the next, the better the nearer it is. A prediction
    that fails is made for a width half way; one that needs no correction is made bolder.
    """

    width: float
    factor: float = _NARROWER
    before: float = 0.0
    steps: int = 0

    def narrows(self, gap: float) -> bool:
        """Go to the next width where the gap is small enough for this one."""
        self.steps += 1
        if not gap <= _AHEAD * self.width:
            return False
        if self.steps == 1:
            self.factor = max(self.factor**2, _MUCH_NARROWER)
        self.before, self.steps = self.width, 0
        self.width *= self.factor
        return True

    def retreats(self) -> bool:
        """Go half way back; false where that is hardly narrower than the width before."""
        self.factor = self.factor**0.5
        self.width = self.before * self.factor
        return self.factor < _HARDLY


class KernelNewton:
    """The strategy, for kernels and two classes on a device that holds all rows."""

    def init(self, problem: Problem, start: Array | None) -> State:
        """Start from the class priors, whatever coefficients there are."""
        design = problem.design
        assert isinstance(design, DeviceKernelDesign)
        check_memory(design.n_rows, problem.weight)
        design.values.check_definite()
        newton = _Newton(problem, design)
        return replace(newton.state, memory=newton)

    def step(self, problem: Problem, state: State, tol: float) -> State:
        """Do one Newton step."""
        newton: _Newton = state.memory
        return newton.advance()


def spanned_state(
    problem: Problem, design: DeviceKernelDesign, coef: Array, intercept: Array
) -> State:
    """State of the function that the duals span which coefficients (n,) are, certified."""
    assert isinstance(problem.margins, SignedMargin)
    xp, w, y = array_namespace(coef), problem.weight, problem.margins.y
    a = problem.penalty * y * coef / xp.where(w > 0, w, 1.0)
    duals = problem.margins.pull(a[:, None], xp.clip(a, min=0.0, max=1.0))
    if design.fit_intercept:
        scale = problem.margins.scaling(problem.margins.flow(duals, w))
        duals = problem.margins.scaled(duals, scale)
    a = -y * duals[:, 0]
    spans = (y * w * a / problem.penalty)[None, :]
    scores = design.function(spans[0, :])[:, None] + intercept
    if design.fit_intercept:
        spans = xp.concat([spans, xp.reshape(intercept, (1, 1))], axis=1)
    u = problem.margins.margin(scores)
    certificate = certify_duals(problem, spans, scores, duals, u=u, spanned=True)
    return State(spans, scores, u, a, certificate=certificate)


class _Newton:
    """One fit: Newton steps for ever narrower kinks, each of them certified.

    Its own state does not know of it: a cycle would keep matrices on the device for a while.
    """

    def __init__(self, problem: Problem, design: DeviceKernelDesign) -> None:
        assert isinstance(problem.margins, SignedMargin)
        self.problem, self.design, self.y = problem, design, problem.margins.y
        self.floor, self.weight = problem.loss.floor, problem.weight
        self.factor: Factor | Bordered | None = None
        self.xp = array_namespace(self.y)
        self.has_kinks = bool(self.xp.any(self.xp.isfinite(self.floor)))
        self.kink = _Kink(_FIRST_WIDTH if self.has_kinks else 0.0)
        self.loss = _Rounded(self.floor, self.kink.width)
        self.parts: _Parts | None = None  # those of a wider kink, right after it got narrower
        self.least, self.idle = inf, 0
        self.point = self._prior()
        self.state = self._certified()
        self.gap = self._gap(self.state)  # the smallest one so far

    def _prior(self) -> _Point:
        xp, zeros = self.xp, self.xp.zeros_like(self.y)
        intercept = xp.zeros_like(self.y[0])
        if self.design.fit_intercept:
            up = xp.sum(xp.where(self.y > 0, self.weight, 0.0))
            intercept = xp.log(up / xp.sum(xp.where(self.y > 0, 0.0, self.weight)))
        return _Point(zeros, intercept, zeros + intercept)

    @staticmethod
    def _gap(state: State) -> float:
        assert state.certificate is not None
        return state.certificate.relative

    def _certified(self) -> State:
        return spanned_state(self.problem, self.design, self.point.coef, self.point.intercept)

    def advance(self) -> State:
        """Step, and narrow the kink where the gap is small enough for it."""
        after = self._step(self.point, self.loss, self.parts)
        if after is None:
            self.parts = self.parts if self.kink.retreats() else None
            self.loss = _Rounded(self.floor, self.kink.width)
            return replace(self.state, settled=False, memory=self)
        self.point = after
        self.state = self._certified()
        gap, value = self._gap(self.state), self._value(after, self.loss)
        self.idle = 0 if gap < self.gap or value < self.least else self.idle + 1
        self.least, self.gap = min(value, self.least), min(gap, self.gap)
        self.parts = None
        if self.has_kinks and self.kink.narrows(gap):
            self.parts = self.loss.parts(-self.y * after.scores)
            self.loss, self.least = _Rounded(self.floor, self.kink.width), inf
        return replace(self.state, stalled=self.idle > _PATIENCE, memory=self)

    def _step(self, point: _Point, loss: _Rounded, parts: _Parts | None) -> _Point | None:
        """Go to the solution of the model, or part of the way.

        Right after the kink got narrower the parts are still those of the wider one: None where
        these do not lead down.
        """
        if parts is not None:
            trial = self._solved(point, loss, parts)
            lower = self._value(trial, loss) < self._value(point, loss)
            return trial if lower else None
        trial = self._solved(point, loss, loss.parts(-self.y * point.scores))
        return self._searched(point, trial, loss)

    def _solved(self, point: _Point, loss: _Rounded, parts: _Parts) -> _Point:
        """Solution of the model of these parts."""
        xp = self.xp
        rise, omega = loss.model(-self.y * point.scores, parts)
        model = SlopeModel(self.y * rise, self.weight * omega, omega)
        if self.has_kinks:
            solved = self._with_border(point, model, loss, parts.log)
        else:
            solved = self._with_help(point, model)
        coef, per_intercept = solved[:, 0], solved[:, 1]
        intercept = xp.zeros_like(self.y[0])
        if self.design.fit_intercept:
            # where all rows are saturated nothing says where the intercept should be
            held = xp.sum(per_intercept)
            free = xp.sum(coef) / xp.where(held > 0, held, 1.0)
            intercept = xp.where(held > 0, free, point.intercept)
            coef = coef - intercept * per_intercept
        return _Point(coef, intercept, self.design.function(coef) + intercept)

    def _with_help(self, point: _Point, model: SlopeModel) -> Array:
        """Solve with the help of an earlier factor, where it is near enough."""
        if isinstance(self.factor, Factor) and self.factor.serves(model):
            solved = self.factor.improved(model, point.coef, point.intercept)
            if solved is not None:
                return solved
        return self._factorised(model)

    def _factorised(self, model: SlopeModel) -> Array:
        self.factor = None  # first, for there may be room for one only
        self.factor = Factor(
            self.design.values, self.problem.penalty, model, often=not self.has_kinks
        )
        return self.factor.solved(model)

    def _with_border(self, point: _Point, model: SlopeModel, loss: _Rounded, log: Array) -> Array:
        """Solve exactly, as narrow bands need, with one factor of the rows far from the kink."""
        if isinstance(self.factor, Bordered) and self.factor.serves(model, log):
            return self.factor.solved(model, point.scores)
        near = loss.near(-self.y * point.scores, _REACH)
        core = log & ~near & model.used
        border = (near | model.used) & ~core
        if not Bordered.pays(self.design.values, core, border):
            return self._factorised(model)
        self.factor = None
        self.factor = Bordered(self.design.values, self.problem.penalty, model, core, border)
        return self.factor.solved(model, point.scores)

    def _value(self, point: _Point, loss: _Rounded) -> float:
        u = -self.y * point.scores
        norm = self.xp.sum(point.coef * (point.scores - point.intercept))
        fit = self.xp.sum(self.weight * loss.value(u))
        return float(fit + 0.5 * self.problem.penalty * norm)

    def _searched(self, point: _Point, trial: _Point, loss: _Rounded) -> _Point:
        """Go to the least value on the way to the trial: a search costs next to nothing here."""
        xp = self.xp
        change = _Point(*(b - a for a, b in zip(point, trial, strict=True)))
        w = self.y * self.weight
        norm = change.scores - change.intercept
        linear = self.problem.penalty * float(xp.sum(point.coef * norm))
        square = self.problem.penalty * float(xp.sum(change.coef * norm))

        def slope(t: float) -> float:
            u = -self.y * (point.scores + t * change.scores)
            return linear + t * square - float(xp.sum(w * loss.slope(u) * change.scores))

        t = _least(slope)
        return _Point(*(a + t * d for a, d in zip(point, change, strict=True)))


def _least(slope: Callable[[float], float]) -> float:
    """Place in (0, 1] where the slope of a convex function changes its sign, else 1."""
    low, high, at_low, at_high = 0.0, 1.0, slope(0.0), slope(1.0)
    if not at_high > 0.0 or not at_low < 0.0:
        return 1.0
    first = abs(at_low)
    for _ in range(_SEARCHES):
        # regula falsi, of the kind that halves the value at the end that stays
        t = low + (high - low) * at_low / (at_low - at_high)
        here = slope(t)
        if abs(here) <= _SEARCHED * first:
            return t
        if here < 0:
            low, at_low, at_high = t, here, 0.5 * at_high
        else:
            high, at_high, at_low = t, here, 0.5 * at_low
    return t
