"""Cases: small descriptions of a model, rows and what carries them, drawn by Hypothesis.

What a seed draws does not depend on any code but this: Hypothesis draws constants that it finds in
the source of loaded modules, but none below a hundred, and no choice here has more ways than that.
"""

from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from fuzz.rows import (
    HOSTILE,
    LABELS,
    NEW_ROWS,
    REWARDS,
    ROW_COSTS,
    TAME,
    TAME_WEIGHTS,
    TWISTS,
    WEIGHTS,
)

Case = dict[str, Any]
Drawn = st.SearchStrategy[Any]


def _one_of(*values: Any) -> Drawn:
    return st.sampled_from(values)


def _weighted(shares: dict[Any, int]) -> Drawn:
    return st.sampled_from([name for name, share in shares.items() for _ in range(share)])


# ------------------------------------------------------------------------------------------
# Parameters. Those that name classes are written by their places:
# {"each": values} one of each class, {"ranges": pairs}, {"matrix": kind}, {"caps": value},
# {"of first": value}, {"place": of a class}, {"own": models}
# ------------------------------------------------------------------------------------------

_SOMETIMES = _one_of(False, False, True)
_SELDOM = _one_of(*[False] * 8, True)
_C = _one_of(1.0, 1.0, 1e-6, 1e-3, 0.1, 10.0, 1e3, 1e6, 1e10)
_COSTS = _one_of(
    None,
    "balanced",
    "balanced",
    *[{"each": [5.0, 1.0, 2.0]}, {"each": [1.0, 20.0, 3.0]}] * 2,
    {"each": [1.0, 0.0, 1.0]},
    {"each": [1e-300, 1e300, 1.0]},
    {"ranges": [[1.0, 1.0], [3.0, 8.0], [1.0, 2.0]]},
    {"ranges": [[0.5, 4.0], [1e-3, 1e3], [1.0, 1.0]]},
    {"ranges": [[2.0, 1.0], [1.0, 1.0], [0.0, 0.0]]},
    {"matrix": "skewed"},
    {"matrix": "ones"},
    {"matrix": "right ones cost"},
)
_CLASS_WEIGHT = _one_of("balanced", {"each": [3.0, 1.0, 0.5]}, {"each": [1.0, 1e12, 1e-12]})
_ZONE = _one_of(
    None, 1.0, 0.1, 1e-6, 4.0, 40.0, {"pair": [0.2, 0.8]}, {"pair": [0.0, 0.4]}, {"caps": 0.9}
)
_REJECT = _one_of(0.2, 0.45, 0.0, 5.0, {"each": [0.1, 0.3, 0.2]})
_UNDECIDED = _one_of("auto", -5, "unsure", {"place": 0})
_TOL = _one_of(1e-6, 1e-3, 1e-10, 0.1)
_SHARE = _one_of(0.1, 0.3, 0.5)

