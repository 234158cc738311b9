"""Losses in score space: the laws each of them obeys, in every array library."""

import array_api_strict
import numpy as np
import pytest
from every import every
from hypothesis import given
from hypothesis import strategies as st
from multinomial import Multinomial
from scipy.optimize import minimize, minimize_scalar
from scipy.special import expit, logsumexp

from grayzone.numerics.losses import (
    Logistic,
    Ramp,
    SmoothedLogistic,
    TruncatedLogistic,
    logit,
    sigmoid,
    softplus,
)
from grayzone.numerics.margins import (
    ReferenceMargin,
    SignedMargin,
    SoftmaxMargin,
    output_pairs,
)

FLOORS = [-np.inf, -700.0, -9.0, -1.0, -0.05, 0.0, 1.5, 30.0]

# One row of the table: the loss of these floors, half the width of its rounded kink (None where
# it is sharp), and whether it is convex.
LOSSES = {
    "truncated": (TruncatedLogistic, None, True),
    "logistic": (Logistic, None, True),
    "smoothed, wide": (lambda f: SmoothedLogistic(TruncatedLogistic(f), 1.0), 1.0, True),
    "smoothed, narrow": (lambda f: SmoothedLogistic(TruncatedLogistic(f), 0.05), 0.05, True),
    "ramp": (lambda f: Ramp(f, ceiling(f)), None, False),
}
CONVEX = [name for name, (_, _, convex) in LOSSES.items() if convex]

EXTREME = [-1e308, -700.0, -40.0, -1e-308, 0.0, 1e-308, 40.0, 700.0, 1e308]

# Cube root of the rounding unit: where the two errors of a central difference meet.
STEP = 6e-6


@pytest.fixture(params=["numpy", "strict"])
def xp(request):
    return {"numpy": np, "strict": array_api_strict}[request.param]


def host(array):
    return np.asarray(array)


def ceiling(floor):
    """Ceilings two above the floors, and at 2 where there is no floor."""
    finite = np.where(np.isfinite(host(floor)), host(floor), 0.0)
    return type_of(floor).asarray(finite + 2.0)


def type_of(array):
    return np if isinstance(array, np.ndarray) else array_api_strict


def margins(floor):
    """A grid of margins that has points on, just off and far from the kinks."""
    middle = floor if np.isfinite(floor) else 0.0
    around = np.array([0.0, 1e-3, 0.03, 0.2, 1.3, 1.9, 2.1])
    grid = np.linspace(-45.0, 45.0, 181) + 0.01
    return np.unique(np.concatenate([grid, middle + around, middle - around]))


def away_from_kinks(u, floor):
    """Margins whose central differences do not straddle a kink."""
    kinks = [floor, *host(ceiling(np.array([floor])))]
    return u[np.min([np.abs(u - k) for k in kinks], axis=0) > 2 * STEP]


def at(loss, method, xp, u, *rest):
    """Method of a loss of one floor at many margins."""
    return host(getattr(loss, method)(xp.asarray(u), *(xp.asarray(r) for r in rest)))


def built(name, floor, u, xp):
    return LOSSES[name][0](xp.asarray(np.full(len(u), floor)))


# ---------------------------------------------------------------------------------- elementary


@given(st.floats(-700.0, 700.0))
def test_softplus_and_sigmoid_keep_their_relative_accuracy(u):
    u = np.array([u])
    np.testing.assert_allclose(softplus(u), np.logaddexp(0.0, u), rtol=1e-15)
    np.testing.assert_allclose(sigmoid(u), expit(u), rtol=1e-15)
    np.testing.assert_allclose(sigmoid(u) + sigmoid(-u), 1.0, rtol=1e-15)


@given(st.floats(1e-300, 1.0 - 1e-15))
def test_logit_inverts_the_sigmoid(p):
    # p loses one unit in the last place of 1 - p, which the slope of the logit multiplies
    there = sigmoid(logit(np.array([p])))
    np.testing.assert_allclose(there, p, rtol=1e-13)


@every("u", EXTREME)
def test_elementary_functions_stay_finite(u, xp):
    u = xp.asarray([u])
    assert np.isfinite(host(softplus(u))).all()
    assert 0.0 <= float(sigmoid(u)[0]) <= 1.0


# --------------------------------------------------------------------------- laws over the table


