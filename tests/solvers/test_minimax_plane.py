"""The minimax direction of two features, against brute force in sixty digits."""

from decimal import Decimal, localcontext
from math import inf

import numpy as np
import pytest

from grayzone.solvers.minimax.direction import Frontier
from grayzone.solvers.minimax.plane import NOWHERE, best_of_line, best_of_plane

EPS = 2.3e-16
GOLDEN = (Decimal(5).sqrt() - 1) / 2


@pytest.fixture(autouse=True)
def sixty_digits():
    with localcontext() as context:
        context.prec = 60
        yield


# ------------------------------------------------------------------------------- brute force


def exact(numbers):
    return [Decimal(float(number)) for number in numbers]


def deviation(a, c):
    return max(a[0] * a[0] * c[0] + 2 * a[0] * a[1] * c[1] + a[1] * a[1] * c[2], Decimal(0)).sqrt()


def criterion(a, x, y):
    """s_x + s_y."""
    return deviation(a, x) + deviation(a, y)


def line_of_directions(difference, x, y):
    """a(t) with a'(x - y) = 1: a point in the middle of the scales, and a way across.

    The unit of a feature is its standard deviation, of one that has none its difference.
    """
    q = [(x[2 * k] + y[2 * k]).sqrt() or abs(difference[k]) or Decimal(1) for k in (0, 1)]
    d = [difference[k] / q[k] for k in (0, 1)]
    square = d[0] * d[0] + d[1] * d[1]
    p = [d[k] / square / q[k] for k in (0, 1)]
    n = [-d[1] / square / q[0], d[0] / square / q[1]]
    return lambda t: (p[0] + t * n[0], p[1] + t * n[1])


def foot(at, c):
    """Where a standard deviation is least along the line, by three values of its square."""
    left, middle, right = (deviation(at(Decimal(t)), c) ** 2 for t in (-1, 0, 1))
    bend = left - 2 * middle + right
    return (left - right) / (2 * bend) if bend > Decimal("1e-45") * (left + right) else None


def brute_force(difference, x, y):
    """Least value of the criterion: golden sections between the feet, and the feet (kinks)."""
    at = line_of_directions(difference, x, y)
    feet = [u for u in (foot(at, c) for c in (x, y)) if u is not None]
    if not feet:
        return criterion(at(Decimal(0)), x, y)
    low, high = min(feet), max(feet)
    # what is convex and rises beyond the last foot need not be looked for beyond it; show it
    width = high - low + abs(low) + 1
    beyond = [low - width, low - width / 1000, high + width / 1000, high + width]
    best = min(criterion(at(u), x, y) for u in feet)
    assert all(criterion(at(t), x, y) >= best for t in beyond)
    one, other = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
    f_one, f_other = (criterion(at(t), x, y) for t in (one, other))
    for _ in range(110):  # to 1e-23 of the interval
        if f_one < f_other:
            high, other, f_other = other, one, f_one
            one = high - GOLDEN * (high - low)
            f_one = criterion(at(one), x, y)
        else:
            low, one, f_one = one, other, f_other
            other = low + GOLDEN * (high - low)
            f_other = criterion(at(other), x, y)
    return min(best, f_one, f_other)


# ------------------------------------------------------------------------------- random cases


def covariance(kind, scales, rng):
    """A covariance of two features of these scales, as three floats."""
    root = rng.normal(size=(2, 2))
    if kind == "zero":
        return 0.0, 0.0, 0.0
    if kind == "one constant":
        c = [0.0, 0.0, 0.0]
        k = int(rng.integers(2))
        c[2 * k] = (root[0, 0] * scales[k]) ** 2
        return tuple(c)
    if kind == "singular":
        # of 24 bits, so that the products are exact and the determinant is 0
        a, b = (float(np.float32(v)) for v in root[0] * scales)
        return a * a, a * b, b * b
    if kind in NARROW:
        across = root[0, 1], -root[0, 0]
        root[1] = 10.0 ** rng.uniform(*NARROW[kind]) * np.array(across)
    root = root * scales
    c = root.T @ root
    return float(c[0, 0]), float(c[0, 1]), float(c[1, 1])


# powers of ten of the lesser axis, whose square is what the determinant is, relatively
NARROW = {"near-singular": (-5.0, -2.0), "almost singular": (-8.0, -5.0)}
KINDS = ["regular", "near-singular", "almost singular", "singular", "one constant", "zero"]
PAIRS = [(one, other) for i, one in enumerate(KINDS) for other in KINDS[i:]]