_GRID: dict[str, Drawn] = {
    "Cs": _one_of([1.0], [0.1, 10.0], 2, [1e-6, 1e10]),
    "cv": _one_of(2, 3),
    "scoring": _one_of(None, "neg_log_loss", "accuracy"),
    "refit": _one_of(True, True, False),
}
_TRUNCATED: dict[str, Drawn] = {
    "zone": _ZONE,
    "costs": _COSTS,
    "reject_cost": _REJECT,
    "undecided_label": _UNDECIDED,
    "tails": _one_of("calibrated", "as-fitted"),
    "class_weight": _CLASS_WEIGHT,
    "loss": _one_of("truncated", "ramp"),
    "centres": _one_of(1, 5, 20, 60, 0),
    "centre_selection": _one_of("random", "leverage", "import"),
    "penalty": _one_of("l1", "elasticnet", "l2"),
    "l1_ratio": _one_of(0.5, 0.05, 0.9, 1.0),
    "cache_size": _one_of(1000, 1e-3),
    "fit_intercept": st.booleans(),
    "solver": _one_of("auto", "active-set", "primal"),
    "tol": _TOL,
    "max_iter": _one_of(1000, 1000, 1, 5),
    "warm_start": st.booleans(),
}
_IMPORT: dict[str, Drawn] = {
    "max_import_points": _one_of(1, 5, 20),
    "selection": _one_of("one-step", "exact", "power"),
    "n_candidates": _one_of(1, 5),
    "points_per_step": _one_of(1, 3),
    "allow_removal": st.booleans(),
    "zone": _ZONE,
    "tol": _one_of(1e-3, 0.0, 0.1),
    "n_iter_no_change": _one_of(1, 3),
    "parametrization": _one_of("symmetric", "reference"),
    "fit_intercept": st.booleans(),
    "costs": _COSTS,
    "class_weight": _CLASS_WEIGHT,
}
_BOUNDS: dict[str, Drawn] = {
    "n_bounds": _one_of(1, 2, 10, 30),
    "costs": _COSTS,
    "reject_cost": _REJECT,
    "undecided_label": _UNDECIDED,
    "max_fpr": _one_of(0.05, 0.1, 0.3, 0.0),
    "min_recall": _one_of(0.5, 0.9, 0.99),
    "min_precision": _one_of(0.5, 0.8, 0.99),
    "confidence": _one_of(None, None, 0.5, 0.95),
    "validation_fraction": _SHARE,
    "solver": _one_of("auto", "mm", "direct"),
    "fit_intercept": st.booleans(),
    "class_weight": _CLASS_WEIGHT,
    "tol": _TOL,
    "max_iter": _one_of(100, 100, 2),
    "warm_start": st.booleans(),
}
_MOMENT_ERROR = _one_of(0.1, {"pair": [0.2, 0.5]}, {"each": [0.0, 0.3, 0.1]}, 20.0)
_MINIMAX: dict[str, Drawn] = {
    "covariance_reg": _one_of(1e-3, 0.0, 1e-12, 1.0),
    "costs": _COSTS,
    "required_bound": _one_of({"of first": 0.6}, {"of first": 0.01}),
    "moment_error": _MOMENT_ERROR,
    "cv": _one_of(3, 2, None),
}
_SPARSE_MINIMAX: dict[str, Drawn] = {
    "n_candidates": _one_of(1, 5),
    "candidates": _one_of("rows", "boosted"),
    "costs": _COSTS,
    "required_bound": _one_of({"of first": 0.4}, {"of first": 0.01}),
    "moment_error": _MOMENT_ERROR,
    "gamma": _one_of("features", "width", 1.0, 1e-6, 1e6),
    "gamma_iter": _one_of(0, 1, 3),
    "basis": _one_of("gaussian", "poly", "tanh"),
    "degree": _one_of(1, 3, 8),
    "coef0": _one_of(0.0, 1.0, -1.0),
    "stopping": _one_of("held-out", None),
}
_TIGHT: dict[str, Drawn] = {"n_bounds": _one_of(1, 2, 4), "costs": _COSTS, "tol": _TOL}
_BOUNDS_CV = {
    name: _BOUNDS[name]
    for name in (
        *("n_bounds", "costs", "reject_cost", "undecided_label", "solver", "fit_intercept"),
        *("class_weight", "tol", "max_iter"),
    )
}
_BAYES: dict[str, Drawn] = {
    "costs": _COSTS,
    "reject_cost": _REJECT,
    "undecided_label": _UNDECIDED,
}
_RATES: dict[str, Drawn] = {
    "min_recall": _one_of(0.5, 0.7, 0.95),
    "min_precision": _one_of(0.2, 0.5, 0.9),
    "costs": _COSTS,
    "positive": _one_of({"place": 0}, {"place": 1}),
    "validation_fraction": _SHARE,
}
_INNER = _one_of(
    {"estimator": "LogisticRegression", "parameters": {}},
    {"estimator": "LogisticRegression", "parameters": {}},
    {"estimator": "TruncatedLogisticRegression", "parameters": {"zone": 2.0}},
    {"estimator": "ImportVectorMachine", "parameters": {"max_import_points": 3}},
)

_MEMBERS = _one_of(
    ["logistic-regression"],
    {"own": [{"estimator": "LogisticRegression", "parameters": {}}]},
    {
        "own": [
            {"estimator": "LogisticRegression", "parameters": {"C": 0.01}},
            {"estimator": "TruncatedLogisticRegression", "parameters": {"zone": 2.0}},
        ]
    },
)