@every("floor", FLOORS)
@pytest.mark.parametrize("name", LOSSES)
def test_slope_is_the_derivative_of_the_value(name, floor, xp):
    u = away_from_kinks(margins(floor), floor)
    loss = built(name, floor, u, xp)
    rise = at(loss, "value", xp, u + STEP) - at(loss, "value", xp, u - STEP)
    width = LOSSES[name][1] or 1.0
    # third derivatives are below 1 / width^2; the values round at their own size
    tolerance = STEP**2 / width**2 + 2e-16 * (1.0 + np.abs(u) + abs(max(floor, 0.0))) / STEP
    numeric = rise / (2.0 * STEP)
    assert np.all(np.abs(at(loss, "slope", xp, u) - numeric) <= tolerance)


@every("floor", FLOORS)
@pytest.mark.parametrize("name", LOSSES)
def test_curvature_is_the_derivative_of_the_slope(name, floor, xp):
    u = away_from_kinks(margins(floor), floor)
    loss = built(name, floor, u, xp)
    rise = at(loss, "slope", xp, u + STEP) - at(loss, "slope", xp, u - STEP)
    # the third derivative of a rounded kink jumps by 1.5 / width^2 where the rounding ends
    width = LOSSES[name][1]
    tolerance = STEP / width**2 if width else 1e-10
    assert np.all(np.abs(at(loss, "curvature", xp, u) - rise / (2.0 * STEP)) <= tolerance)


@every("floor", FLOORS)
@pytest.mark.parametrize("name", CONVEX)
def test_convex(name, floor, xp):
    u = margins(floor)
    loss = built(name, floor, u, xp)
    assert np.all(np.diff(at(loss, "slope", xp, u)) >= -1e-15)
    assert np.all(at(loss, "curvature", xp, u) >= 0.0)
    left, right = u[:-1], u[1:]
    short = built(name, floor, left, xp)
    chord = 0.5 * (at(short, "value", xp, left) + at(short, "value", xp, right))
    assert np.all(at(short, "value", xp, 0.5 * (left + right)) <= chord * (1.0 + 4e-16))


@every("floor", FLOORS)
@pytest.mark.parametrize("name", LOSSES)
def test_rising_and_never_negative(name, floor, xp):
    u = margins(floor)
    loss = built(name, floor, u, xp)
    values = at(loss, "value", xp, u)
    assert np.all(values >= 0.0)
    assert np.all(np.diff(values) >= 0.0)
    slopes = at(loss, "slope", xp, u)
    assert np.all((slopes >= 0.0) & (slopes <= 1.0))


@every("floor", FLOORS)
@pytest.mark.parametrize("name", LOSSES)
def test_finite_at_the_extremes(name, floor, xp):
    u = np.array(EXTREME)
    loss = built(name, floor, u, xp)
    for method in ("value", "slope", "curvature"):
        assert np.isfinite(at(loss, method, xp, u)).all()


def test_no_floor_is_the_logistic_loss(xp):
    u = xp.asarray(np.concatenate([margins(0.0), EXTREME]))
    a = sigmoid(-u)
    plain, truncated = Logistic(u), TruncatedLogistic(xp.full_like(u, -xp.inf))
    for method in ("value", "slope", "curvature"):
        np.testing.assert_array_equal(
            host(getattr(plain, method)(u)), host(getattr(truncated, method)(u))
        )
    np.testing.assert_allclose(host(plain.value(u)), np.logaddexp(0.0, host(u)), rtol=1e-15)
    np.testing.assert_array_equal(host(plain.conjugate(a)), host(truncated.conjugate(a)))
    np.testing.assert_array_equal(
        host(plain.fenchel_young(u, a)), host(truncated.fenchel_young(u, a))
    )


# -------------------------------------------------------------------------------- rounded kink


@every("width", [1.0, 0.1, 1e-3, 1e-9])
@every("floor", [-9.0, -1.0, 0.0, 1.5])
def test_smoothing_bounds_from_above_and_closes_in(width, floor, xp):
    u = np.concatenate([margins(floor), floor + width * np.linspace(-1.5, 1.5, 61)])
    exact = TruncatedLogistic(xp.asarray(np.full(len(u), floor)))
    smooth = SmoothedLogistic(exact, width)
    excess = at(smooth, "value", xp, u) - at(exact, "value", xp, u)
    # the rounded maximum exceeds max(0, t) by 3 width / 16 at most, and the loss has slopes below 1
    assert np.all(excess >= 0.0)
    assert np.all(excess <= 3.0 / 16.0 * width + 1e-15)
    off = np.abs(u - floor) > width
    for method in ("value", "slope", "curvature"):
        np.testing.assert_allclose(
            at(smooth, method, xp, u)[off], at(exact, method, xp, u)[off], rtol=1e-15
        )


