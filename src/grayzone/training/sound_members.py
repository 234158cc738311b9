"""Whether the parts of a decision ensemble from a file fit each other.

Trees are walked by compiled code that follows indices without a look; features are as many as
levels and knots say, which must not be more than a fit makes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from grayzone.estimators.table_features import (
    BUCKETS,
    KNOTS,
    MOST_LEVELS,
    TEXT_FEATURES,
    ScaledFeatures,
    TableColumns,
)
from grayzone.estimators.tree_sum import MOST_LEAVES, MOST_TREES, WORDS

Fields = Mapping[str, Any]


def is_array(value: Any, kinds: str, *shape: int) -> bool:
    """Whether it is an array of such numbers, of that shape (-1: of any length)."""
    return (
        isinstance(value, np.ndarray)
        and value.dtype.kind in kinds
        and value.ndim == len(shape)
        and all(asked in (-1, have) for asked, have in zip(shape, value.shape, strict=True))
    )


def fits_trees(model: Fields) -> bool:
    """Whether nodes make up trees, and there are their features, sets of codes and leaves."""
    if "feature_" not in model:
        return False
    feature, n = model["feature_"], model["n_features_in_"]
    n_nodes = len(feature)
    whole = (
        type(n) is int
        and type(model["single_"]) is bool
        and is_array(model["classes_"], "iu", -1)
        and all(
            is_array(model[name], kind, n_nodes) and model[name].dtype.itemsize == size
            for name, kind, size in (
                *(("feature_", "i", 4), ("left_", "i", 4), ("right_", "i", 4)),
                *(("category_", "i", 4), ("threshold_", "f", 8), ("gap_left_", "b", 1)),
            )
        )
        and is_array(model["bits_"], "u", -1, WORDS)
        and model["bits_"].dtype == np.uint32
        and is_array(model["leaves_"], "f", -1, -1)
        and model["leaves_"].dtype == np.float32
        and is_array(model["roots_"], "i", -1)
        and is_array(model["columns_"], "i", len(model["roots_"]))
        and is_array(model["base_"], "f", -1)
    )
    if not whole:
        return False
    n_leaves, width = model["leaves_"].shape
    n_classes = len(model["classes_"])
    n_said = len(model["base_"]) or width
    at, leaf = np.flatnonzero(feature >= 0), feature < 0
    left, right = model["left_"], model["right_"]
    shared = n_said == (n_classes if len(model["base_"]) != 1 else 1)
    return bool(
        shared
        and (n_said > 1 or n_classes == 2)
        and len(model["roots_"]) <= MOST_TREES * n_said
        and (feature >= -1).all()
        and (feature < n).all()
        and (left[at] > at).all()
        and (right[at] > at).all()
        and (left[at] < n_nodes).all()
        and (right[at] < n_nodes).all()
        and _within(left[leaf], n_leaves)
        and _within(model["category_"] + 1, len(model["bits_"]) + 1)
        and _within(model["roots_"], n_nodes)
        and _within(model["columns_"], n_said - width + 1)
        and _are_trees(feature, left, right, model["roots_"])
    )


def _are_trees(feature: Any, left: Any, right: Any, roots: Any) -> bool:
    """Whether each node is a root or has one parent, and no tree is deeper than a fit makes it.

    Children come behind their parents, so that there are no cycles.
    """
    inner = feature >= 0
    places = np.concatenate([roots, left[inner], right[inner]])
    if not np.array_equal(np.bincount(places), np.ones(len(feature))):
        return False
    level = roots
    for _ in range(MOST_LEAVES):
        level = level[inner[level]]
        if not len(level):
            return True
        level = np.concatenate([left[level], right[level]])
    return False


def _within(places: Any, size: int) -> bool:
    return bool((places >= 0).all() and (places < size).all())


def fits_columns(model: Fields) -> bool:
    """Whether each category has its levels, and each text its numbers."""
    names = [model[name] for name in ("categories_", "numbers_", "dates_", "texts_")]
    levels, rare, maps = model["levels_"], model["has_rare_"], model["text_maps_"]
    return (
        all(isinstance(value, list) for value in (*names, levels, rare, maps))
        and len(names[0]) == len(levels) == len(rare)
        and len(names[3]) == len(maps)
        and all(type(known) is bool for known in rare)
        and all(
            isinstance(some, list)
            and len(some) <= MOST_LEVELS
            and all(type(level) is str for level in some)
            for some in levels
        )
        and all(
            is_array(one, "f", BUCKETS, TEXT_FEATURES) and np.isfinite(one).all() for one in maps
        )
    )


def fits_scales(model: Fields) -> bool:
    """Whether there is a scale for each number, and no more levels than there can be."""
    n_levels = model["n_levels"]
    if not isinstance(n_levels, list | tuple) or type(model["n_features_in_"]) is not int:
        return False
    n = model["n_features_in_"] - len(n_levels)
    if n < 0 or not all(type(k) is int and 0 <= k <= MOST_LEVELS + 1 for k in n_levels):
        return False
    known = [model[name] for name in ("medians_", "means_", "scales_")]
    whole = (
        # splines take no NaN, and do not look
        all(is_array(value, "f", n) and np.isfinite(value).all() for value in known)
        and (model["scales_"] > 0.0).all()
        and is_array(model["gaps_"], "i", -1)
        and _within(model["gaps_"], n)
        and len(model["gaps_"]) <= n
    )
    return bool(whole) and (not model["bent"] or is_array(model["knots_"], "f", n, KNOTS))


def fits_features(model: Fields) -> bool:
    """Whether there are columns, and features of what they have."""
    return _fit_each_other(model["columns_"], model["scaled_"])


def _fit_each_other(columns: Any, scaled: Any) -> bool:
    return (
        type(columns) is TableColumns
        and type(scaled) is ScaledFeatures
        and fits_columns(vars(columns))
        and fits_scales(vars(scaled))
        and list(scaled.n_levels) == columns.n_levels_
    )


def fits_scores(model: Fields) -> bool:
    """Whether there is a coefficient for each feature, or for each row or basis that spans it."""
    if "classes_" not in model:  # what a member was made of
        return True
    classes, n, intercept = model["classes_"], model["n_features_in_"], model["intercept_"]
    if not is_array(classes, "iu", -1) or type(n) is not int:
        return False
    n_scores = 1 if len(classes) == 2 else len(classes)
    if not is_array(intercept, "f", n_scores):
        return False
    if "coef_" in model:
        return is_array(model["coef_"], "f", n_scores, n)
    spanning = model["bases_" if "bases_" in model else "_vectors"]
    return (
        is_array(spanning, "f", -1, n)
        and is_array(model["dual_coef_"], "f", n_scores, len(spanning))
        and is_array(model.get("gammas_", spanning), "f", len(spanning), n)
    )


def fits_ensemble(model: Fields) -> bool:
    """Whether each member has its weight, and each class its costs."""
    members, classes = model["members_"], model["classes_"]
    if not isinstance(members, dict) or not members or not is_array(classes, "iu", -1):
        return False
    M, K = len(members), len(classes)
    cut, refused = model["_cut"], model["_reject_costs"]
    return (
        all(map(_fits_member, members.values()))
        and is_array(model["weights_"], "f", M)
        and is_array(model["_slopes"], "f", M)
        and is_array(model["_shifts"], "f", M, K)
        and is_array(model["intercept_"], "f", K)
        and is_array(model["cost_matrix_"], "f", K, K)
        and (cut is None or (type(cut) is float and K == 2))
        and (refused is None or (isinstance(refused, list) and len(refused) == K))
        and len(model["actions_"]) == K + (refused is not None)
    )


def _fits_member(member: Any) -> bool:
    """Whether what comes before a model of a table is of this kind and this order."""
    if type(member) is not Pipeline:
        return True
    names = [name for name, _ in member.steps]
    steps = dict(member.steps)
    if names == ["columns", "model"]:
        return type(steps["columns"]) is TableColumns
    return names == ["columns", "features", "model"] and _fit_each_other(
        steps["columns"], steps["features"]
    )
