"""Members of a decision ensemble: what they answer for rows that they have not seen."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import log2, sqrt
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import LinAlgWarning
from sklearn.base import clone
from sklearn.ensemble import (
    ExtraTreesClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline
from sklearn.utils.parallel import Parallel, delayed

from grayzone.estimators._base import rows_of
from grayzone.estimators._draws import Fold, drawn
from grayzone.estimators.table_features import ScaledFeatures, TableColumns, is_table
from grayzone.estimators.tree_sum import MOST_LEAVES, MOST_TREES, TreeSum
from grayzone.estimators.truncated import TruncatedLogisticRegression
from grayzone.numerics.checks import Floats
from grayzone.numerics.pace import RUNAWAY, STOPPED, Deadline
from grayzone.numerics.threads import one_thread

Array = Any

# Features of a table: for models that are linear in what they get, kernels among them; the same
# with bent effects of numbers; for trees, which cut.
SCALED, SPLINES, TREES = "scaled", "splines", "trees"
_FEW = 2_000  # rows up to which boosted trees are small and few
# Rows up to which every row of a kernel may span the function, and how many do of more.
_EXACT, _CENTRES = 3_000, 400
_BLOCK = 20_000  # rows whose features are made at a time
_WEIGHTED_BINS = 0.025  # seconds that scikit-learn takes for bins of a column of weighted rows
_DENSE = 300  # coefficients up to which Newton's method is quicker than first-order steps


# Times that by the time of the day, where other processes do the work.
_BUSY = 4.0


class OutOfTimeError(Exception):
    """The clock has stopped a member; it says why."""


class Clock:
    """A clock that stops a fit which takes far more than its budget, or where the day's time is up.

    The budget is counted in time of this process, so that a busy machine does not change a model.
    """

    def __init__(self, budget: float | None, stop_after: float | None = None) -> None:
        self.budget, self.deadline = budget, Deadline(stop_after)
        self._begin = time.monotonic()
        self._used = time.process_time()
        self._process = os.getpid()

    def check(self, work: float = 0.0) -> None:
        """Raise where the time is over, or is before so many seconds of work would be done."""
        if not self.deadline.allows(work):
            raise OutOfTimeError(STOPPED)
        here = os.getpid() == self._process
        passed = (time.monotonic() - self._begin) / _BUSY
        used = time.process_time() - self._used if here else passed
        if self.budget is not None and used > RUNAWAY * self.budget:
            raise OutOfTimeError(
                f"the clock stopped: a fit to these data takes far more than its budget of "
                f"{self.budget:g} s on this machine"
            )


@dataclass(frozen=True)
class Preparation:
    """What turns data into features of each kind; settings, folds and members share it."""

    columns: TableColumns | None
    scalings: Mapping[str, ScaledFeatures]

    @classmethod
    def of(
        cls, X: Array, kinds: set[str], weight: Floats | None = None
    ) -> tuple[Preparation, Array]:
        """Learn what features of these kinds take, and return the data as numbers beside it."""
        if not kinds:
            return cls(None, {}), X
        columns = TableColumns().fit(X) if is_table(X) else None
        numbers = X if columns is None else columns.transform(X)
        n_levels = [] if columns is None else columns.n_levels_
        scalings = {
            kind: ScaledFeatures(n_levels, bent=kind == SPLINES).fit(numbers, sample_weight=weight)
            for kind in (SCALED, SPLINES)
            if kind in kinds and not (kind == SPLINES and sp.issparse(X))
        }
        return cls(columns, scalings), numbers

    def features(self, kind: str, numbers: Array) -> Array:
        """Features of a kind, of rows that are numbers."""
        return self.scalings[kind].transform(numbers) if kind in self.scalings else numbers

    def width(self, kind: str, numbers: Array) -> int:
        """How many features there are of a kind."""
        return int(self.features(kind, numbers[:1]).shape[1])

    def whole(self, kind: str, model: Any) -> Any:
        """A model that takes the data themselves."""
        steps = [("columns", self.columns), ("features", self.scalings.get(kind))]
        steps = [(name, step) for name, step in steps if step is not None]
        return Pipeline([*steps, ("model", model)]) if steps else model

    @property
    def n_categories(self) -> int:
        """How many of the numbers, the first ones, are codes."""
        return 0 if self.columns is None else len(self.columns.categories_)


@dataclass(frozen=True)
class Rows:
    """Training rows, in folds that all members share.

    ``alike`` says that a row may be judged by models of all others, so that a forest's own rows
    out of bag will do.
    """

    X: Array
    numbers: Array
    preparation: Preparation
    codes: Array
    weight: Floats
    folds: list[Fold]
    n_classes: int
    seed: int
    n_jobs: int | None
    alike: bool = True
    clock: Clock | None = None

    def check_time(self) -> None:
        """Raise where the clock has stopped."""
        if self.clock is not None:
            self.clock.check()

    @property
    def n_rows(self) -> int:
        """How many there are."""
        return len(self.codes)


@dataclass(frozen=True)
class Size:
    """What a member's work depends on."""

    n_rows: int  # that it learns from
    n_scored: int
    n_features: int
    n_classes: int
    n_folds: int
    alike: bool
    weighted: bool = False


