"""Fits with an l1 penalty or an elastic net, held against CVXPY and their own conditions."""

from dataclasses import dataclass, field
from functools import cache

import numpy as np
import pytest
import scipy.sparse as sp
from problems import by_name
from scipy.special import expit, logit
from selecting_oracle import SelectingProblem, dual, feasible, primal, solve_selecting
from sklearn.metrics.pairwise import laplacian_kernel, rbf_kernel

from grayzone import TruncatedLogisticRegression

RTOL = 1e-8


@dataclass(frozen=True, eq=False)
class Case:
    """One fit: data by their kind, and parameters."""

    name: str
    parameters: dict = field(default_factory=dict)
    kind: str = "dense"
    n_classes: int = 2
    weighted: bool = False
    priced: bool = False


CASES = [
    Case("plain", {"zone": None}),
    Case("plain, strong", {"zone": None, "C": 0.05}),
    Case("plain, weak", {"zone": None, "C": 20.0}),
    Case("plain, through the origin", {"zone": None, "fit_intercept": False}),
    Case("plain, sparse", {"zone": None}, "sparse"),
    Case("plain, wide", {"zone": None, "C": 2.0}, "wide"),
    Case("plain, weights", {"zone": None}, weighted=True),
    Case("zone 1"),
    Case("zone 1, strong", {"C": 0.1}),
    Case("zone 1, weak", {"C": 20.0}),
    Case("zone 1, sparse", kind="sparse"),
    Case("zone 1, wide", {"C": 2.0}, "wide"),
    Case("zone 1, weights", weighted=True),
    Case("zone .25", {"zone": 0.25}),
    Case("zone .25, class weights", {"zone": 0.25, "class_weight": {0: 1.0, 1: 3.0}}),
    Case("pair", {"zone": (0.2, 0.6)}),
    Case("half a zone", {"zone": (0.0, 0.7)}),
    Case("pair, through the origin", {"zone": (0.3, 0.7), "fit_intercept": False}),
    Case("costs of rows", {"zone": 0.5}, priced=True),
    Case("elastic net, plain", {"penalty": "elasticnet", "zone": None}),
    Case("elastic net, zone 1", {"penalty": "elasticnet"}),
    Case("elastic net, sparse", {"penalty": "elasticnet", "l1_ratio": 0.9, "zone": 0.25}, "sparse"),
    Case("elastic net, little l1", {"penalty": "elasticnet", "l1_ratio": 0.05}),
    Case("rbf, plain", {"kernel": "rbf", "zone": None}),
    Case("rbf, zone 1", {"kernel": "rbf", "C": 5.0}),
    Case("laplacian, zone .25, weights", {"kernel": "laplacian", "zone": 0.25}, weighted=True),
    Case("rbf, elastic net", {"kernel": "rbf", "penalty": "elasticnet", "C": 5.0}),
    Case("three classes, plain", {"zone": None}, n_classes=3),
    Case("three classes, caps", {"zone": 1.0}, n_classes=3),
    Case("three classes, one cap", {"zone": {0: 0.6, 1: 1.0, 2: 0.9}}, n_classes=3, weighted=True),
    Case("three classes, elastic net", {"penalty": "elasticnet", "zone": 0.5}, n_classes=3),
    Case("three classes, rbf", {"kernel": "rbf", "C": 5.0}, n_classes=3),
]
# too weak a penalty to leave a feature out
KEEP_ALL = {"plain, weak", "zone 1, weak", "elastic net, little l1"}


@cache
def rows(kind, n_classes):
    """X, y, weights and costs of misclassifying each row."""
    rng = np.random.default_rng(3)
    n, d = (60, 90) if kind == "wide" else (120, 12)
    X = rng.normal(size=(n, d))
    if kind == "sparse":
        X *= rng.random((n, d)) < 0.3
    signal = X[:, :4] @ rng.normal(size=(4, n_classes)) + 0.7 * rng.gumbel(size=(n, n_classes))
    y = signal.argmax(axis=1)
    costs = {0: rng.uniform(0.5, 2.0, n), 1: rng.uniform(0.5, 4.0, n)}
    return X, y, rng.integers(1, 4, n).astype(float), costs


def limits_of(case, model, y, costs):
    """Floors of the rows, or caps of the classes."""
    if case.n_classes == 3:
        return np.asarray(model.zone_)
    if case.priced:
        threshold, h = costs[0] / (costs[0] + costs[1]), model.zone
        ends = np.where(y == 1, logit(threshold) + h, logit(threshold) - h)
    else:
        with np.errstate(divide="ignore"):
            ends = np.where(y == 1, logit(model.zone_[1]), logit(model.zone_[0]))
    return np.where(y == 1, -ends, ends)


