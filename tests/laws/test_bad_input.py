"""What cannot be fitted is refused, saying what was given and what is expected, without a trace."""

import re

import numpy as np
import pytest
import scipy.sparse as sp
from every import every
from state import assert_as_before, frozen

from grayzone import TruncatedLogisticRegression

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 3))
TWO = (X[:, 0] + RNG.normal(size=40) > 0.0).astype(int)
THREE = np.arange(40) % 3
NAMED = np.array(["no", "yes"])[TWO]


def with_entry(array, value):
    changed = np.array(array, dtype=float)
    changed.flat[5] = value
    return changed


def case(match, y=TWO, X=X, sample_weight=None, **parameters):
    """Match, parameters and data of a fit that must fail."""
    return match, parameters, (X, y, sample_weight)


CASES = {
    # classes
    "one class": case(r"two classes.*got one class: \[1\]", y=np.ones(40, dtype=int)),
    "a negative class weight": case(
        r"class_weight must give finite weights >= 0; got \{0: -1", class_weight={0: -1.0, 1: 1.0}
    ),
    "continuous targets": case("Unknown label type: continuous", y=X[:, 0]),
    "many targets": case(r"1d array, got an array of shape \(40, 2\)", y=np.eye(40, 2, dtype=int)),
    "targets of two kinds": case(
        "y must hold numbers only or strings only", y=np.array([1, "a"], dtype=object)[TWO]
    ),
    "targets that are missing": case(
        "y must hold numbers only or strings only", y=np.array([None, "a"], dtype=object)[TWO]
    ),
    "no targets": case("requires y to be passed, but the target y is None", y=None),
    # zones of two classes
    "empty zone": case(r"p_min < p_max; got p_min=0.7, p_max=0.3", zone=(0.7, 0.3)),
    "zone of one point": case(r"p_min < p_max; got p_min=0.5, p_max=0.5", zone=(0.5, 0.5)),
    "zone below 0": case(r"probabilities in \[0, 1\]; got \(-0.1, 0.5\)", zone=(-0.1, 0.5)),
    "zone above 1": case(r"probabilities in \[0, 1\]; got \(0.5, 1.5\)", zone=(0.5, 1.5)),
    "zone with nan": case(r"probabilities in \[0, 1\]; got \(nan, 0.5\)", zone=(np.nan, 0.5)),
    "zone of three numbers": case(r"a pair \(p_min, p_max\).*got \(0.1", zone=(0.1, 0.2, 0.3)),
    "zone as a matrix": case(r"a pair \(p_min, p_max\).*got", zone=[[0.1, 0.9]]),
    "zone as a string": case(r"a pair \(p_min, p_max\).*got 'wide'", zone="wide"),
    "zone as two letters": case(r"a pair \(p_min, p_max\).*got 'ab'", zone="ab"),
    "zone of strings": case(r"zone must .*got \('low', 'high'\)", zone=("low", "high")),
    "zone of nothing and something": case(r"zone must .*got \(None, 0.5\)", zone=(None, 0.5)),
    "ragged zone": case(r"zone must .*got \(0.1, \[0.9\]\)", zone=(0.1, [0.9])),
    "zone as a mapping": case(r"a pair \(p_min, p_max\).*got \{", zone={0: 0.3, 1: 0.9}),
    "zone as a flag": case(r"a pair \(p_min, p_max\).*got True", zone=True),
    "no width": case("zone must be a finite number > 0; got 0", zone=0.0),
    "negative width": case("zone must be a finite number > 0; got -1", zone=-1.0),
    "width nan": case("zone must be a finite number > 0; got nan", zone=np.nan),
    "width inf": case("zone must be a finite number > 0; got inf", zone=np.inf),
    "width around a threshold of 0": case(
        r"zone=1.0 is a width .* threshold at 0", costs={0: 0.0, 1: 1.0}
    ),
    # caps of more
    "caps that sum to 1": case(
        r"sum to more than 1; got \[0.2, 0.3, 0.5\]", y=THREE, zone=[0.2, 0.3, 0.5]
    ),
    "cap of an unknown class": case(
        r"each of the classes \[0, 1, 2\]; got \{0: 0.5.*7: 0.5\}",
        y=THREE,
        zone={0: 0.5, 1: 0.5, 7: 0.5},
    ),
    "cap missing": case(
        r"each of the classes \[0, 1, 2\]; got \{0: 0.5, 1: 0.7\}", y=THREE, zone={0: 0.5, 1: 0.7}
    ),
    "caps above 1": case(r"in \(0, 1\]; got \[0.5, 0.5, 1.5\]", y=THREE, zone=[0.5, 0.5, 1.5]),
    "cap of 0": case(r"in \(0, 1\]; got \[0.0, 0.9, 0.9\]", y=THREE, zone=[0.0, 0.9, 0.9]),
    "cap nan": case(r"in \(0, 1\]; got \[nan, 0.9, 0.9\]", y=THREE, zone=[np.nan, 0.9, 0.9]),
    "a pair for three classes": case(
        r"one cap for each of the 3 classes; got \(0.2, 0.8\)", y=THREE, zone=(0.2, 0.8)
    ),
    "caps as a string": case("one cap for each of the 3 classes; got 'abc'", y=THREE, zone="abc"),
    "caps of strings": case(r"zone must .*got \['a', 'b', 'c'\]", y=THREE, zone=["a", "b", "c"]),
    "a cap as a string": case(
        r"zone must .*got \{0: 0.5, 1: 0.6, 2: 'high'\}", y=THREE, zone={0: 0.5, 1: 0.6, 2: "high"}
    ),
    "width for three classes": case("finite number > 0; got -2", y=THREE, zone=-2.0),
    # costs
    "cost of an unknown class": case(
        r"costs names \['maybe'\], not among the classes \['no', 'yes'\]",
        y=NAMED,
        costs={"no": 1.0, "yes": 1.0, "maybe": 1.0},
    ),
    "cost missing": case(r"costs has no entry for \['yes'\]", y=NAMED, costs={"no": 1.0}),
    "negative cost": case(r"costs must not be negative; got", costs={0: -1.0, 1: 1.0}),
    "no costs at all": case("All costs are zero", costs={0: 0.0, 1: 0.0}),
    "cost nan": case("costs must be finite", costs={0: np.nan, 1: 1.0}),
    "cost inf": case("costs must be finite", costs=[[0.0, np.inf], [1.0, 0.0]]),
    "costs of another shape": case(r"costs has shape \(3, 3\); expected \(2, 2\)", costs=np.eye(3)),
    "costs as a number": case(r"costs has shape \(\); expected \(2, 2\)", costs=5.0),
    "costs as a string": case("costs='cheap' is not known.*'balanced'", costs="cheap"),
    "costs of strings": case("costs must be made of numbers", costs=[["a", "b"], ["c", "d"]]),
    "errors cheaper than right": case("define no threshold", costs=[[1.0, 0.0], [0.0, 1.0]]),
    # weights
    "negative weight": case(
        "sample_weight must not be negative; got -2 in row 5",
        sample_weight=with_entry(np.ones(40), -2.0),
    ),
    "weights all zero": case("sample_weight must have a positive", sample_weight=np.zeros(40)),
    "weight nan": case(
        "sample_weight must be finite; got nan in row 5",
        sample_weight=with_entry(np.ones(40), np.nan),
    ),
    "weight inf": case(
        "sample_weight must be finite; got inf in row 5",
        sample_weight=with_entry(np.ones(40), np.inf),
    ),
    "weights beyond all sums": case(
        r"sample_weight must be zero or between 1e-50 and 1e\+50; got 1e\+308 in row 0",
        sample_weight=np.full(40, 1e308),
    ),
    "weights of next to nothing": case(
        r"sample_weight must be zero or between 1e-50 and 1e\+50; got 1e-300 in row 5",
        sample_weight=with_entry(np.ones(40), 1e-300),
    ),
    "class weights beyond all sums": case(
        r"class_weight must give weights of zero or between .*; got .*gives \[1.0, 1e\+308\]",
        class_weight={0: 1.0, 1: 1e308},
    ),
    "weights too few": case(r"shape \(40,\).*got shape \(39,\)", sample_weight=np.ones(39)),
    "weights in a matrix": case(
        r"shape \(40,\).*got shape \(40, 1\)", sample_weight=np.ones((40, 1))
    ),
    # data
    "X nan": case("Input X contains NaN", X=with_entry(X, np.nan)),
    "X inf": case("Input X contains infinity", X=with_entry(X, np.inf)),
    "X beyond all squares": case(
        r"X has values up to .*e\+160 in absolute value, above 1e\+100", X=1e160 * X
    ),
    "X sparse beyond all squares": case(
        r"X has values up to .*e\+200 in absolute value, above 1e\+100",
        X=sp.csr_array(1e200 * X),
        kernel="rbf",
    ),
    "X too large for a polynomial": case(
        r"X has values up to .*e\+60, too large for the poly kernel with gamma=1",
        X=1e60 * X,
        kernel="poly",
        gamma=1.0,
    ),
    "X too large for a width": case(
        r"X has values up to .*e\+60, too large for the rbf kernel with gamma=1e\+90",
        X=1e60 * X,
        kernel="rbf",
        gamma=1e90,
    ),
    "X too small for its own width": case(
        "gamma='scale' is 1 / .* beyond all doubles for a variance of",
        X=1e-156 * X,
        kernel="rbf",
    ),
    "X sparse nan": case("Input X contains NaN", X=sp.csr_array(with_entry(X, np.nan))),
    "y nan": case("Input y contains NaN", y=with_entry(TWO, np.nan)),
    "y inf": case("Input y contains infinity", y=with_entry(TWO, np.inf)),
    "rows missing": case(r"inconsistent numbers of samples: \[39, 40\]", X=X[:39]),
    "X flat": case("Expected 2D array, got 1D array", X=X[:, 0]),
    "X cubic": case("Found array with dim 3", X=X[:, :, None]),
    "no rows": case(r"Found array with 0 sample\(s\)", X=X[:0], y=TWO[:0]),
    "no columns": case(r"Found array with 0 feature\(s\)", X=X[:, :0]),
    "X of words": case("could not convert string to float", X=np.full((40, 3), "word")),
    "X complex": case("Complex data not supported", X=X + 1j),
    # parameters
    "C of 0": case("C must be a finite number > 0; got 0", C=0.0),
    "C negative": case("C must be a finite number > 0; got -1", C=-1.0),
    "C nan": case("C must be a finite number > 0; got nan", C=np.nan),
    "C inf with a kernel": case(
        "C must be a finite number > 0; got inf. No penalty at all is for linear models",
        C=np.inf,
        kernel="rbf",
    ),
    "C inf with a ramp": case("C must be a finite number > 0; got inf", C=np.inf, loss="ramp"),
    "C -inf": case("C must be a finite number > 0; got -inf", C=-np.inf),
    "C too large": case(r"C must be between 1e-50 and 1e\+50; got 1e\+200", C=1e200),
    "C too small": case(r"C must be between 1e-50 and 1e\+50; got 1e-200", C=1e-200),
    "C as a string": case("C must be a finite number > 0; got '1'", C="1"),
    "C as a flag": case("C must be a finite number > 0; got True", C=True),
    "C as None": case("C must be a finite number > 0; got None", C=None),
    "C beyond all doubles": case("C must be a finite number > 0; got 1000", C=10**400),
    "tol of 0": case("tol must be a finite number > 0; got 0", tol=0.0),
    "tol negative": case("tol must be a finite number > 0; got -1", tol=-1e-6),
    "tol nan": case("tol must be a finite number > 0; got nan", tol=np.nan),
    "no iterations": case("max_iter must be .*>= 1; got 0", max_iter=0),
    "negative iterations": case("max_iter must be .*>= 1; got -5", max_iter=-5),
    "half an iteration": case("max_iter must be .*got 2.5", max_iter=2.5),
    "unknown solver": case("solver must be one of 'auto'.*; got 'lbfgs'", solver="lbfgs"),
    "unknown kernel": case("kernel must be one of 'linear'.*; got 'cubic'", kernel="cubic"),
    "unknown loss": case("loss must be one of 'truncated', 'ramp'; got 'hinge'", loss="hinge"),
    "unknown penalty": case("penalty must be one of 'l2', 'l1'.*; got 'l0'", penalty="l0"),
    "l1_ratio as a string": case("l1_ratio must be a finite number; got 'half'", l1_ratio="half"),
    "l1_ratio of 0": case(
        "l1_ratio must be above 0 and at most 1; got 0.*penalty='l2'",
        penalty="elasticnet",
        l1_ratio=0.0,
    ),
    "l1_ratio above 1": case(
        "l1_ratio must be above 0 and at most 1; got 1.5", penalty="elasticnet", l1_ratio=1.5
    ),
    "l1 without a penalty": case("C must be a finite number > 0; got inf", penalty="l1", C=np.inf),
    "l1 of a ramp": case(
        "penalty='l1' is for loss='truncated'; got loss='ramp'", penalty="l1", loss="ramp"
    ),
    "l1 by another solver": case(
        "penalty='l1' is for solver='auto'; got solver='primal'", penalty="l1", solver="primal"
    ),
    "elastic net of a kernel that is none": case(
        "The kernel is not positive semi-definite.*smallest eigenvalue",
        penalty="elasticnet",
        kernel="sigmoid",
    ),
    "more kernel values than fit": case(
        "keeps the kernel values of all pairs of .* rows.*cache_size is",
        penalty="l1",
        kernel="rbf",
        cache_size=1e-6,
    ),
    "active set of three classes": case(
        "solver='active-set' is for two classes", y=THREE, solver="active-set"
    ),
    "ramp without a zone": case("loss='ramp' .*needs a zone.*zone=None", loss="ramp", zone=None),
    "ramp with half a zone": case(
        r"loss='ramp' .*needs a zone.*zone=\(0.0, 0.7\)", loss="ramp", zone=(0.0, 0.7)
    ),
}


