"""What the displays draw: values against brute force, lines, shades, legends."""

import math
import sys

import numpy as np
import pytest
from sklearn.datasets import load_iris, make_classification
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from grayzone import BayesDecisionClassifier
from grayzone.decision import zone_around
from grayzone.displays import (
    CostCurveDisplay,
    NetBenefitDisplay,
    RiskCoverageDisplay,
    ZoneReliabilityDisplay,
)
from grayzone.metrics import (
    cost_curve,
    expected_cost,
    net_benefit,
    net_benefit_curve,
    selective_risk,
    zone_calibration_error,
)

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
plt = pytest.importorskip("matplotlib.pyplot")

DISPLAYS = [CostCurveDisplay, NetBenefitDisplay, ZoneReliabilityDisplay, RiskCoverageDisplay]


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def data():
    return make_classification(300, 5, weights=[0.7], flip_y=0.1, random_state=0)


@pytest.fixture(scope="module")
def fitted(data):
    return LogisticRegression().fit(*data)


class Zoned(LogisticRegression):
    """A classifier that was fitted for a threshold and a zone."""

    def fit(self, X, y):
        super().fit(X, y)
        self.threshold_, self.zone_ = 0.25, (0.1, 0.4)
        return self


def legend(display):
    return [text.get_text() for text in display.ax_.get_legend().get_texts()]


@pytest.mark.parametrize("display", DISPLAYS)
def test_both_ways_lead_to_the_same_picture(display, data, fitted):
    X, y = data
    a = display.from_estimator(fitted, X, y, name="x")
    b = display.from_predictions(y, fitted.predict_proba(X), name="x")
    np.testing.assert_array_equal(a.line_.get_xydata(), b.line_.get_xydata())
    assert legend(a) == legend(b)
    assert a.figure_ is not b.figure_
    assert a.ax_.figure is a.figure_
    assert a.ax_.get_xlabel()
    assert a.ax_.get_ylabel()


@pytest.mark.parametrize("display", DISPLAYS)
def test_matplotlib_is_asked_for_by_the_name_of_the_extra(display, data, fitted, monkeypatch):
    X, y = data
    drawn = display.from_estimator(fitted, X, y)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    name = display.__name__
    with pytest.raises(ImportError, match=rf"{name}.from_estimator requires .*grayzone\[plot\]"):
        display.from_estimator(fitted, X, y)
    with pytest.raises(ImportError, match=rf"{name}.from_predictions requires .*grayzone\[plot\]"):
        display.from_predictions(y, fitted.predict_proba(X))
    with pytest.raises(ImportError, match=rf"{name}.plot requires .*grayzone\[plot\]"):
        drawn.plot()


@pytest.mark.parametrize("display", DISPLAYS)
def test_unfitted_estimators_are_refused(display, data):
    with pytest.raises(NotFittedError):
        display.from_estimator(LogisticRegression(), *data)


@pytest.mark.parametrize("display", [CostCurveDisplay, NetBenefitDisplay, ZoneReliabilityDisplay])
def test_two_classes_are_needed(display):
    X, y = load_iris(return_X_y=True)
    clf = LogisticRegression(max_iter=500).fit(X, y)
    with pytest.raises(ValueError, match="fitted on 3 classes; this display needs two"):
        display.from_estimator(clf, X, y)


# ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("costs", [{0: 1, 1: 4}, "balanced"])
def test_the_cost_curve_is_exact_at_every_threshold(data, fitted, costs):
    X, y = data
    weights = np.random.default_rng(0).random(len(y))
    display = CostCurveDisplay.from_estimator(fitted, X, y, costs=costs, sample_weight=weights)
    assert display.line_.get_drawstyle() == "steps-pre"
    x, height = display.line_.get_data()
    p = fitted.predict_proba(X)[:, 1]
    assert set(p) <= set(x)
    for t in np.concatenate([x, (x[1:] + x[:-1]) / 2]):
        drawn = height[np.searchsorted(x, t, side="left")]  # what "steps-pre" shows at t
        pred = (p >= t).astype(int)
        assert drawn == pytest.approx(expected_cost(y, pred, costs=costs, sample_weight=weights))
    implied = 0.2 if isinstance(costs, dict) else np.average(y, weights=weights)
    assert display.threshold == pytest.approx(implied)
    np.testing.assert_allclose(display.threshold_line_.get_xdata(), implied)
    assert f"threshold {implied:.3g}" in legend(display)
    assert display.zone_patch_ is None


