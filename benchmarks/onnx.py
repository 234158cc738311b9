"""Exported models beside the models: the same probabilities, the same decisions, how fast.

Every estimator is fitted to standardised rows of sixteen data sets, exported, and run by
onnxruntime on rows that it has not seen, in double and in single precision. Then the time of one
row and of 10,000 rows, beside `predict_proba` of the same model and a calibrated SVC.

    python -m benchmarks.onnx --quick    # a minute: does everything run?
    python -m benchmarks.onnx            # with nothing else running
"""

import argparse
import time
import warnings
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn import datasets
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

import grayzone as gz
from benchmarks.data import dataset
from benchmarks.report import now, print_table, say, verdict, write_json
from grayzone.decision import action_costs
from grayzone.onnx import to_onnx
from grayzone.onnx.checking import run
from grayzone.onnx.needs import needed

RELATIVE, SINGLE, SURE = 1e-12, 1e-5, 1e-6
LEAST = 1e-290  # smaller probabilities have fewer digits
TRAIN, TEST = 400, 2_000
LATENCY_ROWS = (1, 10_000)

Data = tuple[np.ndarray, np.ndarray]


def _scikit(name: str) -> Callable[[], Data]:
    return lambda: getattr(datasets, f"load_{name}")(return_X_y=True)


def _stored(name: str) -> Callable[[], Data]:
    def load() -> Data:
        bunch = dataset(name)
        X, y = bunch.data, bunch.target
        X = X.toarray() if hasattr(X, "toarray") else np.asarray(X)
        return X.astype(np.float64), np.array([f"class {label}" for label in y.tolist()])

    return load


def _mixed() -> Data:
    made: Data = datasets.make_classification(
        4_000, 12, n_informative=6, n_classes=4, class_sep=0.8, flip_y=0.05, random_state=0
    )
    return made


SETS: dict[str, Callable[[], Data]] = {
    "breast cancer": _scikit("breast_cancer"),
    "iris": _scikit("iris"),
    "wine": _scikit("wine"),
    "digits": _scikit("digits"),
    "moons": lambda: datasets.make_moons(4_000, noise=0.3, random_state=0),
    "four classes": _mixed,
    "german credit": _stored("german_credit_numeric"),
    "pima": _stored("pima_diabetes"),
    "sonar": _stored("sonar"),
    "ionosphere": _stored("ionosphere"),
    "spambase": _stored("spambase"),
    "heart": _stored("statlog_heart"),
    "mixture": _stored("esl_mixture"),
    "ijcnn1": _stored("ijcnn1"),
    "a9a": _stored("a9a"),
    "covtype": _stored("covtype"),
}
QUICK_SETS = ("breast cancer", "iris", "moons", "heart")


def models(n_classes: int) -> dict[str, Any]:
    """Return estimators of every kind; for two classes also those that take no more."""
    logistic = LogisticRegression(max_iter=1_000)
    made: dict[str, Any] = {
        "truncated": gz.TruncatedLogisticRegression(),
        "truncated, undecided": gz.TruncatedLogisticRegression(reject_cost=0.15),
        "truncated, rbf": gz.TruncatedLogisticRegression(kernel="rbf"),
        "truncated, laplacian": gz.TruncatedLogisticRegression(kernel="laplacian", tol=1e-3),
        "truncated, search": gz.TruncatedLogisticRegressionCV(Cs=(0.1, 1.0), cv=3),
        "import vectors": gz.ImportVectorMachine(max_import_points=20),
        "import vectors, path": gz.ImportVectorMachineCV(max_import_points=20, random_state=0),
        "tight bounds": gz.TightBoundLogisticRegression(),
        "tight bounds, undecided": gz.TightBoundLogisticRegression(reject_cost=0.2),
        "tight bounds, search": gz.TightBoundLogisticRegressionCV(Cs=(0.1, 1.0), cv=3),
        "tight bounds around": gz.TightBoundClassifier(
            gz.ImportVectorMachine(max_import_points=10), n_bounds=2
        ),
        "Bayes, logistic": gz.BayesDecisionClassifier(logistic, costs="balanced"),
        "Bayes, forest": gz.BayesDecisionClassifier(
            RandomForestClassifier(30, random_state=0), reject_cost=0.2
        ),
        "ensemble": gz.DecisionEnsembleClassifier(
            ["logistic-regression", "random-forest"], random_state=0
        ),
    }
    if n_classes > 2:
        return made
    return made | {
        "minimax": gz.MinimaxProbabilityMachine(cv=None),
        "minimax, rbf": gz.MinimaxProbabilityMachine(kernel="rbf", cv=None),
        "sparse minimax": gz.SparseMinimaxProbabilityMachine(n_bases=10, cv=None, stopping=None),
        "limit": gz.RateLimitClassifier(logistic, max_fpr=0.2, random_state=0),
        "limit, minimax": gz.RateLimitClassifier(
            gz.MinimaxProbabilityMachine(cv=None), max_fpr=0.2, random_state=0
        ),
    }


