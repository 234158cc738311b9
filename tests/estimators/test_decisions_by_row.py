"""Decisions by the costs of each row: Bayes' rule, import vectors, minimax, rate limits."""

import array_api_strict
import numpy as np
import pytest
import sklearn
from scipy.optimize import minimize_scalar
from sklearn.datasets import make_classification
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from grayzone import (
    BayesDecisionClassifier,
    ImportVectorMachine,
    ImportVectorMachineCV,
    MinimaxProbabilityMachine,
    RateLimitClassifier,
    SparseMinimaxProbabilityMachine,
    TruncatedLogisticRegression,
)
from grayzone.decision import action_costs, adjust_prior, bayes_decision, cost_matrices
from grayzone.metrics import expected_cost
from grayzone.sources import from_batches


@pytest.fixture(scope="module")
def data():
    return make_classification(300, 4, weights=[0.6], flip_y=0.1, random_state=0)


@pytest.fixture(scope="module")
def rows(data):
    rng = np.random.default_rng(0)
    return cost_matrices({0: rng.lognormal(size=300), 1: 2 * rng.lognormal(size=300)}, [0, 1])


def repeated(matrix, n):
    return np.broadcast_to(np.asarray(matrix, dtype=float), (n, *np.shape(matrix)))


def deciding(name):
    """A machine that is fitted with costs, or not."""
    return {
        "bayes": lambda costs: BayesDecisionClassifier(LogisticRegression(), costs=costs),
        "import vectors": lambda costs: ImportVectorMachine(max_import_points=6, costs=costs),
        "import vectors CV": lambda costs: ImportVectorMachineCV(
            Cs=[1.0], max_import_points=6, costs=costs, random_state=0
        ),
        "minimax": lambda costs: MinimaxProbabilityMachine(costs=costs, cv=None),
        "kernel minimax": lambda costs: MinimaxProbabilityMachine(
            kernel="rbf", costs=costs, cv=None
        ),
    }[name]


NAMES = ["bayes", "import vectors", "import vectors CV", "minimax", "kernel minimax"]


@pytest.mark.parametrize("name", NAMES)
def test_constant_rows_are_the_costs_of_the_fit(data, name):
    X, y = data
    costs = {0: 1.0, 1: 3.0}
    clf = deciding(name)(costs).fit(X, y)
    for unit in (1.0, 1e-3, 7e5):
        E = unit * repeated([[0, 1], [3, 0]], len(y))
        np.testing.assert_array_equal(clf.predict(X, example_costs=E), clf.predict(X))
        mapping = {0: np.full(len(y), unit), 1: 3.0 * unit}
        np.testing.assert_array_equal(clf.predict(X, example_costs=mapping), clf.predict(X))


@pytest.mark.parametrize("name", NAMES[:3])
def test_other_constant_rows_are_the_costs_of_another_fit(data, name):
    X, y = data
    clf = deciding(name)(None).fit(X, y)
    E = repeated([[0.5, 4], [1, 0.25]], len(y))
    decided = clf.predict(X, example_costs=E)
    np.testing.assert_array_equal(decided, bayes_decision(clf.predict_proba(X), E[0]))
    assert np.any(decided != clf.predict(X))


@pytest.mark.parametrize("name", [*NAMES, "sparse minimax"])
def test_dearer_positives_are_decided_for_sooner(data, name):
    X, y = data
    if name == "sparse minimax":
        clf = SparseMinimaxProbabilityMachine(n_bases=4, cv=None, stopping=None, random_state=0)
    else:
        clf = deciding(name)(None)
    clf.fit(X, y)
    shares = [
        np.mean(clf.predict(X, example_costs={0: np.ones(len(y)), 1: dear}))
        for dear in (0.0, 0.05, 1.0, 20.0)
    ]
    assert shares == sorted(shares)
    assert shares[0] == 0.0
    assert shares[1] < shares[2] < shares[3]
    assert np.mean(clf.predict(X, example_costs={0: np.zeros(len(y)), 1: 1.0})) == 1.0
    # rows are decided one by one: parts of them as the whole
    E = cost_matrices({0: np.exp(X[:, 0]), 1: 1.0}, [0, 1])
    whole = clf.predict(X, example_costs=E)
    parts = [clf.predict(X[k : k + 50], example_costs=E[k : k + 50]) for k in range(0, 300, 50)]
    np.testing.assert_array_equal(np.concatenate(parts), whole)
    assert len(np.unique(whole)) == 2


@pytest.mark.parametrize("name", ["bayes", "import vectors"])
def test_rows_decide_better_than_what_they_cost_on_average(data, rows, name):
    X, y = data
    clf = deciding(name)(rows.mean(axis=0)).fit(X, y)
    by_rows = expected_cost(y, clf.predict(X, example_costs=rows), example_costs=rows)
    assert by_rows < expected_cost(y, clf.predict(X), example_costs=rows)