def random_case(pair, rng):
    """Difference and covariances; features over 1e-6..1e6, classes over 1e-3..1e3."""
    scales = 10.0 ** rng.uniform(-6.0, 6.0, 2)
    x = covariance(pair[0], scales, rng)
    y = covariance(pair[1], scales * 10.0 ** rng.uniform(-3.0, 3.0), rng)
    if rng.random() < 0.5:
        x, y = y, x
    if rng.random() < 0.2:  # features of other scales in the other class
        y = covariance(pair[1], 10.0 ** rng.uniform(-6.0, 6.0, 2), rng)
    difference = rng.normal(size=2) * scales * 10.0 ** rng.uniform(-12.0, 2.0)
    if rng.random() < 0.1:
        difference[rng.integers(2)] = 0.0
    if rng.random() < 0.1:
        difference[rng.integers(2)] *= 1e-15
    return tuple(difference.tolist()), x, y


class Judged:
    """A direction that was found, in sixty digits."""

    def __init__(self, case):
        self.found = best_of_plane(*case)
        self.difference, self.x, self.y = map(exact, case)
        self.a = Decimal(self.found.first), Decimal(self.found.second)
        self.parts = [a * d for a, d in zip(self.a, self.difference, strict=True)]
        self.deviations = [deviation(self.a, c) for c in (self.x, self.y)]

    def sizes(self):
        """What the deviations would be if features did not cancel."""
        return [sum(abs(self.a[k]) * c[2 * k].sqrt() for k in (0, 1)) for c in (self.x, self.y)]

    def middle(self):
        """The criterion along the difference of the means itself, each feature in its units."""
        at = line_of_directions(self.difference, self.x, self.y)
        return criterion(at(Decimal(0)), self.x, self.y)

    def last_digits(self):
        """How far a change of the covariances in their last digits may move the criterion."""
        root = Decimal(EPS).sqrt()
        return sum(
            size * min(root, Decimal(EPS) * size / max(s, Decimal("1e-300")))
            for s, size in zip(self.deviations, self.sizes(), strict=True)
        )


def by_pair(test):
    return pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: " and ".join(pair))(test)


@by_pair
def test_never_worse_than_brute_force(pair):
    rng = np.random.default_rng(PAIRS.index(pair))
    for _ in range(145):  # of each of 21 pairs
        case = random_case(pair, rng)
        judged = Judged(case)
        value = sum(judged.deviations) / sum(judged.parts)
        # 1e-9 of the optimum; and what rounding the two coefficients comes to, of which
        # one may be the small difference of others
        allowed = 4 * Decimal(EPS) * (sum(judged.sizes()) + judged.middle())
        if "almost singular" in pair:
            # digits of the determinant are lost in the covariances themselves
            allowed += 4 * judged.last_digits()
        least = brute_force(judged.difference, judged.x, judged.y)
        assert value <= least * (1 + Decimal("1e-9")) + allowed, case


@by_pair
def test_coefficients_and_deviations_belong_together(pair):
    rng = np.random.default_rng(100 + PAIRS.index(pair))
    for _ in range(50):
        case = random_case(pair, rng)
        check_told(case)


# The first class hardly varies across the difference of the means, but it does.
FLAT = {
    "regular": (
        (1.5050570792474096e-09, 3.1110049679840377e-09),
        (1.6606953481259717e-07, 9.79106413474485e-07, 1.4014442542452963e-05),
        (75345138011.93713, -974.5084291066329, 1.530457871774768e-05),
    ),
    "narrow": (
        (-8.636600614164444e-05, 4.908077052072775),
        (371.91303572700787, -40205341.21565826, 4346364087840.328),
        (0.0013795329335138146, -1.736547449935984, 5934860.310153815),
    ),
}


@pytest.mark.parametrize("name", FLAT)
def test_a_class_that_is_flat_along_the_line(name):
    check_told(FLAT[name])


def check_told(case):
    """Check that a'(x - y) = 1, and that s_x and s_y are the deviations along a."""
    judged = Judged(case)
    parts = judged.parts
    assert abs(sum(parts) - 1) <= 8 * Decimal(EPS) * (abs(parts[0]) + abs(parts[1])), case
    for k, told in enumerate((judged.found.s_x, judged.found.s_y)):
        s, size = judged.deviations[k], judged.sizes()[k]
        # covariances of 16 digits tell variances to as many, of the size before cancelling
        rounding = 32 * Decimal(EPS) * (size**2 + judged.middle() ** 2)
        assert abs(Decimal(told) ** 2 - s**2) <= Decimal("2e-9") * s**2 + rounding, case


