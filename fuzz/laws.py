"""What must hold of every fit, whatever it was given; what does not is a finding."""

import pickle
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.metrics.pairwise import rbf_kernel

from fuzz.blame import Ears, Said, is_inner, is_refusal, said_by
from fuzz.carriers import STREAMED, carried, context, missing, put, put_costs, taken
from fuzz.findings import Finding, Outcome
from fuzz.models import make_model, scaled_costs, times
from fuzz.rate_limits import broken_by_fit, broken_by_refusal, broken_on_training_rows
from fuzz.reference import criterion_of, is_definite, kernel_matrix, support_vector_start
from fuzz.rows import Rows, make_rows, new_rows, row_costs, row_rewards
from grayzone.decision import cost_matrices
from grayzone.numerics.tails import unstretched

Array = Any

WARNED_GAP = 1e-3  # relative duality gap above which a fit must warn
WORSE = 1.001  # how much worse than a simple start a fit may be, in silence
_SAME = 1e-6  # probabilities of fits that differ in the unit of costs
_ZONED = (
    "TruncatedLogisticRegression",
    "TruncatedLogisticRegressionCV",
    "ImportVectorMachine",
    "ImportVectorMachineCV",
)
_WRAPPERS = ("BayesDecisionClassifier", "TightBoundClassifier", "RateLimitClassifier")
# Decide by Bayes' rule on their own probabilities; and, beside them, fit to costs of rows.
_BY_BAYES = (*_ZONED, "BayesDecisionClassifier", "DecisionEnsembleClassifier")
_FIT_ROW_COSTS = (*_ZONED[:2], "TightBoundLogisticRegression", "TightBoundClassifier")
_LIMITED = ("RateLimitClassifier", "TightBoundLogisticRegression")
# Documented to be NaN where rows are too few to be held out.
_MAY_BE_NAN = ("held_out_bound_", "held_out_path_")
# Said of each row that was asked about: one without weight is not.
_OF_ROWS = ("cross_fitted_proba_", "row_costs_")
_DEFINITE = ("linear", "rbf", "laplacian")


@dataclass
class Trial:
    """A case being tried: what was found of it so far."""

    case: dict[str, Any]
    rows: Rows
    model: Any
    costs: Any = None  # of each row
    rewards: Any = None  # of each row and action
    findings: list[Finding] = field(default_factory=list)
    refusal: str | None = None
    converged: bool = True
    compared: list[str] = field(default_factory=list)  # starts that the fit is no worse than

    def broken(self, kind: str, where: str, detail: str, trace: str = "") -> None:
        """Note that a law is broken."""
        self.findings.append(Finding(kind, self.case["estimator"], where, detail, trace))

    def call(self, what: str, action: Callable[[], Any]) -> Any:
        """Return what a call gives; None where it is refused or breaks, of which a note is taken.

        A refusal is a sentence; any other exception, and any warning that is not the package's, is
        foreign.
        """
        ears, value, refusal = Ears(), None, None
        try:
            with ears, context(self.case["carrier"]):
                value = action()
        except Exception as error:  # whatever it is, it is what we are here for
            refusal = str(error)
            if not (is_refusal(error) or is_inner(error)):
                self._foreign(f"exception in {what}", said_by(error))
        for said in ears.foreign[:1]:  # those that follow it are often its echoes
            self._foreign(f"warning in {what}", said)
        if what == "fit":
            self.refusal, self.converged = refusal, ears.converged
        return value

    def _foreign(self, kind: str, said: Said) -> None:
        self.broken(kind, f"{said.name} at {said.where}", said.text, said.trace)

    @property
    def situation(self) -> str:
        """Where in the house a law was broken, as far as parameters tell."""
        own, n_classes = self.case["parameters"], len(np.unique(self.rows.y))
        told = [own[name] for name in ("kernel", "solver", "loss") if name in own]
        told = [value for value in map(str, told) if value not in ("auto", "truncated")]
        place = "blocks" if self.case["carrier"] in STREAMED else "held"
        return ", ".join([*told, "two classes" if n_classes == 2 else "more classes", place])

    def predicted(self, method: str, X: Array, costs: Any = None) -> Array | None:
        """Return predictions as NumPy's, or None where they are refused."""
        there, given = put(self.case["carrier"], X), {}
        if costs is not None:
            given["example_costs"] = put_costs(self.case["carrier"], costs)
        values = self.call(
            "predictions", lambda: taken(getattr(self.model, method)(there, **given))
        )
        return None if values is None else np.asarray(values)


