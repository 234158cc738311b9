"""What an exported model says, by onnxruntime, and whether it is what the model says."""

from __future__ import annotations

import importlib.util
import json
import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp

from grayzone.decision.rules import action_costs
from grayzone.onnx.needs import needed
from grayzone.onnx.rows import GAP, values_of

Array = Any

_TRIED = 200  # rows on which both are compared
_CLOSE = 1e-4  # largest difference of probabilities: what single precision of others may cost
_SURE = 1e-6  # distance from a threshold up to which rounding may decide


def session_of(model: Any) -> Any:
    """Return a session of onnxruntime, which says nothing of inputs that need not be given.

    Parameters
    ----------
    model : onnx.ModelProto, bytes or path
        An exported model.
    """
    runtime = needed("onnxruntime")
    options = runtime.SessionOptions()
    options.log_severity_level = 3
    given = model.SerializeToString() if hasattr(model, "SerializeToString") else model
    given = given if isinstance(given, bytes) else str(given)
    return runtime.InferenceSession(given, options, providers=["CPUExecutionProvider"])


def feeds_of(session: Any, X: Any) -> dict[str, Array]:
    """Return rows as the inputs of a session: an array, or columns by name."""
    kinds = {i.name: i.type for i in session.get_inputs()}
    if hasattr(X, "columns") and not sp.issparse(X):
        table = {str(name): values_of(X[name]) for name in X.columns}
        return {name: _as_kind(table[name], kind)[:, None] for name, kind in kinds.items()}
    X = X.toarray() if sp.issparse(X) else np.asarray(X)
    return {name: _as_kind(X, kind) for name, kind in kinds.items()}


def _as_kind(values: Array, kind: str) -> Array:
    """Return values of the type of an input; gaps of text are empty."""
    if kind == "tensor(string)":
        flat = [GAP if v is None or v != v else str(v) for v in np.asarray(values).ravel().tolist()]
        return np.array(flat, dtype=object).reshape(np.shape(values))
    types = {"tensor(float)": np.float32, "tensor(int64)": np.int64, "tensor(bool)": np.bool_}
    return np.asarray(values).astype(types.get(kind, np.float64))


def run(model: Any, X: Any, **inputs: Any) -> dict[str, Any]:
    """Return what an exported model says of rows, by the names of its outputs.

    Parameters
    ----------
    model : onnx.ModelProto, bytes, path or session
        An exported model.
    X : array-like or DataFrame
        Rows.
    **inputs : array-like
        Inputs that need not be given, such as ``costs``.

    Returns
    -------
    outputs : dict
        Arrays by name: "label", "probabilities" and so on.

    See Also
    --------
    to_onnx : Makes such a model.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from grayzone import TruncatedLogisticRegression
    >>> from grayzone.onnx import run, to_onnx
    >>> X, y = load_iris(return_X_y=True)
    >>> model = TruncatedLogisticRegression(reject_cost=0.3).fit(X, y)
    >>> sorted(run(to_onnx(model, X), X[:5]))
    ['decision', 'label', 'probabilities']
    """
    session = model if hasattr(model, "get_inputs") else session_of(model)
    feeds = feeds_of(session, X)
    known = {i.name for i in session.get_overridable_initializers()}
    for name, value in inputs.items():
        if name not in known:
            raise ValueError(
                f"The exported model has no input {name!r}; those that need not be given are "
                f"{sorted(known)}."
            )
        array = np.asarray(value, dtype=np.float64)
        feeds[name] = array[None] if name == "costs" and array.ndim == 2 else array
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, feeds), strict=True))


def check_same(made: Any, model: Any, X: Any) -> None:
    """Check on some rows that an export says what the model says.

    Raises
    ------
    ValueError
        If it does not, or the model itself refuses the rows.
    """
    some = _some(X)
    if not some.shape[0]:
        return
    known = _in_double(some)  # as the export computes: a step in single precision rounds
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            decided = np.asarray(model.predict(known))
        except ValueError as error:
            raise ValueError(
                f"The model itself cannot decide on these rows: {' '.join(str(error).split())}"
            ) from error
        proba = model.predict_proba(known) if hasattr(model, "predict_proba") else None
    if importlib.util.find_spec("onnxruntime") is None:
        return
    said = run(made, some)
    shown = said["decision" if "decision" in said else "label"]
    wrong = shown != decided
    if proba is not None and "probabilities" in said:
        away = np.abs(said["probabilities"] - np.asarray(proba)).max(axis=1)
        if not float(away.max()) <= _CLOSE:
            raise _differs(f"probabilities of row {int(away.argmax())} by {away.max():.1e}")
        wrong &= ~_near(json.loads(made.metadata_props[0].value), np.asarray(proba))
    if np.any(wrong):
        row = int(np.argmax(wrong))
        raise _differs(f"the decision about row {row}: {shown[row]!r}, not {decided[row]!r}")


def _some(X: Any) -> Any:
    """Return the first rows, and the first of those that have gaps."""
    if sp.issparse(X):
        return X.tocsr()[:_TRIED]
    if not hasattr(X, "columns"):
        X = np.asarray(X)
        gaps = np.isnan(X).any(axis=1) if X.dtype.kind == "f" else np.zeros(len(X), dtype=bool)
    elif hasattr(X, "isna"):
        gaps = X.isna().to_numpy().any(axis=1)
    else:
        return X[:_TRIED]
    places = np.union1d(np.arange(min(_TRIED, len(X))), np.flatnonzero(gaps)[:_TRIED])
    return X.iloc[places] if hasattr(X, "iloc") else X[places]


def _in_double(X: Any) -> Any:
    """Return the same rows with numbers of single precision as doubles."""
    if hasattr(X, "columns") and hasattr(X, "dtypes") and hasattr(X, "iloc"):
        single = [name for name in X.columns if X[name].dtype == np.float32]
        return X.astype(dict.fromkeys(single, np.float64)) if single else X
    return X.astype(np.float64) if getattr(X, "dtype", None) == np.float32 else X


def _near(facts: dict[str, Any], proba: Array) -> Array:
    """Which rows are so near a threshold that rounding may decide, as far as the file tells."""
    if "threshold" in facts:
        positive = facts.get("positive", facts["classes"][-1])
        own = proba[:, facts["classes"].index(positive)]
        return np.abs(own - facts["threshold"]) <= _SURE
    if "costs" not in facts:
        return np.zeros(len(proba), dtype=bool)
    costs = np.asarray(facts["costs"])
    expected = action_costs(proba, costs, reject_cost=facts.get("reject_cost"))
    best = np.sort(expected, axis=1)
    return best[:, 1] - best[:, 0] <= _SURE * float(costs.max())


def _differs(what: str) -> ValueError:
    return ValueError(
        f"The export would differ from the model in {what}. A part of it has no faithful "
        "counterpart (those by skl2onnx are kept in single precision); keep the model in Python, "
        "with skops."
    )
