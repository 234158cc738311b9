"""A decision model with all that is needed to use it, in one file that runs no code on loading."""

from __future__ import annotations

import io
import warnings
import zipfile
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import Tags

from grayzone.decision import action_costs
from grayzone.estimators.facts import unwrapped
from grayzone.numerics.checks import as_labels, encode_labels
from grayzone.reporting.parts import Importance, Promise
from grayzone.tables.changes import changes_of
from grayzone.tables.errors import UserError, shortened
from grayzone.tables.frames import as_table
from grayzone.tables.output import whole_file
from grayzone.tables.schema import Schema
from grayzone.training.archive import file_at, pack, stored, unpack
from grayzone.training.contents import ForeignTypesError, check_contents, lean
from grayzone.training.labels import TEXT, actions_of, labels_of
from grayzone.training.note import Note, read_note, write_note
from grayzone.training.showing import described, shown
from grayzone.training.soundness import check_soundness, in_one_sentence
from grayzone.training.stakes import UNDECIDED, Stakes
from grayzone.training.today import stakes_today

Array = Any
Table = Any  # a pandas DataFrame

FORMAT = 4
FILE = "model.skops"
MOST_PACKED = 2**31  # bytes of a file
# What no file is at fault for: rights, memory, a library that is missing or does not work here.
_OF_THE_MACHINE = (ImportError, MemoryError, OSError)


class _Today(NamedTuple):
    """What decisions are asked for: what is at stake, costs of each row, whether as in training."""

    stakes: Stakes
    rows: Array | None
    usual: bool


