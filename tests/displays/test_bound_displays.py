"""What the displays of minimax machines draw: bounds along the bases, weights of the features."""

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import make_moons
from sklearn.exceptions import NotFittedError
from sklearn.metrics import accuracy_score
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.data import Split
from benchmarks.papers.sparse_minimax_figures import accuracy_path, basis_values
from grayzone import MinimaxProbabilityMachine, SparseMinimaxProbabilityMachine
from grayzone.displays import BoundPathDisplay, FeatureWeightDisplay

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
plt = pytest.importorskip("matplotlib.pyplot")

DISPLAYS = [BoundPathDisplay, FeatureWeightDisplay]
NAMES = ["width", "height", "noise"]


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def rows(n, seed):
    X, y = make_moons(n, noise=0.3, random_state=seed)
    return np.column_stack([X, np.random.default_rng(seed).normal(size=n)]), y


@pytest.fixture(scope="module")
def data():
    return rows(120, 0)


@pytest.fixture(scope="module")
def others():
    return rows(90, 1)


def make(n_bases=8, **parameters):
    return SparseMinimaxProbabilityMachine(n_bases, random_state=0, **parameters)


@pytest.fixture(scope="module")
def machine(data):
    return make().fit(*data)


def legend(display):
    return [text.get_text() for text in display.ax_.get_legend().get_texts()]


def heights(display):
    return [bar.get_height() for bar in display.bars_]


def ticks(display):
    return [label.get_text() for label in display.ax_.get_xticklabels()]


def numbers(display):
    return BoundPathDisplay.from_paths if display is BoundPathDisplay else display.from_weights


# ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("display", DISPLAYS)
def test_only_fitted_sparse_machines_are_drawn(display, data):
    with pytest.raises(NotFittedError):
        display.from_estimator(make())
    with pytest.raises(ValueError, match=r"^MinimaxProbabilityMachine has no \w+_;"):
        display.from_estimator(MinimaxProbabilityMachine().fit(*data))


@pytest.mark.parametrize("display", DISPLAYS)
@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([0.5, -0.1], "not be negative; got -0.1 in row 1"),
        ([0.5, np.nan], "be finite; got nan in row 1"),
        ([[0.5, 0.1]], r"got shape \(1, 2\)"),
        (["a"], "must be made of numbers"),
    ],
)
def test_numbers_that_are_none_are_refused(display, given, message):
    with pytest.raises(ValueError, match=message):
        numbers(display)(given)


# ------------------------------------------------------------------------------------------


def test_bounds_are_drawn_against_the_number_of_bases(machine):
    display = BoundPathDisplay.from_estimator(machine)
    x, bounds = display.line_.get_data()
    np.testing.assert_array_equal(x, np.arange(1, machine.n_iter_ + 1))
    np.testing.assert_array_equal(bounds, machine.bound_path_)
    x, held_out = display.held_out_line_.get_data()
    np.testing.assert_array_equal(x, np.arange(1, 9))
    np.testing.assert_array_equal(held_out, machine.held_out_path_)
    np.testing.assert_array_equal(
        display.point_.get_xydata(), [[machine.n_iter_, machine.held_out_bound_]]
    )
    assert display.accuracy is None
    assert display.accuracy_line_ is None
    name = "SparseMinimaxProbabilityMachine"
    assert legend(display) == [rf"{name}, bound $\Omega$", f"{name}, held-out bound"]
    assert display.ax_.get_xlabel() == "Number of bases"
    assert display.ax_.get_ylabel()


def test_accuracy_is_that_of_all_bases_on_the_rows_given(machine, others):
    X, y = others
    weights = np.random.default_rng(0).random(len(y))
    display = BoundPathDisplay.from_estimator(machine, X, y, sample_weight=weights, name="m")
    expected = accuracy_score(y, machine.predict(X), sample_weight=weights)
    assert display.accuracy == expected
    np.testing.assert_array_equal(display.accuracy_line_.get_ydata(), [expected] * 2)
    assert legend(display)[-1] == f"m, accuracy {expected:.3f}"
    names = np.asarray(["no", "yes"])
    renamed = make().fit(rows(120, 0)[0], names[rows(120, 0)[1]])
    named = BoundPathDisplay.from_estimator(renamed, X, names[y], sample_weight=weights)
    assert named.accuracy == expected


@pytest.mark.parametrize("given", [{"X": [[0.0, 0.0, 0.0]]}, {"y": [0]}])
def test_accuracy_takes_rows_and_labels(machine, given):
    with pytest.raises(ValueError, match="takes both X and y; got only one"):
        BoundPathDisplay.from_estimator(machine, **given)


def test_without_folds_there_is_no_held_out_bound(data):
    display = BoundPathDisplay.from_estimator(make(cv=None, stopping=None).fit(*data))
    assert display.held_out_line_ is None
    assert display.point_ is None
    assert len(legend(display)) == 1


def test_pipelines_and_searches_show_the_machine_in_them(data, others):
    X, y = data
    search = GridSearchCV(
        make_pipeline(StandardScaler(), make()),
        {"sparseminimaxprobabilitymachine__n_candidates": [1, 5]},
        cv=2,
    ).fit(X, y)
    last = search.best_estimator_[-1]
    bounds = BoundPathDisplay.from_estimator(search, *others)
    np.testing.assert_array_equal(bounds.bound_path, last.bound_path_)
    np.testing.assert_array_equal(bounds.held_out_path, last.held_out_path_)
    assert bounds.accuracy == accuracy_score(others[1], search.predict(others[0]))
    weights = FeatureWeightDisplay.from_estimator(search)
    np.testing.assert_array_equal(weights.weights, last.feature_weights_)


