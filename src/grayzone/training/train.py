"""Training from Python: what the command does, with a table in memory as well."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from grayzone.tables.frames import as_table
from grayzone.training import job
from grayzone.training.model import DecisionModel
from grayzone.training.request import BEST, TIME_LIMIT, Request


def train(
    table: Any,
    target: str,
    *,
    costs: Any = None,
    reject_cost: float | None = None,
    max_fpr: float | None = None,
    min_recall: float | None = None,
    min_precision: float | None = None,
    positive: Any = None,
    model: str = "auto",
    prefer: str = BEST,
    drop: Sequence[str] = (),
    keep: Sequence[str] = (),
    ids: Sequence[str] = (),
    time: str | None = None,
    group: str | None = None,
    decimal: str | None = None,
    sheet: str | None = None,
    missing: Sequence[str] = (),
    strict: bool = False,
    segment: Sequence[str] = (),
    limit_by: str | None = None,
    cost_known_after: Sequence[str] = (),
    time_limit: float = TIME_LIMIT,
    stop_after: float | None = None,
    seed: int = 0,
    out: str | Path | None = None,
    overwrite: bool = False,
    progress: Callable[[str, int, int], None] | None = None,
) -> DecisionModel:
    """Train a decision model on a table, as ``grayzone train`` does.

    The model is a :class:`~grayzone.DecisionEnsembleClassifier`. Its members, the other models of
    this package and decisions without any model are compared beside it on the same rows, none of
    which had been seen by what decides on it.

    Parameters
    ----------
    table : DataFrame or path
        A table of pandas or polars, or a file: CSV, TSV, Parquet, Arrow or .xlsx.
    target : str
        Column to decide on.
    costs : str, mapping or array of shape (K, K), default=None
        What errors cost; 1 each by default. ``"FN=10,FP=1"``, ``{label: cost}`` (what it costs to
        misclassify a row of that label) or ``cost[true, decided]`` in the order of `classes_` of
        the model, the sorted labels, whichever is positive. A cost may be a range, ``"FN=3..8"`` or
        ``(3, 8)``, or the name of a column that has it for each row, which models learn from, too.
    reject_cost : float, default=None
        Cost of staying undecided; None: always decide.
    max_fpr, min_recall, min_precision : float, default=None
        A limit on a rate, kept on new rows with a probability of .95, in place of costs.
    positive : label, default=None
        Positive one of two; by default what is called so, or the rarer one.
    model : str, default="auto"
        "auto" is the ensemble. One of its members ("logistic-regression", "random-forest",
        "kernel-logistic", "boosting", "extra-trees", "splines") or another model ("truncated",
        "tight-bound", "import-vector", "minimax") is fitted alone.
    prefer : {"best", "simple"}, default="best"
        "simple" keeps the simplest model within one standard error of the ensemble.
    drop, keep : sequence of str, default=()
        Columns not to learn from; the only ones to learn from.
    ids : sequence of str, default=()
        Columns that say which row it is; they are not learned from.
    time : str, default=None
        Column that puts rows in order: models are judged on later rows than they learned from.
    group : str, default=None
        Column of customers, patients, …: models are judged on others than they learned from.
    decimal : {".", ","}, default=None
        Decimal sign of columns of text that allow both.
    sheet : str, default=None
        Sheet of a workbook.
    missing : sequence of str, default=()
        Words, or numbers such as "-999", that mean that a value is missing, in any column. In
        columns of numbers "-", "?", "n/a", "NULL" and the like do anyway.
    strict : bool, default=False
        Whether to stop where the table has serious faults, such as leaks.
    segment : sequence of str, default=()
        Columns, also dropped ones, for whose values it is told how decisions do; by default those
        of few values where costs differ by more than chance explains.
    limit_by : str, default=None
        Column in each of whose segments the limit on a rate is kept, by one threshold.
    cost_known_after : sequence of str, default=()
        Columns of `costs` that are known only after the decision: models do not learn from them,
        decide by their means over the rows of each class, and are judged by what rows cost.
    time_limit : float, default=120.0
        Seconds of one processor for fitting, comparing and explaining. They are counted in work, so
        that the same seed gives the same model on a busy machine.
    stop_after : float, default=None
        Seconds of the day after which the best so far is kept, and a note says what there was no
        time for. The first model is always finished.
    seed : int, default=0
        Of everything random.
    out : path, default=None
        Folder for model, numbers and report; None writes nothing.
    overwrite : bool, default=False
        Whether to replace an earlier model there.
    progress : callable, default=None
        Called with the name of a model, how much of it is done, and how much there is.

    Returns
    -------
    model : DecisionModel
        A fitted classifier of tables, with the page about it in ``report_html`` and its numbers in
        ``metrics``; it shows in a notebook.

    Raises
    ------
    UserError
        If something cannot be used; nothing is written then.

    See Also
    --------
    load_model : The same model from its file.
    DecisionEnsembleClassifier : What is fitted, for arrays.

    Examples
    --------
    >>> import grayzone
    >>> from sklearn.datasets import load_breast_cancer
    >>> table = load_breast_cancer(as_frame=True).frame.iloc[:, -6:]
    >>> costs = {0: 10, 1: 1}  # missing a malignant tumour, 0, is ten times as bad
    >>> model = grayzone.train(table, "target", costs=costs, model="logistic-regression")
    >>> model.metrics["verdict"]["deploy"], model.promise.cost < 0.4
    (True, True)
    >>> model.predict(table)[:3]
    array([0, 0, 0])
    """
    source = Path(table) if isinstance(table, str | Path) else as_table(table)
    request = Request(
        source,
        target,
        None if out is None else Path(out),
        positive=None if positive is None else str(positive),
        costs=costs,
        reject_cost=reject_cost,
        max_fpr=max_fpr,
        min_recall=min_recall,
        min_precision=min_precision,
        model=model,
        prefer=prefer,
        drop=tuple(drop),
        keep=tuple(keep),
        ids=tuple(ids),
        time=time,
        group=group,
        decimal=decimal,
        sheet=sheet,
        missing=tuple(missing),
        strict=strict,
        segment=tuple(segment),
        limit_by=limit_by,
        cost_known_after=tuple(cost_known_after),
        time_limit=time_limit,
        stop_after=stop_after,
        seed=seed,
        overwrite=overwrite,
    )
    return job.train(request, progress or (lambda name, done, total: None)).model