@dataclass(frozen=True)
class Answer:
    """A fitted member, and what it says of each row without having seen it (NaN: of some not)."""

    name: str
    estimator: Any
    proba: Floats
    setting: Mapping[str, Any] = field(default_factory=dict)
    n_rows: int = 0


@dataclass(frozen=True)
class Member:
    """A kind of model, with settings to choose from by the log-loss of rows in other folds.

    Parameters
    ----------
    name : str
        What it is called.
    model : estimator
        A classifier with probabilities.
    kind : str or None
        What features it takes; None: data as they are.
    settings : tuple of dicts
        Parameters to try; a ``gamma`` is for each feature.
    then : tuple of dicts
        Parameters to try beside the best of these.
    most_rows : int
        Rows that it learns from at most: of more, some are drawn (see :func:`drawn`).
    """

    name: str
    model: Any
    kind: str | None = None
    settings: tuple[Mapping[str, Any], ...] = ({},)
    then: tuple[Mapping[str, Any], ...] = ()
    most_rows: int = 100_000

    def unable(self, X: Array) -> str:
        """Say why it cannot take such data; "" if it can."""
        return "it takes no sparse data" if self.kind == SPLINES and sp.issparse(X) else ""

    def work(self, size: Size) -> float:
        """Estimate processor seconds, so that a budget takes the same members on a busy machine.

        The numbers are of one thread of the machine that :mod:`grayzone.numerics.pace` knows, with
        300 to 50,000 rows and 5 to 700 features; of a model of one's own nothing is known.
        """
        return 0.0

    def with_rows(self, most: int) -> Member:
        """Return the same, of at most so many rows."""
        return replace(self, most_rows=min(most, self.most_rows))

    def answer(self, rows: Rows) -> Answer:
        """Fit all but one fold in turn with each setting, and all rows with the best one."""
        tried, proba = list(self.settings), self._tried(rows, self.settings)
        best = _least_log_loss(proba, rows)
        if self.then:
            more = [{**tried[best], **other} for other in self.then]
            tried = [tried[best], *more]
            proba = np.concatenate([proba[best][None], self._tried(rows, more)])
            best = _least_log_loss(proba, rows)
        setting = tried[best]
        rows.check_time()
        model, n = self._fitted(rows, np.arange(rows.n_rows), setting)
        return Answer(self.name, model, proba[best], setting, n)

    def _tried(self, rows: Rows, settings: Sequence[Mapping[str, Any]]) -> Floats:
        """Probabilities (S, n, K) of all rows by models of the other folds, with each setting."""
        jobs = [delayed(self._fold)(rows, fold, settings) for fold in rows.folds]
        parts = Parallel(rows.n_jobs)(jobs)
        proba = np.full((len(parts[0]), rows.n_rows, rows.n_classes), np.nan)
        for (_, test), part in zip(rows.folds, parts, strict=True):
            proba[:, test] = part
        return proba

    def _fold(self, rows: Rows, fold: Fold, settings: Sequence[Mapping[str, Any]]) -> Floats:
        """Probabilities of the rows of a fold, with each setting (S, n, K)."""
        learnt = self._learnt(rows, fold[0])
        models = []
        for setting in settings:
            rows.check_time()
            models.append(self._fit(rows, learnt, setting))
        blocks = [
            np.stack([_of_all_classes(m, m.predict_proba(X), rows) for m in models])
            for X in self._blocks(rows, fold[1])
        ]
        return np.concatenate(blocks, axis=1)

    def _features(self, rows: Rows, some: Array) -> Array:
        if self.kind is None:
            return rows_of(rows.X, some)
        return rows.preparation.features(self.kind, rows.numbers[some])

    def _blocks(self, rows: Rows, some: Array) -> list[Array] | Any:
        """Features of many rows, a block at a time."""
        if self.kind is None:
            return [rows_of(rows.X, some)]
        starts = range(0, len(some), _BLOCK)
        return (self._features(rows, some[start : start + _BLOCK]) for start in starts)

    def _learnt(self, rows: Rows, train: Array) -> _Learnt:
        """Features of the rows to learn from; settings share them."""
        some, stands_for = drawn(rows.codes[train], self.most_rows, rows.seed)
        some = train[some]
        weight = rows.weight[some] * stands_for
        given = {} if np.all(weight == 1.0) else {"sample_weight": weight}
        return _Learnt(some, self._features(rows, some), rows.codes[some], given)

    def _fitted(self, rows: Rows, train: Array, setting: Mapping[str, Any]) -> tuple[Any, int]:
        """A model that takes the data themselves, and how many rows it has learnt from."""
        learnt = self._learnt(rows, train)
        model = self._kept(rows, self._fit(rows, learnt, setting), learnt)
        if self.kind is not None:
            model = rows.preparation.whole(self.kind, model)
        return model, len(learnt.rows)

    def _kept(self, rows: Rows, model: Any, learnt: _Learnt) -> Any:
        """What is kept of a fitted model."""
        return model

    def _fit(self, rows: Rows, learnt: _Learnt, setting: Mapping[str, Any]) -> Any:
        model = self._made(rows, learnt, setting)
        with warnings.catch_warnings(), one_thread():
            # it is judged by what it says
            warnings.simplefilter("ignore", ConvergenceWarning)
            warnings.simplefilter("ignore", LinAlgWarning)
            return model.fit(learnt.features, learnt.codes, **learnt.given)

    def _made(self, rows: Rows, learnt: _Learnt, setting: Mapping[str, Any]) -> Any:
        known = dict(setting)
        if "gamma" in known:
            known["gamma"] = known["gamma"] / learnt.features.shape[1]
        model = clone(self.model).set_params(**known)
        # also those of steps, which would draw from the state that a process shares
        draws = [name for name in model.get_params() if name.split("__")[-1] == "random_state"]
        return model.set_params(**dict.fromkeys(draws, rows.seed))


