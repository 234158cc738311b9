"""Zones and bounds are used where they pay: the gates by hand, and which way they went."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import RepeatedStratifiedKFold, ShuffleSplit, StratifiedKFold

from grayzone import (
    BayesDecisionClassifier,
    TightBoundLogisticRegression,
    TightBoundLogisticRegressionCV,
    TruncatedLogisticRegression,
    TruncatedLogisticRegressionCV,
)
from grayzone.decision import bayes_decision, cost_matrix
from grayzone.estimators._gate import Yardstick, least, of_all_rows
from grayzone.estimators._moved_cut import ANYWHERE, Deciding
from grayzone.estimators.truncated_cv import _cheapest

CS = [0.01, 0.1, 1.0, 10.0]
FOLDS = StratifiedKFold(3, shuffle=True, random_state=0)
BOTH = (TruncatedLogisticRegressionCV, TightBoundLogisticRegressionCV)


def data(n=150, n_classes=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    score = X[:, 0] - 0.5 * X[:, 1] + 0.9 * rng.normal(size=n)
    return X, np.searchsorted(np.quantile(score, np.arange(1, n_classes) / n_classes), score)


def bent(n=300, seed=2):
    """Rows of which a fifth are far away and tell the opposite: one plane is too simple."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    far = rng.random(n) < 0.2
    X[far] = rng.normal(size=(far.sum(), 2)) * 0.5 + [0.0, 8.0]
    p = np.where(far, X[:, 0] <= 0.0, 1.0 / (1.0 + np.exp(-6.0 * X[:, 0])))
    return X, (rng.random(n) < p).astype(int)


def penalty_by_hand(X, y, weight=None, folds=FOLDS):
    """Return the C of least log-loss of scikit-learn's logistic regression, and the losses."""
    losses = np.zeros((len(CS), 3))
    weight = np.ones(len(y)) if weight is None else weight
    for k, (train, test) in enumerate(folds.split(X, y)):
        for i, C in enumerate(CS):
            model = LogisticRegression(C=C, tol=1e-10, max_iter=10_000)
            model.fit(X[train], y[train], weight[train])
            p = model.predict_proba(X[test])
            losses[i, k] = log_loss(y[test], p, sample_weight=weight[test], labels=np.unique(y))
    return CS[int(losses.mean(axis=1).argmin())], losses


def by_hand_oof(model, X, y, weight=None, folds=FOLDS, method="decision_function"):
    """Return what models that have not seen a row say of it."""
    found = None
    for train, test in folds.split(X, y):
        given = {} if weight is None else {"sample_weight": weight[train]}
        values = getattr(clone(model).fit(X[train], y[train], **given), method)(X[test])
        found = np.empty((len(y), *values.shape[1:])) if found is None else found
        found[test] = values
    return found


def gain_of(plain, candidate, weight):
    """Return the mean of what rows save, and its standard error."""
    share, saved = weight / weight.sum(), plain - candidate
    gain = share @ saved
    n = np.count_nonzero(weight)
    return gain, np.sqrt(n / (n - 1) * np.sum(share**2 * (saved - gain) ** 2))


# ------------------------------------------------------------------------------------------
# The comparison
# ------------------------------------------------------------------------------------------


def yardstick(weight):
    codes = np.arange(len(weight)) % 2
    return Yardstick(codes, weight, np.ones(2), np.array([[0.0, 1.0], [4.0, 0.0]]))


def test_the_standard_error_is_that_of_a_paired_comparison():
    rng = np.random.default_rng(0)
    plain, candidate = rng.random(50), rng.random(50)
    found = yardstick(np.ones(50)).compare(np.arange(50), plain, candidate, 1.5)
    saved = plain - candidate
    assert found.gain == pytest.approx(saved.mean())
    assert found.standard_error == pytest.approx(saved.std(ddof=1) / np.sqrt(50))
    weight = rng.uniform(0.5, 3.0, size=50) * (rng.random(50) < 0.9)
    found = yardstick(weight).compare(np.arange(50), plain, candidate, 1.5)
    assert found[:2] == pytest.approx(gain_of(plain, candidate, weight))


