"""A worked example: ``python -m grayzone`` goes from costs to decisions and explains each step."""

import argparse
import math
import sys
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import RepeatedStratifiedKFold, train_test_split
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from grayzone import TruncatedLogisticRegression, __version__
from grayzone.metrics import expected_cost

# In alphabetical order, as in `classes_`: the positive class is the second.
BENIGN, MALIGNANT = "benign", "malignant"
LABELS = (BENIGN, MALIGNANT)
ROW = "{:<14}{:<17}{:>10}{:>14}   {:<11}{}"


class Data(NamedTuple):
    """The tumours, split into a part to learn from and a part to decide about."""

    X_train: np.ndarray
    X_test: np.ndarray
    y_train: np.ndarray
    y_test: np.ndarray


def main(argv: Sequence[str] | None = None) -> int:
    """Fit the example and print what was decided and why.

    Parameters
    ----------
    argv : sequence of str, optional
        Command-line arguments; those of the process by default.

    Returns
    -------
    int
        Exit status, 0 on success.
    """
    miss, alarm = parse_arguments(argv).costs
    costs = {MALIGNANT: miss, BENIGN: alarm}
    bunch = load_breast_cancer()
    X, y = bunch.data, bunch.target_names[bunch.target]
    data = Data(*train_test_split(X, y, test_size=0.3, stratify=y, random_state=0))
    pipeline = make_pipeline(StandardScaler(), TruncatedLogisticRegression(costs=costs))
    pipeline.fit(data.X_train, data.y_train)
    model = pipeline[-1]

    print(f"grayzone {__version__}: is a breast tumour malignant?")
    print(f"{len(data.y_train)} tumours to learn from, {len(data.y_test)} to decide about")
    show("From costs to a zone", explain_zone(model, costs))
    show("The fit", explain_fit(model, len(data.y_train)))
    show("Decisions on the test set: tumours (cost of each)", tabulate(pipeline, data, costs))
    show(
        "Expected cost of a tumour, cross-validated (± standard error)", compare_costs(X, y, costs)
    )
    show("Some decisions, and the cost to expect", explain_decisions(pipeline, data, costs))
    return 0


def show(title: str, lines: Sequence[str]) -> None:
    """Print one section of the account."""
    print(f"\n{title}")
    for line in lines:
        print(f"  {line}")


def parse_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m grayzone",
        description="Decide which breast tumours are malignant, given what each mistake costs.",
    )
    parser.add_argument(
        "--costs",
        nargs=2,
        type=positive_number,
        default=(5.0, 1.0),
        metavar=("MISS", "ALARM"),
        help="cost of calling a malignant tumour benign, and of calling a benign one malignant "
        "(default: 5 1)",
    )
    return parser.parse_args(argv)


