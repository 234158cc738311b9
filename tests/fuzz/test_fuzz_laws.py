"""Every law of the campaign finds a defect that is planted, and none where there is none."""

import json
import warnings

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning

import grayzone
from fuzz.blame import is_refusal
from fuzz.carriers import missing
from fuzz.cases import CARRIERS, draw_cases
from fuzz.laws import examine
from fuzz.reference import criterion_of, kernel_matrix, support_vector_start
from fuzz.rows import (
    HOSTILE,
    LABELS,
    NEW_ROWS,
    REWARDS,
    ROW_COSTS,
    TAME,
    TWISTS,
    WEIGHTS,
    make_rows,
)
from fuzz.shrink import shrunk
from grayzone import (
    TruncatedLogisticRegression,
)
from grayzone.numerics.checks import check_number
from grayzone.numerics.kernels import Kernel

ROWS = {"kind": "linear", "n": 30, "d": 2, "classes": 2, "seed": 3}
WRAPPERS = ("TightBoundClassifier", "BayesDecisionClassifier", "RateLimitClassifier")
# a decision model is fitted when it is made
PUBLIC = [
    name
    for name in grayzone.__all__
    if isinstance(getattr(grayzone, name), type) and name != "DecisionModel"
]
ESTIMATORS = [name for name in PUBLIC if issubclass(getattr(grayzone, name), BaseEstimator)]


def case_of(estimator="TruncatedLogisticRegression", carrier="NumPy", rows=ROWS, **parameters):
    if estimator in WRAPPERS:
        parameters["estimator"] = {"estimator": "LogisticRegression", "parameters": {}}
    if estimator == "DecisionEnsembleClassifier":
        parameters = {"members": ["logistic-regression"], "cv": 2, **parameters}
    if estimator == "RateLimitClassifier":
        parameters = {"max_fpr": 0.5, "confidence": 0.8, **parameters}
    return {
        "estimator": estimator,
        "parameters": parameters,
        "rows": rows,
        "carrier": carrier,
        "new rows": "far",
    }


# ------------------------------------------------------------------------------------------
# What is found
# ------------------------------------------------------------------------------------------


def zero_division(model, X):
    return 1 / (len(X) - len(X))


def foreign_value_error(model, X):
    return Kernel("linear")(X, X[:, :1])


def numpy_warning(model, X):
    with np.errstate(over="warn"):
        return np.float64(1e308) * 10.0


def not_finite(model, X):
    model.coef_[:] = np.nan


def infinite_gap(model, X):
    model.dual_gap_ = np.inf


def silent_gap(model, X):
    model.dual_gap_ = 0.5


def negative_gap(model, X):
    model.dual_gap_ = -0.1


def worse_than_a_constant(model, X):
    model.intercept_[:] = 50.0


def improper(model, X):
    model.predict_proba = lambda X: np.full((len(X), 2), 0.7)


def unknown_label(model, X):
    model.predict = lambda X: np.full(len(X), 9)


def dear_decisions(model, X):
    model.predict = lambda X: np.zeros(len(X), dtype=int)


def writes_into_rows(model, X):
    X[0] = 0.0


def changed_by_a_refusal(model, X):
    vars(model)["left_"] = 1
    check_number("C", -1.0, above=0.0)


PLANTED = {
    zero_division: "exception in fit",
    foreign_value_error: "exception in fit",
    numpy_warning: "warning in fit",
    not_finite: "not finite",
    infinite_gap: "not finite",
    silent_gap: "silent gap",
    negative_gap: "negative gap",
    worse_than_a_constant: "worse than a constant",
    improper: "improper probabilities",
    unknown_label: "unknown label",
    dear_decisions: "dear decisions",
    writes_into_rows: "input changed",
    changed_by_a_refusal: "changed by a refused fit",
}


def plant(monkeypatch, defect):
    whole = TruncatedLogisticRegression.fit

    def fit(self, X, y=None, sample_weight=None):
        whole(self, X, y, sample_weight)
        defect(self, X)
        return self

    monkeypatch.setattr(TruncatedLogisticRegression, "fit", fit)


@pytest.mark.parametrize("defect", PLANTED, ids=lambda defect: defect.__name__)
def test_a_planted_defect_is_found(monkeypatch, defect):
    plant(monkeypatch, defect)
    assert PLANTED[defect] in {finding.kind for finding in examine(case_of()).findings}


def test_a_case_shrinks_to_what_breaks_the_law(monkeypatch):
    def large_rows(model, X):
        if abs(X).max() > 1e7:
            model.coef_[:] = np.nan

    plant(monkeypatch, large_rows)
    twists = [["copies", 7], ["scale", 1e8], ["sparse", 0.5]]
    rows = {**ROWS, "kind": "heavy", "twists": twists, "weights": "uniform", "labels": "signs"}
    case = {**case_of(rows=rows, C=10.0, zone=None), "fitted before": True}
    finding = next(f for f in examine(case).findings if f.kind == "not finite")
    small = shrunk(case, finding, examine)
    assert finding[:3] in {found[:3] for found in examine(small).findings}
    assert small["parameters"] == {}
    assert small["rows"] == {
        "kind": "linear",
        "n": 2,
        "d": 1,
        "classes": 2,
        "seed": 0,
        "twists": [["scale", 1e8]],
    }
    assert "fitted before" not in small