@dataclass(frozen=True)
class _Learnt:
    """Rows that were learnt from."""

    rows: Array
    features: Array
    codes: Array
    given: dict[str, Any]


class Linear(Member):
    """Logistic regression, by the method that suits the number of its coefficients."""

    def work(self, size: Size) -> float:
        fits = size.n_folds * len(self.settings) + 1
        n, d, K = size.n_rows, size.n_features, size.n_classes
        width = d * (1 if K == 2 else K)
        each = n * width * (4e-8 if width > _DENSE else 2.4e-8 + 1.8e-10 * width)
        return fits * (2e-3 + each) + 6e-8 * size.n_scored * d

    def _made(self, rows: Rows, learnt: _Learnt, setting: Mapping[str, Any]) -> Any:
        width = learnt.features.shape[1] * (1 if rows.n_classes == 2 else rows.n_classes)
        dense = width <= _DENSE and not sp.issparse(learnt.features)
        model = super()._made(rows, learnt, setting)
        return model.set_params(solver="newton-cholesky" if dense else "lbfgs")


class Kernel(Member):
    """Logistic regression with a kernel: of few rows exactly, of more on centres.

    All rows of two classes say more than a sample whose every row spans the function.
    """

    def work(self, size: Size) -> float:
        tried, d = len(self.settings) + len(self.then), size.n_features
        if size.n_classes == 2 and size.n_rows > _EXACT:
            n = _CENTRES
            each = 0.14 + size.n_rows * n * (2.2e-8 + 1.1e-10 * d)
        else:
            n, classes = min(size.n_rows, _EXACT), size.n_classes
            each = 8e-3 + n * n * (6e-9 + 6e-11 * d) * (1 if classes == 2 else 10 + classes)
        scored = size.n_scored * n * (3e-9 + 1.2e-10 * d)
        return (size.n_folds * tried + 1) * each + (tried + 1) * scored

    def answer(self, rows: Rows) -> Answer:
        if rows.n_classes > 2 and self.most_rows > _EXACT:
            return self.with_rows(_EXACT).answer(rows)
        return super().answer(rows)

    def _made(self, rows: Rows, learnt: _Learnt, setting: Mapping[str, Any]) -> Any:
        model = super()._made(rows, learnt, setting)
        return model.set_params(centres=_CENTRES) if len(learnt.rows) > _EXACT else model


