"""Columns that say more of the outcome than they should: known only after it, perhaps.

Nothing here knows what a column means. What is found is told with its number, as something to look
at; it is serious where hardly any honest feature would show it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import rankdata

from grayzone.reporting.parts import Finding
from grayzone.tables.errors import option, shortened
from grayzone.tables.schema import DATE, NUMBER, Schema

Array = Any
Table = Any  # a pandas DataFrame

DECIDES = 0.99  # area under the curve from which on a column alone decides nearly all
STRONG = 0.95  # from which on it is said if no other column is nearly as good
TELLING = 0.8  # from which on a name or a date that comes afterwards is taken seriously
ONE_SIDED = 0.2  # share of a class that values found in no other class have to cover
GAPS = 0.1  # the same of gaps, and of rows without one, which say more
HALF = 0.5  # from which on that is serious for values, too
_STANDS_OUT = 3.0  # how much nearer to a perfect order than the next column
_FOLDS = 3
_BINS = 32
_MOST_VALUES = 1_000
_MOST_CLASSES = 10
_LATER = 0.8  # share of rows in which a date comes after another
_YEARS = 10 * 365.25  # days that no outcome takes: such dates are births
_CHANCE = 1e-6

_AFTERWARDS = {
    *("recovered", "recovery", "recoveries", "outcome", "resolution", "resolved", "chargeoff"),
    *("chargedoff", "writeoff", "cancelled", "canceled", "cancellation", "churned", "churn"),
    *("defaulted", "settled", "settlement", "refund", "refunded", "confirmed", "investigation"),
    *("label", "target", "groundtruth", "closed", "closing", "collections", "discharge", "ausgang"),
    *("ergebnis", "storniert", "inkasso", "kuendigung", "kündigung"),
}
_COSTS = {
    *("cost", "costs", "loss", "losses", "amount", "profit", "revenue", "fee", "fees", "penalty"),
    *("payout", "kosten", "betrag", "schaden", "verlust", "gewinn", "umsatz", "erlös", "gebühr"),
}
_BEFORE = {"previous", "prev", "prior", "last", "past", "history", "vorher"}


def alone(column: Any, kind: str, codes: Array, seed: int) -> float:
    """Area under the ROC curve of one column by itself, on rows that were not fitted.

    Values are put into bins, each of which has the share of the class among other rows; of several
    classes the mean. Gaps are a bin of their own.
    """
    bins = _bins(column, kind, codes)
    classes, counts = np.unique(codes, return_counts=True)
    classes = classes[np.argsort(-counts)][:_MOST_CLASSES]
    own = [1] if len(classes) == 2 else list(classes)
    parts = np.random.default_rng(seed).integers(0, _FOLDS, len(codes))
    return float(np.mean([_area(_rates(bins, codes == c, parts), codes == c) for c in own]))


def _bins(column: Any, kind: str, codes: Array) -> Array:
    if kind in (NUMBER, DATE):
        values = column.to_numpy(dtype="datetime64[us]").astype(float) if kind == DATE else column
        numbers = np.where(column.isna(), np.nan, np.asarray(values, dtype=float))
        edges = np.unique(
            np.concatenate([_quantiles(numbers[codes == code]) for code in np.unique(codes)])
        )
        return np.where(np.isnan(numbers), len(edges) + 1, np.searchsorted(edges, numbers))
    places = pd.factorize(column, sort=False)[0]
    seen = np.bincount(places + 1)
    frequent = np.argsort(-seen, kind="stable")[:_MOST_VALUES]
    known = np.full(len(seen), len(frequent))
    known[frequent] = np.arange(len(frequent))
    return known[places + 1]


def _quantiles(values: Array) -> Array:
    values = values[~np.isnan(values)]
    if not len(values):
        return values
    return np.quantile(values, np.linspace(0, 1, int(np.clip(len(values) // 10, 2, _BINS))))


def _rates(bins: Array, inside: Array, parts: Array) -> Array:
    """Share of a class in the bin of each row, among the rows of other parts."""
    rates = np.empty(len(bins))
    n_bins = int(bins.max()) + 1
    for part in range(_FOLDS):
        fitted = parts != part
        there = np.bincount(bins[fitted], minlength=n_bins)
        hits = np.bincount(bins[fitted], weights=inside[fitted], minlength=n_bins)
        base = inside[fitted].mean() if fitted.any() else 0.5
        rates[~fitted] = ((hits + base) / (there + 1.0))[bins[~fitted]]
    return rates


def _area(scores: Array, inside: Array) -> float:
    n, m = int(inside.sum()), int((~inside).sum())
    if not n or not m:
        return 0.5
    return float((rankdata(scores)[inside].sum() - n * (n + 1) / 2) / (n * m))


def find_leaks(
    X: Table, schema: Schema, codes: Array, classes: Sequence[str], areas: dict[str, float]
) -> list[Finding]:
    """Columns that alone decide nearly all, or have values that occur in one class only."""
    found = []
    order = sorted(areas, key=areas.__getitem__, reverse=True)
    for k, name in enumerate(order):
        area = areas[name]
        following = areas[order[k + 1]] if k + 1 < len(order) else 0.5
        outstanding = area >= STRONG and (1.0 - following) >= _STANDS_OUT * (1.0 - area)
        if area >= DECIDES or outstanding:
            text = (
                f"{shortened([name])} alone puts rows in nearly the right order (area under the "
                f"curve {area:.3f}"
                + (f", the next column {following:.3f}" if outstanding else "")
                + "): a strong feature, or one that is known only afterwards. If so, "
                f"{option('drop')} leaves it out."
            )
            caution = "it alone decides nearly all"
            found.append(Finding("leak", (name,), text, area >= DECIDES, caution))
    known = {name for finding in found for name in finding.columns}
    for column in schema.columns:
        if column.name not in known:
            found += _one_sided(X[column.name], column.name, codes, classes)
    return found


def _one_sided(values: Any, name: str, codes: Array, classes: Sequence[str]) -> list[Finding]:
    """A column that is filled, or other than usual, for one class only."""
    filled = values.notna().to_numpy()
    usual = values.mode()
    other = filled & (values != usual.iloc[0]).to_numpy() if len(usual) else ~filled
    counts = np.bincount(codes, minlength=len(classes))
    for rows, what in ((filled, "filled"), (~filled, "empty"), (other, "")):
        inside = np.bincount(codes[rows], minlength=len(classes))
        most = int(np.argmax(inside / np.maximum(counts, 1)))
        covered, share = inside[most] / max(counts[most], 1), counts[most] / len(codes)
        if inside.sum() != inside[most] or covered < (GAPS if what else ONE_SIDED):
            continue
        if inside[most] * np.log(max(share, 1e-300)) > np.log(_CHANCE):
            continue  # so few rows may well be of one class
        text = (
            f"{shortened([name])} is {what or 'other than ' + shortened([str(usual.iloc[0])])} in "
            f"{int(rows.sum()):,} rows, all of class {shortened([classes[most]])} ({covered:.0%} "
            "of its rows), and in no other: as if filled in afterwards."
        )
        caution = "it seems to be filled in after the outcome"
        return [Finding("leak", (name,), text, bool(what) or bool(covered >= HALF), caution)]
    return []


def find_names(
    names: Sequence[str], target: str, areas: dict[str, float], priced: Collection[str] = ()
) -> list[Finding]:
    """Columns that are called as outcomes, costs of outcomes, or the target itself are."""
    found = []
    own = [word for word in _words(target) if len(word) > 2]
    costs = []
    for name in names:
        words = set(_words(name))
        if words & _BEFORE:
            continue
        if (own and set(own) <= words) or words & _AFTERWARDS:
            area = areas.get(name, 0.5)
            text = (
                f"{shortened([name])} is called like an outcome (area under the curve alone "
                f"{area:.3f}): is it known when the decision is made? If not, "
                f"{option('drop')} leaves it out."
            )
            caution = "it is called like an outcome, and says much of it"
            found.append(Finding("leak", (name,), text, area >= TELLING, caution))
        elif words & _COSTS and name not in priced:
            costs.append(name)
    if costs:
        verb = "are" if len(costs) > 1 else "is"
        text = (
            f"{shortened(costs)} {verb} called like costs: if known only afterwards, "
            f"{option('drop')} leaves them out; if it "
            f"is what an error costs, {option('costs', f'FN={costs[0]}')}."
        )
        found.append(Finding("cost", tuple(costs), text))
    return found


def _words(name: str) -> list[str]:
    parted = re.sub(r"(?<=[a-zà-ÿ0-9])(?=[A-ZÀ-Þ])", " ", name)
    return [word.lower() for word in re.split(r"[\W_]+", parted) if word]


def find_later_dates(
    X: Table, schema: Schema, areas: dict[str, float], time: Array | None
) -> list[Finding]:
    """Dates that come after others, or after the time of the row."""
    dates = {column.name: X[column.name] for column in schema.columns if column.kind == DATE}
    if time is not None and np.issubdtype(time.dtype, np.datetime64):
        start, since = pd.Series(time, index=X.index), "the time of the row"
    elif len(dates) > 1:
        days = {name: values.astype("datetime64[us]").median() for name, values in dates.items()}
        latest = max(days.values())
        recent = {n: d for n, d in days.items() if (latest - d).days <= _YEARS}
        first = min(recent, key=recent.__getitem__)
        start, since = dates.pop(first), shortened([first])
        dates = {name: values for name, values in dates.items() if name in recent}
    else:
        return []
    found = []
    for name, values in dates.items():
        gap = (values - start).dropna()
        if not len(gap) or (gap > pd.Timedelta(0)).mean() < _LATER:
            continue
        share, middle = (gap > pd.Timedelta(0)).mean(), gap.median() / pd.Timedelta(days=1)
        text = (
            f"{shortened([name])} comes after {since} in {share:.0%} of rows, by {middle:.3g} days "
            "in the middle: is it known when the decision is made? If not, "
            f"{option('drop')} leaves it out."
        )
        serious = time is not None or areas.get(name, 0.5) >= TELLING
        caution = f"it comes after {since}"
        found.append(Finding("leak", (name,), text, serious, caution))
    return found