@pytest.mark.parametrize("width", [1.0, 0.05])
@pytest.mark.parametrize("side", [-1.0, 1.0])
def test_smoothing_is_twice_continuously_differentiable(width, side, xp):
    floor, hair = -1.0, 1e-9
    edge = floor + side * width * np.array([1.0 - hair, 1.0 + hair])
    smooth = SmoothedLogistic(TruncatedLogistic(xp.asarray(np.full(2, floor))), width)
    for method in ("value", "slope", "curvature"):
        inside, outside = at(smooth, method, xp, edge)
        assert abs(inside - outside) <= 10.0 * hair / width


# ---------------------------------------------------------------------------------------- ramp


@every("floor", FLOORS)
def test_ramp_is_the_smaller_of_a_convex_loss_and_a_constant(floor, xp):
    u = np.concatenate([margins(floor), EXTREME])
    floors = xp.asarray(np.full(len(u), floor))
    ramp = Ramp(floors, ceiling(floors))
    top = host(softplus(ceiling(floors)))
    np.testing.assert_array_equal(
        at(ramp, "value", xp, u), np.minimum(at(ramp.convex, "value", xp, u), top)
    )
    beyond = at(ramp, "given_up", xp, u)
    np.testing.assert_array_equal(beyond, u > host(ceiling(floors)))
    for method in ("slope", "curvature"):
        expected = np.where(beyond, 0.0, at(ramp.convex, method, xp, u))
        np.testing.assert_array_equal(at(ramp, method, xp, u), expected)


# ------------------------------------------------------------------ conjugate and Fenchel-Young


def multipliers(floor):
    """Admissible multipliers: the ends, the end of the linear piece, and between."""
    s = float(expit(floor))
    inner = [1e-12, 1e-3, 0.3, 0.5, 0.9, 0.999]
    return np.unique([0.0, 0.5 * s, s, 0.5 * (1.0 + s), 1.0 - 1e-16, 1.0, *inner])


def reference(u, floor):
    return np.logaddexp(0.0, np.maximum(u, floor))


def smallest(function, low, high, corners):
    """Least value of a convex function: between the ends, or at a corner, where search is blunt."""
    found = minimize_scalar(function, bounds=(low, high), method="bounded")
    return min([found.fun, *(function(c) for c in corners if np.isfinite(c))])


@every("floor", FLOORS)
def test_conjugate_is_the_largest_linear_excess(floor, xp):
    a = multipliers(floor)
    found = at(built("truncated", floor, a, xp), "conjugate", xp, a)
    low, high = max(floor, -60.0) - 1.0, max(floor, 0.0) + 60.0
    for value, slope in zip(found, a, strict=True):
        best = smallest(
            lambda u, slope=slope: reference(u, floor) - slope * u, low, high, [low, floor, high]
        )
        assert value == pytest.approx(-best, rel=1e-14, abs=1e-9)


@every("floor", FLOORS)
@every("u", [-20.0, -1.0, 0.0, 0.7, 25.0])
def test_biconjugate_is_the_loss(floor, u, xp):
    loss = TruncatedLogistic(xp.asarray([floor]))
    best = smallest(
        lambda a: float(loss.conjugate(xp.asarray([a]))[0]) - a * u,
        0.0,
        1.0,
        [0.0, float(expit(floor)), float(expit(u)), 1.0],
    )
    assert -best == pytest.approx(reference(u, floor), rel=1e-14)


@every("floor", FLOORS)
def test_conjugate_is_infinite_outside_its_domain(floor, xp):
    a = np.array([-1e300, -1.0, -1e-300, np.nextafter(1.0, 2.0), 2.0, 1e300])
    assert np.all(np.isposinf(at(built("truncated", floor, a, xp), "conjugate", xp, a)))


@every("floor", FLOORS)
def test_fenchel_young_is_value_plus_conjugate_less_product(floor, xp):
    u, a = (g.ravel() for g in np.meshgrid(margins(floor), multipliers(floor)))
    loss = built("truncated", floor, u, xp)
    young = at(loss, "fenchel_young", xp, u, a)
    plain = at(loss, "value", xp, u) + at(loss, "conjugate", xp, a) - a * u
    # the difference rounds at the size of its terms
    size = 1.0 + np.abs(u) + (abs(floor) if np.isfinite(floor) else 0.0)
    assert np.all(np.abs(young - plain) <= 1e-14 * size)
    assert np.all(young >= 0.0)