@dataclass(frozen=True, eq=False, repr=False)
class DecisionModel(ClassifierMixin, BaseEstimator):
    """A fitted classifier of the rows of a table, and what it was made for.

    ``grayzone train`` and :func:`grayzone.train` make it, :func:`grayzone.load_model` reads it from
    a file. It is a classifier of scikit-learn that is fitted and stays as it is: `fit` and
    `set_params` refuse, a clone is the model itself. A table is a DataFrame of pandas or polars, or
    the path of a file (CSV, Parquet and what else ``train`` reads); columns are found by their
    names, and other columns do not matter.

    Parameters
    ----------
    estimator : Pipeline
        The fitted pipeline, from columns to places in the list of classes.
    schema : Schema
        Columns that it needs.
    stakes : Stakes
        Classes, the positive one of two last, and costs.
    cut : float or None
        Probability of the positive class from which on to decide for it, where a limit on the
        false positive rate set it; None where costs do.
    about : dict
        Name of the model, versions, fingerprint of the data, when it was made.
    label_type : {"text", "int", "float", "bool"}, default="text"
        Type of the labels in the table.
    promise : Promise, default=None
        What a decision will cost on new rows.
    background : DataFrame, default=None
        A few typical rows, with the columns of the schema, that reasons are told against.
    importance : tuple of Importance, default=()
        Which columns matter, by what decisions on held-out rows cost without them.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Labels of the table's own type, sorted: the order of `predict_proba`.
    positive : label or None
        The positive one of two classes.
    feature_names_in_ : ndarray of shape (n_features,)
        Columns that it needs.
    n_features_in_ : int
        Their number.
    report_html : str or None
        The page about it, from :func:`grayzone.train`; it is not in the file of a model.
    metrics : dict or None
        The numbers of that page.

    See Also
    --------
    grayzone.load_model : A model from its file.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import grayzone
    >>> rng = np.random.default_rng(0)
    >>> age = rng.uniform(20, 70, 400)
    >>> left = np.where(age + rng.normal(0, 12, 400) > 50, "yes", "no")
    >>> table = pd.DataFrame({"age": age, "left": left})
    >>> model = grayzone.train(table, "left", costs="yes=5,no=1", model="logistic-regression")
    >>> round(model.threshold, 3)
    0.167
    >>> new = pd.DataFrame({"age": [25.0, 40.0, 65.0]})
    >>> model.predict(new).tolist()
    ['no', 'yes', 'yes']
    >>> model.predict(new, costs={"yes": 1, "no": 1}).tolist()
    ['no', 'no', 'yes']
    """

    estimator: Any
    schema: Schema
    stakes: Stakes
    cut: float | None
    about: dict[str, Any]
    label_type: str = TEXT
    promise: Promise | None = None
    background: Table | None = None
    importance: tuple[Importance, ...] = ()
    report_html: str | None = field(default=None, init=False)
    metrics: dict[str, Any] | None = field(default=None, init=False)

    # What scikit-learn asks a classifier

    @property
    def classes_(self) -> Array:
        """Labels, sorted."""
        return np.sort(self._labels)

    @property
    def feature_names_in_(self) -> Array:
        """Columns that it needs."""
        return np.array(self.schema.names, dtype=object)

    @property
    def n_features_in_(self) -> int:
        """Number of columns that it needs."""
        return len(self.schema.columns)

    def fit(self, X: Any, y: Any = None) -> Self:
        """Refuse: it is fitted.

        Parameters
        ----------
        X, y : object
            Whatever is given.
        """
        raise TypeError(
            "A DecisionModel is fitted, and does not change: grayzone.train makes another one. "
            "Tools that call fit take sklearn.frozen.FrozenEstimator(model)."
        )

    def set_params(self, **params: Any) -> Self:
        """Refuse to change anything: costs of the day are arguments of `predict` and `decide`.

        Parameters
        ----------
        **params : object
            There must be none.

        Returns
        -------
        DecisionModel
            The model itself.
        """
        if params:
            raise TypeError(
                f"A DecisionModel is fitted, and does not change; got {', '.join(params)}. Costs "
                "of the day are arguments of predict and decide; grayzone.train makes another one."
            )
        return self

    def __sklearn_clone__(self) -> Self:
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.string = tags.input_tags.categorical = True
        tags.classifier_tags.multi_class = not self.stakes.binary
        return tags

    # What it was made for

    @property
    def positive(self) -> Any:
        """The positive one of two classes."""
        return self._labels[1].item() if self.stakes.binary else None

    @property
    def threshold(self) -> float | None:
        """Probability from which on the positive one of two classes is decided for.

        Where rows may stay undecided, these are just below it. None where rows have costs of their
        own, and so thresholds.
        """
        if self.cut is not None or self.stakes.columns:
            return self.cut
        between = self.stakes.undecided_between
        return self.stakes.threshold if between is None else between[1]

    @property
    def zone(self) -> tuple[float, float] | None:
        """Probabilities of the positive class between which a decision is in the gray zone.

        There the best decision would be another one if the costs changed by a factor of two, or
        within the range that they were given as. None where rows have costs of their own.
        """
        return None if self.stakes.columns else self.stakes.near_range(self.cut)

    @property
    def classifier(self) -> Any:
        """The fitted classifier itself, out of everything around it."""
        return unwrapped(self.estimator)[0]

    @cached_property
    def _labels(self) -> Array:
        """Labels by place: the order that the pipeline knows, the positive one of two last."""
        return labels_of(self.stakes.classes, self.label_type)

    # What it decides

    def predict_proba(self, X: Any) -> Array:
        """Return the probabilities of the classes.

        Parameters
        ----------
        X : DataFrame or path
            The table.

        Returns
        -------
        proba : ndarray of shape (n_samples, n_classes)
            In the order of `classes_`.
        """
        return self.proba_by_place(self._table(X))[:, np.argsort(self._labels)]

    def predict(self, X: Any, costs: Any = None, reject_cost: float | None = None) -> Array:
        """Return the decision about each row, a label of the table's own type.

        Parameters
        ----------
        X : DataFrame or path
            The table.
        costs : mapping or array-like, default=None
            Costs of the day; None are those of training. What it costs to misclassify each label,
            ``{label: cost}``, of two classes also ``{"FN": cost, "FP": cost}``: a number, a range
            ``(low, high)``, the name of a column, or an array with one for each row. The same as
            text, ``"FN=amount,FP=3..8"``. Or an array ``cost[true, decided]`` or
            ``cost[row, true, decided]`` in the order of `classes_`.
        reject_cost : float, default=None
            Cost of the day of staying undecided; None is that of training, infinity no choice.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            "undecided", or -1 beside numbers, for rows that it leaves undecided.
        """
        table = self._table(X)
        today = self._today(table, costs, reject_cost)
        return self._actions(today)[self._places(self._features(table), today)]

    def decide(
        self, table: Any, costs: Any = None, reject_cost: float | None = None, reasons: int = 0
    ) -> Table:
        """Return the decision about each row, and what it rests on.

        Parameters
        ----------
        table : DataFrame or path
            The table.
        costs : mapping or array-like, default=None
            Costs of the day, as in :meth:`predict`.
        reject_cost : float, default=None
            Cost of the day of staying undecided, as in :meth:`predict`.
        reasons : int, default=0
            How many reasons to tell for each row.

        Returns
        -------
        decisions : DataFrame
            ``decision``, a label, and whether it is ``undecided``; ``probability_<label>``;
            ``in_gray_zone``, whether another decision would be the best if the costs changed by a
            factor of two (or within the range that they are given as); ``expected_cost_<label>``
            of each decision; ``reason_1`` and so on.
        """
        frame = self._table(table)
        today = self._today(frame, costs, reject_cost)
        features = self._features(frame)
        proba = self._proba(features)
        places = self._places(features, today, proba)
        out: dict[str, Any] = {"decision": self._actions(today)[places], "undecided": places < 0}
        for k, label in enumerate(self.stakes.classes):
            out[f"probability_{label}"] = proba[:, k]
        stakes = today.stakes
        out["in_gray_zone"] = stakes.near(proba, today.rows, self.cut)
        known = stakes.costs if today.rows is None else today.rows
        expected = action_costs(proba, known, reject_cost=stakes.reject_cost)
        for k, label in enumerate([*stakes.classes, UNDECIDED][: expected.shape[1]]):
            out[f"expected_cost_{label}"] = expected[:, k]
        decided = pd.DataFrame(out, index=frame.index)
        if not reasons:
            return decided
        from grayzone.training.reasons import reasons_of

        return decided.join(reasons_of(self, frame, reasons, decided=places))

    def changes(self, table: Any) -> Table:
        """Return how a new table differs from the one that the model learned from.

        Parameters
        ----------
        table : DataFrame or path
            The table.

        Returns
        -------
        changes : DataFrame
            A row per column: ``column`` and ``kind``; ``empty``, the share of rows without a value,
            and ``empty_in_training``; ``outside``, the share of numbers below ``low`` or above
            ``high``, between which 99 % were in training; ``unseen``, the share of texts that were
            not in training; ``change``, a sentence where a share has grown by a tenth of the rows,
            and by more than chance.

        Examples
        --------
        >>> import pandas as pd
        >>> import grayzone
        >>> table = pd.DataFrame({"age": range(20, 60), "left": ["no"] * 22 + ["yes"] * 18})
        >>> model = grayzone.train(table, "left", model="logistic-regression")
        >>> months = pd.DataFrame({"age": table["age"] * 12})
        >>> print(model.changes(months)["change"].item())
        100% of the values of 'age' are outside of 20 to 59, such as 240; in training 0%.
        """
        return changes_of(self.schema, as_table(table, self.schema.names, self.schema.as_written))

    def mean_cost(
        self, X: Any, y: Any, costs: Any = None, reject_cost: float | None = None
    ) -> float:
        """Return what a decision about these rows costs, on average.

        Parameters
        ----------
        X : DataFrame or path
            The table.
        y : array-like of shape (n_samples,)
            True labels.
        costs : mapping or array-like, default=None
            Costs of the day, as in :meth:`predict`.
        reject_cost : float, default=None
            Cost of the day of staying undecided, as in :meth:`predict`.

        Returns
        -------
        cost : float
            Mean cost of a decision.
        """
        table = self._table(X)
        today = self._today(table, costs, reject_cost)
        truth = encode_labels(as_labels(y, "y"), self._labels, "y")
        places = self._places(self._features(table), today)
        return float(np.mean(today.stakes.paid(truth, places, today.rows)))

    def proba_by_place(self, table: Table) -> Array:
        """Return the probabilities of the classes in the order of the stakes.

        Parameters
        ----------
        table : DataFrame
            The table.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            The positive one of two classes is last.
        """
        return self._proba(self._features(table))

    def _table(self, table: Any) -> Table:
        """A table as pandas has it, whose numbers are numbers, costs of rows among them."""
        return self.schema.with_numbers(as_table(table, self.schema.names, self.schema.as_written))

    def _today(self, table: Table, costs: Any, reject_cost: float | None) -> _Today:
        usual = costs is None and reject_cost is None
        if self.cut is not None and not usual:
            raise UserError(
                "The model keeps a limit, whatever errors cost: it takes no costs of the day."
            )
        stakes, rows = stakes_today(self.stakes, self._labels, costs, reject_cost, table)
        return _Today(stakes, rows, usual and rows is None)

    def _actions(self, today: _Today) -> Array:
        """Labels of decisions by place, with that of "undecided" last, where it is one."""
        return self._labels if today.stakes.reject_cost is None else actions_of(self._labels)

    def _features(self, table: Table) -> Any:
        """What the classifier sees of a table."""
        X = self.schema.apply(table)
        with warnings.catch_warnings(), in_one_sentence():
            # categories that a model has not seen are none of the known: no reason to warn
            warnings.simplefilter("ignore", UserWarning)
            return self.estimator[:-1].transform(X)

    def _proba(self, features: Any) -> Array:
        with in_one_sentence():
            proba = np.asarray(self.estimator[-1].predict_proba(features), dtype=np.float64)
        wide = proba.ndim == 2 and proba.shape[1] == len(self.stakes.classes)
        if not wide or not (proba >= 0.0).all() or not np.allclose(proba.sum(axis=1), 1.0):
            raise UserError("The model gives no probabilities for this table: it is damaged.")
        return proba

    def _places(self, features: Any, today: _Today, proba: Array | None = None) -> Array:
        """Places of what is decided for; -1 is "undecided"."""
        if self.cut is not None or not today.usual:
            known = self._proba(features) if proba is None else proba
            return today.stakes.decide(known, today.rows, self.cut)
        with in_one_sentence():
            places = np.asarray(self.estimator[-1].predict(features), dtype=np.intp)
        least = 0 if today.stakes.reject_cost is None else -1
        if not np.isin(places, np.arange(least, len(self.stakes.classes))).all():
            raise UserError("The model decides for what is no class: it is damaged.")
        return places

    def _try(self, table: Table) -> Table:
        """Decide on a table that may lack costs of rows."""
        names = [name for name in self.stakes.columns or () if name is not None]
        return self.decide(table.assign(**dict.fromkeys(names, 1.0)))

    # Its page and its file

    def with_report(self, page: str, metrics: dict[str, Any]) -> Self:
        """Return the same model with the page about it and the numbers of that.

        Parameters
        ----------
        page : str
            The page.
        metrics : dict
            Its numbers.

        Returns
        -------
        DecisionModel
            A copy that has both.
        """
        new = copy(self)
        object.__setattr__(new, "report_html", page)
        object.__setattr__(new, "metrics", metrics)
        return new

    def save_report(self, path: str | Path) -> None:
        """Write the page about the model, one HTML file.

        Parameters
        ----------
        path : path
            The file; it is replaced where there is one.

        Raises
        ------
        UserError
            If it has none, as a model from a file, or there is no such folder.
        """
        if self.report_html is None:
            raise UserError(
                "There is no report beside a model from a file: `grayzone train` has written it "
                "into the folder of the model, as report.html."
            )
        page = self.report_html

        def write(part: Path) -> None:
            part.write_text(page, encoding="utf-8")

        whole_file(Path(path), write)

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        return described(self)

    def _repr_html_(self) -> str:
        return shown(self)

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        return {"text/plain": repr(self), "text/html": shown(self)}

    def save(self, path: str | Path) -> None:
        """Write to a file, whole or not at all.

        Parameters
        ----------
        path : path
            The file, which is replaced where there is one, or a folder for ``model.skops``.

        Raises
        ------
        UserError
            If there is no folder for it.
        """
        import skops.io

        note = write_note(
            Note(
                self.schema,
                self.stakes,
                self.cut,
                self.about,
                self.label_type,
                self.promise,
                self.background,
                self.importance,
            )
        )
        buffer = io.BytesIO()
        skops.io.dump({"grayzone_model": note, "estimator": self.estimator}, buffer)
        with zipfile.ZipFile(buffer) as archive:
            parts = {name: archive.read(name) for name in archive.namelist()}
        packed, path = pack(lean(parts), FORMAT), Path(path)

        def write(part: Path) -> None:
            part.write_bytes(packed)

        whole_file(path / FILE if path.is_dir() else path, write)

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read from a file; nothing in it is run.

        Parameters
        ----------
        path : path
            ``model.skops``, or the folder that has it.

        Returns
        -------
        DecisionModel
            The model.

        Raises
        ------
        UserError
            If it is no model of ours, is damaged, or holds types that are not trusted.
        """
        path = file_at(path, FILE)
        if not path.is_file():
            raise UserError(f"{path} does not exist; expected a model that `grayzone train` wrote.")
        try:
            return cls._read(path)
        except UserError:
            raise
        except ForeignTypesError as error:
            raise UserError(
                f"{path} holds {shortened(error.names)}, which a model of grayzone has no use for: "
                "it was not loaded."
            ) from error
        except Exception as error:  # whatever a damaged file makes a parser do
            reason = " ".join(str(error).split())[:200]
            kind = type(error)
            if issubclass(kind, _OF_THE_MACHINE) or kind is RuntimeError:
                raise UserError(
                    f"{path} cannot be loaded here: {kind.__name__}: {reason}"
                ) from error
            raise UserError(f"{path} is no model of grayzone, or is damaged: {reason}") from error

    @classmethod
    def _read(cls, path: Path) -> Self:
        import skops.io

        if path.stat().st_size > MOST_PACKED:
            raise ValueError(f"it has more than {MOST_PACKED / 1e9:.1f} GB")
        version, parts = unpack(path.read_bytes())
        if version != FORMAT:
            told = shortened([str(version)])[1:-1]
            raise UserError(
                f"{path} has the format {told}; this version reads {FORMAT}. Train the model again."
            )
        held = skops.io.load(stored(parts), trusted=check_contents(parts))
        model = cls(held["estimator"], *read_note(held["grayzone_model"]))
        try:
            check_soundness(model.estimator, model.schema, model._try)
        except UserError as error:  # of the made-up table, which no user knows
            raise ValueError(str(error)) from error
        return model


def load_model(path: str | Path) -> DecisionModel:
    """Load a model that ``grayzone train`` wrote; nothing in the file is run.

    Parameters
    ----------
    path : path
        ``model.skops``, or the folder that has it.

    Returns
    -------
    model : DecisionModel
        A fitted classifier: ``predict(table)`` gives labels, ``predict_proba(table)`` probabilities
        of ``classes_``, and ``decide(table)`` both with the expected cost of each decision, for a
        DataFrame or the path of a file.

    Raises
    ------
    UserError
        If it is no model of grayzone, is damaged, or holds types that are not trusted.

    See Also
    --------
    grayzone.train : Make a model from a table.
    grayzone.DecisionModel.save : Write one.

    Examples
    --------
    >>> import grayzone
    >>> import tempfile
    >>> from pathlib import Path
    >>> import pandas as pd
    >>> table = pd.DataFrame({"age": range(20, 60), "left": ["no"] * 22 + ["yes"] * 18})
    >>> model = grayzone.train(table, "left", model="logistic-regression")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "model.skops")
    ...     model.save(path)
    ...     grayzone.load_model(path).predict(pd.DataFrame({"age": [25, 55]})).tolist()
    ['no', 'yes']
    """
    return DecisionModel.load(Path(path))
