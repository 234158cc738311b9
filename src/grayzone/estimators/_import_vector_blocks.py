"""Import vector machine on rows that are not NumPy's: blocks, clusters and devices."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from array_api_compat import array_namespace, device
from sklearn.utils import check_random_state

from grayzone.estimators._base import move_decision
from grayzone.estimators._callbacks import Report
from grayzone.numerics.backend import moved
from grayzone.numerics.checks import as_numpy
from grayzone.numerics.kernels import Kernel, resolve_kernel
from grayzone.solvers.greedy.by_blocks import BlockGrowth, BlockModel
from grayzone.solvers.greedy.refit_by_blocks import ReferenceFrame, gap_by_blocks
from grayzone.solvers.greedy.span_by_blocks import Pool, Spanned, solve_lower, tiles
from grayzone.solvers.training import check_kernel_matrix
from grayzone.solvers.truncated.spec import TruncatedSpec as Frame
from grayzone.solvers.truncated.streamed import MOST_HELD
from grayzone.sources.gather import draw_sample
from grayzone.sources.labelled import Rows
from grayzone.sources.labelled_blocks import LabelledBlocks, label_blocks
from grayzone.sources.part import split_blocks
from grayzone.sources.source import Block, HeldSource, Source, Sums
from grayzone.sources.split import split_rows

Array = Any

# Rows of blocks that points are chosen from, at least, where they do not take too much memory.
_POOL = 4096


def fit_blocks(estimator: Any, source: Source, report: Report | None) -> None:
    """Fit an estimator whose parameters are checked, and set what it found."""
    held = isinstance(source, HeldSource)
    if estimator.kernel == "precomputed":
        if not held:
            raise ValueError(
                "kernel='precomputed' needs the kernel values of all pairs of rows at once; blocks "
                "are for kernels that are computed from rows."
            )
        check_kernel_matrix(source.like())
    labelled = label_blocks(source, estimator.class_weight)
    estimator._set_decision(labelled)
    kernel = _kernel(estimator, labelled)
    rng = check_random_state(estimator.random_state)
    parts = (_held_parts if held else _block_parts)(estimator, labelled, rng)
    reference = len(labelled.classes) > 2 and estimator.parametrization == "reference"
    kind = ReferenceFrame if reference else Frame
    frame = kind(estimator._floors(), 1.0 / estimator.C, estimator.fit_intercept)
    pool = (_all_rows if held else _drawn_rows)(parts.train, estimator.n_candidates)
    growth = BlockGrowth(kernel, pool, parts.train, parts.n_rows, frame, estimator._rules(), rng)
    watch = None if parts.out is None else _Watch(estimator, growth, parts.out)
    for objective in growth.grow():
        enough = watch is not None and watch.saw_enough()
        facts = {"objective": objective, "n_import_points": growth.basis.size}
        if (report is not None and report(**facts)) or enough:
            break
    _expose(estimator, growth, growth.model() if watch is None else watch.best)
    if watch is not None:
        estimator.validation_path_ = moved(np.array(watch.path), source.like())


# ------------------------------------------------------------------------------------------
# Kernel
# ------------------------------------------------------------------------------------------


def _kernel(estimator: Any, labelled: LabelledBlocks) -> Kernel:
    """Kernel that the parameters ask for, its width set by the data where it has to."""
    gamma, d = estimator.gamma, labelled.source.n_features
    has_width = estimator.kernel in ("rbf", "poly", "sigmoid", "laplacian")
    if has_width and isinstance(gamma, str) and gamma == "scale":
        source = labelled.source
        sums = source.reduce(_Entries(0.0))
        mean, total = sums["sum"] / sums["total"], sums["total"]
        spread = source.reduce(_Entries(mean))["square"] / total
        gamma = 1.0 / (d * spread) if spread > 0 else 1.0
    nothing = np.zeros((1, d))
    return resolve_kernel(estimator.kernel, gamma, estimator.degree, estimator.coef0, nothing)


@dataclass(frozen=True)
class _Entries:
    """Number, sum and squared distances from ``centre`` of all entries of X, rows weighted."""

    centre: float

    def __call__(self, block: Block) -> Sums:
        d = block.X.shape[1]
        total, linear, square = 0.0, 0.0, 0.0
        for a, b, tile in tiles(block.X, d):
            xp = array_namespace(tile)
            tile = xp.astype(tile, xp.float64)
            weight = xp.ones(b - a, dtype=xp.float64, device=device(tile))
            if block.weight is not None:
                weight = xp.astype(moved(block.weight[a:b], tile), xp.float64)
            centred = tile - self.centre
            total += float(xp.sum(weight)) * d
            linear += float(xp.sum(weight * xp.sum(tile, axis=1)))
            square += float(xp.sum(weight * xp.sum(centred * centred, axis=1)))
        return {"total": total, "sum": linear, "square": square}


# ------------------------------------------------------------------------------------------
# Rows: training and held-out ones, and those that points are chosen from
# ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Parts:
    train: LabelledBlocks
    out: LabelledBlocks | None
    n_rows: int  # training rows with a weight


def _held_parts(estimator: Any, labelled: LabelledBlocks, rng: np.random.RandomState) -> _Parts:
    """Split rows that are in one place, as NumPy's are split; codes take the place of labels."""
    rows = labelled.held
    xp = array_namespace(rows.weight)
    if not estimator.early_stopping:
        train = _coded(labelled, rows, rows.weight)
        return _Parts(train, None, int(train.counts.sum()))
    used = np.flatnonzero(as_numpy(rows.weight) > 0)
    codes = as_numpy(rows.codes)[used]
    _, out = split_rows(codes, labelled.classes, estimator.validation_fraction, rng)
    mask = np.zeros(rows.codes.shape[0], dtype=bool)
    mask[used[out]] = True
    held_out = moved(mask, rows.weight)
    train = _coded(labelled, rows, xp.where(held_out, 0.0, rows.weight))
    rest = _coded(labelled, rows, xp.where(held_out, rows.weight, 0.0))
    return _Parts(train, rest, int(train.counts.sum()))