@every("floor", FLOORS)
@every("a", [-0.5, 1.5])
def test_fenchel_young_is_infinite_outside_the_domain(floor, a, xp):
    # what is not a dual point must not certify anything
    u = np.array([-5.0, 0.0, 40.0])
    young = at(built("truncated", floor, u, xp), "fenchel_young", xp, u, np.full(3, a))
    assert np.all(np.isposinf(young))


@every("floor", FLOORS)
def test_fenchel_young_is_zero_at_the_slope(floor, xp):
    u = margins(floor)
    loss = built("truncated", floor, u, xp)
    # a slope that rounds to 1 leaves e^-u, which is below the rounding unit there
    assert np.all(at(loss, "fenchel_young", xp, u, at(loss, "slope", xp, u)) <= 1e-15)


@every("floor", [f for f in FLOORS if np.isfinite(f)])
def test_fenchel_young_is_zero_on_the_kink_for_all_its_slopes(floor, xp):
    a = float(expit(floor)) * np.linspace(0.0, 1.0, 11)
    u = np.full(len(a), floor)
    loss = built("truncated", floor, u, xp)
    assert np.all(at(loss, "fenchel_young", xp, u, a) <= 1e-15)


@every("distance", [1e-2, 1e-4, 1.1e-4, 1e-6, 1e-7])
@every("floor", [-np.inf, -9.0])
def test_fenchel_young_does_not_cancel(floor, distance, xp):
    # near its zero it is curvature d^2 / 2: far below the rounding of value + conjugate - a u
    u = np.linspace(-6.0, 15.0, 64)
    loss = built("truncated", floor, u, xp)
    a, bend = at(loss, "slope", xp, u), at(loss, "curvature", xp, u)
    for step in (distance, -distance):
        young = at(loss, "fenchel_young", xp, u + step, a)
        # to third order, and up to the place that the rounding of a gives its logit
        tolerance = distance + 3e-16 / (bend * distance)
        assert np.all(np.abs(young / (0.5 * bend * step**2) - 1.0) <= tolerance)


@every("floor", FLOORS)
def test_fenchel_young_at_the_extremes(floor, xp):
    a = np.concatenate([multipliers(floor), [5e-324, 1e-300]])
    u, a = (g.ravel() for g in np.meshgrid(EXTREME, a))
    young = at(built("truncated", floor, u, xp), "fenchel_young", xp, u, a)
    assert np.isfinite(young).all()
    assert np.all(young >= 0.0)


# ----------------------------------------------------------------------------- many classes


def one_hot(label, k, xp=np):
    return xp.asarray(np.asarray(label)[:, None] == np.arange(k))


@pytest.fixture(params=[2, 3, 5])
def softmax(request):
    """Scores, labels and floors of a few rows, none on its kink."""
    k = request.param
    rng = np.random.default_rng(k)
    scores = 3.0 * rng.normal(size=(12, k))
    label = rng.integers(k, size=12)
    floor = np.array([-np.inf, -2.0, -0.3, 1.0] * 3)
    return scores, label, floor


def softmax_reference(scores, label, floor):
    """max(-log p_y, -log cap_y) with -log cap = log(1 + e^F)."""
    own = scores[np.arange(len(label)), label]
    return np.maximum(logsumexp(scores, axis=1) - own, np.logaddexp(0.0, floor))


def test_multinomial_value_is_the_capped_log_loss(softmax, xp):
    scores, label, floor = softmax
    loss = Multinomial(one_hot(label, scores.shape[1], xp), xp.asarray(floor))
    value = host(loss.value(xp.asarray(scores)))
    np.testing.assert_allclose(value, softmax_reference(*softmax), rtol=1e-13)