def test_more_than_the_standard_errors_is_asked_for():
    saved = np.r_[np.ones(4), np.zeros(12)]  # mean .25, standard error .112
    judge = yardstick(np.ones(16)).compare
    for errors, accepted in ((2.2, True), (2.3, False)):
        assert judge(np.arange(16), saved, np.zeros(16), errors).accepted is accepted
    assert not judge(np.arange(16), np.zeros(16), saved, 1.0).accepted
    # nothing is no gain, and one row no evidence
    assert not judge(np.arange(16), saved, saved, 1.0).accepted
    assert not judge(np.array([3]), np.ones(1), np.zeros(1), 1.0).accepted


def test_rows_that_several_folds_hold_out_count_once():
    rng = np.random.default_rng(0)
    plain, candidate = rng.random(20), rng.random(20)
    once = yardstick(np.ones(20)).compare(np.arange(20), plain, candidate, 1.0)
    rows = np.r_[np.arange(20), np.arange(20)]
    twice = yardstick(np.ones(20)).compare(rows, np.tile(plain, 2), np.tile(candidate, 2), 1.0)
    assert twice[:2] == pytest.approx(once[:2])


def test_scores_of_rows_are_means_of_their_folds():
    scores = np.array([[1.0], [3.0], [5.0]])
    found = of_all_rows(np.array([0, 2, 2]), scores, 4)
    np.testing.assert_array_equal(found, [1.0, np.nan, 4.0, np.nan])


def test_ties_go_to_wider_zones_then_to_the_c_in_the_middle():
    class Walk:
        def __init__(self, decided):
            self.results = {pair: Result(scores) for pair, scores in decided.items()}

    class Result:
        def __init__(self, scores):
            self.judged = self
            self.of_rows = scores

    right, wrong = np.array([[-1.0], [1.0]]), np.array([[-1.0], [-1.0]])
    judge = Yardstick(np.array([0, 1]), np.ones(2), np.ones(2), 1.0 - np.eye(2))
    widths = np.array([1.2, 1.9, 1.5])
    deciding, ranges = Deciding.of(judge, [np.arange(2)]), [ANYWHERE] * 3
    same = {(zone, C): right for zone in range(3) for C in range(3)}
    assert _cheapest(deciding, [Walk(same)], widths, ranges) == (1, 1)
    worse = same | {(1, C): wrong for C in range(3)} | {(2, 1): wrong}
    assert _cheapest(deciding, [Walk(worse)], widths, ranges) == (2, 0)
    # sums in another order are a tie, too
    assert least(np.array([0.3, 0.1 + 0.2])).ravel().tolist() == [0, 1]


# ------------------------------------------------------------------------------------------
# Zones
# ------------------------------------------------------------------------------------------

SETTINGS = {
    "two classes": (2, {}),
    "costs": (2, {"costs": {0: 1.0, 1: 4.0}}),
    "three classes": (3, {}),
    "a cost matrix": (3, {"costs": [[0.0, 1.0, 2.0], [1.0, 0.0, 1.0], [5.0, 1.0, 0.0]]}),
}


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", SETTINGS)
def test_the_gate_of_zones_by_hand(name, weighted):
    n_classes, own = SETTINGS[name]
    X, y = data(n_classes=n_classes)
    weight = np.random.default_rng(3).uniform(0.5, 2.0, len(y)) if weighted else np.ones(len(y))
    zones = [0.5, 2.0]
    given = {"sample_weight": weight} if weighted else {}
    found = TruncatedLogisticRegressionCV(Cs=CS, zones=zones, cv=FOLDS, tol=1e-10, **own)
    found.fit(X, y, **given)
    C, losses = penalty_by_hand(X, y, weight)
    np.testing.assert_allclose(found.scores_, -losses, rtol=1e-5)
    matrix = cost_matrix(own.get("costs"), np.unique(y))

    def paid(zone, C):
        model = TruncatedLogisticRegression(C=C, zone=zone, tol=1e-10, **own)
        proba = by_hand_oof(model, X, y, weight if weighted else None, method="predict_proba")
        return matrix[y, bayes_decision(proba, matrix)]

    plain = paid(None, C)
    tried = {(zone, by * C): paid(zone, by * C) for zone in zones for by in (0.1, 1.0, 10.0)}
    costs = {pair: np.average(values, weights=weight) for pair, values in tried.items()}
    candidate = found.gate_["candidate"]
    pair = min(
        costs, key=lambda p: abs(np.log(p[1] / candidate["C"])) + (p[0] != candidate["zone"])
    )
    assert costs[pair] == pytest.approx(min(costs.values()))
    gain, error = gain_of(plain, tried[pair], weight)
    assert found.gate_["gain"] == pytest.approx(gain)
    assert found.gate_["standard_error"] == pytest.approx(error)
    assert found.gate_["required_gain"] == pytest.approx(1.5 * error)
    assert found.gate_["plain_cost"] == pytest.approx(np.average(plain, weights=weight))
    assert found.gate_["accepted"] == (gain > 1.5 * error)
    assert (found.C_, found.best_zone_) == ((C, None) if gain <= 1.5 * error else pair)