def examine(case: dict[str, Any]) -> Outcome:
    """Try a case, and return what was found.

    Parameters
    ----------
    case : dict
        As ``fuzz.cases`` draws it.
    """
    if case["carrier"] in missing():
        return Outcome("left out")
    rows = make_rows(case["rows"])
    kernel = case["parameters"].get("kernel")
    if kernel == "precomputed":
        rows = rows._replace(X=_gram(rows.X, case["rows"]["seed"]))
    trial = Trial(case, rows, make_model(case, np.unique(rows.y).tolist()))
    if "row costs" in case:
        trial.costs = row_costs(case["row costs"], case["rows"]["seed"], rows.y)
    if "rewards" in case:
        beside = int(case["parameters"].get("undecided_label", "auto") != "auto")
        trial.rewards = row_rewards(case["rewards"], case["rows"]["seed"], rows.y, beside)
    _check_parameters(trial)
    fitted = _fit(trial)
    if fitted:
        for law in _LAWS:
            law(trial)
    refusal = None if fitted else trial.refusal
    result = "fitted" if fitted else "refused"
    return Outcome(result, trial.findings, refusal, trial.compared)


def _gram(X: Array, seed: int) -> Array:
    """Return kernel values of rows; now and then of something that is no kernel."""
    with np.errstate(all="ignore"):
        if seed % 8 == 0:
            return X @ X[::-1].T
        return X @ X.T if seed % 2 else rbf_kernel(np.nan_to_num(X), gamma=1.0)


def _check_parameters(trial: Trial) -> None:
    copy = trial.call("clone", lambda: clone(trial.model))
    if copy is not None and repr(copy.get_params()) != repr(trial.model.get_params()):
        trial.broken("clone", "get_params", "A clone has other parameters.")


def _fit(trial: Trial) -> bool:
    """Fit; what is refused leaves the model, and what is given, as it was."""
    model = trial.model
    if trial.case.get("fitted before"):
        trial.call("fit", lambda: model.fit(*_earlier(trial)))
    was, given = pickle.dumps(model), pickle.dumps(trial.rows)
    fitted = trial.call("fit", lambda: _fitted(trial)) is not None
    if pickle.dumps(trial.rows) != given:
        trial.broken("input changed", trial.situation, "The fit wrote into what it was given.")
    if not fitted:
        if pickle.dumps(model) != was:
            trial.broken("changed by a refused fit", trial.situation, str(trial.refusal))
        _justified(trial)
        if trial.case["estimator"] in _LIMITED:
            for kind, seen in broken_by_refusal(model, str(trial.refusal)):
                trial.broken(kind, "fit", seen)
    return fitted


def _fitted(trial: Trial) -> Any:
    costs = trial.costs if trial.case["estimator"] in _FIT_ROW_COSTS else None
    with carried(trial.case["carrier"], trial.rows, costs, trial.rewards) as given:
        return trial.model.fit(**given)


def _earlier(trial: Trial) -> tuple[Array, Array]:
    """Return tame rows, with the labels of the case where there are as many."""
    X, codes, _ = make_rows({"kind": "linear", "n": 20, "d": 2, "classes": 2, "seed": 0})
    labels = np.unique(trial.rows.y)
    precomputed = trial.case["parameters"].get("kernel") == "precomputed"
    return _gram(X, 1) if precomputed else X, labels[codes] if len(labels) == 2 else codes


def _justified(trial: Trial) -> None:
    """Check that a definite kernel is not called indefinite."""
    own = trial.case["parameters"]
    kernel = own.get("kernel", "rbf" if "Import" in trial.case["estimator"] else "linear")
    definite = kernel in _DEFINITE or (kernel == "poly" and own.get("coef0", 0.0) >= 0.0)
    if definite and "semi-definite" in str(trial.refusal):
        trial.broken("definite kernel refused", trial.situation, str(trial.refusal))


# ------------------------------------------------------------------------------------------
# Laws of fitted models
# ------------------------------------------------------------------------------------------