def test_multinomial_derivatives(softmax, xp):
    scores, label, floor = softmax
    k = scores.shape[1]
    loss = Multinomial(one_hot(label, k, xp), xp.asarray(floor))
    slope = host(loss.slope(xp.asarray(scores)))
    bend = host(loss.curvature(xp.asarray(scores)))
    assert bend.shape == (len(label), k, k)
    for j, step in enumerate(STEP * np.eye(k)):
        up, down = (xp.asarray(scores + sign * step) for sign in (1.0, -1.0))
        numeric = host(loss.value(up) - loss.value(down)) / (2.0 * STEP)
        np.testing.assert_allclose(slope[:, j], numeric, atol=1e-9)
        numeric = host(loss.slope(up) - loss.slope(down)) / (2.0 * STEP)
        np.testing.assert_allclose(bend[:, :, j], numeric, atol=1e-9)
    np.testing.assert_array_equal(bend, bend.transpose(0, 2, 1))
    # no common shift of the scores is seen, and the loss is convex
    np.testing.assert_allclose(slope.sum(axis=1), 0.0, atol=1e-15)
    np.testing.assert_allclose(bend.sum(axis=2), 0.0, atol=1e-15)
    assert np.linalg.eigvalsh(bend).min() >= -1e-15


def random_duals(rng, label, k, top=1.0):
    """Admissible duals: mass off the own class, taken from the own class."""
    given = rng.dirichlet(np.ones(k), size=len(label)) * top * rng.uniform(size=(len(label), 1))
    given[np.arange(len(label)), label] = 0.0
    given[np.arange(len(label)), label] = -given.sum(axis=1)
    return given


@pytest.mark.parametrize("floor", [-np.inf, -1.0, 0.5])
@pytest.mark.parametrize("seed", [0, 1])
def test_multinomial_conjugate_is_the_largest_linear_excess(floor, seed, xp):
    k, label = 3, np.array([1])
    dual = random_duals(np.random.default_rng(seed), label, k)

    # xi lies above both pieces of the loss; f_y = 0, because no common shift is seen
    def shortfall(z):
        return z[2] - dual[0, 0] * z[0] - dual[0, 2] * z[1]

    def above(z):
        return np.array([z[2] - logsumexp([z[0], 0.0, z[1]]), z[2] - np.logaddexp(0.0, floor)])

    found = minimize(
        shortfall,
        np.array([-1.0, -1.0, 2.0]),
        constraints={"type": "ineq", "fun": above},
        bounds=[(-40.0, 40.0)] * 3,
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 1000},
    )
    loss = Multinomial(one_hot(label, k, xp), xp.asarray([floor]))
    value = float(loss.conjugate(xp.asarray(dual))[0])
    assert value == pytest.approx(-found.fun, abs=1e-7)


def test_multinomial_conjugate_is_infinite_outside_its_domain(xp):
    duals = np.array([[-0.5, 0.7, -0.2], [0.5, -0.3, -0.2], [-0.5, 0.2, 0.2], [-1.5, 1.0, 0.5]])
    loss = Multinomial(one_hot([0, 0, 0, 0], 3, xp), xp.asarray([-1.0] * 4))
    assert np.all(np.isposinf(host(loss.conjugate(xp.asarray(duals)))))


def test_multinomial_fenchel_young(softmax, xp):
    scores, label, floor = softmax
    k = scores.shape[1]
    loss = Multinomial(one_hot(label, k, xp), xp.asarray(floor))
    there = xp.asarray(scores)
    duals = xp.asarray(random_duals(np.random.default_rng(0), label, k))
    young = host(loss.fenchel_young(there, duals))
    plain = host(loss.value(there) + loss.conjugate(duals) - xp.sum(duals * there, axis=1))
    np.testing.assert_allclose(young, plain, atol=1e-13)
    assert np.all(young >= 0.0)
    assert np.all(host(loss.fenchel_young(there, loss.slope(there))) <= 1e-14)


@pytest.mark.parametrize("size", [1e-308, 1.0, 700.0, 5e307])
def test_multinomial_at_the_extremes(size, xp):
    k = 3
    signs = np.array(np.meshgrid(*[[-1.0, 0.0, 1.0]] * k)).reshape(k, -1).T
    scores = np.repeat(signs * size, 2, axis=0)
    label = np.zeros(len(scores), dtype=int)
    floor = np.tile([-np.inf, -1.0], len(signs))
    loss = Multinomial(one_hot(label, k, xp), xp.asarray(floor))
    there = xp.asarray(scores)
    slope = loss.slope(there)
    for array in (loss.value(there), slope, loss.curvature(there)):
        assert np.isfinite(host(array)).all()
    corners = np.array([[0.0, 0.0, 0.0], [-1.0, 1.0, 0.0], [-1.0, 0.0, 1.0], [-0.5, 0.5, 0.0]])
    for duals in (slope, *(xp.asarray(np.tile(c, (len(label), 1))) for c in corners)):
        young = host(loss.fenchel_young(there, duals))
        assert np.isfinite(young).all()
        assert np.all(young >= 0.0)


