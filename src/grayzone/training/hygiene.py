"""What is odd about a table, with numbers: leaks, identifiers, constants, copies, drift.

Quick, and never in the way: a table is looked at, not changed. Large ones are looked at in a sample
of their rows, in their order, with all rows of rare classes, and very wide ones in the columns that
differ most between classes.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import ks_2samp

from grayzone.reporting.parts import Finding
from grayzone.tables.errors import UserError, option, shortened
from grayzone.tables.schema import NUMBER, TEXT, Column, Schema
from grayzone.training.copies import first_of_each
from grayzone.training.leaks import alone, find_later_dates, find_leaks, find_names
from grayzone.training.samples import some_columns, within_one

Array = Any
Table = Any  # a pandas DataFrame

MOST_ROWS = 20_000
MOST_COLUMNS = 300
_RARE = 2_000  # rows of a class that are all looked at
_LEAST_ROWS = 50  # from which on values of their own in every row mean something
_NEARLY = 0.95  # share of values of their own that makes a column of texts one of names
_WORDS = 4  # words from which on a text is no name
_RARELY = 0.001  # share of rows that may differ in a column that is nearly constant
_ALIKE = 0.99995  # correlation of columns that say the same
_PARTS = 0.3  # share of rows, the first and the last, that are compared
_DRIFT = 0.25  # difference of distributions from which on it is said
_CHANCE = 1e-4
_MOST_NAMED = 10  # serious findings that are told
_ID_NAME = re.compile(
    r"(^|[\W_])(id|ids|uid|uuid|guid|key|nr|no|num|number|code|index|rowid|nummer|kennung)$", re.I
)
_PHONE_NAME = re.compile(
    r"(phone|mobile|telefon|handy|fax|^tel$|^cell$|(^|[\W_])tel([\W_]|$))", re.I
)
_FREE_TEXT = "is free text"
_PHONE = r"\+?\(?\d[\d ()/.\-]{5,18}\d"
_MAIL = r"[^@\s]+@[^@\s]+\.[a-zA-Z]{2,}"


def inspect_rows(
    X: Table,
    schema: Schema,
    codes: Array,
    classes: Sequence[str],
    target: str,
    *,
    time: Array | None = None,
    copies: Array | None = None,
    priced: Collection[str] = (),
    seed: int = 0,
) -> list[Finding]:
    """Look at features and labels, and say what a reader should know before trusting a model.

    Parameters
    ----------
    X : DataFrame
        Features, of the kinds that the schema says.
    schema : Schema
        What they are.
    codes : array of int, shape (n,)
        Places of the rows' classes.
    classes : sequence of str
        Labels.
    target : str
        Name of the column that is decided on.
    time : array of shape (n,), optional
        What puts rows in order; otherwise that of the table counts.
    copies : array of int, shape (n,), optional
        The same number for copies of one row, of which only the first is looked at.
    priced : collection of str, default=()
        Columns that are known to have costs.
    seed : int, default=0
        Of the sample, and of the parts that columns are judged by.

    Returns
    -------
    findings : list of Finding
        Those that stop a strict run first.
    """
    distinct = first_of_each(copies, len(X))
    rows = distinct[_some_rows(codes[distinct], seed)]
    order = rows if time is None else rows[np.argsort(time[rows], kind="stable")]
    n_columns, chosen = X.shape[1], some_columns(X.iloc[rows], codes[rows], MOST_COLUMNS)
    schema = Schema(tuple(schema.columns[j] for j in chosen))
    X = X[schema.names]
    some, labels = X.iloc[rows], codes[rows]
    areas = {c.name: alone(some[c.name], c.kind, labels, seed) for c in schema.columns}
    identifiers = find_identifiers(X, schema)
    constants = _constants(X, schema)
    odd = {name for finding in (*identifiers, *constants) for name in finding.columns}
    found = [
        *find_leaks(some, schema, labels, classes, areas),
        *find_later_dates(some, schema, areas, None if time is None else time[rows]),
        *find_names(schema.names, target, areas, priced),
        *identifiers,
        *constants,
        *_alike(X, codes, copies),
        *_twins(some, schema, odd),
        *_drift(X.iloc[order], schema, codes[order], classes, odd),
    ]
    found = _once(found)
    looked_at = []
    if len(rows) < len(distinct):
        looked_at.append(f"{len(rows):,} of {len(X):,} rows")
    if X.shape[1] < n_columns:
        looked_at.append(f"{X.shape[1]:,} of {n_columns:,} columns")
    if looked_at:
        text = f"Looked for leaks, twins and drift in {' and '.join(looked_at)}."
        found.append(Finding("reading", (), text))
    return sorted(found, key=lambda finding: not finding.serious)


def find_identifiers(X: Table, schema: Schema) -> list[Finding]:
    """Columns that say which row it is, or hold free text."""
    return [found for c in schema.columns for found in _identifiers(c, X[c.name])]


def row_names(X: Table, schema: Schema) -> list[str]:
    """Columns that tell rows apart by their name alone, in which copies may differ.

    Examples
    --------
    >>> import pandas as pd
    >>> from grayzone.tables.schema import Schema
    >>> from grayzone.training.hygiene import row_names
    >>> X = pd.DataFrame({"number": range(100), "a": [0.5, 1.0] * 50})
    >>> row_names(X, Schema.of(X))
    ['number']
    """
    found = find_identifiers(X, schema)
    return [one.columns[0] for one in found if _FREE_TEXT not in one.text]


def stop_if_serious(findings: Sequence[Finding]) -> None:
    """Refuse a table with serious faults, all of which are named.

    Raises
    ------
    UserError
        If there are any.
    """
    serious = [finding.text for finding in findings if finding.serious]
    if serious:
        listed = " ".join(f"({k + 1}) {text}" for k, text in enumerate(serious[:_MOST_NAMED]))
        raise UserError(f"{option('strict')}: serious findings, {len(serious)} in all. {listed}")


def _once(findings: Sequence[Finding]) -> list[Finding]:
    """One finding of a kind for each set of columns; a serious one goes before others."""
    found: dict[Any, Finding] = {}
    for finding in findings:
        key = (finding.kind, finding.columns) if finding.columns else finding.text
        if key not in found or (finding.serious and not found[key].serious):
            found[key] = finding
    return list(found.values())


def _some_rows(codes: Array, seed: int) -> Array:
    if len(codes) <= MOST_ROWS:
        return np.arange(len(codes))
    rng = np.random.default_rng(seed)
    chosen = [rng.choice(len(codes), MOST_ROWS, replace=False)]
    for code in np.unique(codes):
        chosen.append(rng.permutation(np.flatnonzero(codes == code))[:_RARE])
    return np.unique(np.concatenate(chosen))


def _identifiers(column: Column, values: Any) -> list[Finding]:
    known = values.dropna()
    distinct = known.nunique()
    share = distinct / max(len(known), 1)
    if len(known) < _LEAST_ROWS or share < 0.5:
        return []
    what = ""
    if column.kind == TEXT:
        what = _kind_of_name(column.name, known, share)
    elif column.kind == NUMBER and (known % 1.0 == 0.0).all():
        digits = known.abs().astype(str).str.len()
        if _PHONE_NAME.search(column.name) and digits.median() >= 8:  # with ".0"
            what = "looks like phone numbers"
        elif share >= 0.99 and _counts_rows(column.name, known):
            what = "looks like a number of the row or of a customer"
    if not what:
        return []
    text = (
        f"{shortened([column.name])} {what}: {distinct:,} different values in {len(known):,} rows"
    )
    text += (
        ", of which models see only the words."
        if what == _FREE_TEXT
        else f". It tells rows apart, not classes ({option('ids')} carries it along, "
        f"{option('drop')} leaves it out)."
    )
    return [Finding("identifier", (column.name,), text)]


def _kind_of_name(name: str, known: Any, share: float) -> str:
    some = known.astype(str).iloc[:MOST_ROWS].str.strip()
    if some.str.fullmatch(_MAIL).mean() > _NEARLY:
        return "looks like mail addresses"
    if some.str.fullmatch(_PHONE).mean() > (0.5 if _PHONE_NAME.search(name) else _NEARLY):
        return "looks like phone numbers"
    if share < _NEARLY:
        return ""
    if some.str.count(r"\s+").mean() + 1 >= _WORDS:
        return _FREE_TEXT
    return "is nearly unique text"


def _counts_rows(name: str, known: Any) -> bool:
    """Whether whole numbers, each there once, are called a number, count rows, or only grow."""
    steps = known.diff().iloc[1:]
    in_order = bool((steps > 0).all() or (steps < 0).all())
    dense = known.max() - known.min() + 1 <= 1.1 * len(known)
    return in_order or dense or bool(_ID_NAME.search(name)) or name.lower().endswith("id")


def _constants(X: Table, schema: Schema) -> list[Finding]:
    same, nearly = [], []
    for name in schema.names:
        counts = X[name].value_counts(dropna=False)
        if len(counts) == 1:
            same.append(name)
        elif len(X) >= _LEAST_ROWS and len(X) - counts.iloc[0] <= max(2, _RARELY * len(X)):
            nearly.append((name, int(len(X) - counts.iloc[0])))
    found = []
    if same:
        verb = "have" if len(same) > 1 else "has"
        text = f"{shortened(same)} {verb} one value in every row: nothing to learn from."
        found.append(Finding("constant", tuple(same), text))
    if nearly:
        rows = ", ".join(f"{shortened([name])} in {n:,}" for name, n in nearly[:5])
        text = f"Nearly constant, another value in few of {len(X):,} rows: {rows}" + (
            f" and {len(nearly) - 5} columns more." if len(nearly) > 5 else "."
        )
        found.append(Finding("constant", tuple(name for name, _ in nearly), text))
    return found


def _alike(X: Table, codes: Array, copies: Array | None) -> list[Finding]:
    """Rows that are there more than once, as copies or by chance."""
    groups = copies
    if groups is None:
        groups = pd.factorize(pd.util.hash_pandas_object(X, index=False))[0]
    counts = np.bincount(groups)
    extra = len(X) - int(np.sum(counts > 0))
    if not extra:
        return []
    share = f"{extra:,} of {len(X):,} rows ({extra / len(X):.1%})"
    text = (
        f"{share} are copies of another, equal but for rounding and columns that name rows. They "
        "were kept on one side of every split that models are judged by, and count as one row in "
        "standard errors."
    )
    if copies is None:
        text = (
            f"{share} have the same features as another, as few values allow by chance: they count "
            "as rows of their own. If they are the same case, models are judged on what they have "
            f"seen ({option('group')})."
        )
    first = np.full(len(counts), codes.max() + 1)
    np.minimum.at(first, groups, codes)
    last = np.full(len(counts), -1)
    np.maximum.at(last, groups, codes)
    torn = int(counts[first < last].sum())
    if torn:
        text += f" {torn:,} rows differ from such a row in the target."
    return [Finding("duplicate", (), text)]


def _twins(X: Table, schema: Schema, odd: set[str]) -> list[Finding]:
    """Columns that say the same as another."""
    names = [column.name for column in schema.columns if column.name not in odd]
    pairs: list[tuple[str, str]] = []
    seen: dict[bytes, str] = {}
    numbers = {}
    for name in names:
        first = seen.setdefault(_mark(X[name]), name)
        if first != name:
            pairs.append((first, name))
        elif pd.api.types.is_numeric_dtype(X[name]) and X[name].nunique() > 2:
            numbers[name] = X[name].to_numpy(dtype=float)
    pairs += _correlated(numbers)
    if not pairs:
        return []
    shown = ", ".join(f"{shortened([a])} and {shortened([b])}" for a, b in pairs[:5])
    more = f" and {len(pairs) - 5} pairs more" if len(pairs) > 5 else ""
    columns = tuple(dict.fromkeys(name for pair in pairs for name in pair))
    return [Finding("duplicate", columns, f"Columns that say the same: {shown}{more}.")]


def _mark(values: Any) -> bytes:
    """The same for columns that part rows alike, or, where each value is rare, that are equal."""
    places, names = pd.factorize(values)
    own = len(names) > 0.5 * len(values)
    marks = pd.util.hash_pandas_object(values, index=False) if own else pd.Series(places)
    return marks.to_numpy().tobytes()


def _correlated(numbers: dict[str, Array]) -> list[tuple[str, str]]:
    if len(numbers) < 2:
        return []
    names = list(numbers)
    table = np.column_stack(list(numbers.values()))
    gaps = np.isnan(table)
    table = within_one(np.where(gaps, 0.0, table))
    means = table.sum(axis=0) / np.maximum((~gaps).sum(axis=0), 1)
    table = np.where(gaps, 0.0, table - means)
    norms = np.sqrt((table**2).sum(axis=0))
    table = table / np.where(norms > 0, norms, 1.0)
    alike = np.abs(table.T @ table) >= _ALIKE
    return [
        (names[i], names[j])
        for i, j in zip(*np.nonzero(np.triu(alike, 1)), strict=True)
        if np.array_equal(gaps[:, i], gaps[:, j])
    ]


def _drift(
    X: Table, schema: Schema, codes: Array, classes: Sequence[str], odd: set[str]
) -> list[Finding]:
    """Columns whose values differ between the first rows and the last."""
    n = int(_PARTS * len(X))
    if n < _LEAST_ROWS:
        return []
    shares = np.array(
        [np.bincount(part, minlength=len(classes)) / n for part in (codes[:n], codes[-n:])]
    )
    change = np.abs(shares[0] - shares[1])
    most = int(np.argmax(change))
    if change[most] >= _DRIFT:
        text = (
            f"The share of {shortened([classes[most]])} goes from {shares[0, most]:.0%} in the "
            f"first rows to {shares[1, most]:.0%} in the last ({_PARTS:.0%} each): rows are in an "
            f"order that has to do with the target. If that is time, name it with {option('time')}."
        )
        return [Finding("drift", (), text)]
    moved = []
    columns = [column for column in schema.columns if column.name not in odd]
    for column in columns:
        gap, chance = _difference(X[column.name].iloc[:n], X[column.name].iloc[-n:], column.kind)
        if gap >= _DRIFT and chance * len(columns) < _CHANCE:
            moved.append((gap, column.name))
    if not moved:
        return []
    moved.sort(reverse=True)
    shown = ", ".join(f"{shortened([name])} {gap:.2f}" for gap, name in moved[:5])
    more = f" and {len(moved) - 5} columns more" if len(moved) > 5 else ""
    text = (
        f"Values differ between the first rows and the last ({_PARTS:.0%} each; largest difference "
        f"of shares): {shown}{more}. New rows may differ again; {option('time')} judges by "
        "later rows."
    )
    return [Finding("drift", tuple(name for _, name in moved), text)]


def _difference(first: Any, last: Any, kind: str) -> tuple[float, float]:
    """Largest difference of shares between two samples, and how likely it is by chance."""
    if kind == TEXT:
        both = pd.concat([first, last])
        places = pd.factorize(both)[0] + 1
        one, other = places[: len(first)], places[len(first) :]
        if places.max() > 0.2 * len(places):
            return 0.0, 1.0  # names, of which each is there once
        shares = [np.bincount(p, minlength=places.max() + 1) / len(p) for p in (one, other)]
        gap = float(np.abs(shares[0] - shares[1]).sum() / 2)
        # more than what many rare values differ by anyway
        usual = 0.4 * np.sum(np.sqrt((shares[0] + shares[1]) / len(one)))
        return gap - float(usual), 0.0
    if kind != NUMBER:
        return 0.0, 1.0  # time goes on
    a, b = first.dropna().to_numpy(dtype=float), last.dropna().to_numpy(dtype=float)
    if min(len(a), len(b)) < _LEAST_ROWS:
        return 0.0, 1.0
    found = ks_2samp(a, b, method="asymp")
    return float(found.statistic), float(found.pvalue)
