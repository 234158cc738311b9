"""Estimators, made of their description."""

from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression

import grayzone

Array = Any


def product(X: Array, Z: Array) -> Array:
    """Kernel function: the linear one."""
    values = X @ Z.T
    return values.toarray() if sp.issparse(values) else values


def sparse_product(X: Array, Z: Array) -> Array:
    """Kernel function that returns a sparse matrix, which no kernel function should."""
    return sp.csr_array(product(X, Z))


_CALLABLES = {"product": product, "sparse product": sparse_product}


def make_model(case: dict[str, Any], classes: list[Any]) -> Any:
    """Return the estimator of a case, not fitted.

    Parameters
    ----------
    case : dict
        ``estimator``, a name, and ``parameters``.
    classes : list
        The labels, sorted: parameters are written by their places.
    """
    given = {k: _decoded(k, v, classes) for k, v in case["parameters"].items()}
    if case["estimator"] == "LogisticRegression":
        return LogisticRegression(**given)
    kind = getattr(grayzone, case["estimator"])
    model = kind(**given)
    if "random_state" in model.get_params(deep=False):
        model.set_params(random_state=0)
    return model


def _decoded(name: str, value: Any, classes: list[Any]) -> Any:
    if not isinstance(value, dict):
        return value
    if name == "estimator":
        return make_model(value, classes)
    if "own" in value:
        return [(f"member {k}", make_model(one, classes)) for k, one in enumerate(value["own"])]
    if "callable" in value:
        return _CALLABLES[value["callable"]]
    if "place" in value:
        return classes[value["place"] % len(classes)]
    if "of first" in value:
        return {classes[0]: value["of first"]}
    if "each" in value:
        each = value["each"]
        return {label: each[k % len(each)] for k, label in enumerate(classes)}
    if "ranges" in value:
        ranges = [tuple(ends) for ends in value["ranges"]]
        return {label: ranges[k % len(ranges)] for k, label in enumerate(classes)}
    if "matrix" in value:
        return _matrix(value["matrix"], len(classes))
    if len(classes) == 2:
        return tuple(value.get("pair", (1.0 - value.get("caps", 0.7), value.get("caps", 0.7))))
    return [value.get("caps", 0.7)] * len(classes)


def _matrix(kind: str, size: int) -> Array:
    """Costs of a kind: all the same, dearer below the diagonal, or a price of right ones, too."""
    if kind == "ones":
        return np.ones((size, size))
    errors = 1.0 - np.eye(size)
    if kind == "skewed":
        return errors * (1.0 + np.arange(size)[:, None] * 4.0)
    return errors + 0.25


def scaled_costs(model: Any, factor: float, size: int, by_rows: bool) -> dict[str, Any] | None:
    """Parameters of the same costs in another unit; None where a model has no unit."""
    params = model.get_params(deep=False)
    given = {k: params[k] for k in ("costs", "reject_cost") if params.get(k) is not None}
    if not (given or by_rows) or isinstance(params.get("costs"), str):
        return None
    if "costs" not in given and not by_rows:
        given["costs"] = 1.0 - np.eye(size)
    return {name: times(value, factor) for name, value in given.items()}


def times(value: Any, factor: float) -> Any:
    """Return costs in another unit, whatever they are written as."""
    if isinstance(value, dict):
        return {label: times(cost, factor) for label, cost in value.items()}
    if isinstance(value, tuple):
        return tuple(times(cost, factor) for cost in value)
    return value * factor