# -------------------------------------------------------------------- from scores to margins


@pytest.fixture(params=["signed", "softmax-2", "softmax-4", "reference-2", "reference-4"])
def margin_map(request, xp):
    """A map and scores for it, in one array library."""
    n = 15
    if request.param == "signed":
        return SignedMargin(xp.asarray(np.where(np.arange(n) % 3, 1.0, -1.0))), _scores(n, 1, xp)
    k = int(request.param[-1])
    own = one_hot(np.arange(n) % k, k, xp)
    if request.param.startswith("reference"):
        return ReferenceMargin(own), _scores(n, k - 1, xp)
    return SoftmaxMargin(own), _scores(n, k, xp)


def _scores(n, k, xp):
    return xp.asarray(np.random.default_rng(2).normal(size=(n, k)))


def test_push_is_the_derivative_of_the_margin(margin_map, xp):
    margins_of, scores = margin_map
    change = xp.asarray(np.random.default_rng(3).normal(size=scores.shape))
    numeric = margins_of.margin(scores + STEP * change) - margins_of.margin(scores - STEP * change)
    pushed = host(margins_of.push(scores, change))
    np.testing.assert_allclose(pushed, host(numeric) / (2.0 * STEP), atol=1e-9)


def test_pull_is_the_adjoint_of_push(margin_map, xp):
    margins_of, scores = margin_map
    rng = np.random.default_rng(4)
    change = xp.asarray(rng.normal(size=scores.shape))
    a = xp.asarray(rng.normal(size=scores.shape[0]))
    forwards = float(xp.sum(a * margins_of.push(scores, change)))
    backwards = float(xp.sum(margins_of.pull(scores, a) * change))
    assert forwards == pytest.approx(backwards, rel=1e-13)


def dense_hessian(margins_of, scores, omega, a):
    weights = host(margins_of.second_order(scores, omega, a))
    n, q = scores.shape
    full = np.empty((n, q, q))
    for i, (k, m) in enumerate(output_pairs(q)):
        full[:, k, m] = full[:, m, k] = weights[:, i]
    return full


def test_second_order_is_the_derivative_of_pull(margin_map, xp):
    margins_of, scores = margin_map
    rng = np.random.default_rng(5)
    n, q = scores.shape
    omega, a = (rng.uniform(size=n) for _ in range(2))
    full = dense_hessian(margins_of, scores, xp.asarray(omega), xp.asarray(a))
    for j, step in enumerate(STEP * np.eye(q)):
        up, down = scores + xp.asarray(step), scores - xp.asarray(step)
        bend = host(margins_of.pull(up, xp.asarray(a)) - margins_of.pull(down, xp.asarray(a)))
        jacobian = host(margins_of.pull(scores, xp.asarray(np.ones(n))))
        outer = omega[:, None] * jacobian * jacobian[:, j : j + 1]
        np.testing.assert_allclose(full[:, :, j], outer + bend / (2.0 * STEP), atol=1e-9)


def test_curve_is_second_order_times_a_vector(margin_map, xp):
    margins_of, scores = margin_map
    rng = np.random.default_rng(6)
    omega, a = (xp.asarray(rng.uniform(size=scores.shape[0])) for _ in range(2))
    change = rng.normal(size=scores.shape)
    full = dense_hessian(margins_of, scores, omega, a)
    curved = host(margins_of.curve(scores, omega, a, xp.asarray(change)))
    np.testing.assert_allclose(curved, np.einsum("nij,nj->ni", full, change), atol=1e-14)


def test_take_gives_the_map_of_these_rows(margin_map, xp):
    margins_of, scores = margin_map
    rows = np.array([7, 2, 11])
    part = margins_of.take(xp.asarray(rows))
    there = xp.asarray(host(scores)[rows])
    np.testing.assert_array_equal(host(part.margin(there)), host(margins_of.margin(scores))[rows])
    np.testing.assert_array_equal(host(part.codes), host(margins_of.codes)[rows])


def test_codes_are_the_classes(margin_map):
    margins_of, scores = margin_map
    n, q = scores.shape
    k = q + isinstance(margins_of, ReferenceMargin)
    expected = np.arange(n) % k if k > 1 else (np.arange(n) % 3 > 0).astype(int)
    np.testing.assert_array_equal(host(margins_of.codes), expected)
    assert margins_of.n_outputs == q