def test_paths_of_several_machines_share_the_axes():
    first = BoundPathDisplay.from_paths([0.2, 0.5], accuracy=[0.7, 0.8], name="one", color="red")
    second = BoundPathDisplay.from_paths(
        [0.3], held_out_path=[0.1, 0.2], name="two", ax=first.ax_, color="blue"
    )
    assert legend(second) == [
        r"one, bound $\Omega$",
        "one, accuracy",
        r"two, bound $\Omega$",
        "two, held-out bound",
    ]
    np.testing.assert_array_equal(first.accuracy_line_.get_xydata(), [[1, 0.7], [2, 0.8]])
    np.testing.assert_array_equal(second.point_.get_xydata(), [[1, 0.1]])
    for line in (first.line_, first.accuracy_line_):
        assert line.get_color() == "red"
    for line in (second.line_, second.held_out_line_, second.point_):
        assert line.get_color() == "blue"
    styles = {line.get_linestyle() for line in (first.line_, first.accuracy_line_)}
    assert len(styles | {second.held_out_line_.get_linestyle()}) == 3


# ------------------------------------------------------------------------------------------


def test_weights_are_drawn_in_the_order_of_the_features(machine):
    display = FeatureWeightDisplay.from_estimator(machine)
    np.testing.assert_array_equal(heights(display), machine.feature_weights_)
    np.testing.assert_array_equal(display.order_, np.arange(3))
    assert display.bars_.errorbar is None
    assert display.feature_names is None
    np.testing.assert_allclose(display.equal_line_.get_ydata(), 1 / 3, rtol=1e-15)
    assert legend(display) == ["equal weights", "SparseMinimaxProbabilityMachine"]
    assert display.ax_.get_ylim()[0] == 0.0


def test_names_are_those_of_the_data(data):
    X, y = data
    frame = pd.DataFrame(X, columns=NAMES)
    assert ticks(FeatureWeightDisplay.from_estimator(make().fit(frame, y))) == NAMES
    given = FeatureWeightDisplay.from_estimator(make().fit(frame, y), feature_names=list("abc"))
    assert ticks(given) == list("abc")
    scaled = make_pipeline(StandardScaler(), make()).fit(frame, y)
    assert ticks(FeatureWeightDisplay.from_estimator(scaled)) == NAMES
    framed = make_pipeline(StandardScaler(), make()).set_output(transform="pandas").fit(frame, y)
    assert ticks(FeatureWeightDisplay.from_estimator(framed)) == NAMES


def test_the_heaviest_come_first_when_few_are_asked_for():
    weights, spread = [0.1, 0.4, 0.1, 0.3, 0.1], [0.01, 0.04, 0.02, 0.03, 0.05]
    display = FeatureWeightDisplay.from_weights(weights, spread=spread, max_features=3)
    np.testing.assert_array_equal(display.order_, [1, 3, 0])
    assert heights(display) == [0.4, 0.3, 0.1]
    assert ticks(display) == ["1", "3", "0"]
    (segments,) = display.bars_.errorbar.lines[2]
    lengths = [np.ptp(segment[:, 1]) for segment in segments.get_segments()]
    np.testing.assert_allclose(lengths, [0.08, 0.06, 0.02], rtol=1e-12)
    # the line is the mean of all weights, drawn or not
    np.testing.assert_allclose(display.equal_line_.get_ydata(), 0.2, rtol=1e-15)
    more = FeatureWeightDisplay.from_weights(weights, max_features=9, feature_names=list("abcde"))
    assert ticks(more) == list("bdace")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"spread": [0.1]},
            r"spread must have one entry a feature, shape \(2,\); got shape \(1,\)",
        ),
        ({"feature_names": ["a"]}, "feature_names must have one entry a feature"),
        ({"max_features": 0}, "max_features must be an integer >= 1; got 0"),
    ],
)
def test_settings_that_do_not_fit_the_weights(given, message):
    with pytest.raises(ValueError, match=message):
        FeatureWeightDisplay.from_weights([0.5, 0.5], **given)
    with pytest.raises(ValueError, match=r"shape \(n_features,\); got shape \(0,\)"):
        FeatureWeightDisplay.from_weights([])


# ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("gamma", ["features", "width"])
def test_accuracies_along_the_bases_are_those_of_smaller_machines(data, others, gamma):
    # the figures of the paper show them; a machine with fewer bases draws the same ones first
    settings = {"gamma": gamma, "cv": None, "stopping": None}
    split = Split(*data, *others)
    full = make(8, **settings).fit(*data)
    scores = basis_values(full, others[0]) @ full.dual_coef_[0] + full.intercept_[0]
    np.testing.assert_allclose(scores, full.decision_function(others[0]), rtol=0, atol=1e-10)
    along = accuracy_path(full, split)
    smaller = [make(k, **settings).fit(*data).score(*others) for k in range(1, 9)]
    np.testing.assert_allclose(along, smaller, rtol=0, atol=1e-12)
