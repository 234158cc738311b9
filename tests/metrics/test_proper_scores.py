"""Scores of a threshold in a range are mixtures of what decisions cost there."""

import numpy as np
import pytest
from scipy.integrate import quad
from sklearn.metrics import brier_score_loss

from grayzone.metrics import zone_brier, zone_log_loss
from grayzone.numerics.losses import Ramp

LOW, HIGH = 0.15, 0.7
P = np.array([0.0, 0.05, 0.15, 0.3, 0.5, 0.69, 0.7, 0.9, 1.0])


def mixture(p, y, weight):
    """What decisions at all thresholds of the zone cost, by quadrature."""

    def cost(c):
        return ((1.0 - c) * (p < c) if y else c * (p >= c)) * weight(c)

    return quad(cost, LOW, HIGH, points=[float(np.clip(p, LOW, HIGH))], epsabs=1e-13)[0]


@pytest.mark.parametrize("y", [0, 1])
def test_brier_is_a_mixture_of_costs(y):
    expected = np.mean([mixture(p, y, lambda c: 2.0) for p in P])
    both, weight = [y, 1 - y], [1.0, 0.0]  # both classes have to be known
    found = [zone_brier(both, [p, 0.5], zone=(LOW, HIGH), sample_weight=weight) for p in P]
    assert np.mean(found) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("y", [0, 1])
def test_the_ramp_is_that_mixture_for_the_log_loss(y):
    """The loss of clipped probabilities, up to a constant; the capped one bounds it."""
    inside = P[(P > 0.0) & (P < 1.0)]
    margin = np.log((1.0 - inside) / inside) * (1.0 if y else -1.0)
    cap, other = (HIGH, LOW) if y else (1.0 - LOW, 1.0 - HIGH)
    floor, ceiling = (np.full(len(inside), -np.log(q / (1.0 - q))) for q in (cap, other))
    ramp = Ramp(floor, ceiling).value(margin)
    expected = [mixture(p, y, lambda c: 1.0 / (c * (1.0 - c))) - np.log(cap) for p in inside]
    np.testing.assert_allclose(ramp, expected, rtol=1e-10)
    own = inside if y else 1.0 - inside
    np.testing.assert_allclose(ramp, -np.log(np.clip(own, other, cap)), rtol=1e-12)
    for p, value in zip(inside, ramp, strict=True):
        capped = zone_log_loss([y, 1 - y], [p, 0.5], zone=(LOW, HIGH), sample_weight=[1.0, 0.0])
        assert capped >= value - 1e-12


def test_no_zone_is_briers_score():
    rng = np.random.default_rng(0)
    y, p, w = rng.integers(2, size=50), rng.random(50), rng.random(50)
    expected = brier_score_loss(y, p, sample_weight=w)
    assert zone_brier(y, p, zone=None, sample_weight=w) == pytest.approx(expected, rel=1e-12)
    names = np.array(["good", "bad"])[y]
    found = zone_brier(names, p, zone=None, sample_weight=w, pos_label="bad")
    assert found == pytest.approx(expected, rel=1e-12)


def test_bad_input():
    with pytest.raises(ValueError, match="p_min < p_max"):
        zone_brier([0, 1], [0.1, 0.2], zone=(0.5, 0.4))
    with pytest.raises(ValueError, match="two classes"):
        zone_brier([0, 1, 2], np.full((3, 3), 1 / 3), zone=None)