# Bayes' rule --------------------------------------------------------------------------------


def test_rows_may_stay_undecided_and_have_another_prior(data, rows):
    X, y = data
    inner = LogisticRegression().fit(X, y)
    clf = BayesDecisionClassifier(
        FrozenEstimator(inner), reject_cost={0: 0.2, 1: 0.4}, prior={0: 0.8, 1: 0.2}
    ).fit(X, y)
    shares = [np.mean(y == 0), np.mean(y == 1)]
    proba = adjust_prior(inner.predict_proba(X), shares, [0.8, 0.2])
    wanted = bayes_decision(proba, rows, reject_cost=[0.2, 0.4])
    decided = clf.predict(X, example_costs=rows)
    np.testing.assert_array_equal(decided, np.asarray([0, 1, -1])[wanted])
    assert set(np.unique(decided)) == {-1, 0, 1}
    np.testing.assert_allclose(
        clf.expected_costs(X, example_costs=rows),
        action_costs(proba, rows, reject_cost=[0.2, 0.4]),
    )


def test_costs_of_rows_move_to_where_the_probabilities_are(data, rows):
    X, y = data
    here = BayesDecisionClassifier(TruncatedLogisticRegression(zone=None)).fit(X, y)
    wanted = here.predict(X, example_costs=rows)
    device = array_api_strict.Device("device1")
    with sklearn.config_context(array_api_dispatch=True):
        there = [array_api_strict.asarray(a, device=device) for a in (X, y)]
        clf = BayesDecisionClassifier(TruncatedLogisticRegression(zone=None)).fit(*there)
        for costs in (
            rows,
            array_api_strict.asarray(rows),
            array_api_strict.asarray(rows, device=device),
        ):
            got = clf.predict(there[0], example_costs=costs)
            assert got.device == device
            here_again = array_api_strict.asarray(wanted, device=device)
            assert bool(array_api_strict.all(got == here_again))


@pytest.mark.parametrize("name", ["minimax", "import vectors", "rate limit"])
def test_costs_of_rows_move_to_where_the_scores_are(data, rows, name):
    X, y = data
    if name == "rate limit":
        inner = TruncatedLogisticRegression(zone=None)
        clf = RateLimitClassifier(inner, max_fpr=0.3, random_state=0)
    else:
        clf = deciding(name)(None)
    wanted = clf.fit(X, y).predict(X, example_costs=rows)
    device = array_api_strict.Device("device1")
    with sklearn.config_context(array_api_dispatch=True):
        there = [array_api_strict.asarray(a, device=device) for a in (X, y)]
        clf.fit(*there)
        for costs in (rows, array_api_strict.asarray(rows, device=device)):
            got = clf.predict(there[0], example_costs=costs)
            assert got.device == device
            assert bool(
                array_api_strict.all(got == array_api_strict.asarray(wanted, device=device))
            )


def test_thresholds_beyond_the_zone_of_a_fit_are_said(data):
    X, y = data
    clf = BayesDecisionClassifier(TruncatedLogisticRegression(zone=(0.3, 0.7))).fit(X, y)
    near, far = repeated([[0, 1], [1, 0]], 300).copy(), None
    clf.predict(X, example_costs=near)
    far = near.copy()
    far[:30, 0, 1] = 9.0
    with pytest.warns(
        UserWarning, match=r"costs of 30 of 300 rows .* outside the zone \(0.3, 0.7\)"
    ):
        clf.predict(X, example_costs=far)
    none = near * 0.0
    none[0] = near[0]
    clf.predict(X, example_costs=none)  # rows without a stake have no threshold
    # under another prior the same threshold is another one on the classifier's probabilities
    inner = FrozenEstimator(clf.estimator_)
    rarer = BayesDecisionClassifier(inner, prior={0: 0.98, 1: 0.02}, costs={0: 1, 1: 25}).fit(X, y)
    with pytest.warns(UserWarning, match="300 of 300 rows"):
        rarer.predict(X, example_costs=near)


def test_predict_gets_costs_of_rows_through_pipelines(data, rows):
    X, y = data
    clf = BayesDecisionClassifier(LogisticRegression())
    model = make_pipeline(StandardScaler(), clf).fit(X, y)
    wanted = model[-1].predict(model[0].transform(X), example_costs=rows)
    np.testing.assert_array_equal(model.predict(X, example_costs=rows), wanted)
    with sklearn.config_context(enable_metadata_routing=True):
        model[-1].set_predict_request(example_costs=True)
        np.testing.assert_array_equal(model.predict(X, example_costs=rows), wanted)
        fitted = BayesDecisionClassifier(
            TruncatedLogisticRegression(zone=None).set_fit_request(example_costs=True)
        )
        fitted.fit(X, y, example_costs=rows)
        direct = TruncatedLogisticRegression(zone=None).fit(X, y, example_costs=rows)
        np.testing.assert_array_equal(fitted.estimator_.coef_, direct.coef_)