def _finite(trial: Trial) -> None:
    """All that was learned is finite; what measures the fit is so, or the fit has warned."""
    for name, value in vars(trial.model).items():
        measured = name in ("objective_", "dual_gap_") and not trial.converged
        if not name.endswith("_") or name in _MAY_BE_NAN or measured:
            continue
        if isinstance(value, (str, list, dict, tuple)) or value is None or hasattr(value, "fit"):
            continue
        values, weight = taken(value), trial.rows.weight
        if name in _OF_ROWS and weight is not None and len(values) == len(weight):
            values = values[weight > 0.0]
        if values.dtype.kind == "f" and not np.all(np.isfinite(values)):
            trial.broken("not finite", name, f"{name} has NaN or infinite values.")


def _certified(trial: Trial) -> None:
    """A gap that is not small is warned of."""
    gap = getattr(trial.model, "dual_gap_", None)
    if gap is None or not trial.converged:
        return
    allowed = max(float(trial.model.tol), WARNED_GAP)
    if not gap <= allowed:
        trial.broken("silent gap", trial.situation, f"dual_gap_ = {gap:.3g}, above {allowed:g}.")
    if gap < 0.0:
        trial.broken("negative gap", trial.situation, f"dual_gap_ = {gap:.3g}.")


def _no_worse(trial: Trial) -> None:
    """The objective is that of the predictions, and no worse than simple starts; or it is said."""
    model, case = trial.model, trial.case
    ramp = case["parameters"].get("loss") == "ramp"
    reference = case["parameters"].get("parametrization") == "reference"
    # a kernel's values may be missing; of one class with weight there is nothing to fit
    fitted = hasattr(model, "intercept_") and hasattr(model, "zone_")
    other = ramp or reference or trial.costs is not None  # another criterion
    if case["estimator"] not in _ZONED or other or not (trial.converged and fitted):
        return
    X = trial.rows.X.astype(np.float64)
    scores = _as_fitted(model, trial.predicted("decision_function", X))
    early = case["parameters"].get("early_stopping", False)  # judged by rows that it has not seen
    if scores is None or early or not np.all(np.isfinite(scores)):
        return
    with np.errstate(all="ignore"):
        classes = np.unique(trial.rows.y)
        criterion = criterion_of(model, classes, trial.rows.y, trial.rows.weight)
        square = _square(model, scores)
        share = _l1_share(model)
        reached = criterion.loss(scores) + 0.5 * (1.0 - share) * max(square, 0.0) / criterion.C
        reached += share * _size(model) / criterion.C if share else 0.0
        starts = {"a constant": criterion.constant(model.fit_intercept)}
        every = case["estimator"].startswith("Truncated") and model.centres is None
        if every and model.kernel != "linear" and not share:
            K = kernel_matrix(model, X, trial.rows.weight)
            if not is_definite(K):
                return  # there is no minimum
            reached -= _rounding(model, K, criterion.C)
            best = support_vector_start(criterion, K, model.fit_intercept)
            starts["SVC's dual coefficients"] = best
    # a relative gap is one of the objective that was reached
    loose = min(float(model.tol), 0.99) if model.tol > WARNED_GAP else 0.0
    allowed = WORSE / (1.0 - loose)
    for name, value in starts.items():
        if not np.isfinite(value):
            continue
        trial.compared.append(name)
        if not reached <= allowed * value + 1e-300:
            text = f"The objective is {reached:.6g}, that of {name} {value:.6g}."
            trial.broken(f"worse than {name}", trial.situation, text)


def _square(model: Any, scores: Array) -> float:
    """Return the squared norm of the fitted function."""
    if "coef_" in vars(model):
        return float(np.sum(taken(model.coef_).astype(np.float64) ** 2))
    few = getattr(model, "centres", None) is not None
    if few or getattr(model, "move_points", False):  # points that need not be rows
        points = model.centres_ if few else model.import_vectors_
        points = points.toarray() if hasattr(points, "toarray") else points
        centres, a = taken(points).astype(np.float64), taken(model.dual_coef_)
        return float(np.sum((a @ model._kernel(centres, centres)) * a))
    places = taken(model.support_ if hasattr(model, "support_") else model.import_points_)
    values = scores.reshape(len(scores), -1)[places] - taken(model.intercept_)
    return float(np.sum(taken(model.dual_coef_).T * values))


def _l1_share(model: Any) -> float:
    """Return the share of the penalty that is an l1 norm."""
    shares = {"l1": 1.0, "elasticnet": getattr(model, "l1_ratio", 0.0)}
    return float(shares.get(getattr(model, "penalty", "l2"), 0.0))