def test_cost_curve_takes_threshold_zone_and_costs_from_the_estimator(data):
    X, y = data
    display = CostCurveDisplay.from_estimator(Zoned().fit(X, y), X, y)
    assert display.threshold == 0.25
    assert display.zone == (0.1, 0.4)
    assert "gray zone [0.1, 0.4]" in legend(display)
    wrapped = BayesDecisionClassifier(make_pipeline(StandardScaler(), Zoned()), costs={0: 1, 1: 9})
    wrapped.fit(X, y)
    display = CostCurveDisplay.from_estimator(wrapped, X, y)
    assert display.threshold == wrapped.threshold_ == 0.1
    assert display.zone == (0.1, 0.4)
    assert display.mean_cost[-1] == pytest.approx(9 * y.mean())
    search = GridSearchCV(Zoned(), {"C": [1.0]}, cv=2).fit(X, y)
    assert CostCurveDisplay.from_estimator(search, X, y).zone == (0.1, 0.4)


def test_what_is_given_comes_before_the_estimator(data):
    X, y = data
    clf = Zoned().fit(X, y)
    display = CostCurveDisplay.from_estimator(
        clf, X, y, threshold=0.5, zone=1.0, costs={0: 2, 1: 3}
    )
    assert display.threshold == 0.5
    assert display.zone == zone_around(0.5, 1.0)
    assert display.mean_cost[-1] == pytest.approx(3 * y.mean())
    display = CostCurveDisplay.from_estimator(clf, X, y, threshold=None, zone=None)
    assert display.threshold_line_ is None
    assert display.zone_patch_ is None


def test_two_curves_share_the_legend_of_what_is_common(data):
    X, y = data
    clf = Zoned().fit(X, y)
    first = CostCurveDisplay.from_estimator(clf, X, y, name="one")
    second = CostCurveDisplay.from_estimator(clf, X, y, name="two", ax=first.ax_)
    assert legend(second) == ["gray zone [0.1, 0.4]", "threshold 0.25", "one", "two"]


def test_the_band_of_a_cost_curve_has_its_steps_and_its_colour(data, fitted):
    X, y = data
    asked = {"n_bootstrap": 50, "confidence": 0.9, "random_state": 0}
    display = CostCurveDisplay.from_estimator(fitted, X, y, color="green", **asked)
    curve = cost_curve(y, fitted.predict_proba(X), **asked)
    np.testing.assert_array_equal(display.lower, curve.lower)
    np.testing.assert_array_equal(display.upper, curve.upper)
    assert "90 % band" in legend(display)
    np.testing.assert_allclose(display.band_.get_facecolor()[0, :3], (0, 0.5, 0), atol=0.01)
    corners = display.band_.get_paths()[0].vertices
    assert set(corners[:, 1]) == {*curve.lower, *curve.upper}
    assert CostCurveDisplay.from_estimator(fitted, X, y).band_ is None


# ------------------------------------------------------------------------------------------


def test_a_decision_curve_stands_beside_all_and_none(data):
    X, y = data
    clf = Zoned().fit(X, y)
    display = NetBenefitDisplay.from_estimator(clf, X, y)
    p = clf.predict_proba(X)
    np.testing.assert_array_equal(display.line_.get_xdata(), np.arange(100) / 100)
    for k in (0, 20, 77):
        assert display.line_.get_ydata()[k] == net_benefit(y, p, threshold=k / 100)
    share = y.mean()
    np.testing.assert_allclose(display.all_line_.get_ydata()[[0, 50]], [share, 2 * share - 1])
    np.testing.assert_array_equal(display.none_line_.get_ydata(), 0.0)
    np.testing.assert_array_equal(display.threshold_line_.get_xdata(), 0.25)
    assert legend(display) == ["all", "none", "threshold 0.25", "Zoned"]
    low, high = display.ax_.get_ylim()
    assert -0.2 * share < low < 0
    assert share < high < 1.2 * share
    second = NetBenefitDisplay.from_estimator(clf, X, y, name="two", ax=display.ax_)
    assert legend(second) == ["all", "none", "threshold 0.25", "Zoned", "two"]
    assert second.ax_.get_ylim() == (low, high)


def test_a_decision_curve_passes_on_what_it_is_asked_for(data, fitted):
    X, y = data
    asked = {
        "thresholds": [0.1, 0.5, 0.3],
        "prevalence": 0.1,
        "harm": 0.01,
        "standardize": True,
        "sample_weight": np.arange(len(y)) % 3,
        "n_bootstrap": 30,
        "confidence": 0.8,
        "random_state": 0,
    }
    display = NetBenefitDisplay.from_estimator(fitted, X, y, **asked)
    curve = net_benefit_curve(
        y, fitted.predict_proba(X), **{**asked, "thresholds": [0.1, 0.3, 0.5]}
    )
    np.testing.assert_array_equal(display.thresholds, [0.1, 0.3, 0.5])
    for name in ("net_benefit", "treat_all", "lower", "upper"):
        np.testing.assert_array_equal(getattr(display, name), getattr(curve, name))
    assert display.threshold_line_ is None
    assert "80 % band" in legend(display)
    assert "most that can be had" in display.ax_.get_ylabel()
    alone = NetBenefitDisplay.from_predictions([0, 1], [0.2, 0.7], thresholds=[0.5], threshold=0.5)
    alone.figure_.canvas.draw()


# ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", ["quantile", "uniform"])
def test_reliability_is_split_at_the_zone(data, fitted, strategy):
    X, y = data
    zone = (0.2, 0.6)
    display = ZoneReliabilityDisplay.from_estimator(
        fitted, X, y, zone=zone, n_bins=4, strategy=strategy
    )
    p = fitted.predict_proba(X)[:, 1]
    inside = display.line_.get_xdata()
    outside = display.outside_line_.get_xdata()
    assert np.all((inside >= 0.2) & (inside <= 0.6))
    assert len(inside) <= 4
    gap = np.flatnonzero(np.isnan(outside))
    assert len(gap) == 1
    assert np.all(outside[: gap[0]] < 0.2)
    assert np.all(outside[gap[0] + 1 :] > 0.6)
    assert display.outside_line_.get_alpha() < 1
    error = zone_calibration_error(y, p, zone=zone, n_bins=4, strategy=strategy)
    assert display.error == error
    assert f"LogisticRegression (error {error:.3f} in the zone)" in legend(display)
    assert "gray zone [0.2, 0.6]" in legend(display)
    weight = display.inside.weight.sum() + display.outside.weight.sum()
    assert weight == len(y)
    mean = display.inside.weight @ display.inside.observed
    mean += display.outside.weight @ display.outside.observed
    assert mean / len(y) == pytest.approx(y.mean())


def test_reliability_takes_the_zone_from_the_estimator(data):
    X, y = data
    assert ZoneReliabilityDisplay.from_estimator(Zoned().fit(X, y), X, y).zone == (0.1, 0.4)
    plain = LogisticRegression().fit(X, y)
    assert ZoneReliabilityDisplay.from_estimator(plain, X, y).zone == zone_around(0.5, 1.0)
    wise = BayesDecisionClassifier(plain, costs={0: 1, 1: 4}).fit(X, y)
    assert ZoneReliabilityDisplay.from_estimator(wise, X, y).zone == zone_around(0.2, 1.0)
    display = ZoneReliabilityDisplay.from_estimator(wise, X, y, zone=None)
    assert display.zone == (0.0, 1.0)
    assert display.zone_patch_ is None
    assert "beyond the zone" not in legend(display)


def test_an_empty_zone_is_said_to_be_empty():
    display = ZoneReliabilityDisplay.from_predictions([0, 1], [0.1, 0.9], zone=(0.4, 0.6))
    assert math.isnan(display.error)
    assert "Classifier (no rows in the zone)" in legend(display)


# ------------------------------------------------------------------------------------------


def test_the_operating_point_is_where_the_estimator_works(data):
    X, y = data
    clf = BayesDecisionClassifier(LogisticRegression(), costs={0: 1, 1: 3}, reject_cost=0.4)
    clf.fit(X, y)
    display = RiskCoverageDisplay.from_estimator(clf, X, y)
    risk, coverage = selective_risk(y, clf.predict(X), costs={0: 1, 1: 3})
    assert 0 < coverage < 1
    np.testing.assert_allclose(display.point_.get_xdata(), coverage)
    np.testing.assert_allclose(display.point_.get_ydata(), risk)
    assert f"undecided costs 0.4: {coverage:.0%} decided" in legend(display)
    x, height = display.line_.get_data()
    assert x[-1] == 1.0
    always = BayesDecisionClassifier(LogisticRegression(), costs={0: 1, 1: 3}).fit(X, y)
    assert height[-1] == pytest.approx(expected_cost(y, always.predict(X), costs={0: 1, 1: 3}))


def test_per_class_costs_of_abstention_are_not_marked(data):
    X, y = data
    clf = BayesDecisionClassifier(LogisticRegression(), reject_cost={0: 0.1, 1: 0.2}).fit(X, y)
    assert RiskCoverageDisplay.from_estimator(clf, X, y).point_ is None


def test_many_classes():
    X, y = load_iris(return_X_y=True)
    clf = LogisticRegression(max_iter=500).fit(X, y)
    display = RiskCoverageDisplay.from_estimator(clf, X, y)
    assert display.risk[-1] == pytest.approx(1 - clf.score(X, y))


def test_the_first_few_rows_do_not_set_the_scale():
    n = 1000
    p = np.linspace(0.5, 1, n)
    y = np.ones(n, dtype=int)
    y[-3:] = 0  # the three safest rows are wrong
    display = RiskCoverageDisplay.from_predictions(y, p)
    assert display.risk[0] == 1.0
    late = display.risk[display.coverage >= 0.05]
    assert display.ax_.get_ylim() == (0, pytest.approx(1.1 * late.max()))
