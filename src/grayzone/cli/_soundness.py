"""Whether a model from a file can be used: its arrays fit each other, and it decides.

Compiled code follows indices without a look, so that those of a crafted file have to be looked at
first: children of trees, support vectors, numbers of words and of categories. Settings that could
open files, start processes or run patterns have the values that ``train`` gives them. Everything
else shows when the model decides on a few made-up rows.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from types import FunctionType
from typing import Any

import numpy as np
import pandas as pd
from sklearn.pipeline import Pipeline

from grayzone.cli._contents import TREE_FIELDS
from grayzone.cli._schema import DATE, NUMBER, Schema
from grayzone.estimators.facts import facts_of

Fields = Mapping[str, Any]

# Which objects that hold others may be in which: where one is, its type, where its own parts are.
_PLACES = {
    ("file", "Pipeline"): "model",
    ("model", "TableVectorizer"): "table",
    ("table", "Pipeline"): "steps",
    ("table", "ApplyToEachCol"): "columns",
    ("steps", "ApplyToEachCol"): "columns",
    # columns are chosen when a model is fitted, by what other steps have made of them
    ("columns", "Filter"): "choice",
    ("choice", "ApplyToEachCol"): "choice",
    ("choice", "Filter"): "choice",
    ("model", "BayesDecisionClassifier"): "decision",
    ("decision", "CalibratedClassifierCV"): "calibration",
    ("calibration", "_CalibratedClassifier"): "calibrated",
}
_HOLDERS = {name for _, name in _PLACES}
_STEPS = {
    "vectorise": ("TableVectorizer",),
    "impute": ("SimpleImputer",),
    "scale": ("StandardScaler",),
    "pass": ("str",),
    "decide": ("BayesDecisionClassifier", "TightBoundLogisticRegression"),
}
# Whatever has such a setting has one of these values.
_SETTINGS: dict[str, tuple[Any, ...]] = {
    "_infrequent_enabled": (False,),
    "_needs_str_replace": (False,),
    "_preprocessor": (None,),
    "_sparse": (False,),
    "analyzer": ("char_wb",),
    "decode_error": ("strict",),
    "encoding": ("utf-8",),
    "feature_name_combiner": ("concat",),
    "function": (None,),
    "handle_unknown": ("ignore",),
    "indicator_": (None,),
    "input": ("content",),
    "keep_original": (False,),
    "lowercase": (True,),
    "memory": (None,),
    "n_jobs": (None,),
    "ngram_range": ((3, 4),),
    "periodic_encoding": (None,),
    "preprocessor": (None,),
    "rename_columns": ("{}",),
    "sparse_output": (False,),
    "stop_words": (None,),
    "strip_accents": (None,),
    "token_pattern": (r"(?u)\b\w\w+\b",),
    "tokenizer": (None,),
    "verbose": (0, False),
    "vocabulary": (None,),
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
    if names[-1] != "decide" or names != [name for name in _STEPS if name in names]:
        raise ValueError("its pipeline has other steps")
    for name, step in steps:
        if type(step).__name__ not in _STEPS[name]:
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


def _is_array(value: Any, kinds: str, *shape: int) -> bool:
    """Whether it is an array of such numbers, of that shape (-1: of any length)."""
    return (
        isinstance(value, np.ndarray)
        and value.dtype.kind in kinds
        and value.ndim == len(shape)
        and all(asked in (-1, have) for asked, have in zip(shape, value.shape, strict=True))
    )


def _fits_boosting(model: Fields) -> bool:
    n, per_round = model["n_features_in_"], model["n_trees_per_iteration_"]
    rounds = model["_predictors"]
    return (
        model["is_categorical_"] is None
        and type(n) is int
        and isinstance(rounds, list)
        and all(isinstance(trees, list) and len(trees) == per_round for trees in rounds)
        and all(_fits_tree(vars(tree), n) for trees in rounds for tree in trees)
    )


def _fits_tree(tree: Fields, n_features: int) -> bool:
    """Whether children come behind their parents and exist, and features do."""
    nodes = tree["nodes"]
    if not _is_array(nodes, "V", -1) or set(nodes.dtype.names or ()) != TREE_FIELDS:
        return False
    at = np.flatnonzero(nodes["is_leaf"] == 0)
    inner = nodes[at]
    return bool(
        len(nodes)
        and (inner["left"] > at).all()
        and (inner["right"] > at).all()
        and (inner["left"] < len(nodes)).all()
        and (inner["right"] < len(nodes)).all()
        and (inner["feature_idx"] >= 0).all()
        and (inner["feature_idx"] < n_features).all()
        and not nodes["is_categorical"].any()
    )


def _fits_bins(model: Fields) -> bool:
    return _is_array(model["is_categorical_"], "u", -1) and not model["is_categorical_"].any()


def _fits_svc(model: Fields) -> bool:
    n_classes, n = len(model["classes_"]), model["n_features_in_"]
    counts = model["_n_support"]
    if not _is_array(counts, "i", n_classes) or (counts < 0).any():
        return False
    n_vectors = int(counts.sum())
    return (
        model["kernel"] == "rbf"
        and type(n) is int
        and _is_array(model["support_"], "i", n_vectors)
        and _is_array(model["support_vectors_"], "f", n_vectors, n)
        and _is_array(model["_dual_coef_"], "f", n_classes - 1, n_vectors)
        and _is_array(model["_intercept_"], "f", n_classes * (n_classes - 1) // 2)
        and _is_array(model["_probA"], "f", 0)
        and _is_array(model["_probB"], "f", 0)
    )


def _fits_words(model: Fields) -> bool:
    places = model["vocabulary_"]
    return (
        isinstance(places, dict)
        and all(type(place) is int for place in places.values())
        and sorted(places.values()) == list(range(len(places)))
        and _is_array(vars(model["_tfidf"]).get("idf_"), "f", len(places))
    )


def _fits_categories(model: Fields) -> bool:
    lists, sizes, dropped = (
        model[name] for name in ("categories_", "_n_features_outs", "_drop_idx_after_grouping")
    )
    if dropped is None:
        dropped = [None] * len(lists)
    return (
        isinstance(lists, list)
        and len(lists) == len(sizes) == len(dropped)
        and all(
            _is_array(categories, "O", -1)
            and type(size) is int
            and (place is None or (type(place) is int and 0 <= place < len(categories)))
            and size == len(categories) - (place is not None)
            for categories, size, place in zip(lists, sizes, dropped, strict=True)
        )
    )


def _when_fitted(name: str, rule: Callable[[Fields], bool]) -> Callable[[Fields], bool]:
    """Apply a rule to what has been fitted; wrappers hold one that has not, too."""
    return lambda fields: name not in fields or rule(fields)


_RULES: dict[str, Callable[[Fields], bool]] = {
    "HistGradientBoostingClassifier": _when_fitted("_predictors", _fits_boosting),
    "_BinMapper": _fits_bins,
    "SVC": _when_fitted("support_", _fits_svc),
    "TfidfVectorizer": _when_fitted("vocabulary_", _fits_words),
    "OneHotEncoder": _when_fitted("categories_", _fits_categories),
}