@cache
def rows_of(name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return training rows and labels, as many of each class as there are, and other rows."""
    X, y = SETS[name]()
    order = np.random.default_rng(0).permutation(len(y))
    n_train = min(TRAIN, len(y) // 2)
    train, test = order[:n_train], order[n_train : n_train + TEST]
    kept = [c for c in np.unique(y) if np.sum(y[train] == c) >= 5]
    train = train[np.isin(y[train], kept)]
    return X[train], y[train], X[test]


def compared(model: Any, X: np.ndarray, rows: np.ndarray) -> dict[str, float]:
    """Return how far an export is from its model, and how many sure decisions differ."""
    said, proba = run(to_onnx(model, X), rows), None
    decided = said["decision" if "decision" in said else "label"]
    differs = decided != model.predict(rows)
    if "probabilities" in said:
        proba = model.predict_proba(rows)
        away = np.abs(said["probabilities"] - proba) / np.maximum(proba, LEAST)
    else:
        scores = model.decision_function(rows)
        away = np.abs(said["scores"][:, 0] - scores) / np.maximum(1.0, np.abs(scores))
    found = {
        "relative": float(away.max()),
        "differ": int(np.sum(differs)),
        "differ, sure": int(np.sum(differs & ~near(model[-1], proba, len(rows)))),
    }
    if proba is not None:
        single = rows.astype(np.float32)
        told = run(to_onnx(model, X.astype(np.float32)), single)["probabilities"]
        # the export computes in double precision: where a step that rounds comes before trees, a
        # row may fall on the other side of a split
        given = single.astype(np.float64) if has_trees(model[-1]) else single
        found["single"] = float(np.abs(told - model.predict_proba(given)).max())
    return found


def has_trees(model: Any) -> bool:
    """Whether what a model says jumps."""
    inner = getattr(model, "estimator_", None)
    return hasattr(model, "members_") or isinstance(inner, RandomForestClassifier)


def near(model: Any, proba: np.ndarray | None, n_rows: int) -> np.ndarray:
    """Which rows are within 1e-6 of where a decision by costs, or a threshold, changes."""
    threshold = getattr(model, "threshold_", None)
    if proba is None:
        return np.zeros(n_rows, dtype=bool)
    if threshold is not None:
        return np.asarray(np.abs(proba[:, -1] - threshold) <= SURE)
    costs = getattr(model, "cost_matrix_", None)
    if costs is None:
        return np.zeros(n_rows, dtype=bool)
    expected = np.sort(
        action_costs(proba, costs, reject_cost=getattr(model, "reject_cost", None)), axis=1
    )
    return np.asarray(expected[:, 1] - expected[:, 0] <= SURE * float(np.max(costs)))


def study(names: Sequence[str]) -> dict[str, dict[str, dict[str, float]]]:
    """Compare every estimator on every set."""
    results: dict[str, dict[str, dict[str, float]]] = {}
    for name in names:
        X, y, rows = rows_of(name)
        say(f"{name}: {len(X)} rows, {X.shape[1]} features, {len(np.unique(y))} classes")
        results[name] = {}
        for label, model in models(len(np.unique(y))).items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    fitted = make_pipeline(StandardScaler(), clone(model)).fit(X, y)
                except ValueError as error:  # too few rows for a limit
                    say(f"  {label}: not fitted ({str(error)[:60]})")
                    continue
                results[name][label] = compared(fitted, X, rows)
    return results


def best_of(call: Callable[[], Any], repeats: int) -> float:
    """Return the least seconds of several calls."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def one_thread(model: Any) -> Any:
    """Return a session that computes with one thread, as the others do."""
    runtime = needed("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    return runtime.InferenceSession(model.SerializeToString(), options)


def latency(repeats: int) -> dict[str, dict[str, float]]:
    """Return milliseconds of one row and of many, of models, their exports and an SVC."""
    X, y = datasets.make_classification(2_000, 20, n_informative=8, flip_y=0.1, random_state=0)
    many = np.random.default_rng(0).normal(size=(LATENCY_ROWS[-1], X.shape[1]))
    contenders = {
        "truncated": gz.TruncatedLogisticRegression(),
        "truncated, rbf": gz.TruncatedLogisticRegression(kernel="rbf", C=10.0),
        "import vectors": gz.ImportVectorMachine(C=10.0, max_import_points=50),
        "calibrated SVC": CalibratedClassifierCV(SVC(C=10.0), ensemble=False),
    }
    found: dict[str, dict[str, float]] = {}
    for name, model in contenders.items():
        fitted = make_pipeline(StandardScaler(), model).fit(X, y)
        found[name] = {}
        exported = None
        if not name.endswith("SVC"):
            exported = one_thread(to_onnx(fitted, X))
        for n in LATENCY_ROWS:
            rows = many[:n]
            calls = repeats if n == 1 else max(3, repeats // 20)
            seconds = best_of(partial(fitted.predict_proba, rows), calls)
            found[name][f"predict_proba, {n:,}"] = 1e3 * seconds
            if exported is not None:
                seconds = best_of(partial(exported.run, None, {"X": rows}), calls)
                found[name][f"onnxruntime, {n:,}"] = 1e3 * seconds
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """Run the study.

    Parameters
    ----------
    argv : sequence of str, optional
        Command-line arguments; those of the process by default.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args(argv)
    names = QUICK_SETS if options.quick else tuple(SETS)
    with threadpool_limits(limits=1):
        results = study(names)
        times = latency(20 if options.quick else 500)
    judge(results)
    columns = [f"{how}, {n:,}" for n in LATENCY_ROWS for how in ("predict_proba", "onnxruntime")]
    print_table(
        "Milliseconds, one thread",
        ("model", *columns),
        [[name, *(row.get(column) for column in columns)] for name, row in times.items()],
    )
    found = {"sets": results, "milliseconds": times, "measured": now()}
    write_json("onnx", found, options.output)
    return 0


def judge(results: dict[str, dict[str, dict[str, float]]]) -> None:
    """Show the worst of each estimator, and say whether all of them are good enough."""
    labels = dict.fromkeys(label for found in results.values() for label in found)
    lines, worst = [], {"relative": 0.0, "single": 0.0, "differ, sure": 0.0}
    for label in labels:
        mine = [found[label] for found in results.values() if label in found]
        line: list[Any] = [label, len(mine)]
        for name in ("relative", "single", "differ", "differ, sure"):
            values = [found[name] for found in mine if name in found]
            line.append(max(values) if values else None)
            if name in worst and values:
                worst[name] = max(worst[name], max(values))
        lines.append(line)
    columns = ("model", "sets", "relative, double", "absolute, single", "differ", "differ, sure")
    print_table("The worst over the sets", columns, lines)
    cells = sum(len(found) for found in results.values())
    for name, most in (("relative", RELATIVE), ("single", SINGLE), ("differ, sure", 0.0)):
        met = worst[name] <= most
        verdict(
            f"{name} at most {most:g}, {cells} exports",
            "met" if met else "missed",
            f"{worst[name]:.3g}",
        )


if __name__ == "__main__":
    raise SystemExit(main())