@pytest.fixture(params=CASES)
def bad(request):
    return CASES[request.param]


def test_refused(bad):
    match, parameters, data = bad
    estimator = TruncatedLogisticRegression(**parameters)
    before = frozen(estimator)
    with pytest.raises(ValueError, match=match):
        estimator.fit(*data)
    assert_as_before(estimator, before)


def test_a_fitted_estimator_survives(bad):
    match, parameters, data = bad
    estimator = TruncatedLogisticRegression().fit(X, THREE)
    predicted = estimator.predict_proba(X)
    estimator.set_params(**parameters)
    before = frozen(estimator)
    with pytest.raises(ValueError, match=match):
        estimator.fit(*data)
    assert_as_before(estimator, before)
    np.testing.assert_array_equal(estimator.predict_proba(X), predicted)


# ------------------------------------------------------------------------------------- predict

METHODS = ["predict", "predict_proba", "predict_log_proba", "decision_function"]

BAD_ROWS = {
    "too few columns": (X[:, :2], "X has 2 features, but .* is expecting 3 features"),
    "too many columns": (np.hstack([X, X]), "X has 6 features, but .* is expecting 3 features"),
    "one row, flat": (X[0], "Expected 2D array, got 1D array"),
    "nan": (with_entry(X, np.nan), "Input X contains NaN"),
    "inf": (with_entry(X, np.inf), "Input X contains infinity"),
    "sparse, too few": (sp.csr_array(X[:, :2]), "X has 2 features, but .* is expecting 3"),
    "no rows": (X[:0], re.escape("Found array with 0 sample(s)")),
}


@every("method", METHODS)
@pytest.mark.parametrize("rows", BAD_ROWS)
def test_rows_that_cannot_be_predicted(rows, method):
    estimator = TruncatedLogisticRegression().fit(X, TWO)
    data, match = BAD_ROWS[rows]
    with pytest.raises(ValueError, match=match):
        getattr(estimator, method)(data)
