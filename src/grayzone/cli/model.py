"""A decision model with all that is needed to use it, in one file that runs no code on loading."""

from __future__ import annotations

import json
import warnings
import zipfile
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd

from grayzone.cli._errors import UserError, shortened
from grayzone.cli._schema import Schema
from grayzone.cli._stakes import UNDECIDED, Stakes
from grayzone.decision.limits import Target, cut_at
from grayzone.decision.zones import zone_around
from grayzone.estimators.facts import unwrapped

Array = Any
Table = Any  # a pandas DataFrame

FORMAT = 1
VERSIONED = ("grayzone", "scikit-learn", "skrub", "numpy", "pandas")
# Types beyond those of scikit-learn, NumPy and SciPy that skops trusts by itself.
TRUSTED = frozenset(
    {
        "grayzone.estimators.bayes.BayesDecisionClassifier",
        "grayzone.estimators.import_vector_cv.ImportVectorMachineCV",
        "grayzone.numerics.kernels.Kernel",
        "grayzone.estimators.sparse_minimax.Family",
        "grayzone.estimators.sparse_minimax.SparseMinimaxProbabilityMachine",
        "grayzone.estimators.tight_bound.TightBoundLogisticRegression",
        "grayzone.estimators.truncated_cv.TruncatedLogisticRegressionCV",
        "numpy.dtype",
        "sklearn.calibration._CalibratedClassifier",
        "sklearn.calibration._SigmoidCalibration",
        "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
        "sklearn.model_selection._split.StratifiedKFold",
        "skrub._apply_to_each_col.ApplyToEachCol",
        "skrub._check_input.CheckInputDataFrame",
        "skrub._clean_categories.CleanCategories",
        "skrub._clean_null_strings.CleanNullStrings",
        "skrub._dataframe._common.is_any_date",
        "skrub._dataframe._common.is_categorical",
        "skrub._dataframe._common.is_numeric",
        "skrub._datetime_encoder.DatetimeEncoder",
        "skrub._drop_uninformative.DropUninformative",
        "skrub._duration_to_float.DurationToFloat",
        "skrub._string_encoder.StringEncoder",
        "skrub._table_vectorizer.PassThrough",
        "skrub._table_vectorizer.ShortReprDict",
        "skrub._table_vectorizer.TableVectorizer",
        "skrub._table_vectorizer._created_by_predicate",
        "skrub._to_datetime.ToDatetime",
        "skrub._to_float.ToFloat",
        "skrub._to_str.ToStr",
        "skrub.selectors._base.All",
        "skrub.selectors._base.And",
        "skrub.selectors._base.Cols",
        "skrub.selectors._base.Filter",
        "skrub.selectors._base.Sub",
        "skrub.selectors._selectors._cardinality_below",
    }
)


