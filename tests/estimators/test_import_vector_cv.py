"""The path of penalties, steps (C1) to (C5): the same points, scores and choice as by hand."""

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from plain_greedy import Plain, gaussian_kernel
from recording import Recording
from scipy.special import softmax
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import accuracy_score, get_scorer, log_loss
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import KFold, StratifiedKFold
from test_import_vector import assert_as_before, data, frozen

from grayzone import ImportVectorMachine, ImportVectorMachineCV
from grayzone.estimators._search import best_places
from grayzone.metrics import expected_cost
from grayzone.solvers.greedy import growth

CS = [10.0, 0.1, 1.0]  # not in order
COLUMNS = ["fold", "C", "n_import_points", "objective", "score"]

KINDS = {
    "binary": (2, "symmetric"),
    "symmetric": (3, "symmetric"),
    "reference": (3, "reference"),
}


def search_of(**parameters):
    """A search that is quick, where nothing else is said."""
    return ImportVectorMachineCV(**{"Cs": CS, "tol": 2e-2, "random_state": 0, **parameters})


def everything(n):
    """One fold, in which all rows are both for training and held out."""
    return [(np.arange(n), np.arange(n))]


class Witness:
    """A scorer that remembers the models it was shown."""

    def __init__(self, scorer="neg_log_loss"):
        self.scorer = get_scorer(scorer) if isinstance(scorer, str) else scorer
        self.Cs, self.points, self.proba, self.models, self.rows = [], [], [], [], []

    def __call__(self, estimator, X, y):
        self.points.append(estimator.import_points_.tolist())
        self.proba.append(estimator.predict_proba(X))
        self.models.append(estimator.get_params())
        self.rows.append(len(y))
        return self.scorer(estimator, X, y)


# ------------------------------------------------------------------------- (C1)-(C5), by hand


def by_hand(K, y, test, K_test, Cs, tol, lag, parametrization):
    """Grow points from the strongest penalty on, with refits of all candidates each time."""
    S, A, records = [], None, []

    def record(C, value):
        full = np.zeros((len(test), plain.own.shape[1]))
        full[:, plain.free] = K_test[:, S] @ A[:-1] + A[-1]
        score = -log_loss(test, softmax(full, axis=1))
        records.append((C, len(S), value, score))

    for C in sorted(Cs):  # (C1), (C4): 1/C goes down
        plain = Plain(K, y, C, parametrization=parametrization)
        value, A = plain.fit(S, A)
        path = [value]
        record(C, value)
        while len(path) <= lag or abs(path[-1] - path[-1 - lag]) >= tol * abs(path[-1]):
            row, value, A = plain.best_addition(S, A)  # (C3)
            S = [*S, row]
            path.append(value)
            record(C, value)
    return records, S


@pytest.mark.parametrize(
    ("kind", "lag"), [("binary", 1), ("binary", 2), ("symmetric", 1), ("reference", 1)]
)
def test_the_path_is_that_of_the_paper(kind, lag):
    n_classes, parametrization = KINDS[kind]
    X, y = data(54, n_classes)
    train, test = np.arange(0, 30), np.arange(30, 54)
    found = ImportVectorMachineCV(
        Cs=CS,
        cv=[(train, test)],
        scoring="neg_log_loss",
        selection="exact",
        gamma=0.8,
        tol=0.05,
        n_iter_no_change=lag,
        parametrization=parametrization,
        refit=False,
    ).fit(X, y)
    K = gaussian_kernel(X, X, 0.8)
    records, _ = by_hand(
        K[np.ix_(train, train)],
        y[train],
        y[test],
        K[np.ix_(test, train)],
        CS,
        0.05,
        lag,
        parametrization,
    )
    assert list(found.path_) == COLUMNS
    strength, size, value, score = (np.array(column) for column in zip(*records, strict=True))
    np.testing.assert_array_equal(found.path_["fold"], 0)
    np.testing.assert_array_equal(found.path_["C"], strength)
    np.testing.assert_array_equal(found.path_["n_import_points"], size)
    np.testing.assert_allclose(found.path_["objective"], value, rtol=1e-8)
    # an optimum to 1e-8 of the criterion has scores to the square root of that
    np.testing.assert_allclose(found.path_["score"], score, atol=1e-4)
    last = [np.flatnonzero(strength == each)[-1] for each in sorted(CS)]
    np.testing.assert_array_equal(found.scores_[:, 0], found.path_["score"][last])


