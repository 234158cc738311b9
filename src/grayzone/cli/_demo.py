"""The demonstration: payments in a web shop, some of them fraud, from known probabilities.

Nothing here is real. Each payment has an amount, a category of goods, the country of the card, a
device, a way of delivery, whether the addresses match, for how many days the customer has had an
account (none: a guest), the payments of the last day, minutes in the shop, and a time. From all but
the amount a formula makes the probability of fraud, :func:`probability`: a sum on the scale of
log-odds with curves (hours of the night, short visits, the age of an account; gaps are values, too)
and with pairs that count for more than their parts (a parcel locker where addresses do not match,
gift cards for guests, electronics at night). About one payment in thirty is fraud: a coin with that
probability is thrown. So it is neither linear nor additive, and there are few frauds to learn from:
models that can bend have an advantage here, as they often have, and no other one is built in.

As the probabilities are known, so is the cost of the best decisions possible, which no model of
these columns can beat.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.special import expit

from grayzone.decision import bayes_decision, cost_matrices
from grayzone.decision.example_costs import true_costs
from grayzone.tables.errors import UserError
from grayzone.tables.reading import write_table

Array = Any
Table = Any  # a pandas DataFrame

TABLE, NEW_ROWS = "payments.csv", "new_rows.csv"
TARGET, LABELS = "fraud", ("no", "yes")
COSTS, REJECT_COST = "FN=amount,FP=10", 3.0
FALSE_ALARM = 10.0  # as in the costs
N_ROWS, N_NEW = 6_000, 500

_START, _DAYS = pd.Timestamp("2025-01-01"), 180
_CATEGORIES = {
    "fashion": (0.30, -0.3),
    "household": (0.22, -0.75),
    "electronics": (0.18, 0.9),
    "books": (0.14, -1.35),
    "toys": (0.10, -0.6),
    "gift cards": (0.06, 1.95),
}
_COUNTRIES = {
    **{"DE": (0.42, 0.0), "FR": (0.16, 0.0), "IT": (0.10, 0.15), "ES": (0.08, 0.0)},
    **{"NL": (0.07, -0.15), "AT": (0.06, 0.0), "PL": (0.05, 0.15), "US": (0.04, 1.35)},
    **{"other": (0.02, 2.1)},
}
_DEVICES = {"phone": (0.55, 0.0), "laptop": (0.35, -0.3), "tablet": (0.10, -0.15)}
_DELIVERIES = {"home": (0.62, -0.3), "parcel locker": (0.23, 0.6), "shop": (0.15, -0.45)}


class Drawn(NamedTuple):
    """Payments, whether they are fraud, and how probable that was."""

    table: Table
    fraud: Array
    probability: Array

    @property
    def labelled(self) -> Table:
        """The table with the target."""
        return self.table.assign(**{TARGET: np.where(self.fraud, *LABELS[::-1])})


def draw(n: int, seed: int) -> Drawn:
    """Draw payments."""
    rng = np.random.default_rng(seed)
    table = _payments(n, rng)
    for name, share in (("device", 0.04), ("minutes_in_shop", 0.06)):
        table.loc[rng.random(n) < share, name] = None
    p = probability(table)
    return Drawn(table, rng.random(n) < p, p)


def _payments(n: int, rng: np.random.Generator) -> Table:
    """Payments as they are made; guests have no account, and so no day since when."""
    second = rng.integers(0, _DAYS * 86_400, n)
    time = _START + pd.to_timedelta(np.sort(second), unit="s")
    days = np.where(rng.random(n) < 0.3, np.nan, np.floor(rng.exponential(400.0, n)))
    category = _choice(_CATEGORIES, n, rng)
    dear = np.where(category == "electronics", 0.8, np.where(category == "books", -0.6, 0.0))
    return pd.DataFrame(
        {
            "time": time,
            "amount": np.round(np.exp(rng.normal(4.2 + dear, 0.4, n)), 2),
            "category": category,
            "country": _choice(_COUNTRIES, n, rng),
            "device": _choice(_DEVICES, n, rng),
            "delivery": _choice(_DELIVERIES, n, rng),
            "addresses_match": np.where(rng.random(n) < 0.85, "yes", "no"),
            "days_of_account": days,
            "payments_last_day": rng.poisson(rng.gamma(0.6, 0.8, n)),
            "minutes_in_shop": np.round(rng.gamma(2.0, 5.0, n), 1),
        }
    )


def _choice(options: dict[str, tuple[float, float]], n: int, rng: np.random.Generator) -> Array:
    shares = np.array([share for share, _ in options.values()])
    return rng.choice(np.array(list(options), dtype=object), n, p=shares / shares.sum())


def probability(table: Table) -> Array:
    """Probability that a payment is fraud."""

    def of(name: str, options: dict[str, tuple[float, float]]) -> Array:
        effects = {option: effect for option, (_, effect) in options.items()}
        return table[name].map(effects).astype(float).fillna(0.5)

    hour = table["time"].dt.hour + table["time"].dt.minute / 60
    guest = table["days_of_account"].isna()
    other = table["addresses_match"] == "no"
    night = np.exp(-(((hour - 3.0) / 2.5) ** 2))
    score = (
        -5.6
        + of("category", _CATEGORIES)
        + of("country", _COUNTRIES)
        + of("device", _DEVICES)
        + of("delivery", _DELIVERIES)
        + night * np.where(table["category"] == "electronics", 3.6, 1.4)
        + np.where(guest, 0.3, 3.0 * np.exp(-table["days_of_account"] / 20.0) - 0.4)
        + 0.4 * other
        + 2.8 * (other & (table["delivery"] == "parcel locker"))
        + 3.0 * (1.0 - np.exp(-table["payments_last_day"] / 2.0))
        + 3.6 * np.exp(-table["minutes_in_shop"].fillna(np.inf) / 1.5)  # who knows what to take
        + 2.4 * (guest & (table["category"] == "gift cards"))
    )
    return expit(1.2 * score.to_numpy(dtype=np.float64))


class Truth(NamedTuple):
    """What decisions about payments cost, given what is true."""

    drawn: Drawn

    @property
    def costs(self) -> Array:
        """Costs of each payment, ``cost[row, true, decided]``."""
        amounts = self.drawn.table["amount"].to_numpy()
        return cost_matrices({"no": FALSE_ALARM, "yes": amounts}, LABELS)

    def best(self) -> Array:
        """Decisions of whoever knows the probabilities: places of labels, 2 for undecided."""
        return bayes_decision(self.drawn.probability, self.costs, reject_cost=REJECT_COST)

    def paid(self, decided: Array) -> float:
        """Mean of what decisions have cost, as it turned out."""
        own = true_costs(self.costs, self.drawn.fraud.astype(np.intp))
        paid = np.column_stack([own, np.full(len(own), REJECT_COST)])
        return float(paid[np.arange(len(own)), decided].mean())


def write_tables(folder: Path, seed: int) -> tuple[Path, Path, Drawn]:
    """Write payments, and new ones that nothing is known of, into a folder."""
    if folder.exists() and not folder.is_dir():
        raise UserError(f"--out {folder} is a file; expected a folder.")
    folder.mkdir(exist_ok=True)
    drawn = draw(N_ROWS, seed)
    tables = {TABLE: drawn.labelled, NEW_ROWS: draw(N_NEW, seed + 1).table}
    for name, table in tables.items():
        write_table(table, folder / name)
    return folder / TABLE, folder / NEW_ROWS, drawn


def story(table: Path, drawn: Drawn) -> list[str]:
    """What a user should know before."""
    return [
        f"{table} has {len(drawn.fraud):,} payments in a web shop, {drawn.fraud.mean():.1%} of "
        "them fraud. Which ones to let pass?",
        f"In euros: a fraud that passes costs its amount ({drawn.table['amount'].mean():.0f} on "
        f"average), an honest customer who is refused {FALSE_ALARM:g}, a person who looks at a "
        f"payment {REJECT_COST:g}.",
        "Nothing is real: the payments are drawn by a formula, so that the best possible decisions "
        "are known.",
        "What runs now is",
    ]


def options(table: Path, out: Path, time_limit: float, seed: int) -> list[str]:
    """Options of ``grayzone train`` that do the same."""
    return [
        *(str(table), "--target", TARGET),
        *("--costs", COSTS, "--reject-cost", f"{REJECT_COST:g}"),
        *("--time-limit", f"{time_limit:g}", "--seed", str(seed)),
        *("--out", str(out), "--overwrite"),
    ]