class Boosted(Member):
    """Trees that are added one after the other; how many is chosen from the stages of one fit."""

    def unable(self, X: Array) -> str:
        return "it takes no sparse data" if sp.issparse(X) else ""

    def work(self, size: Size) -> float:
        few = size.n_rows <= _FEW
        trees = _stages(size.n_rows)[-1] * (1 if size.n_classes == 2 else size.n_classes)
        n, d = size.n_rows, size.n_features
        each = trees * (2.5e-4 + (2e-5 if few else 4.5e-5) * d + 3e-9 * n * d)
        each += _WEIGHTED_BINS * d if size.weighted else 0.0
        return (size.n_folds + 1) * each + (2e-6 + trees * 1e-7) * size.n_scored

    def answer(self, rows: Rows) -> Answer:
        every = _stages(min(rows.n_rows, self.most_rows))
        return replace(self, settings=tuple({"max_iter": stage} for stage in every))._answer(rows)

    def _answer(self, rows: Rows) -> Answer:
        return super().answer(rows)

    def _fold(self, rows: Rows, fold: Fold, settings: Sequence[Mapping[str, Any]]) -> Floats:
        rows.check_time()
        stages = [setting["max_iter"] for setting in settings]
        learnt = self._learnt(rows, fold[0])
        model = self._fit(rows, learnt, settings[-1])
        trees = self._kept(rows, model, learnt)
        said = [trees.staged_proba(X, stages) for X in self._blocks(rows, fold[1])]
        every = [_of_all_classes(model, proba, rows) for proba in np.concatenate(said, axis=1)]
        return np.stack(every)

    def _made(self, rows: Rows, learnt: _Learnt, setting: Mapping[str, Any]) -> Any:
        few = min(rows.n_rows, self.most_rows) <= _FEW
        return (
            super()
            ._made(rows, learnt, setting)
            .set_params(
                categorical_features=list(range(rows.preparation.n_categories)) or None,
                learning_rate=0.15 if few else 0.1,
                max_leaf_nodes=8 if few else 31,
            )
        )

    def _kept(self, rows: Rows, model: Any, learnt: _Learnt) -> Any:
        codes = learnt.features[:, : rows.preparation.n_categories].T
        seen = [np.unique(c[~np.isnan(c)]).astype(np.intp) for c in codes]
        return TreeSum.of_boosting(model, seen)


