"""Features that are functions of one column each, and what steps of a pipeline make of them.

A scorecard adds up numbers that single columns stand for. So each feature of the classifier has to
be a function of one column: of a number a piecewise linear one, of a text a table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import singledispatch
from typing import Any

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import (
    KBinsDiscretizer,
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    RobustScaler,
    StandardScaler,
)

from grayzone.estimators.table_features import ScaledFeatures, TableColumns, TableFeatures
from grayzone.numerics.checks import Floats

Array = Any

NAN = float("nan")


class NoScorecardError(ValueError):
    """A model that is no sum over columns; says why.

    See Also
    --------
    scorecard : Raises it.

    Examples
    --------
    >>> from grayzone import ImportVectorMachine
    >>> from grayzone.scorecards import NoScorecardError, scorecard
    >>> curved = ImportVectorMachine().fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1])
    >>> try:
    ...     scorecard(curved, ["age"])
    ... except NoScorecardError:
    ...     print("no card")
    no card
    """


@dataclass(frozen=True)
class Effect:
    """A number that a column stands for.

    Attributes
    ----------
    column : str
        Its name.
    edges : ndarray of shape (k,)
        Where pieces of a function of a number end: the i-th is for values from ``edges[i - 1]`` on,
        below ``edges[i]``.
    slopes, offsets : ndarray of shape (k + 1,)
        The function on each piece, ``slope * x + offset``.
    levels : mapping or None
        What texts stand for; None where the column holds numbers.
    other, gap : float
        What a text that is not known, and a gap, stand for; NaN where nothing is known then.
    raw : bool
        Whether it is the column itself, which may still be text that is no number.
    """

    column: str
    edges: Floats = field(default_factory=lambda: np.empty(0))
    slopes: Floats = field(default_factory=lambda: np.ones(1))
    offsets: Floats = field(default_factory=lambda: np.zeros(1))
    levels: Mapping[str, float] | None = None
    other: float = NAN
    gap: float = NAN
    raw: bool = False

    def scaled(self, factor: float, shift: float = 0.0) -> Effect:
        """Return ``factor * effect + shift``."""
        levels = self.levels
        if levels is not None:
            levels = {name: factor * value + shift for name, value in levels.items()}
        return replace(
            self,
            slopes=factor * self.slopes,
            offsets=factor * self.offsets + shift,
            levels=levels,
            other=factor * self.other + shift,
            gap=factor * self.gap + shift,
            raw=False,
        )

    def filled(self, value: float) -> Effect:
        """Return the same with another value for gaps."""
        return replace(self, gap=value, raw=False)

    def flag(self) -> Effect:
        """Return one where there is a gap, else zero."""
        zeros = np.zeros_like(self.slopes)
        levels = None if self.levels is None else dict.fromkeys(self.levels, 0.0)
        made = replace(self, slopes=zeros, offsets=zeros, levels=levels, other=0.0, gap=1.0)
        return replace(made, raw=False)

    def binned(self, edges: Array) -> list[Effect]:
        """Return a feature for each bin between edges, of which the outermost do not matter."""
        if len(self.edges) or self.levels is not None or not self.slopes[0] > 0.0:
            raise NoScorecardError(f"Bins of what was made of column {self.column!r} have no card.")
        inner = (np.asarray(edges, dtype=np.float64)[1:-1] - self.offsets[0]) / self.slopes[0]
        n = len(inner) + 1
        place = int(np.sum(np.asarray(edges)[1:-1] <= self.gap)) if self.gap == self.gap else None
        return [
            Effect(
                self.column,
                edges=inner,
                slopes=np.zeros(n),
                offsets=np.eye(n)[k],
                gap=NAN if place is None else float(place == k),
            )
            for k in range(n)
        ]

    def plus(self, other: Effect) -> Effect:
        """Return the sum of two effects of the same column."""
        if (self.levels is None) != (other.levels is None):
            raise NoScorecardError(f"Column {self.column!r} is a number and a text at once.")
        if self.levels is not None and other.levels is not None:
            names = [*self.levels, *(name for name in other.levels if name not in self.levels)]
            levels = {
                n: self.levels.get(n, self.other) + other.levels.get(n, other.other) for n in names
            }
            return replace(
                self, levels=levels, other=self.other + other.other, gap=self.gap + other.gap
            )
        edges = np.union1d(self.edges, other.edges)
        # a point of each piece, to find the pieces of both
        inside = np.r_[edges, np.inf]
        parts = [np.searchsorted(e.edges, inside, side="left") for e in (self, other)]
        return Effect(
            self.column,
            edges,
            self.slopes[parts[0]] + other.slopes[parts[1]],
            self.offsets[parts[0]] + other.offsets[parts[1]],
            gap=self.gap + other.gap,
        )


def columns_of(names: Sequence[str]) -> list[Effect]:
    """Return columns as they are."""
    return [Effect(str(name), raw=True) for name in names]


@singledispatch
def passed(step: Any, effects: list[Effect]) -> list[Effect]:
    """Return what a fitted step makes of features.

    Raises
    ------
    NoScorecardError
        If a feature would be a function of several columns, or none of these.
    """
    if step is None or (isinstance(step, str) and step == "passthrough"):
        return effects
    raise NoScorecardError(
        f"{type(step).__name__} has no place in a scorecard, which adds up single columns: "
        "scalers, imputers, bins, one-hot encoding and choices of columns have."
    )


@passed.register
def _(step: Pipeline, effects: list[Effect]) -> list[Effect]:
    for _, part in step.steps:
        effects = passed(part, effects)
    return effects


@passed.register
def _(step: ColumnTransformer, effects: list[Effect]) -> list[Effect]:
    names, made = [effect.column for effect in effects], []
    for name, part, keys in step.transformers_:
        if isinstance(part, str) and part == "drop":
            continue
        weight = (step.transformer_weights or {}).get(name, 1.0)
        some = [effects[place] for place in _places(keys, names)]
        made += [
            effect if weight == 1.0 else effect.scaled(weight) for effect in passed(part, some)
        ]
    return made


def _places(keys: Any, names: list[str]) -> list[int]:
    if isinstance(keys, slice):
        return list(range(len(names)))[keys]
    listed = [keys] if isinstance(keys, str | int) else list(keys)
    if listed and all(isinstance(key, bool | np.bool_) for key in listed):
        return [place for place, key in enumerate(listed) if key]
    return [names.index(key) if isinstance(key, str) else int(key) for key in listed]


@passed.register
def _(step: StandardScaler, effects: list[Effect]) -> list[Effect]:
    n = len(effects)
    means = step.mean_ if step.with_mean else np.zeros(n)
    return _scaled(effects, means, np.ones(n) if step.scale_ is None else step.scale_)


@passed.register
def _(step: RobustScaler, effects: list[Effect]) -> list[Effect]:
    n = len(effects)
    centre = step.center_ if step.with_centering else np.zeros(n)
    return _scaled(effects, centre, step.scale_ if step.with_scaling else np.ones(n))


@passed.register
def _(step: MaxAbsScaler, effects: list[Effect]) -> list[Effect]:
    return _scaled(effects, np.zeros(len(effects)), step.scale_)


@passed.register
def _(step: MinMaxScaler, effects: list[Effect]) -> list[Effect]:
    if step.clip:
        raise NoScorecardError("MinMaxScaler(clip=True) has no place in a scorecard.")
    pairs = zip(effects, step.scale_, step.min_, strict=True)
    return [effect.scaled(float(scale), float(shift)) for effect, scale, shift in pairs]


def _scaled(effects: list[Effect], means: Array, scales: Array) -> list[Effect]:
    pairs = zip(effects, means, scales, strict=True)
    return [effect.scaled(1.0 / scale, -mean / scale) for effect, mean, scale in pairs]


@passed.register
def _(step: SimpleImputer, effects: list[Effect]) -> list[Effect]:
    missing = step.missing_values
    if not (missing is None or (isinstance(missing, float) and np.isnan(missing))):
        raise NoScorecardError("A scorecard knows gaps alone as missing values.")
    if any(not isinstance(fill, float | int | np.number) for fill in step.statistics_):
        raise NoScorecardError("A scorecard fills gaps of numbers; texts have one-hot encoding.")
    pairs = zip(effects, step.statistics_, strict=True)
    made = [effect.filled(float(fill)) for effect, fill in pairs if fill == fill]
    if step.add_indicator and step.indicator_ is not None:
        made += [effects[place].flag() for place in step.indicator_.features_]
    return made


@passed.register
def _(step: KBinsDiscretizer, effects: list[Effect]) -> list[Effect]:
    if step.encode == "ordinal":
        raise NoScorecardError("KBinsDiscretizer(encode='ordinal') has no place in a scorecard.")
    pairs = zip(effects, step.bin_edges_, strict=True)
    return [made for effect, edges in pairs for made in effect.binned(edges)]


@passed.register
def _(step: OneHotEncoder, effects: list[Effect]) -> list[Effect]:
    if getattr(step, "infrequent_categories_", None) is not None:
        raise NoScorecardError("OneHotEncoder with infrequent categories has no scorecard.")
    unknown = NAN if step.handle_unknown == "error" else 0.0
    made = []
    for place, categories in enumerate(step.categories_):
        drop = None if step.drop_idx_ is None else step.drop_idx_[place]
        for k, name in enumerate(categories.tolist()):
            if drop is None or k != drop:
                made.append(_indicator(effects[place], categories.tolist(), name, unknown))
    return made


def _indicator(effect: Effect, names: list[Any], mine: Any, unknown: float) -> Effect:
    """Return one for a category, else zero."""
    if not effect.raw:
        raise NoScorecardError(f"Categories of what was made of column {effect.column!r}.")
    gaps = [name for name in names if name is None or name != name]
    texts = [name for name in names if isinstance(name, str)]
    if len(texts) + len(gaps) < len(names):
        raise NoScorecardError(f"Categories of column {effect.column!r} must be text.")
    is_gap = mine is None or mine != mine
    return Effect(
        effect.column,
        levels={name: float(name == mine) for name in texts},
        other=unknown,
        gap=float(is_gap) if gaps else unknown,
    )


@passed.register
def _(step: TableFeatures, effects: list[Effect]) -> list[Effect]:
    return passed(step.scaled_, passed(step.columns_, effects))


@passed.register
def _(step: TableColumns, effects: list[Effect]) -> list[Effect]:
    if step.dates_ or step.texts_:
        raise NoScorecardError(
            f"Columns {[*step.dates_, *step.texts_][:5]} are dates or free text, of which a "
            "scorecard knows nothing: leave them out of the training."
        )
    by_name = {effect.column: effect for effect in effects}
    codes = []
    for name, levels, rare in zip(step.categories_, step.levels_, step.has_rare_, strict=True):
        known = {level: float(code) for code, level in enumerate(levels)}
        codes.append(Effect(name, levels=known, other=float(len(levels)) if rare else NAN))
    return codes + [replace(by_name[name], raw=False) for name in step.numbers_]


@passed.register
def _(step: ScaledFeatures, effects: list[Effect]) -> list[Effect]:
    if step.bent:
        raise NoScorecardError("Splines have no place in a scorecard; take logistic-regression.")
    n_codes = len(step.n_levels)
    numbers = effects[n_codes:]
    filled = [e.filled(float(m)) for e, m in zip(numbers, step.medians_, strict=True)]
    made = _scaled(filled, step.means_, step.scales_)
    made += [numbers[place].flag() for place in step.gaps_]
    for effect, n in zip(effects[:n_codes], step.n_levels, strict=True):
        assert effect.levels is not None
        for k in range(n):
            levels = {name: float(code == k) for name, code in effect.levels.items()}
            made.append(replace(effect, levels=levels, other=float(effect.other == k), gap=0.0))
    return made