@cache
def fitted(case, tol=1e-10):
    """The model, the problem as the oracle sees it, and coefficients (Q, d) of its columns."""
    X, y, weight, costs = rows(case.kind, case.n_classes)
    given = sp.csr_array(X) if case.kind == "sparse" else X
    parameters = {"penalty": "l1", "C": 1.0} | case.parameters
    model = TruncatedLogisticRegression(tol=tol, **parameters)
    options = {"sample_weight": weight} if case.weighted else {}
    if case.priced:
        options["example_costs"] = costs
    model.fit(given, y, **options)
    weight = weight if case.weighted else np.ones(len(y))
    if model.class_weight is not None:
        weight = weight * np.array([model.class_weight[code] for code in y])
    if case.priced:
        stake = costs[0] + costs[1]
        weight = weight * stake / np.average(stake, weights=weight)
    kernel = model.kernel != "linear"
    columns = X
    if kernel:
        of = {"rbf": rbf_kernel, "laplacian": laplacian_kernel}[model.kernel]
        columns = of(X, gamma=model._kernel.gamma)
    share = model.l1_ratio if model.penalty == "elasticnet" else 1.0
    problem = SelectingProblem(
        columns,
        y,
        weight,
        limits_of(case, model, y, costs),
        share / model.C,
        (1.0 - share) / model.C,
        model.fit_intercept,
        kernel,
    )
    if kernel:
        coef = np.zeros((model.dual_coef_.shape[0], len(y)))
        coef[:, model.support_] = model.dual_coef_
    else:
        coef = model.coef_
    return model, problem, coef


def duals_of(model, problem):
    """Duals (n, Q) of the losses of a linear model, from its attributes."""
    duals = np.zeros((len(problem.codes), model.dual_coef_.shape[0]))
    duals[model.support_] = -model.dual_coef_.T
    return duals / (model.C * problem.weight)[:, None]


@by_name(CASES)
def test_the_objective_is_that_of_cvxpy(case):
    model, problem, coef = fitted(case)
    value = primal(problem, coef, model.intercept_)
    assert model.objective_ == pytest.approx(value, rel=1e-12)
    oracle = solve_selecting(problem, value * (1.0 - model.dual_gap_))
    assert value <= oracle.objective * (1.0 + RTOL)
    assert value >= oracle.objective * (1.0 - RTOL)
    assert model.dual_gap_ <= 1e-10


@by_name([case for case in CASES if "kernel" not in case.parameters])
@pytest.mark.parametrize("tol", [1e-2, 1e-10])
def test_the_gap_is_that_of_the_attributes(case, tol):
    model, problem, coef = fitted(case, tol)
    duals = duals_of(model, problem)
    if problem.fit_intercept:
        np.testing.assert_allclose(problem.weight @ duals, 0.0, atol=1e-10)
    value = primal(problem, coef, model.intercept_)
    gap = (value - dual(problem, feasible(problem, duals), coef)) / value
    assert model.dual_gap_ <= tol
    if problem.ridge:  # a better bound than the one that was scaled
        assert gap <= model.dual_gap_ + 1e-12
    else:
        assert gap == pytest.approx(model.dual_gap_, rel=1e-6, abs=1e-12)


@by_name([case for case in CASES if "kernel" not in case.parameters])
def test_optimality_conditions(case):
    model, problem, coef = fitted(case)
    share = problem.l1 * model.C
    pull = model.dual_coef_ @ problem.X[model.support_]
    soft = np.sign(pull) * np.maximum(np.abs(pull) - share, 0.0)
    np.testing.assert_allclose((1.0 - share) * coef, soft, atol=1e-5)
    used = coef != 0.0
    wanted = (1.0 - share) * coef + share * np.sign(coef)
    np.testing.assert_allclose(pull[used], wanted[used], atol=1e-5)
    np.testing.assert_array_equal(used, np.abs(pull) > share - 1e-8)
    assert np.all(used) == (case.name in KEEP_ALL)
    if case.n_classes == 2:
        alpha = np.abs(duals_of(model, problem)[:, 0])
        u = -problem.sign * (problem.X @ coef[0] + model.intercept_[0])
        above, below = u > problem.limits + 1e-6, u < problem.limits - 1e-6
        np.testing.assert_allclose(alpha[above], expit(u[above]), atol=1e-6)
        np.testing.assert_allclose(alpha[below], 0.0, atol=1e-6)
        assert set(model.partition_[below]) <= {0}
        assert set(model.partition_[above]) <= {2}