# Estimators: how often, the parameters that may be given, and those that always are.
_OFTEN = {
    "TruncatedLogisticRegression": 30,
    "ImportVectorMachine": 13,
    "TightBoundLogisticRegression": 17,
    "MinimaxProbabilityMachine": 9,
    "SparseMinimaxProbabilityMachine": 4,
    "TruncatedLogisticRegressionCV": 5,
    "ImportVectorMachineCV": 4,
    "TightBoundLogisticRegressionCV": 3,
    "TightBoundClassifier": 3,
    "BayesDecisionClassifier": 4,
    "RateLimitClassifier": 4,
    "DecisionEnsembleClassifier": 1,
}
_OPTIONAL: dict[str, dict[str, Drawn]] = {
    "TruncatedLogisticRegression": _TRUNCATED,
    "ImportVectorMachine": {
        **_IMPORT,
        "early_stopping": st.booleans(),
        "validation_fraction": _SHARE,
        "move_points": _SOMETIMES,
    },
    "TightBoundLogisticRegression": _BOUNDS,
    "MinimaxProbabilityMachine": _MINIMAX,
    "SparseMinimaxProbabilityMachine": _SPARSE_MINIMAX,
    "TruncatedLogisticRegressionCV": {
        name: values
        for name, values in {**_TRUNCATED, **_GRID, "tune_threshold": _SOMETIMES}.items()
        if name not in ("zone", "warm_start")
    },
    "ImportVectorMachineCV": {
        **_IMPORT,
        **_GRID,
        "scoring": _one_of(None, "neg_log_loss", "accuracy", "gacv"),
        "validation_fraction": _SHARE,
    },
    "TightBoundLogisticRegressionCV": _BOUNDS_CV,
    "TightBoundClassifier": _TIGHT,
    "BayesDecisionClassifier": _BAYES,
    "RateLimitClassifier": _RATES,
    "DecisionEnsembleClassifier": _BAYES,
}
_ALWAYS: dict[str, dict[str, Drawn]] = {
    "TruncatedLogisticRegression": {"C": _C},
    "ImportVectorMachine": {"C": _C},
    "TightBoundLogisticRegression": {"C": _C},
    "SparseMinimaxProbabilityMachine": {"n_bases": _one_of(1, 3, 6)},
    "TruncatedLogisticRegressionCV": {
        "Cs": _GRID["Cs"],
        "zones": _one_of([1.0], [0.5, None], [0.5, 2.0]),
        "cv": _GRID["cv"],
    },
    "ImportVectorMachineCV": {"Cs": _GRID["Cs"]},
    "TightBoundLogisticRegressionCV": {"Cs": _GRID["Cs"], "cv": _GRID["cv"]},
    "DecisionEnsembleClassifier": {"members": _MEMBERS, "cv": _GRID["cv"]},
    "TightBoundClassifier": {"estimator": _INNER},
    "BayesDecisionClassifier": {"estimator": _INNER},
    "RateLimitClassifier": {
        "estimator": _INNER,
        "max_fpr": _one_of(None, 0.05, 0.3, 0.5, 0.5),
        "confidence": _one_of(0.6, 0.8, 0.95),
    },
}
_WITH_KERNEL = (
    "TruncatedLogisticRegression",
    "TruncatedLogisticRegressionCV",
    "ImportVectorMachine",
    "ImportVectorMachineCV",
    "MinimaxProbabilityMachine",
)
_NAMES = {
    estimator: st.lists(st.sampled_from(sorted(optional)), unique=True, max_size=5)
    for estimator, optional in _OPTIONAL.items()
}
# Parameters that exclude others: the first one stays, mostly.
_LIMITS = ("max_fpr", "min_recall", "min_precision")
_CLASHES = (
    *({limit, other} for limit in _LIMITS for other in ("costs", "reject_cost")),
    {"required_bound", "costs"},
    *({"penalty", other} for other in ("loss", "solver", "cache_size", "centres")),
    {"centres", "solver"},
)

# Those that take costs of each row in fit, or in predict alone.
_BY_ROWS = (
    "TruncatedLogisticRegression",
    "TruncatedLogisticRegressionCV",
    "TightBoundLogisticRegression",
    "TightBoundClassifier",
    "BayesDecisionClassifier",
)