def _size(model: Any) -> float:
    """Return the l1 norm of the coefficients."""
    coef = model.coef_ if "coef_" in vars(model) else model.dual_coef_
    return float(np.sum(np.abs(taken(coef).astype(np.float64))))


def _rounding(model: Any, K: Array, C: float) -> float:
    """Return what rounding errors may add to the penalty, as it is worked out here."""
    size = np.zeros((len(K), 1))
    size[taken(model.support_)] = np.abs(taken(model.dual_coef_)).sum(axis=0)[:, None]
    return float(10.0 * np.finfo(float).eps * (size.T @ np.abs(K) @ size)[0, 0] / C)


def _decides(trial: Trial) -> None:
    """Predictions for the training rows are finite, proper and what the costs ask for."""
    model, X = trial.model, trial.rows.X
    if _without_model(model):
        return
    known = taken(getattr(model, "actions_", model.classes_)).tolist()
    decided = trial.predicted("predict", X)
    unknown = set() if decided is None else set(decided.tolist()) - set(known)
    if unknown:
        trial.broken("unknown label", "predict", str(unknown))
    # the logarithms that a wrapper passes on are those of its classifier
    logarithms = [] if trial.case["estimator"] in _WRAPPERS else ["predict_log_proba"]
    for method in ["decision_function", *logarithms]:
        if hasattr(model, method):
            values = trial.predicted(method, X)
            if values is not None and not np.all(np.isfinite(values)):
                trial.broken("not finite", "predictions, training rows", f"{method} is not.")
    if hasattr(model, "predict_proba"):
        proba = trial.predicted("predict_proba", X)
        if proba is not None and _proper(trial, proba, "training rows") and not unknown:
            _cheapest(trial, proba, decided)


def _as_fitted(model: Any, scores: Any) -> Any:
    """Scores without the slopes and bends that they have beyond the zone."""
    slopes = getattr(model, "tail_slopes_", None)
    if scores is None or slopes is None:
        return scores
    columns = scores.reshape(len(scores), -1)
    tails = model._tail_ends(), taken(slopes), taken(model.tail_bends_)
    return unstretched(columns, *tails).reshape(scores.shape)


def _without_model(model: Any) -> bool:
    """Whether a search was asked not to fit what it chose."""
    return getattr(model, "refit", True) is False


def _proper(trial: Trial, proba: Array, whose: str) -> bool:
    where = f"predictions, {whose}"
    if not np.all(np.isfinite(proba)):
        trial.broken("not finite", where, "predict_proba is not.")
    elif np.any(proba < 0.0) or np.any(proba > 1.0 + 1e-6):
        trial.broken("improper probabilities", where, f"{proba.min():g} to {proba.max():g}")
    elif np.max(np.abs(proba.sum(axis=1) - 1.0)) > 1e-5:
        trial.broken("improper probabilities", where, f"sums {proba.sum(axis=1).tolist()[:3]}")
    else:
        return True
    return False


def _cheapest(trial: Trial, proba: Array, decided: Array | None) -> None:
    """Check Bayes' rule, where decisions are taken by it; for costs of rows, too."""
    if trial.case["estimator"] not in _BY_BAYES or decided is None:
        return
    model, n = trial.model, len(proba)
    costs = taken(model.cost_matrix_)
    if hasattr(model, "threshold_tuning_"):
        away = proba[:, 1] - model.threshold_
        reached = decided == taken(model.classes_)[1]
        if np.any((away >= 0.0) != reached, where=np.abs(away) > 1e-6):
            trial.broken("other threshold", "predict", "Decisions are not by threshold_.")
    else:
        _cheapest_by(trial, proba, decided, np.broadcast_to(costs, (n, *costs.shape)))
    if trial.costs is None:
        return
    decided = trial.predicted("predict", trial.rows.X, trial.costs)
    if decided is not None:
        _cheapest_by(trial, proba, decided, cost_matrices(trial.costs, taken(model.classes_)))


