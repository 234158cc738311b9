"""Costs inside scikit-learn's meta-estimators: before, with tails, and with a decision outside.

Breast cancer, calling a malignant tumour benign costs 20 times as much as the other error; mean
cost of decisions on rows that were not fitted, over ten halves of the data, all at C = .1. "Bayes
outside" is ``BayesDecisionClassifier`` around the meta-estimator; otherwise it decides itself.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    StackingClassifier,
    VotingClassifier,
)
from sklearn.feature_selection import RFE, SelectFromModel
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import (
    FixedThresholdClassifier,
    GridSearchCV,
    StratifiedShuffleSplit,
    TunedThresholdClassifierCV,
    cross_val_score,
)
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.semi_supervised import SelfTrainingClassifier

from grayzone import BayesDecisionClassifier, TruncatedLogisticRegression
from grayzone.metrics import make_cost_scorer

COSTS = {0: 20.0, 1: 1.0}
C = 0.1
Make = Callable[[Any], Any]


def _without_costs(model: Any) -> Any:
    """Return a model for what votes by the sign of its log-odds, whatever errors cost."""
    return clone(model).set_params(costs=None) if hasattr(model, "costs") else model


def _without_zone(model: Any) -> Any:
    """Return a model for what learns the scale of its scores anew, and looks at all of them."""
    return clone(model).set_params(zone=None) if hasattr(model, "zone") else model


def _voting(how: str) -> Make:
    def make(model: Any) -> Any:
        members = [
            ("one", model),
            ("two", clone(model).set_params(C=0.01)),
            ("three", GaussianNB()),
        ]
        return VotingClassifier(members, voting=how)

    return make


# Each takes a linear model with the parameter C.
METAS: dict[str, Make] = {
    "alone": lambda model: model,
    "BaggingClassifier": lambda model: BaggingClassifier(model, 5, random_state=0),
    "VotingClassifier, soft": _voting("soft"),
    "VotingClassifier, hard": _voting("hard"),
    "CalibratedClassifierCV": lambda model: CalibratedClassifierCV(_without_zone(model)),
    "OneVsRestClassifier": OneVsRestClassifier,
    "OneVsOneClassifier": lambda model: OneVsOneClassifier(_without_costs(model)),
    "StackingClassifier": lambda model: StackingClassifier(
        [("one", _without_zone(model)), ("two", GaussianNB())],
        final_estimator=LogisticRegression(C=10.0),
    ),
    # which gives all rows together a weight of one
    "AdaBoostClassifier": lambda model: AdaBoostClassifier(
        clone(model).set_params(C=30.0), n_estimators=10, random_state=0
    ),
    "TunedThresholdClassifierCV": lambda model: TunedThresholdClassifierCV(
        model, scoring=make_cost_scorer(COSTS), random_state=0
    ),
    "FixedThresholdClassifier": lambda model: FixedThresholdClassifier(model, threshold=20 / 21),
    "SelfTrainingClassifier": SelfTrainingClassifier,
    "RFE": lambda model: RFE(model, n_features_to_select=15),
    "SelectFromModel": lambda model: make_pipeline(SelectFromModel(clone(model)), model),
    "GridSearchCV": lambda model: GridSearchCV(
        model, {"C": [0.01, 0.1]}, scoring=make_cost_scorer(COSTS)
    ),
}
# These have no probabilities, and decide for themselves.
WITHOUT_PROBABILITIES = ("VotingClassifier, hard", "OneVsOneClassifier")


def mean_cost(model: Any, outside: bool, n_splits: int) -> float:
    """Mean cost of decisions on held-out rows."""
    X, y = load_breast_cancer(return_X_y=True)
    if outside:
        model = BayesDecisionClassifier(model, costs=COSTS)
    splits = StratifiedShuffleSplit(n_splits, test_size=0.5, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of decisions outside the zone
        scores = cross_val_score(
            make_pipeline(StandardScaler(), model), X, y, cv=splits, scoring=make_cost_scorer(COSTS)
        )
    return -float(np.mean(scores))


def table(n_splits: int) -> list[dict[str, Any]]:
    """Return a row for each meta-estimator."""
    rows = []
    for name, make in METAS.items():
        own, plain = TruncatedLogisticRegression(C=C, costs=COSTS), LogisticRegression(C=C)
        row: dict[str, Any] = {"meta": name}
        row["as fitted"] = mean_cost(
            make(clone(own).set_params(tails="as-fitted")), False, n_splits
        )
        row["calibrated"] = mean_cost(make(own), False, n_splits)
        row["logistic"] = mean_cost(make(plain), False, n_splits)
        if name not in WITHOUT_PROBABILITIES:
            row["calibrated, Bayes outside"] = mean_cost(make(own), True, n_splits)
            row["logistic, Bayes outside"] = mean_cost(make(plain), True, n_splits)
        rows.append(row)
        print(json.dumps(row), flush=True)
    return rows


def main() -> None:
    """Print the table, and write it where asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--output", type=Path, default=None)
    given = parser.parse_args()
    rows = table(given.splits)
    columns = [name for name in rows[1] if name != "meta"]
    print("| inside | " + " | ".join(columns) + " |")
    print("| --- |" + " ---: |" * len(columns))
    for row in rows:
        cells = [f"{row[name]:.3f}" if name in row else "–" for name in columns]
        print(f"| {row['meta']} | " + " | ".join(cells) + " |")
    if given.output is not None:
        given.output.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    assert all(np.isfinite(value) for row in rows for value in row.values() if value != row["meta"])


if __name__ == "__main__":
    main()
