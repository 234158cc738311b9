"""Every estimator and every carrier of rows: what the law that joins them is a table of.

A *carrier* is the form in which rows come to an estimator: an array of some library, a frame, a
file, batches, a Dask collection. All carriers here bring the same rows, which single precision
holds exactly, so that there is one model for each estimator, whatever carries its rows.
"""

import functools
import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
from array_api_compat import array_namespace, to_device
from sklearn import config_context

from grayzone import (
    BayesDecisionClassifier,
    ImportVectorMachine,
    ImportVectorMachineCV,
    MinimaxProbabilityMachine,
    RateLimitClassifier,
    SparseMinimaxProbabilityMachine,
    TightBoundClassifier,
    TightBoundLogisticRegression,
    TightBoundLogisticRegressionCV,
    TruncatedLogisticRegression,
    TruncatedLogisticRegressionCV,
)
from grayzone.sources import from_batches, open_npy, open_parquet

NAMES = ["age", "dose", "height"]
PARTS = [slice(0, 40), slice(40, 97), slice(97, 150)]  # of batches, chunks and row groups

# ------------------------------------------------------------------------------------------
# Rows
# ------------------------------------------------------------------------------------------


def rows():
    """Return 150 rows, labels of two and of three classes, and weights, some of them zero."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 3)) * (rng.random(size=(150, 3)) < 0.8)
    X = X.astype(np.float32).astype(np.float64)
    score = X @ [1.0, -0.7, 0.4] + 0.5 * X[:, 1] ** 2 + 0.8 * rng.normal(size=150)
    y = {2: (score > 0.2).astype(np.int64), 3: np.searchsorted([-0.2, 0.8], score)}
    weight = np.where(rng.random(150) < 0.1, 0.0, rng.uniform(0.5, 2.0, size=150))
    return X, y, weight


# ------------------------------------------------------------------------------------------
# Estimators
# ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """A model that is fitted, as accurately as it can be, to labels of some classes.

    ``draws`` says that it holds rows out: those of streams are drawn by their numbers, others than
    of rows that are held. ``weighs``: whether weights are an argument of its own fit.
    """

    model: Any
    n_classes: int = 2
    methods: tuple[str, ...] = (
        "decision_function",
        "predict",
        "predict_proba",
        "predict_log_proba",
    )
    draws: bool = False
    weighs: bool = True

    def fit(self, model, given):
        """Fit a model to what a carrier gives: X, y and weights, or a source of all three."""
        if self.weighs or len(given) < 3:
            return model.fit(*given)
        return model.fit(*given[:2], sample_weight=given[2])

    def reference(self, carrier):
        """Return the name of the carrier whose model is that of this one."""
        return "batches" if self.draws and not carrier.held else "NumPy"


_Truncated = functools.partial(TruncatedLogisticRegression, tol=1e-14)
_Bounds = functools.partial(TightBoundLogisticRegression, tol=1e-9)
_Points = functools.partial(ImportVectorMachine, max_import_points=8)
_POLICY = (*Case.methods, "policy_proba")
_SCORES = ("decision_function", "predict")
_CHOICES = ("predict", "predict_proba")

ESTIMATORS = {
    "linear": Case(_Truncated()),
    "plain": Case(_Truncated(zone=None)),
    "ramp": Case(_Truncated(loss="ramp")),
    "kernel": Case(_Truncated(kernel="rbf")),
    "three classes": Case(_Truncated(), 3),
    "centres": Case(_Truncated(kernel="rbf", centres=25, random_state=0)),
    "centres, three classes": Case(_Truncated(kernel="rbf", centres=25, random_state=0), 3),
    "few features": Case(TruncatedLogisticRegression(penalty="l1", tol=1e-12)),
    "few rows": Case(TruncatedLogisticRegression(penalty="l1", kernel="rbf", tol=1e-12)),
    "search": Case(TruncatedLogisticRegressionCV(Cs=[0.1, 1.0], zones=(0.5, 1.0), cv=2, tol=1e-14)),
    "search, its threshold moved": Case(
        TruncatedLogisticRegressionCV(
            Cs=[0.1, 1.0], zones=(1.0,), cv=2, tol=1e-14, tune_threshold=True
        )
    ),
    "search on centres": Case(
        TruncatedLogisticRegressionCV(
            Cs=[0.1, 1.0],
            zones=(1.0,),
            cv=2,
            tol=1e-14,
            kernel="rbf",
            centres=25,
            random_state=0,
        )
    ),
    "import points": Case(_Points()),
    "import points that move": Case(_Points(move_points=True)),
    "import points, three classes": Case(_Points(), 3),
    "import points, held-out rows": Case(
        _Points(early_stopping=True, validation_fraction=0.3, random_state=0), draws=True
    ),
    "import point search": Case(
        ImportVectorMachineCV(Cs=[0.1, 1.0], cv=2, max_import_points=5, random_state=0)
    ),
    "import point search, balanced": Case(
        ImportVectorMachineCV(
            Cs=[0.1, 1.0],
            cv=2,
            scoring="neg_log_loss",
            max_import_points=3,
            zone=1.0,
            costs="balanced",
            class_weight="balanced",
        ),
    ),
    "import point search, three classes": Case(
        ImportVectorMachineCV(
            Cs=[0.1, 1.0],
            cv=3,
            max_import_points=4,
            costs=[[0, 2, 1], [1, 0, 1], [3, 1, 0]],
        ),
        3,
    ),
    "import point search, held-out rows": Case(
        ImportVectorMachineCV(
            Cs=[0.1, 1.0], validation_fraction=0.3, max_import_points=4, random_state=0
        ),
        draws=True,
    ),
    "import point search, by formula": Case(
        ImportVectorMachineCV(Cs=[0.1, 1.0], scoring="gacv", max_import_points=4)
    ),
    "minimax": Case(MinimaxProbabilityMachine(random_state=0), methods=_SCORES),
    "kernel minimax": Case(MinimaxProbabilityMachine(kernel="rbf", cv=None), methods=_SCORES),
    "sparse minimax": Case(
        SparseMinimaxProbabilityMachine(n_bases=3, random_state=0), methods=_SCORES
    ),
    "minimax, three classes": Case(
        MinimaxProbabilityMachine(moment_error=(0.1, 0.01), random_state=0), 3, methods=_SCORES
    ),
    "sparse minimax, three classes": Case(
        SparseMinimaxProbabilityMachine(n_bases=2, candidates="boosted", cv=None, stopping=None),
        3,
        methods=_SCORES,
    ),
    "sparse minimax, costs": Case(
        SparseMinimaxProbabilityMachine(
            n_bases=2, costs={0: 1.0, 1: 3.0}, moment_error=0.1, random_state=0
        ),
        methods=_SCORES,
    ),
    "bounds": Case(_Bounds(), methods=_POLICY),
    "one bound": Case(_Bounds(n_bounds=1), methods=_POLICY),
    "undecided": Case(_Bounds(reject_cost=0.2, n_bounds=4), methods=_POLICY),
    "limited": Case(_Bounds(max_fpr=0.1, n_bounds=2, confidence=None), methods=_POLICY),
    "bounds, held-out rows": Case(
        _Bounds(max_fpr=0.2, n_bounds=2, validation_fraction=0.3, random_state=0),
        methods=_POLICY,
        draws=True,
    ),
    "bound search": Case(
        TightBoundLogisticRegressionCV(Cs=[0.1, 1.0], cv=2, tol=1e-9), methods=_POLICY
    ),
    "bound search, undecided": Case(
        TightBoundLogisticRegressionCV(Cs=[0.1, 1.0], cv=2, reject_cost=0.2, tol=1e-9),
        3,
        methods=_POLICY,
    ),
    "bounds of any model": Case(TightBoundClassifier(_Truncated(), n_bounds=3), methods=_CHOICES),
    "decisions": Case(
        BayesDecisionClassifier(_Truncated(zone=None), costs={0: 3.0, 1: 1.0}, reject_cost=0.4),
        methods=(*Case.methods, "expected_costs"),
    ),
    "limits of any model": Case(
        RateLimitClassifier(_Truncated(), max_fpr=0.3, confidence=0.8, random_state=0), weighs=False
    ),
}

# ------------------------------------------------------------------------------------------
# Carriers
# ------------------------------------------------------------------------------------------


def _as_given(values):
    return values


def _never():
    return None


@dataclass(frozen=True)
class Carrier:
    """A form in which rows come.

    Attributes
    ----------
    X : callable
        Puts rows into this form; where ``source`` is given, what that cuts them into.
    y : callable
        Puts labels, or weights, into it.
    source : callable or None
        Makes a source of a folder, rows, labels and weights, which then come together.
    kind : {"memory", "elsewhere", "file", "stream", "cluster"}
        Where rows are: in NumPy's memory or in another library's, in a file, a stream or with Dask.
    single : bool
        Whether rows come in single precision.
    named : bool
        Whether features have names.
    missing : callable
        Returns why this carrier cannot be had here, or None.
    """

    X: Callable[[Any], Any] = _as_given
    y: Callable[[Any], Any] = _as_given
    source: Callable[..., Any] | None = None
    kind: str = "memory"
    single: bool = False
    named: bool = False
    missing: Callable[[], str | None] = _never

    @property
    def held(self):
        """Whether all rows are in one place, so that they can be read again at no cost."""
        return self.kind in ("memory", "elsewhere")

    def fit_arguments(self, folder, X, y=None, weight=None):
        """Return what ``fit`` is given."""
        if self.source is not None:
            return (self.source(folder, self._precise(X), y, weight),)
        # of array libraries only NumPy has labels that are no numbers
        stays = y is None or (self.kind == "elsewhere" and y.dtype.kind == "U")
        return (
            self.rows(folder, X),
            y if stays else self.y(y),
            None if weight is None else self.y(weight),
        )

    def rows(self, folder, X):
        """Return what ``predict`` is given."""
        X = self._precise(X)
        return self.X(X) if self.source is None else self.source(folder, X, None, None)

    def _precise(self, X):
        return X.astype(np.float32) if self.single else X

    def context(self):
        """Return the context in which arrays of other libraries stay what they are."""
        return config_context(array_api_dispatch=self.kind == "elsewhere")


def _npy(folder, X, y, weight):
    paths = []
    for name, values in (("X", X), ("y", y), ("weight", weight)):
        paths.append(None if values is None else folder / f"{name}.npy")
        if values is not None:
            np.save(paths[-1], values)
    return open_npy(*paths, block_rows=60)


def _parquet(folder, X, y, weight):
    frame = pd.DataFrame(X, columns=NAMES[: X.shape[1]])
    for name, values in (("label", y), ("weight", weight)):
        if values is not None:
            frame[name] = values
    frame.to_parquet(folder / "rows.parquet", row_group_size=60)
    target, by = (None if a is None else name for a, name in ((y, "label"), (weight, "weight")))
    return open_parquet(
        folder / "rows.parquet", target, by, columns=NAMES[: X.shape[1]], block_rows=45
    )


def _batches(make):
    def source(folder, X, y, weight):
        def batches():
            for part in PARTS:
                yield tuple(
                    None if values is None else values[part] for values in (make(X), y, weight)
                )

        return from_batches(batches)

    return source


def _dask_array(values):
    import dask.array as da

    values = np.asarray(values)
    sizes = tuple(len(values[part]) for part in PARTS)
    return da.from_array(values, chunks=(sizes, *((n,) for n in values.shape[1:])))


def _dask_frame(X):
    import dask.dataframe as dd

    return dd.from_pandas(pd.DataFrame(X, columns=NAMES[: X.shape[1]]), npartitions=4)


def _dask_series(values):
    import dask.dataframe as dd

    return dd.from_pandas(pd.Series(values), npartitions=4)


def _torch(values, device="cpu"):
    import torch

    return torch.asarray(np.array(values), device=device)


def _strict(values):
    """Put values on a device that is not the processor, from where nothing comes unasked."""
    import array_api_strict as xp

    return xp.asarray(np.array(values), device=xp.Device("device1"))


def _cupy(values):
    import cupy

    return cupy.asarray(values)


def _without(module):
    """Return a function that says whether a library is not here."""

    def missing():
        try:
            __import__(module)
        except ImportError:
            return f"{module} is not installed"
        return None

    return missing


def _no_cuda_in_torch():
    reason = _without("torch")()
    if reason is None:
        import torch

        reason = None if torch.cuda.is_available() else "PyTorch finds no CUDA device"
    return reason


def _no_cuda_in_cupy():
    reason = _without("cupy")()
    if reason is None:
        import cupy

        try:
            cupy.cuda.runtime.getDeviceCount()
        except cupy.cuda.runtime.CUDARuntimeError:
            reason = "CuPy finds no CUDA device"
    return reason


def _pandas(X):
    return pd.DataFrame(X, columns=NAMES[: X.shape[1]])


def _polars(X):
    import polars as pl

    return pl.DataFrame(X, schema=NAMES[: X.shape[1]])


def _polars_series(values):
    import polars as pl

    return pl.Series(values)


_OnTorch = functools.partial(Carrier, _torch, _torch, kind="elsewhere", missing=_without("torch"))
_cuda = functools.partial(_torch, device="cuda")
_OnCuda = functools.partial(Carrier, _cuda, _cuda, kind="elsewhere", missing=_no_cuda_in_torch)
_OnCupy = functools.partial(Carrier, _cupy, _cupy, kind="elsewhere", missing=_no_cuda_in_cupy)
_OnDask = functools.partial(Carrier, kind="cluster", missing=_without("dask"))

CARRIERS = {
    "NumPy": Carrier(),
    "NumPy, Fortran order": Carrier(np.asfortranarray),
    "NumPy, single": Carrier(single=True),
    "CSR": Carrier(sp.csr_array),
    "CSR, single": Carrier(sp.csr_array, single=True),
    "CSC": Carrier(sp.csc_array),
    "pandas": Carrier(_pandas, pd.Series, named=True),
    "polars": Carrier(_polars, _polars_series, named=True, missing=_without("polars")),
    "npy": Carrier(source=_npy, kind="file"),
    "npy, single": Carrier(source=_npy, kind="file", single=True),
    "Parquet": Carrier(source=_parquet, kind="file", named=True),
    "batches": Carrier(source=_batches(np.asarray), kind="stream"),
    "batches of CSR": Carrier(source=_batches(sp.csr_array), kind="stream"),
    "Dask array": _OnDask(_dask_array, _dask_array),
    "Dask frame": _OnDask(_dask_frame, _dask_series, named=True),
    "PyTorch": _OnTorch(),
    "PyTorch, single": _OnTorch(single=True),
    "array-api-strict": Carrier(
        _strict, _strict, kind="elsewhere", missing=_without("array_api_strict")
    ),
    "PyTorch CUDA": _OnCuda(),
    "PyTorch CUDA, single": _OnCuda(single=True),
    "CuPy": _OnCupy(),
}
GPU = frozenset(name for name in CARRIERS if "CUDA" in name or "CuPy" in name)
STREAMED = tuple(name for name, carrier in CARRIERS.items() if not carrier.held)
ELSEWHERE = tuple(name for name, carrier in CARRIERS.items() if carrier.kind == "elsewhere")
SPARSE = ("CSR", "CSR, single", "CSC")


# ------------------------------------------------------------------------------------------
# What is refused, and what is not there
# ------------------------------------------------------------------------------------------

# The estimators that need all rows at once, and those that compute with NumPy alone.
_AT_ONCE = (
    "few features",
    "few rows",
    "search",
    "search, its threshold moved",
    "search on centres",
    "bound search",
    "bound search, undecided",
    "minimax",
    "kernel minimax",
    "minimax, three classes",
    "bounds of any model",
    "decisions",
    "limits of any model",
)
_DENSE = ("import points that move",)
_NUMPY_ALONE = (
    "few features",
    "few rows",
    "bounds of any model",
)
_AROUND = ("bounds of any model", "decisions", "limits of any model")


def _cells(estimators, carriers, error, match):
    return {(e, c): (error, match) for e in estimators for c in carriers}


# (estimator, carrier): error of `fit`
REFUSED = {
    **_cells(_AT_ONCE, STREAMED, ValueError, "{name} takes no blocks of rows; got "),
    **_cells(["kernel"], STREAMED, ValueError, "kernel='rbf' needs all rows at once; blocks are"),
    **_cells(_DENSE, SPARSE, TypeError, "Sparse data was passed for X, but dense"),
    **_cells(
        ["import points that move"],
        (*STREAMED, *ELSEWHERE),
        ValueError,
        "move_points=True needs dense rows that are held by NumPy",
    ),
    **_cells(_NUMPY_ALONE, ELSEWHERE, TypeError, "{name} computes with NumPy; got "),
}
# (estimator, carrier): error of `predict` and the like, by models fitted to NumPy arrays
REFUSED_IN_PREDICT = {
    **_cells(_AROUND, STREAMED, ValueError, "{name} takes no blocks of rows; got "),
    **_cells(
        _DENSE,
        (*SPARSE, "batches of CSR"),
        TypeError,
        "Sparse data was passed for X, but dense",
    ),
    **_cells(
        ["bounds of any model"],
        ELSEWHERE,
        TypeError,
        "{name} computes with NumPy; got ",
    ),
}

# Fitted attributes with an entry for each row, which streams and clusters do not give.
_OF_ROWS = frozenset({"support_", "support_vectors_", "dual_coef_", "partition_"})
ABSENT = {
    (estimator, carrier): _OF_ROWS
    for estimator in ("linear", "plain", "ramp", "three classes")
    for carrier in STREAMED
}
ABSENT |= {
    (estimator, carrier): frozenset(
        {"partition_", "restriction_cost_", "restriction_cost_is_bound_"}
    )
    for estimator in ("centres", "centres, three classes")
    for carrier in STREAMED
}

# How a solution was found and how good it is, which is another way in other places: these are
# there, finite, and not compared.
_EFFORT = re.compile(r"^n_iter_$|^n_iters_path_$|(gap|residual|decrease)_$")


def is_effort(name):
    """Whether an attribute says how a fit went rather than what came out."""
    return _EFFORT.search(name) is not None


# ------------------------------------------------------------------------------------------
# Bad input
# ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Bad:
    """Rows, labels and weights that no estimator takes, and what is said of them.

    Attributes
    ----------
    change : callable
        Spoils rows, labels and weights.
    said : mapping
        What the error says, by the name of a carrier, by where its rows are ("cluster", say), or by
        whether they are "held" or "streamed": the first of these that is there. ``{name}`` stands
        for the name of the class whose ``fit`` meets the rows.
    error : type
        Of the error.
    without : tuple of str
        Carriers that cannot bring such rows.
    """

    change: Callable[..., tuple[Any, Any, Any]]
    said: dict[str, str]
    error: type[Exception] = ValueError
    without: tuple[str, ...] = ()

    def match(self, carrier, model):
        """Return the pattern of the error's sentence."""
        form = CARRIERS[carrier]
        place = "held" if form.held else "streamed"
        said = next(self.said[key] for key in (carrier, form.kind, place) if key in self.said)
        # the wrapper of decisions leaves rows to the classifier that it is around
        inner = getattr(model, "estimator", model)
        return said.replace("{name}", rf"({type(model).__name__}|{type(inner).__name__})")


