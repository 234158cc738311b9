"""Warnings and errors end with the code of a pitfall; correct use is silent."""

import warnings

import numpy as np
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import grayzone
from grayzone import (
    BayesDecisionClassifier,
    ImportVectorMachine,
    ImportVectorMachineCV,
    MinimaxProbabilityMachine,
    RateLimitClassifier,
    SparseMinimaxProbabilityMachine,
    TightBoundLogisticRegression,
    TruncatedLogisticRegression,
    TruncatedLogisticRegressionCV,
)
from grayzone.cli import main
from grayzone.decision import zone_around
from grayzone.decision.confidence import check_precision
from grayzone.decision.rules import rejection_pays
from grayzone.decision.zones import class_caps
from grayzone.numerics.checks import all_or_nothing
from grayzone.numerics.pitfalls import PAGE
from grayzone.tables.errors import UserError

rng = np.random.default_rng(0)
X = rng.normal(size=(120, 3))
y = (X[:, 0] + rng.normal(size=120) > 0).astype(int)
RARE = np.where(np.arange(120) < 4, 1, 0)
COSTS = {0: 1, 1: 5}
LINEAR = LogisticRegression()


def table(n_rows=80):
    import pandas as pd

    rows = pd.DataFrame(X[:n_rows], columns=["a", "b", "c"])
    return rows.assign(late=np.where(y[:n_rows], "yes", "no"))


def trained(**given):
    return grayzone.train(table(), "late", time_limit=1, **given)


def beyond_by_rows():
    model = TruncatedLogisticRegression().fit(X, y)
    return model.predict(X, example_costs={0: np.ones(120), 1: np.full(120, 50.0)})


def separable():
    return TruncatedLogisticRegression(C=np.inf, zone=None).fit(X, (X[:, 0] > 0).astype(int))


def too_large():
    return TruncatedLogisticRegression().fit(X, y).predict(np.full((1, 3), 1e308))


@all_or_nothing
def not_finite(self):
    raise FloatingPointError("overflow")


def on_edge(costs):
    return TightBoundLogisticRegression(costs=costs, reject_cost=0.1).fit(X, y)


ERRORS = {
    "narrow": ("GZ014", lambda: zone_around(0.5, 1e-18)),
    "threshold at the edge": (
        "GZ014",
        lambda: TruncatedLogisticRegression(costs={0: 0, 1: 1}).fit(X, y),
    ),
    "empty": ("GZ014", lambda: TruncatedLogisticRegression(zone=(0.5, 0.5)).fit(X, y)),
    "caps": ("GZ014", lambda: class_caps([0.2, 0.3, 0.4], np.arange(3))),
    "intervals": (
        "GZ014",
        lambda: class_caps({0: (0.6, 0.9), 1: (0.6, 0.9)}, np.arange(3)),
    ),
    "rate": ("GZ006", lambda: RateLimitClassifier(LINEAR, max_fpr=0.01, random_state=0).fit(X, y)),
    "precision": ("GZ006", lambda: check_precision(20, 0.99, 0.05)),
    "bounds": ("GZ006", lambda: TightBoundLogisticRegression(max_fpr=0.01).fit(X, y)),
    "table": ("GZ006", lambda: trained(max_fpr=0.01)),
    "mean cost": ("GZ015", lambda: on_edge({0: 1e-200, 1: 1e-200})),
    "rows' stakes": (
        "GZ015",
        lambda: TruncatedLogisticRegression().fit(
            X,
            y,
            example_costs={0: np.ones(120), 1: np.where(np.arange(120) == np.argmax(y), 1e90, 1)},
        ),
    ),
    "unknown": ("GZ011", lambda: TruncatedLogisticRegression(costs={"a": 1, "b": 2}).fit(X, y)),
    "missing": ("GZ011", lambda: TruncatedLogisticRegression(costs={0: 1}).fit(X, y)),
    "positive": ("GZ011", lambda: RateLimitClassifier(LINEAR, max_fpr=0.1, positive=7).fit(X, y)),
    "frozen": (
        "GZ016",
        lambda: RateLimitClassifier(FrozenEstimator(LINEAR.fit(X, y)), max_fpr=0.1, cv=3).fit(X, y),
    ),
    "large": ("GZ010", too_large),
    "not finite": ("GZ010", lambda: not_finite(LINEAR)),
    "kernel": (
        "GZ010",
        lambda: ImportVectorMachine(kernel="poly", degree=9, gamma=1.0).fit(X * 1e40, y),
    ),
}
WARNINGS = {
    "constant": ("GZ001", lambda: TruncatedLogisticRegression().fit(X, RARE)),
    "beyond": (
        "GZ002",
        lambda: BayesDecisionClassifier(TruncatedLogisticRegression(), costs={0: 1, 1: 50}).fit(
            X, y
        ),
    ),
    "beyond by rows": ("GZ002", beyond_by_rows),
    "no optimum": ("GZ009", separable),
    "search": (
        "GZ009",
        lambda: TruncatedLogisticRegressionCV(
            Cs=[100.0], zones=[0.5], cv=2, kernel="rbf", solver="active-set", max_iter=1
        ).fit(X, y),
    ),
    "bounds stop": ("GZ009", lambda: TightBoundLogisticRegression(max_iter=1, tol=1e-9).fit(X, y)),
    "same mean": (
        "GZ018",
        lambda: MinimaxProbabilityMachine().fit([[1.0], [-1.0], [2.0], [-2.0]], [0, 0, 1, 1]),
    ),
    "no basis": (
        "GZ018",
        lambda: SparseMinimaxProbabilityMachine(stopping=None, n_bases=1, random_state=0).fit(
            np.zeros((8, 1)), [0, 1] * 4
        ),
    ),
    "weights": (
        "GZ004",
        lambda: TruncatedLogisticRegression(costs=COSTS, class_weight="balanced").fit(X, y),
    ),
    "accuracy of rows' costs": (
        "GZ007",
        lambda: TruncatedLogisticRegressionCV(Cs=[1.0], zones=[1.0], cv=2, scoring="accuracy").fit(
            X, y, example_costs={0: np.ones(120), 1: np.full(120, 2.0)}
        ),
    ),
    "weights in a pipeline": (
        "GZ004",
        lambda: BayesDecisionClassifier(
            make_pipeline(StandardScaler(), LogisticRegression(class_weight="balanced")),
            costs=COSTS,
        ).fit(X, y),
    ),
    "accuracy": (
        "GZ007",
        lambda: ImportVectorMachineCV(
            Cs=[1.0], cv=2, max_import_points=2, costs=COSTS, scoring="accuracy"
        ).fit(X, y),
    ),
    "undecided": (
        "GZ013",
        lambda: TruncatedLogisticRegression(costs=COSTS, reject_cost=2.0).fit(X, y),
    ),
}