def test_prior_scores_give_back_the_priors(margin_map, xp):
    margins_of, scores = margin_map
    n_classes = int(host(margins_of.codes).max()) + 1
    mass = np.arange(1.0, n_classes + 1.0)
    prior = host(margins_of.prior_scores(xp.asarray(np.log(mass))))
    assert prior.shape == (scores.shape[1],)
    # the loss that these scores leave is the entropy of the priors, and no others leave less
    everywhere = xp.asarray(np.tile(prior, (scores.shape[0], 1)))
    u, codes = host(margins_of.margin(everywhere)), host(margins_of.codes)
    np.testing.assert_allclose(expit(-u), (mass / mass.sum())[codes], rtol=1e-13)


@st.composite
def unbalanced(draw, k):
    """Labels, weights and duals over many orders of magnitude; every class gives and receives."""
    n = draw(st.integers(2 * k, 12 + k))
    seed = draw(st.integers(0, 2**32 - 1))
    spread = draw(st.sampled_from([0.0, 1.0, 5.0]))
    rng = np.random.default_rng(seed)
    label = np.concatenate([np.arange(k), rng.integers(k, size=n - k)])
    weight = 10.0 ** (spread * rng.uniform(-1.0, 1.0, size=n))
    duals = random_duals(rng, label, k)
    duals[k:] *= rng.random((n - k, 1)) < 0.7  # rows without any influence are common
    return label, weight, duals


def check_balance(margins_of, weight, duals, xp):
    w, d = xp.asarray(weight), xp.asarray(duals)
    balanced = host(margins_of.balance(d, w))
    sums, mass = weight @ balanced, weight @ np.abs(balanced)
    assert np.all(np.abs(sums) <= 1e-13 * (mass.sum() + 1e-300))
    # admissible stays admissible: signs are kept and nothing grows
    np.testing.assert_array_equal(np.sign(balanced) * np.sign(duals) >= 0.0, True)
    assert np.all(np.abs(balanced) <= np.abs(duals) * (1.0 + 1e-15))
    np.testing.assert_allclose(balanced.sum(axis=1) * (duals.shape[1] > 1), 0.0, atol=1e-15)
    again = host(margins_of.balance(xp.asarray(balanced), w))
    np.testing.assert_allclose(again, balanced, rtol=1e-12)
    return balanced


@given(unbalanced(2))
def test_balance_of_two_classes(problem):
    label, weight, duals = problem
    sign = np.where(label == 1, 1.0, -1.0)
    for xp in (np, array_api_strict):
        margins_of = SignedMargin(xp.asarray(sign))
        balanced = check_balance(margins_of, weight, -sign[:, None] * abs(duals[:, :1]), xp)
        # one class, the lighter one, keeps all it has
        kept = np.isclose(abs(balanced[:, 0]), abs(duals[:, 0]), rtol=1e-15, atol=0.0)
        assert kept[label == 0].all() or kept[label == 1].all()


@given(st.integers(2, 5).flatmap(unbalanced))
def test_balance_of_many_classes(problem):
    label, weight, duals = problem
    k = duals.shape[1]
    plain = check_balance(SoftmaxMargin(one_hot(label, k)), weight, duals, np)
    strict = SoftmaxMargin(one_hot(label, k, array_api_strict)).balance(
        array_api_strict.asarray(duals), array_api_strict.asarray(weight)
    )
    np.testing.assert_allclose(host(strict), plain, rtol=1e-10, atol=1e-300)


def test_balance_when_a_class_gives_nothing(xp):
    duals = np.array([[-0.5, 0.25, 0.25], [0.3, -0.6, 0.3], [0.0, 0.0, 0.0]])
    weight = xp.asarray(np.ones(3))
    many = SoftmaxMargin(one_hot([0, 1, 2], 3, xp)).balance(xp.asarray(duals), weight)
    np.testing.assert_array_equal(host(many).sum(axis=0), 0.0)
    two = SignedMargin(xp.asarray([1.0, -1.0])).balance(
        xp.asarray([[-0.5], [0.0]]), xp.asarray(np.ones(2))
    )
    np.testing.assert_array_equal(host(two), 0.0)