_KERNEL = _one_of(
    *["rbf", "poly", "linear"] * 8,
    *["sigmoid", "laplacian"] * 3,
    *["precomputed", {"callable": "product"}] * 2,
    {"callable": "sparse product"},
)
_GAMMA = _one_of("scale", "scale", "auto", 1.0, 1e-6, 0.01, 100.0, 1e8)
_COEF0 = _one_of(0.0, 0.0, 1.0, -1.0, 1e3)
_DEGREE = _one_of(3, 1, 2, 5, 9)


def _kernel(draw: Any) -> dict[str, Any]:
    """Draw a kernel; of its parameters, those that it has."""
    name = draw(_KERNEL)
    parameters = {"kernel": name}
    if name in ("rbf", "poly", "sigmoid", "laplacian"):
        parameters["gamma"] = draw(_GAMMA)
    if name in ("poly", "sigmoid"):
        parameters["coef0"] = draw(_COEF0)
    if name == "poly":
        parameters["degree"] = draw(_DEGREE)
    return parameters


def _parameters(draw: Any, estimator: str) -> dict[str, Any]:
    optional, names = _OPTIONAL[estimator], draw(_NAMES[estimator])
    for clash in _CLASHES:
        several = [name for name in names if name in clash]
        if len(several) > 1 and not draw(_SELDOM):
            names = [name for name in names if name not in several[1:]]
    always = _ALWAYS.get(estimator, {})
    parameters = {name: draw(values) for name, values in always.items()}
    parameters |= {name: draw(optional[name]) for name in names}
    limited = estimator == "TightBoundLogisticRegression" and len({*_LIMITS} & {*names}) > 1
    if limited and not draw(_SELDOM):  # a statement about new rows takes more rows than there are
        parameters |= {"confidence": None, "fit_intercept": True}
    kernel = _kernel(draw) if estimator in _WITH_KERNEL else {}
    if kernel.get("kernel") in ("linear", "precomputed") and not draw(_SELDOM):
        parameters.pop("centres", None)  # which are for kernels that are computed
    return {**kernel, **parameters}


# ------------------------------------------------------------------------------------------
# Rows and carriers
# ------------------------------------------------------------------------------------------

_SIZES = _one_of(*([20, 30, 40, 60] * 4), 2, 3, 4, 6, 10, 10, 120)
_ENOUGH = _one_of(12, 20, 30, 40)
_MANY_ROWS = _one_of(900, 4100)  # from which on fits start from parts of the rows
_FEATURES = _one_of(1, 2, 2, 3, 5)
_CLASSES = _weighted({2: 14, 3: 4, 6: 1})
_DIGITS = st.integers(0, 99)
_TAME_KIND, _ANY_KIND = _one_of(*TAME), _one_of(*TAME, *HOSTILE)
_TAME_WEIGHT, _ANY_WEIGHT = _one_of(*TAME_WEIGHTS), _one_of(*TAME_WEIGHTS, *WEIGHTS)
_TWISTED = st.lists(
    _one_of(*[[name, value] for name, values in TWISTS.items() for value in values]), max_size=3
)
_LABELLED = _one_of(*LABELS)
_NEW_ROWS = _one_of(*NEW_ROWS)
_ROW_COSTS = _one_of(*ROW_COSTS, *ROW_COSTS[:2], *ROW_COSTS[:2])
_REWARDS = _one_of(*REWARDS, *REWARDS[:2], *REWARDS[:2])
_UNITS = _one_of(8.0, 2.0**-20)
_OFTEN_CARRIED = {
    "NumPy": 78,
    "Fortran": 3,
    "CSR": 6,
    "CSC": 2,
    "pandas": 2,
    "npy": 2,
    "batches": 2,
    "PyTorch": 2,
    "": 2,
}
_SELDOM_CARRIED = {"parquet": 4, "array-api-strict": 4, "Dask": 1}
_TAKE_BLOCKS = (
    "TruncatedLogisticRegression",
    "ImportVectorMachine",
    "ImportVectorMachineCV",
    "TightBoundLogisticRegression",
    "SparseMinimaxProbabilityMachine",
)
_STREAMED = ("npy", "batches", "parquet", "Dask")
CARRIERS = tuple(name for name in {**_OFTEN_CARRIED, **_SELDOM_CARRIED} if name)
_ESTIMATOR = _weighted(_OFTEN)
_CARRIER, _RARE_CARRIER = _weighted(_OFTEN_CARRIED), _weighted(_SELDOM_CARRIED)