@dataclass(frozen=True)
class DecisionModel:
    """A pipeline from a table to places in the list of classes, and what it was made for.

    Attributes
    ----------
    estimator : Pipeline
        The fitted pipeline.
    schema : Schema
        Columns that it needs.
    stakes : Stakes
        Classes and costs.
    cut : float or None
        Probability of the positive class from which on to decide for it, where a limit on the
        false positive rate set it; None where costs do.
    about : dict
        Name of the model, versions, fingerprint of the data, when it was made.
    """

    estimator: Any
    schema: Schema
    stakes: Stakes
    cut: float | None
    about: dict[str, Any]

    @property
    def threshold(self) -> float | None:
        """Probability from which on the positive one of two classes is decided for."""
        return self.cut if self.cut is not None else self.stakes.threshold

    @property
    def zone(self) -> tuple[float, float] | None:
        """Probabilities around the threshold for which a decision can go either way."""
        own = getattr(self.classifier, "zone_", None)
        if self.threshold is None:
            return None
        if isinstance(own, tuple) and self.cut is None:
            return float(own[0]), float(own[1])
        return zone_around(float(np.clip(self.threshold, 1e-6, 1 - 1e-6)))

    @property
    def classifier(self) -> Any:
        """The fitted classifier itself, out of everything around it."""
        return unwrapped(self.estimator)[0]

    def _features(self, table: Table) -> Any:
        """What the classifier sees of a table."""
        X = self.schema.apply(table)
        with warnings.catch_warnings():
            # categories that a model has not seen are none of the known: no reason to warn
            warnings.simplefilter("ignore", UserWarning)
            return self.estimator[:-1].transform(X)

    def _proba(self, features: Any) -> Array:
        return np.asarray(self.estimator[-1].predict_proba(features), dtype=np.float64)

    def _labels(self, features: Any, proba: Array | None = None) -> Array:
        if self.cut is not None:
            p = self._proba(features) if proba is None else proba
            places = (p[:, 1] >= self.cut).astype(np.intp)
        else:
            places = np.asarray(self.estimator[-1].predict(features), dtype=np.intp)
        return np.array([*self.stakes.classes, UNDECIDED], dtype=object)[places]

    def proba(self, table: Table) -> Array:
        """Probabilities of the classes, in the order of the stakes."""
        return self._proba(self._features(table))

    def predict(self, table: Table) -> Array:
        """Labels, or "undecided"."""
        return self._labels(self._features(table))

    def decide(self, table: Table) -> Table:
        """Decision, probabilities, whether they are in the gray zone, and what actions cost."""
        features = self._features(table)
        proba = self._proba(features)
        out: dict[str, Any] = {"decision": self._labels(features, proba)}
        for k, label in enumerate(self.stakes.classes):
            out[f"probability_{label}"] = proba[:, k]
        if self.zone is not None:
            low, high = self.zone
            out["in_gray_zone"] = (proba[:, 1] >= low) & (proba[:, 1] <= high)
        expected = proba @ self.stakes.action_costs()
        names = [*self.stakes.classes, UNDECIDED][: expected.shape[1]]
        for k, label in enumerate(names):
            out[f"expected_cost_{label}"] = expected[:, k]
        return pd.DataFrame(out, index=table.index)

    def save(self, path: Path) -> None:
        """Write to a file."""
        import skops.io

        note = {
            "format": FORMAT,
            "schema": self.schema.dump(),
            "classes": list(self.stakes.classes),
            "costs": self.stakes.costs.tolist(),
            "reject_cost": self.stakes.reject_cost,
            "max_fpr": self.stakes.max_fpr,
            "cut": self.cut,
            "about": self.about,
        }
        held = {"grayzone_model": json.dumps(note), "estimator": self.estimator}
        skops.io.dump(held, path, compression=zipfile.ZIP_DEFLATED)

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read from a file; nothing in it is run.

        Raises
        ------
        UserError
            If it is no model of ours, is damaged, or holds types that are not trusted.
        """
        import skops.io

        if path.is_dir():
            path = path / "model.skops"
        if not path.is_file():
            raise UserError(f"{path} does not exist; expected a model that `grayzone train` wrote.")
        try:
            foreign = set(skops.io.get_untrusted_types(file=path)) - TRUSTED
            if foreign:
                raise UserError(
                    f"{path} holds {shortened(sorted(foreign))}, which a model of grayzone has no "
                    "use for: it was not loaded."
                )
            held = skops.io.load(path, trusted=sorted(TRUSTED))
            note = json.loads(held["grayzone_model"])
            if note["format"] != FORMAT:
                raise UserError(
                    f"{path} has the format {note['format']}; this version reads {FORMAT}."
                )
            stakes = Stakes(
                tuple(note["classes"]),
                np.array(note["costs"]),
                note["reject_cost"],
                note["max_fpr"],
            )
            schema = Schema.load(note["schema"])
            return cls(held["estimator"], schema, stakes, note["cut"], note["about"])
        except UserError:
            raise
        except Exception as error:  # whatever a damaged file makes a parser do
            reason = " ".join(str(error).split())[:200]
            raise UserError(f"{path} is no model of grayzone, or is damaged: {reason}") from error


def cut_for(stakes: Stakes, proba: Array, y: Array) -> float | None:
    """Threshold that keeps the limit on new rows, from held-out probabilities."""
    if stakes.max_fpr is None:
        return None
    target = Target("max_fpr", stakes.max_fpr)
    return float(cut_at(target, proba[:, 1], y == 1, np.ones(len(y)), fresh=True))


def circumstances(name: str, **more: Any) -> dict[str, Any]:
    """What is told of a model: its name, versions and the time."""
    versions = {}
    for library in VERSIONED:
        try:
            versions[library] = metadata.version(library)
        except metadata.PackageNotFoundError:
            continue
    made = datetime.now(UTC).isoformat(timespec="seconds")
    return {"model": name, "versions": versions, "made": made, **more}


def load_model(path: str | Path) -> DecisionModel:
    """Load a model that ``grayzone train`` wrote; nothing in the file is run.

    Parameters
    ----------
    path : path
        ``model.skops``, or the folder that has it.

    Returns
    -------
    model : DecisionModel
        ``predict(table)`` gives labels, ``proba(table)`` probabilities of ``stakes.classes``, and
        ``decide(table)`` both with the expected cost of each action, for a pandas DataFrame.

    Raises
    ------
    UserError
        If it is no model of grayzone, is damaged, or holds types that are not trusted.

    Examples
    --------
    >>> import grayzone
    >>> model = grayzone.load_model("grayzone-demo")  # doctest: +SKIP
    >>> model.decide(table)  # doctest: +SKIP
    """
    return DecisionModel.load(Path(path))