class Forest(Member):
    """Trees of which each leaves rows out: these are its rows not seen."""

    def work(self, size: Size) -> float:
        trees, n = self.model.n_estimators, size.n_rows
        # extremely random trees look at one cut of a feature, others at all
        cuts = 4.5e-8 if isinstance(self.model, RandomForestClassifier) else 7e-9
        each = trees * (8e-4 + cuts * n * log2(min(n, MOST_LEAVES) + 2) * sqrt(size.n_features))
        fits = 1 if size.alike else size.n_folds + 1
        return fits * each + 1e-7 * trees * size.n_scored

    def answer(self, rows: Rows) -> Answer:
        if not rows.alike:
            return super().answer(rows)
        rows.check_time()
        learnt = self._learnt(rows, np.arange(rows.n_rows))
        model = self._fit(rows, learnt, {"oob_score": True})
        kept = TreeSum.of_forest(model)
        proba = np.empty((rows.n_rows, rows.n_classes))
        others = np.setdiff1d(np.arange(rows.n_rows), learnt.rows)
        if len(others):
            said = [kept.predict_proba(X) for X in self._blocks(rows, others)]
            proba[others] = _of_all_classes(model, np.concatenate(said), rows)
        share = np.bincount(rows.codes, rows.weight, minlength=rows.n_classes)
        bag = _of_all_classes(model, model.oob_decision_function_, rows)
        # of very few rows some may be in every tree
        unknown = ~np.isfinite(bag).all(axis=1, keepdims=True)
        proba[learnt.rows] = np.where(unknown, share / share.sum(), bag)
        whole = rows.preparation.whole(TREES, kept)
        return Answer(self.name, whole, proba, {}, len(learnt.rows))

    def _made(self, rows: Rows, learnt: _Learnt, setting: Mapping[str, Any]) -> Any:
        return super()._made(rows, learnt, setting).set_params(n_jobs=rows.n_jobs)

    def _kept(self, rows: Rows, model: Any, learnt: _Learnt) -> Any:
        return TreeSum.of_forest(model)


def _of_all_classes(model: Any, proba: Floats, rows: Rows) -> Floats:
    """Probabilities with a column for each class, also for those that a fold has not."""
    if proba.shape[1] == rows.n_classes:
        return proba
    every = np.zeros((len(proba), rows.n_classes))
    every[:, model.classes_] = proba
    return every


def _least_log_loss(proba: Floats, rows: Rows) -> int:
    """Which of several probabilities (S, n, K) says most of the classes."""
    said = proba[:, np.arange(rows.n_rows), rows.codes]
    told = np.isfinite(said[0])
    losses = -np.log(np.maximum(said[:, told], 1e-15)) @ rows.weight[told]
    return int(np.argmin(losses))


def _stages(n_rows: int) -> tuple[int, ...]:
    """Numbers of boosted trees to choose from."""
    return tuple(range(4, 64, 4) if n_rows <= _FEW else range(10, MOST_TREES + 1, 10))


def _penalties(*Cs: float) -> tuple[Mapping[str, Any], ...]:
    return tuple({"C": C} for C in Cs)


# In this order: the first ones are most of what all of them are.
MEMBERS = {
    member.name: member
    for member in (
        Linear(
            "logistic-regression",
            LogisticRegression(tol=1e-4, max_iter=300),
            SCALED,
            _penalties(0.001, 0.01, 0.1, 1.0, 10.0, 100.0),
        ),
        Forest(
            "random-forest",
            RandomForestClassifier(MOST_TREES, min_samples_leaf=2, max_leaf_nodes=MOST_LEAVES),
            TREES,
            most_rows=50_000,
        ),
        Kernel(
            "kernel-logistic",
            TruncatedLogisticRegression(zone=None, tol=1e-3, kernel="rbf"),
            SCALED,
            tuple({"gamma": gamma, "C": 3.0} for gamma in (0.1, 0.3, 1.0)),
            _penalties(0.3, 30.0),
            20_000,
        ),
        Boosted(
            "boosting",
            HistGradientBoostingClassifier(early_stopping=False),
            TREES,
        ),
        Forest(
            "extra-trees",
            ExtraTreesClassifier(MOST_TREES, bootstrap=True, max_leaf_nodes=MOST_LEAVES),
            TREES,
        ),
        Linear(
            "splines",
            LogisticRegression(tol=1e-4, max_iter=300),
            SPLINES,
            _penalties(0.01, 0.1, 1.0),
        ),
    )
}