def _coded(labelled: LabelledBlocks, rows: Rows, weight: Array) -> LabelledBlocks:
    """Blocks whose labels are codes, the weights of classes in those of rows."""
    K = len(labelled.classes)
    source = HeldSource(rows.X, rows.codes, weight)
    coded = LabelledBlocks(source, np.arange(K), labelled.counts, labelled.mass, np.ones(K))
    return _counted(coded)


def _block_parts(estimator: Any, labelled: LabelledBlocks, rng: np.random.RandomState) -> _Parts:
    if not estimator.early_stopping:
        return _Parts(labelled, None, int(_counted(labelled).counts.sum()))
    train, out = split_blocks(labelled, float(estimator.validation_fraction), rng)
    return _Parts(train, out, int(train.counts.sum()))


@dataclass(frozen=True)
class _Counts:
    """Rows of each class that have a weight, and what they weigh."""

    n_classes: int

    def __call__(self, rows: Rows) -> Sums:
        xp, sums = array_namespace(rows.weight), []
        for code in range(self.n_classes):
            weight = xp.where(rows.codes == code, rows.weight, 0.0)
            sums.append((int(xp.sum(xp.astype(weight > 0, xp.int64))), float(xp.sum(weight))))
        counts, mass = zip(*sums, strict=True)
        return {"counts": np.array(counts), "mass": np.array(mass)}


def _counted(labelled: LabelledBlocks) -> LabelledBlocks:
    """Blocks with the numbers and weights of the rows that have a weight."""
    found = labelled.reduce(_Counts(len(labelled.classes)))
    return replace(labelled, counts=found["counts"], mass=found["mass"] / labelled.factors)


def _all_rows(labelled: LabelledBlocks, n_candidates: int | None) -> Pool:
    source = labelled.source
    assert isinstance(source, HeldSource)
    X, weight = source.block.X, source.block.weight
    assert weight is not None
    xp = array_namespace(X)
    numbers = xp.arange(X.shape[0], dtype=xp.int64, device=device(X))
    return Pool(X, numbers, weight > 0, complete=True)


def _drawn_rows(labelled: LabelledBlocks, n_candidates: int | None) -> Pool:
    """Rows drawn from all blocks, stratified; all of them where they are few."""
    d, n = max(1, labelled.source.n_features), labelled.n_rows
    most = max(n_candidates or 0, min(_POOL, MOST_HELD // d), len(labelled.classes))
    drawn = draw_sample(labelled, most if n > most else n * len(labelled.classes))
    xp = array_namespace(drawn.numbers)
    every = xp.ones(drawn.numbers.shape[0], dtype=xp.bool, device=device(drawn.numbers))
    return Pool(drawn.rows.X, drawn.numbers, every, complete=False)


# ------------------------------------------------------------------------------------------
# Early stopping, results
# ------------------------------------------------------------------------------------------


class _Watch:
    """Early stopping: the loss of held-out rows, and the model with the smallest."""

    def __init__(self, settings: Any, growth: BlockGrowth, out: LabelledBlocks) -> None:
        self.settings, self.growth, self.out = settings, growth, out
        self.path: list[float] = []
        self.best = growth.model()
        self._least, self._since = growth.mean_loss(out), 0

    def saw_enough(self) -> bool:
        """Look at a new model; true when the last few were no better."""
        loss = self.growth.mean_loss(self.out)
        self.path.append(loss)
        if loss < self._least:
            self._since = 0 if loss < self._least * (1.0 - self.settings.tol) else self._since + 1
            self._least, self.best = loss, self.growth.model()
        else:
            self._since += 1
        return bool(self._since >= self.settings.n_iter_no_change)


def _expose(estimator: Any, growth: BlockGrowth, model: BlockModel) -> None:
    xp, like = array_namespace(model.coef), growth.labelled.source.like()
    q = model.span.size
    slopes, intercept = model.coef[:, :q], model.coef[:, q:]
    if not estimator.fit_intercept:
        intercept = xp.zeros((slopes.shape[0], 1), dtype=xp.float64, device=device(slopes))
    a = solve_lower(model.span.factor, slopes.T, transposed=True).T if q else slopes
    full = xp.concat([a, intercept], axis=1)
    if isinstance(growth.frame, ReferenceFrame):
        full = xp.concat([full, xp.zeros_like(full[:1, :])])
    estimator.dual_coef_, estimator.intercept_ = full[:, :q], full[:, q]
    estimator.import_points_ = model.numbers
    linear = Spanned(growth.labelled, model.span).linear()
    estimator.objective_ = model.objective
    estimator.dual_gap_ = (
        gap_by_blocks(linear, growth.frame, model.coef) if model.gap is None else model.gap
    )
    estimator.objective_path_ = moved(np.array(growth.path), like)
    estimator.n_iter_ = len(growth.path)
    move_decision(estimator, like)
    estimator._keep_these(model.vectors, growth.basis.kernel)