@pytest.mark.parametrize("own", [{}, {"kernel": "rbf"}, {"class_weight": "balanced"}])
def test_without_a_gain_it_is_plain_logistic_regression(own):
    X, y = data()
    found = TruncatedLogisticRegressionCV(Cs=CS, cv=FOLDS, **own).fit(X, y)
    assert not found.gate_["accepted"]
    assert found.gate_["chosen"] == f"logistic regression, C={found.C_:g}"
    assert (found.best_zone_, found.zone_) == (None, (0.0, 1.0))
    plain = TruncatedLogisticRegression(C=found.C_, zone=None, **own)
    np.testing.assert_array_equal(found.predict_proba(X), clone(plain).fit(X, y).predict_proba(X))
    np.testing.assert_allclose(found.oof_decision_function_, by_hand_oof(plain, X, y), atol=1e-3)


@pytest.mark.parametrize("loss", ["truncated", "ramp"])
def test_a_zone_that_pays_is_taken(loss):
    X, y = bent()
    found = TruncatedLogisticRegressionCV(Cs=[0.1, 1.0, 10.0], cv=FOLDS, loss=loss).fit(X, y)
    gate = found.gate_
    assert gate["accepted"]
    assert gate["gain"] > gate["required_gain"] > 0.0
    assert gate["chosen"] == f"zone={found.best_zone_}, C={found.C_:g}"
    assert gate["candidate"] == {"zone": found.best_zone_, "C": found.C_}
    model = TruncatedLogisticRegression(C=found.C_, zone=found.best_zone_, loss=loss)
    np.testing.assert_array_equal(found.predict(X), clone(model).fit(X, y).predict(X))
    by_hand = by_hand_oof(model, X, y)
    np.testing.assert_allclose(found.oof_decision_function_, by_hand, atol=1e-3)
    # and decides better on rows that nobody has seen
    X, y = bent(3_000, seed=3)
    plain = LogisticRegression().fit(*bent())
    assert np.mean(found.predict(X) != y) < np.mean(plain.predict(X) != y)


def test_what_is_saved_is_told_in_the_unit_of_costs():
    X, y = bent()
    cents = TruncatedLogisticRegressionCV(Cs=CS, zones=[1.0], cv=FOLDS, costs={0: 1, 1: 2})
    euros = clone(cents).set_params(costs={0: 0.01, 1: 0.02})
    one, other = cents.fit(X, y).gate_, euros.fit(X, y).gate_
    for name in ("gain", "standard_error", "required_gain", "plain_cost"):
        assert other[name] == pytest.approx(one[name] / 100)


# ------------------------------------------------------------------------------------------
# Bounds
# ------------------------------------------------------------------------------------------


def near(above):
    """Share of thresholds within half a unit of log-odds that scores are above."""
    return np.clip(above + 0.5, 0.0, 1.0)


@pytest.mark.parametrize("ratio", [1.0, 4.0])
def test_the_gate_of_bounds_by_hand(ratio):
    X, y = data()
    costs = {0: 1.0, 1: ratio}
    found = TightBoundLogisticRegressionCV(Cs=CS, cv=FOLDS, costs=costs, tol=1e-10).fit(X, y)
    C, losses = penalty_by_hand(X, y)
    assert found.C_ == C
    np.testing.assert_allclose(found.scores_, -losses, rtol=1e-5)
    plain = LogisticRegression(C=C, tol=1e-10, max_iter=10_000)
    bounds = TightBoundLogisticRegression(C=C, n_bounds=3, costs=costs, tol=1e-10)

    def paid(above):
        return np.where(y == 1, ratio * (1.0 - near(above)), near(above))

    before, after = by_hand_oof(plain, X, y), by_hand_oof(bounds, X, y)
    after *= before.std() / after.std()
    gain, error = gain_of(paid(before + np.log(ratio)), paid(after), np.ones(len(y)))
    assert found.gate_["gain"] == pytest.approx(gain, rel=1e-4)
    assert found.gate_["standard_error"] == pytest.approx(error, rel=1e-4)
    assert found.gate_["accepted"] == (gain > error)