def _with_entry(values, number, value):
    values = values.copy()
    values.flat[number] = value
    return values


def _same(sentence):
    return {"held": sentence, "streamed": sentence}


_IN_ROWS = r"in rows \d+ to \d+; values must be finite"
_NULLS = r"Column 'height' has 1 nulls .*rows \d+ to \d+ of all"
BAD = {
    "one class": Bad(
        lambda X, y, weight: (X, np.ones_like(y), weight),
        _same(r"at least two classes with a positive weight; got one class: \[1\]\."),
    ),
    "labels that are measurements": Bad(
        lambda X, y, weight: (X, y + 0.5 * (np.arange(y.size) % 2) + 0.1, weight),
        _same("Unknown label type: continuous"),
    ),
    "NaN": Bad(
        lambda X, y, weight: (_with_entry(X, 5, np.nan), y, weight),
        {
            "held": r"Input X contains NaN\.\n{name} does not accept missing values",
            "Parquet": _NULLS,
            "streamed": f"X contains NaN or infinity, {_IN_ROWS}",
        },
    ),
    "infinity": Bad(
        lambda X, y, weight: (_with_entry(X, 5, np.inf), y, weight),
        {
            "held": "Input X contains infinity or a value too large for",
            "streamed": f"X contains NaN or infinity, {_IN_ROWS}",
        },
    ),
    "a label too few": Bad(
        lambda X, y, weight: (X, y[:-1], weight),
        {
            "held": r"inconsistent numbers of samples: \[150, 149\]",
            "file": r"y \(.*\) must have one entry for each of the 150 rows of .* \(149,\)",
            "stream": r"rows 97 to 149 have 53 rows of X and 52 labels",
            "cluster": "y must have one entry a row; X has 150 rows, got 149",
        },
        without=("Parquet",),
    ),
    "a weight too few": Bad(
        lambda X, y, weight: (X, y, weight[:-1]),
        {
            "held": r"sample_weight must have shape \(150,\), one weight a row; got .*\(149,\)",
            "file": r"sample_weight \(.*\) must have one entry for each of the 150 rows of .*149,",
            "stream": r"sample_weight must have one weight a row; rows 97 to 149 have .*\(52,\)",
            "cluster": "sample_weight must have one entry a row; X has 150 rows, got 149",
        },
        without=("Parquet",),
    ),
    "a negative weight": Bad(
        lambda X, y, weight: (X, y, _with_entry(weight, 5, -2.0)),
        {
            "held": "sample_weight must not be negative; got -2 in row 5",
            "streamed": r"sample_weight must be finite and not negative; see rows 0 to \d+",
        },
    ),
    "a weight that is NaN": Bad(
        lambda X, y, weight: (X, y, _with_entry(weight, 5, np.nan)),
        {
            "held": "sample_weight must be finite; got nan in row 5",
            "Parquet": _NULLS.replace("height", "weight"),
            "streamed": r"sample_weight must be finite and not negative; see rows 0 to \d+",
        },
    ),
    "no weight at all": Bad(
        lambda X, y, weight: (X, y, 0.0 * weight),
        {
            "held": "sample_weight must have a positive entry; all are zero",
            "streamed": "at least two classes with a positive weight",
        },
    ),
    "no labels": Bad(
        lambda X, y, weight: (X, None, None),
        {
            "held": "This {name} estimator requires y to be passed, but the target y is None",
            "cluster": "y must not be None beside a Dask array or frame: a fit needs labels",
            "streamed": "Source has no labels, only rows to predict for; a fit needs them",
        },
    ),
    "no rows": Bad(
        lambda X, y, weight: (X[:0], y[:0], weight[:0]),
        {
            "held": r"Found array with 0 sample\(s\) .* while a minimum of 1 is required by {name}",
            "streamed": "There are no rows: ",
        },
    ),
    "no features": Bad(
        lambda X, y, weight: (X[:, :0], y, weight),
        {
            "held": r"Found array with 0 feature\(s\) .* a minimum of 1 is required by {name}",
            "pandas": "at least one array or dtype is required",  # as scikit-learn has it
            "Parquet": "columns must name at least one feature",
            "streamed": "0 feature|no features|at least one feature",
        },
    ),
}

