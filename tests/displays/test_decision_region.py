"""What the display of two features draws: decisions, probabilities, rows and marked points."""

import array_api_strict
import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from sklearn import config_context
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import make_blobs, make_moons
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import FixedThresholdClassifier, GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from grayzone import (
    BayesDecisionClassifier,
    ImportVectorMachine,
    ImportVectorMachineCV,
    TruncatedLogisticRegression,
)
from grayzone.displays import DecisionRegionDisplay

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
plt = pytest.importorskip("matplotlib.pyplot")

draw = DecisionRegionDisplay.from_estimator


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def moons():
    return make_moons(120, noise=0.25, random_state=0)


@pytest.fixture(scope="module")
def blobs():
    return make_blobs(150, centers=[(0, 0), (3, 0), (1.5, 2.5)], cluster_std=0.9, random_state=1)


@pytest.fixture(scope="module")
def machine(moons):
    return ImportVectorMachine(C=10.0, gamma=1.0).fit(*moons)


def vertices(line):
    xy = line.get_xydata()
    return xy[~np.isnan(xy).any(axis=1)]


def legend(display):
    return [text.get_text() for text in display.ax_.get_legend().get_texts()]


def nodes_of(display):
    return np.column_stack([display.xx0.ravel(), display.xx1.ravel()])


def decided(display):
    return display.expected_costs.argmin(axis=-1).ravel()


def crossings(display):
    """Count the pairs of neighbouring points of the grid at which decisions differ."""
    grid = decided(display).reshape(display.xx0.shape)
    return np.count_nonzero(np.diff(grid, axis=0)) + np.count_nonzero(np.diff(grid, axis=1))


def bend(values):
    """Bound the error of linear interpolation between points of the grid, along its edges.

    It is an eighth of a second derivative times the spacing squared: of a second difference, but
    for terms of higher order, for which there is a fifth more.
    """
    return max(1.2 * np.abs(np.diff(values, n=2, axis=axis)).max() / 8 for axis in (0, 1))


class Whim(ClassifierMixin, BaseEstimator):
    """Decides by something else than its probabilities: by the second feature."""

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X):
        p = 1 / (1 + np.exp(-X[:, 0]))
        return np.column_stack([1 - p, p])

    def predict(self, X):
        return self.classes_[(X[:, 1] > 0.2).astype(int)]


# ------------------------------------------------------------------------------------------


def test_the_grid_covers_the_rows_and_holds_their_probabilities(moons, machine):
    X, y = moons
    display = draw(machine, X, y, grid_resolution=50)
    assert display.xx0.shape == display.xx1.shape == (50, 50)
    np.testing.assert_array_equal(
        display.proba.reshape(-1, 2), machine.predict_proba(nodes_of(display))
    )
    margin = 0.1 * np.ptp(X, axis=0)
    ends = np.array([X.min(axis=0) - margin, X.max(axis=0) + margin]).T
    np.testing.assert_allclose(display.xx0[0, [0, -1]], ends[0])
    np.testing.assert_allclose(display.xx1[[0, -1], 0], ends[1])
    np.testing.assert_allclose([display.ax_.get_xlim(), display.ax_.get_ylim()], ends)
    wide = draw(machine, X, grid_resolution=5, eps=2.0)
    np.testing.assert_allclose(wide.xx0[0, [0, -1]], [X[:, 0].min() - 2, X[:, 0].max() + 2])


@pytest.mark.parametrize("costs", [None, {0: 1.0, 1: 4.0}, {0: 3.0, 1: 1.0}, "balanced"])
def test_the_boundary_is_where_predict_changes(moons, costs):
    X, y = moons[0][:100], moons[1][:100]
    clf = ImportVectorMachine(C=10.0, gamma=1.0, costs=costs).fit(X, y)
    display = draw(clf, X, y)
    np.testing.assert_array_equal(clf.classes_[decided(display)], clf.predict(nodes_of(display)))
    line = vertices(display.boundary_)
    # One vertex on each edge of the grid that joins different decisions.
    assert len(np.unique(line, axis=0)) == crossings(display)
    p = clf.predict_proba(line)[:, 1]
    tol = bend(display.proba[..., 1])
    assert tol < 1e-3
    np.testing.assert_allclose(p, clf.threshold_, atol=tol)
    assert f"decision boundary (p = {clf.threshold_:.3g})" in legend(display)