def _rows(draw: Any, estimator: str) -> dict[str, Any]:
    hostile = draw(st.booleans())
    rows = {
        "kind": draw(_ANY_KIND if hostile else _TAME_KIND),
        "n": draw(_ENOUGH if estimator.endswith("CV") else _SIZES),
        "d": draw(_FEATURES),
        "classes": draw(_CLASSES),
        "seed": 100 * draw(_DIGITS) + draw(_DIGITS),
    }
    if hostile:
        rows["twists"] = draw(_TWISTED)
    elif draw(_SOMETIMES):
        rows["twists"] = [["rare", 4]]
    if draw(_SOMETIMES):
        rows["weights"] = draw(_ANY_WEIGHT if hostile else _TAME_WEIGHT)
    if draw(_SOMETIMES):
        rows["labels"] = draw(_LABELLED)
    if draw(_SELDOM):
        rows["single"] = True
    return rows


def _carrier(draw: Any, estimator: str) -> str:
    """Draw a carrier; blocks are seldom given to those that take none."""
    name = draw(_CARRIER) or draw(_RARE_CARRIER)
    refused = name in _STREAMED and estimator not in _TAKE_BLOCKS
    return "NumPy" if refused and not draw(_SELDOM) else name


def _is_linear(case: dict[str, Any]) -> bool:
    """Whether fits are of linear functions, which thousands of rows make no slower."""
    linear = case["parameters"].get("kernel", "linear") == "linear"
    return linear and case["estimator"] in (
        "TruncatedLogisticRegression",
        "TightBoundLogisticRegression",
        "MinimaxProbabilityMachine",
    )


@st.composite
def cases(draw: Any) -> Case:
    """Draw a case."""
    estimator = draw(_ESTIMATOR)
    case = {
        "estimator": estimator,
        "parameters": _parameters(draw, estimator),
        "rows": _rows(draw, estimator),
        "carrier": _carrier(draw, estimator),
        "new rows": draw(_NEW_ROWS),
    }
    # the reference solver adds one row at a time: a minute for 900 of them that are tied
    if _is_linear(case) and case["parameters"].get("solver") != "active-set" and draw(_SELDOM):
        case["rows"]["n"] = draw(_MANY_ROWS)
    if draw(_SELDOM):
        case["fitted before"] = True
    if estimator in _BY_ROWS and draw(_SELDOM):
        case["row costs"] = draw(_ROW_COSTS)
        if not draw(_SELDOM):
            case["parameters"].pop("costs", None)
    elif estimator == "TightBoundLogisticRegression" and draw(_SOMETIMES):
        case["rewards"] = draw(_REWARDS)
        if not draw(_SELDOM):
            for name in ("costs", "reject_cost", *_LIMITS):
                case["parameters"].pop(name, None)
    some = case["parameters"].get("costs") is not None or {"row costs", "rewards"} & {*case}
    if some and draw(_SOMETIMES):
        case["unit"] = draw(_UNITS)
    return case


# Cases of one example. Hypothesis makes later examples of parts of earlier ones: of a run, only
# the first random one is independent of all others. The one before it is the simplest: no cases.
_TOGETHER = 50
_MANY = st.sampled_from([0] + [_TOGETHER] * 9).flatmap(
    lambda size: st.lists(cases(), min_size=size, max_size=size)
)


def draw_cases(campaign: int, batch: int, size: int) -> list[Case]:
    """Return the cases of a batch: always the same ones, with the same version of Hypothesis."""
    drawn: list[Case] = []
    for part in range(-(-size // _TOGETHER)):
        drawn += _drawn_together(f"{campaign} {batch} {part}")
    return drawn[:size]


def _drawn_together(name: str) -> list[Case]:
    examples: list[list[Case]] = []

    @seed(name)
    @settings(
        max_examples=2,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(_MANY)
    def collect(example: list[Case]) -> None:
        examples.append(example)

    collect()
    return examples[-1]
