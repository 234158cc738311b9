"""C and the zone chosen by cross-validation: the same fits, scores and choice as by hand."""

import pickle

import numpy as np
import pytest
from recording import Recording
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics import accuracy_score, get_scorer, log_loss
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import KFold, StratifiedKFold, cross_val_score, cross_validate

import grayzone.estimators._zone_grid as module
from grayzone import TruncatedLogisticRegression, TruncatedLogisticRegressionCV
from grayzone.estimators.truncated_cv import _best_pair
from grayzone.metrics import expected_cost

CS, ZONES = [10.0, 0.01, 0.5], [1.0, 0.3, None]  # not in order


def data(n=120, d=3, n_classes=2, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    score = X[:, 0] + np.sin(2.0 * X[:, 1]) + 0.7 * rng.normal(size=n)
    return X, np.searchsorted(np.quantile(score, np.arange(1, n_classes) / n_classes), score)


def plain_of(search, C, zone):
    """Give the plain estimator of one pair."""
    known = TruncatedLogisticRegression().get_params()
    shared = {name: value for name, value in search.get_params().items() if name in known}
    return TruncatedLogisticRegression(C=C, zone=zone, **shared)


def by_cost(estimator, X, y, sample_weight=None):
    return -expected_cost(
        y,
        estimator.predict(X),
        costs=estimator.cost_matrix_,
        labels=estimator.classes_,
        sample_weight=sample_weight,
    )


# ---------------------------------------------------------------------------- by hand

SETTINGS = {
    "linear": {},
    "costs": {"costs": {0: 1.0, 1: 4.0}},
    "balanced costs": {"costs": "balanced"},
    "balanced weights": {"class_weight": "balanced"},
    "no intercept": {"fit_intercept": False},
    "primal": {"solver": "primal"},
    "ramp": {"loss": "ramp", "zones": [1.0, 0.3]},
    "pairs": {"zones": [(0.2, 0.6), 1.0]},
    "rbf": {"kernel": "rbf"},
    "poly": {"kernel": "poly", "gamma": 0.5, "coef0": 1.0, "degree": 2},
    "function": {"kernel": lambda X, Z: np.exp(-((X[:, None] - Z) ** 2).sum(axis=2))},
}


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_every_fit_and_score_is_that_of_a_plain_fit(name, n_classes):
    if (name, n_classes) in {("costs", 3), ("pairs", 3)}:
        pytest.skip("for two classes")
    X, y = data(n_classes=n_classes)
    heard = []

    def scorer(estimator, X, y):
        heard.append(estimator)
        return by_cost(estimator, X, y)

    folds = StratifiedKFold(3, shuffle=True, random_state=0)
    search = TruncatedLogisticRegressionCV(
        **{"Cs": CS, "zones": ZONES, "cv": folds, "scoring": scorer, **SETTINGS[name]}
    ).fit(X, y)
    assert search.scores_.shape == search.n_iters_path_.shape == (len(search.zones), 3, 3)
    assert len(heard) == search.scores_.size
    for i, zone in enumerate(search.zones):
        for j, C in enumerate(search.Cs_):
            by_hand = cross_validate(
                plain_of(search, C, zone),
                X,
                y,
                cv=folds,
                scoring=by_cost,
                return_estimator=True,
            )
            np.testing.assert_allclose(search.scores_[i, j], by_hand["test_score"], atol=1e-12)
            found = [model for model in heard if (model.C, str(model.zone)) == (C, str(zone))]
            for model, plain in zip(found, by_hand["estimator"], strict=True):
                assert model.objective_ == pytest.approx(plain.objective_, rel=2e-6)
                np.testing.assert_allclose(
                    model.decision_function(X), plain.decision_function(X), atol=2e-3
                )


@pytest.mark.parametrize(("kernel", "n_classes"), [("linear", 2), ("linear", 3), ("rbf", 2)])
def test_fits_with_a_start_reach_the_same_optimum(kernel, n_classes, monkeypatch):
    monkeypatch.setattr(module, "_WORTH_A_START", 0)
    X, y = data(700, n_classes=n_classes)
    heard = []

    def scorer(estimator, X, y):
        heard.append(estimator)
        return by_cost(estimator, X, y)

    fold = next(StratifiedKFold(3).split(X, y))
    TruncatedLogisticRegressionCV(
        Cs=CS, zones=ZONES[:2], cv=[fold], scoring=scorer, kernel=kernel
    ).fit(X, y)
    for model in heard:
        assert model.dual_gap_ <= 1e-6
        plain = clone(model).fit(X[fold[0]], y[fold[0]])
        assert model.objective_ == pytest.approx(plain.objective_, rel=2e-6)


def test_the_refit_is_a_plain_fit():
    X, y = data()
    for kernel in ("linear", "rbf"):
        search = TruncatedLogisticRegressionCV(Cs=3, kernel=kernel, random_state=0).fit(X, y)
        plain = plain_of(search, search.C_, search.best_zone_).fit(X, y)
        learned = {n for n in vars(plain) if n.endswith("_")} - {"n_iter_"}
        assert learned <= set(vars(search))
        for name in learned:
            np.testing.assert_array_equal(getattr(search, name), getattr(plain, name))
        for method in ("decision_function", "predict_proba", "predict_log_proba", "predict"):
            np.testing.assert_array_equal(getattr(search, method)(X), getattr(plain, method)(X))
        np.testing.assert_array_equal(search.support_vectors_, plain.support_vectors_)
        again = pickle.loads(pickle.dumps(search))
        np.testing.assert_array_equal(again.predict(X), search.predict(X))


def test_without_a_refit_there_is_a_choice_but_no_model():
    X, y = data()
    search = TruncatedLogisticRegressionCV(Cs=3).fit(X, y)
    chosen = clone(search).set_params(refit=False).fit(X, y)
    assert (chosen.C_, chosen.best_zone_) == (search.C_, search.best_zone_)
    with pytest.raises(NotFittedError, match="refit=False"):
        chosen.predict(X)
    # nothing is left of an earlier model, either
    search.set_params(refit=False).fit(X, y)
    assert set(vars(search)) == set(vars(chosen))


def test_a_kernel_may_come_after_another():
    X, y = data()
    search = TruncatedLogisticRegressionCV(Cs=2).fit(X, y).set_params(kernel="rbf").fit(X, y)
    fresh = clone(search).fit(X, y)
    assert set(vars(search)) == set(vars(fresh))
    np.testing.assert_array_equal(search.predict_proba(X), fresh.predict_proba(X))


# ---------------------------------------------------------------------------- the grid


def test_an_integer_is_a_logarithmic_scale():
    X, y = data()
    search = TruncatedLogisticRegressionCV(Cs=5, cv=2, zones=[1.0]).fit(X, y)
    np.testing.assert_allclose(search.Cs_, [1e-4, 1e-2, 1.0, 1e2, 1e4])


def test_the_best_mean_is_chosen():
    X, y = data()
    search = TruncatedLogisticRegressionCV(Cs=CS, zones=ZONES, scoring="neg_log_loss").fit(X, y)
    i, j = np.unravel_index(search.scores_.mean(axis=2).argmax(), (3, 3))
    assert (search.C_, search.best_zone_) == (CS[j], ZONES[i])


def test_ties_go_to_the_smaller_c_then_to_the_narrower_zone():
    X, y = data()
    zones = [None, (0.1, 0.7), 0.5, 2.0]
    search = TruncatedLogisticRegressionCV(
        Cs=CS, zones=zones, cv=2, scoring=lambda estimator, X, y: 0.1
    ).fit(X, y)
    assert search.C_ == 0.01
    assert search.best_zone_ == 0.5
    # sums in another order are a tie, too
    scores = np.array([[[0.1, 0.2, 0.3], [0.3, 0.2, 0.1]]])
    assert scores.mean(axis=2)[0, 0] != scores.mean(axis=2)[0, 1]
    for Cs, expected in (([1.0, 2.0], 0), ([2.0, 1.0], 1)):
        assert _best_pair(scores, np.array(Cs), np.ones(1)) == (0, expected)


def test_pairs_without_a_score_are_not_chosen():
    X, y = data()

    def scoring(estimator, X, y):
        return np.nan if estimator.C < 1.0 else -estimator.C

    search = TruncatedLogisticRegressionCV(Cs=[0.1, 1.0, 10.0], scoring=scoring).fit(X, y)
    assert search.C_ == 1.0
    with pytest.raises(ValueError, match="no finite mean score"):
        search.set_params(scoring=lambda estimator, X, y: np.nan).fit(X, y)


def test_the_same_zone_is_not_fitted_twice(monkeypatch):
    X, y = data()
    fits = []
    plain = TruncatedLogisticRegression._fit_to

    def counted(self, *arguments, **options):
        fits.append((self.C, self.zone))
        return plain(self, *arguments, **options)

    monkeypatch.setattr(TruncatedLogisticRegression, "_fit_to", counted)
    pair = TruncatedLogisticRegression(zone=1.0).fit(X, y).zone_
    search = TruncatedLogisticRegressionCV(
        Cs=2, zones=[1.0, pair, (0.0, 1.0), None], cv=3, refit=False
    )
    # of plain logistic regression there are fits to all folds at once, and no others
    for scoring, n_fits in ((by_cost, 2 * 2 * 3), (None, 3 * 3)):
        fits.clear()
        search.set_params(scoring=scoring).fit(X, y)
        scores = search.zone_scores_ if scoring is None else search.scores_
        assert len(fits) == n_fits
        np.testing.assert_array_equal(scores[0], scores[1])
        np.testing.assert_array_equal(scores[2], scores[3])


# ---------------------------------------------------------------------------- scoring


@pytest.mark.parametrize("scoring", ["balanced_accuracy", "neg_log_loss", get_scorer("roc_auc")])
def test_scorers(scoring):
    X, y = data()
    search = TruncatedLogisticRegressionCV(
        Cs=[0.1], zones=[0.5], scoring=scoring, costs={0: 1, 1: 3}
    )
    search.fit(X, y)
    by_hand = cross_val_score(plain_of(search, 0.1, 0.5), X, y, cv=5, scoring=scoring)
    np.testing.assert_allclose(search.scores_[0, 0], by_hand, rtol=1e-9)
    judge = get_scorer(scoring) if isinstance(scoring, str) else scoring
    assert search.score(X, y) == judge(search, X, y)
    assert not hasattr(search, "gate_")


def test_the_score_is_weighted():
    X, y = data()
    weight = np.random.default_rng(0).uniform(size=len(y))
    search = TruncatedLogisticRegressionCV(Cs=2, zones=[1.0]).fit(X, y)
    predicted, proba = search.predict(X), search.predict_proba(X)
    expected = -expected_cost(y, predicted, sample_weight=weight)
    assert search.score(X, y, weight) == expected
    search.set_params(scoring="accuracy")
    assert search.score(X, y, weight) == accuracy_score(y, predicted, sample_weight=weight)
    search.set_params(scoring=lambda estimator, X, y: -log_loss(y, proba))
    assert search.score(X, y, weight) == -log_loss(y, proba)


# ---------------------------------------------------------------------------- kinds of data


def test_a_precomputed_kernel():
    X, y = data()
    K = rbf_kernel(X, gamma=0.4)
    given = TruncatedLogisticRegressionCV(Cs=CS, kernel="precomputed").fit(K, y)
    computed = TruncatedLogisticRegressionCV(Cs=CS, kernel="rbf", gamma=0.4).fit(X, y)
    np.testing.assert_allclose(given.scores_, computed.scores_)
    np.testing.assert_allclose(given.predict_proba(K), computed.predict_proba(X), atol=1e-4)
    assert given.__sklearn_tags__().input_tags.pairwise
    with pytest.raises(ValueError, match="square"):
        given.fit(K[:, :5], y)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_several_jobs_change_nothing(kernel):
    X, y = data()
    one = TruncatedLogisticRegressionCV(Cs=CS, kernel=kernel, cv=3).fit(X, y)
    two = clone(one).set_params(n_jobs=2).fit(X, y)
    np.testing.assert_array_equal(two.scores_, one.scores_)
    np.testing.assert_array_equal(two.n_iters_path_, one.n_iters_path_)
    np.testing.assert_array_equal(two.dual_coef_, one.dual_coef_)


# ---------------------------------------------------------------------------- work


def test_starts_save_iterations():
    X, y = data(6000, 5)
    fold = next(StratifiedKFold(3).split(X, y))
    search = TruncatedLogisticRegressionCV(Cs=np.logspace(-2, 4, 7), zones=[1.0], cv=[fold])
    search.set_params(refit=False).fit(X, y)
    plain = [plain_of(search, C, 1.0).fit(X[fold[0]], y[fold[0]]).n_iter_ for C in search.Cs_]
    # steps that read rows twice, and need hardly a Hessian each, in place of Newton's
    assert search.n_iters_path_.sum() < 2 * sum(plain)
    assert search.n_iters_path_[1:].max() <= 6


def test_kernel_values_are_shared():
    X, y = data(900)
    fold = next(StratifiedKFold(3).split(X, y))
    values = []

    def kernel(X, Z):
        values.append(X.shape[0] * Z.shape[0])
        return rbf_kernel(X, Z, gamma=0.3)

    search = (
        TruncatedLogisticRegressionCV(
            Cs=[0.1, 1.0, 10.0], zones=[0.5, 1.0], cv=[fold], kernel=kernel, refit=False
        )
        .set_params(scoring=by_cost)
        .fit(X, y)
    )
    shared, values[:] = sum(values), []
    for C in search.Cs_:
        for zone in search.zones:
            plain_of(search, C, zone).fit(X[fold[0]], y[fold[0]]).predict(X[fold[1]])
    assert shared < 0.7 * sum(values)


# ---------------------------------------------------------------------------- on the way


def test_fits_that_do_not_converge_are_counted_in_one_warning():
    X, y = data()
    search = TruncatedLogisticRegressionCV(
        Cs=[1.0, 100.0], zones=[0.5], cv=3, solver="primal", tol=1e-13, max_iter=1
    )
    with pytest.warns(ConvergenceWarning, match="16 of 16 fits stopped") as caught:
        search.fit(X, y)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert "max_iter (now 1)" in str(caught[0].message)
    with pytest.warns(ConvergenceWarning, match="6 of 6"):
        search.set_params(refit=False, scoring=by_cost).fit(X, y)


@pytest.mark.parametrize(("enough", "plain", "zoned"), [(99, 4, 4), (6, 4, 2), (2, 2, 1)])
def test_callbacks_may_stop_on_the_way_to_the_gate(enough, plain, zoned):
    pytest.importorskip("sklearn.callback")
    X, y = data()
    recording = Recording("fold", stop_at=enough)
    search = TruncatedLogisticRegressionCV(Cs=2, cv=4).set_callbacks(recording).fit(X, y)
    shapes = [facts["scores"].shape for facts in recording.facts]
    assert shapes == [(1, 2)] * plain + [(4, 3)] * zoned
    assert (search.scores_.shape, search.zone_scores_.shape) == ((2, plain), (4, 3, zoned))
    held_out = np.isin(
        np.arange(len(y)),
        np.concatenate([test for _, test in list(StratifiedKFold(4).split(X, y))[:zoned]]),
    )
    np.testing.assert_array_equal(np.isfinite(search.oof_decision_function_), held_out)


# ---------------------------------------------------------------------------- bad input

WRONG = {
    "no C": ({"Cs": []}, "Cs must be"),
    "a C of zero": ({"Cs": [0.0, 1.0]}, "Cs must be"),
    "an infinite C": ({"Cs": [np.inf]}, "Cs must be"),
    "a name for C": ({"Cs": "many"}, "Cs must be"),
    "no number of Cs": ({"Cs": 0}, "Cs must be an integer >= 1"),
    "half a C": ({"Cs": 1.5}, "Cs must be an integer"),
    "a table of Cs": ({"Cs": [[1.0], [2.0]]}, "Cs must be"),
    "no zone": ({"zones": ()}, "zones must be"),
    "one width": ({"zones": 1.0}, "zones must be"),
    "a name for zones": ({"zones": "wide"}, "zones must be"),
    "a negative width": ({"zones": [1.0, -1.0]}, "zone must be a finite number > 0"),
    "an empty zone": ({"zones": [1.0, (0.5, 0.5)]}, "p_min < p_max"),
    "a ramp without a zone": ({"zones": [1.0, None], "loss": "ramp"}, "loss='ramp'"),
    "no folds": ({"cv": []}, "at least one fold"),
    "an unknown scoring": ({"scoring": "beauty"}, "beauty"),
    "several scorings": ({"scoring": ["accuracy", "f1"]}, "scoring must be"),
    "a scoring of many numbers": ({"scoring": lambda m, X, y: np.ones(3)}, "must give one number"),
    "a tolerance of zero": ({"tol": 0.0}, "tol must be"),
    "an unknown kernel": ({"kernel": "round"}, "kernel must be"),
}


@pytest.mark.parametrize("name", WRONG)
def test_bad_parameters_are_told(name):
    parameters, message = WRONG[name]
    search = TruncatedLogisticRegressionCV(**{"Cs": 2, "cv": 2, **parameters})
    before = dict(vars(search))
    with pytest.raises(ValueError, match=message):
        search.fit(*data())
    assert vars(search) == before


def test_folds_that_cannot_be_fitted_are_told():
    X, y = data()
    order = np.argsort(y, kind="stable")
    with pytest.raises(ValueError, match=r"Fold 0 of cv leaves the classes \[0\] without"):
        TruncatedLogisticRegressionCV(Cs=2, cv=KFold(2)).fit(X[order], y[order])
    weight = np.arange(120) >= 60
    folds = [(np.arange(60, 120), np.arange(60)), (np.arange(60), np.arange(60, 120))]
    with pytest.raises(ValueError, match="Fold 0 of cv holds out no row with a positive weight"):
        TruncatedLogisticRegressionCV(Cs=2, cv=folds).fit(X, y, sample_weight=weight)


def test_folds_may_be_masks():
    X, y = data()
    held = np.arange(120) % 3 == 0
    masks = TruncatedLogisticRegressionCV(Cs=2, cv=[(~held, held)]).fit(X, y)
    numbers = [(np.flatnonzero(~held), np.flatnonzero(held))]
    expected = TruncatedLogisticRegressionCV(Cs=2, cv=numbers).fit(X, y)
    np.testing.assert_array_equal(masks.scores_, expected.scores_)