UNDECIDED = {
    "undecided": (2, {"reject_cost": 0.2}),
    "undecided, costs": (2, {"reject_cost": {0: 0.2, 1: 0.5}, "costs": {0: 1.0, 1: 4.0}}),
    "three classes": (3, {}),
    "three classes, undecided": (3, {"reject_cost": 0.3}),
    "a cost matrix": (3, {"costs": [[0.0, 1.0, 2.0], [1.0, 0.0, 1.0], [5.0, 1.0, 0.0]]}),
}


@pytest.mark.parametrize("name", UNDECIDED)
def test_the_gate_of_other_actions_by_hand(name):
    n_classes, own = UNDECIDED[name]
    X, y = data(n_classes=n_classes)
    found = TightBoundLogisticRegressionCV(Cs=CS, cv=FOLDS, tol=1e-10, **own).fit(X, y)
    classes, reject = np.unique(y), own.get("reject_cost")
    matrix = cost_matrix(own.get("costs"), classes)
    if reject is not None:
        cost = [reject[k] if isinstance(reject, dict) else reject for k in classes.tolist()]
        matrix = np.column_stack([matrix, cost])
    plain = LogisticRegression(C=found.C_, tol=1e-10, max_iter=10_000)
    plain = BayesDecisionClassifier(plain, own.get("costs"), reject)
    bounds = TightBoundLogisticRegression(C=found.C_, tol=1e-10, **own)
    before, after = (
        matrix[y, by_hand_oof(m, X, y, method="predict").astype(int)] for m in (plain, bounds)
    )
    gain, error = gain_of(before, after, np.ones(len(y)))
    assert (found.gate_["gain"], found.gate_["standard_error"]) == pytest.approx((gain, error))
    assert found.gate_["accepted"] == (gain > error)
    if not found.gate_["accepted"]:
        np.testing.assert_array_equal(found.predict(X), plain.fit(X, y).predict(X))
        np.testing.assert_allclose(
            found.predict_proba(X), plain.estimator_.predict_proba(X), atol=1e-6
        )
    else:
        np.testing.assert_array_equal(found.predict(X), bounds.fit(X, y).predict(X))


@pytest.mark.parametrize("costs", [None, {0: 5.0, 1: 1.0}, "balanced"])
def test_the_fallback_is_logistic_regression_that_knows_no_costs(costs):
    X, y = data(n=400, seed=5)
    found = TightBoundLogisticRegressionCV(Cs=[0.01, 0.1], cv=FOLDS, costs=costs).fit(X, y)
    assert not found.gate_["accepted"]
    assert found.gate_["chosen"] == f"logistic regression, C={found.C_:g}"
    plain = LogisticRegression(C=found.C_, tol=1e-12, max_iter=10_000).fit(X, y)
    np.testing.assert_allclose(found.coef_, plain.coef_, atol=1e-6)
    np.testing.assert_allclose(found.intercept_, plain.intercept_, atol=1e-6)
    rule = BayesDecisionClassifier(plain, costs).fit(X, y)
    assert found.threshold_ == pytest.approx(rule.threshold_)
    np.testing.assert_array_equal(found.predict(X), rule.predict(X))
    taken = found.policy_proba(X)
    np.testing.assert_array_equal(found.actions_[taken.argmax(axis=1)], rule.predict(X))
    assert set(np.unique(taken)) == {0.0, 1.0}
    assert not hasattr(found, "expected_error_path_")
    by_hand = by_hand_oof(plain, X, y)
    np.testing.assert_allclose(found.oof_decision_function_, by_hand, atol=1e-5)


@pytest.mark.parametrize("own", [{}, {"reject_cost": 0.2}, {"n_bounds": 30}])
def test_bounds_that_pay_are_taken(own):
    X, y = bent()
    found = TightBoundLogisticRegressionCV(Cs=[0.1, 1.0, 10.0], cv=FOLDS, **own).fit(X, y)
    assert found.gate_["accepted"]
    assert found.gate_["gain"] > found.gate_["required_gain"] > 0.0
    assert found.gate_["chosen"] == f"{found.n_bounds} bounds, C={found.C_:g}"
    assert found.gate_["candidate"] == {"n_bounds": found.n_bounds, "C": found.C_}
    model = TightBoundLogisticRegression(C=found.C_, **{"n_bounds": 3, **own}).fit(X, y)
    for name in ("coef_", "intercept_", "expected_error_path_", "actions_", "threshold_"):
        np.testing.assert_array_equal(getattr(found, name), getattr(model, name))
    for method in ("predict", "predict_proba", "policy_proba", "decision_function"):
        np.testing.assert_array_equal(getattr(found, method)(X), getattr(model, method)(X))
    by_hand = by_hand_oof(model, X, y)
    np.testing.assert_allclose(found.oof_decision_function_, by_hand, rtol=1e-3, atol=1e-3)