# Minimax machines ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["minimax", "kernel minimax", "sparse minimax"])
def test_a_row_has_the_threshold_of_least_cost_in_the_worst_case(data, name):
    X, y = data
    if name == "sparse minimax":
        clf = SparseMinimaxProbabilityMachine(n_bases=4, cv=None, stopping=None, random_state=0)
        ridge = 0.0
    else:
        clf, ridge = deciding(name)(None), None
    scores = clf.fit(X, y).decision_function(X)
    means = [scores[y == k].mean() for k in (0, 1)]
    assert means[1] - means[0] == pytest.approx(1.0, abs=1e-9)
    reach, s_y, s_x, *_ = clf._spread
    assert means[1] == pytest.approx(reach, abs=1e-9)
    if ridge is not None:  # without one, these are the deviations of the scores
        assert s_y == pytest.approx(scores[y == 0].std(), rel=1e-4)
        assert s_x == pytest.approx(scores[y == 1].std(), rel=1e-4)
    shares = np.mean(y == 0), np.mean(y == 1)

    for fp, fn in ((1.0, 2.0), (5.0, 1.0), (1.0, 30.0)):

        def worst(cut, fp=fp, fn=fn):
            wrong_y = s_y**2 / (s_y**2 + (cut - reach + 1) ** 2)
            wrong_x = s_x**2 / (s_x**2 + (reach - cut) ** 2)
            return shares[0] * fp * wrong_y + shares[1] * fn * wrong_x

        grid = np.linspace(reach - 1, reach, 2001)
        start = grid[np.argmin([worst(c) for c in grid])]
        bounds = max(start - 1e-3, reach - 1), min(start + 1e-3, reach)
        best = minimize_scalar(worst, bounds=bounds, method="bounded", options={"xatol": 1e-12}).x
        decided = clf.predict(X, example_costs={0: np.full(len(y), fp), 1: fn})
        clear = np.abs(scores - best) > 1e-6
        np.testing.assert_array_equal(decided[clear], (scores > best)[clear].astype(int))


def test_machines_that_cannot_take_costs_of_rows(data):
    X, y = data
    E = np.ones((len(y), 2, 2)) - np.eye(2)
    clf = MinimaxProbabilityMachine(required_bound={1: 0.3}, cv=None).fit(X, y)
    with pytest.raises(ValueError, match="required_bound"):
        clf.predict(X, example_costs=E)
    clf = MinimaxProbabilityMachine(cv=None).fit(X, y)
    np.testing.assert_array_equal(clf.predict(X, example_costs=0 * E), clf.predict(X))
    with pytest.raises(ValueError, match="those of row 0 do not"):
        clf.predict(X, example_costs=1 - E)
    with pytest.warns(UserWarning, match="same mean"):
        blind = MinimaxProbabilityMachine(cv=None).fit(np.zeros((6, 2)), [0, 0, 0, 1, 1, 1])
    dear = {0: [1.0, 3.0], 1: [2.0, 2.0]}
    np.testing.assert_array_equal(blind.predict(np.zeros((2, 2)), example_costs=dear), [1, 0])


def test_blocks_and_single_precision_take_costs_of_rows(data, rows):
    X, y = data
    parts = slice(0, 100), slice(100, 300)
    for clf in (deciding("minimax")(None), deciding("import vectors")(None)):
        clf.fit(X, y)
        wanted = clf.predict(X, example_costs=rows)
        source = from_batches(lambda: ((X[part], None, None, rows[part]) for part in parts))
        got = np.concatenate(list(clf.predict(source)))
        np.testing.assert_array_equal(got, wanted)
        single = clf.predict(X.astype(np.float32), example_costs=rows)
        assert np.mean(single == wanted) > 0.99


# Rate limits --------------------------------------------------------------------------------


