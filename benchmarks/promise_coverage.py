"""How often the interval that `grayzone.train` promises holds what decisions cost on new rows.

Trainings on few rows with rare errors: one feature, labels that are flipped at random, and 20,000
new rows that tell what the decisions of each model really cost. Errors cost the same, five to one,
or what each row says; with `--tables` rows are drawn from spambase and bank_marketing, and the rest
of these is what is new (of spambase it is so small that intervals of 1,000 rows hold it in about
92 % at best). Beside the promise stands mean ± 1.96 standard errors.

    python -m benchmarks.promise_coverage
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

import grayzone
from benchmarks.data import data_folder
from benchmarks.report import measure, print_table, verdict, write_json

ROWS, NOISES, NEW_ROWS = (60, 250, 1_000), (0.0, 0.02, 0.2), 20_000
TRAININGS, QUICK_TRAININGS = 300, 10
HELD = 0.93  # of the trainings, at least: an interval of .95, less what chance explains
COSTS: dict[str, dict[str, Any]] = {
    "1:1": {"no": 1.0, "yes": 1.0},
    "5:1": {"no": 1.0, "yes": 5.0},
    "of rows": {"no": 1.0, "yes": "amount"},
}
TABLES = {"spambase": "spambase.csv", "bank_marketing": "bank_marketing.csv.gz"}
TABLE_ROWS, MODELS = (250, 1_000), ("logistic-regression", "random-forest")

Table = Any  # a pandas DataFrame
Record = dict[str, Any]
Draw = Callable[[int, np.random.Generator], tuple[Table, Table]]


def generated(n: int, noise: float, rng: np.random.Generator) -> Table:
    """Draw rows whose label is the sign of a feature, flipped with a probability."""
    x = rng.normal(size=n)
    label = np.where((x > 0.0) ^ (rng.random(n) < noise), "yes", "no")
    return pd.DataFrame({"x": x, "amount": np.exp(rng.normal(size=n)), "label": label})


def with_new_rows(noise: float, seed: int) -> Draw:
    """Return what draws generated rows to train on, beside the same new rows each time."""
    new = generated(NEW_ROWS, noise, np.random.default_rng([seed, NEW_ROWS]))
    return lambda n, rng: (generated(n, noise, rng), new)


@cache
def table_of(name: str) -> Table:
    """Load a table; its label is called "yes" and "no"."""
    table = pd.read_csv(data_folder() / TABLES[name])
    target = table.columns[-1]
    label = np.where(table[target].to_numpy() == table[target].max(), "yes", "no")
    return table.drop(columns=target).assign(label=label)


def some_of(name: str, n: int, rng: np.random.Generator) -> tuple[Table, Table]:
    """Draw rows of a table to train on, and some of the others."""
    table = table_of(name)
    order = rng.permutation(len(table))
    return table.iloc[order[:n]], table.iloc[order[n : n + NEW_ROWS]]


def true_cost(model: Any, new: Table, costs: Record) -> float:
    """Mean cost of the decisions about new rows."""
    label, decided = new["label"].to_numpy(), model.predict(new)
    alarm, miss = (new[cost] if isinstance(cost, str) else cost for cost in costs.values())
    return float(np.mean(np.where(label == "no", alarm, miss) * (label != decided)))


def one(train: Table, new: Table, costs: str, model: str) -> Record:
    """Train once; return what was promised, and what is true."""
    unused = [] if costs == "of rows" else [c for c in train.columns if c == "amount"]
    trained = grayzone.train(
        train, "label", costs=COSTS[costs], positive="yes", model=model, drop=unused
    )
    assert trained.metrics is not None  # a model from a file has none
    promise = trained.metrics["promise"]
    return {
        **{name: promise[name] for name in ("cost", "low", "high")},
        "naive": trained.metrics["compared"][0]["error"],
        "true": true_cost(trained, new, COSTS[costs]),
        "deploy": trained.metrics["verdict"]["deploy"],
    }


def cell(draw: Draw, n: int, costs: str, model: str, trainings: int, seed: Sequence[int]) -> Record:
    """Train many times; return shares of intervals that hold, and their widths."""
    rng, told = np.random.default_rng(seed), []
    for _ in range(trainings):
        told.append(one(*draw(n, rng), costs, model))
    runs = pd.DataFrame(told)
    reach = 1.96 * runs["naive"]
    naive = runs["true"].between((runs["cost"] - reach).clip(lower=0.0), runs["cost"] + reach)
    return {
        "true": runs["true"].mean(),
        "held": runs["true"].between(runs["low"], runs["high"]).mean(),
        "below": (runs["true"] < runs["low"]).mean(),
        "above": (runs["true"] > runs["high"]).mean(),
        "width": (runs["high"] - runs["low"]).mean(),
        "naive held": naive.mean(),
        "naive width": 2.0 * reach.mean(),
        "deployed": runs["deploy"].mean(),
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Run the study.

    Parameters
    ----------
    argv : sequence of str, optional
        Command-line arguments; those of the process by default.
    """
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.promise_coverage", description=__doc__.split("\n")[0]
    )
    add = parser.add_argument
    add("--rows", help=f"numbers of rows, separated by commas (default: {ROWS})")
    add("--costs", default="1:1", help=f"some of {', '.join(COSTS)}, separated by commas")
    add("--tables", action="store_true", help="rows of public tables instead of generated ones")
    add("--trainings", type=int, default=TRAININGS, help="of each cell (default: 300)")
    add("--quick", action="store_true", help=f"{QUICK_TRAININGS} trainings of each cell")
    add("--seed", type=int, default=0)
    add("--output", type=Path, help="where to write the JSON")
    options = parser.parse_args(argv)
    trainings = QUICK_TRAININGS if options.quick else options.trainings
    if unknown := set(options.costs.split(",")) - set(COSTS):
        parser.error(
            f"there are no costs {', '.join(sorted(unknown))}; there are {', '.join(COSTS)}"
        )
    draws: dict[str, Draw]
    models: Sequence[str]
    sizes: Sequence[int]
    if options.tables:
        draws, models, sizes = {name: partial(some_of, name) for name in TABLES}, MODELS, TABLE_ROWS
    else:
        draws = {f"noise {noise:g}": with_new_rows(noise, options.seed) for noise in NOISES}
        models, sizes = MODELS[:1], ROWS
    if options.rows:
        sizes = tuple(int(n) for n in options.rows.split(","))
    records: list[Record] = []
    with threadpool_limits(limits=1):
        for place, where in enumerate(product(draws, models, sizes, options.costs.split(","))):
            name, model, n, costs = where
            found = cell(draws[name], n, costs, model, trainings, [options.seed, place])
            records.append(
                dict(zip(("data", "model", "rows", "costs"), where, strict=True)) | found
            )
            print(f"{', '.join(map(str, where))}: held {found['held']:.3f}", flush=True)
    columns = list(records[0])
    print_table("Intervals", columns, [[r[c] for c in columns] for r in records])
    least = min(records, key=lambda r: r["held"])
    verdict(
        "what is promised holds",
        "met" if least["held"] >= HELD else "missed",
        f"in at least {least['held']:.1%} of {trainings} trainings ({least['data']}, "
        f"{least['rows']} rows)",
    )
    measure("intervals that hold", least["held"], better="higher", slack=0.03)
    write_json("promise_coverage", {"trainings": trainings, "cells": records}, options.output)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