def test_a_fit_worse_than_the_dual_coefficients_of_svc_is_found(monkeypatch):
    def shrunk(model, X):
        model.dual_coef_ *= 0.1

    case = case_of(kernel="rbf", C=10.0, rows={**ROWS, "kind": "blobs"})
    outcome = examine(case)
    assert not outcome.findings
    assert outcome.compared == ["a constant", "SVC's dual coefficients"]
    plant(monkeypatch, shrunk)
    assert {f.kind for f in examine(case).findings} == {"worse than SVC's dual coefficients"}


# ------------------------------------------------------------------------------------------
# What is not
# ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_tame_fit_breaks_no_law(name):
    outcome = examine(case_of(name))
    assert (outcome.result, outcome.findings) == ("fitted", [])


@pytest.mark.parametrize("carrier", CARRIERS)
def test_a_tame_fit_from_any_carrier_breaks_no_law(carrier):
    outcome = examine(case_of(carrier=carrier))
    expected = "left out" if carrier in missing() else "fitted"
    assert (outcome.result, outcome.findings) == (expected, [])


def test_a_gap_that_is_said_is_no_finding(monkeypatch):
    def said(model, X):
        model.dual_gap_ = 0.5
        model.intercept_[:] = 50.0
        warnings.warn("The fit has not converged.", ConvergenceWarning, stacklevel=2)

    plant(monkeypatch, said)
    assert not examine(case_of()).findings


def test_a_refusal_is_a_sentence_that_the_package_raises():
    def refused(action):
        try:
            action()
        except Exception as error:
            return is_refusal(error)
        raise AssertionError("nothing was raised")

    assert refused(lambda: check_number("C", -1.0, above=0.0))
    assert refused(lambda: TruncatedLogisticRegression().fit([[np.nan], [1.0]], [0, 1]))
    assert not refused(lambda: Kernel("linear")(np.ones((2, 3)), np.ones((2, 4))))
    assert not refused(lambda: np.linalg.inv(np.zeros((2, 2))))
    assert not refused(lambda: np.ones(3)[5])


# ------------------------------------------------------------------------------------------
# What fits are measured by
# ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("parameters", [{}, {"class_weight": "balanced"}, {"zone": None}])
def test_the_criterion_is_that_of_the_fit(classes, parameters):
    X, y, weight = make_rows({**ROWS, "classes": classes, "weights": "uniform"})
    model = TruncatedLogisticRegression(**parameters, tails="as-fitted").fit(X, y, weight)
    criterion = criterion_of(model, np.unique(y), y, weight)
    found = criterion.objective(model.decision_function(X), float(np.sum(model.coef_**2)))
    assert found == pytest.approx(model.objective_, rel=1e-9)
    assert criterion.constant(True) >= found
    assert criterion.constant(True) <= criterion.constant(False)


@pytest.mark.parametrize("kernel", ["rbf", "poly", "laplacian"])
@pytest.mark.parametrize("classes", [2, 3])
def test_the_optimum_is_no_worse_than_support_vector_machines(kernel, classes):
    X, y, weight = make_rows({**ROWS, "kind": "blobs", "classes": classes, "weights": "uniform"})
    model = TruncatedLogisticRegression(kernel=kernel, C=3.0).fit(X, y, weight)
    criterion = criterion_of(model, np.unique(y), y, weight)
    start = support_vector_start(criterion, kernel_matrix(model, X, criterion.weight), True)
    assert model.objective_ <= start < criterion.constant(True)


def test_the_best_constant_of_two_classes_is_found():
    y, weight = np.array([0, 0, 0, 1]), np.array([1.0, 2.0, 1.0, 3.0])
    model = TruncatedLogisticRegression(zone=(0.1, 0.6)).fit(np.zeros((4, 1)), y, weight)
    criterion = criterion_of(model, np.unique(y), y, weight)
    # convex, if not smooth: golden sections find its minimum
    found = minimize_scalar(lambda b: criterion.loss(np.full(4, b)), bounds=(-8.0, 8.0))
    assert criterion.constant(True) == pytest.approx(found.fun, rel=1e-6)


# ------------------------------------------------------------------------------------------
# What is drawn
# ------------------------------------------------------------------------------------------


def test_cases_are_plain_values_and_of_every_kind():
    drawn = draw_cases(2, 0, 1500)
    again = json.loads(json.dumps(drawn))
    assert json.dumps(again) == json.dumps(drawn)
    rows = [case["rows"] for case in drawn]
    assert {case["estimator"] for case in drawn} == set(ESTIMATORS)
    assert {case["carrier"] for case in drawn} == set(CARRIERS)
    assert {case["new rows"] for case in drawn} == set(NEW_ROWS)
    assert {r["kind"] for r in rows} == {*TAME, *HOSTILE}
    assert {name for r in rows for name, _ in r.get("twists", ())} == set(TWISTS)
    assert {r.get("weights") for r in rows} == {None, *WEIGHTS}
    assert {r.get("labels") for r in rows} == {None, *LABELS}
    assert {case.get("row costs") for case in drawn} == {None, *ROW_COSTS}
    assert {case.get("rewards") for case in drawn} == {None, *REWARDS}
    several = [{"max_fpr", "min_recall", "min_precision"} & {*case["parameters"]} for case in drawn]
    assert {len(limits) for limits in several} == {0, 1, 2, 3}
    given = [case["parameters"] for case in drawn]
    truncated = [g for g in given if "zones" in g or "zone" in g]
    assert {"tails", "reject_cost", "undecided_label"} <= {name for g in truncated for name in g}
    assert any("ranges" in g["costs"] for g in given if isinstance(g.get("costs"), dict))
