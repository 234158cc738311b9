"""Whether a model from a file can be used: its arrays fit each other, and it decides.

Compiled code follows indices without a look, so that those of a crafted file have to be looked at
first: children of trees, places of leaves and of sets of categories. Settings that could open files
or start processes have the values that ``train`` gives them. Everything else shows when the model
decides on a few made-up rows.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import FunctionType
from typing import Any

import numpy as np
import pandas as pd
from sklearn.pipeline import Pipeline

from grayzone.estimators.facts import facts_of
from grayzone.tables.errors import UserError
from grayzone.tables.schema import DATE, NUMBER, Schema
from grayzone.training.sound_members import (
    fits_columns,
    fits_ensemble,
    fits_features,
    fits_scales,
    fits_scores,
    fits_trees,
)

Fields = Mapping[str, Any]

# Which objects that hold others may be in which: where one is, its type, where its own parts are.
_PLACES = {
    ("file", "Pipeline"): "model",
    ("model", "TableFeatures"): "table",
    ("model", "DecisionEnsembleClassifier"): "ensemble",
    ("ensemble", "Pipeline"): "member",
    ("ensemble", "CalibratedClassifierCV"): "calibration",
    ("calibration", "_CalibratedClassifier"): "calibrated",
}
_HOLDERS = {name for _, name in _PLACES}
_FIRST = {"pass": "str", "features": "TableFeatures"}
# Whatever has such a setting has one of these values.
_SETTINGS: dict[str, tuple[Any, ...]] = {
    "function": (None,),
    "memory": (None,),
    "n_jobs": (None,),
    "transform_input": (None,),
    "verbose": (0, False),
}


def check_soundness(pipeline: Any, schema: Schema, decide: Callable[[Any], Any]) -> None:
    """Check a pipeline before it is used, then whether it decides.

    Parameters
    ----------
    pipeline : object
        What a file held.
    schema : Schema
        Columns that it needs.
    decide : callable
        Decides on a table.

    Raises
    ------
    ValueError
        If it cannot be used; whatever damaged parts make it raise comes through as it is.
    """
    _check_steps(pipeline)
    for thing in _objects(pipeline):
        fields = vars(thing)
        for name in _SETTINGS.keys() & fields.keys():
            if not any(_same(fields[name], value) for value in _SETTINGS[name]):
                raise ValueError(f"{type(thing).__name__} has an unusual {name}")
        rule = _RULES.get(type(thing).__name__)
        if rule is not None and not rule(fields):
            raise ValueError(f"the arrays of {type(thing).__name__} do not fit each other")
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        decide(_made_up(schema))
        facts_of(pipeline)


def _same(value: Any, wanted: Any) -> bool:
    return type(value) is type(wanted) and bool(value == wanted)


def _check_steps(pipeline: Any) -> None:
    steps = getattr(pipeline, "steps", None) if type(pipeline) is Pipeline else None
    if not isinstance(steps, list) or not steps or not all(len(step) == 2 for step in steps):
        raise ValueError("it holds no pipeline")
    names = [name for name, _ in steps]
    if names not in [[first, "decide"] for first in _FIRST]:
        raise ValueError("its pipeline has other steps")
    expected = _FIRST[names[0]], "DecisionEnsembleClassifier"
    for (name, step), kind in zip(steps, expected, strict=True):
        if type(step).__name__ != kind or (kind == "str" and step != "passthrough"):
            raise ValueError(f"its step {name} is something else")


def _objects(root: Any) -> Iterator[Any]:
    """Yield all objects within one, for every place that they are in."""
    waiting, seen = [(root, "file")], set()
    while waiting:
        value, place = waiting.pop()
        if (id(value), place) in seen:
            continue
        seen.add((id(value), place))
        if isinstance(value, dict):
            inner = list(value.values())
        elif isinstance(value, list | tuple):
            inner = list(value)
        elif isinstance(value, np.ndarray) and value.dtype == object:
            inner = value.ravel().tolist()
        elif hasattr(value, "__dict__") and not isinstance(value, type | FunctionType):
            kind = type(value).__name__
            if kind in _HOLDERS:
                if (place, kind) not in _PLACES:
                    raise ValueError(f"a {kind} is not in its place")
                place = _PLACES[place, kind]
            yield value
            inner = list(vars(value).values())
        else:
            continue
        waiting += [(item, place) for item in inner]


def _made_up(schema: Schema) -> Any:
    """Three rows: nothing at all, zeros and empty texts, and something."""
    values = {
        NUMBER: np.array([np.nan, 0.0, 1.0]),
        DATE: pd.to_datetime(pd.Series([None, "1970-01-01", "2020-02-29"])),
    }
    text = pd.Series([None, "", "some text"], dtype=object)
    return pd.DataFrame({c.name: values.get(c.kind, text) for c in schema.columns})


_RULES: dict[str, Callable[[Fields], bool]] = {
    "DecisionEnsembleClassifier": fits_ensemble,
    "ScaledFeatures": fits_scales,
    "TableColumns": fits_columns,
    "TableFeatures": fits_features,
    "TreeSum": fits_trees,
    **dict.fromkeys(
        (
            "ImportVectorMachineCV",
            "LogisticRegression",
            "SparseMinimaxProbabilityMachine",
            "TightBoundLogisticRegressionCV",
            "TruncatedLogisticRegression",
            "TruncatedLogisticRegressionCV",
        ),
        fits_scores,
    ),
}


@contextmanager
def in_one_sentence() -> Iterator[None]:
    """Say what a damaged model makes of a table whose columns are as they should be."""
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        reason = " ".join(str(error).split())[:200]
        raise UserError(
            f"The model cannot decide on this table, it is damaged: {reason}"
        ) from error