def test_balanced_duals_stay_as_they_are(xp):
    # what solves the problem exactly must not lose a digit to its certificate
    duals = np.array([[-0.5, 0.2, 0.3], [0.25, -0.5, 0.25], [0.25, 0.3, -0.55]])
    margins_of = SoftmaxMargin(one_hot([0, 1, 2], 3, xp))
    balanced = host(margins_of.balance(xp.asarray(duals), xp.asarray(np.ones(3))))
    np.testing.assert_allclose(balanced, duals, rtol=1e-15)


# -------------------------------------------------------------------- one class as a reference


@pytest.fixture(params=[2, 3, 5])
def reference_rows(request, xp):
    """Scores (n, K - 1) against the last class, labels and floors, none of them on its kink."""
    k = request.param
    rng = np.random.default_rng(10 + k)
    scores, label = 3.0 * rng.normal(size=(24, k - 1)), np.arange(24) % k
    return scores, label, np.array([-np.inf, -2.0, -0.3, 1.0] * 6)


def with_reference(scores):
    """Scores of all classes: that of the last one is zero."""
    return np.hstack([scores, np.zeros((len(scores), 1))])


def with_balance(duals):
    """Duals of all classes, which sum to zero."""
    return np.hstack([duals, -duals.sum(axis=1, keepdims=True)])


def test_the_reference_is_the_softmax_with_its_last_score_at_zero(reference_rows, xp):
    scores, label, floor = reference_rows
    n, k = len(label), scores.shape[1] + 1
    margins_of = ReferenceMargin(one_hot(label, k, xp))
    there, loss = xp.asarray(scores), TruncatedLogistic(xp.asarray(floor))
    full = with_reference(scores)
    value = host(loss.value(margins_of.margin(there)))
    np.testing.assert_allclose(value, softmax_reference(full, label, floor), rtol=1e-13)
    # the log-odds of each class against the last one are the scores themselves
    p = np.exp(full - logsumexp(full, axis=1, keepdims=True))
    np.testing.assert_allclose(np.log(p[:, :-1] / p[:, -1:]), scores, atol=1e-12)
    plain = ReferenceMargin(one_hot(label, k, xp)).margin(there)
    pulled = host(margins_of.pull(there, xp.asarray(expit(host(plain)))))
    np.testing.assert_allclose(pulled, (p - np.eye(k)[label])[:, :-1], atol=1e-14)
    assert margins_of.n_outputs == k - 1
    assert pulled.shape == (n, k - 1)


def test_fenchel_young_by_reference(reference_rows, xp):
    scores, label, floor = reference_rows
    k = scores.shape[1] + 1
    margins_of = ReferenceMargin(one_hot(label, k, xp))
    there, loss = xp.asarray(scores), TruncatedLogistic(xp.asarray(floor))
    slope = margins_of.pull(there, loss.slope(margins_of.margin(there)))
    assert np.all(host(margins_of.fenchel_young(loss, there, slope)) <= 1e-14)
    conjugate = Multinomial(one_hot(label, k), floor).conjugate
    for seed in range(5):
        duals = random_duals(np.random.default_rng(seed), label, k)
        young = host(margins_of.fenchel_young(loss, there, xp.asarray(duals[:, :-1])))
        # the dual of the reference meets a score of zero
        product = np.sum(duals[:, :-1] * scores, axis=1)
        value = softmax_reference(with_reference(scores), label, floor)
        np.testing.assert_allclose(young, value + conjugate(duals) - product, atol=1e-13)
        assert np.all(young >= 0.0)
        assert np.any(young > 1e-3)


@given(st.integers(2, 5).flatmap(unbalanced))
def test_balance_by_reference(problem):
    label, weight, duals = problem
    k = duals.shape[1]
    balanced = host(ReferenceMargin(one_hot(label, k)).balance(duals[:, :-1], weight))
    full = with_balance(balanced)
    sums, mass = weight @ full, weight @ np.abs(full)
    assert np.all(np.abs(sums) <= 1e-13 * (mass.sum() + 1e-300))
    # admissible stays admissible; the dual of the reference is the sum of the others, rounded
    slack = 1e-15 * np.abs(duals).sum(axis=1, keepdims=True)
    assert np.all(full * np.sign(duals) >= -slack)
    assert np.all(np.abs(full) <= np.abs(duals) + slack)
    symmetric = SoftmaxMargin(one_hot(label, k)).balance(duals, weight)
    np.testing.assert_allclose(balanced, symmetric[:, :-1], rtol=1e-9, atol=1e-14)