def positive_number(text: str) -> float:
    """Parse a cost: a finite number above zero."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"a cost must be a finite number above 0, got {text!r}")
    return value


def explain_zone(model: TruncatedLogisticRegression, costs: dict[str, float]) -> list[str]:
    """Say how the costs lead to a threshold and the threshold to a zone."""
    miss, alarm = costs[MALIGNANT], costs[BENIGN]
    low, high = model.zone_
    return [
        f"a malignant tumour called benign costs {miss:g}, a benign one called malignant {alarm:g}",
        f"-> malignant if its probability is at least {alarm:g} / ({miss:g} + {alarm:g})"
        f" = {model.threshold_:.3f}",
        f"-> zone {low:.3f} to {high:.3f}: there the decision can go either way, and there the",
        "   probabilities are faithful; outside they say only on which side they lie",
    ]


def explain_fit(model: TruncatedLogisticRegression, n_rows: int) -> list[str]:
    """Say which rows define the model and how close it is to the optimum."""
    n_support = len(model.support_)
    return [
        f"{n_support} of {n_rows} tumours define the model ({n_support / n_rows:.0%});"
        " without the others it would be the same",
        f"certificate: the objective is within a fraction {model.dual_gap_:.0e} of the optimum",
    ]


def tabulate(pipeline: Pipeline, data: Data, costs: dict[str, float]) -> list[str]:
    """Tabulate the decisions on the test set, with the cost of each kind."""
    predicted = pipeline.predict(data.X_test)
    lines = [" " * 12 + "".join(f"{'called ' + label:>20}" for label in LABELS)]
    for truth in LABELS:
        cells = []
        for label in LABELS:
            count = np.count_nonzero((data.y_test == truth) & (predicted == label))
            cells.append(f"{count} ({0.0 if label == truth else costs[truth]:g})")
        lines.append(f"{truth:<12}" + "".join(f"{cell:>20}" for cell in cells))
    return lines


def compare_costs(X: np.ndarray, y: np.ndarray, costs: dict[str, float]) -> list[str]:
    """Compare the expected cost with that of plain logistic regression.

    By cross-validation: one test set holds so few errors that chance alone would rank the rivals.
    """
    folds = RepeatedStratifiedKFold(n_splits=10, n_repeats=5, random_state=0)
    found: dict[str, list[float]] = {}
    for train, test in folds.split(X, y):
        scaler = StandardScaler().fit(X[train])
        X_train, X_test = scaler.transform(X[train]), scaler.transform(X[test])
        model = TruncatedLogisticRegression(costs=costs).fit(X_train, y[train])
        plain = LogisticRegression(max_iter=1000).fit(X_train, y[train])
        p_malignant = plain.predict_proba(X_test)[:, 1]
        decisions = {"this model": model.predict(X_test)}
        for cut in (0.5, model.threshold_):
            name = f"logistic regression, decided at {cut:.3f}"
            decisions[name] = np.where(p_malignant >= cut, MALIGNANT, BENIGN)
        for name, decided in decisions.items():
            found.setdefault(name, []).append(expected_cost(y[test], decided, costs=costs))
    return [
        f"{name:<38}{np.mean(values):8.3f} ± {np.std(values) / math.sqrt(len(values)):.3f}"
        for name, values in found.items()
    ]


def explain_decisions(pipeline: Pipeline, data: Data, costs: dict[str, float]) -> list[str]:
    """Show the closest decisions and the clearest ones, with the expected cost of both actions."""
    model = pipeline[-1]
    p_malignant = pipeline.predict_proba(data.X_test)[:, 1]
    closest = np.argsort(np.abs(p_malignant - model.threshold_), kind="stable")[:4]
    shown = np.union1d(closest, [p_malignant.argmin(), p_malignant.argmax()])
    shown = shown[np.argsort(p_malignant[shown], kind="stable")]
    decided = pipeline.predict(data.X_test[shown])
    lines = [ROW.format("P(malignant)", "", "if benign", "if malignant", "decided", "truth")]
    for p, label, truth in zip(p_malignant[shown], decided, data.y_test[shown], strict=True):
        lines.append(ROW.format(*describe(p, model.zone_, costs), label, truth))
    return lines


def describe(
    p: float, zone: tuple[float, float], costs: dict[str, float]
) -> tuple[str, str, str, str]:
    """Describe a probability of malignancy and the expected cost of either action.

    Outside the zone the probability is known only to lie beyond its end, so that both costs are
    bounds: calling the tumour malignant is the dearer the less likely malignancy is.
    """
    low, high = zone
    nearest = min(max(p, low), high)
    sign, opposite = ("<", ">") if p < low else (">", "<") if p > high else ("", "")
    return (
        f"{sign}{nearest:.3f}",
        "beyond" if sign else "inside the zone",
        f"{sign}{nearest * costs[MALIGNANT]:.2f}",
        f"{opposite}{(1 - nearest) * costs[BENIGN]:.2f}",
    )


if __name__ == "__main__":
    sys.exit(main())