def test_there_is_no_next_batch():
    search = TightBoundLogisticRegressionCV()
    assert not hasattr(search, "partial_fit")
    assert not hasattr(search.fit(*data()), "partial_fit")


def test_three_bounds_are_the_default():
    for kind in (TightBoundLogisticRegression, TightBoundLogisticRegressionCV):
        assert kind().n_bounds == 3
    X, y = data()
    assert TightBoundLogisticRegression().fit(X, y).n_iter_ <= 3


# ------------------------------------------------------------------------------------------
# Both
# ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", BOTH)
def test_several_jobs_change_nothing(kind):
    X, y = bent()
    one = kind(Cs=CS, cv=3).fit(X, y)
    two = clone(one).set_params(n_jobs=2).fit(X, y)
    assert two.gate_ == one.gate_
    np.testing.assert_array_equal(two.coef_, one.coef_)
    np.testing.assert_array_equal(two.oof_decision_function_, one.oof_decision_function_)


@pytest.mark.parametrize("kind", BOTH)
def test_folds_may_repeat_rows_and_leave_some_out(kind):
    X, y = data()
    repeated = RepeatedStratifiedKFold(n_splits=3, n_repeats=2, random_state=0)
    often = kind(Cs=CS, cv=repeated).fit(X, y)
    assert often.scores_.shape == (4, 6)
    assert np.all(np.isfinite(often.oof_decision_function_))
    some = ShuffleSplit(2, test_size=0.3, random_state=0)
    seldom = kind(Cs=CS, cv=some).fit(X, y)
    out = np.unique(np.concatenate([test for _, test in some.split(X)]))
    np.testing.assert_array_equal(np.flatnonzero(np.isfinite(seldom.oof_decision_function_)), out)


def test_fits_that_do_not_converge_are_counted_in_one_warning():
    X, y = data()
    search = TightBoundLogisticRegressionCV(Cs=[1.0, 1e4], cv=3, tol=1e-12, max_iter=1)
    with pytest.warns(ConvergenceWarning, match="10 of 10 fits stopped") as caught:
        search.fit(X, y)
    assert len(caught) == 1
    assert caught[0].filename == __file__


WRONG = {
    "no C": ({"Cs": []}, "Cs must be"),
    "a C of zero": ({"Cs": [0.0, 1.0]}, "Cs must be"),
    "no bound": ({"n_bounds": 0}, "n_bounds must be an integer >= 1"),
    "an unknown solver": ({"solver": "guess"}, "solver must be"),
    "a tolerance of zero": ({"tol": 0.0}, "tol must be"),
    "no folds": ({"cv": []}, "at least one fold"),
    "costs of one class": ({"costs": {0: 1.0}}, "costs has no entry"),
    "costs that are all equal": ({"costs": np.ones((2, 2))}, "make no difference"),
    "a negative cost": ({"costs": {0: -1.0, 1: 1.0}}, "costs"),
    "NaN for staying undecided": ({"reject_cost": np.nan}, "reject_cost"),
    "a taken label": ({"reject_cost": 0.1, "undecided_label": 1}, "undecided_label"),
}


@pytest.mark.parametrize("name", WRONG)
def test_bad_parameters_are_told(name):
    parameters, message = WRONG[name]
    search = TightBoundLogisticRegressionCV(**{"Cs": 2, "cv": 2, **parameters})
    before = dict(vars(search))
    with pytest.raises(ValueError, match=message):
        search.fit(*data())
    assert vars(search) == before


def test_every_parameter_of_a_fit_is_one_of_the_search():
    single = set(TightBoundLogisticRegression().get_params())
    limits = {"max_fpr", "min_recall", "min_precision", "confidence"}
    limits |= {"validation_fraction", "random_state"}
    own = {"Cs", "cv", "n_jobs"}
    assert set(TightBoundLogisticRegressionCV().get_params()) - own == (
        single - limits - {"C", "warm_start", "eta0"}
    )
