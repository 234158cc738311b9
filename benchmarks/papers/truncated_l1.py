"""Roth's l1 expansion (§3.3 of Hérault & Grandvalet, ICML 2007) beside gray zones.

The data, costs and choices of Table 2. Linear models on the whole training part: what is sparse is
the rows that a zone leaves (l2), or the features (l1). Kernel models on a sample of it: rows that a
zone leaves, or rows that an l1 penalty leaves in the expansion of the function, or both. The
penalty and the decision threshold are chosen together by cross-validation.

    python -m benchmarks.papers.truncated_l1
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.model_selection import StratifiedKFold
from threadpoolctl import threadpool_limits

from benchmarks.data import Split, krummholz, stratified_rows
from benchmarks.papers.truncated_table2 import (
    LOSS_SLACK,
    THRESHOLDS,
    classifier,
    loss_curve,
    spread,
)
from benchmarks.report import graded, measure, print_table, say, verdict, write_json
from grayzone import TruncatedLogisticRegression

CS = (0.01, 0.1, 1.0, 10.0)
ZONES: tuple[tuple[float, float] | None, ...] = (None, (0.029, 0.241), (0.078, 0.100))
FOLDS = 3
CV_TOL, FINAL_TOL = 1e-4, 1e-8
# Training rows of kernel models, test rows, and splits; of a quick run.
ROWS, TEST_ROWS, SPLITS = 1_500, 50_000, 3
QUICK_ROWS, QUICK_SPLITS = 400, 1

Record = dict[str, Any]


class Model(NamedTuple):
    """A column of the table."""

    kernel: str
    penalty: str
    zone: tuple[float, float] | None

    @property
    def name(self) -> str:
        """Its name in the table."""
        low, high = self.zone or (0.0, 1.0)
        return f"{self.kernel}, {self.penalty}, zone {100 * low:.1f}–{100 * high:.1f} %"

    def unfitted(self, **parameters: Any) -> TruncatedLogisticRegression:
        """Return the classifier."""
        return classifier(self.zone, kernel=self.kernel, penalty=self.penalty, **parameters)


MODELS = [Model(k, p, z) for k in ("linear", "rbf") for p in ("l2", "l1") for z in ZONES]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the experiment.

    Parameters
    ----------
    argv : sequence of str, optional
        Command-line arguments; those of the process by default.
    """
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.papers.truncated_l1", description=__doc__.split("\n")[0]
    )
    add = parser.add_argument
    add("--splits", type=int, help=f"how many of the ten (default: {SPLITS})")
    add("--quick", action="store_true", help=f"{QUICK_ROWS} rows, {QUICK_SPLITS} split")
    add("--threads", type=int, default=1, help="threads of BLAS (default: 1)")
    add("--output", type=Path, help="where to write the JSON")
    options = parser.parse_args(argv)
    splits = options.splits or (QUICK_SPLITS if options.quick else SPLITS)
    if not 1 <= splits <= 10:
        parser.error("--splits must be between 1 and 10")
    records: list[Record] = []
    with threadpool_limits(limits=options.threads):
        for k in range(splits):
            split = krummholz(k)
            few = sampled(split, QUICK_ROWS if options.quick else ROWS, seed=k)
            for model in MODELS:
                some = split if model.kernel == "linear" and not options.quick else few
                records.append({"split": k, "model": model.name, **run_model(some, model, k)})
                say(f"split {k + 1} of {splits}: {model.name}")
    print_results(records)
    write_json("truncated_l1", {"runs": records}, options.output)
    return 0


def sampled(split: Split, n_rows: int, seed: int) -> Split:
    """Return a sample of both parts, with the shares of the classes."""
    fitted = stratified_rows(split.y_train, n_rows, seed)
    tested = stratified_rows(split.y_test, TEST_ROWS, seed)
    return Split(
        split.X_train[fitted], split.y_train[fitted], split.X_test[tested], split.y_test[tested]
    )


def run_model(split: Split, model: Model, seed: int) -> Record:
    """Choose the penalty and the threshold, refit, and measure loss and sparsity."""
    X, y = split.X_train, split.y_train
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=seed)
    losses = np.zeros((len(CS), len(THRESHOLDS)))
    for fitted, held_out in folds.split(X, y):
        path = model.unfitted(tol=CV_TOL, warm_start=True)
        X_fitted, y_fitted = X[fitted], y[fitted]
        for i, C in enumerate(CS):  # from strong to weak penalties: each starts near its solution
            path.set_params(C=C).fit(X_fitted, y_fitted)
            losses[i] += loss_curve(path, X[held_out], y[held_out]) / FOLDS
    best_c, best_threshold = np.unravel_index(losses.argmin(), losses.shape)
    last = model.unfitted(C=CS[best_c], tol=FINAL_TOL).fit(X, y)
    linear = model.kernel == "linear"
    used = np.count_nonzero(last.coef_) / X.shape[1] if linear else np.nan
    return {
        "C": CS[best_c],
        "threshold": THRESHOLDS[best_threshold],
        "loss": loss_curve(last, split.X_test, split.y_test)[best_threshold],
        "support_share": len(last.support_) / len(y),
        "feature_share": used,
        "gap": float(last.dual_gap_),
    }


def print_results(records: Sequence[Record]) -> None:
    """Print means and standard deviations over the splits."""
    rows, mean = [], {}
    for model in MODELS:
        runs = [record for record in records if record["model"] == model.name]
        mean[model] = {
            k: 100 * float(np.mean([r[k] for r in runs])) for k in ("loss", "support_share")
        }
        measure(f"loss, {model.name}", mean[model]["loss"], better="lower", slack=0.05)
        features = spread(runs, "feature_share", 0) if model.kernel == "linear" else "–"
        rows.append(
            [
                model.name,
                spread(runs, "loss", 2),
                spread(runs, "support_share", 1),
                features,
                ", ".join(f"{run['C']:g}" for run in runs),
                f"{max(run['gap'] for run in runs):.0e}",
            ]
        )
    print_table(
        "test loss (×10⁻²), rows that carry or span the model (%), features (%), chosen C",
        ("", "loss", "rows", "features", "C", "largest gap"),
        rows,
    )
    names = {"expansion": Model("rbf", "l1", None), "zone": Model("rbf", "l2", ZONES[-1])}
    names["both"] = Model("rbf", "l1", ZONES[-1])
    found = {name: mean[model] for name, model in names.items()}
    both = found["both"]
    fewer = all(both["support_share"] <= found[n]["support_share"] for n in ("expansion", "zone"))
    no_worse = both["loss"] <= found["expansion"]["loss"] + LOSS_SLACK
    verdict(
        "§3.3 (a zone can be combined with Roth's l1 expansion)",
        graded([fewer, no_worse]),
        "; ".join(
            f"{name}: loss {values['loss']:.2f}e-2 with {values['support_share']:.1f} % of the rows"
            for name, values in found.items()
        )
        + " (rbf)",
    )


if __name__ == "__main__":
    raise SystemExit(main())