@pytest.mark.parametrize("kind", KINDS)
def test_points_are_nested_from_small_to_large_c(kind):
    n_classes, parametrization = KINDS[kind]
    X, y = data(90, n_classes)
    witness = Witness()
    found = search_of(cv=3, scoring=witness, parametrization=parametrization).fit(X, y)
    path = pd.DataFrame(found.path_)
    assert len(witness.points) == len(path)
    assert [len(points) for points in witness.points] == path["n_import_points"].tolist()
    assert np.all(np.diff(path["fold"]) >= 0)
    for _, fold in path.groupby("fold"):
        assert np.all(np.diff(fold["C"]) >= 0.0)
        points = [witness.points[i] for i in fold.index]
        assert points[0] == []
        for earlier, later in pairwise(points):
            assert later[: len(earlier)] == earlier
        # at a new penalty it goes on with the points there are, and adds at least one
        sizes = fold.groupby("C")["n_import_points"]
        assert sizes.first().tolist() == [0, *sizes.last()[:-1]]
        assert np.all(sizes.last() > sizes.first())
        # less penalty, less of the criterion; more points, too
        assert np.all(np.diff(fold["objective"]) <= 0.0)


def test_every_step_is_a_fit_to_the_points_so_far():
    X, y = data(90)
    train, test = np.arange(60), np.arange(60, 90)
    witness = Witness()
    found = search_of(cv=[(train, test)], scoring=witness, gamma=0.5, refit=False).fit(X, y)
    K = gaussian_kernel(X[train], X[train], 0.5)
    for i, points in enumerate(witness.points):
        plain = Plain(K, y[train], found.path_["C"][i])
        value, A = plain.fit(points)
        assert found.path_["objective"][i] == pytest.approx(value, rel=1e-8)
        scores = gaussian_kernel(X[test], X[train[points]], 0.5) @ A[:-1] + A[-1]
        proba = softmax(np.column_stack([np.zeros(30), scores]), axis=1)
        np.testing.assert_allclose(witness.proba[i], proba, atol=1e-4)
        score = -log_loss(y[test], witness.proba[i])
        assert found.path_["score"][i] == pytest.approx(score, rel=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_the_model_is_the_path_to_the_chosen_c_on_all_rows(kind):
    n_classes, parametrization = KINDS[kind]
    X, y = data(80, n_classes)
    found = search_of(parametrization=parametrization, scoring="neg_log_loss").fit(X, y)
    witness = Witness()
    chosen = [C for C in CS if C <= found.C_]
    whole = search_of(
        Cs=chosen, cv=everything(80), scoring=witness, refit=False, parametrization=parametrization
    ).fit(X, y)
    assert found.import_points_.tolist() == witness.points[-1]
    assert found.objective_ == whole.path_["objective"][-1]
    np.testing.assert_array_equal(found.predict_proba(X), witness.proba[-1])
    # its path has the rounds of additions, at the penalty of each
    added = np.diff(whole.path_["n_import_points"]) > 0
    np.testing.assert_array_equal(found.objective_path_, whole.path_["objective"][1:][added])
    assert found.n_iter_ == len(found.objective_path_)
    np.testing.assert_array_equal(found.import_vectors_, X[found.import_points_])


def test_one_c_is_a_plain_fit():
    X, y = data(80)
    for parameters in (
        {},
        {"n_candidates": 10},
        {"allow_removal": True, "tol": 1e-4},
        {"zone": 1.0},
    ):
        found = search_of(Cs=[3.0], **parameters).fit(X, y)
        plain = ImportVectorMachine(3.0, **{"tol": 2e-2, "random_state": 0, **parameters})
        plain.fit(X, y)
        if "n_candidates" not in parameters:  # which are other draws
            np.testing.assert_array_equal(found.import_points_, plain.import_points_)
            # the model without points is refitted once more, which leaves its rounding error
            np.testing.assert_allclose(found.dual_coef_, plain.dual_coef_, rtol=0.0, atol=1e-9)
        learned = {n for n in vars(plain) if n.endswith("_")}
        assert learned <= set(vars(found))


def test_no_more_points_than_allowed_along_the_path():
    X, y = data(80)
    found = search_of(cv=2, max_import_points=4, tol=0.0).fit(X, y)
    path = pd.DataFrame(found.path_)
    assert path["n_import_points"].max() == 4
    # then only the penalty changes
    assert path.groupby(["fold", "C"]).size().tolist() == [5, 1, 1, 5, 1, 1]
    assert len(found.import_points_) == 4


# --------------------------------------------------------------------------------- the choice


def test_an_integer_is_a_logarithmic_scale():
    X, y = data(60)
    found = search_of(Cs=5, cv=2, max_import_points=3).fit(X, y)
    np.testing.assert_allclose(found.Cs_, [1e-4, 1e-2, 1.0, 1e2, 1e4])
    assert found.scores_.shape == (5, 2)
    assert ImportVectorMachineCV().Cs == 10


@pytest.mark.parametrize("scoring", ["neg_log_loss", "accuracy", None])
def test_the_best_mean_is_chosen(scoring):
    X, y = data(90, noise=1.0)
    found = search_of(Cs=[1e3, 1e-3, 1.0, 10.0], cv=3, scoring=scoring).fit(X, y)
    np.testing.assert_array_equal(found.Cs_, [1e-3, 1.0, 10.0, 1e3])
    means = found.scores_.mean(axis=1)
    first = np.flatnonzero(means >= means.max() - 1e-12)[0]
    assert found.Cs_[first] == found.C_


def test_ties_go_to_the_smaller_c():
    X, y = data(60)
    found = search_of(cv=2, scoring=lambda estimator, X, y: 0.1).fit(X, y)
    assert found.C_ == 0.1
    # sums in another order are a tie, too
    scores = np.array([[0.1, 0.2, 0.3], [0.3, 0.2, 0.1]])
    assert scores.mean(axis=1)[0] != scores.mean(axis=1)[1]
    assert best_places(scores, "C")[0] == best_places(scores[::-1], "C")[0] == 0
    assert best_places(np.array([[0.1], [0.1 + 1e-9]]), "C")[0] == 1


def test_a_c_without_a_score_is_not_chosen():
    X, y = data(60)
    seen = []

    def scoring(estimator, X, y):
        seen.append(len(estimator.import_points_))
        return np.nan if len(estimator.import_points_) < 5 else -len(estimator.import_points_)

    found = search_of(cv=2, scoring=scoring).fit(X, y)
    usable = np.flatnonzero(np.isfinite(found.scores_.mean(axis=1)))
    assert found.C_ == found.Cs_[usable[0]] > found.Cs_[0]
    with pytest.raises(ValueError, match="no finite mean score"):
        search_of(scoring=lambda estimator, X, y: np.nan).fit(X, y)


@pytest.mark.parametrize("scoring", ["f1", "neg_log_loss", get_scorer("roc_auc"), None])
def test_scorers(scoring):
    X, y = data(80)
    train, test = np.arange(50), np.arange(50, 80)
    costs = {0: 1.0, 1: 3.0}
    found = search_of(Cs=[2.0], cv=[(train, test)], scoring=scoring, costs=costs).fit(X, y)
    plain = ImportVectorMachine(2.0, tol=2e-2, costs=costs).fit(X[train], y[train])

    def cost(estimator, X, y):
        return -expected_cost(y, estimator.predict(X), costs=costs)

    judge = cost if scoring is None else get_scorer(scoring)
    assert found.scores_.item() == pytest.approx(judge(plain, X[test], y[test]), rel=1e-12)
    assert found.score(X, y) == pytest.approx(judge(found, X, y), rel=1e-12)


def test_the_default_score_knows_the_costs():
    X, y = data(90, 3)
    costs = np.array([[0.0, 1.0, 5.0], [2.0, 0.0, 1.0], [1.0, 1.0, 0.0]])
    found = search_of(cv=everything(90), Cs=[1.0], costs=costs).fit(X, y)
    expected = np.mean(costs[y, found.predict(X)])
    assert found.scores_.item() == pytest.approx(-expected, rel=1e-12)
    assert found.score(X, y) == pytest.approx(-expected, rel=1e-12)


# ---------------------------------------------------------------------------------- the folds


def test_kinds_of_folds():
    X, y = data(90)
    expected = search_of(cv=StratifiedKFold(3), scoring="neg_log_loss").fit(X, y)
    splits = list(StratifiedKFold(3).split(X, y))
    masks = [(np.isin(np.arange(90), a), np.isin(np.arange(90), b)) for a, b in splits]
    for cv in (3, splits, masks):
        found = search_of(cv=cv, scoring="neg_log_loss").fit(X, y)
        np.testing.assert_array_equal(found.scores_, expected.scores_)
    once = search_of(cv=iter(splits), scoring="neg_log_loss").fit(X, y)
    np.testing.assert_array_equal(once.scores_, expected.scores_)
    assert expected.scores_.shape == (3, 3)
    assert sorted(set(expected.path_["fold"])) == [0, 1, 2]


@pytest.mark.parametrize("share", [0.2, 0.5])
def test_without_folds_a_stratified_share_is_held_out(share):
    X, _ = data(100)
    y = (np.arange(100) % 10 == 0).astype(int)
    held_out = []

    def scoring(estimator, X, y):
        held_out.append((len(y), int(y.sum())))
        return 0.0

    found = search_of(scoring=scoring, validation_fraction=share).fit(X, y)
    assert set(held_out) == {(100 * share, 10 * share)}
    assert found.scores_.shape == (3, 1)
    assert ImportVectorMachineCV().validation_fraction == 0.2


def test_held_out_rows_are_not_looked_at():
    X, y = data(90)
    train, test = np.arange(60), np.arange(60, 90)
    far = X.copy()
    far[60:] *= 50.0  # would change gamma="scale"
    other = np.where(np.arange(90) < 60, y, 1)  # would change the prior
    seen = []

    def scoring(estimator, features, labels):
        seen.append(estimator.decision_function(X[:60]))
        return 0.0

    search = search_of(Cs=[1.0], cv=[(train, test)], costs="balanced", scoring=scoring, refit=False)
    search.fit(X, y)
    first = list(seen)
    seen.clear()
    search.fit(far, other)
    np.testing.assert_array_equal(first, seen)


def test_folds_that_cannot_be_fitted_are_told():
    X, y = data(60)
    order = np.argsort(y, kind="stable")
    with pytest.raises(ValueError, match=r"Fold 0 of cv leaves the classes \[0\] without"):
        search_of(cv=KFold(2)).fit(X[order], y[order])
    weight = np.arange(60) >= 30
    halves = [(np.arange(30, 60), np.arange(30)), (np.arange(30), np.arange(30, 60))]
    with pytest.raises(ValueError, match="Fold 0 of cv holds out no row with a positive weight"):
        search_of(cv=halves).fit(X, y, sample_weight=weight)
    lonely = np.where(np.arange(60) == 4, "rare", "common")
    with pytest.raises(ValueError, match=r"two rows of each class; class .*'rare'.* has 1"):
        search_of().fit(X, lonely)


@pytest.mark.parametrize("share", [0.1, 0.9])
def test_two_rows_of_a_class_are_enough_for_one_split(share):
    X, _ = data(60)
    y = (np.arange(60) < 2).astype(int)
    found = search_of(validation_fraction=share, scoring="neg_brier_score").fit(X, y)
    assert np.isfinite(found.scores_).all()


# ------------------------------------------------------------------------- weights, randomness


def test_weights_reach_the_scorer():
    X, y = data(80)
    weight = np.random.default_rng(0).uniform(size=80)
    train, test = np.arange(50), np.arange(50, 80)
    heard = []

    def weighs(estimator, X, y, sample_weight=None):
        heard.append(sample_weight)
        return accuracy_score(y, estimator.predict(X), sample_weight=sample_weight)

    search = search_of(Cs=[1.0], cv=[(train, test)], scoring=weighs)
    found = clone(search).fit(X, y, weight)
    for given in heard:
        np.testing.assert_array_equal(given, weight[test])
    plain = ImportVectorMachine(tol=2e-2).fit(X[train], y[train], weight[train])
    expected = accuracy_score(y[test], plain.predict(X[test]), sample_weight=weight[test])
    assert found.scores_.item() == pytest.approx(expected, rel=1e-12)
    named = clone(search).set_params(scoring="accuracy").fit(X, y, weight)
    assert named.scores_.item() == pytest.approx(expected, rel=1e-12)
    by_cost = clone(search).set_params(scoring=None).fit(X, y, weight)
    assert by_cost.scores_.item() == pytest.approx(expected - 1.0, rel=1e-12)
    heard.clear()
    clone(search).fit(X, y)
    assert heard == [None] * len(heard)
    value = found.score(X, y, weight)
    assert value == accuracy_score(y, found.predict(X), sample_weight=weight)


def test_several_jobs_change_nothing():
    X, y = data(90)
    one = search_of(cv=3, n_candidates=20, scoring="neg_log_loss").fit(X, y)
    two = clone(one).set_params(n_jobs=2).fit(X, y)
    np.testing.assert_array_equal(two.scores_, one.scores_)
    for name in COLUMNS:
        np.testing.assert_array_equal(two.path_[name], one.path_[name])
    np.testing.assert_array_equal(two.dual_coef_, one.dual_coef_)


# -------------------------------------------------------------------------------- no refit


def test_without_a_refit_there_is_a_choice_but_no_model():
    X, y = data(80)
    found = search_of().fit(X, y)
    chosen = search_of(refit=False).fit(X, y)
    assert chosen.C_ == found.C_
    np.testing.assert_array_equal(chosen.scores_, found.scores_)
    np.testing.assert_array_equal(chosen.classes_, found.classes_)
    for method in ("predict", "predict_proba", "decision_function", "predict_log_proba"):
        with pytest.raises(NotFittedError, match="refit=False"):
            getattr(chosen, method)(X)
    with pytest.raises(NotFittedError, match="refit=False"):
        _ = chosen.import_vectors_
    # nothing is left of an earlier model, either
    found.set_params(refit=False).fit(X, y)
    assert vars(found).keys() == vars(chosen).keys()


# ------------------------------------------------------------------------------- parameters


def test_parameters_reach_the_fits():
    X, y = data(80)
    parameters = {
        "kernel": "poly",
        "gamma": 0.5,
        "degree": 2,
        "coef0": 1.5,
        "max_import_points": 7,
        "selection": "power",
        "n_candidates": 30,
        "points_per_step": 2,
        "allow_removal": True,
        "zone": 2.0,
        "tol": 1e-2,
        "n_iter_no_change": 2,
        "fit_intercept": False,
        "costs": {0: 1.0, 1: 2.0},
        "class_weight": {0: 1.0, 1: 3.0},
        "parametrization": "reference",
    }
    witness = Witness()
    search_of(Cs=[1.0], cv=2, scoring=witness, refit=False, **parameters).fit(X, y)
    for given in witness.models:
        assert given.items() >= parameters.items()
    assert clone(search_of(**parameters)).get_params().items() >= parameters.items()


WRONG = {
    "no C": ({"Cs": []}, "Cs must be"),
    "a C of zero": ({"Cs": [0.0, 1.0]}, "Cs must be"),
    "an infinite C": ({"Cs": [np.inf]}, "Cs must be"),
    "a name for C": ({"Cs": "many"}, "Cs must be"),
    "no number of Cs": ({"Cs": 0}, "Cs must be an integer >= 1"),
    "half a C": ({"Cs": 1.5}, "Cs must be an integer"),
    "a table of Cs": ({"Cs": [[1.0], [2.0]]}, "Cs must be"),
    "no folds": ({"cv": []}, "at least one fold"),
    "a word for folds": ({"cv": "some"}, "cv"),
    "nothing held out": ({"validation_fraction": 0.0}, "validation_fraction must be between"),
    "all held out": ({"validation_fraction": 1.0}, "validation_fraction must be between"),
    "an unknown scoring": ({"scoring": "beauty"}, "beauty"),
    "several scorings": ({"scoring": ["accuracy", "f1"]}, "scoring must be"),
    "a scoring of many numbers": ({"scoring": lambda m, X, y: np.ones(3)}, "must give one number"),
    "a negative tolerance": ({"tol": -1.0}, "tol must be"),
    "an unknown kernel": ({"kernel": "round"}, "kernel must be"),
    "an unknown selection": ({"selection": "best"}, "selection must be"),
    "no candidates": ({"n_candidates": 0}, "n_candidates must be"),
    "exact blocks": (
        {"selection": "exact", "points_per_step": 2},
        "points_per_step must then be 1",
    ),
    "no points": ({"max_import_points": 0}, "max_import_points must be"),
    "no lag": ({"n_iter_no_change": 0}, "n_iter_no_change must be"),
    "an unknown parametrization": ({"parametrization": "last"}, "parametrization must be"),
    "an empty zone": ({"zone": (0.5, 0.5)}, "p_min < p_max"),
    "unknown costs": ({"costs": "cheap"}, "costs='cheap' is not known"),
    "a negative width": ({"gamma": -1.0}, "gamma must be"),
    "class weights": ({"class_weight": {0: -1.0, 1: 1.0}}, "class_weight must give"),
    "a seed": ({"random_state": "lucky"}, "cannot be used to seed"),
}


@pytest.mark.parametrize("name", WRONG)
def test_bad_parameters_are_told_and_leave_no_trace(name):
    parameters, message = WRONG[name]
    X, y = data(40)
    search = search_of(**{"max_import_points": 2, **parameters})
    before = frozen(search)
    with pytest.raises(ValueError, match=message):
        search.fit(X, y)
    assert_as_before(search, before)


# ------------------------------------------------------------------------------ kinds of data


def test_a_precomputed_kernel():
    X, y = data(80)
    K = rbf_kernel(X, gamma=0.4)
    given = search_of(kernel="precomputed", cv=2).fit(K, y)
    computed = search_of(gamma=0.4, cv=2).fit(X, y)
    np.testing.assert_allclose(given.scores_, computed.scores_)
    np.testing.assert_allclose(given.path_["objective"], computed.path_["objective"], rtol=1e-9)
    np.testing.assert_array_equal(given.import_points_, computed.import_points_)
    np.testing.assert_allclose(given.predict_proba(K), computed.predict_proba(X), atol=1e-8)
    assert given.__sklearn_tags__().input_tags.pairwise
    with pytest.raises(ValueError, match="square"):
        search_of(kernel="precomputed").fit(K[:, :5], y)


@pytest.mark.parametrize(("enough", "told"), [(9, 4), (2, 2)])
def test_callbacks_hear_of_folds_and_may_stop(enough, told):
    pytest.importorskip("sklearn.callback")
    X, y = data(80)
    recording = Recording("fold", stop_at=enough)
    alone = search_of(cv=4).fit(X, y)
    found = search_of(cv=4).set_callbacks(recording).fit(X, y)
    heard = [facts["scores"] for facts in recording.facts]
    np.testing.assert_array_equal(np.column_stack(heard), found.scores_)
    np.testing.assert_array_equal(found.scores_, alone.scores_[:, :told])
    assert sorted(set(found.path_["fold"])) == list(range(told))
    assert found.predict(X).shape == y.shape


def test_the_path_costs_little_more_than_its_end(monkeypatch):
    # few points are needed where the penalty is strong: refits along the path against one fit each
    X, y = data(150)
    refits, plain = [], growth.refit

    def counted(*arguments, **more):
        refits.append(arguments)
        return plain(*arguments, **more)

    monkeypatch.setattr(growth, "refit", counted)
    Cs = np.logspace(-2.0, 3.0, 6)
    search_of(Cs=Cs, cv=everything(150), refit=False, tol=1e-3).fit(X, y)
    path = len(refits)
    refits.clear()
    for C in Cs:
        ImportVectorMachine(C).fit(X, y)
    assert path < 0.8 * len(refits)