def ends_with(code, message):
    return str(message).endswith(f"[{code}: {PAGE}#{code.lower()}]")


@pytest.mark.parametrize("name", ERRORS)
def test_an_error_ends_with_its_code(name):
    code, act = ERRORS[name]
    with pytest.raises((ValueError, UserError), match=rf"\. \[{code}: ") as caught:
        act()
    assert ends_with(code, caught.value)
    assert str(caught.value).count("[GZ") == 1


@pytest.mark.parametrize("name", WARNINGS)
def test_a_warning_ends_with_its_code_and_points_to_who_called(name):
    code, act = WARNINGS[name]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        act()
    assert [ends_with(code, warning.message) for warning in caught] == [True]
    assert caught[0].filename == __file__


def test_a_table_whose_rejection_never_pays_has_a_note():
    notes = trained(
        costs={"yes": 5, "no": 1}, reject_cost=2.0, model="logistic-regression"
    ).metrics["notes"]
    (note,) = [note for note in notes if "never worth paying" in note]
    assert ends_with("GZ013", note)


def test_the_command_line_says_the_code_too(tmp_path, capsys):
    table().to_csv(tmp_path / "rows.csv", index=False)
    arguments = [str(tmp_path / "rows.csv"), "--target", "late", "--out", str(tmp_path / "out")]
    assert main(["train", *arguments, "--max-fpr", "0.01"]) == 2
    assert ends_with("GZ006", capsys.readouterr().err.strip())


SILENT = {
    "weights without costs": lambda: TruncatedLogisticRegression(class_weight="balanced"),
    "weights and equal costs": lambda: TruncatedLogisticRegression(
        costs={0: 2, 1: 2}, class_weight="balanced"
    ),
    "weights and balanced costs": lambda: TruncatedLogisticRegression(
        costs="balanced", class_weight="balanced"
    ),
    "weights that mend a sample": lambda: TruncatedLogisticRegression(
        costs=COSTS, class_weight={0: 3.0, 1: 1.0}
    ),
    "weights under calibration": lambda: BayesDecisionClassifier(
        CalibratedClassifierCV(LogisticRegression(class_weight="balanced"), cv=2), costs=COSTS
    ),
    "weights outside costs of rows": lambda: BayesDecisionClassifier(
        LogisticRegression(class_weight="balanced")
    ),
    "another scorer": lambda: TruncatedLogisticRegressionCV(
        Cs=[1.0], zones=[1.0], cv=2, costs=COSTS, scoring="roc_auc"
    ),
    "accuracy where mistakes cost the same": lambda: TruncatedLogisticRegressionCV(
        Cs=[1.0], zones=[1.0], cv=2, costs=[[0, 2], [2, 0]], scoring="accuracy"
    ),
    "a rejection that pays": lambda: BayesDecisionClassifier(LINEAR, costs=COSTS, reject_cost=0.8),
    "a rejection for costs to come": lambda: BayesDecisionClassifier(LINEAR, reject_cost=7.0),
}


@pytest.mark.parametrize("name", SILENT)
def test_what_may_be_meant_is_not_warned_of(name):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        SILENT[name]().fit(X, y)
    assert [str(warning.message) for warning in caught if "GZ0" in str(warning.message)] == []


def test_weights_beside_amounts_of_rows_are_not_warned_of():
    amounts = rng.uniform(1, 9, 120)  # the same for both mistakes
    model = TruncatedLogisticRegression(class_weight="balanced")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, y, example_costs={0: amounts, 1: amounts})
    assert caught == []


@pytest.mark.parametrize("K", [2, 3, 4])
def test_rejection_pays_where_some_probabilities_say_so(K):
    """By brute force over many probabilities, on either side of the value of the game."""
    rng = np.random.default_rng(K)
    for _ in range(20):
        costs = rng.uniform(0.5, 5, (K, K)) * (1 - np.eye(K))
        p = np.vstack([rng.dirichlet(np.full(K, 2.0), 20_000), np.full(K, 1 / K)])
        most = (p @ costs).min(axis=1).max()  # of these; the true value is no less
        assert rejection_pays(costs, [0.999 * most] * K)
        assert not rejection_pays(costs, [1.1 * most] * K)
        shift = rng.uniform(0, 1, K)
        reject = 0.2 * most + shift
        gains = (p @ (costs - reject[:, None])).min(axis=1).max()
        if abs(gains) > 0.1:
            assert rejection_pays(costs, reject) == (gains > 0)
