"""What a fitted model is made of, as far as it says so."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.calibration import CalibratedClassifierCV

from grayzone.decision.ranges import has_range, threshold_range
from grayzone.numerics.checks import as_numpy

Array = Any

_INNER = ("best_estimator_", "estimator_")
_MOST_WEIGHTS = 30
_MOST_POINTS = 50


@dataclass
class Facts:
    """Name of a model, and what can be told of it.

    Attributes
    ----------
    name : str
        Name of the class of the model, out of everything around it.
    lines : list of (str, str)
        What it is made of, and how much of that.
    zone : tuple of float or None
        Its gray zone.
    cost_matrix : ndarray or None
        The costs that it decides by.
    bound_path : list of float
        Accuracy bounds after each basis of a minimax machine.
    weights : list of (str, float)
        Weights of features, the largest first.
    points : list of str
        Training rows that it is made of, the first of them.
    threshold : float or None
        Threshold of its decisions, as far as it is told.
    band : tuple of float or None
        Thresholds that its costs imply, where these are ranges.
    reject_costs : list of float or None
        What staying undecided costs for each true class, where it may.

    See Also
    --------
    grayzone.report : Shows them.

    Examples
    --------
    >>> from grayzone.reporting import Facts
    >>> Facts("LogisticRegression", threshold=0.2).threshold
    0.2
    """

    name: str
    lines: list[tuple[str, str]] = field(default_factory=list)
    zone: tuple[float, float] | None = None
    cost_matrix: Array | None = None
    bound_path: list[float] = field(default_factory=list)
    weights: list[tuple[str, float]] = field(default_factory=list)  # largest first
    points: list[str] = field(default_factory=list)  # training rows of these, the first
    threshold: float | None = None  # of decisions, as far as it is told
    band: tuple[float, float] | None = None  # of thresholds, where costs are ranges
    reject_costs: list[float] | None = None


def facts_of(estimator: Any, feature_names: Any = None) -> Facts:
    """Look into pipelines and searches for the classifier itself."""
    model, names = unwrapped(estimator, feature_names)
    facts = Facts(type(model).__name__)
    # of a classifier around another, the outer one decides
    costs = _outermost(estimator, "cost_matrix_")
    facts.cost_matrix = None if costs is None else as_numpy(costs)
    threshold = _outermost(estimator, "threshold_")
    facts.threshold = None if threshold is None else float(threshold)
    decides = (layer for layer in _layers(estimator) if hasattr(layer, "_reject_costs"))
    facts.reject_costs = getattr(next(decides, None), "_reject_costs", None)
    zone = getattr(model, "zone_", None)
    if isinstance(zone, tuple):
        facts.zone = float(zone[0]), float(zone[1])
    facts.band = threshold_band(_outermost(estimator, "costs"), model)
    _describe(model, facts)
    facts.bound_path = as_numpy(getattr(model, "bound_path_", [])).tolist()
    facts.weights = _weights(model, names)
    return facts


def threshold_band(costs: Any, model: Any) -> tuple[float, float] | None:
    """Return the range of thresholds that a range of costs implies; None where they are known."""
    classes = as_numpy(getattr(model, "classes_", []))
    if not isinstance(costs, Mapping) or len(classes) != 2 or set(costs) != set(classes.tolist()):
        return None
    return threshold_range(costs, classes) if has_range(costs, classes) else None


def unwrapped(estimator: Any, names: Any = None) -> tuple[Any, Any]:
    """Return the classifier inside pipelines, searches and calibration, and its feature names."""
    for layer in _layers(estimator):
        if hasattr(layer, "steps"):
            names = _names(layer, names)
    return layer, names


def is_on_a_line(estimator: Any) -> bool:
    """Whether scores of what is inside have become probabilities by one sigmoid."""
    calibrators = (x for x in _layers(estimator) if isinstance(x, CalibratedClassifierCV))
    return any(calibrator.method == "sigmoid" for calibrator in calibrators)


def _layers(estimator: Any) -> Iterator[Any]:
    """Yield the estimator, what it is around, and so on."""
    while True:
        yield estimator
        if hasattr(estimator, "steps"):
            estimator = estimator.steps[-1][1]
        elif hasattr(estimator, "calibrated_classifiers_"):
            estimator = estimator.calibrated_classifiers_[0].estimator
        else:
            inner = next((name for name in _INNER if hasattr(estimator, name)), None)
            if inner is None:
                return
            estimator = getattr(estimator, inner)


def _outermost(estimator: Any, name: str) -> Any:
    found = (getattr(layer, name, None) for layer in _layers(estimator))
    return next((value for value in found if value is not None), None)


def _names(pipeline: Any, names: Any) -> Any:
    """Names of the features that the last step sees, where the steps before can tell."""
    try:
        return pipeline[:-1].get_feature_names_out(names) if len(pipeline.steps) > 1 else names
    except (AttributeError, ValueError, TypeError):
        return None


_NUMBERS = (
    ("C_", "C, chosen"),
    ("dual_gap_", "Relative duality gap"),
    ("accuracy_bound_", "Accuracy bound Ω of the training data's moments"),
    ("held_out_bound_", "Accuracy bound by held-out moments"),
    ("kkt_residual_", "KKT residual"),
    ("promised_decrease_", "Relative decrease that the last step promised"),
    ("n_iter_", "Iterations"),
)


def _describe(model: Any, facts: Facts) -> None:
    for name, text in _NUMBERS:
        value = getattr(model, name, None)
        if isinstance(value, int | float | np.number) and np.isfinite(value):
            facts.lines.append((text, f"{float(value):.4g}"))
    members = getattr(model, "members_", None)
    if isinstance(members, dict):
        shares = zip(members, as_numpy(model.weights_).tolist(), strict=True)
        text = ", ".join(f"{name} {share:.2g}" for name, share in shares)
        if len(members) > 1:
            text += " (factors of their log-odds, which are added up: they need not sum to 1)"
        facts.lines.append(("Members and their weights", text))
    if facts.zone is not None:
        facts.lines.append(
            (
                "Zone in which probabilities are faithful",
                f"{facts.zone[0]:.4g} to {facts.zone[1]:.4g}",
            )
        )
    slopes = getattr(model, "tail_slopes_", None)
    if facts.zone is not None and slopes is not None:
        below, above = as_numpy(slopes).tolist()
        text = f"{below:.3g} below, {above:.3g} above"
        facts.lines.append(("Slopes of the log-odds at its ends", text))
    if facts.band is not None:
        band = f"{facts.band[0]:.4g} to {facts.band[1]:.4g}"
        facts.lines.append(("Thresholds of the range of costs", band))
    for name, text in (
        ("import_points_", "Import points"),
        ("centre_indices_", "Centres"),
        ("support_", "Support vectors"),
        ("bases_", "Basis functions"),
    ):
        found = getattr(model, name, None)
        if found is not None:
            found = as_numpy(found) if hasattr(found, "shape") else found
            facts.lines.append((text, f"{len(found):,}"))
            if np.ndim(found) == 1:
                facts.points = [str(int(row)) for row in found[:_MOST_POINTS]]
            break


def _weights(model: Any, names: Any) -> list[tuple[str, float]]:
    """Feature weights or coefficients, the largest first."""
    values = getattr(model, "feature_weights_", None)
    if values is None:
        try:
            values = model.coef_
        except AttributeError:
            return []
        values = as_numpy(values)
        if values.ndim != 2 or values.shape[0] != 1:
            return []
        values = values[0]
    values = np.asarray(values, dtype=np.float64)
    if names is None or len(names) != len(values):
        names = getattr(model, "feature_names_in_", [f"x{j}" for j in range(len(values))])
    order = np.argsort(-np.abs(values), kind="stable")[:_MOST_WEIGHTS]
    return [(str(names[j]), float(values[j])) for j in order]