def test_costs_move_the_boundary_by_what_they_say():
    """One feature matters, with log-odds a x + b: the line is at x = (logit t - b) / a."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    y = (X[:, 0] + rng.normal(size=200) > 0).astype(int)
    inner = LogisticRegression().fit(X, y)
    inner.coef_[0, 1] = 0.0
    for t in (0.1, 0.5, 0.8):
        clf = BayesDecisionClassifier(inner, costs={0: t, 1: 1 - t}).fit(X, y)
        clf.estimator_ = inner
        x = vertices(draw(clf, X).boundary_)[:, 0]
        expected = (np.log(t / (1 - t)) - inner.intercept_[0]) / inner.coef_[0, 0]
        np.testing.assert_allclose(x, expected, atol=1e-3)


def test_contours_of_the_probability(moons, machine):
    X, _ = moons
    for levels in ((0.25, 0.75), (0.1,), [0.4, 0.6, 0.9]):
        display = draw(machine, X, levels=levels)
        p = machine.predict_proba(vertices(display.contours_))[:, 1]
        nearest = np.abs(p[:, None] - levels)
        assert np.all(nearest.min(axis=1) < bend(display.proba[..., 1]))
        assert set(nearest.argmin(axis=1)) == set(range(len(levels)))
        shown = ", ".join(f"{level:g}" for level in levels)
        assert f"p(class 1) = {shown}" in legend(display)
    display = draw(machine, X, levels=())
    assert not len(vertices(display.contours_))
    assert not any("p(class" in text for text in legend(display))


@pytest.mark.parametrize("costs", [None, [[0, 1, 4], [2, 0, 1], [1, 3, 0]]])
def test_more_classes(blobs, costs):
    X, y = blobs
    names = np.array(["ash", "beech", "cedar"])[y]
    clf = ImportVectorMachine(C=5.0, gamma=0.5, costs=costs).fit(X, names)
    display = draw(clf, X, names, levels=(0.25, 0.6, 0.75))
    nodes = nodes_of(display)
    np.testing.assert_array_equal(display.proba.reshape(-1, 3), clf.predict_proba(nodes))
    np.testing.assert_array_equal(clf.classes_[decided(display)], clf.predict(nodes))
    expected = np.sort(clf.predict_proba(vertices(display.boundary_)) @ clf.cost_matrix_, axis=1)
    tol = 2 * max(bend(display.expected_costs[..., k]) for k in range(3))
    assert tol < 1e-2
    # The best two cost the same, but for the few cells where three regions meet.
    assert np.count_nonzero(expected[:, 1] - expected[:, 0] > tol) <= 6
    p = clf.predict_proba(vertices(display.contours_)).max(axis=1)
    tol = max(bend(display.proba[..., k]) for k in range(3))
    assert np.all(np.abs(p[:, None] - [0.6, 0.75]).min(axis=1) < tol)
    assert "largest p = 0.6, 0.75" in legend(display)  # none is below 1/3
    assert [f"class {name}" for name in clf.classes_] == legend(display)[:3]
    assert len(display.regions_) == 3


def test_abstention_has_a_region_of_its_own(blobs):
    X, y = blobs
    clf = BayesDecisionClassifier(LogisticRegression(), reject_cost={0: 0.2, 1: 0.2, 2: 0.3})
    clf.fit(X, y)
    display = draw(clf, X, y)
    assert display.expected_costs.shape[-1] == 4
    actions = clf.actions_[decided(display)]
    np.testing.assert_array_equal(actions, clf.predict(nodes_of(display)))
    assert -1 in actions
    assert len(display.regions_) == 4
    assert "undecided" in legend(display)
    costs = np.sort(clf.expected_costs(vertices(display.boundary_)), axis=1)
    assert np.count_nonzero(costs[:, 1] - costs[:, 0] > 2e-3) <= 6


def test_predict_is_believed_whatever_it_decides_by(moons):
    X, y = moons
    for threshold in (0.3, 0.49):
        fixed = FixedThresholdClassifier(
            LogisticRegression(), threshold=threshold, response_method="predict_proba"
        ).fit(X, y)
        display = draw(fixed, X)
        # The threshold is read off the grid, whose 40,000 points leave small gaps between them.
        p = fixed.predict_proba(vertices(display.boundary_))[:, 1]
        np.testing.assert_allclose(p, threshold, atol=1e-3)
        assert f"decision boundary (p = {threshold})" in legend(display)

    display = draw(Whim().fit(X, y), X, reference=lambda X: 1 / (1 + np.exp(-X[:, 0])))
    spacing = np.ptp(display.xx1[:2, 0])
    line = vertices(display.boundary_)
    assert np.ptp(line[:, 1]) < 1e-12
    assert abs(line[0, 1] - 0.2) <= spacing / 2
    assert "decision boundary" in legend(display)  # no probability: there is none
    p = 1 / (1 + np.exp(-vertices(display.contours_)[:, 0]))
    assert np.all(np.abs(p[:, None] - [0.25, 0.75]).min(axis=1) < 1e-3)
    np.testing.assert_allclose(vertices(display.reference_)[:, 0], 0.0, atol=1e-3)

    tainted = LogisticRegression().fit(X, y)
    tainted.threshold_ = 0.25  # which `predict` does not obey
    p = tainted.predict_proba(vertices(draw(tainted, X).boundary_))[:, 1]
    np.testing.assert_allclose(p, 0.5, atol=1e-3)


def test_ties_on_the_grid_are_no_disagreement():
    X = np.array([[-1.0, 0.0], [1.0, 0.0], [-1.0, 1.0], [1.0, 1.0]])
    clf = LogisticRegression().fit(X, [0, 1, 0, 1])
    clf.intercept_[:], clf.coef_[0, 1] = 0.0, 0.0
    display = draw(clf, X, grid_resolution=21)
    assert np.count_nonzero(display.proba == 0.5) == 2 * 21
    assert display.name == "decision boundary (p = 0.5)"
    np.testing.assert_allclose(vertices(display.boundary_)[:, 0], 0.0, atol=1e-12)


# ------------------------------------------------------------------------------------------


def test_rows_are_drawn_by_class(moons, machine):
    X, y = moons
    display = draw(machine, X, y)
    for k, line in enumerate(display.class_lines_):
        np.testing.assert_array_equal(line.get_xydata(), X[y == k])
    colors = {line.get_color() for line in display.class_lines_}
    markers = {line.get_marker() for line in display.class_lines_}
    assert len(colors) == len(markers) == 2
    bare = draw(machine, X)
    assert bare.class_lines_ == []
    assert legend(bare)[:2] == ["class 0", "class 1"]  # squares: the colours of the regions
    assert draw(machine, X, regions=False).regions_ == []


@pytest.mark.parametrize("kind", ["machine", "path", "sparse", "search", "one step", "costs"])
def test_import_points_are_those_of_the_model(moons, kind):
    X, y = moons
    plain = ImportVectorMachine(C=10.0, gamma=1.0)
    clf = {
        "machine": plain,
        "path": ImportVectorMachineCV(Cs=[1.0, 10.0], gamma=1.0, random_state=0),
        "sparse": plain,
        "search": GridSearchCV(plain, {"C": [10.0]}, cv=2),
        "one step": make_pipeline(plain),
        "costs": BayesDecisionClassifier(plain, costs={0: 1, 1: 2}),
    }[kind]
    rows = sp.csr_array(X) if kind == "sparse" else X
    clf.fit(rows, y)
    found = {
        "search": lambda: clf.best_estimator_,
        "one step": lambda: clf[0],
        "costs": lambda: clf.estimator_,
    }.get(kind, lambda: clf)()
    display = draw(clf, rows, y, grid_resolution=20)
    np.testing.assert_array_equal(display.points_.get_xydata(), X[found.import_points_])
    assert f"import points ({len(found.import_points_)})" in legend(display)


def test_support_vectors_and_other_points(moons):
    X, y = moons
    clf = TruncatedLogisticRegression(kernel="rbf", gamma=1.0).fit(X, y)
    display = draw(clf, X, y, grid_resolution=20)
    np.testing.assert_array_equal(display.points_.get_xydata(), X[clf.support_])
    assert f"support vectors ({len(clf.support_)})" in legend(display)
    display = draw(clf, X, y, points=X[:3], grid_resolution=20)
    np.testing.assert_array_equal(display.points_.get_xydata(), X[:3])
    assert "marked points (3)" in legend(display)
    assert draw(clf, X, y, points=None, grid_resolution=20).points_ is None
    logistic = LogisticRegression().fit(X, y)
    assert draw(logistic, X, y, grid_resolution=20).points_ is None


def test_points_of_a_transformed_space_are_not_marked(moons):
    X, y = moons
    model = make_pipeline(StandardScaler(), ImportVectorMachine(C=10.0)).fit(X, y)
    display = draw(model, X, y)
    assert display.points_ is None
    np.testing.assert_array_equal(
        display.proba.reshape(-1, 2), model.predict_proba(nodes_of(display))
    )
    p = model.predict_proba(vertices(display.boundary_))[:, 1]
    np.testing.assert_allclose(p, 0.5, atol=1e-3)
    undone = model[:-1].inverse_transform(model[-1].import_vectors_)
    display = draw(model, X, y, points=undone, grid_resolution=20)
    np.testing.assert_allclose(display.points_.get_xydata(), X[model[-1].import_points_])


def test_probabilities_beyond_the_zone_are_said_to_be(moons, blobs, machine):
    X, y = moons
    clf = TruncatedLogisticRegression(kernel="rbf", gamma=1.0).fit(X, y)
    note = "(faithful in [0.269, 0.731] only)"
    assert any(note in text for text in legend(draw(clf, X, grid_resolution=50)))
    for display in (draw(clf, X, levels=clf.zone_), draw(clf, X, levels=()), draw(machine, X)):
        assert not any("faithful" in text for text in legend(display))
    three = TruncatedLogisticRegression(kernel="rbf", gamma=0.5).fit(*blobs)
    assert any("[0, 0.731]" in text for text in legend(draw(three, blobs[0])))


# ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("library", [pd, pl])
def test_names_of_columns_are_names_of_axes(moons, library):
    X, y = moons
    table = library.DataFrame({"height": X[:, 0], "weight": X[:, 1]})
    clf = ImportVectorMachine(C=10.0, gamma=1.0).fit(table, y)
    display = draw(clf, table, y, grid_resolution=30)  # warnings of missing names are errors
    assert display.ax_.get_xlabel() == "height"
    assert display.ax_.get_ylabel() == "weight"
    plain = draw(ImportVectorMachine(C=10.0, gamma=1.0).fit(X, y), X, y, grid_resolution=30)
    np.testing.assert_array_equal(display.proba, plain.proba)
    assert plain.ax_.get_xlabel() == "$x_1$"


def test_arrays_of_other_libraries(moons):
    X, y = moons
    plain = draw(LinearDiscriminantAnalysis().fit(X, y), X, y, grid_resolution=30)
    there = array_api_strict.Device("device1")
    with config_context(array_api_dispatch=True):
        X_there, y_there = (array_api_strict.asarray(a, device=there) for a in (X, y))
        clf = BayesDecisionClassifier(LinearDiscriminantAnalysis()).fit(X_there, y_there)
        display = draw(clf, X_there, y_there, grid_resolution=30)
    np.testing.assert_allclose(display.proba, plain.proba, rtol=1e-10)
    assert legend(display) == legend(plain)


def test_a_constant_feature_has_room(moons):
    X = np.column_stack([moons[0][:, 0], np.full(len(moons[0]), 7.0)])
    clf = LogisticRegression().fit(X, moons[1])
    for eps in ("auto", 0.0):
        display = draw(clf, X, eps=eps, grid_resolution=10)
        assert display.ax_.get_ylim() == (6.0, 8.0)


def test_both_ways_lead_to_the_same_picture(blobs):
    X, y = blobs
    clf = ImportVectorMachine(C=5.0, gamma=0.5, costs={0: 1.0, 1: 2.0, 2: 4.0}).fit(X, y)
    a = draw(clf, X, y, points=X[:5], reference=LogisticRegression().fit(X, y).predict_proba)
    options = {"X": X, "y": y, "costs": {0: 1.0, 1: 2.0, 2: 4.0}, "points": X[:5]}
    options["reference"] = LogisticRegression().fit(X, y).predict_proba
    flat = clf.predict_proba(nodes_of(a))
    for proba in (flat, flat.reshape(*a.xx0.shape, 3)):
        b = DecisionRegionDisplay.from_predictions(a.xx0, a.xx1, proba, **options)
        for name in ("boundary_", "contours_", "reference_", "points_"):
            np.testing.assert_array_equal(
                getattr(a, name).get_xydata(), getattr(b, name).get_xydata()
            )
        assert legend(a) == legend(b)


def test_probabilities_of_the_positive_class_are_enough():
    xx0, xx1 = np.meshgrid(np.linspace(-3, 3, 61), np.linspace(-2, 2, 41))
    p = 1 / (1 + np.exp(-xx0))
    show = DecisionRegionDisplay.from_predictions
    for t in (0.5, 0.2):
        display = show(xx0, xx1, p, costs=[[0, t], [1 - t, 0]], classes=["no", "yes"])
        x = vertices(display.boundary_)[:, 0]
        # h²/8 max|p''| / p'(x) with h = 0.1, p'' <= 0.0963 and p' = t (1 - t).
        np.testing.assert_allclose(x, np.log(t / (1 - t)), atol=1.3e-4 / (t * (1 - t)))
        assert "p(class yes) = 0.25, 0.75" in legend(display)
        assert f"decision boundary (p = {t})" in legend(display)
    X = np.array([[-1.0, 0.0], [1.0, 0.0], [2.0, 1.0], [2.5, 1.0]])
    display = show(xx0, xx1, p, X=pd.DataFrame(X, columns=["a", "b"]), y=[3, 7, 7, 7])
    np.testing.assert_array_equal(display.classes, [3, 7])
    assert display.ax_.get_ylabel() == "b"
    balanced = show(xx0, xx1, p, X=X, y=[3, 7, 7, 7], costs="balanced")
    assert "decision boundary (p = 0.75)" in legend(balanced)
    undecided = show(xx0, xx1, p, reject_cost={0: 0.25, 1: 0.25})
    x = vertices(undecided.boundary_)[:, 0]
    np.testing.assert_allclose(np.abs(x), np.log(3), atol=1e-3)
    assert {-1, 1} == set(np.sign(x))


def test_plot_draws_again_where_it_is_told(moons, machine):
    X, y = moons
    first = draw(machine, X, y)
    old = first.boundary_.get_xydata()
    _, ax = plt.subplots()
    again = first.plot(ax=ax, name="other", color="red", linewidth=3)
    assert again is first
    assert again.ax_ is ax
    assert again.figure_ is ax.figure
    assert again.boundary_.get_color() == "red"
    assert again.boundary_.get_linewidth() == 3
    assert "other" in legend(again)
    np.testing.assert_array_equal(again.boundary_.get_xydata(), old)
    again.plot(ax=ax, name="third")
    assert legend(again).count("class 1") == 1
    again.figure_.canvas.draw()


# ------------------------------------------------------------------------------------------


def test_estimators_that_cannot_be_drawn(moons):
    X, y = moons
    with pytest.raises(NotFittedError):
        draw(ImportVectorMachine(), X, y)
    with pytest.raises(NotFittedError):
        draw(make_pipeline(StandardScaler(), LogisticRegression()), X, y)
    with pytest.raises(TypeError, match="needs a classifier with predict_proba, which SVC lacks"):
        draw(SVC().fit(X, y), X, y)
    wide = np.column_stack([X, X[:, 0]])
    clf = LogisticRegression().fit(wide, y)
    with pytest.raises(ValueError, match=r"X must have two features .*; got shape \(120, 3\)"):
        draw(clf, wide, y)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"points": np.zeros((4, 3))}, r"points must have two features .*; got shape \(4, 3\)"),
        ({"points": np.zeros(4)}, "Expected 2D array, got 1D array"),
        ({"points": [[0.0, np.nan]]}, "Input points contains NaN"),
        ({"levels": (0.25, 1.0)}, "levels must be probabilities between 0 and 1"),
        ({"levels": (0.25, "high")}, "levels must be a finite number"),
        ({"grid_resolution": 1}, "grid_resolution must be an integer >= 2; got 1"),
        ({"eps": -1.0}, "eps must be 'auto' or a finite number >= 0; got -1.0"),
        ({"eps": "wide"}, "eps must be a finite number; got 'wide'"),
        ({"reference": lambda X: X}, "reference must be probabilities, between 0 and 1"),
        ({"reference": lambda X: X[:5, 0]}, r"reference has shape \(5,\); expected"),
        (
            {"reference": lambda X: np.full((len(X), 3), 1 / 3)},
            "reference stands for 3 classes; expected 2",
        ),
    ],
)
def test_options_that_will_not_do(moons, machine, options, message):
    with pytest.raises(ValueError, match=message):
        draw(machine, *moons, **options)


def test_grids_that_will_not_do():
    xx0, xx1 = np.meshgrid(np.linspace(0, 1, 4), np.linspace(0, 1, 3))
    show, p = DecisionRegionDisplay.from_predictions, np.full((3, 4), 0.5)
    with pytest.raises(ValueError, match=r"proba has shape \(4, 3\); expected .* \(3, 4\), 12 in"):
        show(xx0, xx1, p.T)
    with pytest.raises(ValueError, match=r"one shape.*; got \(3, 4\) and \(4, 3\)"):
        show(xx0, xx1.T, p)
    with pytest.raises(ValueError, match="neither may be the same everywhere"):
        show(xx0, np.zeros((3, 4)), p)
    with pytest.raises(ValueError, match="X and y must be given together"):
        show(xx0, xx1, p, X=[[0.0, 1.0]])
    with pytest.raises(ValueError, match="proba stands for 2 classes but there are 3 labels"):
        show(xx0, xx1, p, classes=[0, 1, 2])
    with pytest.raises(ValueError, match="proba stands for one class only"):
        show(xx0, xx1, np.ones((3, 4, 1)))
    with pytest.raises(ValueError, match="proba must be probabilities, between 0 and 1"):
        show(xx0, xx1, 3 * p)