def _cheapest_by(trial: Trial, proba: Array, decided: Array, costs: Array) -> None:
    """Check decisions by costs (n, K, K) of rows and, if there is one, that of none."""
    model, classes = trial.model, taken(trial.model.classes_)
    rejection = model.get_params(deep=False).get("reject_cost")
    if rejection is not None:
        each = (
            [rejection[k] for k in classes.tolist()] if isinstance(rejection, dict) else rejection
        )
        undecided = np.broadcast_to(np.asarray(each, dtype=float), (len(proba), len(classes)))
        costs = np.concatenate([costs, undecided[:, :, None]], axis=2)
    # in the unit of each row, whose costs may be of any size
    unit = np.max(costs, axis=(1, 2), keepdims=True)
    costs = costs / np.where(unit > 0.0, unit, 1.0)
    expected = np.einsum("nk,nka->na", proba.astype(np.float64), costs)
    places = {
        action: k for k, action in enumerate(taken(getattr(model, "actions_", classes)).tolist())
    }
    own = expected[np.arange(len(decided)), [places[action] for action in decided.tolist()]]
    if np.any(own > expected.min(axis=1) + 1e-6):
        trial.broken("dear decisions", "predict", "Another decision has a smaller expected cost.")


def _keeps_limits(trial: Trial) -> None:
    """Limits are kept as they are stated, and decisions are those of the threshold."""
    model, X = trial.model, trial.rows.X
    if trial.case["estimator"] == "TightBoundLogisticRegression":
        _keeps_own_limits(trial)
    if trial.case["estimator"] != "RateLimitClassifier":
        return
    method = "predict_proba" if hasattr(model, "predict_proba") else "decision_function"
    scores, decided = trial.predicted(method, X), trial.predicted("predict", X)
    if scores is not None and decided is not None:
        for kind, seen in broken_by_fit(model, trial.rows, scores, decided):
            trial.broken(kind, "fit", seen)


def _keeps_own_limits(trial: Trial) -> None:
    """A limit without a statement about new rows holds on those that were fitted."""
    model = trial.model
    if model.validation_fraction is not None or model.confidence is not None:
        return
    decided = trial.predicted("predict", trial.rows.X)
    if decided is not None:
        for kind, seen in broken_on_training_rows(model, trial.rows, decided):
            trial.broken(kind, trial.situation, seen)


def _new_rows(trial: Trial) -> None:
    """Predictions for hostile rows are finite, or refused in a sentence."""
    name, model = trial.case["new rows"], trial.model
    if _without_model(model):
        return
    X = new_rows(name, trial.rows.X)
    trial.predicted("predict", X)
    if hasattr(model, "decision_function"):
        scores = trial.predicted("decision_function", X)
        if scores is not None and np.any(np.isnan(scores)):
            trial.broken("not finite", "predictions, new rows", f"{name} rows: NaN scores.")
    if hasattr(model, "predict_proba"):
        proba = trial.predicted("predict_proba", X)
        if proba is not None:
            _proper(trial, proba, "new rows")


def _unit_of_costs(trial: Trial) -> None:
    """Costs in another unit give the same probabilities."""
    if "unit" not in trial.case or _without_model(trial.model):
        return
    of_rows = trial.costs, trial.rewards
    unit, by_rows = trial.case["unit"], any(given is not None for given in of_rows)
    scaled = scaled_costs(trial.model, unit, len(np.unique(trial.rows.y)), by_rows)
    if scaled is None:
        return
    method = "predict_proba" if hasattr(trial.model, "predict_proba") else "predict"
    before = trial.predicted(method, trial.rows.X)
    first, trial.model = trial.model, clone(trial.model).set_params(**scaled)
    trial.costs, trial.rewards = (None if c is None else times(c, unit) for c in of_rows)
    if trial.case.get("fitted before") and getattr(first, "warm_start", False):
        return
    if trial.call("fit", lambda: _fitted(trial)) is None:
        trial.broken("unit of costs", trial.situation, f"Refused: {trial.refusal}")
        return
    after = trial.predicted(method, trial.rows.X)
    if before is None or after is None:
        return
    if method == "predict":
        same = before.tolist() == after.tolist()
        moved = f"{np.sum(before != after)} decisions"
    else:
        same = not np.max(np.abs(before - after)) > _SAME
        moved = f"probabilities by {np.max(np.abs(before - after)):.2g}"
    if not same:
        trial.broken("unit of costs", trial.situation, f"Another unit moves {moved}.")


_LAWS = (_finite, _certified, _no_worse, _decides, _keeps_limits, _new_rows, _unit_of_costs)