# ------------------------------------------------------------------------------------------
# Reading results
# ------------------------------------------------------------------------------------------


def fitted_attributes(model):
    """Return the public fitted attributes of a model, by name, as they are."""
    names = {n for n in (*dir(type(model)), *vars(model)) if re.fullmatch(r"[^_].*[^_]_", n)}
    values = {}
    for name in sorted(names):
        try:
            values[name] = getattr(model, name)
        except AttributeError:  # a property that this fit does not have
            continue
    return values


def plain(value):
    """Turn what comes from any carrier into NumPy's, numbers, or containers of these."""
    if inspect.isgenerator(value):
        return np.concatenate([plain(part) for part in value])
    if hasattr(value, "compute"):
        value = value.compute()
    if sp.issparse(value):
        return value.toarray()
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(plain(part) for part in value)
    module = type(value).__module__
    if module.startswith("torch"):
        return value.cpu().numpy()
    if module.startswith("cupy"):
        return value.get()
    if module.startswith("array_api_strict"):
        return np.from_dlpack(to_device(value, array_namespace(value).Device("CPU_DEVICE")))
    return value


def assert_equal(found, expected, rtol, name):
    """Check that two values, read by :func:`plain`, are the same to within rounding errors."""
    if isinstance(expected, dict):
        assert found.keys() == expected.keys(), name
        for key, value in expected.items():
            assert_equal(found[key], value, rtol, f"{name}[{key!r}]")
    elif isinstance(expected, (list, tuple)):
        assert type(found) is type(expected), name
        assert len(found) == len(expected), name
        for k, (mine, value) in enumerate(zip(found, expected, strict=True)):
            assert_equal(mine, value, rtol, f"{name}[{k}]")
    elif isinstance(expected, np.ndarray) and expected.dtype.kind == "f":
        assert found.shape == expected.shape, name
        size = np.max(np.abs(expected), initial=0.0, where=np.isfinite(expected))
        np.testing.assert_allclose(found, expected, rtol=0, atol=rtol * size, err_msg=name)
    elif isinstance(expected, np.ndarray):
        np.testing.assert_array_equal(found, expected, err_msg=name)
    elif isinstance(expected, float):
        np.testing.assert_allclose(found, expected, rtol=rtol, err_msg=name)
    else:
        assert found == expected, name