# --------------------------------------------------------------------------------------- laws


def regular_cases(n=50, seed=0):
    rng = np.random.default_rng(seed)
    for _ in range(n):
        yield (
            tuple(rng.normal(size=2).tolist()),
            covariance("regular", (1.0, 1.0), rng),
            covariance("regular", (1.0, 1.0), rng),
        )


def test_features_may_be_exchanged():
    for difference, x, y in regular_cases():
        found = best_of_plane(difference, x, y)
        turned = best_of_plane(difference[::-1], x[::-1], y[::-1])
        np.testing.assert_allclose(
            [turned.second, turned.first, turned.s_x, turned.s_y], found, rtol=1e-11, atol=1e-11
        )


def test_classes_may_be_exchanged():
    for (d1, d2), x, y in regular_cases():
        found = best_of_plane((d1, d2), x, y)
        turned = best_of_plane((-d1, -d2), y, x)
        np.testing.assert_allclose(
            [-turned.first, -turned.second, turned.s_y, turned.s_x], found, rtol=1e-11, atol=1e-11
        )


@pytest.mark.parametrize("units", [(1e-30, 1e30), (1e40, 1e40), (1e-40, 1e-40), (1.0, 1e-60)])
def test_units_of_the_features_make_no_difference(units):
    for difference, x, y in regular_cases():
        found = best_of_plane(difference, x, y)
        u, v = units
        scaled = best_of_plane(
            (difference[0] * u, difference[1] * v),
            *((c[0] * u * u, c[1] * u * v, c[2] * v * v) for c in (x, y)),
        )
        np.testing.assert_allclose(
            [scaled.first * u, scaled.second * v, scaled.s_x, scaled.s_y],
            found,
            rtol=1e-10,
            atol=1e-10,
        )


def test_it_is_the_exact_machine_in_two_dimensions():
    for difference, x, y in regular_cases():
        found = best_of_plane(difference, x, y)
        roots = [np.linalg.cholesky([[c[0], c[1]], [c[1], c[2]]]).T for c in (y, x)]
        exactly = Frontier(np.array(difference), *roots).at(1.0)
        assert found.m == pytest.approx(sum(exactly.deviations), rel=1e-12)
        np.testing.assert_allclose(found[:2], exactly.coef, rtol=1e-6, atol=1e-6)


def test_no_difference_leads_nowhere():
    identity = (1.0, 0.0, 1.0)
    assert best_of_plane((0.0, 0.0), identity, identity) is NOWHERE
    assert best_of_plane((0.0, -0.0), (0.0, 0.0, 0.0), (0.0, 0.0, 0.0)) is NOWHERE
    assert best_of_line(0.0, 1.0, 1.0) is NOWHERE
    assert NOWHERE.m == inf


def test_a_common_direction_without_variance_separates():
    # both classes vary along (1, 2) only
    c = (1.0, 2.0, 4.0)
    found = best_of_plane((1.0, 0.0), c, (4.0, 8.0, 16.0))
    assert found.m <= 1e-15
    np.testing.assert_allclose(found[:2], [1.0, -0.5], rtol=1e-15)


def test_a_kink_is_met_exactly():
    # class x varies along (1, 0) only, and much: the direction across it has s_x = 0
    found = best_of_plane((1.0, 1.0), (1e6, 0.0, 0.0), (1.0, 0.0, 1.0))
    assert found == pytest.approx((0.0, 1.0, 0.0, 1.0), rel=1e-15, abs=1e-18)


@pytest.mark.parametrize("unit", [1.0, 1e-6, 1e-12, 1e12])
@pytest.mark.parametrize("place", [0, 1])
def test_a_constant_feature_that_differs_separates_in_any_unit(place, unit):
    difference, c = [1.0, 1.0], [1.0, 0.0, 1.0]
    difference[place], c[2 * place] = unit, 0.0
    found = best_of_plane(tuple(difference), tuple(c), tuple(c))
    assert found.m <= 1e-15
    assert found[place] == pytest.approx(1.0 / unit, rel=1e-14)
    assert abs(found[1 - place]) <= 1e-15