def test_limits_are_kept_whatever_rows_cost():
    X, y = make_classification(4000, 5, weights=[0.7], flip_y=0.1, random_state=0)
    train, test = slice(0, 2000), slice(2000, None)
    rng = np.random.default_rng(0)
    E = cost_matrices({0: rng.lognormal(0, 2, 2000), 1: rng.lognormal(0, 2, 2000)}, [0, 1])
    common = {"random_state": 0}
    for limits in ({"max_fpr": 0.1}, {"min_recall": 0.7}, {"max_fpr": 0.3, "min_recall": 0.6}):
        clf = RateLimitClassifier(LogisticRegression(), **limits, **common).fit(X[train], y[train])
        decided = clf.predict(X[test], example_costs=E)
        p = clf.predict_proba(X[test])[:, 1]
        low, high = clf.threshold_range_
        assert np.all(decided[p < low] == 0)
        assert np.all(decided[p >= high] == 1)
        own = E[:, 0, 1] / (E[:, 0, 1] + E[:, 1, 0])
        np.testing.assert_array_equal(decided, (p >= np.clip(own, low, high)).astype(int))
        if "max_fpr" in limits:
            assert decided[y[test] == 0].mean() <= limits["max_fpr"]
        if "min_recall" in limits:
            assert decided[y[test] == 1].mean() >= limits["min_recall"]
        if low < high:
            one = expected_cost(y[test], decided, example_costs=E)
            assert one < expected_cost(y[test], clf.predict(X[test]), example_costs=E)


def test_limits_of_the_other_class_turn_thresholds_round():
    X, y = make_classification(1000, 5, random_state=0)
    clf = RateLimitClassifier(LogisticRegression(), min_recall=0.7, positive=0, random_state=0)
    clf.fit(X, y)
    E = cost_matrices({0: np.exp(X[:, 0]), 1: 1.0}, [0, 1])
    p = clf.predict_proba(X)[:, 0]
    own = np.minimum(1.0 / (1.0 + np.exp(X[:, 0])), clf.threshold_range_[1])
    np.testing.assert_array_equal(clf.predict(X, example_costs=E), np.where(p >= own, 0, 1))


def test_rows_that_are_held_out_take_their_costs_along():
    X, y = make_classification(1000, 5, random_state=0)
    inner = TruncatedLogisticRegression(zone=None)
    mapping = {0: np.exp(X[:, 0]), 1: 1.0}
    E = cost_matrices(mapping, [0, 1])
    one, other = (
        RateLimitClassifier(inner, max_fpr=0.3, random_state=0).fit(X, y, example_costs=costs)
        for costs in (E, mapping)
    )
    np.testing.assert_array_equal(one.estimator_.coef_, other.estimator_.coef_)
    plain = RateLimitClassifier(inner, max_fpr=0.3, random_state=0).fit(X, y)
    assert np.any(plain.estimator_.coef_ != one.estimator_.coef_)


def test_limits_that_costs_of_rows_cannot_keep():
    X, y = make_classification(1000, 5, random_state=0)
    E = np.ones((1000, 2, 2)) - np.eye(2)
    clf = RateLimitClassifier(LogisticRegression(), min_precision=0.7, random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="cannot be kept beside min_precision"):
        clf.predict(X, example_costs=E)
    clf = RateLimitClassifier(LinearSVC(), max_fpr=0.2, random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="two classes with predict_proba"):
        clf.predict(X, example_costs=E)


# Bad input ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*NAMES[:2], "minimax", "rate limit"])
@pytest.mark.parametrize(
    ("costs", "message"),
    [
        (np.ones((2, 2, 2)), "costs of 2 rows; expected 300"),
        (np.ones((300, 2)), r"shape \(300, 2\); expected \(300, 2, 2\)"),
        (np.ones((300, 3, 3)), "expected"),
        ({0: np.ones(299), 1: 1.0}, "costs of 299 rows; expected 300"),
        ({0: np.ones(300)}, r"no entry for \[1\]"),
        ({0: np.ones(300), 1: 1.0, 2: 1.0}, r"names \[2\], not among the classes"),
        ({0: np.full(300, np.nan), 1: 1.0}, "must be finite; got nan in row 0"),
        ({0: -np.ones(300), 1: 1.0}, "must not be negative; got -1 in row 0"),
        ("dear", "made of numbers"),
    ],
)
def test_costs_of_rows_that_will_not_do(data, name, costs, message):
    X, y = data
    if name == "rate limit":
        clf = RateLimitClassifier(LogisticRegression(), max_fpr=0.3, random_state=0).fit(X, y)
    else:
        clf = deciding(name)(None).fit(X, y)
    with pytest.raises(ValueError, match=message):
        clf.predict(X, example_costs=costs)


def test_nothing_at_stake_is_no_error(data):
    X, y = data
    for name in NAMES[:2]:
        clf = deciding(name)(None).fit(X, y)
        assert set(clf.predict(X, example_costs=np.ones((300, 2, 2)))) <= {0, 1}


def test_a_search_passes_costs_of_rows_to_none_of_its_predictions(data):
    X, y = data
    search = GridSearchCV(BayesDecisionClassifier(LogisticRegression()), {"estimator__C": [1.0]})
    with pytest.raises(TypeError, match="example_costs"):
        search.fit(X, y).predict(X, example_costs=np.ones((300, 2, 2)))
